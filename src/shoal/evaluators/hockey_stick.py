"""The hockey-stick divergence δ(ε) of a pair: a bracket that holds whatever the rounding.

Three evaluators, chosen by cost: the sum over the number of clones (`window`), the sum over all counts (`counted`), and
the inversion integral (`contour`), whose cost hardly depends on n. Each returns both ends.
"""

import math

import numpy as np

from shoal.checks import SMALLEST_DELTA
from shoal.evaluators.contour import positive_part
from shoal.evaluators.counted import counted, listing
from shoal.evaluators.window import clone_window, summed
from shoal.pairs.likelihood_pair import LikelihoodPair
from shoal.pairs.pair import ClonePair, Pair

__all__ = ["delta_bracket", "has_clones"]

_UP = 1 + 32 * 2.0**-53
_NO_CLONES = 1e-12
"""With fewer expected clones than this, shuffling changes δ by less than this share: one report is the answer."""
_WIDE = 1e-3
"""Ends farther apart than this are worth a second look."""
_STEEPEST = 300.0
"""With a larger likelihood ratio than exp(this), nobody hides anybody: 10¹⁵ reports are far too few."""


def has_clones(pair: Pair) -> bool:
    """Tell whether anybody can be expected to hide the victim at all."""
    if isinstance(pair, ClonePair):
        return (pair.reports - 1) * pair.clone_probability >= _NO_CLONES and pair.local_epsilon > SMALLEST_DELTA
    return not isinstance(pair, LikelihoodPair) or pair.likelihoods.reach <= _STEEPEST


def delta_bracket(pair: Pair, epsilon: float, *, tolerance: float | None = None) -> tuple[float, float]:
    """Return a lower and an upper bound of δ(ε), for ε ≥ 0; a larger `tolerance` than the usual one is faster."""
    alone = pair.advantage(epsilon)
    if alone == 0:
        return 0.0, 0.0
    most = min(1.0, alone * _UP)
    if pair.reports == 1:
        return alone / _UP, most
    if not has_clones(pair) or alone <= SMALLEST_DELTA:
        return _without_clones(pair, epsilon, alone) / _UP, most
    lower, upper = (
        _clone_bracket(pair, epsilon)
        if isinstance(pair, ClonePair)
        else _distribution_bracket(pair, epsilon, tolerance)
    )
    if math.isnan(upper):
        return 0.0, most
    return lower if lower > SMALLEST_DELTA else 0.0, min(max(upper, SMALLEST_DELTA), most)


def _clone_bracket(pair: ClonePair, epsilon: float) -> tuple[float, float]:
    window = clone_window(pair, epsilon)
    if window.log_whole < math.log(SMALLEST_DELTA):
        return 0.0, SMALLEST_DELTA
    if window.is_short:
        return summed(pair, epsilon, window)
    return positive_part(pair.distribution(epsilon))


def _distribution_bracket(pair: Pair, epsilon: float, tolerance: float | None) -> tuple[float, float]:
    distribution = pair.distribution(epsilon)
    if isinstance(pair, LikelihoodPair):
        alone = pair.unopposed(epsilon)
        if alone is not None:
            return alone
        few = listing(distribution) or listing(distribution, several=True)
        if few is not None:
            few = listing(distribution, several=bool(few.alike), depth=pair.depth(epsilon))
    else:
        few = listing(distribution)
    if few is not None:
        lower, upper = counted(distribution, few)
    else:
        # Where M has a zero, or a tilt is too large, nothing is known: what comes out is NaN or infinite, and says so.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lower, upper = positive_part(distribution, tolerance=tolerance)
    if isinstance(pair, LikelihoodPair) and SMALLEST_DELTA < lower < upper * (1 - _WIDE) and math.isfinite(upper):
        # A few dozen people are unusual, and with the size of δ at hand the list of what they do is short enough.
        few = listing(distribution, depth=-math.log(lower), known=True)
        if few is not None:
            least, most = counted(distribution, few)
            return max(lower, least), min(upper, most)
    return lower, upper


def _without_clones(pair: Pair, epsilon: float, alone: float) -> float:
    """Return a lower bound of δ(ε) where hardly anybody hides the victim."""
    if isinstance(pair, LikelihoodPair):
        return pair.unhidden(epsilon)
    return alone * (1 - _NO_CLONES) if alone > SMALLEST_DELTA else 0.0
