"""A table of examples from a file: rows of numbers, and the label of each."""

import csv
import difflib
import gzip
import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import positive
from shoal.digits import advice
from shoal.errors import DamagedError, ParameterError, StorageError
from shoal.progress import followed

_BLOCK = 1 << 13
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_MEND = "correct that row, or leave it out"
_KINDS = "give a CSV file, or an .npz file with the arrays X and y"


@dataclass(frozen=True)
class Examples:
    """Rows of numbers with labels.

    `features` has one row for each example, and `names` has the names of its columns, if there
    are any. Labels are integers or texts.
    """

    features: NDArray[np.float64]
    labels: NDArray[Any]
    names: tuple[str, ...]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.features)

    def taken(self, indices: NDArray[np.int64]) -> "Examples":
        """Return those at these indices."""
        return replace(self, features=self.features[indices], labels=self.labels[indices])

    def clipped(self, norm: float) -> "Examples":
        """Return the table with every longer row shortened to this norm: each alone, so no row tells of another."""
        norm = positive(row_norm=norm)
        lengths = np.sqrt(np.einsum("ij,ij->i", self.features, self.features))
        return replace(self, features=self.features * (norm / np.maximum(lengths, norm))[:, None])


def read_examples(path: Path, *, target: str | None = None, features: Sequence[str] | None = None) -> Examples:
    """Return the examples in a file, or say which row and column has what can't be used.

    A CSV file has a header, may be compressed by gzip, and has numbers in all columns but the
    target. An .npz file has the array `target`, "y" by default, and the one array in
    `features`, "X" by default; pickled objects are refused.
    """
    head = _head(path)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _from_arrays(path, target or "y", features or ("X",))
    if head.startswith((b"PAR1", b"\x93NUMPY")) or (not head.startswith(b"\x1f\x8b") and b"\0" in head):
        raise ParameterError(f"{path} is neither CSV (in UTF-8) nor .npz; {_KINDS}")
    if target is None:
        raise ParameterError("this needs --target, the name of the column with the labels")
    return _from_text(path, head, target, features)


def _head(path: Path) -> bytes:
    try:
        if not path.is_file():
            missing = "is not a file" if path.exists() else "does not exist"
            raise ParameterError(f"{path} {missing}; {_KINDS}")
        with path.open("rb") as file:
            head = file.read(1024)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", error) from None
    if not head:
        raise ParameterError(f"{path} is empty; {_KINDS}")
    return head


def _position(names: Sequence[str], name: str, path: Path, what: str) -> int:
    """Return where a name stands, or suggest one that does."""
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise ParameterError(f"{path} has more than one {what} {name!r}; rename the others")
    near = difflib.get_close_matches(name.casefold(), [each.casefold() for each in names], n=1)
    meant = [each for each in names if near and each.casefold() == near[0]]
    hint = f"; did you mean {meant[0]!r}?" if meant else ""
    if len(names) == 1 and ";" in names[0]:
        hint = "; it seems to have semicolons between the columns: save it with commas"
    elif len(names) == 1 and "\t" in names[0]:
        hint = "; it seems to have tabs between the columns: call it .tsv"
    shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    raise ParameterError(f"{path} has no {what} {name!r}; it has {shown or 'none'}{hint}")


# CSV


class _Text:
    """The rows of a CSV file, each with the line on which it ends; empty lines are left out."""

    def __init__(self, path: Path, head: bytes, raw: IO[bytes]) -> None:
        stream: Any = gzip.GzipFile(fileobj=raw) if head.startswith(b"\x1f\x8b") else raw
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        tabs = ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:])
        self._path = path
        self._reader = csv.reader(text, delimiter="\t" if tabs else ",", strict=True)

    def rows(self, most: int) -> list[tuple[int, list[str]]]:
        """Return the next rows, at most this many, and none at the end."""
        rows: list[tuple[int, list[str]]] = []
        line = self._reader.line_num
        try:
            for row in self._reader:
                line = self._reader.line_num
                if row:
                    rows.append((line, row))
                    if len(rows) == most:
                        break
        except UnicodeDecodeError:
            raise ParameterError(f"{self._path}, after line {line:,}: not UTF-8 text; save it as UTF-8") from None
        except (csv.Error, EOFError, OSError, zlib.error) as error:
            raise ParameterError(f"cannot read {self._path} after line {line:,}: {error}") from None
        return rows


def _from_text(path: Path, head: bytes, target: str, features: Sequence[str] | None) -> Examples:
    with path.open("rb") as raw:
        text = _Text(path, head, raw)
        names = [name.strip() for _, header in text.rows(1) for name in header]
        label = _position(names, target, path, "column")
        chosen = [name for column, name in enumerate(names) if column != label] if features is None else list(features)
        columns = [_position(names, name, path, "column") for name in chosen]
        if label in columns:
            raise ParameterError(f"the target {target!r} must not be one of the features")
        if not columns:
            raise ParameterError(f"{path} has no column but the target {target!r}; there is nothing to learn from")
        blocks: list[NDArray[np.float64]] = []
        labels: list[str] = []
        pieces = iter(lambda: text.rows(_BLOCK), [])
        for rows in followed(pieces, raw.tell, path.stat().st_size, f"reading {path.name}"):
            for line, row in rows:
                if len(row) != len(names):
                    raise ParameterError(f"{path}, line {line:,}: {len(row)} values for {len(names)} columns; {_MEND}")
                kind = row[label].strip()
                if not kind or kind.casefold() == "nan":
                    raise ParameterError(f"{path}, line {line:,}: column {target!r}, the target, is empty; {_MEND}")
                labels.append(kind)
            blocks.append(_numbers(path, rows, columns, names))
    if not blocks:
        raise ParameterError(f"{path} has no rows below its header")
    return Examples(np.concatenate(blocks), _kinds(labels), tuple(chosen))


def _numbers(
    path: Path, rows: Sequence[tuple[int, list[str]]], columns: Sequence[int], names: Sequence[str]
) -> NDArray[np.float64]:
    try:
        cells = (row[column] for _, row in rows for column in columns)
        flat = np.fromiter(map(float, cells), np.float64, len(rows) * len(columns))
        values = flat.reshape(-1, len(columns))
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    line, name, problem = next(_strange(rows, columns, names))
    raise ParameterError(
        f"{path}, line {line:,}, column {name!r}: {problem}; {_MEND}, or choose other columns with --features"
    )


def _strange(
    rows: Sequence[tuple[int, list[str]]], columns: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield line, column and trouble of what can't be used."""
    for line, row in rows:
        for column in columns:
            text = row[column].strip()
            try:
                problem = "" if math.isfinite(float(text)) else f"{text[:40]!r} is not finite"
            except ValueError:
                problem = f"{text[:40]!r} is not a number{advice(text[:40])}" if text else "the value is missing"
            if problem:
                yield line, names[column], problem


def _kinds(labels: Sequence[str]) -> NDArray[Any]:
    """Return labels as whole numbers if all of them are, and else as texts."""
    numbers = all(map(_WHOLE.fullmatch, set(labels)))
    return np.array([int(label) for label in labels], np.int64) if numbers else np.array(labels)


# npz


def _holds_objects(archive: zipfile.ZipFile, name: str) -> bool:
    """Return whether an array in an .npz file is of Python objects, by its header."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        *_, kind = read(member)
    return bool(kind.hasobject)


def _from_arrays(path: Path, target: str, features: Sequence[str]) -> Examples:
    if len(features) != 1:
        listed = ", ".join(features)
        raise ParameterError(
            f"{path} is an .npz file, with all features in one array; give --features one name, not {listed}"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            names = list(arrays.keys())
            if any(_holds_objects(arrays.zip, name) for name in arrays.zip.namelist()):
                raise ParameterError(
                    f"{path} holds Python objects, which may run programs when they are read; save numbers and texts"
                )
            for name in (features[0], target):
                _position(names, name, path, "array")
            rows = arrays[features[0]]
            labels = arrays[target]
    except (ValueError, EOFError, KeyError, OSError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, ParameterError):
            raise
        raise DamagedError(f"cannot read {path}: {str(error) or 'it is cut off'}; write it again") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ParameterError(
            f"{path}: {features[0]!r} must be an array of numbers with one row for each example, got "
            f"{rows.dtype} of shape {rows.shape}"
        )
    if labels.shape != (len(rows),):
        raise ParameterError(
            f"{path}: {target!r} must have one label for each of the {len(rows):,} rows, got shape {labels.shape}"
        )
    if not rows.size:
        raise ParameterError(f"{path}: {features[0]!r} is empty, its shape is {rows.shape}")
    rows = rows.astype(np.float64)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        raise ParameterError(f"{path}, row {row:,}, column {column}: {rows[row, column]} is not finite; {_MEND}")
    return Examples(rows, _plain(labels, path, target), ())


def _plain(labels: NDArray[Any], path: Path, target: str) -> NDArray[Any]:
    """Return labels as whole numbers or texts."""
    match labels.dtype.kind:
        case "U":
            return labels
        case "S":
            return np.char.decode(labels, "utf-8", "replace")
        case "b" | "i" | "u":
            return labels.astype(np.int64)
        case "f":
            bad = np.flatnonzero(~np.isfinite(labels) | (labels != np.rint(labels)))
            if not len(bad):
                return labels.astype(np.int64)
            value = labels[bad[0]]
            raise ParameterError(f"{path}, row {bad[0]:,}: {target!r} is {value}, and not the name of a class; {_MEND}")
        case _:
            raise ParameterError(f"{path}: {target!r} must be whole numbers or texts, got {labels.dtype}")
