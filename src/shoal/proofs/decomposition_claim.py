"""A claim about a randomizer that is known to decompose: Theorem 4.1 of the paper."""

from dataclasses import dataclass

from shoal.assumptions import ADAPTIVE, DECOMPOSES, PURE, Assumption
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, precision, zero
from shoal.proofs.claim import RoundClaim, count, double
from shoal.proofs.words import DECOMPOSITION

__all__ = ["DecompositionClaim"]

_ROUNDING = 1e-12
"""What rounding p and q may add to the largest possible ε₀: k-ary randomized response is at the limit."""


@dataclass(frozen=True)
class DecompositionClaim(RoundClaim, name="decomposition"):
    """The pair of Theorem 4.1: W is q/p, −e^ε·q/p or −(e^ε − 1)(1 − q)/p, each with probability p."""

    reports: int
    blanket_probability: float
    own_probability: float
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check that a randomizer can have these numbers (docs/theory/closed-forms.md, section 6)."""
        count(reports=self.reports)
        blanket = double(0.0, 1 / 3, blanket_probability=self.blanket_probability)
        own = double(0.0, 1.0, own_probability=self.own_probability)
        if not (blanket > 0 and own > 0):
            raise ParameterError(f"both probabilities must be greater than 0, got {blanket!r} and {own!r}")
        double(0.0, 700.0, local_epsilon=self.local_epsilon)
        with precision(256):
            both = 2 / ball(own) if own > 2 / 3 else 1 / (1 - ball(own))
            largest = (1 + ball(own) * (1 / ball(blanket) - both)).log() * (1 + _ROUNDING)
            possible = ball(self.local_epsilon) <= largest
        if not possible:
            raise ParameterError(
                f"no randomizer has local_epsilon={self.local_epsilon!r} with these probabilities, {blanket!r} and "
                f"{own!r}: they leave at most {float(largest):.6g}"
            )

    @property
    def theorem(self) -> str:
        """Where the pair is proved."""
        return DECOMPOSITION

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true."""
        return (DECOMPOSES, PURE, *ADAPTIVE)

    @property
    def subject(self) -> str:
        """The pair with its numbers."""
        numbers = f"p={self.blanket_probability!r}, q={self.own_probability!r}, local_epsilon={self.local_epsilon!r}"
        return f"{self.reports:,} shuffled reports of a randomizer that decomposes with {numbers}"

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        probability, own = ball(self.blanket_probability), ball(self.own_probability)
        values = own / probability, -growth * own / probability, -(growth - 1) * (1 - own) / probability
        return [Summand(values, (probability,) * 3, zero())]
