"""Where reports and the dummies of helpers come in: who may send, how much, and for which round."""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from shoal.collect.kinds.dummy_rounds import ASKING, DummyRounds, proven
from shoal.collect.problem import problem
from shoal.collect.round_state import Round, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.task import Task
from shoal.collect.tokens import TokenList

if TYPE_CHECKING:
    from shoal.collect.service import Service

_MOST_BULK = 1 << 24
_MOST_BULKS = 1 << 26
"""Bytes of all bulks that are read or wait at once."""
_BODY_SECONDS = 30
_TAG_BYTES = 16
_RETRY = 5
"""Seconds."""
_STORED: Sequence[Message] = (
    {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]},
    {"type": "http.response.body", "body": b""},
)


class _NoRoomError(Exception):
    """More bytes of bulks than are held at once."""


class Upload:
    """An endpoint without the comforts of a request: this is what the shuffler does all day."""

    def __init__(self, task: Task, tokens: TokenList, rounds: "Service") -> None:
        self._task, self.tokens, self._rounds = task, tokens, rounds
        self._bulks = 0

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
        length, size = self._task.bundle_bytes, _declared(scope)
        if size is not None and size > most:
            return self._too_long()
        if most > length and size != length:
            return await self._bulk(receive, number, size)
        if self._rounds.full:
            return self._rounds.shed()
        body = await read_body(receive, length)
        if body is None:
            return self._too_long()
        return self._wrong(body) or await self._rounds.store(number, record(body, tag))

    async def _bulk(self, receive: Receive, number: int, size: int | None) -> Response | None:
        """Take what a relay sends, if there is room for it: for as much as it says, or as it turns out to be."""
        held = 0

        def hold(more: int) -> None:
            nonlocal held
            if self._bulks + more > _MOST_BULKS:
                raise _NoRoomError
            self._bulks, held = self._bulks + more, held + more

        try:
            hold(size or 0)
            body = await read_body(receive, _MOST_BULK if size is None else size, hold if size is None else None)
            if body is None:
                return self._too_long()
            return self._wrong(body) or await self._rounds.store_bulk(number, body)
        except _NoRoomError:
            return self._rounds.shed()
        finally:
            self._bulks -= held

    def _wrong(self, body: bytes) -> Response | None:
        length = self._task.bundle_bytes
        if body and len(body) % length == 0:
            return None
        return problem(HTTPStatus.BAD_REQUEST, f"A report for this task has {self._size()}, not {len(body)}.")

    def _size(self) -> str:
        """Return how long a report is, in words."""
        count, length = self._task.mechanism.bundle, self._task.ciphertext_bytes
        return f"{length} bytes" if count == 1 else f"{count} messages of {length} bytes, {count * length} in all"

    def _too_long(self) -> Response:
        detail = (
            f"A report has {self._size()}, and one request holds one. Only a relay with a token may send more, and at "
            f"most {_MOST_BULK} bytes."
        )
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)

    async def _admitted(self, scope: Scope, number: int) -> tuple[int, bytes | None] | Response:
        """Return how many bytes this request may send and the tag of its sender, or what to answer if none."""
        length = self._task.bundle_bytes
        people, relays = self.tokens.people, self.tokens.relays
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


class DummyUpload:
    """Two endpoints for the helpers that the task names: which rounds wait for them, and their dummies.

    `run` calls a function in the thread that releases rounds, and awaits what it returns.
    """

    def __init__(self, shuffler: Shuffler, run: Callable[..., Awaitable[Any]]) -> None:
        self._shuffler, self._task, self._run = shuffler, shuffler.task, run
        self._sending: set[int] = set()

    @property
    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/v1/tasks/{task}/dummies", self.waiting),
            Route("/v1/tasks/{task}/rounds/{number:round}/dummies", self.take, methods=["POST"]),
        ]

    async def waiting(self, request: Request) -> Response:
        """Tell a helper which rounds are not released, since its dummies are missing."""
        known = self._known(request, ASKING)
        if isinstance(known, Response):
            return known
        return JSONResponse({"rounds": await self._run(self._shuffler.waiting_for, known[0])})

    async def take(self, request: Request) -> Response:
        """Answer 201 once all dummies of a helper are on the disk, now or before, or say why none is."""
        number: int = request.path_params["number"]
        known = self._known(request, number)
        if isinstance(known, Response):
            return known
        helper, digest = known
        if helper in self._sending:  # else a helper could have many bodies held at once
            detail = "This helper is sending dummies already. Send the same bytes again later."
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)
        self._sending.add(helper)
        try:
            body = await read_body(request.receive, self._most)
            if body is None:
                detail = f"A helper adds at most {self._most} bytes of dummies to a round of this task."
                return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            length = self._task.ciphertext_bytes
            parts = [body[at : at + length] for at in range(0, len(body), length)]
            ordered = all(one < other for one, other in pairwise(parts))
            if len(body) % length or not ordered or hashlib.sha256(body).digest() != digest:
                detail = (
                    f"The body must be what was signed: messages of {length} bytes each, in the order of their bytes."
                )
                return problem(HTTPStatus.BAD_REQUEST, detail)
            await self._run(self._shuffler.mix, number, helper, [record(part) for part in parts])
        finally:
            self._sending.discard(helper)
        return Response(status_code=HTTPStatus.CREATED)

    @property
    def _most(self) -> int:
        """How many bytes one helper adds at most."""
        kind = self._task.kind
        assert isinstance(kind, DummyRounds)
        return kind.most_bytes(self._task)

    def _known(self, request: Request, number: int) -> tuple[int, bytes] | Response:
        if wrong := other_task(self._task, request.path_params["task"]):
            return wrong
        known = proven(request.headers.get("authorization", ""), self._task, number)
        if known is None:
            detail = "This is for the helpers that the task names, who sign what they send; `shoal helper send` does."
            answer = problem(HTTPStatus.UNAUTHORIZED, detail)
            answer.headers["WWW-Authenticate"] = "Helper"
            return answer
        return known


async def read_body(receive: Receive, most: int, count: Callable[[int], None] | None = None) -> bytes | None:
    """Return the body of a request, or None if it is longer; how much there is more of it is counted as it comes."""
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
            if count is not None:
                count(len(parts[-1]))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _declared(scope: Scope) -> int | None:
    """Return how many bytes a request says that its body has; None if it comes in chunks."""
    given: bytes | None = next((value for name, value in scope["headers"] if name == b"content-length"), None)
    return int(given) if given is not None and given.isdigit() and len(given) < 20 else None


def closed_round(number: int, current: Round) -> Response:
    """Return what to answer to a report for a round that is not open."""
    detail = f"Round {number} is not open. Seal the report for round {current.number}, and send it there."
    return problem(HTTPStatus.CONFLICT, detail, round=current.number)


def closed_to_bulk(number: int, current: Round, stored: int | None) -> Response:
    """Return what to answer to many, of which the round has the first ones; None if it is not known how many."""
    if stored is None:
        detail = (
            f"Round {number} is not open, and so old that nobody knows which of these reports it has. Do not seal them "
            "again: some would count twice."
        )
    else:
        detail = (
            f"Round {number} is not open. It has the first {stored} of these reports. Seal the others for round "
            f"{current.number}, and send them there."
        )
    return problem(HTTPStatus.CONFLICT, detail, round=current.number, stored=stored)


def other_task(task: Task, asked: str) -> Response | None:
    """Return what to answer if another task is asked for than is served here."""
    if asked == task.id:
        return None
    detail = f"The task here is {task.id}. Check the task, or the address."
    return problem(HTTPStatus.NOT_FOUND, detail, task=task.id)
