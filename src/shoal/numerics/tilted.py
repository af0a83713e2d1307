"""Distributions of W tilted by exp(θW), so that their sum is where its positive part comes from.

With Q the tilted distribution, M(θ + iy)/M(θ) = E_Q[exp(iyW)], whose distance from one is computed without
cancellation, or, where there are few copies and many heights, by one product of matrices.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.distribution import Distribution
from shoal.rounding import slack

__all__ = ["Mesh", "Tilted"]

Array = NDArray[np.float64]

_STEEPEST = 600.0
"""The tilt times the largest value: beyond, exponentials overflow."""
_CLOSE = 1e-2
"""How close to its minimum a tilt has to be, relatively."""
_MANY = 3_000
"""From so many exponentials on, a product of matrices is faster."""
_ROWS, _STEPS = 16, 256
"""From so many columns on, and with no more heights, each is reached from the one before, by one multiplication."""
_SHARE = 0.02
"""Of the tolerance: what rounding in that product may cost."""


class Mesh(NamedTuple):
    """Heights (stride·j + i)·step for 0 ≤ j < rows and |i| ≤ width, those below zero left out; ascending.

    Then exp(ixy) is a product of entries of two small tables, one for j and one for i.
    """

    step: float
    stride: int
    width: int
    rows: int

    @classmethod
    def unbroken(cls, step: float, count: int) -> "Mesh":
        """Return at least so many heights 0, h, 2h, …."""
        width = math.isqrt(count) // 2 + 1
        return cls(step, 2 * width + 1, width, (count + width) // (2 * width + 1) + 1)

    @property
    def heights(self) -> Array:
        """All heights."""
        indices = np.add.outer(self.stride * np.arange(self.rows), np.arange(-self.width, self.width + 1))
        return np.asarray(indices.ravel()[self.width :] * self.step, dtype=np.float64)

    def sums(self, values: Array, weights: Array) -> NDArray[np.complex128]:
        """Return Σ weight·exp(i·value·y) at each height y."""
        angles = values * self.step
        ahead = np.exp(1j * np.multiply.outer(self.stride * np.arange(self.rows), angles))
        behind = np.exp(1j * np.multiply.outer(angles, np.arange(-self.width, self.width + 1)))
        return np.asarray(((ahead * weights) @ behind).ravel()[self.width :])


class Tilted:
    """Distributions of as many reports, one a column, such as one pair at several ε, each with a tilt of its own.

    Any tilt is valid; those chosen are close to the minimum of M(θ)ⁿ/θ².

    Attributes
    ----------
    tilts : array
        θ of each.
    log_moments, moment_errors : array
        n·log M(θ), and how far rounding may have moved it.
    tilted, values : array
        The probabilities of Q, one row a value; the last value is zero.
    zero : array
        The probability of the value zero.
    deviations : array
        Of the sum of n copies from Q.
    """

    def __init__(
        self,
        reports: int,
        values: Array,
        probabilities: Array,
        *,
        missing: Array,
        means: Array,
        scales: Array,
        strays: float = 0.0,
    ) -> None:
        """Tilt distributions with these values and probabilities, one a column; means may be off by `strays`."""
        self.count, self.missing, self.means, self.scales = float(reports), missing, means, scales
        self.own, self.probabilities, self._strays = values, probabilities, strays
        self.largest = np.maximum(self.own.max(axis=0), 1e-300)
        self.tilts = self._tilts()
        powers = self.tilts * self.own
        excess = self._excess(self.tilts)
        self._moments, self.log_moments = 1 + excess, self.count * np.log1p(excess)
        growth = np.exp(np.minimum(powers, 700.0))
        weights = self.probabilities * growth / self._moments
        self.zero = self.missing / self._moments
        self.tilted = np.vstack([weights, self.zero[None]])
        self.values = np.vstack([self.own, np.zeros_like(self.zero)[None]])
        self._centres = (self.means + (self.probabilities * self.own * np.expm1(powers)).sum(axis=0)) / self._moments
        second = (weights * self.own**2).sum(axis=0) - self._centres**2
        self.deviations = np.sqrt(self.count * np.maximum(second, 0.0))
        # |mean|·|s| + Σ p·(1 + exp(xθ))·|xs|·min(|xs|, 1) is at most the least of these, and bounds rounding errors.
        both = self.probabilities * (1 + growth) * np.abs(self.own)
        self._first, self._second = both.sum(axis=0), (both * np.abs(self.own)).sum(axis=0)
        self._reach = (weights * np.abs(self.own)).sum(axis=0)
        self.moment_errors = self.count * self._error(self.tilts)

    @classmethod
    def of(cls, distributions: Sequence[Distribution]) -> "Tilted":
        """Tilt distributions with the same number of values and of reports."""
        values, probabilities = (
            np.array([getattr(each, name) for each in distributions]).T for name in ("values", "probabilities")
        )
        missing, means, scales = (
            np.array([getattr(each, name) for each in distributions]) for name in ("missing", "mean", "scale")
        )
        return cls(distributions[0].reports, values, probabilities, missing=missing, means=means, scales=scales)

    def _error(self, sizes: Array) -> Array:
        """Return bounds of the rounding error of M(s)/M(θ) at points of this absolute value."""
        values = len(self.own)
        terms = np.abs(self.means) * sizes.T + np.minimum(self._first * sizes.T, self._second * sizes.T**2)
        return np.asarray(((slack(64 + 2 * values) * terms + self._strays * sizes.T) / self._moments).T)

    def _excess(self, tilts: Array) -> Array:
        """Return M(θ) − 1; the linear term of each exponential is taken out and added once, exactly."""
        powers = tilts[..., None, :] * self.own
        return np.asarray(self.means * tilts + (self.probabilities * _remainder(powers)).sum(axis=-2))

    def log_moments_at(self, tilts: Array) -> Array:
        """Return n·log M at real points."""
        return np.asarray(self.count * np.log1p(self._excess(tilts)))

    def log_growth(self, tilts: Array) -> Array:
        """Return roughly by how much n·log M is larger than at θ, as if Q were normal."""
        moves = tilts - self.tilts
        return np.asarray(moves * (self.count * self._centres + 0.5 * moves * self.deviations**2))

    def _tilts(self) -> Array:
        """Return θ near the minimum of M(θ)ⁿ/θ², by Newton's method."""
        seconds = self.count * (self.probabilities * self.own**2).sum(axis=0)
        floors = np.maximum(seconds, 0.25)
        starts = -self.count * self.means / floors
        most = _STEEPEST / self.largest
        tilts = np.minimum(0.5 * (starts + np.sqrt(starts**2 + 8 / floors)), most)
        low, high = np.zeros_like(tilts), np.full_like(tilts, math.inf)
        for round_ in range(60):
            weights = self.probabilities * np.exp(np.minimum(tilts * self.own, 700.0))
            moments = weights.sum(axis=0) + self.missing
            weights *= self.own
            first = weights.sum(axis=0) / moments
            second = (weights * self.own).sum(axis=0) / moments - first**2
            heights = self.count * first - 2 / tilts
            low, high = np.where(heights < 0, tilts, low), np.where(heights < 0, high, tilts)
            following = tilts - heights / (self.count * second + 2 / tilts**2)
            following = np.clip(following, tilts / 4, np.minimum(4 * tilts, most))
            between = np.minimum(np.sqrt(np.maximum(low, tilts / 16) * np.minimum(high, 16 * tilts)), most)
            outside = (following < low) | (following > high) | (round_ % 8 == 7)
            following = np.where(outside, between, following)
            if np.all(np.abs(following - tilts) <= _CLOSE * tilts):
                break
            tilts = following
        return np.asarray(tilts)

    def steepness(self, first: NDArray[np.int64] | int, second: NDArray[np.int64] | int) -> Array:
        """Return v such that |M(θ + iy)/M(θ)|ⁿ ≤ exp(−2v·sin²(Dy/2)), from two values that are D apart."""
        one, other = self.tilted[first], self.tilted[second]
        return np.asarray(self.count * one * other / np.maximum(one + other, 1e-300) * (1 - 1e-12))

    def moments(self, mesh: Mesh, tolerance: float, least: float) -> tuple[Array, NDArray[np.complex128], Array]:
        """Return heights, M(θ + iy)/M(θ) − 1 at each of them for each column, and bounds of its error.

        Heights at which no column can have an |M(θ + iy)/M(θ)| above `least` are left out.
        """
        heights, values = mesh.heights, len(self.own)
        stepped = len(self.tilts) >= _ROWS and len(heights) <= _STEPS
        start, product = len(heights), slack(32 + 2 * values + (8 * len(heights) if stepped else 0))
        if stepped or len(heights) * values > _MANY:
            # A term is divided by s²: rounding errors of the far ones, one by one, cost as much as one at θ²/|s|.
            far = self.count * product / (_SHARE * tolerance) * float(self.tilts.max())
            start = int(np.searchsorted(heights, far)) if far > 0.1 * self.tilts.min() else 0
        excess = np.empty((len(self.tilts), len(heights)), dtype=np.complex128)
        if stepped and start == 0:
            moves = np.rint(np.diff(heights, prepend=0.0) / mesh.step).astype(np.int64).tolist()
            turns = {move: np.exp(1j * move * mesh.step * self.own) for move in set(moves)}
            powers = self.tilted[:-1].astype(np.complex128)
            for column, move in enumerate(moves):
                powers *= turns[move]
                excess[:, column] = powers.sum(axis=0)
            excess += (self.zero - 1)[:, None]
        elif start < len(heights):
            for row, (own, weights) in enumerate(zip(self.own.T, self.tilted[:-1].T, strict=True)):
                excess[row] = mesh.sums(own, weights) + (self.zero[row] - 1)
        if start:
            near = heights[:start]
            real, imaginary = np.zeros((len(self.tilts), start)), self._centres[:, None] * near
            for own, weights in zip(self.own, self.tilted, strict=False):
                angles = own[:, None] * near
                real -= 2 * weights[:, None] * np.sin(0.5 * angles) ** 2
                imaginary += weights[:, None] * _sine_remainder(angles)
            excess[:, :start] = real + 1j * imaginary

        def errors(points: Array, multiplied: NDArray[np.bool_]) -> Array:
            added = product + slack(16) * self._reach[:, None] * points + self._error(self.tilts)[:, None]
            return np.asarray(np.where(multiplied, added, self._error(points)))

        last = np.hypot(self.tilts, heights[-1])[:, None]
        worst = errors(last, np.array([True])) + self._error(last)
        floor = np.maximum(least - worst, 0.0) ** 2
        keep = ((1 + excess.real) ** 2 + excess.imag**2 >= floor).any(axis=0)
        indices = np.flatnonzero(keep)
        heights, excess = heights[indices], excess[:, indices]
        return heights, excess, errors(np.hypot(self.tilts[:, None], heights), indices >= start)


def _remainder(x: Array) -> Array:
    """Return exp(x) − 1 − x without cancellation."""
    result = np.asarray(np.expm1(x) - x)
    near = np.abs(x) < 0.5
    if near.any():
        close = x[near]
        total = np.full_like(close, 1 / math.factorial(16))
        for power in range(15, 1, -1):
            total = total * close + 1 / math.factorial(power)
        result[near] = total * close * close
    return result


def _sine_remainder(x: Array) -> Array:
    """Return sin(x) − x without cancellation."""
    result = np.sin(x) - x
    near = np.abs(x) < 0.5
    if near.any():
        square = x[near] ** 2
        total = np.full_like(square, -1 / math.factorial(17))
        for power in range(15, 1, -2):
            total = total * square + (-1) ** ((power - 1) // 2) / math.factorial(power)
        result[near] = total * square * x[near]
    return result
