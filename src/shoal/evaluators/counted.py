"""Which counts a certificate lists, where few reports are unusual.

One value of the distribution is by far the most likely, or there are few reports. Then the counts of the other values
are small numbers, and all their combinations can be listed.
"""

import math
from typing import NamedTuple

import numpy as np

from shoal.evaluators.binomial import deviance
from shoal.evaluators.distribution import Distribution

__all__ = ["Listing", "listing"]

_DROPPED = 40.0
_MOST_TERMS = 500_000
_MOST_STEPS = 3000


class Listing(NamedTuple):
    """Which counts are listed: of every value but the usual one, from zero to `most`, at most `together` in all."""

    usual: int
    most: tuple[int, ...]
    together: int


def listing(distribution: Distribution) -> Listing | None:
    """Return the counts to list, unless they are too many; position len(values) stands for the value zero."""
    probabilities = (*distribution.probabilities, distribution.missing)
    usual = max(range(len(probabilities)), key=probabilities.__getitem__)
    others = [probability for index, probability in enumerate(probabilities) if index != usual and probability > 0]
    # Somebody unusual is missing altogether with probability exp(−n·others) or so, and δ is not smaller than that.
    exponent = _DROPPED + distribution.reports * sum(others)
    least = {1: 1000, 2: 200}.get(len(others), 0)
    together = _reach(distribution.reports, sum(others), exponent, least)
    most = tuple(
        0
        if index == usual or probability <= 0
        else min(together, _reach(distribution.reports, probability, exponent, least))
        for index, probability in enumerate(probabilities)
    )
    if together > _MOST_STEPS or _size(most, min(together, distribution.reports)) > _MOST_TERMS:
        return None
    return Listing(usual, most, together)


def _reach(reports: int, probability: float, exponent: float, least: int) -> int:
    """Return a count ≥ `least` that Bin(n, probability) exceeds with probability exp(−exponent) at most."""
    mean = reports * probability
    count = max(2.0, mean)
    while count < min(reports, _MOST_STEPS + 1) and deviance(count, mean) < exponent:
        count *= 1.05
    return min(reports, max(least, math.ceil(count)))


def _size(most: tuple[int, ...], together: int) -> float:
    """Return how many combinations there are."""
    ways = np.ones(1)
    for limit in most:
        if limit:
            ways = np.convolve(ways, np.ones(limit + 1))[: together + 1]
    return float(ways.sum())
