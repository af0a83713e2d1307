"""A claim about dummies: two counts with truncated discrete Laplace noise, in closed form (Theorem D)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from shoal.assumptions import DUMMIES
from shoal.proofs.balls import Ball, Summand, above, ball
from shoal.proofs.claim import RoundClaim, Witness, count
from shoal.proofs.words import THEOREM_D

__all__ = ["DummyClaim"]

_DECAYS = 1 << 64
_MOST_LIMIT = 1 << 16


@dataclass(frozen=True)
class DummyClaim(RoundClaim, name="dummies"):
    """Every category gets t + Z dummies, Pr(Z = z) ∝ a^|z| for |z| ≤ t, a = decay/2⁶⁴."""

    decay: int
    limit: int

    theorem = THEOREM_D
    assumptions = DUMMIES
    reports = 1

    def __post_init__(self) -> None:
        """Check the fields."""
        count(1, _DECAYS - 1, decay=self.decay)
        count(1, _MOST_LIMIT, limit=self.limit)

    @property
    def subject(self) -> str:
        """The dummies with their numbers."""
        return f"messages among dummies, decay={self.decay}/2**64 and limit={self.limit}"

    @property
    def _decay(self) -> Ball:
        return ball(self.decay) / _DECAYS

    @property
    def _masses(self) -> tuple[Ball, Ball]:
        """The probabilities 1 − (1 − e)² of an infinite loss, and v² of the largest finite one."""
        decay = self._decay
        power = decay**self.limit
        whole = 1 + decay - 2 * power * decay
        end, upper = power * (1 - decay) / whole, (1 - power) / whole
        return end * (2 - end), upper * upper

    @cached_property
    def ceiling(self) -> float:
        """The largest finite loss, ε₁ = −2·ln a, rounded up."""
        return above(-2 * self._decay.log())

    @property
    def local_epsilon(self) -> float:  # type: ignore[override]
        """The same: beyond, nothing but an infinite loss is left."""
        return self.ceiling

    @cached_property
    def floor(self) -> float:
        """The probability of an infinite loss, rounded up."""
        return above(self._masses[0])

    def summands(self, growth: Ball) -> list[Summand]:
        """Return none: δ(ε) is no mean of a sum, but has a closed form."""
        return []

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball that holds δ(ε)."""
        infinite, largest = self._masses
        decay = self._decay
        return infinite + largest * (1 - ball(epsilon).exp() * decay * decay).max(ball(0.0))

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield the printed ε, and a little more."""
        for more in (0.0, 1e-12, 1e-9):
            larger = epsilon * (1 + more)
            yield larger, {"fineness": 0.0, "from": larger}
