"""What all mechanisms have in common: reports of a fixed length, and a count state that is all an estimate needs."""

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.errors import ParameterError
from shoal.randomizers.counts import Counts

__all__ = ["MOST_OUTPUTS", "Mechanism", "Numbered", "Reports"]

Reports = NDArray[Any]

MOST_OUTPUTS = 1 << 32
"""A mechanism with more different reports, or categories, can't be run."""
_TALLY = 1 << 20


class Mechanism(ABC):
    """A local randomizer that runs; its parameters are the fields of a dataclass."""

    name: ClassVar[str]
    """As the command line and the schema call it."""

    @property
    @abstractmethod
    def bits_per_report(self) -> int:
        """How many bits a report needs; the same for every report."""

    @property
    def bytes_per_report(self) -> int:
        """How many bytes a report takes on the wire."""
        return -(-self.bits_per_report // 8)

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers the count state has."""

    @property
    @abstractmethod
    def _blank(self) -> Reports:
        """No report at all, of the right type and shape."""

    @abstractmethod
    def _tally(self, reports: Reports) -> NDArray[np.int64]:
        """Return what the reports add to the count state."""

    @abstractmethod
    def consistent(self, values: NDArray[np.int64], reports: int) -> bool:
        """Tell whether so many reports can have these counts."""

    @abstractmethod
    def _wire(self, reports: Reports) -> NDArray[np.uint8]:
        """Return the reports as rows of bytes."""

    @abstractmethod
    def _unwire(self, rows: NDArray[np.uint8]) -> Reports:
        """Return the reports that these rows hold, checked."""

    def aggregate(self, reports: ArrayLike) -> "Counts[Self]":
        """Return the count state of these reports: it adds, and nothing else of the reports is needed."""
        checked = self._checked(reports)
        return Counts(self, self._tally(checked), len(checked))

    def _checked(self, reports: ArrayLike) -> Reports:
        blank = self._blank
        try:
            found = np.asarray(reports)
        except ValueError:
            raise ParameterError(f"these are not reports of {self!r}") from None
        if found.shape[:1] == (0,):
            return blank
        if found.ndim != blank.ndim or found.shape[1:] != blank.shape[1:] or found.dtype.kind not in "iu":
            raise ParameterError(f"these are not reports of {self!r}: {found.dtype} of shape {found.shape}")
        return found

    def to_bytes(self, reports: ArrayLike) -> bytes:
        """Return the reports as they go over the wire: `bytes_per_report` each, whatever they say."""
        return self._wire(self._checked(reports)).tobytes()

    def from_bytes(self, data: bytes) -> Reports:
        """Return the reports in these bytes, or say which of them can't be one."""
        size = self.bytes_per_report
        if len(data) % size:
            raise ParameterError(
                f"{len(data)} bytes are no whole number of reports of {size} bytes; the last one is cut off"
            )
        return self._unwire(np.frombuffer(data, np.uint8).reshape(-1, size))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema: the mechanism with all its parameters, which no report has to carry."""
        return {"mechanism": self.name} | {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


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
    def _blank(self) -> Reports:
        if self.outputs > MOST_OUTPUTS:
            raise ParameterError(f"{self!r} has {self.outputs:,} different reports; it can be run up to 2**32")
        kind = np.uint8 if self.outputs <= 1 << 8 else np.uint16 if self.outputs <= 1 << 16 else np.uint32
        return np.empty(0, kind)

    def _checked(self, reports: ArrayLike) -> Reports:
        found = super()._checked(reports)
        if len(found) and (found.min() < 0 or found.max() >= self.outputs):
            place = int(np.flatnonzero((found < 0) | (found >= self.outputs))[0])
            raise ParameterError(
                f"reports[{place}] is {found[place]}, and {type(self).__name__} here reports 0 to {self.outputs - 1}"
            )
        return found

    def _tally(self, reports: Reports) -> NDArray[np.int64]:
        counts = np.zeros(self.outputs, np.int64)
        step = max(_TALLY, self.outputs)
        for start in range(0, len(reports), step):
            counts += np.bincount(reports[start : start + step], minlength=self.outputs)
        return counts

    def consistent(self, values: NDArray[np.int64], reports: int) -> bool:
        """Tell whether so many reports can have these counts: one each."""
        return bool(sum(values.tolist()) == reports)

    def _wire(self, reports: Reports) -> NDArray[np.uint8]:
        size = self.bytes_per_report
        width = 4 if size == 3 else size
        rows = reports.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
        return rows[:, :size]

    def _unwire(self, rows: NDArray[np.uint8]) -> Reports:
        kind = self._blank.dtype
        if rows.shape[1] == 3:
            rows = np.concatenate([rows, np.zeros((len(rows), 1), np.uint8)], axis=1)
        return self._checked(rows.view(f"<u{rows.shape[1]}").ravel()).astype(kind)
