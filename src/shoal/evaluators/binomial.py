"""Probabilities of the binomial distribution, in logarithms that do not cancel.

The saddle-point form of C. Loader, "Fast and accurate computation of binomial probabilities" (2000):
log Pr(Bin(m, p) = x) is a difference of Stirling remainders, minus two non-negative deviances, plus half a logarithm.
Nothing large is subtracted from anything large, so the error stays near 1e-15 times (1 + the deviances).
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXPONENT_ERROR", "deviance", "log_probability", "relative_entropy", "running_product"]

EXPONENT_ERROR = 16 * 2.0**-53
"""The error of `log_probability` is at most this times (8 + |result| + |x − m·p|)."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_FIRST_REMAINDERS = (
    0.0,
    *(math.lgamma(m + 1) - ((m + 0.5) * math.log(m) - m + _HALF_LOG_2PI) for m in range(1, 16)),
)


def _stirling_remainder(count: float) -> float:
    """Return log(count!) minus Stirling's formula √(2π·count)·(count/e)^count, and zero for zero."""
    if count < 16:
        return _FIRST_REMAINDERS[int(count)]
    square = count * count
    tail = 1 / 1188 - 691 / (360360 * square)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - tail / square) / square) / square) / square) / count


def deviance(value: float, mean: float) -> float:
    """Return value·log(value/mean) + mean − value, which is never negative, without cancellation."""
    if value == 0:
        return mean
    gap = value - mean
    ratio = gap / (value + mean)
    if abs(ratio) >= 0.1:
        return value * math.log(value / mean) - gap
    # log(value/mean) = 2·artanh(ratio): sum its odd powers, the first taken together with −gap.
    total, power, square = gap * ratio, 2 * value * ratio, ratio * ratio
    for odd in range(3, 40, 2):
        power *= square
        following = total + power / odd
        if following == total:
            break
        total = following
    return total


def log_probability(trials: float, successes: float, probability: float, complement: float) -> float:
    """Return log Pr(Bin(trials, probability) = successes), for complement = 1 − probability."""
    failures = trials - successes
    if successes == 0 or failures == 0:
        if trials == 0:
            return 0.0
        kept, lost = (complement, probability) if successes == 0 else (probability, complement)
        if kept == 0:
            return -math.inf
        return trials * (math.log1p(-lost) if lost < 0.5 else math.log(kept))
    return (
        _stirling_remainder(trials)
        - _stirling_remainder(successes)
        - _stirling_remainder(failures)
        - deviance(successes, trials * probability)
        - deviance(failures, trials * complement)
        + 0.5 * (math.log(trials) - math.log(successes) - math.log(failures))
        - _HALF_LOG_2PI
    )


def relative_entropy(share: float, probability: float, complement: float) -> float:
    """Return the divergence of Bernoulli(share) from Bernoulli(probability), the exponent of Chernoff's bound."""
    return deviance(share, probability) + deviance(1 - share, complement)


def running_product(ratios: NDArray[np.float64], centre: int) -> NDArray[np.float64]:
    """Return the sequence with the given successive ratios that is one at `centre`."""
    left = np.cumprod(1 / ratios[:centre][::-1])[::-1]
    return np.concatenate((left, [1.0], np.cumprod(ratios[centre:])))
