"""Values of people as the numbers of categories, whatever holds them: pandas, polars, Arrow, numpy or a list."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.frequency.names import Names, UnknownValue
from shoal.frequency.table import arrow
from shoal.strict_json import shortened

__all__ = ["encode"]


def encode(values: Any, categories: int | Sequence[str], *, column: str | None = None) -> NDArray[np.int64]:
    """Return the number of the category of each value, as `randomize` takes it.

    Nothing is learned from the data: the categories are public, and a value that is none of them, or is missing, is
    refused with its row.

    Parameters
    ----------
    values : object
        A list, a numpy array, a column of pandas, polars or pyarrow, or whatever else hands its data to Arrow (the
        PyCapsule interface); or a frame or table of these, with `column`.
    categories : int or sequence of str
        How many there are, if the values are their numbers; or the names of all of them.
    column : str, optional
        Of a frame, the name of the column.

    Examples
    --------
    >>> encode(["red", "blue", "red"], ["red", "green", "blue"]).tolist()
    [0, 2, 0]
    """
    if isinstance(categories, str):
        raise ParameterError(
            f"categories must be a number or a list of names, got {categories!r}", parameter="categories"
        )
    if isinstance(categories, Sequence):
        names = Names.labelled(list(categories))
    else:
        names = Names(whole(categories=categories, least=2))
    data, done = [np.zeros(0, np.int64)], 0
    for chunk in _chunks(values, column):
        try:
            data.append(names.numbers(chunk).astype(np.int64) if len(chunk) else data[0])
        except UnknownValue as trouble:
            row, value = done + trouble.index, trouble.value
            what = "is missing" if value is None else f"{shortened(value)} is none of the {names.count:,} categories"
            raise ParameterError(
                f"row {row:,}, counted from 0: {what}; settle beforehand on a category such as 'other' for it, or "
                "leave such rows out, the same for all people"
            ) from None
        done += len(chunk)
    return np.concatenate(data)


def _chunks(values: Any, column: str | None) -> list[Any]:
    """Return the pieces of a column, as arrow arrays."""
    pa = arrow()
    if column is not None:
        try:
            table = values if isinstance(values, pa.Table) else pa.table(values)
        except (TypeError, ValueError):
            raise ParameterError(f"{type(values).__name__} is no frame that Arrow can read; give its column") from None
        if table.column_names.count(column) != 1:
            shown = ", ".join(map(repr, table.column_names[:20]))
            raise ParameterError(f"there must be one column {column!r}; the columns are {shown}")
        return list(table.column(column).chunks)
    try:
        if isinstance(values, pa.ChunkedArray) or hasattr(values, "__arrow_c_stream__"):
            return list(pa.chunked_array(values).chunks)
        return [pa.array(values, from_pandas=True)]
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ParameterError(
            f"values must be a column of numbers or names, or name the `column`: {reason}", parameter="values"
        ) from None
