"""What real inputs reach among reports with noise on a grid: a lower limit of δ(ε), from the cells as they are drawn.

The victim holds an end of the interval, all others hold the lower end, the upper one, or the middle. Cells are put
together into pools, which can only hide something: δ(ε) is at least that of the pools, E[(W₁ + … + Wₙ)₊]/n with the
finite W = (R₀ − e^ε·R₁)/R, which is bounded from below (docs/theory/numbers.md, section 2).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.split_sum import Piece, lower_sum, rough_log_sum, split
from shoal.pairs import gaussian_guess
from shoal.rounding import slack
from shoal.searches import bisect_safe, rough_root

__all__ = ["Pools", "ReachedByNoise"]

_PRECISION, _CLOSE = 1e-4, 1e-5
"""What smoothing may take from δ, and how close an ε is looked for, relatively: fewer nodes against a lower limit."""
_TINY = 1e-6
"""For a smaller δ the answer at this one counts, too."""
_TRIES = 30
"""How many ε are tried for the last digits."""
_LARGEST_EPSILON = 600.0
"""For a larger ε, e^ε times a probability may overflow, and nothing is claimed."""
_LARGEST_VALUE = 1e60
"""A larger W counts as this one, which can only lower δ; a smaller one than its negative, as no report at all."""

Array = NDArray[np.float64]


class Pools(NamedTuple):
    """The probabilities of pools of cells from the lower end, the upper end, and from what all others hold.

    Attributes
    ----------
    first, second, others : tuple of float
        A pool each.
    wrong : float
        By which part of itself each of them may be wrong.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    others: tuple[float, ...]
    wrong: float


@dataclass(frozen=True)
class ReachedByNoise:
    """The largest δ(ε) that some datasets reach, rounded down.

    Attributes
    ----------
    reports : int
        n.
    datasets : tuple of Pools
        What the victim and all others report, a dataset each.
    """

    reports: int
    datasets: tuple[Pools, ...]

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""
        return max((_reached(self.reports, pools, epsilon) for pools in self.datasets), default=0.0)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down: the lower bound of δ at the answer is at least δ."""
        wanted = max(delta, SMALLEST_DELTA)
        # ε does not fall as δ falls, though the search for a tiny δ may end earlier.
        best = self.epsilon(_TINY) if wanted < _TINY else 0.0
        for pools in sorted(self.datasets, key=lambda each: -_guess(self.reports, each, wanted)[0]):
            if best == 0 or _reached(self.reports, pools, best * (1 + 1e-3)) > wanted:
                best = max(best, _searched(self.reports, pools, wanted))
        return best


def _gains(pools: Pools, epsilon: float) -> tuple[Array, Array]:
    """Return E[W; pool] of each pool, and its error."""
    exp_eps = math.exp(epsilon)
    first, second = np.array(pools.first), np.array(pools.second)
    error = pools.wrong + slack(8) * (1 + epsilon)
    return first - exp_eps * second, (first + exp_eps * second) * error


def _summand(pools: Pools, epsilon: float) -> tuple[Array, Array]:
    """Return W·e^−ε, ascending, and its probabilities, smaller than the exact ones by all errors."""
    gains, errors = _gains(pools, epsilon)
    masses = np.array(pools.others)
    with np.errstate(over="ignore"):
        values = (gains - errors) / masses * math.exp(-epsilon)
    values = np.clip(values - slack(16) * np.abs(values), -_LARGEST_VALUE, _LARGEST_VALUE)
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    # All but the least value get less than they have, and the least one gets the rest: that lowers W.
    masses = masses * (1 - 2 * pools.wrong)
    masses[0] = max(1 - float(masses[1:].sum()) * (1 + slack(256)), 0.0)
    return values, masses


@lru_cache(maxsize=1024)
def _pieces(reports: int, pools: Pools, epsilon: float) -> tuple[tuple[Piece, ...], float]:
    """Return how to sum W, and roughly log δ(ε)."""
    values, masses = _summand(pools, epsilon)
    if values[-1] <= 0:
        return (), -math.inf
    pieces = split(values, masses, reports, _PRECISION)
    return pieces, rough_log_sum(pieces) + epsilon - math.log(reports)


@lru_cache(maxsize=256)
def _guess(reports: int, pools: Pools, delta: float) -> tuple[float, float]:
    """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
    gains, _ = _gains(pools, 0.0)
    if reports <= 2 or float(np.maximum(gains, 0.0).sum()) <= delta:
        return 0.0, -1.0
    largest = math.log(max(one / two for one, two in zip(pools.first, pools.second, strict=True)))
    ceiling = min(largest, _LARGEST_EPSILON)
    values, masses = _summand(pools, 0.0)
    spread = math.sqrt(float((masses * np.clip(values, -1.0, 1.0) ** 2).sum()) / reports)
    start, slope = gaussian_guess(spread, delta)
    return rough_root(
        lambda epsilon: _pieces(reports, pools, epsilon)[1] - math.log(delta), ceiling, min(start, 0.5 * ceiling), slope
    )


def _searched(reports: int, pools: Pools, delta: float) -> float:
    """Return ε(δ) of one dataset, rounded down."""
    if reports <= 2:
        return bisect_safe(
            lambda epsilon: _reached(reports, pools, epsilon) >= delta,
            unsafe=_LARGEST_EPSILON,
            good=0.0,
            relative=_CLOSE,
        )
    point, slope = _guess(reports, pools, delta)
    best, worst = 0.0, math.inf
    for tries in range(_TRIES):
        reached = _reached(reports, pools, point)
        if reached >= delta:
            best = max(best, point)
        else:
            worst = min(worst, point)
        if worst - best <= _CLOSE * best:
            break
        move = -math.log(max(reached, 1e-320) / delta) / slope
        point += move - 0.3 * _CLOSE * point
        if not best < point < worst or (tries > _TRIES // 3 and worst < math.inf):
            point = 0.5 * (best + worst) if worst < math.inf else 1.01 * best + 1e-9
    return best


@lru_cache(maxsize=256)
def _reached(reports: int, pools: Pools, epsilon: float) -> float:
    """Return what the dataset has as δ(ε) at least."""
    if epsilon > _LARGEST_EPSILON:
        return 0.0
    gains, errors = _gains(pools, epsilon)
    masses = np.array(pools.others)
    least = _unhidden(reports, masses, gains - errors)
    if reports == 2:  # E[(W₁ + W₂)₊]/2, outcome by outcome
        table = np.multiply.outer(gains - errors, masses * (1 - pools.wrong))
        less = np.multiply.outer(gains - errors, masses * (1 + pools.wrong))
        sums = np.where(table > 0, table, less)
        least = max(least, 0.5 * float(np.maximum(sums + sums.T, 0.0).sum()) * (1 - 1e-12))
    elif reports > 2:
        pieces, _ = _pieces(reports, pools, epsilon)
        total = lower_sum(*_summand(pools, epsilon), reports, pieces)
        least = max(least, total * math.exp(epsilon) / reports * (1 - slack(16)))
    return least if least > SMALLEST_DELTA else 0.0


def _unhidden(reports: int, masses: Array, gains: Array) -> float:
    """Return the larger of E[S; no W is negative]/n and E[S; exactly one W is positive]/n."""
    alone = float(np.maximum(gains, 0.0).sum()) * (1 - slack(len(gains) + 8))
    above = float(masses[gains > 0].sum()) * (1 + slack(len(gains) + 64))
    below = float(masses[gains <= 0].sum()) * (1 + slack(len(gains) + 64))
    less = float(np.maximum(-gains, 0.0).sum()) * (1 + slack(len(gains) + 64))
    others = reports - 1
    none = alone * max(0.0, 1 - others * below)
    one = alone * (1 - reports * above) - others * above * less
    return max(0.0, none, one) * (1 - slack(64))
