"""Advanced composition: every round is first summed up in one (ε, δ), and those are composed.

Kairouz, Oh and Viswanath, arXiv 1311.0776 (ICML 2015): an (ε, δ)-DP round is dominated by randomized response, whose
loss is ±ε, or infinite with probability δ. The composition of these is computed exactly (their Theorem 3.3, which
is optimal for what is known of the rounds), or bounded by their closed form (Theorem 3.4 and, for different rounds,
3.5).
"""

import math
from dataclasses import dataclass

from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.composition.composition_method import CompositionMethod, Round
from shoal.composition.loss_accountant import LossProfile
from shoal.numerics.profile_grid import DeltaGrid, Mesh, each, grid_of
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import lowest

_UP = 1 + slack(16)


@dataclass(frozen=True)
class SummedUp(UpperProfile):
    """A round of which nothing but one (ε, δ) is known."""

    at_epsilon: float
    at_delta: float

    no_bracket = "nothing but one (ε, δ) is known of this round"
    no_renyi = 'advanced composition has infinite Rényi divergence; use method="pld" or method="renyi"'

    def delta(self, epsilon: float) -> float:
        """Return δ + (1 − δ)(e^ε₁ − e^ε)₊/(e^ε₁ + 1), rounded up."""
        loss = max(0.0, -math.expm1(epsilon - self.at_epsilon)) / (1 + math.exp(-self.at_epsilon))
        return min(1.0, (self.at_delta + (1 - self.at_delta) * loss) * _UP)

    def epsilon(self, delta: float) -> float:
        """Return the one ε that is known, if its δ allows."""
        return self.at_epsilon if delta >= self.at_delta else math.inf

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ on the grid."""
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh)


@dataclass(frozen=True)
class _Advanced(UpperProfile):
    """What both ways share: how δ is divided between the rounds and their composition."""

    rounds: tuple[Round, ...]

    no_bracket = 'advanced composition has no exact ε to bracket; use method="pld"'
    no_renyi = 'advanced composition has infinite Rényi divergence; use method="pld" or method="renyi"'

    def _at_share(self, delta: float, share: float) -> float:
        """Return ε(δ) if this share of δ is spent on the rounds."""
        raise NotImplementedError

    def epsilon(self, delta: float) -> float:
        """Return the least ε(δ) over the ways to divide δ, rounded up."""
        whole = LossProfile(self.rounds)
        if delta < SMALLEST_DELTA or whole.ceiling == 0:
            return whole.capped(math.inf, delta)

        def value(log_odds: float) -> float:
            return self._at_share(delta, 1 / (1 + math.exp(-log_odds)))

        return whole.capped(value(lowest(value, -7.0, 3.0, within=0.25)), delta)

    def delta(self, epsilon: float) -> float:
        """Return the least δ with this ε, within a thousandth, rounded up."""
        whole = LossProfile(self.rounds)
        if epsilon >= whole.ceiling:
            return whole.floor
        low = -20.0
        high = 0.0
        room = self.epsilon(1.0) - epsilon
        if room > 0:
            return 1.0
        while (excess := self.epsilon(math.exp(low)) - epsilon) <= 0:
            high = low
            room = excess
            low = 2 * low
            if math.exp(low) < SMALLEST_DELTA:
                return SMALLEST_DELTA
        while high - low > 1e-3:
            # ε falls with ln δ like a square root: a secant on squares, kept inside the bracket.
            above = (excess + epsilon) ** 2 - epsilon**2
            below = epsilon**2 - (room + epsilon) ** 2
            share = above / max(above + below, 1e-300)
            middle = low + (high - low) * min(0.9, max(0.1, share))
            height = self.epsilon(math.exp(middle)) - epsilon
            if height <= 0:
                high = middle
                room = height
            else:
                low = middle
                excess = height
        return min(1.0, math.exp(high) * _UP)

    def _summed_up(self, delta: float, share: float) -> tuple[tuple[Round, ...], float]:
        """Return every round at the same δ′, and what is left of δ for their composition."""
        times = sum(part.times for part in self.rounds)
        each = share * delta / times
        parts = tuple(
            Round(SummedUp(epsilon, each), epsilon, part.times)
            for part in self.rounds
            for epsilon in (part.profile.epsilon(each),)
        )
        # 1 − (1 − δ̃)·Π(1 − δ′) ≤ δ̃ + Σ δ′.
        return parts, (delta - share * delta) * (1 - slack(32))


@dataclass(frozen=True)
class AdvancedProfile(_Advanced):
    """The optimal composition of the rounds' (ε, δ)."""

    def _at_share(self, delta: float, share: float) -> float:
        parts, _ = self._summed_up(delta, share)
        if all(part.local_epsilon == 0 for part in parts):
            return 0.0
        return LossProfile(parts).epsilon(delta)


@dataclass(frozen=True)
class AdvancedFormProfile(_Advanced):
    """The closed form: Σ ε·tanh(ε/2) + √(2·Σε²·min(ln(e + √Σε²/δ̃), ln(1/δ̃))), or Σ ε."""

    def _at_share(self, delta: float, share: float) -> float:
        parts, left = self._summed_up(delta, share)
        if left <= 0:
            return math.inf
        plain = math.fsum(part.times * part.local_epsilon for part in parts)
        if plain > 1e100:
            return plain * _UP
        square = math.fsum(part.times * part.local_epsilon**2 for part in parts)
        drift = math.fsum(part.times * part.local_epsilon * math.tanh(part.local_epsilon / 2) for part in parts)
        logarithm = min(math.log(math.e + math.sqrt(square) / left), -math.log(left))
        return min(plain, drift + math.sqrt(2 * square * logarithm)) * _UP


register(
    CompositionMethod(
        name="advanced",
        statement=(
            "If round i is (εᵢ, δᵢ)-DP, then 1 − δ(ε) = Π(1 − δᵢ)·(1 − δ′(ε)), where δ′ is that of independent "
            "randomized responses with the losses ±εᵢ. Nothing better follows from one (εᵢ, δᵢ) a round. The δᵢ are "
            "chosen for the least ε."
        ),
        citation=("the optimal composition of (ε, δ)-DP, Theorem 3.3 of Kairouz, Oh and Viswanath, arXiv 1311.0776v4"),
        make=AdvancedProfile,
        preference=3,
        proof="docs/theory/composition.md, section 8",
    ),
    CompositionMethod(
        name="advanced-closed-form",
        statement=(
            "With m = Σ εᵢ·tanh(εᵢ/2) and s² = Σ εᵢ², the ε of (εᵢ, δᵢ)-DP rounds is the least of Σ εᵢ, "
            "m + s·√(2·ln(1/δ′)) and m + s·√(2·ln(e + s/δ′)), at 1 − δ = Π(1 − δᵢ)·(1 − δ′)."
        ),
        citation="Theorems 3.4 and 3.5 of Kairouz, Oh and Viswanath, arXiv 1311.0776v4",
        make=AdvancedFormProfile,
        numerical=False,
        proof="docs/theory/composition.md, section 8",
    ),
)
