"""δ(ε) of the clones of a Gaussian (Theorem G): the victim's report among Bin(n − 1, 1/q) clones.

Before noise of standard deviation one, the victim's two reports lie at a and −b on a line, a, b ≥ 0. Every
other report is drawn from the normal distribution at 0 with probability 1/q. Then δ(ε) = E[(W₁ + … + Wₙ)₊]/n
with W = q·(X₀ − e^ε·X₁) with probability 1/q, otherwise 0, for X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2) and
a standard normal Z (docs/theory/sgd.md, section 6). Three steps, all of them upwards: above a point the victim
is given up, at a cost of `tail`; far below, W is raised; in between W is moved to a lattice, each value to the
two nearest positions with its mean kept.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.lattice import LatticeMeasure, node_sum, ramp
from shoal.numerics.normal import OUTWEIGH, mean_kept, quantile, ratio_points, upper_tail
from shoal.rounding import LARGEST_POWER, UNIT

__all__ = ["clone_variance", "gaussian_clones"]

_FINENESS = 48
"""Positions per standard deviation of X₀ − X₁: δ grows by 1e-4 of itself; more of them take longer."""
_BULK = 8
"""Beyond this many standard deviations positions lie farther apart, as few values are there."""
_SPACING = 32
"""There they are this part of their distance from zero apart, so that their number stays small."""
_WIDEST = 25.0
"""Where W exceeds exp(25), which is far more than any useful setting has, the bound is 1."""
_SELDOM = 1e-7
"""The expected number of draws above a third of a period, under the tilt; more would count as aliases."""
_LONGEST = 1 << 18
"""Up to this many steps a period may be longer, where single draws exceed it; more would take longer."""


def clone_variance(above: float, below: float) -> float:
    """Return E[(X₀ − X₁)²]: the loss has about q/n times that as its variance."""
    squares = math.expm1(min(above**2, 600.0)) + math.expm1(min(below**2, 600.0))
    return squares - 2 * math.expm1(-above * below)


def gaussian_clones(
    above: float, below: float, log_ratio: float, reports: int, epsilon: float, *, tail: float
) -> float:
    """Return an upper bound of δ(ε) for a = above, b = below, q = exp(log_ratio); `tail` > 0 is part of it."""
    if above != below and above and below:
        message = f"two different distances are only known if one is 0, got {above!r} and {below!r}"
        raise ValueError(message)
    a = above * (1 + OUTWEIGH)
    b = below * (1 + OUTWEIGH)
    highest = a - quantile(tail)
    if max(a * highest, b * highest + epsilon) > _WIDEST:
        return 1.0
    share = math.exp(-log_ratio)
    measure = _measure(a, b, log_ratio, epsilon, highest)
    root = math.sqrt(reports * share * clone_variance(above, below))
    tilt, period = _tilt_and_period(measure, reports, root)
    nodes = 1 << max(8, math.ceil(math.log2(period / measure.step)))
    sums = node_sum([(measure, reports)], tilt, nodes, ramp(measure.step))
    # The mean of the masses may be wrong by a few units of the range: x is lower by as much. As the bound is
    # convex in x, f(−o) ≤ f(0) + (o/kh)·(f(−kh) − f(0)) for o ≤ kh.
    off = 16 * UNIT * reports * share * (1 + math.exp(epsilon))
    back = max(1, math.ceil(off / measure.step))
    indices = np.array([0, -back])
    value, before = sums.upper(indices, sums.sums(indices)).tolist()
    summed = math.inf
    if before < math.inf:
        summed = value + max(0.0, before - value) * off / (back * measure.step)
    # Where the transform says nothing: (x)₊ ≤ exp(θx)/(eθ).
    exponent = sums.log_moment + tilt * off + sums.slack
    chernoff = math.exp(min(exponent, 700.0)) / (math.e * tilt) * (1 + 1e-9)
    delta = min(summed, chernoff) / (share * reports) * (1 + 1e-12)
    return min(1.0, max(delta, SMALLEST_DELTA) + tail * (1 + 1e-9))


def _tilt_and_period(measure: LatticeMeasure, copies: int, root: float) -> tuple[float, float]:
    """Return a tilt, and how far apart aliases are to be, for a sum of standard deviation `root`."""
    values = measure.values
    tilt = _tilt(measure, copies, 1 / root)
    while True:
        log_moment, weights = measure.tilted(tilt)
        # Aliases below are at most e^−31 of the scale.
        period = max((31 - copies * log_moment) / tilt, 9 * root + 2)
        often = copies * float(weights[values > period / 3].sum())
        if often < _SELDOM:
            return tilt, period
        if tilt < 0.1 / root:  # one draw alone may be: the period is longer, where it costs little
            return tilt, max(period, min(1.25 * float(values[-1]), _LONGEST * measure.step))
        tilt *= 0.8  # so that barely any sum is a period too large


def _tilt(measure: LatticeMeasure, copies: int, start: float) -> float:
    """Return a θ just below the minimum of M(θ)ⁿ/θ²; any θ would be valid."""
    values = measure.values

    def rising(tilt: float) -> bool:
        return copies * float((measure.tilted(tilt)[1] * values).sum()) > 2 / tilt

    # Double or halve until the minimum is enclosed, then bisect.
    steepest = LARGEST_POWER / measure.step
    low = min(start, steepest / 4)
    while rising(low):
        low /= 2
    while not rising(2 * low):
        low *= 2
        if 2 * low > steepest:
            return low
    high = 2 * low
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        if rising(middle):
            high = middle
        else:
            low = middle
    return low


def _measure(above: float, below: float, log_ratio: float, epsilon: float, highest: float) -> LatticeMeasure:
    """Return the distribution of W/q, with nothing beyond Z = highest, and raised where Z < −highest."""
    exp_eps = math.exp(epsilon)
    share = math.exp(-log_ratio)
    least, largest = (
        math.exp(above * z - above**2 / 2) - exp_eps * math.exp(-below * z - below**2 / 2) for z in (-highest, highest)
    )
    step = math.sqrt(clone_variance(above, below)) / _FINENESS
    positions = _positions(math.floor(least / step), math.ceil(largest / step))
    levels = np.asarray(step * positions, dtype=np.float64)
    points = np.clip(ratio_points(levels, (above, below, exp_eps)), -highest, highest)
    points[0] = -highest
    points[-1] = highest
    pmf = share * mean_kept(levels, points, (above, below, exp_eps))
    # Below −highest W/q is raised to its value there; above highest, and without a clone, it is 0.
    outside = share * upper_tail(highest)
    pmf[int(np.searchsorted(levels, least))] += outside
    pmf[int(np.searchsorted(positions, 0))] += outside - math.expm1(-log_ratio)
    kept = pmf > 0
    return LatticeMeasure(step, positions[kept], np.log(pmf[kept]))


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
