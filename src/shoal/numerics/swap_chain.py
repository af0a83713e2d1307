"""δ(ε) of any ε₀-DP randomizers by chains of swaps: Theorem N, docs/theory/tighter.md, whose names are used here.

All sums are in units of e^ε₀ − 1. The pool size m, the smoothing v₀ and v₂, the windows K and the nodes may be
anything: every choice gives an upper bound. What it grows with is rounded up, and what it falls with down.

Many ε are asked at once: each is a row, and what depends on it is a column.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack, up

__all__ = ["swap_chain_delta", "swap_chain_deltas"]

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
_VERTICES = (((1, 0), (-1, 1)), ((-1, 2), (1, 3)), ((1, 0), (-1, 2), (1, 4)), ((-1, 5), (1, 3), (-1, 1)))
"""The sign and the index, among the sizes, of the values of X, for the four extreme distributions."""


def _probabilities(big: float) -> tuple[tuple[float, ...], ...]:
    """Return the probabilities of the values of each of the four extreme distributions, for e^ε₀."""
    two, three, pairs = 1 / (big + 1), 1 / (big + 2), 1 / (2 * big + 1)
    return (two, big * two), (two, big * two), (three, three, big * three), (pairs, big * pairs, big * pairs)


@lru_cache(maxsize=64)
def _mixtures(big: float) -> Array:
    """Return the probability of each size and of minus each (columns), for each distribution and minus each (rows)."""
    result = np.zeros((2 * len(_VERTICES), 12))
    for row, (vertex, probabilities) in enumerate(zip(_VERTICES, _probabilities(big), strict=True)):
        for (sign, index), probability in zip(vertex, probabilities, strict=True):
            result[2 * row, index + (6 if sign < 0 else 0)] = probability
            result[2 * row + 1, index + (6 if sign > 0 else 0)] = probability
    return result


class _Setting(NamedTuple):
    """The numbers of a question, rounded to the safe side: e^ε₀ − 1 and e^ε₀ up, e^ε − 1 and e^ε down, and I."""

    reports: int
    gap: float
    ratio: float
    excess: Array
    growth: Array
    variance: Array

    @classmethod
    def of(cls, reports: int, local_epsilon: float, epsilon: "Array | float") -> "_Setting":
        """Return the numbers; a larger ε₀ and a smaller ε only make δ larger."""
        gap, excess = up(math.expm1(local_epsilon), roundings=8), np.asarray(np.expm1(epsilon) * (1 - slack(8)))
        plain = cls(reports, gap, 1 + gap, excess, 1 + excess, np.zeros_like(excess))
        squares = plain.sizes.reshape(6, -1) ** 2
        largest = (_mixtures(plain.ratio) @ np.concatenate((squares, squares))).max(axis=0).reshape(excess.shape)
        return plain._replace(variance=up(largest, roundings=32))

    def rows(self, chosen: NDArray[np.bool_]) -> "_Setting":
        """Return these questions alone."""
        return self._replace(
            excess=self.excess[chosen], growth=self.growth[chosen], variance=self.variance[chosen]
        )  # fmt: skip

    @property
    def sizes(self) -> Array:
        """The absolute values of X, for all extreme distributions, along the first axis."""
        result = np.empty((6, *(np.shape(self.growth) or (1,))))
        result[0], result[1], result[2], result[5] = 1.0, 1 / self.ratio, self.growth, self.excess
        result[3:5] = result[2::3] / self.ratio
        return result

    def vertices(self) -> list[tuple[Array, Array]]:
        """Return the values of X (along the last axis) and their probabilities, for the four extreme distributions."""
        values = [np.stack([sign * self.sizes[index] for sign, index in vertex], axis=-1) for vertex in _VERTICES]
        each = zip(values, _probabilities(self.ratio), strict=True)
        return [(own.reshape(*np.shape(self.growth), -1), np.array(probabilities)) for own, probabilities in each]

    @property
    def drift(self) -> Array:
        """(e^ε − 1)/(e^ε₀ − 1), rounded down."""
        return np.asarray(self.excess / self.gap * (1 - slack(4)))


def swap_chain_delta(reports: int, local_epsilon: float, epsilon: float) -> float:
    """Return an upper bound of δ(ε) for n reports of any ε₀-DP randomizers; infinity where it says nothing.

    Examples
    --------
    >>> 1e-6 > swap_chain_delta(1_000_000, 1.0, 0.0031) > 9e-7
    True
    """
    return float(swap_chain_deltas(reports, local_epsilon, np.array([epsilon]))[0])


def swap_chain_deltas(reports: int, local_epsilon: float, epsilons: Array) -> Array:
    """Return the same at each of these ε."""
    result = np.full(len(epsilons), math.inf)
    if not (_FEWEST_REPORTS <= reports <= _MOST_REPORTS and 1e-9 <= local_epsilon <= _LARGEST_LOCAL):
        return result
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        asked = _Setting.of(reports, local_epsilon, epsilons[:, None])
        wide = np.sqrt(asked.variance * reports)
        likely = asked.gap / reports * wide * _excess(asked.drift * reports / wide)
        some = ((asked.excess < asked.gap / 2) & (likely >= _LEAST))[:, 0]
        if some.any():
            bounds = _bound(asked.rows(some), _SHARE * likely[some])
            result[some] = np.where(np.isfinite(bounds), bounds, math.inf)
    return result


def _bound(asked: _Setting, share: Array) -> Array:
    """Return the right sides of Theorem N, with charges of about this share each; not finite where it has none."""
    spread = up(asked.gap**2 / asked.ratio, roundings=8)
    square = up(1 + spread / 4, roundings=8)
    pool = min(round(_POOL * math.sqrt(square * asked.reports)), asked.reports // 4)
    weights = _Weights(pool, square, up(square * spread, roundings=8), up(asked.ratio * asked.gap / 3, roundings=8))
    main, fine = _Main.of(asked, weights, share)
    allowed = share * asked.reports / asked.gap
    total, reached = _summed(asked, weights, main, allowed)
    total += up(main.lost[:, 0], roundings=_MANY)
    bounds = up(asked.gap / asked.reports * total + share[:, 0], roundings=64)
    return np.where(fine & reached, bounds, math.inf)


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
    noise: Array
    low: Array
    high: Array
    extra: Array
    most: Array
    lost: Array

    @classmethod
    def of(cls, asked: _Setting, weights: _Weights, share: Array) -> "tuple[_Main, NDArray[np.bool_]]":
        """Replace them from the last to the first; and tell where weights are close to one, and smoothing is enough."""
        people, variance = asked.reports - 1 - weights.pool, asked.variance
        worth = 2 * people * asked.ratio * (asked.gap - asked.excess)
        farthest = weights.distance(np.log(np.maximum(worth / share, 2.0)))
        fine = farthest < _FARTHEST_WEIGHT
        farthest = np.minimum(farthest, _FARTHEST_WEIGHT)
        high, low = up(1 + farthest, roundings=4), (1 - farthest) * (1 - slack(4))
        noise = _MAIN_NOISE * asked.ratio * variance
        least = low**2 * variance * (1 - slack(8))
        charge = high**2 * variance * (np.sqrt(noise + least * people) / least + 0.5 / np.sqrt(noise))
        edge = high * asked.growth / np.sqrt(noise)
        window = _deviations(charge * asked.gap / (share * asked.reports)) + edge
        top = up(window * high / np.sqrt(noise), roundings=64)
        bottom = window * high / np.sqrt(noise + least * people) * (1 - slack(64))
        proxies = _Proxies.of(asked, top, bottom)
        starts = up((window * high / proxies.ends) ** 2, roundings=32)
        rooms = 1 - high**2 * proxies.largest / starts
        more = up(proxies.largest / rooms, roundings=64) - variance
        reached = proxies.ends[:, :-1] * _RATIO > bottom  # where other rows have more ends, not all are
        steps = (np.diff(starts) * np.where(reached, more[:, :-1], 0.0)).sum(axis=1, keepdims=True)
        extra = up(more[:, :1] + steps / least, roundings=8 * more.shape[1])
        most = up(high**2 * (variance * people + extra), roundings=16)
        lost = charge * _density(window - edge)
        return cls(people, noise, low, high, extra, most, lost), (fine & (rooms[:, :1] > _LEAST_ROOM))[:, 0]


def _summed(asked: _Setting, weights: _Weights, main: _Main, allowed: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return upper bounds of the mean of the positive part of the whole sum, from nodes of its main part.

    And whether smoothing is enough for two of the nodes at least. From the last one on, the slope is the largest.
    """
    pool, square, variance = weights.pool, weights.square, asked.variance
    aside = np.minimum(_POOL_NOISE * asked.ratio**2 * variance, 0.25 * main.most)  # v₂, taken from the main part
    smooth = main.noise + aside
    kept, root = np.sqrt(np.maximum(1 - aside / main.most, 0.0)), np.sqrt(variance * main.people)
    deviation, centre = kept * root, asked.drift * asked.reports
    about = np.sqrt(smooth + (pool * square + 1) * variance)
    first = (centre - _deviations(about / allowed) * about) / deviation
    last = np.maximum(_deviations(np.sqrt(main.most) / allowed), centre / deviation) + 0.3
    nodes = np.linspace(first[:, 0], last[:, 0], _NODES, axis=1)
    sizes = np.abs(nodes) * deviation + centre

    # The pool, at each of the nodes, as far as smoothing is enough for its scale.
    tilts = np.abs(nodes * deviation - asked.drift * main.people) + slack(32) * sizes
    tilts = up(tilts * (asked.gap / pool), roundings=8)
    scales = up(asked.ratio * (1 + tilts), roundings=8)
    good = _leading(scales**2 * variance < 0.7 * smooth)
    window = _deviations((pool * square + 1) * variance / np.sqrt(smooth) / allowed)
    window = window + 1.2 * asked.ratio * asked.growth / np.sqrt(smooth)
    reaches = up(window * scales / np.sqrt(smooth), roundings=16)
    farthest, nearest = (
        getattr(np.where(good, reaches, reaches[:, :1]), name)(axis=1, keepdims=True) for name in ("max", "min")
    )
    needed = _Proxies.of(asked, farthest * (1 + slack(8)), nearest / 2).at(reaches)
    rooms = 1 - up(scales**2 * needed / smooth, roundings=16)
    inside = window - scales * asked.growth / np.sqrt(smooth)
    good = _leading(good & (rooms > _LEAST_ROOM) & (inside > 1))
    people = up(pool * square * (1 + tilts) ** 2 + 1, roundings=16)
    spreads = np.sqrt(up(smooth + people * needed / rooms, roundings=64))
    charges = people * variance * _density(inside) / (2 * np.sqrt(smooth))

    # The weights of the main part differ from their mean; a part of that is charged.
    positive = np.maximum(nodes, 0.0)
    depths = np.maximum(np.log(np.maximum(deviation / allowed, 1.0)) + 1 - positive**2 / 2, 2.0)
    apart = weights.distance(depths)
    factor = kept * positive / (2 * main.low)
    rises = factor * (main.high**2 * main.extra / root + root * apart**2)
    means = nodes * deviation - centre + rises + slack(64) * (sizes + rises)
    spreads, means = np.where(good, spreads, 1.0), np.where(good, means, 0.0)
    heights = spreads * _excess(-means / spreads) + charges + factor * root * weights.beyond(apart)
    steepest = np.sqrt(main.most)
    heights = _continued(nodes, up(heights, roundings=_MANY), good, steepest)
    return _chords(nodes, heights, steepest[:, 0]), np.asarray(good[:, :2].all(axis=1))


def _continued(nodes: Array, heights: Array, good: NDArray[np.bool_], steepest: Array) -> Array:
    """Return the heights, those that are not good replaced by the steepest line from the last one that is."""
    last = np.maximum(good.sum(axis=1, keepdims=True) - 1, 0)
    start, height = (np.take_along_axis(part, last, axis=1) for part in (nodes, heights))
    return np.where(good, heights, up(height + steepest * (nodes - start), roundings=8))


def _chords(nodes: Array, heights: Array, steepest: "Array | float") -> Array:
    """Return upper bounds of E[f(Z)] for convex f that grow, at most as steeply as this, from bounds at nodes."""
    tails = _excess(nodes)
    wrong = slack(32) * ((nodes**2 + 8) * _density(nodes) + tails)
    widths = np.diff(nodes)
    slopes = np.abs(np.diff(heights)) / widths
    sums = (heights[..., 1:] + heights[..., :-1]) / widths
    shares = tails[..., :-1] - tails[..., 1:]
    beyond = steepest * tails[..., -1]
    total = heights[..., 0] + (np.diff(heights) / widths * shares).sum(axis=-1) + beyond
    rounding = slopes * (wrong[..., :-1] + wrong[..., 1:]) + slack(16) * sums * np.abs(shares)
    whole = heights[..., 0] + (slopes * np.abs(shares)).sum(axis=-1) + beyond
    return np.asarray(total + rounding.sum(axis=-1) + slack(8) * nodes.shape[-1] * whole)


class _Proxies(NamedTuple):
    """V(H), the least v with E[e^hX] ≤ e^(vh²/2) for |h| ≤ H, rounded up, for falling H."""

    ends: Array
    largest: Array

    @classmethod
    def of(cls, asked: _Setting, top: "Array | float", bottom: "Array | float") -> "_Proxies":
        """Return V at ends from `top` down to `bottom` at most."""
        count = 2 + math.ceil(math.log(max(float(np.nanmax(top / bottom)), 1.0)) / math.log(_RATIO))
        ends = np.asarray(top * _RATIO ** -np.arange(count, dtype=np.float64))
        squares = ends**2
        powers = asked.sizes * ends
        growth = np.expm1(powers)
        # exp(±x) − 1 ∓ x, and what rounding may have done to either part.
        terms, wrong = np.empty((12, *ends.shape)), slack(32)
        np.subtract((1 + wrong) * growth, (1 - wrong) * powers, out=terms[:6])
        growth /= 1 + growth
        np.subtract((1 + wrong) * powers, (1 - wrong) * growth, out=terms[6:])
        mixed = _mixtures(asked.ratio) @ terms.reshape(12, -1)
        highest = mixed.max(axis=0).reshape(ends.shape) / squares
        highest = up(highest, roundings=256)
        # (E[e^hX] − 1)/h² is convex in h, hence largest at the ends of a cell; log(1 + h²C)/h² falls with h.
        larger = np.maximum(highest[..., 1:], highest[..., :-1])
        cells = up(2 * np.log1p(squares[..., 1:] * larger) / squares[..., 1:], roundings=64)
        last = np.maximum(asked.variance, 2 * highest[..., -1:])
        whole = np.concatenate((cells, np.broadcast_to(last, (*cells.shape[:-1], 1))), axis=-1)
        rising = np.maximum.accumulate(whole[..., ::-1], axis=-1)[..., ::-1]
        return cls(ends, rising)

    def at(self, reaches: Array) -> Array:
        """Return V at these H, from the next larger end."""
        # Ends fall by the same ratio from the first on, so that an index is off by one at most.
        count = self.ends.shape[-1]
        steps = np.log(self.ends[..., :1] / reaches) / math.log(_RATIO)
        index = np.clip(np.nan_to_num(steps), 0, count - 1).astype(np.int64)
        index += np.arange(0, self.ends.size, count).reshape(*self.ends.shape[:-1], 1)
        ends, largest = self.ends.ravel(), self.largest.ravel()
        index -= (ends[index] < reaches) & (index % count > 0)
        return np.where(ends[index] < reaches, math.inf, largest[index])


def _leading(good: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which nodes, and all before them, are good."""
    return np.logical_and.accumulate(good, axis=-1)


def _density(points: "Array | float") -> Array:
    return np.asarray(np.exp(-0.5 * np.square(points)) / math.sqrt(2 * math.pi))


def _deviations(odds: Array) -> Array:
    """Return about the t with φ(t)·odds = 1, at least one."""
    return np.asarray(np.sqrt(np.maximum(2 * np.log(np.maximum(odds / math.sqrt(2 * math.pi), 1.0)), 1.0)))


def _excess(points: Array) -> Array:
    """Return E[(Z − t)₊] = φ(t) − t·Φ(−t), rounded up."""
    points = np.minimum(points, _FARTHEST)
    arguments = (points / math.sqrt(2)).ravel().tolist()
    tails = np.fromiter(map(math.erfc, arguments), np.float64, len(arguments)).reshape(points.shape) / 2
    density = _density(points)
    values = density - points * tails
    return np.asarray(values + slack(8) * ((points**2 + 8) * density + np.abs(values)))
