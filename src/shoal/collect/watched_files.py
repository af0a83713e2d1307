"""Files that may be replaced while a process runs, such as lists of tokens and certificates."""

from collections.abc import Iterable
from pathlib import Path

__all__ = ["WatchedFiles"]


class WatchedFiles:
    """Files whose inode, size or time of modification shows that they were replaced.

    Parameters
    ----------
    paths : iterable of Path
        The files. A file that does not exist has changed once it does.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self.note()

    def note(self) -> None:
        """Note the present state. Call it before reading, so that a change during the reading is noticed."""
        self._noted = self._stamps()

    @property
    def changed(self) -> bool:
        """Whether a file was replaced since the last `note`."""
        return self._noted != self._stamps()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
