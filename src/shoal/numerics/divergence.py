"""δ(ε) from both sides, given the distribution of W: counts are listed where they are few, else the sum is inverted."""

import math

from shoal.numerics.contour import positive_part
from shoal.numerics.distribution import Distribution
from shoal.numerics.listed import DEPTH, listed, windows

__all__ = ["divergence"]

_QUICK, _QUICKER, _SLOW = 2.5e6, 1e6, 3e7
"""Counts are listed if that takes at most 2.5 ms, 1 ms for a coarse answer, 30 ms where inversion leaves δ wide."""
_WIDE = 1e-6


def divergence(distribution: Distribution, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊], about 1e-6 apart at most; with a tolerance, coarser ones.

    Examples
    --------
    >>> coin = Distribution(reports=2, scale=1.0, values=(0.5, -0.5), probabilities=(0.25, 0.25), mean=0.0)
    >>> lower, upper = divergence(coin)
    >>> lower <= 0.1875 <= upper, upper - lower < 1e-12
    (True, True)
    """
    depth = DEPTH if tolerance is None else 8 - math.log(tolerance)
    quick, chosen = _QUICK if tolerance is None else _QUICKER, windows(distribution, depth=depth)
    if chosen is None or chosen.nanoseconds > quick:  # values that hardly differ make it long: take them together
        joined = windows(distribution, depth=depth, together=True)
        chosen = chosen if joined is None else joined
    ends = None
    if chosen is not None and chosen.nanoseconds <= quick:
        ends = listed(distribution, chosen)
        if ends is not None and (chosen.step == 0 or chosen.blurred <= _WIDE or _close(ends, tolerance)):
            return ends
    lower, upper = positive_part(distribution, tolerance=tolerance)
    unclear = tolerance is None and not _close((lower, upper), None)
    if ends is None and unclear and chosen is not None and chosen.nanoseconds <= _SLOW:
        ends = listed(distribution, chosen)
    return (lower, upper) if ends is None else (max(lower, ends[0]), min(upper, ends[1]))


def _close(ends: tuple[float, float], tolerance: float | None) -> bool:
    return ends[0] >= ends[1] * (1 - max(tolerance or 0.0, _WIDE))
