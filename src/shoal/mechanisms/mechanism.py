"""What all mechanisms have in common: reports of a fixed length, and a count state that is all an estimate needs."""

import json
import struct
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.arrays import ByteArray, IntArray
from shoal.checks import whole
from shoal.errors import DamagedError, FormatError, ParameterError
from shoal.pairs.registry import schema_of, stored_mechanism
from shoal.strict_json import parsed

Reports = NDArray[Any]
M = TypeVar("M", bound="Mechanism")

_MAGIC = b"shoal counts 1\n"
MOST_OUTPUTS = 1 << 32
"""A mechanism with more different reports, or categories, can't be run."""
_TALLY = 1 << 20
_OVERHEAD = 48
"""Bytes that sealing adds: the encapsulated key and the tag."""
_BLOCK = 16
_HEAD = 2


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
    >>> from shoal.mechanisms import RandomizedResponse
    >>> mechanism = RandomizedResponse(categories=3, local_epsilon=1)
    >>> morning, evening = mechanism.aggregate([0, 2, 2]), mechanism.aggregate([1])
    >>> morning + evening
    Counts(4 reports, RandomizedResponse(categories=3, local_epsilon=1.0))
    >>> Counts.from_bytes(morning.to_bytes()) == morning
    True
    """

    mechanism: M
    values: IntArray
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
        head = struct.pack("<Iq", len(schema), self.reports)
        body = head + schema + self.values.astype("<i8").tobytes()
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


class Mechanism(ABC):
    """A local randomizer that runs; its parameters are the fields of a frozen dataclass.

    It is a `shoal.Randomizer` that also randomizes, aggregates, estimates and writes bytes. Most derive from one of
    three classes with fewer members to fill: `Indexed` for categories with numbered reports, `Categorical` for
    categories with other reports, `MeanMechanism` for numbers.
    """

    name: ClassVar[str]
    """As the command line and the schema call it; `register` sets it."""
    local_delta: ClassVar[float] = 0.0
    """Every mechanism of shoal is ε₀-DP, or has an infinite ε₀."""
    private_alone: ClassVar[bool] = True
    """Whether a report is private on its own, and not only among the messages of others."""
    added: ClassVar[int] = 0
    """How many dummies are added on average, those of all helpers."""

    @property
    @abstractmethod
    def bits_per_report(self) -> int:
        """How many bits a report needs; the same for every report."""

    @property
    def bytes_per_report(self) -> int:
        """How many bytes a report takes on the wire."""
        return -(-self.bits_per_report // 8)

    @property
    def plaintext_bytes(self) -> int:
        """How many bytes a report has before it is sealed: version, mechanism, value, and zeros."""
        return -(-(_HEAD + self.bytes_per_report) // _BLOCK) * _BLOCK

    @property
    def ciphertext_bytes(self) -> int:
        """How many bytes a sealed report has, whatever it says; of several messages, each of them."""
        return _OVERHEAD + self.plaintext_bytes

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers the count state has."""

    @property
    @abstractmethod
    def blank(self) -> Reports:
        """No report at all, of the right type and shape."""

    @abstractmethod
    def tally(self, reports: Reports) -> IntArray:
        """Return what checked reports add to the count state."""

    @abstractmethod
    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether this number of reports can have these counts."""

    @abstractmethod
    def to_rows(self, reports: Reports) -> ByteArray:
        """Return the reports as rows of bytes."""

    @abstractmethod
    def from_rows(self, rows: ByteArray) -> Reports:
        """Return the reports that these rows hold, checked."""

    def aggregate(self, reports: ArrayLike) -> "Counts[Self]":
        """Return the count state of these reports: it adds, and nothing else of the reports is needed."""
        checked = self._checked(reports)
        return Counts(self, self.tally(checked), len(checked))

    def _checked(self, reports: ArrayLike) -> Reports:
        blank = self.blank
        try:
            given = np.asarray(reports)
        except ValueError:
            raise ParameterError(f"these are not reports of {self!r}") from None
        if given.shape[:1] == (0,):
            return blank
        if given.ndim != blank.ndim or given.shape[1:] != blank.shape[1:] or given.dtype.kind not in "iu":
            raise ParameterError(f"these are not reports of {self!r}: {given.dtype} of shape {given.shape}")
        return given

    def to_bytes(self, reports: ArrayLike) -> bytes:
        """Return the reports as they go over the wire: `bytes_per_report` each, whatever they say."""
        return self.to_rows(self._checked(reports)).tobytes()

    def from_bytes(self, data: bytes) -> Reports:
        """Return the reports in these bytes, or say which of them can't be one."""
        size = self.bytes_per_report
        if len(data) % size:
            raise ParameterError(
                f"{len(data)} bytes are no whole number of reports of {size} bytes; the last one is cut off"
            )
        return self.from_rows(np.frombuffer(data, np.uint8).reshape(-1, size))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema: the mechanism with all its parameters, which no report has to carry."""
        return schema_of(self)


class Numbered(Mechanism):
    """A mechanism whose report is the number of an output, from 0 to `outputs` − 1."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many different reports there are."""

    @property
    def cells(self) -> int:
        """How many numbers the count state has: one for each output."""
        return self.outputs

    @property
    def bits_per_report(self) -> int:
        """How many bits a report needs, ⌈log₂ outputs⌉."""
        return (self.outputs - 1).bit_length()

    @property
    def blank(self) -> Reports:
        """No report at all, of the smallest type that holds all numbers."""
        if self.outputs > MOST_OUTPUTS:
            raise ParameterError(f"{self!r} has {self.outputs:,} different reports; it can be run up to 2**32")
        return np.empty(0, np.min_scalar_type(self.outputs - 1))

    def _checked(self, reports: ArrayLike) -> Reports:
        checked = super()._checked(reports)
        index = first_outside(checked, self.outputs)
        if index is not None:
            raise ParameterError(f"reports[{index}] is {checked[index]}, and {self!r} reports 0 to {self.outputs - 1}")
        return checked

    def tally(self, reports: Reports) -> IntArray:
        """Return how often each output was reported."""
        counts = np.zeros(self.outputs, np.int64)
        step = max(_TALLY, self.outputs)
        for start in range(0, len(reports), step):
            counts += np.bincount(reports[start : start + step], minlength=self.outputs)
        return counts

    def consistent(self, values: IntArray, reports: int) -> bool:
        """Tell whether this number of reports can have these counts: one each."""
        return bool(sum(values.tolist()) == reports)

    def to_rows(self, reports: Reports) -> ByteArray:
        """Return the numbers, the lowest byte first."""
        size = self.bytes_per_report
        width = 4 if size == 3 else size
        rows = reports.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
        return rows[:, :size]

    def from_rows(self, rows: ByteArray) -> Reports:
        """Return the numbers, checked."""
        kind = self.blank.dtype
        if rows.shape[1] == 3:
            zeros = np.zeros((len(rows), 1), np.uint8)
            rows = np.concatenate([rows, zeros], axis=1)
        return self._checked(rows.view(f"<u{rows.shape[1]}").ravel()).astype(kind)


def first_outside(numbers: NDArray[Any], count: int) -> int | None:
    """Return the index of the first number that is not from 0 to `count` − 1; None if all are."""
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() < count):
        return None
    outside = (numbers < 0) | (numbers >= count)
    return int(np.flatnonzero(outside)[0])


def check_counts(mechanism: object, counts: object) -> None:
    """Refuse counts of another mechanism, and those of no reports."""
    if not isinstance(counts, Counts) or counts.mechanism != mechanism:
        other = counts.mechanism if isinstance(counts, Counts) else counts
        raise ParameterError(f"these counts are not of {mechanism!r}, but of {other!r}")
    if counts.reports == 0:
        raise ParameterError("there are no reports to estimate from")
