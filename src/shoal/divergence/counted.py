"""E[(S)₊] where few people do anything unusual: a plain sum over how many copies take each value.

One value of the law is by far the most likely, or there are few reports. Then the counts of the other values are
small numbers, and all their combinations can be listed. Every term is positive; what is beyond the list is bounded
through S₊ ≤ (first value)·(its count), of which the mean is known.
"""

import math
from typing import NamedTuple

import numpy as np

from shoal.divergence.binomial import deviance, relative_entropy
from shoal.divergence.law import Law

__all__ = ["Listing", "counted", "listing"]

_DROPPED = 40.0
_MOST_TERMS = 1_000_000
_MOST_STEPS = 3000
"""Running sums of logarithms lose accuracy with their length."""


class Listing(NamedTuple):
    """Which counts are listed: of every value but the usual one, from zero to `most`, at most `together` in all."""

    usual: int
    most: tuple[int, ...]
    together: int


def listing(law: Law) -> Listing | None:
    """Return the counts to list, unless they are too many; position len(law.values) stands for the value zero."""
    chances = (*law.chances, law.missing)
    usual = max(range(len(chances)), key=chances.__getitem__)
    others = [chance for place, chance in enumerate(chances) if place != usual and chance > 0]
    # Somebody unusual is missing altogether with probability exp(−n·others) or so, and δ is not smaller than that.
    exponent = _DROPPED + law.reports * sum(others)
    least = {1: 1000, 2: 200}.get(len(others), 0)
    together = _reach(law.reports, sum(others), exponent, least)
    most = tuple(
        0 if place == usual or chance <= 0 else min(together, _reach(law.reports, chance, exponent, least))
        for place, chance in enumerate(chances)
    )
    terms = math.prod(count + 1 for count in most)
    return Listing(usual, most, together) if terms <= _MOST_TERMS and together <= _MOST_STEPS else None


def _reach(reports: int, chance: float, exponent: float, least: int) -> int:
    """Return a count, `least` at the least, that Bin(n, chance) exceeds with probability exp(−exponent) at most."""
    mean = reports * chance
    count = max(2.0, mean)
    while count < min(reports, _MOST_STEPS + 1) and deviance(count, mean) < exponent:
        count *= 1.05
    return min(reports, max(least, math.ceil(count)))


def counted(law: Law, chosen: Listing) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]."""
    values, chances = (*law.values, 0.0), (*law.chances, law.missing)
    counts = [grid.ravel() for grid in np.indices([count + 1 for count in chosen.most])]
    unusual = np.sum(counts, axis=0)
    keep = unusual <= min(chosen.together, law.reports)
    counts, unusual = [grid[keep] for grid in counts], unusual[keep]

    # log n!/(n − s)!, and log c! for each count, as running sums.
    steps = np.arange(max(chosen.together, 1), dtype=np.float64)
    falling = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(law.reports - steps, 1.0)))))
    factorial = np.concatenate(([0.0], np.cumsum(np.log(steps + 1))))
    share = sum(chance for place, chance in enumerate(chances) if place != chosen.usual)
    logs = falling[unusual] + (law.reports - unusual) * math.log1p(-share)
    total = values[chosen.usual] * (law.reports - unusual)
    size = np.abs(total)
    for place, grid in enumerate(counts):
        if chosen.most[place]:
            logs = logs + grid * math.log(chances[place]) - factorial[grid]
            total, size = total + values[place] * grid, size + abs(values[place]) * grid
    weights = np.exp(logs)
    sums = np.maximum(total, 0.0)
    value = float((weights * sums).sum())
    blur = 2.0**-48 * float((weights * size * (total > -(2.0**-48) * size)).sum())
    beyond = _beyond(law, chosen, share)
    safety = 1e-11 + 2.0**-52 * chosen.together * float(falling[-1] + factorial[-1])
    upper = value * (1 + safety) + blur + beyond
    return law.scale * max(0.0, value * (1 - safety) - blur), law.scale * upper


def _beyond(law: Law, chosen: Listing, share: float) -> float:
    """Return a bound of what the counts beyond the list contribute to E[(S)₊]."""
    positive = [(value, chance) for value, chance in zip(law.values, law.chances, strict=True) if value > 0]
    first = sum(value * chance for value, chance in positive) * law.reports
    total = _tail(law.reports, chosen.together, share)
    for place, chance in enumerate((*law.chances, law.missing)):
        if place != chosen.usual and chance > 0:
            total += _tail(law.reports, chosen.most[place], chance)
    return first * total * 1.01


def _tail(reports: int, count: int, chance: float) -> float:
    """Return Chernoff's bound of Pr(Bin(n − 1, chance) ≥ count), or one; zero where the count cannot be exceeded."""
    if count >= reports:
        return 0.0
    if count <= (reports - 1) * chance:
        return 1.0
    return math.exp(-(reports - 1) * relative_entropy(count / (reports - 1), chance, 1 - chance))
