"""The exceptions of shoal.

::

    ShoalError
    ├── ParameterError      (also ValueError)   an argument that makes no sense, or lies outside what is allowed
    ├── RangeError          (also ValueError)   sensible, but outside the range in which the chosen bound is proven
    ├── UnreachableError    (also ValueError)   a target that no answer meets
    ├── NoPairError         (also TypeError)    a question that only a dominating pair can answer, asked of a formula
    ├── BudgetError         (also RuntimeError) a round that the privacy budget does not cover
    ├── NotFiniteError      (also ValueError)   an example whose gradient is not a number; nothing was spent on it
    ├── NotFittedError      (also ValueError, AttributeError) a model that was asked before it was trained
    ├── CollectError        (also RuntimeError) a report, a round or a batch that could not be handed over
    │   └── TryAgainError                       the same, where nothing is wrong: the network or the time of a round
    ├── WithheldError       (also RuntimeError) a result that its task does not allow to be published
    ├── LedgerError         (also RuntimeError) a ledger file that cannot be read or written, or is damaged
    └── MissingExtraError   (also ImportError)  an optional library that is not installed
"""

__all__ = [
    "BudgetError",
    "CollectError",
    "LedgerError",
    "MissingExtraError",
    "NoPairError",
    "NotFiniteError",
    "NotFittedError",
    "ParameterError",
    "RangeError",
    "ShoalError",
    "TryAgainError",
    "UnreachableError",
    "WithheldError",
]


class ShoalError(Exception):
    """Everything that shoal raises on purpose."""


class ParameterError(ShoalError, ValueError):
    """An argument that makes no sense, or lies outside what is allowed."""


class RangeError(ShoalError, ValueError):
    """A sensible question outside the range in which the chosen bound is proven."""


class UnreachableError(ShoalError, ValueError):
    """A target that no answer meets."""


class NoPairError(ShoalError, TypeError):
    """A question that needs a dominating pair, asked of a bound that is only a formula."""


class BudgetError(ShoalError, RuntimeError):
    """A round that the privacy budget does not cover; it was neither run nor recorded."""


class NotFiniteError(ShoalError, ValueError):
    """An example whose gradient is not a number: nothing was spent on it, and nothing changed."""


class NotFittedError(ShoalError, ValueError, AttributeError):
    """A model that was asked before it was trained."""


class LedgerError(ShoalError, RuntimeError):
    """A ledger file that cannot be read or written, or is damaged; it was left as it is."""


class MissingExtraError(ShoalError, ImportError):
    """An optional library that is not installed."""


class CollectError(ShoalError, RuntimeError):
    """A report, a round or a batch that could not be handed over; it says whether to try again."""


class TryAgainError(CollectError):
    """Something that may go well later, done the same way again: the network is down, or a round is not due yet."""


class WithheldError(ShoalError, RuntimeError):
    """A result that its task does not allow to be published."""
