"""PostgreSQL's own log, as it is set up by default: nothing that a client sends may leave a line there."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shoal.collect.round_state import Record, RoundClosedError, record
from shoal.collect.service import Service
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.postgres import PostgresStore
from tests.collect.asgi import Clock, Front, root, tokens
from tests.collect.database import Cluster
from tests.collect.world import World, make_exact_world

_PATIENCE = 60.0


class _Log:
    """What the server has said since this was made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._before = cluster, len(cluster.log())

    def lines(self) -> list[str]:
        """Return the new lines; that the server moves its own log to the disk now and then, nobody asked for."""
        return [line for line in self._cluster.log()[self._before :].splitlines() if " LOG:  checkpoint " not in line]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path, replay_rounds=2, minimum=10)


def _some(world: World, count: int, *, tagged: bool = False) -> list[Record]:
    tag = random.randbytes if tagged else lambda _: None
    return [record(random.randbytes(world.task.ciphertext_bytes), tag(16)) for _ in range(count)]


def test_the_log_is_the_one_that_everybody_has(cluster: Cluster) -> None:
    """If errors were not logged here, the tests below would say nothing."""
    log = _Log(cluster)
    with psycopg.connect(cluster.url, autocommit=True) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT FROM nothing_of_this_name")
    assert any("STATEMENT:  SELECT FROM nothing_of_this_name" in line for line in log.lines())


@pytest.fixture
def front(cluster: Cluster, world: World, tmp_path: Path) -> Iterator[Front]:
    """Lend a service over PostgreSQL, with three tokens, whose first round was purged and whose second one is ready."""
    clock = Clock()
    store = PostgresStore(cluster.url, world.task, now=clock())
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=clock)
    for number in (1, 2):
        store.add(number, _some(world, 12))
        clock.now += 60
        shuffler.tick()
    shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
    shuffler.tick()
    with Front(Service(shuffler, tokens("anna bert carl", "relay"))) as made:
        yield made


@pytest.mark.slow
def test_no_request_leaves_a_line(front: Front, world: World, cluster: Cluster) -> None:
    log, size = _Log(cluster), world.task.ciphertext_bytes
    body = random.randbytes(size)
    numbers = (0, 1, 2, 3, 4, 17, 32767, 32768, 2**31 - 1, 2**31, 2**32, 10**17, 10**18 - 1)
    odd = ("-1", "1e3", "3.0", "03", "000000000000000003", "1" * 19, "9" * 400, "3\x00", "٣", "3;", "'", "")
    bodies = (
        b"",
        b"\0" * size,
        body,
        body[:-1],
        body * 2,
        body * 1000,
        random.randbytes(size * 70),
        b"\xff" * (1 << 17),
    )
    statuses = set()
    for number in (*map(str, numbers), *odd):
        for sent in bodies:
            for token in (None, "anna", "relay", "nobody"):
                path = f"{root(world)}/rounds/{number}/reports"
                statuses.add(front.public("POST", path, sent, token).status)
    for other in ("", "/round", "/rounds", "/rounds/1/manifest", "/rounds/7/batch", "/rounds/2/ack", "/\0", "/'"):
        for method in ("GET", "POST", "PUT"):
            statuses.add(front.public(method, root(world) + other, body).status)
    assert {201, 400, 401, 404, 405, 409, 413} <= statuses and 500 not in statuses and 503 not in statuses
    assert log.lines() == []


@pytest.mark.slow
@pytest.mark.parametrize("too_small", ["extend", "discard"])
def test_a_report_that_waits_while_its_round_ends(
    too_small: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen the round open, and the tables are gone when its turn comes."""
    world = make_exact_world(tmp_path, minimum=10, too_small=too_small)
    one, other = (PostgresStore(cluster.url, world.task, now=0) for _ in range(2))
    one.add(1, _some(world, 9 if too_small == "discard" else 11))
    log, ending, waited = _Log(cluster), threading.Event(), threading.Event()
    begin = PostgresStore._begin

    def slowly(self: PostgresStore, database: Any, number: int, closes: float) -> None:
        ending.set()
        assert waited.wait(_PATIENCE)
        begin(self, database, number, closes)

    monkeypatch.setattr(PostgresStore, "_begin", slowly)
    with ThreadPoolExecutor(2) as pool:
        closing = pool.submit(one.close, 60.0)
        assert ending.wait(_PATIENCE)
        late = pool.submit(other.add, 1, _some(world, 1, tagged=True))
        with pytest.raises(TimeoutError):
            late.result(0.5)
        waited.set()
        ended = closing.result(_PATIENCE)
        assert ended is not None and ended.discarded == (too_small == "discard")
        with pytest.raises(RoundClosedError):
            late.result(_PATIENCE)
    monkeypatch.undo()
    for store in (one, other):
        store.shut()
    assert log.lines() == []


@pytest.mark.slow
def test_the_same_reports_and_tokens_from_all_sides_while_rounds_end(cluster: Cluster, tmp_path: Path) -> None:
    world = make_exact_world(tmp_path, minimum=10, too_small="discard", replay_rounds=1)
    log, over = _Log(cluster), threading.Event()
    some = _some(world, 60, tagged=True)
    keeper = PostgresStore(cluster.url, world.task, now=0)
    taken = [0, 0, 0]

    def send(place: int) -> None:
        store = PostgresStore(cluster.url, world.task, now=0)
        mine = some if place else some[::-1]
        while not over.is_set():
            for number in (keeper_round[0], keeper_round[0] - 1, keeper_round[0] + 1):
                try:
                    store.add(number, mine[: 5 + taken[place] % 50])
                    taken[place] += 1
                except RoundClosedError:
                    pass
        store.shut()

    keeper_round = [1]
    with ThreadPoolExecutor(3) as pool:
        sending = [pool.submit(send, place) for place in range(3)]
        try:
            for number in range(1, 13):
                ended = keeper.close(60.0 * number)
                keeper_round[0] = keeper.rounds()[-1].number
                if ended is not None and not ended.discarded:
                    keeper.publish(ended.number, b"manifest", lambda: None)
                    keeper.acknowledge(ended.number)
                    keeper.purge(ended.number)
                over.wait(0.1)
        finally:
            over.set()  # otherwise the pool would wait for them for ever
        for one in sending:
            one.result(_PATIENCE)
    keeper.shut()
    assert all(taken)
    assert log.lines() == []
