"""Rounds and columns counted on Spark; it takes ten seconds to start, and so there is one for all tests."""

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.collect import spark
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.counting import SealedRound
from shoal.collect.spark import count_column, estimate_frame
from shoal.errors import MissingExtraError
from tests.collect.world import World, make_exact_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java"),
]
COLOURS = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_SPARK_MASTER", "local[2]")
        with spark.session() as running:
            yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"))


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
    sealed = SealedRound.of(world.task, 1, world.task.mechanism)
    found = spark.count(batch, sealed, key)
    local = sealed.count(key, b"".join(records))
    np.testing.assert_array_equal(found.values, local.values)
    np.testing.assert_array_equal(found.values[:701], [2] * 500 + [1] * 200 + [0])
    assert (found.valid, found.undecryptable, found.malformed) == (1200, 100, 0)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"shoal-dp\[spark\]"), spark.session():
        pass


def _frame(engine: Any, rows: int = 30_000) -> Any:
    """Return people of whom a half likes blue, a third green, and the rest red."""
    code = "CASE WHEN id % 6 < 3 THEN 'blue' WHEN id % 6 < 5 THEN 'green' ELSE 'red' END AS colour"
    return engine.range(0, rows, 1, 4).selectExpr("id AS person", code)


def test_names_become_an_estimate(engine: Any) -> None:
    """Each of three estimates is off by more than six standard errors with probability below 1e-8."""
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=2)
    frame = _frame(engine)
    counts = count_column(frame, "colour", mechanism, categories=COLOURS)
    assert counts.reports == 30_000
    estimate = mechanism.estimate(counts)
    assert np.all(np.abs(estimate.frequencies - [1 / 6, 1 / 3, 1 / 2]) < 6 * estimate.standard_errors)
    told = estimate_frame(frame, estimate, categories=COLOURS)
    rows = {row["category"]: row["frequency"] for row in told.orderBy("category").collect()}
    assert rows == dict(zip(COLOURS, estimate.frequencies.tolist(), strict=True))


def test_numbers_and_an_unary_encoding(engine: Any) -> None:
    mechanism = shoal.UnaryEncoding(categories=5, local_epsilon=3)
    frame = engine.range(0, 20_000, 1, 3).selectExpr("id % 5 AS answer")
    estimate = mechanism.estimate(count_column(frame, "answer", mechanism))
    assert np.all(np.abs(estimate.frequencies - 0.2) < 6 * estimate.standard_errors)
    assert estimate_frame(frame, estimate).schema["category"].dataType.simpleString() == "bigint"


def test_reports_are_random_and_more_than_the_values(engine: Any) -> None:
    """Counts of two runs are the same with probability below 1e-6, and those of the values are never meant."""
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    first, second = (count_column(_frame(engine), "colour", mechanism, categories=COLOURS) for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ("VALUES ('red'), (NULL) AS people(colour)", "is missing"),
        ("VALUES ('red'), ('mauve') AS people(colour)", "none of the categories"),
        ("VALUES ('red') AS people(colour) WHERE false", "no rows"),
    ],
)
def test_what_cannot_be_counted_is_refused_without_the_value(engine: Any, rows: str, word: str) -> None:
    frame = engine.sql(f"SELECT colour FROM {rows}")
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    with pytest.raises(shoal.ParameterError, match=word) as raised:
        count_column(frame, "colour", mechanism, categories=COLOURS)
    assert "mauve" not in str(raised.value)


def test_labels_of_other_types(engine: Any) -> None:
    """Each count is off by more than six standard errors with probability below 1e-8."""
    frame = engine.sql("SELECT date'2026-01-01' + int(id % 2) AS day, id % 2 = 0 AS even FROM range(9000)")
    mechanism = shoal.RandomizedResponse(categories=2, local_epsilon=6)
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    for column, labels in (("day", days), ("even", [False, True])):
        estimate = mechanism.estimate(count_column(frame, column, mechanism, categories=labels))
        assert np.all(np.abs(estimate.frequencies - 0.5) < 6 * estimate.standard_errors)
        told = estimate_frame(frame, estimate, categories=labels)
        assert [row["category"] for row in told.collect()] == labels


def test_a_person_has_one_row_or_is_charged(engine: Any) -> None:
    frame = engine.sql("SELECT id % 10 AS who, 'red' AS `the.colour` FROM range(0, 1000, 1, 4)")
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    kind: dict[str, Any] = {"categories": COLOURS, "person": "who"}
    with pytest.raises(shoal.ParameterError, match=r"more than one row; .*rows_per_person=M"):
        count_column(frame, "the.colour", mechanism, **kind)
    for most in (1, 7):
        assert count_column(frame, "the.colour", mechanism, **kind, rows_per_person=most).reports == 10 * most
    once = frame.dropDuplicates(["who"])
    assert count_column(once, "the.colour", mechanism, **kind).reports == 10
    gap = engine.sql("SELECT nullif(id, 3) AS who, 'red' AS `the.colour` FROM range(9)")
    with pytest.raises(shoal.ParameterError, match="no person in a row"):
        count_column(gap, "the.colour", mechanism, **kind, rows_per_person=2)


def test_rows_without_a_person_are_refused(engine: Any) -> None:
    """Also where a missing number has become NaN, as from pandas, or a missing text an empty one, as in a CSV file."""
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    for nobody in ("CAST('NaN' AS DOUBLE)", "CAST('NaN' AS FLOAT)", "''", "CAST('' AS BINARY)"):
        frame = engine.sql(f"SELECT 0 AS value, {nobody} AS who")
        with pytest.raises(shoal.ParameterError, match="has no person in a row"):
            count_column(frame, "value", mechanism, person="who", rows_per_person=2)


def test_types_are_refused_before_any_job_runs(engine: Any) -> None:
    colour = "string(raise_error('a job ran')) AS colour"
    frame = engine.sql(f"SELECT array('red') AS list, 1.5D AS size, NULL AS nothing, {colour}")
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    words = {"list": "array<string>", "size": "double, and the categories are text", "nothing": "nothing but missing"}
    for column, word in words.items():
        with pytest.raises(shoal.ParameterError, match=word):
            count_column(frame, column, mechanism, categories=COLOURS)
    laplace: Any = shoal.Laplace(lower=0, upper=1, local_epsilon=1)
    with pytest.raises(shoal.ParameterError, match="mechanism must have categories"):
        count_column(frame, "size", laplace)
    with pytest.raises(shoal.ParameterError, match="must come with person"):
        count_column(frame, "colour", mechanism, categories=COLOURS, rows_per_person=2)
    with pytest.raises(shoal.ParameterError, match="another column"):
        count_column(frame, "colour", mechanism, categories=COLOURS, person="colour")


def test_wrong_questions(engine: Any) -> None:
    frame, mechanism = _frame(engine, 10), shoal.RandomizedResponse(categories=3, local_epsilon=1)
    with pytest.raises(shoal.ParameterError, match="one column 'color'"):
        count_column(frame, "color", mechanism, categories=COLOURS)
    with pytest.raises(shoal.ParameterError, match="2 names, and the mechanism has 3"):
        count_column(frame, "colour", mechanism, categories=["red", "green"])
