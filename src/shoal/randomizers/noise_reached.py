"""What real inputs reach among reports with noise on a grid: a lower limit of δ(ε), from the cells as they are drawn.

The victim holds an end of the interval, all others hold the lower end, the upper one, or the middle. Cells are put
together into pools, which can only hide something. A test that adds up W = (R₀ − e^ε·R₁)/R of the pools, rounded to a
lattice, is evaluated as it is: what it tells is reached, however it was chosen (docs/theory/numbers.md, section 2).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.lattice_sum import LatticeSum
from shoal.numerics.noise_delta import Saddle
from shoal.pairs import gaussian_guess
from shoal.rounding import slack
from shoal.searches import bisect_safe

__all__ = ["Pools", "ReachedByNoise"]

_PRECISION, _CLOSE = 3e-4, 1e-5
"""What rounding to a lattice may take from δ, roughly; and how close an ε is looked for."""
_STEPS, _TRIES = 12, 8
_CLEAR = 14.0
_FARTHEST = 600.0
_LARGEST = 1e60
"""Of W: what is larger is not told from it."""

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
        best = 0.0
        wanted = max(delta, SMALLEST_DELTA)
        for pools in sorted(self.datasets, key=lambda each: -_guess(self.reports, each, wanted)[0]):
            if best == 0 or _reached(self.reports, pools, best * (1 + 1e-3)) > wanted:
                best = max(best, _searched(self.reports, pools, wanted))
        return best


def _values(pools: Pools, epsilon: float) -> tuple[Array, Array, Array, Array]:
    """Return masses, E[W; pool], how wrong that may be, and E[R₁/R; pool]."""
    growth = math.exp(epsilon)
    first, second, others = (np.array(part) for part in pools[:3])
    gains = first - growth * second
    return others, gains, (first + growth * second) * (pools.wrong + slack(8) * (1 + epsilon)), growth * second


@lru_cache(maxsize=1024)
def _saddle(reports: int, pools: Pools, epsilon: float) -> Saddle:
    masses, gains, _, seconds = _values(pools, epsilon)
    scale = 2.0 ** math.floor(epsilon / math.log(2))
    with np.errstate(over="ignore"):
        values, losses = (np.clip(part / masses / scale, -_LARGEST, _LARGEST) for part in (gains, seconds))
    spare = 0.1 * _PRECISION * float(np.maximum(gains, 0.0).sum())
    return Saddle.at(reports, values, masses, losses, cap=math.inf, scale=scale, spare=max(spare, SMALLEST_DELTA))


@lru_cache(maxsize=256)
def _guess(reports: int, pools: Pools, delta: float) -> tuple[float, float]:
    """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
    _, gains, _, _ = _values(pools, 0.0)
    if reports <= 2 or float(np.maximum(gains, 0.0).sum()) <= delta:
        return 0.0, -1.0
    low, high = 0.0, min(math.log(max(a / b for a, b in zip(pools.first, pools.second, strict=True))), _FARTHEST)
    saddle = _saddle(reports, pools, 0.0)
    point = min(gaussian_guess(saddle.spread / reports, delta)[0], 0.5 * high)
    for _ in range(_STEPS):
        saddle = _saddle(reports, pools, point)
        height = saddle.log_delta - math.log(delta)
        low, high = (point, high) if height > 0 else (low, point)
        if abs(height) < 0.02 or high - low <= 1e-6 * high:
            break
        point -= height / saddle.slope
        if not low < point < high:
            point = 0.5 * (low + high)
    return point, saddle.slope


def _searched(reports: int, pools: Pools, delta: float) -> float:
    """Return ε(δ) of one dataset, rounded down."""
    if reports <= 2:
        return bisect_safe(
            lambda epsilon: _reached(reports, pools, epsilon) >= delta, unsafe=_FARTHEST, good=0.0, relative=_CLOSE
        )
    point, slope = _guess(reports, pools, delta)
    best, worst = 0.0, math.inf
    for _ in range(_TRIES):
        reached = _reached(reports, pools, point)
        if reached >= delta:
            best = max(best, point)
        else:
            worst = min(worst, point)
        if worst - best <= _CLOSE * best:
            break
        move = -math.log(max(reached, 1e-320) / delta) / slope
        point += move - 0.3 * _CLOSE * point
        if not best < point < worst:
            point = 0.5 * (best + worst) if worst < math.inf else 1.01 * best + 1e-9
    return best


@lru_cache(maxsize=256)
def _reached(reports: int, pools: Pools, epsilon: float) -> float:
    """Return what the dataset has as δ(ε) at least."""
    if epsilon > _FARTHEST:
        return 0.0
    masses, gains, doubts, _ = _values(pools, epsilon)
    least = _unhidden(reports, masses, gains - doubts)
    if reports == 2:  # E[(W₁ + W₂)₊]/2, outcome by outcome
        table = np.multiply.outer(gains - doubts, masses * (1 - pools.wrong))
        less = np.multiply.outer(gains - doubts, masses * (1 + pools.wrong))
        sums = np.where(table > 0, table, less)
        least = max(least, 0.5 * float(np.maximum(sums + sums.T, 0.0).sum()) * (1 - 1e-12))
    elif reports > 2:
        least = max(least, _tested(reports, pools, epsilon))
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


def _tested(reports: int, pools: Pools, epsilon: float) -> float:
    """Return the part of δ(ε) that a test of rounded sums tells."""
    saddle = _saddle(reports, pools, epsilon)
    masses, gains, doubts, _ = _values(pools, epsilon)
    step = math.sqrt(12 * _PRECISION / (reports * saddle.often)) / saddle.tilt
    depth = math.log1p(math.exp(epsilon)) - saddle.log_delta + _CLEAR
    period = max(depth / saddle.tilt, 7.5 * saddle.spread, 1.2 * saddle.cap)
    with np.errstate(over="ignore"):
        values = np.clip(gains / masses / saddle.scale, -_FARTHEST / saddle.tilt, saddle.cap)
    while True:
        numbers = np.rint(values / step).astype(np.int64)
        positions, where = np.unique(np.append(numbers, 0), return_inverse=True)
        count = len(positions)
        rounded = np.asarray(np.bincount(where[:-1], masses, count), dtype=np.float64)
        lattice = LatticeSum(step, positions, tilt=saddle.tilt, copies=reports, period=period, masses=rounded)
        if lattice.usable or step * saddle.tilt > 0.2:
            break
        step *= 2
    if not lattice.usable:
        return 0.0
    told = np.bincount(where[:-1], gains, count) / saddle.scale
    wrong = np.bincount(where[:-1], doubts + slack(64) * np.abs(gains), count) / saddle.scale
    errors = np.asarray(rounded * (pools.wrong + slack(64)), dtype=np.float64)
    return lattice.lower(rounded, told, (errors, wrong)) * saddle.scale * (1 - slack(8))
