"""E[(S)₊] = n·δ(ε), n times the hockey-stick divergence, where few reports are unusual: a sum over their counts.

One value of the distribution is by far the most likely, or there are few reports. Then the counts of the other values
are small numbers, and all their combinations can be listed. Every term is positive; what is beyond the list is bounded
through S₊ ≤ (first value)·(its count), of which the mean is known.

There may be several usual values, if they are close to one another. Their sum Y then varies little around its mean, and
for the rest m of the sum, E[(m + Y)₊] is at least (m)₊ if Y has mean zero, by Jensen's inequality, and not much more.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import deviance, relative_entropy
from shoal.evaluators.distribution import Distribution
from shoal.rounding import slack

__all__ = ["Listing", "counted", "listing"]

_DROPPED = 40.0
_MOST_TERMS = 500_000
_FREQUENT = 30.0
"""A value that more people take than this is usual, if it is close to the most likely one."""
_CLOSE = 3e-3
"""The standard deviation of the sum of all usual values may be this large, in units of the distribution."""
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


def listing(
    distribution: Distribution, *, several: bool = False, depth: float = 0.0, known: bool = False
) -> Listing | None:
    """Return the counts to list, unless they are too many; position len(distribution.values) stands for the value zero.

    With `several`, there may be several usual values. The list goes far enough for a δ of about exp(−depth), and no
    farther if that is `known` to be its size.
    """
    probabilities = (*distribution.probabilities, distribution.missing)
    usual = max(range(len(probabilities)), key=probabilities.__getitem__)
    alike: tuple[int, ...] = ()
    if several:
        frequent = (
            index for index, probability in enumerate(probabilities) if distribution.reports * probability > _FREQUENT
        )
        alike = tuple(index for index in frequent if index != usual)
        if not alike or not _usual(distribution, (usual, *alike)).deviation <= _CLOSE:
            return None
    others = [
        probability
        for index, probability in enumerate(probabilities)
        if index not in (usual, *alike) and probability > 0
    ]
    # Somebody unusual is missing altogether with probability exp(−n·others) or so, and δ is not smaller than that.
    exponent = _DROPPED + (depth if known else max(distribution.reports * sum(others), depth))
    least = {1: 1000, 2: 200}.get(len(others), 0)
    together = _reach(distribution.reports, sum(others), exponent, least)
    most = tuple(
        0
        if index in (usual, *alike) or probability <= 0
        else min(together, _reach(distribution.reports, probability, exponent, least))
        for index, probability in enumerate(probabilities)
    )
    if together > _MOST_STEPS or _size(most, min(together, distribution.reports)) > _MOST_TERMS:
        return None
    return Listing(usual, most, together, alike)


class _Usual(NamedTuple):
    """What people with a usual value add: on average, in size, at most apart; and how much all of them vary."""

    mean: float
    size: float
    width: float
    deviation: float


def _usual(distribution: Distribution, indices: tuple[int, ...]) -> _Usual:
    values = [(*distribution.values, 0.0)[index] for index in indices]
    if len(indices) == 1:
        return _Usual(values[0], abs(values[0]), 0.0, 0.0)
    probabilities = [(*distribution.probabilities, distribution.missing)[index] for index in indices]
    total = math.fsum(probabilities)
    mean = math.fsum(probability * value for probability, value in zip(probabilities, values, strict=True)) / total
    size = math.fsum(probability * abs(value) for probability, value in zip(probabilities, values, strict=True)) / total
    variance = (
        math.fsum(probability * (value - mean) ** 2 for probability, value in zip(probabilities, values, strict=True))
        / total
    )
    return _Usual(mean, size, max(values) - min(values), math.sqrt(distribution.reports * variance) * (1 + 1e-9))


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


def _reach(reports: int, probability: float, exponent: float, least: int) -> int:
    """Return a count ≥ `least` that Bin(n, probability) exceeds with probability exp(−exponent) at most."""
    mean = reports * probability
    count = max(2.0, mean)
    while count < min(reports, _MOST_STEPS + 1) and deviance(count, mean) < exponent:
        count *= 1.05
    return min(reports, max(least, math.ceil(count)))


def counted(distribution: Distribution, chosen: Listing) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]."""
    values, probabilities = (*distribution.values, 0.0), (*distribution.probabilities, distribution.missing)
    counts, unusual = _combinations(chosen.most, min(chosen.together, distribution.reports))

    # log n!/(n − s)!, and log c! for each count, as running sums.
    steps = np.arange(max(chosen.together, 1), dtype=np.float64)
    falling = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(distribution.reports - steps, 1.0)))))
    factorial = np.concatenate(([0.0], np.cumsum(np.log(steps + 1))))
    indices = (chosen.usual, *chosen.alike)
    usual = _usual(distribution, indices)
    share = sum(probability for index, probability in enumerate(probabilities) if index not in indices)
    logs = falling[unusual] + (distribution.reports - unusual) * math.log1p(-share)
    total = usual.mean * (distribution.reports - unusual)
    size = usual.size * (distribution.reports - unusual)
    for index, grid in enumerate(counts):
        if chosen.most[index]:
            logs = logs + grid * math.log(probabilities[index]) - factorial[grid]
            total, size = total + values[index] * grid, size + abs(values[index]) * grid
    weights = np.exp(logs)
    sums = np.maximum(total, 0.0)
    value = float((weights * sums).sum())
    blur = slack(32) * float((weights * size * (total > -slack(32) * size)).sum())
    beyond = _beyond(distribution, chosen, share)
    safety = 1e-11 + slack(2) * chosen.together * float(falling[-1] + factorial[-1])
    varying = float((weights * _excess(np.asarray(total, dtype=np.float64), usual)).sum()) if chosen.alike else 0.0
    upper = (value + varying) * (1 + safety) + blur + beyond
    return distribution.scale * max(0.0, value * (1 - safety) - blur), distribution.scale * upper


def _size(most: tuple[int, ...], together: int) -> float:
    """Return how many combinations there are."""
    ways = np.ones(1)
    for limit in most:
        if limit:
            ways = np.convolve(ways, np.ones(limit + 1))[: together + 1]
    return float(ways.sum())


def _combinations(most: tuple[int, ...], together: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return all counts up to `most` whose sum is at most `together`, one array for each value, and these sums."""
    counts: list[NDArray[np.int64]] = []
    used = np.zeros(1, dtype=np.int64)
    for limit in most:
        choices = np.minimum(limit, together - used) + 1
        starts = np.concatenate(([0], np.cumsum(choices)[:-1]))
        count = np.arange(choices.sum()) - np.repeat(starts, choices)
        counts = [*(np.repeat(grid, choices) for grid in counts), count]
        used = np.repeat(used, choices) + count
    return counts, used


def _beyond(distribution: Distribution, chosen: Listing, share: float) -> float:
    """Return a bound of what the counts beyond the list contribute to E[(S)₊]."""
    positive = [
        (value, probability)
        for value, probability in zip(distribution.values, distribution.probabilities, strict=True)
        if value > 0
    ]
    first = sum(value * probability for value, probability in positive) * distribution.reports
    total = _tail(distribution.reports, chosen.together, share)
    for index, probability in enumerate((*distribution.probabilities, distribution.missing)):
        if index not in (chosen.usual, *chosen.alike) and probability > 0:
            total += _tail(distribution.reports, chosen.most[index], probability)
    return first * total * 1.01


def _tail(reports: int, count: int, probability: float) -> float:
    """Return Chernoff's bound of Pr(Bin(n − 1, probability) ≥ count), or one; zero where no count is larger."""
    if count >= reports:
        return 0.0
    if count <= (reports - 1) * probability:
        return 1.0
    return math.exp(-(reports - 1) * relative_entropy(count / (reports - 1), probability, 1 - probability))
