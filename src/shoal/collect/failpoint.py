"""Named points in the life of a round, at which the tests end the process; otherwise nothing happens at them."""

from collections.abc import Callable

POINTS = (
    "between messages",
    "after insert",
    "before commit",
    "dummies drawn",
    "dummies stored",
    "helper drawn",
    "helper kept",
    "helper mixed",
    "mix committed",
    "helper acknowledged",
    "list stored",
    "list pinned",
    "list written",
    "after seal",
    "batch written",
    "mark written",
    "renamed",
    "before ack",
    "after ack",
    "before purge",
    "after purge",
)

_watcher: Callable[[str], None] | None = None


def watch(watcher: Callable[[str], None] | None) -> None:
    """Have this function called with each point that is reached, or none."""
    global _watcher  # noqa: PLW0603  (there is one process to end)
    _watcher = watcher


def reached(point: str) -> None:
    """Tell the tests, if there are any, that the process has come this far."""
    if _watcher is not None:
        _watcher(point)
