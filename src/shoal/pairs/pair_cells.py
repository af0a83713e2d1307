"""Bounds of δ(ε) of all pairs of inputs on whole intervals of ε, from few knots.

Between two knots each δ is at most its chord, since it is convex in λ = e^ε. And with W = a − λb, Chernoff's bound is
log δ(ε) ≤ n·K(θ, θλ) − log(neθ), where K(θ, μ) = log E[exp(θa − μb)] is convex in both together, and so at most its
chord, too (docs/theory/matrix.md, section 3). The first is sharp for small ε, the second for large.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.pairs.input_pairs import InputPairs
from shoal.pairs.screening import Screen
from shoal.rounding import slack

__all__ = ["PairCells"]

Array = NDArray[np.float64]

_STEP, _GROWTH = 0.4, 0.1
"""How far apart knots are: in standard deviations of the loss, or as a part of ε, whichever is more."""


class _Knot(NamedTuple):
    """What is known of all pairs at one ε: e^ε, bounds of δ, tilts, and bounds of n·log M there."""

    ratio: float
    bounds: Array
    tilts: Array
    exponents: Array


class PairCells:
    """All pairs of inputs of a table, each in both directions, among n > 1 reports; knots are added as needed."""

    def __init__(self, reports: int, pairs: InputPairs, lower: Callable[[int, float], float]) -> None:
        """Build the first knot; `lower` says roughly what δ(ε) of a pair is."""
        self._n, self._pairs, self._lower = reports, pairs, lower
        first, second = pairs.indices.T
        seconds = (pairs.ratios[first] - pairs.ratios[second]) ** 2 @ pairs.probabilities
        self._spread = math.sqrt(float(seconds.max()) / reports)
        self._points = [0.0]
        self._knots = [self._knot(0.0)]

    def _knot(self, epsilon: float) -> _Knot:
        screen = Screen(self._n, self._pairs, epsilon)
        large = self._lower(screen.likeliest(), epsilon)
        return _Knot(math.exp(epsilon), *screen.rough(large))

    def ceilings(self, epsilon: float) -> tuple[Array, Array]:
        """Return upper bounds of log δ(ε) of all pairs, and the tilts that they belong to."""
        while self._points[-1] <= epsilon:
            self._points.append(self._points[-1] + max(_STEP * self._spread, _GROWTH * self._points[-1]))
            self._knots.append(self._knot(self._points[-1]))
        index = int(np.searchsorted(self._points, epsilon, side="right"))
        one, other = self._knots[index - 1], self._knots[index]
        ratio, n = math.exp(epsilon), self._n
        near, far = one.tilts * (ratio - one.ratio), other.tilts * (other.ratio - ratio)
        with np.errstate(all="ignore"):
            share = np.clip(near / (near + far), 0.0, 1.0)
            tilts = (1 - share) * one.tilts + share * other.tilts
            exponents = (1 - share) * one.exponents + share * other.exponents
            rounding = slack(64) * (np.abs(one.exponents) + np.abs(other.exponents) + n * tilts * (1 + ratio))
            logs = exponents + rounding - np.log(n * tilts) - 1 + 1e-9
            along = (ratio - one.ratio) / (other.ratio - one.ratio)
            chords = np.log((1 - along) * one.bounds + along * other.bounds) + 1e-9
            logs = np.fmin(logs, chords)
        return np.where(np.isnan(logs), 0.0, np.minimum(logs, 0.0)), tilts
