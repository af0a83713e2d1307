"""Slacks for rounding: each one is a count of roundings that it pays for, in units of the last digit.

A double has 53 digits, so one rounding changes a value by at most `UNIT` = 2⁻⁵³ of itself, and k of them by at most
k·UNIT, up to (k·UNIT)². Every bound of shoal is moved to its safe side by more roundings than lie behind it; how many
that are stands where it is moved. Counts are powers of two, so that the slack itself is exact.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53
"""What one rounding changes at most, relatively."""

LARGEST_POWER = 600.0
"""The largest x of a computed e^x. e^709 overflows, and factors of e^100 have room below that."""

Number = TypeVar("Number", float, NDArray[np.float64])


def slack(roundings: float) -> float:
    """Return what this many roundings change at most, relatively."""
    return roundings * UNIT


def up(value: Number, *, roundings: float) -> Number:
    """Return the value, enlarged by what this many roundings change at most."""
    return value * (1 + roundings * UNIT)


def down(value: Number, *, roundings: float) -> Number:
    """Return the value, reduced by what this many roundings change at most."""
    return value * (1 - roundings * UNIT)
