"""k-ary randomized response: tell the truth, or a category drawn at random."""

import math
from dataclasses import dataclass

from shoal.randomizers.categorical import Categorical
from shoal.randomizers.decomposition import Decomposition
from shoal.randomizers.support import Support

__all__ = ["RandomizedResponse"]


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Categorical):
    """The mechanism that reports the true category e^ε₀ times as often as any other one.

    Parameters
    ----------
    categories : k ≥ 2.
    local_epsilon : ε₀ > 0.

    Examples
    --------
    >>> RandomizedResponse(categories=3, local_epsilon=1).truth_chance
    0.5761168847658291
    """

    @property
    def truth_chance(self) -> float:
        """The probability e^ε₀/(e^ε₀ + k − 1) of reporting the truth."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.local_epsilon))

    @property
    def decomposition(self) -> Decomposition:
        """What Theorem 4.1 needs, by the proof of the corollary for k-RR; both chances rounded to the safe side.

        q = (e^ε₀ − 1)/(e^ε₀ + k − 1) and p = k/((k + 1)(e^ε₀ + k − 1)).
        """
        small = math.exp(-self.local_epsilon)
        weight = 1 + (self.categories - 1) * small
        own = -math.expm1(-self.local_epsilon) / weight * (1 + 2.0**-50)
        blanket = self.categories * small / ((self.categories + 1) * weight) * (1 - 2.0**-48)
        return Decomposition(blanket_chance=blanket, own_chance=min(own, 1.0), local_epsilon=self.local_epsilon)

    @property
    def _support(self) -> Support:
        """Every category supports itself."""
        share = 1 / self.categories
        triples = (((self.categories - 3) * share, share, 0.0, 0.0),) if self.categories >= 3 else ()
        return Support(self.local_epsilon, (self.categories - 2) * share, share, triples=triples)
