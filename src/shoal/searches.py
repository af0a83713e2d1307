"""Monotone searches that end on the safe side.

δ(ε) falls with ε. The answer to "which ε?" is a double at which the *upper* bound of δ was evaluated and found small
enough: the search may be as careless as it likes about how it got there.
"""

import math
from collections.abc import Callable

from shoal.checks import SMALLEST_DELTA

__all__ = ["greatest_unsafe", "lowest", "smallest_safe"]

_PAST = 2e-12
"""How far past its estimate of the root the search looks for a safe point, relative."""
_NOISE = 1e-14
"""Differences of log value below this are rounding."""


def smallest_safe(
    value: Callable[[float], float],
    target: float,
    ceiling: float,
    start: float,
    slope: float,
    *,
    past: float = _PAST,
) -> float:
    """Return a point where value ≤ target, within about 5·past (1e-11) of the smallest one.

    Parameters
    ----------
    value : callable
        A function that falls on [0, ceiling], with value(ceiling) ≤ target.
    start, slope : float
        A guess of the answer, and of the (negative) derivative of log value there.
    past : float
        How far past its estimate of the root the search looks for a safe point, relative.

    Notes
    -----
    Secant steps on log value as a function of log(ceiling − point), which is close to straight both far from the
    ceiling and next to it, inside a bracket that only ever shrinks. What is returned was evaluated, or is the ceiling.
    """
    low, high, here = 0.0, ceiling, start
    rise = -slope * (ceiling - start)
    before: tuple[float, float] | None = None
    for _ in range(200):
        if here <= 0 and low == 0:
            if value(0.0) <= target:
                return 0.0
            low = math.ulp(0.0)
        if here >= high:
            here = high * (1 - past)
        if not low < here < high:
            here = 0.5 * (low + high)
            if not low < here < high:
                break
        reached = value(here)
        if reached <= min(SMALLEST_DELTA, target):  # at the least δ that is told apart: the slope there says nothing
            high, before, here = here, None, 0.5 * (low + here)
            if high - low <= past * high:
                break
            continue
        height = math.log(reached) - math.log(target)
        room = ceiling - here
        if before is not None and here != before[0]:
            rise = (height - before[1]) / math.log1p((before[0] - here) / (ceiling - before[0]))
        if reached <= target:  # not by its logarithm, which is too coarse for a tiny target
            high = here
            if rise > 0 and -height <= max(2.5 * past * here * rise / room, _NOISE):
                break
        else:
            low = here
        if high - low <= past * high:
            break
        before = (here, height)
        if not 0 < rise < math.inf:
            here = -1.0 if low == 0 else low  # no slope to go by: look at zero, then halve the bracket
            continue
        move = -room * math.expm1(min(-height / rise, 700.0))
        close = abs(move) <= 1e-4 * here
        here += move + (max(past * here, _NOISE * room / (2 * rise)) if close else 0.0)
    return high


def greatest_unsafe(value: Callable[[float], float], target: float, safe: float) -> float:
    """Return a point below `safe` where value ≥ target, close to it, for a falling value; or zero."""
    width = 1e-11
    while width < 1:
        here = safe * (1 - width)
        if value(here) >= target:
            return here
        width *= 8
    return 0.0


def lowest(value: Callable[[float], float], low: float, high: float, *, within: float) -> float:
    """Return roughly where a function with one valley has its least value, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(60):
        if high - low <= within:
            break
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right
