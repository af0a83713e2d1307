"""One column of a CSV or Parquet file, a batch at a time."""

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from shoal.arrays import BoolArray
from shoal.errors import FormatError, MissingExtraError, ParameterError, StorageError
from shoal.files.person_rows import PersonRowError, PersonRows
from shoal.progress import followed

_BATCH = 1 << 18
_BLOCK = 1 << 20
_MOST_LINES = 5_000_000
"""Beyond this row, looking for its line would take longer than it is worth."""


class NoColumnError(ParameterError):
    """A column that the file does not have."""


def arrow() -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError('reading CSV and Parquet files needs pyarrow: pip install "shoal-dp[files]"') from None
    return pa


@dataclass(frozen=True)
class Column:
    """A column of a file; what kind of file it is, its first bytes tell."""

    path: Path  # a CSV file, compressed by gzip or not, or a Parquet file
    name: str  # of the column
    person: str | None = None  # the column with the person of each row

    def batches(self) -> Iterator[Any]:
        """Yield the values as arrow arrays, in order; those of a CSV file are bytes."""
        for batch in self._record_batches():
            yield batch.column(0)

    def kept_batches(self, people: PersonRows | None) -> Iterator[tuple[Any, int, BoolArray]]:
        """Yield the values of each batch, the number of rows before it, and which of its rows are kept."""
        before = 0
        for batch in self._record_batches():
            kept = np.ones(len(batch), np.bool_)
            if people is not None:
                try:
                    kept = people.kept(batch.column(1))
                except PersonRowError as trouble:
                    raise ParameterError(f"{self.where(before + trouble.index + 1)}: {trouble.reason}") from None
            yield batch.column(0), before, kept
            before += len(batch)

    @property
    def _names(self) -> list[str]:
        """The columns to read."""
        if self.person is None:
            return [self.name]
        if self.person == self.name:
            raise ParameterError(f"person must be another column than {self.name!r}, the one with the values", "person")
        return [self.name, self.person]

    def where(self, row: int) -> str:
        """Return the file and the row, counted from 1, and the line where it is known, for an error."""
        line = self.line(row)
        return f"{self.path}, row {row:,}" + (f" (line {line:,})" if line is not None else "")

    def _record_batches(self) -> Iterator[Any]:
        """Yield the columns as record batches, and refuse a file without rows."""
        pa = arrow()
        head = self._head()
        rows = 0
        try:
            for batch in self._parquet(pa) if head.startswith(b"PAR1") else self._csv(pa, head):
                rows += len(batch)
                yield batch
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            reason = " ".join(str(error).split())
            message = f"cannot read {self.path} after row {rows:,}: {reason[:300]}"
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(message, error) from None
            raise FormatError(message) from None
        if not rows:
            raise ParameterError(f"{self.path} has no rows; nothing was written")

    def line(self, row: int) -> int | None:
        """Return the line on which a row of a CSV file begins, counted from 1; None if it is none, or too far down."""
        head = self._head()
        if head.startswith(b"PAR1") or row > _MOST_LINES:
            return None
        with self._text(head) as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            try:
                for _ in islice(reader, row):
                    pass
            except (csv.Error, EOFError, OSError):
                return None
            return reader.line_num + 1

    def _head(self) -> bytes:
        try:
            if not self.path.is_file():
                missing = "is not a file" if self.path.exists() else "does not exist"
                raise ParameterError(f"{self.path} {missing}; give a CSV or Parquet file")
            with self.path.open("rb") as file:
                head = file.read(1024)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}", error) from None
        if not head:
            raise FormatError(f"{self.path} is empty")
        if head.startswith(b"shoal "):
            raise FormatError(f"{self.path} is a file of shoal already, not data; give a CSV or Parquet file")
        if not head.startswith((b"PAR1", b"\x1f\x8b")) and b"\0" in head:
            raise FormatError(f"{self.path} is neither CSV (in UTF-8) nor Parquet")
        return head

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in (suffix.lower() for suffix in self.path.suffixes[-2:]) else ","

    def _text(self, head: bytes) -> IO[str]:
        options: Any = {"mode": "rt", "encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
        file: IO[str] = (gzip.open if head.startswith(b"\x1f\x8b") else open)(self.path, **options)
        return file

    def _check(self, names: list[str]) -> None:
        for name in self._names:
            if names.count(name) > 1:
                raise ParameterError(f"{self.path} has more than one column {name!r}; rename the others")
            if name not in names:
                shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
                raise NoColumnError(f"{self.path} has no column {name!r}; its columns are {shown}{self._hint(names)}")

    def _hint(self, names: list[str]) -> str:
        """Return what to do if the only column looks like several."""
        if len(names) == 1 and ";" in names[0]:
            return "; it seems to have semicolons between the columns: save it with commas"
        if len(names) == 1 and "\t" in names[0]:
            return "; it seems to have tabs between the columns: call it .tsv"
        return ""

    def _csv(self, pa: Any, head: bytes) -> Iterator[Any]:
        import pyarrow.csv as arrow_csv

        with self._text(head) as file:
            try:
                self._check(next(csv.reader(file, delimiter=self._delimiter), []))
            except (csv.Error, EOFError) as error:
                raise FormatError(f"cannot read the first line of {self.path}: {error}") from None
        wrong: list[str] = []

        def refused(row: Any) -> str:
            """Note what is wrong with a row; arrow's own message would contain its text, which is a person's."""
            wrong.append(f"row {row.number} must have {row.expected_columns} columns, got {row.actual_columns}")
            return "error"

        try:
            with pa.OSFile(os.fspath(self.path)) as raw:
                packed = head.startswith(b"\x1f\x8b")
                reader = arrow_csv.open_csv(
                    pa.CompressedInputStream(raw, "gzip") if packed else raw,
                    read_options=arrow_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
                    # A value may hold line breaks, and an empty line is a missing value: none is skipped in silence.
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        ignore_empty_lines=False,
                        invalid_row_handler=refused,
                    ),
                    # As bytes, so that the row of what is not UTF-8 is known.
                    convert_options=arrow_csv.ConvertOptions(
                        include_columns=self._names, column_types=dict.fromkeys(self._names, pa.binary())
                    ),
                )
                yield from followed(reader, raw.tell, self.path.stat().st_size, self.path.name)
        except pa.ArrowInvalid:
            if not wrong:
                raise
        if wrong:  # not inside the handler, so that arrow's error is not the context of this one
            raise FormatError(f"cannot read {self.path}: {wrong[0]}; the header is row 1")

    def _parquet(self, pa: Any) -> Iterator[Any]:
        from pyarrow import parquet

        schema = parquet.read_schema(self.path)
        self._check(schema.names)
        for name in self._names:
            if pa.types.is_nested(schema.field(name).type):
                raise ParameterError(f"column {name!r} of {self.path} holds lists or structures, not one value per row")
        # Without pre_buffer, pages are read as they are needed, however large a row group is.
        options = {"pre_buffer": False, "buffer_size": _BLOCK}
        with parquet.ParquetFile(self.path, read_dictionary=[self.name], **options) as file:
            done = 0

            def batches() -> Iterator[Any]:
                nonlocal done
                for batch in file.iter_batches(_BATCH, columns=self._names, use_threads=False):
                    done += len(batch)
                    yield batch.select(self._names)

            yield from followed(batches(), lambda: done, file.metadata.num_rows, self.path.name)
