"""Tests of the Rényi divergences of all pairs of a table: those of the worst pair, of which few are evaluated."""

import random
from itertools import product

import numpy as np
import pytest

import shoal
from shoal.pairs.directed_pairs import DirectedPairs
from shoal.pairs.input_pairs import InputPairs
from tests.exhaustive import representative
from tests.work import calls


def _pairs(reports: int, size: int, most: int) -> tuple[DirectedPairs, float]:
    table = [[random.randint(1, most) for _ in range(size)] for _ in range(size)]
    total = max(map(sum, table)) + most
    rows = [(*row[:-1], total - sum(row[:-1])) for row in table]
    randomizer = shoal.MatrixRandomizer([list(row) for row in rows])
    return DirectedPairs(reports, InputPairs(rows, total)), randomizer.local_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "order", "most"),
    representative(product([300, 3_000, 10**5, 10**8], [1.01, 1.5, 8.0, 100.0], [3, 40]), 9),
)
def test_is_the_largest_of_all_pairs(reports: int, order: float, most: int) -> None:
    """Each pair by itself is at most 3e-4 too large, and so is the answer; neither is too small."""
    pairs, ceiling = _pairs(reports, 4, most)
    value = pairs.renyi(order, ceiling)
    largest = max(float(pair.one_way(np.array([order]))[0]) for pair in pairs)
    if value is None:
        assert reports < 10**5
    else:
        assert value == pytest.approx(largest, rel=4e-4)


@pytest.mark.slow
def test_pairs_that_cross() -> None:
    """One pair is the worst at small orders, another one, with a rare output that is telling, at large ones."""
    rows = [(550, 430, 20), (450, 530, 20), (500, 493, 7)]
    ceiling = shoal.MatrixRandomizer([list(row) for row in rows]).local_epsilon
    pairs, worst = DirectedPairs(5_000, InputPairs(rows, 1000)), set()
    for order in (1.5, 8.0, 3000.0):
        single = [float(pair.one_way(np.array([order]))[0]) for pair in pairs]
        worst.add(int(np.argmax(single)) // 2)
        value = pairs.renyi(order, ceiling)
        assert value is not None
        assert value == pytest.approx(max(single), rel=4e-4)
    assert len(worst) > 1


def test_many_reports_need_no_pair_at_all() -> None:
    """Moments are enough, with as many calls for 240 pairs as for one."""
    pairs, ceiling = _pairs(10**6, 16, 4)
    assert len(pairs) == 240
    with calls() as count:
        assert pairs.renyi(8.0, ceiling) is not None
    assert count() < 2_000
