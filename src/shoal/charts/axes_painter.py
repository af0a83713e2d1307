"""A chart by matplotlib: plain lines, bars and a legend in the colours of the SVG, with the numbers on real axes."""

import math
from textwrap import fill
from typing import TYPE_CHECKING, Any

from shoal.charts.chart_parts import Bars
from shoal.charts.colours import LIGHT, Stroke
from shoal.charts.scale import Scale
from shoal.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

_DOTS = 96.0
"""Pixels of a chart to an inch."""
_POINTS = 72 / _DOTS
_TITLE, _LABEL, _TICK = 14 * _POINTS, 12 * _POINTS, 11 * _POINTS
_MOST_LEGEND = 12
"""Entries of a legend in the plot area; more of them stand beside it."""
_MOST_LETTERS = 60
"""Of the names of upright bars that are written level; longer ones are turned."""


def painted(chart: "Chart", axes: Any = None) -> Any:
    """Draw a chart on these axes, or on new ones of its size, and return them."""
    new = axes is None
    axes = _axes_for(axes, (chart.width / _DOTS, chart.pixels_high / _DOTS))
    x, y = chart.scales()
    for band in chart.bands:
        colour = LIGHT[band.stroke.colour]
        lower = [math.nan if math.isnan(value) else max(value, y.low) for value in band.lower]
        axes.fill_between(band.xs, lower, band.upper, color=colour, alpha=0.18, linewidth=0, label=band.label)
    for position, bars in enumerate(chart.columns):
        _bars(axes, bars, y if chart.x.names else x, upright=bool(chart.x.names), part=0.62 if position == 0 else 0.3)
    for line in chart.lines:
        seen = [math.nan if math.isnan(y.at(value)) else value for value in line.ys]
        # Where two lines coincide, the thinner one lies on top and both are seen.
        axes.plot(line.xs, seen, label=line.label, zorder=2.6 - line.stroke.width / 100, **_style(line.stroke))
    for level in chart.levels:
        if not math.isnan((x if level.upright else y).at(level.value)):
            across = axes.axvline if level.upright else axes.axhline
            across(level.value, label=level.label, zorder=1.5, **_style(level.stroke))
    for dots in chart.dotted:
        positions = range(len(dots.values))
        sign, pair = ("_", (positions, dots.values)) if chart.x.names else ("|", (dots.values, positions))
        style = {"color": LIGHT[dots.stroke.colour], "markersize": 9, "markeredgewidth": 2}
        axes.plot(*pair, sign, zorder=3, label=dots.label, **style)
    for mark in chart.marks:
        axes.plot([mark.x], [mark.y], "o", color=LIGHT["ink"], markersize=6, markeredgecolor="white", zorder=4)
        _write(axes, mark.text, (mark.x, mark.y), fontweight="bold")
    _frame(axes, chart, x, y)
    if new and chart.caption:
        words = fill(chart.caption, int(chart.width / 6))
        axes.figure.supxlabel(words, x=0.01, ha="left", fontsize=_TICK, color=LIGHT["soft"], parse_math=False)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(handles) > _MOST_LEGEND else {}
        legend = axes.legend(handles, labels, frameon=False, fontsize=_TICK, **beside)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return axes


def _axes_for(axes: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on: new ones of this size, in inches, if none are given."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None
    if axes is None:
        return Figure(figsize=size, layout="constrained").add_subplot()
    if not hasattr(axes, "plot"):
        raise ParameterError(
            f"axes must be matplotlib axes, got {axes!r}; to save: plot().figure.savefig('file.png')", "axes"
        )
    return axes


def _style(stroke: Stroke) -> dict[str, Any]:
    width = stroke.width * _POINTS
    dashes = tuple(dash * _POINTS / width for dash in stroke.dashes)
    return {"color": LIGHT[stroke.colour], "linewidth": width, "linestyle": (0, dashes) if dashes else "-"}


def _write(axes: Any, text: str, point: tuple[float, float], **style: Any) -> None:
    """Write a text a little to the right of a point."""
    axes.annotate(
        text, point, xytext=(5, 4), textcoords="offset points", fontsize=_LABEL, parse_math=False, zorder=5, **style
    )


def _bars(axes: Any, bars: Bars, scale: Scale, *, upright: bool, part: float) -> None:
    """Draw bars with their error bars, and the texts of horizontal ones."""
    colours = [LIGHT[stroke.colour] for stroke in bars.strokes]
    base = scale.low if scale.logarithmic else 0.0
    sizes = [math.nan if math.isnan(scale.at(value)) else value - base for value in bars.values]
    draw = axes.bar if upright else axes.barh
    draw(range(len(sizes)), sizes, part, base, color=colours, alpha=0.45, label=bars.label, zorder=1.2)
    for index, text in enumerate(bars.texts):
        value = base if math.isnan(sizes[index]) else base + sizes[index]
        _write(axes, text, (value, index), va="center")
    if bars.lower and bars.upper:
        for index, (low, high) in enumerate(zip(bars.lower, bars.upper, strict=True)):
            pair = (index, (low + high) / 2)
            error = {"yerr" if upright else "xerr": (high - low) / 2, "ecolor": colours[index]}
            label = bars.interval if index == 0 else None
            axes.errorbar(
                *(pair if upright else pair[::-1]), fmt="none", elinewidth=1.2, capsize=3, label=label, **error
            )


def _frame(axes: Any, chart: "Chart", x: Scale, y: Scale) -> None:
    """Set titles, scales, ends and ticks, and what all pictures have alike."""
    from matplotlib.ticker import NullLocator

    heading = "\n".join(words for words in (chart.title, chart.note) if words)
    axes.set_title(heading, loc="left", fontsize=_TITLE, fontweight="bold", parse_math=False)
    axes.set_xlabel(chart.x.label, fontsize=_LABEL, color=LIGHT["soft"], parse_math=False)
    axes.set_ylabel(chart.y.label, fontsize=_LABEL, color=LIGHT["soft"], parse_math=False)
    for name, axis, scale in (("x", axes.xaxis, x), ("y", axes.yaxis, y)):
        ends = (scale.low, scale.high)
        reversed_ends = bool(chart.y.names) and name == "y"  # the first name at the top
        axes.set(**{f"{name}scale": "log" if scale.logarithmic else "linear"})
        axes.set(**{f"{name}lim": ends[::-1] if reversed_ends else ends})
        ticks = scale.ticks(8)
        crowded = name == "x" and sum(map(len, scale.axis.names)) > _MOST_LETTERS
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        axis.set_minor_locator(NullLocator())
        axis.set_ticks(
            [value for value, _ in ticks], [text for _, text in ticks], parse_math=False, fontsize=_TICK, **turned
        )
        axis.set_tick_params(length=0 if scale.axis.names else 3, color=LIGHT["soft"])
        if scale.axis.names:
            axes.grid(False, axis=name)
        else:
            axes.grid(True, axis=name, color=LIGHT["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIGHT["soft"])
