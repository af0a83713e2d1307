"""Assumptions and error causes are values: no module decides by the words of a sentence or of a message."""

import ast
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import shoal
from shoal.assumptions import ADAPTIVE, COLLUDE, Assumption, Topic, shuffled
from shoal.catalogue import theorems
from shoal.errors import AskedError, ParameterError

_SOURCE = Path(shoal.__file__).parent
_ALLOWED = {
    ("cli/__init__.py", "str(error).split('Available commands')"): "cyclopts has its list of commands in the message",
    ("cli/output.py", "re.compile"): "prints the address of a theorem as a link",
    ("cli/verbs/doctor.py", "re.compile"): "the metadata of packages",
    ("collect/kinds/dummy_rounds.py", "re.compile"): "the format of a line that helpers sign",
    ("collect/high_water.py", "_FORMAT"): "the name of a file format",
    ("collect/kinds/heavy_hitter_rounds.py", "_FORMAT"): "the name of a file format",
    ("collect/sqlite_connection.py", "_NOISE"): "shortens what SQLite says, for people",
    ("collect/task.py", "SUITE"): "the name of a cipher suite",
    ("questions/copied_code.py", "'from '"): "a statement of Python",
    ("review/review_document.py", "re.compile"): "a tag of HTML",
    ("review/review_document.py", "BLOCK"): "a tag of HTML",
}
"""Where words may be searched, by the module and a part of the expression, and why."""

_SEARCHES = {
    "count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex",
    "rpartition", "rsplit", "split", "startswith",
}  # fmt: skip
_PATTERNS = {"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"}
_SAMENESS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_PROSE = re.compile(r"[^\W\d_]{3,}[,;:.]? | [^\W\d_]{3,}")
"""A word with a space on one side."""
_WORD = re.compile(r"[a-z]{4,}")
_SAID = {"assumption", "error", "line", "message", "reason", "said", "sentence", "text", "why", "words"}
"""Names of variables that hold sentences: of these, even one word must not be searched."""


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _text(node: ast.expr | None) -> str | None:
    """Return the text of a literal, with a letter for each part that is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return None


@cache
def _own_constants(path: Path) -> dict[str, str]:
    """Return the texts that a module and its functions give a name."""
    named = {}
    for node in _nodes(path):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            named.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return named


def _constants(path: Path) -> dict[str, str]:
    """Return the texts that have a name in a module, those included that it imports."""
    named = dict(_own_constants(path))
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("shoal."):
            home = _SOURCE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            theirs = _own_constants(home) if home.exists() else {}
            named.update({each.name: theirs[each.name] for each in node.names if each.name in theirs})
    return named


class _Module:
    """A module of the source, in which searches for words are found."""

    def __init__(self, path: Path) -> None:
        self.nodes, self.constants = _nodes(path), _constants(path)
        handlers = (node for node in self.nodes if isinstance(node, ast.ExceptHandler))
        self.caught = {node.name for node in handlers if node.name} | {"error"}

    def _texts(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [text for each in node.elts for text in self._texts(each)]
        text = self.constants.get(node.id) if isinstance(node, ast.Name) else _text(node)
        return [] if text is None else [text]

    def _prose(self, node: ast.expr) -> bool:
        return any(_PROSE.search(text) for text in self._texts(node))

    def _word(self, node: ast.expr) -> bool:
        return any(_WORD.fullmatch(text) for text in self._texts(node))

    def _message(self, node: ast.expr) -> bool:
        """Return whether this is the message of an error."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            return False
        given = node.args[0]
        return node.func.id == "str" and isinstance(given, ast.Name) and given.id in self.caught

    def _searched(self, node: ast.expr) -> bool:
        """Return whether a search of this value is one of words, by the name of the value."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in _SAID or self._message(node)

    def searches(self) -> Iterator[ast.expr]:
        """Yield all comparisons and calls that look for words."""
        for node in self.nodes:
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], _SAMENESS):
                sides = [node.left, *node.comparators]
                inside = isinstance(node.ops[0], ast.In | ast.NotIn) and self._word(node.left)
                if any(self._prose(side) or self._message(side) for side in sides) or (
                    inside and self._searched(node.comparators[0])
                ):
                    yield node
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                value, name = node.func.value, node.func.attr
                pattern = isinstance(value, ast.Name) and value.id == "re" and name in _PATTERNS
                if pattern and (self._prose(node.args[0]) or any(map(self._message, node.args))):
                    yield node
                if name in _SEARCHES and (
                    any(map(self._prose, node.args))
                    or self._message(value)
                    or (self._searched(value) and any(map(self._word, node.args)))
                ):
                    yield node


def _found(path: Path) -> set[str]:
    return {ast.unparse(node) for node in _Module(path).searches()}


@pytest.mark.slow
def test_no_module_decides_by_words() -> None:
    """Search the source for comparisons with prose; what is allowed has a reason, and is still there."""
    found = {(path.relative_to(_SOURCE).as_posix(), text) for path in _SOURCE.rglob("*.py") for text in _found(path)}
    allowed = {(name, text): [key for key in _ALLOWED if key[0] == name and key[1] in text] for name, text in found}
    assert not [each for each, keys in allowed.items() if not keys]
    assert {key for keys in allowed.values() for key in keys} == set(_ALLOWED)


@pytest.mark.parametrize(
    "line",
    [
        "'permuted' in text",
        "'fills all slots' not in each",
        "line.startswith('if shuffler and analyst collude')",
        "assumption.replace(none, some)",
        "text.startswith('neighbours')",
        "facts[0].removeprefix('neighbours: ')",
        "str(error).partition(' ')[0] in names",
        "str(wrong) == other",
        "re.match(r'(\\w+)(?= must )', message)",
        "local == NOTHING",
    ],
)
def test_such_lines_are_found(tmp_path: Path, line: str) -> None:
    """Each decided once what a reviewer or a user reads."""
    path = tmp_path / "module.py"
    before = "from shoal.mechanisms.bundled import NOTHING\nnone = 'knows none of them'\n"
    path.write_text(f"{before}try:\n    pass\nexcept ValueError as wrong:\n    {line}\n", encoding="utf-8")
    assert _found(path)


def test_assumptions_of_the_catalogue_are_values() -> None:
    """A row with texts is refused; a text stands for one value only."""
    every = [each for row in theorems() for each in row.assumptions]
    assert all(isinstance(each, Assumption) for each in every)
    assert len({each.text for each in every}) == len(set(every))
    row = theorems("shuffling")[0]
    with pytest.raises(ParameterError, match="assumptions must be values") as caught:
        replace(row, assumptions=("the moon is full",))  # type: ignore[arg-type]
    assert caught.value.parameter == "assumptions"


def test_the_shuffle_with_fakes_keeps_its_topic() -> None:
    assert shuffled() == ADAPTIVE[1] and shuffled(3).topic is shuffled().topic is Topic.SHUFFLE
    assert str(shuffled(3)).endswith("whoever looks has made up, or knows, at most 3 of them")
    assert str(shuffled()).endswith("whoever looks has made up none of them, and knows none of them")


def test_captions_know_of_collusion_by_the_value() -> None:
    """A curve says that nothing remains because of what it assumes, whatever the words are."""
    curve = shoal.amplify(shoal.Covered(categories=4, slots=3, fill=0.5), reports=1000)
    other = Assumption(COLLUDE.text, Topic.OTHER)
    texts = tuple(other if each == COLLUDE else each for each in curve.assumptions)
    assert "collude" in repr(curve) and "collude" not in repr(replace(curve, assumptions=texts))


@pytest.mark.parametrize("error", [ParameterError("x must be 1", "x"), AskedError("give {x}", "x")], ids=repr)
def test_errors_keep_their_parameter_between_processes(error: ParameterError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.parameter) == (type(error), str(error), "x")
