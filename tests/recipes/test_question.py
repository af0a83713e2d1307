"""CONTRIBUTING's recipe "add a question", executed as it stands there: one file, and every face has the question."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import shoal
import shoal.questions
from shoal.cli import main
from shoal.cli.app import app
from shoal.questions.copied_code import code_of
from shoal.questions.question import find, names, question
from shoal.web.openapi import api_page, openapi
from shoal.web.page_files import page_files
from shoal.web.reply import answered

_RECIPE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8").split("### Add a question")[1]
_CODE = re.findall(r"(?s)```python\n(.*?)```", _RECIPE)[0]
_ASKED = {"local_epsilon": "1", "epsilon": "0.5"}


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the file of the recipe, and nothing else."""
    folder = tmp_path / "questions"
    folder.mkdir()
    (folder / "crowd.py").write_text(_CODE, encoding="utf-8")
    monkeypatch.setattr(shoal.questions, "__path__", [*shoal.questions.__path__, str(folder)])
    monkeypatch.chdir(tmp_path)
    yield folder
    find.cache_clear()
    if "crowd" in app:
        del app["crowd"]


def test_it_is_one_file(toy: Path) -> None:
    assert [path.name for path in toy.iterdir() if path.is_file()] == ["crowd.py"]
    assert "crowd" in names() and len(_CODE.splitlines()) <= 45


def test_the_command_line_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Find a power of ten of reports" in capsys.readouterr().out
    assert main(["crowd", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Example: shoal crowd --local-epsilon 1 --epsilon 0.5" in shown
    assert "the central ε that must hold" in shown and "ε₀ of what each person runs" in shown
    words = shlex.split(question("crowd").command)[1:]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"reports": 1000, "epsilon": 0.5}
    assert main([*words, "--plot", "crowd.svg"]) == 0
    assert "1000" in capsys.readouterr().out
    ElementTree.parse("crowd.svg")
    assert main([*words[:2], "0,5"]) == 2
    assert "--local-epsilon must be a number" in capsys.readouterr().err


def test_the_server_and_the_page_have_it() -> None:
    assert json.loads(answered("crowd", _ASKED, None, "facts").body) == {"reports": 1000, "epsilon": 0.5}
    assert answered("crowd", _ASKED, None, "inline").body.startswith(b"<svg")
    refused = json.loads(answered("crowd", {"local_epsilon": "x"}, None, "facts").body)
    assert refused["field"] == "local_epsilon"
    document = openapi()
    assert "/api/crowd" in json.loads(document)["paths"]
    assert "crowd?local_epsilon=1&amp;epsilon=0.5" in api_page(document)
    (panel,) = json.loads(page_files()["registry.json"])["panels"]
    assert (panel["title"], panel["chart"]) == ("Crowd", True)
    kinds = {field["name"]: field["kind"] for field in panel["fields"]}
    assert kinds["epsilon"] == "number" and kinds["randomizer"] == "choice"


def test_nothing_else_lists_questions() -> None:
    """A list of three names of questions, outside of their folder, would have to grow with each new question."""
    known, found = set(names()) - {"explain", "verify"}, []
    package = Path(shoal.__file__).parent
    for path in package.rglob("*/*.py"):  # the public names are in the folder itself
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.List | ast.Set | ast.Tuple | ast.Dict) and path.parent.name != "questions":
                parts = node.keys if isinstance(node, ast.Dict) else node.elts
                listed = {part.value for part in parts if isinstance(part, ast.Constant)} & known
                if len(listed) >= 3:
                    found.append((path.name, sorted(map(str, listed))))
    assert found == []


def test_its_code_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    asked = question("crowd")
    code = code_of(asked, asked.read(_ASKED))
    exec(compile(code["python"], "crowd", "exec"), {})
    assert "1000" in capsys.readouterr().out
    assert code["command"] == "shoal crowd --local-epsilon 1 --epsilon 0.5"
