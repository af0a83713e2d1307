"""What a bound answers: δ at ε and ε at δ, as plain floats that are already on the safe side."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.checks import positive
from shoal.errors import MissingExtraError, NoPairError, ParameterError, UnreachableError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, dominating, each, grid_of
from shoal.rounding import down, slack, up

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

__all__ = ["Bracket", "Gridded", "ListedProfile", "Profile", "UpperProfile", "knotted_mesh", "loss_distribution"]


class Bracket(NamedTuple):
    """Two numbers around an exact one."""

    lower: float
    upper: float


class Profile(Protocol):
    """What a curve asks of a bound."""

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) of the pair, rounded down and up."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Rényi divergences, rounded up."""

    def provable(self) -> "Claim | None":
        """Return what a certificate claims, or nothing if the profile alone has no proof in ball arithmetic."""


@runtime_checkable
class Gridded(Protocol):
    """A profile with bounds of δ(ε) at the knots of a grid.

    If its attribute `costly` is true, they are slow to compute, and fewer of them are asked for.
    """

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at the knots of the grid."""


class UpperProfile:
    """A profile that bounds δ(ε) from above and has no exact pair: it refuses what only a pair answers.

    `no_bracket` and `no_renyi` are the refusals, in which `{self…}` stands for what the profile knows; `numerical` is
    the bound that has a pair. One that knows lower bounds of δ(ε) nevertheless says that it is `bracketed`.
    """

    bracketed: bool = False
    numerical: str = "strong-clones"
    no_bracket = 'a closed form has no pair, and hence not an exact value to bracket; use bound="{self.numerical}"'
    no_renyi = 'a closed form has no pair, and hence not a Rényi divergence; use bound="{self.numerical}"'

    def provable(self) -> "Claim | None":
        """Return nothing: there is no proof in ball arithmetic."""
        return None

    def bracket(self, delta: float) -> tuple[float, float]:
        """Refuse, with what to ask instead."""
        raise NoPairError(self.no_bracket.format(self=self))

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse, with what to ask instead."""
        raise NoPairError(self.no_renyi.format(self=self))


_MOST_KNOTS = 20_000
_LARGEST = 600.0
"""Of ε: beyond, exponentials overflow."""


@dataclass(frozen=True)
class ListedProfile(UpperProfile):
    """Upper bounds of δ at ascending ε, from zero on; between two of them δ, convex in e^ε, is below their chord.

    Parameters
    ----------
    epsilons : tuple of float
        The knots, the first of them 0.
    deltas : tuple of float
        A bound of δ at each, which never grows. The last one holds for every larger ε, too.

    Examples
    --------
    >>> profile = ListedProfile((0.0, 1.0, 2.0), (0.4, 0.1, 0.0))
    >>> round(profile.delta(0.5), 4), profile.delta(3.0), round(profile.epsilon(0.05), 4)
    (0.2867, 0.0, 1.6201)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    no_bracket = (
        "nothing but upper bounds of δ is known of a central mechanism, and hence not an exact value to bracket"
    )
    no_renyi = (
        "a central mechanism that came as privacy losses has some of infinite size, and hence an infinite Rényi "
        "divergence; compose it by losses, in a ledger with planned=True"
    )

    def __post_init__(self) -> None:
        """Check the numbers."""
        epsilons = np.array(self.epsilons, dtype=np.float64)
        deltas = np.array(self.deltas, dtype=np.float64)
        if epsilons.ndim != 1 or epsilons.shape != deltas.shape or not 1 <= len(epsilons) <= _MOST_KNOTS:
            raise ParameterError(f"there must be as many deltas as epsilons, 1 to {_MOST_KNOTS:,}")
        if epsilons[0] != 0 or not (np.all(np.diff(epsilons) > 0) and epsilons[-1] <= _LARGEST):
            raise ParameterError(f"epsilons must ascend from 0 to at most {_LARGEST:g}", "epsilons")
        if not (np.all((deltas >= 0) & (deltas <= 1)) and np.all(np.diff(deltas) <= 0)):
            raise ParameterError("deltas must be from 0 to 1, and must not grow", "deltas")

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.epsilons[-1]:
            return self.deltas[-1]
        index = bisect_right(self.epsilons, epsilon) - 1
        before, after = self.epsilons[index : index + 2]
        high, low = self.deltas[index : index + 2]
        ratio = math.expm1(down(epsilon - before, roundings=4)) / math.expm1(after - before)
        share = max(0.0, down(ratio, roundings=8))
        return min(high, up((1 - share) * high + share * low, roundings=8))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if delta < self.deltas[-1]:
            raise UnreachableError(
                f"delta={delta:.6g} is below {self.deltas[-1]:.6g}, which this mechanism has at every epsilon "
                "(rounding and losses of infinite size); use a larger delta"
            )
        index = bisect_left(self.deltas, -delta, key=lambda each: -each)
        if index == 0:
            return 0.0
        before, after = self.epsilons[index - 1 : index + 1]
        high, low = self.deltas[index - 1 : index + 1]
        found = before + math.log1p((high - delta) / (high - low) * math.expm1(after - before))
        found = min(after, max(before, up(found, roundings=16)))
        while found < after and self.delta(found) > delta:
            found = min(after, up(found, roundings=64))
        return found

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ on the grid; nothing is known from below."""
        return grid_of(each(lambda epsilon: (0.0, self.delta(epsilon))), mesh)

    def provable(self) -> None:
        """Refuse: what another library has computed in floats cannot be computed again in balls."""
        raise NoPairError(
            "its privacy losses were computed by another library, in floating point, and came without the mechanism "
            "that they belong to; nothing here can compute them again in ball arithmetic"
        )


_DEPTH = 44.0
_TOLERANCE = 1e-6
_GOAL = 2e-4
_TILTS = 2.0 ** np.arange(-4, 4)
"""Over the standard deviation of the loss: good for one round at a small δ, and for thousands."""


def loss_distribution(rounds: Iterable[tuple[Gridded, float, int]], *, interval: float = 1e-4) -> Any:
    """Return a pessimistic `dp_accounting.pld.PrivacyLossDistribution` on the grid of this interval.

    It dominates all rounds together by connecting the dots of δ(ε), in both directions, and composes with every other
    distribution on the same grid (1e-4 is the default there, too).

    Parameters
    ----------
    rounds : iterable of tuple of (Gridded, float, int)
        The profile, the local ε₀ and the number of each kind of round.
    interval : float
        The step of the grid.

    Examples
    --------
    >>> import shoal
    >>> shuffled = shoal.amplify(local_epsilon=2, reports=1_000_000).to_dp_accounting()
    >>> round(shuffled.get_epsilon_for_delta(1e-6), 5)
    0.00924
    """
    try:
        from dp_accounting.pld.pld_pmf import DensePLDPmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise MissingExtraError('this needs dp-accounting: pip install "shoal-dp[dp-accounting]"') from None
    interval = positive(interval=interval)
    total = None
    for profile, local_epsilon, times in rounds:
        losses = dominating(profile.grid(knotted_mesh(profile, interval, local_epsilon)))
        first = int(losses.positions[0])
        masses = np.bincount(losses.positions - first, losses.masses)
        # The multiples of the interval are rounded numbers; δ changes by less than that times ε.
        infinite = losses.infinite + slack(8) * (1 + interval * losses.reach)
        one = PrivacyLossDistribution(DensePLDPmf(interval, first, masses, infinite, True))
        repeated = one if times == 1 else one.self_compose(times)
        total = repeated if total is None else total.compose(repeated)
    return total


def knotted_mesh(profile: Gridded, interval: float, local_epsilon: float) -> Mesh:
    """Return the mesh of this interval, with knots for one round or many."""
    if not np.isfinite(local_epsilon) or local_epsilon == 0:
        return Mesh(interval, local_epsilon, _DEPTH, _TOLERANCE, (1.0, 8.0), goal=_GOAL)
    distance = float(profile.grid(Mesh(local_epsilon, local_epsilon, _DEPTH, 1e-3)).upper[0])
    tilts = tuple((_TILTS / (2.5 * max(distance, 1e-12))).tolist())
    return Mesh(interval, local_epsilon, _DEPTH, _TOLERANCE, tilts, goal=_GOAL)
