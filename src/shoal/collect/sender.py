"""Clients and helpers: what each of them sends is sealed and on its disk before it leaves, and stays the same.

A client sends one report a round. A helper adds dummies, which are drawn once a round.
"""

import hashlib
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from inspect import get_annotations
from pathlib import Path
from typing import Generic, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shoal.collect.connection import Answer, Connection
from shoal.collect.envelope import plaintexts, seal
from shoal.collect.failpoint import reached
from shoal.collect.kinds.dummy_rounds import ASKING, proof_of
from shoal.collect.task import MOST_TASK_BYTES, Task, task_id
from shoal.durable_file import locked, whole_file
from shoal.errors import CollectError, DamagedError, ParameterError, StorageError, TryAgainError, WrongKeyError
from shoal.strict_json import read_fields, shortened

_TRIES = 3
PATIENCE = 60.0
"""Seconds that a client waits in all, as a shuffler that cannot take its report asks it to, before it gives up."""
_BUSY = (429, 500, 502, 503, 504)
"""Statuses after which the same request is sent again, if the answer says when."""
_FILE = "report.json"
_LARGEST_ROUND = 10**18
_AGAIN = "repeat the same command: the same report is sent again, and counts once"
_FOREIGN = (
    "is damaged, or belongs to another task, so that nobody knows whether this round has a report already. Nothing was "
    "sent: wait for the next round, then remove it; or give --state another folder"
)
_LATEST = 1e15
_TOKEN = re.compile("[!-~]{1,1000}")
_NO_TOKEN = "a token is up to 1000 letters, digits and signs without blanks"
_DRIFT, _GRACE = 1.01, 1.0
"""How much faster than ours the shuffler's clock may run, and by how many seconds it may be ahead."""
_DUMMY_FILE = "dummies.json"
_DUMMIES_AGAIN = "repeat the same command: the same dummies are sent again, and are added once"
_FOREIGN_DUMMIES = (
    "is damaged, or belongs to another task or key, so that nobody knows for which rounds dummies were drawn. Nothing "
    "was sent: give --state the folder of this task and this key"
)
_T = TypeVar("_T")


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Make the folder if it is not there, and keep other processes with the same one out of this block."""
    path = folder / "lock"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(locked(path, mode=0o600))
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}; give --state a folder of your own"
            raise StorageError(message, error) from None
        yield


@dataclass
class StateFile(Generic[_T]):
    """What a client or a helper keeps between two calls, in a file that is replaced as a whole.

    Without a folder all is in memory. `kind` is a dataclass. `ours` returns whether what was read belongs to
    this task and party, or raises `ValueError`; `damaged` says what to do if it does not.
    """

    folder: Path | None
    name: str
    kind: type[_T]
    ours: Callable[[_T], bool]
    damaged: str
    memory: _T | None = None

    def read(self) -> _T | None:
        """Return what was kept, or None if nothing was yet."""
        if self.folder is None:
            return self.memory
        path = self.folder / self.name
        try:
            kept = self.kind(**read_fields(path.read_bytes(), get_annotations(self.kind), str(path)))
            fine = self.ours(kept)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}; nothing was sent", error) from None
        except ValueError:
            fine = False
        if not fine:
            raise DamagedError(f"{path} {self.damaged}")
        return kept

    def write(self, kept: _T) -> None:
        """Keep this; it is on the disk when this returns."""
        self.memory = kept
        if self.folder is not None:
            with whole_file(self.folder / self.name, mode=0o600) as file:
                file.write(json.dumps(vars(kept)).encode())


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

    `report` is the sealed report of round `round` in hexadecimal, of a bundle all messages, and `sent`
    whether the shuffler has it for sure. Round `first_round` was open at `first_time`, by which the pace of
    rounds is checked: at the first report, or at the last one before the clock was set back.
    """

    task: str
    round: int
    report: str
    sent: bool
    first_round: int
    first_time: int | float


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
        self._state = StateFile(state, _FILE, _Kept, self._is_ours, _FOREIGN)
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
                    self._state.write(replace(kept, sent=True))
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
        kept, now = self._state.read(), self._clock()
        if kept is not None and kept.round == number:
            return kept
        if kept is not None:
            if now < kept.first_time:
                # This machine's clock was ahead, or was set back: the pace is counted from the last report on.
                kept = replace(kept, first_round=kept.round, first_time=now)
                self._state.write(kept)
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
        self._state.write(new)
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

    def _is_ours(self, kept: _Kept) -> bool:
        bytes.fromhex(kept.report)
        return kept.task == self.task.id and _finite(kept.first_time)


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


def refusal(url: str, answer: Answer, *, dummies: bool = False) -> CollectError:
    """Return the error to raise if a shuffler refuses a report, or the dummies of a helper."""
    reason = answer.problem()
    if answer.status in (408, *_BUSY) or "retry-after" in answer.headers:
        wait = answer.headers.get("retry-after", "")
        pause = f"in {wait} seconds" if wait.isdigit() else "later"
        again = _DUMMIES_AGAIN if dummies else _AGAIN
        return TryAgainError(f"{url} can't take it now: {reason}. {pause.capitalize()}, {again}")
    if answer.status == 401 and not dummies:  # helpers have keys, and no tokens
        return CollectError(
            f"{url} wants a token that it knows: {reason}. Give the file that holds yours as --token-file"
        )
    return CollectError(f"{url} refuses: {reason}")


@dataclass(frozen=True)
class _Drawn:
    """What is kept between two calls; never a dummy unsealed, nor how many there are of a category.

    `dummies` are those of round `round`, sealed, in hexadecimal, until the shuffler has them for sure or will
    never take them. `key` is the helper's public key in hexadecimal.
    """

    task: str
    key: str
    round: int
    dummies: str | None


class Helper:
    """One helper's side of a task with dummies.

    Dummies are drawn once a round. They are sealed, and on the disk, before the first attempt to send them, and all
    attempts send the same bytes: with two draws over the same messages, whoever saw both would know which are people's.

    Parameters
    ----------
    task : Task
        What is collected; its id was pinned.
    connection : Connection
        To the shuffler.
    state : Path
        A folder for this helper and this task alone. Whoever reads it and has the analyst's key knows the dummies.
    key : Ed25519PrivateKey
        One of those that the task names.
    """

    def __init__(self, task: Task, connection: Connection, state: Path, key: Ed25519PrivateKey) -> None:
        self._public = key.public_key().public_bytes_raw()
        if self._public not in task.helper_keys:
            raise WrongKeyError("this is not the private key of a helper that the task names; give that one")
        self.task, self.connection, self._folder, self._key = task, connection, state, key
        self._state = StateFile(state, _DUMMY_FILE, _Drawn, self._is_ours, _FOREIGN_DUMMIES)

    def send(self) -> list[int]:
        """Draw, seal and send dummies for all rounds that wait for them, and return the numbers of these rounds."""
        sent, refused = [], []
        with exclusive(self._folder):
            self._sweep()
            kept = self._state.read()
            if kept is not None and kept.dummies is not None:
                self._post(kept)
                sent.append(kept.round)
            for number in self._waiting():
                kept = self._state.read()
                if kept is not None and number <= kept.round:
                    refused += [number] if number not in sent else []
                    continue
                self._post(self._drawn(number))
                sent.append(number)
        if refused:
            raise CollectError(
                f"{self.connection.url} asks for dummies of round {refused[0]:,}, and they were drawn before; no "
                "second draw is sent. Tell whoever runs the shuffler: it has lost them, and must not release this round"
            )
        return sent

    def _drawn(self, number: int) -> _Drawn:
        body = b"".join(self.task.kind.drawn(self.task, number))
        reached("helper drawn")
        kept = _Drawn(task=self.task.id, key=self._public.hex(), round=number, dummies=body.hex())
        self._state.write(kept)
        reached("helper kept")
        return kept

    def _post(self, kept: _Drawn) -> None:
        """Send dummies that are on the disk; once that is settled, they are deleted there."""
        body = bytes.fromhex(kept.dummies or "")
        answer = self._asked("POST", f"/rounds/{kept.round}/dummies", kept.round, body)
        final = answer.status == 409 and "retry-after" not in answer.headers
        if answer.status == 201:
            reached("helper acknowledged")
        if answer.status == 201 or final:
            self._state.write(replace(kept, dummies=None))
        if answer.status != 201:
            raise refusal(self.connection.url, answer, dummies=True)

    def _waiting(self) -> list[int]:
        answer = self._asked("GET", "/dummies", ASKING, b"")
        if answer.status != 200:
            raise refusal(self.connection.url, answer, dummies=True)
        rounds = answer.member("rounds")
        if not isinstance(rounds, list) or not all(type(one) is int and 0 < one < _LARGEST_ROUND for one in rounds):
            raise CollectError(f"{self.connection.url} does not say which rounds wait for dummies; is it a shuffler?")
        return sorted(set(rounds))

    def _asked(self, method: str, path: str, number: int, body: bytes) -> Answer:
        headers = {"Authorization": proof_of(self._key, self.task, number, body)}
        return self.connection.request(method, f"/v1/tasks/{self.task.id}{path}", body, headers)

    def _is_ours(self, kept: _Drawn) -> bool:
        bytes.fromhex(kept.dummies or "")
        return (kept.task, kept.key) == (self.task.id, self._public.hex())

    def _sweep(self) -> None:
        """Delete what a process that was killed has left: a draw that nobody has seen."""
        for path in self._folder.glob(f".{_DUMMY_FILE}.*.part"):
            with suppress(OSError):
                path.unlink()
