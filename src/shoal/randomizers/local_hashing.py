"""Local hashing (OLH): a random hash function, and the bucket that it has for the truth, by randomized response."""

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.checks import whole
from shoal.randomizers.affine import Affine, orders
from shoal.randomizers.design import Design
from shoal.randomizers.finite_field import check_prime
from shoal.randomizers.registry import register

__all__ = ["LocalHashing"]


@register(
    "local-hashing",
    "a random hash function, and a bucket, rather that of the truth",
    code=7,
    planned=6,
)
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
        if self.buckets is None:
            buckets = self._best(self.categories, self.local_epsilon)["buckets"]
        else:
            buckets = check_prime(whole(buckets=self.buckets), "buckets")
        object.__setattr__(self, "buckets", buckets)

    @classmethod
    def designs(cls, categories: int) -> Iterator[tuple[dict[str, int], Design]]:
        """Yield one for every prime."""
        for order in orders(categories):
            yield {"buckets": order}, cls._layout(categories, order, 1)

    @property
    def _order(self) -> int:
        return self.buckets or 2
