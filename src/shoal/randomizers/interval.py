"""Confidence intervals of frequencies: how many people may hold a category, given how many reports support it.

What is proved about them is in docs/theory/frequency.md, 4.3 to 4.5.
"""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shoal.randomizers.block_count import BlockCount
from shoal.randomizers.design import Moments
from shoal.randomizers.two_rates import fewest, most

__all__ = ["holders", "two_sided"]

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]


def two_sided(confidence: float) -> float:
    """Return how many standard deviations an interval reaches to either side, if errors are normal.

    It is formed from what the confidence leaves, which is a double wherever the confidence is one below 1.

    Examples
    --------
    >>> round(two_sided(0.95), 3), round(two_sided(1 - 2.0**-53), 3)
    (1.96, 8.292)
    """
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def holders(support: Floats, block: Floats | None, reports: int, moments: Moments, *, confidence: float) -> Limits:
    """Return the fewest and the most people who may hold each category; each limit fails half as often as both.

    Parameters
    ----------
    support : Floats
        How many reports support each category.
    block : Floats or None
        How many reports are in its block, or None if there is one block.
    reports : int
        n.
    moments : Moments
        How often a report does either.
    confidence : float
        Of each interval by itself.
    """
    level, least = (1 - confidence) / 2, reports * moments.base

    def limits(counts: Floats, total: Floats) -> Limits:
        if block is not None and moments.overlap > 0:
            result = BlockCount(counts, total, reports, moments)
            return result.fewest(level), result.most(level)
        rates = moments.own[0], moments.same[0]  # whoever does not hold a category supports it at one rate
        return fewest(counts, total, *rates, level), most(counts, total, *rates, level)

    total = np.full(1, float(reports)) if block is None or moments.overlap == 0 else block
    return _each_once(limits, support, total, lambda inside: np.rint(moments.overlap * inside + least))


def _each_once(
    limits: Callable[[Floats, Floats], Limits],
    support: Floats,
    total: Floats,
    centre: Callable[[Floats], Floats],
) -> Limits:
    """Return the limits of all categories, computed once for all that have the same counts.

    Most counts are near the centre, where nobody holds the category: these are marked in a table, with no need to sort.
    """
    blocks, which = _distinct(total)
    middle, width = centre(blocks), 4 * len(support) // len(blocks) + 64
    position = (support - middle[which]).astype(np.int64) + width // 2
    near = (position >= 0) & (position < width)
    keys = np.where(near, which * width + position, width // 2)
    seen = np.zeros(len(blocks) * width, np.bool_)
    seen[keys] = True
    row, column = np.divmod(np.flatnonzero(seen), width)
    counts = np.clip(column - width // 2 + middle[row], 0, blocks[row])
    rank = (np.cumsum(seen, dtype=np.int32) - 1)[keys]
    some, many = (result[rank] for result in limits(counts, blocks[row]))
    far = np.flatnonzero(~near)
    if len(far):
        some[far], many[far] = limits(support[far], np.broadcast_to(total, support.shape)[far])
    return some, many


def _distinct(numbers: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the different ones of some whole numbers, and which of them each is."""
    least, span = float(numbers.min()), int(numbers.max() - numbers.min()) + 1
    if span > 4 * len(numbers) + 1024:
        values, which = np.unique(numbers, return_inverse=True)
        return values, which
    positions = (numbers - least).astype(np.int64)
    seen = np.zeros(span, np.bool_)
    seen[positions] = True
    return np.flatnonzero(seen).astype(np.float64) + least, (np.cumsum(seen, dtype=np.int64) - 1)[positions]
