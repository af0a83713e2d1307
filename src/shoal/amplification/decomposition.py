"""Theorem 4.1: a tighter pair for a randomizer that is known to decompose."""

from shoal.pairs.pair import DecompositionPair
from shoal.pairs.profile import PairProfile
from shoal.randomizers import Decomposition

__all__ = ["decomposed"]


def decomposed(randomizer: Decomposition, *, reports: int) -> PairProfile:
    """Return the profile of the multinomial pair of Theorem 4.1, arXiv 2012.12803v3."""
    pair = DecompositionPair(reports, randomizer.blanket_probability, randomizer.own_probability)
    return PairProfile(pair, randomizer.local_epsilon)
