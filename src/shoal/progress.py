"""A progress bar on standard error, for anything that takes more than a second; silent where nobody watches."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_PATIENCE = 1.0
_TICKS = 1000
_CLOCKS = list[str]()
"""The labels of the clocks that run: on a terminal, which has one line for all, nothing else is shown meanwhile."""


def progress(items: Iterable[_Item], *, total: int, label: object, patience: float | None = None) -> Iterator[_Item]:
    """Yield the items, and show how far along they are on a terminal once a second has passed.

    The label is turned into text each time that it is shown. Without patience the bar is there before the first item,
    for items of which one alone may take long.
    """
    patience = _PATIENCE if patience is None else patience
    start = shown = time.monotonic()
    visible = sys.stderr.isatty() and not _CLOCKS
    drawn = visible and not patience
    if drawn:
        _show(label, 0, total, "")
    try:
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if visible and now - start > patience and (now - shown > 0.1 or done == total):
                shown, drawn = now, True
                _show(label, done, total, f", {(now - start) * (total - done) / done:.0f} s left")
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _show(label: object, done: int, total: int, left: str) -> None:
    filled = 30 * done // max(total, 1)
    sys.stderr.write(f"\r{label} [{'█' * filled}{'·' * (30 - filled)}] {done:,}/{total:,}{left} ")
    sys.stderr.flush()


def followed(items: Iterable[_Item], position: Callable[[], int], total: int, label: str) -> Iterator[_Item]:
    """Yield the items, with a bar that shows the position among the total."""
    with closing(progress(range(_TICKS), total=_TICKS, label=label)) as bar:  # type: ignore[type-var]
        done = 0
        for item in items:
            yield item
            due = _TICKS * position() // max(total, 1)
            for _ in islice(bar, max(0, due - done)):
                done += 1


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Run a block of which nobody knows how long it takes; once a second has passed, a terminal shows for how long.

    Bars and clocks inside of it are not shown.
    """
    if _CLOCKS or not sys.stderr.isatty():
        yield
        return
    _CLOCKS.append(label)
    ended = threading.Event()
    clock = threading.Thread(target=_tick, args=(label, ended), daemon=True)
    clock.start()
    try:
        yield
    finally:
        ended.set()
        clock.join()
        _CLOCKS.remove(label)


def _tick(label: str, ended: threading.Event) -> None:
    start = time.monotonic()
    if ended.wait(_PATIENCE):
        return
    while not ended.is_set():
        sys.stderr.write(f"\r{label}: {time.monotonic() - start:.0f} s ")
        sys.stderr.flush()
        ended.wait(0.25)
    sys.stderr.write("\r\x1b[2K")
    sys.stderr.flush()
