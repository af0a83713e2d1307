"""Files that are read again while the shuffler runs: lists of tokens, which say who may send, and certificates."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from shoal.collect.sender import read_tokens
from shoal.errors import ParameterError

_HASH = re.compile("sha256:[0-9a-fA-F]{64}")


class WatchedFiles:
    """Files whose inode, size or time of modification shows that they were replaced, or are there now."""

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


@dataclass(frozen=True)
class TokenList:
    """Who may send: SHA-256 of personal tokens, and of the tokens of relays, which may send many reports at once.

    Nobody needs a personal token if `people` is None.
    """

    people: frozenset[bytes] | None = None
    relays: frozenset[bytes] = field(default_factory=frozenset)


class TokenFiles:
    """The files with the tokens of people and of relays, one per line, or their hashes as sha256:HEX."""

    def __init__(self, people: Path | None, relays: Path | None) -> None:
        self._people, self._relays = people, relays
        self.files = WatchedFiles(path for path in (people, relays) if path is not None)

    def read(self) -> TokenList:
        """Return the tokens that are in the files now, or raise an error that says what is wrong with them."""
        self.files.note()
        return TokenList(
            None if self._people is None else _hashes(self._people),
            frozenset() if self._relays is None else _hashes(self._relays),
        )


def _hashes(path: Path) -> frozenset[bytes]:
    """Return the hashes of the tokens in a file, one a line; a line may be a hash already."""
    hashes = set()
    for token in read_tokens(path):
        if token.startswith("sha256:") and not _HASH.fullmatch(token):
            raise ParameterError(
                f"{path}: a line that begins with sha256: is no hash of a token; write 64 hexadecimal digits after it"
            )
        named = bytes.fromhex(token[7:]) if _HASH.fullmatch(token) else hashlib.sha256(token.encode()).digest()
        hashes.add(named)
    return frozenset(hashes)
