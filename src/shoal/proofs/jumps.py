"""E[(S)₊] of a sum of n copies of a W with a long tail, in balls: split by the largest copy.

No tilt serves both the usual sums and those that one large copy makes positive. So S is looked at apart for each range
that the largest copy may be in. With φ_c the transform of the values up to c only, the sums whose largest copy is
between two caps are a measure with the transform φ_cⁿ − φ_bⁿ, and the smoothed inversion sum of any measure is an upper
bound, at a tilt of its own (docs/theory/certificates.md, 5).
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shoal.proofs.balls import INFINITE, Ball, Summand, ball, total
from shoal.proofs.inversion import Aim, Part, aim, inverted, smoothed

__all__ = ["split"]

_FEWEST = 64
"""A W with fewer values has no long tail."""
_RATIO = 1.1
"""Of one tilt that is tried to the next."""
_CAPS = 0.4 ** np.arange(150)
"""The ends of ranges, relative to the largest value."""
_GAIN = 0.1
"""Splitting is for where Chernoff's bound gets smaller by more than this part."""
_NEGLIGIBLE = 1e-6
"""A range with less than this part of Chernoff's bound of all is charged with its own."""
_COARSEST = 0.2
_THIN, _THINNED = 4, 0.005
"""In ranges of large values, every fourth of the smaller values is kept, unless the fineness is less than this."""
_GONE = -60.0
"""Values that the tilt makes less likely than exp(−60) of the others are raised to the largest of them."""
_CLEAR = 14.0
"""Aliases are to stay below exp(−14) of the answer."""

Array = NDArray[np.float64]


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
    order = sorted(range(len(summand.values)), key=lambda index: float(summand.values[index]))
    unit = max((abs(value).upper() for value in summand.values), key=float)
    values = [summand.values[index] / unit for index in order]
    probabilities = [summand.probabilities[index] for index in order]
    rest = 1 - total(probabilities)
    floats = np.array([float(value) for value in values])
    weights = np.maximum([float(probability) for probability in probabilities], 0.0)
    if not (np.isfinite(floats).all() and np.isfinite(weights).all()) or floats[-1] <= 0:
        return INFINITE
    ranges = _ranges(floats, weights, max(float(rest), 0.0), copies)
    if len(ranges) == 1:
        return inverted(summand, copies, fineness=fineness)
    most = max(each.log_bound for each in ranges)
    answer = arb(0)
    for each in ranges:
        share = math.exp(each.log_bound - most)
        part = Part(values[: each.outer], probabilities[: each.outer], rest, each.inner)
        gone = int(np.searchsorted(floats * each.aim.tilt, _GONE))
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


def _ranges(values: Array, probabilities: Array, rest: float, copies: int) -> list[_Range]:
    """Return the ranges for which Chernoff's bounds together are about the least: the first has all small values."""
    plain = aim(values, probabilities, rest, copies)
    top = float(values[-1])
    zero = int(np.searchsorted(values, 0.0, side="right"))
    least = max(float(values[zero]), 1e-60 * top)
    count = math.ceil(math.log(4e3 * top / least) / math.log(_RATIO))
    tilts = np.array([0.05 / top * _RATIO**power for power in range(count)])
    with np.errstate(divide="ignore"):
        exponents = np.multiply.outer(tilts, values) + np.log(probabilities)
    sums = np.logaddexp.accumulate(exponents, axis=1)
    nothing = math.log(max(rest, 1e-300))
    caps = sorted({int(np.searchsorted(values, top * part, side="right")) for part in _CAPS})
    caps = [cap for cap in caps if cap > zero]

    def heights(inner: int, outer: int) -> Array:
        """Return ln((φ_cⁿ − φ_bⁿ)/θ) at all tilts; b is zero if inner is 0: that all are zero adds nothing."""
        if inner:
            start = np.logaddexp(sums[:, inner - 1], nothing)
            jumps = np.logaddexp.reduce(exponents[:, inner:outer], axis=1) - start
        else:
            start = np.full(len(tilts), nothing)
            jumps = sums[:, outer - 1] - start
        number = copies * np.logaddexp(0.0, jumps)
        with np.errstate(divide="ignore"):
            sizes = np.where(number < 30, np.log(np.expm1(np.minimum(number, 30.0))), number)
        result: Array = copies * start + sizes - np.log(tilts)
        return result

    whole = [heights(0, cap) for cap in caps]
    above = [heights(inner, outer) for inner, outer in pairwise(caps)]
    totals = []
    for start in range(len(caps)):
        parts = [float(whole[start].min()), *(float(part.min()) for part in above[start:])]
        totals.append(float(np.logaddexp.reduce(parts)))
    best = max(start for start in range(len(caps)) if totals[start] <= min(totals) + _GAIN)
    if best == len(caps) - 1:
        return [_Range(None, caps[-1], plain, 0.0)]
    kept: list[tuple[int | None, int, Array]] = [(None, caps[best], whole[best])]
    kept += [(caps[index], caps[index + 1], above[index]) for index in range(best, len(caps) - 1)]
    return [_Range(inner, outer, _aim_of(tilts, heights), float(heights.min())) for inner, outer, heights in kept]


def _aim_of(tilts: Array, heights: Array) -> Aim:
    """Return the tilt at which ln M(θ) − 2·ln θ is least, and a period and a deviation for it; heights are ln(M/θ)."""
    logs = heights + np.log(tilts)
    index = min(max(int(np.argmin(heights - np.log(tilts))), 2), len(tilts) - 3)
    tilt = float(tilts[index])
    near = slice(index - 2, index + 3)
    bend = float(np.gradient(np.gradient(logs[near], tilts[near]), tilts[near])[2])
    deviation = math.sqrt(max(bend, (0.05 / tilt) ** 2))
    wide = max(deviation, 1 / tilt)
    log_answer = float(logs[index]) - 2 * math.log(tilt) - math.log(2.6 * wide)
    # At the least tilt, M is about its mass: an alias adds e^{−θL} of that, and of the distance.
    period = (max(0.0, math.log(20 * wide) + min(float(logs[0]), 0.0) - log_answer) + _CLEAR) / tilt
    if tilt * deviation > 9:
        period = min(period, 9 * deviation)
    return Aim(tilt, max(period, 8 * deviation), deviation)
