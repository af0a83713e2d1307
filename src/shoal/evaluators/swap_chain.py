"""δ(ε) of any ε₀-DP randomizers by chains of swaps: Theorem N, docs/theory/tighter.md, whose names are used here.

All sums are in units of e^ε₀ − 1. The pool size m, the smoothing v₀ and v₂, the windows K and the nodes may be
anything: every choice gives an upper bound. What it grows with is rounded up, and what it falls with down.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack, up

__all__ = ["swap_chain_delta"]

Array = NDArray[np.float64]

_SHARE = 2e-3
"""Each of the charges for rare events is about this part of δ."""
_POOL, _MAIN_NOISE, _POOL_NOISE = 14.0, 12.0, 70.0
"""The pool size over √n, and the smoothing of main positions and of the pool over Ie^ε₀ and Ie^2ε₀."""
_LARGEST_LOCAL, _MOST_REPORTS, _FEWEST_REPORTS = 12.0, 1 << 46, 200
"""Beyond these, the strong clones are better, or whole numbers are no doubles."""
_RATIO, _NODES = 1.03, 192
"""Of neighbouring ends of windows, and how many nodes the main sum has: always as many, so that there are no jumps."""
_LEAST_ROOM = 0.2
"""Of 1 − y²V/τ: with less, smoothing is too little."""
_FARTHEST_WEIGHT = 0.8
"""Of x, by which the weights of all people outside the pool differ from 1 at most, but for a rare event."""
_MANY = 1 << 14
"""Roundings of a density at t ≤ 37 deviations, whose exponent t²/2 has some of its own."""
_FARTHEST = 37.0
"""Deviations; beyond, densities are no normal doubles."""
_LEAST = 1e-280


class _Setting(NamedTuple):
    """The numbers of a question, rounded to the safe side: e^ε₀ − 1 and e^ε₀ up, e^ε − 1 and e^ε down, and I."""

    reports: int
    gap: float
    ratio: float
    excess: float
    growth: float
    variance: float

    @classmethod
    def of(cls, reports: int, local_epsilon: float, epsilon: float) -> "_Setting":
        """Return the numbers; a larger ε₀ and a smaller ε only make δ larger."""
        gap, excess = up(math.expm1(local_epsilon), roundings=8), math.expm1(epsilon) * (1 - slack(8))
        ratio, growth = 1 + gap, 1 + excess
        plain = cls(reports, gap, ratio, excess, growth, 0.0)
        largest = max(float(probabilities @ values**2) for values, probabilities in plain.vertices())
        return plain._replace(variance=up(largest, roundings=32))

    def vertices(self) -> list[tuple[Array, Array]]:
        """Return the values of X and their probabilities, for the four extreme distributions."""
        big, lam, more = self.ratio, self.growth, self.excess
        two, three, pairs = 1 / (big + 1), 1 / (big + 2), 1 / (2 * big + 1)
        return [
            (np.array([1, -1 / big]), np.array([two, big * two])),
            (np.array([-lam, lam / big]), np.array([two, big * two])),
            (np.array([1, -lam, more / big]), np.array([three, three, big * three])),
            (np.array([-more, lam / big, -1 / big]), np.array([pairs, big * pairs, big * pairs])),
        ]

    @property
    def drift(self) -> float:
        """(e^ε − 1)/(e^ε₀ − 1), rounded down."""
        return self.excess / self.gap * (1 - slack(4))


def swap_chain_delta(reports: int, local_epsilon: float, epsilon: float) -> float:
    """Return an upper bound of δ(ε) for n reports of any ε₀-DP randomizers; infinity where it says nothing.

    Examples
    --------
    >>> 1e-6 > swap_chain_delta(1_000_000, 1.0, 0.0031) > 9e-7
    True
    """
    if not (_FEWEST_REPORTS <= reports <= _MOST_REPORTS and 1e-9 <= local_epsilon <= _LARGEST_LOCAL):
        return math.inf
    asked = _Setting.of(reports, local_epsilon, epsilon)
    if not asked.excess < asked.gap / 2:
        return math.inf
    wide = math.sqrt(asked.variance * reports)
    likely = asked.gap / reports * wide * float(_excess(np.array([asked.drift * reports / wide]))[0])
    if likely < _LEAST:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound = _bound(asked, _SHARE * likely)
    return bound if math.isfinite(bound) else math.inf


def _bound(asked: _Setting, share: float) -> float:
    """Return the right side of Theorem N, with charges of about this share each; infinity where it has none."""
    spread = up(asked.gap**2 / asked.ratio, roundings=8)
    square = up(1 + spread / 4, roundings=8)
    pool = min(round(_POOL * math.sqrt(square * asked.reports)), asked.reports // 4)
    weights = _Weights(pool, square, up(square * spread, roundings=8), up(asked.ratio * asked.gap / 3, roundings=8))
    main = _Main.of(asked, weights, share)
    if main is None:
        return math.inf
    allowed = share * asked.reports / asked.gap
    total = _summed(asked, weights, main, allowed) + up(main.lost, roundings=_MANY)
    return up(asked.gap / asked.reports * total + share, roundings=64)


class _Weights(NamedTuple):
    """Of the pool: its size m, y₂ with ΣY² ≤ y₂m, and c, b with Pr(|ζ| ≥ y) ≤ 2·exp(−m·y²/(2(c + by))) (Freedman)."""

    pool: int
    square: float
    variance: float
    jump: float

    def distance(self, depths: Array) -> Array:
        """Return y at which the exponent is at least this."""
        half = depths * self.jump / self.pool
        return up(half + np.sqrt(half**2 + 2 * depths * self.variance / self.pool), roundings=128)

    def beyond(self, distances: Array) -> Array:
        """Return about E[(ζ² − y²)₊] at most: the exponent is convex, and lies above its tangent at y."""
        whole = self.variance + self.jump * distances
        depths = self.pool * distances**2 / (2 * whole)
        slopes = self.pool * distances * (2 * self.variance + self.jump * distances) / (2 * whole**2)
        return np.asarray(4 * np.exp(-depths) * (distances / slopes + 1 / slopes**2))


class _Main(NamedTuple):
    """What the people outside the pool add: how many they are, v₀, 1 ∓ x, X_s, the largest variance, and a charge."""

    people: int
    noise: float
    low: float
    high: float
    extra: float
    most: float
    lost: float

    @classmethod
    def of(cls, asked: _Setting, weights: _Weights, share: float) -> "_Main | None":
        """Replace them from the last to the first; nothing if weights are far from one, or smoothing is too little."""
        people, variance = asked.reports - 1 - weights.pool, asked.variance
        worth = 2 * people * asked.ratio * (asked.gap - asked.excess)
        farthest = float(weights.distance(np.array([math.log(max(worth / share, 2.0))]))[0])
        if not farthest < _FARTHEST_WEIGHT:
            return None
        high, low = up(1 + farthest, roundings=4), (1 - farthest) * (1 - slack(4))
        noise = _MAIN_NOISE * asked.ratio * variance
        least = low**2 * variance * (1 - slack(8))
        charge = high**2 * variance * (math.sqrt(noise + least * people) / least + 0.5 / math.sqrt(noise))
        edge = high * asked.growth / math.sqrt(noise)
        window = _deviations(charge * asked.gap / (share * asked.reports)) + edge
        top = up(window * high / math.sqrt(noise), roundings=64)
        proxies = _Proxies.of(asked, top, window * high / math.sqrt(noise + least * people) * (1 - slack(64)))
        starts = up((window * high / proxies.ends) ** 2, roundings=32)
        rooms = 1 - high**2 * proxies.largest / starts
        if not rooms[0] > _LEAST_ROOM:
            return None
        more = up(proxies.largest / rooms, roundings=64) - variance
        extra = up(float(more[0] + (np.diff(starts) * more[:-1]).sum() / least), roundings=8 * len(more))
        most = up(high**2 * (variance * people + extra), roundings=16)
        return cls(people, noise, low, high, extra, most, charge * float(_density(window - edge)))


def _summed(asked: _Setting, weights: _Weights, main: _Main, allowed: float) -> float:
    """Return an upper bound of the mean of the positive part of the whole sum, from nodes of its main part."""
    pool, square, variance = weights.pool, weights.square, asked.variance
    aside = min(_POOL_NOISE * asked.ratio**2 * variance, 0.25 * main.most)  # v₂, taken from the main part
    smooth = main.noise + aside
    kept, root = math.sqrt(max(1 - aside / main.most, 0.0)), math.sqrt(variance * main.people)
    deviation, centre = kept * root, asked.drift * asked.reports
    about = math.sqrt(smooth + (pool * square + 1) * variance)
    first = (centre - _deviations(about / allowed) * about) / deviation
    last = max(_deviations(math.sqrt(main.most) / allowed), centre / deviation) + 0.3
    nodes = np.linspace(first, last, _NODES)
    sizes = np.abs(nodes) * deviation + centre

    # The pool, at each of the nodes, as far as smoothing is enough for its scale.
    tilts = np.abs(nodes * deviation - asked.drift * main.people) + slack(32) * sizes
    tilts = up(tilts * (asked.gap / pool), roundings=8)
    scales = up(asked.ratio * (1 + tilts), roundings=8)
    count = _leading(scales**2 * variance < 0.7 * smooth)
    if count < 2:
        return math.inf
    window = _deviations((pool * square + 1) * variance / math.sqrt(smooth) / allowed)
    window += 1.2 * asked.ratio * asked.growth / math.sqrt(smooth)
    reaches = up(window * scales[:count] / math.sqrt(smooth), roundings=16)
    needed = _Proxies.of(asked, float(reaches.max()) * (1 + slack(8)), float(reaches.min()) / 2).at(reaches)
    rooms = 1 - up(scales[:count] ** 2 * needed / smooth, roundings=16)
    inside = window - scales[:count] * asked.growth / math.sqrt(smooth)
    count = _leading((rooms > _LEAST_ROOM) & (inside > 1))
    if count < 2:
        return math.inf
    nodes, sizes, needed, rooms, inside = (part[:count] for part in (nodes, sizes, needed, rooms, inside))
    people = up(pool * square * (1 + tilts[:count]) ** 2 + 1, roundings=16)
    spreads = np.sqrt(up(smooth + people * needed / rooms, roundings=64))
    charges = people * variance * _density(inside) / (2 * math.sqrt(smooth))

    # The weights of the main part differ from their mean; a part of that is charged.
    positive = np.maximum(nodes, 0.0)
    depths = np.maximum(math.log(max(deviation / allowed, 1.0)) + 1 - positive**2 / 2, 2.0)
    apart = weights.distance(depths)
    factor = kept * positive / (2 * main.low)
    rises = factor * (main.high**2 * main.extra / root + root * apart**2)
    means = nodes * deviation - centre + rises + slack(64) * (sizes + rises)
    heights = spreads * _excess(-means / spreads) + charges + factor * root * weights.beyond(apart)
    return _chords(nodes, up(heights, roundings=_MANY), math.sqrt(main.most))


def _chords(nodes: Array, heights: Array, steepest: float) -> float:
    """Return an upper bound of E[f(Z)] for a convex f that grows, at most as steeply as this, from bounds at nodes."""
    tails = _excess(nodes)
    wrong = slack(32) * ((nodes**2 + 8) * _density(nodes) + tails)
    widths = np.diff(nodes)
    slopes = np.abs(np.diff(heights)) / widths
    sums = (heights[1:] + heights[:-1]) / widths
    shares = tails[:-1] - tails[1:]
    total = float(heights[0] + (np.diff(heights) / widths * shares).sum() + steepest * tails[-1])
    rounding = slopes * (wrong[:-1] + wrong[1:]) + slack(16) * sums * np.abs(shares)
    sizes = heights[0] + (slopes * np.abs(shares)).sum() + steepest * tails[-1]
    return total + float(rounding.sum() + slack(8) * len(nodes) * sizes)


class _Proxies(NamedTuple):
    """V(H), the least v with E[e^hX] ≤ e^(vh²/2) for |h| ≤ H, rounded up, for falling H."""

    ends: Array
    largest: Array

    @classmethod
    def of(cls, asked: _Setting, top: float, bottom: float) -> "_Proxies":
        """Return V at ends from `top` down to `bottom` at most."""
        count = 2 + math.ceil(math.log(max(top / bottom, 1.0)) / math.log(_RATIO))
        ends = top * _RATIO ** -np.arange(count, dtype=np.float64)
        cells = np.zeros(count - 1)
        last = asked.variance
        for values, probabilities in asked.vertices():
            for sign in (1.0, -1.0):
                powers = sign * np.multiply.outer(ends, values)
                growth = np.expm1(powers)
                # (E[e^hX] − 1)/h² is convex in h, hence largest at the ends of a cell; log(1 + h²C)/h² falls with h.
                halves = ((growth - powers) + slack(16) * (np.abs(growth) + np.abs(powers))) @ probabilities / ends**2
                halves = up(halves, roundings=256)
                squares = ends[1:] ** 2
                cells = np.maximum(cells, 2 * np.log1p(squares * np.maximum(halves[1:], halves[:-1])) / squares)
                last = float(np.maximum(last, 2 * halves[-1]))
        rising = np.maximum.accumulate(np.append(up(cells, roundings=64), last)[::-1])[::-1]
        return cls(ends, rising)

    def at(self, reaches: Array) -> Array:
        """Return V at these H, from the next larger end."""
        return np.asarray(np.append(self.largest[::-1], math.inf)[np.searchsorted(self.ends[::-1], reaches)])


def _leading(good: NDArray[np.bool_]) -> int:
    """Return how many are good before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))


def _density(points: "Array | float") -> Array:
    return np.asarray(np.exp(-0.5 * np.square(points)) / math.sqrt(2 * math.pi))


def _deviations(odds: float) -> float:
    """Return about the t with φ(t)·odds = 1, at least one."""
    return math.sqrt(max(2 * math.log(max(odds / math.sqrt(2 * math.pi), 1.0)), 1.0))


def _excess(points: Array) -> Array:
    """Return E[(Z − t)₊] = φ(t) − t·Φ(−t), rounded up."""
    points = np.minimum(points, _FARTHEST)
    tails = np.array([math.erfc(point) for point in (points / math.sqrt(2)).tolist()]) / 2
    density = _density(points)
    values = density - points * tails
    return np.asarray(values + slack(8) * ((points**2 + 8) * density + np.abs(values)))
