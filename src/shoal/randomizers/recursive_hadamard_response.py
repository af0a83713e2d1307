"""Recursive Hadamard response: a random row, and the sign that it has at the truth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.randomizers.coins import Coins
from shoal.randomizers.design import Design
from shoal.randomizers.hadamard_response import Blocked, negative, power_above, transform
from shoal.randomizers.mechanism import Reports
from shoal.randomizers.registry import register

__all__ = ["RecursiveHadamardResponse"]


@register(
    "recursive-hadamard-response",
    "a row of a Hadamard matrix, and its sign at the truth",
    code=3,
    planned=3,
)
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
        rows = power_above(-(-categories // blocks))
        return Design(outputs=2 * rows * blocks, supporting=rows, common=rows // 2, blocks=blocks)

    @property
    def _triples(self) -> tuple[tuple[float, float, float, float], ...]:
        """With one block, any three signs are independent."""
        if self.blocks != 1:
            return super()._triples
        return ((0.125,) * 4,) if self.categories >= 3 else ()

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return the row of the uniform output, with the block of the value and its sign in this row."""
        kind = values.dtype.type
        block, position = self._position(values)
        rest = uniform & kind(self._size - 2)  # the row, and no sign yet
        rest |= np.bitwise_count(rest >> kind(1) & position) & np.uint8(1)
        if self.design.blocks > 1:
            rest |= block << kind(self._size.bit_length() - 1)
        return np.asarray(rest)

    def supports(self, reports: Reports, values: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each report has the sign of the category next to it."""
        block, position = self._position(np.asarray(values, np.uint64))
        given, rest = np.divmod(np.asarray(reports, np.uint64), np.uint64(self._size))
        sign = (rest & np.uint64(1)).astype(np.bool_)
        return np.asarray((given == block) & (negative(rest >> np.uint64(1), position) == sign))

    def supported(self, cells: NDArray[np.int64], reports: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the counts of all columns, by one transform for each block."""
        table = cells.reshape(self.design.blocks, -1, 2)
        difference = transform(table[:, :, 0] - table[:, :, 1])
        block = np.broadcast_to(table.sum(axis=(1, 2), dtype=np.float64)[:, None], difference.shape)
        return self._spread((block + difference) / 2), self._spread(block)
