"""All pairs of inputs of a table of probabilities, as whole numbers: each is built when it is asked for."""

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from shoal.pairs.integer_likelihoods import IntegerLikelihoods

__all__ = ["InputPairs"]

Array = NDArray[np.float64]


class InputPairs(Sequence[IntegerLikelihoods]):
    """The likelihoods of every two inputs relative to the blanket, in one direction of two.

    Pairs with the same numbers under other names are there once. The one with the largest E[W²] at ε = 0, which decides
    for many reports, is first.

    Parameters
    ----------
    table : sequence of tuple of int
        How often each input (row) has each output, all out of the same total; no column has a zero.
    total : int
        What they are out of.

    Examples
    --------
    >>> pairs = InputPairs([(4, 1, 1), (1, 4, 1), (1, 1, 4)], 6)
    >>> len(pairs), pairs[0].values(0.0)
    (1, (0.0, -3.0, 3.0))
    """

    def __init__(self, table: Sequence[tuple[int, ...]], total: int) -> None:
        self._table, self._total = tuple(dict.fromkeys(table)), total
        self._least = tuple(map(min, zip(*self._table, strict=True)))
        self._built: dict[int, IntegerLikelihoods] = {}

    @cached_property
    def ratios(self) -> Array:
        """R/ω of each input (row) and output, rounded once."""
        return np.array([[part / least for part, least in zip(row, self._least, strict=True)] for row in self._table])

    @cached_property
    def probabilities(self) -> Array:
        """ω of each output, rounded once."""
        return np.array([least / self._total for least in self._least])

    @cached_property
    def missing(self) -> float:
        """What the blanket lacks of one, rounded once."""
        return float((self._total - sum(self._least)) / self._total)

    @cached_property
    def indices(self) -> NDArray[np.int64]:
        """The two inputs of each pair, one row a pair."""
        first, second = np.triu_indices(len(self._table), 1)
        # Equal numbers have equal codes, and a pair is the sorted codes of its outputs, in one direction or the other.
        names: dict[int, int] = {}
        codes, least = (
            np.array([[names.setdefault(part, len(names)) for part in row] for row in rows])
            for rows in (self._table, [self._least])
        )
        size = len(names) + 1
        ways = [
            np.sort((codes[one] * size + codes[other]) * size + least, axis=1)
            for one, other in ((first, second), (second, first))
        ]
        known: set[bytes] = set()
        kept = []
        for index, (one, other) in enumerate(zip(*ways, strict=True)):
            if one.tobytes() not in known:
                known.update((one.tobytes(), other.tobytes()))
                kept.append(index)
        first, second = first[kept], second[kept]
        spreads = ((self.ratios[first] - self.ratios[second]) ** 2) @ self.probabilities
        order = np.argsort(-spreads, kind="stable")
        return np.stack((first[order], second[order]), axis=1)

    def __len__(self) -> int:
        """Return how many pairs there are, in one direction."""
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> IntegerLikelihoods: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[IntegerLikelihoods, ...]: ...
    def __getitem__(self, index: int | slice) -> IntegerLikelihoods | tuple[IntegerLikelihoods, ...]:
        """Return the likelihoods of a pair."""
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        first, second = self.indices[index]
        key = range(len(self))[index]
        if key not in self._built:
            outcomes = zip(self._table[first], self._table[second], self._least, strict=True)
            self._built[key] = IntegerLikelihoods.of(outcomes, self._total)
        return self._built[key]

    def __eq__(self, other: object) -> bool:
        """Tell whether all pairs are the same."""
        if not isinstance(other, InputPairs):
            return NotImplemented
        if (self._table, self._total) == (other._table, other._total):
            return True
        return len(self) == len(other) and all(one == each for one, each in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return a hash of the first pair."""
        return hash((len(self), self[0]))
