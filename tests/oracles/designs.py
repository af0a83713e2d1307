"""Support designs for k categories, listed output by output from their definitions, and what follows exactly.

A design says which outputs support which categories. With probability λ a report is uniform on the outputs that support
the truth, else uniform on all of them (docs/theory/frequency.md). Everything is a fraction; nothing is shared with the
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

Row = tuple[Fraction, Fraction, Fraction]
"""R₀/ω, R₁/ω and the probability under the blanket ω."""


@dataclass(frozen=True)
class Design:
    """Outputs, the set of those that support each category, and the block of each category."""

    outputs: tuple[Any, ...]
    supports: tuple[frozenset[Any], ...]
    homes: tuple[frozenset[Any], ...]
    """All outputs of the block in which the category lives."""

    @property
    def categories(self) -> int:
        return len(self.supports)

    @property
    def sizes(self) -> set[int]:
        """How many outputs support a category, each number that occurs."""
        return {len(support) for support in self.supports}

    def commons(self, *, same_block: bool) -> set[int]:
        """How many outputs two categories share, each number that occurs among pairs of one block, or of two."""
        return {
            len(self.supports[x] & self.supports[z])
            for x, z in combinations(range(self.categories), 2)
            if (self.homes[x] == self.homes[z]) == same_block
        }

    @property
    def everybody(self) -> int:
        """How many outputs support all categories."""
        return len(frozenset.intersection(*self.supports))

    def matrix(self, truth: Fraction) -> list[list[Fraction]]:
        """Return R_x(y) as exact fractions."""
        count = len(self.outputs)
        return [[truth * (y in s) / len(s) + (1 - truth) / count for y in self.outputs] for s in self.supports]


def _one_block(outputs: Iterable[Any], supports: Iterable[Iterable[Any]]) -> Design:
    listed, sets = tuple(outputs), tuple(frozenset(support) for support in supports)
    return Design(listed, sets, (frozenset(listed),) * len(sets))


def blocked(inner: Design, categories: int, blocks: int) -> Design:
    """Return copies of a design side by side, the categories dealt out to them in turn."""
    outputs = tuple((block, y) for block in range(blocks) for y in inner.outputs)
    supports = tuple(frozenset((x % blocks, y) for y in inner.supports[x // blocks]) for x in range(categories))
    homes = tuple(frozenset((x % blocks, y) for y in inner.outputs) for x in range(categories))
    return Design(outputs, supports, homes)


def randomized_response(categories: int) -> Design:
    """Return the design in which an output supports itself."""
    return _one_block(range(categories), ([x] for x in range(categories)))


def subset_selection(categories: int, size: int) -> Design:
    """Return the design whose outputs are all sets of this size; each supports its members."""
    subsets = list(combinations(range(categories), size))
    return _one_block(subsets, ([y for y in subsets if x in y] for x in range(categories)))


def sylvester(order: int) -> list[list[int]]:
    """Return the Hadamard matrix of an order that is a power of two, by doubling."""
    matrix = [[1]]
    while len(matrix) < order:
        matrix = [row + row for row in matrix] + [row + [-entry for entry in row] for row in matrix]
    return matrix


def hadamard(categories: int, blocks: int = 1) -> Design:
    """Return blocks of columns; a category has a row, not the first one, and the columns with a plus support it."""
    inside = -(-categories // blocks)
    order = 2
    while order < inside + 1:
        order *= 2
    rows = sylvester(order)[1 : inside + 1]
    inner = _one_block(range(order), ([y for y in range(order) if row[y] == 1] for row in rows))
    return blocked(inner, categories, blocks)


def recursive_hadamard(categories: int, blocks: int = 1) -> Design:
    """Return the outputs (block, (row, sign)); a category has a column, and its sign in each row supports it."""
    inside = -(-categories // blocks)
    order = 1
    while order < inside:
        order *= 2
    signs = sylvester(order)
    inner = _one_block(
        product(range(order), (1, -1)), ([(row, signs[row][x]) for row in range(order)] for x in range(inside))
    )
    return blocked(inner, categories, blocks)


def recursive_response(categories: int, blocks: int, ratio: Fraction) -> list[list[Fraction]]:
    """Return the matrix of Chen et al.: a uniform row, then randomized response on (block, sign) given the row."""
    design = recursive_hadamard(categories, blocks)
    signs = sylvester(len(design.outputs) // (2 * blocks))
    low = 1 / ((ratio + 2 * blocks - 1) * len(signs))
    return [
        [
            low * (ratio if (block, sign) == (x % blocks, signs[row][x // blocks]) else 1)
            for block, (row, sign) in design.outputs
        ]
        for x in range(categories)
    ]


def projective_points(dimension: int, order: int) -> list[tuple[int, ...]]:
    """Return the lines through 0 of F_q^t, q prime, each by its vector whose first entry that is not 0 is 1."""
    vectors = product(range(order), repeat=dimension)
    return [vector for vector in vectors if next((entry for entry in vector if entry), 0) == 1]


def projective(categories: int, order: int, dimension: int, blocks: int = 1) -> Design:
    """Return blocks of points; a category is a point, and the points orthogonal to it support it."""
    points = projective_points(dimension, order)
    inside = -(-categories // blocks)
    if inside > len(points):
        raise ValueError(f"{len(points)} points in a block are too few for {inside} categories")
    inner = _one_block(points, ([y for y in points if _dot(x, y) % order == 0] for x in points[:inside]))
    return blocked(inner, categories, blocks)


def private_independent(categories: int, order: int, window: int) -> Design:
    """Return all affine functions on F_Q^t; one supports a category if its value there is below the window."""
    vectors = _vectors(categories, order)
    functions = list(product(range(order), repeat=len(vectors[0]) + 1))
    return _one_block(
        functions, ([v for v in functions if (v[0] + _dot(v[1:], x)) % order < window] for x in vectors[:categories])
    )


def local_hashing(categories: int, buckets: int) -> Design:
    """Return the pairs (linear map, bucket); a category is supported by the bucket into which the map puts it."""
    vectors = _vectors(categories, buckets)
    seeds = list(product(range(buckets), repeat=len(vectors[0])))
    return _one_block(
        product(seeds, range(buckets)), ([(a, _dot(a, x) % buckets) for a in seeds] for x in vectors[:categories])
    )


def pool(functions: Sequence[Sequence[int]], buckets: int) -> Design:
    """Return the pairs (number of a hash function, bucket) of a pool of functions, each given by its values."""
    return _one_block(
        product(range(len(functions)), range(buckets)),
        ([(i, function[x]) for i, function in enumerate(functions)] for x in range(len(functions[0]))),
    )


def blanket_rows(matrix: Sequence[Sequence[Fraction]], x: int, z: int) -> list[Row]:
    """Return the likelihoods of two categories beside the largest blanket min_x R_x, and their probabilities."""
    rows: dict[tuple[Fraction, Fraction], Fraction] = {}
    for column in zip(*matrix, strict=True):
        low = min(column)
        place = (column[x] / low, column[z] / low)
        rows[place] = rows.get(place, Fraction(0)) + low
    return [(one, two, probability) for (one, two), probability in rows.items()]


def blanket_delta(rows: Iterable[Row], factor: Fraction, reports: int) -> Fraction:
    """Return E[(W₁ + … + Wₙ)₊]/n exactly, W = R₀/ω − factor·R₁/ω, and 0 with the probability that is left."""
    distribution: dict[Fraction, Fraction] = {}
    for one, two, probability in rows:
        distribution[one - factor * two] = distribution.get(one - factor * two, Fraction(0)) + probability
    distribution[Fraction(0)] = distribution.get(Fraction(0), Fraction(0)) + 1 - sum(distribution.values())
    total = {Fraction(0): Fraction(1)}
    for _ in range(reports):
        longer: dict[Fraction, Fraction] = {}
        for value, mass in total.items():
            for step, probability in distribution.items():
                longer[value + step] = longer.get(value + step, Fraction(0)) + mass * probability
        total = longer
    return sum((mass * value for value, mass in total.items() if value > 0), Fraction(0)) / reports


def shuffled_delta(
    matrix: Sequence[Sequence[Fraction]], one: Sequence[int], two: Sequence[int], factor: Fraction
) -> Fraction:
    """Return the sum of (P − factor·Q)₊ over the multisets of reports on two datasets."""
    first, second = _shuffled(matrix, one), _shuffled(matrix, two)
    return sum((max(mass - factor * second[key], Fraction(0)) for key, mass in first.items()), Fraction(0))


def _shuffled(matrix: Sequence[Sequence[Fraction]], inputs: Sequence[int]) -> dict[tuple[int, ...], Fraction]:
    """Return the distribution of the multiset of reports, one person at a time."""
    distribution: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for x in inputs:
        longer: dict[tuple[int, ...], Fraction] = {}
        for reports, mass in distribution.items():
            for y, probability in enumerate(matrix[x]):
                key = tuple(sorted((*reports, y)))
                longer[key] = longer.get(key, Fraction(0)) + mass * probability
        distribution = longer
    return distribution


def _vectors(categories: int, order: int) -> list[tuple[int, ...]]:
    """Return F_q^t for the least t ≥ 1 at which there are vectors enough."""
    dimension = 1
    while order**dimension < categories:
        dimension += 1
    return list(product(range(order), repeat=dimension))


def _dot(one: Sequence[int], two: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(one, two, strict=True))
