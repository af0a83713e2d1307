"""The distribution of W, of which δ(ε) is computed as a sum, and the saddle point of that sum.

If the victim's report comes from R₀ or R₁ and every other report from R, put
W = (R₀(Y) − e^ε·R₁(Y)) / R(Y) for Y ~ R. Then δ(ε) = E[(W₁ + … + Wₙ)₊] / n for independent copies
of W (docs/theory/numerics.md, section 1). A bound is therefore a distribution with a few values,
and its mean is always 1 − e^ε.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.arrays import Array
from shoal.rounding import LARGEST_POWER, UNIT

_CLOSE = 1e-2
"""The relative distance from the saddle point at which the search ends: each step takes time."""
_MOST_STEPS = 60
"""Steps of the search; about five are needed, and every tilt that is returned is valid."""


@dataclass(frozen=True)
class Summand:
    """A distribution of W with a few values, scaled so that its first two values lie one apart.

    Attributes
    ----------
    reports : int
        n, the number of independent copies that are added.
    scale : float
        δ(ε) = scale · E[(sum)₊]: the distance between the outer values of W, over n (1.1).
    values : tuple of float
        The values of the scaled W, the largest first, the smallest second, exactly one apart.
    probabilities : tuple of float
        The probability of each value. What is missing to one belongs to the value 0.
    mean : float
        The mean of the scaled W, which is known in closed form, to full relative accuracy.
    zero : float, optional
        The probability of the value 0, where it is known better than by subtraction from one.
    """

    reports: int
    scale: float
    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    mean: float
    zero: float | None = None

    @property
    def missing(self) -> float:
        """The probability of the value 0."""
        if self.zero is not None:
            return self.zero
        return max(0.0, -math.fsum((*self.probabilities, -1.0)))

    @property
    def spread(self) -> float:
        """The root of n·E[W²]: the standard deviation of the sum if the mean of W were zero."""
        second = 0.0
        for probability, value in zip(self.probabilities, self.values, strict=True):
            second += probability * value**2
        return math.sqrt(self.reports * second)

    @cached_property
    def tilted(self) -> "Tilted":
        """The tilted distribution of W, which both sums use."""
        with np.errstate(all="ignore"):
            return Tilted.of([self])


class Tilted:
    """Distributions of W, one for each column, with equally many values, each tilted by e^{θW}.

    Every tilt is valid. Each column has its own, near the saddle point (1.4).

    Attributes
    ----------
    count : float
        n.
    scales, missing : array
        δ(ε)/E[(sum)₊] and the probability of the value 0 in each column.
    tilts : array
        θ of each column.
    log_moments, moment_errors : array
        n·log M(θ), and a bound of its error from that of M(θ).
    values, tilted : array
        The values of W and their probabilities under Q (1.5), in rows; the last value is 0.
    means, deviations : array
        The mean of W, and the standard deviation of the sum of n copies, under Q.
    """

    def __init__(
        self,
        reports: int,
        values: Array,
        probabilities: Array,
        *,
        missing: Array,
        means: Array,
        scales: Array,
        mean_error: float = 0.0,
    ) -> None:
        """Tilt the distributions; `mean_error` bounds the error of `means`."""
        self.count = float(reports)
        self.scales = scales
        self.missing = missing
        self._given = (values, probabilities, means)
        self._mean_error = mean_error
        self.tilts = _saddle_points(self.count, values, probabilities, missing, means)
        self._moments, self.log_moments, self.moment_errors = self.moments_at(self.tilts)
        self._growth = np.exp(self.tilts * values)
        weights = probabilities * self._growth / self._moments  # (1.5)
        zero = missing / self._moments
        self.tilted = np.vstack([weights, zero])
        self.values = np.vstack([values, np.zeros_like(zero)])
        # The mean of Q, without cancellation (2.10).
        moved = probabilities * values * np.expm1(self.tilts * values)
        self.means = (means + moved.sum(axis=0)) / self._moments
        variances = (weights * values**2).sum(axis=0) - self.means**2
        self.deviations = np.sqrt(self.count * np.maximum(variances, 0.0))

    @property
    def estimates(self) -> Array:
        """The logarithm of δ of each column within a factor of about two; this is not a bound (1.7)."""
        widths = math.e + math.sqrt(2 * math.pi) * self.tilts * self.deviations
        return np.asarray(self.log_moments + np.log(self.scales / self.tilts / widths))

    @classmethod
    def of(cls, summands: Sequence[Summand]) -> "Tilted":
        """Return the tilted distributions of summands with equally many values and reports."""
        return cls(
            summands[0].reports,
            np.array([summand.values for summand in summands]).T,
            np.array([summand.probabilities for summand in summands]).T,
            missing=np.array([summand.missing for summand in summands]),
            means=np.array([summand.mean for summand in summands]),
            scales=np.array([summand.scale for summand in summands]),
        )

    def error(self, sizes: Array, roundings: float) -> Array:
        """Return an error of M(s)/M(θ) of `roundings` units at |s| in `sizes`; columns are last."""
        return self._error(sizes, self._growth, roundings) / self._moments

    def _error(self, sizes: Array, growth: Array, roundings: float) -> Array:
        """Return an error of M(s) of `roundings` units at |s| in `sizes`, given each e^{xθ}."""
        values, probabilities, means = self._given
        lengths = probabilities * (1 + growth) * np.abs(values)
        first = lengths.sum(axis=-2) * sizes
        second = (lengths * np.abs(values)).sum(axis=-2) * sizes**2
        terms = np.abs(means) * sizes + np.minimum(first, second)  # (2.9)
        return np.asarray(roundings * UNIT * terms + self._mean_error * sizes)

    def moments_at(self, tilts: Array) -> tuple[Array, Array, Array]:
        """Return M and n·log M at real points, columns last, and errors of M(s)ⁿ."""
        values, probabilities, means = self._given
        powers = tilts[..., None, :] * values
        growth = np.exp(powers)
        roundings = 64 + 2 * len(values)
        # The linear terms of all exponentials are replaced by the exact mean (2.9a).
        excess = means * tilts + (probabilities * _exp_remainder(powers)).sum(axis=-2)
        near = np.maximum(1 + excess, 1e-300)  # may cancel to nothing, and then the error decides
        errors = self._error(tilts, growth, roundings) / near
        # Far from zero it is better to add up positive terms (1.6).
        terms = probabilities * growth
        sums = terms.sum(axis=-2) + self.missing
        sizes = (terms * np.abs(powers)).sum(axis=-2) / sums
        sum_errors = roundings * UNIT + 16 * UNIT * sizes
        better = sum_errors < errors
        moments = np.where(better, sums, near)
        logs = np.where(better, np.log(sums), np.log1p(np.maximum(excess, -1 + 1e-16)))
        return moments, self.count * logs, self.count * np.where(better, sum_errors, errors)


def _exp_remainder(x: Array) -> Array:
    """Return exp(x) − 1 − x without cancellation."""
    result = np.asarray(np.expm1(x) - x)
    near = np.abs(x) < 0.1
    if near.any():
        small = x[near]
        series = np.full_like(small, 1 / math.factorial(12))
        for power in range(11, 1, -1):
            series = series * small + 1 / math.factorial(power)
        result[near] = series * small * small
    return result


def _saddle_points(
    count: float,
    values: Array,
    probabilities: Array,
    missing: Array,
    means: Array,
) -> Array:
    """Return θ near the minimum of M(θ)ⁿ/θ² (1.4) for each column of values and probabilities."""
    variance = np.maximum(count * (probabilities * values**2).sum(axis=0), 0.25)
    highest = LARGEST_POWER / np.maximum(values.max(axis=0), 1e-300)
    # A normal sum has its minimum at the positive root of variance·θ² + n·mean·θ − 2 = 0.
    half = -0.5 * count * means / variance
    tilts = np.minimum(half + np.sqrt(half**2 + 2 / variance), highest)
    low = np.zeros_like(tilts)
    high = np.full_like(tilts, math.inf)
    for step in range(_MOST_STEPS):
        weights = probabilities * np.exp(tilts * values)
        moments = weights.sum(axis=0) + missing
        first = (weights * values).sum(axis=0) / moments
        second = (weights * values**2).sum(axis=0) / moments - first**2
        # The derivative of n·log M(θ) − 2·log θ.
        slopes = count * first - 2 / tilts
        low = np.where(slopes < 0, tilts, low)
        high = np.where(slopes < 0, high, tilts)
        curvatures = count * second + 2 / tilts**2
        newton = np.clip(tilts - slopes / curvatures, tilts / 4, 4 * tilts)
        # Newton's steps may be short or leave the bracket: then its geometric mean is taken.
        middle = np.sqrt(np.maximum(low, tilts / 16) * np.minimum(high, 16 * tilts))
        outside = (newton < low) | (newton > high) | (step % 8 == 7)
        following = np.minimum(np.where(outside, middle, newton), highest)
        if np.all(np.abs(following - tilts) <= _CLOSE * tilts):
            break
        tilts = following
    return np.asarray(tilts)
