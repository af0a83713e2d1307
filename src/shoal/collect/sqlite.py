"""The store in a file: SQLite with a write-ahead log, where nothing has to be installed."""

import hashlib
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from shoal.collect.durable import check_pages, durable_database, typed_errors
from shoal.collect.failpoint import reached
from shoal.collect.store import (
    BEYOND,
    DIGEST_BYTES,
    KEPT_ROUNDS,
    Record,
    Round,
    RoundClosedError,
    State,
    due,
    ranges,
    remembered,
)
from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, ParameterError, StorageError, TryAgainError
from shoal.randomizers.coins import secure_coins

__all__ = ["SCHEMA", "SqliteStore"]

# Without row numbers: a table is kept in the order of its key, and that of arrival is nowhere.
SCHEMA = """
CREATE TABLE IF NOT EXISTS task (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS round (number INTEGER PRIMARY KEY, state TEXT NOT NULL, closes REAL NOT NULL,
    reports INTEGER, manifest BLOB, discarded INTEGER NOT NULL DEFAULT 0, token_key BLOB);
CREATE TABLE IF NOT EXISTS report (round INTEGER, digest BLOB, body BLOB, PRIMARY KEY (round, digest)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turn (side INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tag (round INTEGER, tag BLOB, PRIMARY KEY (round, tag)) WITHOUT ROWID;
"""
_PATIENCE = 30.0
_BRIEFLY = 0.1
"""Seconds to wait for those who read, in which nobody can write."""
_CACHE = 64_000
"""KiB: the tree of a round of half a million reports."""
_AT_ONCE = 1 << 14
_REWRITTEN, _REWRITTEN_BYTES = 20_000, 1 << 26
"""In a round of more short reports, pages are split so often that little is left of the order of insertion."""
_PURGED_AT_ONCE = 100_000
_ADVICE = (
    "Nothing is stored there or released from it any more. Stop the shuffler, check the disk, and run `shoal shuffler "
    "salvage`, which saves the reports that can still be read"
)


class SqliteStore:
    """All rounds of one task in one file.

    Parameters
    ----------
    path : Path
        The file; it is made if it is not there.
    task : Task
        Whose reports these are; a file of another task is refused.
    now : float
        The time, in seconds since 1970, at which the first round begins.

    Attributes
    ----------
    trouble : str or None
        What is damaged, and what to do; None as long as no damage is known. The file is checked when it is opened and
        when a round ends. Once there is damage, nothing is written any more, and every method but `rounds` raises
        `DamagedError`.
    """

    def __init__(self, path: Path, task: Task, *, now: float) -> None:
        self._path, self._task = path, task
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._untidy = True
        self.trouble: str | None = None
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            begun = os.fstat(descriptor).st_size > 0
            os.close(descriptor)
            if begun:
                with suppress(DamagedError):
                    self._check()
            known = self._begun(now) if self.trouble is None else self._known()
        except DamagedError:
            self.shut()
            raise
        except OSError as error:
            self.shut()
            told = f"cannot keep reports in {path}: {error.strerror}; check the disk, or give another folder"
            raise StorageError(told, error) from None
        except sqlite3.Error as error:
            self.shut()
            raise CollectError(f"cannot keep reports in {path}: {error}; try again, or give another folder") from None
        if known and known != [(task.id,)]:
            self.shut()
            raise ParameterError(
                f"{path} holds the reports of task {known[0][0][:16]}…, and this is {task.id[:16]}…; give each task a "
                "folder of its own"
            )
        if self.trouble is None:
            with suppress(sqlite3.Error):  # the disk may be full
                self._truncate()

    def _begun(self, now: float) -> list[tuple[str]]:
        """Begin the first round if there is none, and return whose reports these were before."""
        with self._transaction() as database:
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            known = self._known()
            if not known:
                database.execute("INSERT INTO task VALUES (?)", (self._task.id,))
                database.execute("INSERT INTO turn VALUES (0)")
                self._open(database, 1, now + self._task.round_seconds)
        return known

    def _known(self) -> list[tuple[str]]:
        """Return whose reports these are."""
        with self._watched():
            known = self._database.execute("SELECT id FROM task").fetchall()
            begun = self._database.execute("SELECT 1 FROM round LIMIT 1").fetchone() is not None
            if len(known) != begun or not all(isinstance(one, str) for (one,) in known):
                raise DamagedError(f"{self._path} is damaged (it does not say whose reports these are)")
            return known

    def _check(self) -> None:
        with self._watched():
            check_pages(self._path, patience=_PATIENCE)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Remember damage, whoever comes across it."""
        try:
            with typed_errors(self._path):
                yield
        except DamagedError as error:
            self.trouble = self.trouble or f"{error}. {_ADVICE}"
            raise DamagedError(self.trouble) from error

    @property
    def _database(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "database", None)
        if found is None:
            found = durable_database(self._path, patience=_PATIENCE, shared=True)
            self._connections.append(found)
            found.executescript(f"PRAGMA secure_delete = ON; PRAGMA cache_size = -{_CACHE};")
            self._local.database = found
        return found

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        if self.trouble is not None:
            raise DamagedError(self.trouble)
        with self._watched():
            database = self._database
            database.execute(f"BEGIN {kind}")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                try:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                except sqlite3.Error:
                    database.close()  # so that the next transaction has a connection that works
                    self._local.database = None
                raise

    def _truncate(self) -> bool:
        """Empty the log, or have the next `close` do it; return whether the file has all of it, on the disk."""
        self._untidy = False  # before: what another thread notes in the meantime must not be forgotten
        database = self._database
        database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of it, while others write
        database.execute(f"PRAGMA busy_timeout = {1000 * _BRIEFLY:.0f}")
        try:
            busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._untidy = self._untidy or bool(busy)
            if busy:  # some who read go by the log, which must stay; it may be in the file nevertheless
                busy, *_ = database.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        except sqlite3.Error:
            self._untidy = True
            raise
        finally:
            database.execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE:.0f}")
        return not busy

    @staticmethod
    def _open(database: sqlite3.Connection, number: int, closes: float) -> None:
        database.execute(
            "INSERT INTO round (number, state, closes, token_key) VALUES (?, ?, ?, ?)",
            (number, State.OPEN, closes, secrets.token_bytes(32)),
        )

    def time(self) -> float:
        """Return the time by which rounds end, in seconds since 1970: that of this machine."""
        return time.time()

    def add(self, number: int, records: Sequence[Record]) -> None:
        """Store reports of the open round, each once; those seen before, and second ones of a token, are dropped."""
        with self._transaction() as database:
            found = database.execute("SELECT state FROM round WHERE number = ?", (number,)).fetchone()
            if found is None or found[0] != State.OPEN:
                raise RoundClosedError(f"round {number:,} is not open")
            fresh = [one for one in records if one.tag is None or self._first(database, number, one.tag)]
            earlier = self._window(database, number)
            seen = f"SELECT 1 FROM report WHERE digest = ?2 AND round IN ({earlier})"
            # In the order of their digests: the tree is filled faster, and a group keeps no order of arrival.
            database.executemany(
                f"INSERT OR IGNORE INTO report SELECT ?1, ?2, ?3 WHERE NOT EXISTS ({seen})",
                sorted((number, digest, body) for digest, body, _ in fresh),
            )
            # A commit that writes nothing is faster, and would tell the sender that the report was seen before.
            database.execute("UPDATE turn SET side = 1 - side")
            reached("after insert")
            reached("before commit")

    def _window(self, database: sqlite3.Connection, number: int) -> str:
        """Return the rounds before this one in which a repeated report is recognised, with commas."""
        rows = database.execute(
            "SELECT number FROM round WHERE number < ? AND number >= ?", (number, number - self._task.replay_rounds)
        )
        return ",".join(str(one) for (one,) in rows)

    def known(self, number: int, digests: Iterable[bytes]) -> int | None:
        """Return how many of these, from the first on, a round that is not open has, or had dropped as seen before."""
        with self._transaction("DEFERRED") as database:  # nobody who writes has to wait
            (newest,) = database.execute("SELECT max(number) FROM round").fetchone()
            (state,) = database.execute("SELECT state FROM round WHERE number = ?", (number,)).fetchone() or (None,)
            if not 0 < number <= newest:
                return 0
            if not remembered(number, state, newest, self._task.replay_rounds):
                return None
            earlier = self._window(database, number)
            query = f"SELECT 1 FROM report WHERE digest = ? AND (round = {number:d} OR round IN ({earlier}))"
            return sum(1 for _ in takewhile(lambda one: database.execute(query, (one,)).fetchone(), digests))

    @staticmethod
    def _first(database: sqlite3.Connection, number: int, tag: bytes) -> bool:
        return database.execute("INSERT OR IGNORE INTO tag VALUES (?, ?)", (number, tag)).rowcount > 0

    def rounds(self) -> list[Round]:
        """Return the rounds in order, but those purged long ago; the last one is open."""
        with self._watched():
            rows = self._database.execute(
                "SELECT number, state, closes, reports, manifest, discarded, token_key FROM round WHERE state <> ?1 OR "
                "number > (SELECT max(number) FROM round) - ?2 ORDER BY number",
                (State.PURGED, KEPT_ROUNDS),
            ).fetchall()
        return [
            Round(number, State(state), closes, reports, manifest, bool(discarded), token_key)
            for number, state, closes, reports, manifest, discarded, token_key in rows
        ]

    def current(self) -> Round:
        """Return the open round alone; it is the last one."""
        with self._watched():
            number, state, closes, reports, manifest, discarded, token_key = self._database.execute(
                "SELECT number, state, closes, reports, manifest, discarded, token_key FROM round ORDER BY number DESC "
                "LIMIT 1"
            ).fetchone()
        return Round(number, State(state), closes, reports, manifest, bool(discarded), token_key)

    def close(self, now: float) -> Round | None:
        """End the open round if its time has come: seal it, extend it or discard it; return it if it has ended."""
        ended = self._ended(now)
        if self._untidy:
            with suppress(sqlite3.Error):  # the round has ended all the same
                self._truncate()
        return ended

    def _ended(self, now: float) -> Round | None:
        task, find = self._task, "SELECT number, closes FROM round WHERE state = ?"
        with self._watched():
            _, closes = self._database.execute(find, (State.OPEN,)).fetchone()
        if due(closes, now, task.round_seconds)[0]:
            self._check()
        with self._transaction() as database:
            number, closes = database.execute(find, (State.OPEN,)).fetchone()
            ended, following = due(closes, now, task.round_seconds)
            if ended:
                (count,) = database.execute("SELECT count(*) FROM report WHERE round = ?", (number,)).fetchone()
            if not ended or (count < task.minimum and task.too_small == "extend"):
                if following != closes:
                    database.execute("UPDATE round SET closes = ? WHERE number = ?", (following, number))
                return None
            kept = count >= task.minimum
            state, reports = (State.SEALED, count) if kept else (State.PURGED, None)
            database.execute(
                "UPDATE round SET state = ?, reports = ?, discarded = ?, token_key = NULL WHERE number = ?",
                (state, reports, not kept, number),
            )
            database.execute("DELETE FROM tag WHERE round = ?", (number,))
            if not kept:
                self._forget(database, number)
            elif count <= _REWRITTEN and count * task.ciphertext_bytes <= _REWRITTEN_BYTES:
                self._rewrite(database, number)
            self._open(database, number + 1, following)
        self._untidy = True  # the log still has tags, and in which order reports were committed
        return Round(number, state, closes, reports, None, not kept)

    def _rewrite(self, database: sqlite3.Connection, number: int) -> None:
        """Write the reports of a round anew in random order: pages keep the order of insertion."""
        rows = database.execute("SELECT round, digest, body FROM report WHERE round = ?", (number,)).fetchall()
        self._compare(number, (row[1:] for row in rows))
        database.execute("DELETE FROM report WHERE round = ?", (number,))
        order = secure_coins().permutation(len(rows)).tolist()
        database.executemany("INSERT INTO report VALUES (?, ?, ?)", [rows[place] for place in order])

    def _forget(self, database: sqlite3.Connection, number: int) -> None:
        """Delete the ciphertexts of a round; its digests stay until the replay window is over."""
        self._erase(database, number, b"", BEYOND)
        (newest,) = database.execute("SELECT max(number) FROM round").fetchone()
        database.execute(
            "DELETE FROM report WHERE body IS NULL AND round < ?", (max(newest, number + 1) - self._task.replay_rounds,)
        )

    @staticmethod
    def _erase(database: sqlite3.Connection, number: int, low: bytes, high: bytes) -> None:
        """Delete ciphertexts with digests in a range; the digests are written anew, so that their pages are full."""
        span = "round = ? AND digest >= ? AND digest < ?"
        digests = database.execute(
            f"SELECT digest FROM report WHERE {span} AND body IS NOT NULL", (number, low, high)
        ).fetchall()
        if digests:
            database.execute(f"DELETE FROM report WHERE {span} AND body IS NOT NULL", (number, low, high))
            database.executemany("INSERT INTO report VALUES (?, ?, NULL)", ((number, digest) for (digest,) in digests))

    def bodies(self, number: int) -> Generator[bytes]:
        """Yield the ciphertexts of a sealed round, in the order of their digests, many in one piece."""
        query = "SELECT digest, body FROM report WHERE round = ? AND body IS NOT NULL"
        with self._watched(), closing(self._database.execute(query, (number,))) as rows:
            # It is closed, since one that is left open would hold this thread to what it saw.
            while some := rows.fetchmany(_AT_ONCE):
                self._compare(number, some)
                yield b"".join(body for _, body in some)

    def _compare(self, number: int, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise an error if a report is not the one that came in: SQLite itself keeps no checksum of what it stores."""
        hashed = hashlib.sha256
        if any(hashed(body).digest()[:DIGEST_BYTES] != digest for digest, body in rows):
            raise DamagedError(f"{self._path} is damaged (a report of round {number:,} is not what was stored)")

    def publish(self, number: int, manifest: bytes, place: Callable[[], None]) -> bool:
        """Make a sealed round ready, once its batch is in its place; return False if somebody else has."""
        with self._transaction() as database:
            if self._state(database, number) != State.SEALED:
                return False
            place()
            database.execute(
                "UPDATE round SET state = ?, manifest = ? WHERE number = ?", (State.READY, manifest, number)
            )
        return True

    @staticmethod
    def _state(database: sqlite3.Connection, number: int) -> State:
        found = database.execute("SELECT state FROM round WHERE number = ?", (number,)).fetchone()
        if found is None:
            raise CollectError(f"there is no round {number:,}")
        return State(found[0])

    def acknowledge(self, number: int) -> None:
        """Note that the analyst has a round that is ready."""
        with self._transaction() as database:
            if self._state(database, number) == State.READY:
                database.execute("UPDATE round SET state = ? WHERE number = ?", (State.ACKED, number))

    def purge(self, number: int) -> None:
        """Delete the reports of an acknowledged round for good, and digests that are older than the replay window.

        When this returns, the file itself says that the round is purged, without its log.
        """
        with self._watched():
            (count,) = self._database.execute(
                "SELECT coalesce(sum(reports), 0) FROM round WHERE number = ?", (number,)
            ).fetchone()
        for low, high in ranges(count // _PURGED_AT_ONCE):  # so that uploads need not wait for long
            with self._transaction() as database:
                if self._state(database, number) != State.ACKED:
                    break
                self._erase(database, number, low, high)
        with self._transaction() as database:
            if self._state(database, number) == State.ACKED:
                self._forget(database, number)
                database.execute("UPDATE round SET state = ? WHERE number = ?", (State.PURGED, number))
        with self._watched():
            if not self._truncate():
                raise TryAgainError(
                    f"round {number:,} is purged, and {self._path} does not have it without its log yet, as another "
                    "process reads there; try again"
                )

    def shut(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._local = threading.local()
