"""One report too few is refused by every verb and in every state; and one more releases nothing before the time."""

import io
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.collect.batch import Manifest, write_batch
from shoal.collect.round_state import State, record
from shoal.collect.shuffler import Shuffler
from shoal.errors import CollectError, DamagedError, ShoalError
from tests.collect.life import Lives
from tests.collect.running import Running, store_in, until
from tests.collect.world import World, make_exact_world

HOUR = 3600
MINIMUM = 20


def _verbs(shuffler: Shuffler) -> list[Callable[[], object]]:
    """Return all that could hand over round 1, or end its protection."""
    return [
        lambda: shuffler.release(1),
        lambda: shuffler.released(1),
        lambda: shuffler.open_batch(1),
        lambda: shuffler.acknowledge(1, "0" * 64),
        lambda: shuffler.purge(1),
    ]


def _refused(shuffler: Shuffler, folder: Path) -> bool:
    for verb in _verbs(shuffler):
        with pytest.raises(ShoalError):
            verb()
    return not list(folder.iterdir())


@pytest.mark.slow
def test_one_too_few_is_extended(place: str, live: Lives, tmp_path: Path) -> None:
    """It is not sealed however often its time comes; the missing one seals it when the time comes next, not before."""
    life = live(make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM), place)
    shuffler, folder = life.shuffler, life.folder
    twice = life.world.junk(MINIMUM - 1)
    for _ in range(3):  # repetitions do not count
        life.add(twice)
    closes = shuffler.current().closes
    for _ in range(3):
        life.now = closes
        shuffler.tick()
        assert shuffler.current().number == 1
        assert shuffler.current().closes == closes + HOUR
        assert shuffler.current().reports is None
        assert _refused(shuffler, folder)
        closes += HOUR
    life.add(life.world.junk(1))
    for moment in (life.now, closes - 1, closes - 0.001):
        life.now = moment
        shuffler.tick()
        assert shuffler.current().number == 1
        assert _refused(shuffler, folder)
    life.now = closes
    shuffler.tick()
    assert shuffler.released(1)[1].reports == MINIMUM


@pytest.mark.slow
def test_one_too_few_is_discarded(place: str, live: Lives, tmp_path: Path) -> None:
    life = live(make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM, too_small="discard"), place)
    shuffler, folder = life.shuffler, life.folder
    life.add(life.world.junk(MINIMUM - 1))
    assert _refused(shuffler, folder)
    life.now = shuffler.current().closes
    shuffler.tick()
    first = shuffler.rounds()[0]
    assert (first.state, first.discarded, first.reports, first.manifest) == (State.PURGED, True, None, None)
    for verb in _verbs(shuffler)[:4]:
        with pytest.raises(CollectError):
            verb()
    assert not list(folder.iterdir())
    # The next one does not inherit what was thrown away.
    life.add(life.world.junk(1), 2)
    life.now = shuffler.current().closes
    shuffler.tick()
    assert shuffler.rounds()[1].discarded


def _tamper(place: str, task_id: str, state: State, reports: int, manifest: bytes | None) -> None:
    """Write a state into the database that no shuffler would."""
    if "://" not in place:
        with sqlite3.connect(place) as database:
            database.execute("UPDATE round SET state = ?, reports = ?, manifest = ?", (state, reports, manifest))
        database.close()
        return
    import psycopg

    with psycopg.connect(place) as other:
        other.execute(
            f"UPDATE shoal_{task_id[:56]}.round SET state = %s, reports = %s, manifest = %s".encode(),
            (state, reports, manifest),
        )


def test_one_too_few_in_every_state(place: str, tmp_path: Path) -> None:
    """Even if the database says that the round is sealed, ready or acknowledged, nothing is handed over."""
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM)
    folder = tmp_path / "batches"
    signed = _signed(world, MINIMUM - 1)
    shuffler = Shuffler(world.task, store_in(place, world.task), folder, world.shuffler_key)
    shuffler.accept(1, [record(body) for body in world.junk(MINIMUM - 1)])
    (folder / "round-1.batch").write_bytes(b"a batch that nobody may have")
    for state, reports, manifest in (
        (State.SEALED, MINIMUM - 1, None),
        (State.SEALED, MINIMUM, None),  # one more than there are
        (State.SEALED, MINIMUM - 2, None),
        (State.READY, MINIMUM - 1, signed),
        (State.READY, MINIMUM - 1, None),
        (State.ACKED, MINIMUM - 1, signed),
    ):
        _tamper(place, world.task.id, state, reports, manifest)
        for verb in _verbs(shuffler)[:4]:
            with pytest.raises(ShoalError):
                verb()
        assert [path.name for path in folder.iterdir()] == ["round-1.batch"]
    shuffler.shut()


def _signed(world: World, reports: int) -> bytes:
    made = Manifest(
        task=world.task.id, round=1, reports=reports, record_bytes=world.task.ciphertext_bytes, sha256="0" * 64
    )
    return made.signed(world.shuffler_key)


def test_batch_and_manifest_of_one_too_few(tmp_path: Path) -> None:
    """It can't be written, and if a shuffler signs it nevertheless, the analyst does not take it."""
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM)
    file = io.BytesIO()
    with pytest.raises(CollectError, match="fewer than the minimum"):
        write_batch(file, world.task, 1, MINIMUM - 1, world.junk(MINIMUM - 1))
    with pytest.raises(DamagedError, match="was said to have"):
        write_batch(file, world.task, 1, MINIMUM, world.junk(MINIMUM - 1))
    with pytest.raises(CollectError, match="has not kept its promise"):
        Manifest.verified(_signed(world, MINIMUM - 1), world.task, 1)
    assert Manifest.verified(_signed(world, MINIMUM), world.task, 1).reports == MINIMUM


def test_store_places_no_batch_of_an_open_round(tmp_path: Path) -> None:
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM)
    store = store_in(str(tmp_path / "reports.db"), world.task)
    placed: list[bool] = []
    assert not store.publish(1, b"{}", lambda: placed.append(True))
    assert not placed
    store.acknowledge(1)
    store.purge(1)
    assert [one.state for one in store.rounds()] == [State.OPEN]
    store.shut()


@pytest.mark.slow
def test_one_too_few_on_the_wire(tmp_path: Path) -> None:
    """Seconds pass, and nothing is listed, released or acknowledged until the last report and the time come."""
    world = make_exact_world(tmp_path, round_seconds=1, minimum=MINIMUM)
    root = f"/v1/tasks/{world.task.id}/rounds"
    relay = {"Authorization": "Bearer relay"}
    batches = tmp_path / "batches"
    with Running(world, tmp_path / "reports.db", batches, tmp_path / "run", relays=["relay"]) as shuffler:
        assert shuffler.upload(1, b"".join(world.junk(MINIMUM - 1)), relay).status == 201
        closes = shuffler.closes()
        until(lambda: shuffler.closes() > closes + 1.5, "a round that is extended twice")
        with shuffler.analyst() as connection:
            assert shuffler.rounds() == {}
            for number in (1, 2):
                assert connection.request("GET", f"{root}/{number}/manifest").status == 409
                assert connection.request("GET", f"{root}/{number}/batch").status == 409
                assert connection.request("POST", f"{root}/{number}/ack", b"0" * 64).status == 409
            # These are not the public's business at all.
            for path in (root, f"{root}/1/manifest", f"{root}/1/batch"):
                with shuffler.line() as line:
                    assert line.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).status == 404
        assert not list(batches.iterdir())
        assert shuffler.upload(1, world.junk(1)[0]).status == 201
        until(lambda: shuffler.rounds().get(1, {}).get("state") == "ready", "a release")
        assert shuffler.rounds()[1]["reports"] == MINIMUM
        shuffler.stop()


@pytest.mark.slow
def test_nobody_is_flushed_out(tmp_path: Path) -> None:
    """Whoever sends all that is missing, and far more, gets nothing before the round is over, and learns no number."""
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=MINIMUM)
    relay = {"Authorization": "Bearer relay"}
    with Running(world, tmp_path / "reports.db", tmp_path / "batches", tmp_path / "run", relays=["relay"]) as shuffler:
        before = shuffler.ask(f"/v1/tasks/{world.task.id}/round").body
        assert shuffler.upload(1, world.junk(1)[0]).status == 201
        assert shuffler.upload(1, b"".join(world.junk(50 * MINIMUM)), relay).status == 201
        end = time.monotonic() + 1.6  # three ticks of the clock
        while time.monotonic() < end:
            assert shuffler.rounds() == {}
            assert shuffler.ask(f"/v1/tasks/{world.task.id}/round").body == before
            time.sleep(0.1)
        assert not list((tmp_path / "batches").iterdir())
        shuffler.stop()
