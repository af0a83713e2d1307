"""Ball arithmetic: doubles as balls of radius zero, a precision for a block, and ends of balls as doubles."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

import flint

Ball = Any
"""A real ball of python-flint, which has no type stubs."""

INFINITE: Ball = flint.arb("inf")
ZERO: Ball = flint.arb(0)


class Summand(NamedTuple):
    """W in balls, of which n copies are added: δ(ε) ≤ E[(W₁ + … + Wₙ)₊]/n + cost.

    With the probability that is left of one, W is 0. The cost is what replacing the true W by this one adds to δ.
    """

    values: tuple[Ball, ...]
    probabilities: tuple[Ball, ...]
    cost: Ball


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Run a block at this many bits."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def ball(value: float | Fraction) -> Ball:
    """Return a double or a whole number as a ball of radius zero, a fraction as one that contains it."""
    if isinstance(value, Fraction):
        return flint.arb(value.numerator) / value.denominator
    return flint.arb(value)


def total(parts: Iterator[Ball] | list[Ball] | tuple[Ball, ...]) -> Ball:
    """Return the sum of balls."""
    return sum(parts, ZERO)


def gather(
    points: Sequence[Any], parts: Sequence[Ball], grid: Sequence[Any], masses: list[Ball], start: int = 0
) -> None:
    """Add rising points, with a part of the mass each, to `masses` at the two points of a grid next to each.

    The mean is kept, so that the result is larger in convex order. Points below the grid are raised to its first point;
    no others are below grid[start].
    """
    index = start
    for point, part in zip(points, parts, strict=True):
        while not (point is grid[index + 1] or point <= grid[index + 1]):  # a ball is not ≤ itself
            index += 1
        ahead = part * (point - grid[index]) / (grid[index + 1] - grid[index])
        if index == 0:
            ahead = ahead.max(flint.arb(0))
        masses[index + 1] += ahead
        masses[index] += part - ahead


def above(value: Ball) -> float:
    """Return a double that is at least every number of the ball; infinity where the ball is not finite."""
    if not value.is_finite():
        return math.inf
    end = float(value.upper())
    while not value <= end:
        end = math.nextafter(end, math.inf)
    return end


def density(point: Ball) -> Ball:
    """Return the density φ of the normal distribution at a point."""
    return (-point * point / 2).exp() / (2 * flint.arb.pi()).sqrt()


def normal(point: Ball) -> Ball:
    """Return Φ at a point, accurate relatively on the left side."""
    return (-point / flint.arb(2).sqrt()).erfc() / 2
