"""The store in a file: what it keeps, for how long, and what it forgets."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.collect.round_state import Record, RoundClosedError, State, due, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import StoreError
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import CollectError, DamagedError, ParameterError, StorageError, WrongKeyError
from tests.collect.life import Life
from tests.collect.world import World, make_exact_world
from tests.exhaustive import amount

SECONDS = 60
WINDOW = 3
BEGIN = 0.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), minimum=2, replay_rounds=WINDOW)


class Kept(Life):
    """A store in a file, with its shuffler and a clock."""

    def send(self, bodies: list[bytes]) -> None:
        """Store reports in the open round."""
        self.add(bodies, self.store.current().number)

    def ended(self) -> list[bytes]:
        """End the round, and return what is in it; it is released, acknowledged and purged."""
        number = self.seal().number
        found = sorted(self.released(number))
        self.acknowledge(number)
        self.shuffler.purge(number)
        return found

    def rows(self, query: str) -> list[Any]:
        """Return what a database says."""
        with closing(sqlite3.connect(self.place)) as database:
            return database.execute(query).fetchall()


@pytest.fixture
def kept(world: World, tmp_path: Path) -> Iterator[Kept]:
    made = Kept(world, tmp_path / "reports.db", tmp_path / "batches")
    yield made
    made.stop()


class TestDue:
    """When a round ends."""

    @pytest.mark.slow
    @given(st.floats(0, 1e10), st.floats(0, 1e10), st.integers(1, 10**8))
    @settings(derandomize=True, max_examples=amount(60, 400), deadline=None)
    def test_never_early_and_never_longer_than_a_round(self, closes: float, now: float, seconds: int) -> None:
        ended, following = due(closes, now, seconds)
        assert ended == (now >= closes)
        assert now < following <= now + seconds or following == closes
        assert following <= max(closes, now) + seconds
        if not ended:
            assert following <= closes


class TestReplays:
    """A repeated report is recognised within the window, and forgotten after it."""

    def test_dropped_within_the_window(self, kept: Kept, world: World) -> None:
        old = world.sealed([1, 2])
        kept.send(old)
        kept.send(old)
        assert kept.ended() == sorted(old)
        for number in range(2, 2 + WINDOW):
            fresh = world.sealed([10, 11], number)
            kept.send(fresh + old)
            kept.send(old)
            assert kept.ended() == sorted(fresh), number
        # Round 5 is the first that does not know of round 1 any more; for the analyst, it is junk there.
        fresh = world.sealed([10, 11], 2 + WINDOW)
        kept.send(fresh + old)
        assert kept.ended() == sorted(fresh + old)

    def test_digests_are_deleted_after_the_window(self, kept: Kept, world: World) -> None:
        for number in range(1, 9):
            kept.send(world.sealed([1, 2], number))
            kept.ended()
            there = {row[0] for row in kept.rows("SELECT DISTINCT round FROM report")}
            assert there == set(range(max(1, number + 1 - WINDOW), number + 1))
            assert kept.rows("SELECT count(*) FROM report WHERE body IS NOT NULL") == [(0,)]

    def test_of_a_discarded_round_digests_remain_and_nothing_else(self, tmp_path: Path) -> None:
        world = make_exact_world(tmp_path / "world", minimum=3, replay_rounds=1, too_small="discard")
        kept = Kept(world, tmp_path / "reports.db", tmp_path / "batches")
        old = world.sealed([1, 2])
        kept.send(old)
        kept.now += SECONDS
        ended = kept.store.close(kept.now)
        assert ended is not None and (ended.state, ended.discarded, ended.reports) == (State.PURGED, True, None)
        assert kept.rows("SELECT round, body FROM report") == [(1, None)] * 2
        fresh = world.sealed([1, 2, 3], 2)
        kept.send(old + fresh)
        assert kept.ended() == sorted(fresh)
        assert kept.rows("SELECT DISTINCT round FROM report") == [(2,)]
        kept.stop()


class TestAdd:
    """What a store takes."""

    @pytest.mark.parametrize("number", [0, 2, -1, 10**18])
    def test_only_the_open_round(self, kept: Kept, world: World, number: int) -> None:
        with pytest.raises(RoundClosedError, match="not open"):
            kept.store.add(number, [record(world.sealed([1])[0])])
        assert kept.rows("SELECT count(*) FROM report") == [(0,)]

    def test_all_or_nothing(self, kept: Kept, world: World) -> None:
        bodies = world.sealed([1, 2, 3])
        broken = Record(b"x" * 16, None)  # type: ignore[arg-type]
        with pytest.raises((StoreError, TypeError)):
            kept.store.add(1, [*map(record, bodies), broken._replace(digest=object())])  # type: ignore[arg-type]
        assert kept.rows("SELECT count(*) FROM report") == [(0,)]
        kept.send(bodies)
        assert kept.rows("SELECT count(*) FROM report") == [(3,)]

    def test_one_report_a_tag(self, kept: Kept, world: World) -> None:
        first, second, third, fourth = world.sealed([1, 2, 3, 4])
        kept.store.add(1, [record(first, b"ada"), record(second, b"ada"), record(third, b"bea")])
        kept.store.add(1, [record(fourth, b"bea"), record(first, b"cleo")])
        assert kept.ended() == sorted([first, third])
        kept.store.add(2, [record(world.sealed([5], 2)[0], b"ada"), record(world.sealed([6], 2)[0])])
        assert len(kept.ended()) == 2

    def test_the_same_report_with_and_without_a_tag(self, kept: Kept, world: World) -> None:
        body = world.sealed([1])[0]
        kept.store.add(1, [record(body), record(body, b"ada"), record(body, b"bea"), record(body)])
        assert kept.rows("SELECT count(*) FROM report") == [(1,)]


class TestStates:
    """Each step needs the one before it."""

    def test_a_round_that_is_not_there(self, kept: Kept) -> None:
        for step in (kept.store.acknowledge, kept.store.purge, kept.shuffler.release, kept.shuffler.purge):
            with pytest.raises(CollectError, match="no round 7"):
                step(7)

    def test_no_step_is_skipped(self, kept: Kept, world: World) -> None:
        kept.send(world.sealed([1, 2]))
        never: Any = pytest.fail
        for _ in range(2):
            kept.store.acknowledge(1)
            kept.store.purge(1)
            assert not kept.store.publish(1, b"", never)
            assert kept.store.rounds()[0].state == State.OPEN
        kept.now += SECONDS
        kept.shuffler.close()
        kept.store.acknowledge(1)
        kept.store.purge(1)
        assert kept.store.rounds()[0].state == State.SEALED
        kept.shuffler.release(1)
        kept.store.purge(1)
        assert not kept.store.publish(1, b"", never)
        assert kept.store.rounds()[0].state == State.READY
        kept.store.acknowledge(1)
        kept.store.acknowledge(1)
        assert kept.store.rounds()[0].state == State.ACKED
        assert not kept.store.publish(1, b"", never)
        kept.store.purge(1)
        kept.store.purge(1)
        kept.store.acknowledge(1)
        assert kept.store.rounds()[0].state == State.PURGED

    def test_a_placement_that_fails_leaves_the_round_sealed(self, kept: Kept, world: World) -> None:
        kept.send(world.sealed([1, 2]))
        kept.now += SECONDS
        kept.shuffler.close()

        def fail() -> None:
            raise OSError(28, "No space left on device")

        with pytest.raises(OSError, match="No space"):
            kept.store.publish(1, b"", fail)
        assert kept.store.rounds()[0].state == State.SEALED and kept.store.rounds()[0].manifest is None
        kept.shuffler.release(1)

    def test_the_open_round_alone_is_the_last_of_all(self, kept: Kept, world: World) -> None:
        for number in range(1, 4):
            assert kept.store.current() == kept.store.rounds()[-1]
            assert (kept.store.current().number, kept.store.current().state) == (number, State.OPEN)
            assert kept.store.current().token_key is not None
            kept.send(world.junk(2))
            kept.ended()


class TestFiles:
    """One file is for one task, and it is all that is needed."""

    def test_another_task_is_refused(self, kept: Kept, tmp_path: Path) -> None:
        other = make_exact_world(tmp_path / "other")
        with pytest.raises(ParameterError, match="folder of its own"):
            SqliteStore(Path(kept.place), other.task, now=BEGIN)
        assert len(kept.store.rounds()) == 1

    @pytest.mark.parametrize("content", [b"no database" * 500, b"\x00" * 4096, b"SQLite format 3\x00" + b"\xff" * 4096])
    def test_what_is_no_database_is_refused(self, world: World, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "reports.db"
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="A disk that fails"):
            SqliteStore(path, world.task, now=BEGIN)
        assert path.read_bytes() == content

    def test_a_folder_that_is_not_there(self, world: World, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="cannot keep reports") as caught:
            SqliteStore(tmp_path / "nothing" / "reports.db", world.task, now=BEGIN)
        assert caught.value.errno == errno.ENOENT

    def test_each_commit_is_on_the_disk(self, kept: Kept) -> None:
        database = kept.store._database  # type: ignore[attr-defined]
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert database.execute("PRAGMA secure_delete").fetchone() == (1,)

    def test_another_key_than_the_tasks_is_refused(self, kept: Kept, world: World, tmp_path: Path) -> None:
        other = make_exact_world(tmp_path / "other")
        with pytest.raises(WrongKeyError, match="private key of the shuffler"):
            Shuffler(world.task, kept.store, tmp_path, other.shuffler_key)


def test_a_release_that_fails_in_the_middle_lets_go_of_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread would go on seeing the store as it was then, and could not write, until memory is tidied."""
    world = make_exact_world(tmp_path / "world", minimum=10)
    store = SqliteStore(tmp_path / "reports.db", world.task, now=0)
    full = True

    def permute(blocks: Any, total: int, length: int, beside: Path, stack: ExitStack) -> Iterator[bytes]:
        block = next(blocks)
        if full:
            raise OSError(28, "No space left on device")
        yield block.tobytes()

    monkeypatch.setattr("shoal.collect.shuffler.shuffled_records", permute)
    monday = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=lambda: 60)
    monday.accept(1, [record(body) for body in world.junk(10)])
    monday.close()
    with pytest.raises(OSError, match="No space left"):
        monday.settle()
    other = SqliteStore(tmp_path / "reports.db", world.task, now=0)
    other.add(2, [record(world.junk(1)[0])])  # another process goes on
    full = False
    monday.settle()
    assert monday.rounds()[0].state == State.READY
    other.shut()
    monday.shut()
