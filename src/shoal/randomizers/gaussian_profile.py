"""The privacy blanket of Gaussian noise, which has no ε₀ of its own."""

import math
from dataclasses import dataclass
from functools import lru_cache

from shoal.checks import SMALLEST_DELTA
from shoal.losses.gaussian_blanket import gaussian_alone, gaussian_blanket, gaussian_spread
from shoal.pairs import gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.searches import bisect_safe, doubled, smallest_safe

__all__ = ["GaussianProfile"]

_LEAST = 0.2
"""With less noise than this, no amplification is claimed."""
_FINENESS = 0.5
"""Twice as fine would lower δ by about 1e-5 of itself."""


@dataclass(frozen=True)
class GaussianProfile(UpperProfile):
    """The profile of n values in [0, 1], each with normal noise of this standard deviation.

    Below a deviation of 0.2 it is that of one report alone.
    """

    reports: int
    deviation: float

    no_bracket = "the blanket of Gaussian noise is computed from above only; `lower` says what real inputs reach"
    no_renyi = "the Rényi divergence of the blanket of Gaussian noise is not computed; use epsilon or delta"

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than one report alone has."""
        if math.isinf(epsilon):
            return 0.0
        alone = max(gaussian_alone(self.deviation, epsilon), SMALLEST_DELTA)
        return min(alone, _shuffled(self.reports, self.deviation, epsilon)) if self.reports > 1 else alone

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up; infinite for δ = 0."""
        if delta < SMALLEST_DELTA:
            return math.inf
        ceiling = self.alone(delta)
        spread = gaussian_spread(self.deviation) / math.sqrt(self.reports)
        start, slope = gaussian_guess(0.7 * spread, delta)
        return smallest_safe(self.delta, delta, ceiling, min(start, 0.9 * ceiling), slope, past=1e-7)

    def alone(self, delta: float) -> float:
        """Return an ε that one report alone has at this δ."""

        def safe(epsilon: float) -> bool:
            return gaussian_alone(self.deviation, epsilon) <= delta

        unsafe, good = doubled(safe)
        return bisect_safe(safe, unsafe=unsafe, good=good, relative=1e-9)


@lru_cache(maxsize=256)
def _shuffled(reports: int, deviation: float, epsilon: float) -> float:
    # Hardly anybody hides anybody; or W has tails so long that the sum takes minutes. One report alone is the answer.
    if deviation < _LEAST or reports * math.erfc(1 / (2 * deviation) / math.sqrt(2)) < 1:
        return math.inf
    value = gaussian_blanket(deviation, reports, epsilon, fineness=_FINENESS)
    return math.inf if math.isnan(value) else value
