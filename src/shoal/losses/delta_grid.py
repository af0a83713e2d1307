"""δ(ε) of a pair on a grid ε = 0, h, 2h, …: what its loss distribution comes from."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.contour import positive_parts
from shoal.evaluators.distribution import Distribution
from shoal.rounding import slack, up

__all__ = ["DeltaGrid", "Mesh", "capped", "distribution_grid", "grid_of", "thinned"]

_ROWS = 16
"""How many neighbouring points share the nodes of the inversion sum."""
_MOST_POINTS = 50_000


class DeltaGrid(NamedTuple):
    """Lower and upper bounds of δ at 0, h, 2h, …; at the last point δ has become negligible, or nothing is beyond."""

    step: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Mesh(NamedTuple):
    """How fine a grid is, and how far it goes.

    Attributes
    ----------
    step : float
        h.
    ceiling : float
        No loss is greater, or nobody cares what is beyond.
    depth : float
        The grid ends where δ ≤ exp(−depth), too.
    tolerance : float
        How much smoothing may add to δ, relatively.
    """

    step: float
    ceiling: float
    depth: float
    tolerance: float = 1e-9

    @property
    def most(self) -> int:
        """How many points there are at most; the last one is at the ceiling or beyond it."""
        return min(math.ceil(self.ceiling / self.step) + 1, _MOST_POINTS)


def grid_of(bracket: Callable[[float], tuple[float, float]], mesh: Mesh) -> DeltaGrid:
    """Ask for one point after the other, until δ ≤ exp(−depth) or ε ≥ ceiling."""
    ends = []
    for index in range(mesh.most):
        ends.append(bracket(index * mesh.step))
        if ends[-1][1] <= math.exp(-mesh.depth):
            break
    lower, upper = np.array(ends).T
    return DeltaGrid(mesh.step, lower, upper)


def thinned(bracket: Callable[[float], tuple[float, float]], mesh: Mesh, stride: int) -> DeltaGrid:
    """Ask at one point in `stride` only, and bound δ between them by its convexity in e^ε.

    It lies below the chord of the two points, and above the neighbouring chords, continued.
    """
    coarse = grid_of(bracket, mesh._replace(step=mesh.step * stride))
    count = len(coarse.upper)
    if count < 4:
        return grid_of(bracket, mesh)
    knots = np.exp(coarse.step * np.arange(count))
    points = np.exp(mesh.step * np.arange(stride * (count - 1) + 1))
    upper = up(np.interp(points, knots, coarse.upper), roundings=32)
    # The slopes on the left of each cell, from below (at 0, that of the mirror image), and on the right, from above.
    mirrored = 1 - (1 - coarse.upper[1]) / knots[1]
    before = np.concatenate(([mirrored], coarse.upper[:-2]))
    widths = np.diff(knots)
    falls = (coarse.lower[:-1] - before) / np.concatenate(([1 - 1 / knots[1]], widths[:-1]))
    rises = np.append((coarse.upper[2:] - coarse.lower[1:-1]) / widths[1:], 0.0)
    lower = np.zeros(len(points))
    for cell in range(count - 1):
        inside = slice(cell * stride, (cell + 1) * stride + 1)
        left = coarse.lower[cell] + falls[cell] * (points[inside] - knots[cell])
        right = coarse.lower[cell + 1] - rises[cell] * (knots[cell + 1] - points[inside])
        lower[inside] = np.maximum(lower[inside], np.maximum(left, right) - slack(128) * before[cell])
    return DeltaGrid(mesh.step, np.minimum(np.maximum(lower, 0.0), upper), upper)


def distribution_grid(
    distribution: Callable[[float], Distribution], mesh: Mesh
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of δ at every point, by inversion; neighbouring points share their nodes."""
    first = distribution(0.0)
    spread = first.scale * first.spread  # the standard deviation of the loss
    ends: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    start = 0
    while start < mesh.most and (not ends or ends[-1][1][-1] > math.exp(-mesh.depth)):
        # Rows that share nodes must have similar tilts, which grow with ε + (the spread).
        count = 1 + min(_ROWS - 1, int(0.5 * (start + spread / mesh.step)))
        points = [mesh.step * index for index in range(start, min(start + count, mesh.most))]
        rows = [distribution(point) for point in points if point < mesh.ceiling]
        if not rows:
            break
        others = (index for index, row in enumerate(rows) if row.probabilities != rows[0].probabilities)
        alike = next(others, len(rows))
        ends.append(positive_parts(rows[:alike], tolerance=mesh.tolerance))
        start += alike
    lower, upper = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return lower, upper


def capped(
    lower: NDArray[np.float64], upper: NDArray[np.float64], advantage: Callable[[float], float], mesh: Mesh
) -> DeltaGrid:
    """Return the grid within what one report alone has, with a zero where nothing is beyond."""
    alone = up(np.array([advantage(mesh.step * index) for index in range(len(upper))]), roundings=8)
    upper = np.minimum(np.where(np.isnan(upper), math.inf, upper), alone)
    lower = np.where(np.isnan(lower), 0.0, np.minimum(lower, upper))
    if len(upper) < mesh.most and len(upper) * mesh.step >= mesh.ceiling:
        lower, upper = np.append(lower, 0.0), np.append(upper, 0.0)
    return DeltaGrid(mesh.step, lower, upper)
