"""The mean of numbers in an interval: what its mechanisms have in common, and the estimate from their counts."""

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shoal.checks import probability, whole
from shoal.errors import ParameterError
from shoal.randomizers.coins import CHUNK, Simulation, coins_for
from shoal.randomizers.counts import Counts
from shoal.randomizers.distribution_estimate import MeanEstimate
from shoal.randomizers.integer_noise import Grid, Noise
from shoal.randomizers.mechanism import Numbered, Reports
from shoal.randomizers.noise_reached import Pools
from shoal.randomizers.number_range import FINENESS, NumberRange
from shoal.randomizers.pooled import Between, pooled

__all__ = ["MeanMechanism"]


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
        for name in ("lower", "upper"):
            object.__setattr__(self, name, getattr(self._range, name))

    def __repr__(self) -> str:
        """Show the parameters; the ends of the interval where they are not 0 and 1."""
        ends = {"lower": 0.0, "upper": 1.0}
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ends}
        if (self.lower, self.upper) != (0.0, 1.0):
            own |= {name: getattr(self, name) for name in ends}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"

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
        noise, coins = self.noise, coins_for(simulation)
        for start in range(0, len(numbers), CHUNK):
            points = self._range.rounded(numbers[start : start + CHUNK], self.grid.intervals, coins)
            reports[start : start + len(points)] = noise.reports(points, coins)
        return reports

    def _pooled(self, between: Between, beyond: int, pools: int) -> tuple[Pools, ...]:
        """Return what the two ends look like if all others hold one of them, or the middle as it is rounded."""
        middle = int(self._range.positions(np.array([self.lower + self.length / 2]), self.grid.intervals)[0])
        return pooled(self.grid, between, (middle, 1 << FINENESS), beyond=beyond, pools=pools)

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
        if not isinstance(counts, Counts) or counts.mechanism != self:
            other = counts.mechanism if isinstance(counts, Counts) else counts
            raise ParameterError(f"these counts are not of {self!r}, but of {other!r}")
        if counts.reports == 0:
            raise ParameterError("there are no reports to estimate from")
        confidence, noise, n = probability(confidence=confidence, usual="0.9 to 0.99"), self.noise, counts.reports
        total = sum(index * count for index, count in enumerate(counts.values.tolist()))
        position = float((Fraction(total, n) - noise.centre) / (noise.slope * self.grid.intervals))
        rounding = 0.25
        if self.grid.intervals == 1:  # all values may be ends, as far as the reports tell
            share = (min(max(position, 0.0), 1.0) * n + 2) / (n + 4)  # Agresti and Coull: never quite 0 or 1
            rounding = share * (1 - share)
        error = math.sqrt(self._spread(rounding) / n)
        ends = self._limits(total, n, position, error, (1 - confidence) / 2)
        mean, lower, upper = (self.lower + self.length * end for end in (position, *ends))
        return MeanEstimate(mean, self.length * error, lower, upper, n, confidence, self)

    def _limits(self, total: int, reports: int, position: float, error: float, level: float) -> tuple[float, float]:
        """Return an interval in units of that of the values, each end of which fails with this probability."""
        # Reports are whole numbers of cells, and so the quantile of their sum may lie half of one beyond.
        cell = 0.5 / (reports * float(self.noise.slope) * self.grid.intervals)
        reach = self._quantile(reports, level) * error + cell
        return position - reach, position + reach

    def _quantile(self, reports: int, level: float) -> float:
        """Return the upper quantile of a sum of so much noise, in units of its standard deviation."""
        return -NormalDist().inv_cdf(level)

    def _spread(self, rounding: float) -> float:
        """Return the variance of one report, in units of the interval, from that of rounding in steps of the grid."""
        return float(self.noise.variance) + rounding / self.grid.intervals**2

    def variance(self, values: ArrayLike | None = None, *, reports: Any) -> float:
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
        n, rounding = whole(reports=reports), 0.25
        if values is not None:
            numbers = self._range.numbers(values)
            if not len(numbers):
                raise ParameterError("values must be at least one number, or not be given", "values")
            parts = np.modf(self._range.positions(numbers, self.grid.intervals) / (1 << FINENESS))[0]
            rounding = float(np.mean(parts * (1 - parts)))
        return self.length * self.length * self._spread(rounding) / n
