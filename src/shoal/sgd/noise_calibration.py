"""How much noise a run needs for a guarantee."""

import math
from collections.abc import Callable
from dataclasses import replace

from shoal.calibration.target import ROOM
from shoal.checks import positive, probability
from shoal.errors import UnreachableError
from shoal.progress import waiting
from shoal.sgd.run import Run

__all__ = ["calibrate"]

_LEAST, _MOST = 1e-3, 1e9
"""The least and the greatest noise multiplier that is tried."""
_FINE = 1e-3
"""How far from the smallest multiplier the answer may be, relatively."""


def calibrate(run: Run, *, epsilon: float, delta: float) -> Run:
    """Return the run with the smallest noise multiplier, within 0.1 %, for which a certificate proves (ε, δ)-DP.

    A certificate may prove up to 0.1 % more than the computed ε, and so the computed ε is 0.1 % below the target.

    Parameters
    ----------
    run : Run
        What is done; its `noise_multiplier` is None, or is not looked at.
    epsilon, delta : float
        The guarantee.

    Examples
    --------
    >>> from shoal.sgd import guarantee
    >>> run = calibrate(Run(examples=1_000_000), epsilon=0.1, delta=1e-6)
    >>> round(run.noise_multiplier, 3), guarantee(run, delta=1e-6).epsilon <= 0.1
    (1.112, True)
    """
    target, delta = positive(epsilon=epsilon), probability(delta=delta)
    with waiting(f"choosing the noise for ε = {target:g}"):
        return _calibrated(run, target, delta)


def _calibrated(run: Run, target: float, delta: float) -> Run:
    def proven(log_multiplier: float) -> float:
        return run.sampler.epsilon(with_noise(log_multiplier), delta)

    def estimated(log_multiplier: float) -> float:
        return run.sampler.estimate(with_noise(log_multiplier), delta)

    def with_noise(log_multiplier: float) -> Run:
        return replace(run, noise_multiplier=math.exp(log_multiplier))

    low, high = math.log(_LEAST), math.log(_MOST)
    goal = target * (1 - ROOM)
    if proven(high) > goal:
        raise UnreachableError(
            f"no noise multiplier up to {_MOST:g} gives epsilon={target:g} at delta={delta:g}; use a larger delta"
        )
    if estimated(low) <= target and proven(low) <= goal:  # a proof for so little noise takes seconds
        return replace(run, noise_multiplier=_LEAST)
    middle = _crossing(estimated, goal, low, high, fine=_FINE / 4, start=0.5 * (low + high))
    return with_noise(_crossing(proven, goal, low, high, fine=_FINE, start=middle))


def _crossing(
    value: Callable[[float], float], target: float, low: float, high: float, *, fine: float, start: float
) -> float:
    """Return a point at which a falling value is at most the target, by secant steps on its logarithm in a bracket.

    Next to the root it looks a little to the other side, so that the bracket becomes short; farther, if that fails.
    """
    point, before, width = start, (math.nan, math.nan), fine
    while high - low > fine:
        reached = value(point)
        height = (
            math.log(reached) - math.log(target) if 0 < reached < math.inf else math.copysign(50.0, reached - target)
        )
        low, high = (point, high) if reached > target else (low, point)
        slope = (height - before[1]) / (point - before[0]) if before[0] != point else math.nan
        before = (point, height)
        move = -height / (slope if slope < -0.2 else -1.0)
        if abs(move) > 0.45 * fine:
            point += move + 0.3 * fine  # a little past the root
        else:  # which is here: the other end of the bracket is wanted
            point, width = point + math.copysign(0.9 * width, move), 4 * width
        if not low < point < high:
            point = 0.5 * (low + high)
    return high
