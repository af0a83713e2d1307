"""The store in PostgreSQL, where several processes or machines serve one task.

Each round has tables of its own, so that they can be dropped for good; each task has a schema of its own. Whoever
adds to a round holds an advisory lock on its number that others who add can hold as well, and whoever ends the round
waits for all of them. Who comes later waits behind, and then finds the round ended.

PostgreSQL's own log, as it is set up by default, gets a line with the time for every statement that fails. So nothing
that a client can send makes one fail: a lock on a number needs no table of that round, and whoever adds asks for it
again and again instead of waiting until a timeout.

No column holds a time or an order. PostgreSQL itself keeps which transaction made a row until the round is purged, and
in its log when each was committed until the log is used again: do not archive that log (WAL), and leave
`track_commit_timestamp` off.
"""

import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from shoal.collect.failpoint import reached
from shoal.collect.store import BEYOND, KEPT_ROUNDS, Record, Round, RoundClosedError, State, due, ranges, remembered
from shoal.collect.task import Task
from shoal.errors import (
    CollectError,
    DamagedError,
    MissingExtraError,
    ParameterError,
    ShoalError,
    StorageError,
    TryAgainError,
)

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresStore"]

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS round (number bigint PRIMARY KEY, state text NOT NULL, closes double precision NOT NULL,
    reports bigint, manifest bytea, discarded boolean NOT NULL DEFAULT false);
CREATE TABLE IF NOT EXISTS seen (digest bytea PRIMARY KEY, round bigint NOT NULL);
CREATE TABLE IF NOT EXISTS token (key bytea NOT NULL);
"""
_SESSION = """
SET search_path = {schema}; SET synchronous_commit = on; SET client_min_messages = warning;
SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '120s';
SET default_transaction_isolation = 'read committed';
"""
# One that has gone silent is given up, and so a process never waits for it forever.
_NETWORK: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_ADD = """
WITH given AS (SELECT * FROM unnest(%b::bytea[], %b::bytea[]) AS given (digest, body)),
    fresh AS (INSERT INTO seen SELECT digest, {number} FROM given ON CONFLICT DO NOTHING RETURNING digest)
INSERT INTO report_{number} SELECT body FROM given JOIN fresh USING (digest) ORDER BY digest
"""
_FOREVER = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')"
)
"""Whatever the database or the user has as a default: a statement that is cut off is logged."""
# A lock on the row of a round would be written to the disk, and could keep whoever ends it waiting for ever.
_SHARED = """SELECT set_config('lock_timeout', '0', true),
    pg_try_advisory_xact_lock_shared(hashtextextended(current_schema() || '.' || %s, 0))"""
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.' || %s, 0))"
_PATIENCE, _PAUSE = 30.0, 0.02
"""Seconds to wait for a round that is being ended, and between two looks."""
_AT_ONCE = 1 << 14
_REORDERED_AT_ONCE = 20_000


class PostgresStore:
    """All rounds of one task in a database.

    Parameters
    ----------
    url : str
        Of the database, such as postgresql://user@host/name; whatever libpq understands.
    task : Task
        Whose reports these are. Tasks can share a database: each has a schema of its own.
    now : float, optional
        The time, in seconds since 1970, at which the first round begins; if not given, that of the server.
    new : bool
        Whether rounds are begun where there are none.

    Attributes
    ----------
    trouble : str or None
        What the server says is damaged, and what to do; None as long as it says nothing. From then on nothing is stored
        any more.
    """

    def __init__(self, url: str, task: Task, *, now: float | None = None, new: bool = True) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError('PostgreSQL needs psycopg: pip install "shoal-dp[postgres]"') from None
        self._url, self._task = url, task
        self._schema = f"shoal_{task.id[:56]}"
        self._local = threading.local()
        self._connections: list[psycopg.Connection[Any]] = []
        self._untidy = True
        self.trouble: str | None = None
        try:
            with self._transaction() as database:
                (there,) = database.execute("SELECT to_regclass(%s)", (f"{self._schema}.round",)).fetchone() or (None,)
                if there is None and not new:
                    raise ParameterError(
                        "there are no rounds of this task in PostgreSQL; `shoal shuffler serve` begins them"
                    )
                # Of several processes that start at once, one makes the tables.
                database.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
                database.execute(_SCHEMA.format(schema=self._schema).encode())
                if database.execute("SELECT FROM round LIMIT 1").fetchone() is None:
                    self._open(database, 1, (self.time() if now is None else now) + task.round_seconds)
        except ShoalError:
            self.shut()
            raise
        except psycopg.Error as error:
            self.shut()
            kind = ParameterError if isinstance(error, psycopg.ProgrammingError) else StorageError
            raise kind(
                f"cannot keep reports in PostgreSQL: {error}; check the address, and that its user may create schemas"
            ) from None

    def _connected(self) -> "psycopg.Connection[Any]":
        import psycopg

        made = psycopg.connect(self._url, autocommit=True, **_NETWORK)
        try:
            made.execute(_SESSION.format(schema=self._schema).encode())
            made.execute(_FOREVER)
        except BaseException:
            made.close()
            raise
        return made

    def _database(self) -> "psycopg.Connection[Any]":
        """Return this thread's connection; one that was lost is made again."""
        found: psycopg.Connection[Any] | None = getattr(self._local, "database", None)
        if found is None or found.closed:
            made = self._connected()
            if found is not None:
                self._connections.remove(found)
            self._connections.append(made)
            self._local.database = found = made
        return found

    @contextmanager
    def _transaction(self) -> Iterator["psycopg.Connection[Any]"]:
        if self.trouble is not None:
            raise DamagedError(self.trouble)
        with self._watched():
            database = self._database()
            with database.transaction():
                yield database

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Remember damage that the server comes across."""
        from psycopg.errors import DataCorrupted, IndexCorrupted

        try:
            yield
        except (DataCorrupted, IndexCorrupted) as error:
            self.trouble = (
                f"PostgreSQL finds its data damaged ({error.diag.message_primary}). Nothing is stored there or "
                "released from it any more. Stop the shuffler, check the disk, and repair the database with "
                "PostgreSQL's own means"
            )
            raise DamagedError(self.trouble) from error

    @staticmethod
    def _open(database: "psycopg.Connection[Any]", number: int, closes: float) -> None:
        database.execute(f"CREATE TABLE report_{number:d} (body bytea NOT NULL)".encode())
        database.execute(f"CREATE TABLE tag_{number:d} (tag bytea PRIMARY KEY)".encode())
        database.execute("INSERT INTO round (number, state, closes) VALUES (%s, %s, %s)", (number, State.OPEN, closes))
        # What is updated or deleted stays on the disk for a while; what is truncated or dropped does not.
        database.execute("TRUNCATE token")
        database.execute("INSERT INTO token VALUES (%s)", (secrets.token_bytes(32),))

    def time(self) -> float:
        """Return the time by which rounds end, in seconds since 1970: that of the server, for all machines."""
        (now,) = self._database().execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        return float(now)

    def add(self, number: int, records: Sequence[Record]) -> None:
        """Store reports of the open round, each once; those seen before, and second ones of a token, are dropped."""
        with self._transaction() as database:
            self._join(database, number)
            found = database.execute("SELECT state FROM round WHERE number = %s", (number,)).fetchone()
            if found != (State.OPEN,):
                raise RoundClosedError(f"round {number:,} is not open")
            # In the order of their digests: a group keeps no order of arrival, and two groups at once never wait for
            # each other in a circle.
            fresh = sorted({one.digest: one for one in self._first(database, number, records)}.values())
            if fresh:
                parts = [one.digest for one in fresh], [one.body for one in fresh]
                database.execute(_ADD.format(number=number).encode(), parts)
            # A commit that writes nothing is faster, and would tell the sender that the report was seen before.
            database.execute("SELECT pg_logical_emit_message(true, 'shoal', '')")
            reached("after insert")
            reached("before commit")

    @staticmethod
    def _join(database: "psycopg.Connection[Any]", number: int) -> None:
        """Keep a round, whether or not there is one, from being ended until this transaction is over."""
        until = time.monotonic() + _PATIENCE
        while True:
            _, ours = database.execute(_SHARED, (str(number),)).fetchone() or (None, False)
            if ours:
                return
            if time.monotonic() > until:
                raise TryAgainError(f"round {number:,} has been ending for {_PATIENCE:.0f} seconds; try again")
            time.sleep(_PAUSE)

    @staticmethod
    def _first(database: "psycopg.Connection[Any]", number: int, records: Sequence[Record]) -> list[Record]:
        """Return those reports that are the first of their token, and those that came without."""
        tagged: dict[bytes, Record] = {}
        for one in records:
            if one.tag is not None:
                tagged.setdefault(one.tag, one)
        if not tagged:
            return list(records)
        query = f"INSERT INTO tag_{number:d} SELECT unnest(%b::bytea[]) ON CONFLICT DO NOTHING RETURNING tag"
        unused = database.execute(query.encode(), (sorted(tagged),), binary=True).fetchall()
        return [one for one in records if one.tag is None] + [tagged[tag] for (tag,) in unused]

    def known(self, number: int, digests: Iterable[bytes]) -> int | None:
        """Return how many of these, from the first on, a round that is not open has, or had dropped as seen before."""
        with self._transaction() as database:
            (newest,) = database.execute("SELECT max(number) FROM round").fetchone() or (0,)
            found = database.execute("SELECT state FROM round WHERE number = %s", (number,)).fetchone() or (None,)
            if not 0 < number <= newest:
                return 0
            if not remembered(number, found[0], newest, self._task.replay_rounds):
                return None
            count, query = 0, b"SELECT digest FROM seen WHERE digest = ANY(%b::bytea[]) AND round <= %b"
            rest = iter(digests)
            while some := list(islice(rest, _AT_ONCE)):
                there = {digest for (digest,) in database.execute(query, (some, number), binary=True)}
                leading = sum(1 for _ in takewhile(there.__contains__, some))
                count += leading
                if leading < len(some):
                    break
            return count

    @staticmethod
    def _state(database: "psycopg.Connection[Any]", number: int, *, locked: bool = False) -> State:
        query = b"SELECT state FROM round WHERE number = %s" + (b" FOR UPDATE" if locked else b"")
        found = database.execute(query, (number,)).fetchone()
        if found is None:
            raise CollectError(f"there is no round {number:,}")
        return State(found[0])

    def rounds(self) -> list[Round]:
        """Return the rounds in order, but those purged long ago; the last one is open."""
        with self._watched():
            rows = self._database().execute(
                "SELECT number, state, closes, reports, manifest, discarded, CASE state WHEN 'open' THEN "
                "(SELECT key FROM token) END FROM round WHERE state <> 'purged' OR number > "
                "(SELECT max(number) FROM round) - %s ORDER BY number",
                (KEPT_ROUNDS,),
            )
        return [Round(number, State(state), *others) for number, state, *others in rows]

    def current(self) -> Round:
        """Return the open round alone; it is the last one."""
        with self._watched():
            rows = self._database().execute(
                "SELECT number, state, closes, reports, manifest, discarded, (SELECT key FROM token) FROM round "
                "ORDER BY number DESC LIMIT 1"
            )
        ((number, state, *others),) = rows
        return Round(number, State(state), *others)

    def close(self, now: float) -> Round | None:
        """End the open round if its time has come: seal it, extend it or discard it; return it if it has ended."""
        from psycopg import Error

        ended = self._ended(now)
        if self._untidy:
            with suppress(Error):  # the round has ended all the same
                self._vacuum()
        return ended

    def _ended(self, now: float) -> Round | None:
        task, find = self._task, b"SELECT number, closes FROM round WHERE state = 'open'"
        with self._transaction() as database:
            found = database.execute(find).fetchone()
            if found is None or due(found[1], now, task.round_seconds) == (False, found[1]):
                return None
            found = database.execute(find + b" FOR UPDATE").fetchone()
            if found is None:  # another process has just ended it
                return None
            number, closes = found
            ended, following = due(closes, now, task.round_seconds)
            if ended:
                database.execute(_ALONE, (str(number),))
                (count,) = database.execute(f"SELECT count(*) FROM report_{number:d}".encode()).fetchone() or (0,)
            if not ended or (count < task.minimum and task.too_small == "extend"):
                database.execute("UPDATE round SET closes = %s WHERE number = %s", (following, number))
                return None
            kept = count >= task.minimum
            state, reports = (State.SEALED, count) if kept else (State.PURGED, None)
            database.execute(
                "UPDATE round SET state = %s, reports = %s, discarded = %s WHERE number = %s",
                (state, reports, not kept, number),
            )
            database.execute(f"DROP TABLE tag_{number:d}".encode())
            if not kept:
                self._reorder(database, number, b"", BEYOND)
                self._forget(database, number)
            self._open(database, number + 1, following)
        self._untidy = self._untidy or not kept
        return Round(number, state, closes, reports, None, not kept)

    def _forget(self, database: "psycopg.Connection[Any]", number: int) -> None:
        """Drop the ciphertexts of a round; its digests stay until the replay window is over."""
        database.execute(f"DROP TABLE report_{number:d}".encode())
        database.execute(
            "DELETE FROM seen WHERE round IN (SELECT number FROM round WHERE state = 'purged' AND number < "
            "(SELECT greatest(max(number), %s) FROM round) - %s)",
            (number + 1, self._task.replay_rounds),
        )

    @staticmethod
    def _reorder(database: "psycopg.Connection[Any]", number: int, low: bytes, high: bytes) -> None:
        """Write digests in a range anew, in their own order: a table keeps the order of insertion."""
        database.execute(
            "WITH gone AS (DELETE FROM seen WHERE round = %s AND digest >= %s AND digest < %s RETURNING *) "
            "INSERT INTO seen SELECT * FROM gone ORDER BY digest",
            (number, low, high),
        )

    def _vacuum(self) -> None:
        """Give back what was deleted, so that the order of arrival is not there any more; if it fails, again later."""
        self._untidy = False  # before: what another thread notes in the meantime must not be forgotten
        try:
            self._database().execute("VACUUM seen")
        except BaseException:
            self._untidy = True
            raise

    def bodies(self, number: int) -> Generator[bytes]:
        """Yield the ciphertexts of a sealed round, in the order of their bytes, many in one piece."""
        query = f"SELECT body FROM report_{number:d} ORDER BY body".encode()
        with (
            self._watched(),
            self._connected() as database,
            database.transaction(),
            database.cursor("bodies", binary=True) as rows,
        ):
            rows.execute(query)
            while some := rows.fetchmany(_AT_ONCE):
                yield b"".join(body for (body,) in some)

    def publish(self, number: int, manifest: bytes, place: Callable[[], None]) -> bool:
        """Make a sealed round ready, once its batch is in its place; return False if somebody else has."""
        with self._transaction() as database:
            if self._state(database, number, locked=True) != State.SEALED:
                return False
            place()
            database.execute(
                "UPDATE round SET state = %s, manifest = %s WHERE number = %s", (State.READY, manifest, number)
            )
        return True

    def acknowledge(self, number: int) -> None:
        """Note that the analyst has a round that is ready."""
        with self._transaction() as database:
            if self._state(database, number, locked=True) == State.READY:
                database.execute("UPDATE round SET state = %s WHERE number = %s", (State.ACKED, number))

    def purge(self, number: int) -> None:
        """Delete the reports of an acknowledged round for good, and digests that are older than the replay window."""
        with self._transaction() as database:
            (count,) = database.execute("SELECT reports FROM round WHERE number = %s", (number,)).fetchone() or (0,)
        # In short steps: whoever sends one of these digests again waits until the step is over.
        for low, high in ranges((count or 0) // _REORDERED_AT_ONCE):
            with self._transaction() as database:
                if self._state(database, number, locked=True) == State.ACKED:
                    self._reorder(database, number, low, high)
        with self._transaction() as database:
            if self._state(database, number, locked=True) == State.ACKED:
                self._forget(database, number)
                database.execute("UPDATE round SET state = %s WHERE number = %s", (State.PURGED, number))
        self._vacuum()

    def shut(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._local = threading.local()
