"""Hadamard response: a random column of a Hadamard matrix, more likely one that has a plus in the row of the truth."""

from dataclasses import dataclass

from shoal.randomizers.categorical import Categorical
from shoal.randomizers.support import Support

__all__ = ["HadamardResponse"]


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(Categorical):
    """The mechanism that reports one of K columns, e^ε₀ times as often one with a plus in the row of the truth.

    Category x = 1, …, k has row x of the Hadamard matrix of order K, the power of two next above k (Acharya, Sun and
    Zhang, AISTATS 2019, with one block). Row 0 is not used. Column 0 has a plus in every row, and is the only such.

    Parameters
    ----------
    categories : k ≥ 2.
    local_epsilon : ε₀ > 0.

    Examples
    --------
    >>> HadamardResponse(categories=100, local_epsilon=1).outputs
    128
    """

    @property
    def outputs(self) -> int:
        """The order K of the matrix, 2^⌈log₂(k + 1)⌉."""
        return int(2 ** self.categories.bit_length())

    @property
    def _support(self) -> Support:
        """Two rows agree in half of the columns; three are independent, unless one is the product of the others.

        The rows 1, 2 and 3 are not; 1, 2 and 4 are.
        """
        triples = ((0.0, 0.25, 0.0, 0.25),) if self.categories >= 3 else ()
        if self.categories >= 4:
            triples = (*triples, (0.125,) * 4)
        column = 1 / self.outputs
        return Support(self.local_epsilon, 0.25, 0.25, 0.25 - column, column, triples)
