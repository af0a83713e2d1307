"""The store in PostgreSQL, where several processes or machines serve one task.

Each round has tables of its own, so that they can be dropped for good; each task has a schema of its own. Whoever
adds to a round holds an advisory lock on its number that others who add can hold as well, and whoever ends the round
waits for all of them. Who comes later waits behind, and then finds the round ended.

A transaction that only reads, such as that of `pg_dump`, keeps every table that it has seen from being dropped or
truncated until it is over. So nothing is dropped in the transaction that ends a round, for which reports wait: the
tables that are not needed any more, and keys of tokens, are removed afterwards, as soon as no other session uses them.

PostgreSQL's own log, as it is set up by default, gets a line with the time for every statement that fails. So nothing
that a client can send makes one fail: a lock on a number needs no table of that round, and whoever adds asks for it
again and again instead of waiting until a timeout.

No column holds a time or an order. PostgreSQL itself keeps which transaction made a row until the round is purged, and
in its log when each was committed until the log is used again: do not archive that log (WAL), and leave
`track_commit_timestamp` off.
"""

import re
import secrets
import shutil
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.collect.failpoint import reached
from shoal.collect.round_state import KEPT_ROUNDS, Record, Round, State, messages_of
from shoal.collect.store import Store, StoreError, StoreUnavailableError, ThreadConnections
from shoal.collect.task import Task
from shoal.errors import DamagedError, MissingExtraError, ParameterError, StorageError, TryAgainError

if TYPE_CHECKING:
    import psycopg

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS round (number bigint PRIMARY KEY, state text NOT NULL, closes double precision NOT NULL,
    reports bigint, manifest bytea, discarded boolean NOT NULL DEFAULT false, messages bigint,
    helped bigint NOT NULL DEFAULT 0, prefixes bytea, seal bytea);
CREATE TABLE IF NOT EXISTS seen (digest bytea PRIMARY KEY, round bigint NOT NULL);
CREATE TABLE IF NOT EXISTS token (key bytea NOT NULL, round bigint);
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
_SEE = "INSERT INTO seen SELECT unnest(%b::bytea[]), {number} ON CONFLICT DO NOTHING RETURNING digest"
_KEEP = "INSERT INTO report_{number} SELECT unnest(%b::bytea[])"
_HAS = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s"
_LATER = {"messages": "bigint", "helped": "bigint NOT NULL DEFAULT 0", "prefixes": "bytea", "seal": "bytea"}
"""Columns that the rounds of earlier versions do not have."""
_KEYS_OF_ROUNDS = """
ALTER TABLE token ADD COLUMN round bigint; UPDATE token SET round = (SELECT max(number) FROM round)
"""
"""For the table of an earlier version, which had the key of the open round alone."""
# In the order of their bytes, and all by one transaction: what was added last is not told from the rest.
_MIX = "INSERT INTO {after} SELECT body FROM {before} UNION SELECT unnest(%b::bytea[]) ORDER BY body"
_MIX_DIGESTS = """
WITH gone AS (DELETE FROM seen WHERE round = {number} RETURNING digest),
    every AS (SELECT digest FROM gone UNION SELECT unnest(%b::bytea[]))
INSERT INTO seen SELECT digest, {number} FROM every ORDER BY digest ON CONFLICT DO NOTHING
"""
_NEWEST = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname ~ %s
ORDER BY length(relname) DESC, relname DESC LIMIT 1
"""
_LOCKED = """EXISTS (SELECT FROM pg_locks WHERE relation = {table} AND pid IS DISTINCT FROM pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""
# Marks of tokens of ended rounds, messages of purged rounds, and messages that were written again with dummies.
_STALE = f"""
WITH named AS (
    SELECT oid, relname, split_part(relname, '_', 1) AS kind, split_part(relname, '_', 2)::bigint AS number
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
        AND relname ~ '^(report|tag)_[0-9]+(_[0-9]+)?$'),
ranked AS (
    SELECT *, rank() OVER (PARTITION BY kind, number ORDER BY length(relname) DESC, relname DESC) AS age FROM named)
SELECT relname, {_LOCKED.format(table="ranked.oid")} FROM ranked JOIN round USING (number)
WHERE state <> 'open' AND (kind = 'tag' OR state = 'purged' OR age > 1)
"""
_STALE_KEYS = f"""SELECT {_LOCKED.format(table="'token'::regclass")} FROM token
WHERE round < (SELECT max(number) FROM round) LIMIT 1"""
_DURABILITY = """
SELECT current_setting('fsync'), current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('async', 'potential')),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL),
    (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active)
"""
_QUORUM = re.compile(r"\s*ANY\s+(\d+)", re.IGNORECASE)
"""In synchronous_standby_names: any of the standbys, and how many a commit waits for."""
_BRIEFLY = "SET LOCAL lock_timeout = '1s'"
_REWRITE_DIGESTS = """WITH gone AS (DELETE FROM seen WHERE round = %s AND digest >= %s AND digest < %s RETURNING *)
INSERT INTO seen SELECT * FROM gone ORDER BY digest"""
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
_COLUMNS = "number, state, closes, reports, manifest, discarded"


class PostgresStore(Store, schemes=["postgresql", "postgres"]):
    """All rounds of one task in a database, in a schema of its own, so that tasks can share the database.

    Damage is what the server says that it has come across. The first round begins at `now`, in seconds since
    1970, or at the time of the server; not without `new`.
    """

    repair = "repair the database with PostgreSQL's own means"
    # In short steps: whoever sends one of these digests again waits until the step is over.
    erased_at_once = 20_000
    keeps_several = True

    def __init__(self, url: str, task: Task, *, now: float | None = None, new: bool = True) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError('PostgreSQL needs psycopg: pip install "shoal-dp[postgres]"') from None
        super().__init__(task)
        self._url, self._schema = url, f"shoal_{task.id[:56]}"
        self._connections = ThreadConnections(self._connect)
        self._dead_rows = True
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
                for column, declared in _LATER.items():
                    if database.execute(_HAS, ("round", column)).fetchone() is None:
                        database.execute(f"ALTER TABLE round ADD COLUMN {column} {declared}".encode())
                if database.execute(_HAS, ("token", "round")).fetchone() is None:
                    database.execute(_KEYS_OF_ROUNDS)
                if database.execute("SELECT FROM round LIMIT 1").fetchone() is None:
                    self._begin(database, 1, (self.time() if now is None else now) + task.round_seconds)
        except psycopg.Error as error:
            self.shut()
            kind = ParameterError if isinstance(error, psycopg.ProgrammingError) else StorageError
            raise kind(
                f"cannot keep reports in PostgreSQL: {error}; check the address, and that its user may create schemas"
            ) from None
        except BaseException:
            self.shut()
            raise

    @classmethod
    def opened(cls, url: str, task: Task, *, folder: Path, new: bool) -> "PostgresStore":
        """Return the store in the database at this URL."""
        return cls(url, task, new=new)

    @classmethod
    def examined(cls, folder: Path) -> Iterator[tuple[str, str, str, str]]:
        """Look for a server on this machine."""
        packaged = (str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")))
        server = shutil.which("postgres") or next(packaged, None)
        needs = "`--database` needs a server, on this machine or another: apt install postgresql"
        state = "fine" if server else "note"
        yield "PostgreSQL", state, server or "no server on this machine", "" if server else needs

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from psycopg import Error, OperationalError
        from psycopg.errors import DataCorrupted, IndexCorrupted

        try:
            yield
        except (DataCorrupted, IndexCorrupted) as error:
            raise DamagedError(f"PostgreSQL finds its data damaged ({error.diag.message_primary})") from error
        except OperationalError as error:
            message = f"the database fails: {error}. Nothing is lost; check it, and try again"
            raise StoreUnavailableError(message, error.sqlstate) from error
        except Error as error:
            message = f"the database refuses ({type(error).__name__}); ask whoever runs it"
            raise StoreError(message, error.sqlstate) from error

    def _connect(self) -> "psycopg.Connection[Any]":
        import psycopg

        connection = psycopg.connect(self._url, autocommit=True, **_NETWORK)
        try:
            connection.execute(_SESSION.format(schema=self._schema).encode())
            connection.execute(_FOREVER)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _database(self) -> "psycopg.Connection[Any]":
        # One that was lost is replaced.
        if self._connections.get().closed:
            self._connections.drop()
        return self._connections.get()

    @contextmanager
    def _transaction(self) -> Iterator["psycopg.Connection[Any]"]:
        database = self._database
        with database.transaction():
            yield database

    @contextmanager
    def _view(self) -> Iterator["psycopg.Connection[Any]"]:
        yield self._database  # each statement has a view of its own

    def _begin(self, database: "psycopg.Connection[Any]", number: int, closes: float) -> None:
        database.execute(f"CREATE TABLE report_{number:d} (body bytea NOT NULL)".encode())
        database.execute(f"CREATE TABLE tag_{number:d} (tag bytea PRIMARY KEY)".encode())
        database.execute("INSERT INTO round (number, state, closes) VALUES (%s, %s, %s)", (number, State.OPEN, closes))
        database.execute("INSERT INTO token VALUES (%s, %s)", (secrets.token_bytes(32), number))

    def check_durability(self) -> None:
        """Raise `StoreError` if the server does not force commits to the disk, or a standby may lack the last ones."""
        with self._using(self._view(), damaged=True) as database:
            row = database.execute(_DURABILITY).fetchone()
        fsync, names, lagging, quorum, hidden, inactive = row or ("", "", 0, 0, 0, 0)
        waited_for = _QUORUM.match(names)
        if waited_for is not None:  # a commit is on so many of them, and may be missing on the others
            lagging += max(0, quorum - int(waited_for[1]))
        if fsync != "on":
            raise StoreError("PostgreSQL runs with fsync off, and loses commits when its machine crashes; set it to on")
        if self.accepts_loss:
            return
        if hidden and names:
            raise StoreError(
                f"PostgreSQL has {hidden} standbys, and does not show this user whether they are synchronous; "
                "GRANT pg_monitor to the user, or give --accept-asynchronous-standbys"
            )
        if lagging + hidden + inactive:
            raise StoreError(
                f"PostgreSQL has {lagging + hidden + inactive} standbys (or replication slots without one) that may "
                "lack the last commits. A failover to one of them loses reports that were acknowledged, and ends the "
                "task if it loses the end of a round. Have commits wait for all of them, by synchronous_standby_names "
                "such as 'FIRST 2 (a, b)', or remove them; --accept-asynchronous-standbys accepts the risk"
            )

    def time(self) -> float:
        """Return the time by which rounds end, in seconds since 1970: that of the server, for all machines."""
        with self._using(self._view(), damaged=True) as database:
            (now,) = database.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        return float(now)

    def _join(self, database: "psycopg.Connection[Any]", number: int) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            _, ours = database.execute(_SHARED, (str(number),)).fetchone() or (None, False)
            if ours:
                return
            if time.monotonic() > until:
                raise TryAgainError(f"round {number:,} has been ending for {_PATIENCE:.0f} seconds; try again")
            time.sleep(_PAUSE)

    def _insert(self, database: "psycopg.Connection[Any]", number: int, records: Sequence[Record]) -> None:
        # In the order of their digests: a group keeps no order of arrival, and two groups at once never wait for each
        # other in a circle.
        fresh = sorted({one.digest: one for one in self._first(database, number, records)}.values())
        dropped = 0
        if self.task.mechanism.bundle > 1:
            dropped = len(records) - self._insert_bundles(database, number, fresh)
        elif fresh:
            parts = [one.digest for one in fresh], [one.body for one in fresh]
            database.execute(_ADD.format(number=number).encode(), parts)
        # A commit that writes nothing, or less, is faster, and would tell the sender that the report was seen before.
        filling = "SELECT pg_logical_emit_message(true, 'shoal', repeat('0', %s))"
        database.execute(filling, (dropped * self.task.bundle_bytes,))

    def _insert_bundles(self, database: "psycopg.Connection[Any]", number: int, fresh: Sequence[Record]) -> int:
        """Store those bundles of which no message was seen before, and return how many there are."""
        bundles: list[dict[bytes, bytes]] = []
        given: set[bytes] = set()
        for one in fresh:
            parts = {part.digest: part.body for part in messages_of(one, self.task.ciphertext_bytes)}
            if len(parts) == self.task.mechanism.bundle and not parts.keys() & given:
                bundles.append(parts)
                given |= parts.keys()
        if not bundles:
            return 0
        # Another process may have stored one of them just now: only what this statement has added is new.
        query = _SEE.format(number=number).encode()
        new = {digest for (digest,) in database.execute(query, (sorted(given),), binary=True)}
        reached("between messages")
        # In the order of their digests: which messages came together is not kept.
        whole = sorted(each for parts in bundles if parts.keys() <= new for each in parts.items())
        if whole:
            database.execute(_KEEP.format(number=number).encode(), ([body for _, body in whole],))
        return len(whole) // self.task.mechanism.bundle

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

    def _leading(self, database: "psycopg.Connection[Any]", number: int, digests: Iterable[bytes]) -> int:
        count, query = 0, b"SELECT digest FROM seen WHERE digest = ANY(%b::bytea[]) AND round <= %b"
        rest = iter(digests)
        while some := list(islice(rest, _AT_ONCE)):
            there = {digest for (digest,) in database.execute(query, (some, number), binary=True)}
            leading = sum(1 for _ in takewhile(there.__contains__, some))
            count += leading
            if leading < len(some):
                break
        return count

    def _state(self, database: "psycopg.Connection[Any]", number: int, *, alone: bool = False) -> State | None:
        query = b"SELECT state FROM round WHERE number = %s" + (b" FOR UPDATE" if alone else b"")
        row = database.execute(query, (number,)).fetchone()
        return None if row is None else State(row[0])

    def _rounds(self, database: "psycopg.Connection[Any]", *, last: bool, also: int = 0) -> list[Round]:
        newest = "(SELECT max(number) FROM round)"
        others = "" if last else f"OR state <> 'purged' OR number > {newest} - {KEPT_ROUNDS:d} OR number = {also:d}"
        rows = database.execute(
            f"SELECT {_COLUMNS}, CASE state WHEN 'open' THEN (SELECT key FROM token WHERE token.round = number) END, "
            f"{', '.join(_LATER)} FROM round WHERE number = {newest} {others} ORDER BY number".encode()
        )
        return [Round(number, State(state), *rest) for number, state, *rest in rows]

    def _change(self, database: "psycopg.Connection[Any]", number: int, **fields: Any) -> None:
        columns = ", ".join(f"{name} = %s" for name in fields)
        database.execute(f"UPDATE round SET {columns} WHERE number = %s".encode(), (*fields.values(), number))

    def _counted(self, database: "psycopg.Connection[Any]", number: int) -> int:
        database.execute(_ALONE, (str(number),))
        (count,) = database.execute(f"SELECT count(*) FROM report_{number:d}".encode()).fetchone() or (0,)
        return int(count)

    def _seal(self, database: "psycopg.Connection[Any]", number: int, messages: int | None) -> None:
        """Do nothing: `_tidy` drops the tags and the key, as soon as nobody reads them."""

    @staticmethod
    def _messages(database: "psycopg.Connection[Any]", number: int) -> str:
        """Return the table that has the messages of a round: report_7, or report_7_2 if dummies were added twice."""
        row = database.execute(_NEWEST, (f"^report_{number:d}(_[0-9]+)?$",)).fetchone()
        return f"report_{number:d}" if row is None else str(row[0])

    def _mix(self, database: "psycopg.Connection[Any]", number: int, dummies: Sequence[Record]) -> int:
        before = self._messages(database, number)
        _, _, *parts = before.split("_")
        after = f"report_{number:d}_{int(parts[0]) + 1 if parts else 1}"
        self._dead_rows = True
        database.execute(f"CREATE TABLE {after} (body bytea NOT NULL)".encode())
        bodies, digests = [one.body for one in dummies], [one.digest for one in dummies]
        messages = database.execute(_MIX.format(before=before, after=after).encode(), (bodies,)).rowcount
        database.execute(_MIX_DIGESTS.format(number=number).encode(), (digests,))
        return messages

    def _erase(self, database: "psycopg.Connection[Any]", number: int, low: bytes, high: bytes) -> None:
        """Write digests in a range anew, in their own order: a table keeps the order of insertion."""
        self._dead_rows = True
        database.execute(_REWRITE_DIGESTS, (number, low, high))

    def _forget(self, database: "psycopg.Connection[Any]", number: int, before: int) -> None:
        self._dead_rows = True
        database.execute(
            "DELETE FROM seen WHERE round IN (SELECT number FROM round WHERE state = 'purged' AND number < %s)",
            (before,),
        )

    def _tidy(self) -> bool:
        """Remove what rounds that have ended do not need; return whether all their tables could be dropped.

        What is updated or deleted stays on the disk for a while; what is truncated or dropped does not.
        """
        database, done = self._database, True
        for name, locked in database.execute(_STALE).fetchall():
            done = done and not locked
            if not locked:
                with database.transaction():
                    database.execute(_BRIEFLY)
                    database.execute(f"DROP TABLE IF EXISTS {name}".encode())
        for (locked,) in database.execute(_STALE_KEYS).fetchall():
            self._untidy = self._untidy or locked
            if not locked:
                with database.transaction():
                    self._forget_keys(database)
        if self._dead_rows:
            self._dead_rows = False
            try:
                database.execute("VACUUM seen")  # so that the order of arrival is not there any more
            except BaseException:
                self._dead_rows = True
                raise
        self._untidy = self._untidy or not done
        return done

    @staticmethod
    def _forget_keys(database: "psycopg.Connection[Any]") -> None:
        """Leave no key of tokens but that of the open round."""
        database.execute(_BRIEFLY)
        database.execute("LOCK TABLE token IN ACCESS EXCLUSIVE MODE")
        newest = database.execute("SELECT * FROM token WHERE round = (SELECT max(number) FROM round)").fetchall()
        database.execute("TRUNCATE token")
        for row in newest:
            database.execute("INSERT INTO token VALUES (%s, %s)", row)

    def bodies(self, number: int) -> Generator[bytes]:
        """Yield the ciphertexts of a sealed round, in the order of their bytes, many in one piece."""
        with (
            self._using(nullcontext(), damaged=True),
            self._connect() as database,
            database.transaction(),
            database.cursor("bodies", binary=True) as rows,
        ):
            rows.execute(f"SELECT body FROM {self._messages(database, number)} ORDER BY body".encode())
            while some := rows.fetchmany(_AT_ONCE):
                yield b"".join(body for (body,) in some)

    def shut(self) -> None:
        """Close all connections."""
        self._connections.close()
