"""Mechanisms that each client runs: one file for each mechanism, or for a family. A new file registers itself."""

from shoal.estimation.design import Design as Design
from shoal.estimation.estimate import Estimate as Estimate
from shoal.lazy_names import gather
from shoal.mechanisms.bundled import Bundled as Bundled
from shoal.mechanisms.categorical import Categorical as Categorical
from shoal.mechanisms.categorical import Indexed as Indexed
from shoal.mechanisms.coins import Coins as Coins
from shoal.mechanisms.coins import Simulation as Simulation
from shoal.mechanisms.covered import Covered as Covered
from shoal.mechanisms.dummies import Dummies as Dummies
from shoal.mechanisms.gaussian import Gaussian as Gaussian
from shoal.mechanisms.hadamard import HadamardResponse as HadamardResponse
from shoal.mechanisms.hadamard import RecursiveHadamardResponse as RecursiveHadamardResponse
from shoal.mechanisms.hashing import LocalHashing as LocalHashing
from shoal.mechanisms.hashing import PrivateIndependentRappor as PrivateIndependentRappor
from shoal.mechanisms.laplace import Laplace as Laplace
from shoal.mechanisms.levels import Levels as Levels
from shoal.mechanisms.matrix_randomizer import MatrixRandomizer as MatrixRandomizer
from shoal.mechanisms.mean import MeanMechanism as MeanMechanism
from shoal.mechanisms.mechanism import Counts as Counts
from shoal.mechanisms.mechanism import Mechanism as Mechanism
from shoal.mechanisms.one_bit_mean import OneBitMean as OneBitMean
from shoal.mechanisms.projective_geometry_response import ProjectiveGeometryResponse as ProjectiveGeometryResponse
from shoal.mechanisms.quantile_tree import QuantileTree as QuantileTree
from shoal.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
from shoal.mechanisms.split_and_mix import SplitAndMix as SplitAndMix
from shoal.mechanisms.subset_selection import SubsetSelection as SubsetSelection
from shoal.mechanisms.unary_encoding import Rappor as Rappor
from shoal.mechanisms.unary_encoding import UnaryEncoding as UnaryEncoding
from shoal.pairs.decomposition import Decomposition as Decomposition
from shoal.pairs.likelihoods import Likelihoods as Likelihoods
from shoal.pairs.randomizer import Randomizer as Randomizer
from shoal.pairs.randomizer import registration_of as registration_of
from shoal.pairs.registry import kinds as kinds
from shoal.pairs.registry import mechanism_of as mechanism_of
from shoal.pairs.registry import register as register
from shoal.pairs.registry import registration as registration
from shoal.pairs.registry import schema_of as schema_of

gather(__name__)
