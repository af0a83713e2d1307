"""A server of the page in a process of its own, and how to ask it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit


class Response(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """What it says, NaN and infinity refused."""
        return json.loads(self.body, parse_constant=_refused)


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@dataclass
class Page:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    def send(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds: float = 60,
    ) -> Response:
        """Send a request as it is, and return what comes back."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def ask(self, question: str, *, body: str | None = None, **texts: object) -> Response:
        """Ask a question."""
        query = urlencode({name.rstrip("_"): str(value) for name, value in texts.items()})
        if body is None:
            return self.send(f"/api/{question}?{query}")
        return self.send(f"/api/{question}?{query}", method="POST", body=body.encode())

    def workers(self) -> list[int]:
        """Return the processes that compute."""
        number = self.process.pid
        return [int(word) for word in Path(f"/proc/{number}/task/{number}/children").read_text().split()]

    def lives(self) -> bool:
        """Tell whether the server runs and answers."""
        return self.process.poll() is None and self.ask("amplify", reports=100, local_epsilon=1).status == 200


_SERVE = "import sys; from shoal.web.page_server import serve_page; " + (
    "serve_page(most_seconds=float(sys.argv[1]), ready=lambda address: print(address, flush=True))"
)


@contextmanager
def running(most_seconds: float | None = None) -> Iterator[Page]:
    """Run a server in this block: `shoal web`, or one with another limit of time."""
    command = [sys.executable, "-m", "shoal", "web", "--no-open"]
    if most_seconds is not None:
        command = [sys.executable, "-c", _SERVE, str(most_seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        assert address.port is not None
        yield Page(process, address.port)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
