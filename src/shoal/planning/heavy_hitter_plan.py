"""The plan of a search for heavy hitters: rounds over longer and longer prefixes, all with one order and one truth."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shoal.amplification.amplify import amplify
from shoal.calibration.target import Target, gaussian_spread, target_of
from shoal.checks import Number, positive, probability, whole
from shoal.composition.compose import compose
from shoal.curve import PrivacyCurve
from shoal.documentation import address
from shoal.errors import ParameterError, UnreachableError
from shoal.estimation.interval import upper_tail
from shoal.mechanisms import Covered, Indexed, ProjectiveGeometryResponse, RandomizedResponse
from shoal.mechanisms.coins import WHOLE, logarithm_above
from shoal.mechanisms.finite_field import check_prime, primes
from shoal.mechanisms.projective_geometry_response import points
from shoal.planning.coded_strings import MOST_BITS
from shoal.searches import bisect_count

CITATION = f"Theorem H of shoal ({address('theory/several-messages')})"
_TRUTH = Fraction((1 << 16) - 1, 1 << 16)
"""How often a message tells the truth: nearly always, and no loss is infinite."""
_LARGEST_ORDER = 65_521
_STEP = 1.06
_MOST_COVERS = 64
_TAIL_ERROR = 1e-11
"""Added to `upper_tail`, so that false alarms are never stated to be rarer than they are.

Its error was at most 1.4e-12 for up to 10¹¹ messages; a false alarm at five deviations has 3e-7.
"""


@dataclass(frozen=True, kw_only=True)
class HeavyHitterPlan:
    """A search for the strings that many people hold, settled in advance: all of it but the lists of prefixes.

    Round 1 counts all prefixes of `first` bits; each round after it, the prefixes that are `step` bits longer, of those
    that had more than `threshold` people. In every round a person sends one message over a projective geometry of the
    same order, and covers in `slots`. Whoever holds no listed prefix says "none of these", a point of its own.

    Parameters
    ----------
    people : int
        How many certainly take part in every round: the minimum, less those who may be absent, malicious or known.
    bits, first, step : int
        Of a whole string, of the prefixes of round 1, and how many more in each round after it.
    slots : int
        How many slots a bundle has besides the message itself.
    fill : float
        How likely a slot holds a cover.
    order : int
        Q, a prime, of the geometries of all rounds.
    deviations : float
        How many standard deviations of an empty prefix the threshold is at.

    Examples
    --------
    >>> import shoal
    >>> plan = shoal.plan_heavy_hitters(people=1_000_000, epsilon=1)
    >>> plan
    HeavyHitterPlan(5 rounds of 1,000,000 people, order 5531, strings of more than 95 people)
    >>> plan.curve
    PrivacyCurve(ε=0.99847 at δ=1e-06, 5 rounds, n=1,000,000, pld)
    """

    people: int
    bits: int = 48
    first: int = 16
    step: int = 8
    slots: int = 1
    fill: float = 1.0
    order: int
    deviations: float = 5.0

    def __post_init__(self) -> None:
        """Check the fields."""
        for name, least, most in (
            ("people", 1, 10**12), ("bits", 8, MOST_BITS), ("first", 1, 20), ("step", 1, 16),
            ("slots", 1, _MOST_COVERS),
        ):  # fmt: skip
            object.__setattr__(self, name, whole(least=least, most=most, **{name: getattr(self, name)}))
        object.__setattr__(self, "deviations", positive(deviations=self.deviations))
        if self.bits % 8 or self.first > self.bits or (self.bits - self.first) % self.step:
            raise ParameterError(
                f"bits must be a multiple of 8, and first plus a few times step; got bits={self.bits}, "
                f"first={self.first}, step={self.step}",
                "bits",
            )
        if check_prime(self.order, "order") > _LARGEST_ORDER:
            raise ParameterError(f"order must be at most {_LARGEST_ORDER}, got {self.order}", "order")
        _ = self.mechanism

    @property
    def depths(self) -> tuple[int, ...]:
        """How many bits the prefixes of each round have."""
        return tuple(range(self.first, self.bits + 1, self.step))

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.depths)

    @cached_property
    def mechanism(self) -> Covered:
        """What stands for every round, whatever its list: covers over Q + 1 categories (Theorem H)."""
        outputs = self.order + 1
        response = RandomizedResponse(categories=outputs, local_epsilon=_local_epsilon(Fraction(1, outputs)))
        return self._covered(response)

    def of_list(self, listed: int) -> Covered:
        """Return what people run in a round with so many prefixes; category 0 is "none of these"."""
        categories, dimension = listed + 1, 2
        while points(self.order, dimension) < categories:
            dimension += 1
        share = Fraction(points(self.order, dimension - 1), points(self.order, dimension))
        largest = self._truth
        local_epsilon = _local_epsilon(share)
        while True:  # the truth of no round is above that of what stands for it, not by one part in 2⁶⁴
            response = ProjectiveGeometryResponse(
                categories=categories, local_epsilon=local_epsilon, order=self.order, dimension=dimension, blocks=1
            )
            if response.truth <= largest:
                return self._covered(response)
            local_epsilon = math.nextafter(min(local_epsilon, response.local_epsilon), 0)

    @cached_property
    def _truth(self) -> int:
        assert self.mechanism.response is not None
        return self.mechanism.response.truth

    def _covered(self, response: Indexed) -> Covered:
        return Covered(categories=response.categories, slots=self.slots, fill=self.fill, response=response)

    @cached_property
    def of_round(self) -> PrivacyCurve:
        """The guarantee of a round, whatever its list; a ledger charges it once for each."""
        return amplify(self.mechanism, reports=self.people)

    @cached_property
    def curve(self) -> PrivacyCurve:
        """The guarantee of all rounds together, lists that were chosen from earlier results included."""
        return compose([(self.of_round, self.rounds)])

    @property
    def remains(self) -> str:
        """What is left if shuffler and analyst collude: next to nothing."""
        random = round(1 / (1 - Fraction(self._truth, WHOLE)))
        return (
            "next to nothing: whoever sees messages before they are shuffled sees what each person said, in every "
            f"round, but for about one message in {random:,}, which is random"
        )

    def error(self, people: int | None = None, listed: int | None = None) -> float:
        """Return the standard deviation of the count of a prefix that nobody holds; by default, in a long list."""
        long = 2**self.first if self.rounds == 1 else max(2**self.first, self.order + 1)
        mechanism = self.of_list(long if listed is None else listed)
        return math.sqrt(mechanism.rare_variance * (people or self.people))

    @property
    def threshold(self) -> float:
        """How many people a prefix must be estimated to have, in a long list, to be kept."""
        return self.deviations * self.error()

    def false_alarm(self, people: int, listed: int) -> float:
        """Return how likely one prefix that nobody holds comes out above the threshold, in a round with such a list.

        With as many covers as are expected. The count is a sum of independent bits, of which no other with the same
        mean is above a limit more than one above the mean as often as a binomial one (Hoeffding, 1956).
        """
        mechanism = self.of_list(listed)
        covers = round(people * self.slots * self.fill)
        mean = people * mechanism.moments.same[0] + covers * float(mechanism.design.share)
        limit = math.floor(mean + self.deviations * self.error(people, listed) * mechanism.moments.scale)
        messages = np.array([float(people + covers)])
        share = mean / (people + covers)
        tail = upper_tail(np.array([limit + 1.0]), messages, messages, share, share)
        return min(1.0, float(tail[0]) + _TAIL_ERROR)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, as a task or a file would have it."""
        return {
            "people": self.people,
            "bits": self.bits,
            "first": self.first,
            "step": self.step,
            "slots": self.slots,
            "fill": self.fill,
            "order": self.order,
            "truth": self._truth,
            "deviations": self.deviations,
            "rounds": self.rounds,
            "error": self.error(),
            "threshold": self.threshold,
        }

    def __repr__(self) -> str:
        """Show its size, and what it finds."""
        rounds = f"{self.rounds} round{'s' if self.rounds > 1 else ''} of {self.people:,} people"
        return f"HeavyHitterPlan({rounds}, order {self.order}, strings of more than {self.threshold:.0f} people)"


def plan_heavy_hitters(
    *,
    people: Number,
    epsilon: Number,
    delta: Number = 1e-6,
    bits: Number = 48,
    first: Number = 16,
    step: Number = 8,
    covers: Number = 1.0,
    deviations: Number = 5.0,
) -> HeavyHitterPlan:
    """Return the plan of a search for heavy hitters that all rounds together keep (ε, δ): the largest order that does.

    Parameters
    ----------
    people : int
        How many certainly take part in every round: the minimum, less those who may be absent, malicious or known.
    epsilon, delta : float
        What all rounds together must keep.
    bits, first, step : int
        Of a whole string, of the prefixes of round 1, and how many more in each round after it.
    covers : float
        How many covers a person sends in a round, on average: more of them find rarer strings.
    deviations : float
        How many standard deviations of an empty prefix the threshold is at.

    Examples
    --------
    >>> plan_heavy_hitters(people=100_000, epsilon=1, bits=24, covers=0.5)
    HeavyHitterPlan(2 rounds of 100,000 people, order 661, strings of more than 75 people)
    """
    target = target_of(epsilon, probability(delta=delta), None)
    mean = positive(covers=covers)
    if mean > _MOST_COVERS:
        raise ParameterError(f"covers must be at most {_MOST_COVERS}, got {covers:g}", "covers")
    slots = math.ceil(mean)
    settings: dict[str, Any] = {"people": whole(people=people), "bits": bits, "first": first, "step": step}
    settings |= {"slots": slots, "fill": mean / slots, "deviations": deviations}
    rounds = HeavyHitterPlan(order=2, **settings).rounds
    orders = primes(_LARGEST_ORDER)

    def kept(index: int) -> bool:
        return target.excess(HeavyHitterPlan(order=orders[index], **settings).of_round, rounds) <= 0

    index = _likely(target, rounds, settings["people"] * mean, orders)
    good, unsafe = -1, len(orders)
    while good < 0 <= index:  # down to what keeps the target
        if kept(index):
            good = index
        else:
            unsafe, index = index, min(index - 1, bisect_right(orders, orders[index] / _STEP) - 1)
    if good < 0:
        raise UnreachableError(
            f"{settings['people']:,} people with {mean:g} covers each are too few for epsilon={epsilon:g} at "
            f"delta={delta:g} in {rounds} rounds; more covers, fewer bits or a larger ε would do"
        )
    while unsafe == len(orders) and good < len(orders) - 1:  # up to what does not
        index = min(len(orders) - 1, max(good + 1, bisect_right(orders, orders[good] * _STEP) - 1))
        if kept(index):
            good = index
        else:
            unsafe = index
    return HeavyHitterPlan(order=orders[bisect_count(kept, unsafe=unsafe, good=good)], **settings)


def _likely(target: Target, rounds: int, covers: float, orders: tuple[int, ...]) -> int:
    """Return about the largest order, as if losses were normal: with μ covers on two outputs each, of variance 2/μ."""
    mean = 2 * rounds / gaussian_spread(target.epsilon, target.delta) ** 2
    return max(0, bisect_right(orders, covers / mean) - 1)


def _local_epsilon(share: Fraction) -> float:
    """Return the ε₀ of a response that tells the truth with the probability τ, rounded up."""
    return logarithm_above(1 + _TRUTH / (1 - _TRUTH) / share)
