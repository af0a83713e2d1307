"""Searches that cost few exact values: a quick guess of the function, corrected by what it was off so far."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from shoal.calibration.guess import root

__all__ = ["Aim", "largest_safe", "last_safe"]

Function = Callable[[float], float]

_INSIDE = 0.3
"""How far below its estimate of the root a search aims, in units of its tolerance: the last point has to be safe."""
_PATIENCE = 6
"""After this many values, every second point halves what is left."""


@dataclass
class Aim:
    """Where a rising function is likely zero, from a guess of the function and a few exact values.

    The exact function less the guess changes slowly. So the guess plus the straight line through the last two
    differences has a root that is off by the product of two errors, times a small number.

    Attributes
    ----------
    likely : callable
        The guess: quick, and about right.
    """

    likely: Function
    points: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, point: float, value: float) -> None:
        """Take note of an exact value."""
        guess = self.likely(point)
        if math.isfinite(value) and math.isfinite(guess):
            self.points = [*self.points[-1:], (point, value, value - guess)]

    def next(self, low: float, high: float, start: float) -> float:
        """Return the likely root between two points, the upper one of which may be infinite."""
        return root(lambda point: self.likely(point) + self._off(point), start, low=low, high=high)

    def _off(self, point: float) -> float:
        """Return what the guess is likely off at this point."""
        if not self.points:
            return 0.0
        x, _, off = self.points[-1]
        if len(self.points) == 1 or self.points[0][0] == x:
            return off
        x_before, _, off_before = self.points[0]
        return off + (point - x) * (off - off_before) / (x - x_before)

    def slope(self, point: float) -> float:
        """Return how fast the function rises at a point, rather less than more."""
        step = 1e-5 * abs(point) + 1e-12
        slopes = [(self.likely(point) - self.likely(point - step)) / step]
        if len(self.points) == 2 and self.points[0][0] != self.points[1][0]:
            (x_before, before, _), (x, value, _) = self.points
            slopes.append((value - before) / (x - x_before))
        return min(slopes)


def largest_safe(
    excess: Function, likely: Function, *, start: float, low: float, most: float, tolerance: float
) -> float:
    """Return the largest point at which a rising function is at most zero, within the tolerance, or the most.

    Parameters
    ----------
    excess : callable
        The function; each value may take long.
    likely : callable
        A quick guess of it.
    start, low, most : float
        Where to look first; a point where the function is at most zero, which is not evaluated; and the largest of all.
    tolerance : float
        How close to the largest the answer is, relative. It was evaluated, or is `low`.
    """
    aim, high = Aim(likely), math.inf
    least = low * (1 + tolerance)
    point = max(aim.next(low, most, min(max(start, least), most)) * (1 - _INSIDE * tolerance), least)
    for tries in count(1):
        value = excess(point)
        aim.add(point, value)
        if value <= 0:
            low = point
            close = math.isfinite(value) and -value <= aim.slope(point) * tolerance * point
            if point == most or close:
                break
        else:
            high = point
        if high - low <= tolerance * low:
            break
        if math.isinf(value) or (tries > _PATIENCE and tries % 2):
            point = min(2 * low, most) if math.isinf(high) else 0.5 * (low + high)
            continue
        aimed = aim.next(low, min(high, most), point) * (1 - _INSIDE * tolerance)
        point = min(max(aimed, low * (1 + _INSIDE * tolerance)), high - _INSIDE * tolerance * low)
    return low


def last_safe(excess: Callable[[int], float], likely: Function, *, start: float, most: int, rising: bool) -> int | None:
    """Return a count at which a function is at most zero, next to one at which it is not.

    Parameters
    ----------
    excess : callable
        The function of a count from 1 on; each value may take long.
    likely : callable
        A quick guess of it, also between whole numbers.
    start : float
        Where to look first.
    most : int
        The largest count.
    rising : bool
        Whether the function rises with the count, as it does with rounds, or falls, as it does with reports.

    Returns
    -------
    int or None
        0 or nothing where it is greater than zero at all counts.
    """
    sign = 1.0 if rising else -1.0
    aim = Aim(lambda logarithm: likely(math.exp(sign * logarithm)))
    low, high, reach, value = 0, most + 1, 1, 0.0
    whole = min(max(round(start), 1), most)
    for tries in count():
        if high - low <= 1:
            break
        if math.isinf(value) or (tries > _PATIENCE and tries % 2):
            whole = math.isqrt(max(low, 1) * high)
        else:
            one, other = sorted((sign * math.log(max(low, 0.5)), sign * math.log(high)))
            aimed = math.exp(sign * aim.next(one, other, sign * math.log(whole)))
            whole = math.floor(aimed * (1 + 1e-12)) if rising else math.ceil(aimed * (1 - 1e-12))
        near = min(reach, (high - low) // 2)
        kept = min(max(whole, low + near), high - near)
        whole, reach = kept, 1 if kept == whole else 2 * reach  # at an end, go further each time
        value = excess(whole)
        aim.add(sign * math.log(whole), value)
        if (value <= 0) == rising:
            low = whole
        else:
            high = whole
    return low if rising else (high if high <= most else None)
