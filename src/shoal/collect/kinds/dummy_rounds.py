r"""Rounds with dummies, which the shuffler or helpers add: the kind, the dummies of a round, and a helper's proof.

The shuffler knows that dummies are from a helper by a signature over the task, the round and their hash::

    Authorization: Helper KEY SHA256 SIGNATURE      in hexadecimal
    signed      "shoal dummies 1\n" ‖ id of the task (32 bytes) ‖ number of the round (8 bytes) ‖ SHA-256 of the body
"""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shoal.collect.kinds import Bundles, RoundKind
from shoal.errors import ParameterError
from shoal.mechanisms.dummies import Dummies

if TYPE_CHECKING:
    from shoal.collect.task import Task

ASKING = 0
"""In place of a round, to ask which rounds wait."""
_LABEL = b"shoal dummies 1\n"
_PROOF = re.compile("[Hh]elper ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")
_MOST_DUMMIES = 100_000
"""On average; each takes a key exchange, while the round is sealed."""
_MOST_HELPERS = 16
_SHUFFLER_ADDS = (
    "the shuffler runs shoal's, which draws them exactly, commits one draw for each round with the seal of the round, "
    "and keeps nowhere which messages they are, or how many of a category"
)
_HELPERS_ADD = (
    "each helper of the task runs shoal's, which draws them exactly, once a round, and hands them over sealed; no "
    "round is released without the dummies of all helpers"
)


@dataclass(frozen=True)
class DummyRounds(Bundles, format="shoal task 2", fields={"helper_keys": list}, mechanism=Dummies):
    """Rounds of messages that dummies hide, whatever other people send.

    Parameters
    ----------
    keys : tuple of bytes
        The Ed25519 public keys of helpers, besides or instead of the shuffler: it is one of the mechanism's `helpers`
        if there is a key fewer than that.
    """

    keys: tuple[bytes, ...] = ()
    relies_on_others = False

    @classmethod
    def stored(cls, values: dict[str, Any]) -> Self:
        """Return the kind with the extra fields of a task file, or raise `ParameterError`."""
        from shoal.collect.task import key_from_hex

        return cls(tuple(key_from_hex("each of helper_keys", key) for key in values["helper_keys"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the extra fields as they are in the task file."""
        return {"helper_keys": [key.hex() for key in self.keys]} if self.keys else {}

    def check(self, task: "Task") -> None:
        """Raise `ParameterError` for too many dummies, and for keys that do not fit or that two parties would share."""
        super().check(task)
        mechanism: Any = task.mechanism
        wanted, named = mechanism.helpers, len(self.keys)
        if named > _MOST_HELPERS or not max(wanted - 1, 0) <= named <= wanted:
            helpers = f"the public keys of {wanted} helpers, or of {wanted - 1} if the shuffler is one of them"
            raise ParameterError(
                f"{named} helper_keys do not fit {mechanism!r}: it takes {helpers}, and "
                f"{_MOST_HELPERS} at most; `shoal keygen helper` makes one"
            )
        if mechanism.added > _MOST_DUMMIES:
            raise ParameterError(
                f"{mechanism.added:,} dummies a round are more than the {_MOST_DUMMIES:,} that a shuffler seals at "
                "once; take fewer categories, a larger δ, or covers"
            )
        others = (task.analyst_key, task.shuffler_key)
        if named and len({*self.keys, *others}) < named + len(others):
            raise ParameterError("every helper needs a key of its own; each makes one with `shoal keygen helper`")

    def assumes(self, task: "Task") -> str:
        """Return the assumption of the central guarantee besides an honest shuffler."""
        added = "the shuffler adds dummies once a round, and forgets how many"
        if self.keys:
            added = (
                "all who add dummies draw them once a round, and one of them at least is honest and forgets how many"
            )
        return f"{added}; what other people send makes no difference"

    def conditions(self, task: "Task") -> str:
        """Return the conditions of the central guarantee, as a clause that follows "the shuffler"."""
        return f"tells nobody who sent which; and it {self._added(task)}. What others send does not matter"

    def _added(self, task: "Task") -> str:
        if not self.keys:
            return "has added dummies to this round once, and has forgotten how many"
        count = len(self.keys)
        helpers = f"{count} helper{'s' if count > 1 else ''}"
        if not task.shuffler_adds and count == 1:
            return "has added those of the helper, who has drawn them once and forgotten how many"
        parties = f"itself and {helpers}" if task.shuffler_adds else helpers
        return f"has added the dummies of {parties}, of whom one at least has drawn them once and forgotten how many"

    def runs(self, task: "Task") -> str:
        """Return a sentence on who runs which mechanism, for a review."""
        who = [*(["The shuffler"] if task.shuffler_adds else []), *(["each helper"] if self.keys else [])]
        added = " and ".join(who)
        return f"Each person sends what is true. {added[0].upper()}{added[1:]} runs {task.mechanism!r}"

    def who_adds(self, task: "Task") -> str:
        """Return a clause on who adds dummies and how, for a review."""
        shuffler, helpers = [_SHUFFLER_ADDS] * task.shuffler_adds, [_HELPERS_ADD] * bool(self.keys)
        return "; ".join(shuffler + helpers)

    @property
    def helper_keys(self) -> tuple[bytes, ...]:
        """The Ed25519 public keys of the helpers who add dummies."""
        return self.keys

    def helped_by(self, mechanism: Any, keys: tuple[bytes, ...]) -> tuple[Any, RoundKind]:
        """Return mechanism and kind of a new task with the public keys of helpers, to whom the shuffler adds."""
        if keys and mechanism.helpers == 1:
            mechanism = replace(mechanism, helpers=1 + len(keys))
        return mechanism, replace(self, keys=keys)

    def most_added(self, mechanism: Any) -> int:
        """Return the largest number of messages in a round besides the messages of people."""
        return int(2 * mechanism.added)

    def shuffler_adds(self, mechanism: Any) -> bool:
        """Return whether the shuffler itself adds dummies."""
        return bool(len(self.keys) < mechanism.helpers)

    def drawn(self, task: "Task", number: int) -> list[bytes]:
        """Return the dummies of one party for a round, drawn now and sealed for the analyst, by their bytes.

        How many there are of each category is drawn here, and kept nowhere: each party calls this once a round.

        Parameters
        ----------
        task : Task
            Whose mechanism says how many.
        number : int
            Of the round.
        """
        from shoal.collect.envelope import plaintexts, seal

        mechanism: Any = task.mechanism
        # In the order of their bytes, which says nothing: not by category, and not as they were drawn.
        return sorted(seal(task, number, each) for each in plaintexts(task, mechanism.dummies()))

    def most_bytes(self, task: "Task") -> int:
        """Return how many bytes of dummies one helper adds to a round at most."""
        mechanism: Any = task.mechanism
        return int(2 * mechanism.limit * mechanism.categories * task.ciphertext_bytes)


def _signed(task: "Task", number: int, digest: bytes) -> bytes:
    return _LABEL + task.id_bytes + number.to_bytes(8, "big") + digest


def proof_of(key: Ed25519PrivateKey, task: "Task", number: int, body: bytes) -> str:
    """Return what a helper sends as Authorization with a body; the same each time for the same body."""
    digest = hashlib.sha256(body).digest()
    signature = key.sign(_signed(task, number, digest))
    return f"Helper {key.public_key().public_bytes_raw().hex()} {digest.hex()} {signature.hex()}"


def proven(given: str, task: "Task", number: int) -> tuple[int, bytes] | None:
    """Return which helper of the task has signed this, and the SHA-256 that its body must have; None if none has."""
    parts = _PROOF.fullmatch(given)
    if parts is None:
        return None
    key, digest, signature = map(bytes.fromhex, parts.groups())
    if key not in task.helper_keys:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _signed(task, number, digest))
    except (InvalidSignature, ValueError):
        return None
    return task.helper_keys.index(key), digest
