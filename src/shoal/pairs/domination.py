"""Which pairs of inputs are never the worst, by an exact comparison of their likelihoods.

For non-negative α, β and κ let T(α, β, κ) be the sum of (αR₀ − βR₁ − κω)₊ over all outcomes. If T of one pair is at
most that of another everywhere, and also with R₀ and R₁ exchanged in both, then its δ(ε) is at most the other's, for
every ε and n (docs/theory/matrix.md, section 3). T is convex, and that of the other pair is linear on cells that are
bounded by the planes αR₀ = βR₁ + κω of its outcomes. So it is enough to compare on the edges of these cells.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.pairs.integer_likelihoods import IntegerLikelihoods

__all__ = ["dominates", "undominated"]

Integers = NDArray[np.object_]

_CANDIDATES = 8
"""With so many pairs, those that look worst, the others are compared."""
_CLEAR = 1e-6
"""Differences of this size are certain in doubles."""


def undominated(pairs: Sequence[IntegerLikelihoods]) -> tuple[IntegerLikelihoods, ...]:
    """Return these pairs without some, or all, of those that others of them dominate; what looks worst is first.

    Examples
    --------
    >>> far = IntegerLikelihoods.of([(4, 1, 1), (2, 2, 2), (1, 4, 1)], 7)
    >>> near = IntegerLikelihoods.of([(4, 2, 1), (2, 3, 2), (1, 2, 1)], 7)
    >>> undominated([near, far]) == (far,), dominates(near, far)
    (True, False)
    """
    kept: list[IntegerLikelihoods] = []
    for pair in sorted(pairs, key=_spread, reverse=True):
        if not any(dominates(other, pair) or dominates(other.swapped, pair) for other in kept[:_CANDIDATES]):
            kept.append(pair)
    return tuple(kept)


def dominates(one: IntegerLikelihoods, other: IntegerLikelihoods) -> bool:
    """Tell whether δ(ε) of the other pair is at most that of the first, for every ε and n, by this criterion."""
    return all(_covers(_planes(one, way), one.total, _planes(other, way), other.total) for way in (0, 1))


def _spread(pair: IntegerLikelihoods) -> float:
    """Return E[W²] at ε = 0, which decides for many reports."""
    return sum((first - second) ** 2 / (reference * pair.total) for first, second, reference in pair.outcomes)


def _planes(pair: IntegerLikelihoods, way: int) -> Integers:
    """Return (R₀, −R₁, −ω) of each outcome, or (−R₀, R₁, −ω) for the other way."""
    sign = 1 - 2 * way
    return np.asarray(np.array(pair.outcomes, dtype=object) * np.array([sign, -sign, -1], dtype=object))


def _covers(one: Integers, one_total: int, other: Integers, other_total: int) -> bool:
    """Tell whether T of `one` is at least T of `other` on all edges: in doubles where that is clear, else exactly."""
    planes = np.vstack([one, one_total * np.eye(3, dtype=np.int64).astype(object)])
    rows, others = (planes / one_total).astype(np.float64), (other / other_total).astype(np.float64)
    first, second = np.triu_indices(len(planes), 1)
    edges = np.cross(rows[first], rows[second])
    sizes = np.abs(edges).sum(axis=1)
    sure = sizes > _CLEAR * np.abs(rows[first]).sum(axis=1) * np.abs(rows[second]).sum(axis=1)
    edges = edges / np.where(sure, sizes, 1.0)[:, None]
    outside = sure & (edges.min(axis=1) < -_CLEAR) & (edges.max(axis=1) > _CLEAR)
    gaps = _sums(np.abs(edges), rows[:-3]) - _sums(np.abs(edges), others)
    if np.any(sure & ~outside & (gaps < -_CLEAR)):
        return False
    # The direction of a sure edge is off by less than 1e-8 in sum, and T by as much, as no sum of R or ω exceeds one.
    unclear = np.flatnonzero(~(outside | sure & (gaps > _CLEAR)))
    exact = np.cross(planes[first[unclear]], planes[second[unclear]])
    exact = np.abs(exact[(exact >= 0).all(axis=1) | (exact <= 0).all(axis=1)])
    return bool(np.all(one_total * _sums(exact, other) <= other_total * _sums(exact, one)))


def _sums(edges: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return T on each edge."""
    return np.asarray(np.maximum(edges @ rows.T, 0).sum(axis=1))
