"""The privacy loss of one round, on a grid, so that many rounds can be added up.

H(t) = D_t(P‖Q) is convex in t = e^x, and everything about composition can be said in terms of it: where one H lies
above another for every t > 0, so do their compositions with anything else. A loss distribution on the grid x = ih has
an H that is linear in t between grid points. So

* *connecting the dots* of upper bounds of H gives a distribution whose compositions are at least the true ones;
* a polygon below H, with its knots on the grid, gives one whose compositions are at most the true ones. On each
  interval H lies above the chords of the two intervals next to it; the polygon passes below where those two cross.

The step has few enough digits that every grid point is a double.

For t < 1, H is continued by H(t) = 1 − t + t·H(1/t): both directions of the pair are covered, and the mass at −x is
exp(−x) of the mass at x. Where the directions are composed apart, H(1/t) there is that of the exchanged pair, and
the losses are not symmetric. docs/theory/composition.md has the proofs.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.delta_grid import DeltaGrid, Mesh, cell_gaps
from shoal.rounding import slack, up

__all__ = ["Losses", "dominated", "dominating", "natural_step", "renyi", "renyi_mesh", "renyi_of", "sharpened", "short"]

_FINENESS, _KNOTTED = 20, 80
"""Grid points to a standard deviation of the loss; where only some of them are knots, there are more."""
_DEPTH, _DEEPEST, _TOLERANCE, _GOAL = 30.0, 600.0, 5e-5, 2.5e-3
"""Of the grid behind Rényi divergences: where it ends, what smoothing may add to δ, and how close the ends are."""
_PAST, _HOPELESS = 0.9, 690.0
"""Where δ at this part of ε₀ is so small that the grid has ended, what is beyond has at least exp(−690), roughly."""
_SCALES = (-4, 10)
"""Powers of four of α − 1 that have a grid of their own."""


class Losses(NamedTuple):
    """Masses (of P) at losses x ≥ 0 on the grid, and at infinity; that at −x is exp(−x) times as much, or given.

    Attributes
    ----------
    step : float
        h.
    positions : numpy.ndarray
        The losses in units of h, ascending from zero.
    masses : numpy.ndarray
        The mass at each of them.
    infinite : float
        The mass at infinity.
    behind : tuple of numpy.ndarray, optional
        The losses x < 0 in units of h, ascending, and the mass at each of them, if they are not the mirror image.
    """

    step: float
    positions: NDArray[np.int64]
    masses: NDArray[np.float64]
    infinite: float
    behind: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None

    @property
    def points(self) -> NDArray[np.float64]:
        """The losses."""
        return np.asarray(self.step * self.positions, dtype=np.float64)

    @property
    def reach(self) -> int:
        """The largest of them, in units of h."""
        return int(self.positions[-1])

    @property
    def signed(self) -> NDArray[np.int64]:
        """All losses, from the least to the greatest, in units of h."""
        before = -self.positions[:0:-1] if self.behind is None else self.behind[0]
        return np.concatenate((before, self.positions))

    @property
    def signed_logs(self) -> NDArray[np.float64]:
        """The logarithm of the mass at each of these."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses)
            before = (logs - self.points)[:0:-1] if self.behind is None else np.log(self.behind[1])
        return np.concatenate((before, logs))

    @property
    def total(self) -> float:
        """All of it: one, but for what makes the rounding safe."""
        if self.behind is not None:
            return float(self.masses.sum() + self.behind[1].sum()) + self.infinite
        return float(self.masses[0] + (self.masses[1:] * (1 + np.exp(-self.points[1:]))).sum()) + self.infinite

    @property
    def mean(self) -> float:
        """Roughly E[L] of the finite losses."""
        if self.behind is not None:
            return float((self.masses * self.points).sum() + (self.behind[1] * (self.step * self.behind[0])).sum())
        return float((self.masses * -np.expm1(-self.points) * self.points).sum())

    @property
    def mean_square(self) -> float:
        """Roughly E[L²] of the finite losses."""
        if self.behind is not None:
            return float(
                (self.masses * self.points**2).sum() + (self.behind[1] * (self.step * self.behind[0]) ** 2).sum()
            )
        return float((self.masses * (1 + np.exp(-self.points)) * self.points**2).sum())

    @property
    def dense(self) -> NDArray[np.float64]:
        """The masses at 0, h, 2h, …, with zeros where there is none."""
        return np.asarray(np.bincount(self.positions, self.masses), dtype=np.float64)

    def coarsened(self, halvings: int) -> "Losses":
        """Return losses on a lattice with 2^halvings times the step, whose δ(ε) is at least the same.

        A mass goes to the two points next to it so that the mean of e^−L is kept: δ(ε) is a mean of (1 − e^ε·e^−L)₊,
        which is convex in e^−L. The mirror image does the same.
        """
        step = self.step * (1 << halvings)
        positions, masses = self._coarser(self.positions, self.masses, halvings)
        if self.behind is None:  # what goes to zero comes from both sides
            _, others = self._coarser(self.positions[1:], self.masses[1:], halvings)
            near = len(self.positions) > 1 and int(self.positions[1]) >> halvings == 0
            masses[0] = (self.masses[0] + (2 * others[0] if near else 0.0)) * (1 + slack(32))
            return Losses(step, positions, masses, self.infinite)
        before, others = self._coarser(*self.behind, halvings)
        if len(before) and before[-1] == 0:
            masses[0] += others[-1]
            before, others = before[:-1], others[:-1]
        return Losses(step, positions, masses, self.infinite, (before, others))

    def _coarser(
        self, positions: NDArray[np.int64], masses: NDArray[np.float64], halvings: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        low = positions >> halvings
        above = self.step * (positions - (low << halvings))
        width = self.step * (1 << halvings)
        rights = np.expm1(-above) / math.expm1(-width)
        lefts = np.exp(-above) * np.expm1(above - width) / math.expm1(-width)
        places, index = np.unique(np.concatenate((low, low + 1)), return_inverse=True)
        sums = np.bincount(index, np.concatenate((masses * lefts, masses * rights)))
        heaps = np.asarray(sums * (1 + slack(32 + 2 * len(masses))), dtype=np.float64)  # for so many additions
        kept = (heaps > 0) | (places == 0)
        return places[kept], heaps[kept]


def dominating(grid: DeltaGrid) -> Losses:
    """Return losses whose δ(ε), and that of all their compositions, is at least the true one."""
    if grid.backward is not None:
        return _directed(grid, grid.backward)
    return _losses(grid.step, grid.knots, grid.upper, safe_up=True)


def dominated(grid: DeltaGrid) -> Losses:
    """Return losses whose δ(ε), and that of all their compositions, is at most the true one."""
    step, knots, lower, upper = grid.step, grid.knots, grid.lower.copy(), grid.upper
    # Nothing of the polygon may lie beyond the greatest loss.
    count = 1 + int(np.flatnonzero(upper).max(initial=0))
    knots, lower, upper = knots[:count], lower[:count], upper[:count]
    lower[-1] = 0.0
    if len(lower) == 1:
        return Losses(step, np.zeros(1, dtype=np.int64), np.ones(1), 0.0)
    drops = cell_gaps(np.asarray(step * knots, dtype=np.float64), lower, upper)
    heights = lower - np.maximum(np.append(drops, 0.0), np.concatenate((drops[:1], drops)))
    negative = np.flatnonzero(heights < 0)
    if len(negative):  # raising one knot to zero would lift the interval before it
        heights[max(int(negative[0]) - 1, 0) :] = 0.0
    return _losses(step, knots, heights, safe_up=False)


def _losses(step: float, knots: NDArray[np.int64], values: NDArray[np.float64], *, safe_up: bool) -> Losses:
    """Return the losses of the polygon through the lower hull of these values of H, then scaled to be safe."""
    count = len(values)
    if count == 1:
        return Losses(step, knots, np.array([1 - float(values[0])]), float(values[0]))
    points = step * knots
    gaps = np.exp(points[:-1]) * np.expm1(np.diff(points))
    heights = _hull(values, gaps)
    slopes = np.append(np.diff(heights) / gaps, 0.0)
    opposite = np.maximum(np.diff(slopes), 0.0)  # masses of Q at the knots after the first
    infinite = float(heights[-1])
    masses = opposite * np.exp(points[1:])
    finite = float((masses + opposite).sum())
    centre = max(0.0, 2 * float(slopes[0]) + 1 - float(heights[0]))

    # What these numbers really give, in positive terms; then one factor makes it safe everywhere.
    tails = np.cumsum(opposite[::-1])[::-1]
    reached = infinite + np.cumsum((gaps * tails)[::-1])[::-1]
    wrong = slack(16 * count + 256)
    total = centre + finite + infinite
    if safe_up:
        factor = max(1 / total, float(np.max(heights[:-1] / np.maximum(reached, 1e-320))), 1.0) * (1 + wrong)
    else:
        positive = reached > 0
        ratios = values[:-1][positive] / reached[positive]
        factor = min(1 / total, float(np.min(ratios, initial=1.0))) * (1 - wrong)
    return Losses(step, knots, np.concatenate(([centre], masses)) * factor, infinite * factor)


def _directed(forward: DeltaGrid, backward: DeltaGrid) -> Losses:
    """Return losses for one direction: H of the grid for t ≥ 1, and 1 − t + t·H(1/t) of the exchanged pair for t < 1.

    Masses are differences of slopes: of P at −x where the pair is exchanged. What they really give is then added up
    from the greatest loss down, in positive terms, and one factor makes it at least H everywhere; at t = 0, at least 1.
    """
    first = min(float(forward.upper[0]), float(backward.upper[0]))  # both bound the same
    sides = []
    for grid in (forward, backward):
        points = grid.step * grid.knots
        gaps = np.exp(points[:-1]) * np.expm1(np.diff(points))
        heights = _minorant(np.minimum.accumulate(np.concatenate(([first], grid.upper[1:]))), gaps)
        sides.append((points, heights, np.append(np.diff(heights) / gaps, 0.0)))
    (points, heights, slopes), (others, mirrored, falls) = sides
    masses = np.maximum(np.diff(slopes), 0.0) * np.exp(points[1:])
    centre = max(0.0, float(slopes[0]) + float(falls[0]) + 1 - first)
    before = np.maximum(np.diff(falls), 0.0)[::-1]
    infinite = float(heights[-1])
    # H at every knot, those before zero in units of one: 1 − t + t·H(1/t).
    signed = np.concatenate((-others[:0:-1], points))
    needed = np.concatenate((-np.expm1(-others[:0:-1]) + np.exp(-others[:0:-1]) * mirrored[:0:-1], heights))
    everything = np.concatenate((before, [centre], masses))
    tails = np.cumsum((everything * np.exp(-signed))[::-1])[::-1]
    rises = np.exp(signed[:-1]) * np.expm1(np.diff(signed)) * tails[1:]
    reached = np.append(infinite + np.cumsum(rises[::-1])[::-1], infinite)
    total = float(everything.sum()) + infinite
    factor = max(1 / total, float(np.max(needed / np.maximum(reached, 1e-320), initial=1.0, where=needed > 0)), 1.0)
    factor *= 1 + slack(16 * len(signed) + 256)
    behind = (-backward.knots[:0:-1], before * factor)
    return Losses(forward.step, forward.knots, np.concatenate(([centre], masses)) * factor, infinite * factor, behind)


def _hull(values: NDArray[np.float64], gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest convex function on the grid that, with its mirror image, is nowhere above the values."""
    values = np.minimum.accumulate(values)
    positions = np.concatenate(([0.0], np.cumsum(gaps)))
    # At t = 1 the chord from a point to its own mirror image passes through (t − 1 + 2H)/(t + 1).
    first = min(float(values[0]), float(np.min((positions[1:] + 2 * values[1:]) / (positions[1:] + 2))))
    return _minorant(np.concatenate(([first], values[1:])), gaps)


def _minorant(values: NDArray[np.float64], gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest convex function on the grid that is nowhere above the values."""
    if np.all(np.diff(np.diff(values) / gaps) >= 0):
        return values
    positions = np.concatenate(([0.0], np.cumsum(gaps)))
    kept = [0]
    for index in range(1, len(values)):
        while len(kept) > 1:
            before, middle = kept[-2:]
            rise = (values[middle] - values[before]) * (positions[index] - positions[middle])
            if rise <= (values[index] - values[middle]) * (positions[middle] - positions[before]):
                break
            kept.pop()
        kept.append(index)
    return np.interp(positions, positions[kept], values[kept])


def short(step: float) -> float:
    """Return the step rounded down to 32 digits, so that all its multiples up to 2²¹ are doubles."""
    digits, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(digits, 32)), exponent - 32)


def natural_step(delta: float, ceiling: float, *, fineness: int = _FINENESS) -> float:
    """Return a step of about a standard deviation of the loss over `fineness`, given δ(0) and the largest loss."""
    spread = min(math.sqrt(2 * math.pi) * delta, ceiling)
    return short(ceiling / math.ceil(fineness * ceiling / spread))


def renyi_mesh(delta: float, ceiling: float, scale: int) -> Mesh:
    """Return the mesh for orders α with 4^scale ≤ α − 1 < 4^(scale + 1), given δ(0) and the largest loss."""
    tilts = tuple(4.0**scale * factor for factor in (1.0, 2.0, 4.0))
    step = natural_step(delta, ceiling, fineness=_KNOTTED)
    # What is beyond the end counts as the largest loss, and has to be small even so.
    depth = min(_DEPTH + tilts[-1] * ceiling, _DEEPEST)
    return Mesh(step, ceiling, depth, _TOLERANCE, tilts, goal=_GOAL)


def renyi_of(losses_at: Callable[[int], Losses], ceiling: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Rényi divergences, rounded up, from losses that depend on the size of α − 1, in powers of four."""
    result = np.empty_like(orders)
    scales = np.clip(np.floor(np.log2(orders - 1) / 2), *_SCALES).astype(np.int64)
    for scale in np.unique(scales).tolist():
        group = scales == scale
        result[group] = renyi(losses_at(scale), ceiling, orders[group])
    return result


def sharpened(
    general: NDArray[np.float64],
    losses_at: Callable[[int], Losses],
    delta: Callable[[float], float],
    ceiling: float,
    orders: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the lesser of these divergences and those of the losses, which are left out where they cannot be less.

    A grid that ends before ε₀ says of all losses beyond only that they are ε₀ at most. At large orders, that is too
    little.
    """
    result = general.copy()
    hopeful = (orders - 1) * (ceiling - general) < _HOPELESS
    if not hopeful.all() and delta(_PAST * ceiling) > math.exp(-_DEEPEST):
        hopeful[:] = True
    if hopeful.any():
        result[hopeful] = np.minimum(general[hopeful], renyi_of(losses_at, ceiling, orders[hopeful]))
    return result


def renyi(losses: Losses, ceiling: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Rényi divergences of these losses, rounded up; what is infinite is at the ceiling at most.

    A mass at x, with its mirror image, adds e^θx·(1 − e^−θx)(1 − e^−(θ + 1)x) to E[e^θL] − 1, θ = α − 1: a small
    divergence is a sum of small positive terms, and nothing cancels.
    """
    points, masses = losses.points, losses.masses
    if losses.infinite > 0:
        # δ at the last point is all that is known of the rest: a single mass at the ceiling that has it is the worst.
        share = -math.expm1(float(points[-1]) - ceiling)
        points, masses = np.append(points, ceiling), np.append(masses, losses.infinite / max(share, 1e-300))
    some = (points > 0) & (masses > 0)
    points, logs, rates = points[some], np.log(masses[some]), (orders - 1)[:, None]
    factors = np.log(-np.expm1(-rates * points)) + np.log(-np.expm1(-(rates + 1) * points))
    terms = logs + rates * points + factors
    terms += slack(16) * (8 + np.abs(logs) + rates * points + np.abs(factors))
    totals = np.logaddexp.reduce(terms, axis=1)
    totals += slack(4 * len(points) + 16) * (8 + np.abs(np.maximum(totals, -1e3)))
    return up(np.asarray(np.logaddexp(0.0, totals) / (orders - 1)), roundings=8)
