"""Which of many pairs may have a larger δ(ε) than a given number: bounds for all of them at once, sharper ones for few.

Bounds from above, each for those that the ones before leave: that of a report alone, that of a normal sum with the
error of the central limit theorem, and Bennett's, from moments of W; Chernoff's; and the sum along a contour with few
nodes. The likelihoods are doubles, rounded so that W is never too small (docs/theory/matrix.md, section 3).
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.contour import Tilted, positive_parts
from shoal.pairs.input_pairs import InputPairs
from shoal.rounding import LARGEST_POWER, slack

__all__ = ["LIKELY", "Screen"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROUNDS = 3
"""Of Newton's method, for the tilts of Chernoff's bound: more of them cost time, and leave fewer pairs for sums."""
_FAR, _NEAR = 1e-2, 0.6
"""As parts of the largest δ: which bounds are worth Chernoff's, and which of those a sum along a contour."""
LIKELY = 400
"""The likeliest pair is sought among this number of pairs with the largest quick bounds: more take longer."""
_SUMS = ((0.1, 256), (5e-3, 32))
"""How much a sum along a contour may be too large, and of how many pairs at once."""
_ALIKE = 8.0
"""Pairs whose tilts, after all, differ by a larger factor than this do not share nodes."""
_UP = 1 + slack(256)
_LEAST, _MORE = 1e-10, 1 + 1e-6
"""A variance that rounding of the mean changes by less than this factor."""


class Screen:
    """Pairs of inputs of a table, each in both directions, among n reports: all at one ε, or each at one of its own.

    Pair 2i is `pairs[i]`, and pair 2i + 1 the same with its inputs exchanged.

    Parameters
    ----------
    reports : int
        n.
    pairs : InputPairs
        All pairs.
    epsilons : float or array
        ε, or one for each of the chosen pairs.
    chosen : array, optional
        Which pairs; all of them, if not given.
    """

    def __init__(self, reports: int, pairs: InputPairs, epsilons: float | Array, chosen: Indices | None = None) -> None:
        """Compute W of every pair, and quick bounds."""
        self._n, self._pairs = reports, pairs
        self._weights = pairs.probabilities * _UP
        chosen = np.arange(2 * len(pairs)) if chosen is None else chosen
        one, other = np.where(chosen % 2, pairs.indices[chosen // 2].T[::-1], pairs.indices[chosen // 2].T)
        self._epsilons = np.broadcast_to(epsilons, chosen.shape)
        ratios = np.exp(self._epsilons)
        # 2⁻⁴⁶ of the second term is more than its rounding; where the first is twice as large, W has its own digits.
        self._values = pairs.ratios[one] - (ratios * (1 - slack(128)))[:, None] * pairs.ratios[other]
        self._values += slack(16) * np.abs(self._values)
        self._means = -np.expm1(self._epsilons) + slack(256) * (1 + ratios)
        self._largest, self._smallest = self._values.max(axis=1), self._values.min(axis=1)
        self._ceilings = np.maximum(self._values, 0.0) @ self._weights
        if reports > 1:
            seconds = (self._values**2) @ self._weights
            self._tilts, self._powers = self._bennett(seconds)
            bounds = self._bounds(self._tilts, self._powers)
            self._ceilings = np.fmin(self._ceilings, np.fmin(bounds, self._normal(seconds)))

    def _normal(self, seconds: Array) -> Array:
        """Return that of a normal S, plus E|X|³/(2n·Var X) + E|X|/n with X = W − EW, by the central limit theorem."""
        n, mean = self._n, self._means
        sizes = np.abs(self._values - mean[:, None])
        cubes = sizes * sizes * sizes
        firsts = sizes @ self._weights + self._pairs.missing * np.abs(mean) * _UP
        thirds = cubes @ self._weights + self._pairs.missing * np.abs(mean) ** 3 * _UP
        with np.errstate(all="ignore"):
            variances = seconds / _UP**2 - mean**2  # from below, for the second term; from above in the first
            deviations = np.sqrt(n * seconds)
            steep = -n * mean / deviations
            tails = np.array([math.erfc(each) for each in (np.minimum(steep, 50.0) / math.sqrt(2)).tolist()]) / 2
            normal = deviations * (np.exp(-0.5 * steep**2) / math.sqrt(2 * math.pi) - steep * tails)
            # The difference cancels where `steep` is large; there the second term is far larger than what is lost.
            bounds = (normal * _UP + slack(64) * deviations + _MORE * (0.5 * thirds / variances + firsts)) / n
        return np.where((variances > _LEAST) & np.isfinite(bounds), bounds, 1.0)

    def _bennett(self, seconds: Array) -> tuple[Array, Array]:
        """Return tilts, and Bennett's bound of n·log M there.

        exp(x) − 1 − x is at most x²/z² of what it is at the largest x, which is z.
        """
        n, mean, largest = self._n, self._means, self._largest
        with np.errstate(all="ignore"):
            start = -mean / seconds
            tilts = 0.5 * (start + np.sqrt(start**2 + 8 / (n * seconds)))
            tilts = np.minimum(np.log1p(largest * tilts) / largest, LARGEST_POWER / largest)
            powers = tilts * largest
            series = 0.5 * powers**2 * (1 + powers * (1 / 3 + powers * (1 / 12 + powers / 50)))  # enough up to 0.1
            growth = np.where(powers < 0.1, series, np.expm1(powers) - powers)
            added = seconds * growth * _UP / largest**2
            exponents = self._exponents(tilts * mean + added, tilts * np.abs(mean) + added)
        usable = (tilts > 0) & (tilts < math.inf)  # where no value is positive, M(θ) ≤ 1 for every θ
        return np.where(usable, tilts, 1.0), np.where(usable, exponents, np.where(largest <= 0, 0.0, math.inf))

    def _exponents(self, excess: Array, size: Array) -> Array:
        """Return an upper bound of n·log M(θ), given M(θ) − 1 and the size of what it was added up from."""
        rounding = slack(4) * (16 + len(self._weights)) * size
        logs = self._n * (np.log1p(excess) + rounding / np.minimum(1, 1 + excess)) + 1e-9
        return np.where(np.isnan(logs), math.inf, logs)

    def _bounds(self, tilts: Array, exponents: Array) -> Array:
        """Return M(θ)ⁿ/(neθ), an upper bound of δ."""
        with np.errstate(all="ignore"):
            logs = exponents - np.log(self._n * tilts) - 1
            return np.where(np.isnan(logs), 1.0, np.exp(np.minimum(logs, 0.0)))

    def _tilted(self, indices: Indices, tilts: Array) -> tuple[Array, Array, Array]:
        """Return bounds of n·log M(θ) of some pairs, the tilts that they are of, and better tilts."""
        values, weights = self._values[indices], self._weights
        largest = np.maximum(self._largest[indices], 1e-300)
        with np.errstate(all="ignore"):
            tilts = np.minimum(tilts, LARGEST_POWER / largest)
            powers = tilts[:, None] * values
            growth = np.expm1(powers)
            added = (growth - powers) @ weights
            means = self._means[indices]
            excess = tilts * means + added
            # |exp(x) − 1| + |x|·(2 + exp(x)) is at most |x|·(4 + 2·exp(x)).
            longest = tilts * np.maximum(np.abs(self._largest), np.abs(self._smallest))[indices]
            exponents = self._exponents(excess, tilts * np.abs(means) + longest * (6 + 2 * np.abs(excess)))
            growth += 1
            growth *= values
            first = growth @ weights / (1 + excess)
            second = np.einsum("ij,ij,j->i", growth, values, weights) / (1 + excess) - first**2
            following = tilts - (self._n * first - 1 / tilts) / (self._n * second + 1 / tilts**2)
            following = np.where(np.isfinite(following), following, tilts)
            return exponents, tilts, np.clip(following, tilts / 4, 4 * tilts)

    def _chernoff(self, indices: Indices, tilts: Array) -> tuple[Array, Array]:
        """Return Chernoff's bound of some pairs, and better tilts."""
        exponents, tilts, better = self._tilted(indices, tilts)
        return self._bounds(tilts, exponents), better

    def rough(self, large: float) -> tuple[Array, Array, Array]:
        """Return upper bounds of δ(ε) of all pairs, tilts, and upper bounds of n·log M there.

        Those that are not far below a number are within a few percent; Bennett's bound has to do for the others.
        """
        ceilings, indices = self._ceilings, np.flatnonzero(self._ceilings > _FAR * large)
        if len(indices):
            tilts = np.full(len(indices), self._tilt(int(ceilings.argmax())))
            for _ in range(_ROUNDS):
                bounds, tilts = self._improved(indices, tilts)
                ceilings[indices] = np.minimum(ceilings[indices], bounds)
            kept = ceilings[indices] > _NEAR * large
            self._sharpened(indices[kept], tilts[kept], np.full(len(ceilings), math.inf))
        return ceilings, self._tilts, self._powers

    def _improved(self, indices: Indices, tilts: Array) -> tuple[Array, Array]:
        """Return what `_chernoff` does, and keep the tilts and what n·log M is there."""
        exponents, tilts, better = self._tilted(indices, tilts)
        self._tilts[indices], self._powers[indices] = tilts, exponents
        return self._bounds(tilts, exponents), better

    def _tilt(self, index: int) -> float:
        """Return a tilt that is about the best one for a pair."""
        tilts = np.array([min(1.0, 1 / max(self._largest[index], 1e-300))])
        for _ in range(40):
            before = tilts
            _, tilts = self._chernoff(np.array([index]), before)
            if abs(tilts - before) <= 0.05 * before:
                break
        return float(tilts[0])

    def likeliest(self) -> int:
        """Return a pair whose δ(ε) is among the largest, as far as Chernoff's bound tells."""
        best = int(self._ceilings.argmax())
        if self._n == 1:
            return best
        near = np.argsort(-self._ceilings, kind="stable")[:LIKELY]
        bounds, tilts = self._ceilings[near], np.full(len(near), self._tilt(best))
        for _ in range(_ROUNDS):
            sharper, tilts = self._chernoff(near, tilts)
            bounds = np.minimum(bounds, sharper)
        self._ceilings[near] = bounds
        return int(near[bounds.argmax()])

    def contenders(self, above: float, known: int) -> list[int]:
        """Return the pairs, but one that is known, whose δ(ε) may exceed a number, the likeliest first."""
        ceilings = self._ceilings
        indices = np.flatnonzero(ceilings > above)
        indices = indices[indices != known]
        if self._n == 1 or not len(indices):
            return [int(index) for index in indices]
        tilts = np.full(len(indices), self._tilt(known))
        for _ in range(_ROUNDS):
            bounds, tilts = self._chernoff(indices, tilts)
            ceilings[indices] = np.minimum(ceilings[indices], bounds)
            kept = ceilings[indices] > above
            indices, tilts = indices[kept], tilts[kept]
        indices = self._sharpened(indices, tilts, np.full(len(ceilings), above))
        return [int(index) for index in indices[np.argsort(-ceilings[indices], kind="stable")]]

    def larger(self, above: Array, tilts: Array) -> Indices:
        """Return those whose δ(ε) may exceed the number that belongs to each, given tilts that are about the best."""
        indices = np.flatnonzero(self._ceilings > above)
        return self._sharpened(indices, tilts[indices], above) if len(indices) else indices

    def _sharpened(self, indices: Indices, tilts: Array, above: Array) -> Indices:
        """Return those of some pairs whose bounds by coarse sums along a contour are above the numbers."""
        ceilings = self._ceilings
        # Those with similar tilts share their nodes: first very few nodes, and more for those that are left.
        units = self._largest - self._smallest
        for tolerance, at_once in _SUMS:
            order = np.argsort(tilts * units[indices])
            indices, tilts = indices[order], tilts[order]
            steep, start = tilts * units[indices], 0
            while start < len(indices):
                length = int(np.searchsorted(steep[start : start + at_once], 2 * steep[start], side="right"))
                part = indices[start : start + max(length, 1)]
                ceilings[part] = np.fmin(ceilings[part], self._inverted(part, tolerance))
                start += len(part)
            kept = ceilings[indices] > above[indices]
            indices, tilts = indices[kept], tilts[kept]
        return indices

    def _inverted(self, indices: Indices, tolerance: float) -> Array:
        """Return the bound of a coarse sum along a contour."""
        pairs, values, epsilons = self._pairs, self._values[indices].T, self._epsilons[indices]
        columns, units = np.arange(len(indices)), (self._largest - self._smallest)[indices]
        ranks = np.zeros_like(values)
        ranks[values.argmax(axis=0), columns], ranks[values.argmin(axis=0), columns] = -2.0, -1.0
        order = np.argsort(ranks, axis=0, kind="stable")  # the two outer values come first
        rows = Tilted(
            self._n,
            np.take_along_axis(values, order, axis=0) / units,
            pairs.probabilities[order],
            missing=np.full(len(indices), pairs.missing),
            means=-np.expm1(epsilons) / units,
            scales=units / self._n,
            mean_error=float((slack(512) * (1 + np.exp(epsilons)) / units).max()),
        )
        steeper = rows.tilts > _ALIKE * rows.tilts.min()
        if not steeper.any():
            return positive_parts(rows, tolerance=tolerance)[1] * _UP
        ceilings = np.empty(len(indices))
        for part in (steeper, ~steeper):
            ceilings[part] = self._inverted(indices[part], tolerance)
        return ceilings
