"""Items of a review as plain values, and what is none."""

from typing import Any

import pytest

from shoal.errors import FormatError
from shoal.review.statement import MARKS, Chart, Field, Line, Section, Statement, Table, marks_of

_SECTION = Section(
    "A title",
    (
        Statement("assumed", "text"),
        Table("caption", ("a", "b"), (("computed", "1", "2"),)),
        Chart("computed", "t", "d", "x", "y", 0.1, 1.0, (Line("a", "limit", (0.1, 1.0), (0.1, 1.0)),)),
        Field("label", "hint"),
    ),
)


def test_a_section_comes_back_from_plain_values() -> None:
    assert Section.from_dict(_SECTION.to_dict()) == _SECTION
    assert [marks_of(item) for item in _SECTION.items] == [("assumed",), ("computed",), ("computed",), ()]
    assert set(MARKS) == {"proved", "computed", "assumed", "declared"}


@pytest.mark.parametrize(
    "item",
    [
        {"kind": "statement", "mark": "true", "text": "x"},
        {"kind": "statement", "mark": "proved"},
        {"kind": "statement", "mark": "proved", "text": "x", "more": "y"},
        {"kind": "statement", "mark": "proved", "text": 7},
        {"kind": "other"},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": [["computed"]]},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": [["sure", "1"]]},
        {"kind": "table", "caption": "c", "head": "a", "rows": []},
        {"kind": "table", "caption": "c", "head": ["a"], "rows": ["xy"]},
        7,
        None,
    ],
)
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(FormatError):
        Section.from_dict({"title": "x", "items": [item]})
