"""The Rényi divergence of one-bit reports: of every dataset, if there are few, or of the largest δ at each ε."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.bit_ceilings import BitCeilings
from shoal.numerics.bit_datasets import every_dataset, rarely_changed
from shoal.numerics.profile_integral import ProfileIntegral, chords, divergence

__all__ = ["Bits", "bit_renyi"]

Array = NDArray[np.float64]
Bits = Callable[[Array], list[tuple[NDArray[np.bool_], BitCeilings]]]
"""For zeros, and for ones if that is something else: at which of these ε something is known, and what."""

_BULGE = 4.0
"""A quick bound that falls by more than twice this power of e within a cell is divided."""
_CLOSE = 1e-4
"""What is enough of δ."""
_TOGETHER = 24
"""Knots that share the number of nodes."""


class _BitIntegral(ProfileIntegral):
    """The integral of the largest δ over all datasets; what is known of a point is the quick bound."""

    chorded, smoothed, left_out = 4e-4, 1e-4, 5e-5

    def __init__(self, bits: Bits, spread: float, ceiling: float, order: float) -> None:
        super().__init__(ceiling, (order - 1, -order))
        self._bits, self._spread = bits, spread
        if order * spread > 1:
            self.chorded, self.left_out = (6e-4, 2e-4) if order * spread < 30 else (5e-4, 4e-4)

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        return self._spread

    def looked_at(self, points: Array) -> tuple[Array, Array]:
        """Return the quick bounds, and roughly the logarithm of δ."""
        quick, rough = np.full((2, len(points)), -math.inf)
        for where, bits in self._bits(points):
            quick[where], rough[where] = np.maximum(quick[where], bits.quick), np.maximum(rough[where], bits.rough)
        return quick, np.maximum(rough, -1e300)

    def quick(self, points: Array, known: Array) -> Array:
        """Return what is known."""
        return known

    def bounds(self, points: Array, known: Array) -> tuple[Array, Array]:
        """Return the integrals of chords of the quick bounds."""
        with np.errstate(all="ignore"):
            return chords(self.exponents, points, known), np.abs(np.diff(known)) / _BULGE

    def close(self, knots: Array, smoothing: float) -> Array:
        """Return logarithms of upper bounds of δ at each knot, from sums on a circle."""
        result = np.full(len(knots), -math.inf)
        for start in range(0, len(knots), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            for where, bits in self._bits(knots[some]):
                result[some][where] = np.maximum(result[some][where], bits.close(max(smoothing, _CLOSE)))
        return result


def bit_renyi(
    bits: Bits,
    rows: tuple[tuple[float, float], tuple[float, float]],
    *,
    reports: int,
    ceiling: float,
    order: float,
) -> float:
    """Return an upper bound of the largest D_α of n reports over all datasets, n > 1.

    Parameters
    ----------
    bits : callable
        What is needed for bounds of δ.
    rows : tuple of (float, float)
        The probabilities of a one and of a zero, of either extreme input.
    reports : int
        n.
    ceiling, order : float
        ε₀ and α > 1.
    """
    listed = every_dataset(rows, reports, ceiling, order) or rarely_changed(rows, reports, ceiling, order)
    if listed is not None:
        return listed
    variance = max(reports * min(q * other for q, other in rows), 0.25)
    spread = min((rows[1][0] - rows[0][0]) / math.sqrt(variance), ceiling)
    return divergence([_BitIntegral(bits, spread, ceiling, order)], order)
