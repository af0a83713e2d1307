"""What one client runs: local randomizers, one file a mechanism."""

from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.coins import Simulation
from shoal.randomizers.counts import Counts
from shoal.randomizers.decomposition import Decomposition
from shoal.randomizers.estimate import Estimate
from shoal.randomizers.gaussian import Gaussian
from shoal.randomizers.hadamard_response import HadamardResponse
from shoal.randomizers.laplace import Laplace
from shoal.randomizers.local_hashing import LocalHashing
from shoal.randomizers.mean import MeanEstimate, MeanMechanism
from shoal.randomizers.one_bit_mean import OneBitMean
from shoal.randomizers.private_independent_rappor import PrivateIndependentRappor
from shoal.randomizers.projective_geometry_response import ProjectiveGeometryResponse
from shoal.randomizers.randomized_response import RandomizedResponse
from shoal.randomizers.recursive_hadamard_response import RecursiveHadamardResponse
from shoal.randomizers.schema import MECHANISMS, NUMERIC, mechanism
from shoal.randomizers.subset_selection import SubsetSelection
from shoal.randomizers.unary_encoding import Rappor, UnaryEncoding

__all__ = [
    "MECHANISMS",
    "NUMERIC",
    "Categorical",
    "Counts",
    "Decomposition",
    "Estimate",
    "Gaussian",
    "HadamardResponse",
    "Laplace",
    "Likelihoods",
    "LocalHashing",
    "MeanEstimate",
    "MeanMechanism",
    "OneBitMean",
    "PrivateIndependentRappor",
    "ProjectiveGeometryResponse",
    "RandomizedResponse",
    "Randomizer",
    "Rappor",
    "RecursiveHadamardResponse",
    "Simulation",
    "SubsetSelection",
    "UnaryEncoding",
    "mechanism",
]

Randomizer = Categorical | Decomposition | Gaussian | Laplace | OneBitMean
"""Every description that `shoal.amplify` understands."""
