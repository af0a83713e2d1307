"""E[(S)₊] = n·δ(ε), n times the hockey-stick divergence, where few reports are unusual: a sum over their counts.

Of the values of W, one is the usual one: its count is what the others leave of n. A second one is *inside*: for each
total t of all further counts, the sums of its binomial probabilities are tabled, so that E[(x + c·N)₊ | t] is one look
into the table, whatever x is. The others are listed, each in a window. Every term is positive.

What matters is not where the counts are likely to be, but where the positive part of the sum comes from. So the windows
are those of the distribution tilted by exp(θ·S), and what is outside is bounded through (x)₊ ≤ exp(θx)/(eθ).

docs/theory/numerics.md has the proofs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import log_probability, relative_entropy
from shoal.evaluators.distribution import Distribution
from shoal.rounding import slack

__all__ = ["Windows", "estimated", "listed", "windows"]

Array = NDArray[np.float64]

_TINY = 1e-300
_DEPTH = 27.0
"""What is outside of a window has the tilted probability exp(−27) at most."""
_STEEPEST = 600.0
"""The tilt times the largest value: beyond, exponentials overflow."""
_MOST_VALUES = 8
_MOST_USED = 1_000_000
"""Of the least total of listed counts, whose logarithms are added up."""
_SMALLEST = 1e-300
"""Products below this may have lost digits to underflow."""


class Windows(NamedTuple):
    """Which counts are summed.

    Attributes
    ----------
    values, probabilities : tuple of float
        Of the usual value, of the one inside, and of the others.
    lows, highs : tuple of int
        The windows of all but the usual one.
    neglected : float
        The logarithm of a bound of what is outside of the windows, of E[(S)₊].
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    neglected: float

    @property
    def outer(self) -> int:
        """How many combinations of counts are listed."""
        return math.prod(high - low + 1 for low, high in zip(self.lows[1:], self.highs[1:], strict=True))

    @property
    def table(self) -> int:
        """How many entries the table has."""
        totals = sum(self.highs[1:]) - sum(self.lows[1:]) + 1
        return totals * (self.highs[0] - self.lows[0] + 2)

    @property
    def nanoseconds(self) -> float:
        """Roughly how long the sum takes."""
        return 2e5 + 70.0 * self.outer + 25.0 * self.table


def windows(distribution: Distribution, *, depth: float = _DEPTH) -> Windows | None:
    """Return the counts to sum, as few as may be; nothing for a distribution with many values."""
    shares: dict[float, float] = {}
    for value, probability in zip(
        (*distribution.values, 0.0), (*distribution.probabilities, distribution.missing), strict=True
    ):
        if probability > 0:
            shares[value] = shares.get(value, 0.0) + probability
    pairs = list(shares.items())
    if not 2 <= len(pairs) <= _MOST_VALUES:
        return None
    n = distribution.reports
    tilt, exponent, tilted, _ = _tilt(n, pairs)
    ranges = []
    tails = 0.0
    for index, probability in enumerate(tilted):
        low, high, tail = _window(n, probability, math.fsum(tilted[:index] + tilted[index + 1 :]), depth)
        ranges.append((low, high))
        tails += tail
    first = max(range(len(pairs)), key=tilted.__getitem__)
    order = sorted(
        range(len(pairs)), key=lambda index: (index == first, ranges[index][1] - ranges[index][0]), reverse=True
    )
    (one, likely), (other, common) = pairs[order[0]], pairs[order[1]]
    if other == 0 or (one != 0 and likely < common):  # if the usual value is zero, so is the sum of usual ones, exactly
        order[:2] = order[1::-1]
    rest = order[1:]
    neglected = exponent - math.log(tilt) - 1 + math.log(tails) if tails > 0 else -math.inf
    return Windows(
        tuple(pairs[index][0] for index in order),
        tuple(pairs[index][1] for index in order),
        tuple(ranges[index][0] for index in rest),
        tuple(ranges[index][1] for index in rest),
        neglected,
    )


def estimated(distribution: Distribution) -> float:
    """Return log δ within a factor of two or so, by the saddle point; no bound of anything."""
    pairs = [*zip(distribution.values, distribution.probabilities, strict=True), (0.0, distribution.missing)]
    tilt, exponent, _, deviation = _tilt(distribution.reports, pairs)
    return exponent + math.log(distribution.scale / tilt) - math.log(math.e + 2.5 * tilt * deviation)


def _tilt(n: int, pairs: list[tuple[float, float]]) -> tuple[float, float, list[float], float]:
    """Return θ near the minimum of M(θ)ⁿ/θ, a bound of n·log M(θ), the tilted probabilities, the tilted deviation."""
    largest = max(value for value, _ in pairs)
    most = _STEEPEST / max(largest, 1e-300)
    tilt, low, high = min(1.0, most), 0.0, math.inf
    for step in range(100):
        weights = [probability * math.exp(max(tilt * value, -700.0)) for value, probability in pairs]
        moment = math.fsum(weights)
        first = math.fsum(weight * value for weight, (value, _) in zip(weights, pairs, strict=True)) / moment
        second = math.fsum(weight * value * value for weight, (value, _) in zip(weights, pairs, strict=True)) / moment
        height = n * first - 1 / tilt
        low, high = (tilt, high) if height < 0 else (low, tilt)
        following = tilt - height / (n * max(second - first * first, 0.0) + 1 / tilt**2)
        following = min(max(following, tilt / 4), 4 * tilt, most)
        if not low <= following <= high or step % 8 == 7:  # Newton's steps may be short, or cross
            following = min(math.sqrt(max(low, tilt / 16) * min(high, 16 * tilt)), most)
        if abs(following - tilt) <= 1e-2 * tilt:
            break
        tilt = following
    weights = [probability * math.exp(max(tilt * value, -700.0)) for value, probability in pairs]
    moment = math.fsum(weights)
    size = math.fsum(weight * abs(value) for weight, (value, _) in zip(weights, pairs, strict=True)) / moment
    exponent = n * (math.log(moment) + slack(16) * (4 + tilt * size))
    return tilt, exponent, [weight / moment for weight in weights], math.sqrt(n * max(second - first * first, 0.0))


def _window(n: int, probability: float, complement: float, depth: float) -> tuple[int, int, float]:
    """Return a window of Bin(n, probability), and Chernoff's bound of what is outside."""
    # A larger one makes either tail heavier, so what has become zero by underflow may be raised.
    probability, complement = max(probability, _TINY), max(complement, _TINY)
    mean = n * probability
    width = math.sqrt(2 * depth * mean * complement)
    low, high = math.floor(mean - width), math.ceil(mean + width + depth / 4)
    tail = 0.0
    while high < n and n * relative_entropy((high + 1) / n, probability, complement) < depth:
        high = math.ceil(high + 1 + 0.1 * (high - mean))
    if high < n:
        tail += math.exp(-n * relative_entropy((high + 1) / n, probability, complement))
    low, high = max(low, 0), min(high, n)
    while low > 0 and n * relative_entropy((low - 1) / n, probability, complement) < depth:
        low = max(0, math.floor(low - 1 - 0.1 * (mean - low)))
    if low > 0:
        tail += math.exp(-n * relative_entropy((low - 1) / n, probability, complement))
    return low, high, 1.01 * tail


class _Table(NamedTuple):
    """For each total t of the listed counts, sums over the count inside, from the end on which S is positive.

    Attributes
    ----------
    tails, areas : array
        Row t − first; column j of `tails` is the probability of the first j counts from that end, together with t
        unusual reports, over exp(log_size); of `areas`, the sum of the columns before.
    first, last : int
        The least and the largest t.
    log_size : float
        What all probabilities are relative to.
    roundings : float
        How many of them a probability may have behind it.
    """

    tails: Array
    areas: Array
    first: int
    last: int
    log_size: float
    roundings: float


def _tabled(n: int, chosen: Windows) -> _Table | None:
    """Return the table, or nothing if no counts in the windows add up to n, or all are large."""
    (usual, inside, *_), (likely, common, *rare) = chosen.values, chosen.probabilities
    low, high = chosen.lows[0], chosen.highs[0]
    first, last = sum(chosen.lows[1:]), min(sum(chosen.highs[1:]), n - low)
    if first > last or first > _MOST_USED:
        return None
    share, ratio = math.fsum(rare), common / (common + likely)
    middle = min(max(round((n - first) * ratio), low), high, n - last)

    # t unusual reports in a given order and `middle` of the one inside, times nᵗ, relative to the first t.
    totals = np.arange(first, last + 1, dtype=np.float64)
    steps = np.cumprod(np.concatenate(([1.0], (n - totals - middle)[:-1] / (n * likely))))
    logs = (
        (n - first) * (math.log1p(-share) if share < 0.5 else math.log(common + likely)),
        float(np.log1p(-np.arange(first) / n).sum()),
        log_probability(n - first, middle, ratio, likely / (common + likely)),
    )

    # For each t the counts inside, relative to `middle`.
    counts = np.arange(low, high + 1, dtype=np.float64)
    climbs = np.maximum(n - totals[:, None] - counts[:-1], 0.0) / counts[1:] * (common / likely)
    at = middle - low
    above = np.cumprod(climbs[:, at:], axis=1)
    below = np.cumprod((1 / climbs[:, :at])[:, ::-1], axis=1)[:, ::-1]
    heights = steps[:, None] * np.concatenate((below, np.ones((len(totals), 1)), above), axis=1)
    if inside > usual:
        heights = heights[:, ::-1]
    tails, areas = np.zeros((2, len(totals), len(counts) + 2))
    np.cumsum(heights, axis=1, out=tails[:, 1:-1])
    tails[:, -1] = tails[:, -2]
    np.cumsum(tails[:, :-1], axis=1, out=areas[:, 1:])
    roundings = 64 + len(totals) + len(counts) + math.fsum(map(abs, logs)) + abs(middle - (n - first) * ratio)
    return _Table(tails, areas, first, last, math.fsum(logs), roundings)


def listed(distribution: Distribution, chosen: Windows) -> tuple[float, float] | None:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]; nothing where weights are too far apart for doubles."""
    n, scale = distribution.reports, distribution.scale
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        table = _tabled(n, chosen)
        if table is None:
            return None
        (usual, inside, *others), rare = chosen.values, chosen.probabilities[2:]
        weights, sums, sizes = np.ones(1), np.full(1, usual * n), np.full(1, abs(usual) * n)
        used, log_size, roundings = np.zeros(1, dtype=np.int64), table.log_size, table.roundings
        for value, probability, least, most in zip(others, rare, chosen.lows[1:], chosen.highs[1:], strict=True):
            counts = np.arange(least, most + 1, dtype=np.float64)
            logs = _log_powers(n * probability, least, most)
            peak = float(logs.max())
            log_size += peak
            roundings += most * (2 + abs(math.log(n * probability))) + abs(peak)
            weights = np.multiply.outer(weights, np.exp(logs - peak)).ravel()
            sums = np.add.outer(sums, (value - usual) * counts).ravel()
            sizes = np.add.outer(sizes, (abs(value) + abs(usual)) * counts).ravel()
            used = np.add.outer(used, np.arange(most - least + 1)).ravel()
        if table.last < sum(chosen.highs[1:]):
            possible = used <= table.last - table.first
            weights, sums, sizes, used = weights[possible], sums[possible], sizes[possible], used[possible]

        # (x + c·N)₊ = |c|·(distance of N from the root −x/c)₊, on the side of the root where it is positive.
        change, tails, columns = abs(inside - usual), table.tails.ravel(), table.tails.shape[1]
        roots = sums / (usual - inside)
        distances = chosen.highs[0] - roots if inside > usual else roots - chosen.lows[0]
        positions = np.clip(np.floor(distances), -1, columns - 3).astype(np.int64) + 1
        beyond = distances - (positions - 1)
        at = used * columns + positions
        value = change * float((weights * (table.areas.ravel()[at] + beyond * tails[at])).sum())
        # A root is off by a few units of all that it comes from, and may be on the other side of a whole number.
        within = (abs(inside) + abs(usual)) / change
        off = slack(32) * (sizes / change + within * np.abs(roots))
        off += slack(2) * np.where(roots == np.floor(roots), 0.0, np.abs(distances))
        blur = change * float((weights * off * tails[at + (beyond + off >= 1)]).sum())
        # Products that underflow, of weights and of probabilities, are off by less than this.
        largest = 1 + columns**2 + float(np.abs(beyond).max())
        blur += change * _SMALLEST * len(weights) * largest * (1 + float(tails.max()))
    if not value + blur < math.inf:
        return None
    safety = slack(64) * (roundings + within)
    factor = math.exp(log_size) * scale
    outside = math.exp(min(chosen.neglected, 700.0)) * scale
    return max(0.0, value * (1 - safety) - blur) * factor, (value * (1 + safety) + blur) * factor + outside


def _log_powers(mean: float, least: int, most: int) -> Array:
    """Return log(mean^c/c!) for c from `least` to `most`."""
    counts = np.arange(least, most + 1, dtype=np.float64)
    start = least * math.log(mean) - math.lgamma(least + 1)
    return np.asarray(start + np.concatenate(([0.0], np.cumsum(math.log(mean) - np.log(counts[1:])))))
