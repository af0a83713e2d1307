"""Columns of every library come in, and frames go out."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.files.encode import encode

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

COLOURS = ["red", "green", "blue"]
VALUES = ["red", "blue", "blue", "green"]
EXPECTED = [0, 2, 2, 1]

Holder = Callable[[list[Any]], Any]
HOLDERS: dict[str, Holder] = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "pandas": pd.Series,
    "polars": pl.Series,
    "pyarrow": pa.array,
    "chunked": lambda values: pa.chunked_array([values[:1], values[1:]]),
}
NAMED: dict[str, Holder] = {
    **HOLDERS,
    "pandas-categorical": lambda values: pd.Series(values, dtype="category"),
    "pandas-arrow": lambda values: pd.Series(values, dtype="string[pyarrow]"),
    "pandas-object": lambda values: pd.Series(values, dtype=object),
    "polars-categorical": lambda values: pl.Series(values, dtype=pl.Categorical),
    "polars-enum": lambda values: pl.Series(values, dtype=pl.Enum(["blue", "green", "red"])),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
}
FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "batch": pa.record_batch,
}


@pytest.mark.parametrize("holder", NAMED.values(), ids=NAMED)
def test_names(holder: Holder) -> None:
    assert encode(holder(VALUES), COLOURS).tolist() == EXPECTED


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_numbers(holder: Holder) -> None:
    assert encode(holder(EXPECTED), 3).tolist() == EXPECTED
    with pytest.raises(shoal.ParameterError, match="row 1, counted from 0: the value is none of the 3"):
        encode(holder([0, 3]), 3)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames(make: Callable[[dict[str, list[Any]]], Any]) -> None:
    frame = make({"person": [1, 2, 3, 4], "colour": VALUES})
    assert encode(frame, COLOURS, column="colour").tolist() == EXPECTED
    with pytest.raises(shoal.ParameterError, match="one column 'color'; the columns are 'person', 'colour'"):
        encode(frame, COLOURS, column="color")


@pytest.mark.parametrize("holder", [pd.Series, pl.Series, pa.array, list], ids=["pandas", "polars", "pyarrow", "list"])
def test_what_is_missing_or_unknown_is_refused_with_its_row(holder: Holder) -> None:
    with pytest.raises(shoal.ParameterError, match="row 2, counted from 0: the value is missing"):
        encode(holder(["red", "blue", None]), COLOURS)
    with pytest.raises(shoal.ParameterError, match=r"row 1, .* the value is none of the 3 .* spaces or capitals"):
        encode(holder(["red", "Red"]), COLOURS)


def test_rows_are_counted_across_chunks() -> None:
    with pytest.raises(shoal.ParameterError, match="row 3"):
        encode(pa.chunked_array([["red", "blue"], ["red", "mauve"]]), COLOURS)


@pytest.mark.parametrize(("values", "categories"), [(object(), 3), ([[1], [2]], 3), (["red"], "red"), ([1], 1)])
def test_what_is_no_column_is_refused(values: Any, categories: Any) -> None:
    with pytest.raises(shoal.ParameterError):
        encode(values, categories)


def test_no_rows_are_no_numbers() -> None:
    assert encode([], COLOURS).tolist() == encode(pa.array([], pa.string()), COLOURS).tolist() == []


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_column_becomes_an_estimate_in_a_frame_of_any_kind(holder: Holder) -> None:
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=4)
    numbers = encode(holder(VALUES * 500), COLOURS)
    estimate = mechanism.estimate(mechanism.aggregate(mechanism.randomize(numbers)))
    pandas, polars, arrow = (estimate.to_frame(COLOURS, kind=kind) for kind in ("pandas", "polars", "arrow"))
    assert pandas["category"].tolist() == polars["category"].to_list() == arrow["category"].to_pylist() == COLOURS
    assert pandas["frequency"].tolist() == polars["frequency"].to_list() == estimate.frequencies.tolist()
    assert arrow.schema.field("upper").type == pa.float64()
    with pytest.raises(shoal.ParameterError, match="kind"):
        estimate.to_frame(kind="dask")


def test_every_result_is_an_arrow_stream() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    assert pl.DataFrame(curve).equals(curve.to_frame(kind="polars"))
    assert pa.table(curve).equals(curve.to_frame(kind="arrow"))


DAYS = [date(2026, 1, 1), date(2026, 1, 2)]
TIMES = [datetime(2026, 1, 1, 12), datetime(2026, 1, 2, 13, 30)]
LABELLED: dict[str, tuple[Any, list[Any]]] = {
    "integers": (pd.Series([30, 10, 10]), [10, 30]),
    "nullable integers": (pd.Series([30, 10, 10], dtype="Int16"), [10, 30]),
    "integers as text": (["30", "10", "10"], [10, 30]),
    "floats": (np.array([0.5, 0.1, 0.1]), [0.1, 0.5]),
    "booleans": (pd.Series([True, False, False]), [False, True]),
    "truth in a list": ([True, False, False], [False, True]),
    "decimals": (pa.array([Decimal("1.5"), Decimal("0.5"), Decimal("0.5")]), [Decimal("0.5"), Decimal("1.5")]),
    "days": (pl.Series([DAYS[1], DAYS[0], DAYS[0]]), DAYS),
    "times": (pd.Series([TIMES[1], TIMES[0], TIMES[0]]), TIMES),
    "timestamps": (pd.Series([TIMES[1], TIMES[0], TIMES[0]]), [pd.Timestamp(time) for time in TIMES]),
    "zones": (
        pd.Series([TIMES[1], TIMES[0], TIMES[0]]).dt.tz_localize("Europe/Paris"),
        [pd.Timestamp(time, tz="Europe/Paris") for time in TIMES],
    ),
    "categorical integers": (pd.Series([30, 10, 10], dtype="category"), [10, 30]),
}


@pytest.mark.parametrize(("values", "labels"), LABELLED.values(), ids=LABELLED)
def test_labels_may_be_of_any_type(values: Any, labels: list[Any]) -> None:
    assert encode(values, labels).tolist() == [1, 0, 0]


def test_an_estimate_is_labelled_with_any_type() -> None:
    mechanism = shoal.RandomizedResponse(categories=2, local_epsilon=4)
    estimate = mechanism.estimate(mechanism.aggregate(mechanism.randomize(encode([True] * 50, [False, True]))))
    assert estimate.to_frame([False, True])["category"].tolist() == [False, True]
    assert estimate.to_frame(DAYS, kind="arrow")["category"].to_pylist() == DAYS
    assert "2026-01-02" in estimate.chart(names=DAYS).svg()


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        ([10, 30], [10.5, 30.0], "the column holds int64, and the categories are double"),
        ([DAYS[0]], TIMES, "the column holds date32"),
        (pa.array([0.1], pa.float32()), [0.1, 0.2], "the column holds float"),
        (pd.Series(pd.cut([1, 5], [0, 2, 9])), ["(0, 2]", "(2, 9]"], "the categories are text; make the column text"),
        ([1], [1, "a"], "labels of one type"),
        (["a"], ["a", 1], "labels of one type"),
        ([1], [1, 1], "label 2 is missing or repeated"),
        ([1], [1, None], "label 2 is missing or repeated"),
        ([1.0], [1.0, float("nan")], "label 2 is missing or repeated"),
        ([1], [1, []], "label 2 is a list"),
        ([1], [7], "at least 2"),
        ([1], b"ab", "a number or a list of labels"),
        (pd.DataFrame({"secret": ["red"]}), COLOURS, "got DataFrame; of a frame, name the `column`"),
        (pl.LazyFrame({"secret": ["red"]}), COLOURS, "got LazyFrame; of a frame, name the `column`"),
        ([1, "purple"], 3, "one column of values of one type, got list"),
    ],
)
def test_what_cannot_be_looked_up_is_refused_without_a_value(values: Any, labels: Any, message: str) -> None:
    with pytest.raises(shoal.ParameterError, match=message) as caught:
        encode(values, labels)
    assert "purple" not in str(caught.value) and "--categories" not in str(caught.value)


def test_a_mechanism_does_not_name_the_value() -> None:
    """Nor does one for numbers: a value belongs to a person, and errors are logged."""
    with pytest.raises(shoal.ParameterError, match=r"values\[1\] is none of the categories") as caught:
        shoal.RandomizedResponse(categories=3, local_epsilon=1).randomize([0, 4711])
    assert "4711" not in str(caught.value)
    with pytest.raises(shoal.ParameterError, match=r"values\[1\] is not between 0 and 9") as caught:
        shoal.Laplace(lower=0, upper=9, local_epsilon=1).randomize([0, 4711])
    assert "4711" not in str(caught.value)
