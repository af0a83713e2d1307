"""The attacker's success: how often a guarantee lets anybody recognise a person, given how often they cry wolf.

Somebody who sees the result guesses whether it is about one dataset or a neighbour of it. Of those who are wrong about
the one in a share of at most α of the cases, none is right about the other in more than `attack_success` of them
(docs/theory/attack.md).
"""

import math
from collections.abc import Callable
from typing import Protocol

from shoal.checks import probability
from shoal.errors import ParameterError, RangeError, UnreachableError
from shoal.rounding import UNIT, up

_MOST_EPSILON = 700.0
"""Beyond it e^ε is no double."""
_ROUNDINGS = 16
_TINY = 4 * 5e-324
"""What is too small for a double of full precision is rounded absolutely: each time by half of the least one."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 24
"""After so many steps the interval is 10⁻⁵ of what it was; a pair with few outcomes has kinks, and needs them."""
_IDLE = 1e-6


class Guaranteed(Protocol):
    """What has a δ for every ε."""

    @property
    def local_epsilon(self) -> float:
        """The ε from which on δ does not fall any more; infinite if there is none."""

    def delta(self, epsilon: float, /) -> float:
        """Return the δ that goes with this ε, rounded up."""

    def epsilon(self, delta: float, /) -> float:
        """Return the ε that goes with this δ, rounded up."""


def attack_bound(epsilon: float, delta: float, false_alarms: float) -> float:
    """Return an upper bound of the attacker's success under one (ε, δ), for neighbours in either order.

    The attacker says B of someone whose value is A at the rate `false_alarms`; success is to say B where it is B.
    """
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise ParameterError(
            f"epsilon must be at least 0 and delta between 0 and 1, got {epsilon!r} and {delta!r}", "epsilon"
        )
    alarms = probability(false_alarms=false_alarms, zero=True, usual="0.001 to 0.1")
    return min(1.0, _direct(epsilon, delta, alarms), _mirrored(epsilon, delta, alarms))


def _direct(epsilon: float, delta: float, alarms: float) -> float:
    """Return e^ε·α + δ, rounded up: two roundings, and an exponential that is off by less than two more."""
    if alarms == 0:
        return delta
    if epsilon > _MOST_EPSILON:  # a smaller ε must not stand in for it: α may be as small as e^−ε
        return 1.0
    return up(math.exp(epsilon) * alarms + delta, roundings=_ROUNDINGS) + _TINY


def _mirrored(epsilon: float, delta: float, alarms: float) -> float:
    """Return 1 − e^−ε·(1 − α − δ), rounded up: no number in it is above 1, and so absolute errors are few UNITs."""
    return 1 - math.exp(-epsilon) * max(0.0, 1 - alarms - delta) + _ROUNDINGS * UNIT


def attack_success(curve: Guaranteed, false_alarms: float = 0.01) -> float:
    """Return the largest rate at which an attacker recognises a person, rounded up.

    Parameters
    ----------
    curve : Guaranteed
        A `PrivacyCurve`, or anything else with a δ for every ε.
    false_alarms : float
        The rate at which the attacker says B of someone whose value is A, α; success is to say B where it is B.

    Examples
    --------
    >>> import shoal
    >>> curve = shoal.amplify(local_epsilon=1, reports=10_000)
    >>> round(attack_success(curve, 0.01), 5)
    0.01032
    """
    alarms = probability(false_alarms=false_alarms, zero=True, usual="0.001 to 0.1")

    def reached(slope: float) -> float:
        """Return what ε = |slope| says, by the form that its sign chooses; both meet at 0, and fall and rise once."""
        epsilon = abs(slope)
        return (_direct if slope > 0 else _mirrored)(epsilon, curve.delta(epsilon), alarms)

    # Beyond the ε at which δ hardly matters any more, both forms only rise; where that is need not be known exactly.
    try:
        idle = curve.epsilon(_IDLE * min(alarms, 1 - alarms))
    except (RangeError, UnreachableError):  # δ always matters, or the bound does not go that far
        idle = math.inf
    most = min(idle, curve.local_epsilon, _MOST_EPSILON)
    return min(1.0, reached(0.0), _least(reached, -most, most))


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the least value of a function that falls and then rises, as far as a golden-section search gets."""
    ends = min(function(low), function(high))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        ends = min(ends, at_left, at_right)
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(ends, at_left, at_right)
