"""A chart that is laid out, as the text of an SVG element; whatever people have named is escaped."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from shoal.charts.chart_layout import KeyEntry, Layout, Text, laid_out
from shoal.charts.chart_parts import Bars, clipped, printable
from shoal.charts.colours import STYLE, Stroke, colour
from shoal.charts.label_positions import Point
from shoal.charts.scale import Scale

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

__all__ = ["written"]

_HALO = f' stroke="{colour("paper")}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'


def written(chart: "Chart", *, style: bool) -> str:
    """Return the chart as SVG, with its style sheet or without."""
    layout = laid_out(chart)
    size = f"{_n(chart.width)} {_n(chart.pixels_high)}"
    facts = {
        "left": _n(layout.area.left),
        "top": _n(layout.area.top),
        "right": _n(layout.area.right),
        "bottom": _n(layout.area.bottom),
        **_axis_facts("x", layout.x),
        **_axis_facts("y", layout.y),
    }
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="shoal-chart" role="img" viewBox="0 0 {size}" '
        f'width="{_n(chart.width)}" height="{_n(chart.pixels_high)}" font-family="system-ui, sans-serif" '
        f"{_data(facts)}><title>{escape(printable(chart.title))}</title>"
    )
    body = [f"<desc>{escape(printable(chart.description))}</desc>" if chart.description else ""]
    body += [f"<style>{STYLE}</style>" if style else ""]
    body.append(f'<rect width="{_n(chart.width)}" height="{_n(chart.pixels_high)}" fill="{colour("paper")}"/>')
    body += [*_grid(layout), *_bands(chart, layout), *_bars(chart, layout), *_levels(chart, layout)]
    body += [*_lines(chart, layout), *_dots(chart, layout), *_marks(chart, layout)]
    body += [_leader(*leader) for leader in layout.leaders]
    body += [part for entry in layout.keys for part in _swatch(entry)]
    body += [_text(text) for text in layout.texts]
    return head + "".join(body) + "</svg>"


def _n(number: float) -> str:
    """Return a pixel in at most two decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _data(facts: dict[str, str]) -> str:
    return " ".join(f'data-{name}="{escape(value)}"' for name, value in facts.items())


def _axis_facts(name: str, scale: Scale) -> dict[str, str]:
    kind = "names" if scale.axis.names else scale.axis.scale
    ends = {f"{name}-low": _value(scale.low), f"{name}-high": _value(scale.high)}
    return {f"{name}-scale": kind, **ends, f"{name}-label": printable(scale.axis.label)}


def _value(number: float) -> str:
    """Return a number as scripts read it."""
    return "NaN" if math.isnan(number) else repr(number)


def _values(numbers: Iterable[float]) -> str:
    return " ".join(map(_value, numbers))


def _drawn(stroke: Stroke) -> str:
    dashes = f' stroke-dasharray="{" ".join(map(_n, stroke.dashes))}"' if stroke.dashes else ""
    return f'fill="none" stroke="{colour(stroke.colour)}" stroke-width="{_n(stroke.width)}"{dashes}'


def _path(parts: Iterable[Sequence[Point]]) -> str:
    return "".join(
        "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in (part if len(part) > 1 else [*part, *part])) for part in parts
    )


def _grid(layout: Layout) -> Iterator[str]:
    area = layout.area
    paths = []
    if not layout.x.axis.names:
        paths += [f"M{_n(layout.x.at(value))} {_n(area.top)}V{_n(area.bottom)}" for value, _ in layout.x_ticks]
    if not layout.y.axis.names:
        paths += [f"M{_n(area.left)} {_n(layout.y.at(value))}H{_n(area.right)}" for value, _ in layout.y_ticks]
    yield f'<path d="{"".join(paths)}" fill="none" stroke="{colour("grid")}"/>'
    yield (
        f'<path d="M{_n(area.left)} {_n(area.top)}V{_n(area.bottom)}H{_n(area.right)}" fill="none" '
        f'stroke="{colour("soft")}"/>'
    )


def _bands(chart: "Chart", layout: Layout) -> Iterator[str]:
    area = layout.area
    for band in chart.bands:
        held: list[tuple[float, float, float]] = []
        for x, low, high in zip(band.xs, band.lower, band.upper, strict=True):
            point = (layout.x.at(x), layout.y.at(low), layout.y.at(high))
            # What is below the end of a log scale begins at that end.
            point = (point[0], area.bottom if math.isnan(point[1]) and not math.isnan(low) else point[1], point[2])
            if not any(map(math.isnan, point)) and area.left <= point[0] <= area.right:
                first, second = (min(max(y, area.top), area.bottom) for y in point[1:])
                held.append((point[0], first, second))
        around = [(x, low) for x, low, _ in held] + [(x, high) for x, _, high in reversed(held)]
        facts = {
            "label": band.label,
            "xs": _values(band.xs),
            "lower": _values(band.lower),
            "upper": _values(band.upper),
        }
        if len(held) > 1:
            yield (
                f'<path class="shoal-band" {_data(facts)} d="{_path([around])}Z" fill="{colour(band.stroke.colour)}" '
                'fill-opacity="0.18"/>'
            )


def _lines(chart: "Chart", layout: Layout) -> Iterator[str]:
    for line in sorted(chart.lines, key=lambda line: -line.stroke.width):  # the thinner ones lie on top
        facts = {"label": line.label, "xs": _values(line.xs), "ys": _values(line.ys)}
        yield (
            f'<path class="shoal-line" {_data(facts)} d="{_path(layout.parts(line))}" {_drawn(line.stroke)} '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )


def _across(layout: Layout, index: int, value: float, part: float) -> tuple[Point, Point] | None:
    """Return the ends of a stroke across a bar at a value, as long as this part of the room that a bar has."""
    named, other = (layout.x, layout.y) if layout.x.axis.names else (layout.y, layout.x)
    half = part / 2 * abs(named.end - named.start) / len(named.axis.names)
    at, middle = other.at(value), named.at(index)
    if math.isnan(at):
        return None
    low, high = sorted((other.start, other.end))
    at = min(max(at, low), high)
    ends = (at, middle - half), (at, middle + half)
    return ends if layout.y.axis.names else ((ends[0][1], at), (ends[1][1], at))


def _bars(chart: "Chart", layout: Layout) -> Iterator[str]:
    for position, bars in enumerate(chart.columns):
        for index, value in enumerate(bars.values):
            yield from _bar(layout, bars, index, value, 0.62 if position == 0 else 0.3)


def _bar(layout: Layout, bars: Bars, index: int, value: float, part: float) -> Iterator[str]:
    other = layout.y if layout.x.axis.names else layout.x
    base = other.low if other.logarithmic else min(max(0.0, other.low), other.high)
    ends = _across(layout, index, value, part), _across(layout, index, base, part)
    facts = {"name": (layout.x.axis.names or layout.y.axis.names)[index], "value": _value(value)}
    if bars.lower:
        facts["lower"] = _value(bars.lower[index])
    if bars.upper:
        facts["upper"] = _value(bars.upper[index])
    ink = colour(bars.strokes[index].colour)
    if ends[0] is not None and ends[1] is not None:
        (a, b), (c, d) = ends[0], ends[1]
        left, top = min(a[0], c[0]), min(a[1], c[1])
        wide, high = max(b[0], d[0]) - left, max(b[1], d[1]) - top
        shown = printable(facts["name"])
        yield (
            f'<rect class="shoal-bar" {_data({**facts, "name": shown})} x="{_n(left)}" y="{_n(top)}" '
            f'width="{_n(wide)}" height="{_n(high)}" fill="{ink}" fill-opacity="0.45"/>'
        )
    if bars.lower and bars.upper:
        low, high_end = _across(layout, index, bars.lower[index], 0.2), _across(layout, index, bars.upper[index], 0.2)
        if low is not None and high_end is not None:
            parts = [low, high_end, [_middle(low), _middle(high_end)]]
            yield f'<path class="shoal-interval" d="{_path(parts)}" fill="none" stroke="{ink}" stroke-width="1.6"/>'


def _middle(ends: tuple[Point, Point]) -> Point:
    return (ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2


def _dots(chart: "Chart", layout: Layout) -> Iterator[str]:
    for dots in chart.dotted:
        for index, value in enumerate(dots.values):
            ends = _across(layout, index, value, 0.5)
            if ends is not None:
                facts = _data({"label": dots.label, "value": _value(value)})
                stroke = f'stroke="{colour(dots.stroke.colour)}" stroke-width="2.6"'
                yield f'<path class="shoal-dot" {facts} d="{_path([ends])}" fill="none" {stroke}/>'


def _levels(chart: "Chart", layout: Layout) -> Iterator[str]:
    area = layout.area
    for level in chart.levels:
        at = (layout.x if level.upright else layout.y).at(level.value)
        points = [(at, area.top), (at, area.bottom)] if level.upright else [(area.left, at), (area.right, at)]
        if parts := clipped(points, area):
            facts = _data({"label": level.label, "value": _value(level.value)})
            yield f'<path class="shoal-level" {facts} d="{_path(parts)}" {_drawn(level.stroke)}/>'


def _marks(chart: "Chart", layout: Layout) -> Iterator[str]:
    for mark in chart.marks:
        x, y = layout.x.at(mark.x), layout.y.at(mark.y)
        if layout.area.holds((x, y)):
            facts = _data({"x": _value(mark.x), "y": _value(mark.y), "text": mark.text})
            yield (
                f'<circle class="shoal-mark" {facts} cx="{_n(x)}" cy="{_n(y)}" r="4.5" fill="{colour("ink")}" '
                f'stroke="{colour("paper")}" stroke-width="1.5"/>'
            )


def _leader(start: Point, end: Point, ink: str) -> str:
    return f'<path d="{_path([(start, end)])}" fill="none" stroke="{colour(ink)}" stroke-width="0.8" opacity="0.7"/>'


def _swatch(entry: KeyEntry) -> Iterator[str]:
    x, y, ink = entry.x, entry.y, colour(entry.stroke.colour)
    if entry.shape in ("bar", "band"):
        opacity = 0.45 if entry.shape == "bar" else 0.18
        yield f'<rect x="{_n(x)}" y="{_n(y - 5)}" width="18" height="10" fill="{ink}" fill-opacity="{opacity}"/>'
    elif entry.shape == "interval":
        yield f'<path d="M{_n(x + 9)} {_n(y - 6)}v12m-3 0h6m-6 -12h6" fill="none" stroke="{ink}" stroke-width="1.6"/>'
    elif entry.shape == "mark":
        yield f'<circle cx="{_n(x + 9)}" cy="{_n(y)}" r="4.5" fill="{ink}"/>'
    elif entry.shape == "dots":
        yield f'<path d="M{_n(x + 2)} {_n(y)}h14" fill="none" stroke="{ink}" stroke-width="2.6"/>'
    else:
        yield f'<path d="M{_n(x)} {_n(y)}h18" {_drawn(entry.stroke)}/>'


def _text(text: Text) -> str:
    """Return a line of text, and all of it as a tooltip where it is shortened."""
    baseline = text.y + 0.35 * text.size
    halo = _HALO if text.role in ("mark", "level", "line", "value") else ""
    turn = f' transform="rotate(-60 {_n(text.x)} {_n(text.y)})"' if text.turned else ""
    bold = ' font-weight="600"' if text.bold else ""
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    whole = f"<title>{escape(printable(text.whole))}</title>" if text.whole and text.whole != text.text else ""
    return (
        f'<text class="shoal-{text.role}" x="{_n(text.x)}" y="{_n(baseline)}" font-size="{_n(text.size)}" '
        f'fill="{colour(text.colour)}"{anchor}{bold}{turn}{halo}>{whole}{escape(printable(text.text))}</text>'
    )
