"""The Rényi divergences of many pairs at once, from above: closed forms in few moments, close for many reports.

With A and B the sums of the likelihoods of all reports, exp((α − 1)·D_α) = E_P[(A/B)^(α − 1)]. Around the most likely A
and B, (A/B)^(α − 1) is the exponential of a linear function, whose mean is a product, times that of a function that is
nearly quadratic and small. docs/theory/numerics.md, section 3.6, has the proof.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import slack, up

__all__ = ["Ceilings", "LikelihoodTable", "renyi_ceilings"]

Array = NDArray[np.float64]

_STEPS = 3
"""How often the centre is improved."""
_RARE = 15.0
"""Sums that are far from the centre add about exp(−15) of the whole."""
_WIDEST = 0.9
"""How far they may be, as a part of the centre: beyond, nothing is said."""
_SMALL = 0.05
"""Exponents up to this have a short series."""
_LARGEST = 300.0
"""Of (α − 1)·D_α: beyond, nothing is said."""
_STEEPEST = 30.0
"""Of exponents: beyond, rounding would change the tilted law by more than is paid for."""
_SAFE = 1 + 1e-9
"""More than rounding does to what is rare."""


class Ceilings(NamedTuple):
    """Upper bounds of the Rényi divergence of each pair, infinite where nothing is known.

    Attributes
    ----------
    values : numpy.ndarray
        The bounds.
    loose : numpy.ndarray
        Roughly by how much each may be too large, as a part of it.
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
        What these leave of one.
    """

    firsts: Array
    seconds: Array
    weights: Array
    missing: float


class _Moments(NamedTuple):
    """Means and central moments of U and V, the relative distances of A and B from the centre, under the tilted law.

    Attributes
    ----------
    means, squares, cubes, fourths : numpy.ndarray
        Of U (first row) and V (second row), of each pair.
    product, mixed, crossed : numpy.ndarray
        Of UV; of U²V and UV²; and of U²V².
    ranges : numpy.ndarray
        How far one report may be from its mean.
    doubt : numpy.ndarray
        More than what rounding does to a moment, times n.
    """

    means: Array
    squares: Array
    cubes: Array
    fourths: Array
    product: Array
    mixed: Array
    crossed: Array
    ranges: Array
    doubt: Array

    @classmethod
    def of(cls, n: int, table: LikelihoodTable, tilts: Array, centres: Array) -> "_Moments":
        """Return those of one report of the first input and n − 1 of the reference, all tilted."""
        masses, rest = _tilted(table, tilts)
        values = np.array([table.firsts, table.seconds]) / centres[:, :, None] - 1
        laws = [(1, masses * table.firsts, np.zeros_like(rest)), (n - 1, masses, rest)]
        sums: dict[tuple[int, int], Array] = {}
        mean, ranges, doubt = np.zeros_like(tilts), np.zeros_like(tilts), np.zeros_like(rest)
        for count, law, missing in laws:
            total = law.sum(axis=1) + missing
            chances, none = law / total[:, None], missing / total
            own = np.einsum("ij,kij->ki", chances, values) - none
            (one, two), (zero, nought) = values - own[:, :, None], -1 - own
            ones, twos = one * one, two * two

            def moment(power: Array, nothing: Array, chances: Array = chances, none: Array = none) -> Array:
                return np.asarray(np.einsum("ij,ij->i", chances, power) + none * nothing)

            u, v, uv = moment(ones, zero**2), moment(twos, nought**2), moment(one * two, zero * nought)
            cumulants = {
                (2, 0): u,
                (0, 2): v,
                (1, 1): uv,
                (3, 0): moment(ones * one, zero**3),
                (0, 3): moment(twos * two, nought**3),
                (2, 1): moment(ones * two, zero**2 * nought),
                (1, 2): moment(one * twos, zero * nought**2),
                (4, 0): moment(ones * ones, zero**4) - 3 * u**2,
                (0, 4): moment(twos * twos, nought**4) - 3 * v**2,
                (2, 2): moment(ones * twos, zero**2 * nought**2) - u * v - 2 * uv**2,
            }
            for key, value in cumulants.items():
                sums[key] = sums.get(key, 0.0) + count * value / float(n) ** sum(key)
            mean += count / n * own
            ranges = np.maximum(ranges, np.maximum(np.abs([one, two]).max(axis=2), np.abs([zero, nought])))
            sizes = moment((2 + np.abs(one) + np.abs(two)) ** 4, (2 + np.abs(zero) + np.abs(nought)) ** 4)
            doubt += count / n * slack(256 + 4 * len(table.weights)) * sizes
        u, v = sums[2, 0], sums[0, 2]
        return cls(
            mean,
            np.array([u, v]),
            np.array([sums[3, 0], sums[0, 3]]),
            np.array([sums[4, 0] + 3 * u**2, sums[0, 4] + 3 * v**2]),
            sums[1, 1],
            np.array([sums[2, 1], sums[1, 2]]),
            sums[2, 2] + u * v + 2 * sums[1, 1] ** 2,
            ranges * _SAFE + doubt,
            doubt,
        )

    def raw(self) -> tuple[Array, Array, Array, Array]:
        """Return the means of U² and V², of U³ and V³, of U⁴ and V⁴, and of U²V²."""
        (one, two), mean, squares = self.means, self.means, self.squares
        crossed = self.crossed + 2 * (two * self.mixed[0] + one * self.mixed[1]) + 4 * one * two * self.product
        return (
            squares + mean**2,
            self.cubes + 3 * mean * squares + mean**3,
            self.fourths + 4 * mean * self.cubes + 6 * mean**2 * squares + mean**4,
            crossed + one**2 * squares[1] + two**2 * squares[0] + one**2 * two**2,
        )


def renyi_ceilings(reports: int, table: LikelihoodTable, ceiling: float, order: float) -> Ceilings:
    """Return upper bounds of D_α(P‖Q) of many pairs, which are close where n is far above α²ε₀.

    Parameters
    ----------
    reports : int
        n > 1.
    table : LikelihoodTable
        What one report tells.
    ceiling : float
        ε₀, which no logarithm of R₀/R₁ exceeds.
    order : float
        α > 1.
    """
    with np.errstate(all="ignore"):
        return _ceilings(reports, table, ceiling, order - 1)


def _ceilings(n: int, table: LikelihoodTable, ceiling: float, rate: float) -> Ceilings:
    tilts = np.full((2, len(table.firsts)), rate / n)
    for _ in range(_STEPS):
        masses, rest = _tilted(table, tilts)
        sums = [np.einsum("ij,ij->i", masses, each) for each in (table.firsts, table.seconds)]
        tilts = rate / n * (masses.sum(axis=1) + rest) / np.array(sums)
    centres = rate / n / tilts
    apart = rate * np.log(centres[0] / centres[1])
    logs = apart + _log_mean(n, table, tilts) + slack(16) * (rate + np.abs(apart))
    moments = _Moments.of(n, table, tilts, centres)

    # B is within `wide` of its centre, but for what is rare even if it counts as the largest ratio; and U and V are
    # within `near`, but for what is rare under the tilted law.
    spreads = ((table.firsts - table.seconds) ** 2) @ table.weights
    depth = _RARE - np.log(np.minimum(1.0, 0.5 * rate * (rate + 1) * spreads / n))
    steep, highest = rate * ceiling * (1 + 1e-12), table.seconds.max(axis=1) * _SAFE
    variances = ((table.seconds - 1) ** 2 @ table.weights + table.missing) * _SAFE + slack(64) * highest
    offset = (highest + 1) / n + np.abs(centres[1] - 1) + slack(64) * (1 + centres[1])
    wide = _distance(steep + depth, (n - 1) * variances, highest) / n + offset
    wide = wide / centres[1] * _SAFE + 1e-12
    beyond = np.exp(steep + _log_tail(n * (wide * centres[1] - offset), (n - 1) * variances, highest))
    most = rate * (-wide - np.log1p(-wide)) * _SAFE
    offsets = np.abs(moments.means) + moments.doubt
    spans = n**2 * (moments.squares + moments.doubt / n)
    largest = 1 + table.firsts.max(axis=1) / centres[0] * _SAFE
    costs = np.logaddexp(most, np.log(2 * rate * largest**4))
    near = (_distance(depth + costs, spans, moments.ranges) / n + offsets).max(axis=0) * _SAFE
    rare = np.exp(costs + _log_tail(n * (near - offsets), spans, moments.ranges)).sum(axis=0)

    squares, cubes, fourths, crossed = moments.raw()
    share = 2 * near / (3 * (1 - near))
    factor = 0.5 * np.exp(rate * (-near - np.log1p(-near))) * (1 + share)
    differences = 0.25 * rate**2 * (fourths.sum(axis=0) - 2 * crossed)
    totals = 0.25 * rate**2 * (fourths.sum(axis=0) + 2 * crossed)
    excess = (squares[1] - squares[0]) / 2 - (cubes[1] - cubes[0]) / 3
    excess = rate * (excess + fourths[1] / (4 * (1 - near)) - fourths[0] / (4 * (1 + near)))
    excess += factor * (differences + share * totals)
    size = 1 / n + np.abs(moments.means).max(axis=0)
    rounding = 64 * moments.doubt * size * (rate + factor * (1 + share) * rate**2 * size)
    bent = np.log1p(excess + rounding + rare)
    logs = logs + bent + slack(16) * (np.abs(logs) + np.abs(bent))
    grown = np.expm1(logs)
    whole = np.log1p(grown + slack(16) * np.abs(grown) + beyond)
    values = np.fmin(up(whole / rate, roundings=64), ceiling)
    usable = (wide < _WIDEST) & (near < 0.5) & (logs < _LARGEST) & (whole > 0) & np.isfinite(values)
    usable &= tilts[0] * table.firsts.max(axis=1) + tilts[1] * highest < _STEEPEST
    loose = 0.5 * rate * near * fourths.sum(axis=0) + (factor - 0.5) * differences + factor * share * totals
    loose = (loose + rounding + rare + beyond * np.exp(-logs)) / whole
    return Ceilings(np.where(usable, values, math.inf), np.where(usable, loose, math.inf))


def _tilted(table: LikelihoodTable, tilts: Array) -> tuple[Array, Array]:
    """Return the tilted reference up to a factor: the masses of all outputs, and of what is missing."""
    masses = table.weights * np.exp(tilts[0, :, None] * table.firsts - tilts[1, :, None] * table.seconds)
    return masses, np.full(len(masses), table.missing)


def _log_mean(n: int, table: LikelihoodTable, tilts: Array) -> Array:
    """Return an upper bound of ln E_P[exp(θA − μB)]: one report of the first input, and n − 1 of the reference."""
    first, second = tilts[0, :, None] * table.firsts, tilts[1, :, None] * table.seconds
    powers, sizes, weights = first - second, first + second, table.weights
    if np.abs(powers).max() < _SMALL:
        series = powers / 3 * (1 + powers / 4 * (1 + powers / 5)) + powers**4 / 300
        growth, wrong = 0.5 * powers**2 * (1 + series), sizes**2
    else:
        growth, wrong = np.expm1(powers) - powers, 2 * sizes * (1 + np.exp(powers))
    rounding = slack(64 + 2 * len(weights))
    means = tilts[0] - tilts[1]  # a and b have the mean one
    added = means + growth @ weights + rounding * (wrong @ weights) + slack(4) * np.abs(means)
    own = (table.firsts * np.expm1(powers)) @ weights
    own += rounding * ((table.firsts * sizes * (1 + np.exp(powers))) @ weights)
    logs = (n - 1) * np.log1p(added), np.log1p(own)
    return np.asarray(logs[0] + logs[1] + slack(16) * (np.abs(logs[0]) + np.abs(logs[1])))


def _log_tail(away: Array, variances: Array, largest: Array) -> Array:
    """Return the logarithm of Bernstein's bound, for summands within `largest` of their means and a sum so far away."""
    exponents = away**2 / (2 * (variances + largest * away / 3))
    return np.where(away > 0, math.log(2) - exponents / _SAFE, 1.0) + 1e-9


def _distance(depth: Array, variances: Array, largest: Array) -> Array:
    """Return where that is about exp(−depth)."""
    linear = depth * largest / 3
    return np.asarray(linear + np.sqrt(linear**2 + 2 * depth * variances))
