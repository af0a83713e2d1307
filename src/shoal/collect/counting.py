"""Counting a round: sealed reports are opened and counted in shards, in one process or several, which add up."""

import operator
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from itertools import compress, islice, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from shoal.collect.batch import BatchFile
from shoal.collect.envelope import head, information, opened
from shoal.collect.task import Task
from shoal.errors import CollectError, ParameterError
from shoal.files.memory_limits import records_at_once
from shoal.mechanisms.mechanism import Reports
from shoal.processes import cores, shared

if TYPE_CHECKING:
    from shoal.collect.kinds.heavy_hitter_rounds import Candidates
    from shoal.mechanisms import Categorical

_HEAD = 2
"""Bytes before the value: version and mechanism."""
Reader: TypeAlias = "Categorical | Candidates"
"""Reads and tallies the messages of a round."""
_SHARD = 5_000
"""Reports that a process takes at a time: a third of a second."""
_WORTH = 10_000
"""For fewer reports than this, a further process takes longer to start than it saves."""
_BLOCK = 1 << 14
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class ShardCounts:
    """What the reports of a shard say together: the counts of the mechanism, over so many valid messages.

    `undecryptable` records are no report for this task, round and key; `malformed` ones could be opened, and
    hold no report of the mechanism.
    """

    values: NDArray[np.int64]
    valid: int
    undecryptable: int
    malformed: int

    @property
    def records(self) -> int:
        """How many records there were."""
        return self.valid + self.undecryptable + self.malformed

    def __add__(self, other: "ShardCounts") -> "ShardCounts":
        """Return the counts of both."""
        return ShardCounts(
            self.values + other.values,
            self.valid + other.valid,
            self.undecryptable + other.undecryptable,
            self.malformed + other.malformed,
        )

    def __sub__(self, other: "ShardCounts") -> "ShardCounts":
        """Return the counts without records that are among them."""
        negative = ShardCounts(-other.values, -other.valid, -other.undecryptable, -other.malformed)
        return self + negative


@dataclass(frozen=True)
class SealedRound:
    """All that it takes to open and count sealed reports of a round, in any process, on any machine, and again.

    The task is not part of it: its guarantee was proved where the task was made or read, and no shard proves
    it again. Reports are sealed for `info`, and each begins with `head` once it is opened.
    """

    reader: Reader
    info: bytes
    head: bytes
    ciphertext_bytes: int
    plaintext_bytes: int

    @staticmethod
    def of(task: Task, number: int, reader: Reader) -> "SealedRound":
        """Return a round of a task."""
        return SealedRound(reader, information(task, number), head(task), task.ciphertext_bytes, task.plaintext_bytes)

    def count(self, private_key: bytes, records: bytes) -> ShardCounts:
        """Open sealed reports and count them; what is not a report is counted as such, and is never an error."""
        length, size = self.ciphertext_bytes, self.reader.bytes_per_report
        key = X25519PrivateKey.from_private_bytes(private_key)
        ciphertexts = (records[start : start + length] for start in range(0, len(records), length))
        results = opened(key, self.info, ciphertexts)
        contents = [content for content in results if content is not None]
        # Only the last record can have another length, where the records were cut off.
        whole = [content for content in contents if len(content) == self.plaintext_bytes]
        rows = np.frombuffer(b"".join(whole), np.uint8).reshape(-1, self.plaintext_bytes)
        rows = rows[(rows[:, :_HEAD] == np.frombuffer(self.head, np.uint8)).all(axis=1)]
        rows = rows[~rows[:, _HEAD + size :].any(axis=1)]
        values, valid = _tallied(self.reader, rows[:, _HEAD : _HEAD + size])
        return ShardCounts(values, valid, len(results) - len(contents), len(contents) - valid)


def _tallied(reader: Reader, rows: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
    """Return the counts of those rows that are reports, and how many these are."""
    values, valid = np.zeros(reader.cells, np.int64), 0
    step = records_at_once(rows.shape[1])
    for start in range(0, len(rows), step):
        reports = _reports(reader, rows[start : start + step])
        if reports:
            messages = np.concatenate(reports)
            tallied = reader.tally(messages)
            values[: len(tallied)] += tallied  # with dummies there is a number more, which is no count of messages
            valid += len(messages)
    return values, valid


def _reports(reader: Reader, rows: NDArray[np.uint8]) -> list[Reports]:
    """Return the reports in these rows; those that a bad one is read with are read by halves, until it stands alone."""
    try:
        return [reader.from_bytes(rows.tobytes())]
    except ParameterError:
        # The last bytes are the highest: numbers out of range, and bits beyond the last category, come to stand
        # together, and those that are fine are read in a few pieces, however many are not.
        ordered = rows[np.lexsort(rows[:, -4:].T)]
    reports, parts = [], [ordered]
    while parts:
        part = parts.pop()
        try:
            reports.append(reader.from_bytes(part.tobytes()))
        except ParameterError:
            if len(part) > 1:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
    return reports


@dataclass(frozen=True)
class Job:
    """What a process needs to open and count a part of a batch."""

    batch: BatchFile
    sealed: SealedRound
    key: bytes = field(repr=False)

    def __call__(self, span: tuple[int, int]) -> ShardCounts:
        """Count the reports from one index to another, a block at a time, so that memory does not matter."""
        counts = (self.sealed.count(self.key, block) for block in _blocks(self.batch, *span))
        return reduce(operator.add, counts)


def _blocks(batch: BatchFile, start: int, stop: int) -> Iterator[bytes]:
    """Yield the reports from one index to another, many at once."""
    records = batch.records(start, stop)
    while block := b"".join(islice(records, at_once(batch))):
        yield block


def at_once(batch: BatchFile) -> int:
    """Return how many reports to hold in memory at once."""
    return max(1, min(_BLOCK, _BLOCK_BYTES // batch.manifest.record_bytes))


def counted(job: Job, processes: int | None) -> ShardCounts:
    """Count a whole batch in this process, or in several."""
    reports, number = job.batch.manifest.records, job.batch.manifest.round
    workers = processes or max(1, min(cores(), reports // _WORTH))
    spans = spans_of(reports, workers, max(_SHARD, job.sealed.reader.cells // 8))
    label = f"open and count round {number:,}"
    try:
        return reduce(operator.add, shared(job, spans, processes=workers, label=label, alone_if_broken=False))
    except BrokenProcessPool:
        raise CollectError(
            f"a process that counted has ended early, and nothing was stored. Count again, with fewer than "
            f"{workers} processes if memory is short; a script needs `if __name__ == '__main__':` around it"
        ) from None


def spans_of(reports: int, workers: int, most: int) -> list[tuple[int, int]]:
    """Return parts of about the same size, no larger than this, as many for each worker.

    Each part comes back with all counts of the mechanism: where those are many, the parts must be larger.
    """
    parts = workers * -(-reports // (workers * most))
    ends = [reports * part // parts for part in range(parts + 1)]
    return [(start, stop) for start, stop in pairwise(ends) if stop > start]


def copies(batch: BatchFile) -> Iterator[bytes]:
    """Yield each record that has stood in the batch before, byte for byte.

    The first bytes of a record are of a random key: nearly all that differ, differ there.
    """
    total, length = batch.manifest.records, batch.manifest.record_bytes
    heads, done = np.empty(total, np.uint64), 0
    for block in _blocks(batch, 0, total):
        rows = np.frombuffer(block, np.uint8).reshape(-1, length)
        heads[done : done + len(rows)] = rows[:, :8].copy().view(np.uint64).ravel()
        done += len(rows)
    ordered = np.sort(heads)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return
    seen: set[bytes] = set()
    for record in compress(batch.records(0, total), np.isin(heads, repeated)):
        digest = sha256(record).digest()
        if digest in seen:
            yield record
        seen.add(digest)
