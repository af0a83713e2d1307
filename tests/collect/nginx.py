"""A shuffler behind nginx, with the configuration of `deploy/nginx.conf`."""

import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.collect.running import PATIENCE, Line, Running, until
from tests.collect.world import World

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"


def server() -> str | None:
    """Return where nginx is, or None if it is not installed."""
    return shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


class Proxied(Running):
    """A running shuffler whose `line` leads to nginx, by TLS; `process` is the shuffler."""

    def __init__(self, world: World, folder: Path, **others: Any) -> None:
        super().__init__(world, folder / "reports.db", folder / "batches", folder, **others)
        self._place = folder / "nginx"
        self._nginx: subprocess.Popen[bytes] | None = None
        self.proxy_port = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self.proxy_port = _free_port()
        self._place.mkdir(exist_ok=True)
        path = self._place / "nginx.conf"
        path.write_text(self._configuration())
        command = [server() or "nginx", "-e", "stderr", "-p", str(self._place), "-c", str(path), "-g", "daemon off;"]
        with self.log.open("ab") as log:
            self._nginx = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        until(self._listens, "nginx that listens")
        return self

    def _configuration(self) -> str:
        """Return the configuration with the ports, files and keys of this test."""
        text = CONFIGURATION.read_text()
        for old, new in (
            ("pid /run/nginx.pid;", f"pid {self._place}/pid;"),
            ("worker_processes auto;", "worker_processes 1;"),
            ("worker_rlimit_nofile 65536;", ""),
            ("worker_connections 16384;", "worker_connections 1024;"),
            ("127.0.0.1:8450", f"127.0.0.1:{self.port}"),
            ("listen 8440", f"listen 127.0.0.1:{self.proxy_port}"),
            ("/etc/shoal/shuffler-tls.crt", str(self.world.shuffler["tls_certificate"])),
            ("/etc/shoal/shuffler-tls.key", str(self.world.shuffler["tls_key"])),
        ):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        temporary = "".join(
            f"    {kind}_temp_path {self._place}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        return text.replace("http {\n", f"http {{\n{temporary}", 1)

    def _listens(self) -> bool:
        assert self._nginx is not None and self._nginx.poll() is None, self.log.read_text()
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.proxy_port)) == 0

    def line(self, source: str | None = None) -> Line:
        """Return a raw connection to nginx, after its handshake."""
        context = ssl.create_default_context(cafile=self.world.shuffler["tls_certificate"])
        return Line(self.proxy_port, source, context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nginx is not None:
            self._nginx.terminate()
            self._nginx.wait(PATIENCE)
        super().__exit__(kind, error, trace)
