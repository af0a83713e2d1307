"""The end of a round keeps nobody waiting: neither the draw of its dummies, nor another session that reads."""

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.collect.round_state import State, record
from shoal.collect.service import Service
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store
from shoal.errors import TryAgainError
from tests.collect.asgi import Front, reports
from tests.collect.database import Cluster
from tests.collect.life import opened_store
from tests.collect.model import watched
from tests.collect.running import PATIENCE
from tests.collect.world import World, make_dummies_world, make_exact_world, make_helped_world

psycopg = pytest.importorskip("psycopg")

_END = 60.0


def _add(store: Store, world: World, number: int, count: int = 2) -> None:
    store.add(number, [record(body) for body in world.junk(count)])


def test_reports_are_stored_while_dummies_are_drawn(place: str, tmp_path: Path) -> None:
    """The draw is over before the transaction begins, so that what comes meanwhile is in the same round."""
    world = make_dummies_world(tmp_path / "world")
    store = opened_store(place, world)
    _add(store, world, 1)
    drawn: list[int] = []

    def report(point: str) -> None:
        if point == "dummies drawn":
            _add(store, world, 1)
            drawn.append(len(store._drawn[1]))

    with watched(report):
        ended = store.close(_END)
    assert ended is not None and (ended.reports, ended.messages) == (4, 4 + drawn[0])
    assert len(drawn) == 1 and store._drawn == (0, [])
    store.shut()


def test_of_two_draws_for_a_round_one_is_committed(place: str, tmp_path: Path) -> None:
    """Two processes have drawn; the second finds the round ended, and forgets its own."""
    world = make_dummies_world(tmp_path / "world")
    stores = [opened_store(place, world) for _ in range(2)]
    _add(stores[0], world, 1, 5)
    for store in stores:
        store.draw(_END)
    draws = [{one.body for one in store._drawn[1]} for store in stores]
    assert draws[0] and draws[1] and not draws[0] & draws[1]
    ended = [store.close(_END, draw=False) for store in stores]
    assert [one is not None for one in ended] == [True, False]
    there = set(world.cut(b"".join(stores[1].bodies(1))))
    assert draws[0] < there and not draws[1] & there and len(there) == 5 + len(draws[0])
    stores[1].draw(_END)
    assert stores[1]._drawn == (0, [])
    for store in stores:
        store.shut()


def test_a_draw_waits_for_the_minimum_and_the_time(tmp_path: Path) -> None:
    world = make_dummies_world(tmp_path / "world", minimum=5)
    store = opened_store(tmp_path / "reports.db", world)
    _add(store, world, 1, 4)
    store.draw(_END)  # too few
    assert store._drawn == (0, [])
    _add(store, world, 1, 1)
    store.draw(_END - 1)  # too early
    assert store._drawn == (0, [])
    assert store.close(_END, draw=False) is None  # without a draw it does not end, and is not extended either
    assert store.current().closes == _END
    assert store.close(_END) is not None
    store.shut()


def test_a_service_answers_while_dummies_are_drawn(tmp_path: Path) -> None:
    """Reports, and questions that the thread of the store answers."""
    world = make_dummies_world(tmp_path / "world")
    store = opened_store(tmp_path / "reports.db", world)
    now = [0.0]
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=lambda: now[0])
    answered = threading.Event()

    def wait(point: str) -> None:
        if point == "dummies drawn":
            assert answered.wait(PATIENCE)

    with Front(Service(shuffler)) as front, watched(wait):
        for body in world.junk(2):
            assert front.public("POST", reports(world), body).status == 201
        now[0] = _END

        async def all_at_once() -> list[int]:
            ending = asyncio.create_task(front.service.close())
            await asyncio.sleep(0.05)
            asked = [await front.asked("POST", reports(world, number), world.junk(1)[0]) for number in (1, 2)]
            assert not ending.done()
            answered.set()
            await ending
            return [answer.status for answer in asked]

        assert front.run(all_at_once()) == [201, 409]
        assert [one.reports for one in shuffler.rounds()] == [3, None]


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Callable[[World], Any]]:
    """Return a function that begins a transaction which has read all tables of a task, as `pg_dump` does."""
    opened = []

    def read(world: World) -> Any:
        connection = psycopg.connect(cluster.url)
        opened.append(connection)
        schema = f"shoal_{world.task.id[:56]}"
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        assert len(names) == 5
        for (name,) in names:
            connection.execute(f"LOCK TABLE {schema}.{name} IN ACCESS SHARE MODE".encode())
        return connection

    yield read
    for connection in opened:
        connection.close()


def _tables(cluster: Cluster, world: World) -> set[str]:
    with psycopg.connect(cluster.url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        return {name for (name,) in connection.execute(query, (f"shoal_{world.task.id[:56]}",))}


@pytest.mark.parametrize("kind", ["dummies", "sealed", "discarded"])
def test_another_session_that_reads_keeps_nobody_waiting(
    kind: str, cluster: Cluster, reader: Callable[[World], Any], tmp_path: Path
) -> None:
    """The round ends, reports of the next one are stored, and PostgreSQL logs no error; the rest is done later."""
    world = (
        make_dummies_world(tmp_path / "world")
        if kind == "dummies"
        else make_exact_world(tmp_path / "world", minimum=2 if kind == "sealed" else 9, too_small="discard")
    )
    store = opened_store(cluster.url, world)
    store.add(1, [record(body, secrets.token_bytes(16)) for body in world.junk(3)])
    before, reading = len(cluster.log()), reader(world)
    ended = store.close(_END)
    assert ended is not None and ended.discarded == (kind == "discarded")
    _add(store, world, 2)
    keys = [one.token_key for one in store.rounds()]
    assert keys[0] is None and keys[1] is not None
    new = {"round", "seen", "token", "report_2", "tag_2"}
    assert _tables(cluster, world) == new | {"report_1", "tag_1"} | ({"report_1_1"} if kind == "dummies" else set())
    assert _keys(cluster, world) == 2
    if kind != "discarded":
        store.publish(1, b"manifest", lambda: None)
        store.acknowledge(1)
        with pytest.raises(TryAgainError, match="another process reads"):
            store.purge(1)
        assert store.rounds()[0].state == State.PURGED
    reading.rollback()
    store.close(_END)  # not due; what was left is removed
    assert _tables(cluster, world) == new and _keys(cluster, world) == 1
    assert store.current().token_key == keys[1]
    assert "ERROR" not in cluster.log()[before:]
    store.shut()


def test_a_purge_that_waits_for_another_session_is_no_reason_to_send_clients_away(
    cluster: Cluster, reader: Callable[[World], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reports are stored and rounds released as before, so that a balancer must not see the shuffler as not ready."""
    world = make_exact_world(tmp_path / "world")
    store = opened_store(cluster.url, world)
    now = [0.0]
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=lambda: now[0])
    with Front(Service(shuffler)) as front:
        _add(store, world, 1, world.task.minimum)
        reading = reader(world)
        now[0] = _END
        front.run(front.service.close())
        front.run(front.service.settle())
        shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
        for _ in range(3):
            front.run(front.service.settle())
        assert "traces of it are still in the database" in caplog.text
        assert front.public("GET", "/readyz").status == 200
        assert front.public("POST", reports(world, 2), world.junk(1)[0]).status == 201
        assert list(shuffler.batch_path(1).parent.glob("round-1.*"))
        reading.rollback()
        front.run(front.service.settle())
        assert not list((tmp_path / "batches").glob("round-1.*"))
    store.shut()


def test_a_delayed_purge_hides_no_release_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_exact_world(tmp_path / "world")
    store = opened_store(tmp_path / "reports.db", world)
    now = [0.0]
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=lambda: now[0])
    for number in (1, 2):
        _add(store, world, number, world.task.minimum)
        now[0] += _END
        assert shuffler.close() is not None
        if number == 1:
            shuffler.release(1)
            shuffler.acknowledge(1, shuffler.released(1)[1].sha256)

    def fails(error: Exception) -> Callable[[int], None]:
        def act(_: int) -> None:
            raise error

        return act

    monkeypatch.setattr(shuffler, "purge", fails(TryAgainError("another session reads")))
    monkeypatch.setattr(shuffler, "release", fails(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        shuffler.settle()
    store.shut()


def _keys(cluster: Cluster, world: World) -> int:
    with psycopg.connect(cluster.url) as connection:
        ((count,),) = connection.execute(f"SELECT count(*) FROM shoal_{world.task.id[:56]}.token".encode()).fetchall()
        return int(count)


def test_the_dummies_of_a_helper_while_another_session_reads(
    cluster: Cluster, reader: Callable[[World], Any], tmp_path: Path
) -> None:
    world = make_helped_world(tmp_path / "world", helpers=2)
    store = opened_store(cluster.url, world)
    _add(store, world, 1)
    reader(world)
    ended = store.close(_END)
    assert ended is not None and ended.messages is not None
    for helper in (0, 1):
        store.mix(1, helper, sorted(map(record, world.junk(7))))
    assert store.rounds()[0].messages == ended.messages + 14
    assert len(b"".join(store.bodies(1))) == (ended.messages + 14) * world.task.ciphertext_bytes
    assert {f"report_1{part}" for part in ("", "_1", "_2", "_3")} < _tables(cluster, world)
    store.shut()


def test_a_key_of_tokens_of_an_earlier_version_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    world = make_exact_world(tmp_path)
    store = opened_store(cluster.url, world)
    key = store.current().token_key
    with store._transaction() as database:
        database.execute("ALTER TABLE token DROP COLUMN round")
    store.shut()
    store = opened_store(cluster.url, world)
    assert key is not None and store.current().token_key == key
    store.shut()
