"""Optimized unary encoding: one bit a category; the true one is a fair coin, the others are rarely set."""

import math
from dataclasses import dataclass

from shoal.randomizers.categorical import Categorical
from shoal.randomizers.support import Support

__all__ = ["UnaryEncoding", "bits"]


def bits(local_epsilon: float, categories: int, odds: float) -> Support:
    """Return how independent bits support the categories, each set with odds e^odds : 1 unless it is the true one.

    All bits set is the only output that supports every category. It is part of the blanket in full, which makes the
    blanket a little larger than one that is the same for any number of categories.
    """
    small = math.exp(odds)
    clear = 1 / (1 + small)
    set_ = small * clear
    log_set = odds - math.log1p(small)
    some = -(set_**2) * math.expm1((categories - 2) * log_set)
    triples = ((clear**3, set_ * clear**2, set_**2 * clear, set_**3),) if categories >= 3 else ()
    return Support(local_epsilon, clear**2, set_ * clear, some, math.exp(categories * log_set), triples)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Categorical):
    """The mechanism that reports a bit for each category: the true one is 1 half the time, another 1/(e^ε₀ + 1).

    Known as optimized unary encoding or OUE (Wang, Blocki, Li and Jha, USENIX Security 2017). All bits of a person
    travel as one report.

    Parameters
    ----------
    categories : k ≥ 2, the number of bits.
    local_epsilon : ε₀ > 0.

    Examples
    --------
    >>> round(UnaryEncoding(categories=10, local_epsilon=1).noise_chance, 6)
    0.268941
    """

    @property
    def noise_chance(self) -> float:
        """The chance 1/(e^ε₀ + 1) that the bit of another category is set."""
        small = math.exp(-self.local_epsilon)
        return small / (1 + small)

    @property
    def _support(self) -> Support:
        return bits(self.local_epsilon, self.categories, -self.local_epsilon)
