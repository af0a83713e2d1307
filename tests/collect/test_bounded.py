"""Heads of requests are short and come in time."""

import asyncio
import socket
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from shoal.collect import bounded
from shoal.collect.bounded import BoundedProtocol
from tests.collect.running import Running
from tests.collect.world import make_exact_world


def test_an_endless_head_is_cut_off(tmp_path: Path) -> None:
    """By the running shuffler, long before it is 30 MB; and somebody with a usual head is served."""
    world = make_exact_world(tmp_path)
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run") as shuffler:
        sent = 0
        with socket.create_connection(("127.0.0.1", shuffler.port), timeout=60) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            with pytest.raises(OSError, match=r"reset|Broken pipe"):
                while sent < 30_000_000:
                    sent += line.send(b"x" * 10_000)
        assert sent < 20_000_000  # what the buffers of both ends hold is sent all the same
        assert shuffler.round() == 1


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost:",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx",
    ],
)
def test_a_request_that_never_ends_is_not_waited_for(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a new connection nor after a request that was answered."""
    monkeypatch.setattr(bounded, "_SECONDS", 0.2)

    async def closed() -> bytes:
        config = uvicorn.Config(_hello, http=BoundedProtocol, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve([listening]))
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(begun)
            found = await asyncio.wait_for(reader.read(), 30)
            writer.close()
            server.should_exit = True
            await serving
        return found

    assert asyncio.run(closed()).count(b"200 OK") == begun.count(b"\r\n\r\n")
