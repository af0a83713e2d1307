"""A claim about split and mix: discrete Laplace noise on a sum, and how far messages are from telling it alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from shoal.assumptions import SPLIT_AND_MIX
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, above, ball, precision
from shoal.proofs.claim import RoundClaim, Witness, count
from shoal.proofs.matching_components import excess_above
from shoal.proofs.words import THEOREM_M
from shoal.proofs.work import spend

__all__ = ["MixClaim"]

_DECAYS = 1 << 64
_MOST_MESSAGES, _MOST_STEPS, _MOST_MODULUS = 64, 1 << 20, 1 << 63
_BITS = 192
"""Of what does not depend on ε, whatever the precision of the proof."""
_WORK = 2_000_000
"""What bounding the components of matchings takes at most, in sines of balls."""


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

    theorem = THEOREM_M
    assumptions = SPLIT_AND_MIX

    def __post_init__(self) -> None:
        """Check the fields."""
        count(2, honest=self.honest)
        count(3, _MOST_MESSAGES, messages=self.messages)
        count(2, _MOST_MODULUS, modulus=self.modulus)
        count(1, _DECAYS - 1, decay=self.decay)
        count(1, _MOST_STEPS, steps=self.steps)

    @property
    def reports(self) -> int:  # type: ignore[override]
        """How many people are certainly honest."""
        return self.honest

    @property
    def subject(self) -> str:
        """The protocol with its numbers."""
        noise = f"noise of decay={self.decay}/2**64 on {self.steps} steps"
        return f"{self.messages} messages modulo {self.modulus} of each of {self.honest:,} honest people, {noise}"

    @property
    def _decay(self) -> Ball:
        return ball(self.decay) / _DECAYS

    @cached_property
    def ceiling(self) -> float:
        """The largest loss of the noise, Δ·ln(1/a), rounded up."""
        with precision(_BITS):
            return above(-self.steps * self._decay.log())

    @property
    def local_epsilon(self) -> float:  # type: ignore[override]
        """The same: beyond, nothing but what messages tell beside the sum is left."""
        return self.ceiling

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

    def summands(self, growth: Ball) -> list[Summand]:
        """Return none: δ(ε) is no mean of a sum, but has a closed form."""
        return []

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε)."""
        if epsilon >= self.ceiling:
            return ball(self.floor)
        growth = ball(epsilon).exp()
        return self._of_noise(epsilon, growth) + (1 + growth) * ball(self.distance)

    def _of_noise(self, epsilon: float, growth: Ball) -> Ball:
        """Return δ(ε) of the noise: the largest 1 − (a^(m + 1) + e^ε·a^(Δ − m))/(1 + a) of whole m from −1 to Δ.

        It is concave in m, and largest at a real m that a ball holds; so the whole numbers around that ball are enough.
        """
        decay = self._decay
        best = (self.steps - 1 + ball(epsilon) / decay.log()) / 2
        if not best.rad() < 1:
            raise ParameterError("there are too few bits to tell where the noise decides")
        least, most = int(best.lower().floor().fmpz()), int(best.upper().ceil().fmpz())
        value = ball(0.0)
        for m in range(max(-1, least), min(self.steps, most) + 1):
            value = value.max(1 - (decay ** (m + 1) + growth * decay ** (self.steps - m)) / (1 + decay))
        return value

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield the printed ε, and a little more."""
        for more in (0.0, 1e-12, 1e-9):
            larger = epsilon * (1 + more)
            yield larger, {"fineness": 0.0, "from": larger}
