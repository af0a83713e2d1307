"""A port and all connections to it, counted from the first packet on, so that files are left for everything else."""

import asyncio
import logging
import socket
import ssl
from asyncio import Handle, Transport
from functools import partial
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from shoal.collect.log import Log, facts_of
from shoal.collect.problem import problem

_MOST_BYTES = 1 << 13
"""Of a request without its body: the head, trailers and what frames chunks."""
_MOST_AHEAD = 8
"""Requests that are sent before the one before them is answered."""
_PIECE, _BODY_PIECE = 1 << 12, 1 << 16
"""Bytes that are parsed at once, so that what is too long is noticed soon; in a body it is looked for less often."""
_MOST_UNSENT = 1 << 16
"""Bytes of answers that wait to be sent, beyond which no more are taken; over TLS it would be half a megabyte."""
_SECONDS = 30.0
"""In which a request must have come, and an answer gone."""
_LINGER = 2.0
"""Seconds in which the rest of a request may come that is answered already: a client that sends does not read yet."""
_TOO_LONG = f"The head of a request, with trailers, has at most {_MOST_BYTES} bytes."
_NO_HTTP = "This is no request of HTTP/1.1."
_HANDSHAKE, _SHUTDOWN = 10.0, 2.0
"""Seconds for the first and the last words of TLS."""
_AT_ONCE = 64
"""Connections that are taken before others are served again."""
_UNSENT = 1 << 16
"""Bytes that the system keeps of answers to a stranger (Linux doubles it); by itself it would keep megabytes."""
_PAUSE = 1.0
_FAREWELL = 0.5


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed if a request is longer, or takes longer, than any client's.

    uvicorn bounds neither: its own limit of a head is that of h11, which takes three times as long to parse a report,
    and a request that has begun is waited for without end.
    """

    def __init__(self, config: Config, door: "Listener", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, door.state, {}, loop)
        self.door = door
        self.beginning: asyncio.Task[None] | None = None
        """What is under way before there is a transport: the handshake of TLS."""
        self._waiting: Handle | None = None
        self._stuck: Handle | None = None
        self._in_head = self._in_request = False
        self._over = False
        self._fed = 0  # bytes of the piece that is parsed, without those of bodies
        self._beside = 0  # the same of the request
        self._body = 0

    @property
    def answered(self) -> bool:
        """Whether no request waits for an answer of ours."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_MOST_UNSENT)
        self._wait(_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Read on, piece by piece, unless this request is too long or none."""
        self._unset_keepalive_if_required()
        start = 0
        while start < len(data) and not self._over:
            end = start + (_BODY_PIECE if self._in_request and not self._in_head else _PIECE)
            self._feed(data[start:end])
            start = end
        if self._over or self._waiting is not None or self.timeout_keep_alive_task is not None:
            return
        if self._in_request or self.answered:
            self._wait(_SECONDS)

    def _feed(self, piece: bytes) -> None:
        self._fed = len(piece)
        self._beside += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._over = True  # the answer is all that they get: whatever follows is not HTTP
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST, _NO_HTTP)
        else:
            if self._beside > _MOST_BYTES + self._body or len(self.pipeline) > _MOST_AHEAD:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LONG)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Say what is wrong, take nothing more, and end the connection as soon as they can have read it."""
        self._over = True
        self._rest()
        self.door.refused()
        ahead = bool(self.pipeline)
        if not self.answered:
            ahead = ahead or self.cycle.response_started
            self.cycle.disconnected = True  # nothing is answered after this, or stored of what was half sent
            self.cycle.message_event.set()
        if ahead:
            self.transport.abort()
            return
        answer = problem(status, detail)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(_LINGER)

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = self._in_request = True
        self._beside = self._fed
        self._body = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field, unless it follows the body."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that the head has ended."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the body apart from what is around it."""
        self._beside -= len(body)
        self._fed -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that all of a request has come."""
        self._in_request = False
        self._rest()
        super().on_message_complete()
        if not self.cycle.response_complete:
            self.door.busy(self)

    def on_response_complete(self) -> None:
        """Wait for the next request; not for long for the rest of one that is answered already."""
        super().on_response_complete()
        if self._in_request and not self.pipeline and not self.transport.is_closing():
            self._rest()
            self._wait(_LINGER)
        self.door.idle(self)

    def pause_writing(self) -> None:
        """Wait until they have read, but not for ever."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(_SECONDS, self.transport.abort)
        self.door.idle(self)

    def resume_writing(self) -> None:
        """Go on."""
        self._unstick()
        super().resume_writing()
        if not self.answered:
            self.door.busy(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._rest()
        self._unstick()
        super().connection_lost(exc)
        self.door.left(self)

    def _wait(self, seconds: float) -> None:
        self._waiting = self.loop.call_later(seconds, self.transport.abort)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


class Listener:
    """Takes connections up to a number; beyond it, whoever has kept us waiting for longest has to go.

    `most` counts those before their handshake, too. `tls` is the context of new connections, and may be replaced at any
    time; a listener behind a proxy has none. With `known`, those who have finished the handshake are known, and nobody
    has to go for a stranger.
    """

    def __init__(
        self,
        config: Config,
        listening: socket.socket,
        most: int,
        log: Log,
        *,
        tls: ssl.SSLContext | None,
        known: bool = False,
    ) -> None:
        self._config = config
        self._socket = listening
        self._most = most
        self._log = log
        self._known = known
        self.tls = tls
        self.state = ServerState()
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}
        self._reading = False
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Take connections, in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        if not self._known:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT)  # connections inherit it
        self._read()

    def _read(self) -> None:
        if not self._reading and self._socket.fileno() >= 0:
            self._reading = True
            self._loop.add_reader(self._socket, self._accept)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if len(self._open) >= self._most and not self._make_room():
                self._pause()  # until somebody leaves
                return
            try:
                line, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.count(logging.ERROR, "accept", **facts_of(error))
                self._pause()
                self._loop.call_later(_PAUSE, self._read)
                return
            self._admit(line)

    def _make_room(self) -> bool:
        """End the connection that has kept us waiting for longest, and return whether there is one."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self._log.count(logging.WARNING, "crowded", connections=self._most)
        self.left(oldest)
        if oldest.beginning is not None:
            oldest.beginning.cancel()
        else:
            oldest.transport.abort()
        return True

    def _admit(self, line: socket.socket) -> None:
        connection = BoundedProtocol(self._config, self, self._loop)
        self._open.add(connection)
        self._waiting[connection] = None
        limits = {"ssl_handshake_timeout": _HANDSHAKE, "ssl_shutdown_timeout": _SHUTDOWN}
        tls: dict[str, Any] = {} if self.tls is None else {"ssl": self.tls, **limits}
        begun = self._loop.connect_accepted_socket(lambda: connection, line, **tls)
        connection.beginning = self._loop.create_task(begun)  # type: ignore[arg-type]
        connection.beginning.add_done_callback(partial(self._begun, connection, line))

    def _begun(self, connection: BoundedProtocol, line: socket.socket, begun: "asyncio.Task[None]") -> None:
        connection.beginning = None
        error = None if begun.cancelled() else begun.exception()
        if error is not None:
            self._log.count(logging.WARNING, "handshake")
        if begun.cancelled() or error is not None:
            line.close()
            self.left(connection)
        elif self._known:
            self._waiting.pop(connection, None)

    def busy(self, connection: BoundedProtocol) -> None:
        """Note that somebody waits for an answer of ours: they need not go."""
        self._waiting.pop(connection, None)

    def idle(self, connection: BoundedProtocol) -> None:
        """Note that they have it, and we wait for them, from now on."""
        if not self._known and connection in self._open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None
        if not self._reading:
            self._read()

    def left(self, connection: BoundedProtocol) -> None:
        """Note that a connection is over."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        if not self._reading:
            self._read()

    def refused(self) -> None:
        """Note that something came that is no request."""
        self._log.count(logging.WARNING, "no-request")

    async def stop(self, seconds: float) -> None:
        """Take no more connections, answer what was asked, for so long, and end all."""
        self._pause()
        self._socket.close()
        for connection in list(self._open):
            if connection.beginning is not None:
                connection.beginning.cancel()
            else:
                connection.shutdown()
        begun = self._loop.time()
        while self._open and self._loop.time() < begun + seconds:
            await asyncio.sleep(0.05)
            if self._loop.time() > begun + _FAREWELL:
                self._abort(answered=True)
        self._abort(answered=False)
        await asyncio.sleep(0)

    def _abort(self, *, answered: bool) -> None:
        """End connections, or only those that wait for nothing but the other side's last word of TLS."""
        for one in list(self._open):
            if one.beginning is None and (one.answered or not answered):
                one.transport.abort()
