"""The mean of numbers in an interval: what its mechanisms have in common, and the estimate from their counts.

For lower limits, `NoisyMean` puts the cells of the grid together into pools. That can only hide something, so what two
inputs reach among reports that are pools is reached by the mechanism itself, as it is run (docs/theory/numbers.md,
section 2). The integers with which coins are compared differ from these probabilities by less than 2⁻¹¹³⁰, and no pool
has less than 2⁻¹⁰⁰⁰.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shoal.checks import Number, probability, store, whole
from shoal.errors import ParameterError
from shoal.estimation.distribution_estimate import MeanEstimate
from shoal.mechanisms.coins import CHUNK, Simulation, coins_for
from shoal.mechanisms.integer_noise import Grid, Noise
from shoal.mechanisms.mechanism import Counts, Numbered, Reports, check_counts
from shoal.mechanisms.number_range import FINENESS, NumberRange
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.noise_profile import Pools, ReachedByNoise

Between = Callable[[float, float], float]
Pool = tuple[float, ...]

_SMALLEST = 2.0**-1000
"""Of a probability of a pool: with less, likelihoods overflow, and it joins its neighbour."""
_REL_ERROR = 2.0**-38
"""By which part of itself a probability of a pool may be wrong."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanMechanism(Numbered):
    """A randomizer of a number in an interval, from whose reports the mean is estimated.

    The number is rounded to one of the two nearest points of a grid, at random and without bias; then comes the noise.

    Parameters
    ----------
    lower, upper : float
        The ends of the interval.
    """

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        store(self, lower=self._range.lower, upper=self._range.upper)

    def __repr__(self) -> str:
        """Show the parameters; the ends of the interval where they are not 0 and 1."""
        names = [field.name for field in fields(self) if field.name not in ("lower", "upper")]
        if (self.lower, self.upper) != (0.0, 1.0):
            names += ["lower", "upper"]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({shown})"

    @cached_property
    def _range(self) -> NumberRange:
        return NumberRange(self.lower, self.upper)

    @property
    def length(self) -> float:
        """How long the interval is."""
        return self._range.length

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The points to which numbers are rounded, and the cells in which they are reported."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The integers with which the coins are compared; computed when first used."""

    @property
    def outputs(self) -> int:
        """How many different reports there are."""
        return self.grid.outputs

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> Reports:
        """Return one report for each value, a whole number from 0 to `outputs` − 1.

        Parameters
        ----------
        values : array_like
            Numbers in the interval; nothing is clipped.
        simulation : Simulation, optional
            Coins that can be tossed again, for simulations only; by default they come from a cipher keyed by the
            operating system.
        """
        numbers = self._range.numbers(values)
        reports = np.empty(len(numbers), self.blank.dtype)
        noise = self.noise
        coins = coins_for(simulation)
        for start in range(0, len(numbers), CHUNK):
            part = numbers[start : start + CHUNK]
            points = self._range.rounded(part, self.grid.intervals, coins)
            reports[start : start + len(points)] = noise.reports(points, coins)
        return reports

    def estimate(self, counts: "Counts[Any]", *, confidence: float = 0.95) -> MeanEstimate:
        """Return an unbiased estimate of the mean of these people's values, with a confidence interval.

        It may lie outside the interval of the values; to move it inside would bias it. The standard error is for the
        people as they are: the noise, which is known, and the most that rounding adds for values with this mean.

        Parameters
        ----------
        counts : Counts
            From `aggregate`, or a sum of such.
        confidence : float
            Of the interval (docs/theory/numbers.md, 4).
        """
        check_counts(self, counts)
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        noise = self.noise
        n = counts.reports
        total = sum(index * count for index, count in enumerate(counts.values.tolist()))
        above_lower = Fraction(total, n) - noise.centre
        position = float(above_lower / (noise.slope * self.grid.intervals))
        rounding = 0.25
        if self.grid.intervals == 1:  # all values may be ends, as far as the reports tell
            near = min(max(position, 0.0), 1.0)
            share = (near * n + 2) / (n + 4)  # Agresti and Coull: never quite 0 or 1
            rounding = share * (1 - share)
        error = math.sqrt(self._spread(rounding) / n)
        least, most = self._limits(total, n, position, error, (1 - confidence) / 2)
        return MeanEstimate(
            mean=self.lower + self.length * position,
            standard_error=self.length * error,
            lower=self.lower + self.length * least,
            upper=self.lower + self.length * most,
            reports=n,
            confidence=confidence,
            mechanism=self,
        )

    def _limits(self, total: int, reports: int, position: float, error: float, level: float) -> tuple[float, float]:
        """Return an interval in units of that of the values, each end of which fails with this probability."""
        # Reports are whole numbers of cells, and so the quantile of their sum may lie half of one beyond.
        half_cell = 0.5 / (reports * float(self.noise.slope) * self.grid.intervals)
        reach = self._quantile(reports, level) * error + half_cell
        return position - reach, position + reach

    def _quantile(self, reports: int, level: float) -> float:
        """Return the upper quantile of a sum of so much noise, in units of its standard deviation."""
        return -NormalDist().inv_cdf(level)

    def _spread(self, rounding: float) -> float:
        """Return the variance of one report, in units of the interval, from that of rounding in steps of the grid."""
        return float(self.noise.variance) + rounding / self.grid.intervals**2

    def variance(self, values: ArrayLike | None = None, *, reports: Number) -> float:
        """Return the variance of the estimated mean, given the people, in closed form.

        (upper − lower)²·(v + r/G²)/n, with v the variance of the noise and r the mean of f(1 − f), where f is how far
        a value lies from the point of the grid below it.

        Parameters
        ----------
        values : array_like, optional
            Of these people, or a sample of them; if not given, those for which it is largest, with f = 1/2.
        reports : int or float
            n.
        """
        n = whole(reports=reports)
        rounding = 0.25
        if values is not None:
            numbers = self._range.numbers(values)
            if not len(numbers):
                raise ParameterError("values must be at least one number, or not be given", "values")
            steps = self._range.positions(numbers, self.grid.intervals) / (1 << FINENESS)
            parts, _ = np.modf(steps)
            rounding = float(np.mean(parts * (1 - parts)))
        return self.length * self.length * self._spread(rounding) / n


@dataclass(frozen=True, kw_only=True, repr=False)
class NoisyMean(MeanMechanism):
    """A mechanism that adds noise to a number, whose cells are put together into pools for lower limits."""

    homogeneous_error: ClassVar[tuple[float, float]] = (0.0, _REL_ERROR)

    @abstractmethod
    def _reached(self) -> tuple[Pools, ...]:
        """Return what the reports look like if all others hold the lower end, the upper one, or the middle."""

    def _pooled(self, between: Between, beyond: int, pools: int) -> tuple[Pools, ...]:
        """Return what the two ends look like if all others hold one of them, or the middle as it is rounded."""
        middle = np.array([self.lower + self.length / 2])
        position = int(self._range.positions(middle, self.grid.intervals)[0])
        return _pools_of(self.grid, between, (position, 1 << FINENESS), beyond=beyond, pools=pools)

    def reached(self, reports: int) -> ReachedByNoise:
        """Return what real inputs reach among n such reports."""
        return ReachedByNoise(reports, self._reached())

    @property
    def homogeneous(self) -> tuple[Likelihoods, ...]:
        """What the reports look like if all others hold the lower end, the upper one, or the middle."""
        return tuple(_likelihoods(pools) for pools in self._reached())


def _pools_of(grid: Grid, between: Between, middle: tuple[int, int], *, beyond: int, pools: int) -> tuple[Pools, ...]:
    """Return the pools of the two ends if all others hold the lower end, the upper one, or a value between.

    `between` is the probability that the noise lies between two positive distances, in steps of the grid. `middle` is
    the value between as a numerator and a denominator in steps; it is rounded without bias. `beyond` cells on each
    side are told apart, and these and the cells between the ends are put into `pools` pools at most.
    """
    point, part = divmod(middle[0], middle[1])
    share = part / middle[1]
    first = max(grid.margin - beyond, 0)
    cells = grid.outputs - 2 * first
    ends = {0, grid.outputs}
    for number in range(pools + 1):
        ends.add(first + (cells * number + pools // 2) // pools)
    edges = [0.5 + grid.width * (end - 1 - grid.margin) for end in sorted(ends)]
    edges[0] = -math.inf
    edges[-1] = math.inf

    def probability(point: int, low: float, high: float) -> float:
        """Return the probability that the report of a point lies between two edges."""
        low -= point
        high -= point
        if low < 0 < high:
            return between(0.0, -low) + between(0.0, high)
        return between(low, high) if low >= 0 else between(-high, -low)

    counts: list[Pool] = []
    for low, high in pairwise(edges):
        mixed = (1 - share) * probability(point, low, high)
        if share:
            mixed += share * probability(point + 1, low, high)
        at_lower = probability(0, low, high)
        at_upper = probability(grid.intervals, low, high)
        counts.append((at_lower, at_upper, mixed))
    one, two, mixture = zip(*_joined(counts), strict=True)
    return tuple(Pools(one, two, others, _REL_ERROR) for others in (one, two, mixture))


def _likelihoods(pools: Pools) -> Likelihoods:
    """Return what a report tells about the two ends, relative to what all others report."""
    pairs = zip(pools.first, pools.second, pools.others, strict=True)
    rows = tuple((_log(one, other), _log(two, other), other) for one, two, other in pairs)
    return Likelihoods(rows, complete=True)


def _joined(pools: list[Pool]) -> list[Pool]:
    """Put pools together with their neighbours until each has more than the least of everything."""
    joined: list[Pool] = []
    for pool in pools:
        if joined and min(joined[-1]) <= _SMALLEST:
            joined[-1] = _sum(joined[-1], pool)
        else:
            joined.append(pool)
    while len(joined) > 1 and min(joined[-1]) <= _SMALLEST:
        last = joined.pop()
        joined[-1] = _sum(joined[-1], last)
    return joined


def _sum(one: Pool, other: Pool) -> Pool:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _log(one: float, other: float) -> float:
    """Return ln(one/other), accurate also where it is close to 0."""
    if abs(one - other) < other / 2:
        return math.log1p((one - other) / other)
    return math.log(one) - math.log(other)
