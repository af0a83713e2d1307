"""What is said of the speed of one question is what docs/instant.csv has."""

import math
from pathlib import Path

import pytest

from benchmarks.instant import discrete, page, table

_ROOT = Path(__file__).parents[2]


def test_the_table_of_the_page_is_that_of_the_points() -> None:
    text = (_ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert page(text) == text
    assert table() in text
    points = (_ROOT / "docs" / "instant.csv").read_text(encoding="utf-8").splitlines()[1:]
    rows = table().splitlines()[2:]
    assert sum(int(row.split("|")[2]) for row in rows) == len(points)  # every kind is in a line, and in one only


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers"):
        page("# How fast\n")


def test_readme_has_the_median_and_the_largest() -> None:
    median, largest = discrete()
    said = f"takes {median:.1f} milliseconds in the median and {math.ceil(largest)} at most"
    assert said in (_ROOT / "README.md").read_text(encoding="utf-8")
