"""Basic RAPPOR: one bit a category, each flipped with the same chance."""

import math
from dataclasses import dataclass

from shoal.randomizers.categorical import Categorical
from shoal.randomizers.support import Support
from shoal.randomizers.unary_encoding import bits

__all__ = ["Rappor"]


@dataclass(frozen=True, kw_only=True)
class Rappor(Categorical):
    """The mechanism that reports a bit for each category, each one flipped with chance 1/(e^(ε₀/2) + 1).

    This is the one-time, symmetric unary encoding (Erlingsson, Pihur and Korolova, CCS 2014). All bits of a person
    travel as one report.

    Parameters
    ----------
    categories : k ≥ 2, the number of bits.
    local_epsilon : ε₀ > 0, for two categories; each bit has half of it.

    Examples
    --------
    >>> round(Rappor(categories=10, local_epsilon=2).noise_chance, 6)
    0.268941
    """

    @property
    def noise_chance(self) -> float:
        """The chance 1/(e^(ε₀/2) + 1) that a bit is flipped."""
        small = math.exp(-self.local_epsilon / 2)
        return small / (1 + small)

    @property
    def _support(self) -> Support:
        return bits(self.local_epsilon, self.categories, -self.local_epsilon / 2)
