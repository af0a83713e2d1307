"""Clopper and Pearson's limits of a probability, given how often something happened, each a little to the safe side."""

import math

import numpy as np

from shoal.numerics.binomial import log_probability
from shoal.searches import bisect_safe

__all__ = ["probability_above", "probability_below"]


def probability_above(successes: int, trials: int, risk: float) -> float:
    """Return Clopper and Pearson's lower limit of a probability, a little below: it is too large at most this often."""
    if successes == 0:
        return 0.0

    def safe(share: float) -> bool:
        return _tail(successes, trials, share, 1 - share) <= risk

    return bisect_safe(safe, unsafe=successes / trials, good=0.0, steps=70)


def probability_below(successes: int, trials: int, risk: float) -> float:
    """Return Clopper and Pearson's upper limit of a probability, a little above: it is too small at most this often."""
    if successes == trials:
        return 1.0

    def safe(share: float) -> bool:
        return _tail(trials - successes, trials, 1 - share, share) <= risk

    return bisect_safe(safe, unsafe=successes / trials, good=1.0, steps=70)


def _tail(successes: int, trials: int, probability: float, complement: float) -> float:
    """Return the probability of this number of successes or more, where fewer are expected; rounded up."""
    if probability <= 0:
        return 0.0
    if complement <= 0 or successes <= trials * probability:
        return 1.0
    steps = np.arange(min(trials - successes, 20 * math.isqrt(trials) + 100), dtype=np.float64)
    ratios = (trials - successes - steps) / (successes + steps + 1) * (probability / complement)
    terms = np.concatenate([[1.0], np.cumprod(ratios)])
    total = float(terms.sum())
    if len(steps) < trials - successes:  # what is left falls faster than a geometric series
        total += float(terms[-1] * ratios[-1] / (1 - ratios[-1]))
    return min(1.0, math.exp(log_probability(trials, successes, probability, complement)) * total * (1 + 1e-9))
