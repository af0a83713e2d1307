"""The count of a round of a hunt: how often each prefix of its list is supported, and nothing of other outputs."""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedError
from shoal.mechanisms import Covered, Estimate
from shoal.mechanisms.mechanism import Reports

__all__ = ["CandidateCounts", "Candidates"]

_HEAD = struct.Struct(">16sQQ")
_MAGIC = b"shoal prefixes 1"


@dataclass(frozen=True)
class Candidates:
    """What people run in a round of a hunt, counted for its candidates alone: its geometry has far more outputs.

    Parameters
    ----------
    mechanism : Covered
        Of the round.
    """

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

    def collected(self, values: NDArray[np.int64], people: int) -> "CandidateCounts":
        """Return the counts of a round: messages that are not valid count as empty ones, and need not be counted.

        If fewer messages say something than there are people, so many bundles at least were empty, and are no reports.
        """
        return CandidateCounts(self.mechanism, values, min(people, int(values[-1])))


@dataclass(frozen=True, eq=False)
class CandidateCounts:
    """What a round of a hunt says: how many messages support each of its candidates.

    Attributes
    ----------
    mechanism : Covered
        Of the round.
    values : numpy.ndarray
        As `Candidates` tallies them.
    reports : int
        How many people there are.
    """

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
            raise DamagedError("these are not the counts of a round of this hunt")
        return CandidateCounts(mechanism, np.frombuffer(data, ">i8", offset=_HEAD.size).astype(np.int64), reports)
