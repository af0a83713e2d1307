"""What one client runs: local randomizers, one file for each mechanism. A new file registers itself."""

from shoal.lazy_names import gather
from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.bundled import Bundled
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.coins import Coins, Simulation
from shoal.randomizers.counts import Counts
from shoal.randomizers.covered import Covered
from shoal.randomizers.decomposition import Decomposition
from shoal.randomizers.design import Design
from shoal.randomizers.dummies import Dummies
from shoal.randomizers.estimate import Estimate
from shoal.randomizers.gaussian import Gaussian
from shoal.randomizers.hadamard_response import HadamardResponse
from shoal.randomizers.indexed import Indexed
from shoal.randomizers.laplace import Laplace
from shoal.randomizers.level_estimate import LevelEstimate
from shoal.randomizers.levels import Levels
from shoal.randomizers.local_hashing import LocalHashing
from shoal.randomizers.matrix_randomizer import MatrixRandomizer
from shoal.randomizers.mean import MeanEstimate, MeanMechanism
from shoal.randomizers.mechanism import Mechanism
from shoal.randomizers.mix_estimate import MixEstimate
from shoal.randomizers.one_bit_mean import OneBitMean
from shoal.randomizers.private_independent_rappor import PrivateIndependentRappor
from shoal.randomizers.projective_geometry_response import ProjectiveGeometryResponse
from shoal.randomizers.quantile_tree import QuantileTree
from shoal.randomizers.randomized_response import RandomizedResponse
from shoal.randomizers.randomizer import Randomizer, registration_of
from shoal.randomizers.recursive_hadamard_response import RecursiveHadamardResponse
from shoal.randomizers.registry import kinds, register, registration
from shoal.randomizers.schema import mechanism, schema_of
from shoal.randomizers.split_and_mix import SplitAndMix
from shoal.randomizers.subset_selection import SubsetSelection
from shoal.randomizers.tree_estimate import TreeEstimate
from shoal.randomizers.unary_encoding import Rappor, UnaryEncoding

__all__ = [
    "Bundled",
    "Categorical",
    "Coins",
    "Counts",
    "Covered",
    "Decomposition",
    "Design",
    "Dummies",
    "Estimate",
    "Gaussian",
    "HadamardResponse",
    "Indexed",
    "Laplace",
    "LevelEstimate",
    "Levels",
    "Likelihoods",
    "LocalHashing",
    "MatrixRandomizer",
    "MeanEstimate",
    "MeanMechanism",
    "Mechanism",
    "MixEstimate",
    "OneBitMean",
    "PrivateIndependentRappor",
    "ProjectiveGeometryResponse",
    "QuantileTree",
    "RandomizedResponse",
    "Randomizer",
    "Rappor",
    "RecursiveHadamardResponse",
    "Simulation",
    "SplitAndMix",
    "SubsetSelection",
    "TreeEstimate",
    "UnaryEncoding",
    "kinds",
    "mechanism",
    "register",
    "registration",
    "registration_of",
    "schema_of",
]

gather(__name__)
