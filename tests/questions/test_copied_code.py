"""Code to copy: run as it stands, Python and command give the number that the question gives."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli import main
from shoal.questions.copied_code import code_of
from shoal.questions.question import question

_TABLE = "reports,local_epsilon,times\n1000,1,3\n2000,0.5,2\n"
_CASES = [
    ("amplify", "reports=1e3 local_epsilon=0.5 delta=1e-8", "epsilon"),
    ("amplify", "reports=12_345 randomizer=rappor categories=5 local_epsilon=2", "epsilon"),
    ("amplify", "reports=12_345 categories=5 local_epsilon=2", "epsilon"),
    ("amplify", "reports=1e3 randomizer=gaussian deviation=2.5", "epsilon"),
    ("amplify", "reports=1e3 local_epsilon=0.5 local_delta=1e-9 bound=strong-clones", "epsilon"),
    ("attack", "reports=1e3 local_epsilon=0.5 false_alarms=0.05", "success"),
    ("calibrate", "epsilon=0.5 reports=1e3 delta=1e-7", "local_epsilon"),
    ("calibrate", "epsilon=0.5 reports=1e3 categories=7", "local_epsilon"),
    ("calibrate", "epsilon=0.5 local_epsilon=1", "reports"),
    ("calibrate", "epsilon=0.5 local_epsilon=1 randomizer=laplace", "reports"),
    ("calibrate", "epsilon=2 reports=1e3 local_epsilon=1", "times"),
    ("compare", "reports=1e3 local_epsilon=1", "epsilon"),
    ("compose", "reports=1e3 local_epsilon=1 times=5 method=renyi", "epsilon"),
    ("compose", "reports=1e3 local_epsilon=1 times=5 epsilon=1 start=2026-01-01", "epsilon"),
    ("explain", "name=loss kind=composition", "name"),
    ("explain", "kind=training", "name"),
    ("plan", "categories=4 reports=1e3 epsilon=1", "mechanism"),
    ("rounds", "reports=1e3 local_epsilon=1 times=5", "epsilon"),
    ("sgd", "examples=6_000 batch_size=60 noise_multiplier=2", "epsilon"),
    ("sgd", "examples=6_000 batch_size=60 epsilon=2 sampling=poisson", "epsilon"),
    ("sgd", "noise_multiplier=2 adjacency=add-remove public_steps=10", "epsilon"),
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _shown(facts: Any, key: str) -> str:
    """Return how Python prints the main number of an answer, as far as that is the same everywhere."""
    first = facts[0] if isinstance(facts, list) else facts
    first = first["choices"][0] if key == "mechanism" else first.get("one_round", first) if key != "times" else first
    value = first[key]
    return (
        value.replace("-", "") if key == "mechanism" else f"{value:.6g}"[:5] if isinstance(value, float) else str(value)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words", "key"), _CASES, ids=[f"{name} {words}" for name, words, _ in _CASES])
def test_both_give_the_same_number(name: str, words: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = question(name)
    arguments = asked.read(dict(word.split("=") for word in words.split()))
    code, facts = code_of(asked, arguments), asked(**arguments).facts
    exec(compile(code["python"], name, "exec"), {})
    printed = capsys.readouterr().out
    assert _shown(facts, key) in printed.lower().replace("-", "" if key == "mechanism" else "-"), (code, printed)
    command = shlex.split(code["command"])
    assert main([*command[1:], "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    if name == "plan":
        assert result.pop("output") is None
    if name not in ("attack", "rounds"):
        assert result == facts


@pytest.mark.slow
def test_files_have_usual_names(capsys: pytest.CaptureFixture[str]) -> None:
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    book = shoal.Ledger("ledger.json")
    with book.budget(curve, epsilon=2, delta=1e-6, label='it\'s "monday"'):
        pass
    Path("rounds.csv").write_text(_TABLE)
    Path("proof.json").write_text(curve.certify(delta=1e-6).to_json())
    for name, texts, file in (
        ("compose", {"epsilon": "1"}, "rounds.csv"),
        ("rounds", {}, "rounds.csv"),
        ("ledger", {}, "ledger.json"),
        ("calibrate", {"reports": "1000"}, "ledger.json"),
        ("plan", {"reports": "1000", "categories": "3"}, "ledger.json"),
        ("verify", {}, "proof.json"),
    ):
        asked = question(name)
        code = code_of(asked, asked.read(texts, Path(file).read_text()))
        exec(compile(code["python"], name, "exec"), {})
        assert capsys.readouterr().out
        assert main(shlex.split(code["command"])[1:]) == 0, code
        assert capsys.readouterr().out


def test_words_of_strangers_stay_words() -> None:
    asked = question("explain")
    code = code_of(asked, {"name": "x'; rm -rf / #\n\"\\"})
    assert shlex.split(code["command"]) == ["shoal", "explain", "x'; rm -rf / #\n\"\\"]
    assert compile(code["python"], "explain", "exec").co_consts.count("x'; rm -rf / #\n\"\\") == 1


def test_numbers_are_written_for_people() -> None:
    asked = question("amplify")
    code = code_of(asked, {"reports": 1e6, "local_epsilon": 0.1, "delta": 1e-10, "certify": True})
    assert code["command"] == "shoal amplify --reports 1_000_000 --local-epsilon 0.1 --delta 1e-10 --certify"
    assert code_of(asked, {"reports": 1e300, "local_epsilon": 1.0})["command"].split()[3] == "1e300"
