"""Frequencies of inputs from counts of outputs, by least squares, with errors and limits that hold for every n.

The formulas and their proofs are in docs/theory/matrix.md, section 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.rounding import UNIT

__all__ = ["LinearDecoder"]

Floats = NDArray[np.float64]

_STEPS_A_DOUBLING = 8
_DOUBLINGS = (-2, 14)
"""Which exponents θ are tried, from the one that is best for a normal distribution; any θ gives a valid limit."""
_STEEPEST = 300.0
_LISTED = 8


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """The unbiased linear estimate with the least variance where all inputs are equally frequent.

    Attributes
    ----------
    probabilities : Floats
        Of each output (column) from each input (row), R.
    weights : Floats
        D, of the same shape: the estimate is D times the shares of the outputs, and D·Rᵀ is the identity.
    """

    probabilities: Floats
    weights: Floats

    @classmethod
    def of(cls, table: Sequence[Sequence[int]]) -> "LinearDecoder":
        """Return the decoder of rows of whole numbers, each row out of its own sum; all rational but the result.

        Examples
        --------
        >>> LinearDecoder.of([(3, 1), (1, 3)]).weights.tolist()
        [[1.5, -0.5], [-0.5, 1.5]]
        """
        from flint import fmpq, fmpq_mat

        _refuse_confounded(table)
        used = [column for column in range(len(table[0])) if any(row[column] for row in table)]
        rows = [[fmpq(row[column], sum(row)) for column in used] for row in table]
        # π, the distribution of outputs if all inputs are equally frequent, but for the factor k.
        sums = [sum((row[column] for row in rows), fmpq(0)) for column in range(len(used))]
        shape = len(rows), len(used)
        table_, scaled = (
            fmpq_mat(*shape, entries)
            for entries in (
                [part for row in rows for part in row],
                [part / size for row in rows for part, size in zip(row, sums, strict=True)],
            )
        )
        solved = (scaled * table_.transpose()).solve(scaled)
        probabilities, weights = np.zeros((2, len(table), len(table[0])))
        for index, row in enumerate(rows):
            for position, column in enumerate(used):
                probabilities[index, column] = int(row[position].p) / int(row[position].q)
                entry = solved[index, position]
                weights[index, column] = int(entry.p) / int(entry.q)
        return cls(probabilities, weights)

    def frequencies(self, counts: NDArray[np.int64], reports: int) -> Floats:
        """Return the unbiased estimate of all frequencies, whose sum is 1."""
        return np.asarray(self.weights @ (counts / reports))

    def variance(self, shares: Floats, frequencies: Floats) -> Floats:
        """Return n times the variance of each estimate, from the shares of the outputs and the frequencies.

        With expected shares and true frequencies it is the variance, given the people; with what was counted and
        estimated, its unbiased estimate, which may be below 0.
        """
        return np.asarray(self.weights**2 @ shares - frequencies)

    def limits(self, counts: NDArray[np.int64], reports: int, level: float) -> tuple[Floats, Floats]:
        """Return a lower and an upper limit of each frequency; each fails at most as often as the level says.

        They are Chernoff's, with the worst inputs of the others: proved for every dataset and every n.
        """
        limits = np.array([self._limit(index, counts, reports, level) for index in range(len(self.weights))])
        return limits[:, 0], limits[:, 1]

    def _limit(self, index: int, counts: NDArray[np.int64], reports: int, level: float) -> tuple[float, float]:
        """Return the limits of one frequency.

        For each θ, Pr(ΣD ≥ s) ≤ exp(n·(f·A + (1 − f)·B) − θ·s), where A is ln E[exp(θ·D)] of those who hold the input,
        and B the largest of those who do not. So all f at which this is below the level are rejected, and these are the
        f below a limit if A > B. The upper limit is the same for −D.
        """
        weights = self.weights[index]
        largest, spread = float(np.abs(weights).max()), float((self.probabilities @ weights**2).max())
        start = math.sqrt(2 * math.log(1 / level) / (reports * spread))
        exponents = np.arange(_STEPS_A_DOUBLING * _DOUBLINGS[0], _STEPS_A_DOUBLING * _DOUBLINGS[1])
        tilts = np.minimum(start * 2.0 ** (exponents / _STEPS_A_DOUBLING), _STEEPEST / largest)
        total, size = float(counts @ weights), float(counts @ np.abs(weights))
        ends = []
        for sign in (1.0, -1.0):
            powers = sign * np.multiply.outer(tilts, weights)
            growth = np.expm1(powers)
            logs = np.log1p(growth @ self.probabilities.T)
            own, others = logs[:, index], np.delete(logs, index, axis=1).max(axis=1)
            # What rounding, of R and D too, may have done to n·ln E (all but the first are at least 0), and to θ·s.
            moved = (np.abs(growth) + np.abs(powers) * (1 + growth)) @ self.probabilities.T
            moved = moved.max(axis=1) / np.exp(np.minimum(own, 0))
            slack = (len(weights) + 16) * UNIT * (reports * moved + tilts * size)
            apart = own - others if sign > 0 else others - own
            steps = math.log(level) - slack + sign * tilts * total - reports * others
            with np.errstate(divide="ignore", invalid="ignore"):
                rejected = np.where(apart > 0, sign * steps / (reports * apart), -math.inf if sign > 0 else math.inf)
            ends.append(float(rejected.max() * (1 - 1e-12)) if sign > 0 else float(rejected.min() * (1 + 1e-12)))
        return min(max(ends[0], 0.0), 1.0), min(max(ends[1], 0.0), 1.0)


def _refuse_confounded(table: Sequence[Sequence[int]]) -> None:
    """Refuse rows that are linearly dependent, and name them."""
    from flint import fmpz_mat

    columns = fmpz_mat([[row[column] for row in table] for column in range(len(table[0]))])
    kernel, nullity = columns.nullspace()
    if not nullity:
        return
    names = [str(row) for row in range(len(table)) if any(kernel[row, column] for column in range(nullity))]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    raise ParameterError(
        f"the frequencies of inputs {listed} cannot be estimated: the matrix has rank {len(table) - nullity} and "
        f"{len(table)} rows, and different frequencies of these inputs give the same outputs; make them one input, or "
        "give them more outputs that differ"
    )
