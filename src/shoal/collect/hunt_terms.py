"""What a task says of a hunt for heavy hitters: all of it but the lists of prefixes, and who signs those."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.mechanisms import Categorical, Covered
from shoal.planning.coded_strings import CodedStrings
from shoal.planning.hunt import Hunt

__all__ = ["HuntTerms", "check_listed", "children_of"]

_MOST_LISTED = 1 << 22
"""The most prefixes that a round counts. The analyst holds an estimate of each in memory."""
_KINDS: dict[str, tuple[type, ...]] = {"deviations": (int, float), "code": (str,), "list_key": (str,)}


@dataclass(frozen=True, kw_only=True)
class HuntTerms:
    """The terms of a hunt, settled in advance; the order, the slots and their filling stand in the mechanism.

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

    bits: int
    first: int
    step: int
    deviations: float
    code: str
    list_key: str

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "HuntTerms":
        """Return the terms in an object of JSON, or say why they are none."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            raise ParameterError(f"hunt must have the fields {', '.join(sorted(names))}, and no others", "hunt")
        for name, value in values.items():
            if type(value) not in _KINDS.get(name, (int,)):
                raise ParameterError(f"{name} of hunt is no {_KINDS.get(name, (int,))[-1].__name__}")
        return cls(**values | {"deviations": float(values["deviations"])})

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain values."""
        return asdict(self)

    def plan(self, mechanism: Categorical, people: int) -> Hunt:
        """Return the plan of these terms with what stands for every round, or say why there is none.

        Parameters
        ----------
        mechanism : Categorical
            Of the task.
        people : int
            The minimum, less those who may be fakes.
        """
        CodedStrings(self.bits, self.code)
        if not isinstance(mechanism, Covered):
            raise ParameterError("a hunt needs covers, from which nothing but its lists differs between rounds")
        plan = Hunt(
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
            raise ParameterError("the mechanism of the task is not the one that stands for every round of its hunt")
        return plan

    def number_of(self, value: str) -> int:
        """Return what a person's string is, as a whole number of so many bits."""
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

    def labels(self, prefixes: NDArray[np.uint64], number: int) -> list[str]:
        """Return what the prefixes of a round look like: text for whole bytes, and else their bits."""
        depth = self.depth(number)
        if self.code == "bytes" and depth % 8 == 0:
            return CodedStrings(depth, "bytes").labels(prefixes)
        if depth == self.bits:
            return CodedStrings(self.bits, self.code).labels(prefixes)
        return [f"{int(each):0{depth}b}…" for each in prefixes]


def check_listed(parents: int, bits: int) -> None:
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
    check_listed(len(parents), bits)
    return ((parents[:, None] << np.uint64(bits)) | np.arange(1 << bits, dtype=np.uint64)).ravel()
