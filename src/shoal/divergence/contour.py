"""E[(S)₊] for a sum S of n independent copies of a small law, in a number of operations that hardly depends on n.

Let U be a centred normal variable with standard deviation τ, independent of S, and f(x) = E[(S + U − x)₊]. For every
θ > 0 and h > 0, Poisson's summation formula gives, with L = 2π/h and M the moment generating function of one copy,

    (h/2π) · Σ_k  M(s)ⁿ · exp(τ²s²/2) / s²  at  s = θ + ikh      =      Σ_j  exp(θjL) · f(jL).

Every term on the right is non-negative, the one at j = 0 is f(0), and f(0) ≥ E[(S)₊] by Jensen's inequality. So the
sum on the left is an upper bound whatever θ, h and τ are; they only decide how tight it is. What has to be charged is
what is left out of the sum, and rounding. Nothing is left to chance in either:

* the two outer values of the law lie one apart, so |M(θ + iy)|/M(θ) ≤ 1 − 2v·sin²(y/2)/n has period 2π in y, with v
  given below. Terms farther than `reach` from a multiple of 2π are left out, at exp(−2v·sin²(reach/2)) of their size;
* beyond the last peak the smoothing exp(−τ²y²/2) bounds what is left out;
* an error of c in the exponent n·log M costs a factor exp(c); c is tracked term by term.

For the lower bound, the terms j ≠ 0 and the smoothing are bounded from above and subtracted:
f(0) − E[(S)₊] ≤ τ²·(density of S + U at 0), which the same nodes give without the division by s².

docs/theory/numerics.md has the proofs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.divergence.law import Law

__all__ = ["Plan", "default_tolerance", "heights_of", "plan", "positive_part"]

_UNIT = 2.0**-53
_DROPPED = 40.0
"""Terms below exp(−40) of the largest are left out, and charged."""
_STEEPEST = 300.0
"""Larger tilts are never needed, and would overflow."""
_MOST_NODES = 400_000
"""Roughly how many nodes there may be; with more, smoothing is made coarser."""


class Plan(NamedTuple):
    """Where the sum is taken: any values give a valid bound, these a tight one.

    Attributes
    ----------
    tilt : θ, the real part of every node.
    period : L = 2π/h, with h the step between nodes.
    smoothing : τ.
    reach : how far from the multiples of 2π nodes are kept; π for all of them.
    peaks : how many multiples of 2π are visited on each side.
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


def default_tolerance(law: Law) -> float:
    """Return 1e-9, or 2e-8 for a sum with a small standard deviation, which needs many nodes."""
    return 1e-9 if law.spread > 300 else 2e-8


def plan(law: Law, tolerance: float) -> Plan:
    """Return nodes for which smoothing adds 1 to 30 times `tolerance` to E[(S)₊], relatively."""
    spread, tilt = law.spread, _tilt(law)
    steepness = _steepness(law, tilt)
    reach = 2 * math.asin(math.sqrt(_DROPPED / (2 * steepness))) if 2 * steepness > _DROPPED else math.pi
    period = max(_DROPPED / tilt, 13 * spread, 4.0)
    if reach <= 3 * 2 * math.pi / period:
        reach = math.pi
    smoothing = math.sqrt(2 * tolerance * min(30.0, max(1.0, (tilt * spread) ** 2))) / tilt
    highest = math.sqrt(2 * _DROPPED)  # smoothing·(the last height)
    smoothing = max(smoothing, highest * period * (reach / math.pi) / (2 * math.pi * _MOST_NODES))
    return Plan(tilt, period, smoothing, reach, math.ceil(highest / smoothing / (2 * math.pi)))


def positive_part(law: Law, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ = scale·E[(S)₊]; smoothing costs 1 to 30 times the tolerance."""
    count = float(law.reports)
    nodes = plan(law, tolerance or default_tolerance(law))
    tilt, period, smoothing, reach, peaks = nodes
    step = 2 * math.pi / period

    # The terms, relative to M(θ)ⁿ, with and without the division by s².
    log_moment = _log_moment_at(law, tilt)
    if log_moment + math.log(law.scale / tilt) - 1 < math.log(SMALLEST_DELTA) - 0.01:
        return 0.0, SMALLEST_DELTA
    if nodes.size > 10 * _MOST_NODES:
        return 0.0, math.inf
    heights = heights_of(step, reach, peaks)
    points = np.array(tilt + 1j * heights, dtype=np.complex128)
    log_moments = _log_moment(law, points)
    exponents = count * log_moments + 0.5 * smoothing**2 * points**2 - log_moment
    terms = np.exp(exponents)
    sizes = np.abs(terms)
    missing = law.missing
    if missing > 1e-3 and reach == math.pi:
        # Leave out the event that every copy is zero: its sum adds nothing, and smoothing would add to it.
        nothing = np.exp(count * math.log(missing) + 0.5 * smoothing**2 * points**2 - log_moment)
        terms, sizes = terms - nothing, sizes + np.abs(nothing) * (1 + 1e3 * count)
    twice = np.where(heights > 0, 2.0, 1.0)
    terms, sizes = terms * twice, sizes * twice
    errors = _exponent_errors(law, points, np.exp(log_moments.real))
    errors += 16 * _UNIT * (8 + np.abs(exponents) + abs(log_moment))

    # What is left out: the gaps between the peaks, and everything beyond the last peak.
    lift = math.exp(0.5 * (smoothing * tilt) ** 2)
    last = 2 * math.pi * peaks + reach - step
    gaps = 0.0
    if reach < math.pi:
        gaps = lift * math.exp(-2 * _steepness(law, tilt) * math.sin(reach / 2) ** 2) / (step * (reach - step))
    beyond = lift * math.exp(-0.5 * (smoothing * last) ** 2) / step

    total = float((terms / points**2).real.sum()) / period
    margin = (float((sizes / np.abs(points) ** 2 * errors).sum()) + 2 * (gaps + beyond / last)) / period
    upper = total + margin
    density = float((np.abs(terms) + sizes * errors).sum()) + 2 * (last**2 * gaps + beyond / (smoothing**2 * last))
    lower = total - margin - _aliases(law, nodes, log_moment, upper) - smoothing**2 * density / period

    log_size = log_moment + math.log(law.scale)
    ends = [math.exp(log_size + math.log(end)) if end > 0 else 0.0 for end in (lower, upper)]
    slack = 64 * _UNIT * (8 + abs(log_size))
    return ends[0] * (1 - slack), ends[1] * (1 + slack)


def _aliases(law: Law, nodes: Plan, log_moment: float, upper: float) -> float:
    """Return a bound of the terms j ≠ 0 of Poisson's formula, relative to M(θ)ⁿ, given one of the term j = 0."""
    tilt, period = nodes.tilt, nodes.period
    total = 0.0
    for turn in (-1, 1):
        # f(x) ≤ M(t)ⁿ·exp(τ²t²/2 − tx)/(et) for every t > 0; and f(−x) ≤ f(0) + x.
        other = min(tilt + turn * period / (2 * law.spread**2), max(2 * tilt, _STEEPEST))
        bounds = []
        if other > 0:
            exponent = _log_moment_at(law, other) - log_moment + 0.5 * (nodes.smoothing * other) ** 2
            bounds.append(math.exp(min(700.0, exponent - abs(other - tilt) * period)) / (math.e * other))
        if turn < 0 and log_moment > -600:
            bounds.append(math.exp(-tilt * period) * (upper + period * math.exp(-log_moment)))
        total += 1.01 * min(bounds, default=math.inf)
    return total


def _log_moment_at(law: Law, tilt: float) -> float:
    """Return n·log M at a real point."""
    return law.reports * float(_log_moment(law, np.array([complex(tilt)]))[0].real)


def _steepness(law: Law, tilt: float) -> float:
    """Return v such that |M(θ + iy)/M(θ)|ⁿ ≤ exp(−2v·sin²(y/2)), from the two outer values alone."""
    first, second = (
        chance * math.exp(tilt * value) for chance, value in zip(law.chances, law.values[:2], strict=False)
    )
    others = zip(law.chances[2:], law.values[2:], strict=True)
    rest = law.missing + sum(chance * math.exp(tilt * value) for chance, value in others)
    return law.reports * first * second / (first + second) / (first + second + rest) * (1 - 1e-12)


def _tilt(law: Law) -> float:
    """Return a θ near the minimum of M(θ)ⁿ/θ², found by Newton's method; any θ > 0 would be valid."""
    values, chances = np.array(law.values), np.array(law.chances)
    count, missing, floor = float(law.reports), law.missing, max(law.spread, 0.5)
    start = -count * law.mean / floor**2
    tilt = 0.5 * (start + math.sqrt(start**2 + 8 / floor**2))
    for _ in range(30):
        weights = chances * np.exp(np.minimum(tilt * values, 700.0))
        moment = float(weights.sum()) + missing
        first = float(weights @ values) / moment
        second = float(weights @ values**2) / moment - first**2
        gradient = count * first - 2 / tilt
        move = gradient / (count * second + 2 / tilt**2)
        following = tilt - move
        if following <= 0:
            following = tilt / 2
        following = min(following, 2 * tilt)
        if abs(following - tilt) <= 1e-3 * tilt:
            break
        tilt = following
    return min(tilt, _STEEPEST)


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


def _log_moment(law: Law, points: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return log M(s); the linear term of each exponential is taken out and added once, exactly, as s·mean."""
    excess = law.mean * points + np.array(law.chances) @ _exponential_remainder(np.outer(law.values, points))
    real, imaginary = excess.real, excess.imag
    moduli = 2 * real + real**2 + imaginary**2
    logs = np.where(np.abs(moduli) < 0.5, 0.5 * np.log1p(moduli), np.log(np.hypot(1 + real, imaginary)))
    return logs + 1j * np.arctan2(imaginary, 1 + real)


def _exponent_errors(law: Law, points: NDArray[np.complex128], moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bounds of the rounding error of n·log M(s) at each point, given |M(s)|."""
    values, chances = np.array(law.values), np.array(law.chances)
    sizes = np.abs(np.outer(values, points))
    growth = 1 + np.exp(values * points[0].real)
    per_copy = abs(law.mean) * np.abs(points) + (chances * growth) @ (sizes * np.minimum(sizes, 1.0))
    return np.asarray(16 * _UNIT * law.reports * per_copy / np.minimum(1.0, moments) ** 2, dtype=np.float64)


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
