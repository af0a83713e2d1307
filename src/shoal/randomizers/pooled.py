"""Probabilities of noise on a grid if all others hold one value, for lower limits: of the cells that are drawn.

Cells are put together into pools. That can only hide something, so what two inputs reach among such reports is reached
by the mechanism itself, as it is run (docs/theory/numbers.md, section 2). The integers with which coins are compared
differ from these probabilities by less than 2⁻¹¹³⁰, and no pool has less than 2⁻¹⁰⁰⁰.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.integer_noise import Grid
from shoal.randomizers.noise_reached import Pools

__all__ = ["WRONG", "likelihoods", "pooled"]

_SMALLEST = 2.0**-1000
"""Of a probability of a pool: with less, likelihoods overflow, and it joins its neighbour."""
WRONG = 2.0**-38
"""By which part of itself a probability of a pool may be wrong."""

Between = Callable[[float, float], float]
Pool = tuple[float, ...]


def pooled(grid: Grid, between: Between, middle: tuple[int, int], *, beyond: int, pools: int) -> tuple[Pools, ...]:
    """Return the pools of the two ends if all others hold the lower end, the upper one, or a value between.

    Parameters
    ----------
    grid : Grid
        The points and the cells.
    between : callable
        The probability that the noise lies between two distances from zero, both positive, in steps of the grid.
    middle : tuple of int
        Where the value between lies, (numerator, denominator) in steps of the grid: it is rounded to the point below or
        to the one above, without bias.
    beyond : int
        How many cells beyond each end are told from one another; all others are one pool on each side.
    pools : int
        Into how many pools these and the cells between the ends are put, at most.
    """
    point, part = divmod(middle[0], middle[1])
    share = part / middle[1]
    first = max(grid.margin - beyond, 0)
    cells = grid.outputs - 2 * first
    ends = sorted({0, grid.outputs, *(first + (cells * number + pools // 2) // pools for number in range(pools + 1))})
    edges = [0.5 + grid.width * (end - 1 - grid.margin) for end in ends]
    edges[0], edges[-1] = -math.inf, math.inf

    def probability(point: int, low: float, high: float) -> float:
        low, high = low - point, high - point
        if low < 0 < high:
            return between(0.0, -low) + between(0.0, high)
        return between(low, high) if low >= 0 else between(-high, -low)

    counts: list[Pool] = []
    for low, high in pairwise(edges):
        mixed = (1 - share) * probability(point, low, high) + (share and share * probability(point + 1, low, high))
        counts.append((probability(0, low, high), probability(grid.intervals, low, high), mixed))
    columns = tuple(zip(*_joined(counts), strict=True))
    return tuple(Pools(columns[0], columns[1], columns[other], WRONG) for other in (0, 1, 2))


def likelihoods(pools: Pools) -> Likelihoods:
    """Return what a report tells about the two ends, relative to what all others report."""
    rows = zip(pools.first, pools.second, pools.others, strict=True)
    return Likelihoods(tuple((_log(one, other), _log(two, other), other) for one, two, other in rows), complete=True)


def _joined(pools: list[Pool]) -> list[Pool]:
    """Put pools together with their neighbours until each has more than the least of everything."""
    joined: list[Pool] = []
    for pool in pools:
        if joined and min(joined[-1]) <= _SMALLEST:
            joined[-1] = _sum(joined[-1], pool)
        else:
            joined.append(pool)
    while len(joined) > 1 and min(joined[-1]) <= _SMALLEST:
        last = joined.pop()
        joined[-1] = _sum(joined[-1], last)
    return joined


def _sum(one: Pool, other: Pool) -> Pool:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _log(one: float, other: float) -> float:
    """Return ln(one/other), accurate also where it is close to 0."""
    near = abs(one - other) < other / 2
    return math.log1p((one - other) / other) if near else math.log(one) - math.log(other)
