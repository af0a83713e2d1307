"""Probabilities of sums of bits, from nodes on a circle: for many sums at once, on whole cells of them, with errors.

Notation is that of `bit_count`, and docs/theory/one-bit.md has the proofs.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack

__all__ = ["BitCircle", "BitCount", "Cells", "Evaluated"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_LARGEST_TILT = 90.0
_LEAST_TILT = 1.5
"""In units of one over the standard deviation: with less, nodes would have to be closer to each other."""
_DROPPED = 50.0
"""Nodes are left out where they are below exp(−50) of the first."""
_COLUMNS = np.arange(-1.0, 3.0)
"""Whole numbers, from the tilted mean rounded down: the maximum is at the second or the third, rounding aside."""
_CENTRE = -0.5
"""Roughly how far from the tilted mean the maximum is, between whole numbers."""
_WIDE, _OVERFLOW = 2.0, 600.0
"""In cells where the terms change by more than this power of e, people are left out: on trial, or in any case."""
_VARIED = 64.0
"""Where one kind of people varies far more than the other: how much of it is enough to see that they do not matter."""


@dataclass(frozen=True)
class BitCount:
    """What v_k(t) is made of, at one ε and in one direction.

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
        """The probabilities of a one and of a zero, of either kind of people."""
        return (self.low, self.not_low), (self.high, self.not_high)

    @property
    def slope(self) -> float:
        """The logarithm of Pr(S = t + 1)/Pr(S = t) at the maximum, or a large number if it is larger."""
        return min(math.log1p(self.excess / self.gain), _LARGEST_TILT)

    @property
    def shifts(self) -> tuple[float, float]:
        """By how much tilting to the maximum moves the mean of one bit down, for either kind of people."""
        low, high = (
            q * other * self.excess / (other * (self.gain + self.excess) + q * self.gain) for q, other in self.rows
        )
        return low, high

    def depth(self, tilt: float) -> float:
        """Return the largest log E[exp(−tilt·(S − x))] over k, x being the tilted mean of S."""
        rows = zip(self.rows, self.shifts, strict=True)
        return self.others * max(_cumulant(*row, tilt) - tilt * shift for row, shift in rows)

    @property
    def log_most(self) -> float:
        """The logarithm of a number that no v_k(t) exceeds: no probability is more than its Chernoff bound."""
        return math.log(self.gain) + self.depth(self.slope) + self.slope + 1e-6


class Cells(NamedTuple):
    """For each cell: a bound of v, and at its middle the largest v, where it is, and minus the second derivative."""

    bounds: Array
    values: Array
    offsets: Array
    curvatures: Array


class Evaluated(NamedTuple):
    """For each k: two numbers around the largest v_k(t), and the t that reaches the lower one."""

    lower: Array
    upper: Array
    thresholds: Array


class BitCircle:
    """The nodes s = θ + iy, and what is the same for all k."""

    def __init__(self, bits: BitCount) -> None:
        """Choose the tilt, the distance of the nodes and how many of them are kept; any choice is valid."""
        self.bits, m = bits, float(bits.others)
        self.reach = 1 + slack(16) * m  # of the maximum from the tilted mean, which may be off by rounding
        slope, self.shifts = bits.slope, bits.shifts
        low, high = (_variance(*row, slope) for row in bits.rows)
        # Where tilting makes one kind of people vary far more than the other, only few of that kind are looked at.
        most = [min(m, (_VARIED + 4 * m * other) / max(own, 1e-300)) for own, other in ((low, high), (high, low))]
        self.most = math.floor(most[0]), math.floor(most[1])
        together = [most[0] * low + m * high] if most[0] < m else [m * low + most[1] * high] if most[1] < m else []
        spread = math.sqrt(max(0.25, *(together or (m * low, m * high))))
        least = math.sqrt(max(m * min(low, high), 0.25))
        tilt = self.tilt = min(max(slope, _LEAST_TILT / least), _LARGEST_TILT)
        small = 60 - bits.depth(tilt) + math.log(spread) + math.log1p(bits.excess / bits.gain)
        period = max(14 * spread, small / tilt)
        self.period = 2 * math.ceil(period / 2) + 11
        self.beyond = math.exp(-tilt * self.period) / -math.expm1(-tilt * self.period)
        self.steeper = tilt + min(self.period / spread**2, 3.0)

        step, self.variances = 2 * math.pi / self.period, [_variance(*row, tilt) for row in bits.rows]
        steepness = m * min(self.variances)
        share = _DROPPED / (2 * max(steepness, 1e-300))
        reach = 2 * math.asin(math.sqrt(share)) if share < 1 else math.pi
        count = min(math.ceil(reach / step), self.period // 2) + 1
        heights: Array = step * np.arange(count, dtype=np.float64)
        self.edge = step * count if count <= self.period // 2 else math.inf
        self.points: Complex = (tilt + 1j * heights).astype(np.complex128)
        (self.low, self.low_errors), (self.high, self.high_errors) = (
            _cumulants(*row, shift, tilt, heights) for row, shift in zip(bits.rows, self.shifts, strict=True)
        )
        self._logs = np.array([self.low, self.high, self.points])
        self._errors = np.array(
            [
                self.low_errors + slack(8) * np.abs(self.low),
                self.high_errors + slack(8) * np.abs(self.high),
                np.abs(self.points),
                np.ones(len(heights)),
            ]
        )
        weights = np.where(heights > 0, 2.0, 1.0) / self.period
        sines = np.sin(heights / 2)
        grown = math.expm1(tilt) * np.cos(heights) - 2 * sines**2 + 1j * math.exp(tilt) * np.sin(heights)
        lengths = np.abs(grown)
        rough = (math.expm1(tilt) + 2 * math.exp(tilt) * sines) / lengths
        self.factors: Complex = weights * (bits.gain - bits.excess / grown)
        self.sizes: Array = weights * (bits.gain + bits.excess / lengths * rough)

    def centres(self, rest: Array, counts: Array) -> Array:
        """Return the mean of S after tilting it to where v has its maximum, no farther from it than 1."""
        low, high = self.bits.low - self.shifts[0], self.bits.high - self.shifts[1]
        return np.asarray(rest * low + counts * high)

    def _sizes(self, rest: Array, counts: Array) -> Array:
        """Return the mean of S, in units of whose rounding its tilted mean is off."""
        return np.asarray(rest * self.bits.low + counts * self.bits.high)

    def _terms(
        self, rest: Array, counts: Array, offsets: Array, misplaced: Array | float = 0.0
    ) -> tuple[Array, Complex, Array]:
        """Return the logarithm of the first term, the terms relative to it, and bounds of their relative errors."""
        logs = np.array([rest, counts, offsets], np.complex128).T @ self._logs
        first = logs[:, 0].real.copy()
        logs -= first[:, None]
        terms = np.exp(logs, out=logs)
        # No logarithm is larger than its three parts together; 4 is for the columns next to the offset.
        away = slack(8) * (4 + 2 * np.abs(offsets)) + misplaced
        constant = slack(8) * np.abs(first) + slack(64 + 4 * len(self.points))
        errors = np.array([rest, counts, away, constant]).T @ self._errors
        return first, terms, errors

    def _below(self, rest: Array, counts: Array, offsets: Array) -> Array:
        """Return Chernoff's bound of Σ exp(jθN)·Pr(S ≤ t − jN) over j ≥ 1."""
        low, high = (
            _cumulant(*row, self.steeper) - self.steeper * shift
            for row, shift in zip(self.bits.rows, self.shifts, strict=True)
        )
        apart = (self.steeper - self.tilt) * self.period
        exponents = rest * low + counts * high + self.steeper * offsets - apart
        return np.asarray(np.exp(np.minimum(exponents, 700.0)) * 1.01 / -math.expm1(-apart))

    def _dropped(self, rest: Array, counts: Array) -> Array:
        """Return a bound of the terms that are left out, relative to the first."""
        if self.edge == math.inf:
            return np.zeros(len(counts))
        steepness = (rest * self.variances[0] + counts * self.variances[1]) * (1 - 1e-12)
        largest = self.bits.gain + self.bits.excess / math.expm1(self.tilt)
        return np.asarray(largest * np.exp(-2 * steepness * math.sin(min(self.edge, math.pi) / 2) ** 2))

    def evaluated(self, rest: Array, counts: Array) -> Evaluated:
        """Return the largest v(t) with so many others of the low and of the high kind, from both sides."""
        centres = self.centres(rest, counts)
        starts = np.floor(centres)
        offsets = starts - centres
        first, terms, errors = self._terms(rest, counts, offsets, slack(16) * (self._sizes(rest, counts) + starts))
        scale, growth = np.exp(first)[:, None], np.exp(self.tilt * _COLUMNS)
        values = scale * (terms @ (self.factors[:, None] * np.exp(np.outer(self.points, _COLUMNS)))).real
        wrong = scale * np.outer((np.abs(terms) * errors) @ self.sizes + self._dropped(rest, counts), growth)
        wrong += slack(64) * np.abs(values)
        far = np.abs(offsets[:, None] + _COLUMNS) > self.reach
        upper = np.where(far, 0.0, values + wrong).max(axis=1) + self.bits.excess * self.beyond
        strays = self.beyond + self._below(rest, counts, offsets + _COLUMNS[-1])
        lower = values - wrong - self.bits.gain * strays[:, None]
        best = np.argmax(lower, axis=1)
        return Evaluated(np.maximum(lower.max(axis=1), 0.0), upper, starts + _COLUMNS[best])

    def cells(self, first: Array, last: Array, centres: Array | None = None) -> Cells:
        """Return a bound of v_k(t) for all t and all k of each cell first, …, last.

        By Taylor's formula around the middle and a point near the tilted mean, or from fewer people.
        """
        m = self.bits.others
        middles, halves = 0.5 * (first + last), 0.5 * (last - first)
        at = np.full(len(first), _CENTRE) if centres is None else np.clip(centres, -1.0, 1.0)
        logs, terms, errors = self._terms(m - middles, middles, at)
        s, moved, h, size = self.points, self.high - self.low, self.factors, self.sizes
        length, far = np.abs(s), np.abs(moved) + self.low_errors + self.high_errors
        powers = np.arange(6.0)
        columns = np.concatenate(
            (h[:, None] * s[:, None] ** powers, (h * moved)[:, None] * s[:, None] ** powers[:2]), axis=1
        )
        sizes = np.concatenate(
            (size[:, None] * length[:, None] ** powers, (size * far)[:, None] * length[:, None] ** powers[:2]), axis=1
        )
        sums, absolute = (terms @ columns).real, np.abs(terms)
        wrong = (absolute * errors) @ sizes
        flat = np.abs(h) + slack(64) * size
        reach = np.maximum(self.reach - at, self.reach + at)
        wide = np.exp(self.tilt * reach)
        sixth, mixed = (absolute @ np.array([flat * length**6, flat * far * length**2]).T * wide[:, None]).T
        growth = np.outer(halves, np.abs(moved.real) + self.low_errors + self.high_errors)
        square = (absolute * np.exp(np.minimum(growth, _OVERFLOW))) @ (flat * far**2) * wide
        slope = np.abs(sums[:, 1]) + wrong[:, 1] + halves * (np.abs(sums[:, 7]) + wrong[:, 7])
        gains = []
        for side in (-1.0, 1.0):
            # The largest slope·u − curve·u² for 0 ≤ u ≤ end, the distance on this side of the point.
            end = self.reach - side * at
            curve = (-sums[:, 2] - wrong[:, 2]) / 2 - sixth * end**4 / 720
            for power, factor in ((3, 6), (4, 24), (5, 120)):
                curve -= (np.maximum(side**power * sums[:, power], 0.0) + wrong[:, power]) * end ** (power - 2) / factor
            inside = 2 * curve * end > slope
            gains.append(np.where(inside, slope**2 / (4 * np.where(inside, curve, 1.0)), (slope - curve * end) * end))
        total = sums[:, 0] + wrong[:, 0] + halves * (np.abs(sums[:, 6]) + wrong[:, 6]) + np.maximum(*gains)
        total += halves * mixed * reach**2 / 2 + halves**2 * square / 2
        dropped = np.maximum(self._dropped(m - first, first), self._dropped(m - last, last))
        total += dropped * np.exp(np.minimum(halves * far[0], _OVERFLOW)) * wide
        scale = np.exp(logs)
        bounds = (scale * total + self.bits.excess * self.beyond) * (1 + slack(256))
        most = growth.max(axis=1)
        usual = (most < _OVERFLOW) & (last <= self.most[1]) & (m - first <= self.most[0])
        wide = ~usual | (most > _WIDE) | (centres is not None)
        if wide.any():
            people = np.minimum(m - last, self.most[0])[wide], np.minimum(first, self.most[1])[wide]
            fewer = self.evaluated(*people).upper
            bounds[wide] = np.where(usual[wide], np.minimum(bounds[wide], fewer), fewer)
        curved = np.where(sums[:, 2] < 0, -sums[:, 2], math.inf)
        peaks = scale * (sums[:, 0] + sums[:, 1] ** 2 / (2 * curved))
        return Cells(bounds, np.where(usual, peaks, 0.0), at + sums[:, 1] / curved, -scale * sums[:, 2])


def _variance(q: float, other: float, tilt: float) -> float:
    """Return the variance of a bit after tilting."""
    tilted = math.exp(-tilt)
    return q * other * tilted / (other + q * tilted) ** 2


def _cumulant(q: float, other: float, tilt: float) -> float:
    """Return log E[exp(−θ(X − q))] of a bit X."""
    if q > other:
        q, tilt = other, -tilt
    return math.log1p(q * math.expm1(-tilt)) + q * tilt


def _cumulants(q: float, other: float, shift: float, tilt: float, heights: Array) -> tuple[Complex, Array]:
    """Return log E[exp(−s(X − q + shift))] of a bit X at s = θ + iy, and bounds of its error."""
    s = tilt + 1j * heights
    if q > other:
        q, tilt, heights = other, -tilt, -heights
    real = q * (math.expm1(-tilt) * np.cos(heights) - 2 * np.sin(heights / 2) ** 2)
    imaginary = -q * math.exp(-tilt) * np.sin(heights)
    moduli = 2 * real + real**2 + imaginary**2
    logs = 0.5 * np.log1p(moduli) + q * tilt + 1j * (np.arctan2(imaginary, 1 + real) + q * heights) - s * shift
    size = q * (abs(math.expm1(-tilt)) + math.exp(-tilt) * np.minimum(np.abs(heights), 2.0))
    return logs, slack(32) * (size * (1 + size) / (1 + moduli) + (q + shift) * np.abs(s))
