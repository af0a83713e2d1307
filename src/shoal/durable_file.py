"""Files that survive a crash and other processes: written whole or not at all, and locked."""

import errno
import os
import secrets
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from shoal.errors import FormatError, ParameterError, StorageError

_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, or write to another disk"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a folder that this user may write to"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make the folder first"),
}
_BUFFER = 1 << 20
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that can't be a file, or is one of the inputs under whatever name."""
    try:
        status = os.stat(path)
    except OSError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise ParameterError(
            f"cannot write {path}: it is not a file; give the name of a file, or one that is not there yet"
        )
    for source in inputs:
        with suppress(OSError):
            if os.path.samestat(os.stat(source), status):
                raise ParameterError(f"the output {path} is also an input; nothing was written: give it another name")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read it; refuse what is none, as a device has no end and a pipe may have no beginning."""
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # of a folder the operating system says what is wrong
            raise FormatError(f"{path} is a device or a pipe, and not a file; give the name of a file")
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}", error) from error


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Let a signal to end raise `SystemExit` in this block, so that what is half done is removed.

    Only in the main thread, where alone Python can, and only if nobody else has set what the signal does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def stop(number: int, _frame: object) -> NoReturn:
        for other in ours:
            signal.signal(other, signal.SIG_IGN)  # the removal itself is not to be stopped
        raise SystemExit(128 + number)

    try:
        for number in ours:
            signal.signal(number, stop)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def new_file(path: Path, *, replaces: Path | None = None, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that was not there; it is on the disk when the block ends, or removed if there was an error.

    On the disk it gets the name `replaces`, where that is given; a file of this name is replaced,
    all at once. Without a `mode` the same users may read and write it as the file that it replaces,
    and it has the same owner.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW"):
        flags |= getattr(os, name, 0)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
    foreign = False
    try:  # it is removed as well if a signal comes before its descriptor is known
        try:
            descriptor = os.open(path, flags, 0o666 if mode is None else mode)
        except FileExistsError:
            foreign = True
            raise
        with open(descriptor, "w+b", buffering=_BUFFER) as file:
            if mode is None and replaces is not None:
                _copy_owner(replaces, descriptor)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replaces is not None:
            os.replace(path, replaces)
    except BaseException:
        if not foreign:
            with suppress(OSError):
                path.unlink()
        raise


def _copy_owner(source: Path, descriptor: int) -> None:
    """Give an open file the owner and permissions of another, as far as this user and system can."""
    if sys.platform != "win32":
        with suppress(FileNotFoundError):
            status = os.stat(source)
            with suppress(PermissionError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
            with suppress(PermissionError):
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def settle(folder: Path) -> None:
    """Force the names in a folder to the disk; Windows does so by itself."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def whole_file(path: Path, *, inputs: Iterable[Path] = (), mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces this one, at once and for good, if all goes well, and is removed otherwise.

    The old content is kept until the new one is complete. None of `inputs` may be replaced. Without
    a `mode`, such as 0o600, permissions stay as they are.
    """
    check_output(path, inputs)
    target = Path(os.path.realpath(path))
    new = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with cleaned_up(), new_file(new, replaces=target, mode=mode) as file:
            yield file
        with suppress(OSError):  # the new file is there
            settle(target.parent)
    except OSError as error:
        if error.filename not in (None, str(new), new):
            raise
        advice = _ADVICE.get(error.errno or 0, "check the disk and the path")
        message = f"cannot write {path}: {error.strerror or error}; nothing was written. What to do: {advice}"
        raise StorageError(message, OSError(error.errno, error.strerror, os.fspath(path))) from error


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
    """Keep every other process that locks this file out of this block.

    The file is created with this `mode` if it does not exist, and stays behind, empty: deleting it
    while a process works would let another one in. `OSError` is raised if it cannot be opened or
    locked, or is a symbolic link.
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
