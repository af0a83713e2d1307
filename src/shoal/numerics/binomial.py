"""Binomial probabilities without cancellation, and one Chernoff window.

The probabilities have the saddle-point form of C. Loader, "Fast and accurate computation of
binomial probabilities" (2000): log Pr(Bin(m, p) = x) is a difference of Stirling remainders, minus
two non-negative deviances, plus half a logarithm (docs/theory/numerics.md, section 1.3). No large
float64 numbers are subtracted, so that the error stays near 1e-15 times (1 + the deviances).
"""

import math
from decimal import Context, Decimal, localcontext
from typing import NamedTuple

from shoal.checks import SMALLEST_DELTA

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
"""The constant of Stirling's formula, log √(2π)."""


def _first_remainder(count: int) -> float:
    """Return the Stirling remainder of a small count, for which the series is not accurate."""
    # With 28 digits, because numbers near 30 are subtracted.
    with localcontext(Context(prec=28)):
        half_log_2pi = Decimal("0.9189385332046727417803297364")
        formula = (count + Decimal("0.5")) * Decimal(count).ln() - count + half_log_2pi
        return float(Decimal(math.factorial(count)).ln() - formula)


_FIRST_REMAINDERS = (0.0, *map(_first_remainder, range(1, 16)))


def _stirling_remainder(count: float) -> float:
    """Return log(count!) minus that of Stirling's formula, √(2π·count)·(count/e)^count."""
    if count < 16:
        return _FIRST_REMAINDERS[int(count)]
    square = count * count
    # The asymptotic series, whose terms alternate, from its end.
    series = 1 / 1188 - 691 / (360360 * square)
    for coefficient in (1 / 1680, 1 / 1260, 1 / 360, 1 / 12):
        series = coefficient - series / square
    return series / count


def _deviance(value: float, mean: float) -> float:
    """Return value·log(value/mean) + mean − value ≥ 0, without cancellation."""
    if value == 0:
        return mean
    difference = value - mean
    ratio = difference / (value + mean)
    if abs(ratio) >= 0.1:
        return value * math.log(value / mean) - difference
    # log(value/mean) = 2·artanh(ratio): odd powers, the first together with −difference.
    total = difference * ratio
    power = 2 * value * ratio
    for odd in range(3, 40, 2):
        power *= ratio * ratio
        following = total + power / odd
        if following == total:
            break
        total = following
    return total


def log_probability(
    trials: float,
    successes: float,
    probability: float,
    complement: float,
) -> float:
    """Return log Pr(Bin(trials, probability) = successes), for complement = 1 − probability.

    Its error is at most 16u times (8 + |result| + |successes − trials·probability|), see (1.9).
    """
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
        - _deviance(successes, trials * probability)
        - _deviance(failures, trials * complement)
        + 0.5 * (math.log(trials) - math.log(successes) - math.log(failures))
        - _HALF_LOG_2PI
    )


def _log_power(trials: float, probability: float, complement: float) -> float:
    """Return trials·log(probability), from the smaller of the probability and its complement."""
    if probability == 0:
        return -math.inf
    log = math.log1p(-complement) if complement < 0.5 else math.log(probability)
    return trials * log


class Window(NamedTuple):
    """Counts from `low` to `high`, and an upper bound of the probability of all other counts."""

    low: int
    high: int
    tail: float


def window(trials: int, probability: float, complement: float, depth: float) -> Window:
    """Return counts of Bin(trials, probability) with tails of at most exp(−depth) outside (1.3)."""
    # Probabilities that underflow are raised: a larger one makes both tails heavier.
    probability = max(probability, SMALLEST_DELTA)
    complement = max(complement, SMALLEST_DELTA)
    mean = trials * probability
    width = math.sqrt(2 * depth * mean * complement)

    def exponent(count: int) -> float:
        return _deviance(count, mean) + _deviance(trials - count, trials * complement)

    # Both ends move outwards until Chernoff's bound is small enough.
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
