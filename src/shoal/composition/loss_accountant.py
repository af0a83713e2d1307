"""The PLD accountant: privacy-loss distributions of the rounds are convolved, which brackets the ε of T rounds."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.composition.composition_method import CompositionMethod, Round, total_local_epsilon
from shoal.errors import NoPairError, UnreachableError
from shoal.losses.delta_grid import DeltaGrid, Mesh
from shoal.losses.privacy_loss import short
from shoal.losses.summed_losses import SummedLosses
from shoal.privacy_profile import Gridded, Profile
from shoal.progress import progress
from shoal.rounding import slack

__all__ = ["LossProfile"]

_FINE, _COARSE = 60, 15
"""Grid points to a standard deviation of the loss, where there are few different rounds, and many."""
_MANY = 50
_DEPTH = 60.0
"""Losses of probability below exp(−60) are infinite, unless δ asks for more."""
_DEEPEST = 690.0
_LEAST, _MOST = 1e-100, 600.0
"""Of ε₀: beyond, squares underflow or exponentials overflow."""
_MOST_NODES = 1 << 21
_FEW = 1_000


@dataclass(frozen=True)
class LossProfile:
    """The profile of all rounds together, from the sum of their privacy losses."""

    rounds: tuple[Round, ...]

    @property
    def ceiling(self) -> float:
        """The local ε₀ of everything together, above which no loss is."""
        return total_local_epsilon(self.rounds)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.ceiling:
            return self.floor
        if self._extreme:
            return 1.0
        # What is left out has to be small against the answer: if it is not, look deeper.
        depth = _DEPTH
        while True:
            sums = _summed(self.rounds, depth)
            answer = sums.delta(epsilon)
            if sums.above.infinite <= 1e-3 * answer or depth == _DEEPEST:
                return min(1.0, max(answer, SMALLEST_DELTA))
            depth = min(2 * depth, _DEEPEST)

    @property
    def floor(self) -> float:
        """What is left of δ from the ceiling on: the δ₀ of all rounds."""
        return min(
            1.0, math.fsum(part.times * part.profile.delta(part.local_epsilon) for part in self.rounds) * (1 + slack(8))
        )

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        sums = self._sums(delta)
        if sums is None or sums.above.infinite >= delta:
            return self.capped(math.inf, delta)
        return self.capped(sums.epsilon(delta), delta)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        upper = self.epsilon(delta)
        if delta == 0 or upper == 0:
            return upper, upper
        delta = max(delta, SMALLEST_DELTA)
        sums = self._sums(delta)
        if sums is None or sums.below.infinite >= delta:
            return 0.0, upper
        return min(sums.least_epsilon(delta), upper), upper

    def provable(self) -> None:
        """Return nothing: there is no proof in ball arithmetic of a composition."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: those of the rounds, added up."""
        total = np.zeros_like(orders)
        for part in self.rounds:
            total += part.times * part.profile.renyi(orders)
        return total * (1 + slack(2) * (len(self.rounds) + 4))

    @property
    def _extreme(self) -> bool:
        """Whether no grid has enough digits for a round: then only the local guarantees are added up."""
        return any(not _LEAST <= part.local_epsilon <= _MOST for part in self.rounds if part.local_epsilon)

    def capped(self, epsilon: float, delta: float) -> float:
        """Return ε, or the local ε₀ of everything together if that is less and its δ₀ allows."""
        if delta >= self.floor:
            return min(epsilon, self.ceiling)
        if math.isinf(epsilon):
            raise UnreachableError(
                f"delta={delta:.6g} is below local_delta={self.floor:.6g} of all rounds together; use a larger delta"
            )
        return epsilon

    def _sums(self, delta: float) -> SummedLosses | None:
        """Return the losses, added up as deep as this δ asks for; nothing where only the local guarantees add up."""
        if delta < SMALLEST_DELTA or self.ceiling == 0 or self._extreme:
            return None
        depth = max(_DEPTH, min(_DEEPEST, math.log(sum(part.times for part in self.rounds)) - math.log(delta) + 14))
        return _summed(self.rounds, min(_DEEPEST, 30 * math.ceil(depth / 30)))


@lru_cache(maxsize=4)
def _summed(rounds: tuple[Round, ...], depth: float) -> SummedLosses:
    """Return the losses of all rounds, added up to this depth."""
    step = _step(rounds)
    # Smoothing may add 1 to 30 times its tolerance to δ of every round.
    tolerance = 1e-7 if sum(part.times for part in rounds) <= _FEW else 1e-9
    return SummedLosses.of(
        (_grid(part.profile, Mesh(step, part.local_epsilon, depth, tolerance)), part.times)  # type: ignore[arg-type]
        for part in progress(rounds, total=len(rounds), label="rounds")
    )


@lru_cache(maxsize=4096)  # profiles are frozen, hence hashable
def _grid(profile: Profile, mesh: Mesh) -> DeltaGrid:
    if not isinstance(profile, Gridded):
        raise NoPairError("a formula has no privacy losses to add up")
    return profile.grid(mesh)


def _step(rounds: tuple[Round, ...]) -> float:
    """Return the step of the grid: it adds step²/6 to the variance of each round's loss."""
    times = sum(part.times for part in rounds)
    squares = []
    for part in rounds:
        distance = min(part.profile.delta(0.0), 0.999)
        spread = min(math.sqrt(2 * math.pi) * distance / (1 - distance) ** 0.25, part.local_epsilon)
        squares.append(part.times * spread**2)
    total = math.sqrt(math.fsum(squares))
    fineness = _FINE if len(rounds) < _MANY else _COARSE
    step = max(total / math.sqrt(times) / fineness, 9 * total / _MOST_NODES, 1e-300)
    # Where all rounds have the same ε₀, let a grid point lie just below it, since the pair may have a mass there.
    largest = max(part.local_epsilon for part in rounds)
    return short(largest / math.ceil(largest / step) if math.isfinite(largest) else step)


register(
    CompositionMethod(
        name="loss",
        statement=(
            "Let μᵣ be a distribution of losses with δᵣ(ε) ≤ E[(1 − e^(ε − L))₊], L ~ μᵣ, for every ε and in both "
            "directions. Then all rounds together have δ(ε) ≤ E[(1 − e^(ε − L₁ − … − L_T))₊] for independent Lᵣ ~ μᵣ. "
            "Each δᵣ(ε) is bounded on a grid, from above and from below, and the sum is computed with all rounding "
            "charged."
        ),
        citation=(
            "the sum of the privacy losses of all rounds, discretised and rounded to the safe side "
            "(docs/theory/composition.md)"
        ),
        make=LossProfile,
        adds_losses=True,
        preference=1,
        proof="docs/theory/composition.md, sections 1 to 6",
    )
)
