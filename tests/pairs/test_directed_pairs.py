"""The worst of all pairs of a table, and bounds of all pairs between knots, against every pair by itself."""

import random
from itertools import product

import numpy as np
import pytest

import shoal
from shoal.pairs.directed_pairs import DirectedPairs, InputPairs, PairCells
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


def pairs_of(size: int, local_epsilon: float, reports: int, seed: int) -> DirectedPairs:
    """Return the pairs of a random table."""
    rows = np.exp(local_epsilon * (np.random.default_rng(seed).random((size, size)) - 0.5))
    randomizer = shoal.MatrixRandomizer(rows / rows.sum(axis=1, keepdims=True))
    profile = shoal.amplify(randomizer, reports=reports).profile
    pairs = profile.pairs  # type: ignore[attr-defined]
    assert isinstance(pairs, DirectedPairs)
    return pairs


SETTINGS = [(3, 0.4, 2), (4, 3.0, 20), (5, 1.0, 300), (5, 6.0, 1000), (6, 1.0, 10**5), (4, 2.0, 10**9), (4, 9.0, 50)]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "local_epsilon", "reports"), SETTINGS)
def test_no_pair_is_above_its_bound_between_knots(size: int, local_epsilon: float, reports: int) -> None:
    pairs = pairs_of(size, local_epsilon, reports, seed=reports % 97)
    cells = PairCells(reports, pairs.pairs, lambda index, epsilon: pairs[index].delta_bracket(epsilon)[0])
    largest = max(pair.epsilon(1e-12) for pair in pairs)
    for epsilon in np.linspace(0.0, min(largest * 1.3, 0.999 * pairs[0].local_epsilon), 13).tolist():
        logs, tilts = cells.ceilings(epsilon)
        assert np.all(tilts > 0)
        for index, pair in enumerate(pairs):
            assert pair.delta_bracket(epsilon)[0] <= np.exp(logs[index]) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "local_epsilon", "reports"), SETTINGS)
def test_many_epsilons_at_once_have_the_largest_delta_of_all_pairs(
    size: int, local_epsilon: float, reports: int
) -> None:
    pairs = pairs_of(size, local_epsilon, reports, seed=reports % 89)
    largest = max(pair.epsilon(1e-12) for pair in pairs)
    epsilons = np.linspace(0.0, largest, 17)
    lower, upper = pairs.brackets(epsilons, 1e-6)
    for epsilon, low, high in zip(epsilons.tolist(), lower.tolist(), upper.tolist(), strict=True):
        ends = [pair.delta_bracket(epsilon) for pair in pairs]
        assert low <= max(end for _, end in ends) * (1 + 1e-12)
        assert high >= max(end for end, _ in ends)
        assert low >= max(end for end, _ in ends) * (1 - 1e-4) - 1e-12
        assert high <= max(end for _, end in ends) * (1 + 1e-4) + 1e-12


def test_one_report_is_asked_one_by_one() -> None:
    pairs = pairs_of(3, 1.0, 1, seed=4)
    lower, upper = pairs.brackets(np.array([0.0, 0.3]), 1e-6)
    assert upper.tolist() == [pairs.ends(0.0)[1], pairs.ends(0.3)[1]]
    assert np.all(lower <= upper)
