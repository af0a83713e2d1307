"""A round on Apache Spark, where one machine is not enough: its reports opened and counted, or put into random order.

Every worker needs shoal, and the folders named here under the same path. Counting sends the analyst's private key to
the workers: use a cluster that may have it, with `spark.network.crypto.enabled`.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.collect.batch import BatchFile
from shoal.collect.shard import ShardCounts, count_shard
from shoal.collect.task import Task
from shoal.errors import CollectError, MissingExtraError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["count", "mapped", "session", "shuffled"]

_SHARD = 10_000
"""Reports opened at once: half a second, so that a worker's memory is small and it is never far from its end."""
_TASKS_A_CORE = 4
_KEY_BYTES = 16
_ATTEMPTS = 3
"""Two of n keys of 16 bytes are equal with probability n²/2¹²⁹: 1.5e-21 for 10⁹ reports."""
_LOG = Path(__file__).with_name("spark.log.properties")
_COUNTS = "values binary, valid long, undecryptable long, malformed long"


@contextmanager
def session(*, scratch: Path | None = None) -> Iterator["SparkSession"]:
    """Lend a Spark session: the one that runs already, or else a new one, which is stopped afterwards.

    SHOAL_SPARK_MASTER says where a new one runs, such as spark://host:7077; otherwise it is local[*], all cores of this
    machine, where nothing listens but on the loopback address.

    Parameters
    ----------
    scratch : Path, optional
        A folder for what does not fit into memory.
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
    if scratch is not None:
        settings["spark.local.dir"] = str(scratch)
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


def mapped(
    frame: "DataFrame", change: Callable[[Iterator[Any]], Iterator[Any]], schema: "str | StructType"
) -> "DataFrame":
    """Return the frame that this change makes of a frame, as Arrow batches on the workers."""
    with _quiet():
        return frame.mapInArrow(change, schema)


def count(batch: BatchFile, task: Task, private_key: bytes) -> ShardCounts:
    """Return the counts of a batch, opened on Spark.

    Parameters
    ----------
    batch : BatchFile
        Checked; all workers must be able to read its file.
    task : Task
        Whose reports they are.
    private_key : bytes
        The 32 bytes of the analyst's.
    """
    batch = BatchFile(batch.path.resolve(), batch.manifest)
    total, number, data = batch.manifest.records, batch.manifest.round, task.to_bytes()

    def counted(rows: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        shards = (shard for part in rows for shard in part.column(0).to_pylist())
        counts = [
            count_shard(data, private_key, number, b"".join(batch.records(start, min(start + _SHARD, total))))
            for start in shards
        ]
        if counts:
            sums = reduce(add, counts)
            row = [sums.values.tobytes(), sums.valid, sums.undecryptable, sums.malformed]
            names = ["values", "valid", "undecryptable", "malformed"]
            yield pa.RecordBatch.from_arrays([pa.array([value]) for value in row], names=names)

    with session() as spark:
        tasks = min(-(-total // _SHARD), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
        rows = mapped(spark.range(0, total, _SHARD, tasks), counted, _COUNTS).collect()
    return reduce(add, (ShardCounts(np.frombuffer(row[0], np.int64), *row[1:]) for row in rows))


def shuffled(
    blocks: Iterable[NDArray[np.uint8]], total: int, length: int, near: Path, stack: ExitStack
) -> Iterator[bytes]:
    """Yield records in a uniformly random order, many at once, sorted on Spark; a `Shuffler` can permute by it.

    Each record gets a key of 16 bytes from the operating system, and they are sorted by these. The keys are on the disk
    before anything depends on them. If they were drawn within the sort, Spark would draw others wherever it repeats a
    failed task, and records would be lost or come twice.

    Parameters
    ----------
    blocks : iterable of numpy.ndarray
        The records as rows of bytes.
    total : int
        How many there are; it is checked.
    length : int
        The bytes of each.
    near : Path
        A file; records and keys lie in a folder next to it, and need four times the space of the records. All workers
        must have it under this path.
    stack : ExitStack
        Removes that folder when it is closed.
    """
    try:
        temporary = TemporaryDirectory(prefix=f".{near.name[:100]}.", suffix=".sort", dir=near.resolve().parent)
    except OSError as error:
        raise StorageError(f"cannot write next to {near}: {error.strerror}; make the folder first", error) from None
    folder = Path(stack.enter_context(temporary))
    records, keyed, ordered = folder / "records", folder / "keyed", folder / "ordered"
    with session(scratch=folder) as spark:
        _write_records(blocks, total, length, records)
        for _ in range(_ATTEMPTS):
            _draw_keys(spark, records, keyed)
            _sort(spark, keyed, ordered)
            if _keys_differ(ordered, total):
                break
        else:
            raise CollectError(f"equal keys, drawn {_ATTEMPTS} times: the random numbers of this system are broken")
    for part in _read(ordered, "record"):
        yield _flat(part, length)


def _write_records(blocks: Iterable[NDArray[np.uint8]], total: int, length: int, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind, count = pa.binary(length), 0
    schema = pa.schema([("record", kind)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False) as writer:
        for block in blocks:
            rows = np.ascontiguousarray(block, dtype=np.uint8).reshape(-1, length)
            column = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
            writer.write_batch(pa.record_batch([column], schema=schema))
            count += len(rows)
    if count != total:
        raise CollectError(f"there were said to be {total:,} records, and there are {count:,}; nothing is released")


def _keyed(parts: Iterator[Any]) -> Iterator[Any]:
    """Put a key from the operating system before each record."""
    import pyarrow as pa

    for part in parts:
        drawn = pa.py_buffer(os.urandom(_KEY_BYTES * part.num_rows))
        keys = pa.Array.from_buffers(pa.binary(_KEY_BYTES), part.num_rows, [None, drawn]).cast(pa.binary())
        yield pa.RecordBatch.from_arrays([keys, part.column(0)], names=["key", "record"])


def _draw_keys(spark: "SparkSession", records: Path, keyed: Path) -> None:
    frame = mapped(spark.read.parquet(records.as_uri()), _keyed, "key binary, record binary")
    frame.write.mode("overwrite").option("compression", "uncompressed").parquet(keyed.as_uri())


def _sort(spark: "SparkSession", keyed: Path, ordered: Path) -> None:
    frame = spark.read.parquet(keyed.as_uri()).orderBy("key")
    frame.write.mode("overwrite").option("compression", "uncompressed").parquet(ordered.as_uri())


def _read(ordered: Path, column: str) -> Iterator[Any]:
    """Yield the pieces of a column in the order of the sort: the parts are numbered by it."""
    import pyarrow.parquet as pq

    for path in sorted(ordered.glob("part-*.parquet"), key=lambda path: int(path.name.split("-")[1])):
        with pq.ParquetFile(path) as file:
            for part in file.iter_batches(columns=[column]):
                yield part.column(0)


def _flat(column: Any, length: int) -> bytes:
    """Return values of one length, one after the other."""
    import pyarrow as pa

    fixed = column.cast(pa.binary(length))
    return bytes(fixed.buffers()[1][fixed.offset * length : (fixed.offset + len(fixed)) * length])


def _keys_differ(ordered: Path, total: int) -> bool:
    """Return whether each key is larger than the one before it; if two are equal, the order is not uniform."""
    count, last = 0, b""
    for part in _read(ordered, "key"):
        flat = last + _flat(part, _KEY_BYTES)
        high, low = np.frombuffer(flat, ">u8").reshape(-1, 2).T
        if np.any(high[1:] < high[:-1]) or np.any((high[1:] == high[:-1]) & (low[1:] < low[:-1])):
            raise CollectError("Spark has not sorted the keys; nothing is released: check its version and its disks")
        if np.any((high[1:] == high[:-1]) & (low[1:] == low[:-1])):
            return False
        count, last = count + len(part), flat[-_KEY_BYTES:]
    if count != total:
        raise CollectError(f"Spark has sorted {count:,} of {total:,} records; nothing is released: run it again")
    return True
