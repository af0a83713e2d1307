r"""The list of prefixes of a round of a hunt, signed by the analyst: each names the one before it by its hash.

::

    {"format":"shoal prefixes 1","prefixes":[…],"previous":"…","round":2,"signature":"…","task":"…"}
    signed      "shoal prefixes 1\n" ‖ the same in canonical form without the signature

`prefixes` are those that were kept, in ascending order; what is counted in the round are all that extend one of them.
"""

import hashlib
import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from shoal.collect.kinds.heavy_hitters import HeavyHitterRounds
from shoal.collect.task import Task
from shoal.errors import CollectError, ForgedError, FormatError, ParameterError
from shoal.randomizers import Covered
from shoal.strict_json import read_fields

__all__ = ["MOST_LIST_BYTES", "PrefixList", "children_of"]

MOST_LIST_BYTES = 1 << 24
_MOST_LISTED = 1 << 22
"""The most prefixes that a round counts. The analyst holds an estimate of each in memory."""
_FORMAT = "shoal prefixes 1"
_FIELDS = {"format": str, "prefixes": list, "previous": str, "round": int, "signature": str, "task": str}


@dataclass(frozen=True)
class PrefixList:
    """A list that the analyst has signed for one task and round.

    Attributes
    ----------
    data : bytes
        The signed document.
    task : Task
        Whose hunt it is.
    round : int
        In which it is counted.
    kept : tuple of int
        The prefixes that it extends.
    """

    data: bytes
    task: Task
    round: int
    kept: tuple[int, ...]

    @staticmethod
    def signed(
        task: Task, number: int, kept: tuple[int, ...], before: "PrefixList | None", key: Ed25519PrivateKey
    ) -> "PrefixList":
        """Return a new list, checked as everybody else will check it.

        Parameters
        ----------
        task : Task
            Whose hunt it is.
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
        return PrefixList.verified(_canonical(content), task, number, before)

    @staticmethod
    def verified(data: bytes, task: Task, number: int, before: "PrefixList | None") -> "PrefixList":
        """Return the list in these bytes once all of it is right: signature, task, round, and what it extends."""
        source = f"the list of round {number:,}"
        if task.plan is None or not 0 < number <= task.plan.rounds:
            raise CollectError(f"there is no list of round {number:,}: the hunt is over, or this task has none")
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
        if _canonical(values | {"signature": signature}) != data or values["format"] != _FORMAT:
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


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _signed_bytes(content: dict[str, Any]) -> bytes:
    stated = {name: value for name, value in content.items() if name != "signature"}
    return f"{_FORMAT}\n".encode() + _canonical(stated)


def _check_listed(parents: int, bits: int) -> None:
    """Raise `ParameterError` if `parents` prefixes, extended by `bits` bits, are too many for one round.

    Parameters
    ----------
    parents : int
        The number of prefixes that are extended.
    bits : int
        The number of bits that are added to each.
    """
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
