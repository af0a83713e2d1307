"""The verbs about files of reports, from the data to the histogram."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shoal
from shoal.cli import main
from shoal.composition.group_privacy import group_epsilon
from shoal.estimation.estimate import Estimate
from shoal.files.report_file import ReportFile
from shoal.mechanisms import kinds
from shoal.mechanisms.mechanism import Counts
from tests.cli.commands import facts_of, refused, run

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

COLORS = ("red", "green", "blue", "black")
ONCE = "if each person is in one of them only"
IN_ORDER = (
    "these reports are in the order of the people: whoever sees this file has only the local guarantee; shuffle it, or "
    "pass on the counts alone"
)
ASSUMED = "assumed, not checked: each person has one row of the table (--person checks it)"
OPTIONS = "--column color --categories red,green,blue,black --mechanism hadamard-response --local-epsilon 2"


def _write_data(folder: Path) -> None:
    """Write the data: of 20,000 people 10,000 say red, 6,000 green, 4,000 blue and nobody black."""
    rows = ["red"] * 10_000 + ["green"] * 6_000 + ["blue"] * 4_000
    (folder / "data.csv").write_text("id,color\n" + "".join(f"{place},{color}\n" for place, color in enumerate(rows)))
    (folder / "names.txt").write_text("\n".join(COLORS) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files of every kind, which refused commands leave as it is."""
    folder = tmp_path_factory.mktemp("used")
    _write_data(folder)
    with contextlib.chdir(folder):
        assert main(f"randomize data.csv {OPTIONS} --output good.shoal --json".split()) == 0
        other = OPTIONS.replace("epsilon 2", "epsilon 1")
        assert main(f"randomize data.csv {other} --output other.shoal --json".split()) == 0
        assert main(["aggregate", "good.shoal", "--output", "counts.shoal", "--json"]) == 0
    (folder / "hex.csv").write_text("n\n1\n0x1F\n")
    (folder / "cut.shoal").write_bytes((folder / "good.shoal").read_bytes()[:-1])
    (folder / "s.json").write_text(json.dumps(shoal.HadamardResponse(categories=4, local_epsilon=2).to_dict()))
    (folder / "mean.json").write_text(json.dumps({"mechanism": "laplace", "version": 1, "local_epsilon": 1}))
    return folder


@pytest.mark.slow
def test_from_the_data_to_the_histogram(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = facts_of(capsys, f"randomize data.csv {OPTIONS} --output reports.shoal")
    assert made["reports"] == 20_000
    mechanism = shoal.HadamardResponse(categories=4, local_epsilon=2)
    assert made["mechanism"] == mechanism.to_dict()
    assert facts_of(capsys, "shuffle reports.shoal --output shuffled.shoal")["reports"] == 20_000
    assert facts_of(capsys, "aggregate shuffled.shoal --output counts.shoal")["reports"] == 20_000
    found = facts_of(capsys, "estimate counts.shoal")
    assert found == facts_of(capsys, "estimate shuffled.shoal")
    assert found | {"warning": IN_ORDER} == facts_of(capsys, "estimate reports.shoal")
    assert found["category"] == list(COLORS)
    truth = np.array([0.5, 0.3, 0.2, 0])
    assert np.all(np.abs(found["frequency"] - truth) < 6 * np.array(found["standard_error"]))
    holds = "to whoever sees the reports only shuffled together, or added up"
    expected = shoal.amplify(mechanism, reports=20_000).to_dict(delta=1e-6) | {"holds": holds}
    assert found["central"] == expected | {"assumptions": [*expected["assumptions"], ASSUMED]}
    assert found["local_epsilon"] == mechanism.local_epsilon
    assert sorted(path.name for path in folder.iterdir()) == [
        "counts.shoal", "data.csv", "names.txt", "reports.shoal", "shuffled.shoal",
    ]  # fmt: skip


def test_people_get_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, f"randomize data.csv {OPTIONS} --output reports.shoal")
    assert status == 0
    assert out.startswith("20,000 reports: reports.shoal")
    assert "shoal shuffle reports.shoal" in out
    _, out, _ = run(capsys, "shuffle reports.shoal --output shuffled.shoal")
    assert "20,000 reports: shuffled.shoal" in out
    _, out, _ = run(capsys, "aggregate shuffled.shoal --output counts.shoal")
    assert "20,000 reports added up: counts.shoal" in out
    status, out, _ = run(capsys, "estimate counts.shoal --top 2 --delta 1e-8 --confidence 0.9 --project")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "20,000 reports"
    assert lines[1].split() == ["category", "frequency", "±", "error", "90", "%", "interval"]
    assert [line.split()[0] for line in lines[2:4]] == ["red", "green"]
    assert "and 2 more" in out
    assert "hadamard-response" in out
    assert "ε₀ = 2, for each report by itself" in out
    assert "at δ = 1e-08" in out
    assert "blanket" in out
    assert "projected" in out


@pytest.mark.slow
def test_an_estimate_outside_its_interval_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three people and four categories: one that nobody reported has a negative estimate."""
    Path("data.csv").write_text("color\nred\nred\nblue\n")
    options = OPTIONS.replace("hadamard-response", "randomized-response")
    run(capsys, f"randomize data.csv {options} --output reports.shoal")
    found = facts_of(capsys, "estimate reports.shoal")
    assert min(found["frequency"]) < 0
    outside = [
        not low <= each <= high
        for low, each, high in zip(*(found[name] for name in ("lower", "frequency", "upper")), strict=True)
    ]
    assert found["outside_interval"] == sum(outside) > 0
    assert "an unbiased estimate may be below 0 or above 1" in found["note"]
    assert found["note"].endswith("and so does --project here")
    out = " ".join(run(capsys, "estimate reports.shoal --plot hist.png")[1].split())
    assert "note an unbiased estimate may be below 0 or above 1, outside its interval" in out
    assert Path("hist.png").stat().st_size > 1000
    alone = run(capsys, "estimate reports.shoal --top 0")[1]
    assert "note" not in alone
    simulated = facts_of(capsys, f"simulate data.csv {options} --trials 2")
    assert "an unbiased estimate may" in simulated["note"]
    assert "--project" not in simulated["note"]  # neither simulate nor `analyst estimate` has this option
    out = run(capsys, f"simulate data.csv {options} --trials 2 --plot hist.png")[1]
    assert "note" in out


@pytest.mark.slow
def test_histograms_are_written_and_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, f"randomize data.csv {OPTIONS} --output reports.shoal")
    found = facts_of(capsys, "estimate reports.shoal")
    for name in ("hist.csv", "hist.parquet", "hist.json"):
        status, out, _ = run(capsys, f"estimate reports.shoal --output {name} --plot hist.png")
        assert status == 0
        assert name in out
        assert "hist.png" in out
    columns = ["category", "frequency", "standard_error", "lower", "upper"]
    with Path("hist.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["category"] for row in rows] == list(COLORS)
    assert [float(row["frequency"]) for row in rows] == found["frequency"]
    frame = parquet.read_table("hist.parquet").to_pydict()
    assert frame == {name: found[name] for name in columns}
    assert json.loads(Path("hist.json").read_text()) == found
    assert Path("hist.png").read_bytes().startswith(b"\x89PNG")
    projected = facts_of(capsys, "estimate reports.shoal --project")
    assert projected["on_simplex"]
    assert min(projected["frequency"]) >= 0
    assert sum(projected["frequency"]) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_has_its_name(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = OPTIONS.replace("hadamard-response", name)
    assert facts_of(capsys, f"randomize data.csv {options} --output r.shoal")["mechanism"]["mechanism"] == name
    found = facts_of(capsys, "estimate r.shoal")
    truth = np.array([0.5, 0.3, 0.2, 0])
    assert np.all(np.abs(found["frequency"] - truth) < 6 * np.array(found["standard_error"]))
    assert 0 < found["central"]["epsilon"] < found["local_epsilon"]


def test_a_schema_says_it_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mechanism = shoal.SubsetSelection(categories=4, local_epsilon=1, size=2)
    Path("schema.json").write_text(json.dumps(mechanism.to_dict()))
    Path("plan.json").write_text(json.dumps({"error": 0.1, "schema": mechanism.to_dict()}))
    for name in ("schema.json", "plan.json"):
        command = f"randomize data.csv --column color --categories names.txt --schema {name} --output r.shoal"
        assert facts_of(capsys, command)["mechanism"] == mechanism.to_dict()
    assert ReportFile.opened(Path("r.shoal")).names.labels == COLORS
    parquet.write_table(pa.table({"digit": [0, 3, 1]}), "digits.parquet")
    made = facts_of(capsys, "randomize digits.parquet --column digit --schema plan.json --output d.shoal")
    assert made["reports"] == 3


@pytest.mark.slow
def test_counts_of_two_days_add(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in ("monday", "tuesday"):
        run(capsys, f"randomize data.csv {OPTIONS} --output {day}.shoal")
    run(capsys, "aggregate monday.shoal --output counts.shoal")
    assert facts_of(capsys, "aggregate counts.shoal tuesday.shoal --output both.shoal")["reports"] == 40_000
    both = facts_of(capsys, "estimate both.shoal")
    apart = facts_of(capsys, "estimate monday.shoal tuesday.shoal")
    told = (
        "the reports in monday.shoal, tuesday.shoal are in the order of the people: whoever sees these files has only"
    )
    assert apart.pop("warning").startswith(told)
    assert both == apart
    mixed = facts_of(capsys, "shuffle monday.shoal tuesday.shoal --output mixed.shoal")
    assert mixed["reports"] == 40_000
    assert mixed["condition"].endswith("2 batches: the central guarantee of all together holds " + ONCE)
    assert both == facts_of(capsys, "estimate mixed.shoal")
    assert both["central"]["holds"] == (
        f"to whoever sees the reports of these 2 batches only shuffled together, or added up, {ONCE}"
    )
    for command in ("estimate mixed.shoal", "aggregate both.shoal --output c.shoal"):
        assert ONCE in " ".join(run(capsys, command)[1].split())
    run(capsys, "aggregate monday.shoal --output one.shoal")
    assert "condition" not in facts_of(capsys, "aggregate one.shoal --output c.shoal")


@pytest.mark.slow
def test_simulations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = "simulate --people 1e4 --categories 20 --mechanism randomized-response --local-epsilon 3 --trials 100"
    found = facts_of(capsys, f"{made} --seed 5 --plot truth.svg")
    assert found == facts_of(capsys, f"{made} --seed 5")
    assert found != facts_of(capsys, f"{made} --seed 6")
    assert found["reports"] == 10_000
    assert 0.8 < found["ratio"] < 1.2
    assert 0.92 < found["coverage"] < 0.98
    assert sum(found["truth"]) == pytest.approx(1)
    assert "<svg" in Path("truth.svg").read_text()
    status, out, _ = run(capsys, f"simulate data.csv {OPTIONS} --trials 5")
    assert status == 0
    assert out.startswith("5 trials with 20,000 people, 4 categories")
    for words in (
        "squared error",
        "closed form",
        "coverage",
        "local guarantee of real reports made with this mechanism: ε₀ = 2",
        "central guarantee of real reports made with this mechanism: ε = ",
        "this output itself is not private: it contains the truth",
        "simulation only",
    ):
        assert words in " ".join(out.split())
    found = facts_of(capsys, f"simulate data.csv {OPTIONS} --trials 1")
    assert found["truth"] == [0.5, 0.3, 0.2, 0]
    assert found["squared_error_standard_error"] is None
    assert found["private"] is False
    assert "not private: it contains the truth" in found["warning"]
    assert found["guarantees_of"] == "real reports made with this mechanism"
    assert found["central"]["holds"].startswith("to whoever sees the reports only shuffled")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"randomize data.csv {OPTIONS} --output data.csv", "also an input"),
        ("randomize data.csv --column color --categories names.txt --mechanism rappor --local-epsilon 1 "
         "--output names.txt", "also an input"),
        (f"randomize missing.csv {OPTIONS} --output r.shoal", "missing.csv does not exist"),
        (f"randomize good.shoal {OPTIONS} --output r.shoal", "a file of shoal already"),
        (f"randomize data.csv {OPTIONS} --output no/r.shoal", "make the folder first"),
        (f"randomize data.csv {OPTIONS} --output .", "is not a file"),
        (f"randomize data.csv {OPTIONS}", "--output"),
        (f"randomize data.csv {OPTIONS.replace(',black', '')} --output r.shoal --schema names.txt", "not both"),
        (f"randomize data.csv {OPTIONS.replace('blue,', '')} --output r.shoal", "row 16,001 (line 16,002)"),
        (f"randomize data.csv {OPTIONS.replace('color', 'hue')} --output r.shoal", "its columns are 'id', 'color'"),
        (f"randomize data.csv {OPTIONS.replace('hadamard-response', 'magic')} --output r.shoal", "local-hashing"),
        (f"randomize data.csv {OPTIONS.replace('epsilon 2', 'epsilon 0')} --output r.shoal", "greater than 0"),
        ("randomize data.csv --column color --output r.shoal", "needs --categories, --mechanism"),
        ("randomize data.csv --column color --schema names.txt --output r.shoal", "names.txt is no schema"),
        ("randomize data.csv --column color --schema none.json --output r.shoal", "cannot read none.json"),
        ("randomize data.csv --column color --schema s.json --categories 5 --output r.shoal", "for 4 categories"),
        ("randomize data.csv --column color --schema s.json --output r.shoal", "row 1 (line 2): column 'color'"),
        ("randomize data.csv --column color --schema s.json --output r.shoal", "give --categories the names"),
        ("randomize data.csv --column color --categories data.csv --mechanism rappor --local-epsilon 2 "
         "--output r.shoal", "data.csv: 'red' stands in row 1 and row 2; the categories must be a list of unique"),
        ("estimate good.shoal counts.shoal", "good.shoal and counts.shoal hold the same reports (batch "),
        ("estimate good.shoal --top 0 --plot hist.png", "nothing to draw with --top 0"),
        ("randomize data.csv --column color --schema mean.json --output r.shoal", "for numbers, not for categories"),
        ("shuffle --output r.shoal", "needs a file"),
        ("shuffle data.csv --output r.shoal", "data.csv is no report file"),
        ("shuffle good.shoal --output good.shoal", "also an input"),
        ("shuffle counts.shoal --output r.shoal", "nothing is left to shuffle; `shoal estimate` takes it"),
        ("shuffle none.shoal --output r.shoal", "cannot read none.shoal"),
        ("shuffle good.shoal", "needs --output"),
        ("aggregate good.shoal", "needs --output"),
        ("randomize data.csv --column id --categories 4e9 --mechanism randomized-response --local-epsilon 2 "
         "--output r.shoal", "take fewer categories"),
        ("randomize data.csv --column color --categories red,gr\udcffn --mechanism rappor --local-epsilon 2 "
         "--output r.shoal", "name 2 is"),
        ("randomize hex.csv --column n --categories 100 --mechanism rappor --local-epsilon 2 --output r.shoal",
         "row 2 (line 3): column 'n' holds none of the 100 categories"),
        ("shuffle cut.shoal --output r.shoal", "cut.shoal is cut off in record 20,000 of 20,000"),
        ("aggregate --output r.shoal", "needs a file"),
        ("aggregate data.csv --output r.shoal", "data.csv is no report file and no count file"),
        ("aggregate good.shoal good.shoal --output r.shoal", "given twice"),
        ("aggregate good.shoal other.shoal --output r.shoal", "other.shoal holds reports of"),
        ("aggregate good.shoal --output good.shoal", "also an input"),
        ("estimate", "needs a file"),
        ("estimate none.shoal", "cannot read none.shoal"),
        ("estimate good.shoal --output hist.xlsx", "output must be a .csv, .parquet or .json file"),
        ("estimate good.shoal --plot hist.doc", "plot must be a .png, .svg or .pdf file"),
        ("estimate good.shoal --plot no/hist.png", "cannot write"),
        ("estimate good.shoal --confidence 95", "confidence must be"),
        ("estimate good.shoal --delta 2", "delta must be"),
        ("estimate good.shoal --top -1", "top must be"),
        ("simulate --categories 9 --mechanism rappor --local-epsilon 1", "--people"),
        (f"simulate data.csv {OPTIONS} --people 9", "either a data file"),
        ("simulate data.csv --categories 9 --mechanism rappor --local-epsilon 1", "--column"),
        (f"simulate data.csv {OPTIONS} --trials 0", "trials must be"),
        (f"simulate data.csv {OPTIONS} --seed x", "seed must be a number"),
    ],
)  # fmt: skip
def test_bad_usage_gets_one_line_and_leaves_nothing(
    command: str, message: str, used: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(used)
    before = {path.name: path.read_bytes() for path in used.iterdir()}
    assert message in refused(capsys, command)
    assert {path.name: path.read_bytes() for path in used.iterdir()} == before


@pytest.fixture
def events(folder: Path) -> Path:
    """Make a table of 1,000 rows of one person."""
    Path("events.csv").write_text("who,color\n" + "person-1,red\n" * 1000)
    return folder


@pytest.mark.parametrize("verb", ["randomize", "sum", "quantiles", "heavy-hitters"])
def test_many_rows_of_one_person_are_refused(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.csv").write_text("who,color,age\n" + "person-1,red,3\n" * 1000)
    numbers = "--column age --lower 0 --upper 9 --epsilon 1"
    options = {"randomize": f"{OPTIONS} --output r.shoal", "heavy-hitters": "--column color --epsilon 1"}
    status, _, error = run(capsys, f"{verb} events.csv {options.get(verb, numbers)} --person who")
    assert status == 2
    assert "row 2 (line 3): this person has an earlier row" in error
    assert ("--rows-per-person M" in error) == (verb == "randomize")
    assert "person-1" not in error
    assert not Path("r.shoal").exists()


def test_kept_rows_are_charged_in_every_step(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of one person ended in ε = 0.1266; with 40 rows kept, ε is that of 40 reports."""
    options = OPTIONS.replace("hadamard-response", "randomized-response")
    made = facts_of(capsys, f"randomize events.csv {options} --output r.shoal --person who --rows-per-person 40")
    assert (made["reports"], made["rows_per_person"], made["person_checked"]) == (40, 40, True)
    assert made["local_epsilon_per_person"] == 80
    assert made["rows_left_out"] == 960
    again = f"randomize events.csv {options} --output again.shoal --person who --rows-per-person 40"
    assert "left out 960 further rows of the same people" in " ".join(run(capsys, again)[1].split())
    error = run(capsys, f"randomize events.csv {options} --output again.shoal --person color")[2]
    assert "--person must be another column than 'color'" in error
    run(capsys, "shuffle r.shoal --output s.shoal")
    run(capsys, "aggregate s.shoal --output c.shoal")
    found = facts_of(capsys, "estimate c.shoal")
    curve = shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=2), reports=40)
    assert found["central"]["epsilon"] == group_epsilon(curve, rows_per_person=40, delta=1e-6) > 70
    assert "group privacy" in found["central"]["theorem"]
    assert ASSUMED not in found["central"]["assumptions"]
    out = " ".join(run(capsys, "estimate c.shoal")[1].split())
    assert "each person has at most 40 rows of the table, checked by a column of ids" in out
    for name in ("r.shoal", "s.shoal", "c.shoal"):
        assert b"who" not in Path(name).read_bytes() and b"person-1" not in Path(name).read_bytes()


def test_without_a_column_of_people_the_assumption_stands_beside_epsilon(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = " ".join(run(capsys, f"randomize events.csv {OPTIONS} --output r.shoal")[1].split())
    assert ASSUMED in out
    out = " ".join(run(capsys, "estimate r.shoal")[1].split())
    assert f"added up (blanket) rows {ASSUMED}" in out
    status, _, error = run(capsys, f"randomize events.csv {OPTIONS} --output r.shoal --rows-per-person 2")
    assert (status, "--rows-per-person must come with --person" in error) == (2, True)


@pytest.mark.parametrize("verb", ["randomize", "sum", "quantiles", "heavy-hitters"])
def test_the_help_says_that_a_row_is_a_person(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(run(capsys, f"{verb} --help")[1].replace("│", " ").split())
    assert "only if each has one row of the table" in words


def test_the_help_says_why_categories_are_public(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "randomize --help")
    words = " ".join(out.replace("│", " ").split())
    assert "never taken from the data" in words
    assert "give that person away" in words


def test_the_help_names_every_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    words = run(capsys, "randomize --help")[1].replace("│", " ").split()
    assert set(MECHANISMS) <= {word.strip(",:;") for word in words}


def test_no_seed_for_real_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, f"randomize data.csv {OPTIONS} --output r.shoal --seed 1")
    assert status == 2
    assert "--seed" in error


def test_an_epsilon_that_coins_of_64_bits_can_not_have_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mechanism = shoal.HadamardResponse(categories=4, local_epsilon=300)
    assert mechanism.local_epsilon < 50
    options = OPTIONS.replace("epsilon 2", "epsilon 300")
    _, out, _ = run(capsys, f"randomize data.csv {options} --output r.shoal")
    assert "less than asked ε₀ = 300 was asked for; with coins of 64 bits" in " ".join(out.split())
    Path("s.json").write_text(json.dumps(mechanism.to_dict() | {"local_epsilon": 300}))
    for command in (
        f"randomize data.csv {options}",
        "randomize data.csv --column color --categories names.txt --schema s.json",
    ):
        made = facts_of(capsys, f"{command} --output r.shoal")
        assert (made["local_epsilon_asked"], made["local_epsilon"]) == (300, mechanism.local_epsilon)
    assert "local_epsilon_asked" not in facts_of(capsys, f"randomize data.csv {OPTIONS} --output r.shoal")


@pytest.mark.slow
def test_the_picture_has_as_many_categories_as_top_says(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int | None] = []
    chart = Estimate.chart

    def noted(self: Estimate, **options: Any) -> Any:
        drawn.append(options.get("most"))
        return chart(self, **options)

    monkeypatch.setattr(Estimate, "chart", noted)
    run(capsys, f"randomize data.csv {OPTIONS} --output r.shoal")
    for command in ("", "--top 2", "--top 5000"):
        assert run(capsys, f"estimate r.shoal --plot hist.svg {command}")[0] == 0
    assert drawn == [None, 2, 1000]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_leaves_nothing(number: signal.Signals, status: int, folder: Path) -> None:
    with Path("big.csv").open("w") as file:
        file.write("color\n" + "red\ngreen\nblue\n" * 3_000_000)
    # Whoever runs the tests in the background has these signals ignored, and a child would inherit that.
    heard = "signal.default_int_handler" if number == signal.SIGINT else "signal.SIG_DFL"
    program = f"import signal, sys, shoal.cli; signal.signal({int(number)}, {heard}); sys.exit(shoal.cli.main())"
    command = [sys.executable, "-c", program, "randomize", "big.csv", *OPTIONS.split(), "--output", "r.shoal"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(2000):
        if any(path.name.endswith(".part") for path in folder.iterdir()):
            break
        time.sleep(0.01)
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status
    assert "Traceback" not in error
    assert sorted(path.name for path in folder.iterdir()) == ["big.csv", "data.csv", "names.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        shoal.Covered(categories=4, slots=2, fill=0.1),
        shoal.Covered(categories=4, fill=1, response=shoal.RandomizedResponse(categories=4, local_epsilon=3)),
        shoal.Dummies(categories=4, epsilon=0.5, limit=50, helpers=2),
    ],
)
def test_bundles_from_the_data_to_the_histogram(
    folder: Path, capsys: pytest.CaptureFixture[str], mechanism: shoal.Covered | shoal.Dummies
) -> None:
    """People are counted, and messages shuffled one by one; nothing is estimated before dummies are there."""
    Path("schema.json").write_text(json.dumps(mechanism.to_dict()))
    options = "--column color --categories red,green,blue,black --schema schema.json"
    made = facts_of(capsys, f"randomize data.csv {options} --output reports.shoal")
    assert made["reports"] == 20_000 and made["remains_if_colluding"] == mechanism.remains
    written = ReportFile.opened(Path("reports.shoal"))
    assert (written.reports, written.records) == (20_000, 20_000 * mechanism.bundle)
    facts = facts_of(capsys, "shuffle reports.shoal --output shuffled.shoal")
    assert facts["reports"] == 20_000
    shuffled = ReportFile.opened(Path("shuffled.shoal"))
    assert shuffled.reports == 20_000 and shuffled.added == isinstance(mechanism, shoal.Dummies)
    assert facts_of(capsys, "aggregate shuffled.shoal --output counts.shoal")["reports"] == 20_000
    found = facts_of(capsys, "estimate counts.shoal")
    assert found == facts_of(capsys, "estimate shuffled.shoal")
    truth = np.array([0.5, 0.3, 0.2, 0])
    assert np.all(np.abs(found["frequency"] - truth) < 6 * np.array(found["standard_error"]))
    assert found["central"]["bound"] == mechanism.theorem and "collude" in found["central"]["assumptions"][-2]
    run(capsys, "estimate counts.shoal")
    run(capsys, "simulate --schema schema.json --people 1e4 --trials 2 --categories red,green,blue,black")
    _, early, error = run(capsys, "estimate reports.shoal")
    if shuffled.added:
        assert "reports.shoal has no dummies yet" in error and not early
        status, _, error = run(capsys, "aggregate reports.shoal --output early.shoal")
        assert status == 2 and "exact histogram" in error and not Path("early.shoal").exists()
        assert shuffled.records > 20_000
        with pytest.raises(shoal.ParameterError, match="exact histogram"):
            Counts.from_bytes(written.counts().to_bytes()).mechanism.estimate(written.counts())
        status, _, error = run(capsys, "shuffle shuffled.shoal --output again.shoal")
        assert status == 2 and "already" in error
        status, _, error = run(capsys, "shuffle reports.shoal --output again.shoal")
        assert status == 2 and "disclose what people sent" in error and not Path("again.shoal").exists()
        facts_of(capsys, f"randomize data.csv {options} --output other.shoal")
        status, _, error = run(capsys, "shuffle other.shoal reports.shoal --output again.shoal")
        assert status == 2 and "drawn for reports.shoal before" in " ".join(error.split())
        assert facts_of(capsys, "shuffle other.shoal --output again.shoal")["reports"] == 20_000  # not noted as drawn
        assert facts_of(capsys, "shuffle reports.shoal --output again.shoal --again")["reports"] == 20_000
    else:
        bare = mechanism.local_epsilon == np.inf
        facts_of(capsys, "shuffle reports.shoal --output again.shoal")
        told = "sees what each person said; shuffle it" if bare else "has only the local guarantee; shuffle it"
        assert f"whoever sees this file {told}" in " ".join(early.split())
    for command in ("aggregate shuffled.shoal --output counts.shoal", "estimate counts.shoal"):
        _, text, _ = run(capsys, command)
        assert "if shuffler and analyst collude, what remains is" in " ".join(text.split())
    assert ("forgets how many they were" if shuffled.added else "fills all slots") in " ".join(text.split())


def test_covers_and_dummies_by_name_lead_to_a_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, option in (("covered", "--messages 2"), ("dummies", "--dummies")):
        command = f"simulate --people 100 --categories 4 --mechanism {name} --local-epsilon 1"
        status, _, error = run(capsys, command)
        assert status == 2 and f"`shoal plan` with {option} fits to a guarantee" in error


@pytest.mark.slow
def test_a_plan_with_several_messages_says_what_they_need(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "plan --categories 50 --reports 20_000 --epsilon 1 --messages 2 --dummies")
    for words in (
        "dummies",
        "covered",
        "± frequent",
        "sealed",
        "if shuffler and analyst collude",
        "one malicious person",
    ):
        assert words in text
    told = " ".join(text.split())
    assert "sees what each person said (dummies)" in told and "forgets how many they were" in told
    _, covered, _ = run(capsys, "plan --categories 50 --reports 20_000 --epsilon 1 --messages 2")
    assert "fills all slots" in " ".join(covered.split())
    _, many, _ = run(capsys, "plan --categories 2 --reports 10 --epsilon 1000 --messages 2 --dummies")
    told = " ".join(many.split())
    assert "of each report (randomized-response); nothing of dummies" in told
    assert "covers are left out: 10 people with 2 messages each are too few for this ε" in told
    limited = facts_of(capsys, "plan --categories 5 --reports 20_000 --epsilon 0.5 --dummies --local-epsilon 1")
    assert limited["note"].startswith("dummies are left out: people send what is true")
    assert limited["choices"][0]["needs"] is None
    _, large, _ = run(capsys, "plan --categories 1e6 --reports 1e6 --epsilon 0.5 --dummies")
    assert "125 kB" in large and "…" not in large
    _, plain, _ = run(capsys, "plan --categories 50 --reports 20_000 --epsilon 1 --local-epsilon 2")
    assert "collude" not in plain and "dummies" not in plain
