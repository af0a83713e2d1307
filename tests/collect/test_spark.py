"""Spark in a process of its own with two workers; it takes ten seconds to start, and so there is one for all tests."""

import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.collect import spark
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.round_state import record
from shoal.collect.shard import count_shard
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import CollectError, MissingExtraError, StorageError
from tests.collect.world import World, make_exact_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java"),
]
_LENGTH = 24


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_SPARK_MASTER", "local[2,4]")  # two cores; a task may fail three times
        with spark.session() as running:
            yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"))


def _numbered(count: int) -> NDArray[np.uint8]:
    """Return records that say where they stood."""
    rows = np.zeros((count, _LENGTH), np.uint8)
    rows[:, :8] = np.arange(count, dtype=">u8").view(np.uint8).reshape(-1, 8)
    rows[:, 8:] = np.frombuffer(random.randbytes(count * (_LENGTH - 8)), np.uint8).reshape(count, -1)
    return rows


def _shuffled(rows: NDArray[np.uint8], folder: Path) -> NDArray[np.uint8]:
    with ExitStack() as stack:
        parts = spark.shuffled(np.array_split(rows, 3), len(rows), _LENGTH, folder / "batch", stack)
        return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, _LENGTH)


def _places(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.int64)


def _same_records(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
    return sorted(row.tobytes() for row in one) == sorted(row.tobytes() for row in other)


def test_it_listens_on_the_loopback_address_only(engine: Any) -> None:
    settings = dict(engine.sparkContext.getConf().getAll())
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


@pytest.mark.usefixtures("engine")
def test_it_counts_as_one_process_does(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(1200) % 700
    other_round = world.sealed(values[:40], number=2)
    records = [*world.sealed(values), *world.junk(60), *other_round]
    signed = world.release(tmp_path / "batch", records)
    batch = BatchFile.checked(tmp_path / "batch", world.task, Manifest.verified(signed, world.task, 1))
    key = world.analyst_key.private_bytes_raw()
    monkeypatch.setattr(spark, "_SHARD", 120)  # eleven shards, the last of them short
    found = spark.count(batch, world.task, key)
    local = count_shard(world.task.to_bytes(), key, 1, b"".join(records))
    np.testing.assert_array_equal(found.values, local.values)
    np.testing.assert_array_equal(found.values[:701], [2] * 500 + [1] * 200 + [0])
    assert (found.valid, found.undecryptable, found.malformed) == (1200, 100, 0)


@pytest.mark.usefixtures("engine")
def test_the_order_is_random_and_nothing_is_lost(tmp_path: Path) -> None:
    count = 6000
    rows = _numbered(count)
    found = _shuffled(rows, tmp_path)
    assert _same_records(found, rows)
    places = _places(found)
    # The rank correlation of two independent orders is about normal with variance 1 / (n − 1): beyond 5.2 standard
    # deviations once in 5 million runs.
    correlation = np.corrcoef(places, np.arange(count))[0, 1]
    assert abs(correlation) * np.sqrt(count - 1) < 5.2
    # Neighbours that stay neighbours: about Poisson with mean 2, and 15 or more once in 200 million runs.
    assert np.count_nonzero(np.abs(np.diff(places)) == 1) < 15
    assert not list(tmp_path.iterdir())


def test_keys_are_what_the_operating_system_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    given: list[bytes] = []

    def urandom(size: int, original: Any = os.urandom) -> bytes:
        given.append(original(size))
        return given[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    parts = [pa.record_batch({"record": [bytes([row] * 3) for row in range(count)]}) for count in (5, 2)]
    made = list(spark._keyed(iter(parts)))
    assert [b"".join(part.column("key").to_pylist()) for part in made] == given
    assert [len(keys) for keys in given] == [5 * 16, 2 * 16]
    assert [part.column("record") for part in made] == [part.column(0) for part in parts]


def test_keys_are_written_before_the_sort(engine: Any, tmp_path: Path) -> None:
    rows = _numbered(500)
    records, keyed, ordered = (tmp_path / name for name in ("records", "keyed", "ordered"))
    spark._write_records([rows], len(rows), _LENGTH, records)
    spark._draw_keys(engine, records, keyed)
    written = engine.read.parquet(keyed.as_uri()).collect()
    spark._sort(engine, keyed, ordered)
    found = b"".join(spark._flat(part, _LENGTH) for part in spark._read(ordered, "record"))
    # The order is that of the keys which were on the disk, and no others.
    assert len({bytes(key) for key, _ in written}) == len(rows)
    assert found == b"".join(bytes(value) for _, value in sorted((bytes(key), value) for key, value in written))


@pytest.mark.usefixtures("engine")
def test_a_task_that_fails_and_is_run_again_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = spark._keyed

    def failing(parts: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from original(parts)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() < 2:
            raise OSError("the worker is gone")

    monkeypatch.setattr(spark, "_keyed", failing)
    rows = _numbered(300)
    assert _same_records(_shuffled(rows, tmp_path), rows)


@pytest.mark.usefixtures("engine")
def test_equal_keys_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def equal(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for part in parts:
            keys = pa.array([bytes([row // 2] * 16) for row in range(part.num_rows)], pa.binary())
            yield pa.RecordBatch.from_arrays([keys, part.column(0)], names=["key", "record"])

    answers: list[bool] = []
    random, differ = spark._keyed, spark._keys_differ

    def noted(ordered: Path, total: int) -> bool:
        answers.append(differ(ordered, total))
        monkeypatch.setattr(spark, "_keyed", random)
        return answers[-1]

    monkeypatch.setattr(spark, "_keyed", equal)
    monkeypatch.setattr(spark, "_keys_differ", noted)
    rows = _numbered(40)
    assert _same_records(_shuffled(rows, tmp_path), rows)
    assert answers == [False, True]
    monkeypatch.setattr(spark, "_keyed", equal)
    monkeypatch.setattr(spark, "_ATTEMPTS", 1)
    with pytest.raises(CollectError, match="equal keys, drawn 1 times"):
        _shuffled(rows, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("engine")
def test_a_wrong_total_is_refused(tmp_path: Path) -> None:
    rows = _numbered(10)
    with pytest.raises(CollectError, match="said to be 11 records, and there are 10"), ExitStack() as stack:
        list(spark.shuffled([rows], 11, _LENGTH, tmp_path / "batch", stack))
    assert not list(tmp_path.iterdir())
    with pytest.raises(StorageError, match="make the folder first"), ExitStack() as stack:
        list(spark.shuffled([rows], 10, _LENGTH, tmp_path / "nowhere" / "batch", stack))


def test_an_order_that_is_none_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, keys in enumerate(([1, 3], [2, 4])):
        column = pa.array([key.to_bytes(16, "big") for key in keys], pa.binary())
        pq.write_table(pa.table({"key": column}), tmp_path / f"part-{number:05d}-x.parquet")
    with pytest.raises(CollectError, match="has not sorted"):
        spark._keys_differ(tmp_path, 4)
    (tmp_path / "part-00001-x.parquet").unlink()
    with pytest.raises(CollectError, match="sorted 2 of 4 records"):
        spark._keys_differ(tmp_path, 4)
    assert spark._keys_differ(tmp_path, 2)


@pytest.mark.usefixtures("engine")
def test_a_shuffler_releases_by_it(world: World, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "reports.db", world.task, now=0)
    shuffler = Shuffler(
        world.task, store, tmp_path, world.shuffler_key, clock=lambda: world.task.round_seconds, permute=spark.shuffled
    )
    records = world.sealed(np.arange(30))
    shuffler.accept(1, [record(body) for body in records])
    shuffler.tick()
    _, manifest = shuffler.released(1)
    batch = BatchFile.checked(shuffler.batch_path(1), world.task, manifest)
    assert sorted(batch.records(0, 30)) == sorted(records)
    shuffler.shut()


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"shoal-dp\[spark\]"), spark.session():
        pass
