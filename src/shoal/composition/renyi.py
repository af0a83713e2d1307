"""Composition by Rényi divergences: they add up, and Proposition 12 of Canonne, Kamath and Steinke converts them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.composition.loss import LossProfile, Round
from shoal.divergence.inversion import lowest
from shoal.errors import NoPairError

__all__ = ["RenyiProfile", "converted"]

_UP = 1 + 2.0**-49
_LARGEST = math.log(1e5)
"""Of ln(α − 1); beyond it, ε₀ of everything together is as good."""


def converted(divergence: float, order: float, delta: float) -> float:
    """Return ε(δ) for a Rényi divergence ρ(α): ρ + (ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α)/(α − 1).

    Proposition 12, Canonne, Kamath and Steinke, arXiv 2004.00010v5 (NeurIPS 2020).
    """
    gain = -math.log(delta) - math.log(order)
    return divergence + gain / (order - 1) + math.log1p(-1 / order) + 2.0**-48 * (abs(gain) / (order - 1) + 1)


@dataclass(frozen=True)
class RenyiProfile:
    """The profile of all rounds together, from their Rényi divergences at the best real order."""

    rounds: tuple[Round, ...]

    def delta(self, epsilon: float) -> float:
        """Return exp((α − 1)(ρ − ε))·(1 − 1/α)^α/(α − 1) at the best order α, rounded up."""
        if epsilon >= LossProfile(self.rounds).ceiling:
            return 0.0

        def logarithm(log_excess: float) -> float:
            excess = math.exp(log_excess)
            order = 1 + excess
            divergence = self._divergence(order)
            return excess * (divergence - epsilon) - log_excess + order * math.log1p(-1 / order)

        best = logarithm(self._valley(logarithm, 14.0))
        return min(1.0, max(SMALLEST_DELTA, math.exp(min(0.0, best + 1e-13 * (1 + abs(best))))))

    def epsilon(self, delta: float) -> float:
        """Return the least ε(δ) over all orders, rounded up."""
        ceiling = LossProfile(self.rounds).ceiling
        if delta < SMALLEST_DELTA or ceiling == 0:
            return ceiling

        def value(log_excess: float) -> float:
            order = 1 + math.exp(log_excess)
            return converted(self._divergence(order), order, delta)

        return min(max(0.0, value(self._valley(value, -math.log(delta)))) * _UP, ceiling)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Refuse: Rényi divergences know ε only from above."""
        raise NoPairError('Rényi composition has no exact ε to bracket; use method="loss"')

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Rényi divergences of all rounds together."""
        return LossProfile(self.rounds).renyi(orders)

    def _divergence(self, order: float) -> float:
        return float(self.renyi(np.array([order]))[0])

    def _valley(self, value: Callable[[float], float], logarithm: float) -> float:
        """Return ln(α − 1) near the best order: that of a Gaussian with the same divergence, then golden section."""
        square = 2 * self._divergence(2.0) / 2
        low = high = 0.5 * math.log(2 * max(logarithm, 0.1) / max(square, 1e-300))
        low, high = min(low, _LARGEST - 2) - 1, min(high, _LARGEST - 2) + 1
        while value(low - 1) < value(low):
            low -= 1
        while high < _LARGEST and value(high + 1) < value(high):
            high += 1
        return lowest(value, low, high, within=1e-3)
