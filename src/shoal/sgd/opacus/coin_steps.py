"""What steps by Poisson sampling guarantee, each with its own noise, and how much noise they need."""

import math
from collections.abc import Sequence

from shoal.amplification.gaussian_clones import FARTHEST
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.errors import UnreachableError
from shoal.rounding import slack
from shoal.sgd.participation import PoissonStep

__all__ = ["coins_epsilon"]

_UP = 1 + slack(32)


def coins_epsilon(rate: float, steps: Sequence[tuple[float, int]], *, delta: float, adjacency: str) -> float:
    """Return ε of all steps together; infinity where there is too little noise for one.

    Parameters
    ----------
    rate : float
        The probability that an example joins a step, not less than it is.
    steps : sequence of tuple of (float, int)
        The noise multiplier and the number of each kind of steps.
    delta : float
        δ.
    adjacency : str
        "zero-out" or "replace".

    Examples
    --------
    >>> coins_epsilon(1 / 94, [(0.8, 94)], delta=1e-6, adjacency="zero-out")
    2.0767...
    """
    directions = ("replace",) if adjacency == "replace" else ("remove", "add")
    try:
        return max(
            LossProfile(
                tuple(Round(PoissonStep(_UP / noise, each, rate), FARTHEST, number) for noise, number in steps)
            ).epsilon(delta)
            for each in directions
        )
    except UnreachableError:
        return math.inf
