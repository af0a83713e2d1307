"""log δ(ε) of normal noise near one ε, to about six digits and without bounds: where to look for an answer."""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.complex_near_zero import expm1, log1p
from shoal.numerics.noise_contour import NormalSum
from shoal.numerics.normal_disc import Disc
from shoal.numerics.normal_rays import rule

__all__ = ["NormalSketch"]

_NODES, _ALONG, _PANELS = 6, 5, 12
"""Nodes of a panel of s, those of a panel of t, and panels of t."""
_COUNTS = 1e-8
"""Panels with less than this part of the largest one are left out."""

Complex = NDArray[np.complex128]


class NormalSketch:
    """Nodes of a path, as good for one ε as for those around it.

    Parameters
    ----------
    total : NormalSum
        At this ε.
    """

    def __init__(self, total: NormalSum) -> None:
        self.rays, self.reports = total.rays, total.reports
        self.missing, self.rest = total.missing, math.erf(total.rays.half / math.sqrt(2))
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            path = total.path(total.efforts[0])
            count = len(path.centres) - 2
            centres, steps = path.centres[:count], path.steps[:count]
            ones = np.ones(count)
            halves = [
                Disc(centres, 0 * ones, edges[:count], angles[:count], total.start * ones, gain * ones)
                for edges, angles, gain in zip((path.upper, path.lower), path.angles, (total.gain, -1.0), strict=True)
            ]
            # In the middles first, to see which panels count.
            self._take(halves, centres[:, None], (2 * steps / centres**2)[:, None], 3)
            terms = self._terms(total.start, total.gain)[:, 0]
            sizes = np.where(steps.imag == 0, np.abs(terms.imag), np.abs(terms))
            kept = np.flatnonzero(sizes > _COUNTS * sizes.max())
            nodes, weights, _ = rule(_NODES)
            points = centres[kept][:, None] + steps[kept][:, None] * nodes
            self._take(
                [half.chosen(kept) for half in halves], points, steps[kept][:, None] * weights / points**2, _ALONG
            )

    def _take(self, halves: list[Disc], points: Complex, weights: Complex, count: int) -> None:
        """Take these points, with so many nodes of t; the second half is the same for every ε."""
        self.points, self.weights = points, weights
        (ratios, self.masses), (others, masses) = (self.rays.nodes(half, _PANELS, count)[:2] for half in halves)
        self.ratios, self.edges = ratios - 1, halves[0].edges
        self.second = self.rays.plainly(-points, halves[1].edges)
        self.second += (np.exp(-points[:, :, None] * (others - 1)[:, None, :]) @ masses[:, :, None])[:, :, 0]

    def _terms(self, start: float, gain: float) -> Complex:
        """Return the integrand at the nodes, times their weights."""
        moved = gain * self.points
        first = (np.exp(moved[:, :, None] * self.ratios[:, None, :]) @ self.masses[:, :, None])[:, :, 0]
        first += self.rays.plainly(moved, self.edges)
        away = self.reports * log1p(np.exp(start * self.points) * (first + self.second) / self.rest)
        small = np.abs(away) < 0.5
        near = math.exp(self.missing) * expm1(np.where(small, away, 0.0))
        return np.asarray(np.where(small, near, np.exp(self.missing + away) - math.exp(self.missing)) * self.weights)

    def log_delta(self, epsilon: float) -> float:
        """Return log δ at an ε nearby, or minus infinity."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            total = float(self._terms(math.expm1(-epsilon), math.exp(-epsilon)).imag.sum())
        return math.log(total / (math.pi * self.reports)) + epsilon if total > 0 else -math.inf
