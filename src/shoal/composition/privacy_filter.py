"""A privacy filter: a budget for rounds whose parameters are chosen in view of what earlier rounds released.

The privacy losses of rounds add up as `loss` says if the parameters of the rounds (n, ε₀, the randomizer) are fixed in
advance. If they are chosen from the outcomes so far, that is no longer so: a chooser may take, after each outcome, the
round that harms most after just this outcome, although each fixed sequence stays within the budget
(docs/theory/errata.md, item 27). Rényi divergences of one order, fixed in advance, add up even then
(Feldman and Zrnic, arXiv 2008.11193, NeurIPS 2021): as long as the sum so far is held below a number, so is the whole.
The order may depend on the budget alone, and for Gaussian losses the best one does.
"""

import math

import numpy as np

from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.composition.renyi_accountant import converted

__all__ = ["FILTER", "filter_order", "filtered"]

FILTER = (
    "Rényi divergences of one order, which the budget fixes, add up even if rounds are chosen by earlier results: the "
    "privacy filter of Feldman and Zrnic, arXiv 2008.11193 (docs/theory/composition.md), or the sum of all ε₀ where "
    "that is less"
)
"""The rule by which `filtered` counts, as answers cite it."""

_LARGEST = 3_000.0
"""Of α − 1: higher orders take long, and matter to budgets below ε = 0.01 only."""


def filter_order(epsilon: float, delta: float) -> float:
    """Return the order at which a Gaussian loss that just meets (ε, δ) is converted best.

    With variance V its divergence is αV/2, and ε ≈ V/2 + √(2V·ln(1/δ)) is reached at α = 1 + √(2·ln(1/δ)/V).

    Examples
    --------
    >>> round(filter_order(1.0, 1e-6), 1)
    29.1
    """
    logarithm = -math.log(delta)
    deviation = 2 * epsilon / (math.sqrt(2 * logarithm + 2 * epsilon) + math.sqrt(2 * logarithm))  # √V
    return 1 + max(1e-3, min(math.sqrt(2 * logarithm) / max(deviation, 1e-300), _LARGEST))


def filtered(rounds: tuple[Round, ...], *, epsilon: float, delta: float) -> float:
    """Return what the rounds have cost towards the budget (ε, δ), however their parameters were chosen.

    Where the local ε₀ of all rounds add up to less, that is what they cost: no loss is greater.
    """
    order = filter_order(epsilon, delta)
    divergence = float(LossProfile(rounds).renyi(np.array([order]))[0])
    return min(max(0.0, converted(divergence, order, delta)), LossProfile(rounds).ceiling)
