"""Transforms of one lattice distribution against sums over all positions and nodes."""

import numpy as np
import pytest

from shoal.numerics.ramp import Ramps
from shoal.numerics.tilted_lattice import _even_sums, _raised, _sums, _Terms


def test_few_nodes_are_those_of_a_whole_transform() -> None:
    """A sum of many copies needs the first nodes only; each is a product of a few factors."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    lattice = Ramps(0.05, positions, masses / masses.sum(), 10**5)._lattice(0)
    transform = lattice._transformed(0, 1 << 19)
    weights = np.exp(lattice.logs + float(lattice.tilts[0]) * lattice.values - lattice._moment(0))
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


@pytest.mark.parametrize("copies", [1, 2, 3, 7, 63, 64, 1000])
def test_powers_are_powers(copies: int) -> None:
    values = np.exp(-np.linspace(0, 40, 50) / copies) * np.exp(1j * np.linspace(0, 3, 50))
    assert np.abs(_raised(values, copies) - values**copies).max() < 1e-12
    assert _raised(np.abs(values), copies) == pytest.approx(np.abs(values) ** copies, rel=1e-12)
