"""E[(S − x)₊] for sums S of n, n − 1, n − 2, … copies of one lattice distribution, at many x, from above.

Each x has a tilt that is best, and those next to it are served by the same. What a tilt cannot tell apart lies on a
coarser lattice, with the mean kept: so many scales of one distribution need few nodes each. Where a sum is hardly ever
as small as x, its mean and Chernoff's inequality say enough.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.tilted_lattice import TiltedLattice
from shoal.rounding import UNIT

__all__ = ["Ramps"]

_RATIO, _APART = 2.0, 3
"""How far apart tilts are, and how many from the best one a tilt may be for many x at once."""
_GENTLEST, _STEEPEST = 0.4, 600.0
"""The least tilt times the deviation of the sum, and the largest one times the greatest value."""
_FAR, _VERY_FAR = 24.0, 80.0
"""So many deviations below the mean no transform is needed; and so many below it, no more than two moments."""
_LARGEST = 2.0**60
"""No x is so many steps away."""
_MOST_HALVINGS = 50
"""So many are exact."""
_RESOLVED = 0.04
"""How large tilt times step may be on a coarser lattice, times √n: the answer grows by 1e-4 of itself."""
_NEARLY, _SLIGHTLY, _SUMS = math.log(1e-7), math.log(0.1), 1e4
"""What rounding may change, of Chernoff's bound or of what hardly matters, and about how many units it changes."""

Array = NDArray[np.float64]


class Ramps:
    """Sums of copies of a lattice distribution, which may have a mass of less than one.

    Parameters
    ----------
    step : float
        a.
    positions, masses : numpy.ndarray
        The distribution, ascending.
    copies : int
        n.
    """

    def __init__(self, step: float, positions: NDArray[np.int64], masses: Array, copies: int) -> None:
        self.step, self.positions, self.masses, self.copies = step, positions, masses, copies
        self.values = step * positions
        self.mass, self.size = float(masses.sum()), float((masses * np.abs(self.values)).sum()) + step
        self.mean = float((masses * self.values).sum()) / self.mass
        self.variance = float((masses * (self.values - self.mean) ** 2).sum()) / self.mass
        self.root = math.sqrt(copies * self.variance) + step
        self.logs = np.log(masses)
        self.top = max(float(self.values[-1]), step)
        steepest = min(_STEEPEST / self.top, _STEEPEST / step / 4)
        count = max(0, math.floor(math.log(steepest * self.root / _GENTLEST) / math.log(_RATIO)))
        self.tilts = steepest * _RATIO ** -np.arange(min(count, 60), -1, -1).astype(np.float64)
        self.moments = self._log_moments(self.tilts)
        self.falling = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]) / self.root
        self.falls = self._log_moments(-self.falling)
        self._lattices: dict[int, TiltedLattice] = {}

    def _log_moments(self, tilts: Array) -> Array:
        exponents = self.logs + np.multiply.outer(tilts, self.values)
        highest = exponents.max(axis=1)
        return np.asarray(highest + np.log(np.exp(exponents - highest[:, None]).sum(axis=1)))

    def least(self, points: Array, fewer: int) -> Array:
        """Return about lower bounds of E[(S − x)₊] for the sum of n − fewer copies: by its mean."""
        return np.maximum(((self.copies - fewer) * self.mean - points) * self._total(self.copies - fewer), 0.0)

    def upper(self, points: Array, fewer: int, masses: Array, known: Array, share: float) -> Array:
        """Return upper bounds of the sum over columns of the masses times E[(S − x)₊], for each row of points.

        Bounds may be rough, as long as what they are off by adds up to less than this share of what is known and the
        sum together.

        Parameters
        ----------
        points : numpy.ndarray
            x, in rows.
        fewer : int
            S is the sum of n − fewer copies.
        masses : numpy.ndarray
            Of each column.
        known : numpy.ndarray
            Of each row.
        share : float
            How much of it hardly matters.
        """
        copies, shape = self.copies - fewer, points.shape
        points = points.ravel()
        points = points - 4 * UNIT * np.abs(points)  # what rounding has done to them
        if copies == 0:
            return np.asarray(np.maximum(-points, 0.0).reshape(shape) @ masses)
        best, least = self._roughly(points, copies), self.least(points, fewer).reshape(shape)
        asked, heights = self._chernoff(points, copies, best)
        may = share * (known + least @ masses).reshape(-1, 1) + 1e-250
        with np.errstate(over="ignore"):
            left = _too_much((best.reshape(shape) - least) * masses / may)
        chosen = left.ravel()[asked]
        asked, heights = asked[chosen], heights[chosen]
        many = np.maximum(left.sum(axis=1, keepdims=True), 1)
        allowed = (np.log(may / many) - np.log(np.maximum(masses, 1e-300))).ravel()[asked] + _SLIGHTLY
        wanted = self._shared(points[asked], copies, np.maximum(allowed, heights + _NEARLY))
        for tilt in np.unique(wanted).tolist():
            served = asked[wanted == tilt]
            steepest = float(self.tilts[max(tilt, int(self._best_tilts(points[served].max(keepdims=True), copies)[0]))])
            lattice = self._lattice(math.log2(_RESOLVED / (steepest * math.sqrt(copies) * self.step)))
            best[served] = np.minimum(best[served], lattice.upper(tilt, points[served], fewer, steepest))
        return np.asarray(best.reshape(shape) @ masses)

    def _chernoff(self, points: Array, copies: int, best: Array) -> tuple[NDArray[np.int64], Array]:
        """Lower bounds by Chernoff's inequality, (x)₊ ≤ e^{θx}/(eθ), and return which are worth more, and these."""
        near = np.abs(points) < _LARGEST * self.step  # as integers
        asked = np.flatnonzero(near & (points > self.mean * copies - _FAR * self.root))
        wanted = self._best_tilts(points[asked], copies)
        heights = copies * self.moments[wanted] - self.tilts[wanted] * points[asked] - 1 - np.log(self.tilts[wanted])
        heights += 64 * UNIT * copies * (16 + self.tilts[wanted] * self.top + np.abs(self.moments[wanted])) + 1e-9
        best[asked] = np.minimum(best[asked], np.exp(np.minimum(heights, 700.0)))
        return asked, heights

    def _lattice(self, halvings: float) -> TiltedLattice:
        """Return the distribution on a lattice with up to 2^halvings times the step, with its mean kept.

        No E[(S − x)₊] is smaller then; it grows by about nh²θ²/12 of itself.
        """
        halved = min(max(0, math.floor(halvings)), _MOST_HALVINGS)
        if halved not in self._lattices:
            places, heaps = self.positions, self.masses
            if halved:
                below = places >> halved
                share = (places - (below << halved)) / (1 << halved)
                places, index = np.unique(np.concatenate((below, below + 1)), return_inverse=True)
                parts = np.bincount(index, np.concatenate((heaps * (1 - share), heaps * share)))
                heaps = np.asarray(parts, dtype=np.float64) * (
                    1 + UNIT * (len(index) + 8)
                )  # no mass is less than it should be
                places, heaps = places[heaps > 0], heaps[heaps > 0]
            step = self.step * (1 << halved)
            self._lattices[halved] = TiltedLattice(step, places, heaps, self.copies, (self.tilts, self.moments))
        return self._lattices[halved]

    def _shared(self, points: Array, copies: int, allowed: Array) -> NDArray[np.int64]:
        """Return tilts for the points, few of them: at another tilt than the best one rounding counts more.

        `allowed` are logarithms of what a bound may be off by.
        """
        result = self._best_tilts(points, copies)
        if len(points) == 1:
            return result
        steepest = np.arange(len(self.tilts) - 1, -1, -1)
        error = math.log(UNIT * (64 * copies + _SUMS))
        heights = (copies * self.moments + error - np.log(self.tilts))[steepest]
        good = heights[:, None] - np.multiply.outer(self.tilts[steepest], points) < allowed
        good &= np.abs(np.subtract.outer(steepest, result)) <= _APART
        left = np.argsort(points)
        while len(left):
            last = left[-1]
            serving = np.flatnonzero(good[:, last])
            if not len(serving):
                left = left[:-1]
                continue
            counts = good[np.ix_(serving, left)].sum(axis=1)
            chosen = int(serving[np.argmax(counts)])
            served = good[chosen, left]
            result[left[served]] = steepest[chosen]
            left = left[~served]
        return result

    def _best_tilts(self, points: Array, copies: int) -> NDArray[np.int64]:
        """Return the tilt at which M(θ)ⁿ·e^−θx/θ² is least, for each point: roughly, as any is valid."""
        heights = copies * self.moments - 2 * np.log(self.tilts)
        slopes = np.diff(heights) / np.diff(self.tilts)  # rising, as heights are convex, or nearly so
        return np.searchsorted(np.maximum.accumulate(slopes), points)

    def _total(self, copies: int) -> float:
        """Return the mass of the sum."""
        return math.exp(copies * math.log(self.mass))

    def _roughly(self, points: Array, copies: int) -> Array:
        """Return bounds from Chernoff's inequality and the mean, and from two moments: (x)₊ ≤ (x + √(x² + v))/2."""
        total = self._total(copies)
        middle = copies * self.mean - points
        away = np.hypot(middle, math.sqrt(copies * self.variance))
        above = middle > 0
        apart = np.where(above, 1.0, np.maximum(away - middle, 1e-300))
        moment = np.where(above, (middle + away) / 2, copies * self.variance / 2 / apart)
        low = np.flatnonzero(above & (middle < _VERY_FAR * self.root))
        # E[(x − S)₊] ≤ M(−θ)ⁿ·e^{θx}/(eθ).
        exponents = copies * self.falls - 1 - np.log(self.falling)
        below = exponents[:, None] + np.multiply.outer(self.falling, points[low])
        best = moment * total
        best[low] = np.minimum(best[low], middle[low] * total + np.exp(np.minimum(below.min(axis=0), 700.0)))
        return np.asarray(best * (1 + 1e-9 + 64 * UNIT * copies) + 64 * UNIT * copies * self.size)


def _too_much(excess: Array) -> NDArray[np.bool_]:
    """Return which are left in each row, when small ones, up to a sum of one, are not."""
    limits = np.full((len(excess), 1), 1 / max(excess.shape[1], 1))  # together they are less than one
    while True:
        more = np.minimum(4 * limits, 1.0)
        sums = np.where(excess <= more, excess, 0.0).sum(axis=1, keepdims=True)
        better = (sums <= 1) & (more > limits)
        if not better.any():
            return np.asarray(excess > limits)
        limits = np.where(better, more, limits)
