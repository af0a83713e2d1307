"""The Rényi divergence of clones, for any real order.

Given m − 1 clones, P = B·(1 + y) and Q = B·(1 − y) with B = Bin(m, 1/2) and y = tanh(ε₀/2)·(2X/m − 1). Put η = artanh
y. By the symmetry of B, and with no subtraction left,

    exp((α − 1)·D_α) − 1  =  E[ s_α(y) ],        s_α(y) = 2·sinh(αη)·sinh((α − 1)η)/cosh η,

so that every term is positive. s_α is an even power series in y with non-negative coefficients. So each of these errs
upward:

* s_α is convex in X: moving the mass between two nodes to these nodes, keeping its mean, only adds. Nodes are close to
  one another only around the largest term;
* elsewhere log s_α lies below its chords as a function of log y, and logarithms of binomial probabilities below their
  tangents;
* E_m = E[s_α] falls with m, and so does m·E_m, but for a remainder that is bounded: E at the lowest m of a range serves
  all of it. Ranges are divided where they contribute most, until it makes no difference. There are two places where
  they may: around the usual number of clones, and where there are hardly any. Where the second outweighs the first, the
  divergence leaps towards ε₀.

docs/theory/numerics.md has the proofs.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.binomial import Clones, log_probability, relative_entropy
from shoal.rounding import up

__all__ = ["renyi_upper"]

Array = NDArray[np.float64]

_DROPPED = 42.0
_ROUNDING = 2e-14
"""Times √n: the error of the logarithms of probabilities within a dozen standard deviations."""
_SAFETY = 1 + 1e-9
"""Covers the rounding of sums whose terms are all positive."""
_CLOSE = 4e-5
"""How far from its least possible value the logarithm of the sum over ranges may be: of itself, or absolutely."""
_CELLS_PER_DEVIATION = 48
_NODES_PER_DEVIATION = 64
_LONGEST = 50_000
"""So many probabilities are added up one by one."""
_MOST_PASSES = 60
_LEAST, _MOST = 1e-150, 680.0
"""Of ε₀: beyond, squares underflow or exponentials overflow."""


def renyi_upper(pair: Clones, orders: Array) -> Array:
    """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order α > 1, at most 1e-4 above.

    It never exceeds ε₀, which is all that is said of extremes.
    """
    if not _LEAST < pair.local_epsilon < _MOST:
        return np.full_like(orders, pair.local_epsilon)
    cells = _Cells(pair.reports, pair.clone_probability, pair.other_probability)
    logs = np.array([_log_excess(pair, cells, order) for order in orders.tolist()])
    logs += _ROUNDING * math.sqrt(pair.reports)
    small = np.log1p(np.exp(np.minimum(logs, 30.0)))
    result = np.where(logs < 30, small, logs + 1e-13) / (orders - 1) * _SAFETY
    return np.minimum(np.maximum(result, sys.float_info.min), pair.local_epsilon)


class _Cells:
    """Upper bounds of the probabilities that M ~ Bin(n, p) lies in a range: from cells around the mean, or beside them.

    Attributes
    ----------
    first, last : int
        The numbers that cells cover.
    width : int
        Of each cell.
    """

    def __init__(self, reports: int, probability: float, complement: float) -> None:
        self.reports, self.probability, self.complement = reports, probability, complement
        mean = reports * probability
        deviation = math.sqrt(mean * complement)
        reach = math.sqrt(2 * _DROPPED) * deviation + _DROPPED
        self.width = max(1, 2 * math.floor(deviation / (2 * _CELLS_PER_DEVIATION)) + 1) if deviation >= 96 else 1
        self.first = max(1, math.floor(mean - reach))
        count = math.ceil((min(reports, math.ceil(mean + reach)) - self.first + 1) / self.width)
        self.last = self.first + count * self.width - 1
        self.logs = self._each() if count * self.width <= _LONGEST else self._around(count)
        # What is above has C ≥ last, and any E serves.
        share = self.last / (reports - 1) if self.last < reports else 0.0
        self.log_above = -(reports - 1) * relative_entropy(share, probability, complement) if share else -math.inf

    def _each(self) -> Array:
        """Return log Pr of each cell, from the probability of every number in it, as running sums from the mean."""
        centre = min(max(round(self.reports * self.probability), self.first), self.last, self.reports)
        start = log_probability(self.reports, centre, self.probability, self.complement)
        before = np.arange(self.first, self.last, dtype=np.float64)
        with np.errstate(divide="ignore"):
            odds = np.maximum(self.reports - before, 0.0) / (before + 1) * (self.probability / self.complement)
            steps = np.log(odds)
        split = centre - self.first
        sums = np.concatenate((-np.cumsum(steps[:split][::-1])[::-1], [0.0], np.cumsum(steps[split:])))
        with np.errstate(under="ignore", divide="ignore"):
            return np.asarray(start + np.log(np.exp(sums.reshape(-1, self.width)).sum(axis=1)))

    def _around(self, count: int) -> Array:
        """Return upper bounds of the same, from one probability in each cell, by log-concavity."""
        half = self.width // 2
        centres = self.first + half + self.width * np.arange(count, dtype=np.float64)
        logs = [log_probability(self.reports, centre, self.probability, self.complement) for centre in centres.tolist()]
        ahead = np.log((self.reports - centres) / (centres + 1) * (self.probability / self.complement))
        back = np.log(centres / (self.reports - centres + 1) * (self.complement / self.probability))
        return np.asarray(np.array(logs) + np.log(1 + _geometric(ahead, half) + _geometric(back, half)))

    def log_mass(self, low: int, high: int) -> float:
        """Return log of a bound of Pr(low ≤ M ≤ high), for a range of whole cells, or one below all of them."""
        if low >= self.first:
            start, stop = (low - self.first) // self.width, (high + 1 - self.first) // self.width
            return _log_sum(self.logs[start:stop])
        value = log_probability(self.reports, high, self.probability, self.complement)
        back = high / (self.reports - high + 1) * (self.complement / self.probability)
        count = high - low + 1
        if count == 1:
            return value
        # The ratios of neighbours fall to the left, so that the sum is at most a geometric one.
        return value + math.log(min(count, -math.expm1(count * math.log(back)) / (1 - back)) if back < 1 else count)

    def divided(self, low: int, high: int) -> int:
        """Return where the second half of a range begins, or its own beginning if it cannot be divided."""
        if low >= self.first:
            return low + (high + 1 - low) // self.width // 2 * self.width
        return math.isqrt(low * (high + 1)) if high > 4 * low else (low + high + 1) // 2


def _geometric(rates: Array, count: int) -> Array:
    """Return Σ exp(rate·j) over j = 1, …, count; the rates are small."""
    flat = np.abs(rates) < 1e-12
    safe = np.where(flat, 1.0, rates)
    return np.asarray(np.where(flat, count, np.exp(safe) * np.expm1(safe * count) / np.expm1(safe)) * (1 + 1e-11))


def _log_excess(pair: Clones, cells: _Cells, order: float) -> float:
    """Return log(exp((α − 1)·D_α) − 1), averaged over the number of clones."""
    angle = pair.local_epsilon / 2
    mean = pair.reports * pair.clone_probability
    if mean < 1e-12:
        return _log_moment(1, angle, order)
    known: dict[int, float] = {}

    def moment(count: int) -> float:
        if count not in known:
            known[count] = _log_moment(count, angle, order)
        return known[count]

    log_edge = float(_log_symmetric(order, np.array([angle]))[0]) + math.log(2)
    decay = math.log((1 + math.exp(-2)) / 2)

    def ends(low: int, high: int) -> tuple[float, float]:
        """Return the logarithms of a bound of what a range contributes, and of roughly the least it can."""
        mass = cells.log_mass(low, high) - math.log(mean)
        above = moment(low)
        scaled = min(
            above + math.log(high),
            float(np.logaddexp(above + math.log(low), log_edge + low * decay + math.log(high))),
        )
        if high == low:
            return mass + min(scaled, above + math.log(low)), mass + above + math.log(low)
        following = min(high + 1, pair.reports)
        return mass + scaled, mass + moment(following) + math.log(following)

    third = (cells.last + 1 - cells.first) // cells.width // 3 * cells.width
    starts = [cells.first, cells.first + third, cells.first + 2 * third] if third else [cells.first]
    ranges = [*zip(starts, [start - 1 for start in starts[1:]] + [cells.last], strict=True)]
    if cells.first > 1:
        ranges.insert(0, (1, cells.first - 1))
    bounds = {each: ends(*each) for each in ranges}
    beyond = cells.log_above + moment(min(cells.last, pair.reports))
    for _ in range(_MOST_PASSES):
        tops, bottoms = np.array(list(bounds.values())).T
        total = float(np.logaddexp(np.logaddexp.reduce(tops), beyond))
        least = float(np.logaddexp.reduce(bottoms))
        allowed = _CLOSE * max(1.0, least)
        if total - least <= allowed:
            break
        with np.errstate(under="ignore"):
            gaps = np.exp(tops - total) - np.exp(np.minimum(bottoms, tops) - total)
        divisible = [
            each for each, gap in zip(bounds, gaps.tolist(), strict=True)
            if gap > 0.2 * allowed / len(gaps) and each[0] < cells.divided(*each) <= each[1]
        ]  # fmt: skip
        if not divisible:
            break
        for low, high in divisible:
            del bounds[low, high]
            middle = cells.divided(low, high)
            bounds[low, middle - 1], bounds[middle, high] = ends(low, middle - 1), ends(middle, high)
    return total


def _log_symmetric(order: float, angles: Array) -> Array:
    """Return log s_α at η = angles > 0."""
    return np.asarray(
        math.log(2) + _log_sinh(order * angles) + _log_sinh((order - 1) * angles)
        - angles - np.log1p(np.exp(-2 * angles)) + math.log(2)
    )  # fmt: skip


def _log_sinh(x: Array) -> Array:
    return np.asarray(x + np.log(-np.expm1(-2 * x)) - math.log(2))


def _log_moment(count: int, angle: float, order: float) -> float:
    """Return an upper bound of log E_m for m = count, where y = tanh(angle)·(2X/m − 1)."""
    start = count // 2 + 1
    if count <= 512:
        nodes = np.arange(start, count + 1, dtype=np.float64)
        terms = _fair_logs(count, nodes) + _log_symmetric(order, _angles(count, angle, nodes))
        return math.log(2) + _log_sum(terms)
    # Cells that become wider, up to a twentieth of the distance from the middle.
    deviation = math.sqrt(count) / 2
    near = np.arange(0.0, 40 * deviation, 0.5 * deviation)
    far = (
        40 * deviation * 1.02 ** np.arange(math.ceil(math.log(max(count / 2 / (40 * deviation), 1.0)) / math.log(1.02)))
    )
    edges = np.unique(np.minimum(np.floor(start + np.concatenate((near, far))), count))
    logs, heights = _fair_logs(count, edges), _log_symmetric(order, _angles(count, angle, edges))
    terms = logs + heights
    kept = np.flatnonzero(terms > terms.max() - _DROPPED)
    low, high = max(int(kept[0]) - 1, 0), min(int(kept[-1]) + 1, len(edges) - 1)
    first, last = float(edges[low]), float(edges[high])
    spacing = max(1, math.floor((last - first) / (2 * math.sqrt(2 * _DROPPED) * _NODES_PER_DEVIATION)))
    dense = np.append(np.arange(first, last, spacing), last)
    weights = _hat_weights(count, dense) + _log_symmetric(order, _angles(count, angle, dense))
    # Outside, an exponential from the left end of each cell is above all terms in it; so is the largest of each factor.
    heads = edges[:-1]
    slopes = np.diff(heights) / np.log((2 * edges[1:] - count) / (2 * heads - count)) * 2 / (2 * heads - count)
    rates = np.log((count - heads) / (heads + 1)) + slopes
    widths = np.diff(edges)
    crude = np.log(widths) + np.minimum(terms[:-1] + np.maximum(rates * widths, 0.0), logs[:-1] + heights[1:])
    crude = np.concatenate((crude[:low], crude[high:], terms[-1:] if last < count else [-np.inf]))
    return math.log(2) + float(np.logaddexp(_log_sum(weights), _log_sum(crude)))


def _log_sum(logs: Array) -> float:
    highest = float(logs.max())
    return highest + math.log(float(np.exp(logs - highest).sum())) if highest > -math.inf else highest


def _angles(count: int, angle: float, nodes: Array) -> Array:
    """Return artanh y, rounded up: ½·log1p(2y/(1 − y)), with 1 − y = (1 − tanh) + tanh·2(m − x)/m."""
    tilt, small = math.tanh(angle), math.exp(-2 * angle)
    lean = tilt * (2 * nodes - count) / count
    gap = 2 * small / (1 + small) + tilt * 2 * (count - nodes) / count
    return np.asarray(np.minimum(up(0.5 * np.log1p(2 * lean / np.maximum(gap, 1e-300)), roundings=8), angle))


def _hat_weights(count: int, nodes: Array) -> Array:
    """Return logs of weights at the nodes that replace Bin(m, 1/2) between them from above, for convex functions.

    Each probability between two nodes is split between them as the mean demands; the sums of these hat-shaped parts
    are bounded through the log-concavity of the probabilities.
    """
    gaps = np.diff(nodes)
    with np.errstate(divide="ignore"):
        falling = np.minimum(np.log(np.maximum(count - nodes, 0.5) / (nodes + 1)), 0.0)
    rising = np.maximum(np.log(nodes / (count - nodes + 1)), 0.0)
    logs = _fair_logs(count, nodes)
    right = logs + np.append(_log_hat(gaps, falling[:-1], 0.0), 0.0)
    left = logs[1:] + _log_hat(gaps, rising[1:], 1.0)
    left = np.minimum(left, logs[:-1] + np.log(gaps))
    return np.asarray(np.logaddexp(right, np.concatenate(([-np.inf], left))))


def _log_hat(width: Array, rate: Array, start: float) -> Array:
    """Return an upper bound of log Σ (1 − j/w)·exp(rate·j) over j = start, …, w − 1, where start is zero or one."""
    square, exponent = width**2 - 1, rate * width
    flat = np.abs(exponent) < 0.5
    slope = np.where(flat, rate, 0.0)
    series = (width + 1) / 2 - start + slope * square / 6 + slope**2 * width * square / 24
    series += np.maximum(slope, 0.0) ** 3 * width**2 * square * (math.exp(0.5) / 120)
    with np.errstate(divide="ignore"):
        return np.where(flat, np.log(series), np.log(width) + np.maximum(exponent, 0.0))


def _fair_logs(count: float, nodes: Array) -> Array:
    """Return log Pr(Bin(m, 1/2) = x) at each node."""
    balance = 2 * nodes / count - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = (1 + balance) * np.log1p(balance) + np.where(balance < 1, (1 - balance) * np.log1p(-balance), 0.0)
    rest = count - nodes
    half_log = 0.5 * (math.log(count) - np.log(nodes) - np.log(np.maximum(rest, 1)) - math.log(2 * math.pi))
    logs = _remainder(np.array(count)) - _remainder(nodes) - _remainder(rest) - 0.5 * count * entropy + half_log
    return np.where(rest > 0, logs, -count * math.log(2))


def _remainder(count: Array) -> Array:
    """Return log(count!) minus Stirling's formula: within 1e-9 above 8, and exact below."""
    large = np.maximum(count, 8.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * large**2)) / large**2) / large**2) / large
    first = np.array(
        [
            0.0,
            *(math.lgamma(m + 1) - (m + 0.5) * math.log(m) + m - 0.5 * math.log(2 * math.pi) for m in range(1, 8)),
        ]
    )
    return np.where(count < 8, first[np.minimum(count, 7).astype(np.int64)], series)
