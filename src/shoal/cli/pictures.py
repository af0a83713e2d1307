"""Pictures in files: checked before anything is computed, and written whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import shoal
from shoal.durable_file import whole_file
from shoal.errors import ParameterError

__all__ = ["PICTURES", "check_plot", "draw", "save_plot"]

PICTURES = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Refuse a picture of an unknown kind."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ParameterError(f"plot must be a .png, .svg or .pdf file, got {str(path)!r}", parameter="plot")


def draw(path: Path | None, curves: Sequence[shoal.PrivacyCurve | shoal.Comparison], delta: float) -> Path | None:
    """Draw ε against δ into this file, if there is one, and return its path."""
    if path is None:
        return None
    check_plot(path)
    if isinstance(curves, shoal.BoundTable):
        return save_plot(path, curves.plot())
    first = next(curve for curve in curves if isinstance(curve, shoal.PrivacyCurve))
    return save_plot(path, first.plot(others=[curve for curve in curves if curve is not first], delta=delta))


def save_plot(path: Path, axes: Any, *, inputs: Sequence[Path] = ()) -> Path:
    """Write a picture, never over one of the inputs, and return its path."""
    with whole_file(path, inputs=inputs) as file:
        axes.figure.savefig(file, format=path.suffix.lower()[1:], dpi=160)
    return path
