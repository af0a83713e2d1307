"""The bound swap-chains for any ε₀-DP randomizers: Theorem N (docs/theory/tighter.md) or the strong clones."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.setting import ShufflingBound
from shoal.assumptions import ADAPTIVE, PURE, SWAP_CHAINS
from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.profile_grid import DeltaGrid, Mesh, grid_of
from shoal.numerics.renyi import SummandIntegral, divergences
from shoal.numerics.swap_chain import swap_chain_delta, swap_chain_spread
from shoal.pairs import ClonePair
from shoal.privacy_profile import UpperProfile
from shoal.searches import gaussian_guess, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

_CLEARLY = 0.98
"""Of the normal estimate of the strong clones' ε, which is within a percent where Theorem N may be below them. A larger
share would miss that they are below; a smaller one asks for their ε, which takes a millisecond, more often."""
_REFINEMENT = 4.0
"""The refinement of V(H) for divergences: with 1, they are 1 % larger, with 16, 1e-4 smaller."""


@dataclass(frozen=True)
class SwapChainProfile(UpperProfile):
    """The privacy profile of Theorem N, or that of the strong clones where it is below."""

    reports: int
    local_epsilon: float

    costly: ClassVar[bool] = True
    no_bracket = 'Theorem N is an upper bound, with no pair whose ε could be bracketed; use bound="{self.numerical}"'

    @cached_property
    def _clones(self) -> ClonePair:
        return ClonePair(self.reports, self.local_epsilon, "strong-clones")

    def _chain(self, epsilon: float) -> float:
        return swap_chain_delta(self.reports, self.local_epsilon, epsilon)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; zero from ε₀ on."""
        return min(self._chain(epsilon), self._clones.delta(epsilon)) if epsilon < self.local_epsilon else 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: the upper bound of δ at the answer is at most δ."""
        most, chain_decides = self._ceiling(delta)
        if not chain_decides:
            return most
        start, slope = gaussian_guess(swap_chain_spread(self.reports, self.local_epsilon), delta)
        return smallest_safe(self._chain, delta, most, min(start, most), slope)

    def improves(self, delta: float) -> bool:
        """Return whether Theorem N is below the strong clones at this δ."""
        return self._ceiling(delta)[1]

    def _ceiling(self, delta: float) -> tuple[float, bool]:
        """Return an ε that is at most that of the strong clones, or theirs, and whether Theorem N has less there.

        The ε of the strong clones is not computed where Theorem N has at most δ at an ε that is clearly below it.
        """
        if delta >= SMALLEST_DELTA:
            clear = _CLEARLY * self._clones.guess(delta)[0]
            if clear > 0 and self._chain(clear) <= delta:
                return clear, True
        most = self._clones.epsilon(delta)
        return most, delta >= SMALLEST_DELTA and most > 0 and self._chain(most) <= delta

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid; a lower one is not known."""

        def brackets(epsilons: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            upper = self._clones.brackets(epsilons, mesh.tolerance)[1]
            chains = np.array([self._chain(epsilon) if epsilon < self.local_epsilon else 0.0 for epsilon in epsilons])
            return np.zeros(len(epsilons)), np.minimum(upper, chains)

        return grid_of(brackets, mesh)

    def provable(self) -> "Claim":
        """Return the claim of Theorem N."""
        from shoal.proofs.clone_claim import SwapChainClaim

        return SwapChainClaim(self.reports, float(self.local_epsilon))

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: of this profile, or of the strong clones if less."""
        result = self._clones.renyi(orders)
        if math.isfinite(self._chain(0.0)):
            result = np.minimum(result, divergences([_ChainIntegral(self._clones, orders)], orders))
        return result


class _ChainIntegral(SummandIntegral):
    """The integral of the lesser of Theorem N and the clones, for the Rényi divergences at `orders`."""

    chorded = 6.5e-4
    smoothed = 5e-5

    def __init__(self, clones: ClonePair, orders: NDArray[np.float64]) -> None:
        super().__init__(clones.distribution, clones.local_epsilon, (orders - 1, -orders))
        self._clones = clones

    def close(self, knots: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return logarithms of the lesser upper bound of δ at each knot."""
        reports = self._clones.reports
        deltas = [
            swap_chain_delta(reports, self.ceiling, knot, refinement=_REFINEMENT)
            for knot in knots.tolist()
        ]  # fmt: skip
        return np.asarray(np.minimum(np.log(np.array(deltas)), super().close(knots)))


register(
    ShufflingBound(
        name="swap-chains",
        statement=(
            "The victim takes the seat of another person, who takes the seat of one in a pool, who takes a seat that "
            "was left free: n·δ(ε) ≤ E[(Σ ρᵥ·Wᵥ)₊], with W = (R₀ − e^ε·R₁)/R of whoever sits there and weights ρ "
            "with mean one (Lemma K). One after the other, the terms are replaced by normal ones of nearly the largest "
            "variance that an ε₀-DP randomizer allows, (e^ε₀ − 1)²·max(2/(e^ε₀ + 2), e^−ε₀). Where the strong clones "
            "are below this, they are the answer."
        ),
        citation=SWAP_CHAINS,
        assumptions=(PURE, *ADAPTIVE),
        make=lambda setting: SwapChainProfile(setting.reports, setting.local_epsilon),
        improves="strong-clones",
        range="all n, ε₀ and δ; below strong-clones for many reports: from 2,000 on at ε₀ = 0.3, 10⁴ at 1, 10⁶ at 2",
        preference=2,  # compared with the strong clones, which are named first where both say the same
        proof="docs/theory/tighter.md",
    ),
)
