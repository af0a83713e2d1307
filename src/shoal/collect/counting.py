"""Counting a batch, in this process or in several."""

import operator
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from itertools import compress, islice, pairwise

import numpy as np

from shoal.collect.batch import BatchFile
from shoal.collect.shard import ShardCounts, count_shard
from shoal.errors import CollectError
from shoal.processes import cores, shared

__all__ = ["Job", "at_once", "copies", "counted", "spans_of"]

_SHARD = 5_000
"""Reports that a process takes at a time: a third of a second."""
_WORTH = 10_000
"""For fewer reports than this, a further process takes longer to start than it saves."""
_BLOCK = 1 << 14
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class Job:
    """What a process needs to open and count a part of a batch."""

    batch: BatchFile
    task: bytes
    key: bytes = field(repr=False)
    listed: int | None = None

    def __call__(self, span: tuple[int, int]) -> ShardCounts:
        """Count the reports from one index to another, a block at a time, so that memory does not matter."""
        number = self.batch.manifest.round
        counts = (count_shard(self.task, self.key, number, block, self.listed) for block in _blocks(self.batch, *span))
        return reduce(operator.add, counts)


def _blocks(batch: BatchFile, start: int, stop: int) -> Iterator[bytes]:
    """Yield the reports from one index to another, many at once."""
    records = batch.records(start, stop)
    while block := b"".join(islice(records, at_once(batch))):
        yield block


def at_once(batch: BatchFile) -> int:
    """Return how many reports to hold in memory at once."""
    return max(1, min(_BLOCK, _BLOCK_BYTES // batch.manifest.record_bytes))


def counted(job: Job, cells: int, processes: int | None) -> ShardCounts:
    """Count a whole batch in this process, or in several."""
    reports, number = job.batch.manifest.records, job.batch.manifest.round
    workers = processes or max(1, min(cores(), reports // _WORTH))
    spans = spans_of(reports, workers, max(_SHARD, cells // 8))
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
