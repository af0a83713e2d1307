"""The store in a file: SQLite with a write-ahead log, where nothing has to be installed."""

import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from shoal.collect.failpoint import reached
from shoal.collect.round_state import BEYOND, DIGEST_BYTES, KEPT_ROUNDS, Record, Round, State, messages_of, ranges
from shoal.collect.sqlite_connection import check_pages, durable_database, typed_errors
from shoal.collect.store import Store, StoreError, StoreUnavailableError, ThreadConnections
from shoal.collect.task import Task
from shoal.documentation import address
from shoal.errors import CollectError, DamagedError, FileError, ParameterError, StorageError
from shoal.mechanisms.coins import secure_coins

FILE = "shuffler.db"
"""In the folder of the shuffler."""
# Without row numbers: a table is kept in the order of its key, and that of arrival is nowhere.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS task (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS round (number INTEGER PRIMARY KEY, state TEXT NOT NULL, closes REAL NOT NULL,
    reports INTEGER, manifest BLOB, discarded INTEGER NOT NULL DEFAULT 0, token_key BLOB, messages INTEGER,
    helped INTEGER NOT NULL DEFAULT 0, prefixes BLOB, seal BLOB);
CREATE TABLE IF NOT EXISTS report (round INTEGER, digest BLOB, body BLOB, PRIMARY KEY (round, digest)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turn (side INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tag (round INTEGER, tag BLOB, PRIMARY KEY (round, tag)) WITHOUT ROWID;
"""
_NO_ROUND = 0
"""The number of no round, for rows that are deleted in the transaction that has inserted them."""
_COLUMNS = "number, state, closes, reports, manifest, discarded, token_key, messages, helped, prefixes, seal"
_LATER = {"messages": "INTEGER", "helped": "INTEGER NOT NULL DEFAULT 0", "prefixes": "BLOB", "seal": "BLOB"}
"""Columns that the rounds of earlier versions do not have."""
_PATIENCE = 30.0
_BRIEFLY = 0.1
"""Seconds to wait for those who read, in which nobody can write."""
_CACHE = 64_000
"""KiB: the tree of a round of half a million reports."""
_AT_ONCE = 1 << 14
_REWRITTEN, _REWRITTEN_BYTES = 20_000, 1 << 26
"""In a round of more short reports, pages are split so often that little is left of the order of insertion."""
_SLOW_DISK = 0.1


class SqliteStore(Store, schemes=["sqlite"]):
    """All rounds of one task in one file; a file of another task is refused.

    Its pages are checked when it is opened and when a round ends. The first round begins at `now`, in seconds
    since 1970.
    """

    keeps_several = True
    repair = f"save what can still be read with `sqlite3`, as {address('security')} describes under 'A disk that fails'"

    def __init__(self, path: Path, task: Task, *, now: float) -> None:
        super().__init__(task)
        self._path = path
        self._connections = ThreadConnections(self._connect)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            begun = os.fstat(descriptor).st_size > 0
            os.close(descriptor)
            if begun:
                with suppress(DamagedError), self._using(nullcontext()):
                    self._check()
            known = self._begun(now) if self.trouble is None else self._known()
            if known and known != [(task.id,)]:
                raise ParameterError(
                    f"{path} holds the reports of task {known[0][0][:16]}…, and this is {task.id[:16]}…; give each "
                    "task a folder of its own"
                )
        except OSError as error:
            self.shut()
            message = f"cannot keep reports in {path}: {error.strerror}; check the disk, or give another folder"
            raise StorageError(message, error) from None
        except BaseException:
            self.shut()
            raise
        if self.trouble is None:
            with suppress(CollectError, FileError):  # the disk may be full
                self._tidied()

    @classmethod
    def opened(cls, url: str, task: Task, *, folder: Path, new: bool) -> "SqliteStore":
        """Return the store in the folder."""
        if url != "sqlite:":
            raise ParameterError(f"SQLite keeps reports in {FILE} in the folder; leave --database out")
        path = folder / FILE
        if not new and not path.exists():
            raise ParameterError(f"there are no rounds in {folder}; `shoal shuffler serve` begins them")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}: {error.strerror}", error) from None
        return cls(path, task, now=time.time())

    @classmethod
    def examined(cls, folder: Path) -> Iterator[tuple[str, str, str, str]]:
        """Write to a database in the folder as the shuffler does."""
        path, each = folder / f".shoal-doctor-{secrets.token_hex(6)}.db", 0.0
        other = "Give --folder one on a local disk that this user may write to"
        try:
            with typed_errors(path), closing(durable_database(path, patience=_PATIENCE)) as database:
                (mode,) = database.execute("PRAGMA journal_mode").fetchone()
                database.execute("CREATE TABLE report (body BLOB)")
                start = time.perf_counter()
                for _ in range(5):
                    database.execute("INSERT INTO report VALUES (?)", (os.urandom(64),))
                each = (time.perf_counter() - start) / 5
        except (FileError, sqlite3.Error) as error:
            yield "database", "wrong", f"cannot write in {folder.resolve()}: {error}", other
            return
        finally:
            for end in ("", "-wal", "-shm", "-journal"):
                with suppress(OSError):
                    path.with_name(path.name + end).unlink()
        if mode != "wal":
            yield "database", "wrong", f"no write-ahead log in {folder.resolve()}", other
            return
        result = f"SQLite {sqlite3.sqlite_version}, a durable write takes {1000 * each:.1f} ms"
        slow = each > _SLOW_DISK
        yield "database", "note" if slow else "fine", result, f"That is slow. {other}" if slow else ""

    def _begun(self, now: float) -> list[tuple[str]]:
        """Begin the first round if there is none, and return whose reports these were before."""
        with self._using(self._transaction()) as database:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            there = {name for _, name, *_ in database.execute("PRAGMA table_info(round)")}
            for column in (column for column in _LATER if column not in there):
                database.execute(f"ALTER TABLE round ADD COLUMN {column} {_LATER[column]}")
            known = self._known()
            if not known:
                database.execute("INSERT INTO task VALUES (?)", (self.task.id,))
                database.execute("INSERT INTO turn VALUES (0)")
                self._begin(database, 1, now + self.task.round_seconds)
        return known

    def _known(self) -> list[tuple[str]]:
        """Return whose reports these are."""
        with self._using(nullcontext(), damaged=True):
            known = self._database.execute("SELECT id FROM task").fetchall()
            begun = self._database.execute("SELECT 1 FROM round LIMIT 1").fetchone() is not None
            if len(known) != begun or not all(isinstance(one, str) for (one,) in known):
                raise DamagedError(f"{self._path} is damaged (it does not say whose reports these are)")
            return known

    def _check(self) -> None:
        check_pages(self._path, patience=_PATIENCE)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with typed_errors(self._path):
                yield
        except sqlite3.OperationalError as error:
            message = f"the database fails: {error}. Nothing is lost; check it, and try again"
            raise StoreUnavailableError(message, getattr(error, "sqlite_errorname", None)) from error
        except sqlite3.Error as error:
            raise StoreError(
                f"the database {self._path} refuses ({type(error).__name__}); ask whoever runs it",
                getattr(error, "sqlite_errorname", None),
            ) from error

    def _connect(self) -> sqlite3.Connection:
        connection = durable_database(self._path, patience=_PATIENCE, shared=True)
        connection.executescript(f"PRAGMA secure_delete = ON; PRAGMA cache_size = -{_CACHE};")
        return connection

    @property
    def _database(self) -> sqlite3.Connection:
        return self._connections.get()

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
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
                self._connections.drop()
            raise

    @contextmanager
    def _view(self) -> Iterator[sqlite3.Connection]:
        if self._database.in_transaction:
            yield self._database
        else:
            with self._transaction("DEFERRED") as database:
                yield database

    def _tidy(self) -> bool:
        """Empty the log; return whether the file has all of it, on the disk."""
        database = self._database
        database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of it, while others write
        database.execute(f"PRAGMA busy_timeout = {1000 * _BRIEFLY:.0f}")
        try:
            busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._untidy = self._untidy or bool(busy)
            if busy:  # some who read go by the log, which must stay; it may be in the file nevertheless
                busy, *_ = database.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        finally:
            database.execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE:.0f}")
        return not busy

    def _state(self, database: sqlite3.Connection, number: int, *, alone: bool = False) -> State | None:
        row = database.execute("SELECT state FROM round WHERE number = ?", (number,)).fetchone()
        return None if row is None else State(row[0])

    def _rounds(self, database: sqlite3.Connection, *, last: bool, also: int = 0) -> list[Round]:
        newest = "(SELECT max(number) FROM round)"
        if last:
            rows = database.execute(f"SELECT {_COLUMNS} FROM round WHERE number = {newest}").fetchall()
        else:
            which = f"state <> ? OR number > {newest} - ? OR number = ? ORDER BY number"
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM round WHERE {which}", (State.PURGED, KEPT_ROUNDS, also)
            ).fetchall()
        return [
            Round(number, State(state), closes, reports, manifest, bool(discarded), *rest)
            for number, state, closes, reports, manifest, discarded, *rest in rows
        ]

    def _begin(self, database: sqlite3.Connection, number: int, closes: float) -> None:
        database.execute(
            "INSERT INTO round (number, state, closes, token_key) VALUES (?, ?, ?, ?)",
            (number, State.OPEN, closes, secrets.token_bytes(32)),
        )

    def _change(self, database: sqlite3.Connection, number: int, **fields: Any) -> None:
        columns = ", ".join(f"{name} = ?" for name in fields)
        database.execute(f"UPDATE round SET {columns} WHERE number = ?", (*fields.values(), number))

    def _insert(self, database: sqlite3.Connection, number: int, records: Sequence[Record]) -> None:
        fresh = [one for one in records if one.tag is None or self._first(database, number, one.tag)]
        if self.task.mechanism.bundle > 1:
            self._insert_bundles(database, number, fresh)
        else:
            self._insert_reports(database, number, fresh)
        # A commit that writes nothing is faster, and would tell the sender that the report was seen before.
        database.execute("UPDATE turn SET side = 1 - side")

    def _insert_reports(self, database: sqlite3.Connection, number: int, fresh: Sequence[Record]) -> None:
        seen = f"SELECT 1 FROM report WHERE digest = ?2 AND round IN ({self._window(database, number)})"
        # In the order of their digests: the tree is filled faster, and a group keeps no order of arrival.
        database.executemany(
            f"INSERT OR IGNORE INTO report SELECT ?1, ?2, ?3 WHERE NOT EXISTS ({seen})",
            sorted((number, digest, body) for digest, body, _ in fresh),
        )

    def _insert_bundles(self, database: sqlite3.Connection, number: int, fresh: Sequence[Record]) -> None:
        query = f"SELECT 1 FROM report WHERE digest = ? AND round IN ({self._known_rounds(database, number)})"
        rows: dict[bytes, bytes] = {}
        for one in fresh:
            parts = {part.digest: part.body for part in messages_of(one, self.task.ciphertext_bytes)}
            whole = len(parts) == self.task.mechanism.bundle and not parts.keys() & rows.keys()
            found = [database.execute(query, (digest,)).fetchone() for digest in parts]
            if whole and not any(found):
                rows |= parts
            else:
                self._insert_in_vain(database, parts)
        # In the order of their digests: which messages came together is not kept.
        ordered = [(number, digest, body) for digest, body in sorted(rows.items())]
        middle = len(ordered) // 2
        database.executemany("INSERT INTO report VALUES (?, ?, ?)", ordered[:middle])
        reached("between messages")
        database.executemany("INSERT INTO report VALUES (?, ?, ?)", ordered[middle:])

    @staticmethod
    def _insert_in_vain(database: sqlite3.Connection, parts: dict[bytes, bytes]) -> None:
        """Do the work of storing a bundle, and undo it: the time of the answer must not tell that it was dropped."""
        rows = [(_NO_ROUND, digest, body) for digest, body in sorted(parts.items())]
        database.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
        database.execute("DELETE FROM report WHERE round = ?", (_NO_ROUND,))

    def _known_rounds(self, database: sqlite3.Connection, number: int) -> str:
        """Return this round and its window, in one list, so that the key is used."""
        return f"{number:d},{self._window(database, number)}".rstrip(",")

    def _window(self, database: sqlite3.Connection, number: int) -> str:
        """Return the rounds before this one in which a repeated report is recognised, with commas."""
        rows = database.execute(
            "SELECT number FROM round WHERE number < ? AND number >= ?", (number, number - self.task.replay_rounds)
        )
        return ",".join(str(one) for (one,) in rows)

    def _leading(self, database: sqlite3.Connection, number: int, digests: Iterable[bytes]) -> int:
        query = f"SELECT 1 FROM report WHERE digest = ? AND round IN ({self._known_rounds(database, number)})"
        return sum(1 for _ in takewhile(lambda one: database.execute(query, (one,)).fetchone(), digests))

    @staticmethod
    def _first(database: sqlite3.Connection, number: int, tag: bytes) -> bool:
        return database.execute("INSERT OR IGNORE INTO tag VALUES (?, ?)", (number, tag)).rowcount > 0

    def _counted(self, database: sqlite3.Connection, number: int) -> int:
        (count,) = database.execute("SELECT count(*) FROM report WHERE round = ?", (number,)).fetchone()
        return int(count)

    def _seal(self, database: sqlite3.Connection, number: int, messages: int | None) -> None:
        database.execute("DELETE FROM tag WHERE round = ?", (number,))
        self._change(database, number, token_key=None)
        if messages is not None and messages <= self._rewritten:
            self._rewrite(database, number)

    @property
    def _rewritten(self) -> int:
        """How many messages are written anew at once."""
        return min(_REWRITTEN, _REWRITTEN_BYTES // self.task.ciphertext_bytes)

    def _mix(self, database: sqlite3.Connection, number: int, dummies: Sequence[Record]) -> int:
        there = self._counted(database, number)
        query = "SELECT coalesce(messages, reports) FROM round WHERE number = ? AND state = ?"
        sealed = database.execute(query, (number, State.SEALED)).fetchone()
        if sealed is not None and sealed != (there,):  # a later count would take what is lost for what never came
            raise DamagedError(f"{self._path} is damaged (round {number:,} has {there:,} of {sealed[0]:,} messages)")
        # They come last, and so all is written again with them, however much it is.
        for low, high in ranges(there // self._rewritten + 1):
            self._rewrite(database, number, low, high, [one for one in dummies if low <= one.digest < high])
        return self._counted(database, number)

    def _rewrite(
        self,
        database: sqlite3.Connection,
        number: int,
        low: bytes = b"",
        high: bytes = BEYOND,
        dummies: Sequence[Record] = (),
    ) -> None:
        """Write messages with digests in a range anew, with dummies, in random order: pages keep that of insertion."""
        some = "FROM report WHERE round = ? AND digest >= ? AND digest < ?"
        rows = database.execute(f"SELECT round, digest, body {some}", (number, low, high)).fetchall()
        self._compare(number, (row[1:] for row in rows))
        database.execute(f"DELETE {some}", (number, low, high))
        there = {digest for _, digest, _ in rows}
        rows += [(number, one.digest, one.body) for one in dummies if one.digest not in there]
        order = secure_coins().permutation(len(rows)).tolist()
        database.executemany("INSERT INTO report VALUES (?, ?, ?)", [rows[index] for index in order])

    def _erase(self, database: sqlite3.Connection, number: int, low: bytes, high: bytes) -> None:
        """Delete ciphertexts with digests in a range; the digests are written anew, so that their pages are full."""
        some = "FROM report WHERE round = ? AND digest >= ? AND digest < ? AND body IS NOT NULL"
        digests = database.execute(f"SELECT digest {some}", (number, low, high)).fetchall()
        if digests:
            database.execute(f"DELETE {some}", (number, low, high))
            database.executemany("INSERT INTO report VALUES (?, ?, NULL)", ((number, digest) for (digest,) in digests))

    def _forget(self, database: sqlite3.Connection, number: int, before: int) -> None:
        database.execute("DELETE FROM report WHERE body IS NULL AND round < ?", (before,))

    def bodies(self, number: int) -> Generator[bytes]:
        """Yield the ciphertexts of a sealed round, in the order of their digests, many in one piece."""
        query = "SELECT digest, body FROM report WHERE round = ? AND body IS NOT NULL"
        with (
            self._using(nullcontext(), damaged=True),
            # It is closed, since one that is left open would hold this thread to what it saw.
            closing(self._database.execute(query, (number,))) as rows,
        ):
            while some := rows.fetchmany(_AT_ONCE):
                self._compare(number, some)
                yield b"".join(body for _, body in some)

    def _compare(self, number: int, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise an error if a report is not the one that came in: SQLite itself keeps no checksum of what it stores."""
        hashed = hashlib.sha256
        if any(hashed(body).digest()[:DIGEST_BYTES] != digest for digest, body in rows):
            raise DamagedError(f"{self._path} is damaged (a report of round {number:,} is not what was stored)")

    def shut(self) -> None:
        """Close all connections."""
        self._connections.close()
