"""A pair asked from both sides: δ at ε, ε at δ, and the bracket around the exact value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.errors import NoPairError
from shoal.evaluators.hockey_stick import delta_bracket
from shoal.evaluators.renyi_divergence import renyi_upper
from shoal.losses.delta_grid import DeltaGrid, Mesh, pair_grid
from shoal.pairs.pair import ClonePair, DecompositionPair
from shoal.searches import greatest_unsafe, smallest_safe

__all__ = ["PairProfile"]


@dataclass(frozen=True)
class PairProfile:
    """The privacy profile of a dominating pair, cut off at ε₀, where δ is zero."""

    pair: ClonePair | DecompositionPair
    local_epsilon: float

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return delta_bracket(self.pair, epsilon)[1] if epsilon < self.local_epsilon else 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: the upper bound of δ at the answer is at most δ."""
        if delta < SMALLEST_DELTA or self.local_epsilon == 0:
            return self.local_epsilon
        if isinstance(self.pair, DecompositionPair) and self.delta(self.local_epsilon * (1 - 1e-12)) > delta:
            return self.local_epsilon  # this pair knows nothing of ε₀: often the answer, and far from any guess
        start, slope = self.pair.guess(delta)
        return smallest_safe(self.delta, delta, self.local_epsilon, min(start, self.local_epsilon), slope)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        upper = self.epsilon(delta)
        if delta == 0 or upper == 0:
            return upper, upper
        if delta < SMALLEST_DELTA:
            return self.bracket(SMALLEST_DELTA)[0], upper
        return greatest_unsafe(lambda epsilon: delta_bracket(self.pair, epsilon)[0], delta, upper), upper

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at every point of the grid."""
        return pair_grid(self.pair, mesh)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence at each order."""
        if isinstance(self.pair, DecompositionPair):
            raise NoPairError(
                "the pair of Theorem 4.1 has infinite Rényi divergence (some outputs are impossible in one world); "
                'use bound="strong-clones"'
            )
        if self.local_epsilon == 0:
            return np.zeros_like(orders)
        return renyi_upper(self.pair, orders)
