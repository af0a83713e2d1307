"""Covers: each person adds uniformly random messages to their own, and the messages of all are shuffled one by one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import Array, BoolArray, IntArray
from shoal.checks import Number, check_fields, probability, store, whole
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.estimation.design import Design, Moments
from shoal.estimation.estimate import Estimate
from shoal.estimation.interval import two_sided
from shoal.mechanisms.bundled import NOTHING, Bundled, ReachedByPair, binomial_masses, quantiles
from shoal.mechanisms.categorical import Indexed, Supported, checked_frequencies
from shoal.mechanisms.coins import WHOLE, Coins
from shoal.mechanisms.mechanism import Counts, Reports, check_counts, first_outside
from shoal.pairs.cover_pair import MOST_SLOTS, CoverPair, covered_response
from shoal.pairs.pair import Pair
from shoal.pairs.registry import mechanism_of, register
from shoal.proofs.several_messages_claim import CoverClaim

_FILLS = 1 << 32
"""A slot is filled by a coin of so many sides."""
_MOST_SLOTS = 64


@register(
    "covered", "a bundle: a message, and slots that may hold covers, which are uniformly random messages", code=10
)
@dataclass(frozen=True, kw_only=True)
class Covered(Bundled):
    """The mechanism that sends one message of a person and, in each of some slots, perhaps a cover.

    A cover is a uniformly random message. The true message of one person is hidden among the covers of all, and no
    person's own coin blurs the counts: for k-ary responses the guarantee is exact (docs/theory/several-messages.md,
    Theorem V), and the error is the same for rare and frequent categories. People without a listed value need a
    category of their own: a uniform message instead would add to every estimate.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    slots : int
        How many slots a bundle has besides the message itself. One malicious person can add 1 + slots to a count.
    fill : float
        How likely a slot holds a cover; rounded up to a multiple of 2⁻³².
    response : Indexed, optional
        What is reported instead of the category, such as ``ProjectiveGeometryResponse(…)``: its ε₀ remains if shuffler
        and analyst collude. Without it, the message is the category itself.

    Examples
    --------
    >>> mechanism = Covered(categories=100, slots=1, fill=0.1361)
    >>> bundles = mechanism.randomize([3, 3, 3, 7])
    >>> bundles.shape
    (4, 2)
    >>> mechanism.estimate(mechanism.aggregate(bundles)).reports
    4
    >>> import shoal
    >>> shoal.amplify(mechanism, reports=100_000)
    PrivacyCurve(ε=0.499979 at δ=1e-06, n=100,000, ε₀=inf, covers; nothing remains if shuffler and analyst collude)
    """

    theorem: ClassVar[str] = "covers"

    slots: int = 1
    fill: float
    response: Indexed | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_fields(self, whole, "categories", least=2)
        check_fields(self, whole, "slots", most=_MOST_SLOTS)
        given = self.fill
        if not isinstance(given, (int, float)) or isinstance(given, bool) or not 0 < given <= 1:
            raise ParameterError(f"fill must be greater than 0 and at most 1, got {given!r}", "fill")
        store(self, fill=math.ceil(Fraction(given) * _FILLS) / _FILLS)
        if isinstance(self.response, Mapping):
            store(self, response=mechanism_of(self.response))
        if self.response is None:
            store(self, local_epsilon=math.inf)
            return
        if not isinstance(self.response, Indexed) or self.response.categories != self.categories:
            raise ParameterError(
                f"response must be a mechanism with numbered reports for {self.categories:,} categories, such as "
                f"ProjectiveGeometryResponse; got {self.response!r}",
                "response",
            )
        store(self, local_epsilon=self.response.local_epsilon)

    @cached_property
    def design(self) -> Design:
        """How many messages there are, and how many support one category, or two."""
        return Design(self.categories, 1, 0) if self.response is None else self.response.design

    @property
    def truth(self) -> Fraction:
        """How likely a message is one that supports the value, besides those that are uniform."""
        return Fraction(1) if self.response is None else Fraction(self.response.truth, WHOLE)

    @cached_property
    def moments(self) -> Moments:
        """How often the message of a person, covers apart, supports a category."""
        return self.design.moments(float(self.truth))

    @property
    def bundle(self) -> int:  # type: ignore[override]
        """How many messages a person sends: always as many, empty slots included."""
        return 1 + self.slots

    @property
    def null(self) -> int | None:
        """The message of an empty slot; none if every slot is filled."""
        return self.design.outputs if self.fill < 1 else None

    @property
    def outputs(self) -> int:
        """How many different messages there are, that of an empty slot included."""
        return self.design.outputs + (self.fill < 1)

    @property
    def messages_per_person(self) -> float:  # type: ignore[override]
        """How many messages count, on average: the message itself and its covers."""
        return 1 + self.slots * self.fill

    @property
    def influence(self) -> float:
        """By how many people one malicious bundle can move the estimate of a category."""
        return (1 + self.slots) / self.moments.scale

    @property
    def remains(self) -> str:
        """What is left if shuffler and analyst collude."""
        return NOTHING if self.response is None else f"ε₀ = {rounded_up(self.local_epsilon)} of the response"

    def profile(self, reports: int) -> Pair:
        """Return the pair of n people, all of whom fill their slots."""
        design = self.design
        slots = self.slots * reports
        if slots > MOST_SLOTS:
            raise ParameterError(
                f"{reports:,} people with slots={self.slots} have more than {MOST_SLOTS:,} slots together; ask for "
                f"reports={MOST_SLOTS // self.slots}, whose guarantee holds for more people as well"
            )
        numbers = {"outputs": design.outputs, "supporting": design.supporting, "common": design.least_common}
        if self.response is None:
            return CoverPair(slots, self.fill, **numbers)
        return covered_response(slots, self.fill, **numbers, truth=self.truth)

    def claim(self, reports: int) -> CoverClaim:
        """Return what a certificate of n people claims."""
        design = self.design
        truth = WHOLE if self.response is None else self.response.truth
        slots = self.slots * reports
        return CoverClaim(slots, self.fill, design.outputs, design.supporting, design.least_common, truth)

    @property
    def reached(self) -> Callable[[int], ReachedByPair] | None:
        """What every dataset reaches, for k-ary responses; not known for others."""
        if self.response is not None:
            return None
        return lambda reports: ReachedByPair(self.profile(reports))

    @property
    def blank(self) -> Reports:
        """No bundle at all, of the smallest type that holds all messages."""
        return np.empty((0, self.bundle), super().blank.dtype)

    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return a bundle for each value: the message first, then the slots."""
        outputs = self.design.outputs
        bundles = np.empty((len(values), self.bundle), self.blank.dtype)
        bundles[:, 0] = values if self.response is None else self.response.report(values, coins)
        count = len(values) * self.slots
        if self.null is None:
            drawn = coins.below(outputs, count)
            bundles[:, 1:] = drawn.reshape(-1, self.slots)
            return bundles
        covers = np.full(count, self.null, bundles.dtype)
        threshold = np.uint32(round(self.fill * _FILLS))
        filled = np.flatnonzero(coins.halves(count) < threshold)
        covers[filled] = coins.below(outputs, len(filled))
        bundles[:, 1:] = covers.reshape(-1, self.slots)
        return bundles

    def _checked(self, reports: ArrayLike) -> Reports:
        """Return all messages one after the other, whether they come in bundles or not."""
        given = np.asarray(reports)
        if given.ndim == 2 and given.shape[1] == self.bundle:
            given = given.ravel()
        if given.ndim == 1 and len(given) == 0:
            return np.empty(0, self.blank.dtype)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ParameterError(
                f"these are not bundles of {self.bundle} messages, nor messages: {given.dtype} of shape {given.shape}"
            )
        index = first_outside(given, self.outputs)
        if index is not None:
            raise ParameterError(f"message {index} is {given[index]}, and {self!r} has 0 to {self.outputs - 1}")
        return given

    def aggregate(self, reports: ArrayLike) -> "Counts[Self]":
        """Return the count state of bundles, or of all their messages in any order."""
        messages = self._checked(reports)
        people, rest = divmod(len(messages), self.bundle)
        if rest:
            raise ParameterError(f"{len(messages):,} messages are no whole number of bundles of {self.bundle}")
        return Counts(self, self.tally(messages), people)

    def collected(self, values: IntArray, people: int, invalid: int) -> "Counts[Any]":
        """Return the counts of a round of so many people: messages that are not valid count as empty ones.

        Whoever sends one could have sent an empty one instead, and moves estimates no further. If fewer messages say
        something than there are people, so many bundles at least were empty, and are no reports.
        """
        if self.null is None:
            raise ParameterError("with fill = 1 no message is empty, and none can stand for one that is not valid")
        filled = values.copy()
        filled[self.null] += invalid
        total = int(filled.sum())
        if total != people * self.bundle:
            raise ParameterError(f"{people:,} people send {people * self.bundle:,} messages, got {total:,}")
        silent = max(0, people - (total - int(filled[self.null])))
        filled[self.null] -= silent * self.bundle
        return Counts(self, filled, people - silent)

    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether so many bundles can have these counts: every person has a message that is not empty."""
        total = sum(values.tolist())
        empty = 0 if self.null is None else int(values[-1])
        return total == reports * self.bundle and empty <= reports * self.slots

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each message supports the category next to it; an empty slot supports none."""
        given = np.asarray(reports)
        if self.response is None:
            return np.asarray(given == np.asarray(values))
        empty = given == self.design.outputs
        supported = self.response.supports(np.where(empty, 0, given), values)
        return np.asarray(supported & ~empty)

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Return how many messages support each category, and how many fall into its block."""
        said = cells[: self.design.outputs]
        messages = int(said.sum())
        if self.response is None:
            return said.astype(np.float64), np.full(1, float(messages))
        return self.response.supported(said, messages)

    @property
    def _parted(self) -> bool:
        return self.design.blocks > 1

    @property
    def _block_share(self) -> float:
        return 1 / self.design.blocks

    def _block_frequencies(self, frequencies: Array) -> Array:
        if self.response is None:
            return np.ones(1)
        return self.response._block_frequencies(frequencies)

    @cached_property
    def _cover(self) -> tuple[float, float]:
        """The mean and the variance of Z of one cover, as `Moments` has it of a message."""
        share = self.design.supporting / self.design.outputs
        uniform = (share, 1 / self.design.blocks)
        return self.moments.mean(uniform), self.moments.spread(uniform)

    def _variance(self, frequencies: Array, blocks: Array | float, people: int, covers: float) -> Array:
        """Return the variance of estimates, that of the messages of people and that of the covers."""
        constant, slope = self.moments.line(blocks)
        own = (constant + slope * frequencies) / people
        of_covers = covers * self._cover[1] / (people * self.moments.scale) ** 2
        return np.asarray(own + of_covers)

    def variance(self, frequencies: ArrayLike | None = None, *, reports: Number) -> Array:
        """Return the variance of each estimated frequency, given the people, in closed form."""
        n = whole(reports=reports)
        given = checked_frequencies(frequencies, self.categories)
        covers = n * self.slots * self.fill
        return self._variance(given, self._block_frequencies(given), n, covers)

    @property
    def rare_variance(self) -> float:
        """The variance, times n, of the estimate for a category that nobody holds, where the others are all equal."""
        covers = self.slots * self.fill
        variance = self._variance(np.zeros(1), self._block_share, 1, covers)
        return float(variance[0])

    def _covers(self, counts: Counts[Any]) -> int:
        """Return how many covers there are: all messages that are not empty, less one for each person."""
        return int(counts.values[: self.design.outputs].sum()) - counts.reports

    def _check_plain(self) -> None:
        if self.response is not None:
            raise ParameterError(f"this needs messages that are categories themselves, and {self!r} has others")

    def noise_masses(self, counts: Counts[Any], categories: int = 1) -> tuple[int, Array]:
        """Return how likely it is that so many covers say one of so many categories."""
        self._check_plain()
        return binomial_masses(self._covers(counts), categories / self.categories)

    def weighted_cumulants(self, counts: Counts[Any], weights: Array) -> tuple[float, float]:
        """Return the second and the fourth cumulant of the sum of the weights of what all covers say."""
        self._check_plain()
        covers = self._covers(counts)
        apart = weights - np.mean(weights)
        second = float(np.mean(apart**2))
        fourth = float(np.mean(apart**4))
        return covers * second, covers * (fourth - 3 * second**2)

    def estimate(self, counts: Counts[Any], *, confidence: float = 0.95) -> Estimate:
        """Return unbiased estimates of all frequencies, with standard errors and confidence intervals.

        The number of covers is known: all messages that are not empty, less one for each person. For k-ary responses
        the intervals are exact, c + Bin(N, 1/k); for other designs they are normal.
        """
        check_counts(self, counts)
        supported = self.supported(counts.values, counts.reports)
        return self._estimated(supported, counts.reports, self._covers(counts), confidence)

    def estimate_messages(self, messages: ArrayLike, *, confidence: float = 0.95) -> Estimate:
        """Return the same estimate from the messages of all bundles, in any order, without a table of all outputs.

        Over a projective geometry with many more points than categories it takes little memory, and little time.
        """
        given = self._checked(messages)
        people, rest = divmod(len(given), self.bundle)
        if rest or not people:
            raise ParameterError(f"{len(given):,} messages are no whole number of bundles of {self.bundle}")
        if self.response is None:
            return self.estimate(self.aggregate(given), confidence=confidence)
        said = given if self.null is None else given[given != self.null]
        return self._estimated(self.response.supported_by(said), people, len(said) - people, confidence)

    def _estimated(self, supported: Supported, n: int, covers: int, confidence: float) -> Estimate:
        """Return the estimate, from how many messages support each category, and how many of them are covers."""
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        support, block = supported
        moments = self.moments
        mean, _ = self._cover
        observed = support - moments.overlap * block - covers * mean
        frequencies = moments.frequencies(observed / n)
        share: Array | float = 1.0
        if self._parted:
            share = moments.block_share((block - covers / self.design.blocks) / n)
        variance = self._variance(np.clip(frequencies, 0, 1), share, n, covers)
        deviation = np.sqrt(np.maximum(variance, 0))
        if self.response is None:
            first, masses = binomial_masses(covers, 1 / self.categories)
            fewest, most = quantiles(masses, (1 - confidence) / 2)
            lower = (support - first - most) / n
            upper = (support - first - fewest) / n
        else:
            width = two_sided(confidence) * deviation
            lower = frequencies - width
            upper = frequencies + width
        limits = (np.clip(lower, 0, 1), np.clip(upper, 0, 1))
        return Estimate.within(self, n, frequencies, deviation, limits, confidence=confidence)
