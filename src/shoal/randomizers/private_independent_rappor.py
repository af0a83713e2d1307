"""PI-RAPPOR: the bits of RAPPOR, only pairwise independent, so that a short seed has them all."""

from collections.abc import Iterator
from dataclasses import dataclass

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.randomizers.affine import Affine, orders
from shoal.randomizers.design import Design
from shoal.randomizers.finite_field import check_prime
from shoal.randomizers.registry import register

__all__ = ["PrivateIndependentRappor"]

_WIDEST = 5


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
        if (self.order is None) != (self.window is None):
            raise ParameterError("give both order and window, or neither")
        if self.order is None:
            best = self._best(self.categories, self.local_epsilon)
            order, window = best["order"], best["window"]
        else:
            order, window = check_prime(whole(order=self.order), "order"), whole(window=self.window)
        if window >= order:
            raise ParameterError(f"window must be less than order={order}, got {window}", parameter="window")
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "window", window)

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
