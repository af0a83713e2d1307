"""Privacy losses of rounds on a lattice, in balls, and δ(ε) of their sum.

Upper bounds of δ at some lattice points, connected in t = e^ε, are the profile of a distribution of losses that
dominates the round. The losses of rounds add up, and the transform of their sum gives δ(ε) of all rounds together
(docs/theory/composition.md, docs/theory/certificates.md, section 4).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from flint import arb

from shoal.proofs.balls import Ball, ball, total
from shoal.proofs.lattice import LatticeMeasure, LatticeSum, Roots, Turns, hockey_stick
from shoal.proofs.transforms import least_at, log_moments
from shoal.proofs.work import keep, spend, transient

__all__ = ["LossBalls", "Tilt", "dominating", "lattice_index", "short", "summed", "tilt_for"]

_CLEAR = 21.0  # aliases are to stay below exp(−21) of the answer: fewer aliases take more nodes
_PERIOD = 9.5  # the least period, in standard deviations of all losses together: a longer one takes more nodes
_SEARCHES = 50  # steps of the search for a tilt, each of which leaves 0.618 of an interval
_STEEPEST = 600.0  # the largest exponent θ·loss whose exponential floating point can hold


class LossBalls(NamedTuple):
    """Masses of P on a lattice, at rising multiples of its step that are symmetric about 0, and at infinity."""

    multiples: tuple[int, ...]
    masses: tuple[Ball, ...]
    infinite: Ball

    def floats(self, step: float) -> list[tuple[float, float]]:
        """Return the finite losses that are not impossible and the logarithms of their masses, in floats."""
        rows = zip(self.multiples, map(float, self.masses), strict=True)
        return [(step * multiple, math.log(mass)) for multiple, mass in rows if mass > 0]


def dominating(
    step: float,
    stride: int,
    multiples: Sequence[int],
    heights: Sequence[Ball],
    backward: Sequence[Ball] | None = None,
) -> LossBalls:
    """Return losses that dominate any round whose δ at these multiples of h·stride is at most these heights.

    The multiples rise from 0. The heights are numbers, balls of radius zero; `backward` has as many, of the exchanged
    pair, where each direction is by itself. Points above the chord of two others are left out until the slopes are
    proved to rise; whichever are left out, chords of the others are above a convex function.
    """
    spend(10 + 8 * len(multiples))
    keep(4 * len(multiples))
    ahead = [*accumulate(heights, min)]
    behind = ahead if backward is None else [*accumulate(backward, min)]
    growth = [(ball(step) * (stride * multiple)).exp() for multiple in multiples]
    if len(ahead) == 1:
        return LossBalls((0,), (1 - ahead[0],), ahead[0])
    first = min(ahead[0], behind[0])
    if backward is None:
        # At t = 1, a point and its mirror image have a chord as well.
        for t, height in zip(growth[1:], ahead[1:], strict=True):
            first = min(first, (t - 1 + 2 * height) / (t + 1))
    opposite, slope = _opposite(first, ahead, growth)
    mirrored, fall = (opposite, slope) if backward is None else _opposite(first, behind, growth)
    masses = [t * mass for t, mass in zip(growth[1:], opposite, strict=True)]  # (4.1)
    centre = (slope + fall + 1 - first).max(arb(0))  # (4.2)
    right = [stride * multiple for multiple in multiples[1:]]
    left = [-multiple for multiple in reversed(right)]
    everywhere = (*reversed(mirrored), centre, *masses)
    return LossBalls((*left, 0, *right), everywhere, min(ahead[-1], first))


def _opposite(first: Ball, falling: Sequence[Ball], growth: Sequence[Ball]) -> tuple[list[Ball], Ball]:
    """Return the masses of Q at the points after the first, from slopes of chords that rise, and the first slope."""
    # δ does not rise, so that no point is above the first.
    points = [first, *(height if height <= first else first for height in falling[1:])]
    kept = [0]
    slopes: list[Ball] = []
    for index in range(1, len(points)):
        slope = (points[index] - points[kept[-1]]) / (growth[index] - growth[kept[-1]])
        while slopes and not slopes[-1] <= slope:  # the point before lies above a chord, or may
            kept.pop()
            slopes.pop()
            slope = (points[index] - points[kept[-1]]) / (growth[index] - growth[kept[-1]])
        kept.append(index)
        slopes.append(slope)
    masses = [arb(0)] * (len(points) - 1)
    for position, index in enumerate(kept[1:]):
        after = slopes[position + 1] if position + 1 < len(slopes) else arb(0)
        masses[index - 1] = (after - slopes[position]).max(arb(0))  # (4.1)
    return masses, slopes[0]


class Tilt(NamedTuple):
    """Where to sum: θ, and the number of nodes, which is odd."""

    tilt: float
    nodes: int


def tilt_for(rounds: Sequence[tuple[LossBalls, int]], step: float, epsilon: float) -> Tilt:
    """Return about the best tilt at ε, and enough nodes that aliases are negligible."""
    kinds = [(losses.floats(step), times) for losses, times in rounds]
    largest = max(step * losses.multiples[-1] for losses, _ in rounds)

    def moments(tilt: float) -> tuple[float, float]:
        """Return ln φ(θ) and the variance of all rounds together."""
        parts = [(times, log_moments(rows, tilt)) for rows, times in kinds]
        return sum(times * each[0] for times, each in parts), sum(times * each[2] for times, each in parts)

    def log_term(tilt: float) -> float:
        """Return about the logarithm of the term of (4.3) at θ itself."""
        return moments(tilt)[0] - tilt * epsilon - math.log(tilt) - math.log1p(tilt)

    width = math.sqrt(moments(0.0)[1]) + step
    low = math.log(1e-3 / width)
    high = math.log(min(60 / width, _STEEPEST / (largest + step)))
    tilt = math.exp(least_at(lambda log: log_term(math.exp(log)), low, high, _SEARCHES))
    deviation = math.sqrt(moments(tilt)[1]) + step
    clear = (max(-log_term(tilt), 1.0) + _CLEAR) / tilt
    period = max(clear, _PERIOD * max(deviation, width)) / step
    return Tilt(tilt, 2 * math.ceil(period / 2) + 1)


def short(step: float) -> float:
    """Return the step rounded down to 32 digits, so that all its multiples up to 2²¹ are exact in float64."""
    digits, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(digits, 32)), exponent - 32)


def lattice_index(epsilon: float, step: float) -> int:
    """Return the largest integer whose multiple of the step is at most ε.

    The quotient of floats may round up to the next integer. A chord that begins there would be extrapolated to ε, and
    would be too small.

    Examples
    --------
    >>> lattice_index(0.3, 0.1), int(0.3 / 0.1), lattice_index(1.0, 0.1), int(1.0 / 0.1)
    (2, 2, 9, 10)
    """
    return Fraction(epsilon) // Fraction(step)


def summed(rounds: Sequence[tuple[LossBalls, int]], step: float, tilt: Tilt, epsilon: float) -> Ball:
    """Return a ball whose upper end is at least δ(ε) of all rounds together, for every tilt and number of nodes."""
    width = ball(step)
    theta = ball(tilt.tilt) * width
    index = lattice_index(epsilon, step)
    with transient():
        roots = Roots(tilt.nodes)
        factors = [(_tilted(losses, roots, theta), times) for losses, times in rounds]
        factors.sort(key=lambda factor: -factor[1] * len(factor[0].shares))  # the first leaves the most nodes out
        losses_of_all = LatticeSum(factors, hockey_stick(width))
        before = losses_of_all.upper(index)
        after = losses_of_all.upper(index + 1)
    # Between two lattice points δ is linear in e^ε.
    start = (width * index).exp()
    stop = (width * (index + 1)).exp()
    share = (ball(epsilon).exp() - start) / (stop - start)
    infinite = total([times * losses.infinite for losses, times in rounds])
    return before * (1 - share) + after * share + infinite


def _tilted(losses: LossBalls, roots: Roots, theta: Ball) -> LatticeMeasure:
    """Return the finite losses of a round, tilted by θ, at these nodes."""
    keep(20 + 8 * len(losses.multiples))
    return LatticeMeasure(Turns(losses.multiples, roots, shared=False), losses.masses, theta)
