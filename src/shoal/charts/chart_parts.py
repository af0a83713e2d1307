"""What a chart is made of: lines, bands, bars, dots, marked points, levels, and the parts of a line that are seen."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from shoal.charts.colours import Stroke
from shoal.charts.label_positions import Box, Point
from shoal.errors import ParameterError


class Line(NamedTuple):
    """A line through points, broken where one is not a number."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    label: str
    stroke: Stroke


class Band(NamedTuple):
    """What is between two lines."""

    xs: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    label: str
    stroke: Stroke


class Bars(NamedTuple):
    """A bar for each name of an axis, with error bars, texts and colours of their own if they have any."""

    values: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    label: str
    interval: str
    texts: tuple[str, ...]
    strokes: tuple[Stroke, ...]


class Dots(NamedTuple):
    """A short stroke across each bar, such as the truth."""

    values: tuple[float, ...]
    label: str
    stroke: Stroke


class Mark(NamedTuple):
    """A point with its number."""

    x: float
    y: float
    text: str


class Level(NamedTuple):
    """A line across the chart at a value: of the vertical axis, or of the horizontal one if it is upright."""

    value: float
    label: str
    stroke: Stroke
    upright: bool = False


def floats(values: Iterable[float], size: int | None = None, **names: object) -> tuple[float, ...]:
    """Return values as plain floats, NaN for what is infinite or missing; as many as there should be."""
    result = tuple(math.nan if value is None else float(value) for value in values)
    if size is not None and len(result) != size:
        raise ParameterError(f"{', '.join(names) or 'values'} must be {size} numbers, got {len(result)}")
    return tuple(value if math.isfinite(value) else math.nan for value in result)


def clipped(points: Sequence[Point], area: Box) -> list[list[Point]]:
    """Return the parts of a line through these points that are in the area; NaN breaks it.

    Examples
    --------
    >>> clipped([(-10, 5), (10, 5), (float("nan"), 0), (3, 3)], Box(0, 0, 8, 8))
    [[(0.0, 5.0), (8.0, 5.0)], [(3, 3)]]
    """
    parts: list[list[Point]] = []
    for index, end in enumerate(points):
        start = points[index - 1] if index else (math.nan, math.nan)
        if any(map(math.isnan, end)):
            continue
        if any(map(math.isnan, start)):
            following = points[index + 1] if index + 1 < len(points) else (math.nan, math.nan)
            if any(map(math.isnan, following)) and area.holds(end):
                parts.append([end])  # a point by itself
            continue
        piece = _segment(start, end, area)
        if piece is None:
            continue
        if parts and parts[-1][-1] == piece[0] == start:
            parts[-1].append(piece[1])
        else:
            parts.append(list(piece))
    return parts


def _segment(start: Point, end: Point, area: Box) -> tuple[Point, Point] | None:
    """Return what is in the area of a segment, by the method of Liang and Barsky."""
    (x, y), across, down = start, end[0] - start[0], end[1] - start[1]
    first, last = 0.0, 1.0
    sides = ((-across, x - area.left), (across, area.right - x), (-down, y - area.top), (down, area.bottom - y))
    for slope, room in sides:
        if slope == 0:
            if room < 0:
                return None
        elif slope < 0:
            first = max(first, room / slope)
        else:
            last = min(last, room / slope)
    if first > last:
        return None
    enter = start if first == 0 else (x + first * across, y + first * down)
    leave = end if last == 1 else (x + last * across, y + last * down)
    return enter, leave


def samples(parts: Iterable[Sequence[Point]], step: float = 5.0) -> list[Point]:
    """Return points along parts of a line, not farther apart than this."""
    result: list[Point] = []
    for part in parts:
        result.append(part[0])
        for (x, y), (right, below) in pairwise(part):
            count = max(1, math.ceil(math.hypot(right - x, below - y) / step))
            result += [(x + (right - x) * i / count, y + (below - y) * i / count) for i in range(1, count + 1)]
    return result
