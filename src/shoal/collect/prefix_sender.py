"""The sender of a hunt: which prefix a person reports is said by lists that it checks, and pins before it reports."""

import json
from collections.abc import Callable
from pathlib import Path

from shoal.collect.connection import Connection
from shoal.collect.envelope import plaintexts
from shoal.collect.failpoint import reached
from shoal.collect.prefix_list import PrefixList
from shoal.collect.sender import Sender, refusal
from shoal.collect.task import Task
from shoal.durable_file import whole_file
from shoal.errors import CollectError, DamagedError, FileError, ForgedError, ParameterError, StorageError
from shoal.strict_json import Fields, read_fields

__all__ = ["PrefixSender"]

_FILE = "lists.json"
_FIELDS: Fields = {"task": str, "lists": list}


class PrefixSender(Sender):
    """One person's side of a hunt: a report a round, for at most as many rounds as the task has.

    Each list is checked: by the analyst's signature, the task, the round, and that it extends the list before it. It is
    on the disk before the report is sealed, and another list of the same round is refused from then on: covers hide
    somebody only among people who had the same list.

    Parameters
    ----------
    task : Task
        What is asked; its id was pinned, and it has a hunt.
    connection : Connection
        To the shuffler, who hands the same list to everybody.
    state : Path
        A folder for this person and this task alone.
    token : str, optional
        That the shuffler knows this person by, if it asks for one.
    """

    def __init__(self, task: Task, connection: Connection, state: Path, token: str | None = None) -> None:
        if task.hunt is None:
            raise ParameterError("this task has no hunt; Sender reports its categories")
        super().__init__(task, connection, state, token)
        self._lists = state / _FILE

    def _maker(self, value: str | int) -> Callable[[int], list[bytes]]:
        assert self.task.hunt is not None
        number_of_value = self.task.hunt.number_of(str(value))

        def made(number: int) -> list[bytes]:
            listed = self._list_of(number)
            category = listed.category_of(number_of_value)
            return plaintexts(self.task, listed.mechanism.randomize([category]), listed.mechanism)

        return made

    def _list_of(self, number: int) -> PrefixList:
        """Return the list of a round, pinned now or before, as the shuffler has it."""
        if number > self.task.hunt_plan.rounds:
            raise CollectError(f"the hunt is over: it has {self.task.hunt_plan.rounds} rounds. Nothing was sent")
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
        try:
            values = read_fields(self._lists.read_bytes(), _FIELDS, str(self._lists))
            if values["task"] != self.task.id:
                raise ValueError
            pinned: list[PrefixList] = []
            for number, text in enumerate(values["lists"], start=1):
                before = pinned[-1] if pinned else None
                pinned.append(PrefixList.verified(str(text).encode(), self.task, number, before))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"cannot read {self._lists}: {error.strerror}; nothing was sent", error) from None
        except (ValueError, FileError, CollectError):
            raise DamagedError(
                f"{self._lists} is damaged, or belongs to another task, so that nobody knows which lists were pinned. "
                "Nothing was sent: get a copy back, or leave this hunt"
            ) from None
        return pinned

    def _pin(self, pinned: list[PrefixList]) -> None:
        with whole_file(self._lists, mode=0o600) as file:
            file.write(json.dumps({"task": self.task.id, "lists": [one.data.decode() for one in pinned]}).encode())
