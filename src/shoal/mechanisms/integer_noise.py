"""Noise on a grid, as whole numbers: the distribution of a report, and how it is drawn without comparing floats.

Laplace and normal noise are rounded to cells of a grid. The probability that a report lies below the edge of a cell is
a whole number of 2⁻¹¹⁵² or finer, from ball arithmetic: what rounding it costs is far below every δ that can be
printed. A draw compares 64 random bits with these numbers, and takes the others only where 64 do not decide
(docs/theory/numbers.md).
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from shoal.arrays import IntArray, WordArray
from shoal.errors import ParameterError
from shoal.mechanisms.coins import Coins

Ball = Any
"""A real ball of python-flint, which has no type stubs."""

_STEPS = 16
"""Steps of the grid to one scale of the noise, or more: rounding adds less than 0.2 % to the variance."""
_MOST_INTERVALS = 4096
_LAPLACE_REACH, _GAUSSIAN_REACH = 44.5, 9.25
"""Beyond this number of scales lies less than 2⁻⁶⁴ of the noise."""
LEAST_EPSILON, _MOST_EPSILON = 1e-9, 700.0
_BITS = 1152
_GUARD = 64
"""Bits of the balls beyond those of the thresholds."""
_GUIDE = 16
"""Most draws are decided by this number of bits."""


@dataclass(frozen=True)
class Grid:
    """The points to which numbers are rounded before the noise, and the cells in which they are reported after it."""

    intervals: int  # G; an input is one of the points 0, 1, …, G
    # Of a cell, in steps of the grid; more than 1 only where G = 1 and the noise is far wider
    # than the interval
    width: int
    margin: int  # how many cells there are beyond each end. The outermost ones reach to infinity

    @property
    def outputs(self) -> int:
        """How many cells there are."""
        return self.intervals + 2 * self.margin + 1

    @property
    def edges(self) -> range:
        """The numbers m of the upper edges 1/2 + width·m at which the noise around the point 0 is cut.

        Where all points share one distribution of the noise, it is cut as finely as the farthest of them needs.
        """
        span = self.margin + self.intervals
        if self.intervals == 1:
            return range(-self.margin, self.margin + 1)
        return range(-span, span)

    @classmethod
    def around(cls, scale: float, reach: float) -> "Grid":
        """Return the grid for noise of a scale, in units of the interval, that is cut at this reach, in scales.

        Nothing but IEEE operations that are the same everywhere: a client and a server must agree.
        """
        intervals = max(1, min(_MOST_INTERVALS, math.ceil(_STEPS / scale)))
        width = max(1, math.floor(scale / _STEPS)) if intervals == 1 else 1
        return cls(intervals, width, math.ceil(reach * scale * intervals / width) + 1)


@dataclass(frozen=True, eq=False)
class Noise:
    """The distribution of the reports of all points of a grid."""

    grid: Grid  # the points and the cells
    bits: int  # of the probabilities, a multiple of 64
    # Never falling numbers between 0 and 2**bits; a draw is how many of them a uniform number
    # has reached
    thresholds: tuple[int, ...]
    # What is added to a draw and a point to give a report; the result is moved into the cells
    # that exist. Where G = 1 it is 0, and a report of the point 1 is that of the point 0 in a
    # mirror
    first: int = 0

    def distribution(self, point: int) -> list[int]:
        """Return how many of 2**bits coins make each report, for this point."""
        edges = (0, *self.thresholds, 1 << self.bits)
        weights = [after - before for before, after in pairwise(edges)]
        if self.grid.intervals == 1:
            return weights[::-1] if point else weights
        top = self.grid.outputs - 1
        counts = [0] * self.grid.outputs
        for position, weight in enumerate(weights, start=point + self.first):
            counts[min(max(position, 0), top)] += weight
        return counts

    def _moment(self, power: int) -> Fraction:
        """Return the mean of a power of the report of the point 0."""
        total = sum(position**power * weight for position, weight in enumerate(self.distribution(0)))
        return Fraction(total, 1 << self.bits)

    @cached_property
    def centre(self) -> Fraction:
        """The mean report of the point 0."""
        return self._moment(1)

    @property
    def slope(self) -> Fraction:
        """By how much the mean report grows from a point to the next."""
        return (self.grid.outputs - 1 - 2 * self.centre) / self.grid.intervals

    @cached_property
    def variance(self) -> Fraction:
        """The variance of the reports of one point, in units of the interval."""
        length = self.slope * self.grid.intervals
        return (self._moment(2) - self.centre**2) / length**2

    @cached_property
    def _tops(self) -> WordArray:
        shift = self.bits - 64
        return np.array([threshold >> shift for threshold in self.thresholds], np.uint64)

    @cached_property
    def _guide(self) -> NDArray[np.int16]:
        """For each value of the first bits the draw, or −1 where they do not decide."""
        shift = np.uint64(64 - _GUIDE)
        starts = np.arange(1 << _GUIDE, dtype=np.uint64) << shift
        guide = np.searchsorted(self._tops, starts).astype(np.int16)
        guide[self._tops >> shift] = -1
        return guide

    def draw(self, count: int, coins: Coins) -> NDArray[np.int16]:
        """Return independent draws."""
        words = coins.words(count)
        leading = words >> np.uint64(64 - _GUIDE)
        draws = self._guide.take(leading.view(np.int64))
        unsure = np.flatnonzero(draws < 0)
        if len(unsure):
            draws[unsure] = self._search(words[unsure], coins)
        return draws

    def _search(self, words: WordArray, coins: Coins) -> NDArray[np.intp]:
        draws = np.searchsorted(self._tops, words, "left")
        equal = draws != np.searchsorted(self._tops, words, "right")
        for position in np.flatnonzero(equal):
            number = int(words[position])
            for word in coins.words(self.bits // 64 - 1):
                number = number << 64 | int(word)
            draws[position] = bisect_right(self.thresholds, number)
        return draws

    def reports(self, points: IntArray, coins: Coins) -> IntArray:
        """Return a report for each point."""
        draws = self.draw(len(points), coins)
        top = self.grid.outputs - 1
        if self.grid.intervals == 1:
            return np.where(points, top - draws, draws)
        points = points + draws
        points += self.first
        return np.clip(points, 0, top, out=points)

    def holds(self, local_epsilon: float) -> bool:
        """Tell whether the integers are proved to be ε₀-DP, for all pairs of points and all reports.

        Neighbouring points differ by a factor of at most e^(ε₀/G) in the probability of every report. A report is a
        cell inside, or one of the two outermost ones, whose probability is a tail.
        """
        with ctx.workprec(self.bits + _GUARD):
            growth = _below((arb(local_epsilon) / self.grid.intervals).exp(), self.bits)

        def close(one: int, two: int) -> bool:
            return max(one, two) << self.bits <= growth * min(one, two)

        if self.grid.intervals == 1:
            return all(map(close, self.distribution(0), self.distribution(1)))
        half = len(self.thresholds) // 2  # the distribution is symmetric
        cells = [after - before for before, after in pairwise(self.thresholds[: half + 1])]
        pairs = (*pairwise(self.thresholds[:half]), *pairwise(cells))
        return all(close(one, two) for one, two in pairs)


def _below(ball: Ball, bits: int) -> int:
    """Return a whole number of 2**−bits that is at most this, by less than two."""
    scaled = ball * arb(2) ** bits
    return int(scaled.lower().floor().fmpz())


def _table(grid: Grid, bits: int, tail: Callable[[Ball], Ball]) -> Noise:
    """Return the distribution from the probability of noise beyond a distance, in steps of the grid."""
    whole = 1 << bits
    tails: dict[int, int] = {}
    edges = [2 * grid.width * number + 1 for number in grid.edges]  # in half steps
    size = bits
    for distance in sorted({abs(edge) for edge in edges}):
        with ctx.workprec(size + _GUARD):  # a smaller probability has fewer bits
            tails[distance] = _below(tail(arb(distance) / 2), bits)
        size = tails[distance].bit_length()
        if not tails[distance]:  # and so are all others
            break
    thresholds = [tails.get(-edge, 0) if edge < 0 else whole - tails.get(edge, 0) for edge in edges]
    first = grid.margin + grid.edges[0] if grid.intervals > 1 else 0
    never = bisect_right(thresholds, 0)  # probabilities that are too small for these bits
    inside = tuple(part for part in thresholds if 0 < part < whole)
    return Noise(grid, bits, inside, first + never)


def laplace_grid(local_epsilon: float) -> Grid:
    """Return the grid of Laplace noise with this ε₀."""
    if not LEAST_EPSILON <= local_epsilon <= _MOST_EPSILON:
        raise ParameterError(
            f"to be run, Laplace noise needs a local_epsilon between {LEAST_EPSILON:g} and {_MOST_EPSILON:g}, "
            f"got {local_epsilon!r}"
        )
    return Grid.around(1 / local_epsilon, _LAPLACE_REACH)


@lru_cache(maxsize=64)
def laplace_noise(local_epsilon: float) -> Noise:
    """Return Laplace noise of a scale that is 1/ε₀ and 2⁻⁶⁰ of it more, which makes room for rounding."""
    grid = laplace_grid(local_epsilon)
    smallest = local_epsilon / math.log(2) + max(0.0, -math.log2(local_epsilon))
    bits = max(_BITS, 64 * math.ceil((160 + smallest) / 64))
    with ctx.workprec(bits + _GUARD):
        rate = arb(local_epsilon) * (1 - arb(2) ** -60) / grid.intervals
        noise = _table(grid, bits, lambda distance: (-rate * distance).exp() / 2)
    if not noise.holds(local_epsilon):
        raise ArithmeticError(f"the integers for local_epsilon={local_epsilon!r} could not be proved private")
    return noise


def gaussian_grid(deviation: float) -> Grid:
    """Return the grid of normal noise with this deviation, in units of the interval."""
    return Grid.around(deviation, _GAUSSIAN_REACH)


@lru_cache(maxsize=64)
def gaussian_noise(deviation: float) -> Noise:
    """Return normal noise of this deviation, in units of the interval."""
    grid = gaussian_grid(deviation)
    bits = _BITS
    with ctx.workprec(bits + _GUARD):
        factor = 1 / (arb(deviation) * grid.intervals * arb(2).sqrt())
        return _table(grid, bits, lambda distance: (factor * distance).erfc() / 2)


@lru_cache(maxsize=64)
def binary_noise(truth: int) -> Noise:
    """Return the distribution of one bit that is kept with this probability out of 2⁶⁴, and else drawn anew."""
    threshold = (1 << 127) + (truth << 63)
    return Noise(Grid(1, 1, 0), 128, (threshold,))
