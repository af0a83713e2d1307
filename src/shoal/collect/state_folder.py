"""The folder in which a client or a helper remembers what it has sent, for one process at a time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shoal.durable_file import locked
from shoal.errors import StorageError

__all__ = ["exclusive"]


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Make the folder if it is not there, and keep other processes with the same one out of this block."""
    path = folder / "lock"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(locked(path, mode=0o600))
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}; give --state a folder of your own"
            raise StorageError(message, error) from None
        yield
