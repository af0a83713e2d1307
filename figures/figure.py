"""What a figure is: pieces to compute in any order, the table they make, and how it is painted."""

import io
import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from figures.palette import BLACK, GREY, Ink
from shoal import charts
from shoal.digits import number_text, rounded_down, rounded_up
from shoal.errors import RangeError

__all__ = ["Array", "Axis", "Curve", "CurveFigure", "Dot", "Figure", "Mark", "PaintedFigure", "Piece", "pointwise"]

Array = NDArray[np.float64]

_DOTS_PER_INCH = 120
_WIDE, _HIGH = 800.0, 480.0
"""Of a picture, in pixels, a 96th of an inch."""


class Piece(NamedTuple):
    """Some points of one curve, to be computed together."""

    part: int
    positions: Array


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """A figure: a table of numbers and a picture of it.

    Attributes
    ----------
    name : str
        The name of its files.
    title, caption : str
        What is written above and below the picture.
    """

    name: str
    title: str
    caption: str

    @property
    @abstractmethod
    def header(self) -> list[str]:
        """The names of the columns of the table."""

    @abstractmethod
    def pieces(self, points: int | None = None) -> list[Piece]:
        """Return what is to be computed, in independent pieces, for this many points along the axis."""

    @abstractmethod
    def solve(self, piece: Piece) -> Array:
        """Return the numbers of a piece."""

    @abstractmethod
    def rows(self, pieces: Sequence[Piece], answers: Sequence[Array]) -> list[list[Any]]:
        """Return the rows of the table; NaN where a bound does not apply."""

    @abstractmethod
    def pictures(self, rows: Sequence[Sequence[Any]]) -> dict[str, bytes]:
        """Return the table as pictures: what a file has that ends with "png", and one that ends with "svg"."""


class PaintedFigure(Figure):
    """A figure that is painted with matplotlib, whatever it is."""

    @abstractmethod
    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Paint the table on an empty matplotlib figure."""

    def pictures(self, rows: Sequence[Sequence[Any]]) -> dict[str, bytes]:
        """Return both, with the title above and the caption below; the same numbers give the same bytes."""
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        # Fixed, so that the settings of whoever calls do not change the figures.
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, "svg.hashsalt": "shoal", "font.size": 9}):
            canvas = Canvas(figsize=(8.6, 4.6), layout="constrained")
            self.paint(canvas, rows)
            canvas.suptitle(self.title, x=0.01, ha="left", fontsize=10.5, fontweight="bold", color=BLACK)
            words = textwrap.fill(self.caption, 140)
            canvas.supxlabel(words, x=0.01, ha="left", fontsize=8.25, color=GREY, linespacing=1.4)
            return {
                "png": _saved(canvas, "png", {"Software": None}),
                "svg": _saved(canvas, "svg", {"Date": None, "Creator": None}),
            }


def _saved(canvas: Any, suffix: str, metadata: dict[str, None]) -> bytes:
    content = io.BytesIO()
    canvas.savefig(content, format=suffix, dpi=_DOTS_PER_INCH, metadata=metadata)
    return content.getvalue()


class Axis(NamedTuple):
    """An axis with the points at which the curves are computed, half of them in a dense range if there is one."""

    label: str
    column: str
    low: float
    high: float
    points: int = 31
    scale: Literal["log", "linear"] = "log"
    whole: bool = False
    dense: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()

    def positions(self, points: int | None = None) -> Array:
        """Return the points, or as many as asked for."""
        space = np.geomspace if self.scale == "log" else np.linspace
        points = points or self.points
        inside = points // 2 if self.dense else 0
        positions = [space(self.low, self.high, points - inside), space(*(self.dense or (1.0, 1.0)), inside)]
        return np.unique(np.round(np.concatenate(positions)) if self.whole else np.concatenate(positions))


class Curve(NamedTuple):
    """A curve: its values at many positions at once, NaN where it does not apply."""

    label: str
    values: Callable[[Array], Array]
    ink: Ink
    chunk: int = 4


class Mark(NamedTuple):
    """A dotted line across the picture, at a height."""

    height: float
    label: str | None
    colour: str = BLACK


class Dot(NamedTuple):
    """A point of a curve that carries its value, if it is among those that are computed.

    Attributes
    ----------
    curve : str
        The label of the curve.
    position : float
        On the axis.
    text : str
        With {} for the value.
    limit : bool
        Whether it is a lower limit, which is rounded down; all else is rounded up.
    """

    curve: str
    position: float
    text: str = "{}"
    limit: bool = False


@dataclass(frozen=True, kw_only=True)
class CurveFigure(Figure):
    """Curves over an axis.

    Attributes
    ----------
    axis : Axis
        Where the curves are computed.
    label : str
        What they are values of.
    scale : {"log", "linear"}
        How these values are drawn.
    curves, marks : tuple of Curve, tuple of Mark
        The curves, and lines across.
    upright : bool
        Whether `axis` is the vertical one.
    value_ticks : tuple of float
        The values with a line of the grid, if they are not to be chosen.
    dots : tuple of Dot
        Points with their values.
    """

    axis: Axis
    label: str
    curves: tuple[Curve, ...]
    scale: Literal["log", "linear"] = "log"
    marks: tuple[Mark, ...] = ()
    upright: bool = False
    value_ticks: tuple[float, ...] = ()
    dots: tuple[Dot, ...] = ()

    @property
    def header(self) -> list[str]:
        """The axis, then the curves."""
        return [self.axis.column, *(curve.label for curve in self.curves)]

    def pieces(self, points: int | None = None) -> list[Piece]:
        """Return every curve, cut into chunks."""
        positions = self.axis.positions(points)
        return [
            Piece(part, positions[start : start + curve.chunk])
            for part, curve in enumerate(self.curves)
            for start in range(0, len(positions), curve.chunk)
        ]

    def solve(self, piece: Piece) -> Array:
        """Return the values of a curve at some positions."""
        return self.curves[piece.part].values(piece.positions)

    def rows(self, pieces: Sequence[Piece], answers: Sequence[Array]) -> list[list[Any]]:
        """Return a row for each position: the position, then the curves."""
        columns: list[list[float]] = [[] for _ in self.curves]
        positions: list[float] = []
        for piece, answer in zip(pieces, answers, strict=True):
            columns[piece.part].extend(answer.tolist())
            if piece.part == 0:
                positions.extend(piece.positions.tolist())
        first: list[Any] = [int(position) for position in positions] if self.axis.whole else list(positions)
        return [list(row) for row in zip(first, *columns, strict=True)]

    def chart(self, rows: Sequence[Sequence[Any]]) -> charts.Chart:
        """Return the curves, each with its label at its end, and the points that carry their values."""
        positions, *columns = ([row[column] for row in rows] for column in range(len(self.header)))
        named = (self.axis.label, self.axis.scale, self.axis.ticks), (self.label, self.scale, self.value_ticks)
        across, up = (
            charts.Axis(label, scale, ticks=tuple((tick, number_text(tick)) for tick in ticks))
            for label, scale, ticks in (named[::-1] if self.upright else named)
        )
        names = ", ".join(curve.label for curve in self.curves)
        chart = charts.Chart(
            across, up, self.title, f"{self.label}: {names}.", caption=self.caption, width=_WIDE, height=_HIGH
        )
        for curve, column in zip(self.curves, columns, strict=True):
            pair = (column, positions) if self.upright else (positions, column)
            chart.line(*pair, curve.label, curve.ink.stroke)
        for mark in self.marks:
            stroke = Ink(mark.colour, "dotted", 1.5).stroke
            chart.level(mark.height, mark.label or "", stroke)
        for dot in self.dots:
            column = columns[[curve.label for curve in self.curves].index(dot.curve)]
            for position, value in zip(positions, column, strict=True):
                if math.isclose(position, dot.position, rel_tol=1e-9) and math.isfinite(value):
                    number = (rounded_down if dot.limit else rounded_up)(value, 3)
                    point = (value, position) if self.upright else (position, value)
                    chart.mark(*point, dot.text.format(number))
        return chart

    def pictures(self, rows: Sequence[Sequence[Any]]) -> dict[str, bytes]:
        """Return the chart by matplotlib, and as an SVG of its own, which follows light and dark."""
        import matplotlib

        chart = self.chart(rows)
        with matplotlib.rc_context({**matplotlib.rcParamsDefault}):
            return {"png": _saved(chart.plot().figure, "png", {"Software": None}), "svg": chart.svg().encode()}


def pointwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return the function of one position as one of many, NaN where it is out of range."""

    def values(positions: Array) -> Array:
        return np.array([_value(function, position) for position in positions.tolist()], dtype=np.float64)

    return values


def _value(function: Callable[[float], float], position: float) -> float:
    try:
        return function(position)
    except RangeError:
        return math.nan
