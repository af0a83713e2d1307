"""Sums of independent values that are multiples of a step: E[kernel(S − x)], by one identity.

For measures on multiples of a step a, which may have a mass of less than one, a tilt θ > 0 and
N nodes s_k = θ + 2πik/(Na), let M(s) be the product of the moment generating functions of all
summands. Then

    (1/N)·Σ_k M(s_k)·κ(s_k)·e^{−2πijk/N} = Σ_l e^{θ(j + lN)a}·E[kernel(S − (j + lN)a)].        (L1)

All terms on the right are non-negative, so the left side is an upper bound of
e^{θja}·E[kernel(S − ja)] for every θ and N. There are two kernels: the ramp, x₊, and the hockey stick, (1 − e^−x)₊.
docs/theory/numerics.md, section 2.6, has the proofs and the analysis of rounding.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import LARGEST_POWER, UNIT

__all__ = [
    "LARGEST_POSITION",
    "MOST_NODES",
    "Kernel",
    "LatticeMeasure",
    "NodeSum",
    "RampSums",
    "clear_period",
    "hockey_stick",
    "node_sum",
    "ramp",
]

MOST_NODES = 1 << 22
"""The most nodes: their transform takes half a second; more only help more than 10⁷ copies."""
LARGEST_POSITION = 1 << 60
"""Larger positions could overflow as integers."""
NEGLIGIBLE = -60.0
"""Nodes with |M(s)/M(θ)| below e^−60 are omitted and charged: less takes longer, more raises δ."""
_CLEAR = 24.0
"""Aliases are to stay below e^−24 of the answer, as that may be guessed too large; less takes longer."""
_ALL_NODES = 1 << 15
"""Up to this many nodes all are computed: a transform costs less than a proof that few matter."""
_GENTLEST = 0.4
"""The least tilt times the standard deviation of S: a lesser one is best only far below the mean."""
_OCTAVES = 3
"""Points whose best tilt is up to 2³ times a tilt are served by it, if rounding allows: it is faster."""
_RESOLVED = 0.03
"""Tilt times √n times a coarser step, and tilt times the length of a chord: the sum grows by 1e-4 of
itself; less needs more nodes, and longer tables."""
_MOST_HALVINGS = 50
"""The coarsest lattice, relative to the finest: up to here shares of a mass are exact."""

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

    @property
    def largest(self) -> float:
        """The largest value, or zero."""
        return self.step * max(float(self.positions[-1]), 0.0)

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


class Kernel(NamedTuple):
    """κ(s) = scale/(2·sinh(sa/2)·2·sinh(sa/2 + shift)), the transform of a kernel on multiples of a."""

    scale: float
    shift: float

    def values(self, halves: ComplexArray) -> ComplexArray:
        """Return κ at nodes, given sa/2."""
        return np.asarray(self.scale / (2 * np.sinh(halves) * 2 * np.sinh(halves + self.shift)))

    def mean_size(self, half: float, nodes: int) -> float:
        """Return a bound of (1/N)·Σ_k |κ(s_k)|, given θa/2."""
        # (L6), with |sinh(z + b)| ≥ |sinh z| for b ≥ 0, as the real part is larger.
        return self.scale / (2 * math.sinh(2 * half) * math.tanh(nodes * half))


def ramp(step: float) -> Kernel:
    """Return the kernel of E[(S − x)₊]."""
    return Kernel(step, 0.0)  # (L2)


def hockey_stick(step: float) -> Kernel:
    """Return the kernel of E[(1 − e^{x − S})₊], the δ of a privacy loss S."""
    return Kernel(2 * math.sinh(step / 2), step / 2)  # (L3)


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
        turns = np.multiply.outer(indices % self.nodes, self.places) % self.nodes
        phases = np.exp(-2j * math.pi / self.nodes * turns)
        return np.asarray((self.terms * phases).real.sum(axis=-1))

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
        exponents, rounding = self._exponents(indices)
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = (np.maximum(sums, 0.0) + self.abs_error) * np.exp(exponents + rounding)
        return np.where(np.isnan(bounds), math.inf, bounds)

    def lower(self, indices: IntArray, sums: Array) -> Array:
        """Return lower bounds of e^{−θja} times the right side of (L1), aliases included."""
        exponents, rounding = self._exponents(indices)
        scales = np.exp(np.minimum(exponents - rounding, LARGEST_POWER))
        return np.asarray(np.maximum(sums - self.abs_error, 0.0) * scales)

    def _exponents(self, indices: IntArray) -> tuple[Array, Array]:
        """Return the logarithm of M(θ)·e^{−θja}, and a bound of its error."""
        shifts = self.tilt * self.step * indices
        rounding = self.slack + 32 * UNIT * (8 + abs(self.log_moment) + np.abs(shifts))
        return np.asarray(self.log_moment - shifts), np.asarray(rounding)


class _Tilted(NamedTuple):
    """Copies of a measure at a tilt: weights that sum to one, and the error of their transform."""

    positions: IntArray
    copies: int
    weights: Array
    error: float


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
        That of a ramp or of a hockey stick with this step.
    """
    step = parts[0][0].step
    log_moment = 0.0
    slack = 0.0
    tilted = []
    for measure, copies in parts:
        log_part, weights = measure.tilted(tilt)
        exponent = tilt * measure.largest  # below zero, weights fall faster than their errors grow
        log_moment += copies * log_part
        slack += copies * 16 * UNIT * (16 + abs(log_part) + 2 * exponent)
        # A transform adds up positions that are folded onto one; products of matrices add up all.
        added = len(weights)
        if nodes <= _ALL_NODES:
            added = int(np.bincount(measure.positions % nodes).max())
        error = UNIT * (16 * (24 + math.log2(nodes) + exponent + abs(log_part)) + added)  # (L5)
        tilted.append(_Tilted(measure.positions, copies, weights, error))
    places, values, errors, omitted = _products(tilted, nodes)
    # κ underflows at steeper tilts, and nothing is known there.
    half = min(0.5 * step * tilt, LARGEST_POWER / 2)
    halves = np.asarray(half + 1j * (math.pi / nodes * places), dtype=np.complex128)
    kappa = kernel.values(halves) / nodes
    kappa[(places > 0) & (2 * places < nodes)] *= 2  # a node and its conjugate
    abs_error = float((np.abs(kappa) * errors).sum()) + kernel.mean_size(half, nodes) * omitted
    if 0.5 * step * tilt > half:
        abs_error = math.inf
    return NodeSum(step, tilt, nodes, log_moment, slack, places, values * kappa, 1.001 * abs_error)


def _products(parts: Sequence[_Tilted], nodes: int) -> tuple[IntArray, ComplexArray, Array, float]:
    """Return M(s)/M(θ) at nodes that are kept, bounds of its errors, and of its size at all others."""
    last, log_omitted = _last_node(parts, nodes)
    places = np.arange(last + 1)
    values = np.ones(last + 1, dtype=np.complex128)
    log_bounds = np.zeros(last + 1)
    for part in parts:
        factors = _transform(part, nodes, last)[places]
        log_bounds += part.copies * np.log(np.abs(factors) + part.error)
        kept = log_bounds > NEGLIGIBLE
        log_omitted = max(log_omitted, float(log_bounds[~kept].max(initial=-math.inf)))
        places = places[kept]
        log_bounds = log_bounds[kept]
        # A factor of zero has a logarithm, too.
        values = values[kept] * np.exp(part.copies * np.log(factors[kept] + 1e-300))
    copies = sum(part.copies for part in parts)
    roundings = 64 * (copies + 8 * len(parts) + 64 + np.abs(log_bounds)) + 16 * math.log2(nodes)
    # (L4): an error of e in M changes Mⁿ by at most (|M| + e)ⁿ − |M|ⁿ; then powers, κ and phases.
    bounds = np.exp(log_bounds)
    errors = bounds - np.abs(values) + bounds * UNIT * roundings
    # After a node is omitted, no later factor exceeds one by more than its error.
    later = sum(part.copies * part.error for part in parts)
    return places, values, errors, math.exp(min(log_omitted + later, 0.0))


def _transform(part: _Tilted, nodes: int, last: int) -> ComplexArray:
    """Return Σ w·e^{2πikx/N} for the first nodes k, up to the last one."""
    if last == nodes // 2:
        return np.conj(np.fft.rfft(np.bincount(part.positions % nodes, part.weights, nodes)))
    # e^{i(jm + k)x} = e^{ijmx}·e^{ikx}: one product of two matrices has all nodes.
    width = math.isqrt(last) + 1
    narrow = _phases(np.arange(width), part.positions, nodes)
    wide = _phases(width * np.arange(last // width + 1), part.positions, nodes) * part.weights
    return np.asarray((wide @ narrow.T).ravel()[: last + 1])


def _phases(places: IntArray, positions: IntArray, nodes: int) -> ComplexArray:
    """Return e^{2πikx/N}, a row for each place k."""
    turns = np.multiply.outer(places, positions % nodes) % nodes
    angles = 2 * math.pi / nodes * turns
    result = np.empty(angles.shape, dtype=np.complex128)
    np.cos(angles, out=result.real)
    np.sin(angles, out=result.imag)
    return result


def _last_node(parts: Sequence[_Tilted], nodes: int) -> tuple[int, float]:
    """Return the last node that is computed, and the logarithm of a bound of |M(s)/M(θ)| beyond it.

    The guard is a transform over coarser nodes. Between two of them, at a distance d, |M/M(θ)| of
    one measure is at most the larger of the two values plus d²/8 times the tilted variance (L7).
    """
    half = nodes // 2
    if nodes <= _ALL_NODES:
        return half, -math.inf
    # In units of the step.
    variances = [_variance(part) for part in parts]
    total = sum(part.copies * variance for part, variance in zip(parts, variances, strict=True))
    # So many nodes that d² times the variance of the sum is small next to `NEGLIGIBLE`.
    needed = 2 * math.pi * math.sqrt(total / (0.8 * -NEGLIGIBLE))
    guard = min(1 << math.ceil(math.log2(max(needed, _ALL_NODES / 16))), half, MOST_NODES // 32)
    distance = 2 * math.pi / guard
    logs = np.zeros(guard // 2)
    for part, variance in zip(parts, variances, strict=True):
        coarse = np.abs(_transform(part, guard, guard // 2))
        bounds = np.maximum(coarse[1:], coarse[:-1]) + 1.001 * distance**2 / 8 * variance
        logs += part.copies * np.log(np.minimum(bounds + part.error, 1.0))
    heavy = np.flatnonzero(logs > NEGLIGIBLE)
    first = int(heavy[-1]) + 1 if len(heavy) else 0
    last = min(half, first * (nodes // guard) + 1)
    # For each position, √last phases and products of matrices; a node of a transform costs four.
    positions = sum(len(part.positions) for part in parts)
    if positions * (4 * math.sqrt(last) + last / 16) > min(nodes, MOST_NODES) * len(parts):
        # Of too many nodes all but one are omitted, which makes the bound useless.
        return (half, -math.inf) if nodes <= MOST_NODES else (0, 0.0)
    return last, float(logs[first:].max(initial=-math.inf))


def _variance(part: _Tilted) -> float:
    mean = float((part.weights * part.positions).sum())
    return float((part.weights * (part.positions - mean) ** 2).sum())


def clear_period(
    tilt: float, log_answers: tuple[float, float], lowest: float, steeper: Iterable[tuple[float, float]]
) -> tuple[float, float]:
    """Return periods of (L1) with which aliases below, and above, do not count next to the answers.

    Parameters
    ----------
    tilt : float
        θ.
    log_answers : tuple of float
        The logarithms, roughly, of the answer at the lowest point and at the highest one.
    lowest : float
        The lowest point x.
    steeper : iterable of tuple of (float, float)
        Tilts τ > θ with log M(τ).
    """
    # Below, an alias is e^−θP. Above, it is e^θP times Chernoff's bound M(τ)e^{−τ(x + P)}.
    below = (_CLEAR - log_answers[1]) / tilt
    offset = _CLEAR - log_answers[0]
    above = ((moment - tau * lowest + offset) / (tau - tilt) for tau, moment in steeper)
    return below, min(above, default=0.0)


class RampSums:
    """Upper bounds of E[(S − x)₊] for sums S of at most n copies of a measure, at many x.

    Each x has a tilt that is best, and points next to it are served by the same tilt. Values that a
    tilt cannot tell apart are moved to a coarser lattice, with the mean kept, so that a measure with
    many scales needs few nodes for each of them.

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
        steepest = LARGEST_POWER / max(measure.largest, 4 * measure.step)
        octaves = math.floor(math.log2(max(steepest * self.root / _GENTLEST, 1.0)))
        self.tilts = steepest * 2.0 ** -np.arange(octaves, -1.0, -1.0)
        self.log_moments = np.array([measure.log_moment(tilt) for tilt in self.tilts.tolist()])
        # Tilts below zero bound sums that are far below their mean.
        self.falling = np.array([1.0, 2.0, 4.0, 8.0]) / self.root
        self.falls = np.array([measure.log_moment(-tilt) for tilt in self.falling.tolist()])
        self._coarser: dict[int, LatticeMeasure] = {0: measure}
        self._tables: dict[tuple[int, int, int, int, float], tuple[NodeSum, Array]] = {}

    def least(self, points: Array, copies: int) -> Array:
        """Return about lower bounds of E[(S − x)₊] for some copies, from the mean (Jensen)."""
        return np.maximum((copies * self.mean - points) * self.mass**copies, 0.0)

    def upper(self, points: Array, copies: int, errors: Array) -> Array:
        """Return upper bounds of E[(S − x)₊] for this number of copies, at each x in `points`.

        A bound is left rough where it adds no more than is allowed by `errors`.
        """
        points = points - 4 * UNIT * np.abs(points)  # what rounding has done to them
        if copies == 0:
            return np.maximum(-points, 0.0)
        best = self._best_tilts(points, copies)
        bounds = np.minimum(self._far_below(points, copies), self._chernoff(points, copies, best))
        excess = bounds - self.least(points, copies)
        near = np.abs(points) < LARGEST_POSITION * self.measure.step
        asked = np.flatnonzero((excess > errors) & near)
        errors = 0.1 * errors + 1e-7 * bounds
        while len(asked):
            tilt = int(np.sort(best[asked])[len(asked) // 2])
            served = asked[np.abs(best[asked] - tilt) <= _OCTAVES]
            values, rounding = self._at_tilt(tilt, int(best[served].max()), points[served], copies)
            bounds[served] = np.minimum(bounds[served], values)
            done = served[(rounding <= errors[served]) | (best[served] == tilt)]
            asked = np.setdiff1d(asked, done, assume_unique=True)
        return bounds

    def _best_tilts(self, points: Array, copies: int) -> IntArray:
        """Return the index of the tilt at which M(θ)ⁿ·e^−θx/θ² is least, for each x; any is valid."""
        exponents = copies * self.log_moments - 2 * np.log(self.tilts)
        slopes = np.diff(exponents) / np.diff(self.tilts)  # ascending, as exponents are nearly convex
        return np.searchsorted(np.maximum.accumulate(slopes), points)

    def _far_below(self, points: Array, copies: int) -> Array:
        """Return bounds that are good at points far below the mean: E[S − x] + E[(x − S)₊]."""
        middle = copies * self.mean - points
        variance = copies * self.variance
        mass = self.mass**copies
        # Scarf: E[(x − S)₊] ≤ (√(m² + v) − m)/2, m = E[S] − x; so is E[(S − x)₊] with −m, if m < 0.
        scarf = variance / 2 / (np.abs(middle) + np.hypot(middle, math.sqrt(variance)) + 1e-300)
        # Chernoff, with a tilt below zero.
        exponents = copies * self.falls - 1 - np.log(self.falling)
        falls = (exponents[:, None] + np.multiply.outer(self.falling, points)).min(axis=0)
        with np.errstate(over="ignore"):
            bounds = np.maximum(middle, 0.0) * mass + np.minimum(scarf * mass, np.exp(falls))
        return np.asarray(bounds * (1 + 1e-9 + 64 * UNIT * copies) + 64 * UNIT * copies * self.size)

    def _chernoff(self, points: Array, copies: int, best: IntArray) -> Array:
        """Return bounds from the moment at each point's tilt: (x)₊ ≤ e^{θx}/(eθ)."""
        tilts = self.tilts[best]
        moments = self.log_moments[best]
        exponents = copies * moments - tilts * points - 1 - np.log(tilts) + 1e-9
        exponents += 64 * UNIT * copies * (16 + tilts * self.measure.largest + np.abs(moments))
        exponents += 64 * UNIT * np.abs(tilts * points)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(exponents))

    def _at_tilt(self, tilt: int, steepest: int, points: Array, copies: int) -> tuple[Array, Array]:
        """Return upper bounds of E[(S − x)₊] at points x by one tilt, and what rounding adds to each.

        The best tilts of the points are at most that with the index `steepest`.
        """
        theta = float(self.tilts[tilt])
        moments = copies * self.log_moments[tilt:]
        ends = np.array([points.min(), points.max()])
        answers = np.minimum(moments[0] - theta * ends, 0.0)
        steeper = zip(self.tilts[tilt + 1 :].tolist(), moments[1:].tolist(), strict=True)
        period = max(clear_period(theta, answers.tolist(), float(ends[0]), steeper))
        # E[(S − x)₊] grows by about nh²θ²/12 of itself on a lattice of step h.
        finest = float(self.tilts[steepest])
        step = max(_RESOLVED / (finest * math.sqrt(copies)), 2 * period / MOST_NODES)
        halvings = min(max(0, math.floor(math.log2(step / self.measure.step))), _MOST_HALVINGS)
        step = math.ldexp(self.measure.step, halvings)
        octaves = min(max(8, math.ceil(math.log2(period / step))), MOST_NODES.bit_length() - 1)
        sums, table = self._table(tilt, halvings, 1 << octaves, copies, _RESOLVED / finest)
        stride = sums.nodes // len(table)
        scaled = points / (stride * step)
        low = np.floor(scaled)
        knots = low.astype(np.int64)
        first = sums.upper(stride * knots, table[knots % len(table)])
        second = sums.upper(stride * (knots + 1), table[(knots + 1) % len(table)])
        # A convex function is at most its chords. Nothing cancels, however much smaller the second end is.
        with np.errstate(invalid="ignore"):
            values = ((low + 1 - scaled) * first + (scaled - low) * second) * (1 + 16 * UNIT)
        rounding = sums.upper(stride * knots, np.zeros(len(points)))
        return np.where(np.isnan(values), math.inf, values), rounding

    def _table(self, tilt: int, halvings: int, nodes: int, copies: int, chord: float) -> tuple[NodeSum, Array]:
        """Return the sum over nodes, and a table of it at points that are at most a chord apart."""
        key = (tilt, halvings, nodes, copies, chord)
        if key not in self._tables:
            measure = self._coarsened(halvings)
            sums = node_sum([(measure, copies)], float(self.tilts[tilt]), nodes, ramp(measure.step))
            # All nodes that are kept have to be among those of the table.
            last = max(int(sums.places[-1]), 1)
            stride = min(math.floor(chord / measure.step), nodes // 2 // last)
            self._tables[key] = (sums, sums.table(1 << max(stride.bit_length() - 1, 0)))
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
            # Parts of a mass are at least 2⁻⁵⁰ of it, and the logarithm of a part is off by 4 units.
            roundings = len(index) + 160 + 6 * float(np.abs(self.measure.log_masses).max())
            pmf = np.bincount(index, parts) * (1 + UNIT * roundings)
            kept = pmf > 0
            step = math.ldexp(self.measure.step, halvings)
            self._coarser[halvings] = LatticeMeasure(step, places[kept], np.log(pmf[kept]))
        return self._coarser[halvings]
