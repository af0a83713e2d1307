"""A chart as SVG: where everything goes, labels that do not overlap, and the text of the element."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from shoal.charts.chart_parts import Bars, Line, clipped, samples
from shoal.charts.colours import STYLE, Stroke, colour
from shoal.charts.label_positions import (
    Box,
    Point,
    along,
    anywhere,
    around,
    beside,
    dense,
    free_box,
    shortened,
    stacked,
    text_width,
    upright,
)
from shoal.charts.scale import Scale
from shoal.shown import printable

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

__all__ = ["KeyEntry", "Layout", "Text", "laid_out", "written"]

TITLE, LABEL, TICK = 14.0, 12.0, 11.0
"""Sizes of fonts in pixels."""
_LEADING = 1.3
_EDGE, _BELOW = 8.0, 8.0
"""Around the picture, and between the area and the ticks below it."""
_TURNED = math.radians(60)
_LONGEST_NAME = 110.0
_SWATCH = 26.0


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

    area: Box
    x: Scale
    y: Scale
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    texts: list[Text] = field(default_factory=list)
    keys: list[KeyEntry] = field(default_factory=list)
    leaders: list[tuple[Point, Point, str]] = field(default_factory=list)

    def points(self, line: Line) -> list[Point]:
        """Return the points of a line."""
        return [(self.x.at(x), self.y.at(y)) for x, y in zip(line.xs, line.ys, strict=True)]

    def parts(self, line: Line) -> list[list[Point]]:
        """Return the parts of a line that are seen."""
        return clipped(self.points(line), self.area)


class _Key(NamedTuple):
    label: str
    stroke: Stroke
    shape: str


def laid_out(chart: "Chart") -> Layout:
    """Return where everything goes.

    Labels for which there is no room go to a key above the chart, which makes the area smaller: then all is laid out
    again. Keys only grow, so that this ends.
    """
    keys = _always_in_key(chart)
    while True:
        layout, homeless = _attempt(chart, keys)
        new = [entry for entry in homeless if entry not in keys]
        if not new:
            return layout
        keys += new


def _always_in_key(chart: "Chart") -> list[_Key]:
    keys = [_Key(band.label, band.stroke, "band") for band in chart.bands if band.label]
    for bars in chart.columns:
        if bars.label:
            keys.append(_Key(bars.label, bars.strokes[0], "bar"))
        if bars.interval and (bars.lower or bars.upper):
            keys.append(_Key(bars.interval, bars.strokes[0], "interval"))
    return keys + [_Key(dots.label, dots.stroke, "dots") for dots in chart.dotted if dots.label]


def _attempt(chart: "Chart", keys: list[_Key]) -> tuple[Layout, list[_Key]]:
    texts: list[Text] = []
    swatches: list[KeyEntry] = []
    top = _EDGE
    for words in _wrapped(chart.title, TITLE * 1.06, chart.width - 2 * _EDGE):
        texts.append(Text(_EDGE, top + TITLE * _LEADING / 2, words, TITLE, bold=True, role="title"))
        top += TITLE * _LEADING
    height = _below(chart) + 6 + TICK * _LEADING / 2
    for words in _caption(chart):
        texts.append(Text(_EDGE, height, words, TICK, colour="soft", role="caption"))
        height += TICK * _LEADING
    for words in _wrapped(chart.note, TICK, chart.width - 2 * _EDGE):
        texts.append(Text(_EDGE, top + TICK * _LEADING / 2, words, TICK, colour="soft", role="note"))
        top += TICK * _LEADING
    top = _key_rows(chart, keys, top + 2, texts, swatches)
    if chart.y.label:
        words = shortened(chart.y.label, TICK, chart.width - 2 * _EDGE)
        texts.append(Text(_EDGE, top + TICK * _LEADING / 2, words, TICK, colour="soft", role="y-label"))
        top += TICK * _LEADING
    x, y = chart.scales()
    area = _area(chart, top + 6, x, y, keys)
    x = x.between(area.left, area.right)
    y = (
        y.between(area.top + _ROW_OF_LEVELS * _level_rows(chart), area.bottom)
        if chart.y.names
        else y.between(area.bottom, area.top)
    )
    layout = Layout(area, x, y, _x_ticks(x), _y_ticks(y), texts, swatches)
    _tick_texts(chart, layout)
    return layout, _labels(chart, layout, keys)


_ROW_OF_LEVELS = 18.0


def _level_rows(chart: "Chart") -> int:
    return sum(bool(level.label) for level in chart.levels)


def _caption(chart: "Chart") -> list[str]:
    return _wrapped(chart.caption, TICK, chart.width - 2 * _EDGE, most=8)


def _below(chart: "Chart") -> float:
    """Return where the picture ends, and its caption begins."""
    lines = len(_caption(chart))
    return chart.pixels_high - _EDGE - (6 + lines * TICK * _LEADING if lines else 0.0)


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


def _key_rows(chart: "Chart", keys: list[_Key], top: float, texts: list[Text], swatches: list[KeyEntry]) -> float:
    """Write the key from left to right, in as many rows as it needs, and return where it ends."""
    if not keys:
        return top
    left, row = _EDGE, LABEL * _LEADING
    for entry in keys:
        words = shortened(entry.label, LABEL, chart.width - 2 * _EDGE - _SWATCH)
        wide = _SWATCH + text_width(words, LABEL)
        if left > _EDGE and left + wide > chart.width - _EDGE:
            left, top = _EDGE, top + row
        swatches.append(KeyEntry(left, top + row / 2, entry.stroke, entry.shape))
        texts.append(Text(left + _SWATCH, top + row / 2, words, role="key", whole=entry.label))
        left += wide + 16
    return top + row + 2


def _area(chart: "Chart", top: float, x: Scale, y: Scale, keys: list[_Key]) -> Box:
    """Return the plot area: what ticks and the labels at the right leave."""
    left = _EDGE + 6 + max((text_width(text, TICK) for text in _y_names(chart, y)), default=0.0)
    bottom = _below(chart) - (LABEL * _LEADING if chart.x.label else 0.0)
    right = chart.width - _EDGE - 6
    if chart.x.names:
        names, turned = _turned(chart.x.names, (right - left) / len(chart.x.names))
        longest = max((text_width(name, TICK) for name in names), default=0.0)
        bottom -= _BELOW + (math.sin(_TURNED) * longest + TICK if turned else TICK * _LEADING)
    else:
        bottom -= _BELOW + TICK * _LEADING
        right -= 12  # for half of the last number
    beside = [text_width(text, LABEL) for bars in chart.columns for text in bars.texts] if chart.y.names else []
    beside += [
        text_width(line.label, LABEL)
        for line in chart.lines
        if line.label and _Key(line.label, line.stroke, "line") not in keys
    ]
    room = max((width for width in beside if chart.y.names or width <= 0.4 * chart.width), default=0.0)
    right = min(right, chart.width - _EDGE - 10 - room) if room else right
    return Box(
        left, min(top, bottom - 40), max(right, left + 60), max(bottom, top + 40) if bottom < top + 40 else bottom
    )


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
    if chart.x.label:
        middle = (area.left + area.right) / 2
        words = shortened(chart.x.label, LABEL, chart.width - 2 * _EDGE)
        reach = text_width(words, LABEL) / 2
        middle = min(max(middle, _EDGE + reach), chart.width - _EDGE - reach)
        height = _below(chart) - LABEL * _LEADING / 2
        texts.append(Text(middle, height, words, LABEL, "middle", "soft", role="x-label"))


def _labels(chart: "Chart", layout: Layout, keys: list[_Key]) -> list[_Key]:
    """Write labels of bars, marks, levels and lines; return those for which there is no room."""
    area = layout.area
    taken: list[Box] = []
    drawn = samples(part for line in chart.lines for part in layout.parts(line))
    seen: list[tuple[float, float, str]] = []
    for mark in chart.marks:
        x, y = layout.x.at(mark.x), layout.y.at(mark.y)
        if area.holds((x, y)):
            seen.append((x, y, mark.text))
            taken.append(Box(x - 6, y - 6, x + 6, y + 6))
    taken += _bar_texts(chart, layout)
    homeless = _end_labels(chart, layout, keys, taken, drawn)
    in_the_way = drawn + samples(_across(chart, layout))
    for x, y, text in seen:
        if not text:
            continue
        box = free_box(around(x, y, _size(text), area), taken, area, in_the_way) or free_box(
            anywhere(_size(text), area), taken, area, in_the_way
        )
        if box is not None:
            taken.append(box)
            _write(layout, box, text, "ink", "mark", bold=True)
            near = (min(max(x, box.left), box.right), min(max(y, box.top), box.bottom))
            if math.dist((x, y), near) > 22:
                layout.leaders.append(((x, y), near, "soft"))
        else:
            homeless.append(_Key(text, Stroke("ink", 0), "mark"))
    rows = 0
    for level in chart.levels:
        if not level.label or _Key(level.label, level.stroke, "line") in keys:
            continue
        at = (layout.x if level.upright else layout.y).at(level.value)
        if math.isnan(at) or not (area.left <= at <= area.right if level.upright else area.top <= at <= area.bottom):
            continue
        if chart.y.names:
            box = free_box(beside(at, _size(level.label), area, area.top + _ROW_OF_LEVELS * rows), taken, area)
            rows += 1
        else:
            size = _size(level.label)
            choices = upright(at, size, area) if level.upright else along(at, size, area)
            box = free_box(choices, taken, area, drawn)
        if box is None:
            homeless.append(_Key(level.label, level.stroke, "line"))
            continue
        taken.append(box)
        _write(layout, box, level.label, level.stroke.colour, "level")
    return homeless


def _across(chart: "Chart", layout: Layout) -> list[list[Point]]:
    """Return the lines of levels from end to end."""
    area, lines = layout.area, []
    for level in chart.levels:
        at = (layout.x if level.upright else layout.y).at(level.value)
        if not math.isnan(at):
            lines.append([(at, area.top), (at, area.bottom)] if level.upright else [(area.left, at), (area.right, at)])
    return lines


def _write(layout: Layout, box: Box, text: str, colour: str, role: str, *, bold: bool = False) -> None:
    layout.texts.append(Text(box.left, (box.top + box.bottom) / 2, text, colour=colour, role=role, bold=bold))


def _size(text: str) -> tuple[float, float]:
    return text_width(text, LABEL) + 2, LABEL * _LEADING


def _bar_texts(chart: "Chart", layout: Layout) -> list[Box]:
    """Write the texts beside horizontal bars, and return their boxes."""
    boxes: list[Box] = []
    if not chart.y.names:
        return boxes
    band = (layout.y.end - layout.y.start) / len(chart.y.names)
    for bars in chart.columns[:1]:
        for index, text in enumerate(bars.texts):
            ends = [layout.x.at(part[index]) for part in (bars.values, bars.upper) if part]
            right = max([end for end in ends if not math.isnan(end)], default=layout.area.left)
            right = min(max(right, layout.area.left), layout.area.right)
            if band >= LABEL * _LEADING and text:
                written = Text(right + 6, layout.y.at(index), text, colour=bars.strokes[index].colour, role="value")
                layout.texts.append(written)
                boxes.append(written.box)
    return boxes


def _end_labels(chart: "Chart", layout: Layout, keys: list[_Key], taken: list[Box], drawn: list[Point]) -> list[_Key]:
    """Write labels at the ends of lines: stacked at the right of the area, or near an end that is far from there."""
    area, height = layout.area, LABEL * _LEADING
    right: list[tuple[Line, Point]] = []
    homeless: list[_Key] = []
    most = int((area.bottom - area.top) // height)
    for line in chart.lines:
        entry = _Key(line.label, line.stroke, "line")
        if not line.label or entry in keys:
            continue
        parts = layout.parts(line)
        if not parts:
            continue  # nothing of it is seen
        end = max((point for part in parts for point in part), key=lambda point: point[0])
        if end[0] < area.right - 0.3 * (area.right - area.left):
            box = free_box(around(*end, _size(line.label), area), taken, area, drawn)
            if box is None:
                homeless.append(entry)
                continue
            taken.append(box)
            _write(layout, box, line.label, line.stroke.colour, "line")
        elif len(right) == most or text_width(line.label, LABEL) > 0.4 * chart.width:
            homeless.append(entry)
        else:
            right.append((line, end))
    if dense([end[1] for _, end in right]):
        return homeless + [_Key(line.label, line.stroke, "line") for line, _ in right]
    if right:
        centers = stacked([end[1] for _, end in right], height, area.top - height / 2, area.bottom + height / 2)
        for (line, end), center in zip(right, centers, strict=True):
            layout.texts.append(Text(area.right + 10, center, line.label, colour=line.stroke.colour, role="line"))
            if abs(center - end[1]) > 4 or end[0] < area.right - 4:
                layout.leaders.append(((end[0] + 2, end[1]), (area.right + 8, center), line.stroke.colour))
    return homeless


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
