"""How much noise a run needs for a guarantee."""

import math
from collections.abc import Callable
from functools import partial

from shoal.checks import positive, probability
from shoal.errors import UnreachableError
from shoal.sgd.bounds import estimated, quick
from shoal.sgd.run import Run

__all__ = ["calibrate"]

_LEAST, _MOST = 1e-3, 1e9
_FINE = 1e-3
_WIDTHS = (0.004, 0.05, 0.5)


def calibrate(
    *,
    epsilon: float,
    delta: float,
    examples: int,
    batch_size: int = 1,
    epochs: int = 1,
    noise: str = "batch",
    releases: str = "every-step",
    adjacency: str = "replace",
    order: str = "fresh",
) -> float:
    """Return the smallest noise multiplier, within 0.1 % of itself, for which the run is (ε, δ)-DP.

    Examples
    --------
    >>> from shoal.sgd import guarantee
    >>> noise = calibrate(epsilon=0.1, delta=1e-6, examples=1_000_000)
    >>> round(noise, 3), guarantee(examples=1_000_000, noise_multiplier=noise, delta=1e-6).epsilon <= 0.1
    (1.112, True)
    """
    target, delta = positive(epsilon=epsilon), probability(delta=delta)

    def reached(value: Callable[[Run, float], float], log_multiplier: float) -> float:
        run = Run(
            examples=examples,
            batch_size=batch_size,
            noise_multiplier=math.exp(log_multiplier),
            epochs=epochs,
            noise=noise,
            releases=releases,
            adjacency=adjacency,
            order=order,
        )
        return value(run, delta)

    low, high = math.log(_LEAST), math.log(_MOST)
    if reached(quick, high) > target:
        raise UnreachableError(
            f"no noise multiplier up to {_MOST:g} gives epsilon={target:g} at delta={delta:g}; use a larger delta"
        )
    if reached(quick, low) <= target:
        return _LEAST
    here = _crossing(partial(reached, estimated), target, low, high, _FINE / 4)
    # What was estimated is close: look a little to both sides, and farther if that is not enough.
    for width in _WIDTHS:
        below, above = max(low, here - width), min(high, here + width)
        if reached(quick, above) <= target < reached(quick, below):
            return math.exp(_crossing(partial(reached, quick), target, below, above, _FINE))
    return math.exp(_crossing(partial(reached, quick), target, low, high, _FINE))


def _crossing(value: Callable[[float], float], target: float, low: float, high: float, fine: float) -> float:
    """Return a point at which a falling value is at most the target, by secant steps on its logarithm in a bracket."""
    here, before = 0.5 * (low + high), (math.nan, math.nan)
    while high - low > fine:
        found = value(here)
        height = math.log(found) - math.log(target) if 0 < found < math.inf else math.copysign(50.0, found - target)
        low, high = (here, high) if found > target else (low, here)
        slope = (height - before[1]) / (here - before[0]) if before[0] != here else math.nan
        before = (here, height)
        here += -height / (slope if slope < -0.2 else -1.0) + 0.3 * fine  # a little past the root, to close from above
        if not low < here < high:
            here = 0.5 * (low + high)
    return high
