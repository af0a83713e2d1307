"""A shuffler that is killed, and one whose disk is full: nothing that was acknowledged is lost or released twice."""

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from shoal.collect import failpoint
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from tests.collect.life import released
from tests.collect.people import People, Puller, records_of
from tests.collect.running import Running, batches_in, until
from tests.collect.world import World, make_exact_world
from tests.exhaustive import EXHAUSTIVE

SEVERAL = ("between messages", "dummies drawn", "dummies stored")
"""Points of tasks with several messages, for which tests/collect/test_several_faults.py kills."""
HELPED = ("helper drawn", "helper kept", "helper mixed", "mix committed", "helper acknowledged")
"""Points of tasks with helpers, for which tests/collect/test_helper_faults.py kills."""
HUNTED = ("list stored", "list pinned", "list written")
"""Points of searches, for which tests/collect/test_heavy_hitter_faults.py kills."""
ALWAYS = [point for point in failpoint.POINTS if point not in (*SEVERAL, *HELPED, *HUNTED)]
# The points of the writer are reached many times a second, the others once a round.
KILLS = [
    *((point, times) for point in ALWAYS[:2] for times in (1, 2, 20, 57)),
    *((point, times) for point in ALWAYS[2:] for times in (1, 2)),
]
COMMITS = ("before commit", "dummies stored", "after seal", "after ack", "after purge")
"""Points on either side of a commit: what a kill leaves of these is decided by the database."""
RELAY = {"Authorization": "Bearer relay"}


def test_every_point_has_its_kills() -> None:
    assert len(KILLS) == 24
    assert {point for point, _ in KILLS} == set(failpoint.POINTS) - {*SEVERAL, *HELPED, *HUNTED}


def kills_in(place: str, kills: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the kills for a store: the last one at every point, and for PostgreSQL at each of `COMMITS` only.

    What happens at the other points is decided by the code of all stores. `make exhaustive` kills
    at all points on PostgreSQL, too, and several times at the points that requests pass often.
    """
    if EXHAUSTIVE:
        return kills
    return [(point, times) for point, times in dict(kills).items() if "://" not in place or point in COMMITS]


# Python forgets to close a socket whose other end dies before the first word of TLS.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_killed_at_every_point_under_load(place: str, tmp_path: Path) -> None:
    """The process is killed at each point, and every report that was acknowledged is released exactly once."""
    kills = kills_in(place, KILLS)
    world = make_exact_world(tmp_path, round_seconds=1)
    shuffler = Running(world, place, tmp_path / "batches", tmp_path / "run")
    with shuffler.start(*kills[0]):
        people = People(shuffler, threads=12)
        puller = Puller(shuffler, tmp_path / "pulled")
        shuffler.wait_killed()
        for point, times in kills[1:]:
            shuffler.start(point, times)
            shuffler.wait_killed()
        shuffler.start()
        people.finish()
        last = shuffler.round()
        fillers = world.junk(2)  # the last round must not stay too small
        for filler in fillers:
            assert shuffler.upload(last, filler).status in (201, 409)
        until(lambda: last in puller.acknowledged, "the last round")
        puller.stop()
        shuffler.stop()
    released = Counter(record for batch in puller.pulled.values() for record in records_of(batch))
    assert not puller.trouble
    assert people.statuses[0] > len(kills) - 2  # answers that were lost
    assert max(released.values()) == 1
    assert not set(people.acknowledged) - set(released)
    assert not set(released) - set(people.acknowledged) - set(people.given_up) - set(fillers)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Lend a disk of so many bytes."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk has to be mounted, and that is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(random.randbytes(4096))


def _released_later(world: World, database: Path, folder: Path) -> Counter[bytes]:
    """Return what a shuffler releases from this database, once the round is over."""
    store = SqliteStore(database, world.task, now=time.time())
    later = time.time() + 2 * world.task.round_seconds
    shuffler = Shuffler(world.task, store, folder, world.shuffler_key, clock=lambda: later)
    try:
        ended = shuffler.close()
        assert ended is not None
        shuffler.release(ended.number)
        return Counter(released(shuffler, ended.number))
    finally:
        shuffler.shut()


@pytest.mark.slow
def test_full_disk_under_load(tmp_path: Path) -> None:
    """Nobody gets an acknowledgement that is not true, nobody waits, and the process lives and ends as it should."""
    world = make_exact_world(tmp_path, round_seconds=3600)
    with small_disk(tmp_path / "disk", "8m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(random.randbytes(3 << 20))
        shuffler = Running(world, disk / "reports.db", tmp_path / "batches", tmp_path / "run", relays=["relay"])
        with shuffler:
            first = People(shuffler, threads=6, pause=0, bulk=50, token="relay")
            until(lambda: first.statuses[503] >= 30, "a full disk")
            assert shuffler.alive
            until(lambda: not shuffler.ready(), "a warning on /readyz")
            first.cease()
            ballast.unlink()
            until(shuffler.ready, "an all-clear on /readyz, though nobody sends")
            second = People(shuffler, threads=6, pause=0, bulk=50, token="relay")
            until(lambda: second.statuses[201] >= 20, "reports that are stored again")
            _fill(ballast)
            until(lambda: second.statuses[503] >= 30, "a full disk again")
            shuffler.stop()
            second.cease()
        for answer in first.refusals + second.refusals:
            assert answer.status == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
        ballast.unlink()
        found = _released_later(world, disk / "reports.db", tmp_path / "batches")
    acknowledged = first.reports() + second.reports()
    assert len(acknowledged) > 1000
    assert max(found.values()) == 1
    assert not set(acknowledged) - set(found)


@pytest.mark.slow
def test_started_on_a_full_disk(tmp_path: Path) -> None:
    """It starts nevertheless, so that people are told to come back, and nothing is lost."""
    world = make_exact_world(tmp_path, round_seconds=3600)
    with small_disk(tmp_path / "disk", "16m") as disk:
        database, ballast = disk / "reports.db", disk / "ballast"
        shuffler = Running(world, database, tmp_path / "batches", tmp_path / "run", relays=["relay"])
        with shuffler:
            people = People(shuffler, threads=2, pause=0, bulk=50, token="relay")
            until(lambda: people.statuses[201] >= 50, "some reports")
            people.cease()
            shuffler.kill()  # so that all is still in the log
            _fill(ballast)
            shuffler.start()
            assert shuffler.upload(1, world.junk(1)[0]).status in (201, 503)  # there may be room for one in its log
            assert "Traceback" not in shuffler.log.read_text()
            shuffler.kill()
            ballast.unlink()
            shuffler.start()
            assert shuffler.upload(1, world.junk(1)[0]).status == 201
            shuffler.stop()
        found = _released_later(world, database, tmp_path / "batches")
    assert max(found.values()) == 1
    assert not set(people.reports()) - set(found)


@pytest.mark.slow
def test_full_disk_at_release(tmp_path: Path) -> None:
    """A batch that does not fit is not released in part; smaller rounds go on, and it is released once it fits."""
    world = make_exact_world(tmp_path, round_seconds=1, minimum=1000)
    large, small = world.junk(4000), world.junk(1000)
    with small_disk(tmp_path / "batches", "200k") as batches:
        shuffler = Running(world, tmp_path / "reports.db", batches, tmp_path / "run", relays=["relay"])
        with shuffler:
            assert shuffler.upload(1, b"".join(large), RELAY).status == 201
            until(lambda: not shuffler.ready(), "a release that fails")
            assert shuffler.rounds()[1]["state"] == "sealed"
            root = f"/v1/tasks/{world.task.id}/rounds/1"
            with shuffler.analyst() as connection:
                for path in ("manifest", "batch"):
                    assert connection.request("GET", f"{root}/{path}").status == 409
            assert shuffler.upload(2, b"".join(small), RELAY).status == 201
            puller = Puller(shuffler, tmp_path / "pulled")
            until(lambda: 2 in puller.acknowledged, "the small round")
            assert not shuffler.ready()
            until(lambda: not batches_in(batches), "nothing left of the attempts")
            subprocess.run(["mount", "-o", "remount,size=4m", str(batches)], check=True)
            until(lambda: 1 in puller.acknowledged, "the large round")
            until(shuffler.ready, "an all-clear on /readyz")
            puller.stop()
            shuffler.stop()
    assert not puller.trouble
    assert Counter(records_of(puller.pulled[1])) == Counter(large)
    assert Counter(records_of(puller.pulled[2])) == Counter(small)


@pytest.mark.slow
def test_full_disk_at_purge(tmp_path: Path) -> None:
    """What can't be deleted for now is deleted later, and is not said to be deleted before."""
    world = make_exact_world(tmp_path, round_seconds=1, minimum=4000)
    sent = world.junk(4000)
    with small_disk(tmp_path / "disk", "8m") as disk:
        database = disk / "reports.db"
        shuffler = Running(world, database, tmp_path / "batches", tmp_path / "run", relays=["relay"])
        with shuffler:
            assert shuffler.upload(1, b"".join(sent), RELAY).status == 201
            until(lambda: shuffler.rounds().get(1, {}).get("state") == "ready", "a release")
            # Room for the word that it was acknowledged, and not for the deletion, which writes all anew.
            ballast = disk / "ballast"
            _fill(ballast)
            os.truncate(ballast, ballast.stat().st_size - (64 << 10))
            puller = Puller(shuffler, tmp_path / "pulled")
            until(lambda: 1 in puller.acknowledged and not shuffler.ready(), "a purge that fails")
            assert shuffler.rounds()[1]["state"] == "acked"
            ballast.unlink()
            until(lambda: shuffler.rounds()[1]["state"] == "purged", "a purge")
            until(shuffler.ready, "an all-clear on /readyz")
            puller.stop()
            left = b"".join(path.read_bytes() for path in (database, Path(f"{database}-wal")))
            assert not [body for body in sent if body[:16] in left]
            shuffler.stop()
    assert Counter(records_of(puller.pulled[1])) == Counter(sent)
