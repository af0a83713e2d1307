"""E[(S − x)₊] for a sum S of n independent copies of a distribution with many values, all multiples of one step.

As in `convolution`, with a ramp instead of the hockey stick: at a tilt θ and the nodes s = θ + 2πik/(Na),

    (1/N) · Σ_k  M(s)ⁿ · κ(s) · e^{−2πijk/N}      =      Σ_l  e^{θ(j + lN)a} · E[(S − (j + lN)a)₊],

κ(s) = Σ_{m ≥ 1} ma·e^−sma = a/(2·sinh(sa/2))², and again every term on the right is non-negative: whatever θ and N
are, this is an upper bound. M decays so fast off the real axis that only the first nodes matter; a guard, a fast
Fourier transform over coarser nodes, proves that the others do not: between two of its nodes |M| is at most the
larger of its two values plus (their distance)²/8 times the tilted second moment.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT

__all__ = ["LatticeDistribution", "RampSum", "Transform"]

_GUARD = 1 << 18
_SHORT, _LONGEST = 1 << 17, 1 << 20
"""Up to how many nodes all of them are transformed, in any case, and if more than a few matter."""
_MOST_TERMS = 1e8
_MOST_TURNS, _BLOCK = 4e6, 1 << 18
"""How many terms may be added up for all x together, and how many of them at once."""
_STEEPEST = 1200.0
_DROPPED = 60.0
"""Terms below exp(−60) of the largest are left out, and charged."""


class RampSum(NamedTuple):
    """The transform of the sum at one tilt, ready for every x on the lattice."""

    step: float
    tilt: float
    nodes: int
    log_moment: float
    slack: float
    positions: NDArray[np.int64]
    terms: NDArray[np.complex128]
    margin: float

    def upper(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return upper bounds of E[(S − x)₊] at x = index·step; none, if that would take too long."""
        if len(indices) * len(self.positions) > _MOST_TURNS:
            return np.full(len(indices), math.inf)
        rows = max(1, _BLOCK // max(len(self.positions), 1))
        parts = (indices[start : start + rows] for start in range(0, len(indices), rows))
        sums = np.concatenate([np.zeros(0), *map(self._sums, parts)])
        shifts = self.tilt * self.step * indices
        slack = self.slack + 32 * UNIT * (8 + abs(self.log_moment) + np.abs(shifts))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.asarray(np.maximum(sums + self.margin, 0.0) * np.exp(self.log_moment - shifts + slack))

    def _sums(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        turns = np.multiply.outer(indices % self.nodes, self.positions) % self.nodes
        return np.asarray((self.terms * np.exp(-2j * math.pi / self.nodes * turns)).real.sum(axis=-1))


class Transform(NamedTuple):
    """M at the nodes that matter, at one tilt, relative to M(θ); and how wrong it may be."""

    step: float
    tilt: float
    nodes: int
    log_moment: float
    size: float
    values: NDArray[np.complex128]
    error: float
    beyond: float

    def power(self, copies: int) -> RampSum:
        """Return the sum of this many copies."""
        positions = np.arange(len(self.values))
        points = 0.5 * self.step * self.tilt + 1j * math.pi * positions / self.nodes
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = self.step / (2 * np.sinh(points)) ** 2 / self.nodes
        kernel[1:] *= 2  # a node and its conjugate
        if 2 * int(positions[-1]) == self.nodes:
            kernel[-1] /= 2
        with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
            sizes = np.abs(self.values)
            log_bounds = copies * np.log(sizes + self.error)
            bounds = np.exp(log_bounds) * np.abs(kernel)
            kept = bounds > 1e-24 * bounds.max()
            beyond = float(bounds[~kept].sum()) + self.beyond
            # Most are not kept: complex powers are taken of the others only.
            values, sizes, log_bounds, bounds = self.values[kept], sizes[kept], log_bounds[kept], bounds[kept]
            terms = np.exp(copies * np.log(values)) * kernel[kept]
            terms[~np.isfinite(terms)] = 0.0
            wrong = -np.expm1(copies * np.log(sizes) - log_bounds) + 64 * UNIT * (copies + 8 + np.abs(log_bounds))
        margin = 1.001 * (float((bounds * wrong).sum()) + beyond)
        if self.step * self.tilt > _STEEPEST:  # the kernel leaves the range of doubles
            margin = math.inf
        slack = copies * 16 * UNIT * (self.size + abs(self.log_moment))
        log_moment = copies * self.log_moment
        return RampSum(self.step, self.tilt, self.nodes, log_moment, slack, positions[kept], terms, margin)


class LatticeDistribution(NamedTuple):
    """A measure on multiples of a step: its positions, ascending, and its masses."""

    step: float
    positions: NDArray[np.int64]
    masses: NDArray[np.float64]

    def log_moment(self, tilt: float) -> tuple[float, NDArray[np.float64]]:
        """Return log M(θ) and the tilted masses, summing to one."""
        exponents = np.log(self.masses) + tilt * self.step * self.positions
        highest = float(exponents.max())
        weights = np.exp(exponents - highest)
        total = float(weights.sum())
        return highest + math.log(total), weights / total

    def transform(self, tilt: float, period: float, copies: int, most: float = _MOST_TERMS) -> "Transform":
        """Transform the distribution at this tilt, for sums of `copies` or more; aliases are `period` apart or more."""
        log_part, weights = self.log_moment(tilt)
        reach = self.step * float(max(self.positions[-1], 0))  # to the left, weights fall faster than their errors grow
        error = 16 * UNIT * (24 + tilt * reach)
        nodes = 1 << max(8, math.ceil(math.log2(period / self.step)))
        last, beyond = self._last(weights, copies, nodes, error) if nodes > _SHORT else (nodes, 0.0)
        if nodes <= _LONGEST and last * len(self.positions) > 2 * nodes:
            values, beyond = np.conj(np.fft.rfft(np.bincount(self.positions % nodes, weights, nodes))), 0.0
        else:
            if last * len(self.positions) > most:  # too slow: no bound from this tilt
                last, beyond = 0, math.inf
            starts = range(0, last + 1, 256)
            blocks = [self._values(weights, np.arange(k, min(k + 256, last + 1)), nodes) for k in starts]
            values = np.concatenate(blocks)
        return Transform(self.step, tilt, nodes, log_part, 16 + 2 * tilt * reach, values, error, beyond)

    def _values(self, weights: NDArray[np.float64], nodes: NDArray[np.int64], count: int) -> NDArray[np.complex128]:
        turns = np.multiply.outer(nodes, self.positions % count) % count
        angles = 2 * math.pi / count * turns
        return np.asarray((weights * np.cos(angles)).sum(axis=1) + 1j * (weights * np.sin(angles)).sum(axis=1))

    def _last(self, weights: NDArray[np.float64], copies: int, nodes: int, error: float) -> tuple[int, float]:
        """Return the last node that matters, and a bound of the sum of all others."""
        coarse = np.abs(np.fft.rfft(np.bincount(self.positions % _GUARD, weights, _GUARD)))
        distance = 2 * math.pi / (_GUARD * self.step)
        second = float((weights * (self.step * self.positions) ** 2).sum())
        between = np.maximum(coarse[1:], coarse[:-1]) + distance**2 / 8 * second * 1.001 + error
        with np.errstate(divide="ignore"):
            exponents = copies * np.log(between)
        heavy = np.flatnonzero(exponents > -_DROPPED)
        first = int(heavy[-1]) + 1 if len(heavy) else 0
        last = min(nodes // 2, math.ceil(first * (nodes / _GUARD)))
        # (2/N)·Σ |κ| over the rest, with |2·sinh| ≥ 4k/N for k ≤ N/2: at most a·N/(8·last).
        worst = math.exp(float(exponents[first:].max())) if first < len(exponents) else 0.0
        return last, worst * self.step * nodes / (8 * max(last, 1)) * 1.01
