"""Theorem O: δ(ε) of one-bit reports, the largest over all datasets, from both sides.

Of m = n − 1 others, k report a one with probability `high` and the rest with probability `low`; S is the
number of their ones. δ(ε) is the largest, over k and t, of

    v_k(t) = A·Pr(S = t) − (λ − 1)·Pr(S < t),      A = (1 − low) − λ·(1 − high),   λ = e^ε.   (1)

v_k(t) is a coefficient of a power series, so a sum over nodes on a circle gives it (3). That sum is smooth
in k and t, also between integers: Taylor's formula (4) bounds it on cells of k. Where such a bound is not
good enough, cells are divided, and in the end the numbers k are evaluated one by one.

Equation numbers are those of docs/theory/one-bit.md, which has the proofs. Values of v are in units of
e^base, where base is the quick bound (5) of ln δ, because δ may be far below the smallest float64.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.rounding import slack

__all__ = ["BitCount", "Worst", "cell_ends", "log_ceiling", "worst_count"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Counts = NDArray[np.int64]

_LARGEST_TILT = 90.0
"""A larger tilt would make e^(tilt·t) overflow next to the tilted mean; a smaller one is a valid choice."""
_LEAST_TILT = 1.5
"""The least tilt, over one standard deviation: with a smaller one, the period would need more nodes."""
_VARIED = 64.0
"""The variance that is kept of the kind of people that varies far more than the other kind (6).

More variance makes the bound of cells with more such people closer, and takes more nodes.
"""
_OVERFLOW = 600.0
"""In cells where terms change by more than this power of e, only fewer people give a bound."""
_UNLIKELY = 25.0
"""Cells whose quick bound is below e^−25 of the largest are not looked at before the first division."""
_FEW = 256
"""With this many others or fewer, every k is evaluated: cells would not be faster."""
_PARTS = 4
"""The number of parts of a divided cell: fewer parts take more passes, more parts take more cells."""
_PASSES = 2
"""The number of divisions of cells. After more of them, cells are so small that k can be listed."""
_LISTED = 1_024
"""The number of k that are evaluated at once, in the cells with the largest bounds."""
_CANDIDATES = 512
"""The number of k next to 0, next to m and in the best cells, of which the best are evaluated first."""
_TRIED = 64
"""The number of candidates that are evaluated: with more, the lower end is closer at the start."""
_ROUNDED = 1e-5
"""The most that rounding changes δ by, relatively, where the best k are evaluated."""
_COLUMNS = np.arange(-1.0, 3.0)
"""The t that are evaluated, from the tilted mean rounded down: the maximum is at the second or third."""
_LOCAL = math.sqrt(math.pi / 8)
"""No probability of a sum of bits is more than this over its standard deviation (5)."""


class _Accuracy(NamedTuple):
    """How closely δ is evaluated; every choice is valid."""

    depth: float  # nodes are left out below e^−depth of the first, aliases below e^(−1.2·depth)
    ratio: float  # of the ends of neighbouring cells near k = 0 and k = m
    listings: int  # how often `_LISTED` numbers k are evaluated


_CLOSE = _Accuracy(50.0, 1.1, 8)
_ROUGH = _Accuracy(50.0, 1.25, 8)
_ROUGH_TOLERANCE = 1e-6
"""From this tolerance on, wider cells are enough."""
_CEILING = _Accuracy(24.0, 4.0, 1)


@dataclass(frozen=True)
class BitCount:
    """The numbers in v_k(t), at one ε and in one direction (1).

    Attributes
    ----------
    others : int
        m = n − 1.
    low, high : float
        The least and the largest probability of a one.
    not_low, not_high : float
        1 − low and 1 − high, accurate also where they are small.
    gain, excess : float
        A > 0 and λ − 1.
    """

    others: int
    low: float
    high: float
    not_low: float
    not_high: float
    gain: float
    excess: float

    @property
    def rows(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The probabilities of a one and of a zero, for both kinds of people."""
        return (self.low, self.not_low), (self.high, self.not_high)

    @property
    def slope(self) -> float:
        """The tilt ln G at which the tilted mean is next to the maximum (2), or the largest tilt."""
        return min(math.log1p(self.excess / self.gain), _LARGEST_TILT)

    @cached_property
    def shifts(self) -> tuple[float, float]:
        """The distance of the mean of a bit from its tilted mean, for both kinds of people (2)."""
        total = self.gain + self.excess
        low, high = (
            q * other * self.excess / (other * total + q * self.gain) for q, other in self.rows
        )  # fmt: skip
        return low, high

    @property
    def reach(self) -> float:
        """The largest distance of the maximum from the tilted mean, which has rounding of its own."""
        return 1 + slack(16) * self.others

    def centres(self, rest: Array, counts: Array) -> Array:
        """Return the tilted mean of S with these numbers of people of each kind."""
        return np.asarray(rest * (self.low - self.shifts[0]) + counts * (self.high - self.shifts[1]))

    def quick(self, rest: Array, counts: Array, tilt: float) -> Array:
        """Return upper bounds of ln v with these numbers of people of each kind, by any tilt (5)."""
        log_gain = math.log(self.gain)
        depths = np.zeros(len(rest))
        variances = np.zeros(len(rest))
        for row, shift, people in zip(self.rows, self.shifts, (rest, counts), strict=True):
            each = _cumulant(*row, tilt) - tilt * shift
            size = tilt * (row[0] + shift) + abs(each)
            depths += people * (each + slack(64) * size)
            variances += people * _variance(*row, tilt)
        least = np.maximum(variances * (1 - slack(64)), 1e-300)
        share = _LOCAL / np.sqrt(least)
        local = np.minimum(share, 1.0)
        if tilt == self.slope < _LARGEST_TILT and tilt > 0:
            # h vanishes at this tilt, but for rounding.
            falls = (math.pi / 4 / least + slack(16) * tilt * share) / -math.expm1(-tilt)
            local = np.minimum(local, falls * (1 + slack(64)))
        logs = np.minimum(depths + tilt * self.reach + np.log(local), 0.0)
        return np.asarray(log_gain + logs + slack(64) * (8 + abs(log_gain) + np.abs(depths)))

    @cached_property
    def base(self) -> float:
        """An upper bound of ln v for all k: the quick bounds are convex in k, hence largest at an end.

        Next to the largest ε, where few ones are likely, a smaller tilt is better.
        """
        ends = np.array([0.0, self.others])
        tilts = {self.slope, min(self.slope, 1.0), min(self.slope, 5.0)}
        return min(float(self.quick(ends, ends[::-1], tilt).max()) for tilt in tilts)

    @property
    def likely(self) -> float:
        """Roughly the logarithm of δ."""
        variance = self.others * min(_variance(*row, self.slope) for row in self.rows)
        if variance <= 1:
            return self.base
        steps = self.slope * math.sqrt(variance)
        local = math.log(min(1.25 / max(steps, 1e-300), 1.0))
        return self.base - 0.45 - math.log1p(1.6 * steps + steps**2) - local


class Worst(NamedTuple):
    """Two numbers around the largest v_k(t)."""

    lower: float
    upper: float


def worst_count(bits: BitCount, *, tolerance: float = 0.0) -> Worst:
    """Return the largest v_k(t) over all k and t, from both sides.

    A relative gap of `tolerance` between both sides is good enough.
    """
    if bits.base < math.log(SMALLEST_DELTA):
        return Worst(0.0, SMALLEST_DELTA)
    accuracy = _CLOSE if tolerance < _ROUGH_TOLERANCE else _ROUGH
    found = _largest(bits, accuracy, tolerance)
    unit = math.exp(bits.base)
    return Worst(found.lower * unit * (1 - slack(8)), found.upper * unit * (1 + slack(8)))


def log_ceiling(bits: BitCount, tolerance: float) -> float:
    """Return the logarithm of an upper bound of all v_k(t), about `tolerance` above the largest."""
    relative = _largest(bits, _CEILING, tolerance).upper
    log = bits.base + math.log(relative) if relative > 0 else -math.inf
    return min(log + slack(64) * (8 + abs(log)), bits.base) if relative > 0 else log


def _largest(bits: BitCount, accuracy: _Accuracy, tolerance: float) -> Worst:
    """Return both ends of the largest v_k(t), in units of e^base."""
    with np.errstate(all="ignore"):
        circle = _Circle(bits, accuracy.depth)
        if bits.others <= _FEW:
            return circle.evaluated(np.arange(bits.others + 1))
        cells = circle.first_cells(accuracy.ratio)
        best = circle.evaluated(_promising(bits, cells))
        if best.lower > 0:
            # Nothing is gained by a closer look than rounding allows.
            tolerance = max(tolerance, min(best.upper / best.lower - 1, _ROUNDED))
        for _ in range(_PASSES):
            still = cells.bounds > best.lower * (1 + tolerance)
            if not still.any():
                break
            cells = circle.divided(cells, still)
        listed = np.zeros(len(cells.bounds), np.bool_)
        for _ in range(accuracy.listings):
            # The cells with the largest bounds, and of these the ones with the largest estimates.
            order = np.lexsort((-cells.peaks, -cells.bounds))
            still = (cells.bounds > best.lower * (1 + tolerance)) & ~listed
            order = order[still[order]]
            chosen = order[np.cumsum(cells.sizes[order]) <= _LISTED]
            if not len(chosen):
                break
            found = circle.evaluated(cells.counts(chosen))
            cells.bounds[chosen] = np.minimum(cells.bounds[chosen], found.upper)
            listed[chosen] = True
            best = max(best, found)
        return Worst(best.lower, max(best.lower, float(cells.bounds.max())))


class _Cells(NamedTuple):
    """Cells of k, each with a bound of v, and at its middle roughly the maximum between integers."""

    first: Counts
    last: Counts
    bounds: Array
    peaks: Array  # the largest v
    offsets: Array  # its distance from the tilted mean
    curvatures: Array  # minus the second derivative of v there

    @property
    def sizes(self) -> Counts:
        """The number of k in each cell."""
        return self.last - self.first + 1

    def at(self, index: Counts) -> "_Cells":
        """Return the cells with these indices."""
        rough = (part[index] for part in (self.peaks, self.offsets, self.curvatures))
        return _Cells(self.first[index], self.last[index], self.bounds[index], *rough)

    def counts(self, chosen: Counts) -> Counts:
        """Return all k in the `chosen` cells."""
        return np.concatenate([np.arange(self.first[i], self.last[i] + 1) for i in chosen])


def cell_ends(m: int, ratio: float) -> tuple[Counts, Counts]:
    """Return the first and the last k of cells that are narrow at both ends of 0, …, m, and wider between."""
    steps = np.arange(math.ceil(math.log(m / 2) / math.log(ratio)))
    near = np.unique(np.floor(ratio**steps).astype(np.int64))
    first = np.unique(np.concatenate(([0], near[near < m // 2], (m + 1 - near)[::-1])))
    return first, np.append(first[1:] - 1, m)


def _promising(bits: BitCount, cells: _Cells) -> Counts:
    """Return the k that look best: their maximum between integers is large and close to an integer."""
    m = bits.others
    best = int(np.argmax(cells.peaks))
    begin = cells.first[max(best - 2, 0)]
    end = cells.last[min(best + 2, len(cells.last) - 1)]
    near = np.arange(min(_CANDIDATES, m))
    counts = np.concatenate((near, m - near, np.linspace(begin, end, _CANDIDATES).astype(np.int64)))
    numbers = counts.astype(np.float64)
    middles = 0.5 * (cells.first + cells.last)
    peaks, offsets, curvatures = (np.interp(numbers, middles, part) for part in cells[3:])
    places = offsets + bits.centres(m - numbers, numbers)
    values = np.nan_to_num(peaks - 0.5 * curvatures * (places - np.rint(places)) ** 2)
    chosen = np.argpartition(-values, _TRIED)[:_TRIED]
    return np.append(counts[chosen], [0, m])


class _Terms(NamedTuple):
    """The terms of the sum over nodes (rows: sums, columns: nodes)."""

    scale: Array  # the first term of each sum, in units of e^base
    relative: Complex  # each term over the first one
    sizes: Array  # its absolute value
    errors: Array  # bounds of its relative error


class _Circle:
    """The nodes s = θ + iy on a circle, and the numbers that all k share (3)."""

    def __init__(self, bits: BitCount, depth: float) -> None:
        self.bits = bits
        m = float(bits.others)
        low, high = (_variance(*row, bits.slope) for row in bits.rows)
        small = min(low, high)
        large = max(low, high)
        # Of the kind that varies far more than the other, only some people are kept (6).
        cap = math.floor(min(m, (_VARIED + 4 * m * small) / max(large, 1e-300)))
        self.most_rest = cap if low > high else bits.others
        self.most_counts = cap if high > low else bits.others
        spread = math.sqrt(max(0.25, m * small + cap * large if cap < m else m * large))

        # The tilt θ and the period N.
        least = math.sqrt(max(m * small, 0.25))
        self.tilt = min(max(bits.slope, _LEAST_TILT / least), _LARGEST_TILT)
        self.log_steep = math.log1p(bits.excess / bits.gain)
        alias = 1.2 * depth + math.log(bits.gain) - bits.base + math.log(spread) + self.log_steep
        period = max(2 * math.sqrt(depth) * spread, alias / self.tilt)
        self.period = 2 * math.ceil(period / 2) + 11
        winding = self.tilt * self.period
        self.beyond = math.exp(-winding - bits.base) / -math.expm1(-winding)
        self.steeper = self.tilt + min(self.period / spread**2, 3.0)

        # The nodes that are kept.
        self.variances = [_variance(*row, self.tilt) for row in bits.rows]
        share = depth / (2 * max(m * min(self.variances), 1e-300))
        angle = 2 * math.asin(math.sqrt(share)) if share < 1 else math.pi
        step = 2 * math.pi / self.period
        count = min(math.ceil(angle / step), self.period // 2) + 1
        self.edge = step * count if count <= self.period // 2 else math.inf
        heights = step * np.arange(count, dtype=np.float64)
        self.points = self.tilt + 1j * heights
        self._fill(heights)

    def _fill(self, heights: Array) -> None:
        """Fill the arrays over nodes: exponents, factors h(s)/N, moments, and the sizes of their errors."""
        bits = self.bits
        (low, low_errors), (high, high_errors) = (
            _cumulants(*row, shift, self.tilt, heights)
            for row, shift in zip(bits.rows, bits.shifts, strict=True)
        )  # fmt: skip
        length = np.abs(self.points)
        self.exponents = np.array([low, high, self.points])
        self.exponent_errors = np.array(
            [low_errors + slack(8) * np.abs(low), high_errors + slack(8) * np.abs(high), length]
        )

        # h(s) = A − (λ − 1)/(e^s − 1), with e^s − 1 free of cancellation; N is twice the nodes, but for y = 0.
        weights = np.where(heights > 0, 2.0, 1.0) / self.period
        sines = np.sin(heights / 2)
        grown = math.expm1(self.tilt) * np.cos(heights) - 2 * sines**2
        turned = grown + 1j * math.exp(self.tilt) * np.sin(heights)
        lengths = np.abs(turned)
        cancelled = (math.expm1(self.tilt) + 2 * math.exp(self.tilt) * sines) / lengths
        factors = weights * (bits.gain - bits.excess / turned)
        sizes = weights * (bits.gain + bits.excess / lengths * cancelled)

        # The moments of (4): ⟨s^i⟩ for i = 0, …, 5, then ⟨ℓ⟩ and ⟨ℓs⟩, and norms N₆, N₁₂ and N₂₀.
        moved = high - low
        doubt = low_errors + high_errors
        far = np.abs(moved) + doubt
        powers = np.arange(6.0)[:, None]
        self.moments = np.concatenate(
            (factors * self.points**powers, factors * moved * self.points ** powers[:2])
        ).T  # fmt: skip
        self.moment_sizes = np.concatenate(
            (sizes * length**powers, sizes * far * length ** powers[:2])
        ).T  # fmt: skip
        flat = np.abs(factors) + slack(64) * sizes
        self.norms = np.array([flat * length**6, flat * far * length**2]).T
        self.square_norm = flat * far**2
        self.rates = np.abs(moved.real) + doubt
        self.first_rate = float(far[0])

        # The sums at four neighbouring t.
        self.columns = factors[:, None] * np.exp(np.outer(self.points, _COLUMNS))
        self.column_sizes = np.outer(sizes, np.exp(self.tilt * _COLUMNS))

    def _terms(self, rest: Array, counts: Array, offsets: Array, misplaced: Array | float) -> _Terms:
        """Return the terms of (3) at t = μ + offset, where μ + offset is wrong by at most `misplaced`."""
        logs = np.array([rest, counts, offsets], np.complex128).T @ self.exponents
        first = logs[:, 0].real.copy()
        logs -= first[:, None]
        relative = np.exp(logs, out=logs)
        # No exponent is larger than its three parts together; 4 is for the columns next to the offset.
        away = slack(8) * (4 + 2 * np.abs(offsets)) + misplaced
        errors = np.array([rest, counts, away]).T @ self.exponent_errors
        base = self.bits.base
        errors += (slack(8) * (np.abs(first) + abs(base)) + slack(64 + 4 * len(self.points)))[:, None]
        return _Terms(np.exp(first - base), relative, np.abs(relative), errors)

    def _dropped(self, rest: Array, counts: Array) -> Array:
        """Return bounds of the terms that are left out, over the first term."""
        if self.edge == math.inf:
            return np.zeros(len(counts))
        steepness = (rest * self.variances[0] + counts * self.variances[1]) * (1 - 1e-12)
        largest = self.bits.gain + self.bits.excess / math.expm1(self.tilt)
        height = math.sin(min(self.edge, math.pi) / 2) ** 2
        return np.asarray(largest * np.exp(-2 * steepness * height))

    def _below(self, rest: Array, counts: Array, offsets: Array) -> Array:
        """Return Chernoff's bound of Σ e^(jθN)·Pr(S ≤ t − jN) over j ≥ 1, in units of e^base."""
        low, high = (
            _cumulant(*row, self.steeper) - self.steeper * shift
            for row, shift in zip(self.bits.rows, self.bits.shifts, strict=True)
        )  # fmt: skip
        apart = (self.steeper - self.tilt) * self.period
        exponents = rest * low + counts * high + self.steeper * offsets - apart - self.bits.base
        return np.asarray(np.exp(exponents) * 1.01 / -math.expm1(-apart))

    def evaluated(self, counts: Counts) -> Worst:
        """Return both ends of the largest v_k(t) over all k in `counts`."""
        numbers = counts.astype(np.float64)
        lower, upper = self._ends(self.bits.others - numbers, numbers)
        return Worst(float(np.fmax(lower, 0.0).max()), float(upper.max()))

    def _ends(self, rest: Array, counts: Array) -> tuple[Array, Array]:
        """Return both ends of the largest v(t) with these numbers of people of each kind (3)."""
        bits = self.bits
        centres = bits.centres(rest, counts)
        starts = np.floor(centres)
        offsets = starts - centres
        misplaced = slack(16) * (rest * bits.low + counts * bits.high + starts)
        terms = self._terms(rest, counts, offsets, misplaced)
        scale = terms.scale[:, None]
        values = scale * (terms.relative @ self.columns).real
        wrong = scale * ((terms.sizes * terms.errors) @ self.column_sizes)
        growth = np.exp(self.tilt * _COLUMNS)
        wrong += scale * self._dropped(rest, counts)[:, None] * growth
        wrong += slack(64) * np.abs(values)
        # The upper end: later aliases are negative, and earlier ones are positive.
        far = np.abs(offsets[:, None] + _COLUMNS) > bits.reach
        upper = np.where(far, 0.0, values + wrong).max(axis=1) + bits.excess * self.beyond
        # The lower end: aliases on both sides are bounded.
        strays = self.beyond + self._below(rest, counts, offsets + _COLUMNS[-1])
        lower = values - wrong - bits.gain * strays[:, None]
        return lower.max(axis=1), np.where(np.isnan(upper), math.inf, upper)

    def first_cells(self, ratio: float) -> _Cells:
        """Return all cells, with close bounds of those whose quick bounds are not too small."""
        first, last = cell_ends(self.bits.others, ratio)
        logs = self._quick(first, last)
        some = logs > logs.max() - _UNLIKELY
        nothing = np.zeros(len(first))
        cells = _Cells(first, last, np.exp(logs) * (1 + 1e-9), nothing, nothing.copy(), nothing.copy())
        return self._bounded(cells, some, np.full(len(first), -0.5))

    def divided(self, cells: _Cells, still: NDArray[np.bool_]) -> _Cells:
        """Return the cells, those that are `still` too large in parts, bounded around their own maximum."""
        parts = np.where(still, np.minimum(_PARTS, cells.sizes), 1)
        index = np.repeat(np.arange(len(parts)), parts)
        part = np.arange(len(index)) - np.repeat(np.cumsum(parts) - parts, parts)
        whole = cells.at(index)
        first = whole.first + whole.sizes * part // parts[index]
        last = whole.first + whole.sizes * (part + 1) // parts[index] - 1
        return self._bounded(whole._replace(first=first, last=last), still[index], whole.offsets)

    def _quick(self, first: Counts, last: Counts) -> Array:
        """Return quick bounds of ln v on each cell, over base: they are largest at an end of a cell."""
        m = self.bits.others
        slope = self.bits.slope
        ends = [self.bits.quick(m - end, end, slope) for end in (first.astype(float), last.astype(float))]
        return np.asarray(np.maximum(*ends) - self.bits.base)

    def _bounded(self, cells: _Cells, some: NDArray[np.bool_], offsets: Array) -> _Cells:
        """Return the cells with bounds of `some` of them by (4), around these offsets, where they are smaller."""
        found = self._taylor(cells.first[some].astype(float), cells.last[some].astype(float), offsets[some])
        cells.bounds[some] = np.fmin(cells.bounds[some], found[0])
        for old, new in zip(cells[3:], found[1:], strict=True):
            old[some] = new
        return cells

    def _taylor(self, first: Array, last: Array, at: Array) -> tuple[Array, Array, Array, Array]:
        """Return bounds of v on each cell, and its peak, offset and curvature at the middle (4)."""
        bits = self.bits
        m = bits.others
        middles = 0.5 * (first + last)
        halves = 0.5 * (last - first)
        at = np.clip(np.nan_to_num(at), -1.0, 1.0)
        terms = self._terms(m - middles, middles, at, 0.0)
        sums = (terms.relative @ self.moments).real
        wrong = (terms.sizes * terms.errors) @ self.moment_sizes
        reach = np.maximum(bits.reach - at, bits.reach + at)
        tilted = np.exp(self.tilt * reach)
        sixth, mixed = (terms.sizes @ self.norms * tilted[:, None]).T
        growth = np.outer(halves, self.rates)
        grown = terms.sizes * np.exp(np.minimum(growth, _OVERFLOW))
        square = grown @ self.square_norm * tilted

        # The terms with u, on both sides of the offset: at most g·η − κ·η².
        slope = np.abs(sums[:, 1]) + wrong[:, 1] + halves * (np.abs(sums[:, 7]) + wrong[:, 7])
        moments = _Moments(sums, wrong, sixth)
        rises = [_rise(slope, side, bits.reach - side * at, moments) for side in (-1.0, 1.0)]
        total = sums[:, 0] + wrong[:, 0] + np.maximum(*rises)
        total += halves * (np.abs(sums[:, 6]) + wrong[:, 6])
        total += halves * mixed * reach**2 / 2 + halves**2 * square / 2
        dropped = np.maximum(self._dropped(m - first, first), self._dropped(m - last, last))
        total += dropped * np.exp(np.minimum(halves * self.first_rate, _OVERFLOW)) * tilted
        bounds = (terms.scale * total + bits.excess * self.beyond) * (1 + slack(256))

        # Fewer people: better for small variances, and the only way where cells are too wide or have more
        # people than the period allows (6).
        usual = (growth.max(axis=1) < _OVERFLOW) & np.isfinite(bounds)
        usual &= (last <= self.most_counts) & (m - first <= self.most_rest)
        rest = np.minimum(m - last, self.most_rest)
        fewer = self._ends(rest, np.minimum(first, self.most_counts))[1]
        bounds = np.where(usual, np.minimum(bounds, fewer), fewer)
        curved = np.where(sums[:, 2] < 0, -sums[:, 2], math.inf)
        peaks = terms.scale * (sums[:, 0] + sums[:, 1] ** 2 / (2 * curved))
        peaks = np.where(usual & np.isfinite(peaks), peaks, 0.0)
        return bounds, peaks, at + sums[:, 1] / curved, -terms.scale * sums[:, 2]


class _Moments(NamedTuple):
    """The sums of (4) for each cell, bounds of their errors, and N₆."""

    sums: Array
    wrong: Array
    sixth: Array


def _rise(slope: Array, side: float, end: Array, moments: _Moments) -> Array:
    """Return the largest g·η − κ·η² for 0 ≤ η ≤ end, on one side of the offset (4)."""
    sums, wrong, sixth = moments
    curve = (-sums[:, 2] - wrong[:, 2]) / 2 - sixth * end**4 / 720
    for power in (3, 4, 5):
        above = np.maximum(side**power * sums[:, power], 0.0) + wrong[:, power]
        curve -= above * end ** (power - 2) / math.factorial(power)
    inside = 2 * curve * end > slope
    at_top = slope**2 / (4 * np.where(inside, curve, 1.0))
    return np.where(inside, at_top, (slope - curve * end) * end)


def _variance(q: float, other: float, tilt: float) -> float:
    """Return the variance of a bit after tilting."""
    tilted = math.exp(-tilt)
    return q * other * tilted / (other + q * tilted) ** 2


def _cumulant(q: float, other: float, tilt: float) -> float:
    """Return ln E[e^(−θ(X − q))] of a bit X."""
    if q > other:
        q = other
        tilt = -tilt
    return math.log1p(q * math.expm1(-tilt)) + q * tilt


def _cumulants(q: float, other: float, shift: float, tilt: float, heights: Array) -> tuple[Complex, Array]:
    """Return ln E[e^(−s(X − q + shift))] of a bit X at s = θ + iy, and bounds of its error."""
    s = tilt + 1j * heights
    if q > other:  # zeros and ones are exchanged
        q = other
        tilt = -tilt
        heights = -heights
    real = q * (math.expm1(-tilt) * np.cos(heights) - 2 * np.sin(heights / 2) ** 2)
    imaginary = -q * math.exp(-tilt) * np.sin(heights)
    moduli = 2 * real + real**2 + imaginary**2
    angles = np.arctan2(imaginary, 1 + real) + q * heights
    logs = 0.5 * np.log1p(moduli) + q * tilt + 1j * angles - s * shift
    size = q * (abs(math.expm1(-tilt)) + math.exp(-tilt) * np.minimum(np.abs(heights), 2.0))
    return logs, slack(32) * (size * (1 + size) / (1 + moduli) + (q + shift) * np.abs(s))
