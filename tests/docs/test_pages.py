"""The glossary has every term that a page refers to, and the pictures are those that their program draws."""

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_GLOSSARY = (_DOCS / "explanation/glossary.md").read_text(encoding="utf-8")
_TERMS = set(re.findall(r"(?m)^(\S.*)\n  \S", _GLOSSARY.split(":::{glossary}\n")[1]))


def test_every_term_is_in_the_glossary() -> None:
    assert len(_TERMS) > 60
    used = 0
    for path in [*_DOCS.rglob("*.md"), *_DOCS.glob("tutorials/*.py")]:
        pattern = r"\{term\}`([^`]+)`" if path.suffix == ".md" else r":term:`([^`]+)`"
        for text in re.findall(pattern, path.read_text(encoding="utf-8")):
            name = re.sub(r".*<(.+)>$", r"\1", text.replace("\n", " "))
            assert name in _TERMS, f"{path.name}: {name}"
            used += 1
    assert used > 100


def test_the_glossary_is_in_order() -> None:
    """By the Latin alphabet, whatever the case, and then the Greek letters as they are written there."""
    names = re.findall(r"(?m)^(\S.*)\n  \S", _GLOSSARY.split(":::{glossary}\n")[1])
    latin = [name.lower().replace("é", "e") for name in names if name[0] not in "εδ"]
    assert latin == sorted(latin)
    assert names[len(latin) :] == ["ε", "ε₀", "δ"]


def test_every_label_that_is_referred_to_is_a_tutorial() -> None:
    labels = {
        label
        for path in _DOCS.glob("tutorials/plot_*.py")
        for label in re.findall(r"(?m)^\.\. _([\w-]+):$", path.read_text(encoding="utf-8"))
    }
    assert len(labels) == 10
    for path in _DOCS.rglob("*.md"):
        for text in re.findall(r"\{ref\}`([^`]+)`", path.read_text(encoding="utf-8")):
            assert re.sub(r".*<(.+)>$", r"\1", text) in labels, path.name


def _exists(name: str) -> bool:
    """Return whether a dotted name is a module, or a member of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if part in fields:
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.slow
def test_every_name_in_running_text_exists() -> None:
    """Code blocks are run by other tests; each `shoal.name` in a sentence must exist, too."""
    assert not _exists("shoal.sgd.LogisticRegression")
    named = set()
    for path in [*_DOCS.rglob("*.md"), *_DOCS.glob("tutorials/*.py"), _ROOT / "README.md"]:
        prose = re.sub(r"(?ms)^```.*?^```", "", path.read_text(encoding="utf-8"))
        named |= {(path.name, name) for name in re.findall(r"`(shoal(?:\.\w+)+)", prose)}
    assert len(named) > 40
    assert [each for each in sorted(named) if not _exists(each[1])] == []


@pytest.mark.slow
def test_the_pictures_are_drawn_from_computed_numbers() -> None:
    drawn = runpy.run_path(str(_DOCS / "start/pictures.py"))["pictures"]()
    assert sorted(drawn) == sorted(path.name for path in (_DOCS / "start/pictures").iterdir())
    for name, text in drawn.items():
        assert (_DOCS / "start/pictures" / name).read_text(encoding="utf-8") == text
    page = (_DOCS / "start/idea.md").read_text(encoding="utf-8")
    assert all(f"pictures/{name}" in page for name in drawn)
