"""The hockey-stick divergence δ(ε) of a pair: a bracket that holds whatever the rounding.

Three evaluators, chosen by cost: the sum over the number of clones (`window`), the sum over all counts (`counted`), and
the inversion integral (`contour`), whose cost hardly depends on n. Each returns both ends.
"""

import math

from shoal.checks import SMALLEST_DELTA
from shoal.divergence.contour import positive_part
from shoal.divergence.counted import counted, listing
from shoal.divergence.pair import ClonePair, Pair, ResponsePair
from shoal.divergence.window import clone_window, summed

__all__ = ["delta_bracket", "has_clones"]

_UP = 1 + 8 * 2.0**-53
_NO_CLONES = 1e-12
"""With fewer expected clones than this, shuffling changes δ by less than this share: one report is the answer."""
_COARSE = 1e-7
"""How much smoothing may cost a lower limit, which nobody quotes to many digits."""
_FEW_ERRORS = 1e-12
"""With fewer expected errors than this, a lower bound comes from one event."""


def has_clones(pair: Pair) -> bool:
    """Tell whether anybody can be expected to hide the victim at all."""
    if isinstance(pair, ClonePair):
        return (pair.reports - 1) * pair.clone_chance >= _NO_CLONES and pair.local_epsilon > SMALLEST_DELTA
    return not isinstance(pair, ResponsePair) or pair.reports * math.exp(-pair.local_epsilon) >= _FEW_ERRORS


def delta_bracket(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Return a lower and an upper bound of δ(ε), for ε ≥ 0."""
    alone = pair.advantage(epsilon)
    if alone == 0:
        return 0.0, 0.0
    most = min(1.0, alone * _UP)
    if pair.reports == 1:
        return alone / _UP, most
    if not has_clones(pair):
        return _without_clones(pair, epsilon, alone) / _UP, most
    lower, upper = _clone_bracket(pair, epsilon) if isinstance(pair, ClonePair) else _law_bracket(pair, epsilon)
    if math.isnan(upper):
        return 0.0, most
    return lower if lower > SMALLEST_DELTA else 0.0, min(max(upper, SMALLEST_DELTA), most)


def _clone_bracket(pair: ClonePair, epsilon: float) -> tuple[float, float]:
    window = clone_window(pair, epsilon)
    if window.log_whole < math.log(SMALLEST_DELTA):
        return 0.0, SMALLEST_DELTA
    if window.is_short:
        return summed(pair, epsilon, window)
    return positive_part(pair.law(epsilon))


def _law_bracket(pair: Pair, epsilon: float) -> tuple[float, float]:
    law = pair.law(epsilon)
    few = listing(law)
    if few is not None:
        return counted(law, few)
    return positive_part(law, tolerance=_COARSE if isinstance(pair, ResponsePair) else None)


def _without_clones(pair: Pair, epsilon: float, alone: float) -> float:
    """Return a lower bound of δ(ε) where hardly anybody hides the victim."""
    if not isinstance(pair, ResponsePair):
        return alone * (1 - _NO_CLONES) if alone > SMALLEST_DELTA else 0.0
    small, others = math.exp(-pair.local_epsilon), pair.categories - 1
    if pair.others == "same":
        # The event that nobody reports the victim's second value: 1 − n·s/w at least, against (k − 1)·s/w at most.
        reached = others * (math.exp(epsilon - pair.local_epsilon) - small)
        return max(0.0, 1 - pair.reports * small - reached) / (1 + others * small)
    # The event that somebody reports the victim's first value: 1/w at least, against n·s/w at most.
    return max(0.0, 1 - pair.reports * math.exp(epsilon - pair.local_epsilon)) / (1 + others * small)
