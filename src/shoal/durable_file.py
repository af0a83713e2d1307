"""A file that is written whole or not at all."""

import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from shoal.errors import ParameterError, StorageError

__all__ = ["check_output", "cleaned_up", "whole_file"]

_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, or write to another disk"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a folder that this user may write to"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make the folder first"),
}
_BUFFER = 1 << 20
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Say no if the output can't be a file, or is one of the inputs under whatever name."""
    try:
        there = os.stat(path)
    except OSError:
        return
    if not stat.S_ISREG(there.st_mode):
        raise ParameterError(
            f"cannot write {path}: it is not a file; give the name of a file, or one that is not there yet"
        )
    for source in inputs:
        with suppress(OSError):
            if os.path.samestat(os.stat(source), there):
                raise ParameterError(f"the output {path} is also an input; nothing was written: give it another name")


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Let a signal to end raise `SystemExit` in here, so that what is half done is removed.

    Only in the main thread, as Python has it, and only where nobody else has settled what the signal does.
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
def whole_file(path: Path, *, inputs: Iterable[Path] = (), mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file beside this one; it takes its place, at once and for good, if all goes well, and else it is removed.

    Parameters
    ----------
    path : Path
        The file; what it holds already is kept until the new one is complete.
    inputs : iterable of Path
        Files that it must not replace.
    mode : int, optional
        Who may read and write it, such as 0o600; otherwise, whoever may already.
    """
    check_output(path, inputs)
    target = Path(os.path.realpath(path))
    new = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with cleaned_up():
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
                descriptor = os.open(new, flags, 0o666 if mode is None else mode)
                if mode is None:
                    with suppress(OSError):
                        os.chmod(new, stat.S_IMODE(os.stat(target).st_mode))
                with open(descriptor, "w+b", buffering=_BUFFER) as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(new, target)
            except BaseException:
                with suppress(OSError):
                    new.unlink()
                raise
        _settle(target.parent)
    except OSError as error:
        if error.filename not in (None, str(new), new):
            raise
        advice = _ADVICE.get(error.errno or 0, "check the disk and the path")
        told = f"cannot write {path}: {error.strerror or error}; nothing was written. What to do: {advice}"
        raise StorageError(told, OSError(error.errno, error.strerror, os.fspath(path))) from error


def _settle(folder: Path) -> None:
    """Force the new name to the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
