"""The count state: all that an estimate needs to know of the reports. States add."""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.checks import whole
from shoal.errors import DamagedError, FormatError, ParameterError
from shoal.pairs.registry import stored_mechanism
from shoal.strict_json import parsed

__all__ = ["Counts"]

_MAGIC = b"shoal counts 1\n"


class Counted(Protocol):
    """What a count state asks of the mechanism."""

    @property
    def cells(self) -> int:
        """How many numbers the state has."""

    def consistent(self, values: NDArray[np.int64], reports: int) -> bool:
        """Tell whether this number of reports can have these counts."""

    def to_dict(self) -> dict[str, Any]:
        """Return the schema."""


M = TypeVar("M", bound=Counted)


@dataclass(frozen=True, eq=False)
class Counts(Generic[M]):
    """How often each output was reported, or each category supported.

    Attributes
    ----------
    mechanism : M
        What each person ran.
    values : numpy.ndarray
        The counts.
    reports : int
        n.

    Examples
    --------
    >>> from shoal.randomizers import RandomizedResponse
    >>> mechanism = RandomizedResponse(categories=3, local_epsilon=1)
    >>> morning, evening = mechanism.aggregate([0, 2, 2]), mechanism.aggregate([1])
    >>> morning + evening
    Counts(4 reports, RandomizedResponse(categories=3, local_epsilon=1.0))
    >>> Counts.from_bytes(morning.to_bytes()) == morning
    True
    """

    mechanism: M
    values: NDArray[np.int64]
    reports: int

    def __add__(self, other: "Counts[M]") -> "Counts[M]":
        """Return the state of the reports of both."""
        if not isinstance(other, Counts):
            return NotImplemented
        if other.mechanism != self.mechanism:
            raise ParameterError(
                f"counts of different mechanisms don't add: {self.mechanism!r} and {other.mechanism!r}"
            )
        total = whole(reports=self.reports + other.reports, least=0)  # so that no count can overflow
        return Counts(self.mechanism, self.values + other.values, total)

    def __radd__(self, other: Any) -> "Counts[M]":
        """Let `sum` begin with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Compare the mechanism and all counts."""
        if not isinstance(other, Counts):
            return NotImplemented
        same = self.mechanism == other.mechanism and self.reports == other.reports
        return same and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show n and the mechanism."""
        return f"Counts({self.reports:,} reports, {self.mechanism!r})"

    def to_bytes(self) -> bytes:
        """Return the state with its schema, to be stored or sent."""
        schema = json.dumps(self.mechanism.to_dict(), ensure_ascii=False).encode()
        body = struct.pack("<Iq", len(schema), self.reports) + schema + self.values.astype("<i8").tobytes()
        return _MAGIC + body + struct.pack("<I", zlib.crc32(body))

    @staticmethod
    def from_bytes(data: bytes) -> "Counts[Any]":
        """Return the state in these bytes, or say why they are none."""
        if not data.startswith(_MAGIC):
            raise FormatError("this is no count state of shoal: it does not begin with 'shoal counts 1'")
        body, check = data[len(_MAGIC) : -4], data[-4:]
        if len(body) < 12 or struct.pack("<I", zlib.crc32(body)) != check:
            raise DamagedError("this count state is damaged or cut off: its checksum does not fit")
        length, count = struct.unpack_from("<Iq", body)
        try:
            reports = whole(reports=count, least=0)
            mechanism = stored_mechanism(parsed(body[12 : 12 + length]))
        except ParameterError as error:
            raise FormatError(f"this count state is not one that shoal writes: {error}") from None
        except ValueError:
            raise FormatError("this count state does not say which mechanism it is of") from None
        rest = body[12 + length :]
        if len(rest) != 8 * mechanism.cells:
            raise DamagedError(
                f"this count state holds {len(rest)} bytes of counts; {mechanism!r} has {8 * mechanism.cells}"
            )
        values = np.frombuffer(rest, "<i8").astype(np.int64)
        if (values < 0).any() or not mechanism.consistent(values, reports):
            raise DamagedError(f"this count state says {reports} reports, and its counts say otherwise")
        return Counts(mechanism, values, reports)
