"""Upper bounds of δ(ε) of one epoch of allocation with little noise (docs/theory/samplers.md, section 5, Lemma W).

With little noise the step that the example joins outweighs all other steps together, and δ has bounds in terms of
G(x) = E(1 − e^x·X)₊, X = exp(aZ − a²/2), Z standard normal: the δ of one Gaussian mechanism. Nothing cancels, so these
bounds also hold where the lattice loses all its digits to rounding.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.allocated_lattice import TAIL, between
from shoal.numerics.noise_ratio import gaussian_alone
from shoal.rounding import UNIT, slack

__all__ = ["LittleNoise", "little_noise_delta"]

_SHARE = 1e-4
"""The part of δ that may be charged for another step that is as large: less of it means a larger bound K for them."""
_CLOSE = 1e-3
"""A bound this close to a lower bound, relatively, cannot be improved by a lattice, which has about this accuracy."""
_CELLS = 1000
"""The number of cells for the noise of the example's own step. Twice as many change δ by less than 1e-3 of itself."""
_DIGITS = 35.0
"""Up to this point the tail of a normal distribution, and e^x where x is its logarithm, are normal float64 numbers."""

Array = NDArray[np.float64]


class LittleNoise(NamedTuple):
    """Upper bounds of δ, one for each ε.

    Attributes
    ----------
    upper : numpy.ndarray
        The bounds, rounded up.
    close : numpy.ndarray
        Whether a bound is known to be within a thousandth of δ.
    """

    upper: Array
    close: NDArray[np.bool_]


def little_noise_delta(above: float, below: float, steps: int, epsilons: Array) -> LittleNoise:
    """Return upper bounds of δ at each ε ≥ 0 for a = above, b = below: equal, or one of them 0; t = steps ≥ 2."""
    bound = _replace if above and below else _remove if above else _add
    pairs = [bound(max(above, below), steps, epsilon) for epsilon in epsilons.tolist()]
    upper = np.array([min(pair[0], 1.0) for pair in pairs])
    close = np.array([pair[0] <= pair[1] * (1 + _CLOSE) for pair in pairs], dtype=np.bool_)
    return LittleNoise(upper, close)


def _remove(separation: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Return G(ln(tλ − s)) + τ, and about the lower bound G(ln(tλ))."""
    level = math.log(steps) + epsilon
    least = _single(separation, level)
    others = _others(separation, steps, least)
    # ln(s/(tλ)), rounded up.
    ratio = others.log_sum - level + slack(16) * (1 + level + others.size)
    part = math.exp(ratio) if ratio < 0 else 1.0  # which is 1 for a ratio next to 0, too
    if part >= 1:
        return 1.0, least
    point = level + math.log1p(-part) - slack(16) * (1 + level)
    return _single(separation, point) + others.charge, least


def _add(separation: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Return G(ε − ln t)^t; no lower bound is known."""
    log_steps = math.log(steps)
    single = _single(separation, epsilon - log_steps - slack(8) * (epsilon + log_steps))
    return float(single**steps) * (1 + slack(64)), 0.0


def _replace(separation: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Return E[G(ε − ln(Y + s))^(t − 1)] + τ, Y = X for Z with mean a; no lower bound is known."""
    about = _mixed(separation, steps, epsilon, -math.inf)
    others = _others(separation, steps, about)
    return _mixed(separation, steps, epsilon, others.log_sum + slack(16) * others.size) + others.charge, 0.0


def _mixed(separation: float, steps: int, epsilon: float, log_others: float) -> float:
    """Return an upper bound of E[G(ε − ln(Y + s))^(t − 1)], with s = exp(log_others)."""
    cells = _cells(separation)
    logs = np.logaddexp(cells.logs, log_others)
    # G falls, so its argument is rounded down.
    points = epsilon - logs - slack(32) * (epsilon + np.abs(cells.logs) + separation**2 + np.abs(logs))
    values = np.array([_single(separation, point) for point in points.tolist()]) ** (steps - 1)
    # The values rise with Y and are convex in 1/Y: in every cell they are at most their chord.
    inside = cells.masses @ (values[:-1] + cells.shares * np.maximum(np.diff(values), 0.0))
    return float(inside + cells.outside * (values[0] + 1)) * (1 + 1e-9)


class _Cells(NamedTuple):
    """Cells of the noise N of the example's own step, ln Y = aN + a²/2.

    Attributes
    ----------
    logs : numpy.ndarray
        ln Y at the ends of the cells.
    masses : numpy.ndarray
        The probability of each cell.
    shares : numpy.ndarray
        The part of it that belongs to the upper end, so that the mean of 1/Y is kept; rounded up.
    outside : float
        The probability beyond the last cell, and also before the first one.
    """

    logs: Array
    masses: Array
    shares: Array
    outside: float


@lru_cache(maxsize=16)
def _cells(separation: float) -> _Cells:
    """Return the cells of N between −9.4 and 9.4."""
    points = np.linspace(-TAIL, TAIL, _CELLS + 1)
    masses = between(points)
    # 1/Y = exp(−aN − a²/2) has the mean Φ(u + a) − Φ(l + a) in a cell from l to u. Measured in 1/Y at the lower end:
    with np.errstate(over="ignore", invalid="ignore"):
        means = between(points + separation) / masses * np.exp(separation * points[:-1] + separation**2 / 2)
        shares = (1 - means) / -np.expm1(-separation * np.diff(points)) + 1e-9
    # Where a tail may be subnormal, all of the cell counts as its upper end.
    shares = np.where(points[1:] + separation < _DIGITS, np.clip(shares, 0.0, 1.0), 1.0)
    return _Cells(separation * points + separation**2 / 2, masses, shares, 0.5 * math.erfc(TAIL / math.sqrt(2)))


class _Others(NamedTuple):
    """The X of the t − 1 other steps add up to more than s with a probability of at most τ.

    Attributes
    ----------
    log_sum : float
        ln s.
    charge : float
        τ, rounded up.
    size : float
        The sum of the absolute values that were added up for ln s, for its rounding.
    """

    log_sum: float
    charge: float
    size: float


def _others(separation: float, steps: int, about: float) -> _Others:
    """Return s = (t − 1)·K and τ = (t − 1)·Φ(−ν) for K = exp(aν − a²/2).

    Every ν is valid. It is chosen for τ to be a small part of δ, which is `about` this.
    """
    rare = min(max(_SHARE * about / (steps - 1), 1e-300), 0.5)
    reach = -NormalDist().inv_cdf(rare)
    charge = (steps - 1) * 0.5 * math.erfc(reach / math.sqrt(2)) * (1 + 1e-12)
    log_count = math.log(steps - 1)
    log_sum = log_count + separation * reach - separation**2 / 2
    return _Others(log_sum, charge, log_count + separation * reach + separation**2 / 2)


def _single(separation: float, point: float) -> float:
    """Return G(point), rounded up, for a point of either sign: G(−y) = 1 − e^−y + e^−y·G(y)."""
    size = abs(point)
    known = gaussian_alone(1 / separation, size)
    if point >= 0:
        return known
    return min(1.0, (-math.expm1(-size) + math.exp(-size) * known) * (1 + 8 * UNIT))
