"""One server for all tests of a file that do it no harm; and folders that are served to a browser."""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.web.page import Page, running


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """A folder of files, without a line on standard error for each of them."""

    def log_message(self, format: str, *_: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[Callable[[Path], str]]:
    """Return a function that serves a folder and returns its address."""
    servers = []

    def serve(folder: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with running() as server:
        yield server
