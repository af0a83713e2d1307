"""The Rényi divergence of n reports of which some may be anybody's, as an integral of their privacy profile.

By Chernoff's inequality δ is quickly bounded. With one tilt, the logarithm of that bound is convex in e^x, too, and
lies below the chord of its own. Close bounds of δ come from sums along a contour. docs/theory/numerics.md has the
proofs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.contour import log_ceilings
from shoal.numerics.profile_integral import ProfileIntegral, divergence
from shoal.numerics.tilted import Tilted
from shoal.rounding import slack, up

__all__ = ["Kinds", "KindsIntegral", "integrated"]

Array = NDArray[np.float64]

_TOGETHER, _ALIKE = 48, 1.6
"""Knots that share nodes, and the largest ratio of their tilts,"""
_SMALL, _UNLIKE = 8, 8.0
"""or a larger one, for so few of them."""
_CLONES, _CHORDED = 2, 2.5e-4
"""With more kinds than clones have, a knot takes longer; what chords may add to the divergence, where both sides of the
bell of tilted losses are above zero, so that as good a polygon takes twice as many knots."""
_MOST_TERMS = 50_000
"""Of one sum for all knots that share its nodes."""


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


class KindsIntegral(ProfileIntegral):
    """The integral of δ(x)·Σ exp(kx) for such reports; what is known of a point is a good tilt."""

    def __init__(self, kinds: Kinds, ceiling: float, exponents: tuple[float, ...]) -> None:
        super().__init__(ceiling, exponents)
        self.kinds = kinds
        if len(kinds.probabilities) > _CLONES and abs(exponents[0]) * kinds.spread > 1:
            self.chorded = _CHORDED

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        return self.kinds.spread

    def looked_at(self, points: Array) -> tuple[Array, Array]:
        """Return good tilts, and roughly the logarithm of δ."""
        with np.errstate(all="ignore"):
            rows = self.kinds.tilted(points)
            sharp = 2.5 * rows.tilts * rows.deviations
            logs = rows.log_moments + np.log(rows.scales / rows.tilts / np.maximum(sharp, math.e))
        return rows.tilts / (rows.scales * self.kinds.reports), np.asarray(logs)

    def quick(self, points: Array, known: Array) -> Array:
        """Return Chernoff's bounds."""
        with np.errstate(all="ignore"):
            return self.kinds.log_chernoff(points, known)

    def bounds(self, points: Array, known: Array) -> tuple[Array, Array]:
        """Return logarithms of upper bounds of the integral over each cell, by Chernoff's inequality, and their bulges.

        The tilt is that of the left end. The logarithm of the bound lies below its chord in e^x; plus kx, that is
        largest at an end or, for k > 0, where the derivative is zero. A bulge is how far it is above both ends there.
        """
        left, right, same = points[:-1], points[1:], known[:-1]
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

    def close(self, knots: Array, smoothing: float) -> Array:
        """Return logarithms of upper bounds of δ at each knot, from sums along a contour."""
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


def _first(where: NDArray[np.bool_]) -> int:
    """Return the first index at which this is so, or the length."""
    return int(where.argmax()) if where.any() else len(where)


def integrated(kinds: Kinds, ceiling: float, order: float, *, symmetric: bool) -> float:
    """Return an upper bound of D_α(P‖Q), about 1e-4 above at most; 3e-4 at large orders for more kinds than two.

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
        ways = [KindsIntegral(kinds, ceiling, (order - 1, -order))]
    else:
        ways = [
            KindsIntegral(way, min(way.reach, ceiling), (exponent,))
            for way, exponent in ((kinds, order - 1), (kinds.swapped, -order))
        ]
    return divergence(ways, order)
