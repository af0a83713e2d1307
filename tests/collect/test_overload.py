"""More comes than can be stored: some are told to come later, and those who are not do not wait for long."""

import asyncio
import errno
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.collect.connection import Answer
from shoal.collect.round_state import Record, Round, RoundClosedError, record
from shoal.collect.service import Writer
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from tests.collect.asgi import Clock, Front, made, refused, reports, stored, tokens
from tests.collect.running import Running, post, until
from tests.collect.world import World, make_exact_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), round_seconds=60, minimum=3)


class Slow:
    """A store that takes so many seconds a commit, and remembers what was in each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.groups: list[int] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, number: int, records: Sequence[Record]) -> None:
        self.go.wait(30)
        time.sleep(self.seconds)
        if number == 0:
            raise RoundClosedError("round 0 is not open")
        self.groups.append(len(records))


def _one() -> Record:
    return record(random.randbytes(64))


@pytest.mark.slow
def test_single_reports_go_before_the_rest_of_a_bulk() -> None:
    """A bulk of 200,000 is under way; those who come meanwhile wait for one part of it each, not for all."""

    async def run() -> None:
        slow = Slow(0.02)
        writer = Writer(slow)
        bulk = writer.submit_bulk(1, random.randbytes(64 * 200_000), 64)
        waits = []
        while not bulk.answer.done():
            before = len(slow.groups)
            await writer.submit(1, _one())
            waits.append(len(slow.groups) - before)
        await bulk.answer
        assert bulk.stored == 64 * 200_000 and sum(slow.groups) == 200_000 + len(waits)
        assert len(waits) >= 10 and max(waits) <= 3  # what is being stored, its own, and one until it hears of it
        await asyncio.get_running_loop().run_in_executor(None, writer.stop)

    asyncio.run(run())


def test_small_bulks_are_stored_together() -> None:
    async def run() -> None:
        slow = Slow(0.0)
        slow.go.clear()
        writer = Writer(slow)
        bulks = [writer.submit_bulk(1, random.randbytes(64 * 10), 64) for _ in range(100)]
        slow.go.set()
        await asyncio.gather(*(bulk.answer for bulk in bulks))
        assert sum(slow.groups) == 1000 and len(slow.groups) < 20
        await asyncio.get_running_loop().run_in_executor(None, writer.stop)

    asyncio.run(run())


@pytest.mark.slow
def test_the_end_of_a_round_waits_for_a_bulk_and_not_for_the_next() -> None:
    async def run() -> None:
        slow = Slow(0.02)
        writer = Writer(slow)
        first, second = (writer.submit_bulk(1, random.randbytes(64 * 30_000), 64) for _ in range(2))
        while not first.stored:
            await asyncio.sleep(0.005)
        async with writer.between_bulks():
            assert first.answer.done() and (second.stored == 0 or second.answer.done())
            stored = second.stored
            await writer.submit(1, _one())  # single reports go on
            await asyncio.sleep(0.1)
            assert second.stored == stored
        await asyncio.wait_for(second.answer, 30)
        await asyncio.get_running_loop().run_in_executor(None, writer.stop)

    asyncio.run(run())


def test_what_is_refused_does_not_stop_the_others() -> None:
    async def run() -> None:
        writer = Writer(Slow(0.0))
        closed, bulk = writer.submit(0, _one()), writer.submit_bulk(0, random.randbytes(128), 64)
        for answer in (closed, bulk.answer):
            with pytest.raises(RoundClosedError):
                await answer
        await writer.submit(1, _one())
        await asyncio.get_running_loop().run_in_executor(None, writer.stop)

    asyncio.run(run())


@pytest.mark.slow
def test_a_queue_that_is_too_long_is_told_with_a_time_at_random(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,000 who come at once to a store that stands still, 256 may always wait; others are told when to come."""
    slow = Slow(0.0)
    accept = Shuffler.accept

    def waiting(self: Shuffler, number: int, records: Sequence[Record]) -> None:
        slow(number, records)
        accept(self, number, records)

    monkeypatch.setattr(Shuffler, "accept", waiting)
    front, shuffler = made(world, tmp_path, Clock())

    async def all_at_once() -> list[Answer]:
        slow.go.clear()
        first = [asyncio.ensure_future(front.asked("POST", reports(world), body)) for body in world.junk(256)]
        await asyncio.sleep(0.5)
        late = await asyncio.gather(*(front.asked("POST", reports(world), body) for body in world.junk(1744)))
        slow.go.set()
        return [*late, *await asyncio.gather(*first)]

    with front:
        answers = front.run(all_at_once())
        assert Counter(int(answer.status) for answer in answers) == {201: 256, 503: 1744}
        refused(answers[0], 503)
        seconds = Counter(int(answer.headers["retry-after"]) for answer in answers if answer.status == 503)
        assert set(seconds) == set(range(5, 16)) and max(seconds.values()) < 400
        assert front.public("POST", reports(world), world.junk(1)[0]).status == 201  # and it is over at once
        assert shuffler._store._database.execute("SELECT count(*) FROM report").fetchone() == (257,)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_few_always_wait(world: World, tmp_path: Path) -> None:
    """However slow the disk is, the first 255 are not sent away."""

    async def run() -> None:
        slow = Slow(0.0)
        slow.go.clear()
        writer = Writer(slow)
        waiting = [writer.submit(1, _one()) for _ in range(255)]
        await asyncio.sleep(0.4)
        assert not writer.full
        waiting.append(writer.submit(1, _one()))
        assert writer.full
        slow.go.set()
        await asyncio.gather(*waiting)
        assert not writer.full
        await asyncio.get_running_loop().run_in_executor(None, writer.stop)

    asyncio.run(run())


@pytest.mark.slow
def test_bulks_have_a_room_of_their_own(world: World, tmp_path: Path) -> None:
    """Four of 16 MiB are read at once, a fifth is told to come later, and a single report passes all the same."""
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", relays=["relay"]) as shuffler:
        head = post(world.task, 1, b"", {"Authorization": "Bearer relay"})
        head = head.replace(b"Content-Length: 0", b"Content-Length: %d" % (1 << 24))
        lines = [shuffler.line() for _ in range(4)]
        for line in lines:  # each is told to go on when the others before it are being read
            assert line.ask(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")).status == 100
            line.send(b"x")
        with shuffler.line() as fifth:
            answer = fifth.ask(head)
            assert answer.status == 503 and 5 <= int(answer.headers["retry-after"]) <= 15
        assert shuffler.upload(1, world.junk(1)[0]).status == 201
        for line in lines:
            line.close()
        few = b"".join(world.junk(10))
        until(lambda: shuffler.upload(1, few, {"Authorization": "Bearer relay"}).status == 201, "room for another")


def test_reports_for_wrong_rounds_share_a_look_up(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 500 at once, few reach the thread that also ends rounds and serves the analyst, and none lists all rounds."""
    looks: list[int] = []
    current = Shuffler.current

    def counted(self: Shuffler) -> Round:
        looks.append(1)
        return current(self)

    front, _ = made(world, tmp_path, Clock())
    with front:
        monkeypatch.setattr(Shuffler, "current", counted)
        monkeypatch.setattr(SqliteStore, "rounds", None)

        async def all_at_once() -> list[Answer]:
            return await asyncio.gather(*(front.asked("POST", reports(world, 7), one) for one in world.junk(500)))

        assert {refused(answer, 409)["round"] for answer in front.run(all_at_once())} == {1}
        assert 1 <= len(looks) <= 3


def test_who_asks_after_the_end_of_a_round_does_not_get_an_older_look_up(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up has read round 1 and is slow; a report for round 2, which opens meanwhile, is not refused by it."""
    clock, read, go = Clock(), threading.Event(), threading.Event()
    front, shuffler = made(world, tmp_path, clock)
    current = Shuffler.current

    def slow(self: Shuffler) -> Round:
        found = current(self)
        read.set()
        assert go.wait(30)
        return found

    async def asked() -> tuple[Answer, Answer]:
        early = asyncio.ensure_future(front.asked("POST", reports(world, 7), world.junk(1)[0]))
        await asyncio.to_thread(read.wait, 30)
        clock.now += 60
        assert await asyncio.to_thread(shuffler.close) is not None  # as another process may
        late = asyncio.ensure_future(front.asked("POST", reports(world, 2), world.junk(1)[0]))
        await asyncio.sleep(0.1)
        assert not late.done()
        go.set()
        return await early, await late

    with front:
        for body in world.junk(3):
            assert front.public("POST", reports(world), body).status == 201
        monkeypatch.setattr(Shuffler, "current", slow)
        early, late = front.run(asked())
        assert refused(early, 409)["round"] == 1 and late.status == 201


def _failing_once(front: Front) -> list[int]:
    """Have the disk fail at the second part that is stored, and return a list in which the first part is counted."""
    writer, parts = front.service._writer, []
    assert writer is not None
    accept = writer._accept

    def failing(number: int, records: Sequence[Record]) -> None:
        parts.append(len(records))
        if len(parts) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        accept(number, records)

    writer._accept = failing
    return parts


def test_a_bulk_that_is_stored_in_part_says_so_also_when_its_round_is_over(world: World, tmp_path: Path) -> None:
    """A relay that goes by the answers has each report counted once."""
    clock = Clock()
    front, shuffler = made(world, tmp_path, clock, tokens(relays="relay"))
    with front:
        parts = _failing_once(front)
        bodies = world.sealed(range(300))
        told = refused(front.public("POST", reports(world), b"".join(bodies), "relay"), 503)
        assert told["stored"] == parts[0] == 100
        assert "The first 100 reports are stored" in str(told["detail"])
        values = stored(shuffler, front, clock, world)
        assert values == sorted(values) and len(values) == 100
        for _ in range(2):
            told = refused(front.public("POST", reports(world), b"".join(bodies), "relay"), 409)
            assert (told["round"], told["stored"]) == (2, 100) and "the first 100 of these" in str(told["detail"])
        again = b"".join(world.sealed(range(100, 300), 2))
        assert front.public("POST", reports(world, 2), again, "relay").status == 201
        assert sorted(values + stored(shuffler, front, clock, world)) == list(range(300))
        none = refused(front.public("POST", reports(world), b"".join(world.junk(2)), "relay"), 409)
        ahead = refused(front.public("POST", reports(world, 99), b"".join(bodies), "relay"), 409)
        assert (none["stored"], ahead["stored"]) == (0, 0)
        assert "stored" not in refused(front.public("POST", reports(world), bodies[0]), 409)  # this is for relays


def test_what_a_bulk_has_stored_is_known_until_its_digests_are_forgotten(tmp_path: Path) -> None:
    world = make_exact_world(tmp_path / "world", round_seconds=60, minimum=3, replay_rounds=2)
    clock = Clock()
    front, shuffler = made(world, tmp_path, clock, tokens(relays="relay"))
    with front:
        bulk = b"".join(world.sealed(range(5)))
        assert front.public("POST", reports(world), bulk, "relay").status == 201
        for number, expected in ((1, 5), (2, 5), (3, None), (4, None)):
            if number > 1:
                late = b"".join(world.sealed(range(5), number))
                assert front.public("POST", reports(world, number), late, "relay").status == 201
            assert stored(shuffler, front, clock, world) == list(range(5))
            shuffler.acknowledge(number, shuffler.released(number)[1].sha256)
            front.tick()
            told = refused(front.public("POST", reports(world), bulk + world.junk(1)[0], "relay"), 409)
            assert told["stored"] == expected and told["round"] == number + 1
            assert ("Do not seal them again" in str(told["detail"])) == (expected is None)
