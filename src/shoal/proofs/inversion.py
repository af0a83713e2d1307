"""E[(S)₊] of a sum of n copies of W from above, by the smoothed inversion sum in balls.

With φ the transform of W, U normal with deviation τ, and s = θ + iy at the nodes y = 2πk/L,

    E[(S)₊]  ≤  (1/L) · Σ_k  φ(s)ⁿ · e^{τ²s²/2} / s²,

whatever θ, τ, L > 0 are (docs/theory/numerics.md, 2.1). Floating point chooses them, and no choice can make the bound
too small. Most nodes add nothing that counts. With w the distribution of W tilted by θ, |φ(s)/φ(θ)|² = g(y) has
|g″| ≤ 2·Var_w(W), so that one value and one slope bound a whole range of nodes; ranges that this does not show to be
negligible are halved, and in the end summed node by node (docs/theory/certificates.md, 3).
"""

import cmath
import math
from bisect import bisect_left
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from flint import acb, arb

from shoal.proofs.balls import INFINITE, Ball, Summand, ball, normal, total
from shoal.proofs.work import spend

__all__ = ["Aim", "Part", "aim", "chernoff", "effort", "gaussian", "inverted", "smoothed", "tilt_of"]

_SHORT = 4
"""Ranges of so few nodes are summed."""
_MOST_NODES = 1e15
_NEGLIGIBLE, _MOST_NEGLIGIBLE = 1.5e-5, 1e-9
"""A range that adds less than this part of the first nodes, times fineness², is charged, not summed: smoothing adds
about fineness² by itself."""
_RANGE, _NODE = 15, 18
"""The work of looking at a range, and of a node, beyond that of its values: powers, exponentials, bookkeeping."""
_MOST_SINES = 4_000_000
"""Nodes and ranges, times the values of W: more would take longer than a few seconds, and less smoothing is no use."""
_CLEAR = 22.0
"""Aliases are to stay below exp(−22) of the answer; more of them would only make it looser."""
_LAST = 47
"""The last of the tilts that are tried, four times in ever smaller ranges."""
_CUT = 9.6
"""At this many units of 1/τ the factor e^{−τ²y²/2} is below 1e-20."""


class Aim(NamedTuple):
    """Where to sum, all relative to the largest value of |W|: θ, L and the deviation of the tilted sum."""

    tilt: float
    period: float
    deviation: float


def aim(values: Sequence[float], probabilities: Sequence[float], missing: float, copies: int) -> Aim:
    """Return a tilt near the saddle point of φ(θ)ⁿ/θ², and a period beyond which aliases are negligible."""
    masses = zip((*values, 0.0), (*probabilities, missing), strict=True)
    rows = [(value, math.log(mass)) for value, mass in masses if mass > 0]

    def tilted(tilt: float) -> tuple[float, list[float], float]:
        """Return ln φ(θ), the tilted probabilities up to a factor, and the mean of the tilted W."""
        exponents = [tilt * value + log for value, log in rows]
        highest = max(exponents)
        weights = [math.exp(exponent - highest) for exponent in exponents]
        whole = math.fsum(weights)
        mean = math.fsum(weight * value for weight, (value, _) in zip(weights, rows, strict=True)) / whole
        return highest + math.log(whole), weights, mean

    low, high = -14.0, 9.0
    for _ in range(4):  # the sign of n·θ·K′(θ) − 2 changes once
        tilts = [10.0 ** (low + (high - low) * index / _LAST) for index in range(_LAST + 1)]
        index = bisect_left(tilts, True, key=lambda tilt: copies * tilt * tilted(tilt)[2] > 2)
        index = min(max(index, 1), _LAST)
        low, high = math.log10(tilts[index - 1]), math.log10(tilts[index])
    tilt = tilts[index]
    log_moment, weights, mean = tilted(tilt)
    square = math.fsum(weight * (value - mean) ** 2 for weight, (value, _) in zip(weights, rows, strict=True))
    deviation = math.sqrt(max(copies * square / math.fsum(weights), 1e-300))
    wide = max(deviation, 1 / tilt)
    log_answer = copies * log_moment - 2 * math.log(tilt) - math.log(2.6 * wide)
    period = (max(0.0, math.log(20 * wide) - log_answer) + _CLEAR) / tilt
    if tilt * deviation > 9:
        period = min(period, 9 * deviation)
    return Aim(tilt, max(period, 8 * deviation), deviation)


class _Transform:
    """The tilted distribution of W in balls, and its transform at a height; also that of its first values only."""

    def __init__(self, part: "Part", tilt: Ball) -> None:
        values, probabilities, rest, inner = part
        self.inner = inner or 0
        spend(10 + 2.5 * len(values))
        weights = [probability * (tilt * value).exp() for value, probability in zip(values, probabilities, strict=True)]
        self.moment = total(weights) + rest
        self.rest = rest / self.moment
        self.points = values
        self.weights = [weight / self.moment for weight in weights]
        self.moving = [weight * value for weight, value in zip(self.weights, values, strict=True)]
        mean = total(self.moving)
        square = total([part * value for part, value in zip(self.moving, values, strict=True)])
        self.variance = (square - mean * mean).upper()
        self.jumps = total(self.weights[self.inner :])
        rows = (self.points, self.weights, self.moving)
        self._floats = [[float(each) for each in row] for row in rows]

    def at(self, height: Ball) -> tuple[Ball, Ball]:
        """Return the transform, and that of the first values only."""
        real, imaginary = self.rest, arb(0)
        first = acb(real)
        for index, (value, weight) in enumerate(zip(self.points, self.weights, strict=True), 1):
            sine, cosine = (value * height).sin_cos()
            real += weight * cosine
            imaginary += weight * sine
            if index == self.inner:
                first = acb(real, imaginary)
        return acb(real, imaginary), first

    def largest(self, height: Ball, radius: Ball) -> Ball:
        """Return an upper bound of |φ(s)/φ(θ)| within a radius of a height."""
        spend(1.7 * len(self.points))
        real, imaginary, real_slope, slope = self.rest, arb(0), arb(0), arb(0)
        for value, weight, moving in zip(self.points, self.weights, self.moving, strict=True):
            sine, cosine = (value * height).sin_cos()
            real += weight * cosine
            imaginary += weight * sine
            real_slope -= moving * sine
            slope += moving * cosine
        square = real * real + imaginary * imaginary
        rising = 2 * (real * real_slope + imaginary * slope)
        most = (square + abs(rising) * radius + self.variance * radius * radius).upper()
        return most.sqrt().upper() if 0 < most < 1 else arb(1)

    def exceeds(self, most: float, copies: int, height: Ball, radius: Ball) -> bool:
        """Whether floating point says that the n-th power is clearly more than this: then balls are not asked."""
        points, weights, moving = self._floats
        at, far = float(height), float(radius)
        turns = [cmath.rect(1.0, at * point) for point in points]
        value = sum(map(mul, weights, turns), complex(float(self.rest)))
        slope = 1j * sum(map(mul, moving, turns), 0j)
        square = abs(value) ** 2 + 2 * abs((value * slope.conjugate()).real) * far + float(self.variance) * far * far
        size = math.sqrt(min(square, 1.0))
        if not self.inner:
            return size**copies > 2 * most
        jumps = float(self.jumps)
        return min(copies * jumps * min(size + jumps, 1.0) ** (copies - 1), 1.0) > 2 * most


def _aimed(summand: Summand, copies: int) -> tuple[Ball, Aim | None]:
    """Return the largest |W|, and where to sum relative to it; nothing if no value is positive, or one is infinite."""
    spend(120 + 8 * len(summand.values))
    unit = max((abs(value).upper() for value in summand.values), key=float)
    floats = [float(value / unit) for value in summand.values]
    probabilities = [float(probability) for probability in summand.probabilities]
    if not all(map(math.isfinite, (*floats, *probabilities))) or max(floats) <= 0:
        return unit, None
    return unit, aim(floats, probabilities, 1 - math.fsum(probabilities), copies)


def inverted(summand: Summand, copies: int, *, fineness: float) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊]; a smaller `fineness` smooths less, and takes longer."""
    unit, aimed = _aimed(summand, copies)
    if aimed is None:
        return INFINITE
    values = [value / unit for value in summand.values]
    part = Part(values, list(summand.probabilities), 1 - total(summand.probabilities))
    return unit * smoothed(part, copies, aimed, fineness=fineness)


class Part(NamedTuple):
    """Some of what S may be, in balls: sums of these values, or those that are not sums of the first of them alone.

    Attributes
    ----------
    values, probabilities : list of Ball
        What a copy may be, and how often.
    rest : Ball
        How often it is zero. All of these need not sum to one.
    inner : int or None
        Sums of the first `inner` values and zero do not count; if it is None all count.
    """

    values: list[Ball]
    probabilities: list[Ball]
    rest: Ball
    inner: int | None = None


def smoothed(part: Part, copies: int, aimed: Aim, *, fineness: float) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊] of this part."""
    values, inner = part.values, part.inner
    tilt, period, smoothing = ball(aimed.tilt), ball(aimed.period), ball(fineness * aimed.deviation)
    transform = _Transform(part, tilt)
    if not transform.moment.is_finite() or not transform.variance.is_finite():
        return INFINITE
    step = 2 * arb.pi() / period
    # The event that every copy is zero adds nothing, and is not smoothed where that would count.
    nothing = transform.rest**copies
    if inner is not None or not nothing > 1e-14:
        nothing = arb(0)
    # All of what is inverted, relative to φ(θ)ⁿ.
    whole = 1 + nothing if inner is None else 1 - (1 - transform.jumps) ** copies
    reach = _CUT / max(fineness * aimed.deviation, 1e-300) * aimed.period / (2 * math.pi)
    if not reach < _MOST_NODES:
        return INFINITE
    last = max(8, math.ceil(reach))
    left = _MOST_SINES // len(values)

    def term(index: int) -> Ball:
        spend(_NODE + 1.2 * len(values))
        height = index * step
        node = acb(tilt, height)
        value, first = transform.at(height)
        power = value**copies - (nothing if inner is None else first**copies)
        value = (power * (smoothing * smoothing * node * node / 2).exp() / (node * node)).real
        return value if index == 0 else 2 * value

    def largest(height: Ball, radius: Ball) -> Ball:
        size = transform.largest(height, radius)
        if inner is None:
            return size**copies + nothing
        # |Aⁿ − Bⁿ| ≤ n·|A − B|·max(|A|, |B|)ⁿ⁻¹
        return (copies * transform.jumps * (size + transform.jumps).min(arb(1)) ** (copies - 1)).min(whole)

    head = total([term(index) for index in range(_SHORT)])
    enough = min(_NEGLIGIBLE * fineness**2, _MOST_NEGLIGIBLE) * abs(head).upper()
    lift = ((smoothing * tilt) ** 2 / 2).exp()
    starts = [_SHORT << power for power in range(last.bit_length()) if _SHORT << power <= last]
    ranges = [(start, min(2 * start - 1, last)) for start in starts]
    while ranges:
        first, final = ranges.pop()
        left -= 1
        spend(_RANGE + len(values) / 2)
        lowest = first * step
        count = final - first + 1
        size = 2 * count * lift * (-((smoothing * lowest) ** 2) / 2).exp() / (lowest * lowest)
        middle, radius, charge = (first + final) * step / 2, (final - first) * step / 2, size * whole
        if not charge <= enough and not transform.exceeds(float(enough / size), copies, middle, radius):
            charge = size * largest(middle, radius)
        if charge <= enough:
            head += charge.upper()
        elif count <= _SHORT:
            left -= count
            head += total([term(index) for index in range(first, final + 1)])
        else:
            half = (first + final) // 2
            ranges += [(first, half), (half + 1, final)]
        if left < 0:
            return INFINITE
    beyond = last * step
    head += 2 * lift * (-((smoothing * beyond) ** 2) / 2).exp() / (step * beyond) * whole
    return transform.moment**copies * head / period


def effort(summand: Summand, copies: int, *, fineness: float) -> float:
    """Return about how many sines `inverted` takes at most."""
    _, aimed = _aimed(summand, copies)
    if aimed is None:
        return math.inf
    return len(summand.values) * _CUT / max(fineness * aimed.deviation, 1e-300)


def tilt_of(summand: Summand, copies: int) -> float:
    """Return about the tilt at which `chernoff` is least."""
    unit, aimed = _aimed(summand, copies)
    return 1.0 if aimed is None else aimed.tilt / float(unit)


def chernoff(summand: Summand, copies: int, *, tilt: float | None = None) -> Ball:
    """Return a quick upper bound of E[(S)₊], several times too large: φ(θ)ⁿ/(eθ), whatever the tilt θ is."""
    theta = ball(tilt_of(summand, copies) if tilt is None else tilt)
    spend(5 + len(summand.values))
    moment = 1 + total(
        [
            probability * (theta * value).expm1()
            for value, probability in zip(summand.values, summand.probabilities, strict=True)
        ]
    )
    return moment**copies / (arb(1).exp() * theta)


def gaussian(summand: Summand, copies: int) -> Ball:
    """Return a quick upper bound of E[(S)₊], good where n is large and the answer is not small.

    That of a normal sum, plus E|W − EW|³/Var(W) for the difference (docs/theory/certificates.md, 3).
    """
    spend(20 + 2 * len(summand.values))
    mean = total([p * value for value, p in zip(summand.values, summand.probabilities, strict=True)])
    offsets = [value - mean for value in (*summand.values, arb(0))]
    probabilities = (*summand.probabilities, 1 - total(summand.probabilities))
    squares = [p * offset * offset for offset, p in zip(offsets, probabilities, strict=True)]
    variance = total(squares)
    third = total([square * abs(offset) for offset, square in zip(offsets, squares, strict=True)])
    if not variance > 0:
        return INFINITE
    deviation = (copies * variance).sqrt()
    t = copies * mean / deviation
    density = (-t * t / 2).exp() / (2 * arb.pi()).sqrt()
    return deviation * (density + t * normal(t)) + third / variance
