"""Unary encoding, optimized (OUE) or symmetric (basic RAPPOR): one bit for each category."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import BoolArray, ByteArray, IntArray
from shoal.errors import ParameterError
from shoal.estimation.design import Moments
from shoal.mechanisms.categorical import Categorical, Triples
from shoal.mechanisms.coins import WHOLE, Coins, logarithm_above, share_below
from shoal.mechanisms.mechanism import Reports
from shoal.mechanisms.packed_bits import bits_at, check_spare, column_sums, independent_bytes
from shoal.pairs.likelihoods import Support
from shoal.pairs.registry import register
from shoal.proofs.blanket_claim import SupportClaim

_PART = 1 << 21
"""How many bits to draw at once."""


@register("unary-encoding", "one bit for each category, that of the truth set half the time", code=8, planned=8)
@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Categorical):
    """The mechanism that reports a bit for each category: the true one is 1 half the time, another 1/(e^ε₀ + 1).

    Known as optimized unary encoding or OUE (Wang, Blocki, Li and Jha, USENIX Security 2017). The symmetric one flips
    each bit with probability 1/(e^(ε₀/2) + 1): basic RAPPOR. All bits of a person travel as one report.

    Parameters
    ----------
    categories : int
        k ≥ 2, the number of bits.
    local_epsilon : float
        ε₀ > 0, for two categories; in the symmetric encoding, each bit has half of it.
    symmetric : bool
        Whether all bits are flipped with the same probability.

    Examples
    --------
    >>> round(UnaryEncoding(categories=10, local_epsilon=1).noise_probability, 6)
    0.268941
    """

    symmetric: bool = False

    def settle(self) -> None:
        """Check the kind."""
        if not isinstance(self.symmetric, bool):
            raise ParameterError(f"symmetric must be True or False, got {self.symmetric!r}", "symmetric")

    @property
    def _bit_epsilon(self) -> float:
        return self.local_epsilon / 2 if self.symmetric else self.local_epsilon

    @property
    def resolution(self) -> int:
        """How many coins there are to compare with."""
        return WHOLE

    @cached_property
    def flip(self) -> int:
        """How many of 2⁶⁴ coins set the bit of another category: the fewest that keep ε₀."""
        # K of all coins clear it, with K/(2⁶⁴ − K) ≤ e^ε: half of them and half of tanh(ε/2), which is x/(1 + x) for
        # x = (e^ε − 1)/2.
        return WHOLE - (WHOLE + share_below(self._bit_epsilon, Fraction(1, 2))) // 2

    @cached_property
    def exact_epsilon(self) -> float:
        """The ε₀ of the threshold, rounded up; 0 if it is too small for any coin."""
        bit = Fraction(WHOLE - self.flip, self.flip)
        if bit <= 1:
            return 0.0
        return logarithm_above(bit**2 if self.symmetric else bit)

    @property
    def noise_probability(self) -> float:
        """The probability that the bit of another category is set."""
        return self.flip / WHOLE

    @property
    def moments(self) -> Moments:
        """How often the bit of the true category is set, and that of another."""
        noise = self.noise_probability
        own = 1 - noise if self.symmetric else 0.5
        another = (noise, 1.0)
        return Moments(own=(own, 1.0), same=another, other=another, overlap=0.0)

    @property
    def support(self) -> tuple[Support, ...]:
        """Return how independent bits support the categories, each set with odds e^−ε : 1 unless it is the true one.

        All bits set is the only output that supports every category. It is part of the blanket in full, which makes
        the blanket a little larger than one that is the same for any number of categories.
        """
        small = math.exp(-self._bit_epsilon)
        clear = 1 / (1 + small)
        set_ = small * clear
        log_set = -self._bit_epsilon - math.log1p(small)
        every = math.exp(self.categories * log_set)
        some = -(set_**2) * math.expm1((self.categories - 2) * log_set)
        triples: Triples = ()
        if self.categories >= 3:
            triples = ((clear**3, set_ * clear**2, set_**2 * clear, set_**3),)
        return (Support(self.local_epsilon, clear**2, set_ * clear, some, every, triples),)

    def claim(self, reports: int) -> SupportClaim | None:
        """Return what a certificate of n reports claims; nothing for a subclass, whose bits may be others."""
        if type(self) not in (UnaryEncoding, Rappor):
            return None
        name = "rappor" if self.symmetric else "unary-encoding"
        return SupportClaim(reports, self.local_epsilon, name, {"categories": self.categories})

    @property
    def cells(self) -> int:
        """One for each category."""
        return self.categories

    @property
    def bits_per_report(self) -> int:
        """One for each category."""
        return self.categories

    @property
    def blank(self) -> Reports:
        """No report at all: a row of bytes for each report."""
        return np.empty((0, self.bytes_per_report), np.uint8)

    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return the bits for each value, eight to a byte."""
        step = max(1, _PART // self.categories)
        parts = [self._bits(values[start : start + step], coins) for start in range(0, len(values), step)]
        return np.concatenate(parts)

    def _bits(self, values: IntArray, coins: Coins) -> Reports:
        """Draw all bits as those of other categories, and then set those of the truth."""
        count, width = len(values), self.bytes_per_report
        bits = independent_bytes(self.flip, count * width, coins).reshape(count, width)
        bits[:, -1] &= np.uint8(0xFF >> -self.categories % 8)
        length = -(-count // 8)
        own = independent_bytes(self.flip, length, coins) if self.symmetric else coins.words(-(-length // 8))
        own_bits = np.unpackbits(own.view(np.uint8), bitorder="little")[:count]
        own_bits ^= np.uint8(self.symmetric)  # a flip clears the bit of the truth
        people = np.arange(count)
        positions = values // 8
        shifts = (values % 8).astype(np.uint8)
        cleared = bits[people, positions] & ~np.left_shift(np.uint8(1), shifts)
        bits[people, positions] = cleared | np.left_shift(own_bits, shifts)
        return bits

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report has the bit of the category next to it set."""
        return bits_at(reports, values)

    def _checked(self, reports: ArrayLike) -> Reports:
        result = super()._checked(reports)
        check_spare(result, self.categories)
        return result

    def tally(self, reports: Reports) -> IntArray:
        """Return how often each bit was set."""
        return column_sums(reports, self.categories)

    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether this number of reports can have these counts: no bit is set more often."""
        return bool(values.max() <= reports)

    def to_rows(self, reports: Reports) -> ByteArray:
        """Return the bytes as they are."""
        return reports

    def from_rows(self, rows: ByteArray) -> Reports:
        """Return the bytes, checked."""
        return self._checked(rows.copy())


@register("rappor", "one bit for each category, all flipped with the same probability", code=9)
@dataclass(frozen=True, kw_only=True)
class Rappor(UnaryEncoding):
    """The symmetric unary encoding, known as basic one-time RAPPOR (Erlingsson, Pihur and Korolova, CCS 2014).

    Examples
    --------
    >>> round(Rappor(categories=10, local_epsilon=2).noise_probability, 6)
    0.268941
    """

    symmetric: bool = True

    def settle(self) -> None:
        """Refuse any other kind than the symmetric one."""
        if self.symmetric is not True:
            raise ParameterError(f"Rappor is symmetric; UnaryEncoding takes symmetric={self.symmetric!r}")
