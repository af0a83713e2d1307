"""A limit of the work that a proof may take, so that no certificate keeps whoever checks it busy for ever."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import RangeError

__all__ = ["MOST_ALONE", "MOST_WORK", "limited", "spend"]

MOST_WORK, MOST_ALONE = 60_000_000, 10_000_000
"""Sines of balls, about half a minute, and of a single round less than ten seconds."""

_left: list[float] = [math.inf]
"""What the innermost block may still spend; outside of all blocks, no call leaves a limit to the next."""


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
