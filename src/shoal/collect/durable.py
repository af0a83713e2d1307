"""A connection to SQLite whose commits outlive the process and the power."""

import sqlite3
import time
from pathlib import Path

__all__ = ["durable_database"]

_PAUSE = 0.01


def durable_database(path: Path, *, patience: float, shared: bool = False) -> sqlite3.Connection:
    """Return a connection with a write-ahead log that is forced to the disk at every commit.

    Parameters
    ----------
    path : the file; it is made if it is not there.
    patience : how many seconds to wait for others who write.
    shared : whether a thread that has not opened it may close it.
    """
    database = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=not shared)
    try:
        until = time.monotonic() + patience
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:  # SQLite itself does not wait here while others open it, too
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database
