"""δ on a grid: every way to it contains the exact values, and so does what is bounded between grid points."""

import math

import numpy as np
import pytest
from flint import arb

from shoal.numerics.profile_grid import DeltaGrid, Mesh, dominated, dominating, each, grid_of, remembered
from shoal.pairs import ClonePair, Family
from shoal.proofs.balls import above, precision, total
from tests.oracles import exact

SETTINGS = [
    (1, 1.0, "clones"),
    (2, 0.3, "strong-clones"),
    (30, 2.0, "clones"),
    (100, 0.01, "strong-clones"),
    (150, 5.0, "strong-clones"),
    (200, 1.0, "clones"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon", "family"), SETTINGS)
def test_grids_contain_the_exact_sum(reports: int, local_epsilon: float, family: Family) -> None:
    clones: exact.CloneProbability = "clones" if family == "clones" else "strong"
    count = 24
    step = local_epsilon / count
    grid = ClonePair(reports, local_epsilon, family).grid(Mesh(step, local_epsilon, 60.0))
    lower, upper = grid.lower, grid.upper
    for index in range(min(count, len(upper))):
        true = exact.pair_delta(reports, local_epsilon, index * step, clones)
        assert lower[index] <= float(true.upper()) * (1 + 1e-15)
        assert upper[index] >= float(true.lower()) * (1 - 1e-15)
        if float(true.lower()) > 1e-20:
            assert upper[index] <= float(true.upper()) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("reports", "local_epsilon"), [(1, 2.0), (50, 3.0), (10_000, 1.0), (300_000, 4.0), (10**8, 2.0), (10**12, 1.0)]
)
def test_all_ways_agree(reports: int, local_epsilon: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    step = min(pair.guess(1e-12)[0] / 40, local_epsilon / 40)
    grid = pair.grid(Mesh(step, local_epsilon, 40.0, 1e-7))
    assert np.all(grid.lower <= grid.upper)
    for index in range(0, len(grid.upper), 7):
        lower, upper = pair.delta_bracket(index * step) if index * step < local_epsilon else (0.0, 0.0)
        assert grid.upper[index] >= lower
        assert grid.lower[index] <= upper
        assert grid.upper[index] <= upper * (1 + 1e-4) + 8 * math.exp(-40)  # what is left out


@pytest.mark.parametrize(("reports", "local_epsilon", "tilt"), [(2000, 1.0, 40.0), (3000, 4.0, 2.0), (10**4, 1.0, 0.5)])
def test_knots_are_few_and_lie_where_they_matter(reports: int, local_epsilon: float, tilt: float) -> None:
    """The moments of both ends are as close as was asked, from a small part of the points."""
    pair = ClonePair(reports, local_epsilon, "clones")
    step = 2.5 * pair.delta(0.0) / 100

    def moment(grid_tilt: float, goal: float) -> tuple[float, float, int]:
        grid = grid_of(
            each(lambda epsilon: pair.delta_bracket(epsilon) if epsilon < local_epsilon else (0.0, 0.0)),
            Mesh(step, local_epsilon, 40.0, tilts=(grid_tilt,), goal=goal),
        )
        assert np.all(np.diff(grid.knots) > 0)
        low, high = (
            float(np.log1p((losses.masses * np.expm1(tilt * losses.values)).sum()))
            for losses in (dominated(grid), dominating(grid))
        )  # fmt: skip
        return low, high, len(grid.upper)

    low, high, count = moment(tilt, 1e-3)
    assert low <= high <= low * (1 + 3e-3)
    assert count <= 200
    finer_low, finer_high, more = moment(tilt, 1e-4)
    assert more > count
    assert low <= finer_low * (1 + 1e-9)
    assert finer_high <= high * (1 + 1e-9)
    assert finer_high - finer_low < 0.3 * (high - low)


def test_remembered_asks_for_no_point_twice() -> None:
    asked: list[float] = []

    def bracket(epsilon: float) -> tuple[float, float]:
        asked.append(epsilon)
        return math.exp(-epsilon), math.exp(-epsilon) * 1.5

    brackets = remembered(each(bracket))
    for points in ([0.0, 1.0, 2.0], [0.5, 1.0, 1.5, 2.0], [1.0], []):
        lower, upper = brackets(np.array(points))
        assert np.array_equal(lower, np.exp(-np.array(points)))
        assert np.array_equal(upper, 1.5 * lower)
    assert asked == [0.0, 1.0, 2.0, 0.5, 1.5]


def test_chords_over_dropped_knots_are_charged() -> None:
    """δ of one randomized response is a line in e^ε, so that all knots but the outer ones are dropped."""
    step = 2.0**-16
    positions = np.array([0, 17680, 33497, 41743, 55746, 65535, 65536])
    with precision(200):
        truth = [(arb(1).exp() - arb(step * place).exp()) / (arb(1).exp() + 1) for place in positions.tolist()[:-1]]
        upper = np.array([*(above(value) for value in truth), 0.0])
        losses = dominating(DeltaGrid(step, upper, upper, positions))
        points = [arb(step) * place for place in losses.positions.tolist()]
        for place, delta in zip(positions.tolist(), truth, strict=False):
            parts = [
                arb(mass) * (1 - (arb(step) * place - point).exp())
                for point, mass in zip(points, losses.masses.tolist(), strict=True)
                if point > arb(step) * place
            ]
            assert not total(parts) + losses.infinite < delta, place
