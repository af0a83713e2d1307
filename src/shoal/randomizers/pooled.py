"""Likelihoods of noise on a grid if all others hold one value, for lower limits: from the integers that are drawn.

Cells are put together into pools. That can only hide something, so what two inputs reach among such reports is reached
by the mechanism itself, as it is run (docs/theory/numbers.md, section 2).
"""

import math
from itertools import pairwise

from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.integer_noise import Noise
from shoal.rounding import slack

__all__ = ["pooled"]

_SMALLEST = 1000
"""Of a probability of a pool: 2 to the minus this. With less, likelihoods overflow, and it joins its neighbour."""
_DOWN = 1 - slack(32)
"""What rounding may add to the logarithm of a likelihood ratio is taken away."""

Pool = tuple[int, ...]


def pooled(noise: Noise, middle: tuple[int, int], *, beyond: int, pools: int) -> tuple[Likelihoods, ...]:
    """Return the likelihoods of the two ends if all others hold the lower end, the upper one, or a value between.

    Parameters
    ----------
    noise : Noise
        The integers with which the coins are compared.
    middle : tuple of int
        Where the value between lies, (numerator, denominator) in steps of the grid: it is rounded to the point below or
        to the one above, without bias.
    beyond : int
        How many cells beyond each end are told from one another; all others are one pool on each side.
    pools : int
        Into how many pools these and the cells between the ends are put, at most.
    """
    grid, (position, unit) = noise.grid, middle
    point, part = divmod(position, unit)
    weights = [[unit * weight for weight in noise.distribution(end)] for end in (0, grid.intervals)]
    above = noise.distribution(point + 1) if part else noise.distribution(point)
    weights.append(
        [(unit - part) * one + part * two for one, two in zip(noise.distribution(point), above, strict=True)]
    )
    first = max(grid.margin - beyond, 0)
    cells = grid.outputs - 2 * first
    edges = sorted({0, grid.outputs, *(first + (cells * number + pools // 2) // pools for number in range(pools + 1))})
    counts = _joined(
        [tuple(sum(part[start:end]) for part in weights) for start, end in pairwise(edges)],
        unit << noise.bits >> _SMALLEST,
    )
    whole = unit << noise.bits
    return tuple(
        Likelihoods(
            tuple((_log(pool[0], pool[other]), _log(pool[1], pool[other]), pool[other] / whole) for pool in counts),
            complete=True,
        )
        for other in (0, 1, 2)
    )


def _joined(pools: list[Pool], least: int) -> list[Pool]:
    """Put pools together with their neighbours until each has more than the least of everything."""
    joined: list[Pool] = []
    for pool in pools:
        if joined and min(joined[-1]) <= least:
            joined[-1] = _sum(joined[-1], pool)
        else:
            joined.append(pool)
    while len(joined) > 1 and min(joined[-1]) <= least:
        last = joined.pop()
        joined[-1] = _sum(joined[-1], last)
    return joined


def _sum(one: Pool, other: Pool) -> Pool:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _log(one: int, other: int) -> float:
    """Return ln(one/other), not farther from 0 than it is; accurate also where it is close to 0."""
    near = abs(one - other) < other // 2
    return _DOWN * (math.log1p((one - other) / other) if near else math.log(one / other))
