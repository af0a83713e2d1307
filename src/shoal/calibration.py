"""The questions backwards: the largest local ε, the fewest reports. Fed back, both answers meet the target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.amplification.amplify import BOUNDS, amplify
from shoal.checks import MOST_REPORTS, known, positive, probability, whole
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import ParameterError, RangeError, UnreachableError

__all__ = ["Calibration", "calibrate"]


@dataclass(frozen=True)
class Calibration:
    """The answer of `calibrate`: a setting that meets the target.

    Attributes
    ----------
    local_epsilon, reports : ε₀ and n, one of which was asked for.
    epsilon, delta : the guarantee they reach; epsilon is at most the target.
    curve : everything else about it.
    """

    local_epsilon: float
    reports: int
    epsilon: float
    delta: float
    curve: PrivacyCurve

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
    *, epsilon: Any, delta: Any, reports: Any = None, local_epsilon: Any = None, bound: str = "tightest"
) -> Calibration:
    """Return the largest local_epsilon for these reports, or the fewest reports for this local_epsilon.

    Parameters
    ----------
    epsilon, delta : the central guarantee that must hold.
    reports, local_epsilon : give one, get the other.
    bound : as in `amplify`.

    Examples
    --------
    >>> calibrate(epsilon=1, delta=1e-6, reports=10_000).local_epsilon
    5.470011640257...
    >>> calibrate(epsilon=0.1, delta=1e-6, local_epsilon=2).reports
    12851
    """
    epsilon, delta = positive(epsilon=epsilon), probability(delta=delta)
    bound = known(BOUNDS, bound=bound)
    if (reports is None) == (local_epsilon is None):
        raise ParameterError(
            "give either reports (to get local_epsilon) or local_epsilon (to get reports): "
            "calibrate(epsilon=1, delta=1e-6, reports=10_000)"
        )

    def reached(local: float, count: int) -> float:
        try:
            return float(amplify(local_epsilon=local, reports=count, bound=bound).epsilon(delta))
        except RangeError:
            return math.inf

    if reports is not None:
        count = whole(reports=reports)
        local = _largest_local(lambda value: reached(value, count), epsilon)
        if local is None:
            raise UnreachableError(
                f"{bound} gives no guarantee at reports={count}, delta={delta:g}, however small local_epsilon is; "
                'use bound="tightest", or more reports'
            )
    else:
        local = positive(local_epsilon=local_epsilon)
        fewest = _fewest_reports(lambda value: reached(local, value), epsilon)
        if fewest is None:
            raise UnreachableError(
                f"no number of reports up to {MOST_REPORTS:.0e} gives epsilon={epsilon:g} at delta={delta:g} with "
                f"local_epsilon={local:g}; use a smaller local_epsilon, or a larger epsilon or delta"
            )
        count = fewest
    curve = amplify(local_epsilon=local, reports=count, bound=bound)
    return Calibration(local, count, float(curve.epsilon(delta)), delta, curve)


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
