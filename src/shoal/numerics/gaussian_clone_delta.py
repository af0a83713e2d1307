"""δ(ε) of the clones of a Gaussian: the victim's report among Bin(n − 1, 1/q) draws from the one between.

Before noise of deviation one, the victim's two reports lie at a and −b on a line, a, b ≥ 0; everybody else reports the
normal distribution at 0 with probability 1/q. Then δ(ε) = E[(W₁ + … + Wₙ)₊]/n with W = q·(X₀ − e^ε·X₁) where somebody
does, else 0, for X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2) and a standard normal Z (docs/theory/sgd.md). W grows with
Z. Three steps, all of them upwards: above a point the victim is given up, at a cost of `tail`; far below, W is raised;
and in between it is moved to a lattice, each value to the two nearest positions with its mean kept. The masses and
means of the cells between positions have closed forms.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.lattice import LatticeDistribution
from shoal.rounding import UNIT

__all__ = ["clone_variance", "gaussian_clones"]

_FINENESS = 48
"""How many positions there are to a standard deviation of X₀ − X₁."""
_BULK = 8
"""So many deviations from zero on, positions lie farther apart,"""
_SPACING = 32
"""at most this part of their distance from zero."""
_OUTWEIGH = 1e-10
"""By so much a and b are enlarged, which outweighs what rounding does to the masses, as the lattice does."""
_WIDEST = 25.0
"""Where W goes beyond exp(25), nothing is claimed."""
_STEEPEST = 600.0
_SELDOM = 1e-7
_MOST_TERMS = 5e6
_LONGEST = 1 << 18
"""Up to this many steps a period may be longer."""


def clone_variance(above: float, below: float) -> float:
    """Return E[(X₀ − X₁)²]: the loss has about q/n times that as its variance."""
    return math.expm1(min(above**2, 600.0)) + math.expm1(min(below**2, 600.0)) - 2 * math.expm1(-above * below)


def gaussian_clones(
    above: float, below: float, log_ratio: float, reports: int, epsilon: float, *, tail: float
) -> float:
    """Return an upper bound of δ(ε) for a = above, b = below, q = exp(log_ratio); `tail` > 0 is part of it."""
    if above != below and above and below:
        raise ValueError(f"two different distances are only known if one is 0, got {above!r} and {below!r}")
    a, b = above * (1 + _OUTWEIGH), below * (1 + _OUTWEIGH)
    highest = -NormalDist().inv_cdf(tail) + a
    if max(a * highest, b * highest + epsilon) > _WIDEST:
        return 1.0
    distribution = _distribution(a, b, log_ratio, epsilon, highest)
    share, copies, step = math.exp(-log_ratio), float(reports), distribution.step
    # The mean of the masses may be off by a few units of the range; f(−o) ≤ f(0) + (o/kh)·(f(−kh) − f(0)) for o ≤ kh.
    off = 16 * UNIT * copies * share * (1 + math.exp(epsilon))
    back = max(1, math.ceil(off / step))
    root = math.sqrt(copies * share * clone_variance(above, below))
    tilt = _tilt(distribution, copies, 1 / root)
    while True:
        log_moment, weights = distribution.log_moment(tilt)
        period = max((31 - copies * log_moment) / tilt, 9 * root + 2)
        often = copies * float(weights[distribution.step * distribution.positions > period / 3].sum())
        if often < _SELDOM or tilt < 0.1 / root:
            break
        tilt *= 0.8  # so that hardly any sum is a period too large
    if often >= _SELDOM:  # one draw alone may be: the period is longer than that, where it costs little
        period = max(period, min(1.25 * step * float(distribution.positions[-1]), _LONGEST * step))
    ramp = distribution.transform(tilt, period, reports, most=_MOST_TERMS).power(reports)
    value, before = ramp.upper(np.array([0, -back])).tolist()
    summed = value + max(0.0, before - value) * off / (back * step) if before < math.inf else math.inf
    # Where the transform says nothing: (x)₊ ≤ exp(θx)/(eθ).
    least = math.exp(min(copies * log_moment + tilt * off + ramp.slack, 700.0)) / (math.e * tilt)
    delta = min(summed, least * (1 + 1e-9)) / (share * copies) * (1 + 1e-12)
    return min(1.0, max(delta, SMALLEST_DELTA) + tail * (1 + 1e-9))


def _tilt(distribution: LatticeDistribution, copies: float, start: float) -> float:
    """Return a θ just below the minimum of M(θ)ⁿ/θ²; any θ would be valid."""
    values = distribution.step * distribution.positions

    def rising(tilt: float) -> bool:
        return copies * float((distribution.log_moment(tilt)[1] * values).sum()) > 2 / tilt

    low = high = min(start, _STEEPEST / distribution.step / 4)
    while rising(low):
        low, high = low / 2, low
    while low == high or not rising(high):
        low, high = high, 2 * high
        if high > _STEEPEST / distribution.step:
            return low
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rising(middle) else (middle, high)
    return low


def _distribution(above: float, below: float, log_ratio: float, epsilon: float, highest: float) -> LatticeDistribution:
    """Return the distribution of W/q, with nothing beyond Z = highest, and raised where Z < −highest."""
    growth, share = math.exp(epsilon), math.exp(-log_ratio)
    ends = [
        math.exp(above * z - above**2 / 2) - growth * math.exp(-below * z - below**2 / 2) for z in (-highest, highest)
    ]
    step = math.sqrt(clone_variance(above, below)) / _FINENESS
    positions = _positions(math.floor(ends[0] / step), math.ceil(ends[1] / step))
    levels = step * positions
    points = np.clip(_inverse(levels, above, below, growth), -highest, highest)
    points[0], points[-1] = -highest, highest
    masses = share * _between(points)
    means = share * (_between(points - above) - growth * _between(points + below))
    rights = np.clip((means - levels[:-1] * masses) / np.diff(levels), 0.0, masses)
    heaps = np.zeros(len(positions))
    heaps[1:] += rights
    heaps[:-1] += masses - rights
    outside = share * 0.5 * math.erfc(highest / math.sqrt(2))
    heaps[int(np.searchsorted(levels, ends[0]))] += outside  # raised
    heaps[int(np.searchsorted(positions, 0))] += outside - math.expm1(-log_ratio)
    kept = heaps > 0
    return LatticeDistribution(step, positions[kept], heaps[kept])


def _positions(lowest: int, highest: int) -> NDArray[np.int64]:
    """Return the positions from the lowest to the highest, with zero, farther apart far out."""
    last = _BULK * _FINENESS
    sides = []
    for reach in (-lowest, highest):
        side = list(range(1, min(last, max(reach, 1)) + 1))
        while side[-1] < reach:
            side.append(side[-1] + 1 + side[-1] // _SPACING)
        sides.append(np.array(side))
    return np.concatenate((-sides[0][::-1], [0], sides[1]))


def _inverse(levels: NDArray[Any], above: float, below: float, growth: float) -> NDArray[np.float64]:
    """Return the Z at which W/q has each value, where there is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if below == 0:
            points = (np.log(np.maximum(levels + growth, 0.0)) + above**2 / 2) / above
        elif above == 0:
            points = -(np.log(np.maximum(1.0 - levels, 0.0) / growth) + below**2 / 2) / below
        else:  # a = b: y − e^ε/y = w·exp(a²/2) for y = exp(aZ)
            lifted = levels * math.exp(above**2 / 2) / 2
            roots = np.sqrt(lifted**2 + growth)
            points = np.log(np.where(lifted >= 0, lifted + roots, growth / (roots - lifted))) / above
    return np.asarray(points)


def _between(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mass of the standard normal distribution between each two neighbouring points, ascending."""
    tails = np.array([0.5 * math.erfc(abs(point) / math.sqrt(2)) for point in points.tolist()])
    right = points > 0
    falls = np.where(right[:-1], -np.diff(tails), np.diff(tails))
    return np.where(right[1:] & ~right[:-1], 1 - tails[1:] - tails[:-1], falls)
