"""Claims about several messages per person: covers, dummies, and split and mix (docs/theory/several-messages.md).

Covers are uniformly random messages in S slots, and have a W (Theorem V). Dummies are counts with truncated discrete
Laplace noise, in closed form (Theorem D). Split and mix is discrete Laplace noise on a sum, and a charge for what
messages tell besides the sum (Theorem M). With C the number of components of a uniformly random matching of n blocks
of m messages with n blocks of m, the shuffled messages are within ½·√(e − 1) of the uniform distribution with the same
sum, in total variation, where e = E q^(C − 1). The excess e − 1 is exact for few people, and from above for any number.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from flint import arb

from shoal.assumptions import COVERS, DUMMIES, SPLIT_AND_MIX, THEOREM_D, THEOREM_M, THEOREM_V
from shoal.errors import ParameterError
from shoal.proofs.balls import ZERO, Ball, Summand, above, ball, precision, total
from shoal.proofs.claim import RoundClaim, count, double
from shoal.proofs.work import spend

WHOLE = 1 << 64
"""Probabilities of the truth, and ratios of noise, are integers over this number."""
_MOST = 10**18  # the most outputs of a design
_MOST_LIMIT = 1 << 16  # the most dummies per category, over two
# Of split and mix: more would take longer than a proof may.
_MOST_MESSAGES = 64
_MOST_STEPS = 1 << 20
_MOST_MODULUS = 1 << 63
_BITS = 192  # the precision of what does not depend on ε, whatever the precision of the proof
_COMPONENTS_BITS = 128  # the precision of the components of matchings, which are needed to a few digits
_WORK = 2_000_000  # microseconds, at most, to bound the components of matchings (measured)
# For this number of people or fewer, the excess is computed from the series, which takes time in their square.
_EXACT = 100
# Numbers of people from which on the excess is below one number: a larger one gives a smaller bound, and is slower.
_STARTS = (40, 120, 300)


@dataclass(frozen=True)
class CoverClaim(RoundClaim, name="covers"):
    """One message of a design among covers: W at n = S + 1, divided by r.

    Each of M outputs is as likely as any other as a cover, and a slot holds one with probability r. A message is, with
    probability τ, one of the s outputs that support its category, and else any; c outputs support both of two
    categories.
    """

    slots: int
    fill: float
    outputs: int
    supporting: int
    common: int
    truth: int

    theorem = THEOREM_V
    assumptions = COVERS

    def __post_init__(self) -> None:
        """Check the fields."""
        count(0, slots=self.slots)
        if not double(0.0, 1.0, fill=self.fill) > 0:
            raise ParameterError("fill must be greater than 0")
        count(2, _MOST, outputs=self.outputs)
        count(1, _MOST, supporting=self.supporting)
        count(0, self.supporting - 1, common=self.common)  # else two categories would be one
        count(1, WHOLE, truth=self.truth)
        if 2 * self.supporting - self.common > self.outputs:
            raise ParameterError(f"{self.outputs}, {self.supporting} and {self.common} are no design")

    @property
    def reports(self) -> int:  # type: ignore[override]
        """How many copies of W there are: the slots, and the message itself."""
        return self.slots + 1

    @property
    def subject(self) -> str:
        """The covers with their numbers."""
        truth = "" if self.truth == WHOLE else f", truth={self.truth}/2**64"
        design = f"outputs={self.outputs}, supporting={self.supporting}, common={self.common}{truth}"
        return f"one message among covers in {self.slots:,} slots, fill={self.fill!r}, {design}"

    @cached_property
    def _likelihoods(self) -> tuple[Fraction, Fraction]:
        """How likely an output is that supports the category, and one that does not, relative to a uniform one."""
        truth = Fraction(self.truth, WHOLE)
        return truth * self.outputs / self.supporting + 1 - truth, 1 - truth

    @cached_property
    def ceiling(self) -> float:
        """ε₀ of the response, or ln(S + 1), which no finite loss exceeds; rounded up."""
        high, low = self._likelihoods
        return above((ball(high) / ball(low) if low else ball(self.slots + 1)).log())

    @cached_property
    def floor(self) -> float:
        """The probability of an infinite loss, that nothing supports the other category; rounded up."""
        if self._likelihoods[1]:
            return 0.0
        missing = 1 - Fraction(self.fill) * self.supporting / self.outputs
        return above(ball(missing) ** self.slots * ball(1 - Fraction(self.common, self.supporting)))

    def _best_start(self, epsilon: float) -> float:
        """Return ε itself: nothing is charged, and no chord is below the curve."""
        return epsilon

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W for outputs that support the one, the other, both, and neither category."""
        rate = Fraction(self.fill)
        high, low = (ball(value / rate) for value in self._likelihoods)
        one = rate * Fraction(self.supporting - self.common, self.outputs)
        both = rate * Fraction(self.common, self.outputs)
        values = [high - growth * low, low - growth * high]
        probabilities = [ball(one), ball(one)]
        if both:
            values.append(high * (1 - growth))
            probabilities.append(ball(both))
        if self._likelihoods[1] and rate > 2 * one + both:
            values.append(low * (1 - growth))
            probabilities.append(ball(rate - 2 * one - both))
        return [Summand(tuple(values), tuple(probabilities), ZERO)]


@dataclass(frozen=True)
class DummyClaim(RoundClaim, name="dummies"):
    """Every category gets t + Z dummies, Pr(Z = z) ∝ a^|z| for |z| ≤ t, a = decay/2⁶⁴."""

    decay: int
    limit: int

    sentence = "messages among dummies, decay={0.decay}/2**64 and limit={0.limit}"
    theorem = THEOREM_D
    assumptions = DUMMIES
    reports = 1

    def __post_init__(self) -> None:
        """Check the fields."""
        count(1, WHOLE - 1, decay=self.decay)
        count(1, _MOST_LIMIT, limit=self.limit)

    @property
    def _decay(self) -> Ball:
        return ball(self.decay) / WHOLE

    @property
    def _masses(self) -> tuple[Ball, Ball]:
        """The probabilities 1 − (1 − e)² of an infinite loss, and v² of the largest finite one."""
        decay = self._decay
        power = decay**self.limit
        whole = 1 + decay - 2 * power * decay
        end = power * (1 - decay) / whole
        upper = (1 - power) / whole
        return end * (2 - end), upper * upper

    @cached_property
    def ceiling(self) -> float:
        """The largest finite loss, ε₁ = −2·ln a, rounded up."""
        return above(-2 * self._decay.log())

    @cached_property
    def floor(self) -> float:
        """The probability of an infinite loss, rounded up."""
        return above(self._masses[0])

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball that holds δ(ε)."""
        infinite, largest = self._masses
        decay = self._decay
        return infinite + largest * (1 - ball(epsilon).exp() * decay * decay).max(ball(0.0))


@dataclass(frozen=True)
class MixClaim(RoundClaim, name="split-and-mix"):
    """At least H honest people split numbers of 0 to Δ steps with shares of noise, Pr(z) ∝ a^|z|, a = decay/2⁶⁴.

    Each sends m messages modulo q. δ(ε) is at most that of the noise, which one person moves by Δ, and (1 + e^ε)·η.
    """

    honest: int
    messages: int
    modulus: int
    decay: int
    steps: int

    sentence = (
        "{0.messages} messages modulo {0.modulus} of each of {0.honest:,} honest people, "
        "noise of decay={0.decay}/2**64 on {0.steps} steps"
    )
    theorem = THEOREM_M
    assumptions = SPLIT_AND_MIX

    def __post_init__(self) -> None:
        """Check the fields."""
        count(2, honest=self.honest)
        count(3, _MOST_MESSAGES, messages=self.messages)
        count(2, _MOST_MODULUS, modulus=self.modulus)
        count(1, WHOLE - 1, decay=self.decay)
        count(1, _MOST_STEPS, steps=self.steps)

    @property
    def reports(self) -> int:  # type: ignore[override]
        """How many people are certainly honest."""
        return self.honest

    @property
    def _decay(self) -> Ball:
        return ball(self.decay) / WHOLE

    @cached_property
    def ceiling(self) -> float:
        """The largest loss of the noise, Δ·ln(1/a), rounded up."""
        with precision(_BITS):
            return above(-self.steps * self._decay.log())

    @cached_property
    def distance(self) -> float:
        """The η that messages are from telling the sum alone, ½·√(e − 1), in total variation; rounded up."""
        spend(_WORK)
        with precision(_BITS):
            excess = excess_above(self.honest, self.messages, self.modulus)
            return min(1.0, above(ball(excess).sqrt() / 2))

    @cached_property
    def floor(self) -> float:
        """What is left at the largest loss and beyond: (1 + e^ε)·η."""
        with precision(_BITS):
            return min(1.0, above((1 + self._decay ** (-self.steps)) * ball(self.distance)))

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε)."""
        if epsilon >= self.ceiling:
            return ball(self.floor)
        growth = ball(epsilon).exp()
        decay = self._decay
        # δ(ε) of the noise is the largest 1 − (a^(m + 1) + e^ε·a^(Δ − m))/(1 + a) of integers m from −1 to Δ. It is
        # concave in m, and largest at a real m that a ball holds; so the integers around that ball are enough.
        best = (self.steps - 1 + ball(epsilon) / decay.log()) / 2
        if not best.rad() < 1:
            raise ParameterError("there are too few bits to tell where the noise decides")
        least = int(best.lower().floor().fmpz())
        most = int(best.upper().ceil().fmpz())
        value = ball(0.0)
        for m in range(max(-1, least), min(self.steps, most) + 1):
            value = value.max(1 - (decay ** (m + 1) + growth * decay ** (self.steps - m)) / (1 + decay))
        return value + (1 + growth) * ball(self.distance)


def exact_excess(people: int, messages: int, modulus: int) -> Fraction:
    """Return e − 1, from the n-th coefficient of (Σ A_a·z^a)^q, A_a = (ma)!/(a!)², which is q·e·A_n."""
    weights = [math.factorial(messages * a) // math.factorial(a) ** 2 for a in range(people + 1)]
    power = [1]  # all coefficients are integers
    for n in range(1, people + 1):  # n·P_n = Σ (kq − n + k)·A_k·P_(n−k), from the derivative of a power
        terms = ((k * modulus - n + k) * weights[k] * power[n - k] for k in range(1, n + 1))
        power.append(sum(terms) // n)
    return Fraction(power[people], modulus * weights[people]) - 1


@lru_cache(maxsize=4096)
def excess_above(people: int, messages: int, modulus: int) -> float:
    """Return an upper bound of e − 1 for n people; infinite where nothing is proved.

    Up to 100 people it is the series. Else, with w_a = C(n, a)²/C(mn, ma), e_n − 1 ≤ (q − 1)/2·Σ
    w_a·e_a, of which the middle is at most n·w_s(1 + β), if e_a ≤ 1 + β from a = s on; all in ball
    arithmetic.
    """
    if people <= _EXACT:
        with precision(_COMPONENTS_BITS):
            return above(ball(exact_excess(people, messages, modulus)))
    return min((_from(start, people, messages, modulus) for start in _STARTS if people > 2 * start), default=math.inf)


def _from(start: int, people: int, messages: int, modulus: int) -> float:
    """Return the bound with e_a ≤ 1 + β from a = `start` on; infinite where that is not proved."""
    if messages < 3:
        return math.inf
    with precision(_COMPONENTS_BITS):
        known = _first(start, messages, modulus)
        most = arb(0)  # β, the largest excess from the start on
        for value in known[start:]:
            most = most.max((value - 1).upper())

        def bound(number: int) -> Ball:
            weight = arb(1)  # w_a = C(n, a)²/C(mn, ma), each from the one before
            ends = arb(0)
            for a in range(start):
                if a > 0:
                    ends += weight * (known[a] + 1 + most)
                ratio = (arb(number - a) / (a + 1)) ** 2
                for j in range(messages):
                    ratio = ratio * (messages * (a + 1) - j) / (messages * (number - a) - j)
                weight *= ratio
            middle = number * weight * (1 + most)
            return arb(modulus - 1) / 2 * (ends + middle)

        # The bound falls with n: if it is at most β for the first n, then so is every later one, by induction.
        return above(bound(people)) if bound(2 * start + 1) <= most else math.inf


@lru_cache(maxsize=64)
def _first(start: int, messages: int, modulus: int) -> list[Ball]:
    """Return bounds of e_a for a up to 2s, by the recursion."""
    half = arb(modulus - 1) / 2
    known = [arb(1), arb(1)]
    every = [arb.fac_ui(messages * a) / arb.fac_ui(a) ** 2 for a in range(2 * start + 1)]  # A_a
    for n in range(2, 2 * start + 1):
        inner = total([every[a] * every[n - a] * known[a] for a in range(1, n)])
        known.append(1 + half * inner / every[n])
    return known
