"""The largest ε₀, the fewest reports and the most rounds that keep a target, each with few exact values."""

import math
from collections.abc import Callable
from typing import TypeVar

from shoal.amplification.amplify import amplify
from shoal.calibration.aim import Aim, largest_safe, last_safe
from shoal.calibration.guess import gaussian_spread, telling
from shoal.calibration.target import Target
from shoal.checks import MOST_REPORTS
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.errors import ParameterError
from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers import Randomizer
from shoal.randomizers.randomizer import with_local_epsilon
from shoal.searches import doubled

__all__ = [
    "LARGEST_LOCAL",
    "fewest_reports",
    "largest_local_epsilon",
    "largest_private",
    "likely_private",
    "most_rounds",
    "varied",
]

R = TypeVar("R", bound=Randomizer)

LARGEST_LOCAL = 1e3
"""Of ε₀: whatever allows this much, allows everything."""


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
    other, target = varied(randomizer), Target(Budget(epsilon, delta, planned=True))
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
    times: int = 1,
    tolerance: float = 1e-9,
    start: float | None = None,
    most: float = LARGEST_LOCAL,
) -> float | None:
    """Return the largest ε₀, within the tolerance, at which this many rounds keep the target; or nothing.

    Parameters
    ----------
    curve_of : callable
        The guarantee of one round, as a function of ε₀.
    like : callable
        What a report tells then, or something like it, to guess with.
    start, most : float
        Where to look first, and the largest ε₀ of all.
    """
    least = 1e-9 * target.epsilon
    low = target.epsilon if target.single(times) else target.computed / times  # the sum of all ε₀ is a guarantee
    if target.before:
        low = least
    most = min(most, LARGEST_LOCAL)
    if most <= low:
        return most

    def excess(local: float) -> float:
        return target.excess(curve_of(local), times)

    def likely(local: float) -> float:
        return target.likely(like(local), reports, times)

    start = _start(target, reports, times) if start is None else start
    result = largest_safe(excess, likely, start=start, low=low, most=most, tolerance=tolerance)
    if result > low or excess(low) <= 0:
        return result
    # Not even there: a closed form is out of its range, or hardly anything is left.
    _, share = doubled(lambda part: excess(low / part) <= 0 or low < least * part, 2.0)
    if low < least * share:
        return None
    return largest_safe(excess, likely, start=low / share, low=low / share, most=2 * low / share, tolerance=tolerance)


def likely_private(randomizer: R, target: Target, *, reports: int, times: int = 1, most: float = LARGEST_LOCAL) -> R:
    """Return the randomizer with roughly the largest ε₀ that keeps the target."""
    other, most = varied(randomizer), min(most, LARGEST_LOCAL)
    start = min(_start(target, reports, times), most)
    aim = Aim(lambda local: target.likely(telling(other(local)), reports, times))
    return other(aim.next(1e-9, most, start))


def _start(target: Target, reports: float, times: float) -> float:
    """Return the ε₀ at which binary randomized response has about the shift that the target allows."""
    room = gaussian_spread(target.epsilon, target.delta) ** 2 - target.spent_shift**2
    goal = reports * max(room, 0.0) / times  # 2y²/(y + 2) for y = e^ε₀ − 1
    return max(math.log1p(0.25 * (goal + math.sqrt(goal * (goal + 16)))), 1e-9)


def fewest_reports(
    curve_of: Callable[[int], PrivacyCurve], like: Likelihoods, target: Target, times: int
) -> int | None:
    """Return an n with which this many rounds keep the target while with n − 1 they do not; or nothing."""
    return last_safe(
        lambda reports: target.excess(curve_of(reports), times),
        lambda reports: target.likely(like, reports, times),
        start=1e4,
        most=MOST_REPORTS,
        rising=False,
    )


def most_rounds(curve: PrivacyCurve, like: Likelihoods, target: Target) -> int:
    """Return how many such rounds keep the target, while one more does not; 0 if none does."""
    result = last_safe(
        lambda times: target.excess(curve, times),
        lambda times: target.likely(like, curve.reports, times),
        start=100,
        most=MOST_TIMES,
        rising=True,
    )
    return result or 0
