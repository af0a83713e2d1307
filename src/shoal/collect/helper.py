"""The helper, who adds dummies to rounds: drawn once a round, and the same sealed bytes however often they are sent."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shoal.collect.connection import Answer, Connection
from shoal.collect.failpoint import reached
from shoal.collect.kinds.dummies import ASKING, proof_of
from shoal.collect.state_folder import exclusive
from shoal.collect.task import Task
from shoal.durable_file import whole_file
from shoal.errors import CollectError, DamagedError, StorageError, TryAgainError, WrongKeyError
from shoal.strict_json import Fields, read_fields

__all__ = ["Helper"]

_FILE = "dummies.json"
_FIELDS: Fields = {"task": str, "key": str, "round": int, "dummies": str | None}
_LARGEST_ROUND = 10**18
_AGAIN = "repeat the same command: the same dummies are sent again, and are added once"


@dataclass(frozen=True)
class _Kept:
    """What is kept between two calls; never a dummy unsealed, nor how many there are of a category.

    Attributes
    ----------
    task : str
        Its id.
    key : str
        The helper's public key, in hexadecimal.
    round : int
        The last one for which dummies were drawn.
    dummies : str or None
        All of them, sealed, in hexadecimal; None once the shuffler has them for sure, or will never take them.
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

    def send(self) -> list[int]:
        """Draw, seal and send dummies for all rounds that wait for them, and return the numbers of these rounds."""
        sent, refused = [], []
        with exclusive(self._folder):
            self._sweep()
            kept = self._kept()
            if kept is not None and kept.dummies is not None:
                self._post(kept)
                sent.append(kept.round)
            for number in self._waiting():
                kept = self._kept()
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

    def _drawn(self, number: int) -> _Kept:
        body = b"".join(self.task.kind.drawn(self.task, number))
        reached("helper drawn")
        kept = _Kept(task=self.task.id, key=self._public.hex(), round=number, dummies=body.hex())
        self._keep(kept)
        reached("helper kept")
        return kept

    def _post(self, kept: _Kept) -> None:
        """Send dummies that are on the disk; once that is settled, they are deleted there."""
        body = bytes.fromhex(kept.dummies or "")
        answer = self._asked("POST", f"/rounds/{kept.round}/dummies", kept.round, body)
        final = answer.status == 409 and "retry-after" not in answer.headers
        if answer.status == 201:
            reached("helper acknowledged")
        if answer.status == 201 or final:
            self._keep(replace(kept, dummies=None))
        if answer.status != 201:
            raise self._refusal(answer)

    def _waiting(self) -> list[int]:
        answer = self._asked("GET", "/dummies", ASKING, b"")
        if answer.status != 200:
            raise self._refusal(answer)
        rounds = answer.member("rounds")
        if not isinstance(rounds, list) or not all(type(one) is int and 0 < one < _LARGEST_ROUND for one in rounds):
            raise CollectError(f"{self.connection.url} does not say which rounds wait for dummies; is it a shuffler?")
        return sorted(set(rounds))

    def _asked(self, method: str, path: str, number: int, body: bytes) -> Answer:
        headers = {"Authorization": proof_of(self._key, self.task, number, body)}
        return self.connection.request(method, f"/v1/tasks/{self.task.id}{path}", body, headers)

    def _refusal(self, answer: Answer) -> CollectError:
        reason = f"{self.connection.url} refuses: {answer.problem()}"
        if answer.status in (408, 500, 502, 503, 504) or "retry-after" in answer.headers:
            return TryAgainError(f"{reason}. Later, {_AGAIN}")
        return CollectError(reason)

    def _kept(self) -> _Kept | None:
        path = self._folder / _FILE
        try:
            kept = _Kept(**read_fields(path.read_bytes(), _FIELDS, str(path)))
            bytes.fromhex(kept.dummies or "")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}; nothing was sent", error) from None
        except ValueError:
            kept = None
        if kept is None or (kept.task, kept.key) != (self.task.id, self._public.hex()):
            raise DamagedError(
                f"{path} is damaged, or belongs to another task or key, so that nobody knows for which rounds dummies "
                "were drawn. Nothing was sent: give --state the folder of this task and this key"
            )
        return kept

    def _keep(self, kept: _Kept) -> None:
        with whole_file(self._folder / _FILE, mode=0o600) as file:
            file.write(json.dumps(asdict(kept)).encode())

    def _sweep(self) -> None:
        """Delete what a process that was killed has left: a draw that nobody has seen."""
        for path in self._folder.glob(f".{_FILE}.*.part"):
            with suppress(OSError):
                path.unlink()
