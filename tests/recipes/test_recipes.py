"""The recipes of CONTRIBUTING.md are short, and each has a test that follows it."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_TEXT = (_ROOT / "CONTRIBUTING.md").read_text().split("## Recipes")[1].split("\n## ")[0]
_RECIPES = dict(re.findall(r"(?ms)^### (Add [^\n]*)\n(.*?)(?=^### |\Z)", _TEXT))
_MOST_LINES = 30


def test_there_is_a_recipe_for_every_open_world() -> None:
    worlds = (
        "bound",
        "pair",
        "composition method",
        "mechanism",
        "sampler",
        "store",
        "round kind",
        "figure",
        "verb",
        "question",
    )
    assert list(_RECIPES) == [f"Add a {world}" for world in worlds]


@pytest.mark.parametrize("name", _RECIPES)
def test_a_recipe_is_short_and_followed_by_a_test(name: str) -> None:
    text = _RECIPES[name]
    prose = re.sub(r"(?s)```python\n.*?```", "", text)
    assert len(prose.strip().splitlines()) <= _MOST_LINES
    (test,) = re.findall(r"`(tests/recipes/test_\w+\.py)` follows this", text)
    assert (_ROOT / test).exists()
    assert test == f"tests/recipes/test_{name.removeprefix('Add a ').replace(' ', '_')}.py"
