"""Upper bounds of the Rényi divergences of many pairs at once: closed forms in few moments.

With A and B the sums of the likelihoods of all reports, exp((α − 1)·D_α) = E_P[(A/B)^(α − 1)].
Around the most likely A and B this power is the exponential of a linear function, whose mean is a
product, times a function that is nearly quadratic and small (docs/theory/numerics.md, section 3.6).
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
"""Sums far from the centre add about exp(−15) of the whole: less makes `near` larger."""
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
    means, variances, squares, cubes, fourths : numpy.ndarray
        The means and the variances of U (first row) and V (second row) of each pair, and the
        means of their powers.
    mixed : numpy.ndarray
        The mean of U²V².
    ranges : numpy.ndarray
        The largest distance of one report from its mean, for U and for V.
    rounding : numpy.ndarray
        More than what rounding does to a moment, times n.
    """

    means: Array
    variances: Array
    squares: Array
    cubes: Array
    fourths: Array
    mixed: Array
    ranges: Array
    rounding: Array


def _moments(n: int, table: LikelihoodTable, tilts: Array, centres: Array) -> _Moments:
    """Return the moments with one report of the first input and n − 1 of the reference, all tilted."""
    masses, rest = _tilted(table, tilts)
    shares = np.array([table.firsts, table.seconds]) / centres[:, :, None]
    # What neither input reports is one more output, with the values −1.
    first, second = np.append(shares, np.zeros((*tilts.shape, 1)), axis=2) - 1
    # The mean of U²V² follows from the fourth moments of U + V and U − V.
    values = np.array([first, second, first + second, first - second])
    laws = ((1, masses * table.firsts, np.zeros_like(rest)), (n - 1, masses, rest))
    cumulants = np.zeros((4, 4, len(rest)))
    ranges = np.zeros_like(tilts)
    rounding = np.zeros_like(rest)
    for count, law, missing in laws:
        whole = law.sum(axis=1) + missing
        pmf = np.append(law, missing[:, None], axis=1) / whole[:, None]
        means = np.einsum("ij,kij->ki", pmf, values)
        away = values - means[:, :, None]
        squared = away * away
        square = np.einsum("ij,kij->ki", pmf, squared)
        cube = np.einsum("ij,kij->ki", pmf, squared * away)
        fourth = np.einsum("ij,kij->ki", pmf, squared * squared)
        # Cumulants of independent reports add up.
        each = np.array([means, square, cube, fourth - 3 * square**2])
        cumulants += count * each / float(n) ** np.arange(1, 5)[:, None, None]
        distances = np.abs(away[:2])
        ranges = np.maximum(ranges, distances.max(axis=2))
        sizes = np.einsum("ij,ij->i", pmf, np.square(np.square(2 + distances[0] + distances[1])))
        rounding += count / n * slack(256 + 4 * len(table.weights)) * sizes
    # The third cumulant is the third central moment.
    means, variances, cubes, fourths = cumulants
    # Moments around the centre instead of the means.
    fourths = fourths + 3 * variances**2 + 4 * means * cubes + 6 * means**2 * variances + means**4
    cubes = cubes + 3 * means * variances + means**3
    return _Moments(
        means=means[:2],
        variances=variances[:2],
        squares=(variances + means**2)[:2],
        cubes=cubes[:2],
        fourths=fourths[:2],
        # (U + V)⁴ + (U − V)⁴ = 2U⁴ + 12U²V² + 2V⁴.
        mixed=(fourths[2] + fourths[3] - 2 * fourths[0] - 2 * fourths[1]) / 12,
        ranges=ranges * _SAFE + rounding,
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
    differences = 0.25 * rate**2 * (fourths - 2 * moments.mixed)
    totals = 0.25 * rate**2 * (fourths + 2 * moments.mixed)
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
    # E_{R₀} exp(θa − μb) once, and E exp(θa − μb) for each of the others (3.10).
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
