"""The paper's reduction (Theorem 3.2) and its stronger relative: everybody is a clone of the victim now and then.

For randomizers that are only (ε₀, δ₀)-DP, the bound is that of the pair plus a charge for δ₀. The charge grows with ε
while δ of the pair falls, and their sum, the total, is convex in e^ε. The truth is convex in e^ε too, and at most δ₀ at
ε₀. So from the total at any ε′, a straight line in e^ε leads down to the local guarantee, and the bound at ε is the
total, or the lowest such line from where it touches the total on (docs/theory/approximate.md).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from shoal.amplification.setting import Setting, ShufflingBound
from shoal.assumptions import ADAPTIVE, CLONES, PURE, STRONG
from shoal.catalogue import register
from shoal.errors import UnreachableError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, each, grid_of
from shoal.pairs import ClonePair, Family, Pair
from shoal.privacy_profile import Profile, UpperProfile
from shoal.rounding import slack
from shoal.searches import lowest, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

_UP = 1 + slack(8)


@dataclass(frozen=True)
class ApproximateProfile(UpperProfile):
    """The profile of (ε₀, δ₀)-DP randomizers."""

    pair: Pair
    local_delta: float

    no_bracket = (
        "approximate DP has no exact pair to bracket; `curve.lower` is what no bound can beat; bracket the pure part: "
        "{self.pure_part}"
    )
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
    def through(self) -> float:
        """The ε′ from which the line to the local guarantee is lowest, roughly: every ε′ gives a valid one."""
        ceiling = self.pair.local_epsilon
        if ceiling == 0:
            return 0.0

        def steepness(epsilon: float) -> float:
            return (self._total(epsilon) - self.local_delta) / -math.expm1(epsilon - ceiling)

        return lowest(steepness, 0.0, ceiling * (1 - 1e-9), within=1e-7 * ceiling)

    @cached_property
    def _height(self) -> float:
        """The total at ε′, never below δ₀, since the charge is not."""
        return max(self._total(self.through), self.local_delta)

    def delta(self, epsilon: float) -> float:
        """Return the total, or what the line to the local guarantee has at ε; δ₀ from ε₀ on."""
        ceiling = self.pair.local_epsilon
        start = self.through
        if epsilon >= ceiling:
            return self.local_delta
        if epsilon < start:
            return min(1.0, self._total(0.0), self._total(epsilon))
        share = math.expm1(epsilon - ceiling) / math.expm1(start - ceiling)
        line = self.local_delta + min(share * _UP, 1.0) * (self._height - self.local_delta)
        return min(1.0, self._total(0.0), line * _UP)

    def epsilon(self, delta: float) -> float:
        """Return the least ε at which the total, the line, or the local guarantee is at most δ."""
        ceiling = self.pair.local_epsilon
        start = self.through
        if delta < self.local_delta:
            raise UnreachableError(
                f"delta={delta:.6g} is below local_delta={self.local_delta:.6g}, and no ε has it: the least is "
                f"local_delta itself, at epsilon={ceiling:.6g}; use a larger delta, or a smaller local_delta"
            )
        if delta >= self.delta(start):
            guess, slope = self.pair.guess(delta)
            return smallest_safe(self.delta, delta, start, min(guess, start), slope)
        share = (delta - self.local_delta) / (self._height - self.local_delta)
        epsilon = max(start, ceiling + math.log1p(max(share, 0.0) * math.expm1(start - ceiling)))
        for width in (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-9, 1e-6):
            answer = epsilon + width * ceiling
            if answer < ceiling and self.delta(answer) <= delta:
                return answer
        return ceiling

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid; a lower one is not known."""
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh)

    @property
    def pure_part(self) -> str:
        """The same question with no δ₀."""
        return f"amplify(local_epsilon={self.pair.local_epsilon!r}, reports={self.pair.reports})"


def clones(family: Family, setting: Setting) -> Profile:
    """Return the profile of the pair with p = e^−ε₀ (Theorem 3.2), or p = 2/(e^ε₀ + 1) (Theorem S)."""
    pair = ClonePair(setting.reports, setting.local_epsilon, family)
    return ApproximateProfile(pair, setting.local_delta) if setting.local_delta else pair


register(
    ShufflingBound(
        name="strong-clones",
        statement=(
            "The shuffled reports are at most as distinguishable as P = (A + Δ, C − A + 1 − Δ) and Q "
            "= (A + 1 − Δ, C − A + Δ), with "
            "C ~ Bin(n − 1, 2/(e^ε₀ + 1)), A ~ Bin(C, 1/2), Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)). The "
            "divergence of this pair is computed "
            "exactly, and rounded up."
        ),
        citation=STRONG,
        assumptions=(PURE, *ADAPTIVE),
        make=partial(clones, "strong-clones"),
        preference=2,
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (n − 1)(2δ₀/e^ε₀)(1 + e^ε) + δ₀ "
            "(docs/theory/approximate.md), or the "
            "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
        ),
        proof="docs/theory/strong-clones.md",
    ),
    ShufflingBound(
        name="clones",
        statement=(
            "As strong-clones, with C ~ Bin(n − 1, e^−ε₀): everybody else is a clone of the victim's "
            "report in one world or the "
            "other with probability e^−ε₀ at least."
        ),
        citation=CLONES[0],
        assumptions=(PURE, *ADAPTIVE),
        make=partial(clones, "clones"),
        approximate=(
            "(ε₀, δ₀)-DP randomizers: δ = δ_pair(ε) + (e^ε + 1)(1 + e^−ε₀/2)·n·δ₀ (the paper's "
            "theorem on approximate DP), or the "
            "lowest chord in e^ε from an ε′ ≤ ε to (ε₀, δ₀)"
        ),
    ),
)
