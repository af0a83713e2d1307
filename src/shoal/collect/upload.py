"""Where reports come in: who may send, how much, and for which round."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from shoal.collect.problem import problem
from shoal.collect.store import Record, Round, record
from shoal.collect.task import Task

__all__ = ["TokenList", "Upload", "closed_round", "other_task", "read_body"]

_MOST_BULK = 1 << 24
_BODY_SECONDS = 30
_TAG_BYTES = 16
_STORED: Sequence[Message] = (
    {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]},
    {"type": "http.response.body", "body": b""},
)


@dataclass(frozen=True)
class TokenList:
    """Who may send: hashes of personal tokens, and of the tokens of relays, which may send many reports at once.

    Attributes
    ----------
    people : SHA-256 of each personal token; None if nobody needs one.
    relays : SHA-256 of each relay's token.
    """

    people: frozenset[bytes] | None = None
    relays: frozenset[bytes] = field(default_factory=frozenset)


class Rounds(Protocol):
    """What an upload asks of the service behind it."""

    @property
    def current(self) -> Round | None:
        """The open round, as it was a moment ago."""

    async def refresh(self) -> Round:
        """Look up which round is open."""

    async def store(self, number: int, records: Sequence[Record]) -> Response | None:
        """Store reports, and return None once they are on the disk, or what to answer if they are not."""


class Upload:
    """An endpoint without the comforts of a request: this is what the shuffler does all day.

    Parameters
    ----------
    task : whose reports these are.
    tokens : who may send.
    rounds : where they go.
    """

    def __init__(self, task: Task, tokens: TokenList, rounds: Rounds) -> None:
        self._task, self._tokens, self._rounds = task, tokens, rounds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 once the report is on the disk, whether it is new or not, or say what is wrong."""
        refusal = await self._taken(scope, receive)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        for message in _STORED:
            await send(message)

    async def _taken(self, scope: Scope, receive: Receive) -> Response | None:
        number: int = scope["path_params"]["number"]
        if wrong := other_task(self._task, scope["path_params"]["task"]):
            return wrong
        admitted = await self._admitted(scope, number)
        if isinstance(admitted, Response):
            return admitted
        most, tag = admitted
        length = self._task.ciphertext_bytes
        body = await read_body(receive, most)
        if body is None:
            detail = f"A report has {length} bytes, and one request holds one. Only a relay with a token may send more."
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
        if not body or len(body) % length:
            return problem(HTTPStatus.BAD_REQUEST, f"A report for this task has {length} bytes, not {len(body)}.")
        if len(body) == length:
            return await self._rounds.store(number, (record(body, tag),))
        return await self._rounds.store(
            number, [record(body[start : start + length]) for start in range(0, len(body), length)]
        )

    async def _admitted(self, scope: Scope, number: int) -> tuple[int, bytes | None] | Response:
        """Return how many bytes this request may send and the tag of its sender, or what to answer if none."""
        length = self._task.ciphertext_bytes
        people, relays = self._tokens.people, self._tokens.relays
        if people is None and not relays:
            return length, None
        given: bytes = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        token = given[7:] if given[:7].lower() == b"bearer " else b""
        hashed = hashlib.sha256(token).digest()
        if token and hashed in relays:
            return _MOST_BULK, None
        if people is None:
            return length, None
        if not token or hashed not in people:
            detail = "A token is needed to report here. Send it as 'Authorization: Bearer TOKEN'."
            answer = problem(HTTPStatus.UNAUTHORIZED, detail)
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        current = self._rounds.current
        if current is None or current.number != number:
            current = await self._rounds.refresh()
        if current.number != number or current.token_key is None:
            return closed_round(number, current)
        return length, hmac.digest(current.token_key, token, "sha256")[:_TAG_BYTES]


async def read_body(receive: Receive, most: int) -> bytes | None:
    """Return the body of a request, or None if it is longer."""
    parts: list[bytes] = []
    size, more = 0, True
    # All of it in time, the first byte too: otherwise a client that says nothing more is waited for forever.
    async with asyncio.timeout(_BODY_SECONDS):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b""  # what has come of it is not what was to be sent
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > most:
                return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def closed_round(number: int, current: Round) -> Response:
    """Return what to answer to a report for a round that is not open."""
    detail = f"Round {number} is not open. Seal the report for round {current.number}, and send it there."
    return problem(HTTPStatus.CONFLICT, detail, round=current.number)


def other_task(task: Task, asked: str) -> Response | None:
    """Return what to answer if another task is asked for than is served here."""
    if asked == task.id:
        return None
    detail = f"The task here is {task.id}. Check the task, or the address."
    return problem(HTTPStatus.NOT_FOUND, detail, task=task.id)
