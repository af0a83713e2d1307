"""The distribution of W: what every bound of shuffling reduces to.

With the victim's report drawn from R₀ or R₁ and everybody else's from Rⱼ, put W = (R₀(Y) − e^ε·R₁(Y)) / Rⱼ(Y) for Y ~
Rⱼ. Then δ(ε) = E[(W₁ + … + Wₙ)₊] / n, for independent copies of W (docs/theory/strong-clones.md, the identity). A
bound is thus a distribution with a few values, and its mean is always 1 − e^ε.

The two outer values of W are equally important everywhere below, so a distribution is stored in units of their
distance.
"""

import math
from dataclasses import dataclass

__all__ = ["Distribution"]


@dataclass(frozen=True)
class Distribution:
    """A distribution of W with a few values, scaled so that its first two values lie exactly one apart.

    Attributes
    ----------
    reports : int
        n, how many independent copies are added.
    scale : float
        δ(ε) = scale · E[(sum)₊]; the distance of the two outer values of W, over n.
    values : tuple of float
        Of the scaled W; values[0] − values[1] = 1.
    probabilities : tuple of float
        Their probabilities, summing to one (what is missing has the value 0).
    mean : float
        Of the scaled W, known in closed form and hence to full relative accuracy.
    zero : float, optional
        The probability of the value zero, where it is known better than by what the others leave of one.
    """

    reports: int
    scale: float
    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    mean: float
    zero: float | None = None

    @property
    def missing(self) -> float:
        """The probability of the value zero: if it is not known, what the others leave, to the last digit."""
        return max(0.0, -math.fsum((*self.probabilities, -1.0))) if self.zero is None else self.zero

    @property
    def spread(self) -> float:
        """The root of the second moment of the sum, if its copies had mean zero."""
        second = sum(probability * value**2 for probability, value in zip(self.probabilities, self.values, strict=True))
        return math.sqrt(self.reports * second)
