"""Hadamard response, and its recursive form, which reports a random row and the sign that it has at the truth.

A report of Hadamard response is a random column of a Hadamard matrix, more likely one that has a plus in the row of the
truth.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import Array, BoolArray, IntArray, WordArray
from shoal.checks import store, whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Indexed, Supported, Triples
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.mechanism import Reports
from shoal.pairs.registry import register


def power_above(number: int) -> int:
    """Return the smallest power of two that is at least this number."""
    return 1 << max(number - 1, 0).bit_length()


def negative(rows: WordArray, columns: WordArray) -> BoolArray:
    """Return where Sylvester's matrix has −1: an odd number of common bits."""
    return np.asarray(np.bitwise_count(rows & columns) & 1, np.bool_)


@cache
def _matrix(order: int) -> Array:
    rows = np.arange(order, dtype=np.uint64)[:, None]
    return np.where(negative(rows, rows.T), -1.0, 1.0)


def transform(table: IntArray | Array) -> Array:
    """Return the product of each row with the Hadamard matrix of its length, a power of two.

    Sixteen at a time, each step a small matrix product. Whole numbers up to 2⁵³ stay exact.
    """
    left = table.shape[1]
    bits = (left - 1).bit_length()
    steps = -(-bits // 4)
    result = np.ascontiguousarray(table, dtype=np.float64)
    done = 0
    for step in range(1, steps + 1):
        until = -(-bits * step // steps)
        radix = 1 << (until - done)  # about equal, and 16 at most
        done = until
        left //= radix
        if left > 1:
            result = np.matmul(_matrix(radix), result.reshape(-1, radix, left))
        else:
            result = result.reshape(-1, radix) @ _matrix(radix)
    return result.reshape(table.shape)


@dataclass(frozen=True, kw_only=True)
class Blocked(Indexed):
    """What the two Hadamard mechanisms have in common: a power of two of blocks, category x in block x mod B."""

    blocks: int | None = None

    def settle(self) -> None:
        """Check the blocks, or choose the best."""
        self._choose("blocks")
        blocks = whole(blocks=self.blocks)
        most = power_above(self.categories) // 2
        if blocks & (blocks - 1) or blocks > most:
            raise ParameterError(
                f"blocks must be a power of two, at most {most} for {self.categories} categories, got {blocks}",
                "blocks",
            )
        store(self, blocks=blocks)

    @classmethod
    @abstractmethod
    def _layout(cls, categories: int, blocks: int) -> Design:
        """Return the design with this number of blocks."""

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield the designs with 1, 2, 4, … blocks, of two categories at least."""
        for power in range((power_above(categories) // 2).bit_length()):
            yield {"blocks": 1 << power}, cls._layout(categories, 1 << power)

    @cached_property
    def design(self) -> Design:
        """Two categories of a block share half of the outputs that support one of them."""
        return self._layout(self.categories, self.blocks or 1)

    @property
    def _everybody(self) -> float:
        """With one block, column 0, or row 0 with a plus, supports every category; nothing else does."""
        return 1 / self.outputs if self.blocks == 1 else 0.0

    @property
    def _size(self) -> int:
        """How many outputs a block has."""
        return self.outputs // self.design.blocks

    def _position(self, values: Reports) -> tuple[Reports, Reports]:
        """Return the block and the position in it."""
        kind = values.dtype.type
        shift = kind(self.design.blocks.bit_length() - 1)
        return values & kind(self.design.blocks - 1), values >> shift

    def _within(self, block: Reports, output: Reports) -> Reports:
        """Return the output of the mechanism, from a block and an output within it."""
        if self.design.blocks == 1:
            return output
        shift = output.dtype.type(self._size.bit_length() - 1)
        return np.asarray(output | block << shift)

    def _parts(self, reports: Reports, values: ArrayLike) -> tuple[BoolArray, Reports, Reports]:
        """Return whether reports are in the block of the values, the outputs within it, and the positions."""
        block, position = self._position(np.asarray(values, np.uint64))
        outputs = np.asarray(reports, np.uint64)
        given, output = np.divmod(outputs, np.uint64(self._size))
        return given == block, output, position

    def _spread(self, blocks: Array) -> Array:
        """Return what each category has, from a table with a row for each block and a column for each position."""
        return np.ascontiguousarray(blocks.T).ravel()[: self.categories]


@register("hadamard-response", "a column of a Hadamard matrix, rather one with a plus at the truth", code=2, planned=2)
@dataclass(frozen=True, kw_only=True)
class HadamardResponse(Blocked):
    """The mechanism that reports a block and a column, e^ε₀ times as often one with a plus in the row of the truth.

    The categories are dealt out to B blocks. In its block, category x has a row of its own of the Hadamard matrix of
    order b, the power of two next above their number. Row 0 is not used (Acharya, Sun and Zhang, AISTATS 2019).

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    blocks : int, optional
        B, a power of two; if it is not given, the best where all categories are equally frequent.

    Examples
    --------
    >>> HadamardResponse(categories=100, local_epsilon=4)
    HadamardResponse(categories=100, local_epsilon=4.0, blocks=32)
    >>> HadamardResponse(categories=100, local_epsilon=1, blocks=1).outputs
    128
    """

    @classmethod
    def _layout(cls, categories: int, blocks: int) -> Design:
        fullest = -(-categories // blocks)
        order = 1 << fullest.bit_length()
        return Design(
            outputs=blocks * order,
            supporting=order // 2,
            common=order // 4,
            blocks=blocks,
        )

    @property
    def _triples(self) -> Triples:
        """Three rows are independent, unless one is the product of the others: 1, 2 and 3 are not; 1, 2 and 4 are."""
        if self.blocks != 1:
            return super()._triples
        dependent = (0.0, 0.25, 0.0, 0.25)
        independent = (0.125,) * 4
        if self.categories < 3:
            return ()
        return (dependent, independent) if self.categories >= 4 else (dependent,)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Keep the column if it has a plus; else flip the lowest bit of the row in it, which changes the sign."""
        kind = values.dtype.type
        block, row = self._position(values)
        row += kind(1)
        column = uniform & kind(self._size - 1)
        lowest = row & (~row + kind(1))
        column ^= lowest * (np.bitwise_count(row & column) & np.uint8(1))
        return self._within(block, column)

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report has a plus in the row of the category next to it."""
        inside, column, row = self._parts(reports, values)
        return np.asarray(inside & ~negative(row + np.uint64(1), column))

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return the counts of all rows, by one transform for each block."""
        result = transform(cells.reshape(self.design.blocks, -1))
        rows = result[:, 1:]
        block = np.broadcast_to(result[:, :1], rows.shape)  # row 0 adds all columns up
        return self._spread((block + rows) / 2), self._spread(block)


@register("recursive-hadamard-response", "a row of a Hadamard matrix, and its sign at the truth", code=3, planned=3)
@dataclass(frozen=True, kw_only=True)
class RecursiveHadamardResponse(Blocked):
    """The mechanism that draws a row, and reports it with a block and a sign: randomized response over those two.

    Chen, Kairouz and Özgür, NeurIPS 2020. There the server knows the row from who the client is; here the report
    carries it, since nobody knows who sent a shuffled report.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    blocks : int, optional
        B, a power of two; if it is not given, the best where all categories are equally frequent.

    Examples
    --------
    >>> RecursiveHadamardResponse(categories=1000, local_epsilon=4).bits_per_report
    11
    """

    @classmethod
    def _layout(cls, categories: int, blocks: int) -> Design:
        fullest = -(-categories // blocks)
        rows = power_above(fullest)
        return Design(
            outputs=2 * rows * blocks,
            supporting=rows,
            common=rows // 2,
            blocks=blocks,
        )

    @property
    def _triples(self) -> Triples:
        """With one block, any three signs are independent."""
        if self.blocks != 1:
            return super()._triples
        return ((0.125,) * 4,) if self.categories >= 3 else ()

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return the row of the uniform output, with the block of the value and its sign in this row."""
        kind = values.dtype.type
        block, position = self._position(values)
        rest = uniform & kind(self._size - 2)  # the row, and no sign yet
        row = rest >> kind(1)
        rest |= np.bitwise_count(row & position) & np.uint8(1)
        return self._within(block, rest)

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report has the sign of the category next to it."""
        inside, rest, position = self._parts(reports, values)
        row = rest >> np.uint64(1)
        sign = (rest & np.uint64(1)).astype(np.bool_)
        return np.asarray(inside & (negative(row, position) == sign))

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return the counts of all columns, by one transform for each block."""
        table = cells.reshape(self.design.blocks, -1, 2)
        difference = transform(table[:, :, 0] - table[:, :, 1])
        totals = table.sum(axis=(1, 2), dtype=np.float64)
        block = np.broadcast_to(totals[:, None], difference.shape)
        return self._spread((block + difference) / 2), self._spread(block)
