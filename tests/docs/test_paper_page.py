"""docs/paper.md: every item of the paper has a row, and whatever a row names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from figures.gallery import FIGURES
from shoal.amplification.amplify import proven_bounds

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs/paper.md").read_text(encoding="utf-8")
_ROWS = dict(re.findall(r"(?ms)^### (\w+ [\dA-G.]+[a-d]?)\n(.*?)(?=^##|\Z)", _PAGE))
_ITEMS = [
    "Table 1",
    *("Definition 2.1", "Definition 2.2", "Lemma 2.3"),
    *(
        "Theorem 3.1",
        "Theorem 3.2",
        "Lemma 3.3",
        "Lemma 3.4",
        "Lemma 3.5",
        "Definition 3.6",
        "Lemma 3.7",
        "Theorem 3.8",
    ),
    *(
        "Theorem 4.1",
        "Corollary 4.2",
        "Theorem 5.1",
        "Theorem 5.2",
        "Proposition 5.3",
        "Definition 6.1",
        "Definition 6.2",
    ),
    *("Lemma A.1", "Lemma C.1", "Lemma F.1", "Lemma F.2", "Proposition F.3", "Proposition G.1"),
    *(f"Algorithm {number}" for number in range(1, 8)),
    *("Figure 1", "Figure 2a", "Figure 2b", "Figure 2c", "Figure 3a", "Figure 3b", "Figure 3c", "Figure 3d"),
    *("Figure 4", "Figure 5"),
]
"""As LaTeX numbers them in the source of version 3: theorems and their like share a counter in each section."""


@cache
def _names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_every_item_of_the_paper_has_a_row() -> None:
    assert sorted(_ROWS) == sorted(_ITEMS)


@pytest.mark.slow
@pytest.mark.parametrize("item", _ITEMS)
def test_whatever_a_row_names_exists(item: str) -> None:
    text = _ROWS[item]
    assert len(text.split("\n- ")[0].strip()) > 20
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    for path, name in named:
        assert name in _names(_ROOT / path), f"{path}::{name}"
    assert set(re.findall(r'bound="([\w-]+)"', text)) <= set(proven_bounds())
    assert set(re.findall(r"\[`([\w-]+)`\]", text)) <= set(FIGURES)
    if item != "Figure 1":  # a drawing, which has nothing to compute
        assert any(name.startswith("test_") for _, name in named)
    if item.startswith("Algorithm"):
        told = "".join(path.read_text(encoding="utf-8") for path in (_ROOT / "tests/oracles").glob("*.py"))
        assert re.search(rf"{item}\b", told)


def test_every_erratum_about_the_paper_is_in_a_row() -> None:
    """All of the first part, and those of later parts whose place is an item of the paper."""
    text = (_ROOT / "docs/theory/errata.md").read_text(encoding="utf-8")
    first = text.split("## FMT23")[0]
    numbers = {*re.findall(r"(?m)^### (\d+)\.", first), "22", "23", "28"}
    assert len(numbers) == 17
    assert numbers <= set(re.findall(r"\[(\d+)d?\]\(theory/errata", _PAGE))
