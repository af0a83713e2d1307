"""Ramps of sums of lattice values against the sum over all outcomes."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.numerics.ramp import Ramps

Array = NDArray[np.float64]


def _exact(step: float, positions: NDArray[np.int64], masses: Array, copies: int, *points: float) -> list[float]:
    """Return E[(S − x)₊] at each point, by convolving the masses."""
    dense = np.zeros(int(positions[-1] - positions[0]) + 1)
    dense[positions - positions[0]] = masses
    total = np.ones(1)
    for _ in range(copies):
        total = np.convolve(total, dense)
    values = step * (copies * int(positions[0]) + np.arange(len(total)))
    return [math.fsum((np.maximum(values - x, 0) * total).tolist()) for x in points]


def _each(ramps: Ramps, points: Array, fewer: int) -> Array:
    """Return the bound at each point."""
    return ramps.upper(points.reshape(-1, 1), fewer, np.ones(1), np.zeros(len(points)), 1e-9)


@pytest.mark.parametrize("copies", [2, 5, 40])
def test_a_ramp_is_the_sum_over_all_outcomes(copies: int) -> None:
    generator = np.random.default_rng(copies)
    positions = np.array([-7, -3, -1, 0, 2, 5, 11])
    masses = generator.dirichlet(np.ones(7)) * 0.98
    ramps = Ramps(0.25, positions, masses, copies)
    points = np.concatenate((np.linspace(-3, 3, 7) * math.sqrt(copies), [-200.0, 0.3 + copies]))
    for fewer in (0, 1, 2):
        for x, value in zip(points.tolist(), _each(ramps, points, fewer).tolist(), strict=True):
            (exact,) = _exact(0.25, positions, masses, copies - fewer, x)
            assert exact * (1 - 1e-12) <= value <= exact * (1 + 1e-5) + 1e-9, (fewer, x)


@pytest.mark.slow
def test_scales_that_are_far_apart_have_lattices_of_their_own() -> None:
    """Values between −40 and 40 decide near zero, and rare ones of −2,000 far below."""
    positions = np.concatenate(([-20_000, -15_000], np.arange(-400, 401)))
    masses = np.concatenate(([1e-3, 2e-3], 0.01 * np.exp(-0.01 * np.abs(np.arange(-400.0, 401)))))
    masses /= masses.sum()
    ramps = Ramps(0.1, positions, masses, 4)
    points = np.concatenate((-np.geomspace(1, 6_000, 30), np.linspace(0, 150, 11)))
    exact = np.array(_exact(0.1, positions, masses, 4, *points.tolist()))
    values = _each(ramps, points, 0)
    assert np.all(values >= exact * (1 - 1e-12)) and np.all(values <= exact * (1 + 5e-4))
    assert len(ramps._lattices) > 1


def test_a_coarser_lattice_keeps_mass_and_mean() -> None:
    positions = np.array([-(1 << 40) - 5, -77, -3, 0, 1, 64, 999, 1 << 20])
    masses = np.full(8, 0.125)
    ramps = Ramps(2.0**-30, positions, masses, 3)
    for halvings in (1, 3, 8, 20):
        lattice = ramps._lattice(halvings + 0.5)
        heaps = np.exp(lattice.logs)
        assert lattice.step == 2.0 ** (halvings - 30)
        assert heaps.sum() == pytest.approx(1.0, abs=1e-13)
        assert (heaps * lattice.values).sum() == pytest.approx(ramps.mean, rel=1e-12)


def test_many_points_have_the_bounds_of_one() -> None:
    """By a table, and by chords where there are too many nodes for one."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    masses /= masses.sum()
    for copies in (30, 10**6):
        ramps = Ramps(0.05, positions, masses, copies)
        points = ramps.mean * copies + ramps.root * np.linspace(-3, 4, 2000)
        together = _each(ramps, points, 0)
        for index in range(0, 2000, 333):
            apart = float(_each(ramps, points[index : index + 1], 0)[0])
            assert together[index] == pytest.approx(apart, rel=1e-3)


def test_rough_bounds_are_off_by_as_little_as_is_asked() -> None:
    positions = np.arange(-20, 40)
    masses = np.exp(-0.1 * np.abs(positions))
    ramps = Ramps(0.1, positions, masses / masses.sum(), 100)
    points = np.linspace(-400.0, 500.0, 64).reshape(2, 32)
    weights = np.full(32, 0.5)
    fine = np.array([0.5 * float(_each(ramps, row, 0).sum()) for row in points])
    rough, known = {}, np.array([10.0, 1e5])
    for share in (1e-4, 0.1, math.inf):
        rough[share] = ramps.upper(points, 0, weights, known, share)
        assert np.all(rough[share] >= fine * (1 - 1e-6))
        assert np.all(rough[share] <= (fine + share * (known + fine)) * (1 + 1e-3))
    assert np.any(rough[math.inf] > 1.0003 * rough[1e-4])
