"""The hockey-stick divergence δ(ε) of a pair: a bracket that holds whatever the rounding.

Two evaluators, chosen by cost: the sum over the number of clones (`window`), and the inversion integral (`contour`), whose
cost hardly depends on n. Both return both ends.
"""

import math

from shoal.divergence.contour import positive_part
from shoal.divergence.pair import ClonePair, Pair, ResponsePair
from shoal.divergence.window import Window, clone_window, summed

__all__ = ["delta_bracket", "has_clones", "short_window"]

_SMALLEST = 1e-300
"""Below this, doubles lose accuracy; a δ that small is rounded up to it."""
_UP = 1 + 8 * 2.0**-53
_LONGEST_WINDOW = 16_384
"""Terms up to which the sum is faster than the integral."""
_NO_CLONES = 1e-12
"""With fewer expected clones than this, shuffling changes δ by less than this share, and a single report is the answer."""

_FEW_ERRORS = 1e-3
"""With fewer expected errors than this, a lower bound comes from one event."""


def has_clones(pair: Pair) -> bool:
    """Tell whether anybody can be expected to hide the victim at all."""
    if isinstance(pair, ClonePair):
        return (pair.reports - 1) * pair.clone_chance >= _NO_CLONES
    return not isinstance(pair, ResponsePair) or pair.reports * math.exp(-pair.local_epsilon) >= _FEW_ERRORS


def _without_clones(pair: Pair, epsilon: float, alone: float) -> float:
    """Return a lower bound of δ(ε) where hardly anybody hides the victim."""
    if isinstance(pair, ResponsePair):
        # The event that somebody reports the victim's value: e^ε₀/(e^ε₀ + k − 1), against n/(e^ε₀ + k − 1) at most.
        small = math.exp(-pair.local_epsilon)
        return max(0.0, 1 - pair.reports * math.exp(epsilon) * small) / (1 + (pair.categories - 1) * small)
    return alone * (1 - _NO_CLONES)


def short_window(pair: Pair, epsilon: float) -> Window | None:
    """Return the window of the sum over the number of clones, if the pair has one and it is short."""
    if not isinstance(pair, ClonePair):
        return None
    window = clone_window(pair, epsilon)
    return window if window.last - window.first <= _LONGEST_WINDOW else None


def delta_bracket(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Return a lower and an upper bound of δ(ε), for ε ≥ 0."""
    alone = pair.advantage(epsilon)
    if alone == 0:
        return 0.0, 0.0
    if pair.reports == 1:
        return alone / _UP, alone * _UP
    if not has_clones(pair):
        return _without_clones(pair, epsilon, alone) / _UP, alone * _UP
    window = short_window(pair, epsilon)
    if isinstance(pair, ClonePair) and window is not None:
        lower, upper = summed(pair, epsilon, window)
    else:
        lower, upper = positive_part(pair.law(epsilon), tolerance=1e-7 if isinstance(pair, ResponsePair) else 1e-9)
    return lower if lower > _SMALLEST else 0.0, min(max(upper, _SMALLEST), alone * _UP)
