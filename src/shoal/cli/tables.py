"""What an estimate leaves behind: a table of all categories, and a picture."""

import csv
import io
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.charts.svg_chart import Chart
from shoal.cli.pictures import save_plot
from shoal.durable_file import check_output, whole_file
from shoal.errors import ParameterError
from shoal.files.table import arrow

__all__ = ["MOST_DRAWN", "TABLES", "check_suffix", "draw_estimate", "write_table"]

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
