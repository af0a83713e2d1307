"""A claim about covers: a true or randomized message among uniformly random ones, in S slots (Theorem V)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shoal.assumptions import COVERS
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, above, ball, zero
from shoal.proofs.claim import RoundClaim, count, double
from shoal.proofs.words import THEOREM_V

__all__ = ["WHOLE", "CoverClaim"]

WHOLE = 1 << 64
"""The probability of the truth is a whole number of parts of one in so many."""
_MOST = 10**18


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

    @property
    def local_epsilon(self) -> float:  # type: ignore[override]
        """ε₀ of the response, rounded up; infinite if it always tells the truth."""
        high, low = self._likelihoods
        return above((ball(high) / ball(low)).log()) if low else math.inf

    @cached_property
    def ceiling(self) -> float:
        """ε₀, or ln(S + 1), which no finite loss exceeds."""
        return self.local_epsilon if self._likelihoods[1] else above(ball(self.slots + 1).log())

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
        one, both = (rate * Fraction(number, self.outputs) for number in (self.supporting - self.common, self.common))
        values, probabilities = [high - growth * low, low - growth * high], [ball(one), ball(one)]
        if both:
            values, probabilities = [*values, high * (1 - growth)], [*probabilities, ball(both)]
        if self._likelihoods[1] and rate > 2 * one + both:
            values, probabilities = [*values, low * (1 - growth)], [*probabilities, ball(rate - 2 * one - both)]
        return [Summand(tuple(values), tuple(probabilities), zero())]
