"""A file of counts: the count state of many reports, with the names of the categories."""

import json
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shoal.durable_file import whole_file
from shoal.errors import DamagedError, FormatError, ParameterError, StorageError
from shoal.files.memory_limits import categorical
from shoal.files.names import Names
from shoal.files.person_rows import ASSUMED_ROWS, ROWS_FIELDS, RowsPerPerson
from shoal.files.report_file import ReportFile, joined_batches, new_batch, read_batches
from shoal.mechanisms import Categorical, Counts
from shoal.strict_json import read_fields

_MAGIC = b"shoal named counts 1\n"
_FAMILY = b"shoal named counts "
_STATE = b"shoal counts "
_HEAD = struct.Struct("<II")
_MOST_BYTES = 1 << 31


@dataclass(frozen=True, eq=False)
class NamedCounts:
    """A count state, and what its categories are called."""

    counts: Counts[Categorical]  # the state
    names: Names  # of the categories
    # That were counted; a state that does not say is taken for a new one
    batches: tuple[str, ...] = field(default_factory=lambda: (new_batch(),))
    in_order: tuple[Path, ...] = ()  # the report files among its sources that were never shuffled
    rows: RowsPerPerson = ASSUMED_ROWS  # how many of the reports one person has at most


def write_counts(path: Path, state: NamedCounts, *, inputs: Sequence[Path]) -> None:
    """Write a count file, whole or not at all."""
    content = {"names": state.names.labels, "batches": state.batches, **state.rows.to_fields()}
    header = json.dumps(content, ensure_ascii=False).encode()
    with whole_file(path, inputs=inputs) as file:
        file.write(_MAGIC + _HEAD.pack(len(header), zlib.crc32(header)) + header + state.counts.to_bytes())


def read_counts(path: Path) -> NamedCounts:
    """Return what a count file holds, or a report file once it is added up."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            size = os.fstat(file.fileno()).st_size
            data = head + file.read() if head.startswith((_FAMILY, _STATE)) and size <= _MOST_BYTES else b""
    except OSError as error:
        message = (
            f"cannot read {path}: {error.strerror or error}; give it what `shoal shuffle` or `shoal aggregate` writes"
        )
        raise StorageError(message, error) from None
    if head.startswith((_FAMILY, _STATE)) and not data:
        raise FormatError(f"{path} is larger than any count file can be: {_MOST_BYTES:,} bytes; aggregate again")
    if not head:
        raise FormatError(f"{path} is empty")
    if head.startswith(_STATE):
        counts = _counts(path, data)
        return NamedCounts(counts, Names(counts.mechanism.categories))
    if head.startswith(_FAMILY):
        return _named(path, data)
    if not head.startswith(b"shoal reports "):
        raise FormatError(
            f"{path} is no report file and no count file of shoal; `shoal randomize` and `shoal aggregate` make them"
        )
    reports = ReportFile.opened(path)
    if reports.mechanism.added and not reports.added:
        raise ParameterError(
            f"{path} has no dummies yet, and its counts are the exact histogram; `shoal shuffle` adds them, once"
        )
    in_order = () if reports.shuffled else (path,)
    return NamedCounts(reports.counts(path.name), reports.names, reports.batches, in_order, reports.rows)


def aggregated(paths: Sequence[Path]) -> NamedCounts:
    """Return the sum of report files and count files, all of one mechanism over the same categories.

    No batch may be in two of them: its people would be counted twice, and the guarantee would be that of more people
    than there are.
    """
    for index, path in enumerate(paths):
        for other in paths[:index]:
            if path.exists() and other.exists() and path.samefile(other):
                raise ParameterError(f"{path} is given twice, and its people would be counted twice; name it once")
    first, *rest = paths
    total = read_counts(first)
    read = [(first, total.batches)]
    for path in rest:
        more = read_counts(path)
        if more.counts.mechanism != total.counts.mechanism:
            raise ParameterError(
                f"{path} holds reports of {more.counts.mechanism!r}, and {first} those of {total.counts.mechanism!r}: "
                "they don't add; estimate them apart"
            )
        if more.names != total.names:
            raise ParameterError(f"the categories of {path} are called otherwise than those of {first}: they don't add")
        read.append((path, more.batches))
        batches = joined_batches(read)
        in_order = total.in_order + more.in_order
        total = NamedCounts(total.counts + more.counts, total.names, batches, in_order, total.rows | more.rows)
    return total


def _named(path: Path, data: bytes) -> NamedCounts:
    start = len(_MAGIC) + _HEAD.size
    if not data.startswith(_MAGIC):
        raise FormatError(f"{path} is a count file of another version; this shoal reads version 1: upgrade")
    if len(data) < start:
        raise DamagedError(f"{path} is cut off after {len(data)} bytes; get it again")
    length, check = _HEAD.unpack_from(data, len(_MAGIC))
    header = data[start : start + length]
    if zlib.crc32(header) != check:
        raise DamagedError(f"{path} is damaged or cut off: the checksum of its names does not fit; get it again")
    fields = read_fields(header, {"names": list | None, "batches": list}, str(path), optional=ROWS_FIELDS)
    counts = _counts(path, data[start + length :])
    names = Names.stored(fields["names"], counts.mechanism.categories, str(path))
    rows = RowsPerPerson.from_fields(fields, str(path))
    return NamedCounts(counts, names, read_batches(fields["batches"], str(path)), rows=rows)


def _counts(path: Path, data: bytes) -> Counts[Categorical]:
    try:
        state = Counts.from_bytes(data)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise DamagedError(f"{path}: {str(error)[:300]}; get it again, or aggregate again") from None
    try:
        return Counts(categorical(state.mechanism), state.values, state.reports)
    except ParameterError as error:
        raise FormatError(f"{path}: {error}") from None
