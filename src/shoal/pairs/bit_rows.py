"""Reports of one bit: the two inputs that have a one the least and the most often."""

import math
from dataclasses import dataclass
from functools import cached_property

from shoal.numerics.bit_count import BitCount
from shoal.pairs.integer_likelihoods import IntegerLikelihoods
from shoal.pairs.likelihoods import Likelihoods, response

__all__ = ["BitRows"]


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
        low, high = small / (1 + small), 1 / (1 + small)
        support = response(2, local_epsilon)
        return cls(low, high, high, low, support.homogeneous[-1], support.blanket[0])

    @classmethod
    def of(cls, fewest: int, most: int, total: int) -> "BitRows":
        """Return those of inputs that have so many ones out of a total, 0 < fewest < most < total."""
        zeros = total - fewest, total - most
        known = IntegerLikelihoods.of([(zeros[0], zeros[1], zeros[0]), (fewest, most, fewest)], total)
        blanket = IntegerLikelihoods.of([(zeros[0], zeros[1], zeros[1]), (fewest, most, fewest)], total)
        return cls(fewest / total, most / total, zeros[0] / total, zeros[1] / total, known, blanket)

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
        excess, result = math.expm1(epsilon), []
        gain = self.likelihoods.advantage(epsilon)
        if gain > 0:
            result.append(BitCount(reports - 1, self.low, self.high, self.not_low, self.not_high, gain, excess))
        if not self.symmetric:
            gain = self.likelihoods.swapped.advantage(epsilon)
            if gain > 0:
                result.append(BitCount(reports - 1, self.not_high, self.not_low, self.high, self.low, gain, excess))
        return tuple(result)
