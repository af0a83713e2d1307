"""What a review says, line by line, each with a mark that says how far to trust it."""

from dataclasses import asdict, dataclass, fields
from typing import Any
from unicodedata import category

from shoal.charts import Axis
from shoal.charts import Chart as Drawing
from shoal.errors import FormatError, ParameterError

MARKS = {
    "proved": "proved in ball arithmetic by a certificate on this page; `shoal verify` proves it again",
    "computed": "a theorem, computed in floating point and rounded to the safe side; `shoal verify` does not check it",
    "assumed": "nothing checks it: the guarantee holds if this does",
    "declared": "said by whoever made this page, and checked by nobody else; so is the title, and all that has no mark",
}
"""The marks, and what each of them means."""


@dataclass(frozen=True)
class Statement:
    """A sentence with its mark."""

    mark: str
    text: str


@dataclass(frozen=True)
class Table:
    """Rows, each with its mark, under a caption and a head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The mark, and then a text for each column."""


@dataclass(frozen=True)
class Line:
    """A line of a chart: its label, what kind of line it is, and its points."""

    label: str
    kind: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class Chart:
    """A chart on log scales with its mark: what is drawn, and not the drawing, which could say anything."""

    mark: str
    title: str
    description: str
    x: str
    y: str
    low: float
    high: float
    lines: tuple[Line, ...]

    def svg(self) -> str:
        """Return the drawing; its style is that of the page."""
        x, y = (Axis(label, "log", self.low, self.high) for label in (self.x, self.y))
        drawing = Drawing(x, y, self.title, self.description)
        for line in self.lines:
            drawing.line(line.xs, line.ys, line.label, kind=line.kind)
        return drawing.svg(style=False)


@dataclass(frozen=True)
class Field:
    """Something that a person has to fill in."""

    label: str
    hint: str


Item = Statement | Table | Chart | Field
_LINES = ("guarantee", "local", "limit")
_MOST_LINES, _MOST_POINTS, _MOST_LETTERS = 8, 1000, 300
"""Of a chart, and of each text in it: to find a place for a long one takes long."""
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Control characters, those that turn text around, and ends of lines: what is seen would not be what is written."""
_JOINERS = "\u200c\u200d"
"""Of this kind, and part of how Persian, Hindi and families of emoji are spelled."""
_KINDS: dict[str, type[Item]] = {"statement": Statement, "table": Table, "chart": Chart, "field": Field}


@dataclass(frozen=True)
class Section:
    """A part of a review, under a heading."""

    title: str
    items: tuple[Item, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, each item with its kind."""
        names = {kind: name for name, kind in _KINDS.items()}
        return {"title": self.title, "items": [{"kind": names[type(item)], **asdict(item)} for item in self.items]}

    @classmethod
    def from_dict(cls, value: Any) -> "Section":
        """Return the section that plain values describe, or refuse them."""
        if not isinstance(value, dict) or set(value) != {"title", "items"} or not isinstance(value["items"], list):
            raise FormatError("a section of a review has a title and items")
        return cls(text_of_review(value["title"]), tuple(_item(item) for item in value["items"]))


def _item(value: Any) -> Item:
    """Return the item that a plain value describes, or refuse it."""
    kind = _KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
    if kind is None or set(value) != {"kind", *(field.name for field in fields(kind))}:
        raise FormatError(f"an item of a review is one of {', '.join(_KINDS)}, with its fields and no others")
    parts = {name: part for name, part in value.items() if name != "kind"}
    item: Item
    if kind is Table:
        item = _table(parts)
    elif kind is Chart:
        item = _chart(parts)
    else:
        texts: dict[str, Any] = {name: text_of_review(part) for name, part in parts.items()}
        item = kind(**texts)
    if unknown := [mark for mark in marks_of(item) if mark not in MARKS]:
        raise FormatError(f"there is no mark {unknown[0]!r:.40}")
    return item


def _table(parts: dict[str, Any]) -> Table:
    if not all(isinstance(part, list | tuple) for part in (parts["head"], parts["rows"], *parts["rows"])):
        raise FormatError("a table of a review has a head and rows")
    rows = tuple(tuple(text_of_review(cell) for cell in row) for row in parts["rows"])
    head = tuple(text_of_review(cell) for cell in parts["head"])
    if any(len(row) != len(head) + 1 for row in rows):
        raise FormatError("a row of a table has a mark and as many texts as its head")
    return Table(text_of_review(parts["caption"]), head, rows)


def _chart(parts: dict[str, Any]) -> Chart:
    lines = parts["lines"]
    if not isinstance(lines, list | tuple) or len(lines) > _MOST_LINES:
        raise FormatError(f"a chart of a review has up to {_MOST_LINES} lines")
    mark, title, description, x, y = (_short(parts[name]) for name in ("mark", "title", "description", "x", "y"))
    low, high = _number(parts["low"]), _number(parts["high"])
    chart = Chart(mark, title, description, x, y, low, high, tuple(_line(line) for line in lines))
    try:
        chart.svg()
    except ParameterError as error:
        raise FormatError(f"a chart of a review cannot be drawn: {error}") from None
    return chart


def _line(value: Any) -> Line:
    if not isinstance(value, dict) or set(value) != {"label", "kind", "xs", "ys"} or value["kind"] not in _LINES:
        raise FormatError(f"a line of a chart has a label, points, and one of the kinds {', '.join(_LINES)}")
    points = value["xs"], value["ys"]
    if not all(isinstance(part, list | tuple) and 1 < len(part) <= _MOST_POINTS for part in points):
        raise FormatError(f"a line of a chart has 2 to {_MOST_POINTS:,} points")
    xs, ys = (tuple(_number(number) for number in part) for part in points)
    return Line(_short(value["label"]), value["kind"], xs, ys)


def _short(value: Any) -> str:
    text = text_of_review(value)
    if len(text) > _MOST_LETTERS:
        raise FormatError(f"a text of a chart has up to {_MOST_LETTERS} letters, got {len(text):,}")
    return text


def marks_of(item: Item) -> tuple[str, ...]:
    """Return the marks of an item: one a statement, one a row."""
    if isinstance(item, Table):
        return tuple(row[0] for row in item.rows)
    return () if isinstance(item, Field) else (item.mark,)


def _hidden(letter: str) -> bool:
    return category(letter) in _HIDDEN and letter not in _JOINERS


def plain_text(text: str) -> str:
    """Return a stranger's text on one line, with a sign for each character that is none to be seen.

    Examples
    --------
    >>> plain_text("a" + chr(10) + "b")
    'a�b'
    """
    return "".join("�" if _hidden(letter) else letter for letter in text)


def text_of_review(value: Any) -> str:
    """Return a text that a review has, or refuse it: on one line, and written as it is seen."""
    if not isinstance(value, str):
        raise FormatError(f"a text is wanted in a review, got {value!r:.40}")
    if any(map(_hidden, value)):
        raise FormatError(f"a text of a review has control characters, or such as turn text around: {value!a:.60}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, float):
        raise FormatError(f"a number with a point is wanted in a chart of a review, got {value!r:.40}")
    return value
