"""A column of a data file as numbers of categories, or as numbers in an interval."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shoal.arrays import Array
from shoal.errors import ParameterError
from shoal.files.names import Names, UnknownValue
from shoal.files.person_rows import PersonRows
from shoal.files.table import Column, arrow
from shoal.mechanisms.number_range import NumberRange

_MISSING = "leave such rows out, or give them a category of their own, such as 'none', before you start"
_UNKNOWN = "correct it, or settle on a category such as 'other' for what is not listed, the same for all people"
_NAMED = "if the column holds names, give --categories the names of all categories"


def values(
    path: Path, column: str, names: Names, *, person: str | None = None, people: PersonRows | None = None
) -> Iterator[NDArray[Any]]:
    """Yield the numbers of the categories in a column, a batch at a time, or say which row has none."""
    source = Column(path, column, person)
    for batch, before, kept in source.kept_batches(people):
        try:
            numbers = names.numbers(batch)
        except UnknownValue as trouble:
            raise ParameterError(_explained(source, names, before + trouble.index + 1, trouble)) from None
        except ParameterError as error:
            raise ParameterError(f"{path}, column {column!r}: {error}") from None
        yield numbers[kept]


def _explained(source: Column, names: Names, row: int, trouble: UnknownValue) -> str:
    """Return the error of a row without its value, because errors are logged and the value is a person's."""
    where = source.where(row)
    if trouble.missing:
        return f"{where}: column {source.name!r} is empty; {_MISSING}"
    wrong = f"{where}: column {source.name!r} holds none of the {names.count:,} categories"
    if names.labels is None:
        named = f"; {_NAMED}" if trouble.text else ""
        return f"{wrong}, the whole numbers from 0 to {names.count - 1:,}{named}; {_UNKNOWN}"
    if trouble.near:
        return f"{wrong}, though the value differs from one of them in spaces or capitals only; {_UNKNOWN}"
    return f"{wrong}; {_UNKNOWN}"


def numbers(path: Path, column: str, within: NumberRange, *, person: str | None = None) -> Iterator[Array]:
    """Yield the numbers in a column in batches; refuse a row outside the interval, or a second row of a person."""
    source = Column(path, column, person)
    for batch, before, _ in source.kept_batches(None if person is None else PersonRows()):
        yield _floats(source, batch, within, before)


def _floats(source: Column, batch: Any, within: NumberRange, before: int) -> Array:
    """Return a batch as floats; the slow way finds the first that is none."""
    pa = arrow()
    try:
        values = batch.dictionary_decode() if pa.types.is_dictionary(batch.type) else batch
        if pa.types.is_boolean(values.type):
            raise ParameterError("true and false are no numbers")
        if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
            values = values.cast(pa.large_string())
        result: Array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not batch.null_count and len(within.numbers(result)) == len(batch):
            return result
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ParameterError):
        pass
    for index, value in enumerate(batch.to_pylist()):
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if not within.lower <= number <= within.upper:
            # The value is a person's, and errors are logged: it is not named.
            what = "is empty; it must hold" if value in (None, b"", "") else "does not hold"
            raise ParameterError(
                f"{source.where(before + index + 1)}: column {source.name!r} {what} a number from {within.lower:g} to "
                f"{within.upper:g}; correct it, leave such rows out or clip them, the same for all people"
            )
    raise ParameterError(f"{source.path}: column {source.name!r} holds {batch.type}, and not numbers; convert it first")
