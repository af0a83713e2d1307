"""Where labels go: how wide a text is, without its font, and places in which it covers nothing."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

_NARROW = frozenset("ijltfrI|!.,:;'`()[]{}/\\ -·’‘")
_WIDE = frozenset("mwMW@%&—…")


@lru_cache(maxsize=2048)
def _ems(letter: str) -> float:
    if letter in _NARROW:
        return 0.40
    if letter in _WIDE:
        return 1.0
    if unicodedata.combining(letter):
        return 0.0
    if letter in "₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹⁻":
        return 0.45
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if ord(letter) >= 0x2190:  # arrows, signs, pictures: whatever font has them
        return 1.3 if ord(letter) >= 0x1F000 else 0.85
    return 0.78 if letter.isupper() else 0.64


def text_width(text: str, size: float) -> float:
    """Return about the width of a line of text in pixels, at this size of the font.

    Examples
    --------
    >>> text_width("ε = 0.04", 12) < text_width("ε = 0.0409509", 12)
    True
    """
    return size * sum(map(_ems, text))


def shortened(text: str, size: float, room: float) -> str:
    """Return as much of a text as fits, with an ellipsis if that is not all of it.

    Examples
    --------
    >>> shortened("a rather long name of a category", 12, 90), shortened("red", 12, 90)
    ('a rather lon…', 'red')
    """
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


Point = tuple[float, float]
Size = tuple[float, float]
"""Width and height."""
_ROUNDING = 1e-6


class Box(NamedTuple):
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Tell whether both have more in common than an edge, rounding apart."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return min(across, down) > _ROUNDING

    def inside(self, other: "Box") -> bool:
        """Tell whether all of it is in the other."""
        least = min(self.left - other.left, other.right - self.right, self.top - other.top, other.bottom - self.bottom)
        return least >= -_ROUNDING

    def moved_into(self, area: "Box") -> "Box":
        """Return it moved as little as it takes to be in an area, if it fits."""
        across = max(area.left - self.left, 0.0) + min(area.right - self.right, 0.0)
        down = max(area.top - self.top, 0.0) + min(area.bottom - self.bottom, 0.0)
        return Box(self.left + across, self.top + down, self.right + across, self.bottom + down)

    def holds(self, point: Point) -> bool:
        """Tell whether it has this point."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def free_box(candidates: Iterable[Box], taken: Sequence[Box], area: Box, drawn: Sequence[Point] = ()) -> Box | None:
    """Return the candidate that hides least of what is drawn, of those in the area that overlap nothing; the first.

    Examples
    --------
    >>> area, line = Box(0, 0, 100, 100), [(15.0, 15.0)]
    >>> free_box([Box(0, 0, 20, 20), Box(10, 10, 30, 30), Box(40, 0, 60, 20)], [Box(0, 0, 5, 5)], area, line)
    Box(left=40, top=0, right=60, bottom=20)
    """
    best, least = None, len(drawn) + 1
    for box in candidates:
        if not box.inside(area) or any(box.overlaps(other) for other in taken):
            continue
        hidden = sum(map(box.holds, drawn))
        if hidden < least:
            best, least = box, hidden
            if not hidden:
                break
    return best


def around(x: float, y: float, size: Size, area: Box) -> Iterator[Box]:
    """Yield boxes around a point, in an area, the nearest first, and above rather than below."""
    width, height = size
    for gap in (9.0, 18.0):
        for left, top in (
            (x + gap, y - gap - height / 2),
            (x - gap - width, y - gap - height / 2),
            (x + gap, y + gap - height / 2),
            (x - gap - width, y + gap - height / 2),
            (x - width / 2, y - gap - height),
            (x - width / 2, y + gap),
            (x + gap, y - height / 2),
            (x - gap - width, y - height / 2),
        ):
            yield Box(left, top, left + width, top + height).moved_into(area)
