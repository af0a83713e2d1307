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
    from shoal.bound_table import BoundTable
    from shoal.calibration import Calibration, calibrate
    from shoal.catalogue import Theorem, explain, theorems
    from shoal.composition.compose import compose
    from shoal.composition.ledger import Ledger
    from shoal.curve import Comparison, PrivacyCurve
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
    from shoal.frequency.hitters import Hitters, hitters
    from shoal.frequency.hunt import Hunt, hunt
    from shoal.frequency.plan import Choice, Plan, plan
    from shoal.frequency.quantile_plan import plan_quantiles
    from shoal.frequency.sum_plan import plan_sum
    from shoal.lower_limit import LowerBound
    from shoal.privacy_profile import Bracket
    from shoal.proofs.certificate import Certificate
    from shoal.randomizers import (
        Counts,
        Covered,
        Decomposition,
        Dummies,
        Estimate,
        Gaussian,
        HadamardResponse,
        Laplace,
        LevelEstimate,
        Levels,
        Likelihoods,
        LocalHashing,
        MatrixRandomizer,
        MeanEstimate,
        MixEstimate,
        OneBitMean,
        PrivateIndependentRappor,
        ProjectiveGeometryResponse,
        QuantileTree,
        RandomizedResponse,
        Randomizer,
        Rappor,
        RecursiveHadamardResponse,
        Simulation,
        SplitAndMix,
        SubsetSelection,
        TreeEstimate,
        UnaryEncoding,
    )
    from shoal.sweeps import Table, sweep

__all__ = [
    "Audit",
    "BoundTable",
    "Bracket",
    "BudgetError",
    "Calibration",
    "Certificate",
    "Choice",
    "Comparison",
    "Counts",
    "Covered",
    "DamagedError",
    "Decomposition",
    "Dummies",
    "Estimate",
    "FileError",
    "ForgedError",
    "FormatError",
    "Gaussian",
    "HadamardResponse",
    "Hitters",
    "Hunt",
    "Laplace",
    "Ledger",
    "LedgerError",
    "LevelEstimate",
    "Levels",
    "Likelihoods",
    "LocalHashing",
    "LowerBound",
    "MatrixRandomizer",
    "MeanEstimate",
    "MissingExtraError",
    "MixEstimate",
    "NoPairError",
    "NotFiniteError",
    "NotFittedError",
    "OneBitMean",
    "ParameterError",
    "Plan",
    "PrivacyCurve",
    "PrivateIndependentRappor",
    "ProjectiveGeometryResponse",
    "QuantileTree",
    "RandomizedResponse",
    "Randomizer",
    "RangeError",
    "Rappor",
    "RecursiveHadamardResponse",
    "ShoalError",
    "Simulation",
    "SplitAndMix",
    "StorageError",
    "SubsetSelection",
    "Table",
    "Theorem",
    "TreeEstimate",
    "UnaryEncoding",
    "UnreachableError",
    "WrongKeyError",
    "amplify",
    "audit",
    "calibrate",
    "compare",
    "compose",
    "explain",
    "hitters",
    "hunt",
    "lower_bound",
    "plan",
    "plan_quantiles",
    "plan_sum",
    "sgd",
    "sweep",
    "theorems",
]

__version__ = "0.3.0.dev0"

_MODULES = {
    "shoal.sgd": (),
    "shoal.amplification.amplify": ("amplify", "compare"),
    "shoal.amplification.lower_bounds": ("lower_bound",),
    "shoal.auditing": ("Audit", "audit"),
    "shoal.bound_table": ("BoundTable",),
    "shoal.calibration": ("Calibration", "calibrate"),
    "shoal.catalogue": ("Theorem", "explain", "theorems"),
    "shoal.proofs.certificate": ("Certificate",),
    "shoal.composition.compose": ("compose",),
    "shoal.composition.ledger": ("Ledger",),
    "shoal.curve": ("Comparison", "PrivacyCurve"),
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
    "shoal.frequency.hitters": ("Hitters", "hitters"),
    "shoal.frequency.hunt": ("Hunt", "hunt"),
    "shoal.frequency.plan": ("Choice", "Plan", "plan"),
    "shoal.frequency.quantile_plan": ("plan_quantiles",),
    "shoal.frequency.sum_plan": ("plan_sum",),
    "shoal.lower_limit": ("LowerBound",),
    "shoal.privacy_profile": ("Bracket",),
    "shoal.randomizers": (
        "Counts",
        "Covered",
        "Decomposition",
        "Dummies",
        "Estimate",
        "Gaussian",
        "HadamardResponse",
        "Laplace",
        "LevelEstimate",
        "Levels",
        "Likelihoods",
        "LocalHashing",
        "MatrixRandomizer",
        "MeanEstimate",
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
    ),
    "shoal.sweeps": ("Table", "sweep"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
