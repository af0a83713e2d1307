"""Likelihoods that are ratios of integers: W of every outcome comes from the integers, and is rounded once.

`BitRows` are the two inputs of a randomizer of one bit that have a one the least and the most often.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from shoal.numerics.bit_count import BitCount
from shoal.pairs.likelihoods import Likelihoods, Row, response

Outcome = tuple[int, int, int]
"""How often R₀, R₁ and the reference have an outcome, all out of the same total."""

_PRECISION = 512
"""So many bits that R₀ − e^ε·R₁ cannot cancel: neither is zero, and e^ε of a double ε ≠ 0 is no ratio of integers."""


@dataclass(frozen=True)
class IntegerLikelihoods(Likelihoods):
    """The likelihoods of a report from either of two inputs, as integers out of `total`.

    A difference of two rounded logarithms is accurate only if they are small or far apart. With the
    integers at hand, W has a relative error of one rounding, whatever they are. Build it with `of`.
    `outcomes` are (R₀, R₁, ω) of each row, in order; no two rows are proportional.
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

    @property
    def ceiling(self) -> float:
        """The same rounded up."""
        return math.nextafter(self.reach, math.inf) if self.reach else 0.0

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


@dataclass(frozen=True)
class BitRows:
    """The probabilities of a one and of a zero, from the input with the fewest ones and from that with the most.

    Every other input has a one with a probability between the two. Build it with `response` or `of`.

    Parameters
    ----------
    low, high : float
        The least and the largest probability of a one, within two roundings.
    not_low, not_high : float
        1 − low and 1 − high, within two roundings.
    likelihoods : Likelihoods
        What a report tells about the two, relative to the first.
    blanket : Likelihoods
        What a report tells about the two, relative to the lesser probability of each bit.

    Examples
    --------
    >>> coin = BitRows.of(1, 3, 4)
    >>> coin.low, coin.high, coin.symmetric
    (0.25, 0.75, True)
    >>> BitRows.of(1, 2, 4).symmetric
    False
    """

    low: float
    high: float
    not_low: float
    not_high: float
    likelihoods: Likelihoods
    blanket: Likelihoods

    @classmethod
    def response(cls, local_epsilon: float) -> "BitRows":
        """Return those of binary randomized response."""
        small = math.exp(-local_epsilon)
        low = small / (1 + small)
        high = 1 / (1 + small)
        support = response(2, local_epsilon)
        return cls(low, high, high, low, support.homogeneous[-1], support.blanket[0])

    @classmethod
    def of(cls, fewest: int, most: int, total: int) -> "BitRows":
        """Return those of inputs that have so many ones out of a total, 0 < fewest < most < total."""
        not_fewest = total - fewest
        not_most = total - most
        ones = (fewest, most, fewest)
        known = IntegerLikelihoods.of([(not_fewest, not_most, not_fewest), ones], total)
        blanket = IntegerLikelihoods.of([(not_fewest, not_most, not_most), ones], total)
        return cls(fewest / total, most / total, not_fewest / total, not_most / total, known, blanket)

    @property
    def rows(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The probabilities of a one and of a zero, of either extreme input."""
        return (self.low, self.not_low), (self.high, self.not_high)

    @property
    def exchanged(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The same with zeros and ones exchanged: the least probability of a zero is first."""
        return (self.not_high, self.high), (self.not_low, self.low)

    @cached_property
    def symmetric(self) -> bool:
        """Whether zeros and ones may be exchanged."""
        return self.low == self.not_high and self.high == self.not_low

    @cached_property
    def reach(self) -> float:
        """The largest log ratio of two probabilities of the same bit: from this ε on, δ is zero."""
        return max(self.likelihoods.reach, self.likelihoods.swapped.reach)

    def counts(self, reports: int, epsilon: float) -> tuple[BitCount, ...]:
        """Return what δ(ε) is the largest value of: once for zeros, and once for ones if that is something else."""
        excess = math.expm1(epsilon)
        result = []
        gain = self.likelihoods.advantage(epsilon)
        if gain > 0:
            result.append(BitCount(reports - 1, self.low, self.high, self.not_low, self.not_high, gain, excess))
        if not self.symmetric:
            gain = self.likelihoods.swapped.advantage(epsilon)
            if gain > 0:
                result.append(BitCount(reports - 1, self.not_high, self.not_low, self.high, self.low, gain, excess))
        return tuple(result)
