"""Salvage: gets the reports that can still be read out of a damaged store, into a new one.

A report is known by its digest, so that none comes out that did not go in. A round that was released before is never
released in another way: whoever had both batches could tell who is in one of them alone. That it was released is known
without the write-ahead log, which may be lost: the high-water mark in the folder names the newest round that was
released, and the shuffler deletes a batch only when the database file itself says that the round is purged. A round up
to the mark whose batch is not there is kept only if it is sealed and whole, in a database not older than the mark.
"""

import errno
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.high_water import Mark
from shoal.collect.pages import Pages, Row, Value
from shoal.collect.round_state import DIGEST_BYTES, Round, State, record
from shoal.collect.stores.sqlite import SCHEMA
from shoal.collect.task import Task
from shoal.durable_file import new_file, settle
from shoal.errors import (
    CollectError,
    DamagedError,
    FileError,
    ParameterError,
    StorageError,
    TryAgainError,
    WrongKeyError,
)

__all__ = ["Salvage", "SavedRound", "salvage"]

_ORDER = list(State)
_LOST_BATCH = "its batch is lost or damaged: if the analyst has it, nothing is missing, and else all of it"
_MOST_ROUNDS = 10**18
_KEEP = "INSERT INTO report VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = coalesce(body, excluded.body)"
_LOCK_OF_THE_LIVING = 128
"""The byte of the -shm file that every process which has the database open holds a lock on."""


@dataclass(frozen=True)
class SavedRound:
    """What became of a round.

    Attributes
    ----------
    number : int
        Of the round.
    state : State
        That it has now.
    saved : int
        How many of its reports are in the new store.
    missing : int or None
        How many were lost; None if nobody knows.
    discarded : bool
        Whether it was thrown away, since it can't be released any more.
    note : str, optional
        What else is to be known.
    """

    number: int
    state: State
    saved: int
    missing: int | None
    discarded: bool = False
    note: str | None = None


@dataclass(frozen=True)
class Salvage:
    """What was saved.

    Attributes
    ----------
    rounds : tuple of SavedRound
        Those that still held reports, in order.
    notes : tuple of str
        What was lost besides reports.
    """

    rounds: tuple[SavedRound, ...]
    notes: tuple[str, ...]

    @property
    def saved(self) -> int:
        """How many reports are in the new store."""
        return sum(one.saved for one in self.rounds)


@dataclass
class _Contents:
    """What the pages hold besides reports."""

    tasks: set[str] = field(default_factory=set)
    rounds: dict[int, Round] = field(default_factory=dict)
    tags: int = 0
    changed: int = 0


def salvage(source: Path, target: Path, task: Task, key: Ed25519PrivateKey, *, name: str, now: float) -> Salvage:
    """Write all reports that can be read in one folder into a new store in another, and return what was saved.

    The old folder is left as it is. No other process may have the store open, and this one neither.

    Parameters
    ----------
    source : Path
        The folder of the damaged store.
    target : Path
        A folder that is new or empty.
    task : Task
        Whose reports these are.
    key : Ed25519PrivateKey
        Signs a round anew whose batch is there, and whose manifest is lost.
    name : str
        Of the store in both folders.
    now : float
        The time, in seconds since 1970.
    """
    if key.public_key().public_bytes_raw() != task.shuffler_key:
        raise WrongKeyError("this is not the private key of the shuffler that the task names; give that one")
    old, new = source / name, target / name
    if not old.is_file():
        raise ParameterError(f"there is no {old}; give the folder that `shoal shuffler serve` had")
    if _in_use(old):
        raise TryAgainError(f"another process has {old} open; stop the shuffler first, and try again")
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(target.iterdir()):
            raise ParameterError(f"{target} is not empty; give a new folder")
        aside = target / f".{name}.{secrets.token_hex(6)}.part"
        try:
            os.close(os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            saved = _Rescue(source, target, task, key, now).run(old, aside)
            os.replace(aside, new)
            settle(target)
        finally:
            aside.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, FileError):
            raise
        cause = error if isinstance(error, OSError) else None
        raise StorageError(f"cannot salvage {old} into {target}: {error}; {old} was left as it is", cause) from error
    return saved


class _Rescue:
    """One run of it."""

    def __init__(self, source: Path, target: Path, task: Task, key: Ed25519PrivateKey, now: float) -> None:
        self._source, self._target, self._task, self._key, self._now = source, target, task, key, now
        self._mark = Mark()
        self._contents = _Contents()

    def run(self, old: Path, new: Path) -> Salvage:
        with closing(Pages(old)) as pages, closing(sqlite3.connect(new, isolation_level=None)) as database:
            sound = _is_sound(old)  # afterwards: it may make an empty log
            database.execute("PRAGMA secure_delete = ON")
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            database.execute("BEGIN")
            for row in pages.rows():
                self._take(database, row)
            lost = pages.unreadable + self._contents.changed
            if sound and not lost and not pages.log_cut_off:
                raise ParameterError(
                    f"{old} is not damaged: there is nothing to salvage; `shoal shuffler serve` uses it"
                )
            self._check_task(old)
            self._mark = Mark.read(self._source, self._task.id) or Mark()
            if not self._contents.rounds and database.execute("SELECT 1 FROM report LIMIT 1").fetchone() is None:
                raise DamagedError(f"nothing in {old} can be read: no report of this task and no round is left")
            rounds = tuple(self._settled(database))
            database.execute("INSERT INTO task VALUES (?)", (self._task.id,))
            database.execute("INSERT INTO turn VALUES (0)")
            notes = tuple(self._notes(lost, pages))
            database.execute("COMMIT")
            database.execute("VACUUM")  # in the order of the digests: pages would keep that of the old file
            if self._mark.round:
                self._mark.write(self._target, self._task.id)
        return Salvage(rounds, notes)

    def _take(self, database: sqlite3.Connection, row: Row) -> None:
        """Keep a row if it is one of ours."""
        match row:
            case Row(None, (int(number), bytes(digest), body)) if 0 < number < _MOST_ROUNDS:
                if self._is_report(digest, body):
                    database.execute(_KEEP, (number, digest, body))
                else:
                    self._contents.changed += 1
            case Row(None, (int(number), bytes(tag))):
                self._contents.tags += database.execute(
                    "INSERT OR IGNORE INTO tag VALUES (?, ?)", (number, tag)
                ).rowcount
            case Row(None, (str(text),)):
                self._contents.tasks.add(text)
            case Row(
                int(number), (None, str(state), int() | float() as closes, reports, manifest, discarded, token, *rest)
            ) if len(rest) < 5:  # the last columns are missing in rows of earlier versions
                with suppress(ValueError):
                    one = Round(number, State(state), float(closes), reports, manifest, bool(discarded), token, *rest)  # type: ignore[arg-type]
                    before = self._contents.rounds.get(number)
                    if before is None or _ORDER.index(before.state) < _ORDER.index(one.state):
                        self._contents.rounds[number] = one

    def _is_report(self, digest: bytes, body: Value) -> bool:
        if body is None:  # it was purged
            return len(digest) == DIGEST_BYTES
        if not isinstance(body, bytes) or len(body) != self._task.ciphertext_bytes:
            return False
        return record(body).digest == digest

    def _check_task(self, old: Path) -> None:
        others = self._contents.tasks - {self._task.id}
        if others:
            raise ParameterError(
                f"{old} holds the reports of task {min(others)[:16]}…, and this is {self._task.id[:16]}…; give its own"
            )

    def _maybe_released(self, number: int, before: Round | None, there: int) -> bool:
        """Return whether a round may have been released with other messages than the present ones."""
        if number > self._mark.round:
            return False
        marked = self._contents.rounds.get(self._mark.round)
        if marked is None or marked.state == State.OPEN or Mark.of(marked) != self._mark:
            return True
        return before is None or before.state != State.SEALED or there < before.records

    def _settled(self, database: sqlite3.Connection) -> Iterator[SavedRound]:
        """Give each round a state in which it can be released once, or not at all, and yield those with reports."""
        counts = dict(database.execute("SELECT round, count(body) FROM report GROUP BY round").fetchall())
        known, marked = self._contents.rounds, {self._mark.round} - {0}
        newest = max([*counts, *known, *marked], default=0)
        opened = None
        for number in sorted({*counts, *known, *marked}):
            before, there = known.get(number), counts.get(number, 0)
            after, saved, note = self._decided(number, before, there, newest)
            if number in marked:  # also if its row was lost: the new database has not gone back
                after = replace(after, seal=bytes.fromhex(self._mark.seal) or None)
            self._write(database, after)
            if after.state == State.OPEN:
                opened = after
            if after.state == State.PURGED:
                database.execute("UPDATE report SET body = NULL WHERE round = ?", (number,))
            if saved or note or after.state == State.OPEN:
                missing = None if before is None or before.reports is None else max(before.records - saved, 0)
                yield SavedRound(number, after.state, saved, missing, after.discarded, note)
        if opened is None:
            closes = self._now + self._task.round_seconds
            opened = Round(newest + 1, State.OPEN, closes, token_key=secrets.token_bytes(32))
            self._write(database, opened)
            yield SavedRound(opened.number, opened.state, 0, None, note="it begins now")
        database.execute("DELETE FROM tag WHERE round <> ?", (opened.number,))

    def _decided(self, number: int, before: Round | None, there: int, newest: int) -> tuple[Round, int, str | None]:
        """Return what a round is from now on, how many of its reports are saved, and what to say about it."""
        if before is not None and before.state in (State.ACKED, State.PURGED):
            return before, 0, None
        if before is not None and before.state == State.READY:
            whole = self._copied(before)
            return before, before.records if whole else 0, None if whole else _LOST_BATCH
        batches = [path for path in self._source.glob(f"round-{number}.*.batch") if path.is_file()]
        if self._task.several:
            again = bool(batches) or self._maybe_released(number, before, there)
            return self._decided_of_several(number, before, there, again)
        again = self._maybe_released(number, before, there)
        if before is not None and before.state == State.OPEN and number == newest and not (batches or again):
            return before, there, None
        lost = "" if before is not None and before.state == State.SEALED else "its state was lost; "
        closes = self._now if before is None else before.closes
        gone = Round(number, State.PURGED, closes, discarded=True)
        if batches:
            sound = [manifest for path in batches if (manifest := self._manifest(path, number)) is not None]
            if len(batches) == 1 and len(sound) == 1:
                ready = Round(number, State.READY, closes, sound[0].reports, sound[0].signed(self._key))
                self._copied(ready)
                return ready, sound[0].reports, f"{lost}its batch is there and whole, and is released as it is"
            several = f"{len(batches)} batches of it are there, and none is known to be the one that was released"
            return gone, 0, f"{lost}{several}: it is discarded"
        if not there:  # of a round whose row is lost, too, only digests are left: it was purged
            note = None if before is None else f"{lost}nothing is left of it"
            return replace(gone, discarded=before is not None), 0, note
        if again:
            return gone, 0, f"{lost}it may have been released before with other reports: it is discarded"
        if there < self._task.minimum:
            few = f"{there:,} reports are fewer than the minimum of {self._task.minimum:,}"
            return gone, 0, f"{lost}{few}: it is discarded"
        seal = None if before is None else before.seal
        return Round(number, State.SEALED, closes, there, seal=seal), there, f"{lost}it ends now" if lost else None

    def _decided_of_several(
        self, number: int, before: Round | None, there: int, released: bool
    ) -> tuple[Round, int, str | None]:
        """Return the same of a round that is not known to be released, where people send bundles or dummies are added.

        It is kept only if it is sealed and nothing of it is missing: a bundle that has lost a message hides less, the
        number of people is not known any more, and dummies must neither be lost nor be drawn a second time.
        """
        if before is not None and before.state == State.SEALED and not released and there == before.records > 0:
            return before, there, None
        gone = Round(number, State.PURGED, self._now if before is None else before.closes, discarded=True)
        if before is None and not there:
            return replace(gone, discarded=False), 0, None
        return gone, 0, "it is not known to be whole, and its messages hide each other only together: it is discarded"

    def _manifest(self, path: Path, number: int) -> Manifest | None:
        with suppress(FileError):
            return BatchFile.stated(path, self._task, number).manifest
        return None

    def _copied(self, ready: Round) -> bool:
        """Copy the batch of a round that is ready, and return whether it is there and whole."""
        try:
            manifest = Manifest.verified(ready.manifest or b"", self._task, ready.number)
            name = f"round-{ready.number}.{manifest.sha256[:16]}.batch"
            BatchFile.checked(self._source / name, self._task, manifest)
        except (CollectError, FileError):
            return False
        with (self._source / name).open("rb") as old, new_file(self._target / name, mode=0o600) as new:
            shutil.copyfileobj(old, new)
        return True

    @staticmethod
    def _write(database: sqlite3.Connection, one: Round) -> None:
        database.execute(
            f"INSERT INTO round VALUES ({', '.join('?' * len(fields(one)))})",
            [getattr(one, each.name) for each in fields(one)],
        )

    def _notes(self, lost: int, pages: Pages) -> Iterator[str]:
        if lost:
            yield f"{lost:,} rows could not be read, or are not what was stored, and were left out"
        if pages.log_cut_off:
            yield "its write-ahead log is damaged: what was committed last is missing"
        elif pages.log_unfinished:
            yield "its write-ahead log ends in the middle of a transaction: what was committed last may be missing"
        elif pages.log_missing:
            yield (
                "its write-ahead log is missing or empty: if it was not so when the shuffler stopped, what was "
                "committed last is missing"
            )
        if not self._contents.tasks:
            yield "the id of its task was lost: check that these are the reports of this task"
        if not any(one.state == State.OPEN for one in self._contents.rounds.values()):
            yield "which round was open was lost: a new one begins now"
        if self._contents.tags:
            yield "marks of used tokens may be missing: some tokens may count twice in the open round"


def _is_sound(path: Path) -> bool:
    """Return whether SQLite sees no damage; nothing is written."""
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as it,
    ):
        return bool(it.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
    return False


def _in_use(path: Path) -> bool:
    """Return whether another process has the database open."""
    try:
        import fcntl

        file = path.with_name(path.name + "-shm").open("rb+")
    except (ImportError, FileNotFoundError):
        return False
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCK_OF_THE_LIVING)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return True
    return False
