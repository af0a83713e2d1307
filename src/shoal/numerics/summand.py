"""The distribution of W, one summand of the sum that δ(ε) is computed from, and the saddle point of that sum.

If the victim's report comes from R₀ or R₁ and every other report from R, put W = (R₀(Y) − e^ε·R₁(Y)) / R(Y) for Y ~ R.
Then δ(ε) = E[(W₁ + … + Wₙ)₊] / n for independent copies of W (docs/theory/numerics.md, section 1). A bound is therefore
a distribution with a few values, and its mean is always 1 − e^ε.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT

__all__ = ["LARGEST_POWER", "Saddle", "Summand", "estimated", "saddle", "tilts_of"]

Array = NDArray[np.float64]

LARGEST_POWER = 600.0
"""The largest θ·W: e^709 overflows, and a lower limit would loosen bounds where a single report decides."""

_CLOSE = 1e-2
"""Relative distance from the saddle point at which the search ends: every tilt is valid, and each step takes time."""

_MOST_STEPS = 60
"""Steps of the search; about five are needed, and a search that does not converge still returns a valid tilt."""


@dataclass(frozen=True)
class Summand:
    """A distribution of W with a few values, scaled so that its first two values lie exactly one apart.

    Attributes
    ----------
    reports : int
        n, the number of independent copies that are added.
    scale : float
        δ(ε) = scale · E[(sum)₊]: the distance between the two outer values of W, divided by n.
    values : tuple of float
        The values of the scaled W, the largest first and the smallest second: values[0] − values[1] = 1.
    probabilities : tuple of float
        The probability of each value. The probability that is missing to one belongs to the value 0.
    mean : float
        The mean of the scaled W, which is known in closed form and hence to full relative accuracy.
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
        """The square root of n·E[W²]: the standard deviation of the sum if the mean of W were zero."""
        second = 0.0
        for probability, value in zip(self.probabilities, self.values, strict=True):
            second += probability * value**2
        return math.sqrt(self.reports * second)


class Saddle(NamedTuple):
    """The sum of n copies of W tilted by e^{θ·sum}, with θ near the saddle point (1.4).

    Attributes
    ----------
    tilt : float
        θ.
    log_moment : float
        An upper bound of n·log M(θ).
    tilted : tuple of float
        The tilted probability (1.5) of each value, and of the value 0 at the end.
    deviation : float
        The standard deviation of the tilted sum.
    """

    tilt: float
    log_moment: float
    tilted: tuple[float, ...]
    deviation: float


def saddle(summand: Summand) -> Saddle:
    """Return the sum of n copies of W, tilted to where its positive part comes from."""
    n = summand.reports
    values = (*summand.values, 0.0)
    probabilities = (*summand.probabilities, summand.missing)
    (tilt,) = tilts_of(
        n,
        np.array(summand.values)[:, None],
        np.array(summand.probabilities)[:, None],
        missing=np.array([summand.missing]),
        means=np.array([summand.mean]),
    ).tolist()
    weights = [
        probability * math.exp(max(tilt * value, -700.0))
        for value, probability in zip(values, probabilities, strict=True)
    ]
    moment = math.fsum(weights)
    first = math.fsum(weight * value for weight, value in zip(weights, values, strict=True)) / moment
    second = math.fsum(weight * value**2 for weight, value in zip(weights, values, strict=True)) / moment
    size = math.fsum(weight * abs(value) for weight, value in zip(weights, values, strict=True)) / moment
    return Saddle(
        tilt,
        # An error of a few units in θ·W changes the weight by as much (1.6).
        n * (math.log(moment) + 16 * UNIT * (4 + tilt * size)),
        tuple(weight / moment for weight in weights),
        math.sqrt(n * max(second - first**2, 0.0)),
    )


def estimated(summand: Summand) -> float:
    """Return log δ within a factor of about two, from the saddle point (1.7); this is not a bound."""
    point = saddle(summand)
    width = math.e + math.sqrt(2 * math.pi) * point.tilt * point.deviation
    return point.log_moment + math.log(summand.scale / point.tilt) - math.log(width)


def tilts_of(reports: float, values: Array, probabilities: Array, *, missing: Array, means: Array) -> Array:
    """Return θ near the minimum of M(θ)ⁿ/θ² (1.4) for each column of values and probabilities.

    Parameters
    ----------
    reports : float
        n.
    values, probabilities : array
        One row for each value of W but 0, one column for each distribution.
    missing, means : array
        The probability of the value 0 and the mean of each distribution.
    """
    variance = np.maximum(reports * (probabilities * values**2).sum(axis=0), 0.25)
    highest = LARGEST_POWER / np.maximum(values.max(axis=0), 1e-300)
    # A normal sum has its minimum at the positive root of variance·θ² + n·mean·θ − 2 = 0.
    half = -0.5 * reports * means / variance
    tilts = np.minimum(half + np.sqrt(half**2 + 2 / variance), highest)
    low = np.zeros_like(tilts)
    high = np.full_like(tilts, math.inf)
    for step in range(_MOST_STEPS):
        weights = probabilities * np.exp(np.minimum(tilts * values, 700.0))
        moments = weights.sum(axis=0) + missing
        first = (weights * values).sum(axis=0) / moments
        second = (weights * values**2).sum(axis=0) / moments - first**2
        # The derivative of n·log M(θ) − 2·log θ.
        slopes = reports * first - 2 / tilts
        low = np.where(slopes < 0, tilts, low)
        high = np.where(slopes < 0, high, tilts)
        newton = tilts - slopes / (reports * second + 2 / tilts**2)
        newton = np.clip(newton, tilts / 4, np.minimum(4 * tilts, highest))
        # Newton's steps may be short or leave the bracket: then its geometric mean is taken.
        middle = np.sqrt(np.maximum(low, tilts / 16) * np.minimum(high, 16 * tilts))
        outside = (newton < low) | (newton > high) | (step % 8 == 7)
        following = np.where(outside, np.minimum(middle, highest), newton)
        if np.all(np.abs(following - tilts) <= _CLOSE * tilts):
            break
        tilts = following
    return np.asarray(tilts)
