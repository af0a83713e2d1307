"""Those who ask for a long task and do not read it: they hold little memory, and nobody's place for long."""

import asyncio
import os
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.types import Message

from shoal.collect import problem
from shoal.files.names import Names
from shoal.mechanisms import RandomizedResponse
from tests.collect.asgi import Clock, called, made, refused, root
from tests.collect.running import Running
from tests.collect.world import World, make_world

NAMES = 30_000
CONNECTIONS = 192
"""That there is room for, with 512 files."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a world with a task of more than a megabyte."""
    names = Names(NAMES, tuple(f"category number {number:06d} of a long list" for number in range(NAMES)))
    mechanism = RandomizedResponse(categories=NAMES, local_epsilon=14)
    folder = tmp_path_factory.mktemp("world")
    return make_world(folder, mechanism=mechanism, names=names, epsilon_limit=15.0, minimum=2, malicious=0)


def _resident(running: Running) -> float:
    """Return how many MB of memory the process has."""
    assert running.process is not None
    pages = int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _silent_readers(stack: ExitStack, shuffler: Running, count: int) -> None:
    context = ssl.create_default_context(cafile=shuffler.world.shuffler["tls_certificate"])
    for _ in range(count):
        line = stack.enter_context(socket.socket())
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        line.settimeout(30)
        line.connect(("127.0.0.1", shuffler.port))
        wrapped = stack.enter_context(context.wrap_socket(line, server_hostname="127.0.0.1"))
        wrapped.sendall(f"GET {root(shuffler.world)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


@pytest.mark.slow
def test_silent_readers_hold_neither_memory_nor_connections(world: World, tmp_path: Path) -> None:
    """With all connections taken by them, a copy of the task each would be 250 MB; a report still gets through."""
    size = len(world.task.to_bytes())
    assert size > 1_100_000
    with (
        Running(
            world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=True, files=(256, 512)
        ) as shuffler,
        ExitStack() as stack,
    ):
        assert shuffler.ask(root(world)).body == world.task.to_bytes()
        before = _resident(shuffler)
        _silent_readers(stack, shuffler, CONNECTIONS)
        time.sleep(1)
        assert _resident(shuffler) - before < CONNECTIONS * size / 1e6 / 2
        begun = time.monotonic()
        assert shuffler.upload(1, world.junk(1)[0]).status == 201
        assert shuffler.ask(root(world)).body == world.task.to_bytes()
        assert time.monotonic() - begun < 25  # and not after the half minute in which an answer must have gone


def test_not_more_than_so_many_read_at_once(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to come later, until one of them is through or goes away; heads pass."""
    monkeypatch.setattr(problem, "_MOST_AT_ONCE", 2)
    front, _ = made(world, tmp_path, Clock())

    async def run() -> None:
        app, scope = front.service._document, {"type": "http", "method": "GET"}
        go = asyncio.Event()

        async def stuck(message: Message) -> None:
            await go.wait()

        async def nothing() -> Message:
            raise AssertionError("there is no body to wait for")

        readers = [asyncio.ensure_future(app(scope, nothing, stuck)) for _ in range(2)]
        await asyncio.sleep(0)
        third = await called(front.service.public, "GET", root(world))
        assert refused(third, 503)["detail"] == "Too many clients read this document at once. Ask again later."
        assert 5 <= int(third.headers["retry-after"]) <= 15
        assert (await called(front.service.public, "HEAD", root(world))).status == 200
        readers[0].cancel()
        await asyncio.sleep(0)
        assert (await called(front.service.public, "GET", root(world))).status == 200
        go.set()
        await readers[1]
        assert app._readers == 0

    with front:
        front.run(run())


def test_a_task_in_pieces_is_the_task(world: World, tmp_path: Path) -> None:
    front, _ = made(world, tmp_path, Clock())
    with front:
        answer = front.public("GET", root(world))
        assert answer.status == 200 and answer.body == world.task.to_bytes()
        assert answer.headers == {"content-length": str(len(answer.body)), "content-type": "application/json"}
        head = front.public("HEAD", root(world))
        assert head.headers == answer.headers
