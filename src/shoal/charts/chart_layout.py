"""Where everything of a chart goes: the plot area, ticks, and labels that do not overlap."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from shoal.charts.chart_parts import Line, clipped, samples
from shoal.charts.colours import Stroke
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

if TYPE_CHECKING:
    from shoal.charts.svg_chart import Chart

__all__ = ["KeyEntry", "Layout", "Text", "laid_out"]

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
