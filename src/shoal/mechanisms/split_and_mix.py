"""Split and mix: numbers are split into random messages that add up to them, with shares of discrete Laplace noise.

A share of geometric noise is a negative binomial number of shape 1/H, drawn exactly with integers.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import IntArray, WordArray
from shoal.assumptions import ANYWHERE
from shoal.checks import Number, check_fields, positive, probability, store, whole
from shoal.errors import ParameterError, UnreachableError
from shoal.estimation.distribution_estimate import MixEstimate
from shoal.mechanisms.coins import Coins, Simulation, coins_for
from shoal.mechanisms.dummies import decay_of
from shoal.mechanisms.number_range import NumberRange
from shoal.pairs.discrete_laplace import DECAYS, MixProfile, distance_above
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.registry import register

_TAIL = 40
"""The modulus leaves room for noise of so many times its scale, which a round exceeds with probability e^−40."""
_MOST_BITS = 62
_MOST_MESSAGES = 64
_MOST_STEPS = 1 << 20


@register("split-and-mix", "numbers modulo q that add up to the value and a share of noise")
@dataclass(frozen=True, kw_only=True)
class SplitAndMix:
    """The mechanism that sends m numbers modulo q, of which all but one are uniform and whose sum is the value.

    A number is rounded at random to one of Δ + 1 levels, a share of discrete Laplace noise is added, and the result is
    split. Whoever sees the shuffled messages of H honest people sees about nothing but their sum (docs/theory/
    several-messages.md, Theorem M).

    **One malicious client can move the sum anywhere.** Use `Levels` unless every client is attested.

    Parameters
    ----------
    epsilon : float
        ε of the noise of the sum.
    honest : int
        H: how many people certainly take part and add their noise, the minimum of a round less those who may be absent
        or malicious. It is a constant of the task; never the number of people who came.
    people : int
        How many people there may be at most.
    messages : int
        m ≥ 3.
    steps : int
        Δ.
    lower, upper : float
        The interval of the numbers.

    Examples
    --------
    >>> mechanism = SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=9_000, people=10_000)
    >>> mechanism.messages, mechanism.modulus == 2**21
    (7, True)
    >>> import shoal
    >>> shoal.amplify(mechanism, reports=9_000)
    PrivacyCurve(ε=0.499999 at δ=1e-06, n=9,000, ε₀=inf, split-and-mix; nothing remains if shuffler and analyst collude)
    """

    theorem: ClassVar[str] = "split-and-mix"
    blanket: ClassVar[tuple[Likelihoods, ...]] = ()
    homogeneous: ClassVar[tuple[Likelihoods, ...]] = ()
    local_epsilon: ClassVar[float] = math.inf
    local_delta: ClassVar[float] = 0.0
    warning: ClassVar[str] = ANYWHERE.text

    epsilon: float
    honest: int
    people: int
    messages: int
    steps: int = 100
    lower: float = 0.0
    upper: float = 1.0
    decay: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_fields(self, positive, "epsilon")
        check_fields(self, whole, "people", least=2)
        check_fields(self, whole, "honest", least=2, most=self.people)
        check_fields(self, whole, "messages", least=3, most=_MOST_MESSAGES)
        check_fields(self, whole, "steps", most=_MOST_STEPS)
        # Of ε/Δ, the double below: −Δ·ln a is then at most ε, whatever the quotient was rounded to.
        decay = decay_of(math.nextafter(2 * self.epsilon / self.steps, 0.0))
        if not 0 < decay < DECAYS:
            raise ParameterError(
                f"epsilon={self.epsilon!r} with steps={self.steps} is out of the range of 64-bit coins"
            )
        store(self, decay=decay, lower=self._range.lower, upper=self._range.upper)
        if self.modulus.bit_length() - 1 > _MOST_BITS:
            raise ParameterError(
                f"the sum of {self.people:,} numbers of {self.steps:,} steps needs a modulus above 2**{_MOST_BITS}; "
                "use fewer steps"
            )

    @classmethod
    def fitted(
        cls, *, epsilon: float, delta: float, honest: Number, people: Number, lower: float = 0.0, upper: float = 1.0
    ) -> "SplitAndMix":
        """Return the mechanism with so many steps that rounding adds little, and the fewest messages for (ε, δ).

        Parameters
        ----------
        epsilon, delta : float
            The guarantee.
        honest, people : int
            How many certainly take part and are honest, and how many there may be at most.
        lower, upper : float
            The interval of the numbers.
        """
        most = whole(people=people, least=2)
        least = whole(honest=honest, least=2, most=most)
        asked = positive(epsilon=epsilon)
        fine = max(1.0, asked * math.sqrt(most))
        steps = 1 << math.ceil(math.log2(min(fine, 2.0 * _MOST_STEPS)))
        why = ""
        if steps > _MOST_STEPS:
            why = f"the noise is finer than {_MOST_STEPS:,} steps, which are the most"
        elif (2 * most * steps).bit_length() > _MOST_BITS:
            why = f"a sum of numbers of {steps:,} steps needs a modulus above 2**{_MOST_BITS}"
        if why:
            raise ParameterError(
                f"with epsilon={asked:g} and people={most:,}, {why}; take a smaller epsilon or fewer people, or accept "
                "the error of rounding and give steps and messages yourself: SplitAndMix(steps=…, messages=…)"
            )
        fewest = cls(epsilon=asked, honest=least, people=most, messages=3, steps=steps, lower=lower, upper=upper)
        shrunk = math.exp(-fewest.epsilon)
        distance = probability(delta=delta) * shrunk / (1 + shrunk) * (1 - 1e-12)  # δ/(1 + e^ε)
        return replace(fewest, messages=fewest_messages(least, fewest.modulus, distance))

    @cached_property
    def _range(self) -> NumberRange:
        return NumberRange(self.lower, self.upper)

    @cached_property
    def modulus(self) -> int:
        """The least power of two q > 2(nΔ + 40Δ/ε): larger than any sum with its noise, of either sign."""
        most = self.people * self.steps + math.ceil(_TAIL * self.steps / self.epsilon)
        return 1 << (2 * most).bit_length()

    @property
    def distance(self) -> float:
        """The η that what is seen of H people is from their sum alone, in total variation: ½·√(e − 1), rounded up."""
        return distance_above(self.honest, self.messages, self.modulus)

    def profile(self, reports: int) -> MixProfile:
        """Return the guarantee for so many honest people: that of the noise, and (1 + e^ε)·η.

        Fewer than `honest` have no guarantee: their noise adds up to less than discrete Laplace noise, and some losses
        are infinite with a probability that is not small.
        """
        if reports < self.honest:
            raise ParameterError(
                f"{reports:,} honest people are fewer than honest={self.honest:,}, for whom the noise was made: "
                "nothing is guaranteed; choose a smaller `honest` before the round"
            )
        return MixProfile(self.honest, self.messages, self.modulus, self.decay, self.steps)

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> WordArray:
        """Return m messages for each value, which add up to it and its share of the noise modulo q.

        Parameters
        ----------
        values : array_like
            Numbers in the interval; nothing is clipped.
        simulation : Simulation, optional
            Coins that can be tossed again, for simulations only.
        """
        numbers = self._range.numbers(values)
        coins = coins_for(simulation)
        points = self._range.rounded(numbers, self.steps, coins)
        return self._split(points + self.noise(coins, len(points)), coins)

    def noise(self, coins: Coins, count: int) -> IntArray:
        """Return shares of noise: NB(1/H, a) − NB(1/H, a), exactly; those of H people add up to discrete Laplace."""
        added = noise_shares(coins, self.decay, self.honest, count)
        taken = noise_shares(coins, self.decay, self.honest, count)
        return added - taken

    def _split(self, points: IntArray, coins: Coins) -> WordArray:
        """Return messages whose sum modulo q is the point; q is a power of two, and 64-bit words wrap around."""
        mask = np.uint64(self.modulus - 1)
        words = coins.words(len(points) * self.messages)
        messages = words.reshape(-1, self.messages) & mask
        others = messages[:, 1:].sum(axis=1, dtype=np.uint64)
        rest = points.view(np.uint64) - others
        messages[:, 0] = rest & mask
        return messages

    def total(self, messages: ArrayLike) -> int:
        """Return the sum of messages modulo q, in any order: all that an estimate needs. Totals add."""
        given = np.asarray(messages)
        if given.dtype.kind not in "iu" or (
            given.size and not 0 <= int(given.min()) <= int(given.max()) < self.modulus
        ):
            raise ParameterError(f"messages must be whole numbers from 0 to {self.modulus - 1}", "messages")
        return int(given.astype(np.uint64).sum(dtype=np.uint64)) % self.modulus

    def estimate(self, total: int, *, reports: Number, confidence: float = 0.95) -> MixEstimate:
        """Return the sum and the mean of the values, with intervals that hold if no client is malicious.

        Parameters
        ----------
        total : int
            Of all messages of the round, modulo q.
        reports : int
            How many people sent them.
        confidence : float
            Of the intervals.
        """
        n = whole(reports=reports, most=self.people)
        confidence = probability(confidence=confidence, usual="0.9 to 0.99")
        # The wrap is undone about the middle of what sums can be.
        least = n * self.steps // 2 - self.modulus // 2
        steps = (int(total) - least) % self.modulus + least
        return MixEstimate(self, steps, n, confidence)

    def variance(self, *, reports: Number) -> float:
        """Return the variance of the sum of n people: noise of shape n/H, and rounding at its most."""
        n = whole(reports=reports)
        a = self.decay / DECAYS
        noise = 2 * n / self.honest * a / (1 - a) ** 2
        step = self._range.length / self.steps
        return (noise + n / 4) * step**2

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the warning."""
        names = ("epsilon", "honest", "people", "messages", "steps", "lower", "upper", "modulus", "warning")
        return {name: getattr(self, name) for name in names}


def fewest_messages(people: int, modulus: int, distance: float) -> int:
    """Return the least m with which what is seen of so many people is within a distance of their sum alone."""
    for messages in range(3, _MOST_MESSAGES + 1):
        if distance_above(people, messages, modulus) <= distance:
            return messages
    raise UnreachableError(
        f"no {_MOST_MESSAGES} messages bring {people:,} people within {distance:.3g} of their sum alone; take more "
        "people, a larger delta or a smaller epsilon"
    )


def noise_shares(coins: Coins, decay: int, parts: int, count: int) -> IntArray:
    """Return independent K of shape 1/parts: as many of them as parts add up to G, Pr(G = g) = (1 − a)·a^g.

    Given G, one of the shares is drawn by a Pólya urn: each of G steps adds one to it with the probability (1/parts +
    what it has)/(1 + steps before). All probabilities are ratios of integers, and so no digit is rounded. `decay` is
    2⁶⁴·a.
    """
    totals = _geometric(coins, decay, count)
    result = np.zeros(count, np.int64)
    left = np.arange(count)
    step = 0
    while len(left := left[totals[left] > step]):  # nothing yet: one in `parts` of a step
        hit = coins.happen(1, parts * (1 + step), len(left))
        for place in left[hit].tolist():
            result[place] = _grown(coins, parts, step + 1, int(totals[place]))
        left = left[~hit]
        step += 1
    return result


def _grown(coins: Coins, parts: int, step: int, total: int) -> int:
    """Return the rest of the urn, from the first that it has got."""
    own = 1
    for done in range(step, total):
        hit = coins.happen(1 + own * parts, parts * (1 + done), 1)
        own += int(hit[0])
    return own


def _geometric(coins: Coins, decay: int, count: int) -> IntArray:
    """Return geometric numbers: independent binary digits, that of 2ⁱ one with odds a^(2ⁱ) : 1; then whole blocks."""
    result = np.zeros(count, np.int64)
    power = decay
    unit = DECAYS
    digit = 0
    while 4 * power > unit and digit < 20:  # until a block is rare
        ones = coins.happen(power, power + unit, count)
        result += ones.astype(np.int64) << digit
        power *= power
        unit *= unit
        digit += 1
    left = np.arange(count)
    while len(left := left[coins.happen(power, unit, len(left))]):
        result[left] += 1 << digit
    return result
