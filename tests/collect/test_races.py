"""Two who release at once, one body that is sent a thousand times, the report that comes as the round closes."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.collect import failpoint
from shoal.collect.keys import shuffler_key
from shoal.collect.round_state import RoundClosedError, State, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores import sqlite
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.errors import CollectError
from tests.collect.life import Lives, released
from tests.collect.people import Puller, records_of
from tests.collect.running import PATIENCE, Running, batches_in, post, store_in, until
from tests.collect.world import make_exact_world

ROOT = Path(__file__).resolve().parents[2]
HOUR = 3600


def _check_released_once(shuffler: Shuffler, bodies: list[bytes], folder: Path) -> None:
    assert sorted(released(shuffler)) == sorted(bodies)
    assert batches_in(folder) == [shuffler.batch_path(1)]
    with pytest.raises(CollectError, match="only a sealed round"):
        shuffler.release(1)


@pytest.mark.slow
def test_two_processes_release_at_once(place: str, live: Lives, tmp_path: Path) -> None:
    """Both have written a batch, in another order each, and know of each other by the store alone: one is placed."""
    world = make_exact_world(tmp_path, round_seconds=HOUR)
    folder, bodies, life = tmp_path / "batches", world.junk(200), live(world, place)
    life.add(bodies)
    life.seal()
    arguments = [world.task_path, world.shuffler["private_key"], place, folder, tmp_path]
    command = [sys.executable, "-m", "tests.collect.test_races", *map(str, arguments)]
    releasers = [subprocess.Popen([*command, str(one)], cwd=ROOT) for one in range(2)]
    try:
        until(lambda: len(list(tmp_path.glob("written-*"))) == 2, "two batches")
        (tmp_path / "go").touch()
        assert [releaser.wait(60) for releaser in releasers] == [0, 0]
    finally:
        for releaser in releasers:
            releaser.kill()
            releaser.wait()
    assert len(list(tmp_path.glob("placed-*"))) == 1
    _check_released_once(life.shuffler, bodies, folder)


def _release(*arguments: str) -> None:
    """Release round 1 in this process, and wait for the other one once the batch is written."""
    task_path, key, place, folder, meeting, name = arguments

    def watcher(point: str) -> None:
        if point == "batch written":
            (Path(meeting) / f"written-{name}").touch()
            until((Path(meeting) / "go").exists, "the word to go")
        if point == "renamed":
            (Path(meeting) / f"placed-{name}").touch()

    task = Task.read(Path(task_path))
    shuffler = Shuffler(task, store_in(place, task), Path(folder), shuffler_key(Path(key)))
    failpoint.watch(watcher)
    shuffler.release(1)
    shuffler.shut()


@pytest.mark.slow
def test_one_body_a_thousand_times_at_once(place: str, tmp_path: Path) -> None:
    """It is acknowledged a thousand times, and released once; so is a token that is used for many reports."""
    world = make_exact_world(tmp_path, round_seconds=1, minimum=3)  # what is sent at once makes two
    mine, others, fillers = world.junk(1)[0], world.junk(20), world.junk(4)
    relay, thief = ({"Authorization": f"Bearer {token}"} for token in ("relay", "thief"))
    shuffler = Running(world, place, tmp_path / "batches", tmp_path / "run", people=["thief"], relays=["relay"])
    with shuffler:
        puller = Puller(shuffler, tmp_path / "pulled")
        requests = [post(world.task, 1, mine, relay)] * 1000 + [post(world.task, 1, one, thief) for one in others]
        lines = [shuffler.line() for _ in range(204)]
        for first, line in enumerate(lines):
            line.send(b"".join(requests[first :: len(lines)]))
        assert {line.answer().status for line in lines for _ in range(5)} == {201}
        for line in lines:
            line.close()
        assert shuffler.upload(1, fillers[0], relay).status == 201
        until(lambda: shuffler.round() == 2, "the next round")
        # A repetition there would mark whoever sent it.
        for body in (mine, *fillers[1:]):
            assert shuffler.upload(2, body, relay).status == 201
        until(lambda: 2 in puller.acknowledged, "the last round")
        puller.stop()
        shuffler.stop()
    assert not puller.trouble
    rounds = {number: records_of(batch) for number, batch in puller.pulled.items()}
    assert [body in others for body in rounds[1]].count(True) == 1
    assert sorted(body for body in rounds[1] if body not in others) == sorted([mine, fillers[0]])
    assert sorted(rounds[2]) == sorted(fillers[1:])


@pytest.mark.slow
@pytest.mark.parametrize("too_small", ["extend", "discard"])
def test_last_report_comes_as_the_round_closes(place: str, too_small: str, tmp_path: Path) -> None:
    """Whoever comes first, a round is sealed with the minimum or not at all; and what is acknowledged is in it."""
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=3, too_small=too_small)
    now = time.time()
    with ThreadPoolExecutor(2) as pool:
        shuffler = Shuffler(
            world.task, store_in(place, world.task), tmp_path / "batches", world.shuffler_key, clock=lambda: now
        )
        meeting = threading.Barrier(2, timeout=60)

        def last(number: int, delay: float) -> bool:
            meeting.wait()
            time.sleep(delay)
            try:
                shuffler.accept(number, [record(world.junk(1)[0])])
            except RoundClosedError:
                return False
            return True

        for attempt in range(30):
            number = shuffler.current().number
            shuffler.accept(number, [record(body) for body in world.junk(2)])
            now += 3 * HOUR
            arrived = pool.submit(last, number, attempt % 6 * 5e-4)
            meeting.wait()
            ended = shuffler.close()
            came = arrived.result()
            if ended is None:  # it was one too few, and is extended
                assert too_small == "extend" and came
                now += 3 * HOUR
                ended = shuffler.close()
            assert ended is not None
            assert (ended.state == State.SEALED, ended.discarded) == (came, not came)
            if came:
                assert ended.reports == 3
                shuffler.release(number)
                assert shuffler.released(number)[1].reports == 3
        shuffler.shut()


@pytest.mark.slow
def test_nobody_waits_for_a_long_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a round is read, another one is discarded: uploads go on, and its traces go once the reading is over."""
    monkeypatch.setattr(sqlite, "_PATIENCE", 2 * PATIENCE)  # whoever waited for the reading would wait in vain
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=20_000, too_small="discard")
    discarded, log = world.junk(100), tmp_path / "reports.db-wal"
    store = SqliteStore(tmp_path / "reports.db", world.task, now=0.0)
    store.add(1, [record(body) for body in world.junk(20_000)])
    assert store.close(HOUR) is not None
    reading = store.bodies(1)
    next(reading)
    store.add(2, [record(body) for body in discarded])
    with ThreadPoolExecutor(1) as pool:  # a thread has a connection of its own
        ended = pool.submit(store.close, 2.0 * HOUR).result(PATIENCE)
        pool.submit(store.add, 3, [record(world.junk(1)[0])]).result(PATIENCE)
        assert ended is not None and ended.discarded
        assert discarded[0] in log.read_bytes()  # somebody still reads what was before
        assert sum(map(len, reading)) > 0
        pool.submit(store.close, 2.0 * HOUR).result()
    assert not log.stat().st_size
    store.shut()


if __name__ == "__main__":
    _release(*sys.argv[1:])
