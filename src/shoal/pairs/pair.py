"""What is asked of a dominating pair, and what follows from the distribution of W alone.

A pair is one class in one file. It says three things: δ(ε) of a report alone, a guess of ε(δ), and the distribution of
W at ε. Everything else has a default, and is overridden where the pair knows a better way: δ(ε) from both sides,
ε(δ), δ on a grid of ε, Rényi divergences, and `provable`, what a certificate of it claims.
"""

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.errors import NoPairError
from shoal.numerics.divergence import divergence, listing_is_faster
from shoal.numerics.profile_grid import DeltaGrid, Mesh, distribution_brackets, each, grid_of
from shoal.numerics.renyi import renyi_upper
from shoal.numerics.summand import Summand
from shoal.rounding import slack
from shoal.searches import bracketed, greatest_unsafe, rough_root, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

_UP = 1 + slack(32)
UNHIDDEN = 1e-12
"""With a smaller expected number of reports that hide the victim, shuffling changes δ by less than this share."""
GUESSED = 1e-4
"""The part of δ that smoothing may add where only the size of δ counts: less smoothing takes longer."""


class Pair(ABC):
    """Two distributions of the shuffled reports that no two neighbouring datasets exceed, in either direction.

    A subclass is a frozen dataclass.

    Attributes
    ----------
    reports : int
        The number of reports, n.
    local_epsilon : float
        ε₀: from there on δ is zero.
    """

    reports: int
    local_epsilon: float

    def provable(self) -> "Claim | None":
        """Return what a certificate of the pair claims; nothing if there is no proof in ball arithmetic.

        A subclass has other numbers, and must not inherit the claim.
        """
        return None

    @abstractmethod
    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, which no number of reports exceeds."""

    @abstractmethod
    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there; `gaussian_guess` often does."""

    @abstractmethod
    def distribution(self, epsilon: float) -> Summand:
        """Return the distribution of W at ε."""

    @property
    def hides(self) -> bool:
        """Whether anybody can be expected to hide the victim at all; if not, one report alone is the answer."""
        return True

    def unhidden(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε) where nobody can be expected to hide the victim."""
        alone = self.advantage(epsilon)
        return alone * (1 - UNHIDDEN) if alone > SMALLEST_DELTA else 0.0

    def shuffled(self, epsilon: float, tolerance: float | None) -> tuple[float, float]:
        """Return δ(ε) among other reports from both sides: listed, if the counts are few, else by inversion."""
        return divergence(self.distribution(epsilon), tolerance=tolerance)

    def delta_bracket(self, epsilon: float, *, tolerance: float | None = None) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε), for ε ≥ 0; a larger `tolerance` than the usual one is faster."""
        alone = self.advantage(epsilon)
        if alone == 0:
            return 0.0, 0.0
        most = min(1.0, alone * _UP)
        if self.reports == 1:
            return alone / _UP, most
        if not self.hides or alone <= SMALLEST_DELTA:
            return self.unhidden(epsilon) / _UP, most
        lower, upper = self.shuffled(epsilon, tolerance)
        if math.isnan(upper):
            return 0.0, most
        return lower if lower > SMALLEST_DELTA else 0.0, min(max(upper, SMALLEST_DELTA), most)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return self.delta_bracket(epsilon)[1] if epsilon < self.local_epsilon else 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: the upper bound of δ at the answer is at most δ."""
        if delta < SMALLEST_DELTA or self.local_epsilon == 0:
            return self.local_epsilon
        start, slope = self.better_guess(delta)
        return smallest_safe(self.delta, delta, self.local_epsilon, min(start, self.local_epsilon), slope)

    def rough_guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε where δ(ε) = delta, and d log δ/dε there, by the saddle point."""
        local = self.local_epsilon
        start, slope = self.guess(delta)
        if self.reports == 1 or not self.hides:
            return start, slope

        def height(epsilon: float) -> float:
            return float(self.distribution(epsilon).tilted.estimates[0]) - math.log(delta)

        start = min(start, local * (1 - 1e-9))
        if abs(height(start)) < 1:
            return start, slope
        return rough_root(height, local, start, slope, within=1.0)

    def better_guess(self, delta: float) -> tuple[float, float]:
        """Return the same from coarse sums."""
        start, slope = self.rough_guess(delta)
        if self.reports == 1 or not self.hides:
            return start, slope

        def height(epsilon: float) -> float:
            upper = self.delta_bracket(epsilon, tolerance=GUESSED)[1]
            if upper > SMALLEST_DELTA:
                return math.log(upper) - math.log(delta)
            return -math.inf

        return rough_root(height, self.local_epsilon, start, slope)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""

        def lower(epsilon: float) -> float:
            return self.delta_bracket(epsilon)[0]

        return bracketed(self.epsilon, partial(greatest_unsafe, lower), delta)

    def brackets(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bounds of δ at each of these ε, ascending; faster than one after the other."""
        if self.reports == 1 or not self.hides:
            return self.one_by_one(epsilons, tolerance)
        halfway = min(float(epsilons[len(epsilons) // 2]), self.local_epsilon * (1 - 1e-9))
        if listing_is_faster(self.distribution(halfway), tolerance):
            return self.one_by_one(epsilons, tolerance)
        return distribution_brackets(self.distribution, self.advantage, epsilons, tolerance)

    def one_by_one(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the same from one bracket after the other."""
        return each(lambda epsilon: self.delta_bracket(epsilon, tolerance=tolerance))(epsilons)

    @property
    def largest_loss(self) -> float:
        """What no finite loss exceeds, where that is known besides ε₀: a grid ends there."""
        return math.inf

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at points of the grid, which ends at the largest finite loss."""
        nearer = mesh._replace(ceiling=min(mesh.ceiling, max(self.largest_loss, mesh.step)))
        return grid_of(lambda epsilons: self.brackets(epsilons, nearer.tolerance), nearer)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence at each order, for a pair that is the same in both directions."""
        if self.local_epsilon == 0:
            return np.zeros_like(orders)
        if not self.local_epsilon < math.inf:
            raise NoPairError("Rényi divergences need a finite local_epsilon")
        return renyi_upper([(self.distribution, self.local_epsilon)], orders)

    def charge(self, epsilon: float) -> float:
        """Return what δ₀ costs at ε, as a multiple of it, before rounding."""
        raise NoPairError(f"{type(self).__name__} has no theorem for randomizers with local_delta > 0")
