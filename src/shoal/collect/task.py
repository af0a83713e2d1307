"""The task: all that clients, shuffler and analyst must agree on, in one file whose hash is its name."""

import hashlib
import hmac
import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

import shoal
from shoal.checks import known, positive, probability, whole
from shoal.collect.hunt_terms import HuntTerms
from shoal.collect.people_needed import people_needed
from shoal.collect.task_checks import check_helpers, check_messages
from shoal.digits import rounded_up
from shoal.errors import DamagedError, ForgedError, FormatError, ParameterError, ShoalError, StorageError
from shoal.files.memory_limits import categorical
from shoal.files.names import Names
from shoal.mechanisms import Categorical, Dummies
from shoal.mechanisms.bundled import Bundled
from shoal.pairs.registry import stored_mechanism, wire_code
from shoal.planning.hunt import Hunt
from shoal.strict_json import Fields, read_fields, shortened

__all__ = [
    "FORMAT",
    "KEY_BYTES",
    "LONGEST_ROUND",
    "MOST_REPLAY_ROUNDS",
    "MOST_TASK_BYTES",
    "SUITE",
    "Task",
    "assumption",
    "task_id",
]

FORMAT = "shoal task 1"
_WITH_HELPERS = "shoal task 2"
"""With the keys of helpers who add dummies."""
_WITH_HUNT = "shoal task 3"
"""With the terms of a hunt for heavy hitters."""
_MORE: dict[str, Fields] = {FORMAT: {}, _WITH_HELPERS: {"helper_keys": list}, _WITH_HUNT: {"hunt": dict}}
SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
"""RFC 9180: KEM 0x0020, KDF 0x0001, AEAD 0x0001."""
KEY_BYTES = 32
LONGEST_ROUND = 10 * 366 * 86400
"""Seconds."""
MOST_REPLAY_ROUNDS = 10_000
_FIELDS: Fields = {
    **dict.fromkeys(("analyst_key", "format", "key_id", "question", "shuffler_key", "suite", "too_small"), str),
    **dict.fromkeys(("ciphertext_bytes", "fakes", "minimum", "replay_rounds", "round_seconds"), int),
    **dict.fromkeys(("delta", "epsilon_limit"), int | float),
    "mechanism": dict,
    "names": list | None,
}
_MOST_QUESTION = 1000
_NOT_TEXT = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Control characters, those that turn text around, unknown ones, and ends of lines."""
MOST_TASK_BYTES = 1 << 28
_ID = re.compile("[0-9a-f]{64}")
_HEX = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")


def task_id(text: str) -> str:
    """Return a task's id if this is one: 64 hexadecimal digits."""
    if not _ID.fullmatch(text):
        raise ParameterError(f"the id of a task is 64 hexadecimal digits, as `shoal task show` prints it; got {text!r}")
    return text


def assumption(fakes: int) -> str:
    """Return what a central guarantee assumes of the other reports of a round, if m of them may be fakes.

    Parameters
    ----------
    fakes : int
        m of the task.

    Examples
    --------
    >>> assumption(0)
    'none of the other reports is made up by whoever looks, or known to them; with each that is, the true ε is larger'
    >>> assumption(100)
    'at most 100 of the other reports are made up by whoever looks, or known to them'
    """
    if not fakes:
        reason = "none of the other reports is made up by whoever looks, or known to them"
        return f"{reason}; with each that is, the true ε is larger"
    verb = "is" if fakes == 1 else "are"
    return f"at most {fakes:,} of the other reports {verb} made up by whoever looks, or known to them"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked, how it is randomized, for whom it is sealed, and when a round may be released.

    Parameters
    ----------
    question : str
        What people are asked, in words.
    mechanism : Categorical
        What each of them runs.
    names : Names
        Of its categories.
    delta : float
        δ of the central guarantee.
    epsilon_limit : float
        No result with a larger central ε may be published.
    minimum : int
        No round with fewer reports is released. It is at least as many as `epsilon_limit` takes besides `fakes`, since
        nothing else protects people from the analyst.
    fakes : int
        m, how many reports of a round may come from whoever wants to learn about the others, or be made up.
    round_seconds : int
        How long a round lasts.
    too_small : str
        What becomes of a round that has fewer reports at its end: "extend" it by as long again, or "discard".
    replay_rounds : int
        Over how many rounds a repeated report is recognised.
    analyst_key : bytes
        The X25519 public key that reports are sealed for.
    shuffler_key : bytes
        The Ed25519 public key that releases are signed for.
    helper_keys : tuple of bytes
        The Ed25519 public keys of those who add dummies, besides or instead of the shuffler: it is one of the
        mechanism's `helpers` if there is a key fewer than that.
    hunt : HuntTerms, optional
        Of a hunt for heavy hitters, of which every round has a list of prefixes, and the mechanism stands for all.
    """

    question: str
    mechanism: Categorical
    names: Names
    delta: float
    epsilon_limit: float
    minimum: int
    fakes: int
    round_seconds: int
    too_small: str
    replay_rounds: int
    analyst_key: bytes
    shuffler_key: bytes
    helper_keys: tuple[bytes, ...] = ()
    hunt: HuntTerms | None = None

    def __post_init__(self) -> None:
        """Check the fields, and that the minimum keeps the limit."""
        if not isinstance(self.question, str) or not 0 < len(self.question.strip()) <= _MOST_QUESTION:
            raise ParameterError(f"question must be a text of 1 to {_MOST_QUESTION} letters", "question")
        if any(category(letter) in _NOT_TEXT for letter in self.question):
            raise ParameterError("question must be a text on one line, without control characters", "question")
        categorical(self.mechanism)
        wire_code(self.mechanism)
        check_messages(self.mechanism)
        object.__setattr__(self, "helper_keys", tuple(self.helper_keys))
        check_helpers(self.mechanism, self.helper_keys, (self.analyst_key, self.shuffler_key))
        if self.names.count != self.mechanism.categories:
            raise ParameterError(f"{self.mechanism!r} is for other than {self.names.count:,} categories")
        seen: set[str] = set()
        for label in self.names.labels or ():
            if any(category(letter) in _NOT_TEXT for letter in label):
                raise ParameterError(f"the category {label!r} has control characters or such; names are plain text")
            if (composed := normalize("NFC", label)) in seen:
                raise ParameterError(f"the category {shortened(label)} stands there twice, written in different bytes")
            seen.add(composed)
        for field, value in (
            ("delta", probability(delta=self.delta)),
            ("epsilon_limit", positive(epsilon_limit=self.epsilon_limit)),
            ("fakes", whole(fakes=self.fakes, least=0)),
            ("minimum", whole(minimum=self.minimum, least=2)),
            ("round_seconds", whole(round_seconds=self.round_seconds, most=LONGEST_ROUND)),
            ("too_small", known(("extend", "discard"), too_small=self.too_small)),
            ("replay_rounds", whole(replay_rounds=self.replay_rounds, most=MOST_REPLAY_ROUNDS)),
        ):
            object.__setattr__(self, field, value)
        keys = {"analyst_key": self.analyst_key, "shuffler_key": self.shuffler_key}
        for name, key in (*keys.items(), *(("helper_keys", key) for key in self.helper_keys)):
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                raise ParameterError(f"{name} must be a public key of {KEY_BYTES} bytes, by `shoal keygen`", name)
        if self.analyst_key == self.shuffler_key:
            raise ParameterError(
                "analyst_key and shuffler_key must differ; each of them makes keys with `shoal keygen`"
            )
        try:
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(self.analyst_key))
        except ValueError:
            raise ParameterError(
                "analyst_key is a point that nothing can be sealed for; `shoal keygen` makes one"
            ) from None
        self._check_minimum()
        if self.hunt is not None:
            self._check_hunt()

    def _check_hunt(self) -> None:
        """Refuse a hunt whose rounds would not be those that were settled in advance."""
        assert self.hunt is not None
        _key("list_key", self.hunt.list_key)
        _ = self.hunt_plan
        if self.too_small != "extend" or self.names.labels is not None:
            raise ParameterError(
                "a task with a hunt has no names of categories, and extends a round that is too small: every round is "
                "one of the hunt's, and none can be left out"
            )

    @cached_property
    def hunt_plan(self) -> Hunt:
        """The plan of the hunt, for as many people as certainly hide each other in every round."""
        if self.hunt is None:
            raise ParameterError("this task has no hunt")
        return self.hunt.plan(self.mechanism, self.minimum - self.fakes)

    @property
    def shuffler_adds(self) -> bool:
        """Whether the shuffler itself adds dummies."""
        return isinstance(self.mechanism, Dummies) and len(self.helper_keys) < self.mechanism.helpers

    def helpers_missing(self, helped: int) -> int:
        """Return of how many helpers a round has no dummies, by whose it has."""
        return len(self.helper_keys) - helped.bit_count()

    def _check_minimum(self) -> None:
        if self.mechanism.local_epsilon <= self.epsilon_limit:
            return
        if self.minimum <= self.fakes or self.central(self.minimum).epsilon(self.delta) > self.epsilon_limit:
            raise ParameterError(
                f"minimum={self.minimum:,} with fakes={self.fakes:,} does not keep epsilon_limit="
                f"{self.epsilon_limit!r} at delta={self.delta!r}: {_advice(self)}"
            )

    def central(self, valid: int) -> "shoal.PrivacyCurve":
        """Return the guarantee of a round with this many valid reports, of which `fakes` hide nobody."""
        return shoal.amplify(self.mechanism, reports=max(valid - self.fakes, 1))

    @property
    def several(self) -> bool:
        """Whether a batch has another number of messages than of people: in bundles, and with dummies."""
        return isinstance(self.mechanism, Bundled)

    @property
    def bundle_bytes(self) -> int:
        """How many bytes a person sends: one sealed message, or all of a bundle."""
        return self.mechanism.bundle * self.ciphertext_bytes

    def fits(self, people: int, messages: int) -> bool:
        """Tell whether a round of so many people can have so many messages."""
        most = 2 * self.mechanism.added if isinstance(self.mechanism, Dummies) else 0
        return 0 <= messages - people * self.mechanism.bundle <= most

    @property
    def local_epsilon(self) -> float | None:
        """What holds for every report by itself, ε₀; None if nothing does."""
        epsilon = float(self.mechanism.local_epsilon)
        return epsilon if math.isfinite(epsilon) else None

    @property
    def collusion(self) -> str:
        """What is left if shuffler and analyst collude, in words."""
        if isinstance(self.mechanism, Bundled):
            return f"if shuffler and analyst collude, what remains is {self.mechanism.remains}"
        return f"if shuffler and analyst collude, ε₀ = {rounded_up(self.mechanism.local_epsilon)} remains"

    @property
    def plaintext_bytes(self) -> int:
        """How many bytes a report has before it is sealed: version, mechanism, value, and zeros."""
        return self.mechanism.plaintext_bytes

    @property
    def ciphertext_bytes(self) -> int:
        """How many bytes a sealed report has, whatever it says."""
        return self.mechanism.ciphertext_bytes

    @property
    def key_id(self) -> bytes:
        """The name of the analyst's key: the first 8 bytes of its SHA-256."""
        return hashlib.sha256(self.analyst_key).digest()[:8]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as they stand in the file."""
        more: dict[str, Any] = {"helper_keys": [key.hex() for key in self.helper_keys]} if self.helper_keys else {}
        if self.hunt is not None:
            more = {"hunt": self.hunt.to_dict()}
        return more | {
            "analyst_key": self.analyst_key.hex(),
            "ciphertext_bytes": self.ciphertext_bytes,
            "delta": self.delta,
            "epsilon_limit": self.epsilon_limit,
            "fakes": self.fakes,
            "format": next(version for version, fields in _MORE.items() if fields.keys() == more.keys()),
            "key_id": self.key_id.hex(),
            "mechanism": self.mechanism.to_dict(),
            "minimum": self.minimum,
            "names": None if self.names.labels is None else list(self.names.labels),
            "question": self.question,
            "replay_rounds": self.replay_rounds,
            "round_seconds": self.round_seconds,
            "shuffler_key": self.shuffler_key.hex(),
            "suite": SUITE,
            "too_small": self.too_small,
        }

    @cached_property
    def _canonical(self) -> bytes:
        return _canonical(self.to_dict())

    def to_bytes(self) -> bytes:
        """Return the task as canonical JSON: sorted fields, no blanks, UTF-8."""
        return self._canonical

    @cached_property
    def id_bytes(self) -> bytes:
        """The SHA-256 of the task."""
        return hashlib.sha256(self._canonical).digest()

    @property
    def id(self) -> str:
        """The SHA-256 of the task, in hexadecimal: its name, which clients and shuffler pin."""
        return self.id_bytes.hex()

    @staticmethod
    def from_bytes(data: bytes, *, pinned: str | None = None, source: str = "task") -> "Task":
        """Return the task in these bytes, or say why they are none.

        Parameters
        ----------
        data : bytes
            Canonical JSON.
        pinned : str, optional
            The id that it must have, from somebody who is trusted.
        source : str
            Where it comes from, for errors.
        """
        digest = hashlib.sha256(data).hexdigest()
        if pinned is not None and not hmac.compare_digest(digest, task_id(pinned)):
            raise ForgedError(
                f"{source} is not the task that was pinned: its id is {digest[:16]}…, not {pinned[:16]}…. Do not send "
                "anything; get the task and its id again from whoever asks"
            )
        # In the value of a field its quotation marks would be escaped, and a task that is not canonical is refused.
        wanted = next((version for version in _MORE if f'"format":"{version}"'.encode() in data), FORMAT)
        try:
            values = read_fields(data, {**_FIELDS, **_MORE[wanted]}, source)
        except FormatError as error:
            reason = str(error) if wanted.encode() in data else f"{source} is no task file"
            raise FormatError(f"{reason}; `shoal task new` makes one") from None
        if values["format"] != wanted or values["suite"] != SUITE:
            raise FormatError(
                f"{source} is a {shortened(values['format'])} with suite {shortened(values['suite'])}; this shoal "
                f"understands {FORMAT!r} with {SUITE!r}: upgrade"
            )
        # A mechanism without a version is one of shoal 0.1, where all of them were of version 1.
        unversioned = "version" not in values["mechanism"]
        if unversioned:
            values["mechanism"] = values["mechanism"] | {"version": 1}
        try:
            task = _made(values, source)
        except ShoalError as error:
            raise ParameterError(f"{source}: {error}") from None
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ParameterError(f"{source} makes no sense: {str(error)[:300]}") from None
        written = task.to_dict()
        if unversioned:
            del written["mechanism"]["version"]
            vars(task)["_canonical"] = _canonical(written)  # whose hash is the id that was pinned
        if task.to_bytes() != data:
            other = [name for name in ("ciphertext_bytes", "key_id") if values[name] != written[name]]
            reason = f"{' and '.join(other)} do not fit the rest" if other else "it is not in canonical form"
            raise DamagedError(f"{source} was changed since it was made: {reason}. Get it again from whoever asks")
        return task

    @staticmethod
    def read(path: Path, *, pinned: str | None = None) -> "Task":
        """Return the task in a file."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_TASK_BYTES)
        except OSError as error:
            reason = f"cannot read {path}: {error.strerror}; `shoal task new` makes a task"
            raise StorageError(reason, error) from None
        return Task.from_bytes(data, pinned=pinned, source=str(path))


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _made(values: dict[str, Any], source: str) -> Task:
    mechanism = categorical(stored_mechanism(values["mechanism"]))
    taken = {
        name: values[name]
        for name in _FIELDS
        if name not in ("format", "suite", "ciphertext_bytes", "key_id", "mechanism", "names")
    }
    for name in ("analyst_key", "shuffler_key"):
        taken[name] = _key(name, taken[name])
    taken["helper_keys"] = tuple(_key("each of helper_keys", key) for key in values.get("helper_keys", ()))
    taken["hunt"] = HuntTerms.stored(values["hunt"]) if "hunt" in values else None
    return Task(mechanism=mechanism, names=Names.stored(values["names"], mechanism.categories, source), **taken)


def _key(name: str, text: object) -> bytes:
    """Return a public key from its hexadecimal digits."""
    if not isinstance(text, str) or not _HEX.fullmatch(text):
        raise ParameterError(f"{name} must be {2 * KEY_BYTES} hexadecimal digits, got {shortened(text)}", name)
    return bytes.fromhex(text)


def _advice(task: Task) -> str:
    try:
        least = people_needed(task.mechanism, epsilon=task.epsilon_limit, delta=task.delta) + task.fakes
    except ShoalError as error:
        return f"no number of reports does: {error}"
    return f"it takes at least minimum={least:,}"
