"""The constructions in the paper's lemmas on single randomizers, in fractions: Lemmas 3.4 and 3.7 (arXiv 2012.12803v3).

A distribution is a list of fractions, and e^ε is a fraction as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

Row = Sequence[Fraction]


def excess(p: Row, q: Row, likelihood: Fraction = Fraction(1)) -> Fraction:
    """Return the hockey-stick divergence at e^ε, the sum of (P − e^ε·Q)₊; at 1 the distance in total variation."""
    return sum((max(a - likelihood * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def binary_parts(first: Row, second: Row, likelihood: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Return Q(0) and Q(1) of Lemma 3.4: binary randomized response between them gives the two rows."""
    scale = likelihood - 1
    return (
        [(likelihood * a - b) / scale for a, b in zip(first, second, strict=True)],
        [(likelihood * b - a) / scale for a, b in zip(first, second, strict=True)],
    )


def made_pure(row: Row, reference: Row, likelihood: Fraction) -> list[Fraction]:
    """Return R'(x) of Lemma 3.7: within e^±ε of the reference everywhere, and near the row.

    The row is cut off at both ratios. What is then missing, or too much, is made up for on the other side: there the
    ratio moves towards 1 until the sum is 1 again.
    """
    pairs = list(zip(row, reference, strict=True))

    def cut(low: Fraction, high: Fraction) -> list[Fraction]:
        return [min(max(mass, low * other), high * other) for mass, other in pairs]

    least, most = 1 / likelihood, likelihood
    total = sum(cut(least, most), Fraction(0))
    if total < 1:
        return cut(_root(lambda low: sum(cut(low, most), Fraction(0)), least, Fraction(1), pairs), most)
    return cut(least, _root(lambda high: sum(cut(least, high), Fraction(0)), Fraction(1), most, pairs))


def _root(
    total: Callable[[Fraction], Fraction], low: Fraction, high: Fraction, pairs: list[tuple[Fraction, Fraction]]
) -> Fraction:
    """Return where a sum that rises, in straight pieces between the ratios of the pairs, is 1."""
    knots = sorted({low, high, *(mass / other for mass, other in pairs if other and low < mass / other < high)})
    for left, right in pairwise(knots):
        if total(left) <= 1 <= total(right):
            rise = total(right) - total(left)
            return left + (right - left) * (1 - total(left)) / rise if rise else left
    return high
