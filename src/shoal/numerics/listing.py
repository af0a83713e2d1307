"""δ(ε) from both sides where few reports are unusual, as a sum over their counts.

One value of W is the *usual* one: its count is what the other counts leave of n. A second value is
*inside*: for each total t of the remaining counts its binomial probabilities are added up once, in
a table, so that E[(x + c·N)₊ | t] is one entry of the table for any x. The counts of all other
values are listed, each in a window. Every term is positive (docs/theory/numerics.md, section 2.5).

The windows are those of the distribution tilted by e^{θS}, because what matters is where the
positive part of the sum comes from. What lies outside is bounded by Chernoff's inequality (1.2).
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.binomial import log_probability, window
from shoal.numerics.summand import Summand
from shoal.rounding import slack


class Counts(NamedTuple):
    """The counts that are listed: of the usual value, of the value inside, and of the others."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    lows: tuple[int, ...]  # the windows of all counts but the usual one
    highs: tuple[int, ...]
    log_outside: float  # log of a bound of the part of E[(S)₊] outside of the windows (2.15)


def counts_of(summand: Summand, *, depth: float) -> Counts | None:
    """Return the counts to list, or None if W has only one value.

    Counts beyond an end of a window have a tilted probability of at most exp(−depth).
    """
    rows = summand.tilted
    values = (*summand.values, 0.0)
    probabilities = (*summand.probabilities, summand.missing)
    shares: dict[float, float] = defaultdict(float)
    tilted: dict[float, float] = defaultdict(float)
    weights = rows.tilted[:, 0].tolist()
    for value, probability, weight in zip(values, probabilities, weights, strict=True):
        if probability > 0:
            shares[value] += probability
            tilted[value] += weight
    if len(shares) < 2:
        return None
    windows = {}
    for value, weight in tilted.items():
        complement = math.fsum(tilted[other] for other in tilted if other != value)
        windows[value] = window(summand.reports, weight, complement, depth)
    widths = {value: each.high - each.low for value, each in windows.items()}
    *others, inside, usual = sorted(shares, key=widths.__getitem__)
    # The smaller one is usual: if it is 0, so is the sum of all usual reports, exactly.
    if abs(inside) < abs(usual):
        inside, usual = usual, inside
    order = (usual, inside, *others)
    tails = math.fsum(each.tail for each in windows.values())
    log_moment = float(rows.log_moments[0] + rows.moment_errors[0])
    log_outside = log_moment - math.log(rows.tilts[0]) - 1  # (2.15)
    log_outside += math.log(tails) if tails > 0 else -math.inf
    listed_windows = [windows[value] for value in order[1:]]
    return Counts(
        order,
        tuple(shares[value] for value in order),
        tuple(each.low for each in listed_windows),
        tuple(each.high for each in listed_windows),
        log_outside,
    )


class _Table(NamedTuple):
    """For each total t of the listed counts, sums over the count inside.

    Row t − first has one column for each number of counts inside, from the end where S is positive.
    """

    tails: Array  # column j: H_{j−1} (2.14), with t unusual reports, divided by exp(log_size)
    areas: Array  # A_{j−1}, the sum of the columns of `tails` before column j
    log_size: float  # the logarithm of the unit of all probabilities
    roundings: float  # the number of roundings behind a probability


def _table_of(n: int, counts: Counts) -> _Table | None:
    """Return the table, or None if no counts in the windows add up to n."""
    usual, inside, *rare = counts.probabilities
    low = counts.lows[0]
    high = counts.highs[0]
    first = sum(counts.lows[1:])
    last = min(sum(counts.highs[1:]), n - low)
    if first > last:
        return None
    ratio = inside / (inside + usual)
    middle = min(max(round((n - first) * ratio), low), high, n - last)
    # The first entry (2.16): `first` unusual reports, with listed weights, and `middle` inside.
    share = math.fsum(rare)
    mean = n * share
    log_rare = log_probability(n, first, share, inside + usual) - _log_power(mean, first)
    log_inside = log_probability(n - first, middle, ratio, usual / (inside + usual))
    # All others by ratios of neighbours: one more unusual report instead of a usual one, ...
    totals = np.arange(first, last + 1, dtype=np.float64)
    changes = (n - totals[:-1] - middle) / (n * usual)
    by_total = np.cumprod(np.append(1.0, changes))
    # ... and one more report inside instead of a usual one.
    numbers = np.arange(low, high + 1, dtype=np.float64)
    usual_counts = np.maximum(n - totals[:, None] - numbers[:-1], 0.0)
    ratios = usual_counts / numbers[1:] * (inside / usual)
    centre = middle - low
    falls = 1 / ratios[:, :centre]
    below = np.cumprod(falls[:, ::-1], axis=1)[:, ::-1]
    above = np.cumprod(ratios[:, centre:], axis=1)
    relative = np.hstack((below, np.ones((len(totals), 1)), above))
    pmf = by_total[:, None] * relative
    if counts.values[1] > counts.values[0]:
        pmf = pmf[:, ::-1]
    tails = np.zeros((len(totals), len(numbers) + 1))
    np.cumsum(pmf, axis=1, out=tails[:, 1:])
    areas = np.zeros_like(tails)
    np.cumsum(tails[:, :-1], axis=1, out=areas[:, 1:])
    # (1.9), the ratios, and the size of the logarithm of a power.
    roundings = 64 + abs(log_rare) + abs(log_inside)
    roundings += abs(middle - (n - first) * ratio) + abs(first - mean)
    roundings += len(totals) + len(numbers)
    roundings += 2 * first * (2 + abs(math.log(max(mean, SMALLEST_DELTA))))
    return _Table(tails, areas, log_rare + log_inside, roundings)


class _Listed(NamedTuple):
    """All combinations of the listed counts."""

    weights: Array  # Π (n·p)^N/N! of each combination, divided by exp(log_size)
    sums: Array  # x of (2.13)
    sizes: Array  # the sum of the absolute values that x is added up from
    rows: IntArray  # the row t − first of the table
    log_size: float  # the logarithm of the unit of the weights
    roundings: float  # the number of roundings behind a weight


def _combinations(n: int, counts: Counts) -> _Listed:
    """Return all combinations of the counts that are neither usual nor inside."""
    usual = counts.values[0]
    weights = np.ones(1)
    sums = np.full(1, usual * n)
    sizes = np.full(1, abs(usual) * n)
    rows = np.zeros(1, dtype=np.int64)
    log_size = 0.0
    roundings = 0.0
    listed_counts = zip(
        counts.values[2:],
        counts.probabilities[2:],
        counts.lows[1:],
        counts.highs[1:],
        strict=True,
    )
    for value, probability, low, high in listed_counts:
        numbers = np.arange(low, high + 1, dtype=np.float64)
        log_mean = math.log(n * probability)
        steps = np.cumsum(log_mean - np.log(numbers[1:]))
        logs = _log_power(n * probability, low) + np.append(0.0, steps)
        peak = float(logs.max())
        weights = np.multiply.outer(weights, np.exp(logs - peak)).ravel()
        sums = np.add.outer(sums, (value - usual) * numbers).ravel()
        sizes = np.add.outer(sizes, (abs(value) + abs(usual)) * numbers).ravel()
        rows = np.add.outer(rows, np.arange(high - low + 1)).ravel()
        log_size += peak
        roundings += high * (2 + abs(log_mean)) + abs(peak)
    return _Listed(weights, sums, sizes, rows, log_size, roundings)


def _log_power(mean: float, count: int) -> float:
    """Return log(mean^count/count!)."""
    return count * math.log(mean) - math.lgamma(count + 1) if count > 0 else 0.0


def listed(summand: Summand, counts: Counts | None) -> tuple[float, float] | None:
    """Return lower and upper bounds of δ, or None if weights are too far apart for float64."""
    if counts is None:
        return None
    with np.errstate(all="ignore"):
        table = _table_of(summand.reports, counts)
        if table is None:
            return None
        combinations = _combinations(summand.reports, counts)
        value, abs_error, rel_error = _summed(counts, table, combinations)
    if not value + abs_error < math.inf:
        return None
    factor = math.exp(table.log_size + combinations.log_size) * summand.scale
    outside = math.exp(min(counts.log_outside, 700.0)) * summand.scale
    lower = value * (1 - rel_error) - abs_error
    upper = value * (1 + rel_error) + abs_error
    return max(0.0, lower) * factor, upper * factor + outside


def _summed(counts: Counts, table: _Table, combinations: _Listed) -> tuple[float, float, float]:
    """Return the sum over all combinations, and its absolute and relative error."""
    usual, inside = counts.values[:2]
    height, width = table.tails.shape
    possible = combinations.rows < height
    weights = combinations.weights[possible]
    sizes = combinations.sizes[possible]
    # (2.13): S = x + c·N is |c| times the distance of N from the root −x/c, where S is positive.
    change = abs(inside - usual)
    roots = combinations.sums[possible] / (usual - inside)
    distances = counts.highs[0] - roots if inside > usual else roots - counts.lows[0]
    columns = np.clip(np.floor(distances) + 1, 0, width - 1).astype(np.int64)
    beyond = distances - (columns - 1)
    starts = combinations.rows[possible] * width
    areas = table.areas.take(starts + columns)
    parts = areas + beyond * table.tails.take(starts + columns)  # (2.14)
    value = change * float((weights * parts).sum())

    # A root has an error of a few units of what it comes from, and may pass the next integer.
    relative = (abs(inside) + abs(usual)) / change
    shifts = slack(32) * (sizes / change + relative * np.abs(roots))
    shifts += slack(2) * np.where(roots == np.floor(roots), 0.0, np.abs(distances))
    farther = np.minimum(columns + (beyond + shifts >= 1), width - 1)
    slopes = table.tails.take(starts + farther)
    abs_error = change * float((weights * shifts * slopes).sum())
    # Weights and probabilities whose product underflows.
    largest = 1 + (width + 1) ** 2 + float(np.abs(beyond).max())
    largest *= len(weights) * (1 + float(table.tails.max()))
    abs_error += change * SMALLEST_DELTA * largest
    rel_error = slack(64) * (table.roundings + combinations.roundings + relative)
    return value, abs_error, rel_error
