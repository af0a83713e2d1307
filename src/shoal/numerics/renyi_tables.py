"""Upper bounds of the Rényi divergences of many pairs at once: closed forms in few moments.

With A and B the sums of the likelihoods of all reports, exp((α − 1)·D_α) = E_P[(A/B)^(α − 1)].
Around the most likely A and B this power is the exponential of a linear function, whose mean is a
product, times a function that is nearly quadratic and small (docs/theory/numerics.md, section 3.6).
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array
from shoal.rounding import slack, up

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


class LikelihoodTable(NamedTuple):
    """The likelihoods of many pairs with the same reference, all rounded once."""

    firsts: Array  # R₀/ω of each pair (row) and output
    seconds: Array  # R₁/ω
    weights: Array  # ω of each output
    missing: float  # what these leave of one, which neither input reports

    def whole(self) -> "LikelihoodTable":
        """Return the table with what neither input reports as one more output."""
        firsts = np.pad(self.firsts, ((0, 0), (0, 1)))
        seconds = np.pad(self.seconds, ((0, 0), (0, 1)))
        return LikelihoodTable(firsts, seconds, np.append(self.weights, self.missing), 0.0)

    def tilted(self, tilts: Array) -> Array:
        """Return the probabilities of the reference times e^(θa − μb), for θ and μ of each pair."""
        first, second = tilts[:, :, None]
        return np.asarray(self.weights * np.exp(first * self.firsts - second * self.seconds))


class _Moments(NamedTuple):
    """Moments of U and V, the relative distances of A and B from the centre, when tilted.

    Of arrays with two rows, the first is for U and the second for V.
    """

    means: Array
    variances: Array
    squares: Array  # the means of U² and V²
    cubes: Array
    fourths: Array
    mixed: Array  # the mean of U²V²
    ranges: Array  # the largest distance of one report from its mean
    rounding: Array  # more than what rounding does to a moment, times n


def _moments(n: int, table: LikelihoodTable, tilts: Array, centres: Array) -> _Moments:
    """Return the moments with one report of the first input, and n − 1 of the reference."""
    masses = table.tilted(tilts)
    first = table.firsts / centres[0, :, None] - 1
    second = table.seconds / centres[1, :, None] - 1
    # The mean of U²V² follows from the fourth moments of U + V and U − V.
    values = np.array([first, second, first + second, first - second])
    total = np.zeros((4, 4, len(first)))
    ranges = np.zeros_like(tilts)
    rounding = np.zeros(len(first))
    for count, law in ((1, masses * table.firsts), (n - 1, masses)):
        pmf = law / law.sum(axis=1, keepdims=True)
        mean = partial(np.einsum, "ij,kij->ki", pmf)
        means = mean(values)
        away = values - means[:, :, None]
        squared = away * away
        square = mean(squared)
        # Cumulants of independent reports add up.
        cube = mean(squared * away)
        fourth = mean(squared**2)
        cumulants = np.array([means, square, cube, fourth - 3 * square**2])
        total += count * cumulants / float(n) ** np.arange(1, 5)[:, None, None]
        distances = abs(away[:2])
        ranges = np.maximum(ranges, distances.max(axis=2))
        sizes = (pmf * (2 + distances.sum(axis=0)) ** 4).sum(axis=1)
        rounding += count / n * slack(256 + 4 * len(table.weights)) * sizes
    # The third cumulant is the third central moment.
    means, variances, cubes, fourths = total
    # Moments around the centre instead of the means.
    fourths = fourths + 3 * variances**2 + 4 * means * cubes + 6 * means**2 * variances + means**4
    cubes = cubes + 3 * means * variances + means**3
    # (U + V)⁴ + (U − V)⁴ = 2U⁴ + 12U²V² + 2V⁴.
    mixed = (fourths[2] + fourths[3] - 2 * fourths[0] - 2 * fourths[1]) / 12
    return _Moments(
        means[:2],
        variances[:2],
        (variances + means**2)[:2],
        cubes[:2],
        fourths[:2],
        mixed,
        ranges * _SAFE + rounding,
        rounding,
    )


def _tilts(table: LikelihoodTable, share: float) -> Array:
    """Return θ and μ of (3.9), k/n = `share` over about the means of a and b under the tilted law."""
    tilts = np.full((2, len(table.firsts)), share)
    for _ in range(_STEPS):
        masses = table.tilted(tilts)
        sums = [(masses * each).sum(axis=1) for each in (table.firsts, table.seconds)]
        tilts = share * masses.sum(axis=1) / np.array(sums)
    return tilts


@np.errstate(all="ignore")
def renyi_ceilings(
    reports: int, table: LikelihoodTable, ceiling: float, order: float
) -> tuple[Array, Array]:  # fmt: skip
    """Return upper bounds of D_α(P‖Q) of each pair, and roughly how much too large each may be.

    The bounds are tight if n is far above α²ε₀, and infinite where nothing is known. `ceiling` is
    ε₀, which no logarithm of R₀/R₁ exceeds. The second numbers are relative.
    """
    n = reports
    rate = order - 1
    firsts, seconds, weights, _ = table = table.whole()
    tilts = _tilts(table, rate / n)
    centres = rate / n / tilts
    apart = rate * np.log(centres[0] / centres[1])
    logs = apart + _log_mean(n, table, tilts) + slack(16) * (rate + abs(apart))
    moments = _moments(n, table, tilts, centres)

    # |V| ≤ `wide`, except for rare events even if they count as the largest ratio (3.10).
    spreads = (firsts - seconds) ** 2 @ weights
    depth = _RARE - np.log(np.minimum(1.0, 0.5 * rate * order * spreads / n))
    steep = rate * ceiling * (1 + 1e-12)
    highest = seconds.max(axis=1) * _SAFE
    variances = (n - 1) * ((seconds - 1) ** 2 @ weights * _SAFE + slack(64) * highest)
    offset = (highest + 1) / n + abs(centres[1] - 1)
    offset += slack(64) * (1 + centres[1])
    wide = _distance(steep + depth, variances, highest) / n + offset
    wide = wide / centres[1] * _SAFE + 1e-12
    away = n * (wide * centres[1] - offset)
    beyond = np.exp(steep + _log_tail(away, variances, highest))

    # |U|, |V| ≤ `near`, except for rare events under the tilted law (3.13).
    most = rate * _remainder(wide) * _SAFE
    offsets = abs(moments.means) + moments.rounding
    spans = n**2 * (moments.variances + moments.rounding / n)
    largest = 1 + firsts.max(axis=1) / centres[0] * _SAFE
    costs = np.logaddexp(most, np.log(2 * rate * largest**4))
    distances = _distance(depth + costs, spans, moments.ranges)
    near = (distances / n + offsets).max(axis=0) * _SAFE
    tails = _log_tail(n * (near - offsets), spans, moments.ranges)
    rare = np.exp(costs + tails).sum(axis=0)

    excess, loose = _polynomial(n, moments, near, rate)
    bent = np.log1p(excess + rare)

    # All of (3.10).
    logs = logs + bent + slack(16) * (abs(logs) + abs(bent))
    grown = np.expm1(logs)
    whole = np.log1p(grown + slack(16) * abs(grown) + beyond)
    values = np.fmin(up(whole / rate, roundings=64), ceiling)
    usable = (wide < _WIDEST) & (near < 0.5) & (logs < _LARGEST)
    usable &= (whole > 0) & (values < math.inf)
    usable &= tilts[0] * firsts.max(axis=1) + tilts[1] * highest < _STEEPEST
    loose = (loose + rare + beyond * np.exp(-logs)) / whole
    values, loose = np.where(usable, (values, loose), math.inf)
    return values, loose


def _polynomial(n: int, moments: _Moments, near: Array, rate: float) -> tuple[Array, Array]:
    """Return the mean of Π − 1 (3.12), rounded up, and roughly how much too large it may be."""
    fourths = moments.fourths.sum(axis=0)
    # s of (3.11).
    share = 2 * near / (3 * (1 - near))
    factor = 0.5 * np.exp(rate * _remainder(near)) * (1 + share)
    differences = 0.25 * rate**2 * (fourths - 2 * moments.mixed)
    totals = 0.25 * rate**2 * (fourths + 2 * moments.mixed)
    squares = np.diff(moments.squares, axis=0)[0] / 2
    cubes = np.diff(moments.cubes, axis=0)[0] / 3
    powers = moments.fourths[1] / (4 * (1 - near))
    powers -= moments.fourths[0] / (4 * (1 + near))
    excess = rate * (squares - cubes + powers)
    excess += factor * (differences + share * totals)
    size = 1 / n + abs(moments.means).max(axis=0)
    rounding = rate + factor * (1 + share) * rate**2 * size
    rounding = 64 * moments.rounding * size * rounding
    loose = 0.5 * rate * near * fourths
    loose += (factor - 0.5) * differences + factor * share * totals
    return excess + rounding, loose + rounding


def _remainder(distances: Array) -> Array:
    """Return h(−x) = −x − ln(1 − x), the largest h(y) for |y| ≤ x, at each x in `distances`."""
    return -distances - np.log1p(-distances)


def _log_mean(n: int, table: LikelihoodTable, tilts: Array) -> Array:
    """Return an upper bound of ln E_P[exp(θA − μB)], the first factors of (3.10).

    One report is of the first input, and n − 1 are of the reference.
    """
    first = tilts[0, :, None] * table.firsts
    second = tilts[1, :, None] * table.seconds
    powers = first - second
    sizes = first + second
    if abs(powers).max() < _SMALL:
        series = powers / 3 * (1 + powers / 4 * (1 + powers / 5)) + powers**4 / 300
        growth = 0.5 * powers**2 * (1 + series)
        abs_error = sizes**2
    else:
        growth = np.expm1(powers) - powers
        abs_error = 2 * sizes * (1 + np.exp(powers))
    rounding = slack(64 + 2 * len(table.weights))
    # a and b have the mean one.
    means = tilts[0] - tilts[1]
    added = means + (growth + rounding * abs_error) @ table.weights + slack(4) * abs(means)
    own = np.expm1(powers) + rounding * sizes * (1 + np.exp(powers))
    own = (table.firsts * own) @ table.weights
    # E_{R₀} exp(θa − μb) once, and E exp(θa − μb) for each of the others (3.10).
    others = (n - 1) * np.log1p(added)
    victim = np.log1p(own)
    size = abs(others) + abs(victim)
    return np.asarray(others + victim + slack(16) * size)


def _log_tail(away: Array, variances: Array, largest: Array) -> Array:
    """Return the logarithm of Bernstein's bound (3.14) for a sum this far from its mean."""
    exponents = away**2 / (2 * (variances + largest * away / 3))
    return np.where(away > 0, math.log(2) - exponents / _SAFE, 1.0) + 1e-9


def _distance(depth: Array, variances: Array, largest: Array) -> Array:
    """Return the distance at which Bernstein's bound is about exp(−depth)."""
    linear = depth * largest / 3
    return linear + np.sqrt(linear**2 + 2 * depth * variances)
