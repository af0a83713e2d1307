"""The exceptions of shoal.

::

    ShoalError
    ├── ParameterError      (also ValueError)   an argument that makes no sense, or lies outside what is allowed
    │   ├── AskedError                          a question with a parameter too few or too many
    │   ├── KindError       (also TypeError)    data of a kind that is not numbers
    │   └── MixedError                          examples of a batch that touch each other's gradients
    ├── RangeError          (also ValueError)   sensible, but outside the range in which the chosen bound is proven
    ├── UnreachableError    (also ValueError)   a target that no answer meets
    ├── NoPairError         (also TypeError)    a question that only a dominating pair can answer, asked of a formula
    ├── BudgetError         (also RuntimeError) a round that the privacy budget does not cover
    ├── NotFiniteError      (also ValueError)   an example, or a model that ran away, with numbers that are not finite
    ├── NotFittedError      (also ValueError, AttributeError) a model that was asked before it was trained
    ├── PeerError           (also RuntimeError) another process of the same training that failed, ended or fell silent
    ├── CollectError        (also RuntimeError) a report, a round or a batch that could not be handed over
    │   └── TryAgainError                       the same, where nothing is wrong: the network or the time of a round
    ├── WithheldError       (also RuntimeError) a result that its task does not allow to be published
    ├── FileError                               a file, a key or a message that cannot be used; its kind says why
    │   ├── StorageError    (also OSError)      the operating system says no: not there, not allowed, a full disk
    │   ├── FormatError     (also ValueError)   something else than was asked for, or of another version
    │   ├── DamagedError    (also ValueError)   cut off, overwritten or changed since it was written
    │   ├── ForgedError     (also ValueError)   not from whom it claims to be: a wrong signature, or not what was pinned
    │   └── WrongKeyError   (also ValueError)   a key in good order that belongs to something else
    ├── LedgerError         (also RuntimeError) a ledger that cannot be used; it was left as it is
    │   ├── LedgerStorageError                  also a StorageError
    │   └── LedgerDamagedError                  also a DamagedError
    └── MissingExtraError   (also ImportError)  an optional library that is not installed

    LabelsFromDataWarning   (a UserWarning)     classes read from the data, which no guarantee protects
    NotFiniteWarning        (a UserWarning)     gradients that are not finite, and count as zero
    PrecisionWarning        (a UserWarning)     a guarantee finer than the noise that a computer adds

Programs tell them apart by type, by `parameter` where it is a ParameterError, and by `errno` where it is a
StorageError; the words are for people, and may change.
"""

import re
from typing import Any

__all__ = [
    "AskedError",
    "BudgetError",
    "CollectError",
    "DamagedError",
    "FileError",
    "ForgedError",
    "FormatError",
    "KindError",
    "LabelsFromDataWarning",
    "LedgerDamagedError",
    "LedgerError",
    "LedgerStorageError",
    "MissingExtraError",
    "MixedError",
    "NoPairError",
    "NotFiniteError",
    "NotFiniteWarning",
    "NotFittedError",
    "ParameterError",
    "PeerError",
    "PrecisionWarning",
    "RangeError",
    "ShoalError",
    "StorageError",
    "TryAgainError",
    "UnreachableError",
    "WithheldError",
    "WrongKeyError",
]


class ShoalError(Exception):
    """Everything that shoal raises on purpose."""


class ParameterError(ShoalError, ValueError):
    """An argument that makes no sense, or lies outside what is allowed.

    Parameters
    ----------
    message : str
        What was given, what is allowed, and what to do.
    parameter : str, optional
        The name of the parameter that is to be changed, if it is one.

    Examples
    --------
    >>> import shoal
    >>> try:
    ...     shoal.amplify(local_epsilon=1, reports=0)
    ... except shoal.ParameterError as error:
    ...     print(error.parameter)
    reports
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class AskedError(ParameterError):
    """A question with a parameter too few or too many, in words that fit Python and the command line alike.

    Parameters
    ----------
    message : str
        What is wrong, with the names of parameters in braces, and their values if there are some.
    parameter : str, optional
        The parameter that is to be changed, if it is one.

    Examples
    --------
    >>> error = AskedError("this needs {local_epsilon}, such as {randomizer=rappor, local_epsilon=1}", "local_epsilon")
    >>> print(error)
    this needs local_epsilon, such as randomizer = rappor, local_epsilon = 1
    >>> print(error.with_options)
    this needs --local-epsilon, such as --randomizer rappor --local-epsilon 1
    """

    def __str__(self) -> str:
        """Return the message with the names of Python."""
        return _BRACES.sub(lambda match: match[1].replace("=", " = "), str(self.args[0]))

    @property
    def with_options(self) -> str:
        """The message with the names of the options of the command line."""
        return _BRACES.sub(lambda match: " ".join(map(_option, match[1].split(", "))), str(self.args[0]))


_BRACES = re.compile(r"\{([^{}]*)\}")


def _option(text: str) -> str:
    name, _, value = text.partition("=")
    return f"--{name.replace('_', '-')} {value}".rstrip()


class KindError(ParameterError, TypeError):
    """Data of a kind that is not numbers."""


class MixedError(ParameterError):
    """Examples of a batch that touch each other's gradients, so that clipping one does not bound what it does."""


class RangeError(ShoalError, ValueError):
    """A sensible question outside the range in which the chosen bound is proven."""


class UnreachableError(ShoalError, ValueError):
    """A target that no answer meets."""


class NoPairError(ShoalError, TypeError):
    """A question that needs a dominating pair, asked of a bound that is only a formula."""


class BudgetError(ShoalError, RuntimeError):
    """A round that the privacy budget does not cover; it was neither run nor recorded."""


class NotFiniteError(ShoalError, ValueError):
    """An example, or a model that ran away, with numbers that are not finite."""


class NotFittedError(ShoalError, ValueError, AttributeError):
    """A model that was asked before it was trained."""


class PeerError(ShoalError, RuntimeError):
    """Another process of the same training that failed, ended, or does not answer."""


class FileError(ShoalError):
    """A file, a key or a message that cannot be used; each of its kinds says why."""


class StorageError(FileError, OSError):
    """What the operating system refuses: a file that is not there or not allowed, or a full disk.

    Parameters
    ----------
    message : str
        What was tried, what is wrong, and what to do.
    cause : OSError, optional
        What the operating system said; its `errno`, `strerror` and `filename` are kept.

    Examples
    --------
    >>> try:
    ...     raise StorageError("cannot write counts.shoal: the disk is full", OSError(28, "No space left on device"))
    ... except OSError as error:
    ...     print(error.errno, error)
    28 cannot write counts.shoal: the disk is full
    """

    def __init__(self, message: str, cause: OSError | None = None) -> None:
        super().__init__(message)
        if cause is not None:
            self.errno = cause.errno
            self.strerror = cause.strerror
            self.filename = cause.filename

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Come back from another process with all that is known."""
        return type(self), (self.args[0], OSError(self.errno, self.strerror, self.filename))


class FormatError(FileError, ValueError):
    """A file that is something else than was asked for, or of a version that this shoal does not read."""


class DamagedError(FileError, ValueError):
    """A file that was cut off, overwritten or changed since it was written."""


class ForgedError(FileError, ValueError):
    """Something that is not from whom it claims to be: its signature is wrong, or it is not what was pinned."""


class WrongKeyError(FileError, ValueError):
    """A key in good order that belongs to something else."""


class LedgerError(ShoalError, RuntimeError):
    """A ledger that cannot be used; it was left as it is."""


class LedgerStorageError(LedgerError, StorageError):
    """A ledger file that cannot be read or written."""


class LedgerDamagedError(LedgerError, DamagedError):
    """A ledger file that is damaged, or has lost entries."""


class MissingExtraError(ShoalError, ImportError):
    """An optional library that is not installed."""


class CollectError(ShoalError, RuntimeError):
    """A report, a round or a batch that could not be handed over; it says whether to try again."""


class TryAgainError(CollectError):
    """Something that may go well later, done the same way again: the network is down, or a round is not due yet."""


class WithheldError(ShoalError, RuntimeError):
    """A result that its task does not allow to be published."""


class LabelsFromDataWarning(UserWarning):
    """Classes that are the labels in the data: which labels occur is not protected by a guarantee."""


class NotFiniteWarning(UserWarning):
    """Gradients that are not finite, and count as zero; that there are some tells of the data, and is not private."""


class PrecisionWarning(UserWarning):
    """A guarantee finer than the noise that a computer adds: it is that of real-valued noise."""
