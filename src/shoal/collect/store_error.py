"""What a store raises where the database itself is the trouble."""

from shoal.errors import CollectError, TryAgainError

__all__ = ["StoreError", "StoreUnavailableError"]


class StoreError(CollectError):
    """A database that refuses what it is asked: it was set up otherwise, or changed by somebody.

    Parameters
    ----------
    message : str
        What to say, with nothing of what was sent in it.
    code : str, optional
        The name or number of this error in the database.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreUnavailableError(StoreError, TryAgainError):
    """A database that is busy, or cannot be reached: nothing is lost, and the same may go well later."""
