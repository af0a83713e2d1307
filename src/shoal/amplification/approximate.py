"""Randomizers that are only (ε₀, δ₀)-DP: what the pair gives, plus a charge for δ₀.

The charge grows with ε while δ of the pair falls, and their sum is convex in e^ε. So the bound at ε is the least
total over all ε′ ≤ ε, or δ₀ itself from ε₀ on, where the local guarantee takes over (docs/theory/approximate.md).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from shoal.errors import UnreachableError
from shoal.losses.delta_grid import DeltaGrid, Mesh, each, grid_of
from shoal.pairs import Pair
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import lowest, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

__all__ = ["ApproximateProfile"]

_UP = 1 + slack(8)


@dataclass(frozen=True)
class ApproximateProfile(UpperProfile):
    """The profile of (ε₀, δ₀)-DP randomizers."""

    pair: Pair
    local_delta: float

    no_bracket = "approximate DP has no exact pair to bracket; bracket the pure part: {self.pure_part}"
    no_renyi = "with local_delta > 0 the Rényi divergence may be infinite; use a pure randomizer: {self.pure_part}"

    def provable(self) -> "Claim | None":
        """Return the claim of the pair, with the charge for δ₀ in it."""
        from shoal.proofs.clone_claim import CloneClaim

        claim = self.pair.provable()
        return replace(claim, local_delta=self.local_delta) if isinstance(claim, CloneClaim) else None

    def _charge(self, epsilon: float) -> float:
        """Return what δ₀ costs at ε, by the theorem of the pair."""
        # Rounding ε − ε₀ costs its size in the exponential.
        rounding = 1 + slack(8) * (8 + min(self.pair.local_epsilon, 800.0))
        return self.pair.charge(epsilon) * self.local_delta * rounding

    def _total(self, epsilon: float) -> float:
        return (self.pair.delta(epsilon) + self._charge(epsilon)) * _UP

    @cached_property
    def _turn(self) -> float:
        """The ε′ where the total is least, up to the accuracy of a golden-section search."""
        ceiling = self.pair.local_epsilon
        return lowest(self._total, 0.0, ceiling, within=1e-7 * ceiling)

    @property
    def floor(self) -> float:
        """The least δ that shuffling reaches below ε₀."""
        return min(self._total(self._turn), self._total(0.0))

    def delta(self, epsilon: float) -> float:
        """Return the least total over all ε′ ≤ ε, or δ₀ from ε₀ on."""
        best = min(1.0, self._total(0.0), self._total(min(epsilon, self._turn)))
        return min(best, self.local_delta) if epsilon >= self.pair.local_epsilon else best

    def epsilon(self, delta: float) -> float:
        """Return the least ε at which the total, or the local guarantee, is at most δ."""
        if delta >= self.floor:
            guess, slope = self.pair.guess(delta)
            return smallest_safe(self._total, delta, self._turn, guess, slope)
        if delta >= self.local_delta:
            return self.pair.local_epsilon
        shuffled = f"; shuffling reaches delta={self.floor:.6g} at epsilon={self._turn:.6g}" if self.floor < 1 else ""
        raise UnreachableError(
            f"delta={delta:.6g} is below local_delta={self.local_delta:.6g}, and no ε has it: the least is local_delta "
            f"itself, at epsilon={self.pair.local_epsilon:.6g}{shuffled}; use a larger delta, or a smaller local_delta"
        )

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid; a lower one is not known."""
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh)

    @property
    def pure_part(self) -> str:
        """The same question with no δ₀."""
        return f"amplify(local_epsilon={self.pair.local_epsilon!r}, reports={self.pair.reports})"
