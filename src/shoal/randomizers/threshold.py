"""Probabilities as whole numbers: how many of 2⁶⁴ coins, rounded toward privacy, and the ε₀ that they really have."""

import math
from fractions import Fraction

__all__ = ["WHOLE", "logarithm_above", "share_below"]

WHOLE = 1 << 64
"""The number of coins that a threshold is out of."""

_PRECISION = 320
_LARGEST = 1000.0
"""No ε₀ beyond it makes a difference to 64-bit coins."""


def share_below(local_epsilon: float, odds: Fraction) -> int:
    """Return the largest L < 2⁶⁴ for which L/(2⁶⁴ − L) is at most (e^ε₀ − 1)·odds."""
    from flint import arb, ctx, fmpq

    with ctx.workprec(_PRECISION):
        most = arb(min(local_epsilon, _LARGEST)).expm1() * fmpq(odds.numerator, odds.denominator)
        return min(int((WHOLE * most / (1 + most)).lower().floor().fmpz()), WHOLE - 1)


def logarithm_above(ratio: Fraction) -> float:
    """Return the smallest double that is at least ln(ratio)."""
    from flint import arb, ctx, fmpq

    with ctx.workprec(_PRECISION):
        exact = arb(fmpq(ratio.numerator, ratio.denominator)).log()
        result = float(exact)
        while not arb(result) >= exact:
            result = math.nextafter(result, math.inf)
        return result
