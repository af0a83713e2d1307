"""E[(S)₊] of a sum of n copies of W from above, by the smoothed inversion sum in balls.

With φ the transform of W, τ > 0, and s = θ + iy at the nodes y = 2πk/L,

    E[(S)₊]  ≤  (1/L) · Σ_k  φ(s)ⁿ · e^{τ²s²/2} / s²,

whatever θ, τ, L > 0 are (docs/theory/numerics.md, 2.1). Floating point chooses them, and no choice can make the bound
too small. Most nodes add nothing that counts (docs/theory/certificates.md, section 3).

No tilt serves both the usual sums and those that one large copy makes positive. So a W with a long tail is split by the
largest copy. With φ_c the transform of the values up to c only, the sums whose largest copy is between two caps b < c
are a measure with the transform φ_cⁿ − φ_bⁿ, and the smoothed inversion sum of any measure is an upper bound, at a tilt
of its own (docs/theory/certificates.md, section 5).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from flint import acb, arb, arb_mat

from shoal.proofs.balls import INFINITE, Ball, Summand, ball, density, gather, normal, precision, total
from shoal.proofs.transforms import Tilted, halved, log_moments, row_at
from shoal.proofs.work import spend

_SHORT = 4  # ranges of this number of nodes or fewer are summed: a bound of them costs about as much
_MOST_NODES = 1e15  # beyond this number of nodes no range is looked at
# A range that adds less than this part of the first nodes, times fineness², or than the second part, is charged and not
# summed: smoothing adds about fineness² anyway.
_NEGLIGIBLE = 1.5e-5
_MOST_NEGLIGIBLE = 1e-9
_BOUND_BITS = 64  # of bounds of ranges, which are charged and may be rough: a third faster than at full precision
# microseconds per range, and per node, besides those of its values (measured)
_RANGE = 15
_NODE = 18
_MOST_SINES = 4_000_000  # nodes and ranges, times the values of W: more would take longer than a few seconds
_CLEAR = 22.0  # aliases are to stay below exp(−22) of the answer: fewer aliases take more nodes
_CLEAR_PART = 14.0  # the same for each range of a long tail, whose part of the answer is smaller
# decimal logarithms of tilts, and how often their interval is halved
_LEAST = -14.0
_MOST = 9.0
_HALVINGS = 22
_CUT = 9.6  # at this many units of 1/τ the factor e^{−τ²y²/2} is below 1e-20
_ZERO_COUNTS = 1e-14  # the least probability that all copies are zero, at which this event is taken out of the sum
_FEWEST = 64  # a W with fewer values has no long tail
_RATIO = 1.1  # of one tilt that is tried to the next: a smaller ratio takes longer, and lowers the bound
_CAPS = tuple(0.4**power for power in range(150))  # the ends of ranges, relative to the largest value
_GAIN = 0.1  # splitting is for where Chernoff's bound gets smaller by more than this part
_LEAST_SHARE = 1e-12  # of Chernoff's bound of all, for a range: a smaller one is smoothed as much as possible
_LESS = 0.98  # of the deviation of a range, which is only about known: what is smoothed less costs less of δ
_COARSEST = 0.2  # the most that a range with a small share is smoothed, in its standard deviations
# in ranges of large values every second small one is kept, unless the fineness is below
_THIN = 2
_THINNED = 0.005
_GONE = -60.0  # values that the tilt makes less likely than exp(−60) of the others are raised to the largest of them


class Aim(NamedTuple):
    """Where to sum, all relative to the largest value of |W|: θ, L and the deviation of the tilted sum."""

    tilt: float
    period: float
    deviation: float

    @classmethod
    def at(cls, tilt: float, log_moment: float, deviation: float, log_mass: float, clear: float) -> "Aim":
        """Return the aim at a tilt with ln φ(θ)ⁿ, where aliases, of this mass, are below exp(−clear) of the answer."""
        wide = max(deviation, 1 / tilt)
        log_answer = log_moment - 2 * math.log(tilt) - math.log(2.6 * wide)
        # An alias adds e^{−θL} of its mass, and of the distance.
        period = (max(0.0, math.log(20 * wide) + log_mass - log_answer) + clear) / tilt
        if tilt * deviation > 9:
            period = min(period, 9 * deviation)
        return cls(tilt, max(period, 8 * deviation), deviation)


def aim(values: Sequence[float], probabilities: Sequence[float], missing: float, copies: int) -> Aim:
    """Return a tilt near the saddle point of φ(θ)ⁿ/θ², and a period beyond which aliases are negligible."""
    masses = zip((*values, 0.0), (*probabilities, missing), strict=True)
    rows = [(value, math.log(mass)) for value, mass in masses if mass > 0]
    low = _LEAST
    high = _MOST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tilt = 10.0**middle
        if copies * tilt * log_moments(rows, tilt)[1] > 2:  # n·θ·K′(θ) − 2 changes its sign once
            high = middle
        else:
            low = middle
    tilt = 10.0**high
    log_moment, _, variance = log_moments(rows, tilt)
    deviation = math.sqrt(max(copies * variance, 1e-300))
    return Aim.at(tilt, copies * log_moment, deviation, 0.0, _CLEAR)


class _Scaled(NamedTuple):
    """A summand relative to its largest |W|, its values rising, in balls and in floats."""

    unit: Ball
    part: "Part"
    values: list[float]
    probabilities: list[float]

    @classmethod
    def of(cls, summand: Summand) -> "_Scaled | None":
        """Return it; nothing if no value is positive, or one is infinite."""
        spend(120 + 8 * len(summand.values))
        unit = max((abs(value).upper() for value in summand.values), key=float)
        rows = sorted(zip(summand.values, summand.probabilities, strict=True), key=lambda row: float(row[0]))
        values = [value / unit for value, _ in rows]
        part = Part(values, [mass for _, mass in rows], 1 - total(summand.probabilities))
        floats = [float(value) for value in values]
        weights = [max(float(mass), 0.0) for mass in part.probabilities]
        if not all(map(math.isfinite, (*floats, *weights))) or floats[-1] <= 0:
            return None
        return cls(unit, part, floats, weights)

    def aim(self, copies: int) -> Aim:
        """Return where to sum."""
        return aim(self.values, self.probabilities, float(self.part.rest), copies)


class Part(NamedTuple):
    """Some of what S may be, in balls: what a copy may be, how often, and how often it is zero.

    The probabilities need not sum to one. Sums of the first `inner` values and zero alone do not count; if it is None
    all count.
    """

    values: list[Ball]
    probabilities: list[Ball]
    rest: Ball
    inner: int | None = None


def smoothed(part: Part, copies: int, aimed: Aim, *, fineness: float) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊] of this part."""
    sums = _Smoothed(part, copies, aimed, fineness)
    if not sums.measure.moment.is_finite() or not sums.measure.variance.is_finite():
        return INFINITE
    reach = _CUT / max(fineness * aimed.deviation, 1e-300) * aimed.period / (2 * math.pi)
    if not reach < _MOST_NODES:
        return INFINITE
    return sums.upper(max(8, math.ceil(reach)))


class _Smoothed:
    """The smoothed inversion sum of a part, at a tilt, relative to φ(θ)ⁿ."""

    def __init__(self, part: Part, copies: int, aimed: Aim, fineness: float) -> None:
        self.copies = copies
        self.tilt = ball(aimed.tilt)
        self.period = ball(aimed.period)
        self.step = 2 * arb.pi() / self.period
        self.fineness = fineness
        self.square = ball(fineness * aimed.deviation) ** 2  # τ²
        self.lift = (self.square * self.tilt**2 / 2).exp()
        self.inner = part.inner
        self.points = [*part.values, arb(0)]
        self.measure = Tilted(self.points, [*part.probabilities, part.rest], self.tilt)
        shares = self.measure.shares
        # The event that every copy is zero adds nothing, and is not smoothed where that would count.
        self.nothing = arb(0)
        if part.inner is None:
            nothing = shares[-1] ** copies
            if nothing > _ZERO_COUNTS:
                self.nothing = nothing
            self.whole = 1 + self.nothing  # an upper bound of all that is inverted
        else:
            self.jumps = total(shares[part.inner : -1])  # of the tilted measure, above the first values
            self.whole = 1 - (1 - self.jumps) ** copies
            masses = [*shares[: part.inner], *[arb(0)] * (len(shares) - 1 - part.inner), shares[-1]]
            self.inner_column = arb_mat(len(masses), 1, masses)

    def transform(self, height: Ball) -> tuple[Ball, Ball | None]:
        """Return the transform at a height, and that of the first values only."""
        row = row_at(self.points, height)
        first = None if self.inner is None else self.measure.value(row, self.inner_column)
        return self.measure.value(row), first

    def _term(self, index: int) -> Ball:
        spend(_NODE)
        height = index * self.step
        node = acb(self.tilt, height)
        value, first = self.transform(height)
        power = value**self.copies - (self.nothing if first is None else first**self.copies)  # (5.3)
        term = (power * (self.square * node * node / 2).exp() / (node * node)).real
        return term if index == 0 else 2 * term

    def size_bound(self, height: Ball, radius: Ball) -> Ball:
        """Return an upper bound of what is inverted within a radius of a height."""
        with precision(_BOUND_BITS):
            square = self.measure.square_bound(row_at(self.points, height), radius)
        size = square.sqrt().upper() if 0 < square < 1 else arb(1)
        if self.inner is None:
            return size**self.copies + self.nothing
        larger = (size + self.jumps).min(arb(1))
        return (self.copies * self.jumps * larger ** (self.copies - 1)).min(self.whole)  # (5.4)

    def _damping(self, height: Ball) -> Ball:
        """Return e^{τ²(θ² − y²)/2}."""
        return self.lift * (-self.square * height * height / 2).exp()

    def upper(self, last: int) -> Ball:
        """Return a ball whose upper end is at least E[(S)₊], from the nodes up to the last one."""
        head = total([self._term(index) for index in range(_SHORT)])
        enough = min(_NEGLIGIBLE * self.fineness**2, _MOST_NEGLIGIBLE) * abs(head).upper()

        def charge(first: int, final: int) -> Ball | None:
            spend(_RANGE + len(self.points) / 2)
            lowest = first * self.step
            size = 2 * (final - first + 1) * self._damping(lowest) / (lowest * lowest)  # (3.2)
            cost = size * self.whole
            if not cost <= enough:
                middle = (first + final) * self.step / 2
                cost = size * self.size_bound(middle, (final - first) * self.step / 2)
            return cost.upper() if cost <= enough else None

        most = _MOST_SINES // len(self.points)
        rest = halved(_SHORT, last, short=_SHORT, charge=charge, summed=self._term, most=most)
        if rest is None:
            return INFINITE
        end = last * self.step
        beyond = 2 * self._damping(end) / (self.step * end) * self.whole  # (3.3)
        return self.measure.moment**self.copies * (head + rest + beyond) / self.period


def effort(summand: Summand, copies: int, *, fineness: float) -> float:
    """Return about how many sines `inverted` takes at most."""
    scaled = _Scaled.of(summand)
    if scaled is None:
        return math.inf
    return len(summand.values) * _CUT / max(fineness * scaled.aim(copies).deviation, 1e-300)


def tilt_of(summand: Summand, copies: int) -> float:
    """Return about the tilt at which `chernoff` is least."""
    scaled = _Scaled.of(summand)
    return 1.0 if scaled is None else scaled.aim(copies).tilt / float(scaled.unit)


def chernoff(summand: Summand, copies: int, *, tilt: float | None = None) -> Ball:
    """Return a quick upper bound of E[(S)₊], several times too large: φ(θ)ⁿ/(eθ), whatever the tilt θ is."""
    theta = ball(tilt_of(summand, copies) if tilt is None else tilt)
    spend(5 + len(summand.values))
    rows = zip(summand.values, summand.probabilities, strict=True)
    moment = 1 + total([probability * (theta * value).expm1() for value, probability in rows])
    return moment**copies / (arb(1).exp() * theta)


def gaussian(summand: Summand, copies: int) -> Ball:
    """Return a quick upper bound of E[(S)₊], good where n is large and the answer is not small."""
    spend(20 + 2 * len(summand.values))
    values = (*summand.values, arb(0))
    probabilities = (*summand.probabilities, 1 - total(summand.probabilities))
    mean = total([p * value for value, p in zip(values, probabilities, strict=True)])
    offsets = [value - mean for value in values]
    squares = [p * offset * offset for offset, p in zip(offsets, probabilities, strict=True)]
    variance = total(squares)
    third = total([square * abs(offset) for offset, square in zip(offsets, squares, strict=True)])
    if not variance > 0:
        return INFINITE
    deviation = (copies * variance).sqrt()
    t = copies * mean / deviation
    return deviation * (density(t) + t * normal(t)) + third / variance  # (3.4)


class _Range(NamedTuple):
    """Sums whose largest copy is one of the values from `inner` to `outer`; all up to there, if inner is None."""

    inner: int | None
    outer: int
    aim: Aim
    log_bound: float


def inverted(summand: Summand, copies: int, *, fineness: float) -> Ball:
    """Return a ball whose upper end is at least E[(S)₊]; a smaller `fineness` smooths less, and takes longer."""
    scaled = _Scaled.of(summand)
    if scaled is None:
        return INFINITE
    # Each range of large values has its own tilt. Floating point chooses them; all of them give a bound.
    ranges = _ranges(scaled, copies)
    if len(ranges) == 1:
        return scaled.unit * smoothed(scaled.part, copies, ranges[0].aim, fineness=fineness)
    values, probabilities, rest, _ = scaled.part
    most = max(each.log_bound for each in ranges)
    answer = arb(0)
    for each in ranges:
        share = max(math.exp(each.log_bound - most), _LEAST_SHARE)
        spend(50 + 3 * len(values))
        part = Part(values[: each.outer], probabilities[: each.outer], rest, each.inner)
        gone = bisect_left(scaled.values, _GONE / each.aim.tilt)
        if gone > 1:  # raised to the largest of them
            likely = [total(part.probabilities[:gone]), *part.probabilities[gone:]]
            inner = None if each.inner is None else each.inner - gone + 1
            part = Part(part.values[gone - 1 :], likely, rest, inner)
        if fineness > _THINNED:
            part = _thinned(part)
        # Smoothing adds a part (fineness·θ·deviation)²/2 of a range, which may have a small share.
        finest = fineness / math.sqrt(share)
        rough = min(finest, 0.5 / (each.aim.tilt * each.aim.deviation), _COARSEST)
        answer += smoothed(part, copies, each.aim, fineness=max(fineness, rough))
    return scaled.unit * answer


def _thinned(part: Part) -> Part:
    """Return fewer of the first values: the others' masses are put at two that are kept, with their means."""
    if part.inner is None:
        return part
    values = part.values
    probabilities = part.probabilities
    inner = part.inner
    kept = [*range(0, inner - 1, _THIN), inner - 1]
    fewer = [values[index] for index in kept]
    masses = [arb(0)] * len(kept)
    gather(values[:inner], probabilities[:inner], fewer, masses)
    return Part([*fewer, *values[inner:]], [*masses, *probabilities[inner:]], part.rest, len(kept))


def _added(logs: Iterable[float]) -> float:
    """Return the logarithm of a sum of numbers that are given by their logarithms."""
    listed = [*logs]
    highest = max(listed, default=-math.inf)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum([math.exp(log - highest) for log in listed]))


def _ranges(scaled: _Scaled, copies: int) -> list[_Range]:
    """Return ranges whose Chernoff bounds add up to about the least; the first has small values."""
    values = scaled.values
    if len(values) < _FEWEST:
        return [_Range(None, len(values), scaled.aim(copies), 0.0)]
    top = values[-1]
    zero = bisect_right(values, 0.0)
    least = max(values[zero], 1e-60 * top)
    number = math.ceil(math.log(4e3 * top / least) / math.log(_RATIO))
    tilts = [0.05 / top * _RATIO**power for power in range(number)]
    caps = sorted({bisect_right(values, top * part) for part in _CAPS} - {*range(zero + 1)})
    spend(number * (0.35 * len(values) + 3 * len(caps)))
    masses = zip(values, scaled.probabilities, strict=True)
    rows = [(value, math.log(mass) if mass > 0 else -math.inf) for value, mass in masses]
    nothing = math.log(max(float(scaled.part.rest), 1e-300))

    def height(start: float, jumps: float, tilt: float) -> float:
        """Return ln((φ_cⁿ − φ_bⁿ)/θ), where ln φ_b is the start, and `jumps` is ln(φ_c − φ_b)."""
        ratio = jumps - start
        more = copies * (max(ratio, 0.0) + math.log1p(math.exp(-abs(ratio))))
        if more < 30:
            more = math.log(math.expm1(more)) if more > 0 else -math.inf
        return copies * start + more - math.log(tilt)

    whole: list[list[float]] = [[] for _ in caps]
    above: list[list[float]] = [[] for _ in caps[1:]]
    for tilt in tilts:
        # ln Σ p·e^θw over what each cap adds, and over all up to it.
        between = [rows[low:cap] for low, cap in pairwise((0, *caps))]
        parts = [_added([tilt * value + log for value, log in each]) for each in between]
        sums = [*accumulate(parts, lambda *both: _added(both))]
        for index, upto in enumerate(sums):
            whole[index].append(height(nothing, upto, tilt))  # that all are zero adds nothing
        for index, part in enumerate(parts[1:]):
            above[index].append(height(_added((sums[index], nothing)), part, tilt))
    totals = [_added((min(whole[start]), *map(min, above[start:]))) for start in range(len(caps))]
    best = max(start for start in range(len(caps)) if totals[start] <= min(totals) + _GAIN)
    if best == len(caps) - 1:
        return [_Range(None, caps[-1], scaled.aim(copies), 0.0)]
    kept: list[tuple[int | None, int, list[float]]] = [(None, caps[best], whole[best])]
    kept += [(caps[index], caps[index + 1], above[index]) for index in range(best, len(caps) - 1)]
    return [_Range(inner, outer, _aim_of(tilts, heights), min(heights)) for inner, outer, heights in kept]


def _aim_of(tilts: Sequence[float], heights: Sequence[float]) -> Aim:
    """Return the tilt at which ln M(θ) − 2·ln θ is least, and a period and a deviation for it; heights are ln(M/θ)."""
    logs = [height + math.log(tilt) for tilt, height in zip(tilts, heights, strict=True)]
    least = min(range(len(tilts)), key=lambda index: heights[index] - math.log(tilts[index]))
    index = min(max(least, 1), len(tilts) - 2)
    tilt = tilts[index]
    # With x = ln θ, the second derivative in θ is (f″ − f′)/θ².
    width = math.log(_RATIO)
    before, middle, after = logs[index - 1 : index + 2]
    bend = (before - 2 * middle + after) / width**2 - (after - before) / (2 * width)
    deviation = _LESS * math.sqrt(max(bend, 0.05**2)) / tilt
    return Aim.at(tilt, logs[index], deviation, min(logs[0], 0.0), _CLEAR_PART)  # at the least tilt, M is its mass
