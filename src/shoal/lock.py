"""A lock on a file, which other processes respect, and other threads of this one."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked"]

_PAUSE = 0.01

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # the first byte, which need not be there
            except OSError as error:
                if error.errno != errno.EACCES:  # which says that somebody else has it
                    raise
                time.sleep(_PAUSE)

    def _release(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path, *, mode: int = 0o666) -> Iterator[None]:
    """Keep everybody else who locks this file out of this block.

    The file is created if it does not exist, and stays behind, empty: deleting it while a process works would let
    another one in. `OSError` is raised if it cannot be opened or locked.

    Parameters
    ----------
    path : Path
        The file; a symbolic link is refused.
    mode : int
        Who may lock it, if it is created now.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "lock"):
    ...     os.listdir(folder)
    ['lock']
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():  # the flag refuses a link even if it comes meanwhile
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    descriptor = os.open(path, flags, mode)
    try:
        _acquire(descriptor)
        try:
            yield
        finally:
            # Not left to close(): a child forked meanwhile shares the descriptor, and would keep the lock.
            _release(descriptor)
    finally:
        os.close(descriptor)
