"""The store in PostgreSQL, against a server of our own, and beside the one in SQLite."""

import random
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shoal.cli import main
from shoal.collect.round_state import Record, Round, RoundClosedError, State, record
from shoal.collect.store import Store, StoreUnavailableError
from shoal.collect.stores import postgres
from shoal.collect.stores.postgres import PostgresStore
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import CollectError, MissingExtraError, ParameterError, StorageError, TryAgainError
from tests.collect.database import Cluster
from tests.collect.running import until
from tests.collect.world import World, make_exact_world
from tests.work import calls

_LENGTH = 64
Opened = Callable[[], PostgresStore]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path, replay_rounds=2, minimum=10)


@pytest.fixture
def opened(cluster: Cluster, world: World) -> Iterator[Opened]:
    """Return a function that opens the store of the task once more, as another process would."""
    stores: list[PostgresStore] = []

    def open_store() -> PostgresStore:
        stores.append(PostgresStore(cluster.url, world.task, now=0))
        return stores[-1]

    yield open_store
    for store in stores:
        store.shut()


@pytest.fixture
def tables(cluster: Cluster, world: World) -> Iterator["psycopg.Connection[Any]"]:
    """Lend a connection that looks at the tables from outside."""
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = shoal_{world.task.id[:56]}".encode())
        yield connection


def _some(count: int) -> list[Record]:
    return [record(random.randbytes(_LENGTH)) for _ in range(count)]


def _stored(store: Store, number: int) -> list[bytes]:
    whole = b"".join(store.bodies(number))
    return sorted(whole[place : place + _LENGTH] for place in range(0, len(whole), _LENGTH))


def _sealed(store: Store) -> Round:
    """End the open round, and return it."""
    ended = store.close(store.rounds()[-1].closes)
    assert ended is not None
    return ended


def _purged(store: Store, number: int) -> None:
    store.publish(number, b"manifest", lambda: None)
    store.acknowledge(number)

    def gone() -> bool:
        try:
            store.purge(number)
        except TryAgainError:  # another store reads the tables of the round
            return False
        return True

    until(gone, "a purge")


def _seen(store: Store) -> list[Round]:
    return [replace(one, token_key=None, seal=None) for one in store.rounds()]


@pytest.mark.slow
@pytest.mark.parametrize("too_small", ["extend", "discard"])
def test_it_does_what_the_store_in_a_file_does(
    too_small: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random steps, the same for both: uploads, replays, tokens used again, ends of rounds and all that follows."""
    monkeypatch.setattr(postgres, "_AT_ONCE", 7)
    task = make_exact_world(tmp_path, replay_rounds=2, minimum=20, too_small=too_small).task
    stores: list[Store] = [
        PostgresStore(cluster.socket_url, task, now=0),
        SqliteStore(tmp_path / "reports.db", task, now=0),
    ]
    dice, now = random.Random(6), 0.0
    bodies = [random.randbytes(_LENGTH) for _ in range(4000)]
    tags = [bytes([number] * 16) for number in range(40)]
    stored: defaultdict[int, list[bytes]] = defaultdict(list)

    def told(step: Callable[[Store], object]) -> list[object]:
        answers: list[object] = []
        for store in stores:
            try:
                answer = step(store)
                answers.append(replace(answer, seal=None) if isinstance(answer, Round) else answer)
            except CollectError as error:
                answers.append((type(error), str(error)))
        return answers

    for _ in range(240):
        number = dice.randint(1, len(stores[1].rounds()) + 1)
        kind = dice.choice(["add"] * 4 + ["known", "close", "publish", "acknowledge", "purge"])
        if kind == "add":
            newest = len(stores[1].rounds()) if dice.random() < 0.9 else number
            # A body may come in three rounds in a row, and that is the window.
            chosen = dice.choices(bodies[40 * newest : 40 * newest + 120], k=dice.randint(0, 25))
            group = [record(body, dice.choice(tags) if dice.random() < 0.3 else None) for body in chosen]
            answers = told(methodcaller("add", newest, group))
            stored[newest] += chosen
        elif kind == "known":
            digests = [record(body).digest for body in stored[number] for _ in range(2)] + [bytes(16)]
            answers = told(methodcaller("known", number, digests))
        elif kind == "close":
            now += dice.choice([-30, 10, 60, 60, 200])
            answers = told(methodcaller("close", now))
        elif kind == "publish":
            answers = told(methodcaller("publish", number, b"manifest", lambda: None))
        else:
            answers = told(methodcaller(kind, number))
        assert answers[0] == answers[1]
        assert _seen(stores[0]) == _seen(stores[1])
        assert all(store.current() == store.rounds()[-1] for store in stores)
    for one in stores[1].rounds():
        if one.state in (State.SEALED, State.READY, State.ACKED):
            assert _stored(stores[0], one.number) == _stored(stores[1], one.number)
            assert len(_stored(stores[0], one.number)) == one.reports
    states = {one.state for one in stores[1].rounds()}
    assert len(stores[1].rounds()) > 6 and State.PURGED in states and len(states) > 2
    for store in stores:
        store.shut()


@pytest.mark.slow
def test_a_body_sent_by_many_at_once_is_stored_once(opened: Opened) -> None:
    stores = [opened() for _ in range(4)]
    groups = [_some(9), _some(1) * 3]
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(stores[turn % 4].add, 1, groups[turn % 3 == 0]) for turn in range(100)]
        for one in sent:
            one.result()
    assert _sealed(stores[0]).reports == 10
    assert _stored(stores[1], 1) == sorted({one.body for group in groups for one in group})


@pytest.mark.slow
def test_a_round_ends_while_others_add_to_it(opened: Opened) -> None:
    """Three add without a pause and one ends rounds: what was taken is in its round, and what was refused nowhere."""
    taken: dict[int, list[bytes]] = {1: [], 2: [], 3: [], 4: []}
    refused: list[bytes] = []
    stores = [opened() for _ in range(4)]
    over = threading.Event()

    def keep_adding(store: PostgresStore) -> None:
        number = 1
        while not over.is_set():
            group = _some(20)
            try:
                store.add(number, group)
            except RoundClosedError:
                refused.extend(one.body for one in group)
                number += 1
            else:
                taken[number].extend(one.body for one in group)

    def enough(number: int) -> bool:
        assert not any(one.done() for one in adding)
        return len(taken[number]) >= 200

    with ThreadPoolExecutor(3) as pool:
        adding = [pool.submit(keep_adding, store) for store in stores[:3]]
        try:
            for number in range(1, 4):
                until(partial(enough, number), f"200 reports in round {number}")
                before = len(taken[number])
                assert _sealed(stores[3]).number == number
                # A hundred groups of each, on a machine that is busy: they don't keep it from the end.
                assert len(taken[number]) - before < 3 * 100 * 20
        finally:
            over.set()  # otherwise the pool would wait for them for ever
        for one in adding:
            one.result()
    last = _some(10)
    stores[3].add(4, last)
    taken[4].extend(one.body for one in last)
    assert _sealed(stores[3]).number == 4
    assert refused
    for number, bodies in taken.items():
        assert _stored(stores[3], number) == sorted(bodies)


@pytest.mark.slow
def test_who_waits_for_the_end_of_a_round_is_refused(opened: Opened, tables: "psycopg.Connection[Any]") -> None:
    """Another ends the round, and has not committed; who adds meanwhile must not go by what was before."""
    store = opened()
    store.add(1, _some(10))
    with ThreadPoolExecutor(1) as pool:
        with tables.transaction():
            tables.execute(postgres._ALONE, ("1",))
            adding = pool.submit(store.add, 1, _some(1))
            with pytest.raises(TimeoutError):
                adding.result(0.5)
            tables.execute("UPDATE round SET state = 'sealed', reports = 10 WHERE number = 1")
        with pytest.raises(RoundClosedError):
            adding.result()
    assert len(_stored(store, 1)) == 10


@pytest.mark.slow
def test_of_many_who_end_a_round_one_does(opened: Opened) -> None:
    stores = [opened() for _ in range(4)]
    stores[0].add(1, _some(10))
    with ThreadPoolExecutor(4) as pool:
        ended = [one for one in pool.map(lambda store: store.close(60), stores) if one is not None]
    assert [(one.number, one.state, one.reports) for one in ended] == [(1, State.SEALED, 10)]
    placed: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        published = list(pool.map(lambda store: store.publish(1, b"manifest", lambda: placed.append(1)), stores))
    assert sorted(published) == [False, False, False, True] and placed == [1]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda store: _purged(store, 1), stores))
    assert [one.state for one in stores[0].rounds()] == [State.PURGED, State.OPEN]


@pytest.mark.slow
def test_many_who_start_at_once_begin_one_round(cluster: Cluster, world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: PostgresStore(cluster.url, world.task, now=0), range(8)))
    rounds = [store.rounds() for store in stores]
    assert len(rounds[0]) == 1 and rounds == [rounds[0]] * 8
    for store in stores:
        store.shut()


@pytest.mark.slow
def test_a_lost_connection_is_made_again(opened: Opened, tables: "psycopg.Connection[Any]") -> None:
    store, group = opened(), _some(10)
    store.add(1, group[:5])
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query = 'COMMIT'"
    ended = tables.execute(others).fetchall()
    assert ended
    with pytest.raises(StoreUnavailableError):
        store.add(1, group[5:])
    store.add(1, group)
    assert _sealed(store).reports == 10


@pytest.mark.slow
def test_a_server_that_crashes_keeps_what_it_took(cluster: Cluster, opened: Opened) -> None:
    store, group = opened(), _some(10)
    store.add(1, group)
    cluster.stop(signal.SIGQUIT)
    try:
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                store.add(1, _some(1))
            with pytest.raises(StoreUnavailableError):
                store.rounds()
    finally:
        cluster.start()
    assert _sealed(store).reports == 10
    assert _stored(store, 1) == sorted(one.body for one in group)


@pytest.mark.slow
def test_neither_time_nor_order_of_arrival_is_kept(opened: Opened, tables: "psycopg.Connection[Any]") -> None:
    store = opened()
    groups = [_some(40) for _ in range(3)]
    for group in groups:
        store.add(1, group)
    rows = [body for (body,) in tables.execute("SELECT body FROM report_1 ORDER BY ctid")]
    assert rows == [one.body for group in groups for one in sorted(group)]
    digests = [digest for (digest,) in tables.execute("SELECT digest FROM seen ORDER BY ctid")]
    assert digests == [one.digest for group in groups for one in sorted(group)]
    kinds = {
        kind
        for (kind,) in tables.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_schema = current_schema()"
        )
    }
    assert kinds == {"bigint", "text", "double precision", "bytea", "boolean"}
    _sealed(store)
    whole = b"".join(store.bodies(1))
    assert whole == b"".join(sorted(rows))
    _purged(store, 1)
    left = tables.execute("SELECT digest, xmin::text FROM seen ORDER BY ctid").fetchall()
    assert len({transaction for _, transaction in left}) == 1
    assert [digest for digest, _ in left] == sorted(one.digest for group in groups for one in group)


@pytest.mark.slow
def test_the_key_of_tokens_is_gone_when_the_round_is_sealed(opened: Opened, tables: "psycopg.Connection[Any]") -> None:
    store = opened()
    store.add(1, [record(one.body, random.randbytes(16)) for one in _some(10)])
    (before,) = store.rounds()
    assert before.token_key is not None and len(before.token_key) == 32
    where = "SELECT pg_relation_filenode('token')"
    file = tables.execute(where).fetchone()
    _sealed(store)
    ended, following = store.rounds()
    assert ended.token_key is None
    assert following.token_key not in (None, before.token_key)
    assert tables.execute(where).fetchone() != file  # another file: the old one is not there any more
    assert tables.execute("SELECT to_regclass('tag_1')").fetchone() == (None,)


@pytest.mark.slow
def test_a_report_costs_few_calls(opened: Opened) -> None:
    """In groups of a thousand, so that this process can hand over 50,000 in a second."""
    store = opened()
    store.add(1, _some(1000))
    groups = [_some(1000) for _ in range(8)]
    with calls() as count:
        for group in groups:
            store.add(1, group)
    assert count() < 8000 * 20


@pytest.mark.slow
def test_rounds_purged_long_ago_are_not_listed(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "KEPT_ROUNDS", 2)
    store = opened()
    for number in range(1, 5):
        store.add(number, _some(10))
        _sealed(store)
        if number != 2:
            _purged(store, number)
    assert [one.number for one in store.rounds()] == [2, 4, 5]


@pytest.mark.slow
def test_two_tasks_share_a_database(opened: Opened, cluster: Cluster, tmp_path: Path) -> None:
    store, group = opened(), _some(10)
    other = PostgresStore(cluster.url, make_exact_world(tmp_path / "other").task, now=0)
    for one in (store, other):
        one.add(1, group)
        assert _sealed(one).reports == 10
    other.shut()


def test_what_is_wrong_is_told(cluster: Cluster, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = f"postgresql://nobody@127.0.0.1:{cluster.port}/postgres"
    kinds = {"postgresql://127.0.0.1:1/nothing": StorageError, stranger: StorageError, "junk": ParameterError}
    for url, kind in kinds.items():
        with pytest.raises(kind, match="cannot keep reports in PostgreSQL"):
            PostgresStore(url, world.task, now=0)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"shoal-dp\[postgres\]"):
        PostgresStore(cluster.url, world.task, now=0)


def test_rounds_end_by_the_clock_of_the_server(opened: Opened) -> None:
    """So that machines whose clocks differ agree."""
    before = time.time()
    assert before - 5 < opened().time() < time.time() + 5


@pytest.mark.parametrize(
    ("default", "setting", "ours"),
    [
        ("default_transaction_isolation%3Dserializable", "transaction_isolation", "read committed"),
        ("statement_timeout%3D5s", "statement_timeout", "0"),
    ],
)
def test_settings_are_our_own(cluster: Cluster, world: World, default: str, setting: str, ours: str) -> None:
    """A stale snapshot would count too few reports when a round ends; a statement that is cut off is logged."""
    url = f"{cluster.url}{'&' if '?' in cluster.url else '?'}options=-c%20{default}"
    store = PostgresStore(url, world.task, now=0)
    with store._transaction() as database:
        assert database.execute(f"SHOW {setting}".encode()).fetchone() == (ours,)
    store.shut()


def test_a_repeated_report_is_committed_like_a_new_one(opened: Opened, tables: "psycopg.Connection[Any]") -> None:
    """A commit that writes nothing is not forced to the disk, and its time would tell that nothing was new."""
    store, again = opened(), _some(1)
    store.add(1, again)
    written = [tables.execute("SELECT pg_current_wal_flush_lsn()").fetchone()]
    store.add(1, again)
    written.append(tables.execute("SELECT pg_current_wal_flush_lsn()").fetchone())
    assert written[0] != written[1]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["status", "seal", "purge"])
def test_looking_makes_nothing(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    world = make_exact_world(tmp_path)
    options = ["--task", str(world.task_path), "--folder", str(tmp_path / "rounds"), "--database", cluster.url]
    key = [] if verb == "status" else ["--key", str(world.shuffler["private_key"])]
    assert main(["shuffler", verb, *options, *key]) == 2
    assert "there are no rounds of this task in PostgreSQL; `shoal shuffler serve` begins" in capsys.readouterr().err
    with psycopg.connect(cluster.url) as database:
        name = f"shoal_{world.task.id[:56]}"
        assert database.execute("SELECT FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is None
    assert not (tmp_path / "rounds").exists()
