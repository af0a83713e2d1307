"""Bounds of δ(ε) at the knots of a grid, and the privacy losses of a round that follow from them.

H(t) = D_t(P‖Q) is convex in t = e^x, and a loss distribution on the lattice x = ih has an H that
is linear in t between its points (docs/theory/composition.md):

* *dominating* losses connect the dots of upper bounds of H (section 3);
* *dominated* losses come from a polygon below H (section 4).

For t < 1, H(t) is 1 − t + t·H(1/t) of the exchanged pair (1), which is the same pair where δ is
that of both directions. Every choice of knots gives valid losses, so it decides about tightness
alone. There is one rule for it (section 4.1): cells are divided until the losses from above and
from below agree at the tilts of the question.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.contour import positive_parts
from shoal.numerics.lattice import LatticeMeasure
from shoal.numerics.summand import Summand, Tilted
from shoal.rounding import slack, up

_MOST_POINTS = 1 << 20
"""The largest number of grid points: multiples of a step of 32 bits up to there are float64."""
_FARTHEST = 700.0
"""The largest ε of a grid: e^ε is float64 there, and the loss beyond counts as infinite."""
_FIRST_GAP = 16
"""The distance of the first knots, in steps: fewer of them, or fewer rounds of division later."""
_BATCH = 6
"""How many first knots are asked for at once: more share their cost, fewer lie beyond the end."""
_EVERY_BATCH = 256
"""How many points are asked for at once where every point is a knot, for the same reason."""
_MOST_PARTS = 8
"""The most parts of a cell in one pass: its curvature is only known on average over the cell."""
_SPARE = 0.8
"""The share of the goal that one pass aims at, so that few passes end just above the goal."""
_MOST_SHARE = 1e200
"""Shares end here, so that their sums and roots are float64."""
_STEEP = 0.3
"""A gap above this share of δ makes the lower end zero from there on; more knots, or less reach."""
_NEGLIGIBLE = 0.05
"""The share of the goal below which the remaining losses need no lower end."""
_ROWS = 16
"""How many neighbouring ε share the nodes of one inversion: less time for each, or fewer nodes."""
_USELESS = 2.0
"""Bounds of δ with a larger ratio are computed again from nodes of their own."""


class DeltaGrid(NamedTuple):
    """Bounds of δ at knots, which are points of the lattice 0, h, 2h and so on.

    `positions` are the knots in units of h, ascending from zero; by default, every point of the
    lattice. At the last knot δ is negligible, or no loss is larger. `backward` is the grid of the
    exchanged pair, where each direction is composed alone; by default, δ is that of both
    directions. `below` computes lower bounds of δ at some ε, where they take long and are only
    computed if a bracket is asked for; `lower` is not used then.
    """

    step: float
    lower: Array
    upper: Array
    positions: IntArray | None = None
    backward: "DeltaGrid | None" = None
    below: Callable[[Array], Array] | None = None

    @property
    def knots(self) -> IntArray:
        """The knots in units of h."""
        return np.arange(len(self.upper)) if self.positions is None else self.positions

    @property
    def points(self) -> Array:
        """The ε at the knots."""
        return np.asarray(self.step * self.knots, dtype=np.float64)


class Mesh(NamedTuple):
    """The spacing of a grid, its end, and where its losses have to be accurate.

    Attributes
    ----------
    step : float
        h.
    ceiling : float
        The largest loss of the round.
    depth : float
        The grid ends where δ ≤ exp(−depth), too.
    tolerance : float
        The relative error of δ at a knot.
    tilts : tuple of float
        The θ at which log E[e^θL] matters.
    goal : float
        The relative distance of log E[e^θL] from above and from below at which no more knots are
        added. Zero makes every point a knot.
    height : float
        e^θL counts up to e^height: with −log δ, a larger loss alone exceeds the answer.
    log_moment : float
        What log E[e^θL] is at most in the answer, whatever rare large losses add to it.
    """

    step: float
    ceiling: float
    depth: float
    tolerance: float = 1e-9
    tilts: tuple[float, ...] = ()
    goal: float = 0.0
    height: float = 600.0
    log_moment: float = 600.0

    @property
    def most(self) -> int:
        """The largest number of points; the last one is at the ceiling or beyond it."""
        farthest = min(self.ceiling, _FARTHEST)
        return min(math.ceil(min(farthest / self.step, _MOST_POINTS)) + 1, _MOST_POINTS)

    def points(self, positions: IntArray) -> Array:
        """Return the ε at these positions, exactly if the step has at most 32 bits."""
        return np.asarray(self.step * positions, dtype=np.float64)


Brackets = Callable[[Array], tuple[Array, Array]]
"""Lower and upper bounds of δ at each of some ε, ascending."""


def grid_of(brackets: Brackets, mesh: Mesh) -> DeltaGrid:
    """Return bounds of δ at as few knots as the goal of the mesh allows."""
    grid = _first_grid(brackets, mesh)
    while len(added := _added_knots(grid, mesh)):
        lower, upper = brackets(mesh.points(added))
        places = np.searchsorted(grid.knots, added)
        grid = DeltaGrid(
            mesh.step,
            np.insert(grid.lower, places, lower),
            np.insert(grid.upper, places, upper),
            np.insert(grid.knots, places, added),
        )
    return grid


def _first_grid(brackets: Brackets, mesh: Mesh) -> DeltaGrid:
    """Return bounds of δ at the first knots, up to the end of the grid."""
    positions = _first_knots(mesh.most) if mesh.goal else np.arange(mesh.most)
    batch = _BATCH if mesh.goal else _EVERY_BATCH
    negligible = math.exp(-mesh.depth)
    lower = np.zeros(0)
    upper = np.zeros(0)
    for start in range(0, len(positions), batch):
        lows, highs = brackets(mesh.points(positions[start : start + batch]))
        lower = np.concatenate((lower, lows))
        upper = np.concatenate((upper, highs))
        ends = np.flatnonzero(upper <= negligible)
        if len(ends):
            count = int(ends[0]) + 1
            return DeltaGrid(mesh.step, lower[:count], upper[:count], positions[:count])
    return DeltaGrid(mesh.step, lower, upper, positions)


def _first_knots(most: int) -> IntArray:
    """Return positions below `most` whose distances grow, with the last two of all points."""
    positions = [0]
    while positions[-1] < most - 1:
        positions.append(positions[-1] + max(_FIRST_GAP, positions[-1] // 3))
    # There may be a mass at the ceiling, which shows between the last two points.
    positions[-1] = most - 1
    positions.append(max(most - 2, 0))
    return np.unique(np.array(positions, dtype=np.int64))


def _added_knots(grid: DeltaGrid, mesh: Mesh) -> IntArray:
    """Return the knots that divide the cells which keep the two ends apart."""
    room = np.diff(grid.knots)
    if not mesh.goal or not np.any(room > 1):
        return np.zeros(0, dtype=np.int64)
    if len(room) < 2:
        return np.arange(1, int(grid.knots[-1]))
    points = grid.points
    # More knots cannot repair the error at the knots themselves.
    ends = grid.upper[1:]
    gaps = _cell_gaps(points, grid.upper, grid.upper) - mesh.tolerance * ends
    gaps = np.maximum(gaps, 0.0)
    shares = np.zeros(len(room))
    following = np.zeros(len(room))
    for tilt in mesh.tilts:
        share, integrals = _shares(points, grid.upper, gaps, tilt, mesh)
        shares = np.maximum(shares, share)
        rest = np.cumsum(integrals[::-1])[::-1]
        following = np.maximum(following, rest)
    parts = _parts(shares, np.minimum(room, _MOST_PARTS))
    # A cell whose gap exceeds the lower bound of δ ends the losses from below.
    steep = (gaps > _STEEP * ends) & (grid.lower[:-1] > 0)
    steep &= (ends > math.exp(-mesh.depth)) & (following > _NEGLIGIBLE)
    steep &= room > 1
    parts[steep] = np.maximum(parts[steep], 2)
    added = [np.zeros(0, dtype=np.int64)]
    for cell in np.flatnonzero(parts > 1).tolist():
        parts_of_room = room[cell] * np.arange(1, parts[cell]) // parts[cell]
        added.append(grid.knots[cell] + parts_of_room)
    return np.concatenate(added)


def _shares(
    points: Array,
    upper: Array,
    gaps: Array,
    tilt: float,
    mesh: Mesh,
) -> tuple[Array, Array]:
    """Return what the gap in each cell, and δ itself, add to E[e^θL], over what the goal allows."""
    weights = np.exp(np.minimum(tilt * points, mesh.height))
    weights += np.exp(-(tilt + 1) * points)
    # The integral (6a) over each cell.
    widths = tilt * (tilt + 1) * np.diff(points)
    heights = weights * np.maximum(upper - upper[-1], 0.0)  # without infinite losses
    integrals = widths * (heights[1:] + heights[:-1]) / 2
    excess = min(float(integrals.sum()), math.expm1(mesh.log_moment))
    allowed = max(mesh.goal * (1 + excess) * math.log1p(excess), 1e-300)
    with np.errstate(over="ignore"):
        shares = gaps * widths * (weights[1:] + weights[:-1]) / 2 / allowed
    return np.minimum(shares, _MOST_SHARE), integrals / allowed


def _parts(shares: Array, most: IntArray) -> IntArray:
    """Return into how many parts, up to `most`, to divide each cell so that all add at most one.

    A cell divided by p adds p² times less. For a given number of knots the sum is least for p
    proportional to the cube root of the share.
    """
    divisible = np.where(most > 1, shares, 0.0)
    # Cells of one step remain as they are, and the others need not add less than they do.
    fixed = float(shares.sum() - divisible.sum())
    allowed = max(1 - fixed, fixed)
    if divisible.sum() <= allowed:
        return np.ones(len(shares), dtype=np.int64)
    roots = np.cbrt(divisible)
    scale = math.sqrt(float(roots.sum()) / (_SPARE * allowed))
    parts = np.ceil(roots * scale)
    return np.asarray(np.clip(parts, 1, most), dtype=np.int64)


def _cell_gaps(points: Array, lower: Array, upper: Array) -> Array:
    """Return k of (6): how far the chord of the lower bounds may lie above δ, in each cell.

    δ is convex in e^ε, and therefore above the chords of the two neighbouring cells, continued.
    The chord before ε = 0 is the mirror image of the first one.
    """
    # Lengths in e^ε, in units of e^(left end of each cell).
    ratios = np.exp(np.diff(points))
    widths = np.expm1(np.diff(points))
    first = math.exp(-points[1])
    mirrored = 1 - first + first * upper[1]
    before = np.concatenate(([mirrored], upper[:-2]))
    beyond = np.append(upper[2:], 0.0)
    neighbours = widths[1:] * ratios[:-1] / widths[:-1]
    ratios_left = np.concatenate(([math.exp(points[1])], neighbours))
    ratios_right = np.append(1 / neighbours, 0.0)
    # α and β of (6), with their rounding added.
    rounding = slack(64) * (1 + ratios_left) * before
    drops = np.diff(lower)
    left = drops + ratios_left * (before - lower[:-1]) + rounding
    right = -drops + ratios_right * (beyond - lower[1:]) + rounding
    left = np.maximum(left, 0.0)
    right = np.maximum(right, 0.0)
    return np.asarray(left / np.maximum(left + right, 1e-320) * right)


def dominating(grid: DeltaGrid) -> LatticeMeasure:
    """Return losses whose δ(ε), alone and in every composition, is at least the true one."""
    if grid.backward is None:
        ahead = _Polygon.below(grid, _symmetric(grid, grid.upper), side=1)
        return _losses(grid.step, ahead, ahead, from_above=True)
    # Both directions have the same δ(0).
    other = grid.backward
    first = min(float(grid.upper[0]), float(other.upper[0]))
    ahead = _Polygon.below(grid, np.append(first, grid.upper[1:]), side=1)
    behind = _Polygon.below(other, np.append(first, other.upper[1:]), side=1)
    return _losses(grid.step, ahead, behind, from_above=True)


def dominated(grid: DeltaGrid) -> LatticeMeasure:
    """Return losses whose δ(ε), alone and in every composition, is at most the true one."""
    # No part of the polygon may lie beyond the largest loss.
    count = 1 + int(np.flatnonzero(grid.upper).max(initial=0))
    if count == 1 or grid.backward is not None:
        nowhere = np.zeros(1, dtype=np.int64)
        return LatticeMeasure(grid.step, nowhere, np.ones(1))
    upper = grid.upper[:count]
    points = grid.points[:count]
    known = grid.lower[: count - 1]
    if grid.below is not None:
        known = grid.below(points[:-1])
    lower = np.append(np.minimum(known, upper[:-1]), 0.0)
    inside = DeltaGrid(grid.step, lower, upper, grid.knots[:count])
    gaps = _cell_gaps(points, lower, upper)
    # Lemma 4: the polygon passes below the chord by the gap of both neighbouring cells.
    before = np.append(gaps[:1], gaps)
    values = lower - np.maximum(np.append(gaps, 0.0), before)
    negative = np.flatnonzero(values < 0)
    if len(negative):
        # Raising one knot to zero would lift the interval before it.
        values[max(int(negative[0]) - 1, 0) :] = 0.0
    polygon = _Polygon.below(inside, _symmetric(inside, values), side=-1)
    return _losses(grid.step, polygon, polygon, from_above=False)


class _Polygon(NamedTuple):
    """H of one direction for t ≥ 1: convex, linear between knots, and constant after the last."""

    positions: IntArray
    points: Array
    heights: Array
    slopes: Array

    @classmethod
    def below(cls, grid: DeltaGrid, values: Array, *, side: int) -> "_Polygon":
        """Return the greatest convex polygon that is nowhere above these values at the knots.

        Heights are rounded up (side 1) or down (side −1).
        """
        points = grid.points
        widths = np.exp(points[:-1]) * np.expm1(np.diff(points))
        heights = _convex_minorant(np.minimum.accumulate(values), widths, side)
        slopes = np.append(np.diff(heights) / widths, 0.0)
        return cls(grid.knots, points, heights, slopes)

    @property
    def jumps(self) -> Array:
        """The jumps of the slope after the first knot, which are masses under Q."""
        return np.maximum(np.diff(self.slopes), 0.0)

    @property
    def mirrored(self) -> Array:
        """H of the exchanged pair at −x for all knots x > 0, from the last one on, by (1)."""
        points = self.points[:0:-1]
        heights = self.heights[:0:-1]
        return np.asarray(-np.expm1(-points) + np.exp(-points) * heights)


def _symmetric(grid: DeltaGrid, values: Array) -> Array:
    """Return the values with that at t = 1 lowered to the chords between mirror images (4)."""
    excess = np.expm1(grid.points[1:])
    falling = np.minimum.accumulate(values)[1:]
    chords = (excess + 2 * falling) / (excess + 2)
    first = np.min(chords, initial=values[0])
    return np.append(first, values[1:])


def _losses(step: float, ahead: _Polygon, behind: _Polygon, *, from_above: bool) -> LatticeMeasure:
    """Return the losses of H given by two polygons, scaled so that they are safe.

    The masses as they were computed define the losses, and (5) gives their H at every knot in
    positive terms. One factor then puts H, and the total mass, on the safe side.
    """
    positions = np.concatenate((-behind.positions[:0:-1], ahead.positions))
    points = np.concatenate((-behind.points[:0:-1], ahead.points))
    wanted = np.concatenate((behind.mirrored, ahead.heights))
    infinite = float(ahead.heights[-1])
    slopes = float(ahead.slopes[0]) + float(behind.slopes[0])
    centre = slopes + 1 - float(ahead.heights[0])
    before = behind.jumps[::-1]
    after = ahead.jumps * np.exp(ahead.points[1:])
    masses = np.concatenate((before, [max(centre, 0.0)], after))
    # (5): H at each knot from the sums over all larger losses.
    others = masses * np.exp(-points)
    tails = np.cumsum(others[::-1])[::-1]
    widths = np.exp(points[:-1]) * np.expm1(np.diff(points))
    rises = np.cumsum((widths * tails[1:])[::-1])[::-1]
    reached = infinite + np.append(rises, 0.0)
    total = float(masses.sum()) + infinite
    rel_error = slack(16 * len(points) + 256)
    if from_above:
        ratios = wanted / np.maximum(reached, 1e-320)
        factor = max(1.0, 1 / total, float(ratios.max()))
        factor *= 1 + rel_error
    else:
        positive = reached > 0
        ratios = wanted[positive] / reached[positive]
        factor = min(1 / total, float(np.min(ratios, initial=1.0)))
        factor *= 1 - rel_error
    kept = (masses > 0) | (positions == 0)
    return LatticeMeasure(step, positions[kept], masses[kept] * factor, infinite * factor)


def _convex_minorant(values: Array, widths: Array, side: int) -> Array:
    """Return the greatest convex function that is nowhere above the values, at their points."""
    if np.all(np.diff(np.diff(values) / widths) >= 0):
        return values
    points = np.concatenate(([0.0], np.cumsum(widths)))
    kept = [0]
    for index in range(1, len(values)):
        while len(kept) > 1:
            first, middle = kept[-2:]
            rise = values[middle] - values[first]
            following = values[index] - values[middle]
            width = points[middle] - points[first]
            if rise * (points[index] - points[middle]) <= following * width:
                break
            kept.pop()
        kept.append(index)
    heights = values.copy()
    for start, end in pairwise(kept):
        # Between two points that are kept the function is a chord. Its rounding is charged.
        lengths = np.cumsum(widths[start:end])
        shares = lengths[:-1] / lengths[-1]
        chord = values[start] * (1 - shares) + values[end] * shares
        error = slack(8 + 2 * (end - start)) * values[start]
        heights[start + 1 : end] = np.maximum(chord + side * error, 0.0)
    return heights


def short(step: float) -> float:
    """Return the step rounded down to 32 bits, so that its multiples up to 2²¹ are float64."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 32)), exponent - 32)


def each(bracket: Callable[[float], tuple[float, float]]) -> Brackets:
    """Return the function of many ε that calls `bracket` at each of them."""

    def brackets(points: Array) -> tuple[Array, Array]:
        ends = np.array([bracket(point) for point in points.tolist()])
        lower, upper = ends.reshape(len(points), 2).T
        return lower, upper

    return brackets


def remembered(brackets: Brackets) -> Brackets:
    """Return `brackets` with a cache: grids for other tilts have many knots in common."""
    known: dict[float, tuple[float, float]] = {}

    def looked_up(points: Array) -> tuple[Array, Array]:
        missing = [point for point in points.tolist() if point not in known]
        if missing:
            lower, upper = brackets(np.array(missing))
            ends = zip(lower.tolist(), upper.tolist(), strict=True)
            known.update(zip(missing, ends, strict=True))
        rows = np.array([known[point] for point in points.tolist()])
        lower, upper = rows.reshape(len(points), 2).T
        return lower, upper

    return looked_up


def distribution_brackets(
    distribution: Callable[[float], Summand],
    advantage: Callable[[float], float],
    points: Array,
    tolerance: float,
) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ at each ε in `points`, by inversion.

    δ of one report alone, `advantage`, is never exceeded. Neighbouring points share their nodes.
    """
    advantages = [advantage(point) for point in points.tolist()]
    alone = up(np.array(advantages), roundings=8)
    lower = np.zeros(len(points))
    upper = alone.copy()
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
        near_points = points[asked[start:stop]].tolist()
        rows = [distribution(point) for point in near_points]
        same = [row.probabilities == rows[0].probabilities for row in rows]
        alike = same.index(False) if False in same else len(rows)
        lows, highs = _sums(rows[:alike], tolerance)
        group = asked[start : start + alike]
        upper[group] = np.fmin(highs, alone[group])
        lower[group] = np.fmin(np.nan_to_num(lows), upper[group])
        start += alike
    return lower, upper


def _sums(rows: Sequence[Summand], tolerance: float) -> tuple[Array, Array]:
    """Return bounds of δ for each row, from shared nodes or, where those fail, from its own."""
    lower, upper = positive_parts(Tilted.of(rows), tolerance=tolerance)
    useful = upper < _USELESS * np.maximum(lower, SMALLEST_DELTA)
    for index in np.flatnonzero(~useful).tolist():
        for coarser in (1.0, 30.0, 1000.0):
            low, high = positive_parts(rows[index].tilted, tolerance=coarser * tolerance)
            if high[0] < _USELESS * max(float(low[0]), SMALLEST_DELTA):
                lower[index] = low[0]
                upper[index] = high[0]
                break
    return lower, upper
