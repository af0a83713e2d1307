"""A curve as a privacy-loss distribution of Google's dp-accounting, to be composed with its mechanisms."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from shoal.checks import positive
from shoal.errors import MissingExtraError
from shoal.losses.delta_grid import Mesh
from shoal.losses.privacy_loss import dominating
from shoal.privacy_profile import Gridded
from shoal.rounding import slack

__all__ = ["loss_distribution"]

_DEPTH = 60.0


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
    0.00952
    """
    try:
        from dp_accounting.pld.pld_pmf import DensePLDPmf
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise MissingExtraError('this needs dp-accounting: pip install "shoal-dp[dp-accounting]"') from None
    interval = positive(interval=interval)
    total = None
    for profile, local_epsilon, times in rounds:
        losses = dominating(profile.grid(Mesh(interval, local_epsilon, _DEPTH)))
        dense = losses.dense
        points = interval * np.arange(1, len(dense))
        masses = np.concatenate(((dense[1:] * np.exp(-points))[::-1], dense))
        # The multiples of the interval are rounded numbers; δ changes by less than that times ε.
        infinite = losses.infinite + slack(8) * (1 + interval * len(points))
        one = PrivacyLossDistribution(DensePLDPmf(interval, -len(points), masses, infinite, True))
        repeated = one if times == 1 else one.self_compose(times)
        total = repeated if total is None else total.compose(repeated)
    return total
