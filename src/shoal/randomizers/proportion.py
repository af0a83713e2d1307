"""The mean probability of a yes, given how many of n people said it, each with a probability of their own."""

import math
from statistics import NormalDist

import numpy as np

from shoal.randomizers.expansion import quantile
from shoal.randomizers.two_rates import EXACT_BELOW, upper_tail

__all__ = ["least_share"]

_STEPS = 60
_LEAST = 1e-11


def least_share(count: int, total: int, level: float) -> float:
    """Return a lower limit of the mean probability, with a miss at most as likely as the level.

    It is that of Clopper and Pearson for equal probabilities, which are the worst for counts that exceed the mean by
    one and more (Hoeffding 1956; docs/theory/numbers.md, 4). The upper limit is 1 − least_share(total − count, …).

    Parameters
    ----------
    count, total : int
        How many said yes, of how many.
    level : float
        Of the test, below one half.

    Examples
    --------
    >>> round(least_share(5, 10, 0.025), 4), least_share(1, 10, 0.025), least_share(0, 10, 0.025)
    (0.1871, 0.0025, 0.0)
    """
    if count <= 1:  # a yes is at most as likely as the mean number of them
        return count * level / total
    return min(_equal(count, total, level), (count - 1) / total)


def _equal(count: int, total: int, level: float) -> float:
    """Return the probability at which this number of yeses, or more, are as likely as the level."""
    result = _expanded(count, total, level)
    if total * result * (1 - result) >= EXACT_BELOW:
        return result
    if level < _LEAST:  # below what a sum of doubles can tell
        return 0.0
    counts, people = np.array([count, count + 1.0]), np.full(2, float(total))
    for _ in range(_STEPS):  # Newton on logarithms: the tail is log-concave, and its slope is x times a probability
        tail, beyond = np.maximum(upper_tail(counts, people, people, result, 0.0), 1e-14)
        step = math.log(tail / level) * tail / (count * max(tail - beyond, 1e-3 * tail))
        result = min(result * math.exp(-min(max(step, -1.0), 1.0)), count / total)
        if abs(step) < 1e-11:
            break
    return result * (1 - 1e-9)


def _expanded(count: int, total: int, level: float) -> float:
    """Return the same by the expansion of Cornish and Fisher, iterated from the count."""
    normal, result = -NormalDist().inv_cdf(level), count / total
    for _ in range(_STEPS):
        variance = max(total * result * (1 - result), 1.0)
        third, fourth = variance * (1 - 2 * result), variance * (1 - 6 * result * (1 - result))
        factor = float(quantile(normal, variance, np.array(third), np.array(fourth)))
        result = min(max((count - 0.5 - factor * math.sqrt(variance)) / total, 0.01 * count / total), 1.0)
    return result
