"""Apache Spark: a round's reports opened and counted, or a column of a data frame randomized and counted.

Every worker needs shoal, and a batch file under the same path. Counting a round sends the analyst's private key to the
workers: use a cluster that may have it, with `spark.network.crypto.enabled`.

Of a column only counts leave the workers. A report exists only inside the task that draws it, and so none is stored,
read twice or drawn twice: of a task that Spark repeats, one result counts. Whoever sees nothing but the counts sees no
more than the shuffled reports would tell.
"""

import os
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.checks import whole
from shoal.collect.batch import BatchFile
from shoal.collect.counting import SealedRound, ShardCounts
from shoal.errors import CollectError, MissingExtraError, ParameterError
from shoal.estimation.estimate import Estimate
from shoal.files.names import Names, UnknownValue
from shoal.mechanisms import Counts
from shoal.mechanisms.categorical import Categorical
from shoal.mechanisms.matrix_randomizer import MatrixRandomizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SHARD = 10_000
"""Reports opened at once: half a second, so that a worker's memory is small and it is never far from its end."""
_TASKS_A_CORE = 4
_LOG = Path(__file__).with_name("spark.log.properties")
_COUNTS = "values binary, valid long, undecryptable long, malformed long"
_COLUMN_COUNTS = "counts binary, reports long, wrong string"
_VALUES = "define a category such as 'other' for it in advance, or leave such rows out, the same for all people"
_WRONG = {
    "missing": "a value of column {column!r} is missing; {values}",
    "unknown": "a value of column {column!r} is none of the categories; {values}",
    "nobody": "column {person!r} has no person in a row; give every row a person, or leave such rows out",
    "repeated": "a person of column {person!r} has more than one row; keep one row per person, or keep M rows of each "
    "person, chosen at random, and charge for M: rows_per_person=M",
}
"""Why nothing was counted. Values and ids are not named, because errors are logged."""


@contextmanager
def session() -> Iterator["SparkSession"]:
    """Lend a Spark session: the one that runs already, or else a new one, which is stopped afterwards.

    SHOAL_SPARK_MASTER says where a new one runs, such as spark://host:7077; otherwise it is local[*], all cores of this
    machine, where nothing listens but on the loopback address.
    """
    try:
        with _quiet():
            import pyarrow  # noqa: F401
            from pyspark.errors import PySparkRuntimeError
            from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError('Spark needs a library: pip install "shoal-dp[spark]", and Java 17') from None
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    master = os.environ.get("SHOAL_SPARK_MASTER", "local[*]")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        "spark.io.encryption.enabled": "true",  # what is sent with a task, such as a key, may come to lie on a disk
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    try:
        with _quiet():
            spark = SparkSession.builder.master(master).appName("shoal").config(map=settings).getOrCreate()
    except PySparkRuntimeError as error:
        raise CollectError(
            f"Spark does not start at {master}: {str(error)[:300]}; it needs Java 17 or 21 in PATH or JAVA_HOME, and "
            "SHOAL_SPARK_MASTER must name a cluster that runs"
        ) from None
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _quiet() -> Iterator[None]:
    """Spare the user PySpark's warning about pandas 3: nothing here goes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _mapped(
    frame: "DataFrame", change: Callable[[Iterator[Any]], Iterator[Any]], schema: "str | StructType"
) -> "DataFrame":
    """Return the frame that this change makes of a frame, as Arrow batches on the workers."""
    with _quiet():
        return frame.mapInArrow(change, schema)


def count(batch: BatchFile, sealed: SealedRound, private_key: bytes) -> ShardCounts:
    """Return the counts of a batch, opened on Spark, whose workers must all be able to read its file."""
    batch = BatchFile(batch.path.resolve(), batch.manifest)
    total = batch.manifest.records

    def counted(rows: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        shards = (shard for part in rows for shard in part.column(0).to_pylist())
        counts = [
            sealed.count(private_key, b"".join(batch.records(start, min(start + _SHARD, total)))) for start in shards
        ]
        if counts:
            sums = reduce(add, counts)
            row = [sums.values.tobytes(), sums.valid, sums.undecryptable, sums.malformed]
            names = ["values", "valid", "undecryptable", "malformed"]
            yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names=names)

    with session() as spark:
        tasks = min(-(-total // _SHARD), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
        rows = _mapped(spark.range(0, total, _SHARD, tasks), counted, _COUNTS).collect()
    return reduce(add, (ShardCounts(np.frombuffer(row[0], np.int64), *row[1:]) for row in rows))


def count_column(
    frame: "DataFrame",
    column: str,
    mechanism: Categorical | MatrixRandomizer,
    *,
    categories: Sequence[Hashable] | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
) -> Counts[Any]:
    """Return the counts of a column, each value of which is randomized where it lies.

    Every call draws new reports, and so every call is a release that counts against the budget. Every row is a
    report: a guarantee for one report is a guarantee for one person only if each person has one row. `person`
    checks that.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    column : str
        The column.
    mechanism : Categorical or MatrixRandomizer
        What randomizes each value; every worker needs shoal.
    categories : sequence, optional
        A label for each category, of the type of the column, if the column does not hold their numbers.
    person : str, optional
        The column that says whose each row is; a second row of a person is refused. It is not passed on to Python.
    rows_per_person : int, optional
        Keep at most this many rows of each person instead, chosen at random. Their guarantee is
        `shoal.composition.group_privacy.group_epsilon` with the same number.

    Raises
    ------
    ParameterError
        If a value is missing, or none of the categories. Which one it is, is not told: it would be a value of a person.
    """
    if not isinstance(mechanism, Categorical | MatrixRandomizer):
        raise ParameterError(f"mechanism must have categories, such as RandomizedResponse, got {mechanism!r}")
    names = Names.given(mechanism.categories if categories is None else categories)
    if names.count != mechanism.categories:
        raise ParameterError(
            f"there are {names.count:,} names, and the mechanism has {mechanism.categories:,} categories"
        )
    _check_type(frame, column, names)
    rows = frame.select(_column(frame, column))
    if person is not None:
        rows = _numbered(frame, column, person, rows_per_person)
    elif rows_per_person is not None:
        raise ParameterError("rows_per_person must come with person, the column that says whose each row is")

    def counted(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        total: Counts[Any] = Counts(mechanism, np.zeros(mechanism.cells, np.int64), 0)
        wrong = ""
        try:
            for part in parts:
                if part.num_rows:
                    wrong = wrong or _wrong_people(part, refuse=rows_per_person is None)
                    numbers = names.numbers(part.column(0))
                    total += mechanism.aggregate(mechanism.randomize(numbers))
        except UnknownValue as trouble:
            wrong = "missing" if trouble.missing else "unknown"
        row = [total.values.tobytes(), total.reports, wrong]
        yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names=["counts", "reports", "wrong"])

    counts = _mapped(rows, counted, _COLUMN_COUNTS).collect()
    for row in counts:
        if row["wrong"]:
            reason = _WRONG[row["wrong"]].format(column=column, person=person, values=_VALUES)
            raise ParameterError(f"{reason}. Nothing was counted")
    totals = [Counts(mechanism, np.frombuffer(row["counts"], np.int64), int(row["reports"])) for row in counts]
    total = reduce(add, totals, Counts(mechanism, np.zeros(mechanism.cells, np.int64), 0))
    if not total.reports:
        raise ParameterError("the frame has no rows; there is nothing to count")
    return total


def _column(frame: "DataFrame", name: str) -> Any:
    """Return a column by its name, which may contain dots, or refuse a name that the frame does not have once."""
    if frame.columns.count(name) != 1:
        raise ParameterError(f"there must be one column {name!r}; the columns are {', '.join(frame.columns[:20])}")
    quoted = name.replace("`", "``")
    return frame[f"`{quoted}`"]


def _check_type(frame: "DataFrame", column: str, names: Names) -> None:
    """Refuse a column whose type cannot hold the categories, by the schema and before any job runs."""
    import pyarrow as pa
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    kind = frame.select(_column(frame, column)).schema.fields[0].dataType
    try:
        names.numbers(pa.array([], to_arrow_type(kind)))
    except UnknownValue:  # a column without any value
        raise ParameterError(f"column {column!r} holds nothing but missing values; there is nothing to count") from None
    except (ParameterError, PySparkTypeError) as error:
        reason = error if isinstance(error, ParameterError) else "convert it to text or numbers first"
        raise ParameterError(f"column {column!r} is of type {kind.simpleString()}: {reason}") from None


def _numbered(frame: "DataFrame", column: str, person: str, most: int | None) -> "DataFrame":
    """Return the values with the number of each row among the rows of its person, from 1; 0 without a person.

    The order among the rows of a person is random, and depends on no other person.
    """
    from pyspark.sql import Window, functions
    from pyspark.sql.types import BinaryType, DoubleType, FloatType, StringType

    if person == column:
        raise ParameterError("person must be another column than the values")
    whose = _column(frame, person)
    missing, kind = whose.isNull(), frame.select(whose).schema.fields[0].dataType
    if isinstance(kind, DoubleType | FloatType):  # NaN, to which pandas turns what is missing
        missing = missing | functions.isnan(whose)
    elif isinstance(kind, StringType | BinaryType):
        missing = missing | (functions.length(whose) == 0)
    order = functions.row_number().over(Window.partitionBy(whose).orderBy(functions.rand()))
    number = functions.when(missing, 0).otherwise(order).alias("number")
    rows = frame.select(_column(frame, column).alias("value"), number)
    return rows if most is None else rows.where(rows["number"] <= whole(rows_per_person=most))


def _wrong_people(part: Any, *, refuse: bool) -> str:
    """Return the key of `_WRONG` for the people of a batch, or nothing if they are in order or not known."""
    if part.num_columns == 1:
        return ""
    numbers = part.column(1).to_numpy()
    if numbers.min() == 0:
        return "nobody"
    return "repeated" if refuse and numbers.max() > 1 else ""


def estimate_frame(
    frame: "DataFrame", estimate: Estimate, *, categories: Sequence[Hashable] | None = None
) -> "DataFrame":
    """Return an estimate as a Spark data frame, to be joined with others.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Any frame of the session in which it is to be.
    estimate : Estimate
        Of the counts of a column.
    categories : sequence, optional
        The labels of all categories.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    table = pa.table(estimate.columns(categories))

    def told(parts: Iterator[Any]) -> Iterator[Any]:
        for _ in parts:
            yield from table.to_batches()

    return _mapped(frame.sparkSession.range(0, 1, 1, 1), told, from_arrow_schema(table.schema))
