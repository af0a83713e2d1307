"""A chart, built line by line, and written as SVG that needs nothing else: no script, no font, no library."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.charts.chart_parts import Band, Bars, Dots, Level, Line, Mark, floats
from shoal.charts.colours import HUES, KINDS, Stroke
from shoal.charts.scale import Axis, Scale
from shoal.errors import ParameterError
from shoal.shown import printable

_ROW = 26.0
"""The height of a horizontal bar with its gap, in pixels."""


@dataclass
class Chart:
    """A chart: two axes, a title, and what is drawn.

    Values that are NaN or infinite are left out, and so are those that are not above 0 on a log scale. What is outside
    of fixed ends is cut off.

    Attributes
    ----------
    x, y : Axis
        Horizontal and vertical; one of them may have names, for bars.
    title : str
        In bold above the picture, and its name for a screen reader.
    description : str
        What is to be seen, in a sentence or two, for those who do not see it.
    note, caption : str
        In smaller letters, below the title and below the picture.
    width, height : float
        In pixels; it scales. A chart of horizontal bars is as high as they need, if no height is given.

    Examples
    --------
    >>> chart = Chart(Axis("people", "log"), Axis("central ε", "log"), "Shuffling", "ε falls with more people.")
    >>> chart.line([1e3, 1e4, 1e5], [0.2, 0.05, 0.015], "swap-chains", kind="guarantee")
    >>> chart.level(1, "ε₀ = 1 alone")
    >>> chart.mark(1e4, 0.05, "ε = 0.05")
    >>> chart.svg()[:40]
    '<svg xmlns="http://www.w3.org/2000/svg" '
    """

    x: Axis
    y: Axis
    title: str
    description: str = ""
    note: str = ""
    caption: str = ""
    width: float = 640.0
    height: float | None = None
    lines: list[Line] = field(default_factory=list, init=False)
    bands: list[Band] = field(default_factory=list, init=False)
    columns: list[Bars] = field(default_factory=list, init=False)
    dotted: list[Dots] = field(default_factory=list, init=False)
    marks: list[Mark] = field(default_factory=list, init=False)
    levels: list[Level] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.x.names and self.y.names:
            raise ParameterError("only one axis of a chart can have names")
        if not 200 <= self.width <= 4000 or not (self.height is None or 120 <= self.height <= 20_000):
            raise ParameterError(
                f"a chart is 200 to 4000 pixels wide and 120 to 20,000 high, got {self.width!r} and {self.height!r}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bars."""
        return self.x.names or self.y.names

    @property
    def pixels_high(self) -> float:
        """The height: as asked for, or as bars need it."""
        if self.height is not None:
            return self.height
        return 96 + _ROW * len(self.y.names) + 18 * len(self.levels) if self.y.names else 0.62 * self.width

    def _stroke(self, kind: str | Stroke) -> Stroke:
        """Return how this kind is drawn; the next hue that no other line has, where it has none of its own."""
        if isinstance(kind, Stroke):
            return kind
        if kind not in KINDS:
            from shoal.checks import known  # which takes numpy along, and a chart needs none

            known(tuple(KINDS), kind=kind)
        stroke = KINDS[kind]
        if stroke.colour:
            return stroke
        used = [line.stroke.colour for line in self.lines] + [band.stroke.colour for band in self.bands]
        return stroke._replace(colour=min(HUES, key=used.count))

    def line(self, xs: Iterable[float], ys: Iterable[float], label: str = "", kind: str | Stroke = "series") -> None:
        """Draw a line; it has its label at its end, or in a key where there is no room."""
        along = floats(xs)
        self.lines.append(Line(along, floats(ys, len(along), ys=ys), printable(label), self._stroke(kind)))

    def band(
        self,
        xs: Iterable[float],
        lower: Iterable[float],
        upper: Iterable[float],
        label: str = "",
        kind: str = "series",
    ) -> None:
        """Fill what is between two lines."""
        along = floats(xs)
        low, high = floats(lower, len(along), lower=lower), floats(upper, len(along), upper=upper)
        self.bands.append(Band(along, low, high, printable(label), self._stroke(kind)))

    def bars(
        self,
        values: Iterable[float],
        *,
        lower: Iterable[float] = (),
        upper: Iterable[float] = (),
        label: str = "",
        interval: str = "",
        texts: Sequence[str] = (),
        kind: str | Sequence[str] = "guarantee",
    ) -> None:
        """Draw a bar for each name of an axis, with its error bar, and a text at the end of a horizontal one.

        Parameters
        ----------
        values : iterable of float
            One for each name; NaN draws none.
        lower, upper : iterable of float
            The ends of the error bars, or nothing.
        label, interval : str
            What the bars and the error bars are, for the key.
        texts : sequence of str
            Beside each bar, if they are horizontal.
        kind : str or sequence of str
            Of all of them, or of each.
        """
        size = len(self.names)
        if not size:
            raise ParameterError("bars need an axis with names")
        kinds = [kind] * size if isinstance(kind, str) else list(kind)
        ends = [floats(end) for end in (lower, upper)]
        for name, given in (("lower", ends[0]), ("upper", ends[1]), ("texts", texts), ("kind", kinds)):
            if len(given) not in ((size,) if name == "kind" else (0, size)):
                raise ParameterError(f"{name} must be {size}, one for each name, got {len(given)}", name)
        strokes = tuple(map(self._stroke, kinds))
        words = tuple(map(printable, texts))
        self.columns.append(
            Bars(floats(values, size), ends[0], ends[1], printable(label), printable(interval), words, strokes)
        )

    def dots(self, values: Iterable[float], label: str, kind: str = "budget") -> None:
        """Draw a short stroke at a value of each name, such as the truth beside an estimate."""
        if not self.names:
            raise ParameterError("dots need an axis with names")
        self.dotted.append(Dots(floats(values, len(self.names)), printable(label), self._stroke(kind)))

    def mark(self, x: float, y: float, text: str = "") -> None:
        """Mark a point, with its number beside it."""
        (along,), (up,) = floats([x]), floats([y])
        self.marks.append(Mark(along, up, printable(text)))

    def level(self, value: float, label: str = "", kind: str | Stroke = "local", *, upright: bool = False) -> None:
        """Draw a line across at a value of the axis of values, or upright at one of the horizontal axis."""
        (at,) = floats([value])
        self.levels.append(Level(at, printable(label), self._stroke(kind), upright or bool(self.y.names)))

    def scales(self) -> tuple[Scale, Scale]:
        """Return both axes with ends that show everything, where none are fixed."""
        values = [value for bars in self.columns for part in (bars.values, bars.lower, bars.upper) for value in part]
        values += [value for dots in self.dotted for value in dots.values]
        along = [x for line in self.lines for x in line.xs] + [x for band in self.bands for x in band.xs]
        along += [mark.x for mark in self.marks]
        up = [y for line in self.lines for y in line.ys] + [mark.y for mark in self.marks]
        up += [y for band in self.bands for part in (band.lower, band.upper) for y in part]
        along += [level.value for level in self.levels if level.upright]
        up += [level.value for level in self.levels if not level.upright]
        upright, flat = bool(self.x.names), bool(self.y.names)
        x = Scale.fitted(self.x, along + (values if flat else []), zero=bool(self.columns) and flat)
        y = Scale.fitted(self.y, up + (values if upright else []), zero=bool(self.columns) and upright)
        return x, y

    def svg(self, *, style: bool = True) -> str:
        """Return the chart as an SVG element.

        Its plot area, scales and all points are in attributes that begin with ``data-``, so that a script can show the
        values at a cursor; it has none itself.

        Parameters
        ----------
        style : bool
            Whether it has a style sheet of its own, with dark colours for those who prefer them. A page that has
            `shoal.charts.STYLE` already, or may not have any within, says no.
        """
        from shoal.charts.svg_writer import written

        return written(self, style=style)

    def plot(self, axes: Any = None) -> Any:
        """Draw the same chart with matplotlib, on these axes or on new ones, and return them."""
        from shoal.charts.axes_painter import painted

        return painted(self, axes)
