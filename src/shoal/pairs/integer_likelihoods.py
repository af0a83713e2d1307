"""Likelihoods that are ratios of whole numbers: W of every outcome comes from the integers, and is rounded once."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from shoal.pairs.likelihoods import Likelihoods, Row

__all__ = ["IntegerLikelihoods", "Outcome"]

Outcome = tuple[int, int, int]
"""How often R₀, R₁ and the reference have an outcome, all out of the same total."""

_PRECISION = 512
"""So many bits that R₀ − e^ε·R₁ cannot cancel: neither is zero, and e^ε of a double ε ≠ 0 is no ratio of integers."""


@dataclass(frozen=True)
class IntegerLikelihoods(Likelihoods):
    """The likelihoods of a report from either of two inputs, as whole numbers.

    A difference of two rounded logarithms is accurate only if they are small or far apart. With the integers at hand, W
    has a relative error of one rounding, whatever they are. Build it with `of`.

    Parameters
    ----------
    outcomes : tuple of Outcome
        (R₀, R₁, ω) of each row, in order; no two rows are proportional.
    total : int
        What all probabilities are out of.

    Examples
    --------
    >>> coin = IntegerLikelihoods.of([(3, 1, 1), (1, 3, 1)], 4)
    >>> coin.values(0.0), coin.missing, coin.symmetric
    ((-2.0, 2.0), 0.5, True)
    >>> IntegerLikelihoods.of([(2, 2, 2), (1, 1, 1), (1, 1, 1)], 4).outcomes
    ((1, 1, 1),)
    """

    outcomes: tuple[Outcome, ...] = ()
    total: int = 1
    _last: tuple[float, tuple[float, ...]] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], total: int) -> "IntegerLikelihoods":
        """Return the likelihoods of these outcomes, where proportional ones are added up: they tell the same.

        Two of them are equal if and only if they are the same but for the order of outcomes.
        """
        sums: dict[Outcome, int] = {}
        for first, second, reference in outcomes:
            size = math.gcd(first, second, reference)
            if size:
                ratio = first // size, second // size, reference // size
                sums[ratio] = sums.get(ratio, 0) + size
        merged = [tuple(size * part for part in ratio) for ratio, size in sums.items()]
        common = math.gcd(total, *(part for outcome in merged for part in outcome))
        ordered: Any = tuple(sorted(tuple(part // common for part in outcome) for outcome in merged))
        whole = total // common
        rest = whole - sum(reference for _, _, reference in ordered)
        rows: tuple[Row, ...] = tuple(
            (_logarithm(first, reference), _logarithm(second, reference), reference / whole)
            for first, second, reference in ordered
        )
        return cls(rows, complete=rest == 0, rest=rest / whole, outcomes=ordered, total=whole)

    @property
    def swapped(self) -> "IntegerLikelihoods":
        """The same with R₀ and R₁ exchanged."""
        exchanged = ((second, first, reference) for first, second, reference in self.outcomes)
        return IntegerLikelihoods.of(exchanged, self.total)

    @property
    def symmetric(self) -> bool:
        """Whether exchanging R₀ and R₁ changes nothing."""
        return self.swapped.outcomes == self.outcomes

    @cached_property
    def reach(self) -> float:
        """The largest ln R₀/R₁, rounded down."""
        from flint import arb, ctx

        largest = max((Fraction(first, second) for first, second, _ in self.outcomes), default=Fraction(1))
        with ctx.workprec(_PRECISION):
            exact = (arb(largest.numerator) / largest.denominator).log()
            value = float(exact)
            while not arb(value) <= exact:
                value = math.nextafter(value, -math.inf)
            return value

    def values(self, epsilon: float) -> tuple[float, ...]:
        """Return W = (R₀ − e^ε·R₁)/ω of each row, rounded once."""
        from flint import arb, ctx

        if self._last is None or self._last[0] != epsilon:
            with ctx.workprec(_PRECISION):
                factor = arb(epsilon).exp()
                values = tuple(
                    float((first - factor * second) / reference) for first, second, reference in self.outcomes
                )
            object.__setattr__(self, "_last", (epsilon, values))
        return self._last[1]  # type: ignore[index]

    def signs(self, epsilon: float) -> tuple[float, ...]:
        """Return W of each row: its sign is that of the integers, and it does not overflow."""
        return self.values(epsilon)

    def advantage(self, epsilon: float) -> float:
        """Return the sum of (R₀ − e^ε·R₁)₊, which is δ(ε) of a report alone."""
        from flint import arb, ctx

        with ctx.workprec(_PRECISION):
            factor = arb(epsilon).exp()
            gains = (first - factor * second for first, second, _ in self.outcomes)
            return float(sum((gain for gain in gains if gain > 0), arb(0)) / self.total)


def _logarithm(part: int, reference: int) -> float:
    """Return ln(part/reference), accurate also where the two are close."""
    if part >= reference:
        return math.log1p((part - reference) / reference)
    return -math.log1p((reference - part) / part)
