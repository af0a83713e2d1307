"""The verbs about many rounds, about randomizers, and about figures."""

import csv
import json
import re
from pathlib import Path

import pytest

import shoal
from shoal.digits import rounded_up
from tests.cli.commands import facts_of, refused, run


def test_compose_says_what_repeated_says(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "compose --reports 1e4 --local-epsilon 1 --rounds 100 --json")
    assert status == 0
    facts = json.loads(out)
    year = shoal.amplify(local_epsilon=1, reports=10_000).repeated(100)
    assert facts == year.to_dict(delta=1e-6) | {"budget": None, "affordable_rounds": None, "last_day": None}
    assert facts["rounds"] == 100
    assert facts["epsilon_bracket"] is None  # swap-chains is known from above only
    exact = shoal.amplify(local_epsilon=1, reports=10_000, bound="strong-clones").repeated(100)
    facts = facts_of(capsys, "compose --reports 1e4 --local-epsilon 1 --rounds 100 --bound strong-clones")
    assert facts["epsilon_bracket"] == list(exact.epsilon_bracket(1e-6))
    status, out, _ = run(capsys, "compose --reports 1e4 --local-epsilon 1 --rounds 100")
    assert out.startswith(f"ε = {rounded_up(year.epsilon(1e-6))} at δ = 1e-06")
    assert "100 rounds" in out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["renyi", "advanced", "advanced-closed-form"])
def test_compose_knows_the_other_ways(capsys: pytest.CaptureFixture[str], method: str) -> None:
    status, out, _ = run(capsys, f"compose --reports 1e4 --local-epsilon 1 --rounds 10 --method {method} --json")
    assert status == 0
    assert json.loads(out)["bound"] == method
    assert json.loads(out)["epsilon"] > shoal.amplify(local_epsilon=1, reports=10_000).repeated(10).epsilon(1e-6)


@pytest.mark.slow
def test_rounds_of_a_file_may_be_of_any_mechanism(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rounds.csv").write_text(
        "\ufeffdate, reports,local_epsilon,randomizer,categories,rounds\n"
        "2026-01-01,100_000,2,,,3\n\n2026-01-08,1e5,2,subset-selection,20,\n2026-01-15,1e5,1,,5,1\n",
        encoding="utf-8",
    )
    facts = facts_of(capsys, "compose --table rounds.csv --epsilon 0.1")
    curves = [
        (shoal.amplify(local_epsilon=2, reports=1e5), 3),
        (shoal.amplify(shoal.SubsetSelection(categories=20, local_epsilon=2), reports=1e5), 1),
        (shoal.amplify(shoal.RandomizedResponse(categories=5, local_epsilon=1), reports=1e5), 1),
    ]
    assert facts["rounds"] == 5 and facts["epsilon"] == shoal.compose(curves).epsilon(1e-6)
    assert facts["budget"] == {"epsilon": 0.1, "delta": 1e-6, "planned": True}
    count = facts["affordable_rounds"]
    assert shoal.compose([*curves[:2], (curves[2][0], count - 4)]).epsilon(1e-6) <= 0.1
    assert shoal.compose([*curves[:2], (curves[2][0], count - 3)]).epsilon(1e-6) > 0.1
    assert facts["last_day"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the column reports is missing"),
        ("reports,local_epsilon\n", "has no rounds below its first line"),
        ("reports\n5\n", "line 2: local_epsilon must have a value"),
        ("reports,local_epsilon,colour\n1,2,3\n", "there is no column 'colour'"),
        ("reports,reports\n1,2\n", "there is no column 'reports', or it is there twice"),
        ("local_epsilon\n1\n", "the column reports is missing"),
        ("reports,local_epsilon\n5,1\n\nten,1\n", "line 4: reports must be a number"),
        ("reports,local_epsilon\n5,1\n,1\n", "line 3: reports must have a value"),
        ("reports,local_epsilon\n5,0,5\n", "line 2: more values than columns, the last of them '5'"),
        (
            'reports,local_epsilon\n5,"0,5"\n',
            "line 2: local_epsilon must be a number such as 0.5, 1e-6 or 10_000, "
            "got '0,5'; a comma is not a decimal point: write 0.5",
        ),
        ('reports,local_epsilon,local_delta\n"10,000",1,"1,0e-9"\n', "write 1.0e-9"),
        ("reports,local_epsilon,rounds\n5,1,0\n", "line 2: rounds must be at least 1"),
        ("reports,local_epsilon,rounds\n5,1,1.5\n", "line 2: rounds must be a whole number"),
        ("reports,local_epsilon,date\n5,1,31.1.2026\n", "line 2: date must be a day such as 2026-01-31"),
        ("reports,local_epsilon,date\n5,1,2026-02-01\n5,1,2026-01-01\n", "line 3: the lines must be in the order"),
        ("reports,local_epsilon,date\n5,1,2026-02-01\n5,1,\n", "line 3: either all lines have a date, or none has"),
        ("reports,local_epsilon,randomizer\n5,1,rapport\n", "line 2: randomizer must be one of"),
        ("reports,local_epsilon,randomizer\n5,1,rappor\n", "line 2: rappor needs categories"),
        ('reports,local_epsilon\n5,"1\n', "cannot read"),
    ],
)
def test_a_line_of_a_file_that_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rounds.csv").write_text(text)
    error = refused(capsys, "compose --table rounds.csv")
    assert "rounds.csv" in error and said in error
    assert "cannot read" in refused(capsys, "compose --table nothing.csv")


@pytest.mark.slow
def test_how_long_a_budget_lasts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    daily = "compose --reports 1e6 --local-epsilon 2 --rounds 30 --epsilon 0.2 --start 2026-01-01"
    out = " ".join(run(capsys, f"{daily} --plot year.png")[1].split())
    assert "ε = 0.2 at δ = 1e-06 lasts for 301 rounds in all, one per day, until 2026-10-28; one more breaks it" in out
    assert Path("year.png").read_bytes().startswith(b"\x89PNG")
    facts = facts_of(capsys, daily)
    assert (facts["affordable_rounds"], facts["last_day"]) == (301, "2026-10-28")
    assert facts["epsilon"] == shoal.amplify(local_epsilon=2, reports=1e6).repeated(30).epsilon(1e-6)
    year = shoal.amplify(local_epsilon=2, reports=1e6)
    assert year.repeated(301).epsilon(1e-6) <= 0.2 < year.repeated(302).epsilon(1e-6)


@pytest.mark.slow
def test_calibrate_for_many_rounds_and_for_a_ledger(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = facts_of(capsys, "calibrate --epsilon 1 --reports 1e4 --categories 10 --rounds 5")
    survey = shoal.RandomizedResponse(categories=10, local_epsilon=1)
    answer = shoal.calibrate(survey, epsilon=1, delta=1e-6, reports=1e4, rounds=5)
    assert facts == answer.to_dict()
    out = " ".join(run(capsys, "calibrate --epsilon 1 --reports 1e4 --categories 10 --rounds 5")[1].split())
    assert f"local_epsilon = {answer.local_epsilon!r}" in out
    assert "in one round, " in out and "of the average over all 5" in out and "one round ε = " in out
    most = facts_of(capsys, "calibrate --epsilon 1 --reports 1e6 --local-epsilon 2 --plot rounds.svg")
    found = shoal.calibrate(epsilon=1, delta=1e-6, reports=1e6, local_epsilon=2, solve_for="rounds")
    assert most["rounds"] == found.rounds
    assert Path("rounds.svg").exists()
    assert "rounds = " in run(capsys, "calibrate --epsilon 1 --reports 1e6 --local-epsilon 2")[1]
    run(capsys, "ledger record t.json --reports 1e5 --local-epsilon 2 --rounds 20 --epsilon 0.5 --delta 1e-7 --planned")
    left = facts_of(capsys, "calibrate --ledger t.json --local-epsilon 2 --reports 1e5")
    ledger = shoal.Ledger("t.json")
    assert left["spent"] == ledger.spent(1e-7) and left["delta"] == 1e-7
    curve = shoal.amplify(local_epsilon=2, reports=1e5)
    assert ledger.affords(curve, epsilon=0.5, delta=1e-7, planned=True, rounds=left["rounds"])
    assert not ledger.affords(curve, epsilon=0.5, delta=1e-7, planned=True, rounds=left["rounds"] + 1)
    out = run(capsys, "calibrate --ledger t.json --local-epsilon 2 --reports 1e5")[1]
    assert "had counted ε = " in " ".join(out.split())
    assert "has the budget of" in refused(capsys, "calibrate --ledger t.json --reports 1e5 --epsilon 3", 1)
    planned = facts_of(capsys, "plan --ledger t.json --categories 10 --reports 1e5 --rounds 3")
    assert planned["spent"] == left["spent"] and planned["epsilon"] == 0.5
    out = " ".join(run(capsys, "plan --ledger t.json --categories 10 --reports 1e5 --rounds 3")[1].split())
    assert "3 rounds of 100,000 shuffled reports, 10 categories, central ε ≤ 0.5 at δ = 1e-07" in out
    assert "average of all ℓ₂ error " in out and "ledger had counted ε = " in out
    out = " ".join(run(capsys, "ledger show t.json --plot ledger.pdf")[1].split())
    assert f"lasts for {20 + left['rounds']:,} rounds in all; one more breaks it" in out
    assert Path("ledger.pdf").read_bytes().startswith(b"%PDF")
    assert "plot must be a .png" in refused(capsys, "ledger show t.json --plot t.json")


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
    status, out, error = run(capsys, f"{round_of} --rounds 50 --label tuesday")
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
    assert "budget: ε = 0.2 at δ = 1e-06, for rounds chosen adaptively" in out
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
def test_a_stored_budget_holds_for_every_round(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Also for one that is recorded without naming it; what has happened is written down if that is said."""
    path = tmp_path / "telemetry.json"
    status, _, _ = run(capsys, f"ledger record {path} --reports 1e6 --local-epsilon 2 --epsilon 0.5")
    before = path.read_bytes()
    large = f"ledger record {path} --reports 1e4 --local-epsilon 12"
    assert "over the budget of 0.5" in " ".join(refused(capsys, large, 1).split())
    assert "leave out --epsilon" in refused(capsys, f"{large} --epsilon 0.5 --over-budget")
    assert path.read_bytes() == before
    status, out, _ = run(capsys, f"ledger record {path} --reports 1e6 --local-epsilon 2 --label small")
    assert status == 0 and "OVER BUDGET" not in out
    facts = json.loads(run(capsys, f"ledger show {path} --json")[1])
    assert facts["spent"] < facts["counted"] < 0.5
    assert facts["counted"] == shoal.Ledger(path).counted
    status, out, _ = run(capsys, f"{large} --over-budget")
    assert status == 0 and out.startswith("OVER BUDGET")
    assert json.loads(run(capsys, f"ledger show {path} --json")[1])["counted"] > 12


@pytest.mark.slow
def test_randomizers_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "amplify --randomizer laplace --local-epsilon 1 --reports 1e5 --json")
    assert status == 0
    assert json.loads(out)["bound"] == "blanket"
    status, out, _ = run(capsys, "amplify --randomizer gaussian --sigma 2 --reports 1000 --json")
    assert status == 0
    assert json.loads(out)["local_epsilon"] is None
    assert json.loads(out)["amplified"]
    for command, why in (
        ("amplify --randomizer gaussian --reports 10", "--sigma"),
        ("amplify --randomizer laplace --local-epsilon 1 --categories 3 --reports 10", "--categories"),
        ("amplify --sigma 1 --local-epsilon 1 --reports 10", "gaussian"),
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


@pytest.mark.slow
def test_rounds_may_be_weekly_or_monthly(capsys: pytest.CaptureFixture[str]) -> None:
    year = "compose --local-epsilon 1 --reports 1e4 --rounds 12 --epsilon 0.2 --start 2026-01-31"
    days = {every: facts_of(capsys, f"{year} --every {every}") for every in ("day", "week", "month")}
    assert {facts["affordable_rounds"] for facts in days.values()} == {19}
    assert {every: facts["last_day"] for every, facts in days.items()} == {
        "day": "2026-02-18",
        "week": "2026-06-06",
        "month": "2027-07-31",
    }
    assert days["day"]["last_day"] == facts_of(capsys, year)["last_day"]
    assert "19 rounds in all, one per day, until 2026-02-18" in " ".join(run(capsys, year)[1].split())
    assert "--every must be one of" in refused(capsys, f"{year} --every year")


def test_days_without_their_other_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A day that nothing is computed from would be left out of the answer without a word."""
    rounds = "compose --local-epsilon 1 --reports 1e4 --rounds 12"
    assert "--every needs --start" in refused(capsys, f"{rounds} --epsilon 0.2 --every week")
    assert "--start needs --epsilon" in refused(capsys, f"{rounds} --start 2026-01-31")


def test_the_sum_of_rounds_shows_its_assumption(capsys: pytest.CaptureFixture[str]) -> None:
    assumes = "assumes all 12 rounds are fixed in advance"
    for verb in ("compose --local-epsilon 1 --reports 1e4", "calibrate --epsilon 1 --reports 1e4"):
        assert assumes in " ".join(run(capsys, f"{verb} --rounds 12")[1].split())
        assert "fixed in advance" not in run(capsys, f"{verb} --rounds 1")[1]


def test_calibrate_names_the_rule_of_an_adaptive_budget(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """ε of a budget for rounds chosen adaptively is not the sum of losses of rounds fixed in advance."""
    book = tmp_path / "t.json"
    run(capsys, f"ledger record {book} --local-epsilon 1 --reports 1e4 --epsilon 0.5")
    command = f"calibrate --ledger {book} --local-epsilon 1 --reports 1e4"
    facts = facts_of(capsys, command)
    curve = shoal.amplify(local_epsilon=1, reports=1e4)
    assert (
        facts["cost"]
        == curve.repeated(facts["total_rounds"]).epsilon(1e-6)
        < facts["counted"]
        <= facts["epsilon"]
        == 0.5
    )
    assert (facts["bound"], "Feldman and Zrnic" in facts["theorem"]) == ("renyi", True)
    assert not set(facts["assumptions"]) & set(shoal.explain("renyi").to_dict()["assumptions"])
    out = " ".join(run(capsys, command)[1].split())
    assert f"cost ε = {rounded_up(facts['cost'])} if all rounds are fixed in advance" in out
    assert f"The budget counts {rounded_up(facts['counted'])}" in out
    assert "assumes all" not in out


@pytest.mark.parametrize(
    ("options", "status"), [("--every year", 2), ("--plot none/x.svg", 2), ("--label \x07", 2), ("--epsilon 0.001", 1)]
)
def test_a_refused_command_records_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: str, status: int
) -> None:
    """A user who corrects the command and repeats it would otherwise be charged twice."""
    book = tmp_path / "t.json"
    options = options.replace("none", str(tmp_path / "none"))
    refused(capsys, f"ledger record {book} --local-epsilon 1 --reports 1e4 {options}", status)
    assert not book.exists()


def test_an_empty_ledger_is_not_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    book = tmp_path / "t.json"
    refusal = refused(capsys, f"ledger record {book} --local-epsilon 1 --reports 1e4 --epsilon 0.001", 1)
    assert "of these" not in refusal  # --planned would not help
    book.write_text('{"format": "shoal-ledger", "version": 1, "budget": null, "entries": []}')
    assert "needs at least one round" in refused(capsys, f"ledger show {book} --plot {tmp_path}/x.svg")


@pytest.mark.slow
def test_a_spent_ledger_is_named_as_the_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A few rounds that hardly fit, and a target that cannot be met, say that the ledger is nearly spent."""
    book = tmp_path / "t.json"
    record = f"ledger record {book} --categories 40 --local-epsilon 5.27531 --reports 300_000 --planned"
    run(capsys, f"{record} --epsilon 1 --rounds 52")
    said = " ".join(run(capsys, f"plan --ledger {book} --categories 40 --reports 10_000 --rounds 10")[1].split())
    assert "because the ledger has already counted 0.998996 of 1" in said
    assert "would do" not in said and "with the same guarantee" not in said
    refusal = refused(capsys, f"calibrate --ledger {book} --local-epsilon 1 --reports 1e4", 1)
    assert "because the ledger has already counted 0.998996 of 1" in refusal


@pytest.mark.slow
def test_collusion_is_counted_over_all_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(run(capsys, "plan --categories 5 --reports 20_000 --epsilon 0.5 --rounds 10")[1].split())
    (local,) = re.findall(r"only ε₀ = (\S+) of each report remains, and", said)
    (together,) = re.findall(r"ε₀ = (\S+) of all 10 reports of a person", said)
    assert float(together) == pytest.approx(10 * float(local), rel=1e-2)
    assert "what they see may be" not in said
    small = "plan --categories 5 --reports 20_000 --epsilon 0.5 --rounds 10 --local-epsilon 1"
    limited = " ".join(run(capsys, small)[1].split())
    assert "ε₀ = 10 of all 10 reports" in limited and "--local-epsilon 2 limits" not in limited


@pytest.mark.slow
def test_rounds_of_one_entry_have_no_last_day(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A ledger has one time for rounds that were recorded together: when they are is not known."""
    record = f"ledger record {tmp_path}/t.json --local-epsilon 1 --reports 1e4 --rounds 5 --epsilon 0.2 --planned"
    facts = facts_of(capsys, record)
    assert facts["affordable_rounds"] == 19 and facts["last_day"] is None
    assert facts_of(capsys, f"ledger show {tmp_path}/t.json --every week")["last_day"] is not None


def test_rounds_are_a_number_and_not_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--rounds must be at least 1" in refused(capsys, "compose --reports 1e4 --local-epsilon 1 --rounds 0")
    assert "`shoal compose --table year.csv` composes the rounds of a file" in refused(
        capsys, "compose --rounds year.csv"
    )


@pytest.mark.slow
def test_a_plan_fits_into_its_ledger(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rounds that were planned are recorded with exactly the numbers of the plan, and one more is refused."""
    monkeypatch.chdir(tmp_path)
    plan = "plan --categories 40 --reports 300000 --epsilon 1 --rounds 52 --output weekly.json"
    said = " ".join(run(capsys, plan)[1].split())
    assert "assumes all 52 rounds are fixed in advance" in said
    assert "shoal ledger record LEDGER.json --plan weekly.json" in said
    chosen = json.loads(Path("weekly.json").read_text())["schema"]["local_epsilon"]
    facts = facts_of(capsys, "ledger record year.json --plan weekly.json")
    assert facts["budget"] == {"epsilon": 1.0, "delta": 1e-6, "planned": True}
    assert facts["affordable_rounds"] == 52 and facts["counted"] == facts["spent"] <= 1
    (entry,) = facts["entries"]
    assert [(part["times"], part["randomizer"]["local_epsilon"]) for part in entry["rounds"]] == [(52, chosen)]
    assert "still fit: 0" in refused(capsys, "ledger record year.json --plan weekly.json --rounds 1", 1)
    assert facts_of(capsys, "ledger record week.json --plan weekly.json --rounds 1")["affordable_rounds"] == 52
    # The ε₀ that the table shows is rounded down, so that typed again it allows all rounds, too.
    shown = next(word for word in said.split() if word.startswith(f"{chosen:.3f}"[:4]))
    typed = "--randomizer randomized-response --categories 40 --reports 300000 --epsilon 1"
    assert float(shown) <= chosen
    again = facts_of(capsys, f"ledger record typed.json {typed} --local-epsilon {shown} --planned")
    assert again["affordable_rounds"] >= 52


@pytest.mark.slow
def test_the_charge_for_adaptive_rounds_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = "ledger record t.json --categories 40 --local-epsilon 5.27 --reports 300000 --epsilon 1"
    said = " ".join(run(capsys, record)[1].split())
    assert "counted against the budget: 0.352002. This is more than the cost of 0.120251" in said
    assert "begun with --planned" in said
    refusal = refused(capsys, f"{record} --rounds 51", 1)
    assert "still fit: 41" in refusal and "--planned" in refusal and "then 51 of these 51 fit" in refusal


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "give either --plan with a file, or --reports"),
        ("--plan plan.json --reports 5", "give either --plan with a file, or --reports"),
        ("--plan plan.json --epsilon 1", "leave such options out"),
        ("--plan plan.json --local-epsilon 1", "leave such options out"),
        ("--plan plan.json", "plan.json is not a plan"),
    ],
)
def test_what_a_ledger_does_not_take_for_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text('{"schema": {}}')
    assert said in refused(capsys, f"ledger record t.json {options}")
    assert not Path("t.json").exists()
