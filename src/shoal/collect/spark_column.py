"""A column of a Spark data frame as an estimate: randomized and counted on the workers, and only counts leave them.

A report exists only inside the task that draws it, and so none is stored, read twice or drawn twice: of a task that
Spark repeats, one result counts. Whoever sees nothing but the counts sees no more than the shuffled reports would tell.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.checks import whole
from shoal.collect.spark import mapped
from shoal.errors import ParameterError
from shoal.frequency.names import Names, UnknownValue
from shoal.randomizers import Counts, Estimate
from shoal.randomizers.categorical import Categorical
from shoal.randomizers.matrix_randomizer import MatrixRandomizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["count_column", "estimate_frame"]

_COUNTS = "counts binary, reports long, wrong string"


def count_column(
    frame: "DataFrame",
    column: str,
    mechanism: Categorical | MatrixRandomizer,
    *,
    categories: Sequence[str] | None = None,
) -> Counts[Any]:
    """Return the counts of a column, each value of which is randomized where it lies.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        One row a person.
    column : str
        The column.
    mechanism : Categorical or MatrixRandomizer
        What randomizes each value; every worker needs shoal.
    categories : sequence of str, optional
        The names of all categories, if the column holds names and not their numbers.

    Raises
    ------
    ParameterError
        If a value is missing, or none of the categories. Which one it is, is not told: it would be a value of a person.
    """
    count = whole(categories=mechanism.categories, least=2)
    names = Names(count) if categories is None else Names.labelled(list(categories))
    if names.count != count:
        raise ParameterError(f"there are {names.count:,} names, and the mechanism has {count:,} categories")
    if frame.columns.count(column) != 1:
        raise ParameterError(f"there must be one column {column!r}; the columns are {', '.join(frame.columns[:20])}")

    def counted(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        total: Counts[Any] = Counts(mechanism, np.zeros(mechanism.cells, np.int64), 0)
        wrong = ""
        try:
            for part in parts:
                if part.num_rows:
                    numbers = names.numbers(part.column(0))
                    total += mechanism.aggregate(mechanism.randomize(numbers))
        except UnknownValue as trouble:
            wrong = "is missing" if trouble.value is None else "is none of the categories"
        row = [total.values.tobytes(), total.reports, wrong]
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names=["counts", "reports", "wrong"])

    rows = mapped(frame.select(frame[column]), counted, _COUNTS).collect()
    for row in rows:
        if row["wrong"]:
            raise ParameterError(
                f"a value of column {column!r} {row['wrong']}; settle on a category such as 'other' for it beforehand, "
                "or leave such rows out, the same for all people. Nothing was counted"
            )
    totals = [Counts(mechanism, np.frombuffer(row["counts"], np.int64), int(row["reports"])) for row in rows]
    total = reduce(add, totals, Counts(mechanism, np.zeros(mechanism.cells, np.int64), 0))
    if not total.reports:
        raise ParameterError("the frame has no rows; there is nothing to count")
    return total


def estimate_frame(frame: "DataFrame", estimate: Estimate, *, categories: Sequence[str] | None = None) -> "DataFrame":
    """Return an estimate as a Spark data frame, to be joined with others.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Any frame of the session in which it is to be.
    estimate : Estimate
        Of the counts of a column.
    categories : sequence of str, optional
        The names of all categories.
    """
    names = ("category", "frequency", "standard_error", "lower", "upper")
    content = estimate.to_dict(categories)
    columns = [content[name] for name in names]
    kind = "long" if categories is None else "string"

    def told(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in parts:
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=list(names))

    schema = ", ".join([f"category {kind}", *(f"{name} double" for name in names[1:])])
    return mapped(frame.sparkSession.range(0, 1, 1, 1), told, schema)
