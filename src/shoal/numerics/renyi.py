"""Upper bounds of the Rényi divergence D_α of n shuffled reports, by an integral of their profile.

δ is convex as a function of e^x, so between two knots it lies below its chord, whose integral has a
closed form. Every choice of knots therefore gives an upper bound (docs/theory/numerics.md, section
3). Cells between knots are divided until the chords are close to lines that lie below δ. All orders
of one question share their knots.

Numbers are kept as logarithms, because at large orders a δ of exp(−10⁵) may decide the answer.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from shoal.arrays import Array
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.contour import log_ceilings
from shoal.numerics.divergence import divergence as delta_bracket
from shoal.numerics.divergence import listing_is_faster
from shoal.numerics.summand import Summand, Tilted
from shoal.rounding import down, slack, up

Exponents = Sequence[float | Array]
"""α − 1, or −α, or both; as arrays, one entry per order."""
Profile = Callable[[Array], Array]
"""log δ at each ε."""
Distribution = Callable[[float], Summand]
"""The distribution of W at ε."""
Brackets = Callable[[Array, float], tuple[Array, Array]]
"""Lower and upper bounds of δ at ascending ε, with a relative error of about a tolerance."""

_CELLS = 100
"""A cell may have one part in this many of the allowed error: more cells are slower and tighter."""
_MOST_PARTS = 4
"""A cell is divided into at most this many parts: more need fewer passes, but may be wasted."""
_MOST_KNOTS = 1_000
"""Cells are not divided further beyond this many knots: more are slower and tighter."""
_SMALLEST_LISTED = 1e-280
"""A smaller sum of listed counts may have lost terms to underflow, and is not used."""
_SHARED_KNOTS = 16
"""How many knots share the nodes of a contour: more need fewer calls, but more nodes for each."""
_SHARED_TILTS = 1.6
"""The largest ratio of the tilts of knots that share nodes: a larger one needs more nodes."""
_MOST_TERMS = 100_000
"""The most terms of one contour sum, about 10 ms: one with more is smoothed more and enlarges δ."""
_SMALLEST_CEILING = 1e-130
"""For smaller ε₀ the square of ε₀, over n, may underflow, and the answer is ε₀ itself."""
_LARGEST_POWER = 500.0
"""Powers above exp(500) are replaced by their logarithms, which are a little too large."""
_SMALLEST_EXCESS = -690.0
"""The least logarithm of exp((α − 1)·D_α) − 1; a smaller one, whose power underflows, is enlarged."""


class ProfileIntegral(ABC):
    """The integral of δ(x)·Σ exp(kx) over the exponents k, for x from 0 to `ceiling` (3.1).

    δ is zero from the ε `ceiling` on.
    """

    chorded: float = 8e-5
    """About the relative error of D_α by chords: the number of knots grows like 1/√ of it."""
    smoothed: float = 2e-5
    """About the relative error of δ at the knots: less takes more nodes or more counts."""

    def __init__(self, ceiling: float, exponents: Exponents) -> None:
        self.ceiling = ceiling
        self.exponents = exponents

    @abstractmethod
    def rough(self, points: Array) -> Array:
        """Return roughly log δ at each point; it decides only where the knots are."""

    @abstractmethod
    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot."""


class _Polygon:
    """log δ at knots from 0 to the ceiling, where it is −∞, and the integrals over their cells."""

    def __init__(self, exponents: Exponents, profile: Profile, knots: Array) -> None:
        self.exponents = [np.reshape(each, (-1, 1)) for each in exponents]
        self.profile = profile
        self.knots = knots
        self.logs = np.append(profile(knots[:-1]), -math.inf)

    def integrals(self) -> tuple[Array, Array]:
        """Return logarithms of the integral of each chord, and of about how much too large it is.

        Rows are orders, and columns are cells.
        """
        # δ ≤ 1, and δ does not grow with x. This also replaces bounds that are not known.
        logs = np.fmin.accumulate(np.fmin(self.logs, 0.0))
        gaps = _log_gaps(self.knots, logs)
        # A parabola is, on average, a sixth of the gap below its chord.
        errors = chords(self.exponents, self.knots, gaps, gaps) - math.log(6)
        return chords(self.exponents, self.knots, logs[:-1], logs[1:]), errors

    def divide(self, log_excesses: Array) -> bool:
        """Divide each cell whose error is too large; return whether there was one.

        `log_excesses` are the logarithms of the error of each cell over its share.
        """
        wide = log_excesses > 0
        if not wide.any() or len(self.knots) > _MOST_KNOTS:
            return False
        # A cell in m parts has m errors of one part in m³ each (3.5).
        parts = np.ceil(np.exp(np.minimum(log_excesses, 30.0) / 3))
        parts = np.where(wide, np.clip(parts, 2, _MOST_PARTS), 1)
        inner = [
            start + (end - start) * np.arange(1.0, count) / count
            for start, end, count in zip(self.knots[:-1], self.knots[1:], parts, strict=True)
        ]
        new = np.concatenate(inner)
        places = np.searchsorted(self.knots, new)
        self.knots = np.insert(self.knots, places, new)
        self.logs = np.insert(self.logs, places, self.profile(new))
        return True


def _log_gaps(knots: Array, logs: Array) -> Array:
    """Return the logarithm of how far δ is below its chord in each cell, at most (3.4).

    Slopes are in units of δ and τ = e^x at the left end of the cell. Before the first
    cell the slope is at least −1, and after the last one δ is zero.
    """
    with np.errstate(all="ignore"):
        steps = np.diff(logs)
        widths = np.diff(knots)
        lengths = np.expm1(widths)
        slopes = np.expm1(steps) / lengths
        # One slope in units of the cell before, over the same slope in units of the cell itself.
        units = np.exp(steps - widths)[:-1]
        before = np.append(-np.exp(-logs[0]), slopes[:-1] / units)
        after = np.append(slopes[1:] * units, 0.0)
        # s − s₋ and s₊ − s of (3.4); negative ones come from errors of δ.
        left = np.maximum(slopes - before, 0.0)
        right = np.maximum(after - slopes, 0.0)
        gaps = np.where(right > 0, lengths * right / (1 + right / left), 0.0)
        return logs[:-1] + np.log(gaps)


def chords(exponents: Exponents, knots: Array, log_left: Array, log_right: Array) -> Array:
    """Return logarithms of the integrals of Σ exp(kx) times a line over each cell, rounded up (3.3).

    The lines are linear in e^x, and have these logarithms at the left and right end of each cell.
    """
    widths = np.diff(knots)
    falls = np.exp(-widths)
    share = -np.expm1(-widths)
    total: Array = np.asarray(-math.inf)
    for exponent in exponents:
        rising = bool(np.all(np.asarray(exponent) > 0))
        rate = exponent if rising else -exponent - 1
        # I(k) and I(k + 1) of (3.2).
        small = -np.expm1(-rate * widths) / rate
        large = -np.expm1(-(rate + 1) * widths) / (rate + 1)
        abs_error = slack(32) * (small + large)
        # The weights of the end where exp(kx) is small, and of the end where it is large.
        far = (small - large + abs_error) / share
        near = (large - falls * small + abs_error) / share
        first = far if rising else near
        second = near if rising else falls * far
        with np.errstate(divide="ignore"):
            heights = np.logaddexp(log_left + np.log(first), log_right + np.log(second))
        # exp(kx) at the end of the cell where it is largest.
        powers = exponent * (knots[1:] if rising else knots[:-1])
        size = np.where(np.isfinite(heights), abs(heights), 0.0)
        size = abs(powers) + size
        total = np.logaddexp(total, powers + heights + slack(32) * (8 + size))
    return total


def divergences(integrals: Sequence[ProfileIntegral], orders: Array) -> Array:
    """Return upper bounds of D_α(P‖Q) at each order α > 1 (3.1).

    There is one integral with both exponents of these orders, or one integral for each direction.
    """
    log_factors = np.log(orders) + np.log(orders - 1)
    accuracy = integrals[0].chorded
    # Rough values of δ show where knots are needed, so that most close ones are asked at once.
    rough = [_Polygon(each.exponents, each.rough, _first_knots(each)) for each in integrals]
    _refine(rough, log_factors, accuracy)
    polygons = []
    for each, placed in zip(integrals, rough, strict=True):
        polygons.append(_Polygon(each.exponents, each.close, placed.knots))
    cells = _refine(polygons, log_factors, 2 * accuracy)
    log_integrals = np.logaddexp.reduce(cells, axis=1)
    # Logarithms that are added one after the other have errors of their own size.
    roundings = 128 + 2 * cells.shape[1]
    size = 8 + abs(log_factors) + abs(log_integrals)
    return _of_excess(log_factors + log_integrals + slack(roundings) * size, orders)


def _of_excess(log_excess: Array, orders: Array) -> Array:
    """Return D_α at each order, rounded up, given ln(exp((α − 1)·D_α) − 1)."""
    log_moments = np.logaddexp(0.0, np.maximum(log_excess, _SMALLEST_EXCESS))
    return up(log_moments / (orders - 1), roundings=64)


def _first_knots(integral: ProfileIntegral) -> Array:
    """Return 0, and the ceiling divided by powers of eight, down to less than δ(0).

    That is about half a standard deviation of the privacy loss, below which δ is nearly a line.
    """
    log_start = float(integral.rough(np.zeros(1))[0])
    steps = math.ceil((math.log(integral.ceiling) - log_start) / math.log(8))
    return np.append(0.0, integral.ceiling * 8.0 ** np.arange(-max(steps, 1), 0.5))


def _refine(polygons: Sequence[_Polygon], log_factors: Array, accuracy: float) -> Array:
    """Divide cells until each adds little to D_α; return logarithms of all their integrals."""
    while True:
        found = [polygon.integrals() for polygon in polygons]
        cells = np.concatenate([values for values, _ in found], axis=1)
        log_integrals = np.logaddexp.reduce(cells, axis=1)
        # The relative error of exp((α − 1)·D_α) − 1 that changes D_α by `accuracy` (3.6).
        size = np.maximum(log_factors + log_integrals, -30.0)
        rel_error = accuracy * np.logaddexp(0.0, size) * (1 + np.exp(-size))
        log_share = log_integrals + np.log(-np.expm1(-rel_error) / _CELLS)
        divided = False
        for polygon, (_, errors) in zip(polygons, found, strict=True):
            divided |= polygon.divide(np.fmax.reduce(errors - log_share[:, None], axis=0))
        if not divided:
            return cells


class SummandIntegral(ProfileIntegral):
    """The integral of the δ that a distribution of W has, with as many values at every ε."""

    def __init__(self, distribution: Distribution, ceiling: float, exponents: Exponents) -> None:
        super().__init__(ceiling, exponents)
        self.distribution = distribution

    def _tilted(self, points: Array) -> Tilted:
        return Tilted.of([self.distribution(point) for point in points.tolist()])

    def rough(self, points: Array) -> Array:
        """Return roughly log δ at each point, by the saddle point (1.7)."""
        with np.errstate(all="ignore"):
            return np.asarray(self._tilted(points).estimates)

    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot.

        If counts are few, they are listed for each knot. Otherwise knots share a contour.
        """
        # ε minus a log-ratio has an error of a few units of ε, and a smaller ε has a larger δ.
        knots = down(knots, roundings=16)
        with np.errstate(all="ignore"):
            rows = self._tilted(knots)
            # Chernoff's bound (3.7).
            logs = rows.log_moments + np.log(rows.scales / rows.tilts) - 1
            size = 8 + abs(logs) + abs(rows.log_moments)
            logs += rows.moment_errors + slack(64) * size
            found = self._listed(knots)
            # Knots with similar tilts share the nodes of section 2.
            log_tilts = np.log(rows.tilts / rows.scales)
            left = np.flatnonzero(np.isinf(found))
            while len(left):
                far = abs(log_tilts[left] - log_tilts[left[0]]) > math.log(_SHARED_TILTS)
                some = left[~far][:_SHARED_KNOTS]
                found[some] = log_ceilings(self._tilted(knots[some]), self.smoothed, _MOST_TERMS)
                left = np.setdiff1d(left, some)
        return np.fmin(logs, found)

    def _listed(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ by listed counts, infinite if there are none."""
        # One knot decides for all, so that all bounds have the same quality.
        if not listing_is_faster(self.distribution(float(knots[len(knots) // 2])), self.smoothed):
            return np.full(len(knots), math.inf)
        deltas = np.empty(len(knots))
        for index, knot in enumerate(knots.tolist()):
            deltas[index] = delta_bracket(self.distribution(knot), tolerance=self.smoothed)[1]
        return np.where(deltas > _SMALLEST_LISTED, np.log(deltas) + slack(8), math.inf)


class BracketIntegral(ProfileIntegral):
    """The integral of the δ that brackets give; a δ below the smallest one counts as that."""

    def __init__(self, brackets: Brackets, ceiling: float, exponents: Exponents) -> None:
        super().__init__(ceiling, exponents)
        self._brackets = brackets

    def rough(self, points: Array) -> Array:
        """Return roughly log δ at each point."""
        return self._logs(points, 100 * self.smoothed)

    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot."""
        return self._logs(knots, self.smoothed)

    def _logs(self, points: Array, tolerance: float) -> Array:
        upper = self._brackets(points, tolerance)[1]
        return np.log(np.maximum(upper, SMALLEST_DELTA)) + slack(8)


def renyi_upper(ways: Sequence[tuple[Distribution, float]], orders: Array) -> Array:
    """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order, about 2e-4 too large.

    `ways` has the distribution of W and the largest loss, for each direction, or once if both
    directions are the same. A direction without a positive loss has no δ.
    """
    ceiling = max(largest for _, largest in ways)
    if ceiling < _SMALLEST_CEILING:
        return np.full_like(orders, ceiling)
    exponents: list[Exponents] = [(orders - 1, -orders)]
    if len(ways) > 1:
        exponents = [(orders - 1,), (-orders,)]
    integrals = []
    for way, powers in zip(ways, exponents, strict=True):
        if way[1] > 0:
            integrals.append(SummandIntegral(*way, powers))
    return np.fmin(divergences(integrals, orders), ceiling)


def one_report(firsts: Array, seconds: Array, probabilities: Array, orders: Array) -> Array:
    """Return the divergences of a single report at each order (3.8), rounded up.

    `firsts`, `seconds` and `probabilities` are ln(R₀/ω), ln(R₁/ω) and ω of each outcome.
    """
    ratios = firsts - seconds
    column = orders[:, None]
    with np.errstate(all="ignore"):
        powers = (column - 1) * ratios
        bounded = np.clip(powers, -_LARGEST_POWER, _LARGEST_POWER)
        # g(r)/max(r, 1) of (3.8), where nothing cancels unless r is near one.
        risen = np.exp(np.minimum(ratios, 0.0)) * np.expm1(bounded)
        line = (1 - column) * np.sign(ratios) * np.expm1(-abs(ratios))
        # ln r has an error of up to 64 u, and the power has the roundings of its exponent.
        abs_error = (column + abs(bounded)) * abs(risen)
        abs_error = slack(64) * (abs_error + abs(line))
        logs = np.log(np.maximum(risen - line, 0.0) + abs_error)
        # g(r) ≤ r^α for r ≥ 1.
        logs = np.where(powers < _LARGEST_POWER, logs, powers) + np.maximum(ratios, 0.0)
        logs += seconds + np.log(probabilities)
        # An outcome that both inputs have equally often adds nothing.
        size = np.where(np.isneginf(logs), 0.0, abs(logs))
        size += column * abs(ratios) + abs(seconds)
        logs += slack(64) * (8 + len(ratios) + size)
    return _of_excess(np.logaddexp.reduce(logs, axis=1), orders)
