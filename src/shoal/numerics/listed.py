"""E[(S)₊] = n·δ(ε), n times the hockey-stick divergence, where few reports are unusual: a sum over their counts.

Of the values of W, one is the usual one: its count is what the others leave of n. A second one is *inside*: for each
total t of all further counts, the sums of its binomial probabilities are tabled, so that E[(x + c·N)₊ | t] is one look
into the table, whatever x is. The others are listed, each in a window. Every term is positive.

What matters is not where the counts are likely to be, but where the positive part of the sum comes from. So the windows
are those of the distribution tilted by exp(θ·S), and what is outside is bounded through (x)₊ ≤ exp(θx)/(eθ).

Values that are so close to one another that it hardly matters which of them a report has may be taken together, as
their mean: by Jensen's inequality that makes the sum no larger, and Scarf's bound says by how little it may be smaller.

docs/theory/numerics.md has the proofs.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.binomial import log_probability, relative_entropy
from shoal.numerics.distribution import Distribution
from shoal.numerics.outcomes import blurred
from shoal.rounding import slack

__all__ = ["DEPTH", "Windows", "estimated", "listed", "windows"]

Array = NDArray[np.float64]

_TINY = 1e-300
DEPTH = 27.0
"""What is outside of a window has the tilted probability exp(−27) at most."""
_STEEPEST = 600.0
"""The tilt times the largest value: beyond, exponentials overflow."""
_MOST_VALUES = 8
_MOST_JOINED = 16
_ALIKE = 1e-7
"""How much of the variance of θS may be lost to taking values together: δ is larger by half of it, relatively."""
_MOST_USED = 1_000_000
"""Of the least total of listed counts, whose logarithms are added up."""
_SMALLEST = 1e-300
"""Products below this may have lost digits to underflow."""


class Windows(NamedTuple):
    """Which counts are summed.

    Attributes
    ----------
    reports : int
        n.
    values, probabilities : tuple of float
        Of the usual value, of the one inside, and of the others.
    lows, highs : tuple of int
        The windows of all but the usual one.
    neglected : float
        The logarithm of a bound of what is outside of the windows, of E[(S)₊].
    deviation, step : float
        By how much the sum may differ from that of the values above: its standard deviation, and for one report.
    """

    reports: int
    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    neglected: float
    deviation: float
    step: float

    @property
    def blurred(self) -> float:
        """By what part, about, the ratio of the likelihoods of a sum that is zero may be off: ε is off by as much."""
        usual = abs(self.values[0] * self.reports)
        return 16 * self.deviation / usual if usual > 0 else math.inf

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


class _Kind(NamedTuple):
    """Values that are taken together: their mean, probability, tilted probability, variance, and largest deviation."""

    value: float
    probability: float
    tilted: float
    variance: float = 0.0
    step: float = 0.0

    @property
    def likely(self) -> float:
        """The larger of the two probabilities."""
        return max(self.probability, self.tilted)

    def joined(self, other: "_Kind") -> "_Kind":
        """Return both together."""
        whole = self.probability + other.probability
        share, apart = other.probability / whole, abs(other.value - self.value)
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart**2
        step = max(self.step + share * apart, other.step + (1 - share) * apart)
        value = (1 - share) * self.value + share * other.value
        variance += 1e-9 * variance + _TINY  # squares may underflow
        return _Kind(value, whole, self.tilted + other.tilted, variance, step * (1 + 1e-9))


def windows(distribution: Distribution, *, depth: float = DEPTH, together: bool = False) -> Windows | None:
    """Return the counts to sum, as few as may be; nothing for a distribution with many values.

    With `together`, values that hardly differ are taken together.
    """
    shares: dict[float, float] = {}
    for value, probability in zip(
        (*distribution.values, 0.0), (*distribution.probabilities, distribution.missing), strict=True
    ):
        if probability > 0:
            shares[value] = shares.get(value, 0.0) + probability
    pairs = list(shares.items())
    if not 2 <= len(pairs) <= (_MOST_JOINED if together else _MOST_VALUES):
        return None
    n = distribution.reports
    tilt, exponent, tilted, _ = _tilt(n, pairs)
    kinds = [_Kind(*pair, probability) for pair, probability in zip(pairs, tilted, strict=True)]
    if together:
        kinds = _joined(kinds, n, tilt)
        if not 2 <= len(kinds) <= _MOST_VALUES:
            return None
    ranges = []
    tails = 0.0
    for index, kind in enumerate(kinds):
        others = math.fsum(each.tilted for each in kinds[:index] + kinds[index + 1 :])
        low, high, tail = _window(n, kind.tilted, others, depth)
        ranges.append((low, high))
        tails += tail
    first = max(range(len(kinds)), key=lambda index: kinds[index].tilted)
    order = sorted(
        range(len(kinds)), key=lambda index: (index == first, ranges[index][1] - ranges[index][0]), reverse=True
    )
    one, other = kinds[order[0]], kinds[order[1]]
    # If the usual value is zero, so is the sum of usual ones, exactly.
    if other.value == 0 or (one.value != 0 and one.probability < other.probability):
        order[:2] = order[1::-1]
    rest = order[1:]
    neglected = exponent - math.log(tilt) - 1 + math.log(tails) if tails > 0 else -math.inf
    most = [n, *(ranges[index][1] for index in rest)]
    variance = math.fsum(count * kinds[index].variance for count, index in zip(most, order, strict=True))
    return Windows(
        n,
        tuple(kinds[index].value for index in order),
        tuple(kinds[index].probability for index in order),
        tuple(ranges[index][0] for index in rest),
        tuple(ranges[index][1] for index in rest),
        neglected,
        math.sqrt(variance) * (1 + 1e-9),
        max(kind.step for kind in kinds),
    )


def _joined(kinds: list[_Kind], n: int, tilt: float) -> list[_Kind]:
    """Return fewer kinds: neighbours of the same sign are taken together, the closest first, as long as it is free.

    Not those that hardly anybody has: one of them changes the sum by more than its standard deviation.
    """
    kinds = sorted(kinds)
    lost = 0.0
    while True:
        costs = [
            (n * tilt**2 * min(one.likely, other.likely) * (other.value - one.value) ** 2, index)
            for index, (one, other) in enumerate(itertools.pairwise(kinds))
            if one.value * other.value >= 0 and n * min(one.likely, other.likely) >= 1
        ]
        cost, index = min(costs, default=(math.inf, 0))
        lost += cost
        if not lost <= _ALIKE:
            return kinds
        kinds[index : index + 2] = [kinds[index].joined(kinds[index + 1])]


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


def _tabled(chosen: Windows) -> _Table | None:
    """Return the table, or nothing if no counts in the windows add up to n, or all are large."""
    n, (usual, inside, *_), (likely, common, *rare) = chosen.reports, chosen.values, chosen.probabilities
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
        table = _tabled(chosen)
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
        within, added = (abs(inside) + abs(usual)) / change, 0.0
        off = slack(32) * (sizes / change + within * np.abs(roots))
        off += slack(2) * np.where(roots == np.floor(roots), 0.0, np.abs(distances))
        blur = change * float((weights * off * tails[at + (beyond + off >= 1)]).sum())
        if chosen.step > 0:
            added = _excess(chosen, table, weights, beyond, at)
        # Products that underflow, of weights and of probabilities, are off by less than this.
        largest = 1 + columns**2 + float(np.abs(beyond).max())
        blur += change * _SMALLEST * len(weights) * largest * (1 + float(tails.max()))
    if not value + blur + added < math.inf:
        return None
    safety = slack(64) * (roundings + within)
    factor = math.exp(log_size) * scale
    outside = math.exp(min(chosen.neglected, 700.0)) * scale
    return max(0.0, value * (1 - safety) - blur) * factor, (value * (1 + safety) + blur + added) * factor + outside


def _excess(chosen: Windows, table: _Table, weights: Array, beyond: Array, at: NDArray[np.int64]) -> float:
    """Return what the sum gains, at most, by values not being the same that are taken together.

    Of the counts inside, only the two next to the root may be close to it: all others are `change` away at least.
    """
    tails, columns, change = table.tails.ravel(), table.tails.shape[1], abs(chosen.values[1] - chosen.values[0])
    here, before, after = tails[at], tails[np.maximum(at - 1, 0)], tails[at + 1]
    first = np.where(at % columns > 0, here - before, 0.0) + slack(64) * here
    second = after - here + slack(64) * after
    near = first * blurred(change * np.abs(beyond), chosen.deviation, chosen.step)
    near += second * blurred(change * np.abs(1 - beyond), chosen.deviation, chosen.step)
    far = tails[at - at % columns + columns - 1] * blurred(np.array([change]), chosen.deviation, chosen.step)
    return float((weights * (near + far)).sum()) * (1 + 1e-6)


def _log_powers(mean: float, least: int, most: int) -> Array:
    """Return log(mean^c/c!) for c from `least` to `most`."""
    counts = np.arange(least, most + 1, dtype=np.float64)
    start = least * math.log(mean) - math.lgamma(least + 1)
    return np.asarray(start + np.concatenate(([0.0], np.cumsum(math.log(mean) - np.log(counts[1:])))))
