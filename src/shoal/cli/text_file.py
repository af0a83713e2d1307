"""The text of a file that an option names."""

from pathlib import Path

from shoal.errors import FormatError, StorageError
from shoal.questions.named_text import NamedText

__all__ = ["text_of"]


def text_of(path: Path, *, most: int | None = None) -> NamedText:
    """Return the text of a file, which is read when it is first needed.

    Parameters
    ----------
    path : Path
        The file, in UTF-8.
    most : int, optional
        How many bytes are read at most; what is no UTF-8 is replaced then, and for the reader to refuse.
    """

    def read() -> str:
        try:
            with path.open("rb") as file:
                data = file.read(-1 if most is None else most)
            return data.decode("utf-8-sig", errors="strict" if most is None else "replace")
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}", error) from None
        except UnicodeDecodeError as error:
            raise FormatError(
                f"cannot read {path}: it is not a text file in UTF-8 (byte {error.start + 1:,} is not)"
            ) from None

    return NamedText(read, str(path))
