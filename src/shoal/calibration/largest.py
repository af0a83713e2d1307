"""The largest ε₀, the fewest reports and the most rounds that keep a target, each with few exact values.

Exact values are expensive, so every search starts from a quick guess of the function, which is corrected by its error
at the values so far.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from shoal.amplification.amplify import amplify
from shoal.calibration.target import Target, gaussian_spread, root, telling
from shoal.checks import MOST_REPORTS
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.errors import ParameterError
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.randomizer import Randomizer, with_local_epsilon
from shoal.searches import doubled

Function = Callable[[float], float]

_INSIDE = 0.3
"""How far below its estimate of the root a search aims, in units of its tolerance: the last point has to be safe."""
_PATIENCE = 6
"""After this many values, every second point halves what is left."""
R = TypeVar("R", bound=Randomizer)
LARGEST_LOCAL = 1e3
"""Of ε₀: whatever allows this much, allows everything."""


@dataclass
class Aim:
    """Where a rising function is likely zero, from a quick guess of the function and a few exact values.

    The exact function less the guess changes slowly. So the guess plus the straight line through
    the last two differences has a root that is off by the product of two errors, times a small
    number.
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

    Each value of `excess` may take long, and `likely` is a quick guess of it. The search begins at
    `start`. At `low` the function is at most zero, and it is not evaluated there. The answer was
    evaluated, or is `low`; the tolerance is relative.
    """
    aim = Aim(likely)
    high = math.inf
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
    """Return a count from 1 to `most` at which a function is at most zero, next to one at which it is not.

    Each value of `excess` may take long, and `likely` is a quick guess of it, also between
    integers. A function of rounds is `rising`; one of reports falls. Where it is greater than zero
    at all counts, the answer is 0, or None for a falling one.
    """
    sign = 1.0 if rising else -1.0
    aim = Aim(lambda logarithm: likely(math.exp(sign * logarithm)))
    low = 0
    high = most + 1
    reach = 1
    value = 0.0
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


def largest_private(
    randomizer: R,
    *,
    reports: int,
    epsilon: float,
    delta: float,
    bound: str = "tightest",
    tolerance: float = 1e-9,
) -> R:
    """Return the randomizer with the largest ε₀, within the tolerance, at which δ(ε) is still at most δ.

    Its other parameters are kept; so δ rises with ε₀ (docs/theory/frequency.md, statement 1).
    """
    other = varied(randomizer)
    target = Target(Budget(epsilon, delta, planned=True))
    local = largest_local_epsilon(
        lambda value: amplify(other(value), reports=reports, bound=bound),
        lambda value: telling(other(value)),
        target,
        reports=reports,
        tolerance=tolerance,
    )
    return other(epsilon if local is None else local)


def varied(randomizer: R) -> Callable[[float], R]:
    """Return a function that gives the randomizer another ε₀."""
    other = with_local_epsilon(randomizer)
    if other is None:
        raise ParameterError(f"{randomizer!r} has no parameter local_epsilon; nothing can be calibrated")
    return other


def largest_local_epsilon(
    curve_of: Callable[[float], PrivacyCurve],
    like: Callable[[float], Likelihoods],
    target: Target,
    *,
    reports: int,
    rounds: int = 1,
    tolerance: float = 1e-9,
    start: float | None = None,
    most: float = LARGEST_LOCAL,
) -> float | None:
    """Return the largest ε₀, within the tolerance, at which this many rounds keep the target; or nothing.

    `curve_of` returns the guarantee of one round with an ε₀, and `like` about what a report tells
    then, to guess with. The search begins at `start`.
    """
    least = 1e-9 * target.epsilon
    low = target.epsilon if target.single(rounds) else target.computed / rounds  # the sum of all ε₀ is a guarantee
    if target.before:
        low = least
    most = min(most, LARGEST_LOCAL)
    if most <= low:
        return most

    def excess(local: float) -> float:
        return target.excess(curve_of(local), rounds)

    def likely(local: float) -> float:
        return target.likely(like(local), reports, rounds)

    start = _start(target, reports, rounds) if start is None else start
    result = largest_safe(excess, likely, start=start, low=low, most=most, tolerance=tolerance)
    if result > low or excess(low) <= 0:
        return result
    # Not even there: a closed form is out of its range, or hardly anything is left.
    _, share = doubled(lambda part: excess(low / part) <= 0 or low < least * part, 2.0)
    if low < least * share:
        return None
    return largest_safe(excess, likely, start=low / share, low=low / share, most=2 * low / share, tolerance=tolerance)


def likely_private(randomizer: R, target: Target, *, reports: int, rounds: int = 1, most: float = LARGEST_LOCAL) -> R:
    """Return the randomizer with roughly the largest ε₀ that keeps the target."""
    other = varied(randomizer)
    most = min(most, LARGEST_LOCAL)
    start = min(_start(target, reports, rounds), most)
    aim = Aim(lambda local: target.likely(telling(other(local)), reports, rounds))
    return other(aim.next(1e-9, most, start))


def _start(target: Target, reports: float, rounds: float) -> float:
    """Return the ε₀ at which binary randomized response has about the shift that the target allows."""
    room = gaussian_spread(target.epsilon, target.delta) ** 2 - target.spent_shift**2
    goal = reports * max(room, 0.0) / rounds  # 2y²/(y + 2) for y = e^ε₀ − 1
    return max(math.log1p(0.25 * (goal + math.sqrt(goal * (goal + 16)))), 1e-9)


def fewest_reports(
    curve_of: Callable[[int], PrivacyCurve], like: Likelihoods, target: Target, rounds: int
) -> int | None:
    """Return an n with which this many rounds keep the target while with n − 1 they do not; or nothing."""
    return last_safe(
        lambda reports: target.excess(curve_of(reports), rounds),
        lambda reports: target.likely(like, reports, rounds),
        start=1e4,
        most=MOST_REPORTS,
        rising=False,
    )


def most_rounds(curve: PrivacyCurve, like: Likelihoods, target: Target) -> int:
    """Return how many such rounds keep the target, while one more does not; 0 if none does."""
    result = last_safe(
        lambda rounds: target.excess(curve, rounds),
        lambda rounds: target.likely(like, curve.reports, rounds),
        start=100,
        most=MOST_TIMES,
        rising=True,
    )
    return result or 0
