"""E[(S)₊] = n·δ(ε) where few reports are unusual: a sum over their counts (docs/theory/numerics.md, section 2.5).

One value of W is the *usual* one: its count is what the other counts leave of n. A second value is *inside*: for each
total t of the remaining counts its binomial probabilities are added up once, in a table, so that E[(x + c·N)₊ | t] is
one entry of the table for any x. The counts of all other values are listed, each in a window. Every term is positive.

The windows are those of the distribution tilted by e^{θS}, because what matters is where the positive part of the sum
comes from. What lies outside is bounded by Chernoff's inequality (1.2).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.binomial import EXPONENT_ERROR, Window, log_probability, running_product, window
from shoal.numerics.summand import Saddle, Summand
from shoal.rounding import slack

__all__ = ["Counts", "clone_deltas", "clone_outcomes", "counts_of", "listed"]

Array = NDArray[np.float64]

_MOST_VALUES = 8
"""More values than this are never listed: the number of combinations of their counts would be too large."""

_LARGEST_TOTAL = 1_000_000
"""The largest first total t, since the logarithms of 1 − i/n for i < t are added up one by one."""

_UNDERFLOW = 1e-300
"""A product below this may have lost digits, and is charged with this error."""


_CHUNK = 1 << 17
"""How many outcomes of clones are listed at once, which bounds the memory."""


class Counts(NamedTuple):
    """The counts that are listed.

    Attributes
    ----------
    values, probabilities : tuple of float
        Those of the usual value, of the value inside, and of the others, in this order.
    lows, highs : tuple of int
        The windows of all counts but the usual one.
    log_outside : float
        The logarithm of a bound of the part of E[(S)₊] outside of the windows (2.15).
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    log_outside: float


def counts_of(summand: Summand, point: Saddle, *, depth: float) -> Counts | None:
    """Return the counts to list, or None if W has too many values.

    Parameters
    ----------
    summand : Summand
        The distribution of W.
    point : Saddle
        Its saddle point.
    depth : float
        Counts beyond an end of a window have a tilted probability of at most exp(−depth).
    """
    n = summand.reports
    values = (*summand.values, 0.0)
    probabilities = (*summand.probabilities, summand.missing)
    shares: dict[float, float] = {}
    for value, probability in zip(values, probabilities, strict=True):
        if probability > 0:
            shares[value] = shares.get(value, 0.0) + probability
    if not 2 <= len(shares) <= _MOST_VALUES:
        return None
    tilted = dict.fromkeys(shares, 0.0)
    for value, weight in zip(values, point.tilted, strict=True):
        if value in shares:
            tilted[value] += weight
    windows: dict[float, Window] = {}
    for value, weight in tilted.items():
        others = math.fsum(other for another, other in tilted.items() if another != value)
        windows[value] = window(n, weight, others, depth)
    order = _order(shares, tilted, windows)
    tails = math.fsum(each.tail for each in windows.values())
    # (2.15): E[(S)₊; outside] ≤ M(θ)ⁿ/(eθ) times the tilted probability of being outside.
    log_outside = point.log_moment - math.log(point.tilt) - 1 + math.log(tails) if tails > 0 else -math.inf
    return Counts(
        tuple(order),
        tuple(shares[value] for value in order),
        tuple(windows[value].low for value in order[1:]),
        tuple(windows[value].high for value in order[1:]),
        log_outside,
    )


def _order(shares: dict[float, float], tilted: dict[float, float], windows: dict[float, Window]) -> list[float]:
    """Return the values: the usual one, the one inside, and the others.

    The value with the largest tilted probability and the one with the widest window of the others are the first two.
    """
    likeliest = max(tilted, key=tilted.__getitem__)
    others = sorted(
        (value for value in shares if value != likeliest),
        key=lambda value: windows[value].high - windows[value].low,
        reverse=True,
    )
    widest, *rest = others
    # If the usual value is 0, so is the sum of all usual reports, exactly.
    if widest == 0 or (likeliest != 0 and shares[likeliest] < shares[widest]):
        return [widest, likeliest, *rest]
    return [likeliest, widest, *rest]


class _Table(NamedTuple):
    """For each total t of the listed counts, sums over the count inside, from the end at which S is positive.

    Attributes
    ----------
    tails : array
        Row t − first, column j: the probability H_{j−1} (2.14) of the first j counts from that end together with t
        unusual reports, divided by exp(log_size).
    areas : array
        The sum of the columns of `tails` before each column.
    first, last : int
        The smallest and the largest t.
    log_size : float
        The logarithm of the unit of all probabilities.
    roundings : float
        The number of roundings behind a probability.
    """

    tails: Array
    areas: Array
    first: int
    last: int
    log_size: float
    roundings: float


def _table_of(n: int, counts: Counts) -> _Table | None:
    """Return the table, or None if no counts in the windows add up to n, or if all of them are large."""
    usual_value, inside_value = counts.values[:2]
    usual, inside, *rare = counts.probabilities
    low = counts.lows[0]
    high = counts.highs[0]
    first = sum(counts.lows[1:])
    last = min(sum(counts.highs[1:]), n - low)
    if first > last or first > _LARGEST_TOTAL:
        return None
    ratio = inside / (inside + usual)
    middle = min(max(round((n - first) * ratio), low), high, n - last)

    # The first entry (2.16): `first` unusual reports in a given order, times n^first, and `middle` reports inside.
    share = math.fsum(rare)
    log_common = math.log1p(-share) if share < 0.5 else math.log(inside + usual)
    log_order = float(np.log1p(-np.arange(first) / n).sum())
    log_middle = log_probability(n - first, middle, ratio, usual / (inside + usual))
    logs = ((n - first) * log_common, log_order, log_middle)

    # All others by ratios of neighbours: one more unusual report instead of a usual one, ...
    totals = np.arange(first, last + 1, dtype=np.float64)
    steps = (n - totals - middle)[:-1] / (n * usual)
    by_total = np.cumprod(np.concatenate(([1.0], steps)))
    # ... and one more report inside instead of a usual one.
    inside_counts = np.arange(low, high + 1, dtype=np.float64)
    usual_counts = np.maximum(n - totals[:, None] - inside_counts[:-1], 0.0)
    ratios = usual_counts / inside_counts[1:] * (inside / usual)
    centre = middle - low
    above = np.cumprod(ratios[:, centre:], axis=1)
    below = np.cumprod((1 / ratios[:, :centre])[:, ::-1], axis=1)[:, ::-1]
    pmf = by_total[:, None] * np.concatenate((below, np.ones((len(totals), 1)), above), axis=1)
    if inside_value > usual_value:
        pmf = pmf[:, ::-1]

    tails = np.zeros((len(totals), len(inside_counts) + 2))
    np.cumsum(pmf, axis=1, out=tails[:, 1:-1])
    tails[:, -1] = tails[:, -2]
    areas = np.zeros_like(tails)
    np.cumsum(tails[:, :-1], axis=1, out=areas[:, 1:])
    distance = abs(middle - (n - first) * ratio)
    roundings = 64 + len(totals) + len(inside_counts) + math.fsum(map(abs, logs)) + distance
    return _Table(tails, areas, first, last, math.fsum(logs), roundings)


class _Listed(NamedTuple):
    """All combinations of the listed counts.

    Attributes
    ----------
    weights : array
        Π (n·p)^N/N! of each combination, divided by exp(log_size).
    sums, sizes : array
        x of (2.13), and the sum of the absolute values that it is added up from.
    rows : array
        The row t − first of the table.
    log_size : float
        The logarithm of the unit of the weights.
    roundings : float
        The number of roundings behind a weight.
    """

    weights: Array
    sums: Array
    sizes: Array
    rows: NDArray[np.int64]
    log_size: float
    roundings: float


def _combinations(n: int, counts: Counts) -> _Listed:
    """Return all combinations of the counts that are neither usual nor inside."""
    usual = counts.values[0]
    weights = np.ones(1)
    sums = np.full(1, usual * n)
    sizes = np.full(1, abs(usual) * n)
    rows = np.zeros(1, dtype=np.int64)
    log_size = 0.0
    roundings = 0.0
    for value, probability, low, high in zip(
        counts.values[2:], counts.probabilities[2:], counts.lows[1:], counts.highs[1:], strict=True
    ):
        numbers = np.arange(low, high + 1, dtype=np.float64)
        logs = _log_powers(n * probability, low, high)
        peak = float(logs.max())
        weights = np.multiply.outer(weights, np.exp(logs - peak)).ravel()
        sums = np.add.outer(sums, (value - usual) * numbers).ravel()
        sizes = np.add.outer(sizes, (abs(value) + abs(usual)) * numbers).ravel()
        rows = np.add.outer(rows, np.arange(high - low + 1)).ravel()
        log_size += peak
        roundings += high * (2 + abs(math.log(n * probability))) + abs(peak)
    return _Listed(weights, sums, sizes, rows, log_size, roundings)


def _log_powers(mean: float, low: int, high: int) -> Array:
    """Return log(mean^c/c!) for c from `low` to `high`."""
    start = low * math.log(mean) - math.lgamma(low + 1)
    steps = math.log(mean) - np.log(np.arange(low + 1, high + 1, dtype=np.float64))
    return np.asarray(start + np.concatenate(([0.0], np.cumsum(steps))))


def listed(summand: Summand, counts: Counts) -> tuple[float, float] | None:
    """Return a lower and an upper bound of δ, or None if the weights are too far apart for float64."""
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        table = _table_of(summand.reports, counts)
        if table is None:
            return None
        combinations = _combinations(summand.reports, counts)
        value, abs_error, rel_error = _summed(counts, table, combinations)
    if not value + abs_error < math.inf:
        return None
    factor = math.exp(table.log_size + combinations.log_size) * summand.scale
    outside = math.exp(min(counts.log_outside, 700.0)) * summand.scale
    lower = max(0.0, value * (1 - rel_error) - abs_error) * factor
    upper = (value * (1 + rel_error) + abs_error) * factor + outside
    return lower, upper


def _summed(counts: Counts, table: _Table, combinations: _Listed) -> tuple[float, float, float]:
    """Return the sum over all combinations in the unit of the weights, and its absolute and relative error."""
    usual, inside = counts.values[:2]
    possible = combinations.rows <= table.last - table.first
    weights = combinations.weights[possible]
    sums = combinations.sums[possible]
    sizes = combinations.sizes[possible]
    rows = combinations.rows[possible]

    # (2.13): S = x + c·N is |c| times the distance of N from the root −x/c, on the side where S is positive.
    change = abs(inside - usual)
    columns = table.tails.shape[1]
    tails = table.tails.ravel()
    roots = sums / (usual - inside)
    distances = counts.highs[0] - roots if inside > usual else roots - counts.lows[0]
    positions = np.clip(np.floor(distances), -1, columns - 3).astype(np.int64) + 1
    beyond = distances - (positions - 1)
    entries = rows * columns + positions
    parts = table.areas.ravel()[entries] + beyond * tails[entries]  # (2.14)
    value = change * float((weights * parts).sum())

    # A root has an error of a few units of all that it comes from, and may be beyond the next integer.
    relative = (abs(inside) + abs(usual)) / change
    shifts = slack(32) * (sizes / change + relative * np.abs(roots))
    shifts += slack(2) * np.where(roots == np.floor(roots), 0.0, np.abs(distances))
    abs_error = change * float((weights * shifts * tails[entries + (beyond + shifts >= 1)]).sum())
    # Weights and probabilities whose product underflows.
    largest = 1 + columns**2 + float(np.abs(beyond).max())
    abs_error += change * _UNDERFLOW * len(weights) * largest * (1 + float(tails.max()))
    rel_error = slack(64) * (table.roundings + combinations.roundings + relative)
    return value, abs_error, rel_error


def clone_outcomes(reports: int, probability: float, depth: float) -> float:
    """Return about how many outcomes `clone_deltas` lists."""
    clones = (reports - 1) * probability
    counts = 2 * math.sqrt(2 * depth * clones) + 2 * depth
    return counts * (math.sqrt(0.5 * depth * (clones + 1)) + 2)


def clone_deltas(
    reports: int,
    local_epsilon: float,
    clone: tuple[float, float],
    grid: tuple[float, int],
    depth: float,
) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ of the clones at 0, h, 2h, …, from one list of all outcomes.

    Given c clones, the number a of one kind among m = c + 1 has the P-mass B(a)(1 + y) and the Q-mass
    B(a)(1 − y), with B = Bin(m, 1/2) and y = tanh(ε₀/2)·(2a − m)/m. Its loss is l = 2·artanh(y), and
    δ(x) = Σ_{l > x} (P(l) − e^x·Q(l)) for all x of the grid comes from one pass over its cells.

    Parameters
    ----------
    reports : int
        n.
    local_epsilon : float
        ε₀.
    clone : tuple of float
        The probability that a person is a clone, and its complement.
    grid : tuple of (float, int)
        h, and the number of points.
    depth : float
        Outcomes with a probability of about exp(−depth) are left out and charged.
    """
    step, count = grid
    trials = reports - 1
    numbers = window(trials, *clone, depth)
    clones = np.arange(numbers.low, numbers.high + 1, dtype=np.float64)
    centre = min(max(round(trials * clone[0]) - numbers.low, 0), len(clones) - 1)
    sizes = clones + 1
    firsts = np.floor(sizes / 2) + 1  # the smallest counts with a positive loss
    # The probability of each first outcome, relative to the one at the centre.
    weights = running_product((trials - clones[:-1]) / clones[1:] * (clone[0] / clone[1]), centre)
    grown = np.where(np.diff(firsts) > 0, firsts[1:], sizes[1:] - firsts[1:])
    log_start = log_probability(trials, float(clones[centre]), *clone)
    log_start += log_probability(float(sizes[centre]), float(firsts[centre]), 0.5, 0.5)
    heads = running_product(sizes[1:] / grown / 2, centre) * weights * math.exp(log_start)
    # Hoeffding: Bin(m, 1/2) exceeds m/2 + w with probability at most exp(−2w²/m); P has at most twice that.
    width = int(math.sqrt(0.5 * depth * float(sizes[-1]))) + 2
    left_out = 2 * numbers.tail + 2 * math.exp(-depth)

    small = math.exp(-local_epsilon)
    slope = math.tanh(local_epsilon / 2)
    rest = 2 * small / (1 + small)  # 1 − slope, without cancellation
    offsets = np.arange(width, dtype=np.float64)
    gains = np.zeros(count)
    first_masses = np.zeros(count)
    second_masses = np.zeros(count)
    rows = max(1, _CHUNK // width)
    for start in range(0, len(clones), rows):
        size = sizes[start : start + rows, None]
        counts = firsts[start : start + rows, None] + offsets
        ratios = np.maximum(size - counts[:, :-1], 0.0) / (counts[:, :-1] + 1)
        pmf = np.cumprod(np.concatenate((heads[start : start + rows, None], ratios), axis=1), axis=1)
        shares = np.minimum((2 * counts - size) / size, 1.0)
        opposite = rest * shares + 2 * np.maximum(size - counts, 0.0) / size  # 1 − y
        losses = np.log1p(2 * slope * shares / opposite).ravel()
        masses = (pmf * (1 + slope * shares)).ravel()
        cells = np.minimum(losses / step, count - 1).astype(np.int64)
        # P − e^x·Q = P·(1 − e^{x − l}) at the left end x of the cell.
        gains += np.bincount(cells, np.maximum(-masses * np.expm1(cells * step - losses), 0.0), count)
        first_masses += np.bincount(cells, masses, count)
        second_masses += np.bincount(cells, (pmf * opposite).ravel(), count)
    # δ(x) − δ(x + h) = (the gains of the cell) + (e^{x + h} − e^x)·Q(beyond the cell).
    beyond = np.cumsum(second_masses[::-1])[::-1]
    growth = np.exp(step * np.arange(count - 1)) * math.expm1(step)
    falls = gains + np.append(growth * beyond[1:], 0.0)
    values = np.cumsum(falls[::-1])[::-1]
    # Running products err by a few units per step, and a loss by a few units of itself.
    rel_error = slack(8) * (2 * len(clones) + width + count + 64)
    rel_error += EXPONENT_ERROR * (16 + abs(log_start) + 2)
    # A loss may fall on the wrong side of a grid point; then its cell is the one before.
    tails = np.cumsum(first_masses[::-1])[::-1]
    abs_error = slack(32) * (1 + local_epsilon + step * count) * np.append(tails[0], tails[:-1])
    lower = np.maximum(values * (1 - rel_error) - abs_error, 0.0)
    return lower, values * (1 + rel_error) + abs_error + left_out
