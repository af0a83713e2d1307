"""The states that a round goes through, what is known of it in each, and when it moves on.

::

    OPEN ──time and minimum──> SEALED ──batch written──> READY ──analyst has it──> ACKED ──> PURGED
      └──time without minimum──> OPEN, extended; or PURGED, discarded
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from shoal.errors import CollectError

DIGEST_BYTES = 16
"""Of the SHA-256 of a report, by which it is known."""
BEYOND = b"\xff" * (DIGEST_BYTES + 1)
"""After every digest."""
KEPT_ROUNDS = 1000
"""How many rounds back those that are purged are still listed."""


class State(StrEnum):
    """How far a round has come."""

    OPEN = "open"
    SEALED = "sealed"
    READY = "ready"
    ACKED = "acked"
    PURGED = "purged"


@dataclass(frozen=True)
class Round:
    """A round as the store has it. Times are in seconds since 1970.

    `reports` counts people, `messages` ciphertexts where that is another number: in bundles, and with
    dummies; both are None before the round is sealed. `token_key` is what the tokens of this round are hashed
    with, until it is sealed. `helped` has a bit for each helper of the task whose dummies are there, the
    first one the lowest. `prefixes` is the signed list of a heavy-hitter search. `seal` is a random id of the
    seal, committed with it.
    """

    number: int
    state: State
    closes: float
    reports: int | None = None
    manifest: bytes | None = None
    discarded: bool = False
    token_key: bytes | None = None
    messages: int | None = None
    helped: int = 0
    prefixes: bytes | None = None
    seal: bytes | None = None

    @property
    def records(self) -> int:
        """How many ciphertexts it has."""
        return (self.reports if self.messages is None else self.messages) or 0


class Record(NamedTuple):
    """A sealed report on its way into the store; or a whole bundle, whose messages are stored one by one.

    By its `digest` a repeated report is recognised. `tag` is the hash of the sender's token in this round, if
    there is one.
    """

    digest: bytes
    body: bytes
    tag: bytes | None = None


def record(body: bytes, tag: bytes | None = None) -> Record:
    """Return a ciphertext with its digest."""
    return Record(hashlib.sha256(body).digest()[:DIGEST_BYTES], body, tag)


def messages_of(one: Record, length: int) -> list[Record]:
    """Return the messages of a bundle, each a record of its own, without the tag.

    Examples
    --------
    >>> [each.body for each in messages_of(record(b"abcdef"), 2)]
    [b'ab', b'cd', b'ef']
    """
    return [record(one.body[at : at + length]) for at in range(0, len(one.body), length)]


def ranges(parts: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield ranges of digests that hold about as many each, and together all.

    Examples
    --------
    >>> [low.hex() for low, high in ranges(4)]
    ['', '4000', '8000', 'c000']
    """
    ends = [(65536 * part // parts).to_bytes(3, "big")[1:] for part in range(1, min(parts, 65536))]
    yield from pairwise([b"", *ends, BEYOND])


class RoundClosedError(CollectError):
    """A report for a round that is not open."""


def due(closes: float, now: float, seconds: float) -> tuple[bool, float]:
    """Return whether a round ends now, and when the round after it, or its extension, does.

    No round is longer than its length from now, whatever the clock said when it was opened.

    Examples
    --------
    >>> due(closes=100, now=99, seconds=60)
    (False, 100)
    >>> due(closes=100, now=101, seconds=60)
    (True, 160)
    >>> due(closes=100, now=5000, seconds=60)
    (True, 5060)
    >>> due(closes=90000, now=99, seconds=60)
    (False, 159)
    """
    if now < closes:
        return False, min(closes, now + seconds)
    return True, closes + seconds if closes + seconds > now else now + seconds


def remembered(number: int, state: str | None, newest: int, window: int) -> bool:
    """Return whether the digests of a round are kept, by its state (None: not known) and the newest round.

    Examples
    --------
    >>> remembered(3, "purged", newest=11, window=8), remembered(2, "purged", newest=11, window=8)
    (True, False)
    >>> remembered(2, "ready", newest=11, window=8)
    True
    """
    return state is not None and (state != State.PURGED or number >= newest - window)
