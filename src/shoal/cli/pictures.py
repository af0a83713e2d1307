"""What an answer leaves behind in files: a picture, and a table of all categories."""

import csv
import io
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from shoal.charts.svg_chart import Chart
from shoal.curve import BoundTable, Comparison
from shoal.durable_file import check_output, whole_file
from shoal.errors import ParameterError

PICTURES = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Refuse a picture of an unknown kind, or in a folder that does not exist."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise ParameterError(f"plot must be a .png, .svg or .pdf file, got {str(path)!r}", "plot")
    if not path.parent.is_dir():  # before a ledger records a round, and before a long computation
        raise ParameterError(f"plot must be in a folder that exists, got {str(path)!r}; make the folder first", "plot")


def draw(path: Path | None, curves: Sequence[shoal.PrivacyCurve | Comparison], delta: float) -> Path | None:
    """Draw ε against δ into this file, if there is one, and return its path."""
    if path is None:
        return None
    check_plot(path)
    if isinstance(curves, BoundTable):
        return save_plot(path, curves.chart())
    first = next(curve for curve in curves if isinstance(curve, shoal.PrivacyCurve))
    if first.local_epsilon == 0:
        raise ParameterError("local_epsilon must be greater than 0 to draw: at 0, ε is 0 everywhere", "local_epsilon")
    return save_plot(path, first.chart(others=[curve for curve in curves if curve is not first], delta=delta))


def save_plot(path: Path, picture: Any, *, inputs: Sequence[Path] = ()) -> Path:
    """Write a picture, never over one of the inputs, and return its path."""
    kind = path.suffix.lower()[1:]
    if isinstance(picture, Chart) and kind == "svg":
        data = picture.svg().encode()
        with whole_file(path, inputs=inputs) as file:
            file.write(data)
        return path
    axes = picture.plot() if isinstance(picture, Chart) else picture
    with whole_file(path, inputs=inputs) as file:
        axes.figure.savefig(file, format=kind, dpi=160)
    return path


TABLES = (".csv", ".parquet", ".json")
MOST_DRAWN = 1000


def check_suffix(name: str, path: Path | None, suffixes: Sequence[str], inputs: Sequence[Path]) -> None:
    """Refuse a file of an unknown kind, or one that is an input, before anything is computed."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise ParameterError(
            f"{name} must be a {', '.join(suffixes[:-1])} or {suffixes[-1]} file, got {str(path)!r}", name
        )
    check_output(path, inputs)


def write_table(path: Path, facts: dict[str, Any], columns: dict[str, Any], inputs: Sequence[Path]) -> None:
    """Write the columns into a .csv or .parquet file, or all facts into a .json file."""
    suffix = path.suffix.lower()
    with whole_file(path, inputs=inputs) as file:
        if suffix == ".parquet":
            from shoal.files.table import arrow

            pa = arrow()
            from pyarrow import parquet

            parquet.write_table(pa.table(columns), file)
        elif suffix == ".json":
            file.write(json.dumps(facts, indent=2, ensure_ascii=False).encode() + b"\n")
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))
            text.detach()


def draw_estimate(path: Path | None, chart: Callable[[], Chart], inputs: Sequence[Path]) -> None:
    """Draw the chart that `chart` returns into a file, if there is to be one."""
    if path is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # letters that the font does not have are drawn as boxes
            save_plot(path, chart(), inputs=inputs)
