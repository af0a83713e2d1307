"""Dummies: the shuffler, or a helper, adds messages for every category, with truncated discrete Laplace noise."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from shoal.arrays import Array, BoolArray, IntArray
from shoal.checks import Number, check_fields, positive, probability, store, whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design, Moments
from shoal.estimation.estimate import Estimate
from shoal.mechanisms.bundled import NOTHING, Bundled, ReachedByPair
from shoal.mechanisms.categorical import Supported, checked_frequencies
from shoal.mechanisms.coins import Coins, Simulation, coins_for, logarithm_above
from shoal.mechanisms.mechanism import Counts, Reports, check_counts
from shoal.pairs.discrete_laplace import DECAYS, MOST_LIMIT, DummyPair
from shoal.pairs.registry import register
from shoal.proofs.several_messages_claim import DummyClaim

_PRECISION = 320
_MOST_HELPERS = 1000


def decay_of(epsilon: float) -> int:
    """Return the least whole number of 2⁻⁶⁴ that is at least e^(−ε/2), in these parts."""
    with ctx.workprec(_PRECISION):
        decay = (-arb(epsilon) / 2).exp()
        return int((decay * DECAYS).upper().ceil().fmpz())


@register("dummies", "the category itself; the shuffler, or helpers, add dummies", code=11)
@dataclass(frozen=True, kw_only=True)
class Dummies(Bundled):
    """The mechanism in which people send their category, and the shuffler adds dummies that hide each of them.

    For each category, t + Z dummies are added, ``Pr(Z = z) ∝ e^(−ε|z|/2)`` for z from −t to t, drawn exactly with whole
    numbers. The analyst subtracts t. The guarantee is that of a trusted curator who adds this noise, whatever all other
    people do, and for any number of them (docs/theory/several-messages.md, Theorem D). A value outside the categories
    has no dummies.

    Dummies are drawn **once** for the same messages: `released`, or `dummies`, must not be called twice on them, since
    what both results have in common is what people said.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    epsilon : float
        ε₁, what one person costs but for an infinite loss; rounded down to what whole numbers of 2⁻⁶⁴ have.
    limit : int
        t ≥ 1; the larger, the rarer is an infinite loss.
    helpers : int
        How many parties add dummies, each as many; one of them must be honest.

    Examples
    --------
    >>> mechanism = Dummies(categories=3, epsilon=0.5, limit=50)
    >>> counts = mechanism.released(mechanism.aggregate([0, 2, 2]))
    >>> counts.reports
    3
    >>> import shoal
    >>> shoal.amplify(mechanism, reports=3)
    PrivacyCurve(ε=0.5 at δ=1e-06, n=3, ε₀=inf, dummies; nothing remains if shuffler and analyst collude)
    """

    theorem: ClassVar[str] = "dummies"

    epsilon: float
    limit: int
    helpers: int = 1
    decay: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_fields(self, whole, "categories", least=2)
        check_fields(self, whole, "limit", most=MOST_LIMIT)
        check_fields(self, whole, "helpers", most=_MOST_HELPERS)
        epsilon = positive(epsilon=self.epsilon)
        decay = decay_of(epsilon)
        if not 0 < decay < DECAYS:
            raise ParameterError(f"epsilon={epsilon!r} is out of the range of 64-bit coins; use 1e-15 to 80")
        exact = logarithm_above(Fraction(DECAYS, decay) ** 2)
        store(self, decay=decay, epsilon=min(exact, epsilon), local_epsilon=math.inf)

    @cached_property
    def design(self) -> Design:
        """Every category supports itself."""
        return Design(self.categories, 1, 0)

    @cached_property
    def moments(self) -> Moments:
        """The message of a person is the category."""
        return self.design.moments(1.0)

    @property
    def outputs(self) -> int:
        """How many different messages there are: one for each category."""
        return self.categories

    @property
    def cells(self) -> int:
        """How many numbers the count state has: one for each category, and how often dummies were drawn."""
        return self.categories + 1

    @property
    def influence(self) -> float:
        """By how many people one malicious person can move the estimate of a category."""
        return 1.0

    @property
    def added(self) -> int:  # type: ignore[override]
        """How many dummies are added on average, those of all helpers."""
        return self.helpers * self.limit * self.categories

    @property
    def remains(self) -> str:
        """What is left if shuffler and analyst collude."""
        return NOTHING

    def profile(self, reports: int) -> DummyPair:
        """Return the pair, which is that of any number of people."""
        return DummyPair(self.decay, self.limit)

    def claim(self, reports: int) -> DummyClaim:
        """Return what a certificate claims."""
        return DummyClaim(self.decay, self.limit)

    def reached(self, reports: int) -> ReachedByPair:
        """Return what every dataset reaches: the same."""
        return ReachedByPair(self.profile(reports))

    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return the message of each person, which is the category."""
        return values.astype(self.blank.dtype)

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each message is the category next to it."""
        return np.equal(reports, values)

    def noise(self, coins: Coins, count: int) -> IntArray:
        """Return independent Z, exactly: the binary digits of a geometric number, a sign, and another try beyond t.

        The digits of a geometric number are independent; that of 2ⁱ is 1 with odds a^(2ⁱ) : 1.
        """
        result = np.zeros(count, np.int64)
        left = np.arange(count)
        powers = [self.decay]
        for _ in range(self.limit.bit_length() - 1):
            powers.append(powers[-1] ** 2)
        while len(left):
            size = np.zeros(len(left), np.int64)
            for digit, power in enumerate(powers):
                unit = 1 << (64 << digit)
                ones = coins.happen(power, power + unit, len(left))
                size += ones.astype(np.int64) << digit
            negative = coins.words(len(left)) >> np.uint64(63) != 0
            kept = (size <= self.limit) & ~(negative & (size == 0))
            result[left[kept]] = np.where(negative, -size, size)[kept]
            left = left[~kept]
        return result

    def draw(self, *, simulation: Simulation | None = None) -> IntArray:
        """Return how many dummies one party adds for each category: secret, and drawn once for the same messages."""
        return self.limit + self.noise(coins_for(simulation), self.categories)

    def dummies(self, *, simulation: Simulation | None = None) -> Reports:
        """Return the dummies of one party as messages, in a random order: drawn once for the same messages."""
        drawn = self.draw(simulation=simulation)
        messages = np.repeat(np.arange(self.categories), drawn).astype(self.blank.dtype)
        order = coins_for(simulation).permutation(len(messages))
        return np.asarray(messages[order])

    def released(self, counts: Counts[Any], *, simulation: Simulation | None = None) -> Counts[Any]:
        """Return what the analyst may see of these counts: with the dummies of all helpers, drawn now and only now."""
        check_counts(self, counts)
        if counts.values[-1]:
            raise ParameterError("these counts have their dummies already, and must not get others")
        values = counts.values.copy()
        for _ in range(self.helpers):
            values[:-1] += self.draw(simulation=simulation)
        values[-1] = self.helpers
        return Counts(self, values, counts.reports)

    def aggregate(self, reports: ArrayLike, *, people: int | None = None) -> "Counts[Self]":
        """Return the count state of messages.

        Parameters
        ----------
        reports : array_like
            Messages of people alone; or, with `people`, all messages of a round with the dummies of all helpers.
        people : int, optional
            How many of the messages are of people, not dummies.
        """
        messages = self._checked(reports)
        counts = Counts(self, np.append(self.tally(messages), 0), len(messages))
        return counts if people is None else self.of_people(counts, people)

    def additions(self, *, simulation: Simulation | None = None) -> list[Reports]:
        """Return the dummies of every helper, drawn once for the same messages."""
        return [self.dummies(simulation=simulation) for _ in range(self.helpers)]

    def of_people(self, counts: Counts[Any], people: int) -> Counts[Any]:
        """Return counts of all messages of a round, dummies of all helpers included, as those of so many people."""
        total = whole(people=people, least=0)
        values = counts.values.copy()
        values[-1] = self.helpers
        if counts.values[-1] or not self.consistent(values, total):
            most = total + 2 * self.helpers * self.limit * self.categories
            raise ParameterError(
                f"{total:,} people send {total:,} to {most:,} messages with their dummies, got {counts.reports:,}"
            )
        return Counts(self, values, total)

    def collected(self, values: IntArray, people: int, invalid: int) -> Counts[Any]:
        """Return the counts of a round with its dummies: whoever sent what is not valid is not counted."""
        counts = Counts(self, values, int(values[:-1].sum()))
        return self.of_people(counts, max(people - invalid, 0))

    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether so many people and as many draws of dummies can have these counts."""
        total = sum(values[:-1].tolist())
        most = 2 * int(values[-1]) * self.limit * self.categories
        return bool(reports <= total <= reports + most)

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return how many messages say each category, less the mean of its dummies."""
        mean = self.limit * int(cells[-1])
        said = cells[:-1].astype(np.float64)
        return said - mean, np.full(1, float(reports))

    @cached_property
    def _steps(self) -> Array:
        """The values of Z, from −t to t."""
        return np.arange(-self.limit, self.limit + 1, dtype=np.float64)

    @cached_property
    def _masses(self) -> Array:
        """The probability of every Z."""
        powers = (self.decay / DECAYS) ** np.abs(self._steps)
        return np.asarray(powers / powers.sum())

    @cached_property
    def noise_variance(self) -> float:
        """The variance of a count, that of the noise of all helpers."""
        return self.helpers * float(self._masses @ self._steps**2)

    def noise_masses(self, counts: Counts[Any], categories: int = 1) -> tuple[int, Array]:
        """Return the least value of a sum of as many Z for each helper, and the probabilities of all values."""
        copies = categories * int(counts.values[-1])
        size = 2 * self.limit * copies + 1
        spectrum = np.fft.rfft(self._masses, size)
        masses = np.fft.irfft(spectrum**copies, size)
        return -copies * self.limit, np.maximum(masses, 0)

    def noise_like(self, other: Bundled) -> bool:
        """Tell whether another protocol adds the same noise to each count."""
        return isinstance(other, Dummies) and replace(other, categories=self.categories) == self

    def weighted_cumulants(self, counts: Counts[Any], weights: Array) -> tuple[float, float]:
        """Return the second and the fourth cumulant of the sum of the noise of each category times its weight."""
        draws = int(counts.values[-1])
        second = float(self._masses @ self._steps**2)
        fourth = float(self._masses @ self._steps**4)
        excess = fourth - 3 * second**2
        squares = float(np.sum(weights**2))
        fourths = float(np.sum(weights**4))
        return draws * second * squares, draws * excess * fourths

    def variance(self, frequencies: ArrayLike | None = None, *, reports: Number) -> Array:
        """Return the variance of each estimated frequency, given the people: the same for all of them."""
        checked_frequencies(frequencies, self.categories)
        return np.full(self.categories, self.noise_variance / whole(reports=reports) ** 2)

    @property
    def rare_variance(self) -> float:
        """Refuse: the variance is no multiple of 1/n."""
        raise ParameterError("the error of dummies falls with 1/n, and not with its root; use rare_error(n)")

    def rare_error(self, reports: int) -> float:
        """Return the standard error of the frequency of any category."""
        return math.sqrt(self.noise_variance) / reports

    def estimate(self, counts: Counts[Any], *, confidence: float = 0.95) -> Estimate:
        """Return unbiased estimates of all frequencies, with standard errors and exact confidence intervals."""
        check_counts(self, counts)
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        draws = int(counts.values[-1])
        if not draws:
            raise ParameterError(
                "these counts have no dummies, and are the exact histogram; `released` adds them, or the shuffler does"
            )
        n = counts.reports
        support, _ = self.supported(counts.values, n)
        fewest, most = self.noise_limits(counts, (1 - confidence) / 2)
        lower = np.clip((support - most) / n, 0, 1)
        upper = np.clip((support - fewest) / n, 0, 1)
        error = math.sqrt(self.noise_variance * draws / self.helpers) / n
        errors = np.full(self.categories, error)
        return Estimate.within(self, n, support / n, errors, (lower, upper), confidence=confidence)
