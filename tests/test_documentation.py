"""What is printed names pages by their address, never by a file that only the repository has."""

import ast
from pathlib import Path

import pytest

import shoal
from shoal.catalogue import Theorem
from shoal.documentation import SITE, address, linked

_ROOT = Path(__file__).parents[1]
_SOURCE = _ROOT / "src" / "shoal"
_CITING = {"approximate", "citation", "proof"}
"""Fields of the catalogue that name files; whoever prints them calls `linked`."""


def _texts(tree: ast.AST) -> list[ast.Constant]:
    """Return the texts of a module that name a page, without docstrings and what the catalogue says of a theorem."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        if isinstance(node, ast.keyword) and node.arg in _CITING:
            left_out |= {id(part) for part in ast.walk(node.value)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in left_out)
    return [node for node in found if isinstance(node.value, str) and "docs/" in node.value]


@pytest.mark.slow
def test_no_message_names_a_file() -> None:
    assert len(_texts(ast.parse('"""docs/a.md"""\nf("docs/b.md", proof="docs/c.md")\nx = f"{1} docs/d.md"'))) == 2
    words = _SOURCE / "assumptions.py"  # of certificates, which are printed by `linked`, too
    pages = [path for path in _SOURCE.rglob("*.py") if path not in (words, _SOURCE / "documentation.py")]
    named = {path.name: [node.value for node in _texts(ast.parse(path.read_text()))] for path in pages}
    allowed = {"loss_accountant.py", "bounds.py", "clones.py", "group_privacy.py", "budget.py"}
    assert {name for name, texts in named.items() if texts} <= allowed, named


@pytest.mark.parametrize("row", shoal.theorems(), ids=lambda row: f"{row.kind}-{row.name}")
def test_theorems_are_printed_with_the_address_of_a_page(row: Theorem) -> None:
    printed = f"{row!r} {row.to_dict()} {row.described()} {row._repr_html_()}"
    assert "docs/" not in printed
    for page in (_ROOT / "docs" / "theory").glob("*.md"):
        if f"docs/theory/{page.name}" in row.proof:
            assert address(f"theory/{page.stem}") in row.to_dict()["proof"]
    assert "docs/" in row.proof or SITE not in row.described()["proof"]


def test_answers_carry_addresses() -> None:
    one = shoal.amplify(local_epsilon=1, reports=10_000)
    approximate = shoal.amplify(local_epsilon=1, local_delta=1e-9, reports=99)
    for curve in (one, approximate, shoal.compose([(one, 3)])):
        assert SITE in curve.theorem
        assert "docs/" not in f"{curve.theorem} {curve.to_dict(delta=1e-6)}"
    assert "docs/" not in str(shoal.compare(local_epsilon=1, reports=1_000, delta=1e-6).to_frame())


def test_the_words_of_a_certificate_can_be_linked() -> None:
    """They stay as they are, since a certificate is read word for word."""
    text = shoal.amplify(local_epsilon=1, reports=1_000).certify(delta=1e-6).to_json()
    assert "docs/theory/" in text
    assert "docs/theory/" not in linked(text)
