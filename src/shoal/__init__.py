"""What shuffling n private reports buys: exact, proven, in milliseconds."""

from shoal.amplification.amplify import amplify, compare
from shoal.amplification.lower_bounds import lower_bound
from shoal.calibration import Calibration, calibrate
from shoal.certificate import Certificate
from shoal.curve import Bracket, LowerBound, PrivacyCurve
from shoal.errors import (
    MissingExtraError,
    NoPairError,
    ParameterError,
    RangeError,
    ShoalError,
    UnreachableError,
)
from shoal.randomizers import Decomposition, RandomizedResponse
from shoal.sweep import Table, sweep

__all__ = [
    "Bracket",
    "Calibration",
    "Certificate",
    "Decomposition",
    "LowerBound",
    "MissingExtraError",
    "NoPairError",
    "ParameterError",
    "PrivacyCurve",
    "RandomizedResponse",
    "RangeError",
    "ShoalError",
    "Table",
    "UnreachableError",
    "amplify",
    "calibrate",
    "compare",
    "lower_bound",
    "sweep",
]

__version__ = "0.1.0"
