"""E[(S)₊] = n·δ(ε) as a sum along a contour, for any values of W (docs/theory/numerics.md, sections 2.1 to 2.4).

Let U be normal with mean 0 and standard deviation τ, independent of S, and f(x) = E[(S + U − x)₊]. For every θ > 0 and
every spacing h, Poisson's summation formula gives, with L = 2π/h and M the moment generating function of one copy,

    (1/L) · Σ_k  M(s)ⁿ · exp(τ²s²/2) / s²  at  s = θ + ikh      =      Σ_j  exp(θjL) · f(jL).                     (2.1)

Every term on the right is non-negative, the one at j = 0 is f(0), and f(0) ≥ E[(S)₊] by Jensen's inequality. So the sum
on the left is an upper bound for every θ, h and τ, which only decide how tight it is. Nodes that are left out, and
rounding, are charged. For the lower bound the terms with j ≠ 0 and the smoothing by U are bounded and subtracted.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.summand import LARGEST_POWER, Summand, tilts_of
from shoal.rounding import UNIT

__all__ = [
    "NodeGrid", "Tilted", "coarse_ceilings", "contour_cost", "log_ceilings", "positive_part", "positive_parts",
]  # fmt: skip

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_FINE = 1e-9
"""What smoothing may add to δ, relatively, where nodes are few; nodes grow like the inverse root of it."""

_COARSEST = 3e-7
"""What smoothing may add to δ where more than `_CHEAP` nodes would be needed: a third of the 1e-6 of a bracket."""

_CHEAP = 4_000
"""Nodes that take about a millisecond: up to here accuracy is free."""

_MOST_NODES = 200_000
"""Nodes of one sum, about 50 ms: beyond, δ is smoothed by more than `_COARSEST`."""

_UNTHINKABLE = 1e12
"""Numbers of nodes, and heights, that are never visited: integers are made only of smaller ones."""

_MOST_PRODUCTS = 2_000_000
"""Nodes times values of a sum that is repeated with finer smoothing, for the same reason."""

_WIDE = 1e-6
"""A bracket of δ that is wider than this is worth a second, finer sum."""

_USELESS = 0.1
"""Smoothing that adds more than this to δ gives no useful bound."""

_MOST_PAIRS = 256
"""Values in all columns together up to which every two of them are tried as the two of (2.2)."""

_MANY_EXPONENTIALS = 3_000
"""From this number of nodes times values on, a product of matrices is faster than sines, and less accurate."""

_PRODUCT_SHARE = 0.02
"""The share of the smoothing that rounding in that product may cost."""

_OTHER_TILTS = np.array([0.02, 0.1, 0.3, 0.6, 0.8, 1.25, 1.6, 2.2, 3.5, 6.0])
"""Multiples of θ with which Chernoff's inequality bounds the terms j ≠ 0 (2.6)."""


class NodeGrid(NamedTuple):
    """Heights (stride·j + i)·spacing for 0 ≤ j < rows and |i| ≤ width, without those below zero; ascending.

    Then exp(ixy) is a product of entries of two small tables, one for j and one for i.
    """

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
    def heights(self) -> Array:
        """All heights."""
        indices = np.add.outer(self.stride * np.arange(self.rows), np.arange(-self.width, self.width + 1))
        return np.asarray(indices.ravel()[self.width :] * self.spacing, dtype=np.float64)

    def sums(self, values: Array, weights: Array) -> Complex:
        """Return Σ weight·exp(i·value·y) at each height y, as a product of two tables (2.11)."""
        angles = values * self.spacing
        coarse = np.exp(1j * np.multiply.outer(self.stride * np.arange(self.rows), angles))
        fine = np.exp(1j * np.multiply.outer(angles, np.arange(-self.width, self.width + 1)))
        return np.asarray(((coarse * weights) @ fine).ravel()[self.width :])


class Tilted:
    """Distributions of W with the same number of reports and values, one for each column, each with its own tilt θ.

    Under the tilted distribution Q of (1.5), M(θ + iy)/M(θ) = E_Q[exp(iyW)]. Any tilt is valid.

    Attributes
    ----------
    count : float
        n.
    tilts : array
        θ of each column.
    log_moments, moment_errors : array
        n·log M(θ), and a bound of its rounding error.
    values, tilted : array
        The values of W and their probabilities under Q, one row for each value; the last value is 0.
    zero : array
        The probability of the value 0 under Q.
    deviations : array
        The standard deviation of the sum of n copies from Q.
    """

    def __init__(
        self,
        reports: int,
        values: Array,
        probabilities: Array,
        *,
        missing: Array,
        means: Array,
        scales: Array,
        mean_error: float = 0.0,
    ) -> None:
        """Tilt the distributions with these values and probabilities; `mean_error` bounds the error of the means."""
        self.count = float(reports)
        self.scales = scales
        self.missing = missing
        self._own = values
        self._probabilities = probabilities
        self._means = means
        self._mean_error = mean_error
        self.largest = np.maximum(values.max(axis=0), 1e-300)
        self.tilts = tilts_of(self.count, values, probabilities, missing=missing, means=means)
        powers = self.tilts * values
        excess = self._excess(self.tilts)
        self._moments = 1 + excess
        self.log_moments = self.count * np.log1p(excess)
        growth = np.exp(np.minimum(powers, 700.0))
        weights = probabilities * growth / self._moments
        self.zero = missing / self._moments
        self.tilted = np.vstack([weights, self.zero[None]])
        self.values = np.vstack([values, np.zeros_like(self.zero)[None]])
        # The mean of Q, without cancellation.
        self._centres = (means + (probabilities * values * np.expm1(powers)).sum(axis=0)) / self._moments
        variance = (weights * values**2).sum(axis=0) - self._centres**2
        self.deviations = np.sqrt(self.count * np.maximum(variance, 0.0))
        # The two sums of (2.9).
        both = probabilities * (1 + growth) * np.abs(values)
        self._first = both.sum(axis=0)
        self._second = (both * np.abs(values)).sum(axis=0)
        self._size = (weights * np.abs(values)).sum(axis=0)
        self.moment_errors = self.count * self._error(self.tilts)

    @classmethod
    def of(cls, summands: Sequence[Summand]) -> "Tilted":
        """Return the tilted distributions of summands with the same number of values and of reports."""
        return cls(
            summands[0].reports,
            np.array([summand.values for summand in summands]).T,
            np.array([summand.probabilities for summand in summands]).T,
            missing=np.array([summand.missing for summand in summands]),
            means=np.array([summand.mean for summand in summands]),
            scales=np.array([summand.scale for summand in summands]),
        )

    def _error(self, sizes: Array) -> Array:
        """Return bounds (2.9) of the rounding error of M(s)/M(θ) at points with these absolute values."""
        across = sizes.T
        terms = np.abs(self._means) * across + np.minimum(self._first * across, self._second * across**2)
        units = (64 + 2 * len(self._own)) * UNIT
        return np.asarray(((units * terms + self._mean_error * across) / self._moments).T)

    def _excess(self, tilts: Array) -> Array:
        """Return M(θ) − 1: the linear terms of all exponentials are replaced by the exact mean."""
        powers = tilts[..., None, :] * self._own
        return np.asarray(self._means * tilts + (self._probabilities * _exp_remainder(powers)).sum(axis=-2))

    def log_moments_at(self, tilts: Array) -> Array:
        """Return n·log M at other real points."""
        return np.asarray(self.count * np.log1p(self._excess(tilts)))

    def steepness(self, first: NDArray[np.int64] | int, second: NDArray[np.int64] | int) -> Array:
        """Return v of (2.2) such that |M(θ + iy)/M(θ)|ⁿ ≤ exp(−2v·sin²(Dy/2)), from two values that are D apart."""
        one = self.tilted[first]
        other = self.tilted[second]
        return np.asarray(self.count * one * other / np.maximum(one + other, 1e-300) * (1 - 1e-12))

    def ratios(self, grid: NodeGrid, tolerance: float, least: float) -> tuple[Array, Complex, Array]:
        """Return heights y, M(θ + iy)/M(θ) − 1 at each of them for each column, and bounds of its error.

        Heights are left out where |M(θ + iy)/M(θ)| is below `least` in every column.
        """
        heights = grid.heights
        product_units = (32 + 2 * len(self._own)) * UNIT
        accurate = len(heights)
        if len(heights) * len(self._own) > _MANY_EXPONENTIALS:
            # Terms are divided by s²: rounding errors of all nodes beyond y cost as much as one error of θ²/y at θ.
            enough = self.count * product_units / (_PRODUCT_SHARE * tolerance) * float(self.tilts.max())
            accurate = int(np.searchsorted(heights, enough)) if enough > 0.1 * self.tilts.min() else 0
        excess = np.empty((len(self.tilts), len(heights)), dtype=np.complex128)
        if accurate < len(heights):
            for column in range(len(self.tilts)):
                sums = grid.sums(self._own[:, column], self.tilted[:-1, column])
                excess[column] = sums + (self.zero[column] - 1)
        if accurate:
            excess[:, :accurate] = self._accurate(heights[:accurate])

        def errors(sizes: Array, multiplied: NDArray[np.bool_]) -> Array:
            product = product_units + 16 * UNIT * self._size[:, None] * sizes + self._error(self.tilts)[:, None]
            return np.asarray(np.where(multiplied, product, self._error(sizes)))

        farthest = np.hypot(self.tilts, heights[-1])[:, None]
        largest_error = errors(farthest, np.array([True])) + self._error(farthest)
        floor = np.maximum(least - largest_error, 0.0) ** 2
        kept = ((1 + excess.real) ** 2 + excess.imag**2 >= floor).any(axis=0)
        indices = np.flatnonzero(kept)
        sizes = np.hypot(self.tilts[:, None], heights[indices])
        return heights[indices], excess[:, indices], errors(sizes, indices >= accurate)

    def _accurate(self, heights: Array) -> Complex:
        """Return M(θ + iy)/M(θ) − 1 at each height (2.10), in which nothing cancels."""
        real = np.zeros((len(self.tilts), len(heights)))
        imaginary = self._centres[:, None] * heights
        for values, weights in zip(self._own, self.tilted[:-1], strict=True):
            angles = values[:, None] * heights
            real -= 2 * weights[:, None] * np.sin(0.5 * angles) ** 2
            imaginary += weights[:, None] * _sine_remainder(angles)
        return np.asarray(real + 1j * imaginary)


def _exp_remainder(x: Array) -> Array:
    """Return exp(x) − 1 − x without cancellation."""
    result = np.asarray(np.expm1(x) - x)
    near = np.abs(x) < 0.5
    if near.any():
        small = x[near]
        series = np.full_like(small, 1 / math.factorial(16))
        for power in range(15, 1, -1):
            series = series * small + 1 / math.factorial(power)
        result[near] = series * small * small
    return result


def _sine_remainder(x: Array) -> Array:
    """Return sin(x) − x without cancellation."""
    result = np.asarray(np.sin(x) - x)
    near = np.abs(x) < 0.5
    if near.any():
        square = x[near] ** 2
        series = np.full_like(square, -1 / math.factorial(17))
        for power in range(15, 1, -2):
            sign = (-1) ** ((power - 1) // 2)
            series = series * square + sign / math.factorial(power)
        result[near] = series * square * x[near]
    return result


class _Nodes(NamedTuple):
    """The nodes of a sum (section 2.2).

    Attributes
    ----------
    number : float
        About the number of nodes.
    grid : NodeGrid
        The nodes.
    smoothing : float
        τ.
    edge, last : float
        Nodes between Y = `edge` and Z + h = `last` + h may be missing. Nodes beyond are missing.
    falls : array or None
        A bound of |M(θ + iy)/M(θ)|ⁿ at the missing nodes between; None if there are none.
    """

    number: float
    grid: NodeGrid
    smoothing: float
    edge: float
    last: float
    falls: Array | None


class _Contour:
    """The sum along the contour with one amount of smoothing, for all columns of `rows`."""

    def __init__(self, rows: Tilted, tolerance: float) -> None:
        """Choose the period L and the smoothing τ, such that smoothing adds about `tolerance` to δ, relatively."""
        tilts = rows.tilts
        self.rows = rows
        self.tolerance = tolerance
        # Terms below exp(−cut) of M(θ)ⁿ are left out; E[(S)₊] is about M(θ)ⁿ/(2.5·θ²·deviation).
        self.cut = max(6.0, 4 - math.log(tolerance)) + 2 * float(np.log1p(tilts * rows.deviations).max())
        highest = np.maximum(1.0, LARGEST_POWER / (tilts * rows.largest))
        self._others = tilts * np.minimum(_OTHER_TILTS[:, None], highest)
        differs = self._others != tilts
        growth = rows.log_moments_at(self._others) - rows.log_moments
        self._growth = np.where(differs, growth, math.inf)
        # The period at which each alias (2.6) is below exp(−cut).
        lengths = (self._growth + self.cut) / np.where(differs, np.abs(self._others - tilts), 1.0)
        right = np.where(self._others > tilts, lengths, math.inf).min(axis=0)
        left = np.where(self._others < tilts, lengths, math.inf).min(axis=0)
        left = np.minimum(left, (self.cut + 4 - rows.log_moments) / tilts)  # (2.7)
        longest = np.maximum(np.where(np.isfinite(right), right, left), left)
        self._period = float(np.maximum(longest, 10 / tilts).max())
        if self._period > 8:
            self._period = float(math.ceil(self._period))  # then all multiples of 2π are nodes
        self._spacing = 2 * math.pi / self._period
        self._smoothing = math.sqrt(2 * tolerance) / float(tilts.max())
        self._last = math.sqrt(2 * self.cut) / self._smoothing

    @cached_property
    def nodes(self) -> _Nodes:
        """The smallest of three sets of nodes."""
        sets = [self._all_nodes(), self._peak_nodes(), self._near_nodes()]
        return min((nodes for nodes in sets if nodes is not None), key=lambda nodes: nodes.number)

    def _all_nodes(self) -> _Nodes:
        """Return all nodes up to a height."""
        count = self._last / self._spacing + 2
        length = math.ceil(count) if count < _UNTHINKABLE else 1
        grid = NodeGrid.consecutive(self._spacing, length)
        return _Nodes(count, grid, self._smoothing, self._last, self._last, None)

    def _peak_nodes(self) -> _Nodes | None:
        """Return the nodes around multiples of 2π, because the two outer values are one apart."""
        steepness = self.rows.steepness(0, 1)
        least = float(steepness.min())
        if not 2 * least > self.cut or not self._last < _UNTHINKABLE:
            return None
        reach = 2 * math.asin(math.sqrt(self.cut / (2 * least)))
        if not 3 * self._spacing < reach <= 1 or self._period <= 8:
            return None
        peaks = math.ceil(self._last / (2 * math.pi))
        width = math.floor(reach / self._spacing)
        grid = NodeGrid(self._spacing, round(self._period), width, peaks + 1)
        last = 2 * math.pi * peaks + reach - self._spacing
        falls = np.exp(-2 * steepness * math.sin(reach / 2) ** 2)
        count = (peaks + 1) * reach * self._period / math.pi
        return _Nodes(count, grid, self._smoothing, reach, last, falls)

    def _near_nodes(self) -> _Nodes | None:
        """Return the nodes next to zero, if any two values make all other nodes negligible; the fewest that do."""
        rows = self.rows
        if rows.tilted.size > _MOST_PAIRS and len(rows.tilts) > 1:
            return None
        first, second = np.triu_indices(len(rows.tilted), 1)
        steepness = rows.steepness(first, second)
        least = steepness.min(axis=1)
        apart = np.abs(rows.values[first] - rows.values[second])
        angles = np.arcsin(np.minimum(1.0, np.sqrt(self.cut / np.maximum(2 * least, 1e-300))))
        heights = np.maximum(2 * angles / np.maximum(apart.min(axis=1), 1e-300), 4 * self._spacing)
        limits = 2 * math.pi / np.maximum(apart.max(axis=1), 1e-300) - heights
        usable = (2 * least > self.cut) & (limits >= np.maximum(self._last, 2 * heights))
        if not usable.any():
            return None
        best = int(np.where(usable, heights, math.inf).argmin())
        limit = float(limits[best])
        count = heights[best] / self._spacing
        length = math.ceil(count) + 1
        edge = self._spacing * (length - 1)
        last = limit - self._spacing
        waves = np.minimum(np.sin(0.5 * apart[best] * edge), np.sin(0.5 * apart[best] * limit)) ** 2
        # A higher last node costs nothing here, so that smoothing is as fine as it allows.
        smoothing = min(self._smoothing, math.sqrt(2 * self.cut) / last)
        falls = np.exp(-2 * steepness[best] * waves)
        return _Nodes(float(count), NodeGrid.consecutive(self._spacing, length), smoothing, edge, last, falls)

    def bounds(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ, one for each column."""
        rows = self.rows
        # By Chernoff's inequality (1.2) these are below the smallest δ.
        log_chernoff = rows.log_moments + np.log(rows.scales / rows.tilts) - 1
        vanishing = log_chernoff < math.log(SMALLEST_DELTA) - 0.01
        if vanishing.all():
            return np.zeros(len(vanishing)), np.full(len(vanishing), SMALLEST_DELTA)
        lower, upper, errors = self._log_bounds()
        lower = np.exp(lower) * (1 - errors)
        upper = np.exp(upper) * (1 + errors)
        return np.where(vanishing, 0.0, lower), np.where(vanishing, SMALLEST_DELTA, upper)

    def log_ceilings(self) -> Array:
        """Return logarithms of upper bounds of δ, which may be far below the smallest float64."""
        _, upper, errors = self._log_bounds()
        return upper + errors

    def _log_bounds(self) -> tuple[Array, Array, Array]:
        """Return the logarithms of lower and upper bounds of δ, and bounds of their rounding errors."""
        rows = self.rows
        nodes = self.nodes
        if not nodes.number < 10 * _MOST_NODES:
            unknown = np.full(len(rows.tilts), math.inf)
            return -unknown, unknown, np.zeros(len(rows.tilts))
        totals, margins, densities = self._summed(nodes)
        uppers = totals + margins
        aliases = self._aliases(nodes.smoothing, uppers)
        lowers = totals - margins - aliases - nodes.smoothing**2 * densities  # (2.8)
        log_sizes = rows.log_moments + np.log(rows.scales)
        errors = 64 * UNIT * (8 + np.abs(log_sizes)) + np.expm1(rows.moment_errors)
        log_lowers = log_sizes + np.log(np.maximum(lowers, 0.0))
        log_uppers = log_sizes + np.log(np.maximum(uppers, 0.0))
        return log_lowers, log_uppers, errors

    def _summed(self, nodes: _Nodes) -> tuple[Array, Array, Array]:
        """Return the sum (2.1), a bound of its error, and an upper bound of the density at 0, relative to M(θ)ⁿ."""
        rows = self.rows
        tilts = rows.tilts[:, None]
        smoothing = nodes.smoothing
        lifts = np.exp(0.5 * (smoothing * rows.tilts) ** 2)
        # If all nodes are there, the event that every copy is 0 is taken out: smoothing would only add to it.
        log_empty = rows.count * np.log(np.maximum(rows.zero, 1e-300))
        without_empty = nodes.falls is None and bool(np.any(log_empty > -self.cut))
        least = 0.0 if without_empty else math.exp(-self.cut / rows.count)
        heights, excess, errors = rows.ratios(nodes.grid, self.tolerance, least)

        powers, power_errors, turning = self._powers(heights, excess, errors, smoothing)
        if without_empty:
            empty = np.exp(log_empty)[:, None]
            powers = powers - empty * np.exp(1j * turning)
            units = 16 * UNIT * (8 + rows.count * (1 + 1 / np.maximum(rows.missing, 1e-30)))
            power_errors = power_errors + empty * (units + rows.moment_errors)[:, None]

        # Nodes with k and −k are conjugate.
        factors = lifts[:, None] * np.where(heights > 0, 2.0, 1.0) * np.exp(-0.5 * (smoothing * heights) ** 2)
        totals = (factors * (powers / (tilts + 1j * heights) ** 2).real).sum(axis=1)
        margins = (factors * power_errors / (tilts**2 + heights**2)).sum(axis=1)
        # Without the division the same sum is that of e^{θjL} times the density at jL, all of them positive.
        densities = (factors * (powers.real + power_errors)).sum(axis=1)
        missing, missing_density = self._left_out(nodes, lifts, dropped=not without_empty)
        margins = (margins + missing) / self._period
        densities = (densities + missing_density) / self._period
        return totals / self._period, margins, densities

    def _powers(self, heights: Array, excess: Complex, errors: Array, smoothing: float) -> tuple[Complex, Array, Array]:
        """Return (M(s)/M(θ))ⁿ·e^{iτ²θy} at each node, bounds of its error (2.12), and the angle τ²θy."""
        count = self.rows.count
        real = excess.real
        imaginary = excess.imag
        moduli = np.hypot(1 + real, imaginary)
        ends = moduli + errors
        # log |R| without cancellation where R is close to one.
        squares = real * (2 + real) + imaginary**2
        log_moduli = np.where(np.abs(squares) < 0.5, 0.5 * np.log1p(np.maximum(squares, -0.5)), np.log(moduli))
        turning = smoothing**2 * self.rows.tilts[:, None] * heights
        phases = count * np.arctan2(imaginary, 1 + real) + turning
        powers = np.exp(count * log_moduli + 1j * phases)
        log_ends = count * np.log(ends)
        relative = count * errors / ends + 16 * UNIT * (8 + np.abs(log_ends) + np.abs(phases))
        return powers, relative * np.exp(log_ends), turning

    def _left_out(self, nodes: _Nodes, lifts: Array, *, dropped: bool) -> tuple[Array, Array]:
        """Return bounds of what missing nodes add to L·f(0) and to L times the density (2.3) to (2.5)."""
        spacing = self._spacing
        smoothing = nodes.smoothing
        tilts = self.rows.tilts
        last = nodes.last
        missing = np.zeros(len(tilts))
        density = np.zeros(len(tilts))
        if nodes.falls is not None:
            gaps = lifts * nodes.falls / (spacing * (nodes.edge - spacing))  # (2.3)
            missing += 2 * gaps
            density += 2 * (last + spacing) ** 2 * gaps
        beyond = lifts * math.exp(-0.5 * (smoothing * last) ** 2) / spacing  # (2.4)
        missing += 2 * beyond / last
        density += 2 * beyond / (smoothing**2 * last)
        if dropped:
            small = lifts * math.exp(0.01 - self.cut)  # (2.5)
            missing += small * (1 / tilts**2 + math.pi / (spacing * tilts))
            density += small * (1 + math.sqrt(2 * math.pi) / (spacing * smoothing))
        return missing, density

    def _aliases(self, smoothing: float, uppers: Array) -> Array:
        """Return bounds of the terms j ≠ 0 of (2.1), relative to M(θ)ⁿ, given upper bounds of the term j = 0."""
        rows = self.rows
        tilts = rows.tilts
        distances = np.abs(self._others - tilts) * self._period
        logs = self._growth + 0.5 * (smoothing * self._others) ** 2 - distances + 1e-6
        bounds = 1.01 * np.exp(np.minimum(700.0, logs)) / (math.e * self._others)  # (2.6)
        bounds = np.where(distances >= 4.7, bounds, math.inf)
        right = np.where(self._others > tilts, bounds, math.inf).min(axis=0)
        left = np.where(self._others < tilts, bounds, math.inf).min(axis=0)
        second = 1.02 * np.exp(-tilts * self._period) * (uppers + self._period * np.exp(-rows.log_moments))  # (2.7)
        usable = (rows.log_moments > -600) & (tilts * self._period >= 5)
        return np.asarray(right + np.where(usable, np.minimum(left, second), left))


def _affordable(finest: _Contour) -> float:
    """Return how much smoothing may add to δ, given the sum with the least smoothing."""
    # Where ε is below the standard deviation of the loss, its relative error is larger than that of δ.
    steep = float((finest.rows.tilts * finest.rows.deviations).min())
    coarsest = _COARSEST * min(1.0, max(steep - 2 / max(steep, 1e-3), 0.1))
    count = finest.nodes.number
    cheap = min(_FINE * (count / _CHEAP) ** 2, coarsest)
    return float(max(_FINE, cheap, _FINE * (count / _MOST_NODES) ** 2))


def positive_part(summand: Summand, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ; smoothing adds about `tolerance` to it.

    Without a tolerance, smoothing is as small as is affordable. If probability of S close to 0 makes the bracket wider
    than 1e-6, the sum is repeated with more nodes.
    """
    # Where M vanishes, or where a tilt is too large, the bounds become infinite or NaN.
    with np.errstate(all="ignore"):
        rows = Tilted.of([summand])
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
            if not SMALLEST_DELTA < most < math.inf or least >= most * (1 - _WIDE):
                break
            # The width falls a little more slowly than the smoothing; nodes grow like its inverse root.
            affordable = min(_MOST_NODES, _MOST_PRODUCTS / len(summand.values))
            needed = (_WIDE / (2 * (1 - least / most))) ** 1.2
            share = max(needed, (contour.nodes.number / affordable) ** 2)
            if not share < 0.7:
                break
            finer *= share
    return (least, most) if most < math.inf else (0.0, float(upper))


def positive_parts(summands: Sequence[Summand], *, tolerance: float | None = None) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ for summands with the same number of values and reports, from shared nodes."""
    with np.errstate(all="ignore"):
        rows = Tilted.of(summands)
        if tolerance is None:
            tolerance = _affordable(_Contour(rows, _FINE))
        return _Contour(rows, tolerance).bounds()


def contour_cost(summand: Summand, tolerance: float) -> float:
    """Return about the number of nodes times values of the sum with this tolerance."""
    with np.errstate(all="ignore"):
        return _Contour(Tilted.of([summand]), tolerance).nodes.number * (1 + len(summand.values))


def coarse_ceilings(rows: Tilted, tolerance: float) -> Array:
    """Return upper bounds of δ, one for each column, that are about `tolerance` too large; nodes are shared."""
    with np.errstate(all="ignore"):
        return _Contour(rows, tolerance).bounds()[1]


def log_ceilings(rows: Tilted, tolerance: float, most: float = math.inf) -> Array:
    """Return logarithms of upper bounds of δ, which may be far below the smallest float64.

    The tolerance grows until at most `most` terms have to be added. If that needs too much smoothing, the bounds are
    infinite.
    """
    with np.errstate(all="ignore"):
        contour = _Contour(rows, tolerance)
        while contour.nodes.number * len(rows.tilts) > most and contour.tolerance < _USELESS:
            contour = _Contour(rows, 10 * contour.tolerance)
        if contour.nodes.number * len(rows.tilts) > most:
            return np.full(len(rows.tilts), math.inf)
        return contour.log_ceilings()
