"""The analyst: pulls released rounds, opens and counts each of them once, and says what may be published."""

import json
import multiprocessing
import operator
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from itertools import compress, islice, pairwise
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shoal.checks import known, whole
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.connection import Connection
from shoal.collect.durable import durable_database
from shoal.collect.result import Result, Tally
from shoal.collect.shard import ShardCounts, count_shard
from shoal.collect.task import Task
from shoal.errors import CollectError, ParameterError, ShoalError, TryAgainError
from shoal.progress import progress
from shoal.randomizers import Counts
from shoal.whole_file import whole_file

__all__ = ["ENGINES", "MOST_PROCESSES", "Analyst"]

ENGINES = ("local", "spark")
MOST_PROCESSES = 1024
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_SHARD = 5_000
"""Reports that a process takes at a time: a third of a second."""
_WORTH = 10_000
"""For fewer reports than this, a further process takes longer to start than it saves."""
_BLOCK = 1 << 14
_BLOCK_BYTES = 1 << 24
_TABLES = (
    "CREATE TABLE IF NOT EXISTS task (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS counted (
        round INTEGER PRIMARY KEY, undecryptable INTEGER NOT NULL, malformed INTEGER NOT NULL,
        duplicate INTEGER NOT NULL, counts BLOB NOT NULL)""",
)


class Analyst:
    """A folder with the batches of one task, and a database of what was counted.

    Parameters
    ----------
    folder : made if it is not there; it belongs to one task for good.
    task : whose rounds are counted.
    """

    def __init__(self, folder: Path, task: Task) -> None:
        self.folder = folder
        self.task = task
        self._batches = folder / "batches"
        self._database = folder / "analyst.db"
        try:
            for each in (folder, self._batches):
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._database, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise ParameterError(f"cannot use the folder {folder}: {error.strerror}; choose another") from None
        with self._transaction() as database:
            for table in _TABLES:
                database.execute(table)
            database.execute("INSERT OR IGNORE INTO task VALUES (1, ?)", (task.id,))
            ((pinned,),) = database.execute("SELECT id FROM task")
        if pinned != task.id:
            raise ParameterError(
                f"{folder} belongs to the task {pinned[:16]}…, not to {task.id[:16]}…; give each task a folder of "
                "its own"
            )

    def pull(self, connection: Connection, number: int | None = None) -> list[int]:
        """Fetch released rounds, check them, acknowledge them, and return their numbers; to do it again does no harm.

        Parameters
        ----------
        connection : to the shuffler's listener for the analyst.
        number : of one round; if not given, all that are ready.
        """
        rounds = self._ready(connection) if number is None else [whole(round=number, least=0)]
        trouble: ShoalError | None = None
        for each in rounds:
            try:
                self._fetch(connection, each)
            except (CollectError, ParameterError) as error:  # the others are fetched all the same
                trouble = trouble or error
        if trouble is not None:
            raise trouble
        return rounds

    def count(
        self, number: int, private_key: X25519PrivateKey, processes: int | None = None, engine: str = "local"
    ) -> Tally:
        """Open and count a round that was pulled; one that is counted already stays as it is.

        Parameters
        ----------
        number : of the round.
        private_key : the analyst's; it goes to other processes through memory, never to a disk.
        processes : how many to use; if not given, one for each core.
        engine : "local", or "spark" for more than one machine.
        """
        known(ENGINES, engine=engine)
        number = whole(round=number, least=0)
        workers = None if processes is None else whole(processes=processes, most=MOST_PROCESSES)
        if private_key.public_key().public_bytes_raw() != self.task.analyst_key:
            raise ParameterError(
                f"this private key does not belong to the task, whose key is {self.task.key_id.hex()}; nothing was "
                "counted: give the key that was made with the task's public key"
            )
        if (there := self._counted(number)) is not None:
            return there
        batch = self._batch(number)
        raw = private_key.private_bytes_raw()
        if engine == "spark":
            from shoal.collect import spark

            found = spark.count(batch, self.task, raw)
        else:
            found = _in_processes(_Job(batch, self.task.to_bytes(), raw), self.task.mechanism.cells, workers)
        if found.records != batch.manifest.reports:
            raise CollectError(
                f"{found.records:,} reports were counted, and round {number:,} has {batch.manifest.reports:,}; nothing "
                "was stored: count again"
            )
        # A copy says what its original says, so that what all copies say can be taken away again.
        copies, step = _copies(batch), _at_once(batch)
        while block := b"".join(islice(copies, step)):
            found -= count_shard(self.task.to_bytes(), raw, number, block)
        return self._stored(number, found, batch.manifest.reports - found.records)

    def result(self, number: int, confidence: float = 0.95) -> Result:
        """Return what may be published of a round that was counted, or refuse.

        Parameters
        ----------
        number : of the round.
        confidence : of each interval by itself.
        """
        tally = self._counted(whole(round=number, least=0))
        if tally is None:
            raise CollectError(f"round {number:,} is not counted yet; `shoal analyst count` does it")
        there = {*self.pulled(), *self.counted()} - {number}  # whoever has a batch has seen it, counted or not
        others = [self._counted(each) for each in sorted(there)]
        last = max(number, *there) if there else number
        return Result.of(self.task, tally, confidence=confidence, others=others, rounds=last)

    def pulled(self) -> list[int]:
        """Return the numbers of the rounds whose batches are here."""
        return sorted(int(path.stem) for path in self._batches.glob("*.manifest") if path.stem.isdecimal())

    def counted(self) -> list[int]:
        """Return the numbers of the rounds that are counted."""
        with self._transaction() as database:
            return [number for (number,) in database.execute("SELECT round FROM counted ORDER BY round")]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(durable_database(self._database, patience=_PATIENCE)) as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise CollectError(
                f"cannot use {self._database}: {error}; it was left as it is. Check the disk, and try again"
            ) from error

    def _counted(self, number: int) -> Tally | None:
        with self._transaction() as database:
            found = database.execute(
                "SELECT undecryptable, malformed, duplicate, counts FROM counted WHERE round = ?", (number,)
            ).fetchone()
        if found is None:
            return None
        undecryptable, malformed, duplicate, data = found
        counts = Counts.from_bytes(data)
        return Tally(round=number, counts=counts, undecryptable=undecryptable, malformed=malformed, duplicate=duplicate)

    def _stored(self, number: int, found: ShardCounts, duplicate: int) -> Tally:
        """Store the counts with the number of their round, or return those of whoever was faster."""
        counts = Counts(self.task.mechanism, found.values, found.valid)
        row = (number, found.undecryptable, found.malformed, duplicate, counts.to_bytes())
        with self._transaction() as database:
            new = database.execute("INSERT OR IGNORE INTO counted VALUES (?, ?, ?, ?, ?)", row).rowcount == 1
        tally = Tally(
            round=number,
            counts=counts,
            undecryptable=found.undecryptable,
            malformed=found.malformed,
            duplicate=duplicate,
            new=new,
        )
        return tally if new else self._counted(number) or tally

    def _paths(self, number: int) -> tuple[Path, Path]:
        """Return where a round's batch is, and its manifest, which is written once the batch was checked."""
        return self._batches / f"{number}.batch", self._batches / f"{number}.manifest"

    def _manifest(self, number: int) -> Manifest | None:
        path = self._paths(number)[1]
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ParameterError(f"cannot read {path}: {error.strerror}") from None
        return Manifest.verified(data, self.task, number, source=str(path))

    def _batch(self, number: int) -> BatchFile:
        manifest = self._manifest(number)
        if manifest is None:
            raise CollectError(f"round {number:,} is not here yet; `shoal analyst pull` fetches it")
        return BatchFile.checked(self._paths(number)[0], self.task, manifest)

    def _ready(self, connection: Connection) -> list[int]:
        answer = _asked(connection, "GET", f"/v1/tasks/{self.task.id}/rounds")
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            return sorted({int(each["round"]) for each in json.loads(answer)["rounds"] if each["state"] == "ready"})
        raise CollectError("the answer to what rounds there are makes no sense; check the address, and try again")

    def _fetch(self, connection: Connection, number: int) -> None:
        root = f"/v1/tasks/{self.task.id}/rounds/{number}"
        data = _asked(connection, "GET", f"{root}/manifest")
        manifest = Manifest.verified(data, self.task, number, source=f"the manifest of round {number:,}")
        if self._manifest(number) not in (None, manifest):
            raise CollectError(
                f"the shuffler has signed two different batches of round {number:,}; the first one is kept. Ask "
                "whoever runs it: reports may have been released twice"
            )
        try:
            self._batch(number)
        except (CollectError, ParameterError):  # it is not here, or not whole
            self._download(connection, f"{root}/batch", manifest, data)
        _asked(connection, "POST", f"{root}/ack", manifest.sha256.encode())

    def _download(self, connection: Connection, address: str, manifest: Manifest, signed: bytes) -> None:
        batch, beside = self._paths(manifest.round)
        with whole_file(batch, mode=0o600) as file:
            connection.download(address, file)
        try:
            BatchFile.checked(batch, self.task, manifest)
        except ParameterError:
            batch.unlink(missing_ok=True)
            raise
        with whole_file(beside, mode=0o600) as file:
            file.write(signed)


def _asked(connection: Connection, method: str, path: str, body: bytes = b"") -> bytes:
    answer = connection.request(method, path, body)
    if answer.status not in (200, 204):
        told = answer.problem()
        if answer.status == 404 and "under this path" in told:
            raise CollectError(f"{connection.url} is not the shuffler's address for the analyst, usually port 8441")
        kind = TryAgainError if "retry-after" in answer.headers or answer.status >= 500 else CollectError
        raise kind(f"the shuffler refuses: {told}")
    return answer.body


@dataclass(frozen=True)
class _Job:
    """What a process needs to open and count a part of a batch."""

    batch: BatchFile
    task: bytes
    key: bytes = field(repr=False)

    def __call__(self, span: tuple[int, int]) -> ShardCounts:
        """Count the reports from one place to another, a block at a time, so that memory does not matter."""
        number = self.batch.manifest.round
        counts = (count_shard(self.task, self.key, number, block) for block in _blocks(self.batch, *span))
        return reduce(operator.add, counts)


def _blocks(batch: BatchFile, start: int, stop: int) -> Iterator[bytes]:
    """Yield the reports from one place to another, many at once."""
    records = batch.records(start, stop)
    while block := b"".join(islice(records, _at_once(batch))):
        yield block


def _at_once(batch: BatchFile) -> int:
    return max(1, min(_BLOCK, _BLOCK_BYTES // batch.manifest.record_bytes))


_job: _Job | None = None


def _begin(job: _Job) -> None:
    """Make a process ready; it ends with the one that started it, and the key with it."""
    global _job  # noqa: PLW0603  (a pool calls functions, and each process has one job)
    _job = job
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _counted_span(span: tuple[int, int]) -> ShardCounts:
    assert _job is not None
    return _job(span)


def _in_processes(job: _Job, cells: int, processes: int | None) -> ShardCounts:
    """Count a whole batch in this process, or in several."""
    reports, number = job.batch.manifest.reports, job.batch.manifest.round
    workers = processes or max(1, min(_cores(), reports // _WORTH))
    spans = _spans(reports, workers, max(_SHARD, cells // 8))
    label = f"open and count round {number:,}"
    if workers == 1:
        return reduce(operator.add, progress(map(job, spans), total=len(spans), label=label))
    context = multiprocessing.get_context("spawn")  # a fork would copy whatever locks other threads hold
    with ProcessPoolExecutor(workers - 1, context, _begin, (job,)) as pool:
        try:
            found = _shared(job, spans, pool, 2 * (workers - 1))
            return reduce(operator.add, progress(found, total=len(spans), label=label))
        except BrokenProcessPool:
            raise CollectError(
                f"a process that counted has ended early, and nothing was stored. Count again, with fewer than "
                f"{workers} processes if memory is short; a script needs `if __name__ == '__main__':` around it"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _shared(job: _Job, spans: Sequence[tuple[int, int]], pool: ProcessPoolExecutor, most: int) -> Iterator[ShardCounts]:
    """Yield the counts of all parts; this process counts as well, and does not wait while the others start."""
    waiting, given = deque(spans), set[Future[ShardCounts]]()
    while waiting or given:
        while waiting and len(given) < most:
            given.add(pool.submit(_counted_span, waiting.popleft()))
        if waiting:
            yield job(waiting.popleft())
        done, given = wait(given, 0 if waiting else None, FIRST_COMPLETED)
        for each in done:
            yield each.result()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _spans(reports: int, workers: int, most: int) -> list[tuple[int, int]]:
    """Return parts of about the same size, no larger than this, as many for each worker.

    Each part comes back with all counts of the mechanism: where those are many, the parts must be larger.
    """
    parts = workers * -(-reports // (workers * most))
    ends = [reports * part // parts for part in range(parts + 1)]
    return [(start, stop) for start, stop in pairwise(ends) if stop > start]


def _copies(batch: BatchFile) -> Iterator[bytes]:
    """Yield each record that has stood in the batch before, byte for byte.

    The first bytes of a record are of a random key: nearly all that differ, differ there.
    """
    total, length = batch.manifest.reports, batch.manifest.record_bytes
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
