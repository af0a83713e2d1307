"""The likelihood ratio of one report with noise on [0, 1], in closed form and made finite by cells.

With values 0 and 1 and the blanket ω = min(R₀, R₁), one half of ω has R₀/ω = t ≥ 1 and R₁ = ω. The
other half has the same with the two values exchanged, and t has the same distribution on both
(docs/theory/blanket.md, section 5). So W is t − e^ε on one half and 1 − e^ε·t on the other. Cells
of ln t make t finite once, for all ε (section 6 there).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shoal.arrays import Array
from shoal.numerics.normal import FARTHEST, gaussian_bracket, gaussian_delta, upper_tail
from shoal.rounding import slack
from shoal.searches import bisect_safe, doubled

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_WIDTH = 0.0125
"""The width of cells in standard deviations: ε grows by its square over 12, the cost is inverse."""
_LAPLACE_CELLS = 300
"""Equal cells of Laplace noise: ε grows by about the inverse square, the cost is linear."""
_NARROWING = 0.06
"""Next to ε₀ cells are at most this part of their distance from it, as ε may lie there."""
_NARROWINGS = 14.0
"""The cells next to ε₀ end at e^−14 of the distance where they begin: more of them add little."""
_MEAN_ERROR = 1e-9
"""The error of the logarithm of the mean of t beyond the last cell, far above that of two tails."""


class Atoms(NamedTuple):
    """A finite distribution of ln t on one half of the blanket."""

    logs: Array  # values of ln t, ascending
    masses: Array  # their probabilities under ω
    log_errors: Array  # absolute errors of the values
    mass_errors: Array  # relative errors of the probabilities


class Cells(NamedTuple):
    """The distribution of t, made finite by cells (docs/theory/blanket.md, section 6)."""

    above: Atoms  # the mass of each cell at its edges, with its mean: larger in convex order
    below: Atoms  # the mass of each cell at the mean of t: smaller in convex order
    cost: float  # what δ may be more than that of `above`: larger t moved to the last edge


@dataclass(frozen=True)
class LaplaceRatio:
    """The ratio of Laplace noise: ω(t > s) = e^{−ε₀/2}/(2√s) below e^ε₀, and no t is larger."""

    local_epsilon: float

    @property
    def reach(self) -> float:
        """The largest ln t, which is ε₀."""
        return self.local_epsilon

    @property
    def rest(self) -> float:
        """The probability that the blanket lacks, 1 − e^{−ε₀/2}."""
        return -math.expm1(-self.local_epsilon / 2)

    def alone(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded up."""
        delta = max(0.0, -math.expm1((epsilon - self.local_epsilon) / 2))
        return min(1.0, delta * (1 + slack(8)))

    def alone_below(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded down."""
        return self.alone(epsilon) * (1 - slack(16))

    def cells(self, log_delta: float) -> Cells | None:
        """Return the cells, which are the same for every δ: nothing lies beyond the last one."""
        return _laplace_cells(self.local_epsilon)


@lru_cache(maxsize=16)
def _laplace_cells(local_epsilon: float) -> Cells:
    """Return cells of ln t, narrower next to ε₀; a cell's mean of t is the geometric one."""
    even = local_epsilon / _LAPLACE_CELLS
    distances = local_epsilon - even * np.arange(_LAPLACE_CELLS)
    distances = distances[distances > even / _NARROWING]
    nearer = distances[-1] * np.exp(-_NARROWING * np.arange(1, math.ceil(_NARROWINGS / _NARROWING)))
    edges = np.concatenate((local_epsilon - distances, local_epsilon - nearer, [local_epsilon]))
    widths = np.diff(edges)
    atom = 0.5 * math.exp(-local_epsilon)
    tails = 0.5 * np.exp(-0.5 * (local_epsilon + edges[:-1]))
    inside = tails * -np.expm1(-widths / 2)
    ahead = 1 / (1 + np.exp(widths / 2))  # (√(t⁻t⁺) − t⁻)/(t⁺ − t⁻)
    masses = _at_edges(inside * ahead, inside * (1 - ahead), atom)
    middles = np.append(0.5 * (edges[1:] + edges[:-1]), local_epsilon)
    log_error = slack(8) * (1 + local_epsilon)
    mass_error = slack(64) * (4 + local_epsilon)
    log_errors = np.full(len(edges), log_error)
    mass_errors = np.full(len(edges), mass_error)
    above = Atoms(edges, masses, log_errors, mass_errors)
    below = Atoms(middles, np.append(inside, atom), log_errors, mass_errors)
    return Cells(above, below, 0.0)


def _at_edges(right: Array, left: Array, beyond: float) -> Array:
    """Return the masses at the edges, from the two shares of each cell and what lies beyond."""
    masses = np.append(0.0, right)
    masses[:-1] += left
    masses[-1] += beyond
    return masses


@dataclass(frozen=True)
class GaussianRatio:
    """The ratio of normal noise with standard deviation σ: ω(t > s) = Φ(−1/(2σ) − σ·ln s)."""

    deviation: float

    @property
    def reach(self) -> float:
        """The largest ln t: there is none."""
        return math.inf

    @property
    def rest(self) -> float:
        """The probability that the blanket lacks, 1 − 2Φ(−1/(2σ))."""
        return math.erf(0.5 / self.deviation / math.sqrt(2))

    def alone(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded up."""
        return gaussian_delta(self.deviation, epsilon)

    def alone_below(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded down."""
        return gaussian_bracket(self.deviation, epsilon)[0]

    def cells(self, log_delta: float) -> Cells | None:
        """Return cells beyond which one report alone has about e^−12 of δ."""
        reach = math.ceil(math.sqrt(2 * (12 + max(-log_delta, 0.0))))
        most = math.floor(FARTHEST - 1 / self.deviation)
        if most <= 0:
            return None
        return _gaussian_cells(self.deviation, min(reach, most))


@lru_cache(maxsize=32)
def _gaussian_cells(sigma: float, reach: int) -> Cells:
    """Return equal cells of z = 1/(2σ) + σ·ln t, which is normal, up to z = 1/σ + reach."""
    half = 0.5 / sigma
    count = math.ceil((half + reach) / _WIDTH)
    places = np.asarray(_WIDTH * np.arange(count + 1), dtype=np.float64)  # σ·ln t
    edges = places / sigma
    # Gauss's rule in z: the integrands are φ(z) and φ(z)·(t − t⁻)/(t⁺ − t⁻).
    inside = 0.5 * _WIDTH * (1 + _NODES[:, None])
    heights = np.exp(-0.5 * (half + places[:-1] + inside) ** 2)
    weights = heights * (_WEIGHTS[:, None] * (_WIDTH / math.sqrt(8 * math.pi)))
    rise = np.expm1(inside / sigma)
    share = rise / math.expm1(_WIDTH / sigma)
    inner = weights.sum(axis=0)
    last = half + float(places[-1])
    tail = upper_tail(last)
    right = (share * weights).sum(axis=0)
    left = ((1 - share) * weights).sum(axis=0)
    masses = _at_edges(right, left, tail)
    mass_error = slack(256) * (4 + (half + places) ** 2)
    log_error = slack(16) * (1 + edges)
    # The mean of t in each cell, and beyond the last one.
    means = edges[:-1] + np.log1p((rise * weights).sum(axis=0) / inner)
    mean_error = log_error[1:] + mass_error[1:] * np.diff(edges)
    beyond = math.log(upper_tail(last - 1 / sigma)) - math.log(tail)
    below = Atoms(
        np.append(means, beyond),
        np.append(inner, tail),
        np.append(mean_error, _MEAN_ERROR),
        mass_error,
    )
    above = Atoms(edges, masses, log_error, mass_error)
    return Cells(above, below, gaussian_delta(sigma, float(edges[-1])))


NoiseRatio = LaplaceRatio | GaussianRatio
"""The distribution of t on one half of the blanket, and δ(ε) of one report in closed form."""


def summand(atoms: Atoms, epsilon: float, *, side: int) -> tuple[Array, Array]:
    """Return X = W·e^−ε, ascending, and its probabilities.

    Both are moved by all errors, up (side 1) or down (side −1).
    """
    # Raising a value, or moving mass to a larger one, is safe above (Lemma 3c).
    errors = atoms.log_errors + slack(8) * (atoms.logs + epsilon)
    first = np.expm1(atoms.logs - epsilon + side * errors)
    second = math.expm1(-epsilon) - np.expm1(atoms.logs - side * errors)
    values = np.concatenate((second[::-1], first))
    values += side * slack(8) * np.abs(values)
    # Where the halves meet, errors may have changed the order.
    raised = np.maximum.accumulate(values)
    lowered = np.minimum.accumulate(values[::-1])[::-1]
    values = raised if side > 0 else lowered
    masses = np.concatenate((atoms.masses[::-1], atoms.masses))
    moved = np.concatenate((atoms.mass_errors[::-1], atoms.mass_errors))
    # Zero has the probability that is missing.
    return values, masses * (1 + side * np.sign(values) * moved)


def epsilon_alone(ratio: NoiseRatio, delta: float) -> float:
    """Return ε(δ) of one report, rounded up."""

    def safe(epsilon: float) -> bool:
        return ratio.alone(epsilon) <= delta

    if safe(0.0):
        return 0.0
    unsafe, good = doubled(safe)
    return min(bisect_safe(safe, unsafe=unsafe, good=good, relative=1e-12), ratio.reach)


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return ε(δ) of a Gaussian mechanism with sensitivity 1 and noise `sigma`, rounded up."""
    return epsilon_alone(GaussianRatio(sigma), delta)
