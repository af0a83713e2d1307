"""A file of reports: the schema once, then records of equal length.

::

    shoal reports 1↵          16 bytes
    number of records          8 bytes, the lowest first, as all numbers
    length of the header       4 bytes
    CRC-32 of all records      4 bytes
    CRC-32 of all before it and of the header   4 bytes
    header                     JSON: the schema of the mechanism, the names of the categories or null, bytes a record,
                               the batches, whether the records were shuffled, and, where the shuffler has added
                               dummies, how many people there are; and, unless one row per person was assumed and
                               not checked, how many rows each person has at most, and whether that was checked
    records, one for each message

A batch is what one run of `shoal randomize` has written. Its name is random, and goes with its reports into every file
that they are shuffled or counted into, so that nobody is counted twice.
"""

import json
import os
import re
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from shoal.arrays import ByteArray
from shoal.durable_file import whole_file
from shoal.errors import DamagedError, FormatError, ParameterError, StorageError
from shoal.files.memory_limits import categorical, records_at_once
from shoal.files.names import Names
from shoal.files.person_rows import ASSUMED_ROWS, ROWS_FIELDS, RowsPerPerson
from shoal.mechanisms import Categorical, Counts
from shoal.pairs.registry import stored_mechanism
from shoal.progress import progress
from shoal.strict_json import Fields, read_fields, short_reason, shortened

MAGIC = b"shoal reports 1\n"
_FAMILY = b"shoal reports "
_HEAD = struct.Struct("<16sQII")
_CHECK = struct.Struct("<I")
_FIELDS: Fields = {"schema": dict, "names": list | None, "record_bytes": int, "batches": list, "shuffled": bool}
_START = _HEAD.size + _CHECK.size
_MOST_HEADER = 1 << 30
_BATCH = re.compile("[0-9a-f]{32}")


def new_batch() -> str:
    """Return the name of a batch that nobody has had yet: 128 random bits."""
    return secrets.token_hex(16)


def read_batches(content: Any, source: str) -> tuple[str, ...]:
    """Return the batches that a header lists, one at least and in order, or say that it doesn't."""
    if isinstance(content, list) and all(isinstance(batch, str) and _BATCH.fullmatch(batch) for batch in content):
        batches = tuple(content)
        if batches and batches == tuple(sorted(set(batches))):
            return batches
    raise FormatError(
        f"{source}: the batches in its header must be an ordered list of names of 32 hexadecimal digits, got "
        f"{shortened(content)}"
    )


def joined_batches(sources: Iterable[tuple[Path, Sequence[str]]]) -> tuple[str, ...]:
    """Return the batches of all files in order; no batch may be in two of them, or its people would count twice."""
    seen: dict[str, Path] = {}
    for path, batches in sources:
        for batch in batches:
            if batch in seen:
                raise ParameterError(
                    f"{seen[batch]} and {path} hold the same reports (batch {batch[:4]}…); give each batch once"
                )
        seen |= dict.fromkeys(batches, path)
    return tuple(sorted(seen))


def write_reports(
    path: Path,
    schema: Categorical,
    names: Names,
    records: Iterable[bytes],
    *,
    inputs: Sequence[Path],
    batches: Sequence[str] | None = None,
    shuffled: bool = False,
    people: int | None = None,  # how many of the records are of people, if dummies were added
    rows: RowsPerPerson = ASSUMED_ROWS,
) -> int:
    """Write a report file and return the number of its records; it is there when it is complete, and not before."""
    length = schema.bytes_per_report
    content = {
        "schema": schema.to_dict(),
        "names": names.labels,
        "record_bytes": length,
        "batches": sorted(batches or [new_batch()]),
        "shuffled": shuffled,
        **({} if people is None else {"people": people}),
        **rows.to_fields(),
    }
    header = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    size = check = 0
    with whole_file(path, inputs=inputs) as file:
        file.write(bytes(_START))
        file.write(header)
        for part in records:
            check = zlib.crc32(part, check)
            size += len(part)
            file.write(part)
        if not size:
            raise ParameterError(f"there are no reports to write; {path} was not written")
        head = _HEAD.pack(MAGIC, size // length, len(header), check)
        file.seek(0)
        file.write(head + _CHECK.pack(zlib.crc32(header, zlib.crc32(head))))
    return size // length


@dataclass(frozen=True, eq=False)
class ReportFile:
    """A report file that is whole; what its records hold is checked as they are read."""

    path: Path  # where it is
    mechanism: Categorical  # that randomized the reports
    names: Names  # of the categories
    records: int  # how many messages there are
    reports: int  # how many people they are of
    batches: tuple[str, ...]  # that they come from
    shuffled: bool  # whether their order is random, and not that of the people
    added: bool  # whether the shuffler has added dummies
    rows: RowsPerPerson  # how many of the reports one person has at most
    _start: int
    _checksum: int

    @staticmethod
    def opened(path: Path) -> "ReportFile":
        """Read the head of a report file, and check that all of the file is there and nothing else."""
        try:
            with path.open("rb") as file:
                return _opened(path, file)
        except OSError as error:
            message = f"cannot read {path}: {error.strerror or error}; give it report files"
            raise StorageError(message, error) from None

    @property
    def length(self) -> int:
        """How many bytes a record has."""
        return self.mechanism.bytes_per_report

    def blocks(self, label: str) -> Iterator[ByteArray]:
        """Yield the records as rows of bytes, many at once; if the checksum does not fit, say so at the end."""
        bundle = self.mechanism.bundle
        step = max(1, records_at_once(self.length) // bundle) * bundle
        yield from progress(self._blocks(step), total=-(-self.records // step), label=label)

    def _blocks(self, step: int) -> Iterator[ByteArray]:
        check = done = 0
        with self.path.open("rb") as file:
            file.seek(self._start)
            while done < self.records:
                data = file.read(min(step, self.records - done) * self.length)
                if not data or len(data) % self.length:
                    raise DamagedError(f"{self.path} was cut off in record {done + 1:,} while it was read")
                check = zlib.crc32(data, check)
                yield np.frombuffer(data, np.uint8).reshape(-1, self.length)
                done += len(data) // self.length
        if check != self._checksum:
            raise DamagedError(
                f"{self.path} is damaged: the checksum of its records 1 to {self.records:,} does not fit; get it again"
            )

    def counts(self, label: str = "aggregate") -> Counts[Categorical]:
        """Return the count state of all reports."""
        total: Counts[Categorical] = Counts(self.mechanism, np.zeros(self.mechanism.cells, np.int64), 0)
        for rows in self.blocks(label):
            try:
                total += self.mechanism.aggregate(self.mechanism.from_bytes(rows.tobytes()))
            except ParameterError as error:
                number = total.reports * self.mechanism.bundle + self._first_bad(rows) + 1
                raise DamagedError(
                    f"{self.path} is damaged: record {number:,} is no report of {self.mechanism!r}; get it again"
                ) from error
        return self.mechanism.of_people(total, self.reports) if self.added else total

    def _first_bad(self, rows: ByteArray) -> int:
        """Return the index of the first record that can't be read, by halving."""
        fine, bad = 0, len(rows)  # none of the first `fine` records is bad, and one of the first `bad` is
        while bad - fine > 1:
            middle = (fine + bad) // 2
            try:
                self.mechanism.from_bytes(rows[fine:middle].tobytes())
                fine = middle
            except ParameterError:
                bad = middle
        return fine


def _opened(path: Path, file: BinaryIO) -> ReportFile:
    head = file.read(_START)
    if not head:
        raise FormatError(f"{path} is empty")
    if head.startswith(_FAMILY) and not head.startswith(MAGIC) and len(head) >= len(MAGIC):
        version = head[len(_FAMILY) : head.find(b"\n")][:10].decode(errors="replace")
        raise FormatError(f"{path} is a report file of version {version!r}; this shoal reads version 1: upgrade")
    if head.startswith((b"shoal named counts ", b"shoal counts ")):
        raise FormatError(f"{path} holds counts, and nothing is left to shuffle; `shoal estimate` takes it as it is")
    if not head.startswith(MAGIC[: len(head)]):
        raise FormatError(f"{path} is no report file of shoal; `shoal randomize` makes one")
    if len(head) < _START:
        raise DamagedError(f"{path} is cut off after {len(head)} bytes, before its first record; get it again")
    _, reports, size, checksum = _HEAD.unpack(head[: _HEAD.size])
    header = file.read(min(size, _MOST_HEADER))
    if len(header) < size:
        raise DamagedError(f"{path} is cut off in its header, before its first record; get it again")
    if _CHECK.unpack(head[_HEAD.size :]) != (zlib.crc32(header, zlib.crc32(head[: _HEAD.size])),):
        raise DamagedError(f"{path} is damaged before its first record; get it again")
    fields = read_fields(header, _FIELDS, str(path), optional={"people": int, **ROWS_FIELDS})
    added = "people" in fields
    stored, names = _understood(path, fields["schema"], fields["names"], fields["record_bytes"])
    batches = read_batches(fields["batches"], str(path))
    length = stored.bytes_per_report
    start = _START + size
    record_bytes = os.fstat(file.fileno()).st_size - start
    if record_bytes < reports * length:
        raise DamagedError(
            f"{path} is cut off in record {record_bytes // length + 1:,} of {reports:,}; get it again, or make it again"
        )
    if record_bytes > reports * length:
        excess = record_bytes - reports * length
        raise DamagedError(f"{path} goes on for {excess:,} bytes after its last record {reports:,}")
    people = fields["people"] if added else reports // stored.bundle
    if not 0 <= people <= reports or (not added and reports % stored.bundle):
        raise DamagedError(f"{path}: {reports:,} records are not the messages of {people:,} people; get it again")
    rows = RowsPerPerson.from_fields(fields, str(path))
    return ReportFile(path, stored, names, reports, people, batches, fields["shuffled"], added, rows, start, checksum)


def _understood(path: Path, schema: Any, labels: Any, length: int) -> tuple[Categorical, Names]:
    try:
        stored = categorical(stored_mechanism(schema))
    except (ParameterError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise FormatError(f"{path}: the schema in its header makes no sense: {short_reason(error)}") from None
    if length != stored.bytes_per_report:
        raise FormatError(
            f"{path}: its header says that a record has {length:,} bytes, and one of {stored!r} has "
            f"{stored.bytes_per_report:,}"
        )
    return stored, Names.stored(labels, stored.categories, str(path))
