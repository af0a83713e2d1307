"""A column of a data file as the numbers of categories."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.frequency.names import Names, UnknownValue
from shoal.frequency.person_rows import PersonRows
from shoal.frequency.table import Column

__all__ = ["values"]

_MISSING = "leave such rows out, or give them a category of their own, such as 'none', before you start"
_UNKNOWN = "correct it, or settle on a category such as 'other' for what is not listed, the same for all people"
_NAMED = "if the column holds names, give --categories the names of all categories"


def values(
    path: Path, column: str, names: Names, *, person: str | None = None, people: PersonRows | None = None
) -> Iterator[NDArray[Any]]:
    """Yield the numbers of the categories in a column, a batch at a time, or say which row has none.

    Parameters
    ----------
    path : Path
        A CSV file, compressed by gzip or not, or a Parquet file.
    column : str
        Its name.
    names : Names
        Of all categories.
    person : str, optional
        The column with the person of each row.
    people : PersonRows, optional
        What decides by `person` which rows are kept.
    """
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
