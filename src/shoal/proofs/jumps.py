"""E[(S)₊] of a sum of n copies of a W with a long tail, in balls: split by the largest copy.

No tilt serves both the usual sums and those that one large copy makes positive. So S is looked at apart for each range
that the largest copy may be in. With φ_c the transform of the values up to c only, the sums whose largest copy is
between two caps are a measure with the transform φ_cⁿ − φ_bⁿ, and the smoothed inversion sum of any measure is an upper
bound, at a tilt of its own (docs/theory/certificates.md, 5).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from flint import arb

from shoal.proofs.balls import INFINITE, Ball, Summand, ball, total
from shoal.proofs.inversion import Aim, Part, aim, inverted, smoothed
from shoal.proofs.work import spend

__all__ = ["split"]

_FEWEST = 64
"""A W with fewer values has no long tail."""
_RATIO = 1.1
"""Of one tilt that is tried to the next."""
_CAPS = tuple(0.4**power for power in range(150))
"""The ends of ranges, relative to the largest value."""
_GAIN = 0.1
"""Splitting is for where Chernoff's bound gets smaller by more than this part."""
_NEGLIGIBLE = 1e-6
"""A range with less than this part of Chernoff's bound of all is charged with its own."""
_COARSEST = 0.2
_THIN, _THINNED = 2, 0.005
"""In ranges of large values, every second of the smaller values is kept, unless the fineness is less than this."""
_GONE = -60.0
"""Values that the tilt makes less likely than exp(−60) of the others are raised to the largest of them."""
_CLEAR = 14.0
"""Aliases are to stay below exp(−14) of the answer."""


class _Range(NamedTuple):
    """Sums whose largest copy is one of the values from `inner` to `outer`; all up to there, if inner is None."""

    inner: int | None
    outer: int
    aim: Aim
    log_bound: float


def split(summand: Summand, copies: int, *, fineness: float) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊], as `inverted`, with a tilt for each range of large values."""
    if len(summand.values) < _FEWEST:
        return inverted(summand, copies, fineness=fineness)
    spend(5 * len(summand.values))
    order = sorted(range(len(summand.values)), key=lambda index: float(summand.values[index]))
    unit = max((abs(value).upper() for value in summand.values), key=float)
    values = [summand.values[index] / unit for index in order]
    probabilities = [summand.probabilities[index] for index in order]
    rest = 1 - total(probabilities)
    floats = [float(value) for value in values]
    weights = [max(float(probability), 0.0) for probability in probabilities]
    if not all(map(math.isfinite, (*floats, *weights))) or floats[-1] <= 0:
        return INFINITE
    ranges = _ranges(floats, weights, max(float(rest), 0.0), copies)
    if len(ranges) == 1:
        return inverted(summand, copies, fineness=fineness)
    most = max(each.log_bound for each in ranges)
    answer = arb(0)
    for each in ranges:
        share = math.exp(each.log_bound - most)
        spend(50 + 3 * len(values))
        part = Part(values[: each.outer], probabilities[: each.outer], rest, each.inner)
        gone = bisect_left(floats, _GONE / each.aim.tilt)
        if gone > 1:
            likely = [total(part.probabilities[:gone]), *part.probabilities[gone:]]
            inner = None if each.inner is None else each.inner - gone + 1
            part = Part(part.values[gone - 1 :], likely, rest, inner)
        if share < _NEGLIGIBLE:
            answer += _charged(part, copies, each.aim.tilt)
            continue
        # Smoothing adds about a part (fineness·θ·deviation)²/2 of a range, which may have a small share.
        rough = min(fineness / math.sqrt(share), 0.5 / (each.aim.tilt * each.aim.deviation), _COARSEST)
        answer += smoothed(
            _thinned(part) if fineness > _THINNED else part, copies, each.aim, fineness=max(fineness, rough)
        )
    return unit * answer


def _thinned(part: Part) -> Part:
    """Return fewer of the first values: the others' masses are put at two that are kept, with their means."""
    if part.inner is None:
        return part
    values, probabilities, inner = part.values, part.probabilities, part.inner
    kept = [*range(0, inner - 1, _THIN), inner - 1]
    masses = [probabilities[index] for index in kept]
    for position, (low, high) in enumerate(pairwise(kept)):
        width = values[high] - values[low]
        for index in range(low + 1, high):
            ahead = probabilities[index] * (values[index] - values[low]) / width
            masses[position + 1] += ahead
            masses[position] += probabilities[index] - ahead
    fewer = [*(values[index] for index in kept), *values[inner:]]
    return Part(fewer, [*masses, *probabilities[inner:]], part.rest, len(kept))


def _charged(part: Part, copies: int, tilt: float) -> Ball:
    """Return Chernoff's bound of a part: its transform at the tilt, over e·θ."""
    theta = ball(tilt)
    weights = [p * (theta * value).exp() for value, p in zip(part.values, part.probabilities, strict=True)]
    moment = total(weights) + part.rest
    jumps = total(weights[part.inner or 0 :]) / moment  # that all are zero adds nothing
    return moment**copies * (1 - (1 - jumps) ** copies) / (arb(1).exp() * theta)


def _added(logs: Iterable[float]) -> float:
    """Return the logarithm of a sum of numbers that are given by their logarithms."""
    listed = [*logs]
    highest = max(listed, default=-math.inf)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum([math.exp(log - highest) for log in listed]))


def _both(one: float, other: float) -> float:
    """Return the logarithm of a sum of two numbers that are given by their logarithms."""
    if one < other:
        one, other = other, one
    return one if other == -math.inf else one + math.log1p(math.exp(other - one))


def _ranges(values: Sequence[float], probabilities: Sequence[float], rest: float, copies: int) -> list[_Range]:
    """Return the ranges for which Chernoff's bounds together are about the least: the first has all small values."""
    top = values[-1]
    zero = bisect_right(values, 0.0)
    least = max(values[zero], 1e-60 * top)
    number = math.ceil(math.log(4e3 * top / least) / math.log(_RATIO))
    tilts = [0.05 / top * _RATIO**power for power in range(number)]
    caps = sorted({bisect_right(values, top * part) for part in _CAPS})
    caps = [cap for cap in caps if cap > zero]
    spend(number * (0.35 * len(values) + 3 * len(caps)))
    rows = [
        (value, math.log(mass) if mass > 0 else -math.inf) for value, mass in zip(values, probabilities, strict=True)
    ]
    nothing = math.log(max(rest, 1e-300))

    def height(start: float, jumps: float, tilt: float) -> float:
        """Return ln((φ_cⁿ − φ_bⁿ)/θ), where ln φ_b is the start, and `jumps` is ln(φ_c − φ_b)."""
        ratio = jumps - start
        more = copies * (max(ratio, 0.0) + math.log1p(math.exp(-abs(ratio))))
        size = more if more >= 30 else math.log(math.expm1(more)) if more > 0 else -math.inf
        return copies * start + size - math.log(tilt)

    whole: list[list[float]] = [[] for _ in caps]
    above: list[list[float]] = [[] for _ in caps[1:]]
    for tilt in tilts:
        # ln Σ p·e^θw over what each cap adds, and over all up to it.
        parts = [_added([tilt * value + log for value, log in rows[low:cap]]) for low, cap in pairwise((0, *caps))]
        sums = [*accumulate(parts, _both)]
        for index, upto in enumerate(sums):
            whole[index].append(height(nothing, upto, tilt))  # that all are zero adds nothing
        for index, part in enumerate(parts[1:]):
            above[index].append(height(_both(sums[index], nothing), part, tilt))
    totals = [_added((min(whole[start]), *map(min, above[start:]))) for start in range(len(caps))]
    best = max(start for start in range(len(caps)) if totals[start] <= min(totals) + _GAIN)
    if best == len(caps) - 1:
        return [_Range(None, caps[-1], aim(values, probabilities, rest, copies), 0.0)]
    kept: list[tuple[int | None, int, list[float]]] = [(None, caps[best], whole[best])]
    kept += [(caps[index], caps[index + 1], above[index]) for index in range(best, len(caps) - 1)]
    return [_Range(inner, outer, _aim_of(tilts, heights), min(heights)) for inner, outer, heights in kept]


def _aim_of(tilts: Sequence[float], heights: Sequence[float]) -> Aim:
    """Return the tilt at which ln M(θ) − 2·ln θ is least, and a period and a deviation for it; heights are ln(M/θ)."""
    logs = [height + math.log(tilt) for tilt, height in zip(tilts, heights, strict=True)]
    least = min(range(len(tilts)), key=lambda index: heights[index] - math.log(tilts[index]))
    index = min(max(least, 2), len(tilts) - 3)
    tilt = tilts[index]
    bend = _bend(tilts[index - 2 : index + 3], logs[index - 2 : index + 3])
    deviation = math.sqrt(max(bend, (0.05 / tilt) ** 2))
    wide = max(deviation, 1 / tilt)
    log_answer = logs[index] - 2 * math.log(tilt) - math.log(2.6 * wide)
    # At the least tilt, M is about its mass: an alias adds e^{−θL} of that, and of the distance.
    period = (max(0.0, math.log(20 * wide) + min(logs[0], 0.0) - log_answer) + _CLEAR) / tilt
    if tilt * deviation > 9:
        period = min(period, 9 * deviation)
    return Aim(tilt, max(period, 8 * deviation), deviation)


def _bend(points: Sequence[float], values: Sequence[float]) -> float:
    """Return the second derivative in the middle of five points: the slope of slopes of parabolas."""

    def slope(at: int, values: Sequence[float]) -> float:
        before, after = points[at] - points[at - 1], points[at + 1] - points[at]
        rise, fall = (values[at + 1] - values[at]) / after, (values[at] - values[at - 1]) / before
        return (before * rise + after * fall) / (before + after)

    return slope(2, [0.0, *(slope(at, values) for at in (1, 2, 3)), 0.0])
