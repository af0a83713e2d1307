"""The verbs about many rounds, about randomizers, and about figures."""

import csv
import json
from pathlib import Path

import pytest

import shoal
from tests.cli.commands import run


def test_compose_says_what_repeated_says(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "compose --reports 1e4 --local-epsilon 1 --times 100 --json")
    assert status == 0
    facts = json.loads(out)
    year = shoal.amplify(local_epsilon=1, reports=10_000).repeated(100)
    assert facts == year.to_dict(delta=1e-6) | {"budget": None, "affordable_rounds": None, "last_day": None}
    assert facts["rounds"] == 100
    assert facts["epsilon_bracket"] == list(year.epsilon_bracket(1e-6))
    status, out, _ = run(capsys, "compose --reports 1e4 --local-epsilon 1 --times 100")
    assert out.startswith("ε = 0.508281 at δ = 1e-06")
    assert "100 rounds" in out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["renyi", "advanced", "advanced-closed-form"])
def test_compose_knows_the_other_ways(capsys: pytest.CaptureFixture[str], method: str) -> None:
    status, out, _ = run(capsys, f"compose --reports 1e4 --local-epsilon 1 --times 10 --method {method} --json")
    assert status == 0
    assert json.loads(out)["bound"] == method
    assert json.loads(out)["epsilon"] > shoal.amplify(local_epsilon=1, reports=10_000).repeated(10).epsilon(1e-6)


@pytest.mark.slow
def test_compose_reads_rounds_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    path.write_text("reports,local_epsilon,times\n10000,1,3\n1e5,2,\n")
    status, out, _ = run(capsys, f"compose --rounds {path} --json")
    assert status == 0
    curves = [(shoal.amplify(local_epsilon=1, reports=1e4), 3), (shoal.amplify(local_epsilon=2, reports=1e5), 1)]
    assert json.loads(out)["epsilon"] == shoal.compose(curves).epsilon(1e-6)
    for text in ("", "reports\n5\n", "reports,local_epsilon,colour\n1,2,3\n", "reports,local_epsilon\nten,1\n"):
        path.write_text(text)
        status, out, error = run(capsys, f"compose --rounds {path}")
        assert (status, out) == (2, "")
        assert str(path) in error


@pytest.mark.slow
def test_a_ledger_is_kept_and_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "telemetry.json"
    status, _, error = run(capsys, f"ledger show {path}")
    assert status == 2
    assert "record" in error
    round_of = f"ledger record {path} --reports 10_000 --local-epsilon 1 --epsilon 0.1"
    status, out, _ = run(capsys, f"{round_of} --label monday")
    assert status == 0
    assert "monday" in out
    before = path.read_bytes()
    status, out, error = run(capsys, f"{round_of} --times 50 --label tuesday")
    assert (status, out) == (1, "")
    assert "over the budget" in error
    assert path.read_bytes() == before
    status, out, _ = run(capsys, f"ledger show {path} --json")
    facts = json.loads(out)
    assert [entry["label"] for entry in facts["entries"]] == ["monday"]
    assert facts["spent"] == shoal.amplify(local_epsilon=1, reports=10_000).epsilon(1e-6)
    path.write_text("{")
    status, _, error = run(capsys, f"ledger show {path}")
    assert status == 2
    assert "damaged" in error


@pytest.mark.slow
def test_a_ledger_keeps_its_budget(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "telemetry.json"
    round_of = f"ledger record {path} --reports 10_000 --local-epsilon 1"
    status, out, _ = run(capsys, f"{round_of} --epsilon 0.2")
    assert status == 0
    assert "budget: ε = 0.2 at δ = 1e-06, for rounds chosen on the way" in out
    before = path.read_bytes()
    for other in ("--epsilon 0.5", "--epsilon 0.2 --delta 1e-7", "--epsilon 0.2 --planned"):
        status, out, error = run(capsys, f"{round_of} {other}")
        assert (status, out) == (1, "")
        assert "epsilon=0.2 at delta=1e-06" in " ".join(error.split())
        assert path.read_bytes() == before
    status, _, _ = run(capsys, f"{round_of} --epsilon 0.2 --label again")
    assert status == 0
    status, out, _ = run(capsys, f"ledger show {path} --json")
    assert json.loads(out)["budget"] == {"epsilon": 0.2, "delta": 1e-6, "planned": False}


@pytest.mark.slow
def test_randomizers_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "amplify --randomizer laplace --local-epsilon 1 --reports 1e5 --json")
    assert status == 0
    assert json.loads(out)["bound"] == "blanket"
    status, out, _ = run(capsys, "amplify --randomizer gaussian --deviation 2 --reports 1000 --json")
    assert status == 0
    assert json.loads(out)["local_epsilon"] is None
    assert json.loads(out)["amplified"]
    for command, why in (
        ("amplify --randomizer gaussian --reports 10", "--deviation"),
        ("amplify --randomizer laplace --local-epsilon 1 --categories 3 --reports 10", "--categories"),
        ("amplify --deviation 1 --local-epsilon 1 --reports 10", "gaussian"),
        ("amplify --local-epsilon 1 --reports 10 --bound check-ins", "comparison only"),
    ):
        status, out, error = run(capsys, command)
        assert (status, out) == (2, "")
        assert why in error


def test_comparisons_are_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "compare --local-epsilon 1 --reports 1e5 --json")
    assert status == 0
    unproven = {row["bound"] for row in json.loads(out) if not row["proven"]}
    assert unproven == {"bassily", "check-ins"}
    status, out, _ = run(capsys, "compare --local-epsilon 1 --reports 1e5")
    assert out.count("comparison only") == 2
    assert "comparison only" in run(capsys, "explain check-ins")[1]


@pytest.mark.slow
def test_figures_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, f"figures central-small --output {tmp_path}")
    assert status == 0
    files = {Path(line) for line in out.split()}
    assert files == {tmp_path / f"central-small.{kind}" for kind in ("png", "svg", "csv")}
    with (tmp_path / "central-small.csv").open(newline="") as file:
        assert next(csv.reader(file))[0].startswith("reports")
    status, _, error = run(capsys, "figures nosuch")
    assert status == 2
    assert "central-small" in error
