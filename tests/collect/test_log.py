"""The log: lines that can be operated with, which nobody outside can fill, and which say nothing about people."""

import asyncio
import errno
import json
import logging
import re
import signal
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.collect import failpoint, server
from shoal.collect.log import Log, facts_of
from shoal.errors import CollectError
from tests.collect.asgi import Clock, Front, made, reports, root
from tests.collect.running import PATIENCE, Running, until
from tests.collect.world import World, make_exact_world, make_helped_world

LINE = re.compile(
    r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ level=(info|warning|error) event=[a-z-]+"
    r'( [a-z]+=([\w.:/+-]+|"(\\.|[^"\\])*"))*'
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), minimum=2)


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as found:
        return found


class TestFacts:
    """What is told of an error."""

    def test_a_full_disk_is_named(self) -> None:
        found = facts_of(_raised(OSError(errno.ENOSPC, "No space left", "/data/rounds/.round-7.0a1b2c.part")))
        assert (found["error"], found["errno"], found["file"]) == ("OSError", "ENOSPC", ".round-7.0a1b2c.part")
        assert re.fullmatch(r"test_log\.py:\d+", found["where"])

    @pytest.mark.parametrize("name", ["canary", b"canary", "/tmp/127.0.0.9", "ab" * 64, 7, "round-7", "x.db"])
    def test_words_that_may_be_of_a_request_are_not_told(self, name: object) -> None:
        told = facts_of(_raised(OSError(errno.ENOSPC, "canary", name)))
        assert told["file"] == ("x.db" if name == "x.db" else None)
        assert "canary" not in str(told) and "127" not in str(told)
        assert facts_of(_raised(ValueError("canary")))["detail"] is None

    def test_our_own_words_are(self) -> None:
        assert facts_of(_raised(CollectError("round 7 is damaged")))["detail"] == "round 7 is damaged"


class TestPace:
    """How many lines there are."""

    def test_the_same_is_told_once_a_minute(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        told = Log()
        for _ in range(200):
            told.tell(logging.ERROR, "settle", errno="ENOSPC")
            told.tell(logging.ERROR, "close", errno="EIO")
        assert len(caplog.messages) == 2
        told.flush()
        assert caplog.messages[2:] == ["event=settle errno=ENOSPC times=100+", "event=close errno=EIO times=100+"]
        now += 61
        told.tell(logging.ERROR, "settle", errno="ENOSPC")
        assert len(caplog.messages) == 5

    def test_what_requests_bring_about_waits_for_the_minute(self, caplog: pytest.LogCaptureFixture) -> None:
        told = Log()
        for _ in range(9):
            told.count(logging.WARNING, "no-request")
        for _ in range(10):
            told.count(logging.ERROR, "store", errno="ENOSPC")
        assert not caplog.messages
        told.flush()
        assert caplog.messages == ["event=store errno=ENOSPC times=10+"]  # nine are too few for a line
        told.count(logging.WARNING, "no-request")
        told.flush()
        assert caplog.messages[1:] == ["event=no-request times=10+"]

    def test_kinds_are_bounded(self, caplog: pytest.LogCaptureFixture) -> None:
        told = Log()
        for number in range(10_000):
            told.count(logging.ERROR, "request", where=f"a:{number % 900}")
        told.flush()
        assert len(caplog.messages) == 33 and caplog.messages[-1] == "event=other-events times=1000+"


def test_a_full_disk_at_release_is_told_with_its_errno(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    front, _ = made(world, tmp_path, clock)

    def full(reached: str) -> None:
        if reached == "batch written":
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "batches" / ".round-1.abc.part"))

    with front:
        for body in world.sealed([5, 6]):
            assert front.public("POST", reports(world), body).status == 201
        clock.now += 60
        failpoint.watch(full)
        try:
            for _ in range(3):
                front.tick()
        finally:
            failpoint.watch(None)
        (told,) = caplog.messages
        assert told.startswith("event=settle error=OSError errno=ENOSPC file=.round-1.abc.part where=")
        front.tick()
        assert caplog.messages[-1] == 'event=settle detail="it works again"'


def test_a_report_that_fails_leaves_no_line_of_its_own(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk is told of by /readyz at once, and by a line once ten have met it; nine leave no minute behind."""
    front, _ = made(world, tmp_path, Clock())

    def full(reached: str) -> None:
        if reached == "before commit":
            raise OSError(errno.ENOSPC, "No space left on device")

    with front:
        assert front.public("GET", "/readyz").status == 200
        failpoint.watch(full)
        try:
            for sent in range(1, 11):
                assert front.public("POST", reports(world), world.junk(1)[0]).status == 503
                assert front.public("GET", "/readyz").status == 503
                front.tick()
                front.service.log.flush()
                assert len(caplog.messages) == (sent == 10)
        finally:
            failpoint.watch(None)
    assert re.fullmatch(r"event=store error=OSError errno=ENOSPC where=\S+ times=10\+", caplog.messages[0])


def _strangers(shuffler: Running) -> None:
    """Send what is no request, what wants another protocol, and what fails in TLS, 150 times each."""
    port = shuffler.port
    context = ssl.create_default_context(cafile=shuffler.world.shuffler["tls_certificate"])
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for data in (b"canary\r\n\r\n", b"GET / HTTP/9\r\n\r\n", upgrade):
        for _ in range(150):
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 30) as line,
                context.wrap_socket(line, server_hostname="127.0.0.1") as wrapped,
            ):
                wrapped.sendall(data)
                wrapped.recv(1000)
    for _ in range(150):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as line:
            line.sendall(b"GET / HTTP/1.1\r\n\r\n")
            line.recv(1000)


@pytest.mark.slow
def test_strangers_do_not_write_the_log(world: World, tmp_path: Path) -> None:
    """Six hundred requests that are none leave a line of each kind a minute, and none at the time they come."""
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=True) as shuffler:
        begun = time.time()
        _strangers(shuffler)
        turns = int(time.time() // 60 - begun // 60)
        lines = shuffler.log.read_text().splitlines()
        assert len(lines) <= 2 * turns and all(re.search(r"T\d\d:\d\d:0[0-2]Z ", line) for line in lines)
        shuffler.stop()
    lines = shuffler.log.read_text().splitlines()
    assert 2 <= len(lines) <= 2 + 2 * turns
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert {re.search("event=([a-z-]+)", line)[1] for line in lines} == {"no-request", "handshake"}  # type: ignore[index]
    assert all(line.endswith("+") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_end_is_quiet_and_soon(world: World, tmp_path: Path, number: signal.Signals) -> None:
    """With connections that are idle, that are in the middle of a request, and that never began TLS."""
    with (
        Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", tls=True) as shuffler,
        shuffler.line() as idle,
        shuffler.line() as half,
        socket.create_connection(("127.0.0.1", shuffler.port)),
    ):
        assert idle.ask(b"GET /healthz HTTP/1.1\r\n\r\n").status == 200
        half.send(b"POST /")
        assert shuffler.process is not None
        shuffler.process.send_signal(number)
        assert shuffler.process.wait(PATIENCE) == 0
    assert shuffler.log.read_text() == ""


def test_lines_at_the_turn_of_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stamps lines as they are written learns no more than the minute."""
    slept: list[float] = []

    class Over(Exception):  # noqa: N818
        pass

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 1:
            raise Over

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_017.25)
    with pytest.raises(Over):
        asyncio.run(server._each_minute(lambda: None))
    assert slept == [60 - 1_700_000_017.25 % 60 + server._LATE] * 2
    assert (1_700_000_017.25 + slept[0]) % 60 == pytest.approx(server._LATE, abs=1e-6)


@pytest.mark.slow
def test_tokens_are_read_again(world: World, tmp_path: Path) -> None:
    """When their file changes, and at SIGHUP; one that is bad changes nothing, and is told of without a token."""
    file = tmp_path / "tokens"
    file.write_text("ada\n")
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", token_file=file) as shuffler:

        def status(token: str) -> int:
            return shuffler.upload(1, world.junk(1)[0], {"Authorization": f"Bearer {token}"}).status

        assert (status("ada"), status("bea")) == (201, 401)
        file.write_text("bea\n")
        until(lambda: status("bea") == 201, "a token that was added")
        assert status("ada") == 401
        file.write_text("cleo\nsha256:canary\n")
        until(lambda: "the previous ones stay in use" in shuffler.log.read_text(), "a line about it")
        assert (status("bea"), status("cleo")) == (201, 401)
        file.write_text("cleo\n")
        assert shuffler.process is not None
        shuffler.process.send_signal(signal.SIGHUP)
        until(lambda: status("cleo") == 201, "a token that was added")
        assert status("bea") == 401
        shuffler.stop()
    lines = shuffler.log.read_text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert not any(word in line for line in lines for word in ("canary", "ada", "bea", "cleo"))
    assert json.dumps(lines).count("level=error") == 1


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.name == "shoal.shuffler"]
    caplog.clear()
    return lines


def _send(front: Front, world: World, number: int, count: int) -> None:
    for body in world.junk(count):
        assert front.public("POST", reports(world, number), body).status == 201


def _waiting(front: Front) -> list[dict[str, object]]:
    answer = front.public("GET", "/readyz")
    assert answer.status == 200
    waiting: list[dict[str, object]] = json.loads(answer.body)["waiting"]
    return waiting


def test_each_change_of_a_round_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_exact_world(tmp_path / "world", minimum=2, round_seconds=60)
    clock = Clock()
    front, shuffler = made(world, tmp_path / "store", clock)
    with front, caplog.at_level(logging.INFO, "shoal.shuffler"):
        front.tick()
        assert _lines(caplog) == []
        clock.now += 60
        front.tick()
        assert _lines(caplog) == ["event=round-extended round=1"]
        _send(front, world, 1, 3)
        clock.now += 60
        front.tick()
        assert _lines(caplog) == ["event=round-ready round=1"]  # sealed and released between two looks
        assert _waiting(front) == []
        clock.now += 61
        front.tick()
        assert "event=round-waiting round=1 for=analyst" in _lines(caplog)
        assert _waiting(front) == [{"round": 1, "for": "analyst"}]
        manifest = shuffler.released(1)[1]
        path = f"{root(world)}/rounds/1/ack"
        assert front.analyst("POST", path, manifest.sha256.encode()).status == 204
        front.tick()
        assert _lines(caplog) == ["event=round-purged round=1"]
        assert _waiting(front) == []


def test_a_round_that_waits_for_its_helpers_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_helped_world(tmp_path / "world", round_seconds=60)
    clock = Clock()
    front, _ = made(world, tmp_path / "store", clock)
    with front, caplog.at_level(logging.INFO, "shoal.shuffler"):
        front.tick()
        _send(front, world, 1, world.task.minimum)
        clock.now += 60
        front.tick()
        (sealed,) = _lines(caplog)
        assert sealed.startswith(f"event=round-sealed round=1 reports={world.task.minimum} messages=")
        assert _waiting(front) == []
        clock.now += 61
        front.tick()
        assert "event=round-waiting round=1 for=helpers" in _lines(caplog)
        assert _waiting(front) == [{"round": 1, "for": "helpers"}]
