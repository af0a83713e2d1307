"""Questions: texts are read as by the command line, answers are the library's, and copied code gives them again."""

import inspect
import json
import math
import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli import main
from shoal.errors import AskedError, LedgerDamagedError, ParameterError
from shoal.questions.amplify import amplify
from shoal.questions.attack import attack
from shoal.questions.calibrate import calibrate
from shoal.questions.compare import compare
from shoal.questions.compose import compose
from shoal.questions.copied_code import code_of
from shoal.questions.curve import curve
from shoal.questions.explain import explain
from shoal.questions.ledger import ledger
from shoal.questions.parameters import NamedText, ledger_in
from shoal.questions.plan import plan
from shoal.questions.question import Answer, names, question
from shoal.questions.rounds import rounds
from shoal.questions.sgd import sgd
from shoal.questions.verify import verify

_SETTING: dict[str, Any] = {"reports": 1000, "local_epsilon": 1}
_TABLE = "reports,local_epsilon,rounds,date\n1000,1,3,2026-01-01\n2_000,0.5,2,2026-01-04\n"


def _ledger_text() -> str:
    book = shoal.Ledger()
    with book.budget(shoal.amplify(local_epsilon=1, reports=1000), epsilon=2, delta=1e-6, label="monday"):
        pass
    return json.dumps(book.to_dict())


@pytest.mark.parametrize("name", names())
def test_every_parameter_is_described_and_can_be_read(name: str) -> None:
    asked = question(name)
    assert asked.summary.endswith(".")
    for parameter in asked.parameters.values():
        assert parameter.description.endswith((".", ";")), parameter
        assert parameter.kind in ("number", "count", "flag", "day", "text", "word")
    assert sum(parameter.kind == "text" for parameter in asked.parameters.values()) <= 1
    assert inspect.signature(asked.function).return_annotation is Answer


def test_questions_are_listed_in_order() -> None:
    assert list(names()) == sorted(names())
    with pytest.raises(ParameterError, match="did you mean amplify"):
        question("amplfy")


def test_texts_are_read_by_the_kind_of_the_parameter() -> None:
    texts = {"reports": "10,000", "local_epsilon": "1e-1", "certify": "true", "randomizer": "rappor"}
    expected = {"reports": 10_000.0, "local_epsilon": 0.1, "certify": True, "randomizer": "rappor"}
    assert question("amplify").read(texts) == expected
    assert question("compose").read({"start": "2026-01-31"}) == {"start": date(2026, 1, 31)}
    table = question("compose").read({}, _TABLE)["table"]
    assert (table.text, table.name) == (_TABLE, "the file")
    assert len(question("ledger").read({}, _ledger_text())["ledger"]) == 1


@pytest.mark.parametrize(
    ("name", "texts", "field", "words"),
    [
        ("amplify", {"reports": "0,5"}, "reports", "a comma is not a decimal point"),
        ("amplify", {"reports": ""}, "reports", "reports must be a number"),
        ("amplify", {"reports": "10.000"}, "reports", "10 to some and 10,000 to others"),
        ("amplify", {}, "reports", "amplify needs reports with a value"),
        ("amplify", {"report": "5"}, None, "did you mean reports"),
        ("amplify", {"reports": "5", "certify": "yes"}, "certify", "must be true or false"),
        ("amplify", {"reports": "9" * 500}, "reports", "at most 200 letters"),
        ("compose", {"start": "tomorrow"}, "start", "a day such as 2026-01-31"),
        ("compose", {"start": "31.1.2026"}, "start", "a day such as 2026-01-31"),
        ("compose", {"table": "x"}, None, "parameter must be one of"),
    ],
)
def test_bad_texts_name_the_field(name: str, texts: dict[str, str], field: str | None, words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        question(name).read(texts)
    assert words in str(caught.value)
    assert question(name).field(caught.value) == field


def test_a_file_that_is_not_taken_is_refused() -> None:
    with pytest.raises(ParameterError, match="amplify takes no file"):
        question("amplify").read({"reports": "5"}, "x")


@pytest.mark.parametrize(
    ("arguments", "field", "words", "typed"),
    [
        ({}, "local_epsilon", "this needs local_epsilon with a value", "such as --local-epsilon 1"),
        ({"sigma": 1}, "sigma", "belongs to randomizer = gaussian", "belongs to --randomizer gaussian"),
        (
            {"randomizer": "rappor", "local_epsilon": 1},
            "categories",
            "such as randomizer = rappor, categories = 100, local_epsilon = 1",
            "such as --randomizer rappor --categories 100 --local-epsilon 1",
        ),
        (
            {"randomizer": "gaussian", "sigma": 1, "categories": 3},
            "categories",
            "and no categories",
            "--categories",
        ),
    ],
)
def test_what_is_missing_is_named_as_it_is_typed(arguments: dict[str, Any], field: str, words: str, typed: str) -> None:
    with pytest.raises(AskedError) as caught:
        amplify(reports=100, **arguments)
    assert words in str(caught.value)
    assert typed in caught.value.with_options
    assert question("amplify").field(caught.value) == field


@pytest.mark.slow
def test_amplify_and_compare_have_the_facts_of_the_curves() -> None:
    whole = shoal.amplify(local_epsilon=1, reports=1000)
    assert amplify(**_SETTING).facts == whole.to_dict(delta=1e-6)
    proved = amplify(**_SETTING, certify=True)
    assert proved.facts["certified"]
    assert proved.certify is not None and proved.certify().epsilon == proved.facts["epsilon"]
    rows = compare(**_SETTING)
    assert [row["bound"] for row in rows.facts] == [row.bound for row in rows.result]
    assert rows.facts[0]["epsilon"] == whole.epsilon(1e-6)


def test_calibrate_answers_each_of_three_questions() -> None:
    assert calibrate(epsilon=1, reports=1000).result == shoal.calibrate(epsilon=1, delta=1e-6, reports=1000)
    assert calibrate(epsilon=0.5, local_epsilon=1).facts["reports"] > 1
    assert calibrate(epsilon=1, **_SETTING).facts["rounds"] > 1
    for wrong in ({}, {**_SETTING, "rounds": 2}):
        with pytest.raises(AskedError, match="give either reports"):
            calibrate(epsilon=1, **wrong)


@pytest.mark.slow
def test_calibrate_takes_the_budget_of_a_ledger() -> None:
    book = ledger_in(_ledger_text(), "the file")
    assert calibrate(reports=1000, ledger=book).facts["target"] == 2


@pytest.mark.slow
def test_compose_takes_alike_rounds_or_a_table() -> None:
    both = compose(table=NamedText(_TABLE))
    assert both.facts["rounds"] == 5
    assert both.facts["epsilon"] == both.result.curve.epsilon(1e-6)
    alike = compose(**_SETTING, rounds=3, epsilon=1, start=date(2026, 1, 1))
    assert alike.result.spending.affordable == alike.facts["affordable_rounds"]
    with pytest.raises(AskedError, match="give either reports"):
        compose()
    with pytest.raises(AskedError, match="leave out start"):
        compose(table=NamedText(_TABLE), start=date(2026, 1, 1))
    with pytest.raises(AskedError, match="method = pld"):
        compose(**_SETTING, epsilon=1, method="renyi")


def test_a_ledger_is_read_from_its_text() -> None:
    answer = ledger(ledger=ledger_in(_ledger_text(), "the file"))
    assert answer.facts["spent"] == answer.result.ledger.spent(1e-6)
    assert answer.facts["budget"]["epsilon"] == 2
    assert answer.result.spending.affordable == answer.facts["affordable_rounds"]
    for text in ("", "{}", '{"format": "shoal-ledger"}', "[" * 10_000):
        with pytest.raises(LedgerDamagedError, match="the file is damaged, or not a ledger"):
            ledger_in(text, "the file")


@pytest.mark.slow
def test_rounds_of_a_ledger_a_table_and_alike() -> None:
    alike = rounds(**_SETTING, rounds=10, epsilon=1, start=date(2026, 1, 1)).facts
    assert alike["points"][0]["rounds"] == 1
    assert [point["epsilon"] for point in alike["points"]] == sorted(point["epsilon"] for point in alike["points"])
    assert alike["epsilon"] == shoal.amplify(local_epsilon=1, reports=1000).repeated(10).epsilon(1e-6)
    assert alike["last_day"] == str(date(2025, 12, 31) + timedelta(days=alike["affordable_rounds"]))
    kept = rounds(table=NamedText(_ledger_text())).facts
    assert kept["budget"]["epsilon"] == 2 and kept["rounds"] == 1
    table = rounds(table=NamedText(_TABLE)).facts
    assert [kind["rounds"] for kind in table["kinds"]] == [3, 2]
    with pytest.raises(AskedError, match="leave out epsilon"):
        rounds(table=NamedText(_ledger_text()), epsilon=1)
    assert (
        rounds(table=NamedText('{"format": "shoal-ledger", "version": 1, "budget": null, "entries": []}')).facts[
            "points"
        ]
        == []
    )


@pytest.mark.slow
def test_curve_follows_each_parameter() -> None:
    for against in ("reports", "delta", "local_epsilon"):
        facts = curve(**_SETTING, against=against, points=3, limit=True).facts
        assert len(facts["points"]) == 3
        middle = facts["points"][1]
        fixed = {"delta": 1e-6, **_SETTING, against: middle[against]}
        assert middle["epsilon"] == pytest.approx(amplify(**fixed).facts["epsilon"], rel=1e-9)
        assert middle["best_possible"] <= middle["epsilon"]
    with pytest.raises(ParameterError, match="against must be one of"):
        curve(**_SETTING, against="time")
    with pytest.raises(ParameterError, match="least must be less than most"):
        curve(**_SETTING, least=10, most=5)


def test_curve_has_gaps_where_the_bound_says_nothing() -> None:
    facts = curve(reports=10_000, local_epsilon=1, bound="clones-closed-form", least=10, most=10_000, points=4).facts
    assert [point["epsilon"] is None for point in facts["points"]] == [True, True, False, False]


@pytest.mark.slow
def test_attack_has_the_curve_of_success() -> None:
    facts = attack(**_SETTING, points=3).facts
    assert facts["success"] == shoal.amplify(local_epsilon=1, reports=1000).attack_success(0.01)
    assert facts["alone"] == pytest.approx(math.e * 0.01)
    assert len(facts["points"]) == 3
    assert attack(reports=100, randomizer="gaussian", sigma=9).facts["alone"] is None


@pytest.mark.slow
def test_plan_and_sgd_have_the_facts_of_their_results() -> None:
    planned = plan(categories=5, reports=1000, epsilon=1)
    assert planned.facts == planned.result.to_dict()
    run = sgd(examples=6000, batch_size=64, noise_multiplier=0.8)
    assert run.facts["epsilon"] == run.result.epsilon
    with pytest.raises(AskedError, match="give either noise_multiplier"):
        sgd(examples=6000)


def test_explain_and_verify() -> None:
    assert explain(name="strong-clones").facts["name"] == "strong-clones"
    assert len(explain(kind="training").facts) == len(shoal.theorems("training"))
    proof = shoal.amplify(local_epsilon=1, reports=100).certify(delta=1e-6)
    assert verify(certificate=NamedText(proof.to_json())).facts["proved"] is True
    forged = proof.to_json().replace(repr(proof.epsilon), repr(proof.epsilon / 2))
    assert verify(certificate=NamedText(forged)).facts["proved"] is False
    assert verify(certificate=NamedText("nothing")).result is None


_ROUNDS = "reports,local_epsilon,rounds\n1000,1,3\n2000,0.5,2\n"
_CASES = [
    ("amplify", "reports=1e3 local_epsilon=0.5 delta=1e-8", "epsilon"),
    ("amplify", "reports=12_345 randomizer=rappor categories=5 local_epsilon=2", "epsilon"),
    ("amplify", "reports=12_345 categories=5 local_epsilon=2", "epsilon"),
    ("amplify", "reports=1e3 randomizer=gaussian sigma=2.5", "epsilon"),
    ("amplify", "reports=1e3 local_epsilon=0.5 local_delta=1e-9 bound=strong-clones", "epsilon"),
    ("attack", "reports=1e3 local_epsilon=0.5 false_alarms=0.05", "success"),
    ("calibrate", "epsilon=0.5 reports=1e3 delta=1e-7", "local_epsilon"),
    ("calibrate", "epsilon=0.5 reports=1e3 categories=7", "local_epsilon"),
    ("calibrate", "epsilon=0.5 local_epsilon=1", "reports"),
    ("calibrate", "epsilon=0.5 local_epsilon=1 randomizer=laplace", "reports"),
    ("calibrate", "epsilon=2 reports=1e3 local_epsilon=1", "rounds"),
    ("compare", "reports=1e3 local_epsilon=1", "epsilon"),
    ("compose", "reports=1e3 local_epsilon=1 rounds=5 method=renyi", "epsilon"),
    ("compose", "reports=1e3 local_epsilon=1 rounds=5 epsilon=1 start=2026-01-01", "epsilon"),
    ("explain", "name=pld kind=composition", "name"),
    ("explain", "kind=training", "name"),
    ("plan", "categories=4 reports=1e3 epsilon=1", "mechanism"),
    ("rounds", "reports=1e3 local_epsilon=1 rounds=5", "epsilon"),
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
    first = first["choices"][0] if key == "mechanism" else first.get("one_round", first) if key != "rounds" else first
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
    Path("rounds.csv").write_text(_ROUNDS)
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
