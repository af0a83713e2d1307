"""An interval that numbers lie in, and how they are rounded at random, without bias, to points that divide it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import Array, IntArray
from shoal.checks import store
from shoal.errors import ParameterError
from shoal.mechanisms.coins import Coins

FINENESS = 50
"""A number is rounded to a point with a probability that is a whole number of 2⁻⁵⁰."""


@dataclass(frozen=True)
class NumberRange:
    """The interval from `lower` to `upper`, both included."""

    lower: float  # lower, upper: Its ends
    upper: float

    def __post_init__(self) -> None:
        """Check the ends."""
        store(self, lower=_end("lower", self.lower), upper=_end("upper", self.upper))
        if not (self.lower < self.upper and math.isfinite(self.length)):
            raise ParameterError(
                f"lower must be less than upper, and their difference a finite number; "
                f"got lower={self.lower!r} and upper={self.upper!r}",
                "lower",
            )

    @property
    def length(self) -> float:
        """How long the interval is."""
        return self.upper - self.lower

    def numbers(self, values: ArrayLike) -> Array:
        """Return the values as numbers, all of them within; nothing is clipped."""
        try:
            given = np.asarray(values)
        except ValueError:
            raise ParameterError("values must be a list of numbers, got lists of different lengths", "values") from None
        if given.size == 0:
            return np.empty(0)
        if given.ndim != 1 or given.dtype.kind not in "iuf":
            raise ParameterError(
                f"values must be a list of numbers, got {given.ndim} dimensions of {given.dtype}", "values"
            )
        numbers = given.astype(np.float64, copy=False)
        if not (numbers.min() >= self.lower and numbers.max() <= self.upper):  # also where one is NaN
            inside = (numbers >= self.lower) & (numbers <= self.upper)
            index = int(np.flatnonzero(~inside)[0])
            raise ParameterError(
                f"values[{index}] is not between {self.lower:g} and {self.upper:g}; "
                "clip the values, or choose a wider interval"
            )
        return numbers

    def positions(self, numbers: Array, steps: int) -> Array:
        """Return where numbers lie, in units of 2⁻⁵⁰ of a step, if the interval has so many steps."""
        positions = numbers - self.lower
        positions /= self.length
        positions *= float(steps << FINENESS)
        return positions

    def rounded(self, numbers: Array, steps: int, coins: Coins) -> IntArray:
        """Return a point next to each number, 0 to `steps`: the position, and a uniform number below one step."""
        positions = self.positions(numbers, steps)
        positions /= 1 << FINENESS
        below = np.floor(positions)
        positions -= below  # exactly; whole steps in units of 2⁻⁵⁰ would not all be integers of 64 bits
        positions *= 1 << FINENESS
        points = positions.astype(np.int64)
        uniform = coins.words(len(points)) >> np.uint64(64 - FINENESS)
        points += uniform.view(np.int64)
        points >>= FINENESS
        points += below.astype(np.int64)
        return points


def _end(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (bool, np.bool_, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, got {value!r}", name)
    return number
