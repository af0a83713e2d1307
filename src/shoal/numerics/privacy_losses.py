"""Privacy losses on a lattice: of one round from above and from below, and of many rounds.

H(t) = D_t(P‖Q) is convex in t = e^x, and a loss distribution on the lattice x = ih has an H that
is linear in t between its points (docs/theory/composition.md):

* *dominating* losses connect the dots of upper bounds of H (section 3);
* *dominated* losses come from a polygon below H (section 4);
* where one H lies above another, so do their compositions (section 2), and the sum of the losses
  of all rounds has the δ(ε) of all rounds (section 5).

For t < 1, H(t) is 1 − t + t·H(1/t) of the exchanged pair (1), which is the same pair where δ is
that of both directions.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.convolution import Convolution, TiltedSum, between, crossing
from shoal.numerics.profile_grid import DeltaGrid, cell_gaps
from shoal.rounding import slack, up

__all__ = [
    "Losses",
    "SummedLosses",
    "dominated",
    "dominating",
    "natural_step",
    "short",
]

_FINENESS = 20
"""Grid points per standard deviation of the loss where every point is a knot: time, or δ."""
_MOVED = 0.02
"""The slope of log δ is taken between ε and (1 + this)·ε: nearer, rounding shows."""


class Losses(NamedTuple):
    """A measure (2) of privacy losses: masses under P on the lattice, and at infinity.

    Attributes
    ----------
    step : float
        h.
    positions : numpy.ndarray
        The finite losses in units of h, ascending.
    masses : numpy.ndarray
        The mass at each of them.
    infinite : float
        The mass at infinity.
    """

    step: float
    positions: NDArray[np.int64]
    masses: NDArray[np.float64]
    infinite: float

    @property
    def points(self) -> NDArray[np.float64]:
        """The finite losses."""
        return np.asarray(self.step * self.positions, dtype=np.float64)

    @property
    def reach(self) -> int:
        """The largest finite loss, or zero, in units of h."""
        return max(int(self.positions[-1]), 0)

    @property
    def log_masses(self) -> NDArray[np.float64]:
        """The logarithm of each mass."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses))

    @property
    def total(self) -> float:
        """The whole mass: one, up to the charge for rounding."""
        return float(self.masses.sum()) + self.infinite

    @property
    def mean(self) -> float:
        """Roughly E[L] of the finite losses."""
        return float((self.masses * self.points).sum())

    @property
    def mean_square(self) -> float:
        """Roughly E[L²] of the finite losses."""
        return float((self.masses * self.points**2).sum())

    def log_moment(self, tilt: float) -> float:
        """Return log E[e^θL] of the finite losses."""
        return float(np.logaddexp.reduce(self.log_masses + tilt * self.points))

    def coarsened(self, halvings: int) -> "Losses":
        """Return losses on a lattice with 2^halvings times the step, with at least the same H.

        A mass goes to the two points next to it with the mean of e^−L kept (section 5, a coarser
        lattice): H(t) is the mean of (1 − t·e^−L)₊, which is convex in e^−L.
        """
        width = self.step * (1 << halvings)
        low = self.positions >> halvings
        above = self.step * (self.positions - (low << halvings))
        shares_high = np.expm1(-above) / math.expm1(-width)
        shares_low = np.exp(-above) * np.expm1(above - width) / math.expm1(-width)
        moved = np.concatenate((self.masses * shares_low, self.masses * shares_high))
        positions, index = np.unique(np.concatenate((low, low + 1)), return_inverse=True)
        sums = np.asarray(np.bincount(index, moved), dtype=np.float64)
        masses = up(sums, roundings=32 + 2 * len(self.masses))  # for all additions
        kept = masses > 0
        return Losses(width, positions[kept], masses[kept], self.infinite)


class _Polygon(NamedTuple):
    """H of one direction for t ≥ 1: convex, linear between knots, and constant after the last."""

    positions: NDArray[np.int64]
    points: NDArray[np.float64]
    heights: NDArray[np.float64]
    slopes: NDArray[np.float64]

    @classmethod
    def below(cls, grid: DeltaGrid, values: NDArray[np.float64]) -> "_Polygon":
        """Return the greatest convex polygon that is nowhere above these values at the knots."""
        points = np.asarray(grid.step * grid.knots, dtype=np.float64)
        widths = np.exp(points[:-1]) * np.expm1(np.diff(points))
        heights = _convex_minorant(np.minimum.accumulate(values), widths)
        slopes = np.append(np.diff(heights) / widths, 0.0)
        return cls(grid.knots, points, heights, slopes)

    @property
    def jumps(self) -> NDArray[np.float64]:
        """The jumps of the slope after the first knot, which are masses under Q."""
        return np.maximum(np.diff(self.slopes), 0.0)

    @property
    def mirrored(self) -> NDArray[np.float64]:
        """H of the exchanged pair at −x for all knots x > 0, from the last one on, by (1)."""
        points = self.points[:0:-1]
        return np.asarray(-np.expm1(-points) + np.exp(-points) * self.heights[:0:-1])


def dominating(grid: DeltaGrid) -> Losses:
    """Return losses whose δ(ε), alone and in every composition, is at least the true one."""
    if grid.backward is not None:
        # Both directions have the same δ(0).
        first = min(float(grid.upper[0]), float(grid.backward.upper[0]))
        ahead = _Polygon.below(grid, np.append(first, grid.upper[1:]))
        behind = _Polygon.below(grid.backward, np.append(first, grid.backward.upper[1:]))
        return _losses(grid.step, ahead, behind, from_above=True)
    polygon = _Polygon.below(grid, _symmetric(grid, grid.upper))
    return _losses(grid.step, polygon, polygon, from_above=True)


def dominated(grid: DeltaGrid) -> Losses:
    """Return losses whose δ(ε), alone and in every composition, is at most the true one."""
    # No part of the polygon may lie beyond the largest loss.
    count = 1 + int(np.flatnonzero(grid.upper).max(initial=0))
    if count == 1 or grid.backward is not None:
        return Losses(grid.step, np.zeros(1, dtype=np.int64), np.ones(1), 0.0)
    upper = grid.upper[:count]
    points = np.asarray(grid.step * grid.knots[:count], dtype=np.float64)
    known = grid.lower[: count - 1] if grid.below is None else grid.below(points[:-1])
    lower = np.append(np.minimum(known, upper[:-1]), 0.0)
    inside = DeltaGrid(grid.step, lower, upper, grid.knots[:count])
    gaps = cell_gaps(points, lower, upper)
    # Lemma 4: the polygon passes below the chord by the gap of both neighbouring cells.
    values = lower - np.maximum(np.append(gaps, 0.0), np.append(gaps[:1], gaps))
    negative = np.flatnonzero(values < 0)
    if len(negative):  # raising one knot to zero would lift the interval before it
        values[max(int(negative[0]) - 1, 0) :] = 0.0
    polygon = _Polygon.below(inside, _symmetric(inside, values))
    return _losses(grid.step, polygon, polygon, from_above=False)


def _symmetric(grid: DeltaGrid, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with that at t = 1 lowered to the chords between mirror images (4)."""
    excess = np.expm1(grid.step * grid.knots[1:])
    chords = (excess + 2 * np.minimum.accumulate(values)[1:]) / (excess + 2)
    return np.append(np.min(chords, initial=values[0]), values[1:])


def _losses(step: float, ahead: _Polygon, behind: _Polygon, *, from_above: bool) -> Losses:
    """Return the losses of H given by two polygons, scaled so that they are safe.

    The masses as they were computed define the losses, and (5) gives their H at every knot in
    positive terms. One factor then puts H, and the total mass, on the safe side.
    """
    positions = np.concatenate((-behind.positions[:0:-1], ahead.positions))
    points = np.concatenate((-behind.points[:0:-1], ahead.points))
    wanted = np.concatenate((behind.mirrored, ahead.heights))
    infinite = float(ahead.heights[-1])
    centre = float(ahead.slopes[0]) + float(behind.slopes[0]) + 1 - float(ahead.heights[0])
    before = behind.jumps[::-1]
    after = ahead.jumps * np.exp(ahead.points[1:])
    masses = np.concatenate((before, [max(centre, 0.0)], after))

    # (5): H at each knot from the sums over all larger losses.
    tails = np.cumsum((masses * np.exp(-points))[::-1])[::-1]
    rises = np.exp(points[:-1]) * np.expm1(np.diff(points)) * tails[1:]
    reached = infinite + np.append(np.cumsum(rises[::-1])[::-1], 0.0)
    total = float(masses.sum()) + infinite
    rel_error = slack(16 * len(points) + 256)
    if from_above:
        ratios = wanted / np.maximum(reached, 1e-320)
        factor = max(1.0, 1 / total, float(ratios.max())) * (1 + rel_error)
    else:
        positive = reached > 0
        ratios = wanted[positive] / reached[positive]
        factor = min(1.0, 1 / total, float(np.min(ratios, initial=1.0))) * (1 - rel_error)
    kept = (masses > 0) | (positions == 0)
    return Losses(step, positions[kept], masses[kept] * factor, infinite * factor)


def _convex_minorant(values: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest convex function that is nowhere above the values, at their points."""
    if np.all(np.diff(np.diff(values) / widths) >= 0):
        return values
    points = np.concatenate(([0.0], np.cumsum(widths)))
    kept = [0]
    for index in range(1, len(values)):
        while len(kept) > 1:
            first, middle = kept[-2:]
            rise = (values[middle] - values[first]) * (points[index] - points[middle])
            limit = (values[index] - values[middle]) * (points[middle] - points[first])
            if rise <= limit:
                break
            kept.pop()
        kept.append(index)
    return np.interp(points, points[kept], values[kept])


@dataclass(frozen=True)
class SummedLosses:
    """A sum of losses that is at least that of all rounds, and one that is at most that.

    Attributes
    ----------
    above : Convolution
        The sum from above.
    make_below : callable
        Returns the sum from below, which only a bracket needs.
    """

    above: Convolution
    make_below: Callable[[], Convolution]

    @cached_property
    def below(self) -> Convolution:
        """The sum from below."""
        return self.make_below()

    @classmethod
    def of(cls, rounds: Iterable[tuple[DeltaGrid, int]]) -> "SummedLosses":
        """Return the sums for rounds with these bounds of δ(ε), each with its multiplicity."""
        grids = list(rounds)
        above = Convolution([(dominating(grid), times) for grid, times in grids], from_above=True)
        return cls(above, lambda: Convolution([(dominated(grid), times) for grid, times in grids]))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; it may be more than 1."""
        while True:
            tilted = self.above.aimed_at_epsilon(epsilon)
            if self.above.followed(tilted, _steepness(tilted, epsilon), epsilon):
                return between(tilted.upper, epsilon, tilted.step)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        while True:
            tilted, guess = self.above.aimed_at_delta(delta)
            epsilon = crossing(tilted.upper, delta, guess, tilted.step, tilt=tilted.tilt)
            steepness = _steepness(tilted, epsilon) if math.isfinite(epsilon) else math.inf
            if math.isinf(epsilon) or self.above.followed(tilted, steepness, epsilon):
                return up(epsilon, roundings=8)

    def steepness(self, epsilon: float, delta: float) -> float:
        """Return about −d log δ/dε at ε = ε(δ), from above."""
        return _steepness(self.above.aimed_at_delta(delta)[0], epsilon)

    def least_epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down; zero where no lower bound of δ is known."""
        if self.below.greatest == 0:
            return 0.0
        tilted, guess = self.below.aimed_at_delta(delta)
        epsilon = crossing(tilted.lower, delta, guess, self.below.step, tilt=tilted.tilt)
        return epsilon * (1 - slack(8))


def _steepness(tilted: TiltedSum, epsilon: float) -> float:
    """Return about −d log δ/dε at ε, which is the tilt of a sum without heavy tails."""
    index = max(0, math.floor(epsilon / tilted.step))
    move = math.ceil(_MOVED * (index + 1))
    near = tilted.upper(index)
    far = tilted.upper(index + move)
    if not near > far > 0:
        return tilted.tilt
    return math.log(near / far) / (move * tilted.step)


def short(step: float) -> float:
    """Return the step rounded down to 32 bits, so that its multiples up to 2²¹ are float64."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 32)), exponent - 32)


def natural_step(delta: float, ceiling: float) -> float:
    """Return a standard deviation of the loss over `_FINENESS`, given δ(0) and the largest loss."""
    spread = min(math.sqrt(2 * math.pi) * delta, ceiling)
    return short(ceiling / math.ceil(_FINENESS * ceiling / spread))
