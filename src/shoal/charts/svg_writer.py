"""A chart as SVG: where everything goes, labels that do not overlap, and the text of the element."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from shoal.charts.chart_parts import Bars, Line, clipped, samples
from shoal.charts.colours import STYLE, Stroke, colour
from shoal.charts.label_positions import Box, Point, around, free_box, shortened, text_width
from shoal.charts.scale import Scale
from shoal.shown import printable

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

TITLE, LABEL, TICK = 14.0, 12.0, 11.0
"""Sizes of fonts in pixels."""
_LEADING = 1.3
_EDGE, _BELOW = 8.0, 8.0
"""Around the picture, and between the area and the ticks below it."""
_TURNED = math.radians(60)
_LONGEST_NAME = 110.0
_SWATCH = 26.0
_LEAST_AREA = 0.4
"""The part of the height that is left to the plot area; the key of many lines makes the picture higher."""


class Text(NamedTuple):
    """A line of text: where its anchor is and the middle of its height, and how it looks."""

    x: float
    y: float
    text: str
    size: float = LABEL
    anchor: str = "start"
    colour: str = "ink"
    bold: bool = False
    turned: bool = False
    role: str = "label"
    whole: str = ""

    @property
    def box(self) -> Box:
        """The room that it takes, if it is not turned."""
        width, half = text_width(self.text, self.size), self.size * _LEADING / 2
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return Box(left, self.y - half, left + width, self.y + half)


class KeyEntry(NamedTuple):
    """A swatch of the key: what it shows, and where it begins."""

    x: float
    y: float
    stroke: Stroke
    shape: str


@dataclass
class Layout:
    """The picture in pixels."""

    height: float
    area: Box
    x: Scale
    y: Scale
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    texts: list[Text] = field(default_factory=list)
    keys: list[KeyEntry] = field(default_factory=list)

    def points(self, line: Line) -> list[Point]:
        """Return the points of a line."""
        return [(self.x.at(x), self.y.at(y)) for x, y in zip(line.xs, line.ys, strict=True)]

    def parts(self, line: Line) -> list[list[Point]]:
        """Return the parts of a line that are seen."""
        return clipped(self.points(line), self.area)


def laid_out(chart: "Chart") -> Layout:
    """Return where everything goes; the picture is as much higher as a long key needs."""
    texts: list[Text] = []
    keys: list[KeyEntry] = []
    caption = _wrapped(chart.caption, TICK, chart.width - 2 * _EDGE, most=8)
    top = _heading(chart, texts)
    top = _key(chart, top + 2, texts, keys)
    if chart.y.label:
        words = shortened(chart.y.label, TICK, chart.width - 2 * _EDGE)
        texts.append(Text(_EDGE, top + TICK * _LEADING / 2, words, TICK, colour="soft", role="y-label"))
        top += TICK * _LEADING
    x, y = chart.scales()
    left = _EDGE + 6 + max((text_width(text, TICK) for text in _y_names(chart, y)), default=0.0)
    right = _right(chart, left)
    top += 6
    below = _below(chart, right - left) + (6 + len(caption) * TICK * _LEADING if caption else 0.0)
    height = max(chart.pixels_high, top + below + _LEAST_AREA * chart.pixels_high)
    area = Box(left, top, right, height - below)
    x = x.between(area.left, area.right)
    y = y.between(area.top, area.bottom) if chart.y.names else y.between(area.bottom, area.top)
    layout = Layout(height, area, x, y, _x_ticks(x), _y_ticks(y), texts, keys)
    for row, words in enumerate(reversed(caption)):
        at = height - _EDGE - (row + 0.5) * TICK * _LEADING
        texts.append(Text(_EDGE, at, words, TICK, colour="soft", role="caption"))
    _tick_texts(chart, layout)
    if chart.x.label:
        _x_label(chart, layout, area.bottom + _tick_room(chart, right - left))
    _bar_texts(chart, layout)
    _mark_texts(chart, layout)
    return layout


def _wrapped(text: str, size: float, room: float, *, most: int = 3) -> list[str]:
    """Return a text in at most a few lines."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    kept = [*lines[: most - 1], " ".join(lines[most - 1 :])] if len(lines) > most else lines
    return [shortened(line, size, room) for line in kept]


def _heading(chart: "Chart", texts: list[Text]) -> float:
    """Write the title and the note, and return where they end."""
    top = _EDGE
    for words in _wrapped(chart.title, TITLE * 1.06, chart.width - 2 * _EDGE):
        texts.append(Text(_EDGE, top + TITLE * _LEADING / 2, words, TITLE, bold=True, role="title"))
        top += TITLE * _LEADING
    for words in _wrapped(chart.note, TICK, chart.width - 2 * _EDGE):
        texts.append(Text(_EDGE, top + TICK * _LEADING / 2, words, TICK, colour="soft", role="note"))
        top += TICK * _LEADING
    return top


def _entries(chart: "Chart") -> Iterator[tuple[str, Stroke, str]]:
    """Yield label, stroke and shape of everything that has a label."""
    for line in chart.lines:
        yield line.label, line.stroke, "line"
    for band in chart.bands:
        yield band.label, band.stroke, "band"
    for bars in chart.columns:
        yield bars.label, bars.strokes[0], "bar"
        if bars.lower or bars.upper:
            yield bars.interval, bars.strokes[0], "interval"
    for dots in chart.dotted:
        yield dots.label, dots.stroke, "dots"
    for level in chart.levels:
        yield level.label, level.stroke, "line"


def _key(chart: "Chart", top: float, texts: list[Text], keys: list[KeyEntry]) -> float:
    """Write the key from left to right, in as many rows as it needs, and return where it ends."""
    left = _EDGE
    row = LABEL * _LEADING
    for label, stroke, shape in _entries(chart):
        if not label:
            continue
        words = shortened(label, LABEL, chart.width - 2 * _EDGE - _SWATCH)
        wide = _SWATCH + text_width(words, LABEL)
        if left > _EDGE and left + wide > chart.width - _EDGE:
            left = _EDGE
            top += row
        keys.append(KeyEntry(left, top + row / 2, stroke, shape))
        texts.append(Text(left + _SWATCH, top + row / 2, words, role="key", whole=label))
        left += wide + 16
    return top + row + 2 if keys else top


def _right(chart: "Chart", left: float) -> float:
    """Return where the plot area ends: beside the texts of horizontal bars."""
    right = chart.width - _EDGE - 6
    if not chart.x.names:
        right -= 12  # for half of the last number
    widths = [text_width(text, LABEL) for bars in chart.columns for text in bars.texts] if chart.y.names else []
    if widths:
        right = min(right, chart.width - _EDGE - 10 - max(widths))
    return max(right, left + 60)


def _tick_room(chart: "Chart", width: float) -> float:
    """Return the height of the ticks below an area of this width."""
    if not chart.x.names:
        return _BELOW + TICK * _LEADING
    names, turned = _turned(chart.x.names, width / len(chart.x.names))
    longest = max(text_width(name, TICK) for name in names)
    return _BELOW + (math.sin(_TURNED) * longest + TICK if turned else TICK * _LEADING)


def _below(chart: "Chart", width: float) -> float:
    """Return the height of everything below an area of this width but the caption."""
    return _tick_room(chart, width) + (LABEL * _LEADING if chart.x.label else 0.0) + _EDGE


def _y_names(chart: "Chart", y: Scale) -> list[str]:
    if chart.y.names:
        return [shortened(name, TICK, 0.38 * chart.width) for name in chart.y.names]
    return [text for _, text in y.ticks(max(2, int(chart.pixels_high // 55)))]


def _turned(names: tuple[str, ...], room: float) -> tuple[list[str], bool]:
    """Return names as they are written below bars, and whether they have to be turned."""
    if all(text_width(name, TICK) <= room - 4 for name in names):
        return list(names), False
    return [shortened(name, TICK, _LONGEST_NAME) for name in names], True


def _x_ticks(x: Scale) -> list[tuple[float, str]]:
    """Return the ticks of the horizontal axis: as many as have room."""
    if x.axis.names:
        return x.ticks(0)
    for most in range(max(2, int((x.end - x.start) // 60)), 1, -1):
        ticks = x.ticks(most)
        boxes = [Text(x.at(value), 0, text, TICK, "middle").box for value, text in ticks]
        if all(one.right + 6 <= two.left for one, two in pairwise(boxes)):
            return ticks
    return x.ticks(1)[:1]


def _y_ticks(y: Scale) -> list[tuple[float, str]]:
    return y.ticks(max(2, int(abs(y.end - y.start) // 45)))


def _tick_texts(chart: "Chart", layout: Layout) -> None:
    area, texts = layout.area, layout.texts
    half = TICK * _LEADING / 2
    if chart.x.names:
        band = (area.right - area.left) / len(chart.x.names)
        names, turned = _turned(chart.x.names, band)
        every = math.ceil(TICK * _LEADING / (band * math.sin(_TURNED))) if turned else 1
        for index in range(0, len(names), every):
            anchor = "end" if turned else "middle"
            height = area.bottom + (8 if turned else _BELOW + half)
            text = Text(layout.x.at(index), height, names[index], TICK, anchor, "soft", role="x-tick")
            texts.append(text._replace(turned=turned, whole=chart.x.names[index]))
    else:
        for value, words in layout.x_ticks:
            texts.append(
                Text(layout.x.at(value), area.bottom + _BELOW + half, words, TICK, "middle", "soft", role="x-tick")
            )
    band = abs(layout.y.end - layout.y.start) / max(1, len(chart.y.names))
    every = math.ceil(TICK * _LEADING / band) if chart.y.names else 1
    names = _y_names(chart, layout.y) if chart.y.names else [text for _, text in layout.y_ticks]
    for index in range(0, len(layout.y_ticks), every):
        height = layout.y.at(layout.y_ticks[index][0])
        if chart.y.names or height >= area.top + (0 if not chart.y.label else 2):
            colour, whole = ("ink", chart.y.names[index]) if chart.y.names else ("soft", "")
            texts.append(Text(area.left - 6, height, names[index], TICK, "end", colour, role="y-tick", whole=whole))


def _x_label(chart: "Chart", layout: Layout, top: float) -> None:
    words = shortened(chart.x.label, LABEL, chart.width - 2 * _EDGE)
    reach = text_width(words, LABEL) / 2
    middle = (layout.area.left + layout.area.right) / 2
    middle = min(max(middle, _EDGE + reach), chart.width - _EDGE - reach)
    layout.texts.append(Text(middle, top + LABEL * _LEADING / 2, words, LABEL, "middle", "soft", role="x-label"))


def _bar_texts(chart: "Chart", layout: Layout) -> None:
    """Write the texts beside horizontal bars, where these are not too thin."""
    if not chart.y.names or (layout.y.end - layout.y.start) / len(chart.y.names) < LABEL * _LEADING:
        return
    for bars in chart.columns[:1]:
        for index, text in enumerate(bars.texts):
            ends = [layout.x.at(part[index]) for part in (bars.values, bars.upper) if part]
            right = max([end for end in ends if not math.isnan(end)], default=layout.area.left)
            right = min(max(right, layout.area.left), layout.area.right)
            ink = bars.strokes[index].colour
            layout.texts.append(Text(right + 6, layout.y.at(index), text, colour=ink, role="value"))


def _mark_texts(chart: "Chart", layout: Layout) -> None:
    """Write the number of each mark near it, where it hides least; only the mark, if it has no room near it."""
    area = layout.area
    points = [(layout.x.at(mark.x), layout.y.at(mark.y)) for mark in chart.marks]
    taken = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in points if area.holds((x, y))]
    drawn = samples(part for line in chart.lines for part in layout.parts(line))
    for mark, point in zip(chart.marks, points, strict=True):
        size = text_width(mark.text, LABEL) + 2, LABEL * _LEADING
        box = free_box(around(*point, size, area), taken, area, drawn) if area.holds(point) else None
        if mark.text and box is not None:
            taken.append(box)
            layout.texts.append(Text(box.left, (box.top + box.bottom) / 2, mark.text, bold=True, role="mark"))


_HALO = f' stroke="{colour("paper")}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'


def written(chart: "Chart", *, style: bool) -> str:
    """Return the chart as SVG, with its style sheet or without."""
    layout = laid_out(chart)
    size = f"{_n(chart.width)} {_n(layout.height)}"
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
        f'width="{_n(chart.width)}" height="{_n(layout.height)}" font-family="system-ui, sans-serif" '
        f"{_data(facts)}><title>{escape(printable(chart.title))}</title>"
    )
    body = [f"<desc>{escape(printable(chart.description))}</desc>" if chart.description else ""]
    body += [f"<style>{STYLE}</style>" if style else ""]
    body.append(f'<rect width="{_n(chart.width)}" height="{_n(layout.height)}" fill="{colour("paper")}"/>')
    body += [*_grid(layout), *_bands(chart, layout), *_bars(chart, layout), *_levels(chart, layout)]
    body += [*_lines(chart, layout), *_dots(chart, layout), *_marks(chart, layout)]
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


def _ends(layout: Layout, index: int, value: float, part: float) -> tuple[Point, Point] | None:
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
    ends = _ends(layout, index, value, part), _ends(layout, index, base, part)
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
        low, high_end = (
            _ends(layout, index, bars.lower[index], 0.2),
            _ends(layout, index, bars.upper[index], 0.2),
        )
        if low is not None and high_end is not None:
            parts = [low, high_end, [_middle(low), _middle(high_end)]]
            yield f'<path class="shoal-interval" d="{_path(parts)}" fill="none" stroke="{ink}" stroke-width="1.6"/>'


def _middle(ends: tuple[Point, Point]) -> Point:
    return (ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2


def _dots(chart: "Chart", layout: Layout) -> Iterator[str]:
    for dots in chart.dotted:
        for index, value in enumerate(dots.values):
            ends = _ends(layout, index, value, 0.5)
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


def _swatch(entry: KeyEntry) -> Iterator[str]:
    x, y, ink = entry.x, entry.y, colour(entry.stroke.colour)
    if entry.shape in ("bar", "band"):
        opacity = 0.45 if entry.shape == "bar" else 0.18
        yield f'<rect x="{_n(x)}" y="{_n(y - 5)}" width="18" height="10" fill="{ink}" fill-opacity="{opacity}"/>'
    elif entry.shape == "interval":
        yield f'<path d="M{_n(x + 9)} {_n(y - 6)}v12m-3 0h6m-6 -12h6" fill="none" stroke="{ink}" stroke-width="1.6"/>'
    elif entry.shape == "dots":
        yield f'<path d="M{_n(x + 2)} {_n(y)}h14" fill="none" stroke="{ink}" stroke-width="2.6"/>'
    else:
        yield f'<path d="M{_n(x)} {_n(y)}h18" {_drawn(entry.stroke)}/>'


def _text(text: Text) -> str:
    """Return a line of text, and all of it as a tooltip where it is shortened."""
    baseline = text.y + 0.35 * text.size
    halo = _HALO if text.role in ("mark", "value") else ""
    turn = f' transform="rotate(-60 {_n(text.x)} {_n(text.y)})"' if text.turned else ""
    bold = ' font-weight="600"' if text.bold else ""
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    whole = f"<title>{escape(printable(text.whole))}</title>" if text.whole and text.whole != text.text else ""
    return (
        f'<text class="shoal-{text.role}" x="{_n(text.x)}" y="{_n(baseline)}" font-size="{_n(text.size)}" '
        f'fill="{colour(text.colour)}"{anchor}{bold}{turn}{halo}>{whole}{escape(printable(text.text))}</text>'
    )
