"""Theorem O: δ(ε) of one-bit reports, the largest over all datasets, from both sides.

Of m = n − 1 others, k report a one with probability `high` and the rest with probability `low`. S
is the number of their ones. δ(ε) is the largest, over k and t, of

    v_k(t) = A·Pr(S = t) − (λ − 1)·Pr(S < t),   A = (1 − low) − λ·(1 − high),   λ = e^ε.   (1)

v_k(t) is a coefficient of a power series, so a sum over nodes on a circle gives it (3). That sum is
smooth in k and t, also between integers, so Taylor's formula (4) bounds it on cells of k. Cells
with too large a bound are divided. A cell of a single k is evaluated.

Equation numbers refer to docs/theory/one-bit.md, which has the proofs. Values of v are in units
of e^base, where base is the bound (5) of ln δ, because δ may be far below the smallest float64.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, Complex
from shoal.checks import SMALLEST_DELTA
from shoal.rounding import LARGEST_POWER, down, slack, up

_DEPTH = 40.0
"""Nodes are left out below e^−40 of the first, aliases below e^−48: less takes more nodes."""
_MOST_NODES = 2_048
"""The most nodes: fewer take less time and memory, but leave (5) as the bound of the least δ."""
_LARGEST_TILT = 90.0
"""A larger tilt makes e^(tilt·t) overflow next to the mean; a smaller one has larger errors."""
_VARIED = 64.0
"""The variance that is kept of the kind that varies far more (6): more takes more nodes."""
_RATIO = 1.25
"""The ratio of the ends of neighbouring cells: a smaller one has more cells, but divides fewer."""
_FEW = 256
"""With this many others or fewer, every cell is a single k: wider cells would not be faster."""
_DIVIDED = 64
"""The most cells that are divided in one pass: more of them take longer, fewer take more passes."""
_PASSES = 12
"""The most passes: more of them bring both ends closer where many k are almost equal."""
_TRIED = 64
"""The number of k that are evaluated first: more take longer, but fewer cells are divided."""

_COLUMNS = np.arange(-1.0, 3.0)
"""The t that are evaluated, from the tilted mean rounded down; the second or third is largest."""


@dataclass(frozen=True)
class BitCount:
    """The numbers in v_k(t), at one ε and in one direction (1)."""

    others: int  # m = n − 1
    low: float  # the least probability of a one
    high: float  # the largest probability of a one
    not_low: float  # 1 − low, accurate also where it is small
    not_high: float
    gain: float  # A > 0
    excess: float  # λ − 1

    @property
    def rows(self) -> list[tuple[float, float]]:
        """The probabilities of a one and of a zero, for both kinds of people."""
        return [(self.low, self.not_low), (self.high, self.not_high)]

    @cached_property
    def slope(self) -> float:
        """The tilt ln G, whose tilted mean is next to the maximum (2), or the largest tilt."""
        return min(math.log1p(self.excess / self.gain), _LARGEST_TILT)

    @cached_property
    def shifts(self) -> list[float]:
        """The distance of the mean of a bit from its tilted mean, for both kinds of people (2)."""
        shifts = []
        for q, other in self.rows:
            total = other * (self.gain + self.excess) + q * self.gain
            shifts.append(q * other * self.excess / total)
        return shifts

    @property
    def reach(self) -> float:
        """The largest distance of the maximum from the tilted mean, with rounding of the mean."""
        return 1 + slack(16) * self.others

    def centres(self, rest: Array, counts: Array) -> Array:
        """Return the tilted mean of S with these numbers of people of each kind."""
        low = self.low - self.shifts[0]
        high = self.high - self.shifts[1]
        return rest * low + counts * high

    def quick(self, counts: Array, tilt: float) -> Array:
        """Return upper bounds of ln v for these numbers k, by any tilt (5)."""
        rest = self.others - counts
        low, high = self.rates(tilt)
        depths = rest * low + counts * high
        low, high = (_variance(*row, tilt) for row in self.rows)
        variance = (rest * low + counts * high) * (1 - slack(64))
        # A bound of the largest probability of a sum of bits, whose logarithm is convex in k.
        local = -0.5 * np.log(1 / 64 + 63 / (8 * math.pi) * variance)
        logs = np.minimum(depths + tilt * self.reach + local, 0.0)
        log_gain = math.log(self.gain)
        size = 8 + abs(log_gain) + tilt + abs(depths)
        return log_gain + logs + slack(64) * size

    def rates(self, tilt: float) -> list[float]:
        """Return ln E[e^(−θ(X − q̃))] of a bit X of each kind at θ = `tilt`, rounded up."""
        rates = []
        for row, shift in zip(self.rows, self.shifts, strict=True):
            rate = _cumulant(*row, tilt) - tilt * shift
            size = tilt * (row[0] + shift) + abs(rate)
            rates.append(rate + slack(64) * size)
        return rates

    @cached_property
    def base(self) -> float:
        """An upper bound of ln v for all k: the quick bounds are largest at k = 0 or k = m.

        Next to the largest ε, where few ones are likely, a smaller tilt is better.
        """
        ends = np.array([0.0, self.others])
        tilts = (self.slope, min(self.slope, 1.0), min(self.slope, 5.0))
        return min(float(self.quick(ends, tilt).max()) for tilt in tilts)

    @property
    def likely(self) -> float:
        """Roughly the logarithm of δ."""
        variance = self.others * min(_variance(*row, self.slope) for row in self.rows)
        if variance <= 1:
            return self.base
        steps = self.slope * math.sqrt(variance)
        return self.base - 0.45 - math.log1p(1.6 * steps + steps**2)


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
    found = _largest(bits, tolerance, _PASSES)
    unit = math.exp(bits.base)
    lower = down(found.lower * unit, roundings=8)
    return Worst(lower, up(found.upper * unit, roundings=8))


def log_ceiling(bits: BitCount, tolerance: float) -> float:
    """Return the logarithm of an upper bound of all v_k(t), about `tolerance` above the largest."""
    log = bits.base + math.log(_largest(bits, tolerance, 2).upper)
    return min(log + slack(64) * (8 + abs(log)), bits.base)


class _Cells(NamedTuple):
    """Cells of k, each with bounds of v, and at its middle roughly the maximum between integers."""

    first: Array
    last: Array
    upper: Array  # of all v
    lower: Array  # of the largest v, for a single k, or else zero
    peaks: Array  # the largest v in the middle, if t need not be an integer
    offsets: Array  # its distance from the tilted mean
    curvatures: Array  # minus the second derivative of v there


def _largest(bits: BitCount, tolerance: float, passes: int) -> Worst:
    """Return both ends of the largest v_k(t), in units of e^base."""
    with np.errstate(all="ignore"):
        circle = _Circle(bits)
        first, last = _cell_ends(bits.others)
        cells = circle.bounded(first, last, np.full(len(first), -0.5))
        best = float(cells.lower.max())
        if bits.others > _FEW:
            lower, upper = circle.ends(_promising(bits, cells))
            best = max(best, float(lower.max()))
            # Nothing is gained by a closer look than rounding allows.
            if best > 0:
                tolerance = max(tolerance, min(float(upper.max()) / best - 1, 1e-5))
        for _ in range(passes):
            order = np.argsort(-cells.upper)
            wide = cells.last[order] > cells.first[order]
            wide &= cells.upper[order] > best * (1 + tolerance)
            chosen = order[wide][:_DIVIDED]
            if not len(chosen):
                break
            parts = circle.divided(_Cells(*(each[chosen] for each in cells)))
            rest = [np.delete(each, chosen) for each in cells]
            cells = _Cells(*map(np.append, rest, parts))
            best = max(best, float(parts.lower.max()))
        return Worst(best, max(best, float(cells.upper.max())))


@lru_cache(maxsize=16)
def _cell_ends(m: int) -> tuple[Array, Array]:
    """Return the first and the last k of cells of 0, …, m, which are narrow at both ends."""
    if m <= _FEW:
        every = np.arange(m + 1.0)
        return every, every
    steps = np.arange(math.ceil(math.log(m / 2) / math.log(_RATIO)))
    near = np.floor(_RATIO**steps)
    lower = near[near < m // 2]
    first = np.unique(np.concatenate(([0.0], lower, m + 1 - near)))
    return first, np.append(first[1:] - 1, m)


def _promising(bits: BitCount, cells: _Cells) -> Array:
    """Return k whose maximum between integers is large and close to an integer, and both ends."""
    m = bits.others
    best = int(np.argmax(cells.peaks))
    begin = cells.first[max(best - 2, 0)]
    end = cells.last[min(best + 2, len(cells.last) - 1)]
    near = np.arange(min(8.0 * _TRIED, m))
    inside = np.floor(np.linspace(begin, end, 8 * _TRIED))
    counts = np.concatenate((near, m - near, inside))
    middles = 0.5 * (cells.first + cells.last)
    peaks, offsets, curvatures = (np.interp(counts, middles, part) for part in cells[4:])
    places = offsets + bits.centres(m - counts, counts)
    values = np.nan_to_num(peaks - 0.5 * curvatures * (places - np.rint(places)) ** 2)
    chosen = np.argpartition(-values, _TRIED)[:_TRIED]
    return np.append(counts[chosen], [0.0, m])


class _Terms(NamedTuple):
    """The terms of the sum over nodes (rows: sums, columns: nodes)."""

    scale: Array  # the first term of each sum, in units of e^base
    relative: Complex  # each term over the first one
    sizes: Array  # its absolute value
    errors: Array  # the size times a bound of its relative error


class _Circle:
    """The nodes s = θ + iy on a circle, and the numbers that all k share (3)."""

    def __init__(self, bits: BitCount) -> None:
        self.bits = bits
        m = bits.others
        low, high = (_variance(*row, bits.slope) for row in bits.rows)
        small = min(low, high)
        large = max(low, high)
        # Of the kind that varies far more than the other, only some people are kept (6).
        cap = math.floor(min(m, (_VARIED + 4 * m * small) / max(large, 1e-300)))
        self.most_rest = cap if low > high else m
        self.most_counts = cap if high > low else m
        variance = m * small + cap * large if cap < m else m * large
        spread = math.sqrt(max(0.25, variance))

        # The tilt θ, not too small for few nodes, and the height of the nodes that are kept.
        least = math.sqrt(max(m * small, 0.25))
        self.tilt = min(max(bits.slope, 1.5 / least), _LARGEST_TILT)
        self.variances = [_variance(*row, self.tilt) for row in bits.rows]
        share = _DEPTH / (2 * max(m * min(self.variances), 1e-300))
        angle = 2 * math.asin(math.sqrt(share)) if share < 1 else math.pi

        # The period N.
        steep = math.log1p(bits.excess / bits.gain)
        alias = 1.2 * _DEPTH + math.log(bits.gain) - bits.base + math.log(spread) + steep
        period = max(2 * math.sqrt(_DEPTH) * spread, alias / self.tilt)
        period = min(period, 2 * math.pi * _MOST_NODES / angle)
        self.period = 2 * math.ceil(period / 2) + 11
        winding = self.tilt * self.period
        # Later aliases of (3), over λ − 1 and in units of e^base.
        self.beyond = float(np.exp(-winding - bits.base)) / -math.expm1(-winding)
        self.steeper = self.tilt + min(self.period / spread**2, 3.0)

        step = 2 * math.pi / self.period
        count = min(math.ceil(angle / step), self.period // 2) + 1
        self.edge = step * count if count <= self.period // 2 else math.inf
        self._fill(step * np.arange(count, dtype=np.float64))

    def _fill(self, heights: Array) -> None:
        """Fill the arrays over nodes at these y: exponents, moments and sizes of their errors."""
        bits = self.bits
        tilt = self.tilt
        points = tilt + 1j * heights
        length = abs(points)
        kinds = zip(bits.rows, bits.shifts, strict=True)
        found = [_cumulants(*row, shift, tilt, heights) for row, shift in kinds]
        (low, low_errors), (high, high_errors) = found
        self.exponents = np.array([low, high, points])
        self.exponent_errors = np.array([low_errors, high_errors, length])

        # h(s)/N = (A − (λ − 1)/(e^s − 1))/N of (3), twice for y > 0; e^s − 1 without cancellation.
        weights = np.where(heights > 0, 2.0, 1.0) / self.period
        sines = np.sin(heights / 2)
        grown = math.expm1(tilt) * np.cos(heights) - 2 * sines**2
        turned = grown + 1j * math.exp(tilt) * np.sin(heights)
        lengths = abs(turned)
        cancelled = (math.expm1(tilt) + 2 * math.exp(tilt) * sines) / lengths
        factors = weights * (bits.gain - bits.excess / turned)
        sizes = weights * (bits.gain + bits.excess / lengths * cancelled)

        # The moments of (4): ⟨s^i⟩ for i = 0, …, 5, then ⟨ℓ⟩ and ⟨ℓs⟩, and norms N₆, N₁₂ and N₂₀.
        moved = high - low
        doubt = low_errors + high_errors
        far = abs(moved) + doubt
        powers = points ** np.arange(6)[:, None]
        self.moments = (factors * np.concatenate((powers, moved * powers[:2]))).T
        limits = length ** np.arange(6)[:, None]
        self.moment_sizes = (sizes * np.concatenate((limits, far * limits[:2]))).T
        flat = abs(factors) + slack(64) * sizes
        self.norms = np.array([flat * length**6, flat * far * length**2]).T
        self.square_norm = flat * far**2
        self.rates = abs(moved.real) + doubt

        # The sums at four neighbouring t.
        self.columns = factors[:, None] * np.exp(np.outer(points, _COLUMNS))
        self.column_sizes = np.outer(sizes, np.exp(tilt * _COLUMNS))

    def _terms(self, rest: Array, counts: Array, offsets: Array, moved: Array | float) -> _Terms:
        """Return the terms of (3) at t = μ + offset, which is off by at most `moved`."""
        logs = np.array([rest, counts, offsets], np.complex128).T @ self.exponents
        first = logs[:, 0].real.copy()
        logs -= first[:, None]
        relative = np.exp(logs, out=logs)
        sizes = abs(relative)
        # No exponent is larger than its three parts together; 4 is for columns next to the offset.
        away = slack(8) * (4 + 2 * abs(offsets)) + moved
        errors = np.array([rest, counts, away]).T @ self.exponent_errors
        base = self.bits.base
        common = slack(8) * (abs(first) + abs(base))
        common += slack(64 + 4 * logs.shape[1])
        errors += common[:, None]
        return _Terms(np.exp(first - base), relative, sizes, sizes * errors)

    def _dropped(self, rest: Array, counts: Array) -> Array:
        """Return bounds of the terms that are left out, over the first term."""
        if self.edge == math.inf:
            return np.zeros(len(counts))
        steepness = (rest * self.variances[0] + counts * self.variances[1]) * (1 - 1e-12)
        largest = self.bits.gain + self.bits.excess / math.expm1(self.tilt)
        height = math.sin(min(self.edge, math.pi) / 2) ** 2
        return largest * np.exp(-2 * steepness * height)

    def _below(self, rest: Array, counts: Array, offsets: Array) -> Array:
        """Return Chernoff's bound of Σ e^(jθN)·Pr(S ≤ t − jN) over j ≥ 1, in units of e^base."""
        low, high = self.bits.rates(self.steeper)
        apart = (self.steeper - self.tilt) * self.period
        depths = rest * low + counts * high
        exponents = depths + self.steeper * offsets - apart - self.bits.base
        return np.exp(exponents) * 1.01 / -math.expm1(-apart)

    def ends(self, counts: Array, rest: Array | None = None) -> tuple[Array, Array]:
        """Return both ends of the largest v(t) for each k, by default with all others (3)."""
        bits = self.bits
        if rest is None:
            rest = bits.others - counts
        centres = bits.centres(rest, counts)
        starts = np.floor(centres)
        offsets = starts - centres
        misplaced = slack(16) * (rest * bits.low + counts * bits.high + starts)
        terms = self._terms(rest, counts, offsets, misplaced)
        values = (terms.relative @ self.columns).real
        errors = terms.errors @ self.column_sizes + slack(64) * abs(values)
        errors += np.outer(self._dropped(rest, counts), np.exp(self.tilt * _COLUMNS))
        # The upper end: later aliases are negative, and earlier ones are positive.
        far = abs(offsets[:, None] + _COLUMNS) > bits.reach
        upper = np.where(far, 0.0, values + errors).max(axis=1)
        upper = upper * np.maximum(terms.scale, SMALLEST_DELTA)
        upper = up(upper + bits.excess * self.beyond, roundings=8)
        # The lower end: aliases on both sides are bounded.
        strays = self.beyond + self._below(rest, counts, offsets + _COLUMNS[-1])
        lower = (values - errors).max(axis=1) * terms.scale
        lower = down(lower, roundings=8) - bits.gain * strays
        return np.fmax(lower, 0.0), np.where(np.isnan(upper), math.inf, upper)

    def divided(self, cells: _Cells) -> _Cells:
        """Return the parts of cells, four or as many as they have k, bounded at their maxima."""
        sizes = cells.last - cells.first + 1
        edges = cells.first + np.floor(np.outer(np.linspace(0, 1, 5), sizes))
        # A cell of fewer than four k has empty parts.
        part, cell = np.nonzero(edges[1:] > edges[:-1])
        first = edges[part, cell]
        last = edges[part + 1, cell] - 1
        result = self.bounded(first, last, cells.offsets[cell])
        return result._replace(upper=np.minimum(result.upper, cells.upper[cell]))

    def bounded(self, first: Array, last: Array, offsets: Array) -> _Cells:
        """Return cells with the least of three bounds: (4) around these offsets, (5) and (6)."""
        bits = self.bits
        m = bits.others
        at = np.clip(np.nan_to_num(offsets), -1.0, 1.0)
        upper, peaks, places, curvatures = self.taylor(first, last, at)
        # With more people than the period allows, (4) is not close; (6) leaves some of them out.
        whole = (last <= self.most_counts) & (m - first <= self.most_rest)
        upper = np.where(whole, upper, math.inf)
        rest = np.minimum(m - last, self.most_rest)
        counts = np.minimum(first, self.most_counts)
        lower, fewer = self.ends(counts, rest)
        quick = np.maximum(bits.quick(first, bits.slope), bits.quick(last, bits.slope))
        upper = np.fmin(upper, fewer)
        upper = np.fmin(upper, np.exp(quick - bits.base) * (1 + 1e-9))
        upper = np.maximum(upper, SMALLEST_DELTA)
        lower = np.where(rest + counts == m, lower, 0.0)
        peaks = np.where(whole, peaks, 0.0)
        return _Cells(first, last, upper, lower, peaks, places, curvatures)

    def taylor(self, first: Array, last: Array, at: Array) -> tuple[Array, Array, Array, Array]:
        """Return bounds of v on each cell, and its peak, offset and curvature at the middle (4)."""
        bits = self.bits
        m = bits.others
        middles = 0.5 * (first + last)
        halves = 0.5 * (last - first)
        terms = self._terms(m - middles, middles, at, 0.0)
        sums = (terms.relative @ self.moments).real.T
        errors = (terms.errors @ self.moment_sizes).T
        limits = abs(sums) + errors
        reach = np.maximum(bits.reach - at, bits.reach + at)
        tilted = np.exp(self.tilt * reach)
        sixth, mixed = (terms.sizes @ self.norms).T * tilted
        growth = np.exp(np.minimum(np.outer(halves, self.rates), LARGEST_POWER))
        square = (terms.sizes * growth) @ self.square_norm * tilted

        # The terms with u, on both sides of the offset: at most g·η − κ·η².
        slope = limits[1] + halves * limits[7]
        rise = np.zeros(len(at))
        for side in (-1.0, 1.0):
            end = bits.reach - side * at
            curve = (-sums[2] - errors[2]) / 2 - end**4 * sixth / 720
            for power in (3, 4, 5):
                above = np.maximum(side**power * sums[power], 0.0) + errors[power]
                curve -= above * end ** (power - 2) / math.factorial(power)
            inside = 2 * curve * end > slope
            at_top = slope**2 / (4 * np.where(inside, curve, 1.0))
            rise = np.maximum(rise, np.where(inside, at_top, (slope - curve * end) * end))
        total = sums[0] + errors[0] + rise + halves * limits[6]
        total += halves * mixed * reach**2 / 2 + halves**2 * square / 2
        dropped = np.maximum(self._dropped(m - first, first), self._dropped(m - last, last))
        total += dropped * growth[:, 0] * tilted
        scale = np.maximum(terms.scale, SMALLEST_DELTA)
        bounds = up(scale * total + bits.excess * self.beyond, roundings=256)

        curved = np.where(sums[2] < 0, -sums[2], math.inf)
        peaks = terms.scale * (sums[0] + sums[1] ** 2 / (2 * curved))
        return bounds, np.nan_to_num(peaks), at + sums[1] / curved, -terms.scale * sums[2]


def _variance(q: float, other: float, tilt: float) -> float:
    """Return the variance of a bit after tilting."""
    tilted = math.exp(-tilt)
    return q * other * tilted / (other + q * tilted) ** 2


def _cumulant(q: float, other: float, tilt: float) -> float:
    """Return ln E[e^(−θ(X − q))] of a bit X."""
    if q > other:  # zeros and ones are exchanged
        q = other
        tilt = -tilt
    return math.log1p(q * math.expm1(-tilt)) + q * tilt


def _cumulants(
    q: float, other: float, shift: float, tilt: float, y: Array
) -> tuple[Complex, Array]:  # fmt: skip
    """Return ln E[e^(−s(X − q + shift))] of a bit X at s = θ + iy, and bounds of its error."""
    s = tilt + 1j * y
    if q > other:  # zeros and ones are exchanged
        q = other
        tilt = -tilt
        y = -y
    # w = q(e^−s − 1), without cancellation.
    fall = math.expm1(-tilt)
    real = q * (fall * np.cos(y) - 2 * np.sin(y / 2) ** 2)
    imaginary = -q * math.exp(-tilt) * np.sin(y)
    moduli = 2 * real + real**2 + imaginary**2
    angles = np.arctan2(imaginary, 1 + real) + q * y
    logs = 0.5 * np.log1p(moduli) + q * tilt + 1j * angles - s * shift
    size = q * (abs(fall) + math.exp(-tilt) * np.minimum(abs(y), 2.0))
    turned = size * (1 + size) / (1 + moduli)
    errors = slack(32) * (turned + (q + shift) * abs(s))
    return logs, errors + slack(8) * abs(logs)
