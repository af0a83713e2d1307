"""The Cornish-Fisher expansion, solved for how many people hold a category: quantiles of a count from its cumulants."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sum", "quantile"]

Floats = NDArray[np.float64]

_ROUNDS = 2
"""How often the equation is solved: with the normal quantile, and with that of the expansion at the solution."""


def quantile(normal: Floats | float, variance: Floats | float, third: Floats, fourth: Floats) -> Floats:
    """Return a quantile in units of the standard deviation, from the cumulants and the normal one."""
    skewness, excess = third / variance**1.5, fourth / (variance * variance)
    result = normal + skewness * ((normal**2 - 1) / 6) - skewness * skewness * ((2 * normal**3 - 5 * normal) / 36)
    return np.asarray(result + excess * ((normal**3 - 3 * normal) / 24), np.float64)


@dataclass(frozen=True)
class Sum:
    """A sum over people, m of whom are of one kind.

    Attributes
    ----------
    scale : float
        What each of the m adds to the mean.
    fixed, slopes : Floats
        The second, third and fourth cumulant at m = 0, and by how much they grow with m.
    total : Floats or float
        The largest m.
    """

    scale: float
    fixed: Floats
    slopes: Floats
    total: Floats | float

    def crossing(self, gap: Floats, normal: Floats | float, side: float = 1.0) -> tuple[Floats, Floats]:
        """Return the m at which what was counted is a quantile, and the variance there.

        Parameters
        ----------
        gap : Floats
            What was counted, less the mean at m = 0.
        normal : Floats or float
            The upper quantile of the normal distribution.
        side : float
            1 for the upper quantile of the sum, −1 for the lower one.
        """
        near = np.clip(gap / self.scale, 0, self.total)
        at_near = self.fixed[0] + self.slopes[0] * near
        factor = normal
        for _ in range(_ROUNDS):
            half = factor * (self.slopes[0] / (2 * self.scale))
            result = near + factor / self.scale * (half - side * np.sqrt(np.maximum(half * half + at_near, 0)))
            inside = np.clip(result, 0, self.total)
            variance = self.fixed[0] + self.slopes[0] * inside
            third, fourth = (self.fixed[position] + self.slopes[position] * inside for position in (1, 2))
            # With a variance below 1 it is no more than a guess.
            factor = quantile(normal, np.maximum(variance, 1.0), side * third, fourth)
            factor = np.clip(factor, normal / 2, 2 * normal + 1)
        return result, variance
