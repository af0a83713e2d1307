"""E[(S)₊] = n·δ(ε), n times the hockey-stick divergence, as a sum along a contour: hardly more work for a larger n.

Let U be a centred normal variable with standard deviation τ, independent of S, and f(x) = E[(S + U − x)₊]. For every
θ > 0 and h > 0, Poisson's summation formula gives, with L = 2π/h and M the moment generating function of one copy,

    (h/2π) · Σ_k  M(s)ⁿ · exp(τ²s²/2) / s²  at  s = θ + ikh      =      Σ_j  exp(θjL) · f(jL).

Every term on the right is non-negative, the one at j = 0 is f(0), and f(0) ≥ E[(S)₊] by Jensen's inequality. So the
sum on the left is an upper bound whatever θ, h and τ are; they only decide how tight it is. What has to be charged is
what is left out of the sum, and rounding. Nothing is left to luck in either:

* two values of the distribution, D apart, bound |M(θ + iy)|/M(θ) ≤ 1 − 2v·sin²(Dy/2)/n, with v given below. Terms far
  from the multiples of 2π/D are left out, at exp(−2v·sin²) of their size; so are those that turn out to be small;
* beyond the last node the smoothing exp(−τ²y²/2) bounds what is left out;
* an error of c in the exponent n·log M costs a factor exp(c); c is tracked term by term.

For the lower bound, the terms j ≠ 0 and the smoothing are bounded from above and subtracted:
f(0) − E[(S)₊] ≤ τ²·(density of S + U at 0), which the same nodes give without the division by s².

docs/theory/numerics.md has the proofs.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.distribution import Distribution
from shoal.numerics.tilted import Mesh, Tilted
from shoal.rounding import slack

__all__ = [
    "FINE",
    "Plan",
    "coarse_ceilings",
    "log_ceilings",
    "plan",
    "positive_part",
    "positive_parts",
]

Array = NDArray[np.float64]

FINE = 1e-9
"""How much smoothing may add to δ, relatively, where nodes are few."""
_COARSEST = 3e-7
"""And where they would be more than `_CHEAP`."""
_CHEAP = 4_000
_WIDE = 1e-6
"""Ends of a single δ that are farther apart than this are worth a second, finer sum,"""
_MOST_NODES = 200_000
"""but for no more nodes than these."""
_ANYTHING = 0.1
"""A larger tolerance is not worth it."""
_MOST_VALUES = 256
"""In all rows together, for any two of them to be tried."""
_OTHERS = np.array([0.02, 0.1, 0.3, 0.6, 0.8, 1.25, 1.6, 2.2, 3.5, 6.0])
"""Of θ: tilts with which Chernoff's inequality bounds the terms j ≠ 0."""


class Plan(NamedTuple):
    """Where the sum is taken: any values give a valid bound, these a tight one.

    Attributes
    ----------
    tilt : float
        θ, the real part of every node.
    period : float
        L = 2π/h, with h the step between nodes.
    smoothing : float
        τ.
    reach : float
        How far from the multiples of 2π nodes are kept; π for all of them.
    peaks : int
        How many multiples of 2π are visited on each side.
    """

    tilt: float
    period: float
    smoothing: float
    reach: float
    peaks: int

    @property
    def size(self) -> float:
        """Roughly how many nodes there are."""
        return (self.peaks + 1) * self.reach * self.period / math.pi

    @property
    def last(self) -> float:
        """Up to where nodes are kept, but for gaps."""
        return 2 * math.pi * self.peaks + self.reach


class _Near(NamedTuple):
    """Nodes up to a height only: from there to `last`, two values `apart` bound what is left out."""

    height: float
    last: float
    apart: Array
    steepness: Array


class _Nodes(NamedTuple):
    """The nodes of a sum: those between `edge` and `last` that are not there have a factor of `falls` at most.

    Up to one step of each of the two is given away. With `every`, all nodes up to `last` are there.
    """

    mesh: Mesh
    smoothing: float
    edge: float
    last: float
    falls: Array
    every: bool


class _Sum:
    """The sum along the contour, for one tolerance; one row for each distribution."""

    def __init__(self, rows: Tilted, tolerance: float, *, roughly: bool = False) -> None:
        """Choose the period; with `roughly`, from the moments of Q alone, and then there is no lower bound."""
        self.rows, self.tolerance = rows, tolerance
        # Terms below exp(−cut) are left out. Relative to M(θ)ⁿ, E[(S)₊] is about 1/(2.5·θ²·(deviation)).
        self.cut = max(6.0, 4 - math.log(tolerance)) + 2 * float(np.log1p(rows.tilts * rows.deviations).max())
        self.others = rows.tilts * np.minimum(_OTHERS[:, None], np.maximum(1.0, 600 / (rows.tilts * rows.largest)))
        differs = self.others != rows.tilts
        growth = rows.log_growth(self.others) if roughly else rows.log_moments_at(self.others) - rows.log_moments
        self.growth = np.where(differs, growth, math.inf)
        lengths = (self.growth + self.cut) / np.where(differs, np.abs(self.others - rows.tilts), 1.0)
        right = np.where(self.others > rows.tilts, lengths, math.inf).min(axis=0)
        left = np.where(self.others < rows.tilts, lengths, math.inf).min(axis=0)
        left = np.minimum(left, (self.cut + 4 - rows.log_moments) / rows.tilts)
        lengths = np.maximum(np.where(np.isfinite(right), right, left), left)
        self.period = float(np.maximum(lengths, 10 / rows.tilts).max())
        if self.period > 8:
            self.period = float(math.ceil(self.period))  # then all multiples of 2π are nodes
        self.step = 2 * math.pi / self.period
        self.smoothing = math.sqrt(2 * tolerance) / float(rows.tilts.max())
        self.last = math.sqrt(2 * self.cut) / self.smoothing

    @cached_property
    def plan(self) -> Plan:
        """The nodes around multiples of 2π, since the two outer values are one apart."""
        steepness = float(self.rows.steepness(0, 1).min())
        reach = 2 * math.asin(math.sqrt(self.cut / (2 * steepness))) if 2 * steepness > self.cut else math.pi
        if reach <= 3 * self.step or reach > 1 or self.period <= 8:
            reach = math.pi
        peaks = math.ceil(self.last / (2 * math.pi))
        return Plan(float(self.rows.tilts.min()), self.period, self.smoothing, reach, peaks)

    @cached_property
    def near(self) -> _Near | None:
        """The nodes next to zero, if two values make all others negligible; the fewest that do."""
        rows = self.rows
        if rows.tilted.size > _MOST_VALUES and len(rows.tilts) > 1:
            return None
        first, second = np.triu_indices(len(rows.tilted), 1)
        steepness = rows.steepness(first, second)
        least = steepness.min(axis=1)
        apart = np.abs(rows.values[first] - rows.values[second])
        angles = np.arcsin(np.minimum(1.0, np.sqrt(self.cut / np.maximum(2 * least, 1e-300))))
        heights = np.maximum(2 * angles / np.maximum(apart.min(axis=1), 1e-300), 4 * self.step)
        limits = 2 * math.pi / np.maximum(apart.max(axis=1), 1e-300) - heights
        usable = (2 * least > self.cut) & (limits >= np.maximum(self.last, 2 * heights))
        if not usable.any():
            return None
        best = int(np.where(usable, heights, math.inf).argmin())
        return _Near(float(heights[best]), float(limits[best]), apart[best], steepness[best])

    @property
    def size(self) -> float:
        """Roughly how many nodes there are."""
        near = self.near
        return min(self.plan.size, math.inf if near is None else near.height / self.step)

    def nodes(self) -> _Nodes | None:
        """Return the nodes, the fewer of two kinds; nothing if they would be too many."""
        rows, step, nodes, near = self.rows, self.step, self.plan, self.near
        if not self.size < 10 * _MOST_NODES:
            return None
        if near is not None and near.height / step < nodes.size:
            # What is beyond the last height costs no nodes, so that smoothing may be as fine as it likes.
            length = math.ceil(near.height / step) + 1
            edge, last = step * (length - 1), near.last - step
            waves = np.minimum(np.sin(0.5 * near.apart * edge), np.sin(0.5 * near.apart * near.last)) ** 2
            smoothing = min(self.smoothing, math.sqrt(2 * self.cut) / last)
            falls = np.exp(-2 * near.steepness * waves)
            return _Nodes(Mesh.unbroken(step, length), smoothing, edge, last, falls, every=False)
        edge, every = nodes.reach, nodes.reach == math.pi
        mesh = Mesh(step, round(self.period), math.floor(edge / step), nodes.peaks + 1)
        if every:
            mesh = Mesh.unbroken(step, math.floor(nodes.last / step) + 1)
        falls = np.exp(-2 * rows.steepness(0, 1) * math.sin(edge / 2) ** 2)
        return _Nodes(mesh, self.smoothing, edge, nodes.last - step, falls, every)

    def value(self) -> tuple[Array, Array]:
        """Return lower and upper bounds of δ, one for each row."""
        rows = self.rows
        vanishing = rows.log_moments + np.log(rows.scales / rows.tilts) - 1 < math.log(SMALLEST_DELTA) - 0.01
        if vanishing.all():
            return np.zeros(len(vanishing)), np.full(len(vanishing), SMALLEST_DELTA)
        (lower, upper), slacks = self._logs()
        lower, upper = np.exp(lower) * (1 - slacks), np.exp(upper) * (1 + slacks)
        return np.where(vanishing, 0.0, lower), np.where(vanishing, SMALLEST_DELTA, upper)

    def log_ceilings(self) -> Array:
        """Return the logarithms of upper bounds of δ, which may be far below the least double."""
        (_, upper), slacks = self._logs()
        return upper + slacks

    def _logs(self) -> tuple[tuple[Array, Array], Array]:
        """Return the logarithms of lower and upper bounds of δ, and how wrong, relatively, rounding may make these."""
        rows, tilts, step, period = self.rows, self.rows.tilts, self.step, self.period
        chosen = self.nodes()
        if chosen is None:
            nothing_known = np.full(len(tilts), math.inf)
            return (-nothing_known, nothing_known), np.zeros(len(tilts))
        mesh, smoothing, edge, last, falls, every = chosen

        # What is left out: the gaps, and everything beyond the last height.
        lifts = np.exp(0.5 * (smoothing * tilts) ** 2)
        gaps = np.zeros(len(tilts)) if every else lifts * falls / (step * (edge - step))
        beyond = lifts * math.exp(-0.5 * (smoothing * last) ** 2) / step

        # The terms, relative to M(θ)ⁿ; those that are small are left out too, at most exp(−cut) each.
        without = rows.count * np.log(np.maximum(rows.zero, 1e-300))
        nothing = every and bool(np.any(without > -self.cut))
        least = 0.0 if nothing else math.exp(-self.cut / rows.count)
        heights, excess, errors = rows.moments(mesh, self.tolerance, least)
        small = 0.0 if nothing else lifts * math.exp(0.01 - self.cut)
        dropped = small * (1 / tilts**2 + math.pi / (step * tilts))
        dropped_density = small * (1 + math.sqrt(2 * math.pi) / (step * smoothing))

        real, imaginary = excess.real, excess.imag
        ends = np.hypot(1 + real, imaginary) + errors
        ceilings = rows.count * np.log(ends)
        moduli = real * (2 + real) + imaginary**2
        sizes = np.where(np.abs(moduli) < 0.5, 0.5 * np.log1p(np.maximum(moduli, -0.5)), np.log(ends - errors))
        turning = smoothing**2 * tilts[:, None] * heights
        phases = rows.count * np.arctan2(imaginary, 1 + real) + turning
        turns = np.exp(rows.count * sizes + 1j * phases)
        # |aⁿ − bⁿ| ≤ n·|a − b|·max(|a|, |b|)ⁿ⁻¹, and what the logarithm and the exponential add.
        strays = rows.count * errors / ends + slack(16) * (8 + np.abs(ceilings) + np.abs(phases))
        strays *= np.exp(ceilings)
        if nothing:
            # Leave out the event that every copy is zero: its sum adds nothing, and smoothing would add to it.
            empty = np.exp(without)[:, None]
            turns = turns - empty * np.exp(1j * turning)
            doubts = slack(16) * (8 + rows.count * (1 + 1 / np.maximum(rows.missing, 1e-30))) + rows.moment_errors
            strays = strays + empty * doubts[:, None]
        squares = tilts[:, None] ** 2 + heights**2
        factors = lifts[:, None] * np.where(heights > 0, 2.0, 1.0) * np.exp(-0.5 * (smoothing * heights) ** 2)
        totals = (factors * (turns / (tilts[:, None] + 1j * heights) ** 2).real).sum(axis=1) / period
        margins = ((factors * strays / squares).sum(axis=1) + dropped + 2 * (gaps + beyond / last)) / period
        uppers = totals + margins
        # Without the division the same sum is that of exp(θjL) times the density at jL: none is negative.
        densities = (factors * (turns.real + strays)).sum(axis=1) + dropped_density
        densities += 2 * ((last + step) ** 2 * gaps + beyond / (smoothing**2 * last))
        lowers = totals - margins - self._aliases(smoothing, uppers) - smoothing**2 * densities / period

        log_sizes = rows.log_moments + np.log(rows.scales)
        slacks = slack(64) * (8 + np.abs(log_sizes)) + np.expm1(rows.moment_errors)
        return (log_sizes + np.log(np.maximum(lowers, 0.0)), log_sizes + np.log(np.maximum(uppers, 0.0))), slacks

    def _aliases(self, smoothing: float, uppers: Array) -> Array:
        """Return bounds of the terms j ≠ 0 of Poisson's formula, relative to M(θ)ⁿ, given one of the term j = 0."""
        rows, tilts, period = self.rows, self.rows.tilts, self.period
        distances = np.abs(self.others - tilts) * period
        # f(x) ≤ M(t)ⁿ·exp(τ²t²/2 − tx)/(et) for every t > 0; and f(−x) ≤ f(0) + x.
        bounds = np.exp(np.minimum(700.0, self.growth + 0.5 * (smoothing * self.others) ** 2 - distances + 1e-6))
        bounds = np.where(distances >= 4.7, 1.01 * bounds / (math.e * self.others), math.inf)
        near = 1.02 * np.exp(-tilts * period) * (uppers + period * np.exp(-rows.log_moments))
        right = np.where(self.others > tilts, bounds, math.inf).min(axis=0)
        left = np.where(self.others < tilts, bounds, math.inf).min(axis=0)
        usable = (rows.log_moments > -600) & (tilts * period >= 5)
        return np.asarray(right + np.where(usable, np.minimum(left, near), left))


def _affordable(finest: _Sum) -> float:
    # Where ε is below the deviation of the loss, its relative error is larger than that of δ.
    steep = float((finest.rows.tilts * finest.rows.deviations).min())
    coarsest = _COARSEST * min(1.0, max(steep - 2 / max(steep, 1e-3), 0.1))
    return float(min(max(FINE, FINE * (finest.size / _CHEAP) ** 2), coarsest))


def plan(distribution: Distribution, tolerance: float) -> Plan:
    """Return nodes for which smoothing adds about `tolerance` to E[(S)₊], relatively."""
    with np.errstate(all="ignore"):
        return _Sum(Tilted.of([distribution]), tolerance).plan


def positive_part(distribution: Distribution, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]; smoothing costs about the tolerance.

    If none is given, it is as small as may be, and where atoms of S close to 0 make it cost more than 1e-6, the sum is
    repeated with more nodes.
    """
    # Where M has a zero, or a tilt is too large, nothing is known: what comes out is NaN or infinite, and says so.
    with np.errstate(all="ignore"):
        rows = Tilted.of([distribution])
        if tolerance is not None:
            lower, upper = _Sum(rows, tolerance).value()
            return float(lower[0]), float(upper[0])
        whole = _Sum(rows, FINE)
        finer, least, most = _affordable(whole), 0.0, math.inf
        for _ in range(3):
            whole = whole if whole.tolerance == finer else _Sum(rows, finer)
            (lower,), (upper,) = whole.value()
            least, most = max(least, float(lower)), min(most, float(upper))
            if not SMALLEST_DELTA < most < math.inf or least >= most * (1 - _WIDE):
                break
            share = max((_WIDE / (2 * (1 - least / most))) ** 1.2, (whole.size / _MOST_NODES) ** 2)
            if not share < 0.7:
                break
            finer *= share
    return (least, most) if most < math.inf else (0.0, float(upper))


def positive_parts(distributions: Sequence[Distribution], *, tolerance: float | None = None) -> tuple[Array, Array]:
    """Return lower and upper bounds of δ for distributions with as many values and reports, all from the same nodes."""
    with np.errstate(all="ignore"):
        rows = Tilted.of(distributions)
        return _Sum(rows, _affordable(_Sum(rows, FINE)) if tolerance is None else tolerance).value()


def coarse_ceilings(rows: Tilted, tolerance: float) -> Array:
    """Return upper bounds of δ, one for each column, that are about `tolerance` too large; the nodes are shared."""
    with np.errstate(all="ignore"):
        return _Sum(rows, tolerance, roughly=True).value()[1]


def log_ceilings(rows: Tilted, tolerance: float, most: float = math.inf) -> Array:
    """Return the logarithms of the same, which may be far below the least double.

    Where more than `most` terms were to be added, the tolerance grows; or infinity is all that is said.
    """
    with np.errstate(all="ignore"):
        whole = _Sum(rows, tolerance)
        while whole.size * len(rows.tilts) > most and whole.tolerance < _ANYTHING:
            whole = _Sum(rows, 10 * whole.tolerance)
        return whole.log_ceilings() if whole.size * len(rows.tilts) <= most else np.full(len(rows.tilts), math.inf)
