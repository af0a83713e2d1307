"""E[(S)₊] = n·δ(ε), n times the hockey-stick divergence, as a sum along a contour: hardly more work for a larger n.

Let U be a centred normal variable with standard deviation τ, independent of S, and f(x) = E[(S + U − x)₊]. For every
θ > 0 and h > 0, Poisson's summation formula gives, with L = 2π/h and M the moment generating function of one copy,

    (h/2π) · Σ_k  M(s)ⁿ · exp(τ²s²/2) / s²  at  s = θ + ikh      =      Σ_j  exp(θjL) · f(jL).

Every term on the right is non-negative, the one at j = 0 is f(0), and f(0) ≥ E[(S)₊] by Jensen's inequality. So the
sum on the left is an upper bound whatever θ, h and τ are; they only decide how tight it is. What has to be charged is
what is left out of the sum, and rounding. Nothing is left to luck in either:

* the two outer values of the distribution lie one apart, so |M(θ + iy)|/M(θ) ≤ 1 − 2v·sin²(y/2)/n has period 2π in y,
  with v given below. Terms farther than `reach` from a multiple of 2π are left out, at exp(−2v·sin²(reach/2)) of their
  size;
* beyond the last peak the smoothing exp(−τ²y²/2) bounds what is left out;
* an error of c in the exponent n·log M costs a factor exp(c); c is tracked term by term.

For the lower bound, the terms j ≠ 0 and the smoothing are bounded from above and subtracted:
f(0) − E[(S)₊] ≤ τ²·(density of S + U at 0), which the same nodes give without the division by s².

docs/theory/numerics.md has the proofs.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.evaluators.distribution import Distribution
from shoal.rounding import slack

__all__ = ["Plan", "default_tolerance", "heights_of", "plan", "positive_part", "positive_parts"]

_DROPPED = 40.0
"""Terms below exp(−40) of the largest are left out, and charged."""
_STEEPEST = 300.0
"""Larger tilts are never needed, and would overflow."""
_MOST_NODES = 400_000
"""Roughly how many nodes there may be; with more, smoothing is coarser."""
_BLOCK = 1 << 15


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


class _Rows:
    """Distributions with the same probabilities, one a row: the same pair at several ε. Columns are for the nodes."""

    def __init__(self, distributions: Sequence[Distribution]) -> None:
        self.count = float(distributions[0].reports)
        self.missing = distributions[0].missing
        self.probabilities = np.array(distributions[0].probabilities)
        self.values = np.array([distribution.values for distribution in distributions]).T
        self.means = np.array([distribution.mean for distribution in distributions])
        self.scales = np.array([distribution.scale for distribution in distributions])
        self.spreads = np.array([distribution.spread for distribution in distributions])

    def _blocks(self, size: int) -> Iterator[slice]:
        """Divide the values so that a block times `size` numbers fit well into the memory that is near."""
        length = max(1, _BLOCK // size)
        return (slice(start, start + length) for start in range(0, len(self.probabilities), length))

    def weights(self, tilts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return every probability times exp(θ·value)."""
        return np.asarray(self.probabilities[:, None] * np.exp(np.minimum(tilts * self.values, 700.0)))

    def log_moments_at(self, tilts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return n·log M at a real point for each row."""
        return np.asarray(self.count * self.log_moments(tilts[:, None].astype(np.complex128))[:, 0].real)

    def log_moments(self, points: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return log M(s); the linear term of each exponential is taken out and added once, exactly, as s·mean."""
        excess = self.means[:, None] * points
        for part in self._blocks(points.size):
            remainders = _exponential_remainder(self.values[part, :, None] * points)
            excess += np.einsum("v,vmk->mk", self.probabilities[part], remainders)
        real, imaginary = excess.real, excess.imag
        moduli = 2 * real + real**2 + imaginary**2
        logs = np.where(np.abs(moduli) < 0.5, 0.5 * np.log1p(moduli), np.log(np.hypot(1 + real, imaginary)))
        return np.asarray(logs + 1j * np.arctan2(imaginary, 1 + real))

    def exponent_errors(
        self, tilts: NDArray[np.float64], sizes: NDArray[np.float64], moments: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return bounds of the rounding error of n·log M(s) at each node, given |s| and |M(s)|."""
        per_copy = np.abs(self.means)[:, None] * sizes
        growth = self.probabilities[:, None] * (1 + np.exp(self.values * tilts))
        for part in self._blocks(sizes.size):
            lengths = np.abs(self.values[part, :, None]) * sizes
            per_copy += np.einsum("vm,vmk->mk", growth[part], lengths * np.minimum(lengths, 1.0))
        of_each = slack(max(16, 11 + len(self.probabilities)))  # of each term, and of adding them up
        return np.asarray(of_each * self.count * per_copy / np.minimum(1.0, moments) ** 2)

    def steepness(self, tilts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return v such that |M(θ + iy)/M(θ)|ⁿ ≤ exp(−2v·sin²(y/2)), from the two outer values alone."""
        weights = self.weights(tilts)
        first, second, rest = weights[0], weights[1], weights[2:].sum(axis=0) + self.missing
        return np.asarray(self.count * first * second / (first + second) / (first + second + rest) * (1 - 1e-12))

    def tilts(self) -> NDArray[np.float64]:
        """Return a θ near the minimum of M(θ)ⁿ/θ², by Newton's method; any θ > 0 would be valid."""
        floors = np.maximum(self.spreads, 0.5)
        starts = -self.count * self.means / floors**2
        tilts = 0.5 * (starts + np.sqrt(starts**2 + 8 / floors**2))
        for _ in range(30):
            weights = self.weights(tilts)
            moments = weights.sum(axis=0) + self.missing
            first = (weights * self.values).sum(axis=0) / moments
            second = (weights * self.values**2).sum(axis=0) / moments - first**2
            following = tilts - (self.count * first - 2 / tilts) / (self.count * second + 2 / tilts**2)
            following = np.minimum(np.where(following <= 0, tilts / 2, following), 2 * tilts)
            if np.all(np.abs(following - tilts) <= 1e-3 * tilts):
                break
            tilts = following
        return np.asarray(np.minimum(tilts, _STEEPEST))

    def plan(self, tilts: NDArray[np.float64], tolerance: float) -> Plan:
        """Return nodes for all rows together, good enough for each; `tilt` is the smallest."""
        steepness = float(self.steepness(tilts).min())
        reach = 2 * math.asin(math.sqrt(_DROPPED / (2 * steepness))) if 2 * steepness > _DROPPED else math.pi
        tilt = float(tilts.min())
        period = max(_DROPPED / tilt, 13 * float(self.spreads.max()), 4.0)
        if reach <= 3 * 2 * math.pi / period:
            reach = math.pi
        lengths = np.sqrt(2 * tolerance * np.clip((tilts * self.spreads) ** 2, 1.0, 30.0)) / tilts
        highest = math.sqrt(2 * _DROPPED)  # smoothing·(the last height)
        smoothing = max(float(lengths.min()), highest * period * (reach / math.pi) / (2 * math.pi * _MOST_NODES))
        return Plan(tilt, period, smoothing, reach, math.ceil(highest / smoothing / (2 * math.pi)))


def default_tolerance(distribution: Distribution) -> float:
    """Return 1e-9, or 2e-8 for a sum with a small standard deviation, which needs many nodes."""
    return 1e-9 if distribution.spread > 300 else 2e-8


def plan(distribution: Distribution, tolerance: float) -> Plan:
    """Return nodes for which smoothing adds 1 to 30 times `tolerance` to E[(S)₊], relatively."""
    rows = _Rows([distribution])
    return rows.plan(rows.tilts(), tolerance)


def positive_part(distribution: Distribution, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]; smoothing costs 1 to 30 times the tolerance."""
    # Where M has a zero, or a tilt is too large, nothing is known: what comes out is NaN or infinite, and says so.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lower, upper = positive_parts([distribution], tolerance=tolerance)
    return float(lower[0]), float(upper[0])


def positive_parts(
    distributions: Sequence[Distribution], *, tolerance: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of δ for distributions with the same probabilities, all from the same nodes."""
    rows = _Rows(distributions)
    tilts = rows.tilts()
    nodes = rows.plan(tilts, tolerance or default_tolerance(distributions[0]))
    _, period, smoothing, reach, peaks = nodes
    step = 2 * math.pi / period

    # The terms, relative to M(θ)ⁿ, with and without the division by s².
    log_moments_at = rows.log_moments_at(tilts)
    vanishing = log_moments_at + np.log(rows.scales / tilts) - 1 < math.log(SMALLEST_DELTA) - 0.01
    if vanishing.all() or nodes.size > 10 * _MOST_NODES:
        return np.zeros(len(distributions)), np.where(vanishing, SMALLEST_DELTA, math.inf)
    heights = heights_of(step, reach, peaks)
    points = tilts[:, None] + 1j * heights
    squares = np.hypot(tilts[:, None], heights) ** 2
    log_moments = rows.log_moments(points)
    exponents = rows.count * log_moments + 0.5 * smoothing**2 * points**2 - log_moments_at[:, None]
    terms = np.exp(exponents)
    sizes = np.abs(terms)
    if rows.missing > 1e-3 and reach == math.pi:
        # Leave out the event that every copy is zero: its sum adds nothing, and smoothing would add to it.
        nothing = np.exp(rows.count * math.log(rows.missing) + 0.5 * smoothing**2 * points**2 - log_moments_at[:, None])
        terms, sizes = terms - nothing, sizes + np.abs(nothing) * (1 + 1e3 * rows.count)
    twice = np.where(heights > 0, 2.0, 1.0)
    terms, sizes = terms * twice, sizes * twice
    errors = rows.exponent_errors(tilts, np.sqrt(squares), np.exp(log_moments.real))
    errors += slack(16) * (8 + np.abs(exponents) + np.abs(log_moments_at)[:, None])

    # What is left out: the gaps between the peaks, and everything beyond the last peak.
    lifts = np.exp(0.5 * (smoothing * tilts) ** 2)
    last = 2 * math.pi * peaks + reach - step
    gaps = np.zeros(len(distributions))
    if reach < math.pi:
        gaps = lifts * np.exp(-2 * rows.steepness(tilts) * math.sin(reach / 2) ** 2) / (step * (reach - step))
    beyond = lifts * math.exp(-0.5 * (smoothing * last) ** 2) / step

    totals = (terms / points**2).real.sum(axis=1) / period
    margins = ((sizes / squares * errors).sum(axis=1) + 2 * (gaps + beyond / last)) / period
    uppers = totals + margins
    densities = (np.abs(terms) + sizes * errors).sum(axis=1) + 2 * (last**2 * gaps + beyond / (smoothing**2 * last))
    lowers = totals - margins - _aliases(rows, tilts, nodes, log_moments_at, uppers) - smoothing**2 * densities / period

    log_sizes = log_moments_at + np.log(rows.scales)
    slacks = slack(64) * (8 + np.abs(log_sizes))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        lower, upper = (np.exp(log_sizes + np.log(np.maximum(ends, 0.0))) for ends in (lowers, uppers))
    return np.where(vanishing, 0.0, lower * (1 - slacks)), np.where(vanishing, SMALLEST_DELTA, upper * (1 + slacks))


def _aliases(
    rows: _Rows,
    tilts: NDArray[np.float64],
    nodes: Plan,
    log_moments: NDArray[np.float64],
    uppers: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return bounds of the terms j ≠ 0 of Poisson's formula, relative to M(θ)ⁿ, given one of the term j = 0."""
    period = nodes.period
    total = np.zeros(len(tilts))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for turn in (-1, 1):
            # f(x) ≤ M(t)ⁿ·exp(τ²t²/2 − tx)/(et) for every t > 0; and f(−x) ≤ f(0) + x.
            others = np.minimum(tilts + turn * period / (2 * rows.spreads**2), np.maximum(2 * tilts, _STEEPEST))
            usable = np.where(others > 0, others, 1.0)
            exponents = rows.log_moments_at(usable) - log_moments + 0.5 * (nodes.smoothing * usable) ** 2
            bounds = np.exp(np.minimum(700.0, exponents - np.abs(usable - tilts) * period)) / (math.e * usable)
            bounds = np.where(others > 0, bounds, math.inf)
            if turn < 0:
                near = np.exp(-tilts * period) * (uppers + period * np.exp(-log_moments))
                bounds = np.minimum(bounds, np.where(log_moments > -600, near, math.inf))
            total += 1.01 * bounds
    return total


def heights_of(step: float, reach: float, peaks: int) -> NDArray[np.float64]:
    """Return the heights k·step ≥ 0 that lie within `reach` of one of the first multiples of 2π."""
    if reach >= math.pi:
        return np.arange(math.floor((2 * math.pi * peaks + reach) / step) + 1, dtype=np.float64) * step
    starts = np.ceil((2 * math.pi * np.arange(peaks + 1) - reach) / step)
    ends = np.floor((2 * math.pi * np.arange(peaks + 1) + reach) / step)
    starts[0] = 0
    starts[1:] = np.maximum(starts[1:], ends[:-1] + 1)
    lengths = (ends - starts + 1).astype(np.int64)
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.asarray((np.arange(lengths.sum()) + offsets) * step, dtype=np.float64)


def _exponential_remainder(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return exp(z) − 1 − z without cancellation."""
    near = np.abs(z) < 0.5
    if near.all():
        return _remainder_series(z)
    result = np.exp(z) - 1 - z
    if near.any():
        result[near] = _remainder_series(z[near])
    return result


def _remainder_series(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    total = np.full_like(z, 1 / math.factorial(16))
    for power in range(15, 1, -1):
        total = total * z + 1 / math.factorial(power)
    return total * z * z
