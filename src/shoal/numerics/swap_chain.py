"""Theorem N: δ(ε) for arbitrary ε₀-DP randomizers, by a Lindeberg replacement along swap chains.

docs/theory/tighter.md, section 4, has the proofs and the numbered equations. All sums are in units of
e^ε₀ − 1. The size of the pool, the smoothing, the windows and the nodes are free: every choice gives
an upper bound. A number that the bound grows with is rounded up, and a number that it falls with is
rounded down.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Array
from shoal.numerics.normal import FARTHEST
from shoal.rounding import slack, up

_SHARE = 2e-3
"""Each charge for a rare event is about this part of δ: with less, windows are wider."""
_POOL = 14.0
"""The pool size over √(y₂n). A larger pool has steadier weights, but larger terms."""
_MAIN_NOISE = 12.0
"""v₀ over E·I. More smoothing makes each replacement cheaper, and adds to the variance once."""
_POOL_NOISE = 70.0
"""v₂ over E²·I: the same for the people in the pool, whose terms have larger weights."""
_LARGEST_LOCAL_EPSILON = 12.0
"""From here on the strong clones are better for every number of reports that float64 resolves."""
_FEWEST_REPORTS = 200
"""With fewer reports the strong clones are better."""
_MOST_REPORTS = 1 << 46
"""With more reports, rounding of n times a probability would have to be charged separately."""
_RATIO = 1.03
"""The ratio of neighbouring ends of windows. A smaller one gives smaller V(H), and takes longer."""
_NODES = 192
"""The number of nodes of the main sum: chords lie 1e-4 above it, and with more take longer."""
_LEAST_ROOM = 0.2
"""The least 1 − Y²V/τ. With less room, smoothing is too weak, and fewer nodes are better."""
_LARGEST_DEVIATION = 0.8
"""The largest x, by which weights outside the pool differ from one but for a rare event."""
_LEAST_DELTA = 1e-280
"""A smaller δ would make charges underflow."""


class _Question(NamedTuple):
    """The numbers of a question, each rounded to the side on which δ is larger."""

    reports: int  # n
    expm1_local: float  # e^ε₀ − 1, rounded up
    exp_local: float  # E = e^ε₀, rounded up
    expm1_eps: float  # e^ε − 1, rounded down
    exp_eps: float  # λ = e^ε, rounded down
    sizes: Array  # the absolute values of X in the extreme distributions (4.1)
    laws: Array  # probabilities of ± sizes (columns), for X and −X (rows)
    variance: float  # I, the largest variance of X
    refinement: float  # V(H) is computed from ends that are smaller than needed by this factor

    @classmethod
    def of(
        cls, reports: int, local_epsilon: float, epsilon: float, refinement: float = 1.0
    ) -> "_Question":  # fmt: skip
        """Return the numbers; a larger ε₀ and a smaller ε only make δ larger."""
        expm1_local = up(math.expm1(local_epsilon), roundings=8)
        big = math.nextafter(1 + expm1_local, math.inf)
        # λ is a little smaller, and λ − 1 is then a difference without rounding.
        lam = max(1.0, math.nextafter(1 + math.expm1(epsilon) * (1 - slack(8)), 0.0))
        expm1_eps = lam - 1
        sizes = np.array([1.0, 1 / big, lam, lam / big, expm1_eps / big, expm1_eps])
        laws = _laws(big)
        squares = laws[:4] @ np.tile(sizes**2, 2)
        return cls(
            reports,
            expm1_local,
            big,
            expm1_eps,
            lam,
            sizes,
            laws,
            up(float(squares.max()), roundings=32),
            refinement,
        )

    @property
    def drift(self) -> float:
        """The number d = (e^ε − 1)/(e^ε₀ − 1), rounded down."""
        return self.expm1_eps / self.expm1_local * (1 - slack(4))


def _laws(big: float) -> Array:
    """Return the probabilities of each size and of minus each size, for E = `big` (4.1)."""
    pair = 1 / (big + 1)
    singles = 1 / (big + 2)
    doubles = 1 / (2 * big + 1)
    # Columns 0 to 5: 1, 1/E, λ, λ/E, (λ − 1)/E, λ − 1. Columns 6 to 11: minus these.
    laws = np.zeros((4, 12))
    laws[0, [0, 7]] = [pair, big * pair]
    laws[1, [8, 3]] = [pair, big * pair]
    laws[2, [0, 8, 4]] = [singles, singles, big * singles]
    laws[3, [11, 3, 7]] = [doubles, big * doubles, big * doubles]
    return np.concatenate((laws, np.roll(laws, 6, axis=1)))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def swap_chain_delta(
    reports: int, local_epsilon: float, epsilon: float, *, refinement: float = 1.0
) -> float:  # fmt: skip
    """Return an upper bound of δ(ε) for n reports of any ε₀-DP randomizers, or infinity.

    With a larger `refinement`, V(H) is known at smaller H, and the bound is a little smaller;
    certificates prove the bound without it.
    """
    known = _FEWEST_REPORTS <= reports <= _MOST_REPORTS
    if not (known and 1e-9 <= local_epsilon <= _LARGEST_LOCAL_EPSILON):
        return math.inf
    asked = _Question.of(reports, local_epsilon, epsilon, refinement)
    if asked.expm1_eps >= asked.expm1_local / 2:
        return math.inf
    # The limit of many reports: charges are measured by it.
    deviation = math.sqrt(asked.variance * reports)
    excess = float(_excess(np.array([asked.drift * reports / deviation]))[0])
    likely = asked.expm1_local / reports * deviation * excess
    if likely < _LEAST_DELTA:
        return math.inf
    share = _SHARE * likely
    weights = _Weights.of(asked)
    main = _Main.of(asked, weights, share)
    if main is None:
        return math.inf
    allowed = share * reports / asked.expm1_local
    total = _positive_part(asked, weights, main, allowed) + main.lost
    # (4.10), whose last term is at most `share` by the choice of x.
    bound = up(asked.expm1_local / reports * total + share, roundings=64)
    return bound if math.isfinite(bound) else math.inf


def swap_chain_spread(reports: int, local_epsilon: float) -> float:
    """Return the standard deviation of the loss that Theorem N has in the limit of many reports."""
    big = math.exp(local_epsilon)
    variance = max(2 / (big + 2), 1 / big)
    return math.expm1(local_epsilon) * math.sqrt(variance / reports)


class _Weights(NamedTuple):
    """The weights of a pool; q(y) = m·y²/(2(y₂χ + by)) is the exponent of their deviations (4.5)."""

    pool: int  # m
    mean_square: float  # y₂ (4.4)
    variance: float  # y₂χ
    jump: float  # b

    @classmethod
    def of(cls, asked: _Question) -> "_Weights":
        """Return the weights of a pool of about 14·√(y₂n) people."""
        chi = up(asked.expm1_local**2 / asked.exp_local, roundings=8)
        mean_square = up(1 + chi / 4, roundings=8)
        pool = min(round(_POOL * math.sqrt(mean_square * asked.reports)), asked.reports // 4)
        jump = up(asked.exp_local * asked.expm1_local / 3, roundings=8)
        return cls(pool, mean_square, up(mean_square * chi, roundings=8), jump)

    def distance(self, depths: Array) -> Array:
        """Return y where the exponent q(y) is at least each of `depths`."""
        half = depths * self.jump / self.pool
        root = np.sqrt(half**2 + 2 * depths * self.variance / self.pool)
        return up(np.asarray(half + root), roundings=128)

    def beyond(self, distances: Array) -> Array:
        """Return T(y), an upper bound of E[(ζ² − y²)₊] (4.6)."""
        whole = self.variance + self.jump * distances
        depths = self.pool * distances**2 / (2 * whole)
        # q′(y).
        slopes = self.pool * distances * (self.variance + whole) / (2 * whole**2)
        return 4 * np.exp(-depths) * (distances / slopes + 1 / slopes**2)


class _Proxies(NamedTuple):
    """V(H), the least v with E[e^hX] ≤ e^(vh²/2) for |h| ≤ H, rounded up, at rising ends H."""

    ends: Array
    variances: Array

    @classmethod
    def of(cls, asked: _Question, top: float, bottom: float) -> "_Proxies":
        """Return V at ends from `bottom` or a smaller one up to `top` (4.11)."""
        factor = max(asked.refinement * top / bottom, 1.0)
        count = 2 + math.ceil(math.log(factor) / math.log(_RATIO))
        ends = top * _RATIO ** np.arange(1.0 - count, 1.0)
        squares = ends**2
        powers = np.multiply.outer(asked.sizes, ends)
        growth = np.expm1(powers)
        # exp(±x) − 1 ∓ x, and the rounding of both parts.
        above = (1 + slack(32)) * growth - (1 - slack(32)) * powers
        below = (1 + slack(32)) * powers - (1 - slack(32)) * (growth / (1 + growth))
        means = asked.laws @ np.concatenate((above, below))
        highest = up(means.max(axis=0) / squares, roundings=256)
        # C(h) is convex, hence largest at an end of a cell, and ln(1 + h²C)/h² falls with h.
        larger = np.maximum(highest[1:], highest[:-1])
        cells = 2 * np.log1p(squares[:-1] * larger) / squares[:-1]
        cells = up(cells, roundings=64)
        first = max(asked.variance, 2 * float(highest[0]))
        return cls(ends, np.maximum.accumulate(np.concatenate(([first], cells))))

    def at(self, reaches: Array) -> Array:
        """Return V at the next larger end of each of `reaches`, or infinity beyond the last end."""
        return np.append(self.variances, math.inf)[np.searchsorted(self.ends, reaches)]


class _Main(NamedTuple):
    """The people outside the pool, after the replacement of their terms by normal ones (4.7)."""

    people: int  # M
    noise: float  # v₀
    low: float  # 1 − x
    high: float  # 1 + x
    extra: float  # X_s
    most: float  # v̄
    lost: float  # the charge for windows

    @classmethod
    def of(cls, asked: _Question, weights: _Weights, share: float) -> "_Main | None":
        """Return the sum of all replacements, or None where weights or smoothing do not allow them."""
        people = asked.reports - 1 - weights.pool
        variance = asked.variance
        # x such that the rare event of (4.10) costs no more than `share`.
        worth = 2 * people * asked.exp_local * (asked.expm1_local - asked.expm1_eps)
        depth = math.log(max(worth / share, 2.0))
        deviation = float(weights.distance(np.array(depth)))
        if deviation >= _LARGEST_DEVIATION:
            return None
        high = up(1 + deviation, roundings=4)
        low = (1 - deviation) * (1 - slack(4))
        noise = _MAIN_NOISE * asked.exp_local * variance
        least = low**2 * variance * (1 - slack(8))
        whole = noise + least * people
        # The window K, such that the second term of (4.10) is about `share`.
        charge = high**2 * variance * (math.sqrt(whole) / least + 0.5 / math.sqrt(noise))
        edge = high * asked.exp_eps / math.sqrt(noise)
        inside = _deviations(charge * asked.expm1_local / (share * asked.reports))
        window = inside + edge
        top = up(window * high / math.sqrt(noise), roundings=64)
        bottom = window * high / math.sqrt(whole) * (1 - slack(64))
        ends, proxies = _Proxies.of(asked, top, bottom)
        # V from the last end below the window on.
        first = max(int(np.searchsorted(ends, bottom / _RATIO)) - 1, 0)
        ends = ends[first:]
        proxies = proxies[first:]
        # (4.12): e(τ) falls with τ, which falls along the ends, so the smaller τ of each cell counts.
        smoothing = up((window * high / ends) ** 2, roundings=32)
        rooms = 1 - high**2 * proxies / smoothing
        if not rooms[-1] > _LEAST_ROOM:
            return None
        more = up(proxies / rooms, roundings=64) - variance
        steps = float((-np.diff(smoothing) * more[1:]).sum())
        extra = up(float(more[-1]) + steps / least, roundings=8 * len(more))
        most = up(high**2 * (variance * people + extra), roundings=16)
        # φ(t) at t ≤ 37 has the roundings of its exponent t²/2.
        lost = up(charge * float(_density(np.array(window - edge))), roundings=1 << 14)
        return cls(people, noise, low, high, extra, most, lost)


def _positive_part(asked: _Question, weights: _Weights, main: _Main, allowed: float) -> float:
    """Return E[ℓ(Z)] of (4.10), from B(g) at the nodes that have enough smoothing, or infinity."""
    pool = weights.pool
    variance = asked.variance
    # v₂ is taken from the main part, which keeps 1 − θ of its variance (4.8).
    aside = min(_POOL_NOISE * asked.exp_local**2 * variance, 0.25 * main.most)
    smooth = main.noise + aside
    root_smooth = math.sqrt(smooth)
    kept = math.sqrt(1 - aside / main.most)
    root = math.sqrt(variance * main.people)
    deviation = kept * root
    centre = asked.drift * asked.reports
    spread = math.sqrt(smooth + (pool * weights.mean_square + 1) * variance)
    first = (centre - _deviations(spread / allowed) * spread) / deviation
    last = max(_deviations(math.sqrt(main.most) / allowed), centre / deviation) + 0.3
    nodes = np.linspace(first, last, _NODES)

    # γ and Y = E(1 + γ) of (4.8), as far as smoothing is enough for Y.
    sizes = abs(nodes) * deviation + centre
    shifts = abs(nodes * deviation - asked.drift * main.people) + slack(32) * sizes
    tilts = up(shifts * (asked.expm1_local / pool), roundings=8)
    scales = up(asked.exp_local * (1 + tilts), roundings=8)
    count = _leading(scales**2 * variance < 0.7 * smooth)
    if count < 2:
        return math.inf
    charge = (pool * weights.mean_square + 1) * variance / root_smooth
    window = _deviations(charge / allowed) + 1.2 * asked.exp_local * asked.exp_eps / root_smooth
    reaches = up(window * scales[:count] / root_smooth, roundings=16)
    top = float(reaches.max()) * (1 + slack(8))
    variances = _Proxies.of(asked, top, float(reaches.min()) / 2).at(reaches)
    rooms = 1 - up(scales[:count] ** 2 * variances / smooth, roundings=16)
    inside = window - scales[:count] * asked.exp_eps / root_smooth
    count = _leading((rooms > _LEAST_ROOM) & (inside > 1))
    if count < 2:
        return math.inf
    nodes = nodes[:count]

    # N, σ² and the charge for the window K₂ (4.8).
    people = up(pool * weights.mean_square * (1 + tilts[:count]) ** 2 + 1, roundings=16)
    squares = smooth + people * variances[:count] / rooms[:count]
    spreads = np.sqrt(up(squares, roundings=64))
    charges = people * variance * _density(inside[:count]) / (2 * root_smooth)

    # The deviation of the weights from their mean, up to y(g), and the rest of it (4.9).
    positive = np.maximum(nodes, 0.0)
    depths = math.log(max(deviation / allowed, 1.0)) + 1 - positive**2 / 2
    apart = weights.distance(np.maximum(depths, 2.0))
    factor = kept * positive / (2 * main.low)
    rises = factor * (main.high**2 * main.extra / root + root * apart**2)
    means = nodes * deviation - centre + rises + slack(64) * (sizes[:count] + rises)
    heights = spreads * _excess(-means / spreads) + charges
    heights += factor * root * weights.beyond(apart)
    heights = up(heights, roundings=1 << 14)
    return _chords(nodes, heights, math.sqrt(main.most))


def _leading(good: NDArray[np.bool_]) -> int:
    """Return the number of nodes that are good, and all nodes before them as well."""
    return int(np.logical_and.accumulate(good).sum())


def _chords(nodes: Array, heights: Array, steepest: float) -> float:
    """Return an upper bound of E[f(Z)] for a convex, rising f with these heights at the nodes.

    Beyond the last node, the slope of f is at most `steepest`.
    """
    tails = _excess(nodes)
    abs_errors = slack(32) * ((nodes**2 + 8) * _density(nodes) + tails)
    widths = np.diff(nodes)
    slopes = np.diff(heights) / widths
    sums = (heights[1:] + heights[:-1]) / widths
    shares = tails[:-1] - tails[1:]
    first = heights[0] + steepest * tails[-1]
    total = first + (slopes * shares).sum()
    # Roundings of the tails, of the slopes and of the sum.
    errors = abs_errors[:-1] + abs_errors[1:]
    total += (abs(slopes) * errors).sum()
    total += slack(16) * (sums * abs(shares)).sum()
    whole = first + abs(slopes * shares).sum()
    return float(total + slack(8 * _NODES) * whole)


def _density(points: Array) -> Array:
    return np.exp(-0.5 * np.square(points)) / math.sqrt(2 * math.pi)


def _deviations(odds: float) -> float:
    """Return about the t with φ(t)·odds = 1, at least one."""
    height = max(odds / math.sqrt(2 * math.pi), 1.0)
    return math.sqrt(max(2 * math.log(height), 1.0))


def _excess(points: Array) -> Array:
    """Return E[(Z − t)₊] = φ(t) − t·Φ(−t) at each t in `points`, rounded up."""
    points = np.minimum(points, FARTHEST)
    arguments = (points / math.sqrt(2)).tolist()
    tails = 0.5 * np.array([math.erfc(argument) for argument in arguments])
    density = _density(points)
    values = density - points * tails
    size = (points**2 + 8) * density + abs(values)
    return values + slack(8) * size
