"""A limit of the work that a proof may take, so that no certificate keeps whoever checks it busy for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import RangeError

__all__ = ["MOST_WORK", "limited", "spend"]

MOST_WORK = 20_000_000
"""Sines of balls, about half a minute; a year of a hundred different rounds takes a fifth of it."""

_left = [MOST_WORK]


@contextmanager
def limited(most: int = MOST_WORK) -> Iterator[None]:
    """Run a block that may spend this much in all."""
    before, _left[0] = _left[0], most
    try:
        yield
    finally:
        _left[0] = before


def spend(amount: int) -> None:
    """Take this much off what is left, or raise `RangeError`.

    Examples
    --------
    >>> with limited(10):
    ...     spend(11)
    Traceback (most recent call last):
        ...
    shoal.errors.RangeError: this proof takes more work than any that shoal writes, and was given up
    """
    _left[0] -= amount
    if _left[0] < 0:
        raise RangeError("this proof takes more work than any that shoal writes, and was given up")
