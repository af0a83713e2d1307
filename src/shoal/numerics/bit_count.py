"""δ(ε) of one-bit reports: the largest over how many of the others hold either extreme row, from both sides.

Of m others, k report a one with probability `high`, the rest with probability `low`; S is the number of their ones. The
victim reports a one with probability `low` or `high`. δ(ε) is the largest, over k and t, of

    v_k(t) = A·Pr(S = t) − (λ − 1)·Pr(S < t),      A = (1 − low) − λ·(1 − high),   λ = e^ε,

and for each k it rises with t up to the maximum, and then falls (docs/theory/one-bit.md). v_k(t) is a coefficient of a
power series, so a sum over nodes on a circle gives it, with errors that are known. That sum is smooth in k and t, also
between whole numbers: Taylor's formula bounds it on cells of k, and only where such a bound is not good enough are the
numbers k evaluated one by one.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.bit_ceilings import cell_ends
from shoal.numerics.bit_circle import BitCircle, BitCount, Cells

__all__ = ["Worst", "worst_count"]

Counts = NDArray[np.int64]

_LEAST_LOG = math.log(SMALLEST_DELTA)
_RATIO, _WIDER, _ROUGH = 1.1, 1.25, 1e-6
"""Of the ends of neighbouring cells, near k = 0 and k = m; more, where the tolerance is."""
_PARTS = 4
"""Into how many parts cells are divided whose bounds are not good enough."""
_FEW = 256
"""Of so few others, every k is evaluated;"""
_TOGETHER, _TIMES = 1_024, 8
"""of more, so many at once, those in the cells with the largest bounds, and so many times;"""
_TRIED = 64
"""so many are tried before anything is known of the others."""
_SPREAD = 512


_ROUNDED = 1e-5
"""What rounding does to δ at most, where the best k are tried."""


class Worst(NamedTuple):
    """Two numbers around the largest v_k(t), and where the lower one is reached."""

    lower: float
    upper: float
    others_high: int
    threshold: int


def worst_count(bits: BitCount, *, tolerance: float = 0.0) -> Worst:
    """Return the largest v_k(t) over all k and t, from both sides.

    A gap of `tolerance`, relatively, is not worth the evaluation of one k after the other.
    """
    if bits.log_most < _LEAST_LOG:
        return Worst(0.0, SMALLEST_DELTA, 0, 0)
    circle, m = BitCircle(bits), bits.others
    if m <= _FEW:
        return _largest(circle, np.arange(m + 1))
    ratio, passes = (_RATIO, (1, _PARTS)) if tolerance < _ROUGH else (_WIDER, (_PARTS,))
    first, last = _ends(m, ratio)
    ends = first.astype(np.float64), last.astype(np.float64)
    cells = circle.cells(*ends)
    best = _largest(circle, _promising(circle, cells, first, last))
    if best.lower > 0:  # nothing is gained by looking closer than rounding allows
        tolerance = max(tolerance, min(best.upper / best.lower - 1, _ROUNDED))
    bounds = cells.bounds
    offsets = cells.offsets
    for most in passes:  # around where each of them is largest the bound is better, and better still in parts
        still = bounds > best.lower * (1 + tolerance)
        if not still.any():
            break
        parts = np.where(still, np.minimum(most, last - first + 1), 1)
        divided, part = np.repeat(np.arange(len(first)), parts), np.arange(parts.sum())
        part -= np.repeat(np.cumsum(parts) - parts, parts)
        sizes, starts, bounds, still = (last - first + 1)[divided], first[divided], bounds[divided], still[divided]
        first, last = starts + sizes * part // parts[divided], starts + sizes * (part + 1) // parts[divided] - 1
        ends, offsets = (first[still].astype(np.float64), last[still].astype(np.float64)), offsets[divided]
        bounds[still] = np.minimum(bounds[still], circle.cells(*ends, offsets[still]).bounds)
    sizes, known = last - first + 1, np.zeros(len(first), np.bool_)
    for _ in range(_TIMES):
        order = np.argsort(-bounds)
        order = order[(bounds[order] > best.lower * (1 + tolerance)) & ~known[order]]
        chosen = order[np.cumsum(sizes[order]) <= _TOGETHER]
        if not len(chosen):
            break
        found = _largest(circle, np.concatenate([np.arange(first[cell], last[cell] + 1) for cell in chosen]))
        bounds[chosen], known[chosen], best = found.upper, True, max(best, found)
    return best._replace(upper=max(best.lower, float(bounds.max())))


def _largest(circle: BitCircle, counts: Counts) -> Worst:
    numbers = counts.astype(np.float64)
    each = circle.evaluated(circle.bits.others - numbers, numbers)
    index = int(np.argmax(each.lower))
    upper = float(each.upper.max())
    return Worst(float(each.lower[index]), upper, int(counts[index]), int(each.thresholds[index]))


_ends = lru_cache(maxsize=64)(cell_ends)


def _promising(circle: BitCircle, cells: Cells, first: Counts, last: Counts) -> Counts:
    """Return the k that look best: their maximum, between whole numbers, is large and close to a whole number."""
    m, middles = circle.bits.others, 0.5 * (first + last)
    best = int(np.argmax(cells.values))
    wide = np.linspace(first[max(best - 2, 0)], last[min(best + 2, len(last) - 1)], _SPREAD)
    counts = np.concatenate((np.arange(min(_SPREAD, m)), m - np.arange(min(_SPREAD, m)), wide.astype(np.int64)))
    numbers = counts.astype(np.float64)
    heights = np.interp(numbers, middles, cells.values)
    places = np.interp(numbers, middles, cells.offsets) + circle.centres(m - numbers, numbers)
    losses = 0.5 * np.interp(numbers, middles, cells.curvatures) * (places - np.rint(places)) ** 2
    return np.append(counts[np.argpartition(losses - heights, _TRIED)[:_TRIED]], [0, m])
