"""A claim about a randomizer given by a table of whole numbers: every pair of its inputs, in both directions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

from shoal.assumptions import DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, precision, zero
from shoal.proofs.claim import Claim, RoundClaim, count, double
from shoal.proofs.words import BLANKET
from shoal.proofs.work import spend

__all__ = ["MatrixClaim"]

_MOST_ENTRIES = 1 << 14
_MOST_INPUTS = 128
"""All pairs of inputs are looked at, at every ε."""
_ENOUGH = 512
"""Bits that tell a ratio of integers from e^ε₀."""


@dataclass(frozen=True)
class MatrixClaim(RoundClaim, name="matrix"):
    """The blanket of a table: input x reports output y with probability weights[x][y] over the sum of the row.

    ε₀ is a double that no ratio of two probabilities exceeds, which is checked in the integers.
    """

    reports: int
    local_epsilon: float
    weights: tuple[tuple[int, ...], ...]

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)

    def __post_init__(self) -> None:
        """Check that the table is one, and ε₀ that of it, or more."""
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
        with precision(_ENOUGH):
            local = ball(self.local_epsilon).exp()
            for column in zip(*self._common[1], strict=True):
                if not ball(max(column)) <= local * min(column):
                    raise ParameterError(f"two probabilities of an output differ by more than e^{self.local_epsilon!r}")

    @cached_property
    def _common(self) -> tuple[int, list[list[int]]]:
        """The same probabilities out of one total for all rows."""
        whole = math.lcm(*map(sum, self.weights))
        return whole, [[weight * (whole // sum(row)) for weight in row] for row in self.weights]

    @cached_property
    def _pairs(self) -> list[list[tuple[int, int, int]]]:
        """(R₀, R₁, ω) of every output, for each ordered pair of inputs that is not the same as one before."""
        table = self._common[1]
        least = [min(column) for column in zip(*table, strict=True)]
        seen: dict[tuple[tuple[int, int, int], ...], None] = {}
        for first, second in permutations(table, 2):
            merged: dict[tuple[int, int, int], int] = {}
            for row in zip(first, second, least, strict=True):
                size = math.gcd(*row)
                ratio = row[0] // size, row[1] // size, row[2] // size
                merged[ratio] = merged.get(ratio, 0) + size
            outcomes = (tuple(size * part for part in ratio) for ratio, size in merged.items())
            seen[tuple(sorted(outcomes))] = None  # type: ignore[arg-type]
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
        """The size of the table, and its ε₀."""
        size = f"{len(self.weights)} inputs and {len(self.weights[0])} outputs"
        return f"{self.reports:,} shuffled reports of a matrix of {size}, local_epsilon={self.local_epsilon!r}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W of every pair of inputs in both directions."""
        whole = self._common[0]
        spend(sum(map(len, self._pairs)))
        return [
            Summand(
                tuple((first - growth * second) / reference for first, second, reference in pair),
                tuple(ball(reference) / whole for _, _, reference in pair),
                zero(),
            )
            for pair in self._pairs
        ]
