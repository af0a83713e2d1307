"""The high-water mark: which round was released last, in a file outside the database.

A database can go back in time: a standby that lacked the last commits takes over, a dump or a copy
of a file is restored, a virtual machine returns to a snapshot. It then has a round as open that was
released before. Sealed again, the round would get other dummies or other clients, and the messages
that both batches have in common would be the messages of the clients. So the shuffler writes the
number of a round and the random id of its seal to this file before it signs the round. It compares
the database with the file before it ends, signs or purges anything.

No round is ever signed with two contents. A process that signs round N with seal s has seen s in
the database, and has raised the mark to some round m ≥ N of the same database. Rounds are sealed in
order, and the seal of m is a random number that was committed with m. So a database that has the
seal of m also has the seal s of N, and any other database is refused. The file is written after the
seal was committed, so a crash in between leaves a mark that is lower than allowed, never one that
the database has not reached.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from shoal.collect.round_state import Round, State
from shoal.collect.store import Store
from shoal.durable_file import locked, settle, whole_file
from shoal.errors import DamagedError, StorageError
from shoal.strict_json import read_fields

FILE = "high-water.json"
"""In the folder of the shuffler."""
_FORMAT = "shoal high-water mark 1"
_FIELDS = {"format": str, "task": str, "round": int, "seal": str}
_WHAT_TO_DO = (
    "Nothing is stored or released any more, since a round that is sealed twice shows which messages are of clients. "
    "Stop the shuffler. If the database that is further ahead still exists, use that one; otherwise begin a new task "
    "with a new folder, and never restore a database from before the end of a round"
)


@dataclass(frozen=True)
class Mark:
    """The newest round that was released, and the id of its seal in hexadecimal.

    Round 0 stands for none. A seal of an earlier version has an empty id.
    """

    round: int = 0
    seal: str = ""

    @staticmethod
    def of(one: Round) -> "Mark":
        """Return the mark for a round that is sealed."""
        return Mark(one.number, (one.seal or b"").hex())

    @staticmethod
    def read(folder: Path, task_id: str) -> "Mark | None":
        """Return the mark in a folder, or None if there is none."""
        path = folder / FILE
        try:
            fields = read_fields(path.read_bytes(), _FIELDS, str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}; check the disk", error) from None
        except ValueError:
            fields = {}
        if not fields or fields["format"] != _FORMAT or fields["task"] != task_id:
            raise DamagedError(
                f"{path} is damaged, or belongs to another task, so that it is not known which rounds were released. "
                "Give each task a separate folder; if the file of this task is lost, begin a new task"
            )
        return Mark(fields["round"], fields["seal"])

    def write(self, folder: Path, task_id: str) -> None:
        """Write the mark into a folder; it is on the disk when this returns."""
        with whole_file(folder / FILE, mode=0o600) as file:
            file.write(json.dumps({"format": _FORMAT, "task": task_id} | asdict(self)).encode())
        settle(folder)


class HighWater:
    """The high-water mark in a shuffler's folder of batches, and the store that must not fall behind it.

    Several processes that use one database share the folder, and so the mark. Once the store is known to be
    behind the mark, its `trouble` is set.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self._store = folder, store
        self._newest = 0  # the newest round that this process has seen in the file
        rounds = store.rounds()  # before the file, which is written before a round is released
        if Mark.read(folder, store.task.id) is None and any(one.manifest and one.seal for one in rounds):
            store.trouble = (
                f"the database has rounds that were released, and {folder / FILE}, which names the newest of them, "
                "is missing. Either the database or the folder is not the one of this task; if the file is lost, begin "
                "a new task"
            )
            raise DamagedError(store.trouble)

    def checked(self, releasing: Round | None = None) -> list[Round]:
        """Return the rounds of the database, or raise `DamagedError` if it has gone back in time.

        `releasing` is a sealed round that is signed next: the mark is raised to it, and is on the disk when
        this returns.
        """
        while True:
            newest = self._newest  # before the file, which another thread may raise in between
            # Before the database: another process may release a round in between.
            mark = Mark.read(self._folder, self._store.task.id) or Mark()
            if mark.round < newest:
                self._store.trouble = (
                    f"{self._folder / FILE} is missing or older than before: it named round {newest:,}, which was "
                    "released. Stop the shuffler. If the file still exists, put it back; otherwise begin a new task"
                )
                raise DamagedError(self._store.trouble)
            self._newest = mark.round
            rounds = self._store.rounds(also=mark.round)
            self._compare(mark, rounds)
            if releasing is not None:
                self._compare(Mark.of(releasing), rounds)
            # Also what an earlier version has released, or another process, in case its folder is a separate one.
            newer = [one for one in rounds if one.number > mark.round and (one.manifest or one == releasing)]
            if not newer or self._raised(mark, newer[-1]):
                return rounds

    def _compare(self, mark: Mark, rounds: list[Round]) -> None:
        """Raise `DamagedError` if the database is older than a mark, and remember it."""
        there = next((one for one in rounds if one.number == mark.round), None)
        if mark.round == 0:
            return
        if there is None:
            found = "the database does not have it"
        elif there.state == State.OPEN:
            found = "the database has it as open"
        elif Mark.of(there) != mark:
            found = "the database has another seal of it"
        elif there.state == State.SEALED and self._store.task.helpers_missing(there.helped):
            found = "the database lacks the dummies of its helpers"
        else:
            return
        self._store.trouble = (
            f"the database has gone back in time: round {mark.round:,} was sealed before, and {found}. {_WHAT_TO_DO}"
        )
        raise DamagedError(self._store.trouble)

    def _raised(self, before: Mark, to: Round) -> bool:
        """Raise the mark, and return True; return False if another process has changed it meanwhile."""
        lock = self._folder / f"{FILE}.lock"
        try:
            with locked(lock, mode=0o600):
                if (Mark.read(self._folder, self._store.task.id) or Mark()) != before:
                    return False
                self._sweep()
                Mark.of(to).write(self._folder, self._store.task.id)
                self._newest = to.number
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"cannot lock {lock}: {error.strerror}; check the folder", error) from None
        return True

    def _sweep(self) -> None:
        """Delete what a process has left that was killed while it wrote the mark."""
        for path in self._folder.glob(f".{FILE}.*.part"):
            with suppress(OSError):
                path.unlink()
