"""The example at the end of each verb's help is its own, and runs; what it prints fits the schema of the verb."""

import copy
import json
import shlex
from pathlib import Path

import pytest

from shoal.cli import main
from shoal.cli.app import loaded
from tests.cli.schemas import FOLDER, check, schemas, verbs_with_json
from tests.cli.verbs import groups, verbs

_ALL = {**groups(), **verbs()}
_FIRST = (
    "plan",
    "randomize",
    "shuffle",
    "aggregate",
    "ledger record",
    "keygen",
    "keygen lists",
    "keygen shuffler",
    "task new",
)
"""These write what others read."""
_ELSEWHERE = ("analyst", "collect", "doctor", "helper", "report", "shuffler", "task verify", "web")
"""These need a shuffler that runs, a hash, or a folder of the system, or do not end: `tests/cli/test_collect.py` and
`tests/web` run them."""


def _example(words: str) -> list[str]:
    """Return the command in the help of a verb, without the word shoal."""
    epilogue = _ALL[tuple(words.split())].help_epilogue
    assert isinstance(epilogue, str)
    assert epilogue.startswith("Example:  ")
    return shlex.split(epilogue.removeprefix("Example:  ").split("| ")[-1])[1:]


def write_samples(folder: Path) -> None:
    """Write the files that the examples read."""
    colours = ["red", "green", "blue", "black"]
    (folder / "names.txt").write_text("\n".join(colours) + "\n")
    (folder / "data.csv").write_text("color\n" + "".join(f"{colours[i % 4]}\n" for i in range(4_000)))
    (folder / "people.csv").write_text(
        "age,income\n" + "".join(f"{i % 7},{'low' if i % 7 < 3 else 'high'}\n" for i in range(999))
    )


def examples() -> list[tuple[str, list[str]]]:
    """Return the name and the words of each example, in an order in which all of them run in one folder."""
    names = {name for name in map(" ".join, _ALL) if not name.startswith(_ELSEWHERE)}
    assert set(_FIRST) <= names
    made = [
        *(
            ("randomize", [word.replace("reports.shoal", f"{day}.shoal") for word in _example("randomize")])
            for day in ("monday", "tuesday")
        ),
        ("amplify", ["amplify", "--local-epsilon", "1", "--reports", "1e4", "--certificate", "proof.json"]),
    ]
    return [*made, *((name, _example(name)) for name in (*_FIRST, *sorted(names - set(_FIRST))))]


@pytest.mark.slow
@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_each_verb_has_an_example_of_its_own(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    words = _example(" ".join(path))
    assert tuple(words[: len(path)]) == path
    command, _, _ = loaded().parse_args(words, exit_on_error=False, print_error=False)
    if path in verbs():
        assert command is verbs()[path].default_command
    assert main([*path, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("Example:") == 1
    assert printed.endswith(" ".join(str(_ALL[path].help_epilogue).split()))


@pytest.mark.slow
@pytest.mark.parametrize(  # what people see is run by tests/test_installed.py
    "ending", [pytest.param("", marks=pytest.mark.exhaustive), "--json"], ids=["for people", "as JSON"]
)
def test_examples_run(
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    printed: list[str],
) -> None:
    """As JSON, each is compared with its schema: see `printed`."""
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path)
    for name, words in examples():
        capsys.readouterr()
        more = [ending] if ending and name.replace(" ", "-") in verbs_with_json() else []
        assert main([*words, *more]) == 0, name
        assert capsys.readouterr().out, name
    if ending:
        expected = {name for name in verbs_with_json() if not name.replace("-", " ").startswith(_ELSEWHERE)}
        assert expected <= set(printed)


def test_every_verb_with_json_has_a_schema_and_no_other() -> None:
    assert set(schemas()) == set(verbs_with_json())
    assert len(schemas()) > 30


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_valid_and_describe_every_field(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("shoal ")
    assert schema["title"].replace(" ", "-") == f"shoal-{path.stem.rpartition('-')[0]}---json"
    fields = [schema]
    while fields:
        each = fields.pop()
        for name, field in each.get("properties", {}).items():
            assert field["description"].endswith("."), name
            fields.append(field)
        assert set(each.get("required", ())) <= set(each.get("properties", ()))
        fields += [each[key] for key in ("items",) if key in each] + list(each.get("$defs", {}).values())


def test_an_output_that_does_not_fit_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["amplify", "--local-epsilon", "1", "--reports", "100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert not check("amplify", facts)
    for change in ({"more": 1}, {"epsilon": "0.1"}, {"epsilon_bracket": [1.0]}):
        assert check("amplify", copy.deepcopy(facts) | change)
    assert check("amplify", {key: value for key, value in facts.items() if key != "delta"})
