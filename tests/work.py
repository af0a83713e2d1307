"""Work counted in calls of functions: a number that is the same on every machine, however busy it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def calls() -> Iterator[Callable[[], int]]:
    """Count the calls that this thread makes in a block, of functions in Python and in C; lend what tells how many."""
    count, before = 0, sys.getprofile()

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        yield lambda: count
    finally:
        sys.setprofile(before)
