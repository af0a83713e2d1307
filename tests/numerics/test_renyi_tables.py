"""Tests of the Rényi bounds from moments: never below the exact divergence, which is added up over all outcomes."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

from shoal.numerics.renyi_tables import LikelihoodTable, renyi_ceilings
from tests.exhaustive import representative

Array = NDArray[np.float64]


def _exact(n: int, first: Array, second: Array, weights: Array, order: float) -> float:
    """Return D_α of two outputs and what is missing of the blanket: terms that are not negative, one for each count."""
    one, two = (axis.ravel() for axis in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    fits = (one + two <= n) & (one + two > 0)
    one, two = one[fits], two[fits]
    rest = n - one - two
    missing = 1 - weights.sum()
    logs = gammaln(n + 1) - gammaln(one + 1) - gammaln(two + 1) - gammaln(rest + 1)
    logs = logs + one * math.log(weights[0]) + two * math.log(weights[1]) + rest * math.log(missing)
    a, b = one * first[0] + two * first[1], one * second[0] + two * second[1]
    ratios = np.log(a / b)
    with np.errstate(over="ignore"):
        terms = np.expm1(order * ratios) - order * np.expm1(ratios)
        excess = float((np.exp(logs) * b / n * terms).sum())
    return math.log1p(excess) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "apart", "order"),
    representative(product((60, 300, 1500), (0.05, 0.7, 2.0), (1.001, 1.5, 2.0, 8.0, 40.0)), 20),
)
def test_contains_the_sum_over_all_outcomes(n: int, apart: float, order: float) -> None:
    """Above the exact divergence in both directions, by hardly more than is said."""
    known = 0
    for share in (0.1, 0.37):
        low, high = share * math.exp(-apart), share
        one, other = np.array([[low, 1 - low], [high, 1 - high]])
        least = np.minimum(one, other)
        firsts, seconds = np.array([one, other]) / least, np.array([other, one]) / least
        ceiling = float(np.log(np.maximum(firsts / seconds, seconds / firsts)).max()) * (1 + 1e-15)
        bounds = renyi_ceilings(n, LikelihoodTable(firsts, seconds, least, 1 - least.sum()), ceiling, order)
        for first, second, value, loose in zip(firsts, seconds, *bounds, strict=True):
            if math.isfinite(value):
                exact = _exact(n, first, second, least, order)
                assert value * (1 - 1.2 * loose - 1e-6) <= exact <= value * (1 + 1e-9)
                known += 1
    assert known or n < 1500 or order * apart > 50


def test_is_close_for_many_reports() -> None:
    """The leading term is α·E[(a − b)²]/(2n); further ones are smaller by a factor of about n."""
    weights = np.array([0.2, 0.3, 0.1])
    firsts, seconds = np.array([[1.5, 1.0, 4.0]]), np.array([[1.0, 1.0, 5.0]])
    table = LikelihoodTable(firsts, seconds, weights, 0.4)
    for n in (10**7, 10**9):
        values, loose = renyi_ceilings(n, table, math.log(1.5), 3.0)
        leading = 3.0 * 0.15 / (2 * n)
        assert values[0] == pytest.approx(leading, rel=100 / n + 1e-5)
        assert loose[0] < 1e-5


def test_says_nothing_where_it_knows_nothing() -> None:
    """Few reports, or large orders, have no bound, and none exceeds ε₀."""
    table = LikelihoodTable(np.array([[3.0, 1.0]]), np.array([[1.0, 3.0]]), np.array([0.25, 0.25]), 0.5)
    for n, order in ((2, 2.0), (100, 1000.0), (10**6, 1e9)):
        values, loose = renyi_ceilings(n, table, math.log(3), order)
        assert values[0] == math.inf == loose[0] or values[0] <= math.log(3)
