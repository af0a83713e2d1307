"""Pictures in files: checked before anything is computed, and written whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import shoal
from shoal.charts.svg_chart import Chart
from shoal.durable_file import whole_file
from shoal.errors import ParameterError

__all__ = ["PICTURES", "check_plot", "draw", "save_plot"]

PICTURES = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Refuse a picture of an unknown kind, or in a folder that does not exist."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise ParameterError(f"plot must be a .png, .svg or .pdf file, got {str(path)!r}", "plot")
    if not path.parent.is_dir():  # before a ledger records a round, and before a long computation
        raise ParameterError(f"plot must be in a folder that exists, got {str(path)!r}; make the folder first", "plot")


def draw(path: Path | None, curves: Sequence[shoal.PrivacyCurve | shoal.Comparison], delta: float) -> Path | None:
    """Draw ε against δ into this file, if there is one, and return its path."""
    if path is None:
        return None
    check_plot(path)
    if isinstance(curves, shoal.BoundTable):
        return save_plot(path, curves.chart())
    first = next(curve for curve in curves if isinstance(curve, shoal.PrivacyCurve))
    if first.local_epsilon == 0:
        raise ParameterError("local_epsilon must be greater than 0 to draw: at 0, ε is 0 everywhere", "local_epsilon")
    return save_plot(path, first.chart(others=[curve for curve in curves if curve is not first], delta=delta))


def save_plot(path: Path, picture: Any, *, inputs: Sequence[Path] = ()) -> Path:
    """Write a picture, never over one of the inputs, and return its path.

    Parameters
    ----------
    path : Path
        A .png, .svg or .pdf file.
    picture : Chart or object
        A chart, which needs no library to become SVG and matplotlib for the others; or matplotlib axes.
    inputs : sequence of Path
        Files that it must not replace.
    """
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
