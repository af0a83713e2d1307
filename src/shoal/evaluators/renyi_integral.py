"""The Rényi divergence of n reports of which some may be anybody's, as an integral of their privacy profile.

With both directions of the pair, for every order α > 1 and without any cancellation,

    exp((α − 1)·D_α) − 1  =  α(α − 1)·∫ exp((α − 1)x)·δ(x) + exp(−αx)·δ'(x) dx   over x > 0,

where δ' is the profile of the other direction. δ is convex as a function of e^x, so that between two knots it lies
below its chord, and the integral of a chord is known in closed form. Three kinds of cells:

* those that can be shown to hardly matter, by Chernoff's inequality. With one tilt, the logarithm of that bound is
  convex in e^x, too, and lies below the chord of its own. Cells are divided until most are of this kind;
* the others, where the tilted losses are: few knots, where they matter most, each with δ from a sum along a contour.

Everything is in logarithms: at large orders a δ of exp(−10⁵) may be what matters. docs/theory/numerics.md has the
proofs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.contour import log_ceilings
from shoal.evaluators.tilted import Tilted
from shoal.rounding import slack, up

__all__ = ["Kinds", "integrated"]

Array = NDArray[np.float64]

_CHORDS, _SMOOTHING, _LEFT_OUT = 4e-5, 2e-5, 3e-5
"""What chords, smoothing and cells without knots may add to the divergence, relatively, about."""
_LARGEST_ERROR = 0.2
"""What smoothing may add to the moment itself, where its logarithm is large."""
_MOST_KNOTS, _TOGETHER, _ALIKE = 600, 48, 1.6
"""Knots in all; those that share nodes, and the largest ratio of their tilts,"""
_SMALL, _UNLIKE = 8, 8.0
"""or a larger one, for so few of them."""
_MOST_TERMS = 50_000
"""Of one sum for all knots that share its nodes."""
_FLAT = 1e-6
"""What slopes are at least, so that they have logarithms."""
_LAST = 1e-6
"""Of ε₀: so far before it the last point is."""
_PASSES, _PARTS = 24, 4
"""How often cells are divided, and into how many parts,"""
_STEEP, _BULGE = 2.0, 0.5
"""if the logarithm of the integrand changes by more than this, or may be larger inside than at the ends by more."""


class Kinds(NamedTuple):
    """The kinds of reports, and how many there are.

    Attributes
    ----------
    reports : int
        n.
    firsts, seconds : numpy.ndarray
        ln R₀/ω and ln R₁/ω of each kind.
    probabilities : numpy.ndarray
        ω of each kind.
    missing : float
        What these leave of one, for reports that neither input has.
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
        """The largest ln R₀/R₁, rounded up."""
        return up(float((self.firsts - self.seconds).max()), roundings=4)

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        return math.sqrt(float((self.probabilities * self.values(np.zeros(1))[:, 0] ** 2).sum()) / self.reports)

    def values(self, points: Array) -> Array:
        """Return W of each kind (row) at each ε (column)."""
        with np.errstate(over="ignore"):
            return np.asarray(
                -np.exp(self.firsts)[:, None] * np.expm1(points + (self.seconds - self.firsts)[:, None])
            )  # fmt: skip

    def tilted(self, points: Array) -> Tilted:
        """Return the tilted distributions of W at each ε, the largest value first and the least one second."""
        values = self.values(points)
        order = np.argsort(-values, axis=0, kind="stable")
        order = np.concatenate((order[:1], order[-1:], order[1:-1]))
        values = np.take_along_axis(values, order, axis=0)
        units = values[0] - values[1]
        return Tilted(
            self.reports,
            values / units,
            self.probabilities[order],
            missing=np.full(len(points), self.missing),
            means=-np.expm1(points) / units,
            scales=units / self.reports,
        )

    def log_chernoff(self, points: Array, tilts: Array) -> Array:
        """Return logarithms of upper bounds of δ at each ε from E[(S)₊] ≤ M(θ)ⁿ/(eθ), with all rounding in them."""
        powers = tilts * self.values(points)
        weights = self.probabilities[:, None]
        growth = np.expm1(powers)
        excess = (weights * (growth - powers)).sum(axis=0) - np.expm1(points) * tilts
        size = (weights * (np.abs(growth) + 2 * np.abs(powers))).sum(axis=0) + np.abs(np.expm1(points)) * tilts
        wrong = slack(64 + 2 * len(weights)) * size
        logs = self.reports * np.log1p(excess + wrong) - np.log(self.reports * tilts) - 1
        return np.asarray(logs + slack(64) * (8 + np.abs(logs)))


class _Cells(NamedTuple):
    """Cells between points, with what is known of the integrand at the points and in the cells.

    Attributes
    ----------
    points, tilts : numpy.ndarray
        ε, and the tilts that are good there.
    heights : numpy.ndarray
        Roughly the logarithm of the integrand at each.
    most : numpy.ndarray
        Logarithms of upper bounds of the integral over each cell.
    """

    points: Array
    tilts: Array
    heights: Array
    most: Array

    @property
    def rough(self) -> Array:
        """Roughly the logarithm of the integral over each cell."""
        widths = np.diff(self.points)
        return np.asarray(np.log(widths) + np.logaddexp(self.heights[1:], self.heights[:-1]) - math.log(2))


class _Direction(NamedTuple):
    """The integral of δ(x)·Σ exp(kx) over these exponents k, for x from 0 to ε₀."""

    kinds: Kinds
    ceiling: float
    exponents: tuple[float, ...]

    @property
    def log_factor(self) -> float:
        """The logarithm of α(α − 1)."""
        rate = max(self.exponents[0], -self.exponents[0] - 1)
        return math.log(rate) + math.log(rate + 1)

    def weights(self, points: Array) -> Array:
        """Return log Σ exp(kx)."""
        return np.asarray(np.logaddexp.reduce([each * points for each in self.exponents]))

    def _looked_at(self, points: Array) -> tuple[Array, Array]:
        """Return good tilts, and roughly the logarithm of the integrand."""
        with np.errstate(all="ignore"):
            rows = self.kinds.tilted(points)
            sharp = 2.5 * rows.tilts * rows.deviations
            heights = rows.log_moments + np.log(rows.scales / rows.tilts / np.maximum(sharp, math.e))
        tilts = rows.tilts / (rows.scales * self.kinds.reports)
        return tilts, heights + self.weights(points)

    def _bounds(self, points: Array, tilts: Array) -> tuple[Array, Array]:
        """Return logarithms of upper bounds of the integral over each cell, by Chernoff's inequality, and their bulges.

        The tilt is that of the left end. The logarithm of the bound lies below its chord in e^x; plus kx, that is
        largest at an end or, for k > 0, where the derivative is zero. A bulge is how far it is above both ends there.
        """
        left, right, same = points[:-1], points[1:], tilts[:-1]
        with np.errstate(all="ignore"):
            first, second = self.kinds.log_chernoff(left, same), self.kinds.log_chernoff(right, same)
            second = np.where(np.isnan(second), first, np.minimum(second, first))
            growth = np.expm1(right - left)
            slopes = (second - first) / growth
            totals = highest = np.full(len(left), -math.inf)
            for each in self.exponents:
                share = np.zeros(len(left))
                if each > 0:
                    share = np.clip(np.where(slopes < 0, -each / slopes - 1, growth), 0.0, growth)
                inside = each * (left + np.log1p(share)) + first + slopes * share
                ends = np.maximum(each * left + first, each * right + second)
                totals = np.logaddexp(totals, np.maximum(inside, ends))
                highest = np.logaddexp(highest, ends)
            bulges = totals - highest
            totals = totals + np.log(right - left)
            totals += slack(64) * (8 + max(map(abs, self.exponents)) * right + np.abs(first) + np.abs(second))
            return np.where(np.isnan(totals), math.inf, totals), bulges

    def _first_points(self) -> Array:
        """Return points between which cells are divided: around the usual losses, and at both ends."""
        spread, top = self.kinds.spread, self.ceiling
        centre = max(self.exponents[0], 0.0) * spread**2
        around = centre + spread * np.arange(-8.0, 8.1)
        shares = 2.0 ** -np.arange(1.0, 16.0)
        ends = np.concatenate((top * shares, top * (1 - shares), spread * np.arange(0.0, 8.1)))
        points = np.unique(np.concatenate((ends, around)))
        points = points[(points >= 0) & (points < top * (1 - _LAST))]
        # Slopes between points that are too close are noise.
        apart = np.append(True, np.diff(points) > min(0.1 * spread, 2.0**-17 * top))
        return np.append(points[apart], top * (1 - _LAST))

    def cells(self) -> _Cells:
        """Return cells that either hardly matter or are narrow."""
        points = self._first_points()
        tilts, heights = self._looked_at(points)
        most, bulges = self._bounds(points, tilts)
        for _ in range(_PASSES):
            cells = _Cells(points, tilts, heights, most)
            total = float(np.logaddexp.reduce(cells.rough))
            left_out = _LEFT_OUT * _allowed(self.log_factor + total)
            matters = most > total + _log_expm1(left_out) - math.log(len(most))
            wide = (np.abs(np.diff(heights)) > _STEEP) | (bulges > _BULGE)
            divided = np.flatnonzero(matters & wide & (np.diff(points) > 1e-12 * points[1:]))
            if not len(divided):
                break
            shares = np.arange(1, _PARTS) / _PARTS
            added = (points[divided, None] + np.multiply.outer(np.diff(points)[divided], shares)).ravel()
            new_tilts, new_heights = self._looked_at(added)
            places = np.searchsorted(points, added)
            points, tilts = np.insert(points, places, added), np.insert(tilts, places, new_tilts)
            heights = np.insert(heights, places, new_heights)
            most, bulges = self._bounds(points, tilts)
        return _Cells(points, tilts, heights, most)

    def total(self, cells: _Cells, relative: float) -> float:
        """Return the logarithm of an upper bound of the integral, whose logarithm may be about so much too large."""
        rough = float(np.logaddexp.reduce(cells.rough))
        order = np.argsort(cells.most)
        sums = np.logaddexp.accumulate(cells.most[order])
        out = int(np.searchsorted(sums, rough + _log_expm1(_LEFT_OUT * relative)))
        parts = [float(sums[out - 1])] if out else []
        inside = np.ones(len(order), dtype=bool)
        inside[order[:out]] = False
        edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False])).astype(np.int8)))
        runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        knots = self._knots(cells, runs, rough + _log_expm1(_CHORDS * relative))
        uppers = (
            self._uppers(np.concatenate(knots), min(_SMOOTHING * relative, _LARGEST_ERROR)) if runs else np.zeros(0)
        )
        start = 0
        for each in knots:
            logs = uppers[start : start + len(each)]
            start += len(each)
            parts.append(self._polygon(each, logs))
        # δ is zero at ε₀.
        last = cells.points[-1:]
        log_last = self.kinds.log_chernoff(last, cells.tilts[-1:])
        if runs and runs[-1][1] == len(order):
            log_last = uppers[-1:]
        parts.append(self._polygon(np.append(last, self.ceiling), np.append(log_last, -math.inf)))
        return float(np.logaddexp.reduce(parts)) + slack(64 + 2 * len(order))

    def _knots(self, cells: _Cells, runs: list[tuple[int, int]], log_allowed: float) -> list[Array]:
        """Return knots in each run of cells, so that their chords add about what is allowed.

        With ρ the density of the tilted losses, a chord of width h adds about ρ·h³/12·exp(κh/6), where κ is how fast
        weight and δ change. This is best the same for all; all knots together then fix what it is.
        """
        points, heights = cells.points, cells.heights
        slopes = np.abs(np.gradient(heights - self.weights(points), points)) + _FLAT
        logs = heights + np.log(slopes**2 + slopes)
        rates = (slopes + abs(self.exponents[0])) / 18
        count, sums = 100.0, [np.zeros(1)]
        for _ in range(4):
            # h³·exp(κh/6) = C/ρ for the width h, as u + ln u = y with u = κh/18.
            known = (log_allowed + math.log(12) - math.log(count) - logs) / 3 + np.log(rates)
            share = np.where(known > 1, np.maximum(known, 1.0), np.exp(np.minimum(known, 1.0)))
            for _ in range(4):
                share = share * (1 + known - np.log(share)) / (1 + share)
            steps = np.diff(points) * 0.5 * (rates[1:] / share[1:] + rates[:-1] / share[:-1])
            sums = [np.concatenate(([0.0], np.cumsum(steps[first:last]))) for first, last in runs]
            count = min(max(float(sum(each[-1] for each in sums)), 4.0), _MOST_KNOTS)
        result = []
        for (first, last), each in zip(runs, sums, strict=True):
            number = 2 + math.ceil(min(float(each[-1]), _MOST_KNOTS))
            knots = np.interp(np.linspace(0.0, each[-1], number), each, points[first : last + 1])
            knots[0], knots[-1] = points[first], points[last]
            result.append(np.unique(knots))
        return result

    def _uppers(self, knots: Array, smoothing: float) -> Array:
        """Return logarithms of upper bounds of δ at each knot."""
        rows = self.kinds.tilted(knots)
        tilts = rows.tilts / (rows.scales * self.kinds.reports)
        with np.errstate(all="ignore"):
            result = self.kinds.log_chernoff(knots, tilts)
        start = 0
        while start < len(knots):
            spreads = np.maximum(tilts[start:] / tilts[start], tilts[start] / tilts[start:])
            length = max(_first(spreads > _ALIKE), min(_first(spreads > _UNLIKE), _SMALL))
            stop = start + min(_TOGETHER, length)
            with np.errstate(all="ignore"):
                logs = log_ceilings(self.kinds.tilted(knots[start:stop]), smoothing, _MOST_TERMS)
            result[start:stop] = np.fmin(result[start:stop], logs)
            start = stop
        return result

    def _polygon(self, knots: Array, logs: Array) -> float:
        """Return the logarithm of the integral of the polygon, in e^x, through these values, rounded up."""
        left, right, widths = knots[:-1], knots[1:], np.diff(knots)
        total = -math.inf
        for each in self.exponents:
            rate = max(each, -each - 1)  # the larger of the two exponentials behind a hat has this rate, plus one
            if each > 0:
                near, small, great = right, _geometric(each, widths), _geometric(each + 1, widths)
            else:
                near, small, great = left, _geometric(rate, widths), _geometric(rate + 1, widths)
            doubt = slack(32) * (small + great)
            share = -np.expm1(-widths)
            far = (small - great + doubt) / share
            close = (great - np.exp(-widths) * small + doubt) / share
            first, second = (far, close) if each > 0 else (close, far)
            heights, powers = np.logaddexp(logs[:-1] + np.log(first), logs[1:] + np.log(second)), each * near
            rounding = slack(32) * (8 + np.abs(powers) + np.where(np.isfinite(heights), np.abs(heights), 0.0))
            total = np.logaddexp(total, np.logaddexp.reduce(powers + heights + rounding))
        return float(total)


def _first(where: NDArray[np.bool_]) -> int:
    """Return the first index at which this is so, or the length."""
    return int(where.argmax()) if where.any() else len(where)


def _geometric(rate: float, widths: Array) -> Array:
    """Return ∫ exp(−rate·r) dr from 0 to each width."""
    return np.asarray(-np.expm1(-rate * widths) / rate)


def integrated(kinds: Kinds, ceiling: float, order: float, *, symmetric: bool) -> float:
    """Return an upper bound of D_α(P‖Q), about 1e-4 above at most.

    Parameters
    ----------
    kinds : Kinds
        What n > 1 reports are.
    ceiling : float
        ε₀.
    order : float
        α > 1.
    symmetric : bool
        Whether both directions are the same.
    """
    # Each direction has its own largest loss, beyond which δ is zero.
    if symmetric:
        ways = [_Direction(kinds, ceiling, (order - 1, -order))]
    else:
        ways = [
            _Direction(way, min(way.reach, ceiling), (exponent,))
            for way, exponent in ((kinds, order - 1), (kinds.swapped, -order))
        ]
    found = [(way, way.cells()) for way in ways]
    factor = ways[0].log_factor
    rough = factor + float(np.logaddexp.reduce(np.concatenate([cells.rough for _, cells in found])))
    totals = [way.total(cells, _allowed(rough)) for way, cells in found]
    log_excess = factor + float(np.logaddexp.reduce(totals))
    return _log1p_exp(log_excess + slack(64)) / (order - 1) * (1 + slack(64))


def _allowed(log_excess: float) -> float:
    """Return what the logarithm of E may change by for log(1 + E) to change by as much as itself."""
    return _log1p_exp(log_excess) * (1 + math.exp(-max(log_excess, -600.0))) if log_excess > -30 else 1.0


def _log_expm1(x: float) -> float:
    return math.log(math.expm1(x)) if x < 30 else x


def _log1p_exp(x: float) -> float:
    return math.log1p(math.exp(x)) if x < 30 else x + math.exp(-x)
