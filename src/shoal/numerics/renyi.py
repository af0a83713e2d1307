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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.contour import Tilted, log_ceilings
from shoal.numerics.divergence import divergence as delta_bracket
from shoal.numerics.divergence import listing_is_faster
from shoal.numerics.summand import Summand
from shoal.rounding import down, slack, up

__all__ = [
    "Kinds",
    "KindsIntegral",
    "ProfileIntegral",
    "chords",
    "divergence",
    "divergences",
    "moment_excess",
    "renyi_upper",
]

Array = NDArray[np.float64]
Exponents = Sequence[float | Array]
"""α − 1, or −α, or both; as arrays, one entry per order."""

_CELLS = 60
"""A cell may have one part in this many of the allowed error: more cells are slower and tighter."""
_TRIANGLE = 3.0
"""The lines (3.4) lie below a parabola three times as far from its chord as the parabola itself."""
_MOST_PARTS = 4
"""A cell is divided into at most this many parts: more need fewer passes, but may be wasted."""
_MOST_KNOTS = 1_000
"""Cells are not divided further beyond this many knots: more are slower and tighter."""
_NARROWEST = 1e-9
"""Cells narrower than this part of x are not divided, because rounding changes δ inside by more."""

_SMALLEST_LISTED = 1e-280
"""A smaller sum of listed counts may have lost terms to underflow, and is not used."""
_SHARED_KNOTS = 16
"""How many knots share the nodes of a contour: more need fewer calls, but more nodes for each."""
_SHARED_TILTS = 1.6
"""The largest ratio of the tilts of knots that share nodes: a larger one needs more nodes."""
_MOST_TERMS = 50_000
"""The most terms of one contour sum, about 5 ms: one with more is smoothed more and enlarges δ."""

_SMALLEST_CEILING = 1e-130
"""For smaller ε₀ the square of ε₀, over n, may underflow, and the answer is ε₀ itself."""
_LARGEST_CEILING = 680.0
"""For larger ε₀ exponentials overflow, and the answer is ε₀ itself."""
_LARGEST_LIKELIHOOD = 350.0
"""If ln(R/ω) is larger, squares of W overflow. Almost nothing is hidden, and ε₀ is the answer."""
_LARGEST_ORDER = 1e12
"""At larger orders D_α equals ε₀ to many digits, and ε₀ is the answer."""
_LARGEST_POWER = 500.0
"""If α·ε₀ is larger, the moment of one report overflows, and its logarithm is computed instead."""


class ProfileIntegral(ABC):
    """The integral of δ(x)·Σ exp(kx) over the exponents k, for x from 0 to `ceiling` (3.1).

    Parameters
    ----------
    ceiling : float
        δ is zero from this ε on.
    exponents : sequence of (float or numpy.ndarray)
        k; as arrays, one entry per order.
    """

    chorded: float = 5e-5
    """About the relative error of D_α by chords: the number of knots grows like 1/√ of it."""
    smoothed: float = 2e-5
    """About the relative error of δ at the knots: less takes more nodes or more counts."""

    def __init__(self, ceiling: float, exponents: Exponents) -> None:
        self.ceiling = ceiling
        self.exponents = exponents

    @property
    @abstractmethod
    def spread(self) -> float:
        """Roughly the standard deviation of the privacy loss."""

    @abstractmethod
    def rough(self, points: Array) -> Array:
        """Return roughly log δ at each point; it decides only where the knots are."""

    @abstractmethod
    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot."""


class _Cells:
    """The cells between points, with the integrals over each cell at each order.

    Attributes
    ----------
    points, logs : numpy.ndarray
        x from 0 to the ceiling, and log δ there.
    upper, lower : numpy.ndarray
        Logarithms of the integrals over each cell (column) at each order (row): of the chords
        (3.3), and of the lines (3.4) that lie below δ.
    """

    def __init__(self, integral: ProfileIntegral, profile: Callable[[Array], Array], points: Array) -> None:
        self.exponents = tuple(np.reshape(each, (-1, 1)) for each in integral.exponents)
        self.profile = profile
        self.points = points
        self.logs = np.append(profile(points[:-1]), -math.inf)
        self._integrate()

    def _integrate(self) -> None:
        left = self.points[:-1]
        right = self.points[1:]
        # δ ≤ 1, and δ does not grow with x. This also replaces bounds that are not known.
        logs = np.fmin.accumulate(np.fmin(self.logs, 0.0))
        self.upper = _chords(self.exponents, left, right, logs[:-1], logs[1:])
        with np.errstate(all="ignore"):
            middles, heights = _below(self.points, logs)
            first = _chords(self.exponents, left, middles, logs[:-1], heights)
            second = _chords(self.exponents, middles, right, heights, logs[1:])
        self.lower = np.minimum(np.logaddexp(first, second), self.upper)

    def divide(self, log_allowed: Array) -> bool:
        """Divide each cell that has more than its share of the allowed error at any order.

        Return whether there was such a cell.
        """
        # How much too large each cell may be, over what is allowed, at the worst order.
        with np.errstate(all="ignore"):
            excess = self.upper + np.log(-np.expm1(self.lower - self.upper))
            log_errors = np.fmax.reduce(excess - log_allowed[:, None], axis=0, initial=-math.inf)
        log_errors += math.log(_CELLS)
        widths = np.diff(self.points)
        wide = (log_errors > 0) & (widths > _NARROWEST * self.points[1:])
        if not wide.any() or len(self.points) > _MOST_KNOTS:
            return False
        # A narrow cell in m parts has m errors of one part in m³ each (3.5).
        parts = np.ceil(np.exp(np.minimum(log_errors, 30.0) / 3))
        parts[(self.upper - self.lower).max(axis=0) > 1] = _MOST_PARTS
        parts = np.where(wide, np.clip(parts, 2, _MOST_PARTS), 1)
        added = [
            start + width * np.arange(1.0, count) / count
            for start, width, count in zip(self.points[:-1], widths, parts, strict=True)
        ]
        new = np.concatenate(added)
        places = np.searchsorted(self.points, new)
        self.points = np.insert(self.points, places, new)
        self.logs = np.insert(self.logs, places, self.profile(new))
        self._integrate()
        return True


def _below(points: Array, logs: Array) -> tuple[Array, Array]:
    """Return where the lines (3.4) that lie below δ meet in each cell, and their logarithm there.

    Slopes are in units of δ and τ = e^x at the left end of the cell. Before the first
    cell the slope is at least −1, and after the last one δ is zero.
    """
    steps = np.diff(logs)
    widths = np.diff(points)
    lengths = np.expm1(widths)
    slopes = np.expm1(steps) / lengths
    # One slope in units of the cell before, over the same slope in units of the cell itself.
    units = np.exp(steps - widths)[:-1]
    before = np.append(-np.exp(points[0] - logs[0]), slopes[:-1] / units)
    after = np.append(slopes[1:] * units, 0.0)
    # s − s₋ and s₊ − s of (3.4); negative ones come from errors of δ.
    left = np.maximum(slopes - before, 0.0)
    right = np.maximum(after - slopes, 0.0)
    share = np.where(right > 0, 1 / (1 + left / right), 0.5)
    gaps = np.where(np.isinf(left), right, left * share)
    gaps = np.where(right > 0, gaps, 0.0)
    # Both parts of the cell need a width.
    share = np.clip(share, 1e-3, 1 - 1e-3)
    heights = 1 + lengths * (slopes * share - gaps)
    middles = points[:-1] + np.log1p(lengths * share)
    return middles, logs[:-1] + np.log(np.maximum(heights, 0.0))


def chords(exponents: Exponents, knots: Array, logs: Array) -> Array:
    """Return logarithms of the integrals of Σ exp(kx) times the chords between knots, rounded up.

    The chords are linear in e^x and have these values of log δ at the knots.
    """
    return _chords(exponents, knots[:-1], knots[1:], logs[:-1], logs[1:])


def _chords(exponents: Exponents, left: Array, right: Array, log_left: Array, log_right: Array) -> Array:
    """Return the logarithms of the integrals over cells with these ends, rounded up (3.3)."""
    widths = right - left
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
        powers = exponent * (right if rising else left)
        size = np.abs(powers) + np.where(np.isfinite(heights), np.abs(heights), 0.0)
        total = np.logaddexp(total, powers + heights + slack(32) * (8 + size))
    return np.asarray(total)


def divergences(integrals: Sequence[ProfileIntegral], orders: Array) -> Array:
    """Return upper bounds of D_α(P‖Q) at each order (3.1).

    Parameters
    ----------
    integrals : sequence of ProfileIntegral
        One with both exponents, or one for each direction.
    orders : numpy.ndarray
        α > 1, for which the exponents are.
    """
    log_factors = np.log(orders) + np.log(orders - 1)
    accuracy = integrals[0].chorded
    # Rough values of δ show where knots are needed, so that most close ones are asked at once.
    rough = [_Cells(each, each.rough, _first_points(each)) for each in integrals]
    _refine(rough, log_factors, accuracy)
    cells = []
    for integral, part in zip(integrals, rough, strict=True):
        cells.append(_Cells(integral, integral.close, part.points))
    log_integrals = _refine(cells, log_factors, 2 * accuracy)
    # Logarithms that are added one after the other have errors of their own size.
    roundings = 128 + 2 * sum(len(part.points) for part in cells)
    size = 8 + np.abs(log_factors) + np.abs(log_integrals)
    log_excess = log_factors + log_integrals + slack(roundings) * size
    return np.asarray(np.logaddexp(0.0, log_excess) / (orders - 1) * (1 + slack(64)))


def divergence(integrals: Sequence[ProfileIntegral], order: float) -> float:
    """Return an upper bound of D_α(P‖Q) at one order."""
    return float(divergences(integrals, np.array([order]))[0])


def _first_points(integral: ProfileIntegral) -> Array:
    """Return 0, and the ceiling divided by powers of eight, down to less than the spread."""
    ratio = max(4 * integral.ceiling / integral.spread, 2.0)
    steps = math.ceil(math.log2(ratio) / 3)
    return np.concatenate(([0.0], integral.ceiling * 8.0 ** np.arange(-steps, 0.5)))


def _refine(parts: Sequence[_Cells], log_factors: Array, accuracy: float) -> Array:
    """Divide cells until each adds little to D_α; return the logarithms of the integrals."""
    while True:
        cells = np.concatenate([part.upper for part in parts], axis=1)
        log_integrals = np.asarray(np.logaddexp.reduce(cells, axis=1))
        rel_error = _TRIANGLE * accuracy * _sensitivity(log_factors + log_integrals)
        # The lower end is to be exp(−error) of the upper end.
        log_allowed = log_integrals + np.log(-np.expm1(-rel_error))
        divided = [part.divide(log_allowed) for part in parts]
        if not any(divided):
            return log_integrals


def _sensitivity(log_excess: Array) -> Array:
    """Return the change of ln E that changes ln(1 + E) by as much as itself (3.6)."""
    with np.errstate(over="ignore"):
        change = np.logaddexp(0.0, log_excess) * (1 + np.exp(-log_excess))
    return np.where(log_excess > -30, change, 1.0)


class Kinds(NamedTuple):
    """The kinds of reports, and how many reports there are.

    Attributes
    ----------
    reports : int
        n.
    firsts, seconds : numpy.ndarray
        ln(R₀/ω) and ln(R₁/ω) of each kind.
    probabilities : numpy.ndarray
        ω of each kind.
    missing : float
        The probability that these leave of one, of reports that neither input has.
    """

    reports: int
    firsts: Array
    seconds: Array
    probabilities: Array
    missing: float

    @property
    def swapped(self) -> "Kinds":
        """The other direction."""
        return self._replace(firsts=self.seconds, seconds=self.firsts)

    @property
    def reach(self) -> float:
        """The largest ln(R₀/R₁), rounded up."""
        return up(float((self.firsts - self.seconds).max()), roundings=4)

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the privacy loss."""
        values = self.values(np.zeros(1))[:, 0]
        return math.sqrt(float((self.probabilities * values**2).sum()) / self.reports)

    def values(self, points: Array) -> Array:
        """Return W of each kind (row) at each ε (column)."""
        with np.errstate(over="ignore"):
            ratios = np.expm1(points + (self.seconds - self.firsts)[:, None])
            return np.asarray(-np.exp(self.firsts)[:, None] * ratios)

    def _sorted(self, points: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return W with the largest value first and the smallest one second, and their kinds."""
        values = self.values(points)
        order = np.argsort(-values, axis=0, kind="stable")
        order = np.concatenate((order[:1], order[-1:], order[1:-1]))
        return np.take_along_axis(values, order, axis=0), order

    def tilted(self, points: Array) -> Tilted:
        """Return the tilted distributions of W at each ε."""
        values, order = self._sorted(points)
        units = values[0] - values[1]
        return Tilted(
            self.reports,
            values / units,
            self.probabilities[order],
            missing=np.full(len(points), self.missing),
            means=-np.expm1(points) / units,
            scales=units / self.reports,
        )

    def summand(self, point: float) -> Summand:
        """Return the distribution of W at one ε."""
        values, order = self._sorted(np.array([point]))
        unit = float(values[0, 0] - values[1, 0])
        return Summand(
            self.reports,
            unit / self.reports,
            tuple((values[:, 0] / unit).tolist()),
            tuple(self.probabilities[order[:, 0]].tolist()),
            -math.expm1(point) / unit,
            zero=self.missing,
        )


class KindsIntegral(ProfileIntegral):
    """The integral for given kinds of reports."""

    def __init__(self, kinds: Kinds, ceiling: float, exponents: Exponents) -> None:
        super().__init__(ceiling, exponents)
        self.kinds = kinds

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the privacy loss."""
        return self.kinds.spread

    def rough(self, points: Array) -> Array:
        """Return roughly log δ at each point, by the saddle point."""
        with np.errstate(all="ignore"):
            rows = self.kinds.tilted(points)
            # √(2π)·θ·σ, or e where the sum has only a few values.
            sharpness = 2.5 * rows.tilts * rows.deviations
            factors = rows.scales / rows.tilts / np.maximum(sharpness, math.e)
            return np.asarray(rows.log_moments + np.log(factors))

    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot.

        If counts are few, they are listed for each knot. Otherwise knots share a contour.
        """
        # ε minus a log-ratio has an error of a few units of ε, and a smaller ε has a larger δ.
        knots = down(knots, roundings=16)
        with np.errstate(all="ignore"):
            rows = self.kinds.tilted(knots)
            # Chernoff's bound (3.7).
            logs = rows.log_moments + np.log(rows.scales / rows.tilts) - 1
            logs += rows.moment_errors + slack(64) * (8 + np.abs(logs) + np.abs(rows.log_moments))
            found = self._listed(knots)
            log_tilts = np.log(rows.tilts / rows.scales)
            # Each group of knots with similar tilts shares the nodes of section 2.
            left = np.flatnonzero(np.isinf(found))
            while len(left):
                far = np.abs(log_tilts[left] - log_tilts[left[0]]) > math.log(_SHARED_TILTS)
                length = int(np.argmax(far)) if far.any() else len(left)
                some = left[: min(length, _SHARED_KNOTS)]
                rows = self.kinds.tilted(knots[some])
                found[some] = log_ceilings(rows, self.smoothed, _MOST_TERMS)
                left = left[len(some) :]
        return np.asarray(np.fmin(logs, found))

    def _listed(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ by listed counts, infinite if there are none."""
        middle = self.kinds.summand(float(knots[len(knots) // 2]))
        # One knot decides for all, so that all bounds have the same quality.
        if not listing_is_faster(middle, self.smoothed):
            return np.full(len(knots), math.inf)
        deltas = np.empty(len(knots))
        for index, knot in enumerate(knots.tolist()):
            deltas[index] = delta_bracket(self.kinds.summand(knot), tolerance=self.smoothed)[1]
        return np.where(deltas > _SMALLEST_LISTED, np.log(deltas) + slack(8), math.inf)


def renyi_upper(kinds: Kinds, ceiling: float, orders: Array, *, symmetric: bool) -> Array:
    """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order, about 2e-4 too large.

    Parameters
    ----------
    kinds : Kinds
        What the n reports are.
    ceiling : float
        ε₀, which no divergence exceeds.
    orders : numpy.ndarray
        Each greater than 1.
    symmetric : bool
        Whether both directions are the same.
    """
    result = np.full_like(orders, ceiling)
    if not _SMALLEST_CEILING < ceiling < _LARGEST_CEILING:
        return result
    asked = orders <= _LARGEST_ORDER
    some = orders[asked]
    likelihood = max(float(kinds.firsts.max()), float(kinds.seconds.max()))
    if kinds.reports == 1:
        values = np.array([_alone(kinds, order) for order in some.tolist()])
    elif likelihood > _LARGEST_LIKELIHOOD or not len(some):
        return result
    elif symmetric:
        values = divergences([KindsIntegral(kinds, ceiling, (some - 1, -some))], some)
    else:
        # Each direction has its own largest loss, from which on δ is zero.
        there = KindsIntegral(kinds, min(kinds.reach, ceiling), (some - 1,))
        back = KindsIntegral(kinds.swapped, min(kinds.swapped.reach, ceiling), (-some,))
        values = divergences([there, back], some)
    result[asked] = np.fmin(values, ceiling)
    return result


def _alone(kinds: Kinds, order: float) -> float:
    """Return the divergence of a single report (3.8), rounded up."""
    ratios = kinds.firsts - kinds.seconds
    if order * float(np.abs(ratios).max()) < _LARGEST_POWER:
        excess = float(moment_excess(ratios, order) @ (kinds.probabilities * np.exp(kinds.seconds)))
        # Nothing cancels in g, so that small divergences have all their digits.
        excess = up(excess, roundings=64 + 4 * len(ratios))
        return up(math.log1p(excess) / (order - 1), roundings=16)
    # The same sum of powers, as a logarithm.
    logs = np.log(kinds.probabilities) + order * kinds.firsts - (order - 1) * kinds.seconds
    highest = float(logs.max())
    total = highest + math.log(float(np.exp(logs - highest).sum()))
    size = order * float(np.abs(kinds.firsts).max() + np.abs(kinds.seconds).max())
    total += slack(32) * (len(logs) + 8 + size)
    return up(max(total, 0.0) / (order - 1), roundings=16)


def moment_excess(logs: Array, order: float) -> Array:
    """Return r^α − 1 − α(r − 1), rounded up, given ln r with an error of a few units of r itself."""
    power = np.expm1(order * logs)
    excess = np.expm1(logs)
    line = order * excess
    abs_error = slack(64) * (np.abs(power) + np.abs(line) + order * np.abs(power - excess))
    return np.asarray(np.maximum(power - line, 0.0) + abs_error)
