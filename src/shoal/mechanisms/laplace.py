"""Laplace noise on a number in an interval."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from shoal.checks import check_fields, positive
from shoal.mechanisms.integer_noise import LEAST_EPSILON, Grid, Noise, laplace_grid, laplace_noise
from shoal.mechanisms.mean import NoisyMean
from shoal.numerics.noise import LaplaceRatio
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.noise_profile import NoiseProfile, Pools
from shoal.pairs.registry import register
from shoal.proofs.blanket_claim import LaplaceClaim

_CELLS = 1200
_POOLS = 128
_SUMMED, _HALVINGS = 200, 60
"""Sums of up to 200 variables have their exact quantile, by bisection."""
_PROVED = 50.0
"""Beyond this ε₀, cells in ball arithmetic would be too many."""


@register("laplace", "a number with Laplace noise, rounded to a grid")
@dataclass(frozen=True, kw_only=True, repr=False)
class Laplace(NoisyMean):
    """The mechanism that adds Laplace noise to a number in an interval, of a scale 1/ε₀ times its length.

    What is reported is a cell of a grid. That is Laplace noise on [0, 1] with values rounded before and reports after
    it, and what holds for the noise holds for the mechanism (docs/theory/numbers.md). Of all pairs of values, the two
    ends are the easiest to tell apart, and their distributions have the blanket ω = min(R₀, R₁) (Theorem B,
    docs/theory/blanket.md).

    Parameters
    ----------
    local_epsilon : float
        ε₀ > 0; that of the integers with which the coins are compared is at most this, and less by 2⁻⁵⁹ of it at most
        (docs/theory/numbers.md).
    lower, upper : float
        The ends of the interval.

    Examples
    --------
    >>> from shoal.mechanisms.coins import Simulation
    >>> ages = Laplace(local_epsilon=2, lower=0, upper=120)
    >>> ages.scale, ages.bits_per_report
    (60.0, 11)
    >>> reports = ages.randomize([30.0, 40.0, 50.0] * 100_000, simulation=Simulation(seed=1))
    >>> estimate = ages.estimate(ages.aggregate(reports))
    >>> round(estimate.mean, 2), round(estimate.standard_error, 2)
    (40.1, 0.15)
    """

    blanket_row: ClassVar[tuple[str, int]] = ("laplace", 2)

    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        check_fields(self, positive, "local_epsilon")

    @property
    def scale(self) -> float:
        """The scale of the noise in units of the values, (upper − lower)/ε₀."""
        return self.length / self.local_epsilon

    @property
    def grid(self) -> Grid:
        """The points to which numbers are rounded, and the cells in which they are reported."""
        return laplace_grid(self.local_epsilon)

    @property
    def noise(self) -> Noise:
        """The integers with which the coins are compared, proved to be ε₀-DP; computed when first used."""
        return laplace_noise(self.local_epsilon)

    def profile(self, reports: int) -> NoiseProfile:
        """Return the privacy profile of n such reports, shuffled."""
        return NoiseProfile(reports, LaplaceRatio(self.local_epsilon))

    def _quantile(self, reports: int, level: float) -> float:
        """Return the quantile of a sum of Laplace noise, which has heavier tails than a normal one."""
        return _sum_quantile(reports, level)

    @property
    def blanket(self) -> tuple[Likelihoods, ...]:
        """The likelihoods on the blanket, each moved to the two ends of its cell with its mean kept.

        That only adds to δ. Left of 1/2, R₁ is the blanket and R₀/R₁ = t has ω(ratio > t) = e^{−ε₀/2}/(2√t) up to e^ε₀,
        with an atom of 1/(2e^ε₀) there; right of it the same with R₀ and R₁ exchanged.
        """
        return (_table(self.local_epsilon),)

    def claim(self, reports: int) -> LaplaceClaim | None:
        """Return what a certificate of n reports claims."""
        return LaplaceClaim(reports, self.local_epsilon, 2) if self.local_epsilon <= _PROVED else None

    def _reached(self) -> tuple[Pools, ...]:
        """Return what the reports look like if all others hold the lower end, the upper one, or the middle.

        Where there are more cells than pools they are put together, which loses a little. Nothing, for an ε₀ that is
        too small to be run.
        """
        if self.local_epsilon < LEAST_EPSILON:
            return ()
        rate = self.local_epsilon / self.grid.intervals

        def between(low: float, high: float) -> float:
            return -0.5 * math.exp(-rate * low) * math.expm1(rate * (low - high))

        return self._pooled(between, 0, _POOLS)


@lru_cache(maxsize=64)
def _sum_quantile(count: int, level: float) -> float:
    """Return the upper quantile of a sum of Laplace variables, in units of its standard deviation.

    The sum is the difference of two times of arrival, the count-th of two Poisson processes of rate 1. It exceeds s if
    fewer than `count` of the first have come s after the last of the second: i of them in this s, and, by the other
    time, at most count − 1 − i, a negative binomial number with parameter 1/2.
    """
    normal = -NormalDist().inv_cdf(level)
    if count > _SUMMED:  # Cornish and Fisher, with the excess 3/n
        return normal + (normal**3 - 3 * normal) / (8 * count)
    waiting = [0.5**count]
    for number in range(1, count):
        waiting.append(waiting[-1] * 0.5 * (count - 1 + number) / number)
    waited = list(accumulate(waiting))[::-1]
    rare = math.log(1 / level)
    low = 0.0
    high = 2 * math.sqrt(count * rare) + 2 * rare
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        term = math.exp(-middle)
        tail = 0.0
        for number, share in enumerate(waited, start=1):
            tail += term * share
            term *= middle / number
        if tail > level:
            low = middle
        else:
            high = middle
    return high / math.sqrt(2 * count)


@lru_cache(maxsize=64)
def _table(local_epsilon: float) -> Likelihoods:
    """Return rows (ln t, 0, probability), and the same with the two inputs exchanged; t = 1 once."""
    half = local_epsilon / 2
    # A cell is as wide as 1/√t: the variance that moving t to its ends adds is then spread evenly.
    parts = np.linspace(0.0, 1.0, _CELLS + 1)
    logs = 2 * np.log1p(parts * math.expm1(half))
    logs[-1] = local_epsilon
    steps = np.diff(logs) / 2
    above = 0.5 * np.exp(-0.5 * (local_epsilon + logs[:-1]))
    masses = above * -np.expm1(-steps)
    right = 1 / (1 + np.exp(steps))  # the mean of t in a cell is the geometric mean of its ends
    probabilities = np.append(masses * (1 - right), 0.5 * math.exp(-local_epsilon))
    probabilities[1:] += masses * right
    pairs = list(zip(logs.tolist(), probabilities.tolist(), strict=True))
    rows = [(log, 0.0, probability) for log, probability in pairs if log > 0]
    middle = [(0.0, 0.0, 2 * probability) for log, probability in pairs if log == 0]
    mirrored = ((0.0, log, probability) for log, _, probability in rows)
    return Likelihoods((*rows, *mirrored, *middle), rest=-math.expm1(-half))
