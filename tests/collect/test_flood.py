"""Connections that never say a word: everybody else is served, rounds are released, and files are left."""

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from shoal.collect.log import Log
from shoal.collect.server import public_connections
from tests.collect.running import Running, until
from tests.collect.world import World, make_exact_world

FILES = 512
FLOOD = 600


def _files(shuffler: Running) -> int:
    assert shuffler.process is not None
    return len(os.listdir(f"/proc/{shuffler.process.pid}/fd"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path, round_seconds=2)


def _flood(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["port", pytest.param("analyst_port", marks=pytest.mark.exhaustive)])
def test_a_flood_of_silent_connections(world: World, tmp_path: Path, whose: str) -> None:
    """More of them than files may be open: a report, a release and the analyst get through, on either port."""
    with (
        Running(
            world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=True, files=(256, FILES)
        ) as shuffler,
        ExitStack() as stack,
    ):
        lines = _flood(stack, getattr(shuffler, whose), FLOOD)
        number = shuffler.round()
        for body in world.junk(3):
            assert shuffler.upload(number, body).status == 201
        most = _files(shuffler)

        def released() -> bool:
            return shuffler.rounds().get(number, {}).get("state") == "ready"

        until(released, "a release")
        lines += _flood(stack, getattr(shuffler, whose), 50)
        with shuffler.analyst() as connection:
            assert connection.request("GET", f"/v1/tasks/{world.task.id}/rounds/{number}/batch").status == 200
        assert shuffler.ready()
        assert max(most, _files(shuffler)) < FILES - 200
        until(lambda: _files(shuffler) < 60, "the end of all handshakes")
        shuffler.stop()
    log = shuffler.log.read_text()
    assert f"level=warning event=few-files files={FILES} connections={FILES - 320}" in log
    caused = [line for line in log.splitlines() if "event=round-" not in line]
    assert "error" not in log and len(caused) <= 4


@pytest.mark.slow
def test_handshakes_end_after_ten_seconds(world: World, tmp_path: Path) -> None:
    with (
        Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=True) as shuffler,
        socket.create_connection(("127.0.0.1", shuffler.port), 60) as line,
    ):
        begun = time.monotonic()
        line.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a handshake, and no more
        with suppress(ConnectionResetError):
            assert line.recv(100) == b""
        assert 8 < time.monotonic() - begun < 50  # and not after the 60 of asyncio


@pytest.mark.slow
def test_too_few_files_are_refused(world: World, tmp_path: Path) -> None:
    shuffler = Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", files=(100, 300))
    with pytest.raises(
        AssertionError, match=r"no more than 300 files may be open here, .* 384 at least; raise the hard"
    ):
        shuffler.start()


@pytest.mark.slow
def test_the_limit_is_raised() -> None:
    """As far as it is allowed, and never lowered."""
    script = (
        "import resource; from shoal.collect.log import Log; from shoal.collect.server import public_connections\n"
        "for soft, hard in ((300, 600), (600, 600)):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        "    print(public_connections(Log()), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "280 600 600\n280 600 600\n"
    assert 0 < public_connections(Log()) <= 20_000
