r"""Rounds of a search for heavy hitters: its terms, its signed lists of prefixes, and the count of a round.

The analyst signs a list of prefixes for every round; each names the one before it by its hash::

    {"format":"shoal prefixes 1","prefixes":[…],"previous":"…","round":2,"signature":"…","task":"…"}
    signed      "shoal prefixes 1\n" ‖ the same in canonical form without the signature

`prefixes` are those that were kept, in ascending order; what is counted in the round are all that extend one of them.
"""

import hashlib
import struct
from bisect import bisect_left
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from shoal.collect.kinds import Bundles
from shoal.curve import PrivacyCurve
from shoal.errors import CollectError, DamagedError, ForgedError, FormatError, ParameterError
from shoal.estimation.estimate import Estimate
from shoal.mechanisms import Categorical
from shoal.mechanisms.covered import Covered
from shoal.mechanisms.mechanism import Reports
from shoal.planning.coded_strings import CodedStrings
from shoal.strict_json import canonical, read_fields

if TYPE_CHECKING:
    from shoal.collect.batch import Manifest
    from shoal.collect.connection import Connection
    from shoal.collect.counting import ShardCounts
    from shoal.collect.round_state import Round
    from shoal.collect.sender import Sender
    from shoal.collect.task import Task
    from shoal.planning.heavy_hitter_plan import HeavyHitterPlan

NONE_OF_THESE = "none of these"
"""Category 0 of every round: a design point of its own."""
_KINDS: dict[str, tuple[type, ...]] = {"deviations": (int, float), "code": (str,), "list_key": (str,)}
_HEAD = struct.Struct(">16sQQ")
_MAGIC = b"shoal prefixes 1"
MOST_LIST_BYTES = 1 << 24
_MOST_LISTED = 1 << 22
"""The most prefixes that a round counts. The analyst holds an estimate of each in memory."""
_FORMAT = "shoal prefixes 1"
_FIELDS = {"format": str, "prefixes": list, "previous": str, "round": int, "signature": str, "task": str}


@dataclass(frozen=True, kw_only=True)
class HeavyHitterRounds(Bundles, format="shoal task 3", fields={"hunt": dict}):
    """Rounds of a search for heavy hitters, fixed in advance but for a signed list of prefixes for each round.

    The order of the geometry, the slots and their filling are in the mechanism, which stands for every round.

    Parameters
    ----------
    bits, first, step : int
        Of a whole string, of the prefixes of round 1, and how many more in each round after it.
    deviations : float
        How many standard deviations of an empty prefix the threshold is at.
    code : {"bytes", "hash", "numbers"}
        How strings become bits.
    list_key : str
        The Ed25519 public key that lists of prefixes are signed with, in hexadecimal.
    """

    has_lists = True
    on_spark = False

    bits: int
    first: int
    step: int
    deviations: float
    code: str
    list_key: str

    @classmethod
    def of(cls, task: "Task") -> Self:
        """Return the rounds of a task, or raise `ParameterError` if they are of another kind."""
        if not isinstance(task.kind, cls):
            raise ParameterError("this task has no search; `shoal task heavy-hitters` makes a task with one")
        return task.kind

    @staticmethod
    def plan_of(task: "Task") -> "HeavyHitterPlan":
        """Return the plan of a task's rounds, or raise `ParameterError` if they are of another kind."""
        if task.plan is None:
            raise ParameterError("this task has no search")
        return task.plan

    @classmethod
    def stored(cls, values: dict[str, Any]) -> Self:
        """Return the kind with the extra fields of a task file, or raise `ParameterError`."""
        given, names = values["hunt"], {field.name for field in fields(cls)}
        if set(given) != names:
            raise ParameterError(f"hunt must have the fields {', '.join(sorted(names))}, and no others", "hunt")
        for name, value in given.items():
            if type(value) not in _KINDS.get(name, (int,)):
                raise ParameterError(f"{name} of hunt is no {_KINDS.get(name, (int,))[-1].__name__}")
        return cls(**given | {"deviations": float(given["deviations"])})

    def to_dict(self) -> dict[str, Any]:
        """Return the extra fields as they are in the task file."""
        return {"hunt": asdict(self)}

    def check(self, task: "Task") -> None:
        """Raise `ParameterError` if the rounds would not be those that were fixed in advance."""
        from shoal.collect.task import key_from_hex

        super().check(task)
        key_from_hex("list_key", self.list_key)
        _ = task.plan
        if task.too_small != "extend" or task.names.labels is not None:
            raise ParameterError(
                "a search has no names of categories, and extends a round that is too small: every round is part of "
                "it, and none can be left out"
            )

    def plan(self, task: "Task") -> "HeavyHitterPlan":
        """Return the plan of all rounds, for as many people as certainly hide each other in each."""
        return self.planned(task.mechanism, task.minimum - task.malicious)

    def planned(self, mechanism: Categorical, people: int) -> "HeavyHitterPlan":
        """Return the plan for so many people with the mechanism that stands for every round.

        Parameters
        ----------
        mechanism : Categorical
            Of the task.
        people : int
            The minimum, less those who may be malicious.
        """
        from shoal.planning.heavy_hitter_plan import HeavyHitterPlan

        CodedStrings(self.bits, self.code)
        if not isinstance(mechanism, Covered):
            raise ParameterError("a search needs covers, from which nothing but its lists differs between rounds")
        plan = HeavyHitterPlan(
            people=people,
            bits=self.bits,
            first=self.first,
            step=self.step,
            slots=mechanism.slots,
            fill=mechanism.fill,
            order=mechanism.categories - 1,
            deviations=self.deviations,
        )
        if plan.mechanism != mechanism:
            raise ParameterError("the mechanism of the task is not the one that stands for every round of its search")
        return plan

    def reviewed(self, task: "Task", reports: int) -> "PrivacyCurve":
        """Return the guarantee of all rounds together, for `reports` reports that hide each other in each round."""
        return self.planned(task.mechanism, reports).curve

    def runs(self, task: "Task") -> str:
        """Return a sentence on who runs which mechanism, for a review."""
        plan = self.plan_of(task)
        return (
            f"For their privacy, {task.mechanism!r} stands for every round, whatever its list (Theorem H). In each of "
            f"{plan.rounds} rounds each person sends {plan.slots + 1:,} messages, covers with fill={plan.fill!r}, by "
            f"the projective geometry response of order {plan.order} over the prefixes of a signed list"
        )

    def number_of(self, value: str) -> int:
        """Return a person's string as an integer of `bits` bits."""
        if self.code == "numbers":
            if not (value.isascii() and value.isdigit()):
                raise ParameterError("the values of this task are whole numbers")
            return int(CodedStrings(self.bits, self.code).numbers([int(value)])[0])
        return int(CodedStrings(self.bits, self.code).numbers([value])[0])

    def depth_before(self, number: int) -> int:
        """Return how many bits the prefixes have that the list of a round extends."""
        return 0 if number == 1 else self.first + (number - 2) * self.step

    def depth(self, number: int) -> int:
        """Return how many bits the prefixes of a round have."""
        return self.first + (number - 1) * self.step

    def sender(self, task: "Task", connection: "Connection", state: Path | None, token: str | None) -> "Sender":
        """Return a client of the task."""
        from shoal.collect.prefix_lists import PrefixSender

        if state is None:
            raise ParameterError("a client of a search keeps its lists; give it a folder", "state")
        return PrefixSender(task, connection, state, token)

    def awaits(self, one: "Round") -> str | None:
        """Return that a round has no list yet: if it took reports before, others could fill it up."""
        if one.prefixes:
            return None
        return f"Round {one.number} has no list of prefixes yet. Send the report when it has one."

    def reader(self, task: "Task", number: int, folder: Path) -> "Candidates":
        """Return the mechanism, or its part, that reads and tallies a round's messages; `folder` is the analyst's."""
        from shoal.collect.prefix_lists import PrefixLists

        return Candidates(PrefixLists(folder, task).of_round(number).mechanism)

    def counted(self, reader: Any, sums: "ShardCounts", manifest: "Manifest") -> "CandidateCounts":
        """Return the counts of a round, one report per person.

        Messages that are not valid count as empty ones, and need not be counted. If fewer messages say something than
        there are people, so many bundles at least were empty, and are no reports.
        """
        return CandidateCounts(reader.mechanism, sums.values, min(manifest.reports, int(sums.values[-1])))

    def counts_from_bytes(self, data: bytes, reader: Any) -> "CandidateCounts":
        """Return counts from their bytes."""
        return CandidateCounts.from_bytes(data, reader.mechanism)

    def estimate(self, mechanism: Categorical, counts: Any, confidence: float) -> Estimate:
        """Return the estimate of a round."""
        result: Estimate = counts.estimate(confidence=confidence)
        return result

    def labels(self, task: "Task", number: int, folder: Path) -> tuple[str, ...]:
        """Return the prefixes of a round as labels: text for whole bytes, and otherwise their bits."""
        from shoal.collect.prefix_lists import PrefixLists

        prefixes, depth = PrefixLists(folder, task).of_round(number).listed, self.depth(number)
        if self.code == "bytes" and depth % 8 == 0:
            named = CodedStrings(depth, "bytes").labels(prefixes)
        elif depth == self.bits:
            named = CodedStrings(self.bits, self.code).labels(prefixes)
        else:
            named = [f"{int(each):0{depth}b}…" for each in prefixes]
        return (NONE_OF_THESE, *named)


@dataclass(frozen=True)
class Candidates:
    """What clients run in a heavy-hitter round, counted for candidates alone: its geometry has far more outputs."""

    mechanism: Covered

    @property
    def bytes_per_report(self) -> int:
        """How many bytes a message has."""
        return self.mechanism.bytes_per_report

    @property
    def cells(self) -> int:
        """How many numbers are counted: one for each category, and how many messages are not empty."""
        return self.mechanism.categories + 1

    def from_bytes(self, data: bytes) -> Reports:
        """Return messages from their bytes."""
        return self.mechanism.from_bytes(data)

    def tally(self, messages: Reports) -> NDArray[np.int64]:
        """Return how many messages support each category, and how many are not empty."""
        assert self.mechanism.response is not None
        said = messages[messages != self.mechanism.null]
        support, _ = self.mechanism.response.supported_by(said)
        return np.append(support.astype(np.int64), len(said))


@dataclass(frozen=True, eq=False)
class CandidateCounts:
    """How many messages support each candidate of a round, as `Candidates` tallies them, and how many reports came."""

    mechanism: Covered
    values: NDArray[np.int64]
    reports: int

    def estimate(self, *, confidence: float = 0.95) -> Estimate:
        """Return estimates of "none of these" and of every prefix, with intervals."""
        support, said = self.values[:-1].astype(np.float64), int(self.values[-1])
        block = np.full(1, float(said))
        return self.mechanism._estimated((support, block), self.reports, said - self.reports, confidence)

    def to_bytes(self) -> bytes:
        """Return all of it but the mechanism."""
        return _HEAD.pack(_MAGIC, self.reports, len(self.values)) + self.values.astype(">i8").tobytes()

    @staticmethod
    def from_bytes(data: bytes, mechanism: Covered) -> "CandidateCounts":
        """Return the counts in these bytes, of a round with this mechanism."""
        try:
            magic, reports, cells = _HEAD.unpack_from(data)
        except struct.error:
            magic, reports, cells = b"", 0, 0
        if magic != _MAGIC or cells != mechanism.categories + 1 or len(data) != _HEAD.size + 8 * cells:
            raise DamagedError("these are not the counts of a round of this search")
        return CandidateCounts(mechanism, np.frombuffer(data, ">i8", offset=_HEAD.size).astype(np.int64), reports)


@dataclass(frozen=True)
class PrefixList:
    """A list that the analyst has signed for one task and round.

    Attributes
    ----------
    data : bytes
        The signed document.
    task : Task
        Whose search it is.
    round : int
        In which it is counted.
    kept : tuple of int
        The prefixes that it extends.
    """

    data: bytes
    task: "Task"
    round: int
    kept: tuple[int, ...]

    @staticmethod
    def signed(
        task: "Task", number: int, kept: tuple[int, ...], before: "PrefixList | None", key: Ed25519PrivateKey
    ) -> "PrefixList":
        """Return a new list, checked as everybody else will check it.

        Parameters
        ----------
        task : Task
            Whose search it is.
        number : int
            Of the round.
        kept : tuple of int
            The prefixes that were kept in the round before; (0,) in the first.
        before : PrefixList or None
            The list of the round before; None in the first.
        key : Ed25519PrivateKey
            The one that the task names.
        """
        content: dict[str, Any] = {
            "format": _FORMAT,
            "prefixes": list(kept),
            "previous": task.id if before is None else before.sha256,
            "round": number,
            "task": task.id,
        }
        content["signature"] = key.sign(_signed_bytes(content)).hex()
        return PrefixList.verified(canonical(content), task, number, before)

    @staticmethod
    def verified(data: bytes, task: "Task", number: int, before: "PrefixList | None") -> "PrefixList":
        """Return the list in these bytes once all of it is right: signature, task, round, and what it extends."""
        source = f"the list of round {number:,}"
        if task.plan is None or not 0 < number <= task.plan.rounds:
            raise CollectError(f"there is no list of round {number:,}: the search is over, or this task has none")
        terms = HeavyHitterRounds.of(task)
        values = read_fields(data, _FIELDS, source)
        signature = values.pop("signature")
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(terms.list_key))
            key.verify(bytes.fromhex(signature), _signed_bytes(values))
        except (InvalidSignature, ValueError):
            raise ForgedError(
                f"{source} is not signed by the analyst of this task: somebody else made it, or changed it"
            ) from None
        if canonical(values | {"signature": signature}) != data or values["format"] != _FORMAT:
            raise FormatError(f"{source} is not in canonical form, or of another version")
        if (values["task"], values["round"]) != (task.id, number):
            raise ForgedError(f"{source} is for another task or round than {task.id[:16]}…, round {number:,}")
        if (before is None) != (number == 1) or values["previous"] != (task.id if before is None else before.sha256):
            raise ForgedError(f"{source} does not follow the list of the round before, which was another one")
        kept = values["prefixes"]
        if not kept or not all(type(one) is int and 0 <= one < 1 << 64 for one in kept) or kept != sorted(set(kept)):
            raise FormatError(f"the prefixes of {source} are not different whole numbers in ascending order")
        # A prefix was listed if its parent was kept. The children, 2^bits for each parent, are not generated.
        parents = set(kept) if before is None else {each >> before.added_bits for each in kept}
        allowed = {0} if before is None else set(before.kept)
        if not allowed.issuperset(parents):
            raise ForgedError(f"{source} has prefixes that were not in the list before it")
        verified = PrefixList(data, task, number, tuple(kept))
        _check_listed(len(kept), verified.added_bits)
        return verified

    @property
    def sha256(self) -> str:
        """By which the next list names this one."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def added_bits(self) -> int:
        """The number of bits by which the prefixes of this round are longer than the kept ones."""
        terms = HeavyHitterRounds.of(self.task)
        return terms.depth(self.round) - terms.depth_before(self.round)

    @cached_property
    def listed(self) -> NDArray[np.uint64]:
        """All prefixes that are counted in the round, in order: up to 4 million. Only the analyst needs them."""
        return children_of(np.array(self.kept, np.uint64), self.added_bits)

    @cached_property
    def mechanism(self) -> Covered:
        """The randomizer that clients run in this round; category 0 is "none of these"."""
        return HeavyHitterRounds.plan_of(self.task).of_list(len(self.kept) << self.added_bits)

    def category_of(self, number: int) -> int:
        """Return the category of a client's string: 1 + the place of its prefix in `listed`, or 0, "none of these"."""
        terms = HeavyHitterRounds.of(self.task)
        prefix = number >> (terms.bits - terms.depth(self.round))
        parent = prefix >> self.added_bits
        place = bisect_left(self.kept, parent)
        if place == len(self.kept) or self.kept[place] != parent:
            return 0
        return 1 + (place << self.added_bits) + (prefix - (parent << self.added_bits))


def _signed_bytes(content: dict[str, Any]) -> bytes:
    stated = {name: value for name, value in content.items() if name != "signature"}
    return f"{_FORMAT}\n".encode() + canonical(stated)


def _check_listed(parents: int, bits: int) -> None:
    """Raise `ParameterError` if `parents` prefixes, extended by `bits` bits, are too many for one round."""
    if parents << bits > _MOST_LISTED:
        raise ParameterError(
            f"{parents:,} prefixes, extended by {bits} bits, are more than {_MOST_LISTED:,}; raise deviations"
        )


def children_of(parents: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Return all prefixes that are longer by so many bits, in order.

    Examples
    --------
    >>> children_of(np.array([0, 3], np.uint64), 1).tolist()
    [0, 1, 6, 7]
    """
    _check_listed(len(parents), bits)
    return ((parents[:, None] << np.uint64(bits)) | np.arange(1 << bits, dtype=np.uint64)).ravel()
