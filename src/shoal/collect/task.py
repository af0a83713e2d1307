"""The task: all that clients, shuffler and analyst must agree on, in one file whose hash is its name."""

import hashlib
import hmac
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from shoal.amplification.amplify import amplify
from shoal.checks import known, positive, probability, whole
from shoal.collect.kinds import FORMAT, RoundKind, kind_of, kinds
from shoal.curve import PrivacyCurve
from shoal.errors import DamagedError, ForgedError, FormatError, ParameterError, ShoalError, StorageError
from shoal.files.memory_limits import categorical
from shoal.files.names import Names
from shoal.mechanisms import Categorical
from shoal.pairs.registry import stored_mechanism, wire_code
from shoal.strict_json import Fields, canonical, read_fields, shortened

if TYPE_CHECKING:
    from shoal.planning.heavy_hitter_plan import HeavyHitterPlan

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
        No round with fewer reports is released. It is at least as many as `epsilon_limit` takes besides `malicious`,
        since nothing else protects people from the analyst.
    malicious : int
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
    kind : RoundKind, optional
        Of its rounds, such as `DummyRounds` or `HeavyHitterRounds`; if not given, the one that the mechanism asks for.
    """

    question: str
    mechanism: Categorical
    names: Names
    delta: float
    epsilon_limit: float
    minimum: int
    malicious: int
    round_seconds: int
    too_small: str
    replay_rounds: int
    analyst_key: bytes
    shuffler_key: bytes
    kind: RoundKind = None  # type: ignore[assignment]  # __post_init__ fills it

    def __post_init__(self) -> None:
        """Check the fields, and that the minimum keeps the limit."""
        if not isinstance(self.question, str) or not 0 < len(self.question.strip()) <= _MOST_QUESTION:
            raise ParameterError(f"question must be a text of 1 to {_MOST_QUESTION} letters", "question")
        if any(category(letter) in _NOT_TEXT for letter in self.question):
            raise ParameterError("question must be a text on one line, without control characters", "question")
        categorical(self.mechanism)
        wire_code(self.mechanism)
        if self.kind is None:
            object.__setattr__(self, "kind", kind_of(self.mechanism))
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
            ("malicious", whole(malicious=self.malicious, least=0)),
            ("minimum", whole(minimum=self.minimum, least=2)),
            ("round_seconds", whole(round_seconds=self.round_seconds, most=LONGEST_ROUND)),
            ("too_small", known(("extend", "discard"), too_small=self.too_small)),
            ("replay_rounds", whole(replay_rounds=self.replay_rounds, most=MOST_REPLAY_ROUNDS)),
        ):
            object.__setattr__(self, field, value)
        self.kind.check(self)
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

    @cached_property
    def plan(self) -> "HeavyHitterPlan | None":
        """The plan of all rounds together, if they are fixed together."""
        return self.kind.plan(self)

    @property
    def helper_keys(self) -> tuple[bytes, ...]:
        """The Ed25519 public keys of the helpers who add dummies."""
        return self.kind.helper_keys

    @property
    def shuffler_adds(self) -> bool:
        """Whether the shuffler itself adds dummies."""
        return self.kind.shuffler_adds(self.mechanism)

    def helpers_missing(self, helped: int) -> int:
        """Return of how many helpers a round has no dummies, by whose it has."""
        return len(self.helper_keys) - helped.bit_count()

    def _check_minimum(self) -> None:
        if self.mechanism.local_epsilon <= self.epsilon_limit:
            return
        if self.minimum <= self.malicious or self.central(self.minimum).epsilon(self.delta) > self.epsilon_limit:
            raise ParameterError(
                f"minimum={self.minimum:,} with malicious={self.malicious:,} does not keep epsilon_limit="
                f"{self.epsilon_limit!r} at delta={self.delta!r}: {_advice(self)}"
            )

    def central(self, valid: int) -> PrivacyCurve:
        """Return the guarantee of a round with this many valid reports, of which `malicious` hide nobody."""
        return amplify(self.mechanism, reports=max(valid - self.malicious, 1))

    @property
    def several(self) -> bool:
        """Whether a batch may have another number of messages than of people."""
        return self.kind.several

    @property
    def bundle_bytes(self) -> int:
        """How many bytes a person sends: one sealed message, or all of a bundle."""
        return self.mechanism.bundle * self.ciphertext_bytes

    def fits(self, people: int, messages: int) -> bool:
        """Return whether a round of so many people can have so many messages."""
        return 0 <= messages - people * self.mechanism.bundle <= self.kind.most_added(self.mechanism)

    @property
    def local_epsilon(self) -> float | None:
        """What holds for every report by itself, ε₀; None if nothing does."""
        epsilon = float(self.mechanism.local_epsilon)
        return epsilon if math.isfinite(epsilon) else None

    @property
    def collusion(self) -> str:
        """What is left if shuffler and analyst collude, in words."""
        return self.kind.collusion(self.mechanism)

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
        more = self.kind.to_dict()
        return more | {
            "analyst_key": self.analyst_key.hex(),
            "ciphertext_bytes": self.ciphertext_bytes,
            "delta": self.delta,
            "epsilon_limit": self.epsilon_limit,
            "fakes": self.malicious,
            "format": self.kind.format if more else FORMAT,
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
        return canonical(self.to_dict())

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
        wanted = next((version for version in kinds() if f'"format":"{version}"'.encode() in data), FORMAT)
        own: Fields = kinds()[wanted].fields if wanted in kinds() else {}
        try:
            values = read_fields(data, {**_FIELDS, **own}, source)
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
            vars(task)["_canonical"] = canonical(written)  # whose hash is the id that was pinned
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


def _made(values: dict[str, Any], source: str) -> Task:
    mechanism = categorical(stored_mechanism(values["mechanism"]))
    taken = {
        name: values[name]
        for name in _FIELDS
        if name not in ("format", "suite", "ciphertext_bytes", "key_id", "mechanism", "names")
    }
    taken["malicious"] = taken.pop("fakes")  # the name in version 1 of the protocol
    for name in ("analyst_key", "shuffler_key"):
        taken[name] = key_from_hex(name, taken[name])
    if values["format"] != FORMAT:
        taken["kind"] = kinds()[values["format"]].stored(values)
    return Task(mechanism=mechanism, names=Names.stored(values["names"], mechanism.categories, source), **taken)


def key_from_hex(name: str, text: object) -> bytes:
    """Return a public key from its hexadecimal digits; the error names the field `name`."""
    if not isinstance(text, str) or not _HEX.fullmatch(text):
        raise ParameterError(f"{name} must be {2 * KEY_BYTES} hexadecimal digits, got {shortened(text)}", name)
    return bytes.fromhex(text)


def _advice(task: Task) -> str:
    try:
        least = task.kind.people_needed(task.mechanism, epsilon=task.epsilon_limit, delta=task.delta) + task.malicious
    except ShoalError as error:
        return f"no number of reports does: {error}"
    return f"it takes at least minimum={least:,}"
