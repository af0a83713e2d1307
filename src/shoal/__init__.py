"""How much privacy people gain when their randomized reports are shuffled: bounds that are proved, and what runs.

What is named here is loaded when it is first used, so that ``import shoal`` is as fast as a script likes it to be.
"""

from typing import TYPE_CHECKING

from shoal.lazy_names import lazy_names

if TYPE_CHECKING:
    from shoal import errors as errors
    from shoal import sgd as sgd
    from shoal.amplification.amplify import amplify as amplify
    from shoal.amplification.amplify import compare as compare
    from shoal.amplification.lower_bounds import lower_bound as lower_bound
    from shoal.auditing import audit as audit
    from shoal.caches import clear_caches as clear_caches
    from shoal.calibration import calibrate as calibrate
    from shoal.catalogue import explain as explain
    from shoal.catalogue import theorems as theorems
    from shoal.composition.compose import compose as compose
    from shoal.composition.ledger import Ledger as Ledger
    from shoal.curve import PrivacyCurve as PrivacyCurve
    from shoal.errors import ParameterError as ParameterError
    from shoal.errors import ShoalError as ShoalError
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
    from shoal.planning.heavy_hitter_plan import plan_heavy_hitters as plan_heavy_hitters
    from shoal.planning.heavy_hitters import heavy_hitters as heavy_hitters
    from shoal.planning.number_plans import plan_quantiles as plan_quantiles
    from shoal.planning.number_plans import plan_sum as plan_sum
    from shoal.planning.plan import Plan as Plan
    from shoal.planning.plan import plan as plan
    from shoal.proofs.certificate import Certificate as Certificate
    from shoal.sweeps import sweep as sweep

__version__ = "0.3.0.dev0"

__getattr__, __dir__ = lazy_names(__name__)
