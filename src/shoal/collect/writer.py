"""The writer: one thread that commits as one group whatever has come in while the group before was written."""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.collect.store import Record

__all__ = ["Writer"]

_GROUP, _GROUP_BYTES = 20_000, 1 << 25
"""Reports in a group, and bytes, beyond which no more are added to it."""


class _Upload(NamedTuple):
    number: int
    records: Sequence[Record]
    answer: "asyncio.Future[None]"


class Writer:
    """A queue of uploads, each answered when it is on the disk, or when it is known that it is not.

    Parameters
    ----------
    accept : stores reports of a round, and raises if it did not store any of them.
    """

    def __init__(self, accept: Callable[[int, Sequence[Record]], None]) -> None:
        self._accept = accept
        self._queue: queue.SimpleQueue[_Upload | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, number: int, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Return a future that is done when these reports are stored, or fails as storing them did."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(_Upload(number, records, answer))
        return answer

    def stop(self) -> None:
        """Store what has come in, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            groups: dict[int, list[_Upload]] = {}
            count = size = 0
            upload = self._queue.get()
            while True:
                if upload is None:
                    going = False
                    break
                groups.setdefault(upload.number, []).append(upload)
                count += len(upload.records)
                size += sum(len(one.body) for one in upload.records)
                if count >= _GROUP or size >= _GROUP_BYTES:
                    break
                try:
                    upload = self._queue.get_nowait()
                except queue.Empty:
                    break
            for number, uploads in groups.items():
                self._store(number, uploads)

    def _store(self, number: int, uploads: list[_Upload]) -> None:
        trouble: Exception | None = None
        try:
            self._accept(number, [one for upload in uploads for one in upload.records])
        except Exception as error:  # a full disk must not end the thread: everybody waits for it
            trouble = error
        # After the loop has gone, nobody waits for an answer any more.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_answer, uploads, trouble)


def _answer(uploads: list[_Upload], trouble: Exception | None) -> None:
    for upload in uploads:
        if upload.answer.done():
            continue
        if trouble is None:
            upload.answer.set_result(None)
        else:
            upload.answer.set_exception(trouble)
