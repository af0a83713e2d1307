"""Calibration: the largest local ε₀, or the fewest reports, for a central (ε, δ).

Fed back, both answers meet the target.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from shoal.amplification.amplify import amplify, proven_bounds
from shoal.checks import MOST_REPORTS, Number, known, positive, probability, whole
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import ParameterError, RangeError, UnreachableError
from shoal.randomizers import Randomizer
from shoal.randomizers.randomizer import check_randomizer, with_local_epsilon
from shoal.searches import bisect_safe, doubled

__all__ = ["Calibration", "calibrate", "gaussian_spread", "largest_private"]

R = TypeVar("R", bound=Randomizer)

_LARGEST_LOCAL = 1e3
"""Of ε₀: whatever allows this much, allows everything."""


@dataclass(frozen=True)
class Calibration:
    """The answer of `calibrate`: a setting that meets the target.

    Attributes
    ----------
    local_epsilon, reports : float, int
        ε₀ and n, one of which was asked for.
    epsilon, delta : float
        The guarantee they reach; epsilon is at most the target.
    curve : PrivacyCurve
        Everything else about it.
    """

    local_epsilon: float
    reports: int
    epsilon: float
    delta: float
    curve: PrivacyCurve

    @property
    def randomizer(self) -> Any:
        """What each person runs, where it is known."""
        return self.curve.randomizer

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee reached as plain values, with the keys of `PrivacyCurve.to_dict`."""
        return self.curve.to_dict(delta=self.delta)

    def __repr__(self) -> str:
        """Show the setting and the guarantee."""
        return (
            f"Calibration(local_epsilon={self.local_epsilon!r}, reports={self.reports}, "
            f"epsilon={rounded_up(self.epsilon)}, delta={self.delta:g}, bound={self.curve.bound!r})"
        )


def calibrate(
    randomizer: Randomizer | None = None,
    *,
    epsilon: Number,
    delta: Number,
    reports: Number | None = None,
    local_epsilon: Number | None = None,
    bound: str = "tightest",
) -> Calibration:
    """Return the largest local_epsilon for these reports, or the fewest reports for this local_epsilon.

    Parameters
    ----------
    randomizer : Randomizer, optional
        What each person runs, a dataclass with a field local_epsilon, for a better answer under its own bound. With
        `reports`, the answer is its largest ε₀, all its other parameters kept; without, the fewest reports for the ε₀
        that it has.
    epsilon, delta : float
        The central guarantee that must hold.
    reports, local_epsilon : int or float, float
        Give one, get the other.
    bound : str
        As in `amplify`.

    Examples
    --------
    >>> calibrate(epsilon=1, delta=1e-6, reports=10_000).local_epsilon
    5.470011640257...
    >>> calibrate(epsilon=0.1, delta=1e-6, local_epsilon=2).reports
    12851
    >>> from shoal.randomizers import RandomizedResponse
    >>> survey = RandomizedResponse(categories=100, local_epsilon=1)
    >>> calibrate(survey, epsilon=1, delta=1e-6, reports=10_000).randomizer
    RandomizedResponse(categories=100, local_epsilon=5.79112...)
    """
    epsilon, delta = positive(epsilon=epsilon), probability(delta=delta)
    bound = known(proven_bounds(), bound=bound)
    if randomizer is not None:
        other = with_local_epsilon(check_randomizer(randomizer))
        if other is None or local_epsilon is not None or not other(min(randomizer.local_epsilon, 1.0)).blanket:
            raise ParameterError(
                "calibrate a mechanism with an ε₀, and no other local_epsilon: "
                "calibrate(RandomizedResponse(categories=10, local_epsilon=1), epsilon=1, delta=1e-6, reports=10_000)"
            )
        if reports is None:
            local_epsilon = randomizer.local_epsilon
    elif (reports is None) == (local_epsilon is None):
        raise ParameterError(
            "give either reports (to get local_epsilon) or local_epsilon (to get reports): "
            "calibrate(epsilon=1, delta=1e-6, reports=10_000)"
        )

    def curve_of(local: float, count: int) -> PrivacyCurve:
        if randomizer is None:
            return amplify(local_epsilon=local, reports=count, bound=bound)
        return amplify(_with(randomizer, local), reports=count, bound=bound)

    def reached(local: float, count: int) -> float:
        try:
            return float(curve_of(local, count).epsilon(delta))
        except RangeError:
            return math.inf

    if reports is not None and randomizer is not None:
        count = whole(reports=reports)
        local = largest_private(randomizer, reports=count, epsilon=epsilon, delta=delta, bound=bound).local_epsilon
    elif reports is not None:
        count = whole(reports=reports)
        largest = _largest_local(lambda value: reached(value, count), epsilon)
        if largest is None:
            raise UnreachableError(
                f"{bound} gives no guarantee at reports={count}, delta={delta:g}, however small local_epsilon is; "
                'use bound="tightest", or more reports'
            )
        local = largest
    else:
        local = positive(local_epsilon=local_epsilon)
        fewest = _fewest_reports(lambda value: reached(local, value), epsilon)
        if fewest is None:
            raise UnreachableError(
                f"no number of reports up to {MOST_REPORTS:.0e} gives epsilon={epsilon:g} at delta={delta:g} with "
                f"local_epsilon={local:g}; use a smaller local_epsilon, or a larger epsilon or delta"
            )
        count = fewest
    curve = curve_of(local, count)
    reached_epsilon = reached(local, count)
    if reached_epsilon == math.inf:
        raise UnreachableError(
            f"{bound} gives no guarantee at reports={count}, delta={delta:g} for any local_epsilon above {epsilon:g}; "
            'use bound="tightest", or more reports'
        )
    return Calibration(curve.local_epsilon, count, min(reached_epsilon, epsilon), delta, curve)


def largest_private(
    randomizer: R, *, reports: int, epsilon: float, delta: float, bound: str = "tightest", tolerance: float = 1e-9
) -> R:
    """Return the randomizer with the largest ε₀, within the tolerance, at which δ(ε) is still at most δ.

    Its other parameters are kept; so δ rises with ε₀ (docs/theory/frequency.md, statement 1).
    """

    def excess(local: float) -> float:
        other = _with(randomizer, local)
        if other.local_epsilon <= epsilon:
            return -math.inf
        try:
            reached = float(amplify(other, reports=reports, bound=bound).delta(epsilon))
        except RangeError:
            return math.inf
        if reached == 0:
            return -math.inf
        ratio = math.log(reached / delta)
        return min(ratio, 0.0) if reached <= delta else max(ratio, 1e-300)  # whatever rounding makes of it

    low, low_value = epsilon, -math.inf
    high = max(_likely(randomizer, reports=reports, epsilon=epsilon, delta=delta), epsilon * (1 + 1e-3))
    high_value = excess(high)
    while high_value <= 0:
        if high > _LARGEST_LOCAL:  # no coin of 64 bits tells it from more
            return _with(randomizer, high)
        low, low_value = high, high_value
        high += max(0.02, 0.02 * high) if high_value > -1 else 0.5 * high
        high_value = excess(high)
    step, bisect = 0.02 * min(max(high_value, 0.1), 10.0), False
    while high - low > tolerance * low:
        width = high - low
        guess = 0.5 * (low + high)
        if low_value == -math.inf:  # the guess to begin with was a good one: look for a lower end nearby
            guess = max(guess, high * (1 - step))
            step *= 3
        elif high_value < math.inf and not bisect:  # the straight line between the ends, a little to the safe side
            guess = low - low_value * width / (high_value - low_value) - 0.3 * tolerance * low
            guess = min(max(guess, low + 0.01 * width), high - 0.01 * width)
        value = excess(guess)
        if value <= 0:
            low, low_value = guess, value
        else:
            high, high_value = guess, value
        bisect = not bisect and high - low > 0.5 * width and low_value > -math.inf
    return _with(randomizer, low)


def _with(randomizer: R, local_epsilon: float) -> R:
    """Return the randomizer with another ε₀."""
    other = with_local_epsilon(randomizer)
    if other is None:
        raise ParameterError(f"{randomizer!r} has no parameter local_epsilon; nothing can be calibrated")
    return other(local_epsilon)


def _likely(randomizer: Randomizer, *, reports: int, epsilon: float, delta: float) -> float:
    """Return the ε₀ at which the sum of all W has the spread that a normal distribution needs: only a guess."""
    goal = reports * gaussian_spread(epsilon, delta) ** 2

    def variance(local: float) -> float:
        rows = _with(randomizer, local).blanket[0].rows
        return math.fsum(probability * (math.exp(one) - math.exp(two)) ** 2 for one, two, probability in rows)

    return bisect_safe(lambda local: variance(local) >= goal, unsafe=0.0, good=30.0, steps=12)


def gaussian_spread(epsilon: float, delta: float) -> float:
    """Return the shift μ of a unit normal distribution that has this (ε, δ) (Balle and Wang, ICML 2018)."""

    def excess(shift: float) -> float:
        upper, lower = (0.5 * math.erfc((epsilon / shift + sign * shift / 2) / math.sqrt(2)) for sign in (-1, 1))
        return upper - math.exp(min(epsilon, 700.0)) * lower - delta

    good, unsafe = doubled(lambda shift: excess(shift) >= 0)
    return bisect_safe(lambda shift: excess(shift) < 0, unsafe=unsafe, good=good, steps=60)


def _largest_local(reached: Callable[[float], float], target: float) -> float | None:
    """Return the largest ε₀ (within 1e-8) whose ε is at most the target, for an ε that rises with ε₀."""
    low, low_value = target, reached(target)
    while low_value > target:  # only where a closed form is out of its range
        low /= 2
        low_value = reached(low)
        if low < 1e-9 * target:
            return None
    high = 2 * low + 1
    high_value = reached(high)
    while high_value <= target:
        low, low_value, high = high, high_value, 2 * high
        high_value = reached(high)
    goal = math.log(target)
    while high - low > 1e-9 * low:
        guesses = [0.5 * (low + high)]
        if 0 < low_value <= target < high_value < math.inf and high - low < 0.5 * low:
            # The straight line between the ends in log ε, and a point on either side of it, so that both ends move.
            share = (goal - math.log(low_value)) / (math.log(high_value) - math.log(low_value))
            middle = low + min(max(share, 1e-4), 1 - 1e-4) * (high - low)
            guesses = [middle - 1e-10 * low, middle + 1e-10 * low]
        for guess in guesses:
            if low < guess < high:
                value = reached(guess)
                if value <= target:
                    low, low_value = guess, value
                else:
                    high, high_value = guess, value
    return low


def _fewest_reports(reached: Callable[[int], float], target: float) -> int | None:
    """Return an n whose ε is at most the target while that of n − 1 is not, for an ε that falls like 1/√n."""
    if reached(1) <= target:
        return 1
    low, high = 1, 2
    value = reached(high)
    while value > target:
        if high == MOST_REPORTS:
            return None
        low = high
        jump = (value / target) ** 2 if value < math.inf else 4.0
        high = min(MOST_REPORTS, math.ceil(high * min(max(2.0, 1.01 * jump), 64.0)))
        value = reached(high)
    high_value = value
    while high - low > 1:
        guess = math.ceil(high * min(1.0, (high_value / target) ** 2)) if high_value > 0 else low
        good = low < guess < high and high - guess < (high - low) // 2
        middle = guess if good else (low + high) // 2
        below = middle - max(1, math.ceil(middle * (1e-6 if good else 1e-9)))
        for count in (middle, max(below, low + 1)):  # if the first one will do, the second often ends the search
            if low < count < high:
                value = reached(count)
                if value <= target:
                    high, high_value = count, value
                else:
                    low = count
    return high
