"""The likelihood ratio of one report with noise on [0, 1]: its distribution on the blanket, in closed form.

With values 0 and 1 and the blanket ω = min(R₀, R₁), one half of ω has R₀/ω = t ≥ 1 and R₁ = ω, the other half the same
with the two values exchanged, and t has the same distribution on both (docs/theory/blanket.md, section 5). Everything
about cells low < t − 1 ≤ high is computed from positive terms, so that it is relatively accurate.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT, slack

__all__ = ["Cells", "GaussianRatio", "LaplaceRatio", "NoiseRatio", "gaussian_alone"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NARROW = 1 / 4
"""Cells this narrow, relative to what their density changes over, have their integrals from sixteen nodes."""
_SPOTS = 96
_FARTHEST = 38.0
"""Normal deviations beyond which a probability is no double."""
_TAIL = 35.0
"""Normal deviations up to which it has all its digits."""

Array = NDArray[np.float64]


class Cells(NamedTuple):
    """Integrals over cells of t on one half of the blanket.

    Attributes
    ----------
    masses, rises, falls : numpy.ndarray
        Of ω, of (t − its lower end)·ω and of (its upper end − t)·ω.
    wrong : numpy.ndarray
        By which part of itself each of them may be wrong.
    """

    masses: Array
    rises: Array
    falls: Array
    wrong: Array


class NoiseRatio(Hashable, Protocol):
    """The distribution of t on one half of the blanket."""

    @property
    def top(self) -> float:
        """The largest t − 1."""

    @property
    def reach(self) -> float:
        """The largest ln t, from which ε on δ is zero."""

    @property
    def rest(self) -> float:
        """The probability that the blanket lacks, 1 − γ."""

    def alone(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded up."""

    def alone_below(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded down."""

    def cells(self, low: Array, high: Array, width: Array) -> Cells:
        """Return the integrals over low < t − 1 ≤ high; the width is high − low, more accurately."""

    def beyond(self, low: float) -> tuple[float, float]:
        """Return ω(t − 1 > low), and the integral of t − 1 − low there, rounded up."""

    def spots(self) -> tuple[Array, Array]:
        """Return some values of t − 1 and their masses, roughly the distribution."""


@dataclass(frozen=True)
class LaplaceRatio:
    """The ratio of Laplace noise: ω(t > s) = e^{−ε₀/2}/(2√s) up to e^ε₀, and an atom of e^{−ε₀}/2 there."""

    local_epsilon: float

    @property
    def top(self) -> float:
        """The largest t − 1."""
        return math.expm1(self.local_epsilon)

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
        return min(1.0, max(0.0, -math.expm1((epsilon - self.local_epsilon) / 2)) * (1 + slack(8)))

    def alone_below(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded down."""
        return self.alone(epsilon) * (1 - slack(16))

    def cells(self, low: Array, high: Array, width: Array) -> Cells:
        """Return the integrals over low < t − 1 ≤ high; the mean of t in a cell is the geometric mean of its ends."""
        top, atom = self.top, 0.5 * math.exp(-self.local_epsilon)
        inner = np.where(high <= top, width, np.maximum(top - low, 0.0))
        first = np.sqrt(1 + low)
        second = np.sqrt(1 + low + inner)
        masses = 0.5 * math.exp(-self.local_epsilon / 2) * inner / (first * second * (first + second))
        rises = masses * first * inner / (first + second)
        falls = masses * (second * inner / (first + second) + np.maximum(width - inner, 0.0))
        here = (low < top) & (high >= top)
        return Cells(
            masses + np.where(here, atom, 0.0),
            rises + np.where(here, atom * np.maximum(top - low, 0.0), 0.0),
            falls + np.where(here, atom * np.maximum(high - top, 0.0), 0.0),
            np.full(len(low), slack(64)),
        )

    def beyond(self, low: float) -> tuple[float, float]:
        """Return ω(t − 1 > low), and the integral of t − 1 − low there, rounded up."""
        if low >= self.top:
            return 0.0, 0.0
        mass = 0.5 * math.exp(-self.local_epsilon / 2) / math.sqrt(1 + low)
        excess = max(0.0, -math.expm1((math.log1p(low) - self.local_epsilon) / 2))
        return mass, excess + slack(8) * (1 + self.local_epsilon)

    def spots(self) -> tuple[Array, Array]:
        """Return some values of t − 1 and their masses, roughly the distribution."""
        logs = np.linspace(0.0, self.local_epsilon, _SPOTS + 1)
        masses = 0.5 * np.exp(-0.5 * (self.local_epsilon + logs[:-1])) * -np.expm1(-np.diff(logs) / 2)
        values = np.expm1((logs[1:] + logs[:-1]) / 2)
        return np.append(values, self.top), np.append(masses, 0.5 * math.exp(-self.local_epsilon))


@dataclass(frozen=True)
class GaussianRatio:
    """The ratio of normal noise of this deviation: ω(t > s) = Φ(−1/(2σ) − σ·ln s)."""

    deviation: float

    @property
    def top(self) -> float:
        """The largest t − 1: there is none."""
        return math.inf

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
        return gaussian_alone(self.deviation, epsilon)

    def alone_below(self, epsilon: float) -> float:
        """Return δ(ε) of one report, rounded down."""
        if epsilon > 700:
            return 0.0
        half, place = self._half, self.deviation * epsilon
        near, far = _above(place - half), place + half
        if far < _TAIL:
            lost = math.exp(epsilon) * _above(far)
        else:  # a tail of no double, but e^ε·Φ(−y) ≤ e^ε·φ(y)/y = φ(x)/y for x = y − 1/σ
            lost = math.exp(-0.5 * (place - half) ** 2) / (math.sqrt(2 * math.pi) * far)
        return max(0.0, near - lost - slack(128) * (1 + epsilon + far**2) * near)

    def cells(self, low: Array, high: Array, width: Array) -> Cells:
        """Return the integrals over low < t − 1 ≤ high: by Gauss's rule, or where that is too wide, by differences."""
        half = self._half
        middles = 1 + low + width / 2
        deviations = half + self.deviation * np.log1p(high)
        steepness = (deviations + 2) * self.deviation + 2
        narrow = width / 2 * steepness <= _NARROW * middles
        points = middles + np.multiply.outer(_NODES, width / 2)
        heights = np.exp(-0.5 * (half + self.deviation * np.log(points)) ** 2) / points
        weights = _WEIGHTS[:, None] * heights * (width * (self.deviation / math.sqrt(8 * math.pi)))
        masses = weights.sum(axis=0)
        rises = (weights * (1 + _NODES[:, None])).sum(axis=0) * (width / 2)
        falls = (weights * (1 - _NODES[:, None])).sum(axis=0) * (width / 2)
        wrong = slack(64) * (4 + deviations**2)
        wide = np.flatnonzero(~narrow)
        if len(wide):
            wrong[wide] *= 8 * steepness[wide]
            first, second = self.deviation * np.log1p(low[wide]), self.deviation * np.log1p(high[wide])
            mass = _between(first + half, second + half)
            size = _between(first - half, second - half)
            masses[wide] = mass
            rises[wide] = np.maximum(size - (1 + low[wide]) * mass, 0.0)
            falls[wide] = np.maximum((1 + high[wide]) * mass - size, 0.0)
        return Cells(masses, rises, falls, wrong)

    @property
    def _half(self) -> float:
        return 0.5 / self.deviation

    def beyond(self, low: float) -> tuple[float, float]:
        """Return ω(t − 1 > low), and the integral of t − 1 − low there, rounded up."""
        log = math.log1p(low)
        return _above(self.deviation * log + self._half), gaussian_alone(self.deviation, log)

    def spots(self) -> tuple[Array, Array]:
        """Return some values of t − 1 and their masses, roughly the distribution."""
        most = min(2 * self._half + 10, _FARTHEST)
        edges = np.expm1(np.linspace(0.0, (most - self._half) / self.deviation, _SPOTS + 1))
        found = self.cells(edges[:-1], edges[1:], np.diff(edges))
        kept = found.masses > 0
        return (edges[:-1] + found.rises / np.maximum(found.masses, 1e-320))[kept], found.masses[kept]


def gaussian_alone(deviation: float, epsilon: float) -> float:
    """Return δ(ε) of one report with values 0 and 1 and normal noise, rounded up."""
    point, far = epsilon * deviation - 0.5 / deviation, epsilon * deviation + 0.5 / deviation
    near = _above(point)
    if far < _TAIL:
        lost = math.exp(min(epsilon, 700.0)) * _above(far)
    else:  # a tail of no double, but e^ε·Φ(−y) ≥ e^ε·φ(y)·y/(1 + y²)
        lost = math.exp(-0.5 * point**2) / math.sqrt(2 * math.pi) * far / (1 + far**2)
    wrong = 64 * UNIT * (1 + epsilon + far**2)
    return min(1.0, max(0.0, near - lost) + wrong * near)


def _above(point: float) -> float:
    """Return the probability that a standard normal variable exceeds the point; within 4 units."""
    return 0.5 * math.erfc(point / math.sqrt(2))


def _between(first: Array, second: Array) -> Array:
    """Return the probability that a standard normal variable lies between two points, from the tail that is less."""
    left = first + second < 0
    near, far = np.where(left, -second, first), np.where(left, -first, second)
    return np.array([_above(one) - _above(two) for one, two in zip(near.tolist(), far.tolist(), strict=True)])
