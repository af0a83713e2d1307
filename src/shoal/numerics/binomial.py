"""Binomial probabilities without cancellation, and one Chernoff window.

The probabilities have the saddle-point form of C. Loader, "Fast and accurate computation of binomial probabilities"
(2000): log Pr(Bin(m, p) = x) is a difference of Stirling remainders, minus two non-negative deviances, plus half a
logarithm (docs/theory/numerics.md, section 1.3). No large number is subtracted from another large number, so the error
stays near 1e-15 times (1 + the deviances).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack

__all__ = [
    "EXPONENT_ERROR",
    "Window",
    "deviance",
    "log_probability",
    "relative_entropy",
    "running_product",
    "window",
]

EXPONENT_ERROR = slack(16)
"""The error of `log_probability` is at most this times (8 + |result| + |x − m·p|), see (1.9)."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300
"""Probabilities that underflow are raised to this: a larger probability makes both tails heavier."""

_FIRST_REMAINDERS = (
    0.0,
    *(math.lgamma(m + 1) - ((m + 0.5) * math.log(m) - m + _HALF_LOG_2PI) for m in range(1, 16)),
)


def _stirling_remainder(count: float) -> float:
    """Return log(count!) minus Stirling's formula √(2π·count)·(count/e)^count, and zero for zero."""
    if count < 16:
        return _FIRST_REMAINDERS[int(count)]
    square = count * count
    series = 1 / 1188 - 691 / (360360 * square)
    for coefficient in (1 / 1680, 1 / 1260, 1 / 360, 1 / 12):
        series = coefficient - series / square
    return series / count


def deviance(value: float, mean: float) -> float:
    """Return value·log(value/mean) + mean − value, which is never negative, without cancellation."""
    if value == 0:
        return mean
    difference = value - mean
    ratio = difference / (value + mean)
    if abs(ratio) >= 0.1:
        return value * math.log(value / mean) - difference
    # log(value/mean) = 2·artanh(ratio): the odd powers, the first of them together with −difference.
    total = difference * ratio
    power = 2 * value * ratio
    for odd in range(3, 40, 2):
        power *= ratio * ratio
        following = total + power / odd
        if following == total:
            break
        total = following
    return total


def log_probability(trials: float, successes: float, probability: float, complement: float) -> float:
    """Return log Pr(Bin(trials, probability) = successes), for complement = 1 − probability."""
    failures = trials - successes
    if trials == 0:
        return 0.0
    if successes == 0:
        return _log_power(trials, complement, probability)
    if failures == 0:
        return _log_power(trials, probability, complement)
    return (  # (1.8)
        _stirling_remainder(trials)
        - _stirling_remainder(successes)
        - _stirling_remainder(failures)
        - deviance(successes, trials * probability)
        - deviance(failures, trials * complement)
        + 0.5 * (math.log(trials) - math.log(successes) - math.log(failures))
        - _HALF_LOG_2PI
    )


def _log_power(trials: float, probability: float, complement: float) -> float:
    """Return trials·log(probability), from the smaller one of the probability and its complement."""
    if probability == 0:
        return -math.inf
    return trials * (math.log1p(-complement) if complement < 0.5 else math.log(probability))


def relative_entropy(share: float, probability: float, complement: float) -> float:
    """Return the divergence of Bernoulli(share) from Bernoulli(probability), the exponent of Chernoff's bound (1.3)."""
    return deviance(share, probability) + deviance(1 - share, complement)


def running_product(ratios: NDArray[np.float64], centre: int) -> NDArray[np.float64]:
    """Return the sequence with the given successive ratios that is one at `centre`."""
    left = np.cumprod(1 / ratios[:centre][::-1])[::-1]
    return np.concatenate((left, [1.0], np.cumprod(ratios[centre:])))


class Window(NamedTuple):
    """Counts from `low` to `high`, and an upper bound of the probability of all other counts."""

    low: int
    high: int
    tail: float


def window(trials: int, probability: float, complement: float, depth: float) -> Window:
    """Return counts of Bin(trials, probability) outside of which each tail is at most exp(−depth), by (1.3)."""
    probability = max(probability, _TINY)
    complement = max(complement, _TINY)
    mean = trials * probability
    width = math.sqrt(2 * depth * mean * complement)

    def exponent(count: int) -> float:
        return trials * relative_entropy(count / trials, probability, complement)

    tail = 0.0
    high = math.ceil(mean + width + depth / 4)
    while high < trials and exponent(high + 1) < depth:
        high = math.ceil(high + 1 + 0.1 * (high - mean))
    if high < trials:
        tail += math.exp(-exponent(high + 1))
    low = max(0, math.floor(mean - width))
    while low > 0 and exponent(low - 1) < depth:
        low = max(0, math.floor(low - 1 - 0.1 * (mean - low)))
    if low > 0:
        tail += math.exp(-exponent(low - 1))
    return Window(low, min(high, trials), 1.01 * tail)
