"""Power series of E[e^{uX} − 1 − uX] and the like for real or complex u, from a table of the moments of X."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_TERMS", "USUAL", "alike", "bent_exponential", "series", "terms_of"]

MOST_TERMS, _FEW = 160, 18
"""How many terms there are at most, and for u = 0."""
USUAL = 2.5
"""Up to where such series are used, unless X and u are positive."""

Array = NDArray[np.float64]


def terms_of(moves: Any) -> int:
    """Return how many terms of the series of e^u count, for the largest u; the rest is below its rounding."""
    return min(MOST_TERMS, math.ceil(_FEW + 3.5 * float(np.abs(moves).max(initial=0.0))))


def alike(sizes: Array) -> list[NDArray[np.int64]]:
    """Return which numbers are small and which are large, so that few terms serve the former."""
    large = sizes > 2 * USUAL
    groups = [np.flatnonzero(~large), np.flatnonzero(large)]
    return [group for group in groups if len(group)]


def series(table: Array, edges: NDArray[np.int64], moves: Any) -> Any:
    """Return the sums of m_k·u^k/k! from k = 2 on, a row of u for the moments of each edge."""
    sums = np.empty_like(moves)
    for chosen in alike(np.abs(moves).max(axis=1)):
        few = moves[chosen]
        terms = terms_of(few)
        rows = table[:, :terms][edges[chosen]]
        total = np.zeros_like(few)
        for order in range(terms - 1, 1, -1):
            total += rows[:, order, None]
            total *= few
            total /= order
        # The loop has multiplied by u/k once too often for k = 2: the sum is Σ m_k·u^{k−1}·1!/k!.
        sums[chosen] = total * few
    return sums


def bent_exponential(z: Any, grown: Any) -> Any:
    """Return exp(z) − 1 − z, accurate where z is close to zero, from exp(z) − 1."""
    near = np.abs(z) < 0.5
    bent = grown - z
    small = z[near]
    total = np.zeros_like(small)
    for order in range(16, 1, -1):
        total = (total + 1) * (small / order)
    bent[near] = total * small
    return np.asarray(bent)
