"""The analyst: pulls released rounds, opens and counts each of them once, and says what may be published."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from shoal.checks import known, whole
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.connection import Connection
from shoal.collect.counting import Job, Reader, SealedRound, ShardCounts, at_once, copies, counted
from shoal.collect.result import Result, Tally
from shoal.collect.sqlite_connection import durable_database, typed_errors
from shoal.collect.task import Task
from shoal.durable_file import whole_file
from shoal.errors import (
    CollectError,
    DamagedError,
    FileError,
    ParameterError,
    ShoalError,
    StorageError,
    TryAgainError,
    WrongKeyError,
)

ENGINES = ("local", "spark")
MOST_PROCESSES = 1024
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS task (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS counted (
        round INTEGER PRIMARY KEY, undecryptable INTEGER NOT NULL, malformed INTEGER NOT NULL,
        duplicate INTEGER NOT NULL, counts BLOB NOT NULL, sha256 TEXT NOT NULL)""",
)


class Analyst:
    """A folder with the batches of one task, and a database of what was counted.

    Parameters
    ----------
    folder : Path
        Made if it is not there; it belongs to one task for good.
    task : Task
        Whose rounds are counted.
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
            raise StorageError(f"cannot use the folder {folder}: {error.strerror}; choose another", error) from None
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
        """Fetch released rounds, check them, and return the numbers of those that are new.

        The shuffler keeps its copy until `acknowledge`: if the one in the folder is damaged before it is counted, it is
        fetched again. If it has another batch of a round that is counted, that is an error, and the batch is not
        fetched.

        Parameters
        ----------
        connection : Connection
            To the shuffler's listener for the analyst.
        number : int, optional
            Of one round; if not given, all that are ready and not counted yet.
        """
        done = set(self.counted()) if number is None else set()
        rounds = self._ready(connection) if number is None else [whole(round=number, least=0)]

        def fetched(one: int) -> bool:
            if one in done:
                self._check_counted(self._stated(connection, one)[0])
                return False
            return self._fetch(connection, one)

        return _all_of(rounds, fetched)

    def acknowledge(self, connection: Connection, number: int | None = None) -> list[int]:
        """Tell the shuffler which rounds are counted, so that it deletes them, and return their numbers.

        Not before: what the shuffler has deleted can't be pulled again. If it has another batch of a round than the one
        that was counted, that is an error, and it keeps its batch.

        Parameters
        ----------
        connection : Connection
            To the shuffler's listener for the analyst.
        number : int, optional
            Of one round; if not given, all that are counted and not acknowledged yet.
        """
        counted_rounds = set(self.counted())
        rounds = [one for one in self._ready(connection) if one in counted_rounds and number in (None, one)]

        def acknowledged(one: int) -> bool:
            manifest, _ = self._stated(connection, one)
            self._check_counted(manifest)
            asked(connection, "POST", f"{self._address(one)}/ack", manifest.sha256.encode())
            return True

        return _all_of(rounds, acknowledged)

    def count(
        self, number: int, private_key: X25519PrivateKey, processes: int | None = None, engine: str = "local"
    ) -> Tally:
        """Open and count a round that was pulled; one that is counted already stays as it is.

        Parameters
        ----------
        number : int
            Of the round.
        private_key : X25519PrivateKey
            The analyst's; it goes to other processes through memory, never to a disk.
        processes : int, optional
            How many to use; if not given, one for each core.
        engine : str
            "local", or "spark" for more than one machine.
        """
        known(ENGINES, engine=engine)
        number = whole(round=number, least=0)
        workers = None if processes is None else whole(processes=processes, most=MOST_PROCESSES)
        if private_key.public_key().public_bytes_raw() != self.task.analyst_key:
            raise WrongKeyError(
                f"this private key does not belong to the task, whose key is {self.task.key_id.hex()}; nothing was "
                "counted: give the key that was made with the task's public key"
            )
        if (there := self._counted(number)) is not None:
            return there
        batch = self._batch(number)
        raw = private_key.private_bytes_raw()
        if engine == "spark" and not self.task.kind.on_spark:
            raise ParameterError("rounds of a search are counted by the engine local; leave --engine out")
        sealed = SealedRound.of(self.task, number, self._reader(number))
        if engine == "spark":
            from shoal.collect import spark

            sums = spark.count(batch, sealed, raw)
        else:
            sums = counted(Job(batch, sealed, raw), workers)
        if sums.records != batch.manifest.records:
            raise CollectError(
                f"{sums.records:,} reports were counted, and round {number:,} has {batch.manifest.records:,}; nothing "
                "was stored: count again"
            )
        # A copy says what its original says, so that what all copies say can be taken away again.
        repeated, step = copies(batch), at_once(batch)
        while block := b"".join(islice(repeated, step)):
            sums -= sealed.count(raw, block)
        return self._stored(batch.manifest, sums)

    def result(self, number: int, confidence: float = 0.95) -> Result:
        """Return what may be published of a round that was counted, or refuse.

        Parameters
        ----------
        number : int
            Of the round.
        confidence : float
            Of each interval by itself.
        """
        tally = self._counted(whole(round=number, least=0))
        if tally is None:
            raise CollectError(f"round {number:,} is not counted yet; `shoal analyst count` does it")
        there = {*self.pulled(), *self.counted()} - {number}  # whoever has a batch has seen it, counted or not
        others = [self._counted(each) for each in sorted(there)]
        last = max(number, *there) if there else number
        labels = self.task.kind.labels(self.task, number, self.folder)
        return Result.of(self.task, tally, confidence=confidence, others=others, rounds=last, labels=labels)

    def _reader(self, number: int) -> Reader:
        return self.task.kind.reader(self.task, number, self.folder)

    def pulled(self) -> list[int]:
        """Return the numbers of the rounds whose batches are in the folder."""
        return sorted(int(path.stem) for path in self._batches.glob("*.manifest") if path.stem.isdecimal())

    def counted(self) -> list[int]:
        """Return the numbers of the rounds that are counted."""
        with self._transaction() as database:
            return [number for (number,) in database.execute("SELECT round FROM counted ORDER BY round")]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with (
                typed_errors(self._database),
                closing(durable_database(self._database, patience=_PATIENCE)) as database,
            ):
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except DamagedError as error:
            raise DamagedError(f"{error}; it was left as it is. Put a copy back, or count into a new folder") from error
        except sqlite3.Error as error:
            raise CollectError(
                f"cannot use {self._database}: {error}; it was left as it is. Check the disk, and try again"
            ) from error

    def _counted(self, number: int) -> Tally | None:
        with self._transaction() as database:
            row = database.execute(
                "SELECT undecryptable, malformed, duplicate, counts FROM counted WHERE round = ?", (number,)
            ).fetchone()
        if row is None:
            return None
        undecryptable, malformed, duplicate, data = row
        counts = self.task.kind.counts_from_bytes(data, self._reader(number))
        return Tally(round=number, counts=counts, undecryptable=undecryptable, malformed=malformed, duplicate=duplicate)

    def _stored(self, manifest: Manifest, sums: ShardCounts) -> Tally:
        """Store the counts with the number and the hash of their round, or return those of whoever was faster."""
        number, duplicate = manifest.round, manifest.records - sums.records
        counts = self.task.kind.counted(self._reader(number), sums, manifest)
        row = (number, sums.undecryptable, sums.malformed, duplicate, counts.to_bytes(), manifest.sha256)
        with self._transaction() as database:
            new = database.execute("INSERT OR IGNORE INTO counted VALUES (?, ?, ?, ?, ?, ?)", row).rowcount == 1
        tally = Tally(
            round=number,
            counts=counts,
            undecryptable=sums.undecryptable,
            malformed=sums.malformed,
            duplicate=duplicate,
            new=new,
        )
        return tally if new else self._counted(number) or tally

    def _check_counted(self, stated: Manifest) -> None:
        """Raise an error if a round is counted, and this is not known to be the batch that was."""
        number = stated.round
        with self._transaction() as database:
            row = database.execute("SELECT sha256 FROM counted WHERE round = ?", (number,)).fetchone()
        if row is not None and row[0] != stated.sha256:
            raise CollectError(
                f"the shuffler has another batch of round {number:,} ({stated.sha256[:16]}…) than the one that was "
                f"counted ({row[0][:16]}…); it was neither fetched nor acknowledged, and the shuffler keeps it. "
                "Ask whoever runs it: it was begun again in an empty folder, or has released the round twice. If "
                "its reports are others, pull and count them in a new folder"
            )

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
            raise StorageError(f"cannot read {path}: {error.strerror}", error) from None
        return Manifest.verified(data, self.task, number, source=str(path))

    def _kept(self, number: int) -> Manifest | None:
        """Return the manifest that is in the folder and in order, or nothing."""
        try:
            return self._manifest(number)
        except FileError:
            return None

    def _batch(self, number: int) -> BatchFile:
        manifest = self._manifest(number)
        if manifest is None:
            raise CollectError(f"round {number:,} was not pulled yet; `shoal analyst pull` fetches it")
        return BatchFile.checked(self._paths(number)[0], self.task, manifest)

    def _address(self, number: int) -> str:
        return f"/v1/tasks/{self.task.id}/rounds/{number}"

    def _ready(self, connection: Connection) -> list[int]:
        """Return the rounds that the shuffler has for us."""
        answer = asked(connection, "GET", f"/v1/tasks/{self.task.id}/rounds")
        there: set[int] | None = None
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            there = {int(each["round"]) for each in json.loads(answer)["rounds"] if each["state"] == "ready"}
        if there is None:
            raise CollectError("the answer to what rounds there are makes no sense; check the address, and try again")
        return sorted(there)

    def _stated(self, connection: Connection, number: int) -> tuple[Manifest, bytes]:
        """Return the manifest of a round as the shuffler states it, and its bytes."""
        data = asked(connection, "GET", f"{self._address(number)}/manifest")
        return Manifest.verified(data, self.task, number, source=f"the manifest of round {number:,}"), data

    def _fetch(self, connection: Connection, number: int) -> bool:
        """Fetch a round if it is not in the folder, or not whole, and return whether it was fetched."""
        manifest, data = self._stated(connection, number)
        self._check_counted(manifest)
        if self._kept(number) not in (None, manifest):
            raise CollectError(
                f"the shuffler has signed two different batches of round {number:,}; the first one is kept. Ask "
                "whoever runs it: reports may have been released twice"
            )
        try:
            if self._manifest(number) is not None:
                BatchFile.checked(self._paths(number)[0], self.task, manifest)
                return False
        except FileError:  # it is not whole, or its manifest is not
            pass
        self._download(connection, f"{self._address(number)}/batch", manifest, data)
        return True

    def _download(self, connection: Connection, address: str, manifest: Manifest, signed: bytes) -> None:
        batch, manifest_path = self._paths(manifest.round)
        with whole_file(batch, mode=0o600) as file:
            connection.download(address, file, manifest.file_bytes)
        try:
            BatchFile.checked(batch, self.task, manifest)
        except FileError:
            batch.unlink(missing_ok=True)
            raise
        with whole_file(manifest_path, mode=0o600) as file:
            file.write(signed)


def _all_of(rounds: Iterable[int], act: Callable[[int], bool]) -> list[int]:
    """Return the rounds with which something was done; trouble with one does not stop the others."""
    trouble: ShoalError | None = None
    done = []
    for one in rounds:
        try:
            if act(one):
                done.append(one)
        except (CollectError, FileError) as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return done


def asked(connection: Connection, method: str, path: str, body: bytes = b"") -> bytes:
    """Return the body of the shuffler's answer to the analyst, or raise `CollectError` if it refuses."""
    answer = connection.request(method, path, body)
    if answer.status not in (200, 204):
        if answer.status == 404 and answer.member("task") is None:  # the shuffler names its own, if it has another
            raise CollectError(f"{connection.url} is not the shuffler's address for the analyst, usually port 8441")
        kind = TryAgainError if "retry-after" in answer.headers or answer.status >= 500 else CollectError
        raise kind(f"the shuffler refuses: {answer.problem()}")
    return answer.body
