"""The workers of a server: processes that answer one question after the other, each replaced if it takes too long.

A worker reads frames from standard input and writes frames to standard output: four bytes with the length of the rest,
and the rest. A question is JSON. A reply is a status in two bytes, the length of the media type in one, the media type,
and the body. An empty frame comes first, when everything is imported.
"""

import asyncio
import json
import os
import signal
import struct
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from shoal.questions.question import names, question
from shoal.web.reply import Reply, answered, refusal

_MOST_MEMORY = 4 << 30
"""Bytes of addresses that a question may take; beyond it the question is refused, and the machine lives."""
_WATCH = 1.0
"""Seconds after which a worker looks whether whoever started it is still there."""


def packed(reply: Reply) -> bytes:
    """Return a reply as a frame.

    Examples
    --------
    >>> unpacked(packed(Reply(200, "text/plain", b"yes"))[4:])
    Reply(status=200, media_type='text/plain', body=b'yes')
    """
    kind = reply.media_type.encode()
    return struct.pack(">IHB", 3 + len(kind) + len(reply.body), reply.status, len(kind)) + kind + reply.body


def unpacked(frame: bytes) -> Reply:
    """Return the reply in a frame, without the four bytes of its length."""
    status, length = struct.unpack_from(">HB", frame)
    return Reply(status, frame[3 : 3 + length].decode(), frame[3 + length :])


def main() -> None:
    """Answer questions until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the server ends us
    questions, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between the frames
    _limit_memory()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    names()
    for form in ("facts", "code", "inline"):  # the first answer takes longer, as tables are made
        answered("amplify", {"reports": "1000", "local_epsilon": "1"}, None, form)
    replies.write(struct.pack(">I", 0))
    replies.flush()
    while (frame := _read(questions)) is not None:
        asked = json.loads(frame)
        replies.write(packed(answered(asked["question"], asked["texts"], asked["body"], asked["form"])))
        replies.flush()


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    return stream.read(struct.unpack(">I", head)[0]) if len(head) == 4 else None


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)


_PATIENCE = 1.0
"""Seconds that a worker has to finish what nobody waits for any more."""
_MOST_WAITING, _MOST_WAIT = 64, 60.0
"""Questions that wait for a worker, and for how many seconds."""
_FIRST_PAUSE = 0.1
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class _Worker:
    """A process, and how to ask it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        self._to, self._from = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> "_Worker":
        """Start a process, and return when it is ready."""
        command = (sys.executable, "-m", "shoal.web.worker_pool")
        worker = cls(
            await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=os.environ | _ONE_THREAD)
        )
        try:
            await worker._from.readexactly(4)
        except BaseException:
            worker.kill()
            raise
        return worker

    @property
    def alive(self) -> bool:
        """Whether the process runs; the end of its pipe is seen before anybody has waited for it."""
        return self._process.returncode is None and not self._from.at_eof()

    async def ask(self, question: bytes) -> Reply:
        """Return the reply of the process."""
        self._to.write(struct.pack(">I", len(question)) + question)
        await self._to.drain()
        (length,) = struct.unpack(">I", await self._from.readexactly(4))
        return unpacked(await self._from.readexactly(length))

    def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()


class WorkerPool:
    """Processes that answer questions, started before the first is asked."""

    def __init__(self, count: int = 2, most_seconds: float | None = None) -> None:
        self._count, self._most_seconds = count, most_seconds
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._all: set[_Worker] = set()
        self._slow = asyncio.Semaphore(max(1, count - 1))
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._ending = False

    def start(self) -> None:
        """Start all workers; questions wait until one is ready."""
        for _ in range(self._count):
            self._chore(self._add())

    async def stop(self) -> None:
        """End all workers at once."""
        self._ending = True
        for chore in self._chores:
            chore.cancel()
        for worker in self._all:
            worker.kill()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await asyncio.gather(*(worker.ended() for worker in self._all))

    async def answer(self, name: str, texts: Mapping[str, str], body: str | None, form: str) -> Reply:
        """Return the reply to a question; if this is cancelled, nobody waits for it any more."""
        asked = json.dumps({"question": name, "texts": dict(texts), "body": body, "form": form}).encode()
        kind = question(name)
        seconds = kind.seconds if self._most_seconds is None else min(kind.seconds, self._most_seconds)
        if kind.quick:  # what takes milliseconds is asked once more, if its worker was being ended
            reply = await self._asked(asked, name, seconds) or await self._asked(asked, name, seconds)
        else:
            async with self._slow:
                reply = await self._asked(asked, name, seconds)
        return reply or refusal(503, f"the process that computed {name} was ended from outside; ask again")

    async def _asked(self, asked: bytes, name: str, seconds: float) -> Reply | None:
        """Return the reply of a worker, or nothing if somebody has ended it in the middle."""
        worker = await self._next()
        while worker is not None and not worker.alive:  # somebody has ended it
            self._replace(worker)
            worker = await self._next()
        if worker is None:
            return refusal(503, "too many questions were asked at once; ask again in a moment")
        asking = asyncio.create_task(worker.ask(asked))
        try:
            async with asyncio.timeout(seconds):
                reply = await asyncio.shield(asking)
        except TimeoutError:
            asking.cancel()
            self._replace(worker)
            return refusal(503, f"{name} with these values takes longer than {seconds:g} seconds, and was ended")
        except asyncio.CancelledError:
            self._chore(self._finish(worker, asking))
            raise
        except (OSError, EOFError):
            self._replace(worker)
            return None
        self._idle.put_nowait(worker)
        return reply

    async def _next(self) -> _Worker | None:
        """Return a worker that is idle; nothing if too many have asked since, as the latest question wins."""
        give_up, getting = asyncio.get_running_loop().create_future(), asyncio.create_task(self._idle.get())
        self._waiting[give_up] = None
        if len(self._waiting) > _MOST_WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.set_result(None)
        try:
            await asyncio.wait({getting, give_up}, timeout=_MOST_WAIT, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if getting.done():
                self._idle.put_nowait(getting.result())
            raise
        finally:
            self._waiting.pop(give_up, None)
            if not getting.done():
                getting.cancel()
        return getting.result() if getting.done() else None

    async def _finish(self, worker: _Worker, asking: "asyncio.Task[Reply]") -> None:
        """Let a worker finish what nobody waits for, but not for long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await asking
        except (TimeoutError, OSError, EOFError):
            self._replace(worker)
        else:
            self._idle.put_nowait(worker)

    def _replace(self, worker: _Worker) -> None:
        """End a worker, and start another in its place."""
        worker.kill()
        self._all.discard(worker)
        self._chore(self._exchange(worker))

    async def _exchange(self, worker: _Worker) -> None:
        await worker.ended()
        if not self._ending:
            await self._add()

    async def _add(self) -> None:
        """Start a worker; if it ends before it is ready, another one, after a pause that grows."""
        pause = _FIRST_PAUSE
        while True:
            try:
                worker = await _Worker.start()
            except (OSError, EOFError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MOST_WAIT)
            else:
                self._all.add(worker)
                self._idle.put_nowait(worker)
                return

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)


if __name__ == "__main__":
    main()
