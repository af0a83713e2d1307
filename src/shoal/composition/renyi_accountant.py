"""The RDP accountant: Rényi divergences add up, and Proposition 12 of Canonne, Kamath and Steinke converts them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.composition.composition_method import CompositionMethod, Round
from shoal.composition.loss_accountant import LossProfile
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack

__all__ = ["RenyiProfile", "converted"]

_UP = 1 + slack(16)
_LARGEST = math.log(1e5)
"""Of ln(α − 1); beyond it, ε₀ of everything together is as good."""


def converted(divergence: float, order: float, delta: float) -> float:
    """Return ε(δ) for a Rényi divergence ρ(α): ρ + (ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α)/(α − 1).

    Proposition 12, Canonne, Kamath and Steinke, arXiv 2004.00010v5 (NeurIPS 2020).
    """
    gain = -math.log(delta) - math.log(order)
    return divergence + gain / (order - 1) + math.log1p(-1 / order) + slack(32) * (abs(gain) / (order - 1) + 1)


@dataclass(frozen=True)
class RenyiProfile(UpperProfile):
    """The profile of all rounds together, from their Rényi divergences at the best real order."""

    rounds: tuple[Round, ...]

    no_bracket = 'Rényi composition has no exact ε to bracket; use method="loss"'

    def delta(self, epsilon: float) -> float:
        """Return exp((α − 1)(ρ − ε))·(1 − 1/α)^α/(α − 1) at the best order α, rounded up."""
        if epsilon >= LossProfile(self.rounds).ceiling:
            return 0.0

        def logarithm(order: float, divergence: float) -> float:
            excess = order - 1
            value = excess * (divergence - epsilon) - math.log(excess) + order * math.log1p(-1 / order)
            return value + slack(64) * (8 + excess * (divergence + epsilon) + order)

        return min(1.0, max(SMALLEST_DELTA, math.exp(min(0.0, self._least(logarithm, 14.0)))))

    def epsilon(self, delta: float) -> float:
        """Return the least ε(δ) over all orders, rounded up."""
        ceiling = LossProfile(self.rounds).ceiling
        if delta < SMALLEST_DELTA or ceiling == 0:
            return ceiling

        least = self._least(lambda order, divergence: converted(divergence, order, delta), -math.log(delta))
        return min(max(0.0, least) * _UP, ceiling)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Rényi divergences of all rounds together."""
        return LossProfile(self.rounds).renyi(orders)

    def _least(self, value: Callable[[float, float], float], logarithm: float) -> float:
        """Return the least value over the orders: around that of a Gaussian loss, then closer, ever around the best."""
        square = max(float(self.renyi(np.array([2.0]))[0]), 1e-300)
        centre, width = min(0.5 * math.log(2 * max(logarithm, 0.1) / square), _LARGEST), 1.5
        best = math.inf
        for _ in range(24):
            points = np.clip(centre + width * np.linspace(-1.0, 1.0, 7), -30.0, _LARGEST)
            orders = 1 + np.exp(points)
            heights = [value(*pair) for pair in zip(orders.tolist(), self.renyi(orders).tolist(), strict=True)]
            lowest = int(np.argmin(heights))
            best, centre = min(best, heights[lowest]), float(points[lowest])
            if 0 < lowest < len(points) - 1 or centre == _LARGEST:
                width /= 4
            if width < 0.02:
                break
        return best


register(
    CompositionMethod(
        name="renyi",
        statement=(
            "Rényi divergences of one order add up, ρ(α) = Σ ρᵣ(α), and for every real α > 1 "
            "ε = ρ(α) + (ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α)/(α − 1); the least over α."
        ),
        citation=(
            "additivity of Rényi divergences, then Proposition 12 of Canonne, Kamath and Steinke, arXiv 2004.00010v5, "
            "at the best real order"
        ),
        make=RenyiProfile,
        preference=2,
        proof="docs/theory/composition.md, section 7",
    )
)
