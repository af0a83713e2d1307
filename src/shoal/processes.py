"""Work shared among processes: this one and others, one for each core, with a progress bar."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from shoal.progress import progress

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 2
"""Items that each of the others has, so that it never waits for the next one."""


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shared(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    processes: int,
    label: object,
    patience: float | None = None,
    alone_if_broken: bool = True,
) -> Generator[_Result, None, None]:
    """Yield what a function makes of each item, in order, with a progress bar that says `label`.

    This process works as well, as one of `processes`, and does not wait while the others start.
    They are started anew, since a fork would copy whatever locks other threads hold; so a script
    needs ``if __name__ == "__main__":`` around what it does. They end with this one, however it
    ends. The function is sent to each process once; what it holds goes through memory, never to a
    disk.

    `patience` is that of the progress bar, in seconds. With `alone_if_broken` this process goes on
    alone if another can't be started, or has died; if not, `BrokenProcessPool` is raised in that
    case.
    """
    results = _results(function, items, min(processes, len(items)) - 1, alone_if_broken)
    with closing(results):
        yield from progress(results, total=len(items), label=label, patience=patience)


def _results(
    function: Callable[[_Item], _Result], items: Sequence[_Item], others: int, alone_if_broken: bool
) -> Generator[_Result, None, None]:
    done = 0
    if others > 0:
        try:
            with _pool(function, others) as pool:
                for result in _in_order(function, items, pool, _AHEAD * others):
                    yield result
                    done += 1
        except BrokenProcessPool:  # a script without the guard, or a process that was killed
            if not alone_if_broken:
                raise
    yield from map(function, items[done:])


@contextmanager
def _pool(function: Callable[[Any], Any], processes: int) -> Iterator[ProcessPoolExecutor]:
    """Return other processes; if this block ends early, so do they."""
    try:
        pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin, (function,))
    except OSError as error:  # a system without semaphores
        raise BrokenProcessPool(str(error)) from error
    try:
        yield pool
    except BaseException:
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        raise
    pool.shutdown()


def _in_order(
    function: Callable[[_Item], _Result], items: Sequence[_Item], pool: ProcessPoolExecutor, ahead: int
) -> Iterator[_Result]:
    waiting = deque(enumerate(items))
    given = dict[Future[_Result], int]()
    results: dict[int, _Result] = {}
    for index in range(len(items)):
        while index not in results:
            while waiting and len(given) < ahead:
                number, item = waiting.popleft()
                given[_submitted(pool, item)] = number
            if waiting:
                number, item = waiting.popleft()
                results[number] = function(item)
            finished, _ = wait(given, 0 if waiting else None, FIRST_COMPLETED)
            for future in finished:
                results[given.pop(future)] = future.result()
        yield results.pop(index)


def _submitted(pool: ProcessPoolExecutor, item: Any) -> "Future[Any]":
    try:
        return pool.submit(_called, item)
    except OSError as error:  # which a process that can't be started raises
        raise BrokenProcessPool(str(error)) from error


_function: Callable[[Any], Any] | None = None


def _begin(function: Callable[[Any], Any]) -> None:
    """Make a process ready: Ctrl-C ends it, as an exception would end one item only, and so does its parent's end."""
    global _function  # noqa: PLW0603  (a pool calls functions, and each process has one)
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _called(item: Any) -> Any:
    assert _function is not None
    return _function(item)
