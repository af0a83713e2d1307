"""How much privacy people gain when their randomized reports are shuffled: bounds that are proved, and what runs."""

from shoal import sgd
from shoal.amplification.amplify import amplify, compare
from shoal.amplification.lower_bounds import lower_bound
from shoal.audit import Audit, audit
from shoal.calibration import Calibration, calibrate
from shoal.catalogue import Theorem, explain, theorems
from shoal.certificate import Certificate
from shoal.composition.compose import compose
from shoal.composition.ledger import Ledger
from shoal.curve import Bracket, Comparison, PrivacyCurve
from shoal.errors import (
    BudgetError,
    DamagedError,
    FileError,
    ForgedError,
    FormatError,
    LedgerError,
    MissingExtraError,
    NoPairError,
    NotFiniteError,
    NotFittedError,
    ParameterError,
    RangeError,
    ShoalError,
    StorageError,
    UnreachableError,
    WrongKeyError,
)
from shoal.frequency.plan import Choice, Plan, plan
from shoal.lower_limit import LowerBound
from shoal.randomizers import (
    Counts,
    Decomposition,
    Estimate,
    Gaussian,
    HadamardResponse,
    Laplace,
    Likelihoods,
    LocalHashing,
    MatrixRandomizer,
    MeanEstimate,
    OneBitMean,
    PrivateIndependentRappor,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Randomizer,
    Rappor,
    RecursiveHadamardResponse,
    Simulation,
    SubsetSelection,
    UnaryEncoding,
)
from shoal.sweep import Table, sweep

__all__ = [
    "Audit",
    "Bracket",
    "BudgetError",
    "Calibration",
    "Certificate",
    "Choice",
    "Comparison",
    "Counts",
    "DamagedError",
    "Decomposition",
    "Estimate",
    "FileError",
    "ForgedError",
    "FormatError",
    "Gaussian",
    "HadamardResponse",
    "Laplace",
    "Ledger",
    "LedgerError",
    "Likelihoods",
    "LocalHashing",
    "LowerBound",
    "MatrixRandomizer",
    "MeanEstimate",
    "MissingExtraError",
    "NoPairError",
    "NotFiniteError",
    "NotFittedError",
    "OneBitMean",
    "ParameterError",
    "Plan",
    "PrivacyCurve",
    "PrivateIndependentRappor",
    "ProjectiveGeometryResponse",
    "RandomizedResponse",
    "Randomizer",
    "RangeError",
    "Rappor",
    "RecursiveHadamardResponse",
    "ShoalError",
    "Simulation",
    "StorageError",
    "SubsetSelection",
    "Table",
    "Theorem",
    "UnaryEncoding",
    "UnreachableError",
    "WrongKeyError",
    "amplify",
    "audit",
    "calibrate",
    "compare",
    "compose",
    "explain",
    "lower_bound",
    "plan",
    "sgd",
    "sweep",
    "theorems",
]

__version__ = "0.2.0"
