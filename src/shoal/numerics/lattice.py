"""Sums of independent values that are multiples of a step: E[kernel(S − x)], by one identity.

For measures on multiples of a step a, which may have a mass of less than one, a tilt θ > 0 and
N nodes s_k = θ + 2πik/(Na), let M(s) be the product of the moment generating functions of all
summands. Then

    (1/N)·Σ_k M(s_k)·κ(s_k)·e^{−2πijk/N} = Σ_l e^{θ(j + lN)a}·E[kernel(S − (j + lN)a)].        (L1)

All terms on the right are non-negative, so the left side is an upper bound of
e^{θja}·E[kernel(S − ja)] for every θ and N. There are two kernels: the ramp, x₊, and the hockey
stick, (1 − e^−x)₊. docs/theory/numerics.md, section 2.6, has the proofs and the rounding.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, Complex, IntArray
from shoal.rounding import LARGEST_POWER, UNIT, up

MOST_NODES = 1 << 22
"""The most nodes: their transform takes half a second; more only help more than 10⁷ copies."""
NEGLIGIBLE = -60.0
"""Nodes with |M(s)/M(θ)| below e^−60 are omitted and charged: less takes longer, more raises δ."""
_CLEAR = 24.0
"""Aliases stay below e^−24 of the answer, as that may be guessed too large; less is slower."""
_ALL_NODES = 1 << 15
"""Up to this many nodes all are computed: a transform costs less than a proof that few matter."""

ComplexArray = Complex


@dataclass(frozen=True, eq=False)
class LatticeMeasure:
    """A measure on multiples of a step, such as privacy losses and their masses under P.

    `positions` are the finite values in units of the step, ascending, and `infinite` is the mass at
    infinity.
    """

    step: float
    positions: IntArray
    masses: Array
    infinite: float = 0.0

    @cached_property
    def values(self) -> Array:
        """The finite values themselves."""
        return np.asarray(self.step * self.positions, dtype=np.float64)

    @cached_property
    def log_masses(self) -> Array:
        """The logarithm of each mass."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    @property
    def reach(self) -> int:
        """The largest finite value, or zero, in units of the step."""
        return max(int(self.positions[-1]), 0)

    @property
    def total(self) -> float:
        """The whole mass."""
        return float(self.masses.sum()) + self.infinite

    @property
    def mean(self) -> float:
        """The integral of the finite values, roughly."""
        return float((self.masses * self.values).sum())

    @property
    def mean_square(self) -> float:
        """The integral of the squares of the finite values, roughly."""
        return float((self.masses * self.values**2).sum())

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

    def split(
        self,
        halvings: int,
        left: Array,
        right: Array,
        *,
        roundings: float,
    ) -> "LatticeMeasure":
        """Return a measure on a lattice with 2^halvings times the step.

        Each mass goes to the two points next to it, in the parts `left` and `right`. Sums of parts
        are rounded up by the roundings of a part, and by those of all additions.
        """
        below = self.positions >> halvings
        places = np.concatenate((below, below + 1))
        positions, index = np.unique(places, return_inverse=True)
        sums = np.bincount(index, np.concatenate((left, right)))
        masses = up(np.asarray(sums, dtype=np.float64), roundings=roundings + len(index))
        kept = masses > 0
        step = math.ldexp(self.step, halvings)
        return LatticeMeasure(step, positions[kept], masses[kept], self.infinite)


class Kernel(NamedTuple):
    """κ(s) = scale/(2·sinh(sa/2)·2·sinh(sa/2 + shift)), the transform of a kernel."""

    scale: float
    shift: float

    def values(self, halves: ComplexArray) -> ComplexArray:
        """Return κ at nodes, given sa/2."""
        second = np.sinh(halves + self.shift)
        return np.asarray(self.scale / (2 * np.sinh(halves) * 2 * second))

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
    """The left side of (L1) with the step a, the tilt θ and N nodes, ready for any j.

    `places` are the nodes k that are kept, and `terms` are M(s)·κ(s)/(N·M(θ)) there, a node and its
    conjugate together. `slack` bounds the error of `log_moment`, which is log M(θ), and `abs_error`
    everything that rounding and omitted nodes change, over M(θ).
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
        # A term is that of a node and of its conjugate, but not at the ends.
        spectrum[0] *= 2
        spectrum[-1] *= 2
        return np.fft.irfft(spectrum, count)

    def upper(self, indices: IntArray, sums: Array) -> Array:
        """Return upper bounds of E[kernel(S − ja)] from the sums at each j in `indices`."""
        exponents, rounding = self._exponents(indices)
        with np.errstate(over="ignore", invalid="ignore"):
            scales = np.exp(exponents + rounding)
            bounds = (np.maximum(sums, 0.0) + self.abs_error) * scales
        return np.where(np.isnan(bounds), math.inf, bounds)

    def lower(self, indices: IntArray, sums: Array) -> Array:
        """Return lower bounds of e^{−θja} times the right side of (L1), aliases included."""
        exponents, rounding = self._exponents(indices)
        scales = np.exp(np.minimum(exponents - rounding, LARGEST_POWER))
        return np.asarray(np.maximum(sums - self.abs_error, 0.0) * scales)

    def _exponents(self, indices: IntArray) -> tuple[Array, Array]:
        """Return the logarithm of M(θ)·e^{−θja}, and a bound of its error."""
        shifts = self.tilt * self.step * indices
        sizes = 8 + abs(self.log_moment) + np.abs(shifts)
        rounding = self.slack + 32 * UNIT * sizes
        return np.asarray(self.log_moment - shifts), np.asarray(rounding)


class _Tilted(NamedTuple):
    """Copies of a measure at a tilt: weights that sum to one, and the error of their transform."""

    positions: IntArray
    copies: int
    weights: Array
    error: float

    @property
    def variance(self) -> float:
        """The tilted variance, in units of the step, roughly."""
        mean = float((self.weights * self.positions).sum())
        return float((self.weights * (self.positions - mean) ** 2).sum())


def node_sum(
    parts: Sequence[tuple[LatticeMeasure, int]],
    tilt: float,
    nodes: int,
    kernel: Kernel,
) -> NodeSum:
    """Return the left side of (L1) for a sum of independent finite values.

    `parts` are measures with the same step, and how many copies there are of each; `nodes`, N, is a
    power of two.
    """
    step = parts[0][0].step
    log_moment = 0.0
    slack = 0.0
    tilted = []
    for measure, copies in parts:
        log_part, weights = measure.tilted(tilt)
        # Below zero, weights fall faster than their errors grow.
        exponent = tilt * (step * measure.reach)
        log_moment += copies * log_part
        slack += copies * 16 * UNIT * (16 + abs(log_part) + 2 * exponent)
        # A transform adds up positions that are folded onto one; products of matrices add up all.
        added = len(weights)
        if nodes <= _ALL_NODES:
            added = int(np.bincount(measure.positions % nodes).max())
        roundings = 24 + math.log2(nodes) + exponent + abs(log_part)
        error = UNIT * (16 * roundings + added)  # (L5)
        tilted.append(_Tilted(measure.positions, copies, weights, error))
    places, values, errors, omitted = _products(tilted, nodes)
    # κ underflows at steeper tilts, and nothing is known there.
    half = min(0.5 * step * tilt, LARGEST_POWER / 2)
    heights = math.pi / nodes * places
    halves = np.asarray(half + 1j * heights, dtype=np.complex128)
    kappa = kernel.values(halves) / nodes
    # A node and its conjugate.
    kappa[(places > 0) & (2 * places < nodes)] *= 2
    charged = float((np.abs(kappa) * errors).sum())
    abs_error = charged + kernel.mean_size(half, nodes) * omitted
    if 0.5 * step * tilt > half:
        abs_error = math.inf
    return NodeSum(step, tilt, nodes, log_moment, slack, places, values * kappa, 1.001 * abs_error)


def _products(
    parts: Sequence[_Tilted],
    nodes: int,
) -> tuple[IntArray, ComplexArray, Array, float]:
    """Return the nodes k that are kept, M(s)/M(θ) there, and bounds of its errors.

    The last value bounds |M(s)/M(θ)| at all other nodes.
    """
    last, log_omitted = _last_node(parts, nodes)
    places = np.arange(last + 1)
    values = np.ones(last + 1, dtype=np.complex128)
    log_bounds = np.zeros(last + 1)
    for part in parts:
        factors = _transform(part, nodes, last)[places]
        log_bounds += part.copies * np.log(np.abs(factors) + part.error)
        kept = log_bounds > NEGLIGIBLE
        largest = float(log_bounds[~kept].max(initial=-math.inf))
        log_omitted = max(log_omitted, largest)
        places = places[kept]
        log_bounds = log_bounds[kept]
        # A factor of zero has a logarithm, too.
        logs = np.log(factors[kept] + 1e-300)
        values = values[kept] * np.exp(part.copies * logs)
    # (L4): an error of e in M changes Mⁿ by at most (|M| + e)ⁿ − |M|ⁿ; then powers, κ and phases.
    copies = sum(part.copies for part in parts)
    roundings = 64 * (copies + 8 * len(parts) + 64 + np.abs(log_bounds))
    roundings += 16 * math.log2(nodes)
    bounds = np.exp(log_bounds)
    errors = bounds - np.abs(values) + bounds * UNIT * roundings
    # After a node is omitted, no later factor exceeds one by more than its error.
    later = sum(part.copies * part.error for part in parts)
    return places, values, errors, math.exp(min(log_omitted + later, 0.0))


def _transform(part: _Tilted, nodes: int, last: int) -> ComplexArray:
    """Return Σ w·e^{2πikx/N} for the first nodes k, up to the last one."""
    if last == nodes // 2:
        folded = np.bincount(part.positions % nodes, part.weights, nodes)
        return np.conj(np.fft.rfft(folded))
    # e^{i(jm + k)x} = e^{ijmx}·e^{ikx}: one product of two matrices has all nodes.
    width = math.isqrt(last) + 1
    narrow = _phases(np.arange(width), part.positions, nodes)
    places = width * np.arange(last // width + 1)
    wide = _phases(places, part.positions, nodes) * part.weights
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
    """Return the last node that is computed, and a bound of log |M(s)/M(θ)| beyond it.

    The guard is a transform over coarser nodes. Between two of them, at a distance d, |M/M(θ)| of
    one measure is at most the larger of the two values plus d²/8 times the tilted variance (L7).
    """
    half = nodes // 2
    if nodes <= _ALL_NODES:
        return half, -math.inf
    # So many nodes that d² times the variance of the sum is small next to `NEGLIGIBLE`.
    variance = sum(part.copies * part.variance for part in parts)
    needed = 2 * math.pi * math.sqrt(variance / (0.8 * -NEGLIGIBLE))
    octaves = math.ceil(math.log2(max(needed, _ALL_NODES / 16)))
    guard = min(1 << octaves, half, MOST_NODES // 32)
    distance = 2 * math.pi / guard
    logs = np.zeros(guard // 2)
    for part in parts:
        coarse = np.abs(_transform(part, guard, guard // 2))
        curvature = 1.001 * distance**2 / 8 * part.variance
        ends = np.maximum(coarse[1:], coarse[:-1])
        bounds = ends + curvature + part.error  # (L7)
        logs += part.copies * np.log(np.minimum(bounds, 1.0))
    heavy = np.flatnonzero(logs > NEGLIGIBLE)
    first = int(heavy[-1]) + 1 if len(heavy) else 0
    last = min(half, first * (nodes // guard) + 1)
    # For each position, √last phases and products of matrices; a node of a transform costs four.
    positions = sum(len(part.positions) for part in parts)
    cost = positions * (4 * math.sqrt(last) + last / 16)
    if cost > min(nodes, MOST_NODES) * len(parts):
        # Of too many nodes all but one are omitted, which makes the bound useless.
        return (half, -math.inf) if nodes <= MOST_NODES else (0, 0.0)
    return last, float(logs[first:].max(initial=-math.inf))


def clear_period(
    tilt: float,
    log_answers: tuple[float, float],
    lowest: float,
    steeper: Iterable[tuple[float, float]],
) -> tuple[float, float]:
    """Return periods of (L1) with which aliases below, and above, do not count next to the answers.

    `log_answers` are the logarithms, roughly, of the answer at the lowest point, `lowest`, and at
    the highest one, and `steeper` are tilts τ > θ with log M(τ).
    """
    # Below, an alias is e^−θP. Above, it is e^θP times Chernoff's bound M(τ)e^{−τ(x + P)}.
    below = (_CLEAR - log_answers[1]) / tilt
    offset = _CLEAR - log_answers[0]
    above = ((moment - tau * lowest + offset) / (tau - tilt) for tau, moment in steeper)
    return below, min(above, default=0.0)
