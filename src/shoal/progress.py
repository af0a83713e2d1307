"""A progress bar on standard error, for anything that takes more than a second; silent where nobody watches."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TypeVar

__all__ = ["followed", "progress"]

_Item = TypeVar("_Item")
_PATIENCE = 1.0
_TICKS = 1000


def progress(items: Iterable[_Item], *, total: int, label: object) -> Iterator[_Item]:
    """Yield the items, and show how far along they are on a terminal once a second has passed.

    The label is turned into text each time that it is shown.
    """
    start = shown = time.monotonic()
    visible = sys.stderr.isatty()
    drawn = False
    try:
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if visible and now - start > _PATIENCE and (now - shown > 0.1 or done == total):
                shown, drawn = now, True
                filled = 30 * done // max(total, 1)
                left = (now - start) * (total - done) / done
                sys.stderr.write(
                    f"\r{label} [{'█' * filled}{'·' * (30 - filled)}] {done:,}/{total:,}, {left:.0f} s left "
                )
                sys.stderr.flush()
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[2K")
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
