"""The order of arrival is in nothing that the shuffler keeps or releases.

A test raises a false alarm with probability at most 1e-6: it asks for 1e-8 under the limiting distribution, which is
near enough at these numbers.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm, rankdata

from shoal.collect.round_state import record
from shoal.collect.stores.sqlite import SqliteStore
from shoal.shuffling import shuffled_records
from tests.collect.life import Life, Lives
from tests.collect.world import World, make_exact_world
from tests.exhaustive import amount

ALARM = 1e-8
HOUR = 3600
CELLS = list(permutations(range(4)))


def _unshuffled(
    blocks: Iterator[NDArray[np.uint8]], total: int, length: int, beside: Path, stack: ExitStack
) -> Iterator[bytes]:
    """Yield records as the store has them: what the tests must notice."""
    return (block.tobytes() for block in blocks)


def _rounds(
    world: World, place: str, folder: Path, arrivals: Iterator[list[bytes]]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield the reports of each round as they came, one after the other, and as they were released."""
    life = Life(world, place, folder)
    for number, bodies in enumerate(arrivals, 1):
        for body in bodies:
            life.add([body], number)
        life.seal()
        yield bodies, life.released(number)
    life.stop()


def _places(order: Sequence[bytes], among: Sequence[bytes]) -> tuple[int, ...]:
    """Return where each of these is among those."""
    found = {body: place for place, body in enumerate(among)}
    return tuple(found[body] for body in order)


def _by_digest(bodies: Sequence[bytes]) -> list[bytes]:
    return sorted(bodies, key=lambda body: record(body).digest)


def _uneven(seen: Counter[tuple[int, ...]]) -> bool:
    """Return whether the orders of four are not equally likely."""
    expected = seen.total() / len(CELLS)
    statistic = sum((seen[cell] - expected) ** 2 / expected for cell in CELLS)
    return bool(statistic > chi2.isf(ALARM, len(CELLS) - 1))


def _correlated(places: Sequence[int]) -> bool:
    """Return whether places go with, or against, the order that they are listed in: Spearman's rank correlation."""
    correlation = np.corrcoef(np.arange(len(places)), rankdata(places))[0, 1]
    return bool(abs(correlation) * np.sqrt(len(places) - 1) > norm.isf(ALARM / 2))


@pytest.mark.slow
def test_rank_correlation_of_arrival_and_release(place: str, live: Lives, tmp_path: Path) -> None:
    """Among thousands of reports, neither arrival nor what the store goes by tells the place in the release."""
    life = live(make_exact_world(tmp_path, round_seconds=HOUR), place)
    bodies = life.world.junk(4000)
    for start in range(0, 4000, 10):
        life.add(bodies[start : start + 10])
    life.seal()
    released = life.released()
    for order in (bodies, _by_digest(bodies), sorted(bodies)):
        places = _places(order, released)
        assert sorted(places) == list(range(4000))
        assert not _correlated(places)
        # Those who came one after the other are not released side by side: about two of them are.
        assert sum(abs(places[one] - places[one + 1]) == 1 for one in range(3999)) < 20  # Poisson(2): 3e-14
    assert _correlated(_places(bodies, bodies))


@pytest.mark.slow
def test_rank_correlation_notices_a_shuffler_that_does_not_shuffle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.collect.shuffler.shuffled_records", _unshuffled)
    world = make_exact_world(tmp_path, round_seconds=HOUR)
    arrivals = iter([world.junk(500)])
    ((bodies, released),) = _rounds(world, str(tmp_path / "reports.db"), tmp_path / "batches", arrivals)
    assert not _correlated(_places(bodies, released))  # the store alone hides the order of arrival
    assert _correlated(_places(_by_digest(bodies), released))


@pytest.mark.slow
def test_all_orders_of_four_are_equally_likely(tmp_path: Path) -> None:
    """Hundreds of rounds through store, release and file: χ² over the 24 orders, against arrival and against digest."""
    world = make_exact_world(tmp_path, round_seconds=HOUR, minimum=4)
    arrivals = (world.junk(4) for _ in range(240))
    by_arrival: Counter[tuple[int, ...]] = Counter()
    by_digest: Counter[tuple[int, ...]] = Counter()
    for bodies, released in _rounds(world, str(tmp_path / "reports.db"), tmp_path / "batches", arrivals):
        by_arrival[_places(bodies, released)] += 1
        by_digest[_places(_by_digest(bodies), released)] += 1
    assert by_arrival.total() == 240
    assert not _uneven(by_arrival)
    assert not _uneven(by_digest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bucket_records", "trials"),
    [
        pytest.param(1 << 22, amount(3_600, 12_000), id="in memory"),
        pytest.param(2, 1200, id="2 buckets"),
        pytest.param(1, 1200, id="4 buckets"),
    ],
)
def test_all_orders_of_four_records_are_equally_likely(bucket_records: int, trials: int, tmp_path: Path) -> None:
    """The same of the permutation alone, in memory and through buckets on disk."""
    rows = np.arange(4, dtype=np.uint8)[:, None]
    seen: Counter[tuple[int, ...]] = Counter()
    shuffled = partial(shuffled_records, bucket_records=bucket_records)
    for _ in range(trials):
        with ExitStack() as stack:
            seen[tuple(b"".join(shuffled([rows[:3], rows[3:]], 4, 1, tmp_path / "batch", stack)))] += 1
    assert not _uneven(seen)
    assert not os.listdir(tmp_path)


def test_uneven_orders_are_noticed() -> None:
    """A riffle that leaves the first in its place every tenth time more than it should."""
    coins = np.random.default_rng(7)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(3600):
        order = coins.permutation(4)
        if coins.random() < 0.2:
            order = np.array([0, *(1 + coins.permutation(3))])
        seen[tuple(order.tolist())] += 1
    assert _uneven(seen)


@pytest.mark.slow
def test_stored_rows_keep_no_order_of_arrival(tmp_path: Path) -> None:
    """The same reports in two orders of arrival make the same rows in the same order, without anything else in them."""
    world = make_exact_world(tmp_path, round_seconds=HOUR)
    bodies = world.junk(300)
    stored = []
    for name, arrival in (("one", bodies), ("other", bodies[::-1])):
        store = SqliteStore(tmp_path / name, world.task, now=0.0)
        for body in arrival:
            store.add(1, [record(body)])
        database = store._database
        stored.append(database.execute("SELECT * FROM report").fetchall())
        columns = [column for _, column, *_ in database.execute("PRAGMA table_info(report)")]
        numbered = [
            sql
            for (sql,) in database.execute("SELECT sql FROM sqlite_schema WHERE name IN ('report', 'tag')")
            if "WITHOUT ROWID" not in sql
        ]
        pieces = list(store.bodies(1))
        store.shut()
        assert columns == ["round", "digest", "body"]
        assert not numbered
        assert b"".join(pieces) == b"".join(_by_digest(bodies))
    assert stored[0] == stored[1] == [(1, record(body).digest, body) for body in _by_digest(bodies)]
