"""Dummies become rows like any other when a round is sealed, and nothing tells them from the messages of people."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from shoal.collect.analyst import Analyst
from shoal.collect.round_state import State
from shoal.collect.task import Task
from shoal.errors import DamagedError, ParameterError
from shoal.mechanisms import Covered, Dummies
from tests.collect.database import Cluster
from tests.collect.life import Life, Lives
from tests.collect.world import World, make_covered_world, make_dummies_world, make_world
from tests.recipes.json_store import JsonStore

HOUR = 3600.0
ALARM = 1e-8


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_dummies_world(tmp_path / "world")


def _sealed(life: Life, bodies: Sequence[bytes]) -> Life:
    """End the first round with these reports, each in a group of its own."""
    for body in bodies:
        life.add([body])
    ended = life.seal()
    assert ended.state == State.SEALED and ended.reports == len(bodies)
    return life


@pytest.mark.slow
def test_they_are_drawn_when_the_round_is_sealed_and_released_with_it(world: World, place: str, live: Lives) -> None:
    bodies = world.bundles([0, 1, 1, 2, 2, 2])
    life = _sealed(live(world, place), bodies)
    (sealed, _) = life.shuffler.rounds()
    assert (sealed.reports, sealed.messages) == (6, sealed.records)
    stored, released = life.stored(), life.released()
    assert sorted(released) == stored and len(set(stored)) == len(stored)
    assert set(bodies) < set(released) and len(released) == sealed.records <= 6 + 162


@pytest.mark.parametrize("too_small", ["extend", "discard"])
def test_a_round_that_goes_on_or_is_discarded_has_none(place: str, live: Lives, tmp_path: Path, too_small: str) -> None:
    life = live(make_dummies_world(tmp_path / "world", too_small=too_small, minimum=5), place)
    life.add(life.world.bundles([0, 1]))
    life.now = HOUR
    life.shuffler.close()
    first, *_ = life.shuffler.rounds()
    assert (first.reports, first.messages, first.discarded) == (None, None, too_small == "discard")
    if too_small == "extend":
        with life.store._transaction() as database:
            assert life.store._counted(database, 1) == 2


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [20_000, 5])
def test_where_they_are_in_the_file_says_nothing(
    tmp_path: Path, live: Lives, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is written anew with them, in a round that is rewritten in parts too.

    Within a page cells are written downward, so that what came last would be lowest, as long as the page is not split.
    """
    monkeypatch.setattr("shoal.collect.stores.sqlite._REWRITTEN", at_once)
    mechanism = Dummies(categories=3, epsilon=1, limit=3)
    scores = []
    for place in range(8):
        world = make_dummies_world(tmp_path / f"world {place}", mechanism=mechanism, delta=0.5)
        path, bodies = tmp_path / f"{place}.db", world.junk(25)
        life = _sealed(live(world, path, tmp_path / f"batches {place}"), bodies)
        dummies = [body for body in life.released() if body not in bodies]
        with closing(sqlite3.connect(path)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            assert tables == {"task", "round", "report", "turn", "tag"}
            columns = [name for _, name, *_ in database.execute("PRAGMA table_info(report)")]
            assert columns == ["round", "digest", "body"]
        data = path.read_bytes()
        ranks = rankdata([data.index(body) for body in (*dummies, *bodies)])
        few, total = len(dummies), len(ranks)
        scores.append((ranks[:few].sum() - few * (total + 1) / 2, few * (total - few) * (total + 1) / 12))
    difference, variance = np.sum(scores, axis=0)
    assert abs(difference) < norm.isf(ALARM / 2) * variance**0.5


def test_postgres_has_all_rows_from_one_transaction(world: World, cluster: Cluster, live: Lives) -> None:
    psycopg = pytest.importorskip("psycopg")
    life = _sealed(live(world, cluster.url), world.bundles([0] * 20))
    with psycopg.connect(cluster.url) as database:
        database.execute(f"SET search_path = shoal_{world.task.id[:56]}")
        for table, where in (("report_1_1", ""), ("seen", "WHERE round = 1")):
            rows = database.execute(f"SELECT xmin::text FROM {table} {where} ORDER BY ctid").fetchall()
            assert len(rows) == life.shuffler.rounds()[0].records and len(set(rows)) == 1
        for table, column in (("report_1_1", "body"), ("seen", "digest")):
            found = [value for (value,) in database.execute(f"SELECT {column} FROM {table} ORDER BY ctid")]
            assert found == sorted(found)
        names = database.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        ).fetchall()
        assert {name for (name,) in names} == {"round", "seen", "token", "report_1_1", "report_2", "tag_2"}


@pytest.mark.slow
def test_the_analyst_subtracts_their_mean(live: Lives, tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", mechanism=Dummies(categories=3, epsilon=1, limit=27), minimum=100)
    values = np.repeat([0, 1, 2], [60, 40, 20])
    shuffler = _sealed(live(world), [*world.bundles(values), *world.junk(3)]).shuffler
    shuffler.release(1)
    analyst = Analyst(tmp_path / "work", world.task)
    (tmp_path / "work/batches/1.batch").write_bytes(shuffler.batch_path(1).read_bytes())
    (tmp_path / "work/batches/1.manifest").write_bytes(shuffler.released(1)[0])
    tally = analyst.count(1, world.analyst_key, 1)
    assert (tally.received, tally.undecryptable, tally.valid) == (123, 3, 120)
    result = analyst.result(1)
    assert np.all(np.abs(result.estimate.frequencies * 120 - [60, 40, 20]) <= 27)
    assert result.epsilon <= 1 and result.bound == "dummies"
    assert "has added dummies to this round once, and has forgotten how many" in result.holds
    assert "If shuffler and analyst collude, what remains is nothing" in result.holds


@pytest.mark.parametrize("make", [make_covered_world, make_dummies_world])
def test_a_sealed_round_that_lost_a_message_is_not_released(
    make: Callable[[Path], World], live: Lives, tmp_path: Path
) -> None:
    """A bundle without one of its messages hides less, and dummies must neither be missing nor be drawn again."""
    world = make(tmp_path / "world")
    shuffler = _sealed(live(world), world.bundles([0, 1] * 5)).shuffler
    with closing(sqlite3.connect(tmp_path / "shuffler.db")) as database, database:
        database.execute("DELETE FROM report WHERE digest = (SELECT min(digest) FROM report)")
    with pytest.raises(DamagedError, match="was said to have"):
        shuffler.settle()
    assert shuffler.rounds()[0].state == State.SEALED and not list((tmp_path / "batches").glob("*.batch"))


def test_a_store_that_does_not_know_of_them_refuses(tmp_path: Path) -> None:
    for make in (make_dummies_world, make_covered_world):
        with pytest.raises(ParameterError, match="keeps one message a person and no dummies"):
            JsonStore(tmp_path / "store.json", make(tmp_path / make.__name__).task, now=0.0)


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        (Dummies(categories=3, epsilon=1, limit=27, helpers=2), "public keys of 2 helpers, or of 1 if the shuffler"),
        (Dummies(categories=10_000, epsilon=1, limit=27), "more than the 100,000 that a shuffler seals at once"),
        (Dummies(categories=3, epsilon=1.5, limit=27), "no number of reports does"),
        (Dummies(categories=3, epsilon=1, limit=10), "no number of reports does"),
        (Covered(categories=3, slots=1, fill=1), "fill must be below 1 in a task"),
        (Covered(categories=100, slots=1, fill=0.1361), "it takes at least minimum="),
    ],
)
def test_tasks_that_are_refused(mechanism: Dummies | Covered, why: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=why):
        make_world(tmp_path, mechanism=mechanism)


def test_the_fewest_people_of_covers_are_advised(tmp_path: Path) -> None:
    """One less is refused, and so it is if one more may be a fake."""
    fields = {"mechanism": Covered(categories=10, slots=1, fill=0.5), "malicious": 7}
    with pytest.raises(ParameterError, match="minimum=") as refused:
        make_world(tmp_path / "few", **fields, minimum=9)
    least = int(str(refused.value).rsplit("minimum=", 1)[1].replace(",", ""))
    task = make_world(tmp_path / "enough", **fields, minimum=least).task
    assert task.central(least).epsilon(task.delta) <= 1 < task.central(least - 1).epsilon(task.delta)
    with pytest.raises(ParameterError):
        make_world(tmp_path / "one-less", **fields, minimum=least - 1)
    assert Task.from_bytes(task.to_bytes(), pinned=task.id) == task


def test_dummies_are_no_bundle(world: World) -> None:
    assert world.task.bundle_bytes == world.task.ciphertext_bytes == 64
    assert world.task.fits(5, 5) and world.task.fits(5, 167)
    assert not world.task.fits(5, 168) and not world.task.fits(5, 4)
