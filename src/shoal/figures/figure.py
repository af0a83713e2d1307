"""What a figure is: pieces to compute in any order, the table they make, and how it is painted."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import RangeError
from shoal.figures.palette import BLACK, Ink

__all__ = ["Array", "Axis", "Curve", "CurveFigure", "Figure", "Mark", "Piece", "pointwise"]

Array = NDArray[np.float64]


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
    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Paint the table on an empty matplotlib figure."""


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
    """

    axis: Axis
    label: str
    curves: tuple[Curve, ...]
    scale: Literal["log", "linear"] = "log"
    marks: tuple[Mark, ...] = ()
    upright: bool = False

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

    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Draw the curves, with a legend at the right."""
        from matplotlib.ticker import NullFormatter

        axes = canvas.add_subplot()
        positions, *columns = ([row[column] for row in rows] for column in range(len(self.header)))
        for curve, column in zip(self.curves, columns, strict=True):
            values = [math.nan if value == 0 and self.scale == "log" else value for value in column]
            along, up = (values, positions) if self.upright else (positions, values)
            colour, style, width = curve.ink
            # Where two bounds coincide, the thinner line lies on top and both are seen.
            axes.plot(
                along, up, label=curve.label, color=colour, linestyle=style, linewidth=width, zorder=3 - width / 10
            )
        for mark in self.marks:
            axes.axhline(mark.height, label=mark.label, color=mark.colour, linestyle=(0, (1, 2)), linewidth=1.1)
        names = (self.label, self.axis.label) if self.upright else (self.axis.label, self.label)
        scales = (self.scale, self.axis.scale) if self.upright else (self.axis.scale, self.scale)
        axes.set(xlabel=names[0], ylabel=names[1], xscale=scales[0], yscale=scales[1])
        axes.margins(x=0.02)
        axes.grid(alpha=0.25, linewidth=0.6)
        for line in (axes.xaxis, axes.yaxis):
            line.set_minor_formatter(NullFormatter())
        axes.spines[["top", "right"]].set_visible(False)
        canvas.legend(loc="outside right upper", frameon=False, handlelength=2.6, labelspacing=0.7)


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
