"""Levels: a number is rounded at random to one of a few, which are the categories of covers or dummies.

From their counts come the sum, the mean, the distribution and quantiles, all with one guarantee, that of the protocol.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import Array, IntArray
from shoal.checks import Number, positive, store, whole
from shoal.errors import ParameterError
from shoal.estimation.distribution_estimate import LevelEstimate
from shoal.mechanisms.bundled import Bundled
from shoal.mechanisms.coins import CHUNK, Simulation, coins_for
from shoal.mechanisms.covered import Covered
from shoal.mechanisms.mechanism import Counts, Reports
from shoal.mechanisms.number_range import NumberRange


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Numbers in an interval as categories: each is rounded, at random and without bias, to one of two next levels.

    Everything about privacy is the protocol's: `shoal.amplify(levels.protocol, reports=…)` has the guarantee, with its
    certificates, and it composes with any other. One malicious client moves the sum by at most `influence` from what
    their true value adds: `upper` − `lower` with dummies, and half of that more for each slot of `Covered`
    (docs/theory/several-messages.md, section 5).

    Parameters
    ----------
    protocol : Dummies or Covered
        What hides the levels, whose number is its `categories`. Its messages are the levels themselves.
    lower, upper : float
        The lowest and the highest level, between which all numbers lie.

    Examples
    --------
    >>> from shoal.mechanisms import Dummies
    >>> levels = Levels(protocol=Dummies(categories=25, epsilon=0.5, limit=50), lower=0, upper=120)
    >>> coins = Simulation(seed=1)
    >>> messages = levels.randomize([30.0, 40.0, 50.0] * 10_000, simulation=coins)
    >>> estimate = levels.estimate(levels.released(levels.aggregate(messages), simulation=coins))
    >>> estimate
    LevelEstimate(sum 1.20053e+06 ± 1.1e+03, mean 40.0177 ± 0.037, median 40.01 in [35, 45], 30,000 reports)
    """

    protocol: Bundled
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        plain = isinstance(self.protocol, Bundled) and getattr(self.protocol, "response", None) is None
        if not plain:
            raise ParameterError(
                "protocol must be covers or dummies whose messages are the levels, such as Dummies(categories=25, "
                f"epsilon=0.5, limit=50) or Covered(categories=25, fill=0.04); got {self.protocol!r}",
                "protocol",
            )
        store(self, lower=self._range.lower, upper=self._range.upper)

    @cached_property
    def _range(self) -> NumberRange:
        return NumberRange(self.lower, self.upper)

    @property
    def steps(self) -> int:
        """Δ, how many steps there are: one less than levels."""
        return self.protocol.categories - 1

    @cached_property
    def values(self) -> Array:
        """The levels, the lowest first."""
        return np.linspace(self.lower, self.upper, self.protocol.categories)

    @property
    def influence(self) -> float:
        """By how much one malicious person can move the sum from what their true value adds; every slot adds half."""
        return self._range.length * (1 + self.protocol.bundle) / 2

    @property
    def weights(self) -> Array:
        """The levels as seen from the middle of the interval: since n is known, only these are summed with noise."""
        shares = np.arange(self.steps + 1) / self.steps
        return (shares - 0.5) * self._range.length

    def rounded(self, values: ArrayLike, *, simulation: Simulation | None = None) -> IntArray:
        """Return the number of a level for each value, 0 to Δ, such that its mean is the value.

        Parameters
        ----------
        values : array_like
            Numbers in the interval; nothing is clipped.
        simulation : Simulation, optional
            Coins that can be tossed again, for simulations only.
        """
        numbers = self._range.numbers(values)
        coins = coins_for(simulation)
        result = np.empty(len(numbers), np.int64)
        for start in range(0, len(numbers), CHUNK):
            chunk = slice(start, start + CHUNK)
            result[chunk] = self._range.rounded(numbers[chunk], self.steps, coins)
        return result

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> Reports:
        """Return the bundle of each value, rounded now."""
        levels = self.rounded(values, simulation=simulation)
        return self.protocol.randomize(levels, simulation=simulation)

    def aggregate(self, reports: ArrayLike) -> Counts[Any]:
        """Return the count state of bundles or messages of people."""
        return self.protocol.aggregate(reports)

    def released(self, counts: Counts[Any], *, simulation: Simulation | None = None) -> Counts[Any]:
        """Return what the analyst may see of these counts, with dummies if there are any: drawn now and only now."""
        return self.protocol.released(counts, simulation=simulation)

    def estimate(self, counts: Counts[Any], *, confidence: float = 0.95) -> LevelEstimate:
        """Return the sum, mean, distribution and quantiles of these people's values, with intervals.

        Parameters
        ----------
        counts : Counts
            As `released` returns them.
        confidence : float
            Of each interval by itself.
        """
        return LevelEstimate(self, counts, self.protocol.estimate(counts, confidence=confidence))

    def variance(self, *, reports: Number) -> float:
        """Return the variance of the estimated sum of n people, that of rounding at its most: n/4 of a step squared."""
        n = whole(reports=reports)
        of_one = float(self.protocol.variance(reports=n)[0]) * n * n
        if isinstance(self.protocol, Covered):  # (1 − 1/k)·N/k of one level, of which those of all together have no 1/k
            of_one /= 1 - 1 / self.protocol.categories
        noise = of_one * float(self.weights @ self.weights)
        return noise + self.rounding_variance(n)

    def rounding_variance(self, reports: int) -> float:
        """Return the most that rounding adds to the variance of the sum of n people, with all values between levels."""
        return reports / 4 * (self._range.length / self.steps) ** 2

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"lower": self.lower, "upper": self.upper, "protocol": self.protocol.to_dict()}


def best_steps(reports: Number, noise_variance: float) -> int:
    """Return the Δ with the least variance of the sum, σ²(Δ + 1)(Δ + 2)/(12Δ) + n/(4Δ²), in units of the interval.

    Its derivative is zero where Δ³ − 2Δ = 6n/σ².
    """
    n = whole(reports=reports)
    noise = positive(noise_variance=noise_variance)

    def variance(steps: int) -> float:
        of_noise = noise * (steps + 1) * (steps + 2) / (12 * steps)
        of_rounding = n / (4 * steps**2)
        return of_noise + of_rounding

    centre = math.floor(math.cbrt(6 * n / noise))
    return min(range(max(1, centre - 1), centre + 4), key=variance)
