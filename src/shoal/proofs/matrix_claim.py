"""A claim about a randomizer given by a table of whole numbers: every pair of its inputs, in both directions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

from shoal.assumptions import DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, zero
from shoal.proofs.claim import Claim, RoundClaim, count, digest, double, least_local_epsilon
from shoal.proofs.work import keep, spend
from shoal.statements import BLANKET

__all__ = ["MatrixClaim"]

_MOST_ENTRIES = 1 << 14  # of a table: more take longer than a proof may
_MOST_INPUTS = 128  # all pairs of inputs are looked at, at every ε


@dataclass(frozen=True)
class MatrixClaim(RoundClaim, name="matrix"):
    """The blanket of a table: input x reports output y with probability weights[x][y] over the sum of the row.

    ε₀ is the least double that no ratio of two probabilities exceeds, which is checked in the integers.
    """

    reports: int
    local_epsilon: float
    weights: tuple[tuple[int, ...], ...]

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)

    def __post_init__(self) -> None:
        """Check that the table is one, and that ε₀ is that of the table."""
        count(reports=self.reports)
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        rows = self.weights
        if not isinstance(rows, tuple) or not all(isinstance(row, tuple) for row in rows):
            raise ParameterError("the weights of a matrix are rows of whole numbers")
        if not 2 <= len(rows) <= _MOST_INPUTS or {len(row) for row in rows} != {len(rows[0])} or not rows[0]:
            raise ParameterError(f"a matrix has 2 to {_MOST_INPUTS} rows of the same length")
        if len(rows) * len(rows[0]) > _MOST_ENTRIES:
            raise ParameterError(f"a matrix may have {_MOST_ENTRIES:,} entries")
        for row in rows:
            for weight in row:
                count(1, 1 << 62, weight=weight)
        columns = zip(*self._common[1], strict=True)
        least_local_epsilon(self.local_epsilon, ((max(column), min(column)) for column in columns))

    @cached_property
    def _common(self) -> tuple[int, list[list[int]]]:
        """The same probabilities out of one total for all rows."""
        whole = math.lcm(*map(sum, self.weights))
        factors = [whole // sum(row) for row in self.weights]
        return whole, [[weight * factor for weight in row] for row, factor in zip(self.weights, factors, strict=True)]

    @cached_property
    def _pairs(self) -> list[list[tuple[int, int, int]]]:
        """(R₀, R₁, ω) of every output, for each ordered pair of inputs that is not the same as one before."""
        table = self._common[1]
        # Greatest common divisors take time in the square of the length, and three integers are kept per output.
        length = self._common[0].bit_length() / 1000
        spend(len(table) * (len(table) - 1) * len(table[0]) * (3 + length + length * length))
        least = [min(column) for column in zip(*table, strict=True)]
        seen: dict[tuple[tuple[int, int, int], ...], None] = {}
        for first, second in permutations(table, 2):
            merged: dict[tuple[int, int, int], int] = {}
            for row in zip(first, second, least, strict=True):
                size = math.gcd(*row)
                ratio = row[0] // size, row[1] // size, row[2] // size
                merged[ratio] = merged.get(ratio, 0) + size
            outcomes = tuple(sorted((size * a, size * b, size * c) for (a, b, c), size in merged.items()))
            if outcomes not in seen:
                keep(math.ceil(len(outcomes) * (3 + 2 * length)))  # and two balls each, while they are summed up
                seen[outcomes] = None
        return [list(pair) for pair in seen]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        return super().to_dict() | {"weights": [list(row) for row in self.weights]}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim with these numbers."""
        rows = content["weights"]
        return cls(**{**content, "weights": tuple(tuple(row) for row in rows)})

    @property
    def subject(self) -> str:
        """The size of the table, a digest of it, and its ε₀."""
        size = f"{len(self.weights)} inputs and {len(self.weights[0])} outputs (sha256 {digest(repr(self.weights))})"
        return f"{self.reports:,} shuffled reports of a matrix of {size}, local_epsilon={self.local_epsilon!r}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of every pair of inputs in both directions."""
        whole = self._common[0]
        spend(4 * sum(map(len, self._pairs)))
        return [
            Summand(
                tuple((first - growth * second) / reference for first, second, reference in pair),
                tuple(ball(reference) / whole for _, _, reference in pair),
                zero(),
            )
            for pair in self._pairs
        ]
