"""The names of the categories: public, and settled before anybody looks at the data."""

import csv
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import IntArray
from shoal.checks import whole
from shoal.digits import count_in, grouped, is_number
from shoal.errors import FormatError, ParameterError, StorageError
from shoal.files.table import Column, NoColumnError, arrow
from shoal.strict_json import shortened

_TABLES = (".csv", ".tsv", ".parquet", ".pq", ".gz")


class UnknownValue(Exception):  # noqa: N818  (it never leaves the package)
    """A value that is not a category: its index in the batch, and what an error may say about it.

    The value itself is not kept, because it belongs to a person and errors are logged.
    """

    def __init__(self, index: int, value: Any, labels: Iterable[Any] = ()) -> None:
        super().__init__(index)
        self.index = index
        self.missing = value is None or value in (b"", "") or (isinstance(value, float) and math.isnan(value))
        self.text = isinstance(value, str | bytes) and not value.isdigit()
        plain = _plain(value)
        self.near = any(_plain(label) == plain for label in labels)


def _plain(value: Any) -> str:
    """Return a value as text without the spaces around it, in lower case."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.strip().casefold()


@dataclass(frozen=True)
class Names:
    """The categories, numbered from 0; without labels, the data hold these numbers."""

    count: int  # how many there are, k
    # What they are called in the data; None if they are numbers. In files they are text
    labels: tuple[Any, ...] | None = None

    @staticmethod
    def given(categories: int | Sequence[Hashable]) -> "Names":
        """Return the categories that a program gives: their number, or a label for each, of any one type."""
        if isinstance(categories, str | bytes):
            raise ParameterError(f"categories must be a number or a list of labels, got {categories!r}", "categories")
        if not isinstance(categories, Sequence):
            return Names(whole(categories=categories, least=2))
        labels: list[Any] = list(categories)
        if all(isinstance(label, str) for label in labels):
            return Names.labelled(labels)
        seen: set[Hashable] = set()
        for number, label in enumerate(labels, start=1):
            try:
                repeated = label in seen
                seen.add(label)
            except TypeError:
                kind = type(label).__name__
                raise ParameterError(f"categories: label {number} is a {kind}; give one value", "categories") from None
            if label is None or label != label or repeated:  # noqa: PLR0124  (NaN and NaT)
                raise ParameterError(
                    f"categories: label {number} is missing or repeated; give each label once", "categories"
                )
        if len(labels) < 2:
            raise ParameterError(f"categories: there must be at least 2 labels, got {len(labels)}")
        return Names(len(labels), tuple(labels))

    @staticmethod
    def parsed(text: str, column: str = "") -> "Names":
        """Return what `--categories` says: a number, a file, or names with commas between them."""
        if is_number(text):
            return Names(whole(categories=count_in(text, "categories"), least=2, most=1 << 32))
        path = Path(text)
        if len(text) < 4096 and path.is_file():
            return Names.labelled(*_read(path, column), str(path))
        if "," not in text:
            raise ParameterError(
                f"categories must be a number, a file or names such as red,green,blue; there is no file {text!r}",
                "categories",
            )
        if grouped(text):
            names = text.replace(",", ", ")
            raise ParameterError(
                f"categories {text!r} is one number to some and names to others: write {text.replace(',', '_')} for a "
                f"number, or '{names}', with a blank behind each comma, for names"
            )
        (labels,) = csv.reader([text], skipinitialspace=True)
        return Names.labelled([label.strip() for label in labels], "name", "categories")

    @staticmethod
    def labelled(labels: list[str], unit: str = "name", source: str = "categories") -> "Names":
        """Return the categories with these names, each of them once and none empty."""
        seen: dict[str, int] = {}
        for number, label in enumerate(labels, start=1):
            if not label:
                raise ParameterError(f"{source}: {unit} {number} is empty; every category needs a name")
            if not _is_text(label):
                raise ParameterError(f"{source}: {unit} {number} is {shortened(label)}, not text; write it in UTF-8")
            if seen.setdefault(label, number) != number:
                raise ParameterError(
                    f"{source}: {shortened(label)} stands in {unit} {seen[label]} and {unit} {number}; the categories "
                    "must be a list of unique names, each of them once, and not the data"
                )
        if len(labels) < 2:
            raise ParameterError(f"{source}: there must be at least 2 categories, got {len(labels)}")
        return Names(len(labels), tuple(labels))

    @staticmethod
    def stored(labels: Any, count: int, source: str) -> "Names":
        """Return the categories that a file has: null, or a list of `count` names."""
        if labels is None:
            return Names(count)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise FormatError(f"{source}: its names must be null or a list of text, got {shortened(labels)}")
        if len(labels) != count:
            raise FormatError(f"{source} names {len(labels):,} categories, and its mechanism has {count:,}")
        try:
            return Names.labelled(labels, "name", source)
        except ParameterError as error:
            raise FormatError(str(error)) from None

    def numbers(self, values: Any) -> NDArray[Any]:
        """Return the number of the category of each value of an arrow array, or raise `UnknownValue`."""
        pa = arrow()
        if pa.types.is_null(values.type):
            raise UnknownValue(0, None)
        return self._as_numbers(pa, values) if self.labels is None else self._looked_up(pa, values)

    @cached_property
    def _set(self) -> Any:
        """The labels as an arrow array: bytes if they are text, otherwise the type that they have."""
        pa = arrow()
        labels = self.labels or ()
        if all(isinstance(label, str) for label in labels):
            return pa.array([label.encode() for label in labels], pa.binary())
        try:
            return pa.array(list(labels), from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            raise ParameterError(
                "categories must be labels of one type that Arrow has: text, numbers, booleans, dates or times"
            ) from None

    def _looked_up(self, pa: Any, values: Any) -> NDArray[Any]:
        """Look the values up among the labels; of a dictionary, only its entries."""
        from pyarrow import compute

        if pa.types.is_dictionary(values.type):
            codes = compute.take(self._codes(pa, values.dictionary), values.indices)
        else:
            codes = self._codes(pa, values)
        if codes.null_count:
            index = int(np.flatnonzero(codes.is_null().to_numpy(zero_copy_only=False))[0])
            raise UnknownValue(index, values[index].as_py(), self.labels or ())
        numbers: NDArray[Any] = codes.to_numpy()
        return numbers

    def _codes(self, pa: Any, values: Any) -> Any:
        """Return the index of each value among the labels, or null; labels are cast to the type of the values."""
        from pyarrow import compute

        labels = self._set
        if pa.types.is_binary(labels.type):
            return compute.index_in(_as_bytes(pa, values), labels)
        try:
            wanted = labels.cast(values.type)
            if wanted.cast(labels.type).equals(labels):  # otherwise the cast has cut something off
                return compute.index_in(values, wanted)
        except pa.ArrowException:
            pass
        raise ParameterError(
            f"the column holds {values.type}, and the categories are {labels.type}: give labels of the column's type"
        )

    def _as_numbers(self, pa: Any, values: Any) -> NDArray[Any]:
        """Take the values as numbers; the slow way finds the first that is none.

        Text is decimal digits and nothing else: a sign, a blank or 0x1F is a value that nobody settled on.
        """
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if not values.null_count:
            try:
                whole_numbers: IntArray = _as_whole(pa, values).to_numpy(zero_copy_only=False)
            except pa.ArrowInvalid:
                pass
            else:
                if whole_numbers.min(initial=0) >= 0 and whole_numbers.max(initial=0) < self.count:
                    return whole_numbers
        slowly = values.to_pylist()
        for index, value in enumerate(slowly):
            try:
                fine = value is not None and 0 <= int(value) < self.count and int(value) == float(value)
            except (ValueError, OverflowError):
                fine = False
            if not fine or (isinstance(value, bytes | str) and not _is_digits(value)):
                raise UnknownValue(index, value)
        return np.array([int(value) for value in slowly], np.int64)


def _is_digits(value: bytes | str) -> bool:
    return value.isascii() and value.isdigit()


def _is_text(label: str) -> bool:
    """Tell whether a name can be written in UTF-8; half a surrogate pair can't."""
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_bytes(pa: Any, values: Any) -> Any:
    """Return the values as bytes: text as it is, numbers as they are written."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = values.cast(pa.string())
    elif not (
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
    ):
        raise ParameterError(f"the column holds {kind}, and the categories are text; make the column text")
    return values.cast(pa.binary())


def _as_whole(pa: Any, values: Any) -> Any:
    from pyarrow import compute

    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        if not compute.all(compute.utf8_is_decimal(values), min_count=0).as_py():  # the cast would take 0x1F
            raise pa.ArrowInvalid("not all of it is digits")
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    ):
        raise ParameterError(f"the column holds {kind}, neither whole numbers nor names; convert it first")
    return values.cast(pa.int64())


def _read(path: Path, column: str) -> tuple[list[str], str]:
    """Return the names in a file, and what they stand in: rows or lines."""
    if path.suffix.lower() in _TABLES:
        try:
            values = [value for batch in Column(path, column).batches() for value in batch.to_pylist()]
            return [value.decode() if isinstance(value, bytes) else _text(value) for value in values], "row"
        except UnicodeDecodeError:
            raise FormatError(f"{path} is not in UTF-8; save it so") from None
        except NoColumnError as error:
            raise ParameterError(f"{error}. If it is a list with one name a line, call it .txt") from None
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig").removesuffix("\n").replace("\r\n", "\n").removesuffix("\r").split("\n"), "line"
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{path}, line {line}: not in UTF-8; save it so") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", error) from None


def _text(value: Any) -> str:
    """Return a name in a Parquet file as the data would have it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
