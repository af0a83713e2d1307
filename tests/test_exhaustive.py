"""The part of a grid that runs by default, and the planted faults that CONTRIBUTING.md lists."""

import ast
import re
from itertools import product
from pathlib import Path

from tests import exhaustive
from tests.exhaustive import amount, representative

_ROOT = Path(__file__).parents[1]


def test_a_part_has_every_coordinate_and_keeps_the_order() -> None:
    grid = list(product("abc", (1, 2, 3, 4), (True, False)))
    if exhaustive.EXHAUSTIVE:
        assert representative(grid, 5) == grid and amount(3, 10) == 10
        return
    part = representative(grid, 5)
    assert len(part) == len(set(part)) == 5 and part == sorted(part, key=grid.index) == representative(grid, 5)
    for place, values in enumerate(("abc", (1, 2, 3, 4), (True, False))):
        assert {point[place] for point in part} == set(values)
    assert representative(grid, 100) == grid
    assert representative(range(9), 3) == [0, 4, 8]
    assert representative([{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 2, "b": 3}], 2) == [
        {"a": 1, "b": 2},
        {"a": 2, "b": 3},
    ]
    assert amount(3, 10) == 3


def test_every_planted_fault_is_looked_for_by_default() -> None:
    """Each test of the list is there, and nothing in it waits for `make exhaustive`."""
    section = (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Planted faults")[1].split("\n## ")[0]
    listed = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", section)
    assert len(listed) > 20
    for path, name in listed:
        source = (_ROOT / path).read_text(encoding="utf-8")
        found = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name]
        assert len(found) == 1, f"CONTRIBUTING.md names {path}::{name}, which is not there"
        marks = " ".join(ast.unparse(each) for each in found[0].decorator_list)
        assert "exhaustive" not in marks and "representative" not in marks, name
