"""The shuffler on the network: one application for everybody, one for the analyst alone, and the writer behind them.

The writer is one thread that commits as one group whatever has come in while the group before was written.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shoal.collect.kinds.heavy_hitter_rounds import MOST_LIST_BYTES
from shoal.collect.log import Log, RoundWatch, facts_of
from shoal.collect.problem import Document, problem
from shoal.collect.round_state import Record, Round, RoundClosedError, State, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import StoreError
from shoal.collect.tokens import TokenList
from shoal.collect.upload import DummyUpload, Upload, closed_round, closed_to_bulk, other_task, read_body
from shoal.documentation import address
from shoal.errors import DamagedError, FileError, ForgedError, FormatError, ShoalError, TryAgainError

_RETRY = 5
_PIECE = 1 << 18
_DAMAGED = (
    "What the shuffler keeps its reports in is damaged, and nothing is stored or released any more. Whoever runs it: "
    "`shoal shuffler status` says what is broken and what to do."
)
_LIST = "/v1/tasks/{task}/rounds/{number:round}/list"
_T = TypeVar("_T")
_GROUP, _GROUP_BYTES = 20_000, 1 << 25
"""Reports in a group, and bytes, beyond which no more are added to it."""
_FEW, _MOST, _LONG = 256, 4096, 0.15
"""Reports that may always wait; that may wait at most; and the seconds that the first may have waited."""
_BESIDE, _ALONE = 0.03, 0.1
"""Seconds that a part of a bulk may take, if single reports come as well or not."""
_LEAST_PART, _MOST_PART = 100, 10_000
"""Reports of such a part."""
_PATIENCE = 10.0
"""Seconds that the end of a round waits for a bulk that is half stored."""


class _Single(NamedTuple):
    number: int
    record: Record
    answer: "asyncio.Future[None]"


@dataclass(eq=False)
class Bulk:
    """Many reports in one request, stored part by part, while single reports go first.

    The body has ciphertexts of `length` bytes, and its first `stored` bytes are stored for good. `answer` is
    done when all are, or fails as storing the next part did.
    """

    number: int
    body: bytes
    length: int
    answer: "asyncio.Future[None]"
    stored: int = 0

    def part(self, reports: int) -> list[Record]:
        """Return the next reports, at most this many."""
        end = min(len(self.body), self.stored + reports * self.length)
        return [record(self.body[at : at + self.length]) for at in range(self.stored, end, self.length)]


@dataclass(eq=False)
class _Pause:
    """A wish that no bulk is begun, until it is over."""

    begun: "asyncio.Future[None]"
    over: bool = field(default=False)


class Writer:
    """Two queues of uploads, each answered when it is on the disk, or when it is known that it is not.

    `accept` stores reports of a round, and raises if it did not store any of them.
    """

    def __init__(self, accept: Callable[[int, Sequence[Record]], None]) -> None:
        self._accept = accept
        self._queue: queue.SimpleQueue[_Single | Bulk | _Pause | None] = queue.SimpleQueue()
        self._since: deque[float] = deque()  # when each single report came that is not answered
        self._bulks: deque[Bulk] = deque()
        self._pauses: list[_Pause] = []
        self._pace = 0.0  # reports a second, of the last part
        self._going = True
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether so many reports wait, or the first for so long, that another one should come later."""
        waiting = self._since
        if len(waiting) < _FEW:
            return False
        return len(waiting) >= _MOST or time.monotonic() - waiting[0] > _LONG

    def submit(self, number: int, one: Record) -> "asyncio.Future[None]":
        """Return a future that is done when this report is stored, or fails as storing it did."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._since.append(time.monotonic())
        self._queue.put(_Single(number, one, answer))
        return answer

    def submit_bulk(self, number: int, body: bytes, length: int) -> Bulk:
        """Return a bulk that is under way; single reports are stored before each of its parts."""
        bulk = Bulk(number, body, length, self._loop.create_future())
        self._queue.put(bulk)
        return bulk

    @asynccontextmanager
    async def between_bulks(self) -> AsyncIterator[None]:
        """Have no bulk under way in this block, so that the end of a round cuts none in two; single reports go on.

        One that takes too long is not waited for.
        """
        pause = _Pause(self._loop.create_future())
        self._queue.put(pause)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(pause.begun, _PATIENCE)
            yield
        finally:
            pause.over = True
            self._queue.put(pause)

    def stop(self) -> None:
        """Store what has come in, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while self._going or self._bulks:
            groups = self._taken()
            for number, uploads in groups.items():
                trouble = self._stored(number, [upload.record for upload in uploads])
                self._call(self._answer, uploads, trouble)
            if self._ready():
                self._store_part(_BESIDE if groups else _ALONE)

    def _ready(self) -> bool:
        """Return whether a part of a bulk may be stored now, and tell whoever waits if none is half stored."""
        self._pauses = [pause for pause in self._pauses if not pause.over]
        if self._bulks and (self._bulks[0].stored or not self._pauses or not self._going):
            return True
        for pause in self._pauses:
            self._call(_settle, pause.begun, None)
        return False

    def _taken(self) -> dict[int, list[_Single]]:
        """Return the single reports that wait, by round, and put bulks into their queue; wait if there is nothing."""
        groups: dict[int, list[_Single]] = {}
        count = size = 0
        block = self._going and not self._ready()
        while count < _GROUP and size < _GROUP_BYTES:
            try:
                item = self._queue.get(block)
            except queue.Empty:
                break
            block = False
            match item:
                case None:
                    self._going = False
                case Bulk():
                    self._bulks.append(item)
                case _Pause():
                    self._pauses.append(item)
                case _:
                    groups.setdefault(item.number, []).append(item)
                    count, size = count + 1, size + len(item.record.body)
        return groups

    def _store_part(self, seconds: float) -> None:
        """Store as much of what has come in bulk as takes about so long; small ones together."""
        first, room = self._bulks[0], round(min(_MOST_PART, max(_LEAST_PART, seconds * self._pace)))
        records: list[Record] = []
        bulks: list[tuple[Bulk, int]] = []
        began = time.monotonic()
        for bulk in self._bulks:
            if len(records) >= room or bulk.number != first.number:
                break
            part = bulk.part(room - len(records))
            records += part
            bulks.append((bulk, len(part) * bulk.length))
        trouble = self._stored(first.number, records)
        self._pace = len(records) / max(time.monotonic() - began, 1e-6)
        for bulk, size in bulks:
            bulk.stored += size if trouble is None else 0
            if trouble is not None or bulk.stored == len(bulk.body):
                self._bulks.remove(bulk)
                self._call(_settle, bulk.answer, trouble)

    def _stored(self, number: int, records: list[Record]) -> Exception | None:
        try:
            self._accept(number, records)
        except Exception as error:  # a full disk must not end the thread: everybody waits for it
            return error
        return None

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # After the loop has gone, nobody waits for an answer any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _answer(self, uploads: list[_Single], trouble: Exception | None) -> None:
        for upload in uploads:
            self._since.popleft()
            _settle(upload.answer, trouble)


def _settle(answer: "asyncio.Future[None]", trouble: Exception | None) -> None:
    if answer.done():
        return
    if trouble is None:
        answer.set_result(None)
    else:
        answer.set_exception(trouble)


class _Number(Convertor[int]):
    """The number of a round in a path, no longer than a database can take: anybody may send any path."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("round", _Number())


class Service:
    """The two applications, and the thread behind them.

    Parameters
    ----------
    shuffler : Shuffler
        What they serve.
    tokens : TokenList, optional
        Who may send.
    """

    def __init__(self, shuffler: Shuffler, tokens: TokenList | None = None) -> None:
        self._shuffler, self._task = shuffler, shuffler.task
        self._keeper = ThreadPoolExecutor(1, "keeper")
        self._releaser = ThreadPoolExecutor(1, "releaser")
        self._writer: Writer | None = None
        self._current: Round | None = None
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[Round] | None = None
        self._trouble: dict[str, float] = {}
        self.log = Log()
        self._watch = RoundWatch(self._task, self.log)
        self._document = self._served(self._task.to_bytes())
        self._lists: dict[int, Document] = {}
        self._upload = Upload(self._task, tokens or TokenList(), self)
        helpers = DummyUpload(shuffler, self._between_releases)
        self.public = _Scrubbed(
            lambda error: self.log.count(logging.ERROR, "request", **facts_of(error)),
            Route("/v1/tasks/{task}/rounds/{number:round}/reports", self._upload, methods=["POST"]),
            *(helpers.routes if self._task.helper_keys else ()),
            *([Route(_LIST, self._show_list)] if self._task.kind.has_lists else ()),
            Route("/v1/tasks/{task}", self._show_task),
            Route("/v1/tasks/{task}/round", self._show_round),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
        )
        self.analyst = _Scrubbed(
            lambda error: self.log.tell(logging.ERROR, "analyst-request", **facts_of(error)),
            Route("/v1/tasks/{task}/rounds", self._list_rounds),
            Route("/v1/tasks/{task}/rounds/{number:round}/manifest", self._send_manifest),
            Route("/v1/tasks/{task}/rounds/{number:round}/batch", self._send_batch),
            *([Route(_LIST, self._publish_list, methods=["POST"])] if self._task.kind.has_lists else ()),
            Route("/v1/tasks/{task}/rounds/{number:round}/ack", self._acknowledge, methods=["POST"]),
        )

    async def start(self) -> None:
        """Start the writer, inside the loop that serves."""
        self._writer = Writer(self._shuffler.accept)
        await self.refresh()

    async def stop(self) -> None:
        """Store what has come in, and let everything go."""
        if self._writer is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.stop)
        self._releaser.shutdown()
        await self.keep(self._shuffler.shut)
        self._keeper.shutdown()
        self.log.flush()

    def admit(self, tokens: TokenList) -> None:
        """Let in these, and nobody else, from now on."""
        self._upload.tokens = tokens

    async def keep(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Ask the store something, in the thread for what is quick."""
        return await asyncio.get_running_loop().run_in_executor(self._keeper, function, *arguments)

    async def _between_releases(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Do something with a sealed round, in the thread that releases."""
        return await asyncio.get_running_loop().run_in_executor(self._releaser, function, *arguments)

    @property
    def current(self) -> Round | None:
        """The open round, as it was a moment ago."""
        return self._current

    async def refresh(self) -> Round:
        """Look up which round is open, once for all who ask in the meantime: anybody can make us ask."""
        # Not the look-up that is under way: it may have read before the asker's round ended, and name that one.
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_next())
        return await asyncio.shield(self._next_look)

    async def _look_next(self) -> Round:
        async with self._looking:
            self._next_look = None  # whoever asks from now on waits for the one after this
            return await self.keep(self._look)

    async def close(self) -> None:
        """End the open round if its time has come, and no bulk is half stored."""
        if self._task.shuffler_adds:  # in a separate thread, since many dummies take seconds
            await self._attempt("draw", None, self._shuffler.draw)
        async with AsyncExitStack() as stack:
            if self._writer is not None:
                await stack.enter_async_context(self._writer.between_bulks())
            await self._attempt("close", self._keeper, partial(self._shuffler.close, draw=False))
        await self._attempt("refresh", self._keeper, self._look)

    async def settle(self) -> None:
        """Release what is sealed and delete what is acknowledged, while reports keep coming in; log the changes."""
        # A purge that waits for a `pg_dump` keeps nobody from sending, and no round from its release.
        await self._attempt("settle", self._releaser, self._shuffler.settle, delayed=TryAgainError)
        await self._attempt("watch", self._keeper, self._watch_rounds)

    def _watch_rounds(self) -> None:
        self._watch.look(self._shuffler.rounds(), self._shuffler.time())

    def _look(self) -> Round:
        self._current = current = self._shuffler.current()
        return current

    async def _attempt(
        self,
        name: str,
        thread: ThreadPoolExecutor | None,
        act: Callable[[], object],
        *,
        delayed: type[Exception] | tuple[()] = (),
    ) -> None:
        """Do something that is due; if there is trouble, it is tried again. A `delayed` error is only logged."""
        try:
            await asyncio.get_running_loop().run_in_executor(thread, act)
        except delayed as error:
            self.log.tell(logging.WARNING, name, **facts_of(error))
        except Exception as error:
            self._trouble[name] = time.monotonic()
            self.log.tell(logging.ERROR, name, **facts_of(error))
        else:
            if self._trouble.pop(name, None) is not None:
                self.log.tell(logging.WARNING, name, detail="it works again")

    @property
    def full(self) -> bool:
        """Whether too many reports wait, so that another one should come later."""
        return self._writer is not None and self._writer.full

    def shed(self) -> Response:
        """Return what to answer to those who should come later."""
        self.log.count(logging.WARNING, "overload")
        detail = (
            "Too many reports come at once, and nothing of this request was stored. Send the same bytes again later."
        )
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)

    async def store(self, number: int, one: Record) -> Response | None:
        """Store a report, and return None once it is on the disk, or what to answer if it is not."""
        if early := await self._unready(number):
            return early
        assert self._writer is not None
        return await self._answered(number, self._writer.submit(number, one))

    async def store_bulk(self, number: int, body: bytes) -> Response | None:
        """Store many reports, part by part, and return None once all are on the disk, or what to answer."""
        if early := await self._unready(number, body):
            return early
        assert self._writer is not None
        bulk = self._writer.submit_bulk(number, body, self._task.bundle_bytes)
        return await self._answered(number, bulk.answer, bulk)

    async def _unready(self, number: int, bulk: bytes | None = None) -> Response | None:
        """Return what to answer if a report is not for the open round, without troubling the writer."""
        if self._writer is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "The shuffler is starting.", retry_after=_RETRY)
        if self._current is None or self._current.number != number:
            try:
                current = await self.refresh()
            except Exception as error:
                return self._not_stored(error)
            if current.number != number:
                return closed_round(number, current) if bulk is None else await self._late_bulk(number, bulk)
        return await self._awaited()

    async def _awaited(self) -> Response | None:
        """Return what to answer while the open round lacks what it needs before reports are taken."""
        lacks = self._task.kind.awaits
        if lacks(self._current or await self.refresh()) is None or (detail := lacks(await self.refresh())) is None:
            return None
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)

    async def _late_bulk(self, number: int, body: bytes, least: int = 0) -> Response:
        """Return what to answer to many reports for a round that is not open, and has at least `least` of them."""
        try:
            stored = await self.keep(self._shuffler.stored, number, body)
            return closed_to_bulk(number, await self.refresh(), None if stored is None else max(stored, least))
        except Exception as error:
            return self._not_stored(error)

    async def _answered(self, number: int, stored: "asyncio.Future[None]", bulk: Bulk | None = None) -> Response | None:
        try:
            await stored
        except RoundClosedError:
            if bulk is not None:
                return await self._late_bulk(number, bulk.body, bulk.stored // bulk.length)
            return closed_round(number, await self.refresh())
        except Exception as error:
            return self._not_stored(error, bulk)
        self._trouble.pop("store", None)
        return None

    def _not_stored(self, error: Exception, bulk: Bulk | None = None) -> Response:
        self._trouble["store"] = time.monotonic()
        self.log.count(logging.ERROR, "store", **facts_of(error))
        if bulk is None:
            detail = "It is not known to be stored. Send the same bytes again later."
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)
        stored = bulk.stored // bulk.length
        detail = f"The first {stored} reports are stored, others are not known to be. Send the same bytes again later."
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY, stored=stored)

    async def _show_task(self, request: Request) -> Response | Document:
        return self._wrong(request) or self._document

    def _served(self, data: bytes) -> Document:
        """Return a JSON document that anyone may read and that never changes."""
        return Document(data, "application/json", self._too_many_readers)

    def _too_many_readers(self) -> Response:
        self.log.count(logging.WARNING, "readers")
        detail = "Too many clients read this document at once. Ask again later."
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)

    async def _show_round(self, request: Request) -> Response:
        current = self._current or await self.refresh()
        return self._wrong(request) or JSONResponse({"round": current.number, "closes": current.closes})

    async def _health(self, _: Request) -> Response:
        return Response(status_code=HTTPStatus.OK)

    async def _readiness(self, _: Request) -> Response:
        if self._shuffler.trouble is not None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, _DAMAGED, retry_after=_RETRY)
        # Not for longer: as long as it is not ready, nobody may send the report by which it would notice that it is.
        if all(time.monotonic() - since > _RETRY for since in list(self._trouble.values())):
            waiting = [{"round": number, "for": reason} for number, reason in self._watch.overdue.items()]
            return JSONResponse({"waiting": waiting})
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "The last attempt to store or release failed.", retry_after=_RETRY
        )

    async def _list_rounds(self, request: Request) -> Response:
        if wrong := self._wrong(request):
            return wrong
        rounds = await self.keep(self._shuffler.rounds)
        rounds_ended = [
            {"round": one.number, "state": one.state, "reports": one.reports, "discarded": one.discarded}
            | ({"messages": one.messages} if self._task.several else {})
            | ({"helpers_missing": self._task.helpers_missing(one.helped)} if self._task.helper_keys else {})
            for one in rounds
            if one.state != State.OPEN
        ]
        return JSONResponse({"rounds": rounds_ended})

    async def _send_manifest(self, request: Request) -> Response:
        if wrong := self._wrong(request):
            return wrong
        data, _ = await self.keep(self._shuffler.released, request.path_params["number"])
        return Response(data, media_type="application/json")

    async def _send_batch(self, request: Request) -> Response:
        if wrong := self._wrong(request):
            return wrong
        file = await self.keep(self._shuffler.open_batch, request.path_params["number"])

        async def pieces() -> AsyncIterator[bytes]:
            with file:
                while piece := file.read(_PIECE):
                    yield piece

        size = str(file.seek(0, 2))
        file.seek(0)
        return StreamingResponse(pieces(), media_type="application/octet-stream", headers={"Content-Length": size})

    async def _show_list(self, request: Request) -> Response | Document:
        if wrong := self._wrong(request):
            return wrong
        number = request.path_params["number"]
        if number not in self._lists:
            listed = await self.keep(self._shuffler.list_of, number)
            self._lists.setdefault(number, self._served(listed.data))
        return self._lists[number]

    async def _publish_list(self, request: Request) -> Response:
        if wrong := self._wrong(request):
            return wrong
        body = await read_body(request.receive, MOST_LIST_BYTES)
        if body is None:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A list has at most {MOST_LIST_BYTES} bytes.")
        try:
            await self.keep(self._shuffler.publish_list, request.path_params["number"], body)
        except (ForgedError, FormatError) as error:
            return problem(HTTPStatus.BAD_REQUEST, f"{error}.")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _acknowledge(self, request: Request) -> Response:
        if wrong := self._wrong(request):
            return wrong
        body = await read_body(request.receive, 64)
        if body is None:
            return problem(
                HTTPStatus.BAD_REQUEST, "The body must be the sha256 that the manifest states: 64 hexadecimal digits."
            )
        await self.keep(self._shuffler.acknowledge, request.path_params["number"], body.decode("ascii", "replace"))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _wrong(self, request: Request) -> Response | None:
        return other_task(self._task, request.path_params["task"])


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, FileError | StoreError):  # a full disk, or a damaged one; where, is nobody's business
        request.app.state.tell(error)
        detail = (
            _DAMAGED if isinstance(error, DamagedError) else "The shuffler cannot use its database. Try again later."
        )
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after=_RETRY)
    return problem(HTTPStatus.CONFLICT, f"{error}.", retry_after=_RETRY if isinstance(error, TryAgainError) else None)


async def _unknown(_: Request, error: Exception) -> Response:
    status = HTTPStatus(getattr(error, "status_code", HTTPStatus.NOT_FOUND))
    detail = f"There is nothing here under this path and method; {address('protocol')} lists what there is."
    answer = problem(status, detail)
    answer.headers.update(getattr(error, "headers", None) or {})  # which methods are allowed
    return answer


async def _late(_: Request, __: Exception) -> Response:
    return problem(HTTPStatus.REQUEST_TIMEOUT, "The body did not come in time. Send the same bytes again.")


async def _broken(_: Request, __: Exception) -> Response:
    detail = "Something is wrong with the shuffler. Send the same bytes again later."
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail, retry_after=_RETRY)


_HANDLERS: dict[Any, Any] = {
    ShoalError: _refused,
    TimeoutError: _late,
    404: _unknown,
    405: _unknown,
    Exception: _broken,
}


class _Scrubbed:
    """An application whose unforeseen errors are logged as a line of the code, without anything of the request."""

    def __init__(self, tell: Callable[[Exception], None], *routes: Route) -> None:
        self._tell = tell
        self._inner = Starlette(routes=routes, exception_handlers=_HANDLERS)
        self._inner.state.tell = tell
        self._inner.router.redirect_slashes = False  # it would send people to whatever host their request names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._inner(scope, receive, send)
        except Exception as error:
            self._tell(error)
