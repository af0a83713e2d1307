"""Upper bounds of the Rényi divergences of many pairs at once: closed forms in few moments.

With A and B the sums of the likelihoods of all reports, exp((α − 1)·D_α) = E_P[(A/B)^(α − 1)]. Around
the most likely A and B this power is the exponential of a linear function, whose mean is a product,
times a function that is nearly quadratic and small (docs/theory/numerics.md, section 3.6).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack, up

__all__ = ["Ceilings", "LikelihoodTable", "renyi_ceilings"]

Array = NDArray[np.float64]

_STEPS = 3
"""How often the centre is improved: a better one makes bounds tighter, and takes longer."""
_RARE = 15.0
"""Sums far from the centre add about exp(−15) of the whole: less makes the distance `near` larger."""
_WIDEST = 0.9
"""The largest distance from the centre, as a part of it: beyond, h(−w) makes the bound useless."""
_SMALL = 0.05
"""Exponents up to this have a short series, whose first omitted term is below 1e-10 of it."""
_LARGEST = 300.0
"""The largest (α − 1)·D_α: beyond, exponentials might overflow, and no bound is given."""
_STEEPEST = 30.0
"""The largest exponent: beyond, rounding changes the tilted law by more than is charged."""
_SAFE = 1 + 1e-9
"""More than rounding changes Bernstein's bounds, which are far from tight in any case."""


class Ceilings(NamedTuple):
    """Upper bounds of the Rényi divergence of each pair, infinite where nothing is known.

    Attributes
    ----------
    values : numpy.ndarray
        The bounds.
    loose : numpy.ndarray
        Roughly the relative amount by which each may be too large.
    """

    values: Array
    loose: Array


class LikelihoodTable(NamedTuple):
    """The likelihoods of many pairs with the same reference, all rounded once.

    Attributes
    ----------
    firsts, seconds : numpy.ndarray
        R₀/ω and R₁/ω of each pair (row) and output.
    weights : numpy.ndarray
        ω of each output.
    missing : float
        The probability that these leave of one.
    """

    firsts: Array
    seconds: Array
    weights: Array
    missing: float


class _Moments(NamedTuple):
    """Moments of U and V, the relative distances of A and B from the centre, under the tilted law.

    Attributes
    ----------
    means : numpy.ndarray
        Of U (first row) and V (second row), of each pair.
    squares, cubes, fourths, crossed : numpy.ndarray
        The means of U² and V², of U³ and V³, of U⁴ and V⁴, and of U²V².
    variances : numpy.ndarray
        Of U and V.
    ranges : numpy.ndarray
        The largest distance of one report from its mean.
    rounding : numpy.ndarray
        More than what rounding does to a moment, times n.
    """

    means: Array
    squares: Array
    cubes: Array
    fourths: Array
    crossed: Array
    variances: Array
    ranges: Array
    rounding: Array


def _moments(n: int, table: LikelihoodTable, tilts: Array, centres: Array) -> _Moments:
    """Return the moments for one report of the first input and n − 1 of the reference, all tilted."""
    masses, rest = _tilted(table, tilts)
    values = np.array([table.firsts, table.seconds]) / centres[:, :, None] - 1
    victim = (1, masses * table.firsts, np.zeros_like(rest))
    others = (n - 1, masses, rest)
    sums: dict[tuple[int, int], Array] = {}
    mean = np.zeros_like(tilts)
    ranges = np.zeros_like(tilts)
    rounding = np.zeros_like(rest)
    for count, law, missing in (victim, others):
        total = law.sum(axis=1) + missing
        # What neither input reports is one more output, with the value −1.
        pmf = np.concatenate((law, missing[:, None]), axis=1) / total[:, None]
        outputs = np.concatenate((values, np.full((*tilts.shape, 1), -1.0)), axis=2)
        own = np.einsum("ij,kij->ki", pmf, outputs)
        away = outputs - own[:, :, None]
        for key, cumulant in _cumulants(pmf, *away).items():
            # Cumulants of independent reports add up.
            sums[key] = sums.get(key, 0.0) + count * cumulant / float(n) ** sum(key)
        mean += count / n * own
        distances = np.abs(away)
        ranges = np.maximum(ranges, distances.max(axis=2))
        sizes = np.einsum("ij,ij->i", pmf, (2 + distances[0] + distances[1]) ** 4)
        rounding += count / n * slack(256 + 4 * len(table.weights)) * sizes
    return _raw(sums, mean, ranges * _SAFE + rounding, rounding)


def _cumulants(pmf: Array, one: Array, two: Array) -> dict[tuple[int, int], Array]:
    """Return the joint cumulants of U and V of one report, by their degrees."""

    def moment(first: int, second: int) -> Array:
        return np.asarray(np.einsum("ij,ij->i", pmf, one**first * two**second))

    u = moment(2, 0)
    v = moment(0, 2)
    uv = moment(1, 1)
    result = {(2, 0): u, (0, 2): v, (1, 1): uv}
    for key in ((3, 0), (0, 3), (2, 1), (1, 2)):
        result[key] = moment(*key)
    result[4, 0] = moment(4, 0) - 3 * u**2
    result[0, 4] = moment(0, 4) - 3 * v**2
    result[2, 2] = moment(2, 2) - u * v - 2 * uv**2
    return result


def _raw(sums: dict[tuple[int, int], Array], mean: Array, ranges: Array, rounding: Array) -> _Moments:
    """Return moments around the centre, from cumulants of all reports together."""
    u = sums[2, 0]
    v = sums[0, 2]
    product = sums[1, 1]
    variances = np.array([u, v])
    cubes = np.array([sums[3, 0], sums[0, 3]])
    # Central moments of degree four.
    fourths = np.array([sums[4, 0] + 3 * u**2, sums[0, 4] + 3 * v**2])
    crossed = sums[2, 2] + u * v + 2 * product**2
    one, two = mean
    # Moments around the centre instead of the means.
    crossed = crossed + 2 * (two * sums[2, 1] + one * sums[1, 2]) + 4 * one * two * product
    crossed = crossed + one**2 * v + two**2 * u + one**2 * two**2
    return _Moments(
        means=mean,
        squares=variances + mean**2,
        cubes=cubes + 3 * mean * variances + mean**3,
        fourths=fourths + 4 * mean * cubes + 6 * mean**2 * variances + mean**4,
        crossed=crossed,
        variances=variances,
        ranges=ranges,
        rounding=rounding,
    )


def renyi_ceilings(reports: int, table: LikelihoodTable, ceiling: float, order: float) -> Ceilings:
    """Return upper bounds of D_α(P‖Q) of many pairs, which are tight if n is far above α²ε₀.

    Parameters
    ----------
    reports : int
        n > 1.
    table : LikelihoodTable
        The likelihoods of one report.
    ceiling : float
        ε₀, which no logarithm of R₀/R₁ exceeds.
    order : float
        α > 1.
    """
    with np.errstate(all="ignore"):
        return _ceilings(reports, table, ceiling, order - 1)


def _ceilings(n: int, table: LikelihoodTable, ceiling: float, rate: float) -> Ceilings:
    # The centre: about the means of a and b under the tilted law (3.9).
    tilts = np.full((2, len(table.firsts)), rate / n)
    for _ in range(_STEPS):
        masses, rest = _tilted(table, tilts)
        sums = [np.einsum("ij,ij->i", masses, each) for each in (table.firsts, table.seconds)]
        tilts = rate / n * (masses.sum(axis=1) + rest) / np.array(sums)
    centres = rate / n / tilts
    apart = rate * np.log(centres[0] / centres[1])
    logs = apart + _log_mean(n, table, tilts) + slack(16) * (rate + np.abs(apart))
    moments = _moments(n, table, tilts, centres)

    # |V| ≤ `wide`, except for rare events even if they count as the largest ratio (3.10).
    spreads = ((table.firsts - table.seconds) ** 2) @ table.weights
    depth = _RARE - np.log(np.minimum(1.0, 0.5 * rate * (rate + 1) * spreads / n))
    steep = rate * ceiling * (1 + 1e-12)
    highest = table.seconds.max(axis=1) * _SAFE
    variances = ((table.seconds - 1) ** 2 @ table.weights + table.missing) * _SAFE
    variances = (n - 1) * (variances + slack(64) * highest)
    offset = (highest + 1) / n + np.abs(centres[1] - 1) + slack(64) * (1 + centres[1])
    wide = _distance(steep + depth, variances, highest) / n + offset
    wide = wide / centres[1] * _SAFE + 1e-12
    away = n * (wide * centres[1] - offset)
    beyond = np.exp(steep + _log_tail(away, variances, highest))

    # |U|, |V| ≤ `near`, except for rare events under the tilted law (3.13).
    most = rate * (-wide - np.log1p(-wide)) * _SAFE
    offsets = np.abs(moments.means) + moments.rounding
    spans = n**2 * (moments.variances + moments.rounding / n)
    largest = 1 + table.firsts.max(axis=1) / centres[0] * _SAFE
    costs = np.logaddexp(most, np.log(2 * rate * largest**4))
    near = (_distance(depth + costs, spans, moments.ranges) / n + offsets).max(axis=0) * _SAFE
    tails = _log_tail(n * (near - offsets), spans, moments.ranges)
    rare = np.exp(costs + tails).sum(axis=0)

    # The mean of the polynomial Π (3.12), with s of (3.11).
    fourths = moments.fourths.sum(axis=0)
    share = 2 * near / (3 * (1 - near))
    factor = 0.5 * np.exp(rate * (-near - np.log1p(-near))) * (1 + share)
    differences = 0.25 * rate**2 * (fourths - 2 * moments.crossed)
    totals = 0.25 * rate**2 * (fourths + 2 * moments.crossed)
    squares = (moments.squares[1] - moments.squares[0]) / 2
    cubes = (moments.cubes[1] - moments.cubes[0]) / 3
    powers = moments.fourths[1] / (4 * (1 - near)) - moments.fourths[0] / (4 * (1 + near))
    excess = rate * (squares - cubes + powers) + factor * (differences + share * totals)
    size = 1 / n + np.abs(moments.means).max(axis=0)
    rounding = rate + factor * (1 + share) * rate**2 * size
    rounding = 64 * moments.rounding * size * rounding
    bent = np.log1p(excess + rounding + rare)

    # All of (3.10).
    logs = logs + bent + slack(16) * (np.abs(logs) + np.abs(bent))
    grown = np.expm1(logs)
    whole = np.log1p(grown + slack(16) * np.abs(grown) + beyond)
    values = np.fmin(up(whole / rate, roundings=64), ceiling)
    usable = (wide < _WIDEST) & (near < 0.5) & (logs < _LARGEST) & (whole > 0)
    usable &= np.isfinite(values)
    usable &= tilts[0] * table.firsts.max(axis=1) + tilts[1] * highest < _STEEPEST
    loose = 0.5 * rate * near * fourths + (factor - 0.5) * differences + factor * share * totals
    loose = (loose + rounding + rare + beyond * np.exp(-logs)) / whole
    return Ceilings(np.where(usable, values, math.inf), np.where(usable, loose, math.inf))


def _tilted(table: LikelihoodTable, tilts: Array) -> tuple[Array, Array]:
    """Return the tilted reference up to a factor: masses of all outputs, and of what is missing."""
    powers = tilts[0, :, None] * table.firsts - tilts[1, :, None] * table.seconds
    masses = table.weights * np.exp(powers)
    return masses, np.full(len(masses), table.missing)


def _log_mean(n: int, table: LikelihoodTable, tilts: Array) -> Array:
    """Return an upper bound of ln E_P[exp(θA − μB)], the first factors of (3.10).

    One report is of the first input, and n − 1 are of the reference.
    """
    first = tilts[0, :, None] * table.firsts
    second = tilts[1, :, None] * table.seconds
    powers = first - second
    sizes = first + second
    if np.abs(powers).max() < _SMALL:
        series = powers / 3 * (1 + powers / 4 * (1 + powers / 5)) + powers**4 / 300
        growth = 0.5 * powers**2 * (1 + series)
        abs_error = sizes**2
    else:
        growth = np.expm1(powers) - powers
        abs_error = 2 * sizes * (1 + np.exp(powers))
    rounding = slack(64 + 2 * len(table.weights))
    means = tilts[0] - tilts[1]  # a and b have the mean one
    added = means + growth @ table.weights
    added += rounding * (abs_error @ table.weights) + slack(4) * np.abs(means)
    own = (table.firsts * np.expm1(powers)) @ table.weights
    own += rounding * ((table.firsts * sizes * (1 + np.exp(powers))) @ table.weights)
    others = (n - 1) * np.log1p(added)
    victim = np.log1p(own)
    return np.asarray(others + victim + slack(16) * (np.abs(others) + np.abs(victim)))


def _log_tail(away: Array, variances: Array, largest: Array) -> Array:
    """Return the logarithm of Bernstein's bound (3.14) for a sum this far from its mean."""
    exponents = away**2 / (2 * (variances + largest * away / 3))
    return np.where(away > 0, math.log(2) - exponents / _SAFE, 1.0) + 1e-9


def _distance(depth: Array, variances: Array, largest: Array) -> Array:
    """Return the distance at which Bernstein's bound is about exp(−depth)."""
    linear = depth * largest / 3
    return np.asarray(linear + np.sqrt(linear**2 + 2 * depth * variances))
