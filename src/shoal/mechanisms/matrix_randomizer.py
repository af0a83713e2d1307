"""Any randomizer with finitely many inputs and outputs, given by its table of probabilities."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat
from numpy.typing import ArrayLike, NDArray

from shoal.arrays import Array, IntArray, WordArray
from shoal.checks import probability, store, whole
from shoal.digits import rounded_up
from shoal.errors import ParameterError, RangeError
from shoal.estimation.estimate import Estimate
from shoal.mechanisms.categorical import checked_frequencies, randomized
from shoal.mechanisms.coins import Coins, Simulation, logarithm_above
from shoal.mechanisms.mechanism import Counts, Numbered, Reports, check_counts
from shoal.pairs.directed_pairs import InputPairs
from shoal.pairs.integer_likelihoods import BitRows, IntegerLikelihoods
from shoal.pairs.registry import register
from shoal.proofs.blanket_claim import MatrixClaim
from shoal.rounding import UNIT

Weights = tuple[tuple[int, ...], ...]
Entry = int | float | Fraction | Decimal | str
_TOLERANCE = Fraction(1, 10**9)
"""How far the sum of a row may be from one."""
_MOST_TOTAL = 1 << 62
"""Of the weights of a row: the coins are whole numbers below it."""
_SCALE = 1 << 61
_MOST_ENTRIES = 1 << 16
_MOST_COMPARED = 4_000_000
"""Outputs of pairs of inputs: 200 inputs with 200 outputs each."""
_MOST_REACHED = 32
_MOST_EXAMINED = 1000
_STEPS_A_DOUBLING = 8
_DOUBLINGS = (-2, 14)
"""Which exponents θ are tried, from the one that is best for a normal distribution; any θ gives a valid limit."""
_STEEPEST = 300.0
_LISTED = 8


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """The unbiased linear estimate with the least variance where all inputs are equally frequent."""

    probabilities: Array  # of each output (column) from each input (row), R
    # D, of the same shape: the estimate is D times the shares of the outputs, and D·Rᵀ is the
    # identity
    weights: Array

    @classmethod
    def of(cls, table: Sequence[Sequence[int]]) -> "LinearDecoder":
        """Return the decoder of rows of whole numbers, each row out of its own sum; all rational but the result."""
        _refuse_confounded(table)
        used = [place for place, column in enumerate(zip(*table, strict=True)) if any(column)]
        rows = fmpq_mat(len(table), len(used))
        scaled = fmpq_mat(len(table), len(used))
        for position, column in enumerate(used):
            shares = [fmpq(row[column], sum(row)) for row in table]
            total = sum(shares, fmpq(0))  # of outputs if all inputs are equally frequent, but for the factor k
            for index, share in enumerate(shares):
                rows[index, position] = share
                scaled[index, position] = share / total
        solved = (scaled * rows.transpose()).solve(scaled)
        probabilities, weights = np.zeros((2, len(table), len(table[0])))
        for index in range(len(table)):
            for position, column in enumerate(used):
                share = rows[index, position]
                probabilities[index, column] = int(share.p) / int(share.q)
                entry = solved[index, position]
                weights[index, column] = int(entry.p) / int(entry.q)
        return cls(probabilities, weights)

    def frequencies(self, counts: IntArray, reports: int) -> Array:
        """Return the unbiased estimate of all frequencies, whose sum is 1."""
        return np.asarray(self.weights @ (counts / reports))

    def variance(self, shares: Array, frequencies: Array) -> Array:
        """Return n times the variance of each estimate, from the shares of the outputs and the frequencies.

        With expected shares and true frequencies it is the variance, given the people; with what was counted and
        estimated, its unbiased estimate, which may be below 0.
        """
        return np.asarray(self.weights**2 @ shares - frequencies)

    def limits(self, counts: IntArray, reports: int, level: float) -> tuple[Array, Array]:
        """Return a lower and an upper limit of each frequency; each fails at most as often as the level says.

        They are Chernoff's, with the worst inputs of the others: proved for every dataset and every n.
        """
        inputs = range(len(self.weights))
        limits = np.array([self._limit(index, counts, reports, level) for index in inputs])
        return limits[:, 0], limits[:, 1]

    def _limit(self, index: int, counts: IntArray, reports: int, level: float) -> tuple[float, float]:
        """Return the limits of one frequency.

        For each θ, Pr(ΣD ≥ s) ≤ exp(n·(f·A + (1 − f)·B) − θ·s), where A is ln E[exp(θ·D)] of those who hold the input,
        and B the largest of those who do not. So all f at which this is below the level are rejected, and these are the
        f below a limit if A > B. The upper limit is the same for −D.
        """
        weights = self.weights[index]
        largest = float(np.abs(weights).max())
        spread = float((self.probabilities @ weights**2).max())
        start = math.sqrt(2 * math.log(1 / level) / (reports * spread))
        exponents = np.arange(_STEPS_A_DOUBLING * _DOUBLINGS[0], _STEPS_A_DOUBLING * _DOUBLINGS[1])
        tilts = np.minimum(start * 2.0 ** (exponents / _STEPS_A_DOUBLING), _STEEPEST / largest)
        total = float(counts @ weights)
        size = float(counts @ np.abs(weights))
        ends = []
        for sign in (1.0, -1.0):
            powers = sign * np.multiply.outer(tilts, weights)
            expm1 = np.expm1(powers)
            logs = np.log1p(expm1 @ self.probabilities.T)
            own = logs[:, index]
            others = np.delete(logs, index, axis=1).max(axis=1)
            # What rounding, of R and D too, may have done to n·ln E (all but the first are at least 0), and to θ·s.
            relative = np.abs(expm1) + np.abs(powers) * (1 + expm1)
            moved = relative @ self.probabilities.T
            moved = moved.max(axis=1) / np.exp(np.minimum(own, 0))
            slack = (len(weights) + 16) * UNIT * (reports * moved + tilts * size)
            apart = sign * (own - others)
            steps = math.log(level) - slack + sign * tilts * total - reports * others
            with np.errstate(divide="ignore", invalid="ignore"):
                rejected = np.where(apart > 0, steps / (reports * apart), -math.inf)
            end = sign * float(rejected.max())
            ends.append(end * (1 - sign * 1e-12))
        lower, upper = np.clip(ends, 0.0, 1.0).tolist()
        return lower, upper


def _refuse_confounded(table: Sequence[Sequence[int]]) -> None:
    """Refuse rows that are linearly dependent, and name them."""
    columns = fmpz_mat([list(column) for column in zip(*table, strict=True)])
    kernel, nullity = columns.nullspace()
    if not nullity:
        return
    names = []
    for row in range(len(table)):
        if any(kernel[row, column] for column in range(nullity)):
            names.append(str(row))
    listed = ", ".join(names[:_LISTED])
    if len(names) > _LISTED:
        listed += f" and {len(names) - _LISTED} more"
    raise ParameterError(
        f"the frequencies of inputs {listed} cannot be estimated: the matrix has rank {len(table) - nullity} and "
        f"{len(table)} rows, and different frequencies of these inputs give the same outputs; make them one input, or "
        "give them more outputs that differ"
    )


@register("matrix", "an output drawn from the row of a table of probabilities")
@dataclass(frozen=True, init=False, repr=False)
class MatrixRandomizer(Numbered):
    """The mechanism that reports output y for input x with the probability in row x and column y of a matrix.

    Each row is stored as whole numbers, and a report is drawn by comparing them with a uniform whole number below their
    sum. So what runs is what is analysed: ε₀, the blanket of every pair of inputs and the estimate come from the same
    integers (docs/theory/matrix.md).

    Parameters
    ----------
    matrix : array_like
        A row for each of k ≥ 2 inputs, a column for each of at least two outputs. Floats, fractions, decimals, or text
        such as "1/3", must be probabilities; rows must sum to one within 1e-9, and are divided by their sum. If all
        entries are whole numbers they are weights, of any sum. Rows with sum one and a common denominator of at most
        2⁶² are kept exactly; others are rounded to multiples of 2⁻⁶¹, and never to zero. Afterwards `matrix` holds the
        weights.

    Examples
    --------
    >>> from shoal.mechanisms.coins import Simulation
    >>> survey = MatrixRandomizer([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    >>> round(survey.local_epsilon, 6), survey.worst_pair
    (1.791759, (0, 2))
    >>> reports = survey.randomize([0, 0, 1, 2] * 25_000, simulation=Simulation(seed=1))
    >>> survey.estimate(survey.aggregate(reports)).frequencies.round(2).tolist()
    [0.5, 0.25, 0.25]
    """

    matrix: Weights

    def __init__(self, matrix: Sequence[Sequence[Entry]] | NDArray[Any]) -> None:
        """Check the matrix, and turn it into whole numbers."""
        store(self, matrix=_weights(matrix))
        for output, column in enumerate(zip(*self.matrix, strict=True)):
            if any(column) and not all(column):
                never = column.index(0)
                ever = next(value for value, weight in enumerate(column) if weight)
                raise ParameterError(
                    f"input {never} never reports output {output}, and input {ever} does: one report can tell them "
                    "apart for certain, and ε₀ is infinite. Give every output that occurs a positive probability in "
                    "every row, such as (1 - t)·matrix + t/columns with a small t"
                )
        if all(row == self.matrix[0] for row in self.matrix):
            raise ParameterError("all rows of the matrix are the same, so that reports say nothing about the inputs")

    @property
    def categories(self) -> int:
        """How many inputs there are, k."""
        return len(self.matrix)

    @property
    def outputs(self) -> int:
        """How many columns there are, also those that are zero."""
        return len(self.matrix[0])

    @cached_property
    def probabilities(self) -> Array:
        """The probability of each output (column) from each input (row), each rounded once."""
        return np.array([[weight / sum(row) for weight in row] for row in self.matrix])

    @cached_property
    def _common(self) -> tuple[int, Weights]:
        """The same probabilities out of one total for all rows."""
        total = math.lcm(*map(sum, self.matrix))
        factors = [total // sum(row) for row in self.matrix]
        pairs = zip(self.matrix, factors, strict=True)
        return total, tuple(tuple(weight * factor for weight in row) for row, factor in pairs)

    @cached_property
    def _largest_ratio(self) -> tuple[Fraction, tuple[int, int]]:
        """The largest ratio of two probabilities of an output, and the two inputs."""
        columns = [column for column in zip(*self._common[1], strict=True) if any(column)]
        column = max(columns, key=lambda weights: Fraction(max(weights), min(weights)))
        most = max(column)
        least = min(column)
        return Fraction(most, least), (column.index(most), column.index(least))

    @cached_property
    def local_epsilon(self) -> float:
        """ε₀, the largest log ratio of two probabilities of the same output, rounded up to a double."""
        return logarithm_above(self._largest_ratio[0])

    @property
    def worst_pair(self) -> tuple[int, int]:
        """Two inputs that one report, unshuffled, tells apart by ε₀."""
        return self._largest_ratio[1]

    @cached_property
    def blanket(self) -> InputPairs:
        """What one report tells about two inputs, relative to what the reports of all inputs have in common.

        All pairs of inputs are there, each built when it is asked for, but for those that have the same numbers under
        other names.
        """
        total, table = self._common
        used = [output for output, weight in enumerate(table[0]) if weight]
        pairs = math.comb(self.categories, 2)
        if pairs * len(used) > _MOST_COMPARED:
            raise RangeError(
                f"{pairs:,} pairs of inputs with {len(used):,} outputs each are {pairs * len(used):,} likelihoods, and "
                f"at most {_MOST_COMPARED:,} can be compared; amplify(local_epsilon={self.local_epsilon!r}, reports=…) "
                "holds for every randomizer with this ε₀"
            )
        return InputPairs([tuple(row[output] for output in used) for row in table], total)

    def claim(self, reports: int) -> MatrixClaim:
        """Return what a certificate of n reports claims: of the whole numbers, without columns that never occur."""
        used = [output for output, weight in enumerate(self.matrix[0]) if weight]
        matrix = tuple(tuple(row[y] for y in used) for row in self.matrix)
        return MatrixClaim(reports, self.local_epsilon, matrix)

    @cached_property
    def bit(self) -> BitRows | None:
        """The rows with the fewest and the most of one output, where only two occur."""
        total, table = self._common
        used = [column for column in zip(*table, strict=True) if any(column)]
        if len(used) != 2:
            return None
        return BitRows.of(min(used[0]), max(used[0]), total)

    @cached_property
    def homogeneous(self) -> tuple[IntegerLikelihoods, ...]:
        """What one report tells about two inputs, where all others hold one and the same.

        Each is a dataset that may occur. Of many, those are taken that are best for many reports, and the pair that
        reaches ε₀.
        """
        total, table = self._common
        kept: dict[IntegerLikelihoods, None] = {}
        for first, second, held in self._datasets():
            rows = zip(table[first], table[second], table[held], strict=True)
            kept[IntegerLikelihoods.of(rows, total)] = None
            if len(kept) == _MOST_REACHED:
                break
        return tuple(kept)

    def _datasets(self) -> Iterator[tuple[int, int, int]]:
        """Yield two inputs of one person and the input of all others, those first that are the easiest to tell apart.

        The first two are for ε₀. The others are in the order of Σ(R₀ − R₁)²/R, which decides for many reports.
        """
        first, second = self.worst_pair
        yield first, second, second
        yield first, second, first
        used = self.probabilities[:, self.probabilities.any(axis=0)]
        ranked: list[tuple[float, tuple[int, int, int]]] = []
        for held, row in enumerate(used):
            squares = (used[:, None] - used) ** 2 @ (1 / row)
            best = np.argsort(-squares, axis=None, kind="stable")[: _MOST_EXAMINED + self.categories]
            for place in best.tolist():
                one, two = divmod(place, len(used))
                if self.matrix[one] != self.matrix[two]:
                    ranked.append((-float(squares[one, two]), (one, two, held)))
        yield from (dataset for _, dataset in sorted(ranked)[:_MOST_EXAMINED])

    @cached_property
    def _thresholds(self) -> WordArray:
        """The running sums of each row."""
        return np.array([np.cumsum(row, dtype=np.uint64) for row in self.matrix])

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> Reports:
        """Return one report for each value.

        Parameters
        ----------
        values : array_like
            Whole numbers from 0 to k − 1.
        simulation : Simulation, optional
            Coins that can be tossed again, for simulations only; by default they come from a cipher keyed by the
            operating system.
        """
        return randomized(values, self.categories, self.blank, self._report, simulation)

    def _report(self, inputs: NDArray[Any], coins: Coins) -> Reports:
        reports = np.empty(len(inputs), self.blank.dtype)
        for value in np.unique(inputs):
            sums = self._thresholds[value]
            holders = np.flatnonzero(inputs == value)
            draws = coins.below(int(sums[-1]), len(holders))
            reports[holders] = np.searchsorted(sums, draws, side="right")
        return reports

    def _checked(self, reports: ArrayLike) -> Reports:
        checked = super()._checked(reports)
        never = [output for output, weight in enumerate(self.matrix[0]) if not weight]
        wrong = np.flatnonzero(np.isin(checked, never))
        if len(wrong):
            raise ParameterError(f"reports[{wrong[0]}] is {checked[wrong[0]]}, which no input of {self!r} reports")
        return checked

    @cached_property
    def _decoder(self) -> LinearDecoder:
        return LinearDecoder.of(self.matrix)

    def estimate(self, counts: Counts[Any], *, confidence: float = 0.95) -> Estimate:
        """Return unbiased estimates of all frequencies, with standard errors and confidence intervals.

        Intervals hold for every dataset and every number of reports; at 95 % they are 1.4 to 1.7 times as wide as those
        of a normal distribution (docs/theory/matrix.md, 4.4).

        Parameters
        ----------
        counts : Counts
            From `aggregate`, or a sum of such.
        confidence : float
            Of each interval by itself.
        """
        check_counts(self, counts)
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        decoder = self._decoder
        n = counts.reports
        frequencies = decoder.frequencies(counts.values, n)
        variance = np.maximum(decoder.variance(counts.values / n, frequencies), 0) / n
        limits = decoder.limits(counts.values, n, (1 - confidence) / 2)
        return Estimate.within(self, n, frequencies, np.sqrt(variance), limits, confidence=confidence)  # type: ignore[arg-type]

    def variance(self, frequencies: ArrayLike | None = None, *, reports: int | float) -> Array:
        """Return the variance of each estimated frequency, given the people, in closed form.

        Parameters
        ----------
        frequencies : array_like, optional
            Of the k inputs among these people; equal ones if not given.
        reports : int or float
            n.
        """
        given = checked_frequencies(frequencies, self.categories)
        of_one = self._decoder.variance(given @ self.probabilities, given)
        return np.maximum(of_one, 0) / whole(reports=reports)

    def __repr__(self) -> str:
        """Show the size, ε₀ and a digest that tells it from others."""
        digest = hashlib.sha256(repr(self.matrix).encode()).hexdigest()[:8]
        size = f"{self.categories} inputs, {self.outputs} outputs"
        return f"MatrixRandomizer({size}, ε₀={rounded_up(self.local_epsilon)}, {digest})"


def _weights(matrix: Any) -> Weights:
    """Return the rows as whole numbers without a common divisor, or say what is wrong with them."""
    try:
        given = np.asarray(matrix) if hasattr(matrix, "__array__") else matrix
        rows = [list(row) for row in given]
    except TypeError:
        raise ParameterError("matrix must be rows of probabilities, one row for each input", "matrix") from None
    if len(rows) < 2 or len(rows[0]) < 2:
        raise ParameterError(
            f"matrix must have a row for each of at least 2 inputs and a column for each of at least 2 outputs, got "
            f"{len(rows)} rows" + (f" of {len(rows[0])}" if rows else "")
        )
    if len(rows) * len(rows[0]) > _MOST_ENTRIES:
        raise ParameterError(f"matrix may have {_MOST_ENTRIES:,} entries, got {len(rows):,} × {len(rows[0]):,}")
    exact = []
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ParameterError(f"matrix[{index}] has {len(row)} entries, and matrix[0] has {len(rows[0])}")
        exact.append([_exact(entry, f"matrix[{index}][{column}]") for column, entry in enumerate(row)])
    if all(entry.denominator == 1 for row in exact for entry in row):
        for index, row in enumerate(exact):
            if not any(row):
                raise ParameterError(f"matrix[{index}] has only zeros")
        exact = [[entry / sum(row) for entry in row] for row in exact]
    for index, row in enumerate(exact):
        total = sum(row, Fraction(0))
        if abs(total - 1) > _TOLERANCE:
            raise ParameterError(
                f"matrix[{index}] sums to {float(total):.12g}; probabilities must sum to 1 within 1e-9 (whole numbers "
                "throughout are weights, and may have any sum)"
            )
    return tuple(_row(row) for row in exact)


def _exact(entry: Any, where: str) -> Fraction:
    if isinstance(entry, np.generic):
        entry = entry.item()
    try:
        if isinstance(entry, bool) or not isinstance(entry, Entry):
            raise ValueError
        value = Fraction(entry)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(f"{where} must be a finite number, got {entry!r}") from None
    if value.numerator < 0:
        raise ParameterError(f"{where} must be at least 0, got {entry!r}")
    return value


def _row(row: Sequence[Fraction]) -> tuple[int, ...]:
    """Return whole numbers in proportion to these: the smallest ones, or, if those are too large, rounded ones.

    Rounding takes each entry by itself, so that what is equal stays equal, and corrects the sum at the largest entry if
    there is only one.
    """
    common = math.lcm(*(entry.denominator for entry in row))
    if common <= _MOST_TOTAL and sum(row) == 1:
        return tuple(int(entry * common) for entry in row)
    factor = _SCALE / sum(row, Fraction(0))
    weights = [max(1, round(entry * factor)) if entry else 0 for entry in row]
    if weights.count(max(weights)) == 1:
        weights[weights.index(max(weights))] += _SCALE - sum(weights)
    size = math.gcd(*weights)
    return tuple(weight // size for weight in weights)
