"""Monotone searches that end on the safe side.

δ(ε) falls with ε. The answer to "which ε?" is a double at which the *upper* bound of δ was evaluated and is small
enough: the search may be as careless as it likes about how it got there. So every search below returns a point that it
has evaluated, or an end that was handed to it as a safe one.
"""

import math
from collections.abc import Callable

from shoal.checks import SMALLEST_DELTA

_PAST = 2e-12
"""How far past its estimate of the root the search looks for a safe point, relative."""
_CLOSE = 1e-6
"""A step to where δ is no longer resolved ends the search, if it was not longer than this, relatively."""
_LEAP = 1e-3
"""A step that ends this much nearer to the ceiling than it is long was a guess, and does not end the search."""
_NOISE = 1e-14
"""Differences of log value below this are rounding."""
_MOST_SECANTS = 16
"""Secant steps before every second step halves the bracket instead: a search that converges takes 5 to 12."""
_ROUGH = 0.03
"""A guess is good enough where log value is this close to log target: one more step makes it far closer."""

_BRACKET = 1e-5
"""A guess is also good enough this close to the root, relatively: at a cliff its height never is."""


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

    `value` falls on [0, ceiling], with value(ceiling) ≤ target. `start` and `slope` are guesses of
    the answer, and of the (negative) derivative of log value there. `past` is how far past its
    estimate of the root the search looks for a safe point, relative.

    Secant steps on log value as a function of log(ceiling − point), which is close to straight both
    far from the ceiling and next to it, inside a bracket that only ever shrinks. Where δ falls off
    a cliff, secants move by a little at a time, and so later steps alternate with bisections. What
    is returned was evaluated, or is the ceiling.
    """
    low = 0.0
    high = ceiling
    point = start
    rise = -slope * (ceiling - start)
    before: tuple[float, float] | None = None
    move = math.inf
    for step in range(200):
        if step >= _MOST_SECANTS and step % 2:
            point = 0.5 * (low + high)
        if point <= 0 and low == 0:
            if value(0.0) <= target:
                return 0.0
            low = math.ulp(0.0)
        if point >= high:
            point = high * (1 - past)
        if not low < point < high:
            point = 0.5 * (low + high)
            if not low < point < high:
                break
        reached = value(point)
        if reached <= min(SMALLEST_DELTA, target):  # the least δ that is resolved: the slope there says nothing
            high = point
            before = None
            point = 0.5 * (low + point)
            if high - low <= past * high or abs(move) <= _CLOSE * high:
                break
            move = math.inf
            continue
        height = math.log(reached) - math.log(target)
        room = ceiling - point
        # After a leap to the ceiling the secant is no estimate of the slope there.
        leapt = before is not None and room < _LEAP * abs(point - before[0])
        if before is not None and point != before[0]:
            # Next to the ceiling this rounds to −1.
            nearer = max((before[0] - point) / (ceiling - before[0]), -1 + _NOISE)
            rise = (height - before[1]) / math.log1p(nearer)
        if reached <= target:  # not by its logarithm, which is too coarse for a tiny target
            high = point
            if (
                before is not None
                and rise > 0
                and not leapt
                and -height <= max(2.5 * past * point * rise / room, _NOISE)
            ):
                break
        else:
            low = point
        if high - low <= past * high:
            break
        before = (point, height)
        if not 0 < rise < math.inf:
            # no slope: look at zero, then halve the bracket
            point = -1.0 if low == 0 else low
            move = math.inf
            continue
        move = -room * math.expm1(min(-height / rise, 700.0))
        close = abs(move) <= 1e-4 * point
        point += move + (max(past * point, _NOISE * room / (2 * rise)) if close else 0.0)
    return high


def gaussian_guess(spread: float, delta: float) -> tuple[float, float]:
    """Return ε and d log δ/dε for δ(ε) = spread·(φ(t) − t·Φ(−t)), t = ε/spread, the limit of many reports."""
    if spread <= 0:
        return 0.0, -1.0
    target = max(delta / spread, 1e-320)
    if target >= 0.3989:
        return 0.0, -1 / spread
    steep = math.sqrt(-2 * math.log(target))
    slope = -1.0
    for _ in range(8):
        tail = math.erfc(steep / math.sqrt(2)) / 2
        height = math.exp(-steep * steep / 2) / math.sqrt(2 * math.pi) - steep * tail
        if height <= 0 or tail <= 0:
            break
        slope = -tail / height
        move = (math.log(target) - math.log(height)) / slope
        steep = max(0.0, steep + move)
        if abs(move) < 1e-6:
            break
    return steep * spread, slope / spread


def bracketed(
    epsilon: Callable[[float], float], least: Callable[[float, float], float], delta: float
) -> tuple[float, float]:
    """Return ε(δ) rounded down and up, where `epsilon` rounds up.

    `least` returns, for a δ ≥ 1e-300 and its positive ε(δ), at most the exact one. A smaller δ has
    at least the ε of 1e-300.
    """
    upper = epsilon(delta)
    if delta == 0 or upper == 0:
        return upper, upper
    if delta < SMALLEST_DELTA:
        return bracketed(epsilon, least, SMALLEST_DELTA)[0], upper
    return least(delta, upper), upper


def rough_root(
    height: Callable[[float], float], ceiling: float, start: float, slope: float, *, within: float = _ROUGH
) -> tuple[float, float]:
    """Return roughly where a falling height is zero, and its derivative there: a better guess than the one given.

    Secant steps as in `smallest_safe`, until the height is `within` of zero; what is returned is one step farther.
    """
    point = min(max(start, 0.0), ceiling * (1 - 1e-9))
    rise = -slope * (ceiling - start)
    low = 0.0
    high = ceiling
    before: tuple[float, float] | None = None
    for _ in range(40):
        reached = height(point)
        if not math.isfinite(reached):
            reached = -math.inf
        room = ceiling - point
        if before is not None and math.isfinite(reached):
            rise = (reached - before[1]) / math.log1p((before[0] - point) / (ceiling - before[0]))
        low, high = (low, point) if reached <= 0 else (point, high)
        following = math.nan
        if 0 < rise < math.inf and math.isfinite(reached):
            following = point - room * math.expm1(min(-reached / rise, 700.0))
            slope = -rise / room
        if point == 0 and reached <= 0:
            return 0.0, slope
        if following <= 0 == low:
            following = 0.0
        if not low <= following < high:
            following = 0.5 * (low + high)
        if abs(reached) < within or abs(following - point) <= _BRACKET * point or high - low <= _BRACKET * high:
            return following, slope
        before = (point, reached) if math.isfinite(reached) else None
        point = following
    return point, slope


def greatest_unsafe(value: Callable[[float], float], target: float, safe: float) -> float:
    """Return a point below `safe` where value ≥ target, close to it, for a falling value; or zero."""
    width = 1e-11
    before = (0.0, math.inf)
    while safe and width < 1:
        point = safe * (1 - width)
        reached = value(point)
        if reached >= target:
            return point
        lacking = math.log(target) - math.log(reached) if reached > 0 else math.inf
        following = 8 * width
        if lacking < before[1] < math.inf:  # it grows by as much again on the same way
            following = width + 1.1 * lacking * (width - before[0]) / (before[1] - lacking)
        before = width, lacking
        width = min(max(following, 1.5 * width), 1000 * width)
    return 0.0


def bisect_safe(
    safe: Callable[[float], bool],
    *,
    unsafe: float,
    good: float,
    steps: int = 4_096,
    within: float = 0.0,
    relative: float = 0.0,
) -> float:
    """Return a point where `safe` holds, or `good` itself, by halving the way from there to an unsafe point.

    Neither end is evaluated, and at most `steps` points are. At the end the two are at most
    `within` apart, plus the part `relative` of the larger one.
    """
    for _ in range(steps):
        if abs(good - unsafe) <= within + relative * max(good, unsafe):
            break
        middle = 0.5 * (unsafe + good)
        if safe(middle):
            good = middle
        else:
            unsafe = middle
    return good


def bisect_count(safe: Callable[[int], bool], *, unsafe: int, good: int) -> int:
    """Return the count next to an unsafe one where `safe` holds, or `good` itself; the ends are not evaluated."""
    while abs(good - unsafe) > 1:
        middle = (unsafe + good) // 2
        if safe(middle):
            good = middle
        else:
            unsafe = middle
    return good


def doubled(reached: Callable[[float], bool], start: float = 1.0) -> tuple[float, float]:
    """Return the first of start, 2·start, 4·start, … where `reached` holds, after the one before it, or zero."""
    before = 0.0
    point = start
    while not reached(point):
        before = point
        point = 2 * point
    return before, point


def lowest(value: Callable[[float], float], low: float, high: float, *, within: float) -> float:
    """Return roughly where a function with one valley has its least value, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    left = high - ratio * (high - low)
    right = low + ratio * (high - low)
    at_left = value(left)
    at_right = value(right)
    for _ in range(60):
        if high - low <= within:
            break
        if at_left <= at_right:
            high = right
            right = left
            at_right = at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right
