"""The writer: one thread that commits as one group whatever has come in while the group before was written."""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.collect.round_state import Record, record

__all__ = ["Bulk", "Writer"]

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

    Attributes
    ----------
    number : int
        Of the round.
    body : bytes
        The ciphertexts, one after the other.
    length : int
        Of each.
    answer : Future
        Is done when all are stored, or fails as storing the next part did.
    stored : int
        Bytes of the body that are stored for good.
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

    Parameters
    ----------
    accept : callable
        Stores reports of a round, and raises if it did not store any of them.
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
