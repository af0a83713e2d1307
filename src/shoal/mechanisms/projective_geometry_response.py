"""Projective geometry response: points of a projective space, more likely those in the hyperplane of the truth."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Indexed
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.finite_field import (
    Numbers,
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

__all__ = ["ProjectiveGeometryResponse"]

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
        given = (self.order, self.dimension, self.blocks)
        if given == (None, None, None):
            best = self._best(self.categories, self.local_epsilon)
            order, dimension, blocks = best["order"], best["dimension"], best["blocks"]
        elif None in given:
            raise ParameterError("give all of order, dimension and blocks, or none of them")
        else:
            order = check_prime(whole(order=self.order), "order")
            dimension = whole(dimension=self.dimension, least=2, most=64)
            blocks = whole(blocks=self.blocks)
            if blocks * points(order, dimension) < self.categories:
                raise ParameterError(
                    f"{blocks} spaces of {points(order, dimension)} points are too few for {self.categories} categories"
                )
        for name, value in (("order", order), ("dimension", dimension), ("blocks", blocks)):
            object.__setattr__(self, name, value)

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
        every, support, common = (points(order, dimension - less) for less in (0, 1, 2))
        return Design(outputs=blocks * every, supporting=support, common=common, blocks=blocks)

    @property
    def _parameters(self) -> tuple[int, int]:
        return self.order or 2, self.dimension or 2

    @cached_property
    def design(self) -> Design:
        """Any two points share (qᵗ⁻² − 1)/(q − 1) hyperplanes."""
        return self._layout(*self._parameters, self.blocks or 1)

    @property
    def _triples(self) -> tuple[tuple[float, float, float, float], ...]:
        """With one block, the points 0, 1 and q + 1 are on no line."""
        order, dimension = self._parameters
        if self.blocks != 1:
            return super()._triples
        if dimension < 3 or self.categories <= order + 1:
            return ()
        every, one, two, three = (points(order, dimension - less) for less in range(4))
        sets = (every - 3 * one + 3 * two - three, one - 2 * two + three, two - three, three)
        return (tuple(number / every for number in sets),)  # type: ignore[return-value]

    def _numbers_of(self, positions: Numbers) -> Numbers:
        """Return the vectors of points, as numbers: the highest digit that is not 0 is 1."""
        order, dimension = self._parameters
        numbers = positions
        for tail in range(dimension):
            offset = points(order, tail)
            inside = (positions >= offset) & (positions < points(order, tail + 1))
            numbers = np.where(inside, positions + np.uint64(order**tail - offset), numbers)
        return numbers

    def _places_of(self, vector: list[Numbers]) -> Numbers:
        """Return the points that these vectors span, none of them 0."""
        order, inverse = np.uint64(self._parameters[0]), inverses(self._parameters[0])
        factor = np.zeros_like(vector[0])
        position = np.zeros_like(vector[0])
        for tail in range(len(vector) - 1, -1, -1):  # the highest digit that is not 0 is made 1, and counts as offset
            first = (factor == 0) & (vector[tail] != 0)
            factor = np.where(first, inverse[vector[tail]], factor)
            digit = factor * vector[tail] % order
            position += np.where(first, np.uint64(points(int(order), tail)), digit * order ** np.uint64(tail))
        return position

    @cached_property
    def _hyperplanes(self) -> NDArray[np.uint32] | None:
        """The points of the hyperplane of each position that categories have, one after the other, if that is short."""
        order, dimension = self._parameters
        every, positions = points(order, dimension), -(-self.categories // self.design.blocks)
        if every * positions > _TABLE or order > _LARGEST_LINE:
            return None
        vectors = digits(self._numbers_of(np.arange(every, dtype=np.uint64)), order, dimension)
        table = np.array(vectors, np.float64).T  # a product is a whole number below 2³², and exact
        orthogonal = (table[:positions] @ table.T).astype(np.uint32) % np.uint32(order) == 0
        return np.nonzero(orthogonal)[1].astype(np.uint32)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Draw a point of the hyperplane: from its list, or all coordinates but one, and solve for that."""
        order, dimension = self._parameters
        drawn = coins.below(points(order, dimension - 1), len(values))
        if self._hyperplanes is not None:
            block, position = self._position(values)
            own = self._hyperplanes[position * values.dtype.type(self.design.supporting) + drawn]
            return np.asarray(own + block * values.dtype.type(points(order, dimension)), uniform.dtype)
        values = values.astype(np.uint64)
        block, position = self._position(values)
        truth = digits(self._numbers_of(position), order, dimension)
        lead = np.zeros_like(values)
        for tail in range(dimension):
            lead[truth[tail] != 0] = tail
        free = digits(self._numbers_of(drawn.astype(np.uint64)), order, dimension - 1)
        zero = np.zeros_like(values)
        vector = [
            np.where(lead > tail, free[tail] if tail < dimension - 1 else zero, free[tail - 1] if tail else zero)
            for tail in range(dimension)
        ]
        vector = [np.where(lead == tail, zero, part) for tail, part in enumerate(vector)]
        rest = (np.uint64(order) - product(truth, vector, order)) % np.uint64(order)
        vector = [np.where(lead == tail, rest, part) for tail, part in enumerate(vector)]
        return (block * np.uint64(points(order, dimension)) + self._places_of(vector)).astype(uniform.dtype)

    def _position(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        position, block = np.divmod(values, values.dtype.type(self.design.blocks))
        return block, position

    def supports(self, reports: Reports, values: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each report is orthogonal to the category next to it."""
        order, dimension = self._parameters
        block, position = self._position(np.asarray(values, np.uint64))
        given, point = np.divmod(np.asarray(reports, np.uint64), np.uint64(points(order, dimension)))
        first, second = (digits(self._numbers_of(each), order, dimension) for each in (point, position))
        return np.asarray((given == block) & (product(first, second, order) == 0))

    def supported_by(self, reports: Reports) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count the same from the reports themselves, and for the categories alone, not for all points.

        All digits but the lowest, y, are the same for q categories in a row. A report with digits u and u₀ ≠ 0 supports
        just one of them, y = −(h₁u₁ + h₂u₂ + …)/u₀; one with u₀ = 0 supports all of them or none.
        """
        if self.design.blocks > 1:
            return super().supported_by(reports)
        order, dimension = self._parameters
        high = [digit.astype(np.int64) for digit in digits(self._numbers_of(self._row_starts), order, dimension)[1:]]
        rows = np.zeros((len(high[0]), order), np.int64)
        first = 0
        negative = order - inverses(order).astype(np.int64)
        for start in range(0, len(reports), _AT_ONCE):
            part = np.asarray(reports[start : start + _AT_ONCE], np.uint64)
            lowest, *rest = (digit.astype(np.int64) for digit in digits(self._numbers_of(part), order, dimension))
            flat = lowest == 0
            first += int(np.count_nonzero(flat))
            flats = [digit[flat] for digit in rest]
            slopes = [digit[~flat] * negative[lowest[~flat]] % order for digit in rest]
            for row, factors in enumerate(zip(*(digit.tolist() for digit in high), strict=True)):
                rows[row] += np.bincount(_combined(factors, slopes, order), minlength=order)
                rows[row] += np.count_nonzero(_combined(factors, flats, order) == 0)
        support = np.concatenate([[first], rows.ravel()[: self.categories - 1]]).astype(np.float64)
        return support, np.full(1, float(len(reports)))

    @property
    def _row_starts(self) -> Numbers:
        """The first of every q points in a row: 1, q + 1, 2q + 1, …; the point 0 is by itself."""
        return np.arange(1, self.categories, self._parameters[0], dtype=np.uint64)

    def supported(self, cells: NDArray[np.int64], reports: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give each vector the count of its point; this does not change along a line, nor does its transform."""
        order, dimension = self._parameters
        if self.design.blocks == 1 and order**dimension > largest_transform:
            return self.supported_by(np.repeat(np.arange(len(cells), dtype=np.uint64), cells))
        table = cells.reshape(self.design.blocks, -1)
        vectors = digits(np.arange(1, order**dimension, dtype=np.uint64), order, dimension)
        wide = np.zeros((len(table), order**dimension), np.int64)
        wide[:, 1:] = table[:, self._places_of(vectors).astype(np.int64)]
        spectrum = spectrum_of(wide, order, dimension).real
        most = -(-self.categories // self.design.blocks)
        positions = self._numbers_of(np.arange(most, dtype=np.uint64)).astype(np.int64)
        blocks = table.sum(axis=1, dtype=np.float64)[:, None]
        result = np.rint((blocks + spectrum[:, positions]) / order)
        block = np.broadcast_to(blocks, result.shape)
        return result.T.ravel()[: self.categories], block.T.ravel()[: self.categories]


def _combined(factors: tuple[int, ...], vectors: list[NDArray[np.int64]], order: int) -> NDArray[np.int64]:
    """Return the sums of these vectors, each times its factor, modulo q."""
    total = np.zeros_like(vectors[0])
    for factor, vector in zip(factors, vectors, strict=True):
        if factor:
            total += vector if factor == 1 else vector * factor  # below t·q² in all
    return total % order
