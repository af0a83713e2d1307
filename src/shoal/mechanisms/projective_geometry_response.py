"""Projective geometry response: points of a projective space, more likely those in the hyperplane of the truth."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.arrays import BoolArray, IntArray, WordArray
from shoal.checks import store, whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Indexed, Supported, Triples
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.finite_field import (
    check_prime,
    digits,
    inverses,
    largest_transform,
    primes,
    product,
    spectrum_of,
)
from shoal.mechanisms.mechanism import Reports
from shoal.pairs.registry import register

_LARGEST_LINE = 2900
_SHARES = (1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""More blocks than are needed may be better."""
_TABLE = 1 << 22
"""Up to how many pairs of a point and a hyperplane are listed beforehand, within a few hundredths of a second."""
_AT_ONCE = 1 << 16
"""Reports that are compared with the categories at once, so that they stay near the processor."""


def points(order: int, dimension: int) -> int:
    """Return how many points the space has: (qᵗ − 1)/(q − 1)."""
    return (order**dimension - 1) // (order - 1) if dimension > 0 else 0


@register(
    "projective-geometry-response",
    "a point of a projective space, rather one in the hyperplane of the truth",
    code=4,
    planned=5,
)
@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometryResponse(Indexed):
    """The mechanism that reports a point, e^ε₀ times as often one in the hyperplane that belongs to the truth.

    Feldman, Nelson, Nguyen and Talwar, ICML 2022. The points of the space over the field of q elements, in t
    coordinates, are both the categories and the reports; a report supports the points it is orthogonal to. With h > 1
    blocks (their hybrid), the categories are dealt out to h copies of the space.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    order, dimension, blocks : int, optional
        q, a prime; t ≥ 2; h. If they are not given, the best ones where all categories are equally frequent, of all
        that can be decoded fast.

    Examples
    --------
    >>> ProjectiveGeometryResponse(categories=1000, local_epsilon=2)
    ProjectiveGeometryResponse(categories=1000, local_epsilon=2.0, order=7, dimension=5, blocks=1)
    """

    order: int | None = None
    dimension: int | None = None
    blocks: int | None = None

    def settle(self) -> None:
        """Check the parameters, or choose the best."""
        self._choose("order", "dimension", "blocks")
        order = check_prime(whole(order=self.order), "order")
        dimension = whole(dimension=self.dimension, least=2, most=64)
        blocks = whole(blocks=self.blocks)
        if blocks * points(order, dimension) < self.categories:
            raise ParameterError(
                f"{blocks} spaces of {points(order, dimension)} points are too few for {self.categories} categories"
            )
        store(self, order=order, dimension=dimension, blocks=blocks)

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield what can be decoded fast: spaces of three coordinates and more, one for all categories or several."""
        line = next((order for order in primes(_LARGEST_LINE) if order + 1 >= categories), None)
        if line is not None:
            yield {"order": line, "dimension": 2, "blocks": 1}, cls._layout(line, 2, 1)
        for order in primes(round(largest_transform ** (1 / 3))):
            for dimension in itertools.count(3):
                fewest = -(-categories // points(order, dimension))
                if fewest * order**dimension > largest_transform:
                    break
                for share in _SHARES:
                    blocks = math.ceil(fewest * share)
                    if blocks <= categories and blocks * order**dimension <= largest_transform:
                        parameters = {"order": order, "dimension": dimension, "blocks": blocks}
                        yield parameters, cls._layout(order, dimension, blocks)
                if fewest == 1:
                    break

    @staticmethod
    def _layout(order: int, dimension: int, blocks: int) -> Design:
        return Design(
            outputs=blocks * points(order, dimension),
            supporting=points(order, dimension - 1),
            common=points(order, dimension - 2),
            blocks=blocks,
        )

    @property
    def _parameters(self) -> tuple[int, int]:
        return self.order or 2, self.dimension or 2

    @cached_property
    def design(self) -> Design:
        """Any two points share (qᵗ⁻² − 1)/(q − 1) hyperplanes."""
        return self._layout(*self._parameters, self.blocks or 1)

    @property
    def _triples(self) -> Triples:
        """With one block, the points 0, 1 and q + 1 are on no line."""
        order, dimension = self._parameters
        if self.blocks != 1:
            return super()._triples
        if dimension < 3 or self.categories <= order + 1:
            return ()
        every, one, two, three = (points(order, dimension - less) for less in range(4))
        # By inclusion and exclusion: points on none of three hyperplanes, on the first only, on the first two only, on
        # all of them.
        none_of_them = (every - 3 * one + 3 * two - three) / every
        first_only = (one - 2 * two + three) / every
        first_two = (two - three) / every
        return ((none_of_them, first_only, first_two, three / every),)

    def _numbers_of(self, positions: WordArray) -> WordArray:
        """Return the vectors of points, as numbers: the highest digit that is not 0 is 1."""
        order, dimension = self._parameters
        numbers = positions
        for tail in range(dimension):
            offset = points(order, tail)
            inside = (positions >= offset) & (positions < points(order, tail + 1))
            numbers = np.where(inside, positions + np.uint64(order**tail - offset), numbers)
        return numbers

    def _places_of(self, vector: list[WordArray]) -> WordArray:
        """Return the points that these vectors span, none of them 0."""
        order = self._parameters[0]
        inverse = inverses(order)
        factor = np.zeros_like(vector[0])
        position = np.zeros_like(vector[0])
        for tail in reversed(range(len(vector))):
            # The highest digit that is not 0 is made 1, and counts as offset.
            first = (factor == 0) & (vector[tail] != 0)
            factor = np.where(first, inverse[vector[tail]], factor)
            digit = factor * vector[tail] % np.uint64(order)
            offset = np.uint64(points(order, tail))
            position += np.where(first, offset, digit * np.uint64(order**tail))
        return position

    @cached_property
    def _hyperplanes(self) -> NDArray[np.uint32] | None:
        """The points of the hyperplane of each position that categories have, one after the other, if that is short."""
        order, dimension = self._parameters
        every = points(order, dimension)
        positions = self._positions
        if every * positions > _TABLE or order > _LARGEST_LINE:
            return None
        numbers = self._numbers_of(np.arange(every, dtype=np.uint64))
        vectors = digits(numbers, order, dimension)
        table = np.array(vectors, np.float64).T  # a product is a whole number below 2³², and exact
        products = (table[:positions] @ table.T).astype(np.uint32)
        orthogonal = products % np.uint32(order) == 0
        return np.nonzero(orthogonal)[1].astype(np.uint32)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Draw a point of the hyperplane: from its list, or all coordinates but one, and solve for that."""
        order, dimension = self._parameters
        every = points(order, dimension)
        drawn = coins.below(self.design.supporting, len(values))
        if self._hyperplanes is not None:
            block, position = self._position(values)
            kind = values.dtype.type
            own = self._hyperplanes[position * kind(self.design.supporting) + drawn]
            return np.asarray(own + block * kind(every), uniform.dtype)
        block, position = self._position(values.astype(np.uint64))
        truth = digits(self._numbers_of(position), order, dimension)
        free = digits(self._numbers_of(drawn.astype(np.uint64)), order, dimension - 1)
        solved = self._solved(truth, free)
        return (block * np.uint64(every) + self._places_of(solved)).astype(uniform.dtype)

    def _solved(self, truth: list[WordArray], free: list[WordArray]) -> list[WordArray]:
        """Return vectors orthogonal to these, with all coordinates given but that of the highest digit."""
        order, dimension = self._parameters
        lead = np.zeros_like(truth[0])
        for tail in range(dimension):
            lead[truth[tail] != 0] = tail
        zero = np.zeros_like(lead)
        vector = []
        for tail in range(dimension):  # the coordinates beyond the one at `lead` are moved by one
            before = free[tail] if tail < dimension - 1 else zero
            behind = free[tail - 1] if tail else zero
            part = np.where(lead > tail, before, behind)
            vector.append(np.where(lead == tail, zero, part))
        missing = np.uint64(order) - product(truth, vector, order)
        rest = missing % np.uint64(order)
        return [np.where(lead == tail, rest, part) for tail, part in enumerate(vector)]

    @property
    def _positions(self) -> int:
        """How many positions of a block categories have."""
        return -(-self.categories // self.design.blocks)

    def _position(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        position, block = np.divmod(values, values.dtype.type(self.design.blocks))
        return block, position

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report is orthogonal to the category next to it."""
        order, dimension = self._parameters
        block, position = self._position(np.asarray(values, np.uint64))
        every = np.uint64(points(order, dimension))
        given, point = np.divmod(np.asarray(reports, np.uint64), every)
        first = digits(self._numbers_of(point), order, dimension)
        second = digits(self._numbers_of(position), order, dimension)
        orthogonal = product(first, second, order) == 0
        return np.asarray((given == block) & orthogonal)

    def supported_by(self, reports: Reports) -> Supported:
        """Count the same from the reports themselves, and for the categories alone, not for all points.

        All digits but the lowest, y, are the same for q categories in a row. A report with digits u and u₀ ≠ 0 supports
        just one of them, y = −(h₁u₁ + h₂u₂ + …)/u₀; one with u₀ = 0 supports all of them or none.
        """
        if self.design.blocks > 1:
            return super().supported_by(reports)
        order = self._parameters[0]
        # The first of every q points in a row: 1, q + 1, 2q + 1, …; the point 0 is counted apart.
        starts = np.arange(1, self.categories, order, dtype=np.uint64)
        _, *high = self._coordinates(starts)
        rows = np.zeros((len(starts), order), np.int64)
        first = 0
        negative = order - inverses(order).astype(np.int64)
        for start in range(0, len(reports), _AT_ONCE):
            part = np.asarray(reports[start : start + _AT_ONCE], np.uint64)
            lowest, *rest = self._coordinates(part)
            flat = lowest == 0
            first += int(np.count_nonzero(flat))
            flats = [digit[flat] for digit in rest]
            factor = negative[lowest[~flat]]
            slopes = [digit[~flat] * factor % order for digit in rest]
            for row, factors in enumerate(np.stack(high, axis=1).tolist()):
                rows[row] += np.bincount(_combined(factors, slopes, order), minlength=order)
                rows[row] += np.count_nonzero(_combined(factors, flats, order) == 0)
        others = rows.ravel()[: self.categories - 1]
        support = np.concatenate([[first], others]).astype(np.float64)
        return support, np.full(1, float(len(reports)))

    def _coordinates(self, positions: WordArray) -> list[IntArray]:
        """Return the coordinates of points, the lowest first."""
        order, dimension = self._parameters
        vectors = digits(self._numbers_of(positions), order, dimension)
        return [digit.astype(np.int64) for digit in vectors]

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Give each vector the count of its point; this does not change along a line, nor does its transform."""
        order, dimension = self._parameters
        if self.design.blocks == 1 and order**dimension > largest_transform:
            outputs = np.arange(len(cells), dtype=np.uint64)
            return self.supported_by(np.repeat(outputs, cells))
        table = cells.reshape(self.design.blocks, -1)
        size = order**dimension
        vectors = digits(np.arange(1, size, dtype=np.uint64), order, dimension)
        wide = np.zeros((len(table), size), np.int64)
        places = self._places_of(vectors)
        wide[:, 1:] = table[:, places.astype(np.int64)]
        spectrum = spectrum_of(wide, order, dimension).real
        used = self._numbers_of(np.arange(self._positions, dtype=np.uint64))
        positions = used.astype(np.int64)
        blocks = table.sum(axis=1, dtype=np.float64)[:, None]
        result = np.rint((blocks + spectrum[:, positions]) / order)
        block = np.broadcast_to(blocks, result.shape)
        return result.T.ravel()[: self.categories], block.T.ravel()[: self.categories]


def _combined(factors: tuple[int, ...], vectors: list[IntArray], order: int) -> IntArray:
    """Return the sums of these vectors, each times its factor, modulo q."""
    total = np.zeros_like(vectors[0])
    for factor, vector in zip(factors, vectors, strict=True):
        if factor:
            total += vector if factor == 1 else vector * factor  # below t·q² in all
    return total % order
