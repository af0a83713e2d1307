"""A file that is written whole or not at all."""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shoal.errors import ParameterError

__all__ = ["check_output", "whole_file"]

_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, or write to another disk"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a folder that this user may write to"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make the folder first"),
}
_BUFFER = 1 << 20


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Say no if the output can't be a file, or is one of the inputs under whatever name."""
    try:
        there = os.stat(path)
    except OSError:
        return
    if not stat.S_ISREG(there.st_mode):
        raise ParameterError(f"{path} is not a file; give --output a file name")
    for source in inputs:
        with suppress(OSError):
            if os.path.samestat(os.stat(source), there):
                raise ParameterError(f"the output {path} is also an input; nothing was written: give it another name")


@contextmanager
def whole_file(path: Path, *, inputs: Iterable[Path] = ()) -> Iterator[BinaryIO]:
    """Open a file beside this one; it takes its place, at once and for good, if all goes well, and else it is removed.

    Parameters
    ----------
    path : the file; what it holds already is kept until the new one is complete.
    inputs : files that it must not replace.
    """
    check_output(path, inputs)
    target = Path(os.path.realpath(path))
    new = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
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
        raise ParameterError(
            f"cannot write {path}: {error.strerror or error}; nothing was written. What to do: {advice}"
        ) from error


def _settle(folder: Path) -> None:
    """Force the new name to the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
