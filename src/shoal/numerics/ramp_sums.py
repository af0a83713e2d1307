"""Upper bounds of E[(U₁ + … + U_n − x)₊] for copies of a Gaussian ratio, at many x.

With V = X₀ − e^ε·X₁ for X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2) and Z standard normal, U is V
with a given probability and otherwise 0, as in allocation and for the clones of a Gaussian
(docs/theory/samplers.md, section 5). All steps go upwards: U is moved to a lattice with its mean
kept; values above a level are jumps; and the sum is taken apart by the number of jumps, so that a
tilt need only serve the rest. Each x has a tilt that is best, which serves the points next to it.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.lattice import MOST_NODES, LatticeMeasure, NodeSum, clear_period, node_sum, ramp
from shoal.numerics.normal import OUTWEIGH, mean_kept, quantile, ratio_points, upper_tail
from shoal.rounding import LARGEST_POWER, UNIT

LITTLE_NOISE = 2.5
"""From this a on one copy outweighs many: any number of copies counts as few."""
_LARGEST_POSITION = 1 << 60
"""Larger positions could overflow as integers."""
_GENTLEST = 0.4
"""The least tilt times the deviation of S: a lesser one is best only far below the mean."""
_OCTAVES = 3
"""Points whose best tilt is up to 2³ times a tilt are served by it, if rounding allows: faster."""
_RESOLVED = 0.03
"""Tilt times √n times a coarser step, and tilt times the length of a chord: the sum grows by 1e-4
of itself; less needs more nodes, and longer tables."""
_MOST_HALVINGS = 50
"""The coarsest lattice, relative to the finest: up to here shares of a mass are exact."""
_MOST_WITH_CLONES = 1 << 18
"""The most nodes if most copies are zero: 2¹⁶ take up to half the time, and enlarge ε by 3e-4."""
_NO_JUMPS = 0.4
"""Up to this a there are no jumps, as one tilt serves all of V; more would need more nodes."""
_FEW = 64
"""Up to this many copies a sum is large because each V is near zero: the lattice is finer there."""
_RARELY = 0.01
"""The expected number of jumps among all copies: fewer need more nodes, more longer lists."""
_PER_JUMP = 0.006
"""Jumps are at powers of e^0.006a: δ grows by up to 1e-4 of itself; fewer jumps are faster."""
_GATHERED = 1.05
"""Sums of jumps are at powers of this ratio: δ grows by up to 1e-3 of itself; lists stay short."""
_MOST_JUMPS = 12
"""From this number of jumps on, a simpler bound is charged; so many are hardly ever expected."""
_SHARE = 1e-4
"""The part of the sum that may be charged instead of being computed: less would take longer."""

Ratio = tuple[float, float, float]
"""a, b and e^ε."""


class RampSums:
    """Upper bounds of E[(S − x)₊] for sums S of at most n copies of a measure, at many x.

    Values that a tilt cannot tell apart are moved to a coarser lattice, with the mean kept, so that
    a measure with many scales needs few nodes for each of them.

    Parameters
    ----------
    measure : LatticeMeasure
        The measure, whose mass may be less than one.
    copies : int
        n.
    """

    def __init__(self, measure: LatticeMeasure, copies: int) -> None:
        self.measure = measure
        self.copies = copies
        values = measure.values
        self.mass = float(measure.masses.sum())
        self.mean = measure.mean / self.mass
        self.present = float(measure.masses[measure.positions != 0].sum()) / self.mass
        squares = measure.masses * (values - self.mean) ** 2
        self.variance = float(squares.sum()) / self.mass
        sizes = measure.masses * np.abs(values)
        self.size = float(sizes.sum()) + measure.step
        self.root = math.sqrt(copies * self.variance) + measure.step
        self.largest = measure.step * measure.reach
        steepest = LARGEST_POWER / max(self.largest, 4 * measure.step)
        gentlest = _GENTLEST / self.root
        octaves = math.floor(math.log2(max(steepest / gentlest, 1.0)))
        self.tilts = steepest * 2.0 ** -np.arange(octaves, -1.0, -1.0)
        self.log_moments = _log_moments(measure, self.tilts)
        # Tilts below zero bound sums that are far below their mean.
        self.falling = np.array([1.0, 2.0, 4.0, 8.0]) / self.root
        self.falls = _log_moments(measure, -self.falling)
        self._coarser: dict[int, LatticeMeasure] = {0: measure}
        self._tables: dict[tuple[float, ...], tuple[NodeSum, Array]] = {}

    def least(self, points: Array, copies: int) -> Array:
        """Return about lower bounds of E[(S − x)₊] for some copies, from the mean (Jensen)."""
        return np.maximum((copies * self.mean - points) * self.mass**copies, 0.0)

    def upper(self, points: Array, copies: int, errors: Array) -> Array:
        """Return upper bounds of E[(S − x)₊] for this number of copies, at each x in `points`.

        A bound is left rough where it adds no more than is allowed by `errors`.
        """
        # A point is lowered by more than rounding has changed it.
        points = points - 4 * UNIT * np.abs(points)
        if copies == 0:
            return np.maximum(-points, 0.0)
        best = self._best_tilts(points, copies)
        bounds = self._far_below(points, copies)
        bounds = np.minimum(bounds, self._chernoff(points, copies, best))
        excess = bounds - self.least(points, copies)
        near = np.abs(points) < _LARGEST_POSITION * self.measure.step
        asked = np.flatnonzero((excess > errors) & near)
        errors = 0.1 * errors + 1e-7 * bounds
        while len(asked):
            tilt = int(np.sort(best[asked])[len(asked) // 2])
            served = asked[np.abs(best[asked] - tilt) <= _OCTAVES]
            steepest = int(best[served].max())
            values, rounding = self._at_tilt(tilt, steepest, points[served], copies)
            bounds[served] = np.minimum(bounds[served], values)
            done = (rounding <= errors[served]) | (best[served] == tilt)
            asked = np.setdiff1d(asked, served[done], assume_unique=True)
        return np.maximum(bounds, SMALLEST_DELTA)  # products of small numbers may underflow

    def _best_tilts(self, points: Array, copies: int) -> IntArray:
        """Return the index of the tilt at which M(θ)ⁿ·e^−θx/θ² is least, for each x."""
        exponents = copies * self.log_moments - 2 * np.log(self.tilts)
        # They ascend, as exponents are nearly convex; any tilt is valid.
        slopes = np.diff(exponents) / np.diff(self.tilts)
        return np.searchsorted(np.maximum.accumulate(slopes), points)

    def _far_below(self, points: Array, copies: int) -> Array:
        """Return bounds that are good far below the mean: E[S − x] + E[(x − S)₊]."""
        middle = copies * self.mean - points
        variance = copies * self.variance
        mass = self.mass**copies
        # Scarf: E[(x − S)₊] ≤ (√(m² + v) − m)/2, m = E[S] − x; and so is E[(S − x)₊] with −m, if
        # m < 0.
        length = np.abs(middle) + np.hypot(middle, math.sqrt(variance))
        scarf = variance / 2 / (length + 1e-300)
        # Chernoff, with a tilt below zero.
        exponents = copies * self.falls - 1 - np.log(self.falling)
        falls = exponents[:, None] + np.multiply.outer(self.falling, points)
        with np.errstate(over="ignore"):
            chernoff = np.exp(falls.min(axis=0))
            bounds = np.maximum(middle, 0.0) * mass + np.minimum(scarf * mass, chernoff)
        rounding = 64 * UNIT * copies
        return np.asarray(bounds * (1 + 1e-9 + rounding) + rounding * self.size)

    def _chernoff(self, points: Array, copies: int, best: IntArray) -> Array:
        """Return bounds from the moment at each point's tilt: (x)₊ ≤ e^{θx}/(eθ)."""
        tilts = self.tilts[best]
        moments = self.log_moments[best]
        exponents = copies * moments - tilts * points - 1 - np.log(tilts) + 1e-9
        sizes = 16 + tilts * self.largest + np.abs(moments)
        exponents += 64 * UNIT * copies * sizes
        exponents += 64 * UNIT * np.abs(tilts * points)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(exponents))

    def _at_tilt(
        self,
        tilt: int,
        steepest: int,
        points: Array,
        copies: int,
    ) -> tuple[Array, Array]:
        """Return upper bounds of E[(S − x)₊] at each x by one tilt, and what rounding adds to it.

        The best tilts of the points are at most that with the index `steepest`.
        """
        theta = float(self.tilts[tilt])
        moments = copies * self.log_moments[tilt:]
        lowest = float(points.min())
        highest = float(points.max())
        at_lowest = min(float(moments[0]) - theta * lowest, 0.0)
        at_highest = min(float(moments[0]) - theta * highest, 0.0)
        tilts = self.tilts[tilt + 1 :].tolist()
        steeper = zip(tilts, moments[1:].tolist(), strict=True)
        period = max(clear_period(theta, (at_lowest, at_highest), lowest, steeper))
        # E[(S − x)₊] grows by about mh²θ²/12 of itself on a lattice of step h, if about m copies
        # are not zero: zero is a point of every lattice.
        finest = float(self.tilts[steepest])
        present = max(copies * self.present, 1.0)
        most = MOST_NODES if self.present > 0.5 else _MOST_WITH_CLONES
        step = max(_RESOLVED / (finest * math.sqrt(present)), 2 * period / most)
        halvings = math.floor(math.log2(step / self.measure.step))
        halvings = min(max(0, halvings), _MOST_HALVINGS)
        step = math.ldexp(self.measure.step, halvings)
        octaves = max(8, math.ceil(math.log2(period / step)))
        nodes = min(1 << octaves, MOST_NODES)
        sums, table = self._table(tilt, halvings, nodes, copies, _RESOLVED / finest)
        stride = sums.nodes // len(table)
        scaled = points / (stride * step)
        low = np.floor(scaled)
        knots = low.astype(np.int64)
        following = knots + 1
        first = sums.upper(stride * knots, table[knots % len(table)])
        second = sums.upper(stride * following, table[following % len(table)])
        # A convex function is at most its chords. Nothing cancels, however small the second end is.
        with np.errstate(invalid="ignore"):
            chords = (low + 1 - scaled) * first + (scaled - low) * second
            values = chords * (1 + 16 * UNIT)
        rounding = sums.upper(stride * knots, np.zeros(len(points)))
        return np.where(np.isnan(values), math.inf, values), rounding

    def _table(
        self,
        tilt: int,
        halvings: int,
        nodes: int,
        copies: int,
        chord: float,
    ) -> tuple[NodeSum, Array]:
        """Return the sum over nodes, and a table of it at points that are at most a chord apart."""
        key = (tilt, halvings, nodes, copies, chord)
        if key not in self._tables:
            measure = self._coarsened(halvings)
            theta = float(self.tilts[tilt])
            sums = node_sum([(measure, copies)], theta, nodes, ramp(measure.step))
            # All nodes that are kept have to be among those of the table.
            last = max(int(sums.places[-1]), 1)
            stride = min(math.floor(chord / measure.step), nodes // 2 // last)
            power = 1 << max(stride.bit_length() - 1, 0)
            self._tables[key] = (sums, sums.table(power))
        return self._tables[key]

    def _coarsened(self, halvings: int) -> LatticeMeasure:
        """Return the measure on a lattice with 2^halvings times the step, with its mean kept.

        No E[(S − x)₊] is smaller then.
        """
        if halvings not in self._coarser:
            measure = self.measure
            past = measure.positions - ((measure.positions >> halvings) << halvings)
            right = past / (1 << halvings)
            # No mass is less than it should be: E[(S − x)₊] grows with every mass.
            self._coarser[halvings] = measure.split(
                halvings,
                measure.masses * (1 - right),
                measure.masses * right,
                roundings=160 + 6 * float(np.abs(measure.log_masses).max()),
            )
        return self._coarser[halvings]


def _log_moments(measure: LatticeMeasure, tilts: Array) -> Array:
    return np.array([measure.log_moment(tilt) for tilt in tilts.tolist()])


def _value(point: float, ratio: Ratio) -> float:
    """Return V at Z = point."""
    above, below, exp_eps = ratio
    first = math.exp(above * point - above**2 / 2)
    return first - exp_eps * math.exp(-below * point - below**2 / 2)


def _positions(step: float, last: int, bits: int, least: float, largest: float) -> IntArray:
    """Return positions from `least` to `largest`, or a little beyond, and zero.

    Up to `last` all are there; far out they are multiples of powers of two, as on coarser lattices.
    """
    side = _whole_side(last, bits)
    sides = []
    for end in (-least, largest):
        farthest = min(max(math.ceil(end / step), 1), _LARGEST_POSITION)
        count = int(np.searchsorted(side, farthest)) + 1
        sides.append(side[:count])
    return np.concatenate((-sides[0][::-1], [0], sides[1]))


@lru_cache(maxsize=16)
def _whole_side(last: int, bits: int) -> IntArray:
    """Return the positions of one side: with `bits` digits after the first, from `last` on."""
    side = list(range(1, last + 1))
    while side[-1] < _LARGEST_POSITION:
        gap = 1 << max(side[-1].bit_length() - 1 - bits, 0)
        side.append((side[-1] // gap + 1) * gap)
    return np.array(side)


class _Lattice(NamedTuple):
    """Positions for U = V + constant if Z > `lowest`: multiples of a step, and then jumps."""

    step: float
    positions: IntArray
    largest: float
    constant: float
    lowest: float


def _lattice(ratio: Ratio, copies: float, highest: float, *, whole: bool) -> _Lattice:
    """Return a lattice that is fine where the sum is decided; every choice is valid."""
    above, below, exp_eps = ratio
    separation = max(above, below)
    few = whole and separation > _NO_JUMPS
    few = few and (separation > LITTLE_NOISE or copies <= _FEW)
    if few and not above:
        return _few_added(separation, copies, highest)
    constant = 0.0
    if few and below:
        # Each V is about as large as the sum, so that the lattice is fine around zero.
        fineness = 64 if separation < 2 else 32
        last = 8 * fineness
        step = _typical(separation, exp_eps, copies) / fineness
        level = max(_value(-quantile(_RARELY / copies), ratio), 16 * fineness * step)
    else:
        # The sum is as large as its standard deviation. If all are V, the lattice is fine around
        # their mean.
        if whole:
            constant = exp_eps - 1
        fineness = 64 if copies > _FEW else 192
        last = 512 if copies > _FEW else 3072
        level, deviation = _jump_level(above, below, 1 + constant, copies, highest)
        step = deviation / fineness
    least = _value(-highest, ratio) + constant
    largest = _value(highest, ratio) + constant
    if separation <= _NO_JUMPS:
        level = largest
    # A lattice that serves every ε may take longer than that of a single one.
    bits = 5 if above and below else 7
    positions = _positions(step, last, bits, least, min(level, largest))
    return _Lattice(step, positions, largest, constant, -highest)


def _few_added(separation: float, copies: float, highest: float) -> _Lattice:
    """Return a lattice of −X₁ up to zero: all are small, and one above their number is no use."""
    # A sum counts if it is below t·e^−ε, less likely than e^−55 for a smaller typical X₁.
    rarely = quantile(math.exp(-55.0 / copies))
    typical = math.exp(min(separation * rarely - separation**2 / 2, 0.0))
    step = typical / copies / 32
    largest = 1.01 * copies
    bits = 7 + max(0, math.ceil(-math.log2(separation)))
    positions = _positions(step, 128, bits, -largest, 0.0)
    lowest = -(math.log(largest) + separation**2 / 2) / separation
    return _Lattice(step, positions[:-1], 0.0, -1.0, max(lowest, -highest))


def _typical(separation: float, exp_eps: float, copies: float) -> float:
    """Return about the size of each −V where a sum of few is positive and as likely as possible."""
    middle = math.log(exp_eps) / (2 * separation)
    others = math.log(copies - 1) / separation
    point = ((copies - 2) * middle - others) / copies
    shape = math.sinh(max(separation * point, 0.5))
    scale = math.sqrt(exp_eps) * math.exp(-(separation**2) / 2)
    return 2 * scale * shape


def _jump_level(
    above: float,
    below: float,
    factor: float,
    copies: float,
    highest: float,
) -> tuple[float, float]:
    """Return from where on X₀ − 1 − f·(X₁ − 1) is a jump, and the standard deviation of the rest."""
    z = np.linspace(-highest, highest, 800)
    first = np.expm1(above * z - above**2 / 2)
    differences = first - factor * np.expm1(-below * z - below**2 / 2)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    squares = density * (z[1] - z[0]) * differences**2
    rarely = min(_RARELY / copies, 0.4)
    start = min(-quantile(rarely), highest)
    level = _value(start, (above, below, factor)) + factor - 1
    deviation = level
    for _ in range(2):
        # The tilt of the sum also serves values that are below its deviation.
        usual = np.abs(differences) <= level
        deviation = math.sqrt(float(squares[usual].sum()) + 1e-300)
        level = max(level, math.sqrt(copies) * deviation)
    return level, deviation


class GaussianSum:
    """Upper bounds of E[(U₁ + … + U_n − x)₊] for any x, where U is V + constant or 0.

    Parameters
    ----------
    above, below, epsilon : float
        a, b and ε; a and b are equal, or one of them is 0.
    copies : int
        n.
    beyond : float
        Where Z exceeds max(a, b) + `beyond`, V counts as 0 and what X₀ has there is charged.
    present : float
        The probability that U is V; if it is less than one, the constant is 0.
    """

    def __init__(
        self,
        above: float,
        below: float,
        epsilon: float,
        copies: int,
        *,
        beyond: float,
        present: float = 1.0,
    ) -> None:
        a = above * (1 + OUTWEIGH)
        b = below * (1 + OUTWEIGH)
        ratio = (a, b, math.exp(epsilon))
        separation = max(a, b)
        highest = separation + beyond
        at = _lattice(ratio, max(present * copies, 1.0), highest, whole=present == 1)
        self.copies = copies
        self.constant = at.constant
        bulk = len(at.positions)
        values = np.asarray(at.step * at.positions, dtype=np.float64)
        first = float(values[-1])
        if first < at.largest:
            log_width = _PER_JUMP * separation
            count = math.ceil(math.log(at.largest / first) / log_width)
            powers = np.arange(1.0, max(count, 1) + 1)
            values = np.concatenate((values, first * np.exp(log_width * powers)))
        pmf = present * _moved(values, ratio, at, highest)
        pmf[int(np.searchsorted(values, 0.0))] += 1 - present
        # What X₀ has above, and how much less V is than 0 where it counts as 0.
        lowered = max(0.0, at.constant - float(values[-1]))
        rests = upper_tail(highest - a) + lowered * upper_tail(highest)
        self.cost = present * copies * rests * (1 + 1e-9)
        # The mean of all copies together may be wrong by this.
        self.abs_error = 16 * UNIT * present * copies * (1 + ratio[2])
        masses = pmf[:bulk]
        kept = masses > 0
        measure = LatticeMeasure(at.step, at.positions[kept], masses[kept])
        self.ramps = RampSums(measure, copies)
        jumps = pmf[bulk:]
        self.jumps = [(values[bulk:], jumps)]
        self.expected = copies * float(jumps.sum()) * (1 + 1e-9)
        # E[V₊] of jumps and of all others.
        surpluses = np.maximum(values - at.constant + 2 * self.abs_error / copies, 0.0)
        gains = pmf * surpluses * (1 + 1e-9)
        self.gain_of_jumps = float(gains[bulk:].sum())
        self.gain_of_others = float(gains[:bulk].sum())

    def upper(self, points: Array) -> Array:
        """Return upper bounds of E[(U₁ + … + U_n − x)₊] at each x ≥ n·constant."""
        lowered = points - self.abs_error - 8 * UNIT * np.abs(points)
        points = lowered.reshape(-1, 1)
        # About one jump alone, so that no more digits are computed than that leaves visible.
        values, masses = self.jumps[0]
        least = self.ramps.least(points - values, self.copies - 1)
        known = self.copies * (least @ masses)
        totals = self._ramp(points, self.copies, np.ones(1), known)
        # The sum over the number k of jumps: R_{n−k} at x less their sum, in (n choose k) ways.
        ways = 1.0
        for count in range(1, min(_MOST_JUMPS, self.copies) + 1):
            if not self.expected:
                break
            rest = self._rest(count)
            if count == _MOST_JUMPS or np.all(rest <= _SHARE * totals):
                totals = totals + rest
                break
            values, masses = self._jumps(count)
            ways *= (self.copies - count + 1) / count
            sums = self._ramp(points - values, self.copies - count, ways * masses, totals)
            totals = totals + sums * (1 + 1e-12)
        return np.asarray(totals + self.cost)

    def at_constant(self) -> float:
        """Return an upper bound of E[(V₁ + … + V_n)₊]."""
        point = np.array([self.copies * self.constant])
        return float(self.upper(point)[0])

    def _ramp(self, points: Array, copies: int, masses: Array, known: Array) -> Array:
        """Return Σ masses·E[(U₁ + … − x)₊] over the columns, where some of the sum is known."""
        least = known + self.ramps.least(points, copies) @ masses
        allowed = (_SHARE * least + 1e-250) / len(masses)
        with np.errstate(over="ignore"):
            errors = np.multiply.outer(allowed, 1 / np.maximum(masses, 1e-300))
        bounds = self.ramps.upper(points.ravel(), copies, errors.ravel())
        return np.asarray(bounds.reshape(points.shape) @ masses)

    def _rest(self, count: int) -> float:
        """Return a bound for this many jumps or more.

        It is (ΣU − x)₊ ≤ Σ(U − x/n)₊, and x/n is at least the constant.
        """

        def likely(jumps: int) -> float:
            ways = self.expected**jumps / math.factorial(jumps)
            return min(1.0, ways) * (1 + 1e-9)

        own = self.gain_of_jumps * likely(count - 1)
        return self.copies * (own + self.gain_of_others * likely(count))

    def _jumps(self, count: int) -> tuple[Array, Array]:
        """Return the sums of this many jumps, and their masses."""
        while len(self.jumps) < count:
            before, before_masses = _gathered(*self.jumps[-1])
            one, one_masses = _gathered(*self.jumps[0])
            sums = np.add.outer(before, one).ravel()
            products = np.multiply.outer(before_masses, one_masses).ravel()
            # What underflows is far less than what is added for rounding.
            kept = products > 0
            kept[-1] = True
            self.jumps.append(_gathered(sums[kept], products[kept]))
        return self.jumps[count - 1]


def _moved(values: Array, ratio: Ratio, at: _Lattice, highest: float) -> Array:
    """Return masses of U = V + constant at the values, with its mean kept between two points.

    Below `at.lowest` U is raised. Above `highest` V is given up: it is 0, or as much more as makes
    U one of the values.
    """
    points = np.clip(ratio_points(values - at.constant, ratio), at.lowest, highest)
    points[-1] = highest
    pmf = mean_kept(values, points, ratio, at.constant)
    first = float(points[0])
    raised = int(np.searchsorted(values, _value(first, ratio) + at.constant))
    pmf[raised] += upper_tail(-first)
    given_up = int(np.searchsorted(values, at.constant))
    pmf[min(given_up, len(values) - 1)] += upper_tail(highest)
    return pmf


def _gathered(values: Array, masses: Array) -> tuple[Array, Array]:
    """Return the same measure on powers of a ratio, with its mean kept."""
    low = float(values.min())
    width = math.log(_GATHERED)
    highest = float(values.max())
    octaves = math.log(highest / low) / width
    count = max(1, math.ceil(octaves + 1e-9))
    grid = low * np.exp(width * np.arange(count + 1.0))
    # An index that is wrong by rounding gives a share that is below 0 or above 1 by as much.
    powers = np.log(values / low) / width
    index = np.clip(powers.astype(np.int64), 0, count - 1)
    widths = np.diff(grid)[index]
    share = np.maximum((values - grid[index]) / widths, 0.0)
    rest = np.maximum(1 - share, 0.0)
    right = np.bincount(index + 1, masses * share, count + 1)
    left = np.bincount(index, masses * rest, count + 1)
    return grid * (1 + 1e-12), np.asarray(left + right, dtype=np.float64)
