"""δ(ε) of sums of Gaussian ratios: allocation, and the clones of a Gaussian (Theorem G).

X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2), Z is standard normal, and V = X₀ − e^ε·X₁. One epoch of
t steps, of which an example joins one at random, has δ(ε) = E[(V₁ + … + V_t)₊]/t
(docs/theory/samplers.md, sections 2 and 5). A report among n, of which each other one is a clone
with probability 1/q, has δ(ε) = E[(W₁ + … + W_n)₊]/n, where W is q·V with probability 1/q and
otherwise 0 (docs/theory/sgd.md, section 6). With little noise, closed forms (Lemma W) are often
smaller than the sum on a lattice.
"""

import math
from functools import lru_cache

import numpy as np

from shoal.arrays import Array
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.normal import EXACT, cell_masses, gaussian_delta, quantile, upper_tail
from shoal.numerics.ramp_sums import LITTLE_NOISE, GaussianSum
from shoal.rounding import LARGEST_POWER, UNIT, slack, up

TAIL = 9.4
"""Beyond a + 9.4 the victim is given up: this costs Φ(−9.4) < 3e-21; more needs a wider lattice."""
_LARGEST_LOG = 200.0
"""The logarithm of the largest X: beyond, only rounding is left, and squares may overflow."""
_NEGLIGIBLE = 1e-4
"""The part of δ that may be charged for all other steps (Lemma W): less would enlarge the rest."""
_CLOSE = 1e-3
"""A closed form this close to a lower bound, relatively, cannot be improved by a lattice."""
_CELLS = 1000
"""Cells of the noise of the example's own step; twice as many change δ by less than 1e-3."""


def allocated_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε ≥ 0 of an allocation to at least two steps.

    `above` is a and `below` is b: they are equal, or one of them is 0.
    """
    separation = max(above, below)
    if above and below and steps == 2:
        # Exactly one Gaussian mechanism, of mean difference √2·a.
        sigma = 1 / (math.sqrt(2) * separation) * (1 - slack(8))
        return np.array([gaussian_delta(sigma, epsilon) for epsilon in epsilons.tolist()])
    result = np.ones(len(epsilons))
    log_values = separation * (separation / 2 + TAIL) + epsilons * bool(above and below)
    asked = log_values <= _LARGEST_LOG
    if separation > LITTLE_NOISE:
        pairs = [little_noise(above, below, steps, epsilon) for epsilon in epsilons.tolist()]
        result = np.array([min(upper, 1.0) for upper, _ in pairs])
        improvable = [upper > lower * (1 + _CLOSE) for upper, lower in pairs]
        asked &= np.array(improvable)
    if asked.any():
        lattice = lattice_delta(above, below, steps, epsilons[asked])
        result[asked] = np.minimum(result[asked], lattice)
    # A δ that underflows is not zero.
    return np.maximum(result, SMALLEST_DELTA)


def allocated_floor(above: float, below: float) -> float:
    """Return the least bound of δ for any ε: the victim's tail that is given up."""
    return upper_tail(max(above, below) + TAIL - above)


def lattice_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε by a lattice, where no square overflows."""
    if above and below:
        # Every ε has a lattice.
        bounds = []
        for epsilon in epsilons.tolist():
            lattice = GaussianSum(above, below, epsilon, steps, beyond=TAIL)
            bounds.append(lattice.at_constant())
        sums = np.array(bounds)
    elif above:
        # ΣV = ΣU − t·(e^ε − 1), U = X₀ − 1.
        sums = _remembered(above, below, steps).upper(steps * np.expm1(epsilons))
    else:
        # ΣV = e^ε·(ΣU − x), U = 1 − X₁ and x = t·(1 − e^−ε), or U = −X₁ and x = −t·e^−ε.
        shared = _remembered(above, below, steps)
        points = -np.exp(-epsilons) if shared.constant else -np.expm1(-epsilons)
        sums = shared.upper(steps * points) * np.exp(epsilons)
    return np.clip(sums / steps * (1 + 1e-12), SMALLEST_DELTA, 1.0)


@lru_cache(maxsize=16)
def _remembered(above: float, below: float, steps: int) -> GaussianSum:
    return GaussianSum(above, below, 0.0, steps, beyond=TAIL)


def clone_variance(above: float, below: float) -> float:
    """Return E[(X₀ − X₁)²]: the loss among clones has about q/n times that as its variance."""
    first = math.expm1(min(above**2, LARGEST_POWER))
    second = math.expm1(min(below**2, LARGEST_POWER))
    return first + second - 2 * math.expm1(-above * below)


def gaussian_clones(
    above: float,
    below: float,
    log_ratio: float,
    reports: int,
    epsilon: float,
    *,
    tail: float,
) -> float:
    """Return an upper bound of δ(ε) among the clones of a Gaussian, of which `tail` > 0 is a part.

    `above` is a, `below` is b, and q = exp(log_ratio). Where X₀ is so rare that `tail` is all that
    it has, the victim is given up.
    """
    if above != below and above and below:
        message = f"two different distances are only known if one is 0, got {above!r} and {below!r}"
        raise ValueError(message)
    separation = max(above, below)
    beyond = above - quantile(tail) - separation
    if separation * (1.5 * separation + beyond) + epsilon > _LARGEST_LOG:
        return 1.0
    share = math.exp(-log_ratio)
    clones = GaussianSum(above, below, epsilon, reports, beyond=beyond, present=share)
    delta = clones.at_constant() / (share * reports) * (1 + 1e-12)
    return min(1.0, max(delta, SMALLEST_DELTA))


def little_noise(above: float, below: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Return an upper bound of δ(ε) by Lemma W, and a lower bound, or 0 where none is known."""
    separation = max(above, below)
    log_steps = math.log(steps)
    if not above:
        # G(ε − ln t)^t
        point = epsilon - log_steps - slack(8) * (epsilon + log_steps)
        return up(_single(separation, point) ** steps, roundings=64), 0.0
    if below:
        # E[G(ε − ln(Y + s))^(t − 1)] + τ
        about = _mixed(separation, steps, epsilon, -math.inf)
        log_sum, error, charge = _others(separation, steps, about)
        return _mixed(separation, steps, epsilon, log_sum + error) + charge, 0.0
    # G(ln(tλ − s)) + τ, and G(ln(tλ)) is a lower bound.
    level = log_steps + epsilon
    least = _single(separation, level)
    log_sum, error, charge = _others(separation, steps, least)
    rounding = slack(16) * (1 + level)
    part = math.exp(min(log_sum - level + error + rounding, 0.0))
    if part >= 1:
        return 1.0, least
    point = level + math.log1p(-part) - rounding
    return _single(separation, point) + charge, least


def _others(separation: float, steps: int, about: float) -> tuple[float, float, float]:
    """Return ln s for s = (t − 1)·K, K = exp(aν − a²/2), its error, and τ = (t − 1)·Φ(−ν).

    The X of all other steps exceed s with a probability of at most τ. Every ν is valid; it is
    chosen for τ to be a small part of δ, which is `about` this.
    """
    rare = min(max(_NEGLIGIBLE * about / (steps - 1), 1e-300), 0.5)
    reach = -quantile(rare)
    charge = (steps - 1) * upper_tail(reach) * (1 + 1e-12)
    log_count = math.log(steps - 1)
    log_sum = log_count + separation * reach - separation**2 / 2
    size = log_count + separation * reach + separation**2 / 2
    return log_sum, slack(16) * size, charge


def _mixed(separation: float, steps: int, epsilon: float, log_others: float) -> float:
    """Return an upper bound of E[G(ε − ln(Y + s))^(t − 1)], with s = exp(log_others)."""
    cells, masses, shares = _cells(separation)
    logs = np.logaddexp(cells, log_others)
    # G falls, so its argument is rounded down.
    sizes = epsilon + np.abs(cells) + separation**2 + np.abs(logs)
    points = epsilon - logs - slack(32) * sizes
    singles = [_single(separation, point) for point in points.tolist()]
    values = np.array(singles) ** (steps - 1)
    # The values rise with Y and are convex in 1/Y: in every cell they are at most their chord.
    rises = np.maximum(np.diff(values), 0.0)
    inside = masses @ (values[:-1] + shares * rises)
    outside = upper_tail(TAIL) * (values[0] + 1)
    return float(inside + outside) * (1 + 1e-9)


@lru_cache(maxsize=16)
def _cells(separation: float) -> tuple[Array, Array, Array]:
    """Return ln Y = aN + a²/2 at the ends of cells of the noise N, their masses, and shares.

    The share of a cell that goes to its upper end keeps the mean of 1/Y, and is rounded up.
    """
    points = np.linspace(-TAIL, TAIL, _CELLS + 1)
    masses = cell_masses(points)
    # 1/Y = exp(−aN − a²/2) has the mean Φ(u + a) − Φ(l + a) in a cell from l to u, here over 1/Y
    # at l.
    with np.errstate(over="ignore", invalid="ignore"):
        at_lower = np.exp(separation * points[:-1] + separation**2 / 2)
        means = cell_masses(points + separation) / masses * at_lower
        falls = -np.expm1(-separation * np.diff(points))
        shares = (1 - means) / falls + 1e-9
    # Where a tail may be subnormal, all of the cell counts as its upper end.
    known = points[1:] + separation < EXACT
    shares = np.where(known, np.clip(shares, 0.0, 1.0), 1.0)
    return separation * points + separation**2 / 2, masses, shares


def _single(separation: float, point: float) -> float:
    """Return G(point) = E(1 − e^point·X)₊, rounded up: G(−y) = 1 − e^−y + e^−y·G(y)."""
    size = abs(point)
    known = gaussian_delta(1 / separation, size)
    if point >= 0:
        return known
    reflected = -math.expm1(-size) + math.exp(-size) * known
    return min(1.0, reflected * (1 + 8 * UNIT))
