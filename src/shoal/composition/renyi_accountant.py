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

_UP = 1 + slack(16)
_LARGEST = math.log(1e5)
"""Of ln(α − 1); beyond it, ε₀ of everything together is as good."""
_MOST_STEPS = 24
"""How often orders are asked at most: three times, and once more whenever the best one is beyond all others."""
_NARROWEST = 0.01
"""Orders with ln(α − 1) this close are not asked: the lowest of a parabola through closer ones is the same to 1e-6."""


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

    no_bracket = 'Rényi composition has no exact ε to bracket; use method="pld"'

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
        """Return the least `value` over the orders, by parabolas in t = ln(α − 1) through the three lowest points."""
        square = max(float(self.renyi(np.array([2.0]))[0]), 1e-300)
        # A Gaussian loss with this divergence at order 2 is converted best here.
        centre = min(0.5 * math.log(2 * max(logarithm, 0.1) / square), _LARGEST)
        width = 0.5
        shifts = [-2, -1, 0, 1, 2]
        found: dict[float, float] = {}
        for _ in range(_MOST_STEPS):
            points = np.clip(centre + width * np.array(shifts), -30.0, _LARGEST)
            orders = 1 + np.exp(points)
            divergences = self.renyi(orders)
            for point, order, divergence in zip(points.tolist(), orders.tolist(), divergences.tolist(), strict=True):
                found[point] = value(order, divergence)
            centre, inside = _lowest(found)
            width = width / 5 if inside else width
            if width < _NARROWEST:
                break
            shifts = [-1, 0, 1]
        return min(found.values())


def _lowest(found: dict[float, float]) -> tuple[float, bool]:
    """Return where a parabola through the lowest point and its neighbours is lowest, and whether that is inside.

    If the lowest point is the first or last one, a point beyond is returned.
    """
    points = sorted(found)
    lowest = min(range(len(points)), key=lambda index: found[points[index]])
    if points[lowest] == _LARGEST:
        return _LARGEST, True
    if lowest in (0, len(points) - 1):
        return points[lowest] + (1.0 if lowest else -1.0), False
    left, middle, right = points[lowest - 1 : lowest + 2]
    falls = (found[left] - found[middle]) / (middle - left)
    rises = (found[right] - found[middle]) / (right - middle)
    # The slope of the parabola is −falls in the middle of the first interval, and rises in that of the second one.
    share = falls / max(falls + rises, 1e-300)
    return 0.5 * (left + middle) + share * 0.5 * (right - left), True


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
