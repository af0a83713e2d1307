"""E[(S − x)₊] for sums S of copies of one lattice distribution, at many x and for one tilt at a time, from above.

As in `lattice`, for every tilt θ and number of nodes N the sum over the nodes s = θ + 2πik/(Na) is an upper bound.
Transforms are kept, tilt by tilt. Where only the first nodes matter, the transform there is a product of two matrices,
e^{i(16j + k)ωx} = e^{16ijωx}·e^{ikωx}, and a coarser one is the guard.
"""

import math
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT

__all__ = ["TiltedLattice"]

_SHORT, _GUARD, _LONGEST = 1 << 15, (1 << 11, 1 << 15), 1 << 20
"""Up to how many nodes all of them are transformed; how many the guard has, at least and at most; and how many nodes
there are at most."""
_WIDE, _MOST_ROWS = 16, 64
"""Nodes are computed in rows of 16; for more rows than these, all nodes are transformed."""
_DROPPED = 45.0
"""Nodes below exp(−45) of the largest are left out, and charged."""
_CLEAR = 15.0
"""Aliases are to stay below exp(−15) of the whole."""
_FEW = 64
"""Powers of fewer copies are products."""
_CHUNK = 1 << 17
_FEWEST, _TABLE, _MANY, _CHORD = 1 << 12, 1 << 18, 2048, 0.04
"""So few terms are added up one by one. Up to so many nodes, or where many matter, all sums are tabulated; else those
at points this far apart, over θ."""

Array = NDArray[np.float64]
_Number = TypeVar("_Number", np.float64, np.complex128)


class _Transform(NamedTuple):
    """M at the first nodes, over M(θ); how wrong each may be, and the logarithm of a bound of all others."""

    values: NDArray[np.complex128]
    error: float
    beyond: float


class _Terms(NamedTuple):
    """The terms of the sum over nodes that matter, a node and its conjugate together, and what is charged."""

    places: NDArray[np.int64]
    values: NDArray[np.complex128]
    margin: float


class TiltedLattice:
    """Sums of n, n − 1, n − 2, … copies of a lattice distribution, which may have a mass of less than one.

    Parameters
    ----------
    step : float
        a.
    positions, masses : numpy.ndarray
        The distribution, ascending.
    copies : int
        n.
    tilts : tuple of numpy.ndarray
        Those that may be asked for, ascending, and roughly log E[e^θX] of one copy.
    """

    def __init__(
        self, step: float, positions: NDArray[np.int64], masses: Array, copies: int, tilts: tuple[Array, Array]
    ) -> None:
        self.step, self.positions, self.copies = step, positions, copies
        self.tilts, self.moments = tilts
        self.values, self.logs = step * positions, np.log(masses)
        self.top = max(float(self.values[-1]), step)
        self._transforms: dict[tuple[int, int], _Transform] = {}
        self._terms_of: dict[tuple[int, int, int], _Terms] = {}
        self._tables: dict[tuple[int, int, int], Array] = {}
        self._moments: dict[int, float] = {}

    def _moment(self, tilt: int) -> float:
        """Return log E[e^θX] of one copy."""
        if tilt not in self._moments:
            exponents = self.logs + self.tilts[tilt] * self.values
            highest = float(exponents.max())
            self._moments[tilt] = highest + math.log(float(np.exp(exponents - highest).sum()))
        return self._moments[tilt]

    def upper(self, tilt: int, points: Array, fewer: int, steepest: float) -> Array:
        """Return upper bounds of E[(S − x)₊] for the sum of n − fewer copies.

        Parameters
        ----------
        tilt : int
            Which.
        points : numpy.ndarray
            x.
        fewer : int
            How many copies are left out.
        steepest : float
            About how fast the logarithm of the answers falls, at most: chords are to follow it.
        """
        power = self._power(tilt, self.copies - fewer, float(points.min()), float(points.max()))
        nodes = 1 << power
        terms = self._terms(tilt, power, fewer)
        scaled = points / self.step
        low = np.floor(scaled)
        share, index = scaled - low, low.astype(np.int64)
        tabulated = nodes <= _TABLE or (nodes <= _LONGEST and len(terms.places) > _MANY)
        if len(points) * len(terms.places) <= (max(nodes // 4, _FEWEST) if tabulated else 8 * _FEWEST):
            first, second = _sums(terms, index, nodes)
        elif tabulated:
            table = self._table(tilt, power, fewer, terms)
            first, second = table[index % nodes], table[(index + 1) % nodes]
        else:
            return self._chords(tilt, points, fewer, steepest)
        ends = self._scaled(tilt, fewer, terms, index, first), self._scaled(tilt, fewer, terms, index + 1, second)
        # Between two positions the mean of a ramp is linear.
        both = np.isfinite(ends[0]) & np.isfinite(ends[1])
        between = np.full(len(points), math.inf)
        between[both] = ends[0][both] + share[both] * (ends[1][both] - ends[0][both])
        return np.asarray(between * (1 + 16 * UNIT))

    def _scaled(self, tilt: int, fewer: int, terms: _Terms, index: NDArray[np.int64], sums: Array) -> Array:
        """Return upper bounds at x = index·a from the sums over nodes there."""
        theta, copies = float(self.tilts[tilt]), self.copies - fewer
        exponent = float(copies * self._moment(tilt))
        slack = copies * 16 * UNIT * (16 + theta * self.top + abs(self._moment(tilt)))
        shift = theta * self.step * index
        height = exponent - shift + slack + 32 * UNIT * (8 + abs(exponent) + np.abs(shift))
        with np.errstate(over="ignore"):
            known = (np.maximum(sums, 0.0) + terms.margin) * np.exp(np.minimum(height, 700.0))
        return np.where(height < 700, known, math.inf)

    def _chords(self, tilt: int, points: Array, fewer: int, steepest: float) -> Array:
        """Return upper bounds between fewer points: a convex function is below its chords."""
        gap = max(1, math.floor(_CHORD / (max(float(self.tilts[tilt]), steepest) * self.step)))
        first, last = (math.floor(float(end) / (gap * self.step)) for end in (points.min(), points.max()))
        index = gap * np.arange(first, last + 2)
        knots = np.asarray(self.step * index, dtype=np.float64)
        power = self._power(tilt, self.copies - fewer, float(knots[0]), float(knots[-1]))
        terms = self._terms(tilt, power, fewer)
        heights = self._scaled(tilt, fewer, terms, index, _even_sums(terms, gap * first, gap, len(index), 1 << power))
        return np.asarray(np.interp(points, knots, heights) * (1 + 16 * UNIT))

    def _power(self, tilt: int, copies: int, lowest: float, highest: float) -> int:
        """Return log₂ of enough nodes: with fewer, aliases would only make the bounds looser."""
        theta, moment = float(self.tilts[tilt]), self._moment(tilt)
        # Below: e^−θP·P against e^{K − θx}/θ². Above: Chernoff with a steeper tilt.
        period = (max(theta * highest - copies * moment, 0.0) + _CLEAR + 8) / theta
        steeper = self.tilts > 1.05 * theta
        if steeper.any():
            gaps = self.tilts[steeper] - theta
            rises = copies * (self.moments[steeper] - moment) - gaps * lowest
            period = max(period, float(((rises + _CLEAR) / gaps).min()))
        return min(max(8, math.ceil(math.log2(period / self.step))), 52)

    def _table(self, tilt: int, power: int, fewer: int, terms: _Terms) -> Array:
        key = (tilt, power, fewer)
        if key not in self._tables:
            nodes = 1 << power
            spectrum = np.zeros(nodes // 2 + 1, dtype=np.complex128)
            spectrum[terms.places] = np.conj(terms.values) * (nodes / 2)
            spectrum[0] *= 2
            if terms.places[-1] == nodes // 2:
                spectrum[-1] *= 2
            self._tables[key] = np.fft.irfft(spectrum, nodes)
        return self._tables[key]

    def _terms(self, tilt: int, power: int, fewer: int) -> _Terms:
        key = (tilt, power, fewer)
        if key not in self._terms_of:
            self._terms_of[key] = self._powers(tilt, power, self.copies - fewer)
        return self._terms_of[key]

    def _powers(self, tilt: int, power: int, copies: int) -> _Terms:
        """Return the n-th powers of the transform times κ(s)/N, and what rounding and leaving out may change."""
        nodes, theta = 1 << power, float(self.tilts[tilt])
        if (tilt, power) not in self._transforms:
            self._transforms[tilt, power] = self._transformed(tilt, nodes)
        transform = self._transforms[tilt, power]
        sizes = np.abs(transform.values)
        places = np.flatnonzero(sizes > math.exp(-_DROPPED / copies) - transform.error)
        values = transform.values
        if len(places) == nodes // 2 + 1:
            cosines, sines = _angles(nodes)
        else:
            values, sizes, angles = values[places], sizes[places], math.pi / nodes * places
            cosines, sines = np.cos(angles), np.sin(angles)
        # a/(N·(2·sinh(sa/2))²), and its size
        half, scale = 0.5 * self.step * theta, self.step / (4 * nodes)
        weights = scale / (math.sinh(half) ** 2 + sines**2)
        kernel = np.empty(len(places), dtype=np.complex128)
        kernel.real, kernel.imag = math.sinh(half) * cosines, -math.cosh(half) * sines
        kernel *= kernel
        kernel *= weights * weights / scale
        twice = slice(int(places[0] == 0), len(places) - int(2 * int(places[-1]) == nodes))
        kernel[twice] *= 2  # a node and its conjugate
        weights[twice] *= 2
        bounds = _raised(sizes + transform.error, copies)
        charged = float((weights * bounds).sum())
        # What is kept is at least e^−45: its logarithm is no larger, and neither is the error of a power.
        margin = float((weights * (bounds - _raised(sizes, copies))).sum()) + 64 * UNIT * (copies + 64) * charged
        # |2·sinh(x + iy)|² ≥ 4·(sinh²x + (2y/π)²): the sum of |κ|/N over all nodes is at most this.
        shape = math.sinh(half)
        all_nodes = self.step / (4 * nodes * shape**2) + self.step * math.pi / (8 * shape)
        left_out = math.exp(min(max(-_DROPPED, copies * transform.beyond), 0.0))
        sums = 128 + 4 * len(places)  # roundings of phases, and of sums in any order
        margin += left_out * all_nodes + sums * UNIT * charged
        return _Terms(places, _raised(values, copies) * kernel, 1.001 * margin)

    def _transformed(self, tilt: int, nodes: int) -> _Transform:
        theta = float(self.tilts[tilt])
        weights = np.exp(self.logs + theta * self.values - self._moment(tilt))
        error = 16 * UNIT * (24 + theta * self.top) + len(weights) * UNIT
        everything = nodes <= _SHORT
        beyond, last = -math.inf, nodes // 2
        if not everything:
            spread = float((weights * (self.values - float((weights * self.values).sum())) ** 2).sum())
            # As many as it takes for what a guard is off by between its nodes to hardly matter.
            needed = 2 * math.pi / self.step * math.sqrt(spread * self.copies / 0.8 / _DROPPED)
            guard = min(max(1 << math.ceil(math.log2(max(needed, 1.0))), _GUARD[0]), _GUARD[1])
            coarse = np.abs(np.fft.rfft(np.bincount(self.positions % guard, weights, guard)))
            distance = 2 * math.pi / (guard * self.step)
            bounds = np.maximum(coarse[1:], coarse[:-1]) + distance**2 / 8 * spread * 1.001 + error
            logs = np.log(np.minimum(bounds, 1.0))
            # For a few copies less it has to do as well.
            heavy = np.flatnonzero(max(self.copies - 8, 1) * logs > -_DROPPED)
            first = int(heavy[-1]) + 1 if len(heavy) else 0
            last = min(nodes // 2, math.ceil(first * (nodes / guard)) + 1)
            beyond = float(logs[first:].max(initial=-math.inf))
            everything = last > _WIDE * _MOST_ROWS and nodes <= _LONGEST
        if everything:
            values = np.conj(np.fft.rfft(np.bincount(self.positions % nodes, weights, nodes)))
            return _Transform(values, error, -math.inf)
        if last > _WIDE * _MOST_ROWS:  # too many: no bound from this tilt
            return _Transform(np.ones(1, dtype=np.complex128), error, 0.0)
        # Node 16j + k is a product of some e^{2πi·2^b·x/N}: at most ten factors, each off by less than 12 units.
        offsets, error = self.positions % nodes, error + 256 * UNIT
        narrow = np.ones((1, len(offsets)), dtype=np.complex128)
        for _ in range(_WIDE.bit_length() - 1):
            narrow, offsets = np.concatenate((narrow, narrow * _circle(offsets, nodes))), 2 * offsets % nodes
        wide, rows = weights.reshape(1, -1), last // _WIDE + 1
        while len(wide) < rows:
            wide, offsets = np.concatenate((wide, wide * _circle(offsets, nodes)))[:rows], 2 * offsets % nodes
        return _Transform((wide @ narrow.T).ravel()[: last + 1], error, beyond)


def _raised(values: NDArray[_Number], copies: int) -> NDArray[_Number]:
    """Return the n-th powers: of a few copies, products."""
    if copies >= _FEW:
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(copies * np.log(values)))
    result, square = None, values
    while True:
        if copies & 1:
            result = square if result is None else result * square
        copies >>= 1
        if not copies:
            return np.asarray(result)
        square = square * square


@lru_cache(maxsize=16)
def _angles(nodes: int) -> tuple[Array, Array]:
    """Return cos(πk/N) and sin(πk/N) for k up to N/2."""
    angles = math.pi / nodes * np.arange(nodes // 2 + 1)
    return np.cos(angles), np.sin(angles)


def _circle(offsets: NDArray[np.int64], nodes: int) -> NDArray[np.complex128]:
    """Return e^{2πix/N} for 0 ≤ x < N, each within 12 units: the angle is at most π, and rounded twice."""
    angles = 2 * math.pi / nodes * np.where(2 * offsets > nodes, offsets - nodes, offsets)
    result = np.empty(len(angles), dtype=np.complex128)
    np.cos(angles, out=result.real)
    np.sin(angles, out=result.imag)
    return result


def _phases(terms: _Terms, indices: NDArray[np.int64], nodes: int) -> NDArray[np.complex128]:
    """Return e^{−2πijk/N}, a row for each index j, a column for each node k."""
    return np.asarray(np.exp(-2j * math.pi / nodes * (np.multiply.outer(indices % nodes, terms.places) % nodes)))


def _sums(terms: _Terms, indices: NDArray[np.int64], nodes: int) -> NDArray[np.float64]:
    """Return the sums over nodes at each index, and at those next to them."""
    result = np.empty((2, len(indices)))
    both = np.stack((terms.values, terms.values * _phases(terms, np.ones(1, dtype=np.int64), nodes)[0]), axis=1)
    rows = max(1, _CHUNK // max(len(terms.places), 1))
    for start in range(0, len(indices), rows):
        result[:, start : start + rows] = (_phases(terms, indices[start : start + rows], nodes) @ both).real.T
    return result


def _even_sums(terms: _Terms, first: int, gap: int, count: int, nodes: int) -> Array:
    """Return the sums over nodes at indices that are equally far apart: the product of two matrices has all of them."""
    width = math.isqrt(count - 1) + 1
    wide = _phases(terms, first + gap * width * np.arange(-(-count // width)), nodes) * terms.values
    narrow = _phases(terms, gap * np.arange(width), nodes)
    return np.asarray(wide.real @ narrow.real.T - wide.imag @ narrow.imag.T).ravel()[:count]
