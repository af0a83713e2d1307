"""The clones pair through its privacy-loss distribution, as Koskela, Heikkilä and Honkela do it."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.setting import ShufflingBound
from shoal.assumptions import ADAPTIVE, PURE
from shoal.catalogue import register
from shoal.numerics.convolution import SummedLosses
from shoal.numerics.profile_grid import DeltaGrid, Mesh, short
from shoal.pairs import ClonePair

__all__ = ["KoskelaProfile"]

_DEPTH = 50.0
_SMALLEST = 1e-14
"""A smaller δ is below what the grid reaches; the pair itself is asked then."""
_TOLERANCE = 1e-7
_FINENESS = 20
"""Grid points per standard deviation of the loss, every one of them a knot: time, or δ."""


@dataclass(frozen=True)
class KoskelaProfile:
    """The profile of the losses of one round, on a grid of a twentieth of their standard deviation.

    Koskela, Heikkilä and Honkela, arXiv 2106.00477 (TMLR 2023); the pair is that of Theorem 3.2, arXiv 2012.12803v3.
    """

    reports: int
    local_epsilon: float

    @property
    def _pair(self) -> ClonePair:
        return ClonePair(self.reports, self.local_epsilon, "clones")

    @property
    def _extreme(self) -> bool:
        """Whether no grid has enough digits; then the pair is asked itself."""
        return not 1e-150 < self.local_epsilon < 600

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        if self._extreme:
            return self._pair.delta(epsilon)
        value = _losses(self.reports, self.local_epsilon).above.delta(epsilon)
        return min(1.0, value) if value > _SMALLEST else self._pair.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if self._extreme or delta < _SMALLEST:
            return self._pair.epsilon(delta)
        return min(_losses(self.reports, self.local_epsilon).above.epsilon(delta), self.local_epsilon)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        if self._extreme or delta < _SMALLEST:
            return self._pair.bracket(delta)
        upper = self.epsilon(delta)
        lower = _losses(self.reports, self.local_epsilon).below.least_epsilon(delta) if upper else 0.0
        return min(upper, lower), upper

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at every point of the grid."""
        return self._pair.grid(mesh)

    def provable(self) -> None:
        """Return nothing: the clones, by their own name, have a proof."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Rényi divergences of the pair."""
        return self._pair.renyi(orders)


@lru_cache(maxsize=16)
def _losses(reports: int, local_epsilon: float) -> SummedLosses:
    pair = KoskelaProfile(reports, local_epsilon)._pair
    spread = min(math.sqrt(2 * math.pi) * pair.delta(0.0), local_epsilon)
    step = short(local_epsilon / math.ceil(_FINENESS * local_epsilon / spread))
    return SummedLosses(((pair.grid(Mesh(step, local_epsilon, _DEPTH, _TOLERANCE)), 1),))


register(
    ShufflingBound(
        name="koskela",
        statement=(
            "The pair of clones, through its privacy-loss distribution on a grid: the way to composition. The dots of "
            "δ(ε) are connected, where the authors round every loss up."
        ),
        citation=(
            "Koskela, Heikkilä and Honkela, arXiv 2106.00477 (TMLR 2023), for the pair of Theorem 3.2, "
            "arXiv 2012.12803v3"
        ),
        assumptions=(PURE, *ADAPTIVE),
        make=lambda setting: KoskelaProfile(setting.reports, setting.local_epsilon),
        proof="docs/theory/composition.md",
        certified_by="clones",
    ),
)
