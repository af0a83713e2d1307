"""Upper bounds of δ(ε) of one-bit reports at many ε at once, as logarithms: quick ones, and close ones.

They are those of `bit_circle`, whose notation is used here, with fewer nodes and larger cells of k. Each ε is a row.
docs/theory/one-bit.md has the proofs.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack

__all__ = ["BitCeilings", "cell_ends"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_LARGEST_TILT, _LEAST_TILT = 90.0, 1.5
_DROPPED, _PERIOD, _BEYOND = 24.0, 9.0, 30.0
"""Nodes are left out below exp(−24) of the first; a period has 9 deviations at least, and what comes after it exp(−30)
of the whole."""
_CENTRE = -0.5
_COLUMNS = np.arange(-1.0, 3.0)
_WIDE, _OVERFLOW = 2.0, 600.0
_VARIED = 64.0
"""These four are those of `bit_circle`."""
_RATIO, _PARTS, _PASSES = 4.0, 4, 2
"""Of the ends of neighbouring cells near k = 0 and k = m; into how many parts, and how often, they are divided."""
_HARDLY, _COARSE = 25.0, 0.05
"""Cells whose quick bound is below exp(−25) of the largest one are not looked at; and a tolerance from which on cells
are divided once only."""
_LOCAL = math.sqrt(math.pi / 8)
"""No probability of a sum of bits is more than this over its standard deviation."""


class _Bounds(NamedTuple):
    """Of each row and cell: the bound of v, and at its middle roughly the largest v and where it is."""

    bounds: Array
    values: Array
    offsets: Array


class BitCeilings:
    """What is needed for all k, at each of some ε (rows).

    Parameters
    ----------
    others : int
        m.
    rows : tuple of (float, float)
        The probabilities of a one and of a zero, of the low and of the high kind.
    gains, excesses : numpy.ndarray
        A > 0 and λ − 1 at each ε.
    """

    def __init__(
        self, others: int, rows: tuple[tuple[float, float], tuple[float, float]], gains: Array, excesses: Array
    ) -> None:
        self.others, self.rows, self.gains, self.excesses = others, rows, gains, excesses
        self.slopes = np.minimum(np.log1p(excesses / gains), _LARGEST_TILT)
        self.shifts = [
            q * other * excesses / (other * (gains + excesses) + q * gains) for q, other in rows
        ]  # fmt: skip

    def quick_of(self, rows: NDArray[np.int64], tilts: Array, people: tuple[Array, Array]) -> Array:
        """Return logarithms of upper bounds with so many others of either kind (columns), by any tilt.

        No probability is more than its Chernoff bound, nor than that over the tilted deviation of their sum; and where
        h is zero at the tilt, v is less than that over their variance, about.
        """
        depths, variances = np.zeros(people[0].shape), np.zeros(people[0].shape)
        for (q, other), shifts, number in zip(self.rows, self.shifts, people, strict=True):
            each = (_cumulant(q, other, tilts) - tilts * shifts)[rows, None]
            size = (tilts * (q + shifts))[rows, None]
            depths += number * (each + slack(64) * (size + np.abs(each)))
            variances += number * _variance(q, other, tilts)[rows, None]
        least = np.maximum(variances * (1 - slack(64)), 1e-300)
        share = _LOCAL / np.sqrt(least)
        tilt = np.where((tilts == self.slopes) & (tilts < _LARGEST_TILT), tilts, 0.0)[rows, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = (math.pi / 4 / least + slack(16) * tilt * share) / -np.expm1(-tilt) * (1 + slack(64))
        local = np.log(np.fmin(np.minimum(share, 1.0), np.where(tilt > 0, falls, math.inf)))
        sizes, gains = np.abs(depths), np.log(self.gains)[rows, None]
        depths += (tilts * self._reach)[rows, None] + local
        return np.asarray(gains + np.minimum(depths, 0.0) + slack(64) * (8 + np.abs(gains) + sizes))

    @cached_property
    def quick(self) -> Array:
        """Logarithms of upper bounds for all k: they are convex in k, and hence largest at an end.

        Next to the largest ε, where few ones are likely, a smaller tilt is better.
        """
        m, every = float(self.others), np.arange(len(self.gains))
        ends = (np.tile([m, 0.0], (len(every), 1)), np.tile([0.0, m], (len(every), 1)))
        tilts = (self.slopes, np.minimum(self.slopes, 1.0), np.minimum(self.slopes, 5.0))
        return np.asarray(np.min([self.quick_of(every, each, ends).max(axis=1) for each in tilts], axis=0))

    @cached_property
    def rough(self) -> Array:
        """Roughly the logarithm of δ."""
        deviations = np.sqrt(self.others * np.minimum(*(_variance(*row, self.slopes) for row in self.rows)))
        steps = self.slopes * deviations
        known = np.log(np.minimum(1.25 / np.maximum(steps, 1e-300), 1.0))
        return np.asarray(self.quick - np.where(deviations > 1, 0.45 + np.log1p(1.6 * steps + steps**2) + known, 0.0))

    @property
    def _reach(self) -> float:
        """Of the maximum from the tilted mean, which may be off by rounding."""
        return 1 + slack(16) * self.others

    @cached_property
    def _nodes(self) -> "_Nodes":
        return _Nodes.of(self)

    def close(self, tolerance: float) -> Array:
        """Return logarithms of upper bounds that are about so much too large, relatively, if cells can show it."""
        rows = np.arange(len(self.gains))
        first, last = (np.tile(ends, (len(rows), 1)) for ends in cell_ends(self.others, _RATIO))
        # Where not even the quick bounds matter, nothing else is asked for.
        ends = [
            self.quick_of(rows, self.slopes, (np.asarray(self.others - each, np.float64), np.asarray(each, np.float64)))
            for each in (first, last)
        ]
        heights = np.maximum(*ends) - self.quick[:, None]
        asked = (heights > -_HARDLY).any(axis=0)
        highest = np.exp(np.where(asked, -math.inf, heights)).max(axis=1) * (1 + 1e-9)
        first, last = first[:, asked], last[:, asked]
        found = self._nodes.cells(rows, first, last, np.full(first.shape, _CENTRE), again=False)
        bounds, known = found.bounds, found.values.max(axis=1, keepdims=True)
        offsets = found.offsets
        # Around where each of them is largest the bound is better, and better still in parts.
        for _ in range(_PASSES if tolerance < _COARSE else 1):
            still = bounds > known * (1 + tolerance)
            done = np.where(still, -math.inf, bounds).max(axis=1)
            highest[rows] = np.maximum(highest[rows], done)
            number = int(still.sum(axis=1).max())
            if not number:
                break
            left = still.any(axis=1)
            # The cells that are left come first; others in their columns are asked again for nothing.
            order = np.argsort(~still[left], axis=1, kind="stable")[:, :number]
            first, last, old, centres = (
                np.take_along_axis(part[left], order, axis=1) for part in (first, last, bounds, offsets)
            )
            rows, known = rows[left], known[left]
            sizes, parts = last - first + 1, np.arange(_PARTS)
            starts, stops = (first[:, :, None] + sizes[:, :, None] * each // _PARTS for each in (parts, parts + 1))
            first = starts.reshape(len(rows), -1)
            last = np.minimum(np.maximum(stops.reshape(len(rows), -1) - 1, first), self.others)
            centres, old = (np.repeat(part, _PARTS, axis=1) for part in (centres, old))
            found = self._nodes.cells(rows, first, last, centres, again=True)
            bounds, offsets = np.minimum(old, found.bounds), found.offsets
        else:
            highest[rows] = np.maximum(highest[rows], bounds.max(axis=1))
        with np.errstate(divide="ignore"):
            logs = np.log(highest) + self._nodes.base
        return np.asarray(np.fmin(logs + slack(64) * (8 + np.abs(logs)), self.quick))


class _Nodes:
    """The nodes s = θ + iy of each row, and what is the same for all k."""

    def __init__(self, given: BitCeilings) -> None:
        """Choose the tilts, the distances of the nodes and how many of them are kept; any choice is valid."""
        m = float(given.others)
        self.given, self.base = given, given.quick
        low, high = (_variance(*row, given.slopes) for row in given.rows)
        most = [np.minimum(m, (_VARIED + 4 * m * b) / np.maximum(a, 1e-300)) for a, b in ((low, high), (high, low))]
        self.most = np.floor(most[0]), np.floor(most[1])
        together = np.where(most[1] < m, m * low + most[1] * high, np.maximum(m * low, m * high))
        together = np.where(most[0] < m, most[0] * low + m * high, together)
        spread = np.sqrt(np.maximum(0.25, together))
        least = np.sqrt(np.maximum(m * np.minimum(low, high), 0.25))
        tilts = self.tilts = np.minimum(np.maximum(given.slopes, _LEAST_TILT / least), _LARGEST_TILT)
        small = _BEYOND + np.log(given.gains) - self.base + np.log(spread) + np.log1p(given.excesses / given.gains)
        period = 2 * np.ceil(np.maximum(_PERIOD * spread, small / tilts) / 2) + 11
        self.beyond = np.exp(-tilts * period - self.base) / -np.expm1(-tilts * period)

        step, self.variances = 2 * math.pi / period, [_variance(*row, tilts) for row in given.rows]
        share = _DROPPED / (2 * np.maximum(m * np.minimum(*self.variances), 1e-300))
        angles = np.where(share < 1, 2 * np.arcsin(np.sqrt(np.minimum(share, 1.0))), math.pi)
        half = (period - 1) / 2
        count = int(np.minimum(np.ceil(angles / step), half).max()) + 1
        own = np.minimum(count, half + 1)  # nodes of this row
        self.edges = np.where(own <= half, step * own, math.inf)
        heights = step[:, None] * np.arange(count, dtype=np.float64)
        self.points: Complex = (tilts[:, None] + 1j * heights).astype(np.complex128)
        (low_logs, self.low_errors), (high_logs, self.high_errors) = (
            _cumulants(*row, shift[:, None], tilts[:, None], heights)
            for row, shift in zip(given.rows, given.shifts, strict=True)
        )
        self.moved: Complex = high_logs - low_logs
        self.logs = np.stack((low_logs, high_logs, self.points), axis=1)
        self.errors = np.stack(
            (
                self.low_errors + slack(8) * np.abs(low_logs),
                self.high_errors + slack(8) * np.abs(high_logs),
                np.abs(self.points),
            ),
            axis=1,
        )
        weights = np.where(heights > 0, 2.0, 1.0) / period[:, None]
        weights = np.where(np.arange(count) < own[:, None], weights, 0.0)
        sines, grown = np.sin(heights / 2), np.expm1(tilts)[:, None]
        turned = grown * np.cos(heights) - 2 * sines**2 + 1j * np.exp(tilts)[:, None] * np.sin(heights)
        lengths = np.abs(turned)
        rough = (grown + 2 * np.exp(tilts)[:, None] * sines) / lengths
        gains, excesses = given.gains[:, None], given.excesses[:, None]
        self.factors: Complex = weights * (gains - excesses / turned)
        self.sizes: Array = weights * (gains + excesses / lengths * rough)

    @classmethod
    def of(cls, given: BitCeilings) -> "_Nodes":
        """Return the nodes for these ε."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            return cls(given)

    def _terms(
        self, rows: NDArray[np.int64], rest: Array, counts: Array, offsets: Array, misplaced: "Array | float"
    ) -> tuple[Array, Complex, Array]:
        """Return the logarithm of the first term, the terms relative to it, and bounds of their relative errors."""
        logs = np.stack((rest, counts, offsets), axis=2).astype(np.complex128) @ self.logs[rows]
        first = logs[:, :, 0].real.copy()
        logs -= first[:, :, None]
        terms = np.exp(logs, out=logs)
        away = slack(8) * (4 + 2 * np.abs(offsets)) + misplaced
        constant = slack(8) * np.abs(first) + slack(64 + 4 * terms.shape[2])
        errors = np.stack((rest, counts, away), axis=2) @ self.errors[rows] + constant[:, :, None]
        return first, terms, errors

    def _dropped(self, rows: NDArray[np.int64], rest: Array, counts: Array) -> Array:
        """Return bounds of the terms that are left out, relative to the first."""
        low, high = (each[rows, None] for each in self.variances)
        steepness = (rest * low + counts * high) * (1 - 1e-12)
        edges = self.edges[rows, None]
        largest = (self.given.gains + self.given.excesses / np.expm1(self.tilts))[rows, None]
        left = largest * np.exp(-2 * steepness * np.sin(np.minimum(edges, math.pi) / 2) ** 2)
        return np.where(np.isinf(edges), 0.0, left)

    def _evaluated(self, rows: NDArray[np.int64], rest: Array, counts: Array) -> Array:
        """Return upper bounds of the largest v(t) with so many others of either kind."""
        (low, _), (high, _) = self.given.rows
        shifts = [shift[rows, None] for shift in self.given.shifts]
        centres = rest * (low - shifts[0]) + counts * (high - shifts[1])
        starts = np.floor(centres)
        offsets = starts - centres
        first, terms, errors = self._terms(
            rows, rest, counts, offsets, slack(16) * (rest * low + counts * high + starts)
        )  # fmt: skip
        scale = np.exp(first - self.base[rows, None])[:, :, None]
        turned = self.factors[rows][:, :, None] * np.exp(self.points[rows][:, :, None] * _COLUMNS)
        values = scale * (terms @ turned).real
        wrong = (np.abs(terms) * errors) @ self.sizes[rows][:, :, None] + self._dropped(rows, rest, counts)[:, :, None]
        wrong = scale * wrong * np.exp(self.tilts[rows, None] * _COLUMNS)[:, None, :] + slack(64) * np.abs(values)
        far = np.abs(offsets[:, :, None] + _COLUMNS) > self.given._reach
        upper = np.where(far, 0.0, values + wrong).max(axis=2)
        return np.asarray(upper + (self.given.excesses * self.beyond)[rows, None])

    def cells(
        self,
        rows: NDArray[np.int64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        centres: Array,
        *,
        again: bool,
    ) -> _Bounds:
        """Return, in units of the quick bounds, a bound of v_k(t) for all t and all k of each cell.

        By Taylor's formula around the middle and a point near the tilted mean, or from fewer people.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            return self._cells(rows, begin.astype(np.float64), end.astype(np.float64), centres, again=again)

    def _cells(
        self, rows: NDArray[np.int64], first: Array, last: Array, centres: Array, *, again: bool
    ) -> _Bounds:  # fmt: skip
        m, outer = self.given.others, self.given._reach
        middles, halves = 0.5 * (first + last), 0.5 * (last - first)
        at = np.clip(np.nan_to_num(centres), -1.0, 1.0)
        logs, terms, errors = self._terms(rows, m - middles, middles, at, 0.0)
        s, moved, h, size = self.points[rows], self.moved[rows], self.factors[rows], self.sizes[rows]
        doubts = self.low_errors[rows] + self.high_errors[rows]
        length, far = np.abs(s), np.abs(moved) + doubts
        powers = np.arange(6.0)
        raised = np.cumprod(np.repeat(s[:, :, None], 5, axis=2), axis=2)
        raised = np.concatenate((np.ones_like(raised[:, :, :1]), raised), axis=2)
        columns = np.concatenate((h[:, :, None] * raised, (h * moved)[:, :, None] * raised[:, :, :2]), axis=2)
        long = length[:, :, None] ** powers
        sizes = np.concatenate((size[:, :, None] * long, (size * far)[:, :, None] * long[:, :, :2]), axis=2)
        sums, absolute = (terms @ columns).real, np.abs(terms)
        wrong = (absolute * errors) @ sizes
        flat = np.abs(h) + slack(64) * size
        reach = np.maximum(outer - at, outer + at)
        wide = np.exp(self.tilts[rows, None] * reach)
        sixth = (absolute @ (flat * length**6)[:, :, None])[:, :, 0] * wide
        mixed = (absolute @ (flat * far * length**2)[:, :, None])[:, :, 0] * wide
        growth = halves[:, :, None] * (np.abs(moved.real) + doubts)[:, None, :]
        square = ((absolute * np.exp(np.minimum(growth, _OVERFLOW))) @ (flat * far**2)[:, :, None])[:, :, 0] * wide
        slope = np.abs(sums[:, :, 1]) + wrong[:, :, 1] + halves * (np.abs(sums[:, :, 7]) + wrong[:, :, 7])
        gains = []
        for side in (-1.0, 1.0):
            # The largest slope·u − curve·u² for 0 ≤ u ≤ end, the distance on this side of the point.
            end = outer - side * at
            curve = (-sums[:, :, 2] - wrong[:, :, 2]) / 2 - sixth * end**4 / 720
            for power, factor in ((3, 6), (4, 24), (5, 120)):
                up = np.maximum(side**power * sums[:, :, power], 0.0) + wrong[:, :, power]
                curve -= up * end ** (power - 2) / factor
            inside = 2 * curve * end > slope
            gains.append(np.where(inside, slope**2 / (4 * np.where(inside, curve, 1.0)), (slope - curve * end) * end))
        total = sums[:, :, 0] + wrong[:, :, 0] + halves * (np.abs(sums[:, :, 6]) + wrong[:, :, 6]) + np.maximum(*gains)
        total += halves * mixed * reach**2 / 2 + halves**2 * square / 2
        dropped = np.maximum(self._dropped(rows, m - first, first), self._dropped(rows, m - last, last))
        total += dropped * np.exp(np.minimum(halves * far[:, :1], _OVERFLOW)) * wide
        scale = np.exp(logs - self.base[rows, None])
        bounds = (scale * total + (self.given.excesses * self.beyond)[rows, None]) * (1 + slack(256))
        most = growth.max(axis=2)
        usual = (most < _OVERFLOW) & (last <= self.most[1][rows, None]) & (m - first <= self.most[0][rows, None])
        usual &= np.isfinite(bounds)
        looked = ~usual | (most > _WIDE) | again
        if looked.any():
            people = np.minimum(m - last, self.most[0][rows, None]), np.minimum(first, self.most[1][rows, None])
            fewer = self._evaluated(rows, *people)
            fewer = np.where(np.isnan(fewer), math.inf, fewer)
            bounds = np.where(looked, np.where(usual, np.minimum(bounds, fewer), fewer), bounds)
        ends = [self.given.quick_of(rows, self.given.slopes, (m - each, each)) for each in (first, last)]
        bounds = np.fmin(bounds, np.exp(np.minimum(np.maximum(*ends) - self.base[rows, None], _OVERFLOW)) * (1 + 1e-9))
        curved = np.where(sums[:, :, 2] < 0, -sums[:, :, 2], math.inf)
        peaks = scale * (sums[:, :, 0] + sums[:, :, 1] ** 2 / (2 * curved))
        values = np.where(usual & np.isfinite(peaks), peaks, 0.0)
        return _Bounds(bounds, values, np.asarray(at + sums[:, :, 1] / curved))


def cell_ends(m: int, ratio: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last k of cells that are narrow at both ends of 0, …, m, and wider between."""
    steps = np.arange(math.ceil(math.log(m / 2) / math.log(ratio)))
    near = np.unique(np.floor(ratio**steps).astype(np.int64))
    first = np.unique(np.concatenate(([0], near[near < m // 2], (m + 1 - near)[::-1])))
    return first, np.append(first[1:] - 1, m)


def _variance(q: float, other: float, tilts: Array) -> Array:
    """Return the variance of a bit after tilting."""
    tilted = np.exp(-tilts)
    return np.asarray(q * other * tilted / (other + q * tilted) ** 2)


def _cumulant(q: float, other: float, tilts: Array) -> Array:
    """Return log E[exp(−θ(X − q))] of a bit X."""
    if q > other:
        q, tilts = other, -tilts
    return np.asarray(np.log1p(q * np.expm1(-tilts)) + q * tilts)


def _cumulants(q: float, other: float, shift: Array, tilt: Array, heights: Array) -> tuple[Complex, Array]:
    """Return log E[exp(−s(X − q + shift))] of a bit X at s = θ + iy, and bounds of its error."""
    s = tilt + 1j * heights
    if q > other:
        q, tilt, heights = other, -tilt, -heights
    real = q * (np.expm1(-tilt) * np.cos(heights) - 2 * np.sin(heights / 2) ** 2)
    imaginary = -q * np.exp(-tilt) * np.sin(heights)
    moduli = 2 * real + real**2 + imaginary**2
    logs = 0.5 * np.log1p(moduli) + q * tilt + 1j * (np.arctan2(imaginary, 1 + real) + q * heights) - s * shift
    size = q * (np.abs(np.expm1(-tilt)) + np.exp(-tilt) * np.minimum(np.abs(heights), 2.0))
    return logs, slack(32) * (size * (1 + size) / (1 + moduli) + (q + shift) * np.abs(s))
