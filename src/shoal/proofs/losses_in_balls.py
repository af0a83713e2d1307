"""Privacy losses of rounds on a lattice, in balls, and δ(ε) of their sum.

Upper bounds of δ at some lattice points, connected in t = e^ε, are the profile of a distribution of losses that
dominates the round; losses of rounds add up, and the transform of the sum gives δ(ε) of all rounds together
(docs/theory/composition.md, docs/theory/certificates.md, 4).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from flint import acb, acb_poly, arb

from shoal.proofs.balls import Ball, ball, total
from shoal.proofs.work import keep, room, spend, transient

__all__ = ["LossBalls", "Tilt", "dominating", "lattice_index", "summed", "tilt_for"]

_DROPPED = 1e-24
"""A node whose size, relative to the largest, is shown to be below this is charged and not multiplied out."""
_PIECE = 48
"""How many terms are evaluated at once."""
_SHORT = 8
"""Ranges of so few nodes are multiplied out."""
_EACH = 12
"""Microseconds per node, and per node and kind of round, for turns, the power of a transform and the kernel."""
_CLEAR = 21.0
_PERIOD = 9.5
"""Aliases are this many deviations of all losses together apart, at least."""


class LossBalls(NamedTuple):
    """Masses of P on a lattice of step h·stride: at 0, at x = some multiples of the step, at −x, and at infinity."""

    stride: int
    centre: Ball
    multiples: tuple[int, ...]
    masses: tuple[Ball, ...]
    mirrored: tuple[Ball, ...]
    infinite: Ball


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
    ahead = _falling(heights)
    behind = ahead if backward is None else _falling(backward)
    growth = [(ball(step) * (stride * multiple)).exp() for multiple in multiples]
    if len(ahead) == 1:
        return LossBalls(stride, 1 - ahead[0], (), (), (), ahead[0])
    first = min(ahead[0], behind[0])
    if backward is None:
        # At t = 1, a point and its mirror image have a chord as well.
        for t, height in zip(growth[1:], ahead[1:], strict=True):
            first = min(first, (t - 1 + 2 * height) / (t + 1))
    opposite, slope = _opposite(first, ahead, growth)
    mirrored, fall = (opposite, slope) if backward is None else _opposite(first, behind, growth)
    masses = [t * mass for t, mass in zip(growth[1:], opposite, strict=True)]
    centre = (slope + fall + 1 - first).max(arb(0))
    return LossBalls(stride, centre, tuple(multiples[1:]), tuple(masses), tuple(mirrored), min(ahead[-1], first))


def _falling(heights: Sequence[Ball]) -> list[Ball]:
    falling = [heights[0]]
    for height in heights[1:]:
        falling.append(min(falling[-1], height))
    return falling


def _opposite(first: Ball, falling: Sequence[Ball], growth: Sequence[Ball]) -> tuple[list[Ball], Ball]:
    """Return the masses of Q at the points after the first, from slopes of chords that rise, and the first slope."""
    # δ does not rise, so that no point is above the first.
    points = [first, *(height if height <= first else first for height in falling[1:])]
    kept = [0]
    slopes: list[Ball] = []
    for index in range(1, len(points)):
        slope = (points[index] - points[kept[-1]]) / (growth[index] - growth[kept[-1]])
        while slopes and not slopes[-1] <= slope:
            kept.pop()
            slopes.pop()
            slope = (points[index] - points[kept[-1]]) / (growth[index] - growth[kept[-1]])
        kept.append(index)
        slopes.append(slope)
    masses = [arb(0)] * (len(points) - 1)
    for position, index in enumerate(kept[1:]):
        after = slopes[position + 1] if position + 1 < len(slopes) else arb(0)
        masses[index - 1] = (after - slopes[position]).max(arb(0))
    return masses, slopes[0]


class Tilt(NamedTuple):
    """Where to sum: θ, and how many nodes, an odd number."""

    tilt: float
    nodes: int


class _Series:
    """Σ wₘ·e^{imy} at rational turns, in pieces of few terms: the ball of a high power on the circle is a wide one."""

    def __init__(self, weights: Sequence[Ball]) -> None:
        self.weights = weights
        self.pieces = [acb_poly(weights[start : start + _PIECE]) for start in range(0, len(weights), _PIECE)]

    def __len__(self) -> int:
        return len(self.weights)

    def __call__(self, turns: int, whole: int) -> Ball:
        """Return the value at y = 2π·turns/whole."""
        angle = _turned(turns, whole)
        parts = (piece(angle) * _turned(turns * _PIECE * index, whole) for index, piece in enumerate(self.pieces))
        return sum(parts, acb(0))

    @property
    def moving(self) -> "_Series":
        """Σ m·wₘ·e^{imy}."""
        return _Series([index * weight for index, weight in enumerate(self.weights)])


def _turned(turns: int, whole: int) -> Ball:
    return acb(2 * arb(turns % whole) / whole).exp_pi_i()


class _Floats(NamedTuple):
    """Losses that are not impossible, with the logarithms of their masses."""

    rows: list[tuple[float, float]]
    largest: float
    times: int

    @classmethod
    def of(cls, losses: LossBalls, step: float, times: int) -> "_Floats":
        points = [step * losses.stride * multiple for multiple in (0, *losses.multiples)]
        masses = [float(mass) for mass in (*losses.mirrored[::-1], losses.centre, *losses.masses)]
        both = zip([-point for point in points[:0:-1]] + points, masses, strict=True)
        return cls([(point, math.log(mass)) for point, mass in both if mass > 0], points[-1], times)

    def log_moment(self, tilt: float) -> tuple[float, float]:
        """Return T·ln φ(θ), and T times the variance of the tilted loss."""
        exponents = [log + tilt * point for point, log in self.rows]
        highest = max(exponents)
        weights = [math.exp(exponent - highest) for exponent in exponents]
        whole = math.fsum(weights)
        mean = math.fsum(weight * point for weight, (point, _) in zip(weights, self.rows, strict=True)) / whole
        square = math.fsum(weight * (point - mean) ** 2 for weight, (point, _) in zip(weights, self.rows, strict=True))
        return self.times * (highest + math.log(whole)), self.times * square / whole


def tilt_for(rounds: Sequence[tuple[LossBalls, int]], step: float, epsilon: float) -> Tilt:
    """Return about the best tilt at ε, and enough nodes that aliases are negligible."""
    floats = [_Floats.of(losses, step, times) for losses, times in rounds]
    width = math.sqrt(sum(each.log_moment(0.0)[1] for each in floats)) + step
    steepest = 600.0 / max(each.largest + step for each in floats)

    def height(tilt: float) -> float:
        return sum(each.log_moment(tilt)[0] for each in floats) - tilt * epsilon - math.log(tilt) - math.log1p(tilt)

    low, high = math.log(1e-3 / width), math.log(min(60 / width, steepest))
    for _ in range(50):
        first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
        low, high = (low, second) if height(math.exp(first)) < height(math.exp(second)) else (first, high)
    tilt = math.exp((low + high) / 2)
    deviation = math.sqrt(sum(each.log_moment(tilt)[1] for each in floats)) + step
    period = max((max(-height(tilt), 1.0) + _CLEAR) / tilt, _PERIOD * max(deviation, width)) / step
    return Tilt(tilt, 2 * math.ceil(period / 2) + 1)


class _Tilted:
    """The tilted losses of a round, relative to φ(θ), and their transform at the nodes.

    Neighbours from zero on are two series; losses with gaps before them, which are few, are terms of their own.
    """

    def __init__(self, losses: LossBalls, times: int, width: Ball, theta: Ball, nodes: int) -> None:
        spend(50 + 12 * len(losses.multiples))
        keep(20 + 12 * len(losses.multiples))
        self.stride, self.times, self.nodes = losses.stride, times, nodes
        rows = list(zip(losses.multiples, losses.masses, losses.mirrored, strict=True))
        close = next((index for index, row in enumerate(rows, 1) if row[0] != index), len(rows) + 1)
        ratio = (theta * width * losses.stride).exp()
        ahead, behind, power = [losses.centre], [arb(0)], arb(1)
        for _, mass, mirrored in rows[: close - 1]:
            power *= ratio
            ahead.append(mass * power)
            behind.append(mirrored / power)
        far = []
        for multiple, mass, mirrored in rows[close - 1 :]:
            far += [(multiple, mass * ratio**multiple), (-multiple, mirrored / ratio**multiple)]
        self.moment = total(ahead) + total(behind) + total([part for _, part in far])
        self.far = [(multiple, part / self.moment) for multiple, part in far]
        self.ahead, self.behind = (_Series([part / self.moment for part in side]) for side in (ahead, behind))
        self.size = close + len(far)
        self._turns: dict[int, Ball] = {}

    @cached_property
    def _moving(self) -> tuple[_Series, _Series, Ball]:
        """The same with each loss times its multiple, and an upper end of the variance."""
        ahead, behind = self.ahead.moving, self.behind.moving
        mean = total(list(ahead.weights)) - total(list(behind.weights))
        mean += total([multiple * part for multiple, part in self.far])
        square = total([index * part for index, part in enumerate(ahead.weights)])
        square += total([index * part for index, part in enumerate(behind.weights)])
        square += total([multiple * multiple * part for multiple, part in self.far])
        return ahead, behind, (square - mean * mean).upper()

    def at(self, doubled: int) -> Ball:
        """Return the transform at half of this many nodes."""
        spend(_EACH + self.size)
        turns, whole = doubled * self.stride, 2 * self.nodes
        value = self.ahead(turns, whole) + self.behind(-turns, whole)
        for multiple, part in self.far:
            value += part * self._turned(turns * multiple)
        return value

    def _turned(self, turns: int) -> Ball:
        turns %= 2 * self.nodes
        value = self._turns.get(turns)
        if value is None:
            spend(6)
            value = _turned(turns, 2 * self.nodes)
            if room(3):
                self._turns[turns] = value
        return value

    def largest(self, first: int, final: int) -> Ball:
        """Return an upper bound of the power of the transform at the nodes from the first to the last.

        A value and a slope bound a range of nodes; see `inversion`, (1) there.
        """
        spend(_EACH + self.size)
        turns, whole = (first + final) * self.stride, 2 * self.nodes
        value = self.at(first + final)
        ahead, behind, variance = self._moving
        moving = ahead(turns, whole) - behind(-turns, whole)
        for multiple, part in self.far:
            moving += multiple * part * self._turned(turns * multiple)
        radius = arb.pi() * ((final - first) * self.stride) / self.nodes
        # d|φ|²/dy = 2·Re(conj(φ)·iΣm·wₘ·e^{imy}) = −2·Im(conj(φ)·Σm·wₘ·e^{imy})
        rising = 2 * (value.conjugate() * moving).imag
        square = value.real * value.real + value.imag * value.imag
        most = (square + abs(rising) * radius + variance * radius * radius).upper()
        return (most.log() * self.times / 2).exp().upper() if 0 < most < 1 else arb(1)


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
    with transient():
        return _summed(rounds, step, tilt, epsilon)


def _summed(rounds: Sequence[tuple[LossBalls, int]], step: float, tilt: Tilt, epsilon: float) -> Ball:
    width, theta, nodes = ball(step), ball(tilt.tilt), tilt.nodes
    order = sorted(rounds, key=lambda each: -each[1] * len(each[0].masses))
    tilted = [_Tilted(losses, times, width, theta, nodes) for losses, times in order]
    moment = total([each.times * each.moment.log() for each in tilted])
    index = lattice_index(epsilon, step)
    largest = _kernel(acb(theta), width).real / nodes
    results = [arb(0), arb(0)]
    charged = arb(0)
    ranges, start = [(0, min(_SHORT, nodes // 2))], _SHORT + 1
    while start <= nodes // 2:
        ranges.append((start, min(2 * start, nodes // 2)))
        start = 2 * start + 1
    while ranges:
        first, final = ranges.pop()
        if first > _SHORT:
            most = tilted[0].largest(first, final)
            if most < _DROPPED:
                charged += 2 * (final - first + 1) * most * largest  # no other factor is above one
                continue
            if final - first >= _SHORT:
                middle = (first + final) // 2
                ranges += [(first, middle), (middle + 1, final)]
                continue
        for node in range(first, final + 1):
            spend(_EACH)
            product = acb(1)
            for each in tilted:
                product *= each.at(2 * node) ** each.times
                if product.abs_upper() < _DROPPED:
                    break
            if product.abs_upper() < _DROPPED:
                charged += 2 * product.abs_upper() * largest
                continue
            kernel = _kernel(acb(theta, 2 * arb.pi() * node / (nodes * width)), width) / nodes
            term = product * kernel
            for place in (0, 1):
                turned = (term * acb(-2 * arb(node * (index + place) % nodes) / nodes).exp_pi_i()).real
                results[place] += turned if node == 0 else 2 * turned
    ends = [(value + charged) * (moment - theta * width * (index + place)).exp() for place, value in enumerate(results)]
    # Between two lattice points δ is linear in e^ε.
    start = (width * index).exp()
    share = (ball(epsilon).exp() - start) / ((width * (index + 1)).exp() - start)
    infinite = total([times * losses.infinite for losses, times in rounds])
    return ends[0] * (1 - share) + ends[1] * share + infinite


def _kernel(point: Ball, step: Ball) -> Ball:
    """Return Σ (1 − e^−mh)·e^−smh over m ≥ 1."""
    return 1 / ((point * step).exp() - 1) - 1 / (((point + 1) * step).exp() - 1)
