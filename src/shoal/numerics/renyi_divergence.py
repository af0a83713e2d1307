"""The Rényi divergence of n reports at any order: from a list of all outcomes, if these are few, or an integral."""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.renyi_integral import Kinds, integrated
from shoal.numerics.renyi_list import listed_excess, moment_excess
from shoal.rounding import slack, up

__all__ = ["renyi_upper"]

_LISTED = 180_000
"""As many outcomes take about as long as an integral."""
_LEAST, _MOST = 1e-150, 680.0
"""Of ε₀: beyond, squares underflow or exponentials overflow, and ε₀ is all that is said."""
_LARGEST_LIKELIHOOD = 350.0
"""Of ln R/ω: beyond, the square of W overflows, hardly anybody can hide, and ε₀ is all that is said of several."""
_STEEPEST = 500.0
"""Of αε₀: beyond, the moment of one report alone overflows."""
_LARGEST_ORDER = 1e12
"""The same of orders."""


def renyi_upper(kinds: Kinds, ceiling: float, orders: NDArray[np.float64], *, symmetric: bool) -> NDArray[np.float64]:
    """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order α > 1, about 1e-4 above the exact one at most.

    Parameters
    ----------
    kinds : Kinds
        What the n reports are.
    ceiling : float
        ε₀, which no divergence exceeds.
    orders : numpy.ndarray
        Each greater than 1.
    symmetric : bool
        Whether both directions are the same.
    """
    if not _LEAST < ceiling < _MOST:
        return np.full_like(orders, ceiling)
    values = [_at(kinds, ceiling, order, symmetric) for order in orders.tolist()]
    return np.asarray(np.fmin(np.array(values, dtype=np.float64), ceiling))


def _at(kinds: Kinds, ceiling: float, order: float, symmetric: bool) -> float:
    if order > _LARGEST_ORDER:
        return ceiling
    if kinds.reports == 1:
        return _alone(kinds, order)
    if max(float(kinds.firsts.max()), float(kinds.seconds.max())) > _LARGEST_LIKELIHOOD:
        return ceiling
    excess = listed_excess(kinds, ceiling, order, _LISTED)
    if excess is None:
        return integrated(kinds, ceiling, order, symmetric=symmetric)
    return up(math.log1p(excess) / (order - 1), roundings=16)


def _alone(kinds: Kinds, order: float) -> float:
    """Return the divergence of a single report, rounded up."""
    ratios = kinds.firsts - kinds.seconds
    if order * float(np.abs(ratios).max()) < _STEEPEST:
        excess = float(moment_excess(ratios, order) @ (kinds.probabilities * np.exp(kinds.seconds)))
        return up(math.log1p(up(excess, roundings=64 + 4 * len(ratios))) / (order - 1), roundings=16)
    logs = np.log(kinds.probabilities) + order * kinds.firsts - (order - 1) * kinds.seconds
    highest = float(logs.max())
    total = highest + math.log(float(np.exp(logs - highest).sum()))
    size = order * float(np.abs(kinds.firsts).max() + np.abs(kinds.seconds).max())
    return up(max(total + slack(32) * (len(logs) + 8 + size), 0.0) / (order - 1), roundings=16)
