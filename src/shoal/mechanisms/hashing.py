"""Mechanisms that hash: a report is a linear map and a bucket, and supports what is mapped to it or to its window.

Local hashing (OLH) is a random hash function, and the bucket that it has for the truth, by randomized response.
PI-RAPPOR has the bits of RAPPOR, only pairwise independent, so that a short seed has them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import BoolArray, IntArray, WordArray
from shoal.checks import store, whole
from shoal.errors import ParameterError
from shoal.estimation.design import Design
from shoal.mechanisms.categorical import Indexed, Supported, Triples
from shoal.mechanisms.coins import Coins
from shoal.mechanisms.finite_field import check_prime, digits, largest_transform, primes, product, spectrum_of
from shoal.mechanisms.mechanism import Reports
from shoal.pairs.registry import register

_WIDEST = 5
"""The widest window that `plan` tries."""


def dimension_of(categories: int, order: int) -> int:
    """Return the smallest t with q^t ≥ k."""
    dimension = 1
    while order**dimension < categories:
        dimension += 1
    return dimension


def orders(categories: int) -> Iterator[int]:
    """Yield the primes with which this number of categories can be decoded fast."""
    for order in primes(int(largest_transform**0.5)):
        if order ** (dimension_of(categories, order) + 1) <= largest_transform:
            yield order


@dataclass(frozen=True, kw_only=True)
class Affine(Indexed):
    """A report is a seed, one of the q^t linear maps of F_q^t to F_q, and a value of it, its bucket.

    Category x, written in base q, is a vector. The report supports it if the seed maps it to the bucket, or to one of
    the m − 1 next above it. Any two categories are supported by a share (m/q)² of all reports.
    """

    @property
    def _order(self) -> int:
        raise NotImplementedError

    @property
    def _window(self) -> int:
        return 1

    @cached_property
    def _dimension(self) -> int:
        return dimension_of(self.categories, self._order)

    @cached_property
    def design(self) -> Design:
        """Two categories are supported independently."""
        return self._layout(self.categories, self._order, self._window)

    @staticmethod
    def _layout(categories: int, order: int, window: int) -> Design:
        seeds = order ** dimension_of(categories, order)
        return Design(
            outputs=seeds * order,
            supporting=window * seeds,
            common=window**2 * seeds // order,
        )

    @property
    def _triples(self) -> Triples:
        """Three categories are supported independently if they are on no line, as 0, 1 and q are."""
        if self.categories <= self._order:
            return ()
        share = self._window / self._order
        rest = 1 - share
        return ((rest**3, share * rest**2, share**2 * rest, share**3),)

    def own(self, values: Reports, uniform: Reports, coins: Coins) -> Reports:
        """Return the seed of the uniform output, with the bucket to which it maps the value."""
        order = np.uint64(self._order)
        seeds = uniform // order
        image = self._image(seeds, values.astype(np.uint64))
        if self._window > 1:
            image = (image + order - coins.below(self._window, len(values))) % order
        return np.asarray(seeds * order + image, values.dtype)

    def _image(self, seeds: WordArray, values: WordArray) -> WordArray:
        maps = digits(seeds, self._order, self._dimension)
        vectors = digits(values, self._order, self._dimension)
        return product(maps, vectors, self._order)

    def supports(self, reports: Reports, values: ArrayLike) -> BoolArray:
        """Return whether the seed of each report maps the category next to it to the bucket, or just above."""
        order = np.uint64(self._order)
        seeds, buckets = np.divmod(np.asarray(reports, np.uint64), order)
        image = self._image(seeds, np.asarray(values, np.uint64))
        return (image + order - buckets) % order < np.uint64(self._window)

    def supported(self, cells: IntArray, reports: int) -> Supported:
        """Sum over the characters of the field: [⟨s, x⟩ = b] is the mean of ω^(a(⟨s, x⟩ − b)) over all a."""
        order = self._order
        dimension = self._dimension
        table = cells.reshape(-1, order).T
        wide = sum(np.roll(table, shift, axis=0) for shift in range(self._window))  # row b: b is in the window
        waves = np.fft.fft(wide, axis=0)
        vectors = digits(np.arange(self.categories, dtype=np.uint64), order, dimension)
        total = np.full(self.categories, self._window * float(reports))
        for character in range(1, order // 2 + 1):
            # The wave has ω^(−ab) in it; the transform over the seeds, read at −a·x, has ω^(a⟨s, x⟩).
            spectrum = spectrum_of(waves[character][None, :], order, dimension)[0]
            position = np.zeros(self.categories, np.uint64)
            for power, digit in enumerate(vectors):
                turned = np.uint64(order - character) * digit % np.uint64(order)
                position += turned * np.uint64(order**power)
            real = spectrum[position.astype(np.int64)].real
            total += real if 2 * character == order else 2 * real
        return np.rint(total / order), np.full(1, float(reports))


@register("local-hashing", "a random hash function, and a bucket, rather that of the truth", code=7, planned=6)
@dataclass(frozen=True, kw_only=True)
class LocalHashing(Affine):
    """The mechanism that hashes the category into g buckets, and runs randomized response over them.

    Known as OLH (Wang, Blocki, Li and Jha, USENIX Security 2017). The hash functions are the linear maps over the field
    of g elements, g^t of them, where g^t is the power next above k. So few, and yet any two categories collide under
    exactly one in g of them: the estimate is unbiased, and decoding takes one transform, not a pass over all reports
    for each category (docs/theory/frequency.md, statement 3).

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    buckets : int, optional
        g, a prime; if it is not given, the best one, about e^ε₀ + 1.

    Examples
    --------
    >>> LocalHashing(categories=1000, local_epsilon=2)
    LocalHashing(categories=1000, local_epsilon=2.0, buckets=7)
    """

    buckets: int | None = None

    def settle(self) -> None:
        """Check the buckets, or choose the best."""
        self._choose("buckets")
        store(self, buckets=check_prime(whole(buckets=self.buckets), "buckets"))

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield one for every prime."""
        for order in orders(categories):
            yield {"buckets": order}, cls._layout(categories, order, 1)

    @property
    def _order(self) -> int:
        return self.buckets or 2


@register(
    "private-independent-rappor",
    "a seed of bits that are pairwise independent, one for each category",
    code=5,
    planned=7,
)
@dataclass(frozen=True, kw_only=True)
class PrivateIndependentRappor(Affine):
    """The mechanism that reports an affine map over a field; the bit of a category is set where it is mapped near 0.

    Feldman and Talwar, ICML 2021. A bit is set with probability m/q, independently for any two categories, and e^ε₀
    times as often, in odds, for the true one. With m = 1 it is `LocalHashing`.

    Parameters
    ----------
    categories : int
        k ≥ 2.
    local_epsilon : float
        ε₀ > 0.
    order, window : int, optional
        q, a prime, and m < q; if they are not given, the best ones, with m/q about 1/(e^ε₀ + 1).

    Examples
    --------
    >>> PrivateIndependentRappor(categories=1000, local_epsilon=1)
    PrivateIndependentRappor(categories=1000, local_epsilon=1.0, order=7, window=2)
    """

    order: int | None = None
    window: int | None = None

    def settle(self) -> None:
        """Check the order and the window, or choose the best."""
        self._choose("order", "window")
        order = check_prime(whole(order=self.order), "order")
        window = whole(window=self.window)
        if window >= order:
            raise ParameterError(f"window must be less than order={order}, got {window}", "window")
        store(self, order=order, window=window)

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield a few for every prime, from one half of all values downward."""
        for order in orders(categories):
            for window in range(1, min(order // 2, _WIDEST) + 1):
                yield {"order": order, "window": window}, cls._layout(categories, order, window)

    @property
    def _order(self) -> int:
        return self.order or 2

    @property
    def _window(self) -> int:
        return self.window or 1
