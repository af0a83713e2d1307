"""A budget and a list of entries in a JSON file: at any moment, whatever crashes, it is all old or all new."""

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shoal.durable_file import locked, new_file, settle
from shoal.errors import LedgerDamagedError, LedgerError, LedgerStorageError
from shoal.strict_json import parsed

Record = dict[str, Any]
"""Plain values, as JSON has them."""

FORMAT = "shoal-ledger"
VERSION = 1

_AS_IT_WAS = "nothing was recorded, and the ledger is as it was"
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space, then try again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give this user the right to the file and its folder"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make the folder first"),
    errno.EISDIR: "give the path of a file in that folder",
}


_UNIX = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class _Content(NamedTuple):
    """What a file has: its bytes, the budget or nothing, and all entries."""

    data: bytes
    budget: Record | None
    records: tuple[Record, ...]


class Memory:
    """Entries that end with the process, and the budget that was stored with the first of them."""

    def __init__(self, records: tuple[Record, ...] = (), budget: Record | None = None) -> None:
        self._records = records
        self._budget = budget
        self._lock = threading.Lock()

    @classmethod
    def of(
        cls, data: bytes, name: str, check: Callable[[Any, str], object], check_budget: Callable[[Any, str], object]
    ) -> "Memory":
        """Return the entries in the bytes of a file of this name, each of them checked."""
        content = _checked(_parsed(data, name), name, check, check_budget)
        return cls(content.records, content.budget)

    def lock(self) -> AbstractContextManager[Any]:
        """Keep other threads from writing."""
        return self._lock

    def read(self) -> tuple[Record, ...]:
        """Return all entries."""
        return self._records

    def read_budget(self) -> Record | None:
        """Return the budget, or nothing if none was stored."""
        return self._budget

    def append(self, record: Record, budget: Record | None = None) -> None:
        """Add an entry, and store the budget if one is given; only under the lock."""
        self._records = (*self._records, record)
        self._budget = budget or self._budget


class Journal:
    """Entries in a file that several processes share; the first entry creates it.

    A new version is written next to the file, forced to the disk, and renamed over it. Writers hold
    a lock on ``<name>.lock``, which stays behind, empty: deleting it while a process works would
    let another one in. Readers need no lock. A symbolic link is followed once, on opening, so that
    all names of a file share one lock.

    `check`, given an entry and where it stands, raises an error if the entry is not valid, and
    `check_budget` does so for the budget.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        check: Callable[[Any, str], object],
        check_budget: Callable[[Any, str], object],
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._new_path = self.path.with_name(self.path.name + ".new")
        self._check = check
        self._check_budget = check_budget
        self._seen = _Content(b"", None, ())
        with _explained(f"open {self.path}", "nothing was recorded"):
            self.path.parent.stat()  # a folder that does not exist is reported now, and not when a round is recorded
        self.read()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all other writers out, in other processes and in this one, since each caller opens the lock anew."""
        with ExitStack() as stack:
            with _explained(f"lock {self._lock_path}", _AS_IT_WAS):
                stack.enter_context(locked(self._lock_path))
            yield

    def read(self) -> tuple[Record, ...]:
        """Return all entries, as the file has them now."""
        return self._content().records

    def read_budget(self) -> Record | None:
        """Return the budget as the file has it now, or nothing if none was stored."""
        return self._content().budget

    def _content(self) -> "_Content":
        known = self._seen  # before the file is read: what is read later can only be longer
        data = self._bytes()
        again = f"open Ledger({str(self.path)!r}) again"
        if data is None and not known.data:  # nobody has recorded anything yet
            return known
        if data is None:
            raise LedgerDamagedError(f"{self.path} has gone since it was opened; put it back, or {again} to start anew")
        if data == known.data and known.records:
            return known
        content = _checked(_parsed(data, self.path), self.path, self._check, self._check_budget)
        if content.records[: len(known.records)] != known.records or known.budget not in (None, content.budget):
            lost = "has lost or changed entries that were there before, or its budget"
            raise LedgerDamagedError(f"{self.path} {lost}; put them back, or, if that was meant, {again}")
        self._seen = content
        return content

    def append(self, record: Record, budget: Record | None = None) -> None:
        """Add an entry, and store the budget if one is given, for good when this returns; only under the lock."""
        before = self._content()
        records = (*before.records, record)
        budget = budget or before.budget
        data = _written(budget, records)
        self._replace(data)
        self._seen = _Content(data, budget, records)

    def _bytes(self) -> bytes | None:
        """Return what is in the file, or nothing if there is none."""
        with _explained(f"read {self.path}", "it was left as it is"):
            try:
                # Without waiting, as a pipe would have us do.
                descriptor = os.open(self.path, os.O_RDONLY | _UNIX)
            except FileNotFoundError:
                return None
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise LedgerError(f"{self.path} is not a file; give the path of a file, such as telemetry.json")
                return file.read()

    def _replace(self, data: bytes) -> None:
        """Put a new version over the file, or leave the old one as it is."""
        with _explained(f"write {self.path}", _AS_IT_WAS):
            self._new_path.unlink(missing_ok=True)  # of a writer that was killed; we hold the lock, so it is nobody's
            with new_file(self._new_path, replaces=self.path) as file:
                file.write(data)
        with _explained(
            f"force {self.path} to the disk", "the entry is in the file, but may be lost if the power fails now"
        ):
            settle(self.path.parent)


@contextmanager
def _explained(what: str, state: str) -> Iterator[None]:
    """Turn what the operating system says into what failed, what state that leaves, and what to do."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check the disk and the path")
        message = f"cannot {what}: {error.strerror or error}; {state}. What to do: {advice}"
        raise LedgerStorageError(message, error) from error


def _written(budget: Record | None, records: tuple[Record, ...]) -> bytes:
    """Return the file, one entry a line; floats as `repr` gives them, so that they read back exactly."""
    head = f'"format": "{FORMAT}",\n  "version": {VERSION},\n  "budget": {json.dumps(budget, allow_nan=False)}'
    lines = ",".join(f"\n    {json.dumps(record, ensure_ascii=False, allow_nan=False)}" for record in records)
    return f'{{\n  {head},\n  "entries": [{lines}\n  ]\n}}\n'.encode()


def _checked(
    content: _Content,
    path: Path | str,
    check: Callable[[Any, str], object],
    check_budget: Callable[[Any, str], object],
) -> _Content:
    """Return the content if its budget and each of its entries are any good."""
    check_budget(content.budget, f"{path}: budget")
    for position, record in enumerate(content.records):
        check(record, f"{path}: entries[{position}]")
    return content


def _parsed(data: bytes, path: Path | str) -> _Content:
    """Return what is in these bytes, or say where they are damaged."""
    try:
        content = parsed(data)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f'"format" must be "{FORMAT}"')
        version = content.get("version")
        entries = content.get("entries")
        if type(version) is int and version > VERSION:
            raise ValueError(f"version {version}, of a newer shoal: upgrade, this one reads version {VERSION}")
        if type(version) is not int or version != VERSION:
            raise ValueError(f'"version" must be {VERSION}, got {version!r}')
        if content.keys() != {"format", "version", "budget", "entries"} or not isinstance(entries, list):
            raise ValueError('there must be "format", "version", "budget" and a list of "entries", and nothing else')
    except ValueError as error:
        empty = "" if data.strip() else " (it is empty; delete it to start from nothing)"
        raise LedgerDamagedError(f"{path} is damaged, or not a ledger: {error}{empty}; it was left as it is") from None
    return _Content(data, content["budget"], tuple(entries))
