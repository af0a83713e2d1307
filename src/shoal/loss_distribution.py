"""A curve as a privacy-loss distribution of Google's dp-accounting, to be composed with its mechanisms."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from shoal.checks import positive
from shoal.errors import MissingExtraError
from shoal.numerics.profile_grid import Mesh, dominating
from shoal.privacy_profile import Gridded
from shoal.rounding import slack

__all__ = ["knotted_mesh", "loss_distribution"]

_DEPTH, _TOLERANCE, _GOAL = 44.0, 1e-6, 2e-4
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
