"""The sender, on a person's device: one report a round, sealed before it leaves, the same however often it is sent."""

import hashlib
import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from shoal.collect.connection import Answer, Connection
from shoal.collect.envelope import plaintexts, seal
from shoal.collect.state_folder import exclusive
from shoal.collect.task import MOST_TASK_BYTES, Task, task_id
from shoal.durable_file import whole_file
from shoal.errors import CollectError, DamagedError, ParameterError, StorageError, TryAgainError
from shoal.strict_json import Fields, read_fields, shortened

__all__ = ["Receipt", "Sender", "fetch_task", "read_tokens", "refusal"]

_TRIES = 3
PATIENCE = 60.0
"""Seconds that a client waits in all, as a shuffler that cannot take its report asks it to, before it gives up."""
_BUSY = (429, 500, 502, 503, 504)
"""Statuses after which the same request is sent again, if the answer says when."""
_FILE = "report.json"
_FIELDS: Fields = {
    "task": str,
    "round": int,
    "report": str,
    "sent": bool,
    "first_round": int,
    "first_time": int | float,
}
_LARGEST_ROUND = 10**18
_AGAIN = "repeat the same command: the same report is sent again, and counts once"
_LATEST = 1e15
_TOKEN = re.compile("[!-~]{1,1000}")
_NO_TOKEN = "a token is up to 1000 letters, digits and signs without blanks"
_DRIFT, _GRACE = 1.01, 1.0
"""How much faster than ours the shuffler's clock may run, and by how many seconds it may be ahead."""


@dataclass(frozen=True)
class Receipt:
    """What became of a report.

    Attributes
    ----------
    round : int
        Its number.
    new : bool
        Whether it was sent now; if not, this round has one already, and nothing was sent.
    sha256 : str
        Of the sealed report.
    closes : float
        When the round ends at the earliest, in seconds since 1970.
    """

    round: int
    new: bool
    sha256: str
    closes: float


@dataclass(frozen=True)
class _Kept:
    """What is kept between two calls; never the value, and never the report unsealed.

    Attributes
    ----------
    task : str
        Its id.
    round : int
        Of the last report.
    report : str
        That report, sealed, in hexadecimal; of a bundle, all messages.
    sent : bool
        Whether the shuffler has it for sure.
    first_round : int
        A round that was open at `first_time`: that of the first report, or of the last one before the clock was set
        back.
    first_time : float
        The time by which the pace of rounds is checked.
    """

    task: str
    round: int
    report: str
    sent: bool
    first_round: int
    first_time: float


def fetch_task(connection: Connection, pinned: str) -> Task:
    """Return the task with this id, as the shuffler has it; its hash is checked before anything in it is looked at.

    Parameters
    ----------
    connection : Connection
        To the shuffler.
    pinned : str
        The id, from somebody who is trusted.
    """
    answer = connection.request("GET", f"/v1/tasks/{task_id(pinned)}", most=MOST_TASK_BYTES)
    if answer.status != 200:
        raise refusal(connection.url, answer)
    return Task.from_bytes(answer.body, pinned=pinned, source=f"what {connection.url} sent")


def read_tokens(path: Path) -> list[str]:
    """Return the tokens in a file, one a line; empty lines do not count."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError as error:
        raise StorageError(f"cannot read tokens from {path}: {error.strerror}", error) from None
    for number, line in enumerate(lines, start=1):
        if line and not _TOKEN.fullmatch(line):
            raise ParameterError(f"{path}, line {number}: {_NO_TOKEN}")
    if not any(lines):
        raise ParameterError(f"{path} has no token; write one on each line")
    return [line for line in lines if line]


class Sender:
    """One person's side of a task.

    The value is randomized once a round. The sealed report is on the disk before it is sent, so that a crash, a lost
    answer or an impatient user makes nobody report twice. A shuffler that counts rounds up faster than the task allows,
    to get many reports out of one person, gets none.

    Parameters
    ----------
    task : Task
        What is asked; its id was pinned.
    connection : Connection
        To the shuffler.
    state : Path or None
        A folder for this person and this task alone; None keeps all in memory.
    token : str, optional
        That the shuffler knows this person by, if it asks for one.
    clock : callable
        Tells the time.
    """

    def __init__(
        self,
        task: Task,
        connection: Connection,
        state: Path | None,
        token: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if token is not None and not _TOKEN.fullmatch(token):
            raise ParameterError(_NO_TOKEN)
        self.task = task
        self.connection = connection
        self._folder = state
        self._memory: _Kept | None = None
        self._headers = {"Content-Type": "application/octet-stream"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        self._clock = clock
        self._patience = 0.0

    def send(self, value: str | int) -> Receipt:
        """Randomize, seal and send a value, unless this round has a report already.

        If the round has a report that may not have arrived, that one is sent again, whatever the value is now. If the
        shuffler asks to come back later, this waits for up to a minute in all, and sends the same report again.

        Parameters
        ----------
        value : str or int
            The name of a category, or its number if they have no names.
        """
        messages = self._maker(value)
        with nullcontext() if self._folder is None else exclusive(self._folder):
            self._patience = PATIENCE
            for _ in range(_TRIES):
                number, closes = self._open_round()
                kept = self._report(messages, number)
                sha256 = hashlib.sha256(bytes.fromhex(kept.report)).hexdigest()
                if kept.sent:
                    return Receipt(number, False, sha256, closes)
                path = f"/v1/tasks/{self.task.id}/rounds/{number}/reports"
                answer = self._asked("POST", path, bytes.fromhex(kept.report), self._headers)
                if answer.status == 201:
                    self._keep(replace(kept, sent=True))
                    return Receipt(number, True, sha256, closes)
                if answer.status != 409:
                    raise refusal(self.connection.url, answer)
        raise TryAgainError(f"{self.connection.url} closed {_TRIES} rounds while this report was sent; try again later")

    def _maker(self, value: str | int) -> Callable[[int], list[bytes]]:
        """Return what makes the messages of a round, to be sealed."""
        category = _category(self.task, value)
        # Once: whoever refuses round after round gets the same report sealed anew, and not another one.
        messages = plaintexts(self.task, self.task.mechanism.randomize([category]))
        return lambda _: messages

    def _asked(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request, and the same one again while the shuffler asks for that and `PATIENCE` is not used up."""
        factor = 1.0
        while True:
            answer = self.connection.request(method, path, body, headers)
            wait = answer.headers.get("retry-after", "")
            # At least a second: a server that always answers 0 must not be asked for ever, without a pause.
            pause = factor * max(1.0, float(wait)) if wait.isascii() and wait.isdigit() else math.inf
            if answer.status not in _BUSY or pause > self._patience:
                return answer
            time.sleep(pause)
            self._patience -= pause
            factor *= random.uniform(2, 3)  # so that clients that were sent away together do not come back together

    def _open_round(self) -> tuple[int, float]:
        answer = self._asked("GET", f"/v1/tasks/{self.task.id}/round")
        if answer.status != 200:
            raise refusal(self.connection.url, answer)
        number, closes = answer.member("round"), answer.member("closes")
        if type(number) is not int or not 0 <= number < _LARGEST_ROUND or not _finite(closes):
            raise CollectError(f"{self.connection.url} does not say which round is open; is it a shuffler?")
        return number, float(closes)  # type: ignore[arg-type]

    def _report(self, messages: Callable[[int], list[bytes]], number: int) -> _Kept:
        """Return the report of this round, sealed now if there is none; it is kept before anybody sees it."""
        kept, now = self._kept(), self._clock()
        if kept is not None and kept.round == number:
            return kept
        if kept is not None:
            if now < kept.first_time:
                # This machine's clock was ahead, or was set back: the pace is counted from the last report on.
                kept = replace(kept, first_round=kept.round, first_time=now)
                self._keep(kept)
            self._check_pace(kept, number, now)
        new = _Kept(
            task=self.task.id,
            round=number,
            # In the order of their bytes: which of them is the person's own is not told by its place.
            report=b"".join(sorted(seal(self.task, number, each) for each in messages(number))).hex(),
            sent=False,
            first_round=number if kept is None else kept.first_round,
            first_time=now if kept is None else kept.first_time,
        )
        self._keep(new)
        return new

    def _check_pace(self, kept: _Kept, number: int, now: float) -> None:
        """Refuse a round that can't be open yet: rounds come one by one, and each lasts as long as the task says."""
        least = (number - kept.first_round - 1) * self.task.round_seconds
        if number < kept.round or least > _DRIFT * (now - kept.first_time) + _GRACE:
            raise CollectError(
                f"{self.connection.url} says that round {number:,} is open, and this client has reported in round "
                f"{kept.round:,}; by the length of a round that can't be. Nothing was sent: check the clock of this "
                "machine, and tell whoever asks"
            )

    def _kept(self) -> _Kept | None:
        if self._folder is None:
            return self._memory
        path = self._folder / _FILE
        try:
            kept = _Kept(**read_fields(path.read_bytes(), _FIELDS, str(path)))
            bytes.fromhex(kept.report)
            fine = kept.task == self.task.id and _finite(kept.first_time)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}; nothing was sent", error) from None
        except ValueError:
            fine = False
        if not fine:
            raise DamagedError(
                f"{path} is damaged, or belongs to another task, so that nobody knows whether this round has a report "
                "already. Nothing was sent: wait for the next round, then remove it; or give --state another folder"
            )
        return kept

    def _keep(self, kept: _Kept) -> None:
        self._memory = kept
        if self._folder is not None:
            with whole_file(self._folder / _FILE, mode=0o600) as file:
                file.write(json.dumps(asdict(kept)).encode())


def _finite(number: object) -> bool:
    """Tell whether this is a number that a clock can show."""
    return isinstance(number, int | float) and abs(number) < _LATEST


def _category(task: Task, value: str | int) -> int:
    """Return the number of a category; the error does not repeat the value further than the terminal."""
    labels, text = task.names.labels, str(value)
    if labels is not None:
        if text in labels:
            return labels.index(text)
        known = ", ".join(labels[:8]) + (f" and {len(labels) - 8:,} more" if len(labels) > 8 else "")
        raise ParameterError(f"{shortened(text)} is none of the categories; they are {known}")
    if text.isascii() and text.isdigit() and int(text) < task.names.count:
        return int(text)
    raise ParameterError(
        f"{shortened(text)} is none of the categories; they are the whole numbers from 0 to {task.names.count - 1:,}"
    )


def refusal(url: str, answer: Answer) -> CollectError:
    """Return what to raise where a shuffler has not answered what was asked for."""
    reason = answer.problem()
    if answer.status in (408, *_BUSY) or "retry-after" in answer.headers:
        wait = answer.headers.get("retry-after", "")
        pause = f"in {wait} seconds" if wait.isdigit() else "later"
        return TryAgainError(f"{url} can't take the report now: {reason}. {pause.capitalize()}, {_AGAIN}")
    if answer.status == 401:
        return CollectError(
            f"{url} wants a token that it knows: {reason}. Give the file that holds yours as --token-file"
        )
    return CollectError(f"{url} refuses: {reason}")
