"""The clones of a Gaussian: what adaptively chosen vectors with normal noise get from a shuffle."""

import math
from dataclasses import dataclass
from functools import lru_cache

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.allocated_delta import clone_variance, gaussian_clones
from shoal.numerics.normal import gaussian_delta
from shoal.numerics.profile_grid import DeltaGrid, Mesh, each, grid_of
from shoal.pairs import gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.searches import smallest_safe

FARTHEST = 600.0
"""Nobody asks about larger losses."""


@dataclass(frozen=True)
class GaussianClonesProfile(UpperProfile):
    """The profile of the pair of Theorem G (docs/theory/sgd.md), in both directions.

    Attributes
    ----------
    reports : int
        n.
    above, below : float
        How far the victim's two reports are from the one that clones have, in deviations of the noise.
    log_ratio : float
        ln q; everybody else is a clone with probability 1/q.
    tail : float
        How much of δ is spent on reports so far out that they are not looked at.
    """

    reports: int
    above: float
    below: float
    log_ratio: float
    tail: float

    no_bracket = "the clones of a Gaussian are known from above only; ask for epsilon"
    no_renyi = "the clones of a Gaussian are known by δ(ε) only; ask for epsilon"

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than one report alone has."""
        alone = max(gaussian_delta(1 / (self.above + self.below), epsilon), SMALLEST_DELTA)
        if self.reports == 1 or alone <= self.tail or epsilon > FARTHEST:
            return alone
        return min(alone, max(self._shuffled(a, b, epsilon) for a, b in self._directions))

    @property
    def _directions(self) -> set[tuple[float, float]]:
        return {(self.above, self.below), (self.below, self.above)}

    def _shuffled(self, above: float, below: float, epsilon: float) -> float:
        return _remembered(above, below, self.log_ratio, self.reports, epsilon, tail=self.tail)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if delta < SMALLEST_DELTA or self.delta(FARTHEST) > delta:
            return math.inf
        start, slope = self.guess(delta)
        return smallest_safe(self.delta, delta, FARTHEST, start, slope, past=1e-9)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        return gaussian_guess(self.spread, delta)

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the privacy loss."""
        return math.sqrt(clone_variance(self.above, self.below) * math.exp(self.log_ratio) / self.reports)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid; a lower one is not known."""
        depth = min(mesh.depth, -math.log(2 * self.tail))  # farther out there is nothing to see
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh._replace(depth=depth))


_remembered = lru_cache(maxsize=1 << 14)(gaussian_clones)
