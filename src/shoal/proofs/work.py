"""A limit of the time and the memory that a proof may take, so that every file is verified or refused soon.

Both are counted and not measured, so that every machine accepts the same files, however slow it is. Every loop whose
length a file decides calls `spend` with its cost, the fixed part included, before it runs; balls that are kept for
later are announced to `keep`. The costs in these calls were measured (docs/theory/certificates.md, section 10).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flint import ctx

from shoal.errors import RangeError

MOST_WORK, MOST_ALONE = 36_000_000, 20_000_000
"""Microseconds, about, of a file and of a single round: certificates that shoal writes take a tenth, or less."""
MOST_MEMORY, _RESERVED = 280_000_000, 90_000_000
"""Bytes that all certificates of a file may keep in balls, and how many of them caches leave for the rest."""
_USUAL_BITS = 160  # the precision at which costs were measured; more bits cost more in proportion, fewer cost no less
_BALL, _BALL_BITS = 110, 6  # bytes of a ball in a list: the first number, and one byte per this number of bits


@dataclass
class _Account:
    """The work and the memory that are left; both are infinite outside of all blocks."""

    work: float = float("inf")
    memory: float = float("inf")


_account = _Account()


@contextmanager
def limited(most: float = MOST_WORK) -> Iterator[None]:
    """Run a block that may spend this much, and no more than the block around it has left."""
    work, memory = _account.work, _account.memory
    allowed, room = min(work, most), min(memory, MOST_MEMORY)
    _account.work, _account.memory = allowed, room
    try:
        yield
    finally:
        _account.work = work - (allowed - _account.work)
        _account.memory = memory - (room - _account.memory)


@contextmanager
def transient() -> Iterator[None]:
    """Run a block that keeps nothing beyond its end."""
    memory = _account.memory
    try:
        yield
    finally:
        _account.memory = memory


def spend(microseconds: float) -> None:
    """Take this work, in microseconds at the usual precision, off what is left, or raise `RangeError`."""
    _account.work -= microseconds * max(_USUAL_BITS, ctx.prec) / _USUAL_BITS
    if _account.work < 0:
        raise RangeError("this proof takes more work than any that shoal writes, and was given up")


def room(balls: float) -> bool:
    """Return whether a cache may keep this number of balls more, and take their memory off what is left if so."""
    size = balls * (_BALL + ctx.prec // _BALL_BITS)
    if _account.memory - size < _RESERVED:
        return False
    _account.memory -= size
    return True


def keep(balls: float) -> None:
    """Take the memory of this number of balls off what is left, or raise `RangeError`."""
    _account.memory -= balls * (_BALL + ctx.prec // _BALL_BITS)
    if _account.memory < 0:
        raise RangeError("this proof takes more memory than any that shoal writes, and was given up")
