"""A limit of the time and the memory that a proof may take, so that no file keeps anyone who verifies it busy.

Both are counted and not measured: what is accepted is the same on every machine, however slow it is. Every loop whose
length a file decides calls `spend` with about what it costs, also its fixed part, before it runs; what is kept for
later is announced to `keep`. The numbers in these calls were measured (docs/theory/certificates.md, section 10).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flint import ctx

from shoal.errors import RangeError

__all__ = ["MOST_ALONE", "MOST_MEMORY", "MOST_WORK", "keep", "limited", "spend"]

MOST_WORK, MOST_ALONE = 30_000_000, 12_000_000
"""Microseconds, about, of a file and of a single round: certificates that shoal writes take a tenth, or less."""
MOST_MEMORY = 250_000_000
"""Bytes that a certificate may keep in balls."""
_USUAL_BITS = 160
"""The precision at which costs were measured; more bits cost more in proportion, fewer cost no less."""
_BALL, _BALL_BITS = 110, 6
"""Bytes of a ball in a list: so many, and one for each so many bits."""


@dataclass
class _Account:
    """What may still be spent and kept; nothing is limited outside of all blocks."""

    work: float = float("inf")
    memory: float = float("inf")


_account = _Account()


@contextmanager
def limited(most: float = MOST_WORK) -> Iterator[None]:
    """Run a block that may spend this much, and no more than the block around it has left.

    What it has kept is taken to be free afterwards; what it has spent is spent.
    """
    work, memory = _account.work, _account.memory
    _account.work = allowed = min(work, most)
    _account.memory = min(memory, MOST_MEMORY)
    try:
        yield
    finally:
        _account.work = work - (allowed - _account.work)
        _account.memory = memory


def spend(microseconds: float) -> None:
    """Take about so many microseconds, at the usual precision, off what is left, or raise `RangeError`.

    Examples
    --------
    >>> with limited(10):
    ...     spend(11)
    Traceback (most recent call last):
        ...
    shoal.errors.RangeError: this proof takes more work than any that shoal writes, and was given up
    """
    _account.work -= microseconds * max(_USUAL_BITS, ctx.prec) / _USUAL_BITS
    if _account.work < 0:
        raise RangeError("this proof takes more work than any that shoal writes, and was given up")


def keep(balls: int) -> None:
    """Take the memory of so many balls off what is left, or raise `RangeError`."""
    _account.memory -= balls * (_BALL + ctx.prec // _BALL_BITS)
    if _account.memory < 0:
        raise RangeError("this proof takes more memory than any that shoal writes, and was given up")
