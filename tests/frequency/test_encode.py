"""Columns of every library come in, and frames go out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.frequency.encode import encode

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
    with pytest.raises(shoal.ParameterError, match="row 1, counted from 0: the value is none of the 3 .* spaces or capitals"):
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
