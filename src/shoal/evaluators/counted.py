"""E[(S)₊] where few people do anything unusual: a plain sum over how many copies take each value.

One value of the law is by far the most likely, or there are few reports. Then the counts of the other values are
small numbers, and all their combinations can be listed. Every term is positive; what is beyond the list is bounded
through S₊ ≤ (first value)·(its count), of which the mean is known.

There may be several usual values, if they are close to one another. Their sum Y then varies little around its mean, and
for the rest m of the sum, E[(m + Y)₊] is at least (m)₊ if Y has mean zero, by Jensen's inequality, and not much more.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import deviance, relative_entropy
from shoal.evaluators.distribution import Law

__all__ = ["Listing", "counted", "listing"]

_DROPPED = 40.0
_MOST_TERMS = 500_000
_FREQUENT = 30.0
"""A value that more people take than this is usual, if it is close to the most likely one."""
_CLOSE = 3e-3
"""The standard deviation of the sum of all usual values may be this large, in units of the law."""
_MOST_STEPS = 3000
"""Running sums of logarithms lose accuracy with their length."""


class Listing(NamedTuple):
    """Which counts are listed: of every value but the usual ones, from zero to `most`, at most `together` in all.

    The usual ones are one value, the most likely, and others close to it.
    """

    usual: int
    most: tuple[int, ...]
    together: int
    alike: tuple[int, ...] = ()


def listing(law: Law, *, several: bool = False, depth: float = 0.0, known: bool = False) -> Listing | None:
    """Return the counts to list, unless they are too many; position len(law.values) stands for the value zero.

    With `several`, there may be several usual values. The list goes far enough for a δ of about exp(−depth), and no
    farther if that is `known` to be its size.
    """
    chances = (*law.chances, law.missing)
    usual = max(range(len(chances)), key=chances.__getitem__)
    alike: tuple[int, ...] = ()
    if several:
        frequent = (place for place, chance in enumerate(chances) if law.reports * chance > _FREQUENT)
        alike = tuple(place for place in frequent if place != usual)
        if not alike or not _usual(law, (usual, *alike)).deviation <= _CLOSE:
            return None
    others = [chance for place, chance in enumerate(chances) if place not in (usual, *alike) and chance > 0]
    # Somebody unusual is missing altogether with probability exp(−n·others) or so, and δ is not smaller than that.
    exponent = _DROPPED + (depth if known else max(law.reports * sum(others), depth))
    least = {1: 1000, 2: 200}.get(len(others), 0)
    together = _reach(law.reports, sum(others), exponent, least)
    most = tuple(
        0 if place in (usual, *alike) or chance <= 0 else min(together, _reach(law.reports, chance, exponent, least))
        for place, chance in enumerate(chances)
    )
    if together > _MOST_STEPS or _size(most, min(together, law.reports)) > _MOST_TERMS:
        return None
    return Listing(usual, most, together, alike)


class _Usual(NamedTuple):
    """What people with a usual value add: on average, in size, at most apart; and how much all of them vary."""

    mean: float
    size: float
    width: float
    deviation: float


def _usual(law: Law, places: tuple[int, ...]) -> _Usual:
    values = [(*law.values, 0.0)[place] for place in places]
    if len(places) == 1:
        return _Usual(values[0], abs(values[0]), 0.0, 0.0)
    chances = [(*law.chances, law.missing)[place] for place in places]
    total = math.fsum(chances)
    mean = math.fsum(chance * value for chance, value in zip(chances, values, strict=True)) / total
    size = math.fsum(chance * abs(value) for chance, value in zip(chances, values, strict=True)) / total
    variance = math.fsum(chance * (value - mean) ** 2 for chance, value in zip(chances, values, strict=True)) / total
    return _Usual(mean, size, max(values) - min(values), math.sqrt(law.reports * variance) * (1 + 1e-9))


def _excess(rest: NDArray[np.float64], usual: _Usual) -> NDArray[np.float64]:
    """Return bounds of E[(m + Y)₊] − (m)₊, for each m, where Y is the sum of usual values less its mean.

    Scarf's bound, (√(m² + s²) − |m|)/2; or Chernoff's, exp(s²θ²·0.72 − θ|m|)/(eθ), for every θ up to 1/width, since
    exp(x) − 1 − x ≤ 0.72·x² up to x = 1.
    """
    sizes, variance = np.abs(rest), usual.deviation**2
    if variance == 0:
        return np.zeros_like(sizes)
    near = 0.5 * variance / (np.hypot(sizes, usual.deviation) + sizes)
    tilts = np.clip(sizes / (1.44 * variance), 1 / usual.deviation, 1 / usual.width)
    far = np.exp(np.minimum(0.72 * variance * tilts**2 - tilts * sizes, 0.0)) / (math.e * tilts)
    return np.asarray(np.where(sizes > 4 * usual.deviation, np.minimum(near, far), near) * (1 + 1e-9))


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
    counts, unusual = _combinations(chosen.most, min(chosen.together, law.reports))

    # log n!/(n − s)!, and log c! for each count, as running sums.
    steps = np.arange(max(chosen.together, 1), dtype=np.float64)
    falling = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(law.reports - steps, 1.0)))))
    factorial = np.concatenate(([0.0], np.cumsum(np.log(steps + 1))))
    places = (chosen.usual, *chosen.alike)
    usual = _usual(law, places)
    share = sum(chance for place, chance in enumerate(chances) if place not in places)
    logs = falling[unusual] + (law.reports - unusual) * math.log1p(-share)
    total = usual.mean * (law.reports - unusual)
    size = usual.size * (law.reports - unusual)
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
    varying = float((weights * _excess(np.asarray(total, dtype=np.float64), usual)).sum()) if chosen.alike else 0.0
    upper = (value + varying) * (1 + safety) + blur + beyond
    return law.scale * max(0.0, value * (1 - safety) - blur), law.scale * upper


def _size(most: tuple[int, ...], together: int) -> float:
    """Return how many combinations there are."""
    ways = np.ones(1)
    for limit in most:
        if limit:
            ways = np.convolve(ways, np.ones(limit + 1))[: together + 1]
    return float(ways.sum())


def _combinations(most: tuple[int, ...], together: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return all counts up to `most` whose sum is at most `together`, one array a place, and these sums."""
    counts: list[NDArray[np.int64]] = []
    used = np.zeros(1, dtype=np.int64)
    for limit in most:
        choices = np.minimum(limit, together - used) + 1
        starts = np.concatenate(([0], np.cumsum(choices)[:-1]))
        count = np.arange(choices.sum()) - np.repeat(starts, choices)
        counts = [*(np.repeat(grid, choices) for grid in counts), count]
        used = np.repeat(used, choices) + count
    return counts, used


def _beyond(law: Law, chosen: Listing, share: float) -> float:
    """Return a bound of what the counts beyond the list contribute to E[(S)₊]."""
    positive = [(value, chance) for value, chance in zip(law.values, law.chances, strict=True) if value > 0]
    first = sum(value * chance for value, chance in positive) * law.reports
    total = _tail(law.reports, chosen.together, share)
    for place, chance in enumerate((*law.chances, law.missing)):
        if place not in (chosen.usual, *chosen.alike) and chance > 0:
            total += _tail(law.reports, chosen.most[place], chance)
    return first * total * 1.01


def _tail(reports: int, count: int, chance: float) -> float:
    """Return Chernoff's bound of Pr(Bin(n − 1, chance) ≥ count), or one; zero where the count cannot be exceeded."""
    if count >= reports:
        return 0.0
    if count <= (reports - 1) * chance:
        return 1.0
    return math.exp(-(reports - 1) * relative_entropy(count / (reports - 1), chance, 1 - chance))
