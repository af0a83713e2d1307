"""A search's lists of prefixes: the analyst makes, charges and signs them, and clients check and pin them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shoal.collect.analyst import asked
from shoal.collect.connection import Connection
from shoal.collect.envelope import plaintexts
from shoal.collect.failpoint import reached
from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds, PrefixList
from shoal.collect.result import Result
from shoal.collect.sender import Sender, StateFile, refusal
from shoal.collect.task import Task
from shoal.composition.ledger import Ledger
from shoal.durable_file import whole_file
from shoal.errors import (
    CollectError,
    DamagedError,
    FileError,
    ForgedError,
    StorageError,
    WithheldError,
    WrongKeyError,
)

_FILE = "lists.json"
"""In a client's folder."""
_FOREIGN = (
    "is damaged, or belongs to another task, so that nobody knows which lists were pinned. Nothing was sent: get a "
    "copy back, or leave this search"
)


class PrefixLists:
    """The lists of a search in the analyst's folder, a file for each round.

    Parameters
    ----------
    folder : Path
        The analyst's.
    task : Task
        Whose search it is.
    """

    def __init__(self, folder: Path, task: Task) -> None:
        self._folder, self._task = folder / "lists", task

    def of_round(self, number: int) -> PrefixList:
        """Return the list of a round, checked with all before it, or say that there is none."""
        before: PrefixList | None = None
        for each in range(1, number + 1):
            path = self._path(each)
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                raise CollectError(
                    f"round {each:,} has no list in {self._folder}; `shoal analyst next` makes it"
                ) from None
            except OSError as error:
                raise StorageError(f"cannot read {path}: {error.strerror}", error) from None
            before = PrefixList.verified(data, self._task, each, before)
        if before is None:
            raise CollectError(f"there is no round {number:,} in a search")
        return before

    @property
    def newest(self) -> int:
        """The last round that has a list; 0 if none has."""
        return max((int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdecimal()), default=0)

    def next(self, counted: Sequence[int], result: Result | None, key: Ed25519PrivateKey, ledger: Ledger) -> PrefixList:
        """Return the list of the next round, charged to the ledger, signed and on the disk; once made, the same again.

        Parameters
        ----------
        counted : sequence of int
            The rounds that are counted.
        result : Result or None
            Of the last one of them; None if there is none.
        key : Ed25519PrivateKey
            The one that the task names for lists.
        ledger : Ledger
            Is charged once for every round, before its list is signed.
        """
        task, number = self._task, max(counted, default=0) + 1
        terms, plan = HeavyHitterRounds.of(task), HeavyHitterRounds.plan_of(task)
        if key.public_key().public_bytes_raw().hex() != terms.list_key:
            raise WrongKeyError("this is not the private key that the task names for its lists; give that one")
        if self.newest >= number:
            return self.of_round(number)
        if number > plan.rounds:
            raise CollectError(f"the search is over: all its {plan.rounds} rounds are counted")
        before: PrefixList | None = None
        kept: tuple[int, ...] = (0,)
        if result is not None:
            before = self.of_round(number - 1)
            kept = kept_prefixes(task, before, result)
        self._charge(ledger, number)
        listed = PrefixList.signed(task, number, kept, before, key)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with whole_file(self._path(number), mode=0o644) as file:
            file.write(listed.data)
        reached("list written")
        return listed

    def publish(self, connection: Connection, listed: PrefixList) -> None:
        """Hand the list to the shuffler, who has one of each round for everybody; once more changes nothing."""
        path = f"/v1/tasks/{self._task.id}/rounds/{listed.round}/list"
        asked(connection, "POST", path, listed.data)

    def _charge(self, ledger: Ledger, number: int) -> None:
        """Charge a round once, whatever its list: what stands for all of them is the task's own mechanism."""
        label = f"search {self._task.id[:16]}, round {number}"
        if any(entry.label == label for entry in ledger):
            return
        curve, limit = HeavyHitterRounds.plan_of(self._task).of_round, ledger.limit
        if limit is None:
            ledger.record(curve, label=label)
            return
        with ledger.budget(curve, epsilon=limit.epsilon, delta=limit.delta, planned=limit.planned, label=label):
            pass

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"


def kept_prefixes(task: Task, listed: PrefixList, result: Result) -> tuple[int, ...]:
    """Return the prefixes of a round that are estimated to have more people than the threshold."""
    people, plan = result.tally.counts.reports, HeavyHitterRounds.plan_of(task)
    counts = people * result.estimate.frequencies[1:]
    kept = np.flatnonzero(counts > plan.deviations * plan.error(people, len(listed.listed)))
    if not len(kept):
        raise WithheldError(
            f"no prefix of round {listed.round:,} has more people than the threshold: the search ends here"
        )
    return tuple(int(each) for each in listed.listed[kept])


@dataclass(frozen=True)
class _Pinned:
    """What a client keeps: the id of the task, and the signed lists as text."""

    task: str
    lists: list  # type: ignore[type-arg]  # of text, which `read_fields` does not look into


class PrefixSender(Sender):
    """One person's side of a search: a report a round, for at most as many rounds as the task has.

    Each list is checked: by the analyst's signature, the task, the round, and that it extends the list before it. It is
    on the disk before the report is sealed, and another list of the same round is refused from then on: covers hide
    somebody only among people who had the same list.

    Parameters
    ----------
    task : Task
        What is asked; its id was pinned, and it has a search.
    connection : Connection
        To the shuffler, who hands the same list to everybody.
    state : Path
        A folder for this person and this task alone.
    token : str, optional
        That the shuffler knows this person by, if it asks for one.
    """

    def __init__(self, task: Task, connection: Connection, state: Path, token: str | None = None) -> None:
        self._terms, self._plan = HeavyHitterRounds.of(task), HeavyHitterRounds.plan_of(task)
        super().__init__(task, connection, state, token)
        self._lists = StateFile(state, _FILE, _Pinned, lambda kept: kept.task == task.id, _FOREIGN)

    def _maker(self, value: str | int) -> Callable[[int], list[bytes]]:
        number_of_value = self._terms.number_of(str(value))

        def made(number: int) -> list[bytes]:
            listed = self._list_of(number)
            category = listed.category_of(number_of_value)
            return plaintexts(self.task, listed.mechanism.randomize([category]), listed.mechanism)

        return made

    def _list_of(self, number: int) -> PrefixList:
        """Return the list of a round, pinned now or before, as the shuffler has it."""
        if number > self._plan.rounds:
            raise CollectError(f"the search is over: it has {self._plan.rounds} rounds. Nothing was sent")
        pinned = self._pinned()
        for each in range(min(len(pinned) + 1, number), number + 1):
            data = self._fetched(each)
            if each <= len(pinned):
                if pinned[each - 1].data != data:
                    raise ForgedError(
                        f"{self.connection.url} has another list of round {each:,} than it had before. Nothing was "
                        "sent: whoever gives different people different lists can tell them apart. Tell whoever asks"
                    )
                continue
            pinned.append(PrefixList.verified(data, self.task, each, pinned[-1] if pinned else None))
            self._pin(pinned)
            reached("list pinned")
        return pinned[number - 1]

    def _fetched(self, number: int) -> bytes:
        answer = self.connection.request("GET", f"/v1/tasks/{self.task.id}/rounds/{number}/list")
        if answer.status != 200:
            raise refusal(self.connection.url, answer)
        return answer.body

    def _pinned(self) -> list[PrefixList]:
        kept, pinned = self._lists.read(), list[PrefixList]()
        for number, text in enumerate(kept.lists if kept else (), start=1):
            before = pinned[-1] if pinned else None
            try:
                pinned.append(PrefixList.verified(str(text).encode(), self.task, number, before))
            except (FileError, CollectError):
                raise DamagedError(f"{self._lists.folder}: {_FILE} {_FOREIGN}") from None
        return pinned

    def _pin(self, pinned: list[PrefixList]) -> None:
        self._lists.write(_Pinned(self.task.id, [one.data.decode() for one in pinned]))
