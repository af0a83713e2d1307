"""A number is what was typed or it is refused: no comma is dropped, in any option of any verb, nor in a file."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import shoal
from shoal.cli import main
from shoal.cli.app import loaded
from shoal.digits import count_in, number_in, seconds_in
from tests.cli.commands import refused
from tests.cli.verbs import filled, numeric_options, options, verbs
from tests.exhaustive import amount, representative

OPTIONS = numeric_options()
_WRONG = {
    "0,5": "write 0.5",
    "1,5": "write 1.5",
    "10,00": "write 10.00",
    "0,500": "write 0.500",
    "1,0e-6": "write 1.0e-6",
    "1,000.5": "write 1000.5",
    "1.000,5": "write 1000.5",
    "−1": "U+2212, and not the one on the keyboard: write -1",
    "1e–6": "U+2013, and not the one on the keyboard: write 1e-6",
    "−0,5": "U+2212, and not the one on the keyboard: write -0.5",
    "1,000,00": "got '1,000,00'",
    ",5": "write .5",
    "5,": "write 5.",
    "0_5": "got '0_5'",
    "10_00": "got '10_00'",
    "1 000": "got '1 000'",
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run everything in an empty folder: a command that is not refused may write."""
    monkeypatch.chdir(tmp_path)


def _values(given: object) -> list[object]:
    """Return the values that were given of options that belong together, or the one value."""
    if not is_dataclass(given):
        return [given]
    defaults = {field.name: field.default for field in fields(given)}
    return [value for name, value in vars(given).items() if value != defaults[name]]


def _is_count(path: tuple[str, ...], option: str) -> bool:
    (found,) = (argument for argument in options(verbs()[path]) if argument.name == option)
    return bool(found.parameter.converter.__name__ in ("_count", "_rounds"))


def test_there_are_numeric_options_to_try() -> None:
    assert len(OPTIONS) >= 85
    assert {path[0] for path, _ in OPTIONS} >= {"amplify", "plan", "sgd", "train", "task", "ledger", "analyst"}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "option"), representative(OPTIONS, 66), ids=str)
def test_no_option_of_any_verb_drops_a_comma(
    path: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = list(_WRONG.items())
    first = 2 * OPTIONS.index((path, option))  # two texts for each option, all texts over all options
    for place in range(first, first + amount(2, len(wrong))):
        text, expected = wrong[place % len(wrong)]
        assert main(filled(path, option, text)) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"shoal: {option} must be a number such as ")
        assert printed.err.count("\n") == 1
        assert expected in printed.err


@pytest.mark.slow
@pytest.mark.parametrize(("path", "option"), representative(OPTIONS, 30), ids=str)
def test_commas_group_the_digits_of_counts_only(
    path: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def value(text: str) -> object:
        _, bound, _ = loaded().parse_args(filled(path, option, text), exit_on_error=False, print_error=False)
        given = [value for one in bound.arguments.values() for value in _values(one)]
        return [value for value in given if isinstance(value, float) and value != 1]

    assert value("20_000") == value("2e4") == value("20000") == [20_000.0]
    if _is_count(path, option):
        assert value("20,000") == [20_000.0]
        assert value("1,000,000") == [1e6]
        for text in ("10.000", "10.000e0", "10.000E+00", "10.000e-0"):
            assert main(filled(path, option, text)) == 2
            assert f"{text} is 10 to some and 10,000 to others" in capsys.readouterr().err
        assert value("2.000e1") == value("2000.000e-2") == [20.0]  # the exponent says that the point is a decimal one
    else:
        assert main(filled(path, option, "1,000")) == 2
        assert "write 1.000, or 1_000 if thousands are meant" in capsys.readouterr().err


def test_texts_that_may_be_numbers_are_known() -> None:
    """An option that reads its number out of a text belongs into the tests below, and then into this list."""
    found = {
        (*path, argument.name)
        for path, app in verbs().items()
        for argument in options(app)
        if argument.parameter.converter is None
        and any(sign in (argument.parameter.metavar or "") for sign in ("COUNT", "NUMBER", *"0123456789"))
    }
    assert found == {
        ("randomize", "--categories"),
        ("simulate", "--categories"),
        ("task", "heavy-hitters", "--round"),
        ("task", "new", "--categories"),
        ("task", "new", "--round"),
    }


@pytest.mark.parametrize("verb", ["randomize d.csv --column c --output r.shoal", "simulate --people 9"])
def test_a_count_of_categories_is_not_taken_for_names(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    Path("d.csv").write_text("c\n0\n")
    command = f"{verb} --mechanism rappor --local-epsilon 1 --categories"
    for text in ("10,000", "100,200,300"):
        assert f"write {text.replace(',', '_')} for a number" in refused(capsys, f"{command} {text}")
    assert "10.000 is 10 to some" in refused(capsys, f"{command} 10.000")


def test_a_round_may_last_an_hour_and_a_half(capsys: pytest.CaptureFixture[str]) -> None:
    keys = "--analyst-key a --shuffler-key s"
    new = f"task new --question q {keys} --epsilon-limit 1 --malicious 0 --categories 4 --mechanism rappor"
    for text, meant in {"1,5h": "1.5h", "0,5d": "0.5d", "1,5": "1.5"}.items():
        assert f"write {meant}\n" in refused(capsys, f"{new} --local-epsilon 1 --round {text}")
    assert "round must be a number of seconds" in refused(capsys, f"{new} --local-epsilon 1 --round soon")
    assert seconds_in("1.5h", "round") == 5400
    assert seconds_in("86,400", "round") == seconds_in("24h", "round") == seconds_in("1d", "round") == 86400


def test_a_schema_and_a_plan_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    schema = {"mechanism": "randomized-response", "version": 1, "categories": 10, "local_epsilon": "0,5"}
    for content in (schema, {"schema": schema}):
        path.write_text(json.dumps(content))
        told = refused(capsys, f"simulate --people 10 --schema {path}")
        assert "local_epsilon must be a number, got '0,5'; a comma is not a decimal point: write 0.5" in told


def test_a_table_of_examples(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('height,buys\n1.5,yes\n"1,7",no\n')
    told = refused(capsys, f"train {path} --target buys --noise-multiplier 1")
    assert "'1,7' is not a number; a comma is not a decimal point: write 1.7" in told


def test_a_ledger_with_texts_for_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    assert main(["ledger", "record", str(path), "--reports", "10,000", "--local-epsilon", "1"]) == 0
    assert "n=10,000" in capsys.readouterr().out
    content = path.read_text()
    assert '"local_epsilon": 1.0' in content
    path.write_text(content.replace('"local_epsilon": 1.0', '"local_epsilon": "0,5"'))
    assert "ledger.json" in refused(capsys, f"ledger show {path}")


@pytest.mark.slow
def test_a_task_with_texts_for_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for role in ("analyst", "shuffler"):
        assert main(["keygen", role, "--folder", str(tmp_path)]) == 0
    path = tmp_path / "task.json"
    keys = f"--analyst-key {tmp_path}/analyst.pub --shuffler-key {tmp_path}/shuffler.pub --output {path}"
    asked = (
        f"--question q --categories 1e3 --mechanism rappor --local-epsilon 1 --epsilon-limit 0.5 --malicious 0 {keys}"
    )
    assert main(["task", "new", *asked.split(), "--round", "1.5h"]) == 0
    capsys.readouterr()
    content = json.loads(path.read_text())
    assert content["round_seconds"] == 5400
    for name in ("epsilon_limit", "delta", "minimum", "fakes", "round_seconds", "replay_rounds"):
        path.write_text(json.dumps(content | {name: "0,5"}))
        message = refused(capsys, f"task show {path}")
        assert f"{name} in its header must be a " in message
        assert "number, got '0,5'; a comma is not a decimal point: write 0.5" in message


@pytest.mark.parametrize("text", ["0,5", "−0.5"])
def test_the_library_does_not_take_texts(text: str) -> None:
    for call in (
        lambda: shoal.amplify(local_epsilon=text, reports=10),  # type: ignore[arg-type]
        lambda: shoal.calibrate(epsilon=text, delta=1e-6, reports=10),  # type: ignore[arg-type]
    ):
        with pytest.raises(shoal.ParameterError, match=r"write -?0\.5$"):
            call()


def test_numbers_are_read_to_the_last_bit() -> None:
    assert number_in("0.1", "x") == 0.1
    assert number_in(" 1e-6 ", "x") == 1e-6
    assert number_in("1_000.5", "x") == 1000.5
    assert count_in("-1,000", "x") == -1000
    assert count_in("999,999,999,999,999", "x") == 999_999_999_999_999
