"""How much privacy people gain when their randomized reports are shuffled: bounds that are proved, and what runs.

What is named here is loaded when it is first used, so that ``import shoal`` is as fast as a script likes it to be.
"""

from typing import TYPE_CHECKING

from shoal.lazy_names import lazy_names

if TYPE_CHECKING:
    from shoal import sgd
    from shoal.amplification.amplify import amplify, compare
    from shoal.amplification.lower_bounds import lower_bound
    from shoal.auditing import Audit, audit
    from shoal.calibration import Calibration, calibrate
    from shoal.catalogue import Theorem, explain, theorems
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
    from shoal.proofs.certificate import Certificate
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
    from shoal.sweeps import Table, sweep

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

_MODULES = {
    "shoal.sgd": (),
    "shoal.amplification.amplify": ("amplify", "compare"),
    "shoal.amplification.lower_bounds": ("lower_bound",),
    "shoal.auditing": ("Audit", "audit"),
    "shoal.calibration": ("Calibration", "calibrate"),
    "shoal.catalogue": ("Theorem", "explain", "theorems"),
    "shoal.proofs.certificate": ("Certificate",),
    "shoal.composition.compose": ("compose",),
    "shoal.composition.ledger": ("Ledger",),
    "shoal.curve": ("Bracket", "Comparison", "PrivacyCurve"),
    "shoal.errors": (
        "BudgetError",
        "DamagedError",
        "FileError",
        "ForgedError",
        "FormatError",
        "LedgerError",
        "MissingExtraError",
        "NoPairError",
        "NotFiniteError",
        "NotFittedError",
        "ParameterError",
        "RangeError",
        "ShoalError",
        "StorageError",
        "UnreachableError",
        "WrongKeyError",
    ),
    "shoal.frequency.plan": ("Choice", "Plan", "plan"),
    "shoal.lower_limit": ("LowerBound",),
    "shoal.randomizers": (
        "Counts",
        "Decomposition",
        "Estimate",
        "Gaussian",
        "HadamardResponse",
        "Laplace",
        "Likelihoods",
        "LocalHashing",
        "MatrixRandomizer",
        "MeanEstimate",
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
    ),
    "shoal.sweeps": ("Table", "sweep"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
