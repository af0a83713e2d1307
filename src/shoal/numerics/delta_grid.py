"""δ(ε) of a pair on a grid ε = 0, h, 2h, …: what its loss distribution comes from."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.contour import positive_parts
from shoal.numerics.distribution import Distribution
from shoal.rounding import slack, up

__all__ = ["Brackets", "DeltaGrid", "Mesh", "cell_gaps", "distribution_brackets", "each", "grid_of", "remembered"]

_ROWS = 16
"""How many neighbouring points share the nodes of the inversion sum."""
_MOST_POINTS = 1 << 20
"""Beyond, multiples of a step of 32 digits might not be doubles."""
_FARTHEST = 700.0
"""Not far beyond it e^ε is no double: what is left of δ there counts as an infinite loss."""
_MOST_SHARE = 1e200
_CHUNK = 256
_FIRST_GAP, _BATCH = 16, 6
"""The first knots are this many points apart, and so many are asked for at once."""
_MOST_PARTS, _MOST_PASSES = 8, 12
"""Into how many parts a cell is divided at most, and how often."""
_USELESS = 2.0
"""Ends with a larger ratio are worth another try."""
_STEEP = 0.3
"""How much of δ may lie between the two ends in a cell, anyway,"""
_AWAY, _MUCH = 2.5, 10.0
"""So many deviations from where a single loss decides, it does not; nor where it is so much more likely than δ."""
_REST = 0.05
"""unless all that follows is so little of what the two ends may differ by."""


class DeltaGrid(NamedTuple):
    """Bounds of δ at knots, which are points of the lattice 0, h, 2h and so on.

    At the last knot δ has become negligible, or nothing is beyond.

    Attributes
    ----------
    step : float
        h.
    lower, upper : numpy.ndarray
        Of δ at each knot.
    positions : numpy.ndarray, optional
        The knots in units of h, ascending from zero; without them, every point of the lattice is one.
    backward : DeltaGrid, optional
        The same with the two distributions exchanged, where each direction is composed by itself; without it, δ is that
        of both directions.
    """

    step: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    positions: NDArray[np.int64] | None = None
    backward: "DeltaGrid | None" = None

    @property
    def knots(self) -> NDArray[np.int64]:
        """The knots in units of h."""
        return np.arange(len(self.upper)) if self.positions is None else self.positions


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
    tilts : tuple of float
        The θ at which log E[e^θL] matters.
    farthest : float
        Losses beyond it are as good as infinite, and need no accuracy; infinite, where nobody asks for the lower end.
    goal : float
        How far apart, relatively, that may be for the losses from above and from below: knots are added until it is
        so. Zero makes every point a knot.
    upper_only : bool
        Whether nobody asks for the lower end, but still no accuracy is needed beyond `farthest`.
    before : tuple of (float, float)
        Single θ and goals that were met before: their knots come first.
    height : float
        e^θL counts up to e^height: a larger L alone makes the sum of all rounds large enough.
    rest : float
        What log E[e^θL] is added to, where the goal is a part of both: −log δ for each of all rounds.
    single : tuple of (float, float, float)
        Where, and how far around it, a single loss makes the sum of all rounds large, or not, and their ε: accuracy is
        needed there as well, where such a loss is more likely than e^θL says.
    """

    step: float
    ceiling: float
    depth: float
    tolerance: float = 1e-9
    tilts: tuple[float, ...] = ()
    farthest: float = math.inf
    goal: float = 0.0
    upper_only: bool = False
    before: tuple[tuple[float, float], ...] = ()
    height: float = 600.0
    rest: float = 0.0
    single: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def most(self) -> int:
        """How many points there are at most; the last one is at the ceiling or beyond it, if e^ε is a double there."""
        return min(math.ceil(min(min(self.ceiling, _FARTHEST) / self.step, _MOST_POINTS)) + 1, _MOST_POINTS)

    def points(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the ε at these positions: exactly, if the step has few digits."""
        return np.asarray(self.step * positions, dtype=np.float64)


Brackets = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Lower and upper bounds of δ at each of some ε, ascending."""


def grid_of(brackets: Brackets, mesh: Mesh) -> DeltaGrid:
    """Return bounds of δ at as few knots as the goal of the mesh allows; every choice of knots is valid.

    The first knots are ever farther apart. Then cells are divided, those first that contribute most to the distance of
    the two ends, until that is small enough.
    """
    if not mesh.goal:
        return _every_point(brackets, mesh)
    positions = np.zeros(0, dtype=np.int64)
    lower, upper = np.zeros(0), np.zeros(0)
    gap, following = float(_FIRST_GAP), 0.0
    while True:
        batch: list[int] = []
        while len(batch) < _BATCH and following < mesh.most - 1:
            batch.append(int(following))
            following += gap
            gap = max(gap, following / 3)
        batch.append(mesh.most - 1)  # and a last one before it, since there may be a mass at the ceiling
        if mesh.most > 1:
            batch.insert(-1, mesh.most - 2)
        points = np.unique(np.array(batch if following >= mesh.most - 1 else batch[:-2], dtype=np.int64))
        points = points[points > (positions[-1] if len(positions) else -1)]
        lows, highs = brackets(mesh.points(points))
        positions = np.concatenate((positions, points))
        lower, upper = np.concatenate((lower, lows)), np.concatenate((upper, highs))
        ends = np.flatnonzero(upper <= math.exp(-mesh.depth))
        if len(ends):
            count = int(ends[0]) + 1
            positions, lower, upper = positions[:count], lower[:count], upper[:count]
        if len(ends) or positions[-1] >= mesh.most - 1:
            break
    for tilt, goal in mesh.before:  # one after the other, so that these knots are the same
        coarser = mesh._replace(tilts=(tilt,), goal=goal)
        positions, lower, upper = _divided(brackets, coarser, positions, lower, upper)
    positions, lower, upper = _divided(brackets, mesh, positions, lower, upper)
    return DeltaGrid(mesh.step, lower, upper, positions)


def _divided(
    brackets: Brackets,
    mesh: Mesh,
    positions: NDArray[np.int64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return knots and bounds of δ there, with as many more as the goal needs."""
    for _ in range(_MOST_PASSES):
        added = _divisions(positions, upper, mesh)
        if not len(added):
            break
        lows, highs = brackets(mesh.points(added))
        places = np.searchsorted(positions, added)
        positions = np.insert(positions, places, added)
        lower, upper = np.insert(lower, places, lows), np.insert(upper, places, highs)
    return positions, lower, upper


def _divisions(positions: NDArray[np.int64], upper: NDArray[np.float64], mesh: Mesh) -> NDArray[np.int64]:
    """Return the knots to add.

    The two ends differ by about k(x) in the cell around x, where k is how far its chord lies above the neighbouring
    chords, continued. Since E[e^θL] − 1 = θ(θ + 1)·∫ (e^θx + e^−(θ + 1)x)·δ(x) dx over x > 0, that is what a cell adds.
    A cell divided by p adds p² times less.
    """
    if len(positions) < 3:
        return np.arange(1, positions[-1]) if mesh.goal and len(positions) > 1 else np.zeros(0, dtype=np.int64)
    points = mesh.points(positions)
    apart = cell_gaps(points, upper, upper)
    widths = np.diff(points)
    shares, tails = np.zeros((2, len(apart)))
    rest = mesh.rest if mesh.upper_only else 0.0  # a lower end is asked to be as near as the moments are
    middle, around, reached = mesh.single
    # δ of one of all rounds: where a single loss has much more, it is not what decides.
    least = rest / max(mesh.height, 1e-300) * math.exp(-mesh.height)
    if rest and around and float(np.interp(middle, points, upper)) < _MUCH * least:
        # All rounds have 1/least times as much, as a part of δ; a part p of δ is p/(θε) of ε.
        away = np.abs(points - middle) / around
        densities = np.where(away < _AWAY, np.exp(-0.5 * away**2), 0.0) / (2.5 * around * least)
        weights = (densities[1:] + densities[:-1]) / 2
        if float((widths * weights * upper[1:]).sum()) < _MUCH:
            shares = apart * widths * weights / (mesh.goal * max(min(mesh.tilts) * reached, 1.0))
    for tilt in mesh.tilts:
        weights = np.exp(np.minimum(tilt * points, mesh.height)) + np.exp(-(tilt + 1) * points)
        weights[points > mesh.farthest] = 0.0
        factor = tilt * (tilt + 1)
        heights = weights * upper
        integrals = factor * widths * (heights[1:] + heights[:-1]) / 2
        excess = float(integrals.sum())
        allowed = mesh.goal * (1 + excess) * (math.log1p(excess) + rest)
        tails = np.maximum(tails, np.cumsum(integrals[::-1])[::-1] / max(allowed, 1e-300))
        with np.errstate(over="ignore"):
            share = factor * apart * widths * (weights[1:] + weights[:-1]) / 2 / max(allowed, 1e-300)
        shares = np.maximum(shares, np.minimum(share, _MOST_SHARE))
    room = np.diff(positions)
    parts = _parts(shares, np.minimum(room, _MOST_PARTS))
    # The lower end falls to zero for good in a cell that is too wide for it, even if that cell hardly matters.
    steep = (apart > _STEEP * upper[1:]) & (points[1:] <= mesh.farthest) & (room > 1) & math.isfinite(mesh.farthest)
    steep &= (tails > _REST) | math.isfinite(mesh.ceiling)  # next to a largest loss little may be everything
    steep &= (upper[1:] > math.exp(-mesh.depth)) & (not mesh.upper_only)
    parts[steep] = np.maximum(parts[steep], 2)
    added = [
        positions[cell] + room[cell] * np.arange(1, parts[cell]) // parts[cell]
        for cell in np.flatnonzero(parts > 1).tolist()
    ]
    return np.concatenate(added) if added else np.zeros(0, dtype=np.int64)


def _parts(shares: NDArray[np.float64], most: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return into how many parts, up to `most`, to divide each cell, so that what all of them add falls to one."""
    fixed = float(shares[most == 1].sum())
    if shares.sum() <= 1 or not np.any((most > 1) & (shares > 0.1 * fixed / len(shares))):
        return np.ones(len(shares), dtype=np.int64)
    low, high = 1e-9, float(shares.max())
    for _ in range(40):
        middle = math.sqrt(low * high)
        parts = np.clip(np.ceil(np.cbrt(shares / middle)), 1, most)
        low, high = (middle, high) if (shares / parts**2).sum() < 0.8 + fixed else (low, middle)
    return np.asarray(np.clip(np.ceil(np.cbrt(shares / low)), 1, most).astype(np.int64))


def cell_gaps(
    points: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far, in each cell, the chord of the lower ends may lie above a curve that is convex in e^ε.

    By how much the chord lies above the chord on its left, continued to the right end of the cell (at 0, that is the
    mirror image of the first), and above the one on its right, continued to the left end: the curve is above both.
    """
    # Lengths in e^ε, in units of e^(left end of each cell).
    widths = np.expm1(np.diff(points))
    first = math.exp(-points[1])
    before = np.concatenate(([1 - first + first * upper[1]], upper[:-2]))
    ratios_left = np.concatenate(([math.exp(points[1])], widths[1:] * np.exp(np.diff(points)[:-1]) / widths[:-1]))
    ratios_right = np.append(widths[:-1] / (widths[1:] * np.exp(np.diff(points)[:-1])), 0.0)
    beyond = np.append(upper[2:], 0.0)
    rounding = slack(64) * (1 + ratios_left) * before
    left = np.maximum(np.diff(lower) + ratios_left * (before - lower[:-1]) + rounding, 0.0)
    right = np.maximum(-np.diff(lower) + ratios_right * (beyond - lower[1:]) + rounding, 0.0)
    return np.asarray(left / np.maximum(left + right, 1e-320) * right)


def _every_point(brackets: Brackets, mesh: Mesh) -> DeltaGrid:
    """Ask for all points, some at a time, until δ ≤ exp(−depth) or ε ≥ ceiling."""
    lower, upper = np.zeros(0), np.zeros(0)
    while len(upper) < mesh.most:
        lows, highs = brackets(mesh.points(np.arange(len(upper), min(len(upper) + _CHUNK, mesh.most))))
        lower, upper = np.concatenate((lower, lows)), np.concatenate((upper, highs))
        ends = np.flatnonzero(upper <= math.exp(-mesh.depth))
        if len(ends):
            return DeltaGrid(mesh.step, lower[: ends[0] + 1], upper[: ends[0] + 1])
    return DeltaGrid(mesh.step, lower, upper)


def each(bracket: Callable[[float], tuple[float, float]]) -> Brackets:
    """Return the function of many ε that asks this one at each of them."""

    def brackets(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ends = np.array([bracket(point) for point in points.tolist()]).reshape(len(points), 2)
        return ends[:, 0], ends[:, 1]

    return brackets


def remembered(brackets: Brackets) -> Brackets:
    """Return the same function, which asks for no ε twice: other tilts have many of the same knots."""
    known: dict[float, tuple[float, float]] = {}

    def looked_up(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        missing = [point for point in points.tolist() if point not in known]
        if missing:
            lower, upper = brackets(np.array(missing))
            known.update(zip(missing, zip(lower.tolist(), upper.tolist(), strict=True), strict=True))
        ends = np.array([known[point] for point in points.tolist()]).reshape(len(points), 2)
        return ends[:, 0], ends[:, 1]

    return looked_up


def distribution_brackets(
    distribution: Callable[[float], Distribution],
    advantage: Callable[[float], float],
    points: NDArray[np.float64],
    tolerance: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of δ at every point, by inversion; neighbouring points share their nodes.

    What one report alone has is never exceeded; where it has nothing, neither have many.
    """
    alone = up(np.array([advantage(point) for point in points.tolist()]), roundings=8)
    lower, upper = np.zeros(len(points)), alone.copy()
    asked = np.flatnonzero(alone > SMALLEST_DELTA)
    if not len(asked):
        return lower, upper
    first = distribution(0.0)
    spread = first.scale * first.spread  # the standard deviation of the loss
    start = 0
    while start < len(asked):
        # Rows that share nodes must have similar tilts, which grow with ε + (the spread).
        near = points[asked] <= 1.5 * points[asked[start]] + 0.5 * spread
        stop = min(start + _ROWS, int(np.count_nonzero(near)))
        rows = [distribution(point) for point in points[asked[start:stop]].tolist()]
        others = (index for index, row in enumerate(rows) if row.probabilities != rows[0].probabilities)
        alike = next(others, len(rows))
        lows, highs = _sums(rows[:alike], tolerance)
        group = asked[start : start + alike]
        upper[group] = np.minimum(np.where(np.isnan(highs), math.inf, highs), alone[group])
        lower[group] = np.where(np.isnan(lows), 0.0, np.minimum(lows, upper[group]))
        start += alike
    return lower, upper


def _sums(rows: Sequence[Distribution], tolerance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends for each row, from shared nodes; or from its own where those gave nothing, and then coarser."""
    lower, upper = positive_parts(rows, tolerance=tolerance)
    for index in np.flatnonzero(~(upper < _USELESS * np.maximum(lower, SMALLEST_DELTA))).tolist():
        for coarser in (1.0, 30.0, 1000.0):
            low, high = positive_parts([rows[index]], tolerance=coarser * tolerance)
            if high[0] < _USELESS * max(float(low[0]), SMALLEST_DELTA):
                lower[index], upper[index] = low[0], high[0]
                break
    return lower, upper
