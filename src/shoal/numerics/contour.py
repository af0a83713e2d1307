"""E[(S)₊] = n·δ(ε) as a sum along a contour, for any values of W.

Let U be normal with mean 0 and standard deviation τ, independent of S, and f(x) = E[(S + U − x)₊].
For every θ > 0 and every spacing h, Poisson's summation formula gives, with L = 2π/h and M the
moment generating function of one copy,

    (1/L) · Σ_k  M(s)ⁿ · exp(τ²s²/2) / s²  at  s = θ + ikh   =   Σ_j  exp(θjL) · f(jL).     (2.1)

Every term on the right is non-negative, the one at j = 0 is f(0), and f(0) ≥ E[(S)₊] by Jensen's
inequality. So the sum on the left is an upper bound for every θ, h and τ, which only decide how
tight it is. Nodes that are left out, and rounding, are charged. For the lower bound the terms with
j ≠ 0 and the smoothing by U are bounded and subtracted (docs/theory/numerics.md, 2.1 to 2.4).
"""

import math
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array, Complex
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.summand import Summand, Tilted
from shoal.rounding import LARGEST_POWER, UNIT

WIDE = 1e-6
"""A wider bracket of δ is worth a second, finer sum: ε is promised to six digits."""
_FINE = 1e-9
"""What smoothing may add to δ where nodes are few; nodes grow like the inverse root of it."""
_COARSEST = 1.5e-7
"""What smoothing may add to δ where nodes are more than `_CHEAP`: brackets stay below `WIDE`."""
_CHEAP = 4_000
"""Nodes that take about a millisecond: up to here accuracy is free."""
_MOST_NODES = 200_000
"""Nodes of one sum, about 50 ms: beyond, δ is smoothed by more than `_COARSEST`."""
_MOST_PAIRS = 4_096
"""Pairs of values that are tried in (2.2): more take longer than the nodes that they save."""
_USELESS = 0.1
"""Smoothing that adds more than this to δ gives no useful bound."""
_OTHER_TILTS = np.array([[0.02, 0.1, 0.3, 0.6, 0.8], [1.25, 1.6, 2.2, 3.5, 6.0]])
"""Multiples of θ with which Chernoff's inequality bounds the terms j < 0 and j > 0 (2.6)."""


class NodeGrid(NamedTuple):
    """Heights (stride·j + i)·spacing ≥ 0 for 0 ≤ j < rows and |i| ≤ width, ascending."""

    spacing: float
    stride: int
    width: int
    rows: int

    @classmethod
    def consecutive(cls, spacing: float, count: int) -> "NodeGrid":
        """Return at least `count` heights 0, h, 2h, …."""
        width = math.isqrt(count) // 2 + 1
        stride = 2 * width + 1
        return cls(spacing, stride, width, (count + width) // stride + 1)

    @property
    def coarse(self) -> Array:
        """The heights stride·j·spacing."""
        return self.stride * self.spacing * np.arange(self.rows, dtype=np.float64)

    @property
    def fine(self) -> Array:
        """The heights i·spacing."""
        return self.spacing * np.arange(-self.width, self.width + 1, dtype=np.float64)

    @property
    def heights(self) -> Array:
        """All heights."""
        return np.add.outer(self.coarse, self.fine).ravel()[self.width :]

    def ratios(self, rows: Tilted) -> tuple[Complex, Array]:
        """Return M(θ + iy)/M(θ) − 1 at each height y for each column, and bounds of its error.

        exp(ixy) is a product of an entry for j and one for i: few sines serve all heights (2.11).
        """
        values = rows.values[:-1].T[:, :, None]
        weights = rows.tilted[:-1].T[:, :, None]
        coarse = values * self.coarse
        fine = values * self.fine
        first = turned(coarse)
        second = turned(fine)
        excess = np.swapaxes(weights * first, 1, 2) @ second
        # Near zero linear terms are added up as the exact mean (2.10).
        means = 1j * rows.means[:, None]
        exact_first = means * self.coarse + (weights * _nonlinear(first, coarse)).sum(axis=1)
        exact_second = means * self.fine + (weights * _nonlinear(second, fine)).sum(axis=1)
        sizes = np.hypot(rows.tilts[:, None], self.coarse + self.fine[-1])
        roundings = 512 + 32 * len(values[0])
        errors = rows.error(sizes.T, roundings).T
        # Higher up, the terms are more accurate without it.
        plain_first = (weights * first).sum(axis=1)
        plain_second = (weights * second).sum(axis=1)
        lengths = (weights * np.abs(values)).sum(axis=1)
        plain_errors = 32 * UNIT * lengths * sizes + roundings * UNIT * weights.sum(axis=1)
        plain_errors += 2 * (rows.moment_errors / rows.count)[:, None]
        plain = plain_errors < errors
        excess += np.where(plain, plain_first, exact_first)[:, :, None]
        excess += np.where(plain[:, :, None], plain_second[:, None, :], exact_second[:, None, :])
        errors = np.repeat(np.minimum(errors, plain_errors), len(self.fine), axis=1)
        return excess.reshape(len(excess), -1)[:, self.width :], errors[:, self.width :]


def turned(angles: Array) -> Complex:
    """Return exp(ia) − 1 at each angle a, without cancellation."""
    return np.asarray(-2 * np.sin(0.5 * angles) ** 2 + 1j * np.sin(angles))


def _nonlinear(turns: Complex, angles: Array) -> Complex:
    """Return exp(ia) − 1 − ia, without cancellation, given exp(ia) − 1 at each angle a."""
    result = turns - 1j * angles
    near = np.abs(angles) < 0.5
    small = angles[near]
    square = small**2
    series = np.full_like(square, -1 / math.factorial(17))
    for power in range(15, 1, -2):
        series = series * square + (-1) ** (power // 2) / math.factorial(power)
    result.imag[near] = series * square * small
    return np.asarray(result)


def log_one_plus(change: Complex) -> Complex:
    """Return log(1 + change), relatively accurate near zero and where 1 + change is small."""
    real = change.real
    imaginary = change.imag
    squares = real * (2 + real) + imaginary**2
    near = 0.5 * np.log1p(np.maximum(squares, -0.5))
    far = np.log(np.maximum(np.hypot(1 + real, imaginary), 1e-260))
    log_moduli = np.where(np.abs(squares) < 0.5, near, far)
    return np.asarray(log_moduli + 1j * np.arctan2(imaginary, 1 + real))


class _Nodes(NamedTuple):
    """The nodes of a sum (section 2.2)."""

    grid: NodeGrid
    smoothing: float  # τ
    edge: float  # Y: nodes farther from a peak may be missing
    last: float  # Z: all nodes beyond Z + h are missing
    falls: Array | None  # a bound of |M(θ + iy)/M(θ)|ⁿ at the missing nodes below; None without any


class _Contour:
    """The sum along the contour with one amount of smoothing, for all columns of `rows`.

    Smoothing adds about `tolerance` to δ, relatively, and about `number` nodes are summed.
    """

    def __init__(self, rows: Tilted, tolerance: float) -> None:
        self.rows = rows
        self.tolerance = tolerance
        # Terms below exp(−cut) of M(θ)ⁿ are left out; E[(S)₊] is about M(θ)ⁿ/(2.5·θ²·deviation).
        steepest = float(np.log1p(rows.tilts * rows.deviations).max())
        self._cut = max(6.0, 4 - math.log(tolerance)) + 2 * steepest
        self._smoothing = math.sqrt(2 * tolerance) / float(rows.tilts.max())
        self._last = math.sqrt(2 * self._cut) / self._smoothing  # (2.4) is below exp(−cut)
        highest = np.maximum(1.0, LARGEST_POWER / (rows.tilts * rows.values[0]))
        self._others = rows.tilts * np.minimum(_OTHER_TILTS[..., None], highest)
        _, logs, errors = rows.moments_at(self._others)
        growth = logs + errors - rows.log_moments + rows.moment_errors
        self._growth = np.where(self._others != rows.tilts, growth, math.inf)
        self._spacing = 2 * math.pi / self._period()
        self._choose_peaks()

    def _period(self) -> float:
        """Return L, at which the bounds of all terms j ≠ 0 of (2.1) are below exp(−cut)."""
        tilts = self.rows.tilts
        periods = (self._growth + self._cut) / np.abs(self._others - tilts)  # (2.6)
        left, right = periods.min(axis=1)
        left = np.minimum(left, (self._cut + 4 - self.rows.log_moments) / tilts)  # (2.7)
        longest = np.maximum(np.where(np.isfinite(right), right, left), left)
        return float(np.maximum(longest, 10 / tilts).max())

    def _choose_peaks(self) -> None:
        """Choose the two values of (2.2) with which the fewest nodes are kept, or all nodes."""
        rows = self.rows
        number = len(rows.tilted)
        # The likeliest values with all others, and the outer two, one apart in every column.
        likeliest = np.argsort(-rows.tilted.min(axis=1))
        likeliest = likeliest[: max(1, _MOST_PAIRS // rows.tilted.size)]
        first = np.append(np.repeat(likeliest, number), 0)
        second = np.append(np.tile(np.arange(number), len(likeliest)), 1)
        one = rows.tilted[first]
        other = rows.tilted[second]
        products = rows.count * one * other
        self._steepness = products / np.maximum(one + other, 1e-300) * (1 - 1e-12)
        self._apart = np.abs(rows.values[first] - rows.values[second])
        least = self._steepness.min(axis=1)
        nearest = self._apart.min(axis=1)
        farthest = self._apart.max(axis=1)
        # Around a peak, nodes are kept up to where the exponent of (2.2) is the cut.
        angles = np.arcsin(np.sqrt(np.minimum(1.0, self._cut / (2 * least))))
        reaches = np.maximum(2 * angles / nearest, 4 * self._spacing)
        ends = self._last + reaches + self._spacing
        peaks = np.maximum(1, np.ceil(ends * farthest / (2 * math.pi)))
        usable = (2 * least > self._cut) & (reaches * farthest < 2.5)
        # Peaks above zero must be at the same heights in all columns.
        usable &= (peaks == 1) | (farthest <= nearest * (1 + 8 * UNIT))
        # With several peaks one of the two tables has sines for all nodes around a peak.
        # Three sines take as long as a node.
        nodes = 2 * peaks - 1 + np.where(peaks > 1, 2 * number / 3, 0.0)
        counts = np.where(usable, nodes * reaches / self._spacing, math.inf)
        self._pair = int(counts.argmin())
        self._reach = float(reaches[self._pair])
        self._peaks = float(peaks[self._pair])
        every = self._last / self._spacing + 2
        self.number = float(min(counts[self._pair], every))
        self._gaps = self.number < every

    def _nodes(self) -> _Nodes:
        """Return all nodes up to a height, or those around peaks."""
        spacing = self._spacing
        if not self._gaps:
            grid = NodeGrid.consecutive(spacing, math.ceil(self.number))
            return _Nodes(grid, self._smoothing, self._last, self._last, None)
        apart = self._apart[self._pair]
        distance = 2 * math.pi / float(apart.max())
        peaks = int(self._peaks)
        if peaks > 1:
            # An integer number of nodes from peak to peak.
            stride = math.ceil(distance / spacing)
            spacing = distance / stride
            width = math.ceil(self._reach / spacing)
            grid = NodeGrid(spacing, stride, width, peaks)
        else:
            width = math.ceil(self._reach / spacing)
            grid = NodeGrid.consecutive(spacing, width + 1)
        edge = width * spacing
        limit = peaks * distance - edge
        last = limit - spacing
        # The sine is least at one of the two ends. Heights have errors of a few units.
        near = np.sin(0.5 * apart * edge)
        far = np.sin(math.pi * peaks - 0.5 * apart * limit)
        sines = np.maximum(np.minimum(near, far) - 64 * UNIT * apart * limit, 0.0)
        falls = np.exp(-2 * self._steepness[self._pair] * sines**2)  # (2.2)
        # A higher last node costs nothing, so that smoothing is as fine as it allows.
        smoothing = min(self._smoothing, math.sqrt(2 * self._cut) / last)
        return _Nodes(grid, smoothing, edge, last, falls)

    def log_bounds(self) -> tuple[Array, Array, Array]:
        """Return logarithms of lower and upper bounds of δ, and bounds of their rounding errors."""
        rows = self.rows
        if not self.number < 10 * _MOST_NODES:
            unknown = np.full(len(rows.tilts), math.inf)
            return -unknown, unknown, np.zeros(len(rows.tilts))
        nodes = self._nodes()
        totals, margins, densities = self._summed(nodes)
        uppers = totals + margins
        aliases = self._aliases(nodes, uppers)
        lowers = totals - margins - aliases - nodes.smoothing**2 * densities  # (2.8)
        log_sizes = rows.log_moments + np.log(rows.scales)
        errors = 64 * UNIT * (8 + np.abs(log_sizes)) + np.expm1(rows.moment_errors)
        log_lowers = log_sizes + np.log(np.maximum(lowers, 0.0))
        log_uppers = log_sizes + np.log(np.maximum(uppers, 0.0))
        return log_lowers, log_uppers, errors

    def bounds(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ for each column; all below 1e-300 count alike."""
        log_lowers, log_uppers, errors = self.log_bounds()
        lowers = np.exp(log_lowers) * (1 - errors)
        uppers = np.exp(log_uppers) * (1 + errors)
        # Far from the usual sums, nodes may be too many, and Chernoff's bound is enough (1.2).
        log_chernoff = self.rows.log_moments + self.rows.moment_errors - 1
        chernoff = 1.01 * np.exp(log_chernoff) * self.rows.scales / self.rows.tilts
        uppers = np.maximum(np.fmin(uppers, chernoff), SMALLEST_DELTA)
        return np.where(lowers > SMALLEST_DELTA, lowers, 0.0), uppers

    def _summed(self, nodes: _Nodes) -> tuple[Array, Array, Array]:
        """Return the sum (2.1), its error, and a bound of the density at 0, relative to M(θ)ⁿ."""
        rows = self.rows
        tilts = rows.tilts[:, None]
        variance = nodes.smoothing**2
        lifts = np.exp(0.5 * variance * rows.tilts**2)
        # If all nodes are there, the event that every copy is 0 is taken out:
        # it adds nothing to E[(S)₊], and smoothing would add to it.
        log_empty = rows.count * np.log(np.maximum(rows.tilted[-1], 1e-300))
        without_empty = nodes.falls is None and bool(np.any(log_empty > -self._cut))
        heights = nodes.grid.heights
        excess, errors = nodes.grid.ratios(rows)
        if not without_empty:
            # Nodes with |R|ⁿ < exp(−cut) in every column are left out.
            moduli = np.hypot(1 + excess.real, excess.imag) + errors + 16 * UNIT
            kept = (moduli >= math.exp(-self._cut / rows.count)).any(axis=0)
            heights = heights[kept]
            excess = excess[:, kept]
            errors = errors[:, kept]
        turning = variance * tilts * heights
        powers, power_errors = self._powers(excess, errors, turning)
        if without_empty:
            empty = np.exp(log_empty)[:, None]
            powers -= empty * np.exp(1j * turning)
            units = 16 * UNIT * (8 + rows.count * (1 + 1 / np.maximum(rows.missing, 1e-30)))
            power_errors += empty * (units + rows.moment_errors)[:, None]

        # Nodes with k and −k are conjugate.
        twice = np.where(heights > 0, 2.0, 1.0)
        factors = lifts[:, None] * twice * np.exp(-0.5 * variance * heights**2)
        points = tilts + 1j * heights
        totals = (factors * (powers / points**2).real).sum(axis=1)
        margins = (factors * power_errors / np.hypot(tilts, heights) ** 2).sum(axis=1)
        # Without the division this is the sum of e^{θjL} times the density at jL, all positive.
        densities = (factors * (powers.real + power_errors)).sum(axis=1)
        missing, missing_density = self._left_out(nodes, lifts, dropped=not without_empty)
        share = nodes.grid.spacing / (2 * math.pi)
        margins = margins + missing
        densities = densities + missing_density
        return share * totals, share * margins, share * densities

    def _powers(self, excess: Complex, errors: Array, turning: Array) -> tuple[Complex, Array]:
        """Return (M(s)/M(θ))ⁿ·e^{iτ²θy} for each τ²θy of `turning`, and bounds of errors (2.12)."""
        count = self.rows.count
        logs = log_one_plus(excess)
        phases = count * logs.imag + turning
        powers = np.exp(count * logs.real + 1j * phases)
        ends = np.abs(1 + excess) + errors
        log_ends = count * np.log(ends)
        roundings = 16 * (8 + np.abs(log_ends) + np.abs(phases))
        return powers, (count * errors / ends + UNIT * roundings) * np.exp(log_ends)

    def _left_out(self, nodes: _Nodes, lifts: Array, *, dropped: bool) -> tuple[Array, Array]:
        """Return bounds of what missing nodes add to L·f(0) and to L times the density."""
        spacing = nodes.grid.spacing
        smoothing = nodes.smoothing
        tilts = self.rows.tilts
        beyond = lifts * math.exp(-0.5 * (smoothing * nodes.last) ** 2) / spacing  # (2.4)
        missing = 2 * beyond / nodes.last
        density = 2 * beyond / (smoothing**2 * nodes.last)
        if nodes.falls is not None:
            gaps = lifts * nodes.falls / (spacing * (nodes.edge - spacing))  # (2.3)
            missing += 2 * gaps
            density += 2 * (nodes.last + spacing) ** 2 * gaps
        if dropped:
            small = lifts * math.exp(0.01 - self._cut)  # (2.5)
            missing += small * (1 / tilts**2 + math.pi / (spacing * tilts))
            density += small * (1 + math.sqrt(2 * math.pi) / (spacing * smoothing))
        return missing, density

    def _aliases(self, nodes: _Nodes, uppers: Array) -> Array:
        """Return bounds of the terms j ≠ 0 of (2.1) over M(θ)ⁿ, given bounds of the term j = 0."""
        rows = self.rows
        period = 2 * math.pi / nodes.grid.spacing
        distances = np.abs(self._others - rows.tilts) * period
        logs = self._growth + 0.5 * (nodes.smoothing * self._others) ** 2 - distances + 1e-6
        bounds = 1.01 * np.exp(np.minimum(700.0, logs)) / (math.e * self._others)  # (2.6)
        left, right = np.where(distances >= 4.7, bounds, math.inf).min(axis=1)
        whole = uppers + period * np.exp(-rows.log_moments)
        second = 1.02 * np.exp(-rows.tilts * period) * whole  # (2.7)
        usable = (rows.log_moments > -600) & (rows.tilts * period >= 5)
        return np.asarray(right + np.where(usable, np.minimum(left, second), left))


def _affordable(finest: _Contour) -> float:
    """Return how much smoothing may add to δ, given the sum with the least smoothing."""
    # Where ε is below the deviation of the loss, its relative error is larger than that of δ.
    steep = float((finest.rows.tilts * finest.rows.deviations).min())
    coarsest = _COARSEST * min(1.0, max(steep - 2 / max(steep, 1e-3), 0.1))
    cheap = min(_FINE * (finest.number / _CHEAP) ** 2, coarsest)
    return float(max(_FINE, cheap, _FINE * (finest.number / _MOST_NODES) ** 2))


def positive_part(summand: Summand, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ; smoothing adds about `tolerance` to it.

    Without a tolerance, smoothing is as small as is affordable. If probability of S close to 0
    makes the bracket wider than 1e-6, the sum is repeated with more nodes.
    """
    # Where M vanishes, or where a tilt is too large, the bounds become infinite or NaN.
    with np.errstate(all="ignore"):
        rows = summand.tilted
        if tolerance is not None:
            (lower,), (upper,) = _Contour(rows, tolerance).bounds()
            return float(lower), float(upper)
        contour = _Contour(rows, _FINE)
        finer = _affordable(contour)
        least = 0.0
        most = math.inf
        for _ in range(3):
            if contour.tolerance != finer:
                contour = _Contour(rows, finer)
            (lower,), (upper,) = contour.bounds()
            least = max(least, float(lower))
            most = min(most, float(upper))
            if not SMALLEST_DELTA < most < math.inf or least >= most * (1 - WIDE):
                break
            # The width falls a little more slowly than the smoothing.
            needed = (WIDE / (2 * (1 - least / most))) ** 1.2
            share = max(needed, (contour.number / _MOST_NODES) ** 2)
            if not share < 0.7:
                break
            finer *= share
    return (least, most) if most < math.inf else (0.0, float(upper))


def positive_parts(rows: Tilted, *, tolerance: float = _COARSEST) -> tuple[Array, Array]:
    """Return bounds of δ for each column; all columns share their nodes."""
    with np.errstate(all="ignore"):
        return _Contour(rows, tolerance).bounds()


def node_count(summand: Summand, tolerance: float) -> float:
    """Return about the number of nodes of the sum with this tolerance."""
    with np.errstate(all="ignore"):
        return _Contour(summand.tilted, tolerance).number


def log_ceilings(rows: Tilted, tolerance: float, most: float = math.inf) -> Array:
    """Return logarithms of upper bounds of δ, which may be far below the smallest float64.

    The tolerance grows until at most `most` terms have to be added. If that needs too much
    smoothing, the bounds are infinite.
    """
    columns = len(rows.tilts)
    with np.errstate(all="ignore"):
        contour = _Contour(rows, tolerance)
        while contour.number * columns > most and contour.tolerance < _USELESS:
            contour = _Contour(rows, 10 * contour.tolerance)
        if contour.number * columns > most:
            return np.full(columns, math.inf)
        _, ceilings, errors = contour.log_bounds()
        return ceilings + errors
