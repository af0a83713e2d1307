"""The rows in the pages of an SQLite file, read one page at a time: what is broken elsewhere does not matter.

SQLite finds a row by following pages from a root. One page that was overwritten hides all that lie behind it. Here
every page is looked at by itself, and whatever row stands in it is yielded; whether that makes sense, the caller must
judge. The formats are those of https://www.sqlite.org/fileformat2.html.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pages", "Row", "Value"]

Value = int | float | str | bytes | None

_MAGIC = b"SQLite format 3\0"
_USUAL_PAGE = 4096
_FIRST_HEADER = 100
_LEAF_TABLE, _LEAF_INDEX, _INNER_INDEX = 0x0D, 0x0A, 0x02
_LOG_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_LOG_MAGIC = 0x377F0682
"""Its last bit says in which order the bytes of a word are summed."""
_EARLIER_LOGS = 1 << 24
"""A log has a number, one more than the log before it; a number beyond this is none."""
_MOST_BYTES = 1 << 30
_WHOLE_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class Row(NamedTuple):
    """A row of some table: its number, where it has one, and its values."""

    number: int | None
    values: tuple[Value, ...]


class Pages:
    """An SQLite file with its write-ahead log, both only read.

    Parameters
    ----------
    path : Path
        The file; its log is next to it.

    Attributes
    ----------
    unreadable : int
        How many rows could not be read, of those that pages still point to.
    log_missing : bool
        Whether there is no log, or an empty one, as after an orderly end, or because it was lost.
    log_cut_off : bool
        Whether the log has frames behind a damaged one, or is none; like SQLite, this takes those before it.
    log_unfinished : bool
        Whether the log ends in the middle of a transaction: the process was ended there, or what follows was lost.
    """

    def __init__(self, path: Path) -> None:
        self.unreadable = 0
        self.log_cut_off = self.log_unfinished = False
        self._file = path.open("rb")
        head = self._file.read(_FIRST_HEADER).ljust(_FIRST_HEADER, b"\0")
        log_path = path.with_name(path.name + "-wal")
        self._log = log_path.read_bytes() if log_path.exists() else b""
        self.log_missing = not self._log
        self._size, self._usable = self._sizes(head)
        self._frames = self._committed()
        self._file.seek(0, 2)
        self._count = max([self._file.tell() // self._size, *self._frames])

    def _sizes(self, head: bytes) -> tuple[int, int]:
        """Return how many bytes a page has, and how many of them hold content."""
        stated = int.from_bytes(head[16:18], "big")
        size = 65536 if stated == 1 else stated
        if head.startswith(_MAGIC) and _is_page_size(size) and head[20] < size - 480:
            return size, size - head[20]
        logged = _LOG_HEADER.unpack_from(self._log)[2] if len(self._log) >= _LOG_HEADER.size else 0
        size = logged if _is_page_size(logged) else _USUAL_PAGE
        return size, size

    def _committed(self) -> dict[int, int]:
        """Return where in the log the last committed content of each page is."""
        frames: dict[int, int] = {}
        if len(self._log) < _LOG_HEADER.size:
            self.log_unfinished = bool(self._log)
            return frames
        magic, _, size, _, *salts, first, second = _LOG_HEADER.unpack_from(self._log)
        order = "big" if magic & 1 else "little"
        sums = _summed(self._log[:24], (0, 0), order)
        if magic & ~1 != _LOG_MAGIC or size != self._size or sums != (first, second):
            self.log_cut_off = len(self._log) > _LOG_HEADER.size
            return frames
        pending: dict[int, int] = {}
        sound = True
        for start in range(_LOG_HEADER.size, len(self._log) - self._size - _FRAME_HEADER.size + 1, self._size + 24):
            number, committed, *own, first, second = _FRAME_HEADER.unpack_from(self._log, start)
            if own != salts:
                if 0 < (salts[0] - own[0]) % (1 << 32) < _EARLIER_LOGS:
                    sound = False  # of an earlier log, which this one has replaced
                    continue
                self.log_cut_off = True
                break
            content = start + _FRAME_HEADER.size
            sums = _summed(self._log[start : start + 8], sums, order)
            sums = _summed(self._log[content : content + self._size], sums, order)
            sound = sound and sums == (first, second)
            if not sound:
                self.log_cut_off = self.log_cut_off or bool(committed)
                continue
            pending[number] = content
            if committed:
                frames |= pending
                pending = {}
        self.log_unfinished = bool(pending) or (sound and (len(self._log) - _LOG_HEADER.size) % (self._size + 24) != 0)
        return frames

    def _page(self, number: int) -> bytes:
        if not 0 < number <= self._count:
            raise ValueError("there is no such page")
        if number in self._frames:
            return self._log[self._frames[number] : self._frames[number] + self._size]
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size).ljust(self._size, b"\0")

    def rows(self) -> Iterator[Row]:
        """Yield every row that stands in a page, whatever table it is of."""
        for number in range(1, self._count + 1):
            page = self._page(number)
            start = _FIRST_HEADER if number == 1 else 0
            kind = page[start]
            if kind not in (_LEAF_TABLE, _LEAF_INDEX, _INNER_INDEX):
                continue
            cells = int.from_bytes(page[start + 3 : start + 5], "big")
            pointers = start + (12 if kind == _INNER_INDEX else 8)
            for offset in range(pointers, min(pointers + 2 * cells, self._size - 1), 2):
                try:
                    yield self._row(page, int.from_bytes(page[offset : offset + 2], "big"), kind)
                except (ValueError, IndexError, struct.error):
                    self.unreadable += 1

    def _row(self, page: bytes, offset: int, kind: int) -> Row:
        number = None
        if kind == _INNER_INDEX:
            offset += 4
        length, offset = _variable(page, offset)
        if kind == _LEAF_TABLE:
            number, offset = _variable(page, offset)
        if length > _MOST_BYTES:
            raise ValueError("no row is that long")
        return Row(number, _values(self._payload(page, offset, length, kind)))

    def _payload(self, page: bytes, offset: int, length: int, kind: int) -> bytes:
        """Return the bytes of a row, with those that stand on pages of their own."""
        usable = self._usable
        most = usable - 35 if kind == _LEAF_TABLE else (usable - 12) * 64 // 255 - 23
        least = (usable - 12) * 32 // 255 - 23
        local = length
        if length > most:
            local = least + (length - least) % (usable - 4)
            local = local if local <= most else least
        parts = [page[offset : offset + local]]
        following = int.from_bytes(page[offset + local : offset + local + 4], "big") if local < length else 0
        left = length - local
        while left > 0:
            beyond = self._page(following)
            parts.append(beyond[4 : 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(beyond[:4], "big")
        payload = b"".join(parts)
        if len(payload) != length:
            raise ValueError("the row is cut off")
        return payload

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _is_page_size(size: int) -> bool:
    return 512 <= size <= 65536 and size & (size - 1) == 0


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """Return the checksums of a log, continued."""
    one, other = sums
    words = struct.unpack(f"{'>' if order == 'big' else '<'}{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    return one, other


def _variable(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where it ends."""
    value = 0
    for step in range(8):
        byte = data[offset + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + step + 1
    return value << 8 | data[offset + 8], offset + 9


def _values(payload: bytes) -> tuple[Value, ...]:
    """Return the values of a row."""
    end, offset = _variable(payload, 0)
    kinds = []
    while offset < end:
        kind, offset = _variable(payload, offset)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, offset = _value(payload, offset, kind)
        values.append(value)
    if offset != len(payload):
        raise ValueError("the row has another length than it says")
    return tuple(values)


def _value(payload: bytes, offset: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, offset
    if kind in (8, 9):
        return kind - 8, offset
    size = _WHOLE_BYTES.get(kind, 8 if kind == 7 else (kind - 12) // 2)
    if size < 0 or kind in (10, 11):
        raise ValueError("there is no such kind of value")
    data = payload[offset : offset + size]
    if len(data) != size:
        raise ValueError("the row is cut off")
    if kind in _WHOLE_BYTES:
        return int.from_bytes(data, "big", signed=True), offset + size
    if kind == 7:
        return float(struct.unpack(">d", data)[0]), offset + size
    return (data if kind % 2 == 0 else data.decode()), offset + size
