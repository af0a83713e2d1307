"""Theorem 4.1: a tighter pair for a randomizer that is known to decompose."""

from shoal.pairs import DecompositionPair
from shoal.randomizers import Decomposition

__all__ = ["decomposed"]


def decomposed(randomizer: Decomposition, *, reports: int) -> DecompositionPair:
    """Return the multinomial pair of Theorem 4.1, arXiv 2012.12803v3."""
    return DecompositionPair(
        reports, randomizer.blanket_probability, randomizer.own_probability, randomizer.local_epsilon
    )
