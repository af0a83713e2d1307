"""Requests are short in all their parts and come in time, whatever is sent: to the shuffler itself, and to nginx."""

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
from shoal.collect.listener import Listener
from shoal.collect.log import Log
from tests.collect.nginx import Proxied, server
from tests.collect.running import PATIENCE, Line, Running, post
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


@pytest.fixture(scope="module")
def proxied(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if server() is None:
        pytest.skip("nginx is not installed")
    with Proxied(world, tmp_path_factory.mktemp("nginx"), relays=["relay"]) as running:
        yield running


def _resident(running: Running) -> float:
    """Return how many MB of memory the process has."""
    assert running.process is not None
    pages = int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


ENDLESS = {
    "trailers of a relay": (f"POST REPORTS HTTP/1.1\r\n{CHUNKED}RELAY\r\n40\r\n{'x' * 64}\r\n0\r\n", FIELDS),
    "a trailer's value": (f"POST /nothing HTTP/1.1\r\n{CHUNKED}\r\n0\r\na: ", b"x" * 60_000),
    "a chunk's extension": (f"POST REPORTS HTTP/1.1\r\n{CHUNKED}RELAY\r\n5;", b"x" * 60_000),
    "small chunks with extensions": (
        f"POST REPORTS HTTP/1.1\r\n{CHUNKED}RELAY\r\n",
        (b"1;" + b"x" * 2000 + b"\r\nx\r\n") * 20,
    ),
    "fields": ("GET /healthz HTTP/1.1\r\n", FIELDS),
    "a field's value": ("GET /healthz HTTP/1.1\r\na: ", b"x" * 60_000),
    "a body": ("POST REPORTS HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 60_000),
    "requests ahead": ("", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 8000),
    "blank lines": ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n" * 30_000),
}
"""How requests begin that never end, and how they go on."""


def _opened(running: Running, first: bytes) -> socket.socket:
    line = running.line()._socket
    line.sendall(first)
    line.settimeout(0.2)
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "front"),
    [*product(ENDLESS, ["shuffler"]), *product(["small chunks with extensions", "fields", "a body"], ["proxied"])],
)
def test_memory_does_not_grow(world: World, request: pytest.FixtureRequest, kind: str, front: str) -> None:
    """Whatever is sent without end, on four connections; each is cut off within seconds."""
    running: Running = request.getfixturevalue(front)
    first, rest = ENDLESS[kind]
    first = first.replace("REPORTS", f"/v1/tasks/{world.task.id}/rounds/1/reports")
    first = first.replace("RELAY", "Authorization: Bearer relay\r\n")
    before = peak = _resident(running)
    end = time.monotonic() + PATIENCE
    lines = [_opened(running, first.encode()) for _ in range(4)]
    while lines and time.monotonic() < end:
        for line in list(lines):
            with suppress(TimeoutError):
                try:
                    line.sendall(rest)
                except OSError:
                    lines.remove(line)
                    line.close()
        peak = max(peak, _resident(running))
    assert not lines
    assert peak - before < 20
    assert running.round() == 1


@pytest.mark.slow
def test_heads_have_a_length(shuffler: Running) -> None:
    """A head of 8 kB passes; a longer one does not, also where it comes in one piece."""
    start = b"GET /healthz HTTP/1.1\r\n"
    room = (1 << 13) - len(start) - len(b"a: \r\n\r\n")
    for head, status in (
        (b"a: " + b"x" * room + b"\r\n", 200),
        (b"a: " + b"x" * (room + 1) + b"\r\n", 431),
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
    ("begun", "more"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost:", b""),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n", b"abcd"),
    ],
)
def test_a_request_that_never_ends_is_not_waited_for(
    begun: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on a new connection nor after an answer; and what follows an answer does not keep the connection."""
    monkeypatch.setattr(listener, "_SECONDS", 0.2)
    monkeypatch.setattr(listener, "_LINGER", 0.2)
    assert asyncio.run(_closed(begun, more)).count(b"200 OK") == begun.count(b"\r\n\r\n")


async def _closed(begun: bytes, more: bytes) -> bytes:
    """Return all that comes back until the connection is closed; more is sent after the first answer."""
    config = uvicorn.Config(_hello, lifespan="off", log_level="critical")
    config.load()
    listening = socket.create_server(("127.0.0.1", 0))
    door = Listener(config, listening, 10, Log(), tls=None)
    door.start()
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(begun)
    found = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30) if more else b""
    writer.write(more)
    with suppress(ConnectionResetError):
        found += await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await door.stop(1)
    return found


SMUGGLED = b"GET /v1/tasks/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: 6\r\n{CHUNKED}",
        f"{CHUNKED}Content-Length: 6\r\n",
        "Host: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n",
        "Host: a\r\nTransfer-Encoding: xchunked\r\n",
        "Host: a\r\nTransfer-Encoding : chunked\r\n",
        "Host: a\r\nContent-Length: +5\r\n",
        "Host: a\nb: c\r\n d\r\nContent-Length: x\r\n",
        "Host: a\r\n\x00: b\r\n",
    ],
)
def test_nothing_is_smuggled_through_the_proxy(proxied: Running, head: str) -> None:
    """A request of which two parsers could think differently is refused, and the connection is closed."""
    with proxied.line() as line:
        line.send(b"POST / HTTP/1.1\r\n" + head.encode() + b"\r\n0\r\n\r\n" + SMUGGLED)
        assert line.answer().status in (400, 501)
        with pytest.raises((OSError, ConnectionResetError)):
            line.answer()


@pytest.mark.slow
def test_the_shuffler_does_not_hear_of_slow_clients_behind_the_proxy(world: World, proxied: Running) -> None:
    """A body that never comes whole, and silent connections: nginx waits for them alone, and others are served."""
    assert proxied.process is not None
    files = len(os.listdir(f"/proc/{proxied.process.pid}/fd"))
    slow = [proxied.line() for _ in range(40)]
    for line in slow:
        line.send(post(world.task, 1, world.junk(1)[0])[:-1])
    silent = [Line(proxied.proxy_port) for _ in range(500)]  # type: ignore[attr-defined]
    begun = time.monotonic()
    body = world.junk(1)[0]
    assert [proxied.upload(1, body).status for _ in range(3)] == [201, 201, 201]
    assert len(os.listdir(f"/proc/{proxied.process.pid}/fd")) <= files + 4
    for line in (*slow, silent[-1]):
        with pytest.raises(OSError):
            line.answer()
        line.close()
    assert time.monotonic() - begun < 60
    for line in silent:
        line.close()


@pytest.mark.slow
def test_the_proxy_limits_an_address_and_no_other(world: World, proxied: Running) -> None:
    """Of many requests in a moment some are told when to come again; somebody from elsewhere is served."""
    path = f"GET /v1/tasks/{world.task.id}/round HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    with proxied.line("127.0.0.3") as greedy, proxied.line("127.0.0.2") as other:
        answers = [greedy.ask(path) for _ in range(300)]
        refused = [answer for answer in answers if answer.status == 429]
        assert len(answers) - len(refused) >= 100 and refused
        assert {answer.headers["retry-after"] for answer in refused} == {"10"}
        assert other.ask(path).status == 200
        assert other.ask(post(world.task, 1, b"x" * (1 << 21))).status == 413
