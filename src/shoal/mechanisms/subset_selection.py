"""Subset selection: a random set of categories, more likely one that contains the truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import BoolArray, ByteArray, IntArray, WordArray
from shoal.checks import store, whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Selection, Triples
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.mechanism import MOST_OUTPUTS, Reports
from shoal.mechanisms.packed_bits import bits_at, check_spare, column_sums, random_sets
from shoal.pairs.registry import register

_FEW = 20
"""Sets of d out of k with d² ≤ 20·k are drawn one member after the other: it is faster."""
_PART = 1 << 24
"""How many bits of sets to draw at once."""


@register("subset-selection", "a set of categories, rather one that contains the truth", code=6, planned=4)
@dataclass(frozen=True, kw_only=True)
class SubsetSelection(Selection):
    """The mechanism that reports a set of d categories, e^ε₀ times as often one that contains the true category.

    Ye and Barg, IEEE Transactions on Information Theory 2018; d = 1 is randomized response. A report is the list of the
    members in ascending order, so that the order tells nothing; or, where that is shorter, a bit for each category.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    size : int, optional
        d, from 1 to k − 1; if it is not given, ⌈k/(e^ε₀ + 1)⌉, about the best for frequencies.

    Examples
    --------
    >>> SubsetSelection(categories=100, local_epsilon=2)
    SubsetSelection(categories=100, local_epsilon=2.0, size=12)
    """

    size: int | None = None

    def settle(self) -> None:
        """Check the size, or choose about the best."""
        if self.size is None:
            small = math.exp(-self.local_epsilon)
            best = math.ceil(self.categories * small / (1 + small))
            store(self, size=min(max(1, best), self.categories - 1))
        size = whole(size=self.size)
        if size >= self.categories:
            raise ParameterError(
                f"size must be less than categories={self.categories}, got {size}; "
                "the set of all categories says nothing",
                "size",
            )
        store(self, size=size)

    @property
    def subset_size(self) -> int:
        """How many categories are reported, d."""
        return self.size or 1

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield those with sets of up to half of all categories, the larger ones in steps."""
        size = 1
        while size <= max(1, categories // 2):
            yield {"size": size}, cls._layout(categories, size)
            size = max(size + 1, size * 21 // 20)

    @staticmethod
    def _layout(categories: int, size: int) -> Design:
        pairs = categories * (categories - 1)
        return Design(
            outputs=pairs,
            supporting=size * (categories - 1),
            common=size * (size - 1),
        )

    @cached_property
    def design(self) -> Design:
        """Of all sets, d/k contain a category; of those, (d − 1)/(k − 1) another one: in the smallest whole numbers."""
        return self._layout(self.categories, self.subset_size)

    @property
    def _triples(self) -> Triples:
        inside = self.subset_size
        every = self.categories
        outside = every - inside
        if every < 3:
            return ()
        threes = every * (every - 1) * (every - 2)
        none_of_them = outside * (outside - 1) * (outside - 2) / threes
        first_only = inside * outside * (outside - 1) / threes
        first_two = inside * (inside - 1) * outside / threes
        all_of_them = inside * (inside - 1) * (inside - 2) / threes
        return ((none_of_them, first_only, first_two, all_of_them),)

    @property
    def cells(self) -> int:
        """One for each category."""
        return self.categories

    @property
    def _width(self) -> int:
        """How many bits the number of a category has."""
        return (self.categories - 1).bit_length()

    @property
    def bits_per_report(self) -> int:
        """One for each category, or ⌈log₂ k⌉ for each member, whichever is less."""
        return min(self.categories, self.subset_size * self._width)

    @property
    def blank(self) -> Reports:
        """No report at all: a row for each report, with a column for each member, or for eight categories."""
        if self.categories > MOST_OUTPUTS:
            raise ParameterError(f"{self!r} can be run with up to 2**32 categories")
        if self._as_bits:
            return np.empty((0, self.bytes_per_report), np.uint8)
        return np.empty((0, self.subset_size), np.uint32)

    def report(self, values: IntArray, coins: Coins) -> Reports:
        """Return a set for each value."""
        step = max(1, _PART // self.categories)
        draw = self._members if self.subset_size**2 <= _FEW * self.categories else self._bits
        parts = [draw(values[start : start + step], coins) for start in range(0, len(values), step)]
        return np.concatenate(parts)

    def _bits(self, values: IntArray, coins: Coins) -> Reports:
        """Draw sets as rows of bits; of more than half of all categories, those that are not in them."""
        size = self.subset_size
        every = self.categories
        own = self._truthful(len(values), coins)
        members = np.where(own, values, -1)
        if 2 * size <= every:
            rows = random_sets(size, members, every, coins)
        else:  # a set without the truth is one with it, and one larger, from which it is taken
            rows = np.empty((len(values), -(-every // 8)), np.uint8)
            rows[~own] = random_sets(every - size, members[~own], every, coins)
            rows[own] = random_sets(every - size + 1, members[own], every, coins)
            truth = values[own]
            shifts = (truth & 7).astype(np.uint8)
            rows[own, truth >> 3] ^= np.left_shift(np.uint8(1), shifts)
            rows ^= np.uint8(0xFF)
            rows[:, -1] &= np.uint8(0xFF >> -every % 8)
        return rows if self._as_bits else self._listed(rows)

    def _listed(self, rows: ByteArray) -> Reports:
        """Return the members of sets that are rows of bits."""
        bits = np.unpackbits(rows, axis=1, count=self.categories, bitorder="little")
        _, members = np.nonzero(bits)
        return members.reshape(-1, self.subset_size).astype(np.uint32)

    def _members(self, values: IntArray, coins: Coins) -> Reports:
        """Draw all members from all categories, or d − 1 of them from all but the truth."""
        size = self.subset_size
        sets = self._subsets(self.categories, size, len(values), coins)
        own = np.flatnonzero(self._truthful(len(values), coins))
        truth = values[own].astype(np.uint64)[:, None]
        others = self._subsets(self.categories - 1, size - 1, len(own), coins)
        others += others >= truth  # the truth itself is left out
        sets[own] = np.concatenate([others, truth], axis=1)
        sets.sort(axis=1)
        if not self._as_bits:
            return sets.astype(np.uint32)
        bits = np.zeros((len(sets), self.categories), np.uint8)
        np.put_along_axis(bits, sets.astype(np.int64), 1, axis=1)
        return np.packbits(bits, axis=1, bitorder="little")

    @staticmethod
    def _subsets(every: int, size: int, count: int, coins: Coins) -> WordArray:
        """Return sets of this size, all equally likely, in any order."""
        members = np.empty((size, count), np.uint64)
        for position in range(size):  # Floyd's way: draw among the first few more, and on a repeat take the last
            last = every - size + position
            drawn = coins.below(last + 1, count)
            seen = (members[:position] == drawn).any(axis=0)
            members[position] = np.where(seen, last, drawn)
        return members.T.copy()

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether each report contains the category next to it."""
        if self._as_bits:
            return bits_at(reports, values)
        members = np.equal(reports, np.asarray(values)[..., None])
        return np.asarray(members.any(axis=-1))

    def _checked(self, reports: ArrayLike) -> Reports:
        result = super()._checked(reports)
        if self._as_bits:
            check_spare(result, self.categories)
            fine = np.bitwise_count(result).sum(axis=1, dtype=np.int64) == self.subset_size
        else:
            inside = (result[:, 0] >= 0) & (result[:, -1] < self.categories)
            rising = (result[:, 1:] > result[:, :-1]).all(axis=1)
            fine = inside & rising
        if not fine.all():
            position = int(np.flatnonzero(~fine)[0])
            raise ParameterError(
                f"reports[{position}] is no set of {self.subset_size} of {self.categories} categories, "
                + ("a bit for each" if self._as_bits else "in ascending order")
            )
        return result

    def tally(self, reports: Reports) -> IntArray:
        """Return how many sets contain each category."""
        if self._as_bits:
            return column_sums(reports, self.categories)
        return np.bincount(reports.ravel(), minlength=self.categories)

    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether this number of reports can have these counts: d each."""
        members = sum(values.tolist())
        return bool(members == self.subset_size * reports and values.max() <= reports)

    @property
    def _as_bits(self) -> bool:
        """Whether a bit for each category is shorter than the list."""
        return self.categories <= self.subset_size * self._width

    def to_rows(self, reports: Reports) -> ByteArray:
        """Return a bit for each category, or the numbers of the members."""
        if self._as_bits:
            return reports
        indices = np.arange(self._width, dtype=reports.dtype)
        bits = (reports[:, :, None] >> indices & 1).astype(np.uint8)
        rows = bits.reshape(len(reports), self.bits_per_report)
        return np.packbits(rows, axis=1, bitorder="little")

    def from_rows(self, rows: ByteArray) -> Reports:
        """Return the sets, checked."""
        if self._as_bits:
            return self._checked(rows.copy())
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        spare = bits[:, self.bits_per_report :].any(axis=1)
        if spare.any():
            position = int(np.flatnonzero(spare)[0])
            raise ParameterError(f"report {position} has bits set beyond its last member")
        places = np.arange(self._width, dtype=np.uint32)
        weights = np.left_shift(np.uint32(1), places)
        used = bits[:, : self.bits_per_report]
        members = used.reshape(len(rows), self.subset_size, self._width)
        return self._checked((members * weights).sum(axis=2, dtype=np.uint32))
