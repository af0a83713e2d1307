"""A progress bar on standard error, for anything that takes more than a second; silent where nobody watches."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["progress"]

_Item = TypeVar("_Item")
_PATIENCE = 1.0


def progress(items: Iterable[_Item], *, total: int, label: str) -> Iterator[_Item]:
    """Yield the items, and show how far along they are on a terminal once a second has passed."""
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
