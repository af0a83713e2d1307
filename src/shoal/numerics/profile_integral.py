"""The Rényi divergence of a pair as an integral of its privacy profile, from upper bounds of δ at few points.

With both directions of the pair, for every order α > 1 and without any cancellation,

    exp((α − 1)·D_α) − 1  =  α(α − 1)·∫ exp((α − 1)x)·δ(x) + exp(−αx)·δ'(x) dx   over x > 0,

where δ' is the profile of the other direction. δ is convex as a function of e^x, so that between two knots it lies
below its chord, and the integral of a chord is known in closed form. Two kinds of cells:

* those that can be shown to hardly matter, by a bound of δ that is quick. Cells are divided until most are of this
  kind;
* the others, where the tilted losses are: few knots, where they matter most, each with a bound of δ that is close.

Everything is in logarithms: at large orders a δ of exp(−10⁵) may be what matters. docs/theory/numerics.md has the
proofs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack

__all__ = ["ProfileIntegral", "chords", "divergence"]

Array = NDArray[np.float64]

_LARGEST_ERROR = 0.2
"""What smoothing may add to the moment itself, where its logarithm is large."""
_MOST_KNOTS = 600
_FLAT = 1e-6
"""What slopes are at least, so that they have logarithms."""
_LAST = 1e-6
"""Of ε₀: so far before it the last point is."""
_PASSES, _PARTS = 24, 4
"""How often cells are divided, and into how many parts,"""
_STEEP, _BULGE = 2.0, 0.5
"""if the logarithm of the integrand changes by more than this, or may be larger inside than at the ends by more."""


class _Cells(NamedTuple):
    """Cells between points, with what is known of the integrand at the points and in the cells.

    Attributes
    ----------
    points, known : numpy.ndarray
        ε, and what the quick bounds come from there.
    heights : numpy.ndarray
        Roughly the logarithm of the integrand at each.
    most : numpy.ndarray
        Logarithms of upper bounds of the integral over each cell.
    """

    points: Array
    known: Array
    heights: Array
    most: Array

    @property
    def rough(self) -> Array:
        """Roughly the logarithm of the integral over each cell."""
        widths = np.diff(self.points)
        return np.asarray(np.log(widths) + np.logaddexp(self.heights[1:], self.heights[:-1]) - math.log(2))


class ProfileIntegral(ABC):
    """The integral of δ(x)·Σ exp(kx) over these exponents k, for x from 0 to ε₀.

    Parameters
    ----------
    ceiling : float
        ε₀, from which on δ is zero.
    exponents : tuple of float
        α − 1, or −α, or both.
    """

    chorded: float = 4e-5
    smoothed: float = 2e-5
    left_out: float = 3e-5
    """What chords, smoothing and cells without knots may add to the divergence, relatively, about."""

    def __init__(self, ceiling: float, exponents: tuple[float, ...]) -> None:
        self.ceiling, self.exponents = ceiling, exponents

    @property
    @abstractmethod
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""

    @abstractmethod
    def looked_at(self, points: Array) -> tuple[Array, Array]:
        """Return what quick bounds come from at each point, and roughly the logarithm of δ."""

    @abstractmethod
    def quick(self, points: Array, known: Array) -> Array:
        """Return logarithms of upper bounds of δ, from what is known there."""

    @abstractmethod
    def bounds(self, points: Array, known: Array) -> tuple[Array, Array]:
        """Return logarithms of quick upper bounds of the integral over each cell, and how much too large they may be.

        The second is about by how much the logarithm of the integrand may be larger inside than at both ends.
        """

    @abstractmethod
    def close(self, knots: Array, smoothing: float) -> Array:
        """Return logarithms of close upper bounds of δ at each knot."""

    @property
    def log_factor(self) -> float:
        """The logarithm of α(α − 1)."""
        rate = max(self.exponents[0], -self.exponents[0] - 1)
        return math.log(rate) + math.log(rate + 1)

    def weights(self, points: Array) -> Array:
        """Return log Σ exp(kx)."""
        return np.asarray(np.logaddexp.reduce([each * points for each in self.exponents]))

    def _first_points(self) -> Array:
        """Return points between which cells are divided: around the usual losses, and at both ends."""
        spread, top = self.spread, self.ceiling
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
        known, logs = self.looked_at(points)
        heights = logs + self.weights(points)
        most, bulges = self.bounds(points, known)
        for _ in range(_PASSES):
            cells = _Cells(points, known, heights, most)
            total = float(np.logaddexp.reduce(cells.rough))
            left_out = self.left_out * _allowed(self.log_factor + total)
            matters = most > total + _log_expm1(left_out) - math.log(len(most))
            wide = (np.abs(np.diff(heights)) > _STEEP) | (bulges > _BULGE)
            divided = np.flatnonzero(matters & wide & (np.diff(points) > 1e-12 * points[1:]))
            if not len(divided):
                break
            shares = np.arange(1, _PARTS) / _PARTS
            added = (points[divided, None] + np.multiply.outer(np.diff(points)[divided], shares)).ravel()
            new_known, new_logs = self.looked_at(added)
            places = np.searchsorted(points, added)
            points, known = np.insert(points, places, added), np.insert(known, places, new_known)
            heights = np.insert(heights, places, new_logs + self.weights(added))
            most, bulges = self.bounds(points, known)
        return _Cells(points, known, heights, most)

    def total(self, cells: _Cells, relative: float) -> float:
        """Return the logarithm of an upper bound of the integral, whose logarithm may be about so much too large."""
        rough = float(np.logaddexp.reduce(cells.rough))
        order = np.argsort(cells.most)
        sums = np.logaddexp.accumulate(cells.most[order])
        out = int(np.searchsorted(sums, rough + _log_expm1(self.left_out * relative)))
        parts = [float(sums[out - 1])] if out else []
        inside = np.ones(len(order), dtype=bool)
        inside[order[:out]] = False
        edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False])).astype(np.int8)))
        runs = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        knots = self._knots(cells, runs, rough + _log_expm1(self.chorded * relative))
        smoothing = min(self.smoothed * relative, _LARGEST_ERROR)
        uppers = self.close(np.concatenate(knots), smoothing) if runs else np.zeros(0)
        start = 0
        for each in knots:
            logs = uppers[start : start + len(each)]
            start += len(each)
            parts.append(float(np.logaddexp.reduce(chords(self.exponents, each, logs))))
        # δ is zero at ε₀.
        last = cells.points[-1:]
        log_last = self.quick(last, cells.known[-1:])
        if runs and runs[-1][1] == len(order):
            log_last = uppers[-1:]
        ends = np.append(last, self.ceiling), np.append(log_last, -math.inf)
        parts.append(float(chords(self.exponents, *ends)[0]))
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


def chords(exponents: tuple[float, ...], knots: Array, logs: Array) -> Array:
    """Return the logarithms of the integrals of the chords, in e^x, between these values of log δ, rounded up."""
    left, right, widths = knots[:-1], knots[1:], np.diff(knots)
    total = np.full(len(widths), -math.inf)
    for each in exponents:
        rate = max(each, -each - 1)  # the larger of the two exponentials behind a hat has this rate, plus one
        if each > 0:
            near, small, great = right, _geometric(each, widths), _geometric(each + 1, widths)
        else:
            near, small, great = left, _geometric(rate, widths), _geometric(rate + 1, widths)
        doubt = slack(32) * (small + great)
        share = -np.expm1(-widths)
        far = (small - great + doubt) / share
        close = (great - np.exp(-widths) * small + doubt) / share
        first, second = (far, close) if each > 0 else (close, np.exp(-widths) * far)
        heights, powers = np.logaddexp(logs[:-1] + np.log(first), logs[1:] + np.log(second)), each * near
        rounding = slack(32) * (8 + np.abs(powers) + np.where(np.isfinite(heights), np.abs(heights), 0.0))
        total = np.logaddexp(total, powers + heights + rounding)
    return total


def _geometric(rate: float, widths: Array) -> Array:
    """Return ∫ exp(−rate·r) dr from 0 to each width."""
    return np.asarray(-np.expm1(-rate * widths) / rate)


def divergence(ways: Sequence[ProfileIntegral], order: float) -> float:
    """Return an upper bound of D_α(P‖Q), given the integrals that it is made of: one, or one for each direction."""
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
