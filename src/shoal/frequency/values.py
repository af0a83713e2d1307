"""A column of a data file as the numbers of categories."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.frequency.names import Names, UnknownValue
from shoal.frequency.table import Column
from shoal.strict_json import shortened

__all__ = ["values"]

_MISSING = "leave such rows out, or give them a category of their own, such as 'none', before you start"
_UNKNOWN = "correct it, or settle on a category such as 'other' for what is not listed, the same for all people"
_NAMED = "if the column holds names, give --categories the names of all categories"


def values(path: Path, column: str, names: Names) -> Iterator[NDArray[Any]]:
    """Yield the numbers of the categories in a column, a batch at a time, or say which row has none.

    Parameters
    ----------
    path : Path
        A CSV file, compressed by gzip or not, or a Parquet file.
    column : str
        Its name.
    names : Names
        Of all categories.
    """
    source, row = Column(path, column), 0
    for batch in source.batches():
        try:
            numbers = names.numbers(batch)
        except UnknownValue as trouble:
            raise ParameterError(_explained(source, names, row + trouble.index + 1, trouble.value)) from None
        except ParameterError as error:
            raise ParameterError(f"{path}, column {column!r}: {error}") from None
        yield numbers
        row += len(batch)


def _explained(source: Column, names: Names, row: int, value: Any) -> str:
    line = source.line(row)
    where = f"{source.path}, row {row:,}" + (f" (line {line:,})" if line is not None else "")
    if value is None or value in (b"", "") or (isinstance(value, float) and math.isnan(value)):
        return f"{where}: column {source.name!r} is empty; {_MISSING}"
    wrong = f"{where}: {shortened(value)} is none of the {names.count:,} categories"
    if names.labels is None:
        named = f"; {_NAMED}" if isinstance(value, str | bytes) and not value.isdigit() else ""
        return f"{wrong}, the whole numbers from 0 to {names.count - 1:,}{named}; {_UNKNOWN}"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    for label in names.labels:
        if label.strip().casefold() == text.strip().casefold():
            return f"{wrong}, though {label!r} is: they differ in spaces or capitals; {_UNKNOWN}"
    return f"{wrong}; {_UNKNOWN}"
