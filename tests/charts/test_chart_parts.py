"""Parts of lines that are in the plot area, and texts that XML can hold."""

import math

from hypothesis import given
from hypothesis import strategies as st

from shoal.charts.chart_parts import clipped, printable, samples
from shoal.charts.label_positions import Box

_AREA = Box(0.0, 0.0, 10.0, 10.0)
_points = st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), max_size=8)


@given(_points)
def test_what_is_seen_is_all_that_is_in_the_area(points: list[tuple[float, float]]) -> None:
    seen = samples(clipped(points, _AREA), 0.5)
    grown = Box(-1e-9, -1e-9, 10 + 1e-9, 10 + 1e-9)
    assert all(grown.holds(point) for point in seen)
    inner = Box(0.1, 0.1, 9.9, 9.9)
    for point in samples([points], 0.7) if points else []:
        if inner.holds(point):
            assert min(math.dist(point, other) for other in seen) < 0.6


@given(st.text())
def test_printable_texts_are_valid_in_xml(text: str) -> None:
    assert all(
        letter == "\ufffd" or 0x20 <= ord(letter) < 0xD800 or 0xE000 <= ord(letter) < 0xFFFE or ord(letter) > 0xFFFF
        for letter in printable(text)
    )
