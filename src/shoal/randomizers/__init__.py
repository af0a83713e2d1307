"""What one client runs: descriptions of local randomizers, one file a mechanism."""

from shoal.randomizers.categorical import Categorical
from shoal.randomizers.decomposition import Decomposition
from shoal.randomizers.gaussian import Gaussian
from shoal.randomizers.hadamard_response import HadamardResponse
from shoal.randomizers.laplace import Laplace
from shoal.randomizers.likelihoods import Likelihoods
from shoal.randomizers.randomized_response import RandomizedResponse
from shoal.randomizers.rappor import Rappor
from shoal.randomizers.subset_selection import SubsetSelection
from shoal.randomizers.unary_encoding import UnaryEncoding

__all__ = [
    "Categorical",
    "Decomposition",
    "Gaussian",
    "HadamardResponse",
    "Laplace",
    "Likelihoods",
    "RandomizedResponse",
    "Randomizer",
    "Rappor",
    "SubsetSelection",
    "UnaryEncoding",
]

Randomizer = Categorical | Decomposition | Gaussian | Laplace
"""Every description that `shoal.amplify` understands."""
