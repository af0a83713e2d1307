"""Requests are short in all their parts and come in time, whatever is sent."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from shoal.collect import listener
from shoal.collect.listener import BoundedProtocol
from tests.collect.running import PATIENCE, Running, post
from tests.collect.world import World, make_exact_world
from tests.exhaustive import representative

FIELDS = b"".join(b"a%d: b\r\n" % number for number in range(4000))
CHUNKED = "Host: a\r\nTransfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), round_seconds=3600)


@pytest.fixture(scope="module")
def shuffler(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("run")
    with Running(world, folder / "reports.db", folder / "batches", folder, relays=["relay"]) as running:
        yield running


def _resident(running: Running) -> float:
    """Return how many MB of memory the process has."""
    assert running.process is not None
    pages = int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _endless(world: World) -> dict[str, tuple[str, bytes]]:
    """Return how requests begin that never end, and how they go on."""
    path = f"/v1/tasks/{world.task.id}/rounds/1/reports"
    relay = "Authorization: Bearer relay\r\n"
    report = "40\r\n" + "x" * 64 + "\r\n"
    return {
        "trailers": (f"POST {path} HTTP/1.1\r\n{CHUNKED}\r\n{report}0\r\n", FIELDS),
        "trailers of a relay": (f"POST {path} HTTP/1.1\r\n{CHUNKED}{relay}\r\n{report}0\r\n", FIELDS),
        "trailers to nowhere": (f"POST /nothing HTTP/1.1\r\n{CHUNKED}\r\n0\r\n", FIELDS),
        "a trailer's value": (f"POST /nothing HTTP/1.1\r\n{CHUNKED}\r\n0\r\na: ", b"x" * 60_000),
        "a chunk's extension": (f"POST {path} HTTP/1.1\r\n{CHUNKED}{relay}\r\n5;", b"x" * 60_000),
        "small chunks with extensions": (
            f"POST {path} HTTP/1.1\r\n{CHUNKED}{relay}\r\n",
            (b"1;" + b"x" * 2000 + b"\r\nx\r\n") * 20,
        ),
        "fields": ("GET /healthz HTTP/1.1\r\n", FIELDS),
        "a field's value": ("GET /healthz HTTP/1.1\r\na: ", b"x" * 60_000),
        "a path": ("GET /", b"x" * 60_000),
        "a body": (f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 60_000),
        "a body to nowhere": ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 60_000),
        "requests ahead": ("", b"GET /healthz HTTP/1.1\r\n\r\n" * 8000),
        "blank lines": ("GET /healthz HTTP/1.1\r\n\r\n", b"\r\n" * 30_000),
    }


@pytest.mark.slow
@pytest.mark.parametrize("place", range(13))
def test_memory_does_not_grow(world: World, shuffler: Running, place: int) -> None:
    """Whatever is sent without end, on four connections; each is cut off within seconds."""
    kinds = _endless(world)
    assert len(kinds) == 13
    kind, (first, rest) = list(kinds.items())[place]
    before = peak = _resident(shuffler)
    end = time.monotonic() + PATIENCE
    lines = [socket.create_connection(("127.0.0.1", shuffler.port), timeout=60) for _ in range(4)]
    for line in lines:
        line.sendall(first.encode())
        line.settimeout(0.2)
    while lines and time.monotonic() < end:
        for line in list(lines):
            with suppress(TimeoutError):
                try:
                    line.sendall(rest)
                except ConnectionError:
                    lines.remove(line)
                    line.close()
        peak = max(peak, _resident(shuffler))
    held = len(lines)
    for line in lines:
        line.close()
    assert peak - before < 20, kind
    assert held == 0, kind
    assert shuffler.round() == 1


@pytest.mark.slow
def test_heads_have_a_length(shuffler: Running) -> None:
    """A head of 8 kB and 64 fields passes; a longer one does not, also where it comes in one piece."""
    start = b"GET /healthz HTTP/1.1\r\n"
    room = (1 << 13) - len(start) - len(b"a: \r\n\r\n")
    for head, status in (
        (b"a: " + b"x" * room + b"\r\n", 200),
        (b"a: " + b"x" * (room + 1) + b"\r\n", 431),
        (b"a: " + b"x" * 70_000 + b"\r\n", 431),
        (b"a: b\r\n" * 64, 200),
        (b"a: b\r\n" * 65, 431),
        (b"a:\r\n" * 20_000, 431),
    ):
        with shuffler.line() as line:
            answer = line.ask(start + head + b"\r\n")
            assert answer.status == status
            if status == 431:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["connection"] == "close"


@pytest.mark.slow
def test_short_trailers_and_small_chunks_are_no_trouble(world: World, shuffler: Running) -> None:
    body = world.junk(1)[0]
    head = post(world.task, 1, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks = b"".join(b"1;a=b\r\n" + body[place : place + 1] + b"\r\n" for place in range(len(body)))
    with shuffler.line() as line:
        for _ in range(3):  # on the same connection
            assert line.ask(head + chunks + b"0\r\n" + b"x: y\r\n" * 60 + b"\r\n").status == 201


@pytest.mark.slow
def test_requests_ahead_are_answered_in_order(world: World, shuffler: Running) -> None:
    """A few, also behind a body, and each by itself however they are cut into packets."""
    body = b"".join(world.junk(2000))
    with shuffler.line() as line:
        line.send(post(world.task, 1, body, {"Authorization": "Bearer relay", "X": "x" * 6000}))
        line.send(post(world.task, 1, world.junk(1)[0], {"X": "x" * 6000}) + b"GET /nothing HTTP/1.1\r\n\r\n")
        assert [line.answer().status for _ in range(3)] == [201, 201, 404]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "tls"), representative(product(("", "/nothing"), (False, True)), 2))
def test_a_body_that_is_refused_is_not_swallowed(world: World, tmp_path: Path, path: str, tls: bool) -> None:
    """Whoever goes on sending slowly gets the answer before the body is over, and is cut off."""
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=tls) as running:
        request = post(world.task, 1, b"").replace(b"Content-Length: 0", b"Content-Length: 10000000")
        with running.line() as line:
            end = time.monotonic() + PATIENCE
            line.send(request.replace(b"/v1", path.encode() or b"/v1"))
            assert line.answer().status == (404 if path else 413)
            with pytest.raises(OSError, match=r"reset|Broken pipe|EOF"):
                while time.monotonic() < end:
                    line.send(b"x" * 100)
                    time.sleep(0.05)
        with running.line() as line:  # while somebody whose body is merely late can go on
            line.send(request.replace(b"/v1", b"/nothing").replace(b"10000000", b"64"))
            assert line.answer().status == 404
            time.sleep(0.5)
            assert line.ask(b"x" * 64 + post(world.task, 1, world.junk(1)[0])).status == 201


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.slow
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
    monkeypatch.setattr(listener, "_SECONDS", 0.2)

    assert asyncio.run(_closed(begun)).count(b"200 OK") == begun.count(b"\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun, more", [(b"GET / HTTP/1.1\r\n", b"\r\n"), (b"POST / HTTP/1.1\r\nContent-Length: 4\r\n", b"abcd")]
)
def test_what_follows_an_answer_does_not_keep_the_connection(
    begun: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither blank lines nor the body of a request that was answered before it came."""
    monkeypatch.setattr(listener, "_SECONDS", 0.2)
    assert asyncio.run(_closed(begun + b"\r\n", more)).count(b"200 OK") == 1


async def _closed(begun: bytes, more: bytes = b"") -> bytes:
    """Return all that comes back until the connection is closed; more is sent after the first of it."""
    config = uvicorn.Config(_hello, http=BoundedProtocol, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(begun)
        found = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30) if more else b""
        writer.write(more)
        found += await asyncio.wait_for(reader.read(), 30)
        writer.close()
        server.should_exit = True
        await serving
    return found
