"""Tails, masses of cells, windows of counts and the Gaussian mechanism against ball arithmetic."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from flint import arb

from shoal.numerics.binomial import window
from shoal.numerics.normal import EXACT, cell_masses, gaussian_delta, quantile, upper_tail
from shoal.proofs.balls import precision
from shoal.rounding import slack


@pytest.fixture(autouse=True)
def _many_bits() -> Iterator[None]:
    with precision(300):
        yield


def _tail(point: arb) -> arb:
    return (point / arb(2).sqrt()).erfc() / 2


@pytest.mark.parametrize("point", [-40.0, -3.0, -1e-9, 0.0, 0.7, 5.0, 20.0, EXACT])
def test_tails_are_within_a_few_units(point: float) -> None:
    exact = float(_tail(arb(point)).mid())
    # The argument is rounded: Φ(−x) changes by up to x² units of itself.
    assert upper_tail(point) == pytest.approx(exact, rel=slack(4) * (1 + point**2), abs=0)
    assert quantile(0.3) == pytest.approx(-quantile(0.7))


def test_masses_of_cells_are_differences_of_the_smaller_tails() -> None:
    edges = np.array([-30.0, -9.0, -8.99, -1.0, -1e-3, 2e-3, 1.0, 8.0, 8.01, 30.0])
    exact = [float((_tail(arb(a)) - _tail(arb(b))).mid()) for a, b in pairwise(edges.tolist())]
    assert cell_masses(edges) == pytest.approx(exact, rel=1e-11, abs=0)


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.5, 1.0, 3.0, 100.0])
def test_delta_of_a_gaussian_mechanism_is_an_upper_bound(sigma: float) -> None:
    for epsilon in [0.0, 1e-9, *np.linspace(0.01, 60, 40).tolist(), 650.0]:
        near = arb(epsilon) * sigma - 1 / arb(2 * sigma)
        far = arb(epsilon) * sigma + 1 / arb(2 * sigma)
        exact = _tail(near) - arb(epsilon).exp() * _tail(far)
        found = gaussian_delta(sigma, epsilon)
        assert not arb(found) < exact or exact < 1e-300
        if exact > 1e-250 and far < 30:
            assert found <= float(exact.mid()) * (1 + 1e-6) + 1e-9 * upper_tail(float(near.mid()))


def test_delta_is_not_zero_where_the_tail_underflows() -> None:
    assert gaussian_delta(1.0, 60.0) > 0


@pytest.mark.parametrize("missing", [2.375877272697835e-14, 3e-13, 1e-11])
@pytest.mark.parametrize("depth", [15.0, 27.0])
def test_tails_of_a_window_are_those_of_chernoff(missing: float, depth: float) -> None:
    """Also where nearly all of many reports are alike, and their share is next to one."""
    count = 10**15
    found = window(count, 1 - missing, missing, depth)
    exact = arb(0)
    for end in (found.low - 1, found.high + 1):
        if 0 < end < count:
            share, other = arb(end) / count, arb(count - end) / count
            divergence = share * (share / (1 - arb(missing))).log() + other * (other / arb(missing)).log()
            exact += (-count * divergence).exp()
    assert not arb(found.tail) < exact
