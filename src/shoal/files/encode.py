"""Values of people as the numbers of categories, whatever holds them: pandas, polars, Arrow, numpy or a list."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, IntArray
from shoal.errors import ParameterError
from shoal.files.names import Names, UnknownValue
from shoal.files.person_rows import KEEP_SEVERAL, PersonRowError, PersonRows
from shoal.files.table import arrow


def encode(
    values: object,
    categories: int | Sequence[Hashable],
    *,
    column: str | None = None,
    person: object = None,
    rows_per_person: int | None = None,
) -> IntArray:
    """Return the number of the category of each value, as `randomize` takes it.

    Nothing is learned from the data: the categories are public, and a value that is none of them, or is missing, is
    refused with its row. Each row becomes a report, so a guarantee for one report is a guarantee for one person only
    if each person has one row: give `person` to check it.

    Parameters
    ----------
    values : object
        A list, a numpy array, a column of pandas, polars or pyarrow, or whatever else hands its data to Arrow (the
        PyCapsule interface); or a frame or table of these, with `column`.
    categories : int or sequence
        How many there are, if the values are their numbers; or a label for each, of the type of the values: text,
        numbers, booleans, dates or times.
    column : str, optional
        Of a frame, the name of the column.
    person : str or object, optional
        The person of each row: the name of a column if `values` is a frame, otherwise a column like `values`. A second
        row of the same person is refused.
    rows_per_person : int, optional
        Keep the first rows of each person instead, at most this many. Their guarantee is
        `shoal.composition.group_privacy.group_epsilon` with the same number.

    Examples
    --------
    >>> encode(["red", "blue", "red"], ["red", "green", "blue"]).tolist()
    [0, 2, 0]
    >>> encode(["red", "blue", "red"], ["red", "blue"], person=["ann", "ann", "bob"], rows_per_person=1).tolist()
    [0, 0]
    """
    names = Names.given(categories)
    kept = _kept(values, column, person, rows_per_person)
    data, done = [np.zeros(0, np.int64)], 0
    for chunk in _chunks(values, column):
        try:
            data.append(names.numbers(chunk).astype(np.int64) if len(chunk) else data[0])
        except UnknownValue as trouble:
            what = "the value is missing" if trouble.missing else f"the value is none of the {names.count:,} categories"
            near = ", but differs from one in spaces or capitals only" if trouble.near else ""
            raise ParameterError(
                f"row {done + trouble.index:,}, counted from 0: {what}{near}; define in advance a category such as "
                "'other' for it, or leave such rows out, the same for all people"
            ) from None
        done += len(chunk)
    numbers = np.concatenate(data)
    if kept is None:
        return numbers
    if len(kept) != len(numbers):
        raise ParameterError(
            f"person must have one value per row: there are {len(numbers):,} rows, got {len(kept):,}", "person"
        )
    return numbers[kept]


def _kept(values: object, column: str | None, person: object, most: int | None) -> BoolArray | None:
    """Return which rows are kept, or None if there is no column of people."""
    if person is None:
        if most is not None:
            raise ParameterError(
                "rows_per_person must come with person, the column that says whose each row is", "rows_per_person"
            )
        return None
    people = PersonRows(most, KEEP_SEVERAL)
    kept = [np.zeros(0, np.bool_)]
    if isinstance(person, str) and (column is None or person == column):
        raise ParameterError("person must be another column than the values; of a frame, name both columns", "person")
    for chunk in _chunks(values, person) if isinstance(person, str) else _chunks(person, None):
        try:
            kept.append(people.kept(chunk))
        except PersonRowError as trouble:
            row = sum(map(len, kept)) + trouble.index
            raise ParameterError(f"row {row:,}, counted from 0: {trouble.reason}") from None
    return np.concatenate(kept)


def _chunks(values: object, column: str | None) -> list[Any]:
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
            chunks = pa.chunked_array(values)
            if pa.types.is_struct(chunks.type):
                raise TypeError("this is a frame of several columns")
            return list(chunks.chunks)
        return [pa.array(values, from_pandas=True)]
    except (pa.ArrowException, TypeError, ValueError):  # whose message may contain a value
        raise ParameterError(
            f"values must be one column of values of one type, got {type(values).__name__}; of a frame, name the "
            "`column`",
            "values",
        ) from None
