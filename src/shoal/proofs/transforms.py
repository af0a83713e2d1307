"""The transform of a tilted measure in balls, at a height and on a range of heights; and sums over many nodes.

With w the measure multiplied by e^{θx} and divided by φ(θ), g(y) = |φ(θ + iy)/φ(θ)|² has |g″| ≤ 2·Var_w, so that one
value and one slope bound a range of nodes. Ranges that this does not show to be negligible are halved, and in the end
summed node by node (docs/theory/certificates.md, section 3).
"""

import math
from collections.abc import Callable, Sequence

from flint import acb, arb, arb_mat

from shoal.proofs.balls import Ball, total
from shoal.proofs.work import spend

_DOTS = 8  # products per microsecond in a sum over all points (measured)

Row = tuple[Ball, Ball]
"""cos(xy) and sin(xy) at all points x of a measure, as matrices of one row."""


def row_at(points: Sequence[Ball], height: Ball) -> Row:
    """Return the cosines and sines at y = height."""
    spend(1.2 * len(points))
    turns = [(point * height).sin_cos() for point in points]
    cosines = arb_mat(1, len(points), [cosine for _, cosine in turns])
    sines = arb_mat(1, len(points), [sine for sine, _ in turns])
    return cosines, sines


class Tilted:
    """A measure at some points x, multiplied by e^{θx} and divided by its moment φ(θ)."""

    def __init__(self, points: Sequence[Ball | int], masses: Sequence[Ball], theta: Ball) -> None:
        spend(20 + 4 * len(masses))
        self.points = points
        self.theta = theta
        weights = [mass * (theta * point).exp() for mass, point in zip(masses, points, strict=True)]
        self.moment = total(weights)
        self.shares = [weight / self.moment for weight in weights]
        self.column = arb_mat(len(weights), 1, self.shares)
        moving = [share * point for share, point in zip(self.shares, points, strict=True)]
        mean = total(moving)
        square = total([each * point for each, point in zip(moving, points, strict=True)])
        self.moving = arb_mat(len(moving), 1, moving)
        self.variance = (square - mean * mean).upper()  # of the tilted measure, or more

    def value(self, row: Row, column: Ball | None = None) -> Ball:
        """Return φ(θ + iy)/φ(θ) at the height of a row; of other masses, if these are given as a column."""
        spend(len(self.shares) // _DOTS + _DOTS)
        masses = self.column if column is None else column
        cosines, sines = row
        return acb((cosines * masses)[0, 0], (sines * masses)[0, 0])

    def square_bound(self, row: Row, radius: Ball) -> Ball:
        """Return an upper bound of |φ(θ + iy)/φ(θ)|² for all y within this radius of the height of a row."""
        value = self.value(row)
        moving = self.value(row, self.moving)  # −i times the derivative of the transform
        square = value.real * value.real + value.imag * value.imag
        slope = 2 * (value.imag * moving.real - value.real * moving.imag)
        return (square + abs(slope) * radius + self.variance * radius * radius).upper()  # (3.1)


def halved(
    first: int,
    last: int,
    *,
    short: int,
    charge: Callable[[int, int], Ball | None],
    summed: Callable[[int], Ball],
    most: float = math.inf,
) -> Ball | None:
    """Return the sum over the nodes from the first to the last, where ranges of nodes may be charged.

    `charge` returns an upper bound of what a range adds, or None if that counts. Such a range is halved, and ranges of
    at most `short` nodes are summed. The answer is None after more than `most` ranges and nodes.
    """
    result = arb(0)
    ranges = []  # each about twice as long as the one before
    while first <= last:
        ranges.append((first, min(2 * first - 1, last)))
        first *= 2
    while ranges:
        start, stop = ranges.pop()
        count = stop - start + 1
        most -= 1
        cost = charge(start, stop)
        if cost is not None:
            result += cost
        elif count > short:
            middle = (start + stop) // 2
            ranges += [(start, middle), (middle + 1, stop)]
        else:
            most -= count
            result += total([summed(index) for index in range(start, stop + 1)])
        if most < 0:
            return None
    return result


def least_at(value: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """Return about the point at which a function with one minimum is least, by golden sections."""
    for _ in range(steps):
        first = low + 0.382 * (high - low)
        second = low + 0.618 * (high - low)
        if value(first) < value(second):
            high = second
        else:
            low = first
    return (low + high) / 2


def log_moments(rows: Sequence[tuple[float, float]], tilt: float) -> tuple[float, float, float]:
    """Return ln φ(θ), and mean and variance of the tilted measure, from points and logarithms of masses, in floats."""
    exponents = [tilt * point + log for point, log in rows]
    highest = max(exponents)
    weights = [math.exp(exponent - highest) for exponent in exponents]
    whole = math.fsum(weights)
    mean = math.fsum(weight * point for weight, (point, _) in zip(weights, rows, strict=True)) / whole
    square = math.fsum(weight * (point - mean) ** 2 for weight, (point, _) in zip(weights, rows, strict=True))
    return highest + math.log(whole), mean, square / whole
