"""Sums of independent integers in balls, from above, and δ(ε) of many rounds, whose privacy losses are such integers.

With φ the transforms of measures on the integers, M the sum of their copies, κ(ζ) = Σ k(m)·e^{−ζm} over m ≥ 1 for a
kernel k ≥ 0, and ζ = θ + 2πij/N,

    E[k(M − u)]  ≤  e^{−θu} · (1/N) · Σ_j  Π φ(ζ)ⁿ · κ(ζ) · e^{−2πiju/N},

for every θ > 0 and every N, because aliases are not negative. Few nodes count, and the same nodes serve every u
(docs/theory/certificates.md, section 4). The kernel k(m) = m serves allocation, and the kernel k(m) = 1 − e^{−hm}
serves compositions: upper bounds of δ at some lattice points, connected in t = e^ε, are the profile of a distribution
of losses that dominates the round (docs/theory/composition.md).
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from flint import acb, arb, arb_mat

from shoal.proofs.balls import Ball, ball, total
from shoal.proofs.transforms import Row, Tilted, halved, least_at, log_moments
from shoal.proofs.work import keep, room, spend, transient

_DROPPED = 1e-20  # nodes proved to be below this part of the node at θ are charged: fewer terms, or a smaller charge
_SHORT = 8  # ranges of this number of nodes or fewer are summed: a node costs about as much as the bound of a range
# Neighbours with at least this part of the largest mass are a bulk: a larger bulk varies more, and leaves less outside.
_BULKS = (0.5, 0.2, 0.08, 0.03, 0.01)
_NODE = 20  # microseconds per node, or range of nodes, for powers and the kernel (measured)
_CLEAR = 21.0  # aliases are to stay below exp(−21) of the answer: fewer aliases take more nodes
_PERIOD = 9.5  # the least period, in standard deviations of all losses together: a longer one takes more nodes
_SEARCHES = 50  # steps of the search for a tilt, each of which leaves 0.618 of an interval
_STEEPEST = 600.0  # the largest exponent θ·loss whose exponential floating point can hold


class Roots(dict[int, Row]):
    """cos(πd/N) and sin(πd/N) for integers d from 0 to 2N − 1, computed when they are first used."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def __missing__(self, index: int) -> Row:
        """Compute the root at d = index, and keep it where there is memory."""
        spend(3)
        sine, cosine = (arb(index) / self.nodes).sin_cos_pi()
        if room(2.5):
            self[index] = cosine, sine
        return cosine, sine


class Turns:
    """cos(my) and sin(my) for given integers m, at y = πd/N; `shared` if several measures ask for the same d."""

    def __init__(self, multiples: tuple[int, ...], roots: Roots, *, shared: bool) -> None:
        self.multiples = multiples
        self.roots = roots
        self._shared = shared
        self._rows: dict[int, Row] = {}

    def row(self, doubled: int) -> Row:
        """Return all cosines, and all sines, at d = doubled."""
        known = self._rows.get(doubled)
        if known is not None:
            return known
        size = len(self.multiples)
        spend(1.5 * size)
        period = 2 * self.roots.nodes
        roots = [self.roots[doubled * multiple % period] for multiple in self.multiples]
        cosines = arb_mat(1, size, [cosine for cosine, _ in roots])
        sines = arb_mat(1, size, [sine for _, sine in roots])
        if self._shared and room(1.2 * size):
            self._rows[doubled] = cosines, sines
        return cosines, sines


class LatticeMeasure(Tilted):
    """A measure on the integers of `turns`, multiplied by e^{θm} and divided by its moment φ(θ)."""

    def __init__(self, turns: Turns, masses: Sequence[Ball], theta: Ball) -> None:
        super().__init__(turns.multiples, masses, theta)
        self.turns = turns
        self._nodes: dict[int, Ball] = {}
        self._ranges: dict[tuple[int, int], Ball] = {}

    def node(self, index: int) -> Ball:
        """Return φ(θ + iy)/φ(θ) at y = 2π·index/N."""
        value = self._nodes.get(index)
        if value is None:
            value = self.value(self.turns.row(2 * index))
            if room(3):
                self._nodes[index] = value
        return value

    def range_bound(self, first: int, final: int) -> Ball:
        """Return an upper bound of |φ(θ + iy)/φ(θ)|² at the nodes from the first to the final one."""
        bound = self._ranges.get((first, final))
        if bound is None:
            radius = arb.pi() * (final - first) / self.turns.roots.nodes
            bound = self.square_bound(self.turns.row(first + final), radius)
            if room(1):
                self._ranges[first, final] = bound
        return bound

    def tail_bound(self, first: int) -> Ball:
        """Return an upper bound of |φ(θ + iy)/φ(θ)|² at the nodes from the first one up to y = π."""
        slowest = 2 * (arb.pi() * first / self.turns.roots.nodes).sin()
        sizes = [variation / slowest + others for variation, others in self._bulks]  # (4.5)
        least = min(sizes, key=float)
        return (least * least).upper()

    @cached_property
    def _bulks(self) -> list[tuple[Ball, Ball]]:
        """The variation of the masses on intervals around the largest one, and the mass outside of each."""
        spend(4 * len(self.shares))
        masses = [float(share) for share in self.shares]
        mode = masses.index(max(masses))
        bulks = []
        for part in _BULKS:
            low, high = self._interval(masses, mode, part * masses[mode])
            inside = self.shares[low : high + 1]
            steps = [abs(after - before) for before, after in pairwise(inside)]
            variation = inside[0] + inside[-1] + total(steps)  # with zeros on both sides
            others = total(self.shares[:low]) + total(self.shares[high + 1 :])
            bulks.append((variation.upper(), others.upper()))
        return bulks

    def _interval(self, masses: Sequence[float], mode: int, least: float) -> tuple[int, int]:
        """Return the ends of the longest run of neighbouring integers around `mode` with at least this mass each."""
        multiples = self.turns.multiples
        low = high = mode
        while low > 0 and multiples[low] - multiples[low - 1] == 1 and masses[low - 1] >= least:
            low -= 1
        last = len(masses) - 1
        while high < last and multiples[high + 1] - multiples[high] == 1 and masses[high + 1] >= least:
            high += 1
        return low, high


class LatticeSum:
    """The sum of independent copies of measures, all on the same nodes and with the same θ.

    The first measure is the one by which ranges of nodes are left out, since no other factor exceeds one.
    """

    def __init__(self, factors: Sequence[tuple[LatticeMeasure, int]], kernel: Callable[[Ball], Ball]) -> None:
        first = factors[0][0]
        self._factors = factors
        self._kernel = kernel
        self._theta = first.theta
        self._roots = first.turns.roots
        self._largest = kernel(acb(first.theta)).real / first.turns.roots.nodes  # |κ| is largest at θ itself
        self._kept: list[int] = []
        self._parts: list[Ball] = []

    def upper(self, point: int) -> Ball:
        """Return an upper end of E[k(M − u)] at u = point."""
        terms, charged = self._terms
        nodes = self._roots.nodes
        spend(10 + 2 * len(self._kept))
        roots = [self._roots[2 * (point * index % nodes)] for index in self._kept]
        row = arb_mat(1, 2 * len(roots), [part for root in roots for part in root])
        log_moment = total([copies * measure.moment.log() for measure, copies in self._factors])
        scale = (log_moment - self._theta * point).exp()
        return (scale * ((row * terms)[0, 0] + charged)).upper()  # (4.3)

    @cached_property
    def _terms(self) -> tuple[Ball, Ball]:
        """The real and imaginary part of each term that is kept, as a column, and a charge for the other nodes."""
        last = self._roots.nodes // 2
        charged = total([self._summed(index) for index in range(min(_SHORT, last) + 1)])
        rest = halved(_SHORT + 1, last, short=_SHORT, charge=self._charge, summed=self._summed)
        return arb_mat(len(self._parts), 1, self._parts), (charged + rest).upper()

    def _summed(self, index: int) -> Ball:
        """Keep the term of a node and return zero, or return a charge for it."""
        product = acb(1)
        for measure, copies in self._factors:
            spend(_NODE)
            product *= measure.node(index) ** copies
            size = product.abs_upper()
            if size < _DROPPED:  # no other factor exceeds one
                return 2 * self._largest * size
        keep(6)
        nodes = self._roots.nodes
        term = product * self._kernel(acb(self._theta, 2 * arb.pi() * index / nodes)) / nodes
        if index:  # the node at −y has the conjugate
            term *= 2
        self._kept.append(index)
        self._parts += [term.real, term.imag]
        return arb(0)

    def _charge(self, first: int, final: int) -> Ball | None:
        """Return a charge for the nodes from the first to the final one, or None if they may count."""
        spend(_NODE)
        measure, copies = self._factors[0]
        bound = _power(measure.tail_bound(first), copies)
        if not bound < _DROPPED:
            bound = _power(measure.range_bound(first, final), copies)
        return 2 * (final - first + 1) * self._largest * bound if bound < _DROPPED else None


def _power(square: Ball, copies: int) -> Ball:
    """Return an upper bound of |φ|ⁿ from one of |φ|², which is at most one."""
    if not 0 < square < 1:
        return arb(1)
    return (square.log() * copies / 2).exp().upper()


def ramp(point: Ball) -> Ball:
    """Return κ(ζ) = Σ m·e^{−ζm} over m ≥ 1."""
    half = (point / 2).sinh()
    return 1 / (4 * half * half)  # (4.4)


def hockey_stick(step: Ball) -> Callable[[Ball], Ball]:
    """Return κ(ζ) = Σ (1 − e^{−hm})·e^{−ζm} over m ≥ 1, as a function of ζ, for the step h."""
    return lambda point: 1 / (point.exp() - 1) - 1 / ((point + step).exp() - 1)  # (4.4)


class LossBalls(NamedTuple):
    """Masses of P on a lattice, at rising multiples of its step that are symmetric about 0, and at infinity."""

    multiples: tuple[int, ...]
    masses: tuple[Ball, ...]
    infinite: Ball


def dominating(
    step: float, stride: int, multiples: Sequence[int], heights: Sequence[Ball], backward: list[Ball] | None = None
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


def tilt_for(rounds: Sequence[tuple[LossBalls, int]], step: float, epsilon: float) -> tuple[float, int]:
    """Return about the best tilt at ε, and enough nodes that aliases are negligible: an odd number of them."""
    kinds = []
    for losses, times in rounds:
        points = zip(losses.multiples, map(float, losses.masses), strict=True)
        kinds.append(([(step * multiple, math.log(mass)) for multiple, mass in points if mass > 0], times))
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
    return tilt, 2 * math.ceil(period / 2) + 1


def short(step: float) -> float:
    """Return the step rounded down to 32 digits, so that all its multiples up to 2²¹ are exact in float64."""
    digits, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(digits, 32)), exponent - 32)


def lattice_index(epsilon: float, step: float) -> int:
    """Return the largest integer whose multiple of the step is at most ε.

    The quotient of floats may round up to the next integer, and a chord that begins there would be too small at ε.
    """
    return Fraction(epsilon) // Fraction(step)


def summed(rounds: Sequence[tuple[LossBalls, int]], step: float, tilt: float, nodes: int, epsilon: float) -> Ball:
    """Return a ball whose upper end is at least δ(ε) of all rounds together, for every tilt and number of nodes."""
    width = ball(step)
    theta = ball(tilt) * width
    index = lattice_index(epsilon, step)
    with transient():
        roots = Roots(nodes)
        factors = []
        for losses, times in rounds:
            keep(20 + 8 * len(losses.multiples))
            turns = Turns(losses.multiples, roots, shared=False)
            factors.append((LatticeMeasure(turns, losses.masses, theta), times))
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
