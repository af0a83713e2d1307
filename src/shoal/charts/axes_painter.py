"""A chart on matplotlib's axes: laid out as in SVG, in the same colours, with the numbers on real axes."""

import math
from typing import TYPE_CHECKING, Any

from shoal.charts.chart_layout import TICK, TITLE, KeyEntry, Layout, laid_out
from shoal.charts.chart_parts import Bars
from shoal.charts.colours import LIGHT, Stroke
from shoal.charts.label_positions import Box, Point
from shoal.charts.scale import Scale
from shoal.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

__all__ = ["axes_for", "painted"]

_DOTS = 96.0
"""Pixels of a chart to an inch."""
_POINTS = 72 / _DOTS
_WITH_TEXT = ("note", "caption", "key", "mark", "level", "line", "value")


def painted(chart: "Chart", axes: Any = None) -> Any:
    """Draw a chart on these axes, or on new ones of its size, and return them."""
    new = axes is None
    axes = axes_for(axes, (chart.width / _DOTS, chart.pixels_high / _DOTS))
    if new:
        layout = laid_out(chart)
        area, wide, high = layout.area, chart.width, chart.pixels_high
        axes.figure.set_layout_engine("none")
        axes.set_position(
            (area.left / wide, 1 - area.bottom / high, (area.right - area.left) / wide, (area.bottom - area.top) / high)
        )
    else:
        size = axes.get_window_extent()
        per_inch = _DOTS / axes.figure.dpi
        layout = laid_out(chart, Box(0.0, 0.0, size.width * per_inch, size.height * per_inch))
    _draw(axes, chart, layout)
    _axes(axes, chart, layout)
    _words(axes, chart, layout, new=new)
    return axes


def axes_for(axes: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on: new ones of this size, in inches, if none are given."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None
    if axes is None:
        return Figure(figsize=size, layout="constrained").add_subplot()
    if not hasattr(axes, "plot"):
        raise ParameterError(
            f"axes must be matplotlib axes, got {axes!r}; to save: plot().figure.savefig('file.png')", parameter="axes"
        )
    return axes


def _style(stroke: Stroke) -> dict[str, Any]:
    width = stroke.width * _POINTS
    dashes = tuple(dash * _POINTS / width for dash in stroke.dashes)
    return {"color": LIGHT[stroke.colour], "linewidth": width, "linestyle": (0, dashes) if dashes else "-"}


def _draw(axes: Any, chart: "Chart", layout: Layout) -> None:
    """Draw everything that has numbers."""
    for band in chart.bands:
        lower = [math.nan if math.isnan(y) else max(y, layout.y.low) for y in band.lower]
        colour = LIGHT[band.stroke.colour]
        axes.fill_between(band.xs, lower, band.upper, color=colour, alpha=0.18, linewidth=0, label=band.label)
    for position, bars in enumerate(chart.columns):
        _bars(axes, chart, layout, bars, 0.62 if position == 0 else 0.3)
    for line in chart.lines:
        # Where two lines coincide, the thinner one lies on top and both are seen.
        seen = [math.nan if math.isnan(layout.y.at(y)) else y for y in line.ys]
        axes.plot(
            line.xs,
            seen,
            label=line.label,
            solid_capstyle="round",
            zorder=2.6 - line.stroke.width / 100,
            **_style(line.stroke),
        )
    for level in chart.levels:
        if not math.isnan((layout.x if level.upright else layout.y).at(level.value)):
            across = axes.axvline if level.upright else axes.axhline
            across(level.value, label=level.label, zorder=1.5, **_style(level.stroke))
    for dots in chart.dotted:
        sign, positions = "_" if chart.x.names else "|", range(len(dots.values))
        style = {"color": LIGHT[dots.stroke.colour], "markersize": 9, "markeredgewidth": 2, "label": dots.label}
        pair = (positions, dots.values) if chart.x.names else (dots.values, positions)
        axes.plot(*pair, sign, zorder=3, **style)
    for mark in chart.marks:
        axes.plot([mark.x], [mark.y], "o", color=LIGHT["ink"], markersize=6, markeredgecolor="white", zorder=4)


def _bars(axes: Any, chart: "Chart", layout: Layout, bars: Bars, part: float) -> None:
    colours = [LIGHT[stroke.colour] for stroke in bars.strokes]
    scale = layout.y if chart.x.names else layout.x
    base = scale.low if scale.logarithmic else 0.0
    sizes = [math.nan if math.isnan(scale.at(value)) else value - base for value in bars.values]
    positions = range(len(sizes))
    style = {"color": colours, "alpha": 0.45, "label": bars.label, "zorder": 1.2}
    if chart.x.names:
        axes.bar(positions, sizes, part, base, **style)
    else:
        axes.barh(positions, sizes, part, base, **style)
    if not (bars.lower and bars.upper):
        return
    for index, (low, high) in enumerate(zip(bars.lower, bars.upper, strict=True)):
        error = {("yerr" if chart.x.names else "xerr"): (high - low) / 2, "ecolor": colours[index]}
        middle = (index, (low + high) / 2) if chart.x.names else ((low + high) / 2, index)
        label = bars.interval if index == 0 else None
        axes.errorbar(*([at] for at in middle), fmt="none", elinewidth=1.2, capsize=3, label=label, **error)


def _axes(axes: Any, chart: "Chart", layout: Layout) -> None:
    """Set scales, ends and ticks, and what all pictures have alike."""
    from matplotlib.ticker import NullLocator

    axes.set(xscale=_scale(layout.x), yscale=_scale(layout.y))
    axes.set_xlim(layout.x.low, layout.x.high)
    axes.set_ylim(layout.y.low, layout.y.high)
    if chart.y.names:  # the first at the top, below the names of levels
        room = layout.y.start - layout.area.top
        above = room / ((layout.area.bottom - layout.area.top - room) or 1.0) * (layout.y.high - layout.y.low)
        axes.set_ylim(layout.y.high, layout.y.low - above)
    for axis, role, ticks in ((axes.xaxis, "x-tick", layout.x_ticks), (axes.yaxis, "y-tick", layout.y_ticks)):
        words = [text for text in layout.texts if text.role == role]
        named = chart.x.names if role == "x-tick" else chart.y.names
        turned = bool(words) and words[0].turned
        shown = {text.whole: text.text for text in words}
        pairs = [(index, shown.get(name, "")) for index, name in enumerate(named)] if named else ticks
        labels = {"fontsize": TICK * _POINTS, "color": LIGHT["ink" if named and role == "y-tick" else "soft"]}
        if turned:
            labels |= {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axis.set_minor_locator(NullLocator())
        axis.set_ticks([value for value, _ in pairs], [text for _, text in pairs], parse_math=False, **labels)
        axis.set_tick_params(length=0 if named else 3, color=LIGHT["soft"])
    axes.grid(False)
    for name, axis in (("x", chart.x), ("y", chart.y)):
        if not axis.names:
            axes.grid(axis=name, color=LIGHT["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LIGHT["soft"])


def _scale(scale: Scale) -> str:
    return "log" if scale.logarithmic else "linear"


def _words(axes: Any, chart: "Chart", layout: Layout, *, new: bool) -> None:
    """Write the title, the names of the axes, labels, and the key."""
    area = layout.area
    wide, high = area.right - area.left, area.bottom - area.top

    def at(x: float, y: float) -> Point:
        return (x - area.left) / wide, (area.bottom - y) / high

    axes.set_xlabel(chart.x.label, fontsize=12 * _POINTS, color=LIGHT["soft"], parse_math=False)
    axes.set_ylabel(chart.y.label, fontsize=TICK * _POINTS, color=LIGHT["soft"], parse_math=False)
    title = {"fontsize": TITLE * _POINTS, "fontweight": "bold", "ha": "left", "parse_math": False}
    titles = [text for text in layout.texts if text.role == "title"]
    if new:
        if titles:
            x, y = at(titles[-1].x, titles[-1].y + 0.35 * TITLE)
            shown = axes.set_title("\n".join(text.text for text in titles), y=y, pad=0.0, linespacing=1.3, **title)
            shown.set_x(x)
        for text in layout.texts:
            if text.role == "y-label":
                axes.yaxis.label.set(rotation=0, ha="left", va="center")
                axes.yaxis.set_label_coords(*at(text.x, text.y))
            elif text.role == "x-label":
                axes.xaxis.label.set(va="center")
                axes.xaxis.set_label_coords(*at(text.x, text.y))
        for entry in layout.keys:
            _swatch(axes, entry, at)
    else:
        heading = "\n".join(words for words in (chart.title, chart.note) if words)
        axes.set_title(heading, x=0.0, **title)
        keyed = {text.whole for text in layout.texts if text.role == "key"}
        handles = [
            (handle, label) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True) if label in keyed
        ]
        if handles:
            axes.legend(*zip(*handles, strict=True), frameon=False, fontsize=11 * _POINTS)
    for text in layout.texts:
        if text.role in _WITH_TEXT and (new or text.role not in ("key", "note", "caption")):
            axes.annotate(
                text.text, at(text.x, text.y), xycoords="axes fraction", ha=_ANCHORS[text.anchor], va="center_baseline",
                fontsize=text.size * _POINTS, fontweight="bold" if text.bold else "normal", color=LIGHT[text.colour],
                parse_math=False, annotation_clip=False, zorder=5, path_effects=_halo(),
            )  # fmt: skip
    for start, end, colour in layout.leaders:
        xs, ys = zip(at(*start), at(*end), strict=True)
        _free_line(axes, xs, ys, color=LIGHT[colour], linewidth=0.7, alpha=0.7)


_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def _halo() -> list[Any]:
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.2, foreground="white")]


def _free_line(axes: Any, xs: tuple[float, ...], ys: tuple[float, ...], **style: Any) -> None:
    """Draw a line in fractions of the axes, also beside them, that is none of theirs."""
    from matplotlib.lines import Line2D

    axes.figure.add_artist(Line2D(xs, ys, transform=axes.transAxes, **style))


def _swatch(axes: Any, entry: KeyEntry, at: Any) -> None:
    colour = LIGHT[entry.stroke.colour]
    (left, middle), (right, _) = at(entry.x, entry.y), at(entry.x + 18, entry.y)
    if entry.shape in ("bar", "band"):
        alpha = 0.45 if entry.shape == "bar" else 0.18
        style = {"color": colour, "linewidth": 7.5, "alpha": alpha, "solid_capstyle": "butt"}
        _free_line(axes, (left, right), (middle, middle), **style)
    elif entry.shape == "mark":
        _free_line(axes, ((left + right) / 2,), (middle,), color=colour, marker="o", markersize=6)
    elif entry.shape == "interval":
        ends = at(entry.x + 9, entry.y - 6), at(entry.x + 9, entry.y + 6)
        xs, ys = zip(*ends, strict=True)
        _free_line(axes, xs, ys, color=colour, linewidth=1.2, marker="_", markersize=5)
    else:
        style = {"color": colour, "linewidth": 2.0} if entry.shape == "dots" else _style(entry.stroke)
        _free_line(axes, (left, right), (middle, middle), **style)
