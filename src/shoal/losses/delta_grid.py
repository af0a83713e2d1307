"""δ(ε) of a pair on a grid ε = 0, h, 2h, …: what its loss distribution is made from."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.evaluators.atoms import atom_brackets, atoms_of
from shoal.evaluators.contour import plan, positive_parts
from shoal.evaluators.hockey_stick import delta_bracket, has_clones
from shoal.evaluators.window import clone_window
from shoal.pairs.pair import ClonePair, Pair

__all__ = ["DeltaGrid", "Mesh", "grid_of", "pair_grid", "thinned"]

_ATOMS_A_POINT = 5_000
"""So many atoms take as long as one sum over the clones."""
_NODES_A_POINT = 2_500
"""And so many nodes of the inversion sum."""
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
    """Ask at every so many points only, and bound δ between them by its convexity in e^ε.

    It lies below the chord of the two points, and above the chords beside it, continued.
    """
    coarse = grid_of(bracket, mesh._replace(step=mesh.step * stride))
    count = len(coarse.upper)
    if count < 4:
        return grid_of(bracket, mesh)
    knots = np.exp(coarse.step * np.arange(count))
    points = np.exp(mesh.step * np.arange(stride * (count - 1) + 1))
    upper = np.interp(points, knots, coarse.upper) * (1 + 2.0**-48)
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
        lower[inside] = np.maximum(lower[inside], np.maximum(left, right) - 2.0**-46 * before[cell])
    return DeltaGrid(mesh.step, np.minimum(np.maximum(lower, 0.0), upper), upper)


def pair_grid(pair: Pair, mesh: Mesh) -> DeltaGrid:
    """Return the grid of a pair, by the fastest of three ways."""

    def alone(epsilon: float) -> tuple[float, float]:
        return delta_bracket(pair, epsilon, tolerance=mesh.tolerance) if epsilon < mesh.ceiling else (0.0, 0.0)

    if pair.reports == 1 or not has_clones(pair):
        return grid_of(alone, mesh)
    guess = 1.05 * pair.guess(max(math.exp(-mesh.depth), 1e-300))[0] + 8 * mesh.step
    count = max(2, min(mesh.most, math.ceil(guess / mesh.step)))
    if isinstance(pair, ClonePair):
        if atoms_of(pair, mesh.depth) < _ATOMS_A_POINT * count:
            return _cut(*atom_brackets(pair, mesh.step, count, mesh.depth), pair, mesh)
        halfway = min(mesh.ceiling, guess) / 2
        if (
            clone_window(pair, halfway).is_short
            and plan(pair.distribution(halfway), mesh.tolerance).size > _NODES_A_POINT
        ):
            return grid_of(alone, mesh)
    first = pair.distribution(0.0)
    spread = first.scale * first.spread  # the standard deviation of the loss
    ends: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    start = 0
    while start < mesh.most and (not ends or ends[-1][1][-1] > math.exp(-mesh.depth)):
        # Rows that share nodes must have similar tilts, which grow with ε + (the spread).
        rows = 1 + min(_ROWS - 1, int(0.5 * (start + spread / mesh.step)))
        points = [mesh.step * index for index in range(start, min(start + rows, mesh.most))]
        distributions = [pair.distribution(point) for point in points if point < mesh.ceiling]
        if not distributions:
            break
        alike = next(
            (
                k
                for k, distribution in enumerate(distributions)
                if distribution.probabilities != distributions[0].probabilities
            ),
            len(distributions),
        )
        ends.append(positive_parts(distributions[:alike], tolerance=mesh.tolerance))
        start += alike
    lower, upper = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return _cut(lower, upper, pair, mesh)


def _cut(lower: NDArray[np.float64], upper: NDArray[np.float64], pair: Pair, mesh: Mesh) -> DeltaGrid:
    """Return the grid within what one report alone has, with a zero where nothing is beyond."""
    alone = np.array([pair.advantage(mesh.step * index) for index in range(len(upper))]) * (1 + 2.0**-50)
    upper = np.minimum(np.where(np.isnan(upper), math.inf, upper), alone)
    lower = np.where(np.isnan(lower), 0.0, np.minimum(lower, upper))
    if len(upper) < mesh.most and len(upper) * mesh.step >= mesh.ceiling:
        lower, upper = np.append(lower, 0.0), np.append(upper, 0.0)
    return DeltaGrid(mesh.step, lower, upper)
