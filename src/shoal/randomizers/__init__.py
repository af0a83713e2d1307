"""What one client runs: local randomizers, one file for each mechanism. A new file registers itself."""

from shoal.folder_modules import gather
from shoal.pairs.decomposition import Decomposition as Decomposition
from shoal.pairs.likelihoods import Likelihoods as Likelihoods
from shoal.pairs.randomizer import Randomizer as Randomizer
from shoal.pairs.randomizer import registration_of as registration_of
from shoal.pairs.registry import kinds as kinds
from shoal.pairs.registry import mechanism_of as mechanism_of
from shoal.pairs.registry import register as register
from shoal.pairs.registry import registration as registration
from shoal.pairs.registry import schema_of as schema_of
from shoal.randomizers.bundled import Bundled as Bundled
from shoal.randomizers.categorical import Categorical as Categorical
from shoal.randomizers.categorical import Indexed as Indexed
from shoal.randomizers.coins import Coins as Coins
from shoal.randomizers.coins import Simulation as Simulation
from shoal.randomizers.covered import Covered as Covered
from shoal.randomizers.design import Design as Design
from shoal.randomizers.dummies import Dummies as Dummies
from shoal.randomizers.estimate import Estimate as Estimate
from shoal.randomizers.gaussian import Gaussian as Gaussian
from shoal.randomizers.hadamard import HadamardResponse as HadamardResponse
from shoal.randomizers.hadamard import RecursiveHadamardResponse as RecursiveHadamardResponse
from shoal.randomizers.hashing import LocalHashing as LocalHashing
from shoal.randomizers.hashing import PrivateIndependentRappor as PrivateIndependentRappor
from shoal.randomizers.laplace import Laplace as Laplace
from shoal.randomizers.levels import Levels as Levels
from shoal.randomizers.matrix_randomizer import MatrixRandomizer as MatrixRandomizer
from shoal.randomizers.mean import MeanMechanism as MeanMechanism
from shoal.randomizers.mechanism import Counts as Counts
from shoal.randomizers.mechanism import Mechanism as Mechanism
from shoal.randomizers.one_bit_mean import OneBitMean as OneBitMean
from shoal.randomizers.projective_geometry_response import ProjectiveGeometryResponse as ProjectiveGeometryResponse
from shoal.randomizers.quantile_tree import QuantileTree as QuantileTree
from shoal.randomizers.randomized_response import RandomizedResponse as RandomizedResponse
from shoal.randomizers.split_and_mix import SplitAndMix as SplitAndMix
from shoal.randomizers.subset_selection import SubsetSelection as SubsetSelection
from shoal.randomizers.unary_encoding import Rappor as Rappor
from shoal.randomizers.unary_encoding import UnaryEncoding as UnaryEncoding

gather(__name__)
