"""Dominating pairs: two distributions of the shuffled reports that no two neighbouring datasets exceed."""

from shoal.pairs.clone_pair import ClonePair, Family, RatioPair
from shoal.pairs.cover_pair import CoverPair
from shoal.pairs.decomposition import DecompositionPair
from shoal.pairs.discrete_laplace import DummyPair
from shoal.pairs.integer_likelihoods import BitRows
from shoal.pairs.likelihoods import LikelihoodPair
from shoal.pairs.pair import Pair
from shoal.searches import gaussian_guess

__all__ = [
    "BitRows", "ClonePair", "CoverPair", "DecompositionPair", "DummyPair", "Family", "LikelihoodPair", "Pair",
    "RatioPair", "gaussian_guess",
]  # fmt: skip
