"""Where helpers send their dummies: who sends is proven before anything of the body is read."""

import hashlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shoal.collect.dummy_proof import ASKING, proven
from shoal.collect.problem import problem
from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.upload import other_task, read_body
from shoal.mechanisms import Dummies

__all__ = ["DummyUpload"]

_RETRY = 5


class DummyUpload:
    """Two endpoints for the helpers that the task names: which rounds wait for them, and their dummies.

    Parameters
    ----------
    shuffler : Shuffler
        Whose rounds wait.
    run : callable
        Runs a function with arguments in the thread that releases rounds, and awaits what it returns.
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
        mechanism = self._task.mechanism
        assert isinstance(mechanism, Dummies)
        return 2 * mechanism.limit * mechanism.categories * self._task.ciphertext_bytes

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
