"""The analyst's lists of prefixes: each made from the round before, charged, signed and kept before anybody sees it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shoal.collect.connection import Connection
from shoal.collect.failpoint import reached
from shoal.collect.prefix_list import PrefixList
from shoal.collect.result import Result
from shoal.collect.task import Task
from shoal.composition.ledger import Ledger
from shoal.durable_file import whole_file
from shoal.errors import CollectError, StorageError, TryAgainError, WithheldError, WrongKeyError

__all__ = ["NONE_OF_THESE", "PrefixLists", "kept_prefixes"]

NONE_OF_THESE = "none of these"
"""Category 0 of every round: a design point of its own."""


class PrefixLists:
    """The lists of a hunt in the analyst's folder, a file for each round.

    Parameters
    ----------
    folder : Path
        The analyst's.
    task : Task
        Whose hunt it is.
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
            raise CollectError(f"there is no round {number:,} in a hunt")
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
        assert task.hunt is not None
        if key.public_key().public_bytes_raw().hex() != task.hunt.list_key:
            raise WrongKeyError("this is not the private key that the task names for its lists; give that one")
        if self.newest >= number:
            return self.of_round(number)
        if number > task.hunt_plan.rounds:
            raise CollectError(f"the hunt is over: all its {task.hunt_plan.rounds} rounds are counted")
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
        answer = connection.request("POST", path, listed.data)
        if answer.status != 204:
            again = "retry-after" in answer.headers or answer.status >= 500
            raise (TryAgainError if again else CollectError)(f"the shuffler refuses: {answer.problem()}")

    def _charge(self, ledger: Ledger, number: int) -> None:
        """Charge a round once, whatever its list: what stands for all of them is the task's own mechanism."""
        label = f"hunt {self._task.id[:16]}, round {number}"
        if any(entry.label == label for entry in ledger):
            return
        curve, limit = self._task.hunt_plan.of_round, ledger.limit
        if limit is None:
            ledger.record(curve, label=label)
            return
        with ledger.budget(curve, epsilon=limit.epsilon, delta=limit.delta, planned=limit.planned, label=label):
            pass

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"


def kept_prefixes(task: Task, listed: PrefixList, result: Result) -> tuple[int, ...]:
    """Return the prefixes of a round that are estimated to have more people than the threshold."""
    people, plan = result.tally.counts.reports, task.hunt_plan
    counts = people * result.estimate.frequencies[1:]
    kept = np.flatnonzero(counts > plan.deviations * plan.error(people, len(listed.listed)))
    if not len(kept):
        raise WithheldError(
            f"no prefix of round {listed.round:,} has more people than the threshold: the hunt ends here"
        )
    return tuple(int(each) for each in listed.listed[kept])
