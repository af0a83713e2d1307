"""Ramps of sums of lattice values against the sum over all outcomes."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.losses.ramp import Ramps, _even_sums, _sums, _Terms


def _exact(step: float, positions: NDArray[np.int64], masses: NDArray[np.float64], copies: int, x: float) -> float:
    """Return E[(S − x)₊] by convolving the masses."""
    dense = np.zeros(int(positions[-1] - positions[0]) + 1)
    dense[positions - positions[0]] = masses
    total = np.ones(1)
    for _ in range(copies):
        total = np.convolve(total, dense)
    values = step * (copies * int(positions[0]) + np.arange(len(total)))
    return math.fsum((np.maximum(values - x, 0) * total).tolist())


@pytest.mark.parametrize("copies", [2, 5, 40])
def test_a_ramp_is_the_sum_over_all_outcomes(copies: int) -> None:
    generator = np.random.default_rng(copies)
    positions = np.array([-7, -3, -1, 0, 2, 5, 11])
    masses = generator.dirichlet(np.ones(7)) * 0.98
    ramps = Ramps(0.25, positions, masses, copies)
    points = np.concatenate((np.linspace(-3, 3, 7) * math.sqrt(copies), [-200.0, 0.3 + copies]))
    for fewer in (0, 1, 2):
        values = ramps.upper(points, fewer)
        for x, value in zip(points.tolist(), values.tolist(), strict=True):
            exact = _exact(0.25, positions, masses, copies - fewer, x)
            assert exact * (1 - 1e-12) <= value <= exact * (1 + 1e-5) + 1e-9, (fewer, x)


def test_many_points_have_the_bounds_of_one() -> None:
    """By a table, and by chords where there are too many nodes for one."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    masses /= masses.sum()
    for copies in (30, 10**6):
        ramps = Ramps(0.05, positions, masses, copies)
        points = ramps.mean * copies + ramps.root * np.linspace(-3, 4, 2000)
        together = ramps.upper(points, 0)
        for index in range(0, 2000, 333):
            apart = float(ramps.upper(points[index : index + 1], 0)[0])
            assert together[index] == pytest.approx(apart, rel=1e-3)


def test_a_rough_bound_is_kept_where_it_is_enough() -> None:
    positions = np.arange(-20, 40)
    masses = np.exp(-0.1 * np.abs(positions))
    ramps = Ramps(0.1, positions, masses / masses.sum(), 100)
    points = np.array([100.0, 200.0])
    rough, fine = ramps.upper(points, 0, enough=math.inf), ramps.upper(points, 0)
    assert np.all(rough >= fine) and np.all(rough > 1.01 * fine)


def test_rough_bounds_are_off_by_as_little_as_is_asked() -> None:
    positions = np.arange(-20, 40)
    masses = np.exp(-0.1 * np.abs(positions))
    ramps = Ramps(0.1, positions, masses / masses.sum(), 100)
    points = np.linspace(-400.0, 500.0, 64).reshape(2, 32)
    weights = np.array([[1e3] * 32, [1e-3] * 32])
    rough, fine = ramps.upper(points, 0, weights=weights), ramps.upper(points, 0)
    assert np.all((weights * (rough - fine)).sum(axis=1) <= 1)
    assert np.all(rough >= fine * (1 - 1e-9)) and np.any(rough > 1.01 * fine)


def test_few_nodes_are_those_of_a_whole_transform() -> None:
    """A sum of many copies needs the first nodes only; each is a product of a few factors."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    ramps = Ramps(0.05, positions, masses / masses.sum(), 10**5)
    transform = ramps._transformed(0, 1 << 19)
    weights = np.exp(ramps.logs + float(ramps.tilts[0]) * ramps.values - ramps.moments[0])
    count = len(transform.values)
    exact = [np.exp(2j * np.pi * (k * positions % (1 << 19)) / (1 << 19)) @ weights for k in range(count)]
    assert 1 < count < 1 << 12
    assert np.abs(transform.values - exact).max() <= transform.error


@pytest.mark.parametrize("count", [1, 2, 9, 250])
@pytest.mark.parametrize("first", [-77, 0, 12_345])
def test_sums_equally_far_apart_are_those_of_each_index(first: int, count: int) -> None:
    generator = np.random.default_rng(count)
    places = np.arange(0, 300, 3)
    values = generator.normal(size=100) + 1j * generator.normal(size=100)
    terms = _Terms(places, values, 0.0)
    index = first + 7 * np.arange(count)
    for shift, each in enumerate(_sums(terms, index, 1 << 10)):
        exact = [np.exp(-2j * np.pi * (j + shift) * places / 1024) @ values for j in index.tolist()]
        assert each == pytest.approx(np.real(exact), abs=1e-9)
    assert _even_sums(terms, first, 7, count, 1 << 10) == pytest.approx(_sums(terms, index, 1 << 10)[0], abs=1e-9)
