"""How much noise a run needs for a guarantee."""

import math

from shoal.checks import positive, probability
from shoal.errors import UnreachableError
from shoal.sgd.bounds import quick
from shoal.sgd.run import Run

__all__ = ["calibrate"]

_LEAST, _MOST = 1e-3, 1e9
_FINE = 1e-3


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

    def reached(log_multiplier: float) -> float:
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
        return quick(run, delta)

    # ε falls by about a factor for each factor of the noise: steps on the logarithms of both, inside a bracket.
    low, high, here = math.log(_LEAST), math.log(_MOST), math.log(4.0)
    if reached(high) > target:
        raise UnreachableError(
            f"no noise multiplier up to {_MOST:g} gives epsilon={target:g} at delta={delta:g}; use a larger delta"
        )
    if reached(low) <= target:
        return _LEAST
    before: tuple[float, float] | None = None
    while high - low > _FINE:
        value = reached(here)
        height = math.log(value) - math.log(target) if value > 0 else -50.0
        low, high = (here, high) if value > target else (low, here)
        slope = -1.0
        if before is not None and before[0] != here:
            slope = min((height - before[1]) / (here - before[0]), -0.2)
        before = (here, height)
        here -= height / slope
        here += 0.3 * _FINE  # a little past the root, so that the bracket closes from above
        if not low < here < high:
            here = 0.5 * (low + high)
    return math.exp(high)
