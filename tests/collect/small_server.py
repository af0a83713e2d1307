"""A small server on loopback with real TLS: it answers as it is told, and remembers what it was asked."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """A request: which connection it came on, and what it was."""

    connection: tuple[str, int]
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Said:
    """An answer; `lost` ends the connection in its place, `length` lies about the size, `close` ends it afterwards.

    With `drips`, the answer begins with these bytes, and grows by a byte every 20 ms for up to 8 s.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    length: int | None = None
    close: bool = False
    drips: bytes = b""


@dataclass
class SmallServer:
    """Where it listens, what it was asked, and how it answers, which may be changed at any time."""

    port: int
    answer: Callable[[Asked], Said]
    asked: list[Asked] = field(default_factory=list)
    stop_listening: Callable[[], None] = lambda: None


@contextmanager
def small_server(
    answer: Callable[[Asked], Said], keys: dict[str, Path] | None, client: Path | None = None
) -> Iterator[SmallServer]:
    """Serve on a free port until the block ends; with TLS if there are keys, and for one client only if it is given."""
    told = SmallServer(0, answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.client_address[:2], self.command, self.path, headers, body)
            told.asked.append(asked)
            said = told.answer(asked)
            if said.lost:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if said.drips:
                self.close_connection = True
                self.wfile.write(said.drips)
                with suppress(OSError):
                    for _ in range(400):
                        self.wfile.write(b"x")
                        time.sleep(0.02)
                return
            self.send_response_only(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body) if said.length is None else said.length))
            self.end_headers()
            self.wfile.write(said.body)
            self.close_connection = said.close or said.length is not None

        do_GET = do_POST = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: object, client_address: object) -> None:
            if context is None:
                super().finish_request(request, client_address)  # type: ignore[arg-type]
                return
            request.settimeout(20)  # type: ignore[attr-defined]
            with context.wrap_socket(request, server_side=True) as wrapped:  # type: ignore[arg-type]
                super().finish_request(wrapped, client_address)

        def handle_error(self, *_: object) -> None:
            pass  # a client that hangs up is what the tests are about

    context: ssl.SSLContext | None = None
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys["tls_certificate"], keys["tls_key"])
        if client is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client)
    with Server(("127.0.0.1", 0), Handler) as server:
        told.port = server.server_address[1]
        told.stop_listening = partial(server.socket.shutdown, socket.SHUT_RDWR)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
