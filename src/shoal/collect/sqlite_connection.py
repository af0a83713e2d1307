"""A connection to SQLite whose commits outlive the process and the power, and whose errors have types."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shoal.errors import DamagedError, StorageError

_PAUSE = 0.01
_NOISE = "*** in database main ***"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REFUSED = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""What SQLite says when the operating system refuses, and what that has most likely said."""


def durable_database(path: Path, *, patience: float, shared: bool = False) -> sqlite3.Connection:
    """Return a connection with a write-ahead log that is forced to the disk at every commit.

    It waits `patience` seconds for others who write. Threads that have not opened it may close it if it is
    `shared`.
    """
    database = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=not shared)
    try:
        until = time.monotonic() + patience
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:  # SQLite itself does not wait here while others open it, too
                if _code(error) not in _BUSY or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Say by type if a database is damaged, or the operating system refuses; other errors stay as they are."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) in _DAMAGED:
            raise DamagedError(f"{path} is damaged ({error})") from error
        if (number := _REFUSED.get(_code(error))) is not None:
            cause = OSError(number, os.strerror(number), os.fspath(path))
            raise StorageError(f"cannot use {path}: {error}; check the disk, and try again", cause) from error
        raise


def check_pages(path: Path, *, patience: float) -> None:
    """Raise `DamagedError` if pages of a database are damaged: a second or so for a gigabyte that is in memory."""
    # On a connection of its own: others go by the pages that they have read before.
    with typed_errors(path), closing(durable_database(path, patience=patience)) as database:
        # Not the quick one: it takes a page of the same table for the right one.
        ((result, *_), *_) = database.execute("PRAGMA integrity_check(1)").fetchall()
        if result != "ok":
            raise DamagedError(f"{path} is damaged ({' '.join(result.replace(_NOISE, '').split())})")


def _code(error: sqlite3.Error) -> int:
    """Return the kind of an error, without what SQLite adds in the higher bits."""
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF
