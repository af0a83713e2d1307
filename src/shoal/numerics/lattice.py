"""Sums of independent values that are multiples of a step: E[kernel(S − x)], by one identity.

For measures on multiples of a step a, which may have a mass of less than one, a tilt θ > 0 and N nodes
s_k = θ + 2πik/(Na), let M(s) be the product of the moment generating functions of all summands. Then

    (1/N)·Σ_k M(s_k)·κ(s_k)·e^{−2πijk/N} = Σ_l e^{θ(j + lN)a}·E[kernel(S − (j + lN)a)].        (L1)

All terms on the right are non-negative, so the left side is an upper bound of e^{θja}·E[kernel(S − ja)]
for every θ and N. There are two kernels: the ramp, x₊, and the hockey stick, (1 − e^−x)₊.
docs/theory/numerics.md, section 2.6, has the proofs and the analysis of rounding.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT

__all__ = ["Kernel", "LatticeMeasure", "NodeSum", "RampSums", "hockey_stick", "node_sum", "ramp"]

NEGLIGIBLE = -60.0
"""Nodes with |M(s)/M(θ)| below e^−60 are omitted and charged: less would cost time, more would be seen in δ."""
_ALL_NODES = 1 << 15
"""Up to this many nodes all of them are computed: one transform costs less than a proof that few matter."""
_MOST_NODES = 1 << 22
"""Up to this many nodes all may be computed, which then takes half a second; more must be omitted."""
_FEWEST_GUARDED = 1 << 11
"""The least length of the guard; a shorter one would not be faster."""
_MOST_GUARDED = 1 << 17
"""The greatest length of the guard; a longer one would take longer than the nodes that it saves."""
_MOST_FIRST = 1 << 12
"""Up to this many first nodes are computed alone, which bounds the memory; more are given up."""
_CHUNK = 1 << 18
"""How many terms are added up at once, which bounds the memory."""
_STEEPEST = 600.0
"""The largest tilt times the largest value of a ramp, so that no exponential overflows."""
_GENTLEST = 0.4
"""The least tilt times the standard deviation of the sum; a lesser one would be best only far below its mean."""
_OCTAVES = 3
"""Points whose best tilt is up to 2³ times this tilt are served by it, where rounding allows."""
_RESOLVED = 0.04
"""Tilt times step times √n on a coarser lattice: E[(S − x)₊] grows by 1e-4 of itself; less needs more nodes."""
_CHORD = 0.02
"""Tilt times the length of a chord: E[(S − x)₊] grows by 5e-5 of itself; less needs longer tables."""
_CLEAR = 15.0
"""Aliases of a ramp are to stay below e^−15 of the whole, so that they do not count next to `_RESOLVED`."""
_MOST_HALVINGS = 50
"""The coarsest lattice, relative to the finest: up to here powers of two are exact."""
_FARTHEST = 2.0**60
"""Points that are this many steps away are not transformed, because they overflow as integers."""
_LARGEST_EXPONENT = 700.0
"""Larger exponents would overflow; a bound that needs them is infinite."""

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
IntArray = NDArray[np.int64]


class LatticeMeasure(NamedTuple):
    """A measure on multiples of a step.

    Attributes
    ----------
    step : float
        a.
    positions : numpy.ndarray
        The values in units of the step, ascending.
    log_masses : numpy.ndarray
        The logarithm of the mass at each of them.
    """

    step: float
    positions: IntArray
    log_masses: Array

    @property
    def values(self) -> Array:
        """The values themselves."""
        return np.asarray(self.step * self.positions, dtype=np.float64)

    def tilted(self, tilt: float) -> tuple[float, Array]:
        """Return log M(θ), and the tilted masses, scaled to a sum of one."""
        exponents = self.log_masses + tilt * self.values
        highest = float(exponents.max())
        weights = np.exp(exponents - highest)
        total = float(weights.sum())
        return highest + math.log(total), weights / total

    def log_moment(self, tilt: float) -> float:
        """Return log M(θ)."""
        return self.tilted(tilt)[0]

    def exponent(self, tilt: float) -> float:
        """Return the largest θ·x; below zero weights fall faster than their errors grow."""
        return tilt * self.step * max(float(self.positions[-1]), 0.0)


class Kernel(NamedTuple):
    """κ of (L1).

    Attributes
    ----------
    values : callable
        κ at a node from the step a and sa/2.
    mean_size : callable
        A bound of (1/N)·Σ_k |κ(s_k)| from a, θa/2 and N.
    """

    values: Callable[[float, ComplexArray], ComplexArray]
    mean_size: Callable[[float, float, int], float]


def _ramp(step: float, halves: ComplexArray) -> ComplexArray:
    return np.asarray(step / (2 * np.sinh(halves)) ** 2)  # (L2)


def _hockey_stick(step: float, halves: ComplexArray) -> ComplexArray:
    first = 2 * np.sinh(halves)
    second = 2 * np.sinh(halves + step / 2)
    return np.asarray(2 * math.sinh(step / 2) / (first * second))  # (L3)


def _ramp_size(step: float, half: float, nodes: int) -> float:
    # (L6): |2·sinh(x + iy)|² ≥ 4·(sinh²x + (2y/π)²) for |y| ≤ π/2.
    shape = math.sinh(half)
    return step / (4 * nodes * shape**2) + math.pi * step / (8 * shape)


def _hockey_stick_size(step: float, half: float, nodes: int) -> float:
    # |sinh(z + a/2)| ≥ |sinh z|, as its real part is larger.
    return _ramp_size(step, half, nodes) * (2 * math.sinh(step / 2) / step)


ramp = Kernel(_ramp, _ramp_size)
"""The kernel of E[(S − x)₊]."""
hockey_stick = Kernel(_hockey_stick, _hockey_stick_size)
"""The kernel of E[(1 − e^{x − S})₊], the δ of a privacy loss S."""


@dataclass(frozen=True)
class NodeSum:
    """The left side of (L1) at one tilt, ready for any j.

    Attributes
    ----------
    step, tilt, nodes : float, float, int
        a, θ and N.
    log_moment : float
        log M(θ).
    slack : float
        A bound of the error of log M(θ).
    places, terms : numpy.ndarray
        The nodes k that are kept, and M(s)·κ(s)/(N·M(θ)) there, a node and its conjugate together.
    abs_error : float
        A bound of everything that rounding and omitted nodes change, over M(θ).
    """

    step: float
    tilt: float
    nodes: int
    log_moment: float
    slack: float
    places: IntArray
    terms: ComplexArray
    abs_error: float

    def sums(self, indices: IntArray) -> Array:
        """Return the real sums of (L1), over M(θ), at each j in `indices`."""
        rows = max(1, _CHUNK // max(len(self.places), 1))
        result = np.empty(len(indices))
        for start in range(0, len(indices), rows):
            part = indices[start : start + rows] % self.nodes
            turns = np.multiply.outer(part, self.places) % self.nodes
            phases = np.exp(-2j * math.pi / self.nodes * turns)
            result[start : start + rows] = (self.terms * phases).real.sum(axis=-1)
        return result

    def table(self, stride: int) -> Array:
        """Return the sums at j = 0, stride, 2·stride, …, a period of them; `stride` divides N.

        No node that is kept may exceed N/(2·stride).
        """
        count = self.nodes // stride
        spectrum = np.zeros(count // 2 + 1, dtype=np.complex128)
        spectrum[self.places] = np.conj(self.terms) * (count / 2)
        spectrum[0] *= 2  # a term is that of a node and of its conjugate, but not at the ends
        spectrum[-1] *= 2
        return np.fft.irfft(spectrum, count)

    def upper(self, indices: IntArray, sums: Array) -> Array:
        """Return upper bounds of E[kernel(S − ja)] from the sums at each j in `indices`."""
        shifts = self._shifts(indices)
        exponents = self.log_moment - shifts + self._rounding(shifts)
        with np.errstate(over="ignore", invalid="ignore"):
            scales = np.exp(np.minimum(exponents, _LARGEST_EXPONENT))
            bounds = (np.maximum(sums, 0.0) + self.abs_error) * scales
        known = (exponents < _LARGEST_EXPONENT) & math.isfinite(self.abs_error)
        return np.where(known, bounds, math.inf)

    def lower(self, indices: IntArray, sums: Array) -> Array:
        """Return lower bounds of e^{−θja} times the right side of (L1), aliases included."""
        shifts = self._shifts(indices)
        exponents = self.log_moment - shifts - self._rounding(shifts)
        scales = np.exp(np.minimum(exponents, _LARGEST_EXPONENT))
        return np.asarray(np.maximum(sums - self.abs_error, 0.0) * scales)

    def _shifts(self, indices: IntArray) -> Array:
        return np.asarray(self.tilt * self.step * indices, dtype=np.float64)

    def _rounding(self, shifts: Array) -> Array:
        return np.asarray(self.slack + 32 * UNIT * (8 + abs(self.log_moment) + np.abs(shifts)))


def node_sum(parts: Sequence[tuple[LatticeMeasure, int]], tilt: float, nodes: int, kernel: Kernel) -> NodeSum:
    """Return the left side of (L1) for a sum of independent values.

    Parameters
    ----------
    parts : sequence of tuple of (LatticeMeasure, int)
        The measures, all with the same step, and how many copies there are of each.
    tilt : float
        θ > 0.
    nodes : int
        N, a power of two.
    kernel : Kernel
        `ramp` or `hockey_stick`.
    """
    step = parts[0][0].step
    weighted = [(measure, copies, *measure.tilted(tilt)) for measure, copies in parts]
    log_moment = sum(copies * log_part for _, copies, log_part, _ in weighted)
    slack = 0.0
    for measure, copies, log_part, _ in weighted:
        slack += copies * 16 * UNIT * (16 + abs(log_part) + 2 * measure.exponent(tilt))
    known = _products([(m, copies, w) for m, copies, _, w in weighted], tilt, nodes)
    half = 0.5 * step * tilt
    if half > _LARGEST_EXPONENT / 2:  # κ would underflow
        known = known._replace(omitted=math.inf)
        half = 1.0
    halves = np.full(len(known.places), half, dtype=np.complex128)
    halves.imag = math.pi / nodes * known.places
    kappa = kernel.values(step, halves) / nodes
    kappa[(known.places > 0) & (2 * known.places < nodes)] *= 2  # a node and its conjugate
    errors = float((np.abs(kappa) * known.errors).sum())
    # The sizes of κ at all nodes together, times a bound of M(s)/M(θ) where it is not known.
    errors += kernel.mean_size(step, half, nodes) * known.omitted
    terms = known.values * kappa
    return NodeSum(step, tilt, nodes, log_moment, slack, known.places, terms, 1.001 * errors)


class _Products(NamedTuple):
    """M(s)/M(θ) at the nodes that are kept, bounds of its errors, and of its size at all others."""

    places: IntArray
    values: ComplexArray
    errors: Array
    omitted: float


def _products(parts: Sequence[tuple[LatticeMeasure, int, Array]], tilt: float, nodes: int) -> _Products:
    """Return the product of all transforms, from measures, numbers of copies and tilted masses."""
    last, log_omitted = _last_node(parts, tilt, nodes)
    places = np.arange(last + 1)
    values = np.ones(last + 1, dtype=np.complex128)
    log_sizes = np.zeros(last + 1)
    log_bounds = np.zeros(last + 1)
    later = 0.0
    with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
        for measure, copies, weights in parts:
            factors = _transform(measure.positions, weights, nodes, last)[places]
            sizes = np.abs(factors)
            error = _transform_error(measure, tilt, nodes)
            later += copies * error
            log_sizes += copies * np.log(sizes)
            log_bounds += copies * np.log(sizes + error)
            kept = log_bounds > NEGLIGIBLE
            # No later factor exceeds one by more than its error.
            log_omitted = max(log_omitted, float(log_bounds[~kept].max(initial=-math.inf)))
            places = places[kept]
            log_sizes = log_sizes[kept]
            log_bounds = log_bounds[kept]
            values = values[kept] * _power(factors[kept], copies)
        values[~np.isfinite(values)] = 0.0  # 0 to a power, by a logarithm
        bounds = np.exp(log_bounds)
        # (L4): an error of e in M changes Mⁿ by at most (|M| + e)ⁿ − |M|ⁿ; then powers, κ and phases.
        from_transform = -np.expm1(log_sizes - log_bounds)
    copies = sum(copies for _, copies, _ in parts)
    roundings = 64 * (copies + 8 * len(parts) + 64 + np.abs(log_bounds)) + 16 * math.log2(nodes)
    errors = bounds * (from_transform + UNIT * roundings)
    return _Products(places, values, errors, math.exp(min(log_omitted + later, 0.0)))


def _transform_error(measure: LatticeMeasure, tilt: float, nodes: int) -> float:
    """Return a bound of the error of a transform of weights that sum to one (L5)."""
    few = len(measure.positions) if nodes > _ALL_NODES else 0  # products of matrices add up in any order
    return UNIT * (16 * (24 + math.log2(nodes) + measure.exponent(tilt)) + few)


def _power(values: ComplexArray, copies: int) -> ComplexArray:
    return np.asarray(values**copies if copies < 64 else np.exp(copies * np.log(values)))


def _transform(positions: IntArray, weights: Array, nodes: int, last: int) -> ComplexArray:
    """Return Σ w·e^{2πikx/N} for the first nodes k, up to the last one."""
    if last == nodes // 2:
        return np.conj(np.fft.rfft(np.bincount(positions % nodes, weights, nodes)))
    # e^{i(jm + k)x} = e^{ijmx}·e^{ikx}: one product of two matrices has all nodes.
    width = math.isqrt(last) + 1
    narrow = _phases(np.arange(width), positions, nodes)
    wide = _phases(width * np.arange(last // width + 1), positions, nodes) * weights
    return np.asarray((wide @ narrow.T).ravel()[: last + 1])


def _phases(places: IntArray, positions: IntArray, nodes: int) -> ComplexArray:
    """Return e^{2πikx/N}, a row for each place k, from angles in (−π, π]."""
    turns = np.multiply.outer(places, positions % nodes) % nodes
    angles = 2 * math.pi / nodes * np.where(2 * turns > nodes, turns - nodes, turns)
    result = np.empty(angles.shape, dtype=np.complex128)
    np.cos(angles, out=result.real)
    np.sin(angles, out=result.imag)
    return result


def _last_node(parts: Sequence[tuple[LatticeMeasure, int, Array]], tilt: float, nodes: int) -> tuple[int, float]:
    """Return the last node that is computed, and the logarithm of a bound of |M(s)/M(θ)| beyond it.

    The guard is a transform over coarser nodes. Between two of them, at a distance d, |M/M(θ)| of one
    measure is at most the larger of the two values plus d²/8 times the tilted variance (L7).
    """
    half = nodes // 2
    if nodes <= _ALL_NODES:
        return half, -math.inf
    step = parts[0][0].step
    variances = [_variance(measure.values, weights) for measure, _, weights in parts]
    total = sum(copies * each for (_, copies, _), each in zip(parts, variances, strict=True))
    # As many nodes as it takes for d² times the variance of the sum to be small next to `NEGLIGIBLE`.
    needed = 2 * math.pi / step * math.sqrt(total / (0.8 * -NEGLIGIBLE))
    guard = 1 << math.ceil(math.log2(max(needed, _FEWEST_GUARDED)))
    guard = min(guard, _MOST_GUARDED)
    distance = 2 * math.pi / (guard * step)
    logs = np.zeros(guard // 2)
    for (measure, copies, weights), variance in zip(parts, variances, strict=True):
        coarse = np.abs(np.fft.rfft(np.bincount(measure.positions % guard, weights, guard)))
        bounds = np.maximum(coarse[1:], coarse[:-1]) + 1.001 * distance**2 / 8 * variance
        bounds += _transform_error(measure, tilt, nodes)
        logs += copies * np.log(np.minimum(bounds, 1.0))
    heavy = np.flatnonzero(logs > NEGLIGIBLE)
    first = int(heavy[-1]) + 1 if len(heavy) else 0
    last = min(half, math.ceil(first * (nodes / guard)) + 1)
    log_omitted = float(logs[first:].max(initial=-math.inf))
    # A node costs √last phases for each position, and a node of a transform about four of them.
    positions = sum(len(measure.positions) for measure, _, _ in parts)
    slow = 4 * positions * math.sqrt(last) > nodes * len(parts)
    if nodes <= _MOST_NODES and (slow or last > _MOST_FIRST):
        return half, -math.inf
    if last <= _MOST_FIRST:
        return last, log_omitted
    return 0, 0.0  # too many: what is omitted makes the bound useless


def _variance(values: Array, weights: Array) -> float:
    mean = float((weights * values).sum())
    return float((weights * (values - mean) ** 2).sum())


class RampSums:
    """Upper bounds of E[(S − x)₊] for sums S of n, n − 1, n − 2, … copies of a measure, at many x.

    Each x has a tilt that is best, and points next to it are served by the same tilt. Values that a tilt
    cannot tell apart are moved to a coarser lattice, with the mean kept, so that a measure with many scales
    needs few nodes for each of them.

    Parameters
    ----------
    measure : LatticeMeasure
        The measure, whose mass may be less than one.
    copies : int
        n.
    """

    def __init__(self, measure: LatticeMeasure, copies: int) -> None:
        self.measure = measure
        self.copies = copies
        masses = np.exp(measure.log_masses)
        values = measure.values
        self.mass = float(masses.sum())
        self.mean = float((masses * values).sum()) / self.mass
        self.variance = float((masses * (values - self.mean) ** 2).sum()) / self.mass
        self.size = float((masses * np.abs(values)).sum()) + measure.step
        self.root = math.sqrt(copies * self.variance) + measure.step
        steepest = _STEEPEST / max(float(values[-1]), 4 * measure.step)
        octaves = math.floor(math.log2(max(steepest * self.root / _GENTLEST, 1.0)))
        self.tilts = steepest * 2.0 ** -np.arange(min(octaves, 60), -1.0, -1.0)
        self.log_moments = np.array([measure.log_moment(tilt) for tilt in self.tilts.tolist()])
        # Tilts below zero bound sums that are far below their mean.
        self.falling = np.array([1.0, 2.0, 4.0, 8.0]) / self.root
        self.falls = np.array([measure.log_moment(-tilt) for tilt in self.falling.tolist()])
        self._coarser: dict[int, LatticeMeasure] = {0: measure}
        self._tables: dict[tuple[int, ...], tuple[NodeSum, Array]] = {}

    def least(self, points: Array, fewer: int) -> Array:
        """Return about lower bounds of E[(S − x)₊] for n − fewer copies, from the mean (Jensen)."""
        copies = self.copies - fewer
        return np.maximum((copies * self.mean - points) * self.mass**copies, 0.0)

    def upper(self, points: Array, fewer: int, masses: Array, known: Array, share: float) -> Array:
        """Return upper bounds of the sum over columns of the masses times E[(S − x)₊], for each row.

        A bound is left rough where that adds less than `share` of the sum and of what is known.

        Parameters
        ----------
        points : numpy.ndarray
            x, in rows.
        fewer : int
            S is the sum of n − fewer copies.
        masses : numpy.ndarray
            The mass of each column.
        known : numpy.ndarray
            A part of the answer that is already known, for each row.
        share : float
            The part of the answer that does not matter.
        """
        copies = self.copies - fewer
        points = points - 4 * UNIT * np.abs(points)  # what rounding has done to them
        if copies == 0:
            return np.asarray(np.maximum(-points, 0.0) @ masses)
        least = self.least(points, fewer)
        allowed = (share * (known + least @ masses) + 1e-250).reshape(-1, 1) / len(masses)
        bounds, noise = self._rough(points.ravel(), copies)
        with np.errstate(over="ignore"):
            excess = (bounds.reshape(points.shape) - least) * masses
            errors = np.maximum(0.1 * (allowed / np.maximum(masses, 1e-300)).ravel(), noise)
        near = np.abs(points) < _FARTHEST * self.measure.step
        asked = np.flatnonzero((excess > allowed) & near)
        self._refine(bounds, asked, points.ravel(), errors, fewer)
        return np.asarray(bounds.reshape(points.shape) @ masses)

    def _rough(self, points: Array, copies: int) -> tuple[Array, Array]:
        """Return bounds without a transform, and what rounding changes of one, about."""
        # Scarf: E[(S − x)₊] ≤ (m + √(m² + v))/2, m = E[S] − x, written without cancellation.
        middle = copies * self.mean - points
        variance = copies * self.variance
        away = np.hypot(middle, math.sqrt(variance))
        apart = np.where(middle > 0, 1.0, np.maximum(away - middle, 1e-300))
        scarf = np.where(middle > 0, (middle + away) / 2, variance / 2 / apart) * self.mass**copies
        # E[(S − x)₊] = E[S − x] + E[(x − S)₊], the last by Chernoff with a tilt below zero.
        exponents = copies * self.falls - 1 - np.log(self.falling)
        below = (exponents[:, None] + np.multiply.outer(self.falling, points)).min(axis=0)
        falling = np.maximum(middle, 0.0) * self.mass**copies + np.exp(np.minimum(below, _LARGEST_EXPONENT))
        rough = np.minimum(scarf, np.where(below < _LARGEST_EXPONENT, falling, math.inf))
        rough = rough * (1 + 1e-9 + 64 * UNIT * copies) + 64 * UNIT * copies * self.size
        # Chernoff: (x)₊ ≤ e^{θx}/(eθ).
        best = self._best_tilts(points, copies)
        tilts = self.tilts[best]
        moments = self.log_moments[best]
        exponents = copies * moments - tilts * points - 1 - np.log(tilts) + 1e-9
        reach = max(float(self.measure.values[-1]), 0.0)
        exponents += 64 * UNIT * copies * (16 + tilts * reach + np.abs(moments))
        chernoff = np.exp(np.minimum(exponents, _LARGEST_EXPONENT))
        chernoff[exponents >= _LARGEST_EXPONENT] = math.inf
        return np.minimum(rough, chernoff), 1e-7 * chernoff

    def _best_tilts(self, points: Array, copies: int) -> IntArray:
        """Return the index of the tilt at which M(θ)ⁿ·e^−θx/θ² is least, for each x; any is valid."""
        exponents = copies * self.log_moments - 2 * np.log(self.tilts)
        slopes = np.diff(exponents) / np.diff(self.tilts)  # ascending, as exponents are nearly convex
        return np.searchsorted(np.maximum.accumulate(slopes), points)

    def _refine(self, bounds: Array, asked: IntArray, points: Array, errors: Array, fewer: int) -> None:
        """Lower the bounds at the points that are asked, until rounding changes them by no more than `errors`."""
        best = self._best_tilts(points, self.copies - fewer)
        while len(asked):
            tilt = int(np.sort(best[asked])[len(asked) // 2])
            served = asked[np.abs(best[asked] - tilt) <= _OCTAVES]
            steepest = float(self.tilts[int(best[served].max())])
            values, rounding = self._at_tilt(tilt, points[served], fewer, steepest)
            bounds[served] = np.minimum(bounds[served], values)
            done = served[(rounding <= errors[served]) | (best[served] == tilt)]
            asked = np.setdiff1d(asked, done, assume_unique=True)

    def _at_tilt(self, tilt: int, points: Array, fewer: int, steepest: float) -> tuple[Array, Array]:
        """Return upper bounds at the points, and what rounding adds to each.

        The logarithm of the answer falls by up to `steepest` per unit of x.
        """
        copies = self.copies - fewer
        # E[(S − x)₊] grows by about nh²θ²/12 of itself on a lattice of step h.
        halvings = math.floor(math.log2(_RESOLVED / (steepest * math.sqrt(copies) * self.measure.step)))
        measure = self._coarsened(min(max(0, halvings), _MOST_HALVINGS))
        nodes = self._nodes(measure.step, tilt, copies, float(points.min()), float(points.max()))
        sums, table = self._table(measure, tilt, nodes, copies, steepest)
        stride = nodes // len(table)
        scaled = points / (stride * measure.step)
        low = np.floor(scaled)
        knots = low.astype(np.int64)
        first = sums.upper(stride * knots, table[knots % len(table)])
        second = sums.upper(stride * (knots + 1), table[(knots + 1) % len(table)])
        # A convex function is at most its chords.
        known = np.isfinite(first) & np.isfinite(second)
        values = np.full(len(points), math.inf)
        values[known] = (first + (scaled - low) * (second - first))[known]
        return values * (1 + 16 * UNIT), sums.upper(stride * knots, np.zeros(len(points)))

    def _nodes(self, step: float, tilt: int, copies: int, lowest: float, highest: float) -> int:
        """Return enough nodes; with fewer, aliases would only make the bounds larger."""
        theta = float(self.tilts[tilt])
        moment = float(self.log_moments[tilt])
        # Aliases below: e^−θP·P against e^{K − θx}/θ². Aliases above: Chernoff with a steeper tilt.
        period = (max(theta * highest - copies * moment, 0.0) + _CLEAR + 8) / theta
        if tilt + 1 < len(self.tilts):
            gaps = self.tilts[tilt + 1 :] - theta
            rises = copies * (self.log_moments[tilt + 1 :] - moment) - gaps * lowest
            period = max(period, float(((rises + _CLEAR) / gaps).min()))
        return 1 << min(max(8, math.ceil(math.log2(period / step))), 52)

    def _table(
        self, measure: LatticeMeasure, tilt: int, nodes: int, copies: int, steepest: float
    ) -> tuple[NodeSum, Array]:
        """Return the sum over nodes, and a table of it at points that a chord may connect."""
        chord = max(1, math.floor(_CHORD / (steepest * measure.step)))
        stride = 1 << (chord.bit_length() - 1)
        stride = max(min(stride, nodes // 2), nodes // _MOST_NODES)
        key = (round(measure.step / self.measure.step), tilt, nodes, copies, stride)
        if key not in self._tables:
            sums = node_sum([(measure, copies)], float(self.tilts[tilt]), nodes, ramp)
            # All nodes that are kept have to be among those of the table.
            while stride > 1 and 2 * int(sums.places[-1]) * stride > nodes:
                stride //= 2
            self._tables[key] = (sums, sums.table(stride))
        return self._tables[key]

    def _coarsened(self, halvings: int) -> LatticeMeasure:
        """Return the measure on a lattice with 2^halvings times the step, with its mean kept.

        No E[(S − x)₊] is smaller then.
        """
        if halvings not in self._coarser:
            positions = self.measure.positions
            masses = np.exp(self.measure.log_masses)
            below = positions >> halvings
            right = (positions - (below << halvings)) / (1 << halvings)
            places, index = np.unique(np.concatenate((below, below + 1)), return_inverse=True)
            parts = np.concatenate((masses * (1 - right), masses * right))
            # No mass is less than it should be: E[(S − x)₊] grows with every mass.
            roundings = len(index) + 16 + 2 * float(np.abs(self.measure.log_masses).max())
            pmf = np.bincount(index, parts) * (1 + UNIT * roundings)
            kept = pmf > 0
            step = self.measure.step * (1 << halvings)
            coarser = LatticeMeasure(step, places[kept], np.log(pmf[kept]))
            self._coarser[halvings] = coarser
        return self._coarser[halvings]
