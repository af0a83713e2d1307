"""The verbs `sum` and `quantiles`: a column of numbers in, estimates with intervals and a guarantee out."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from shoal.files.column_values import numbers
from shoal.mechanisms.number_range import NumberRange
from tests.cli.commands import facts_of, run

_OPTIONS = "--column age --lower 0 --upper 120 --epsilon 0.5"


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Make a folder with the ages of 5,000 people in a file, and return them."""
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(1).uniform(0, 100, 5000).round(3)
    Path("people.csv").write_text("age,name\n" + "".join(f"{age:.3f},x\n" for age in ages))
    return ages


def test_a_column_of_numbers(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    """The coins are real: within six standard errors, a false alarm in 10⁸; the median's interval is at 0.999999."""
    facts = facts_of(capsys, f"sum people.csv {_OPTIONS} --confidence 0.999999 --output levels.csv --plot levels.png")
    assert abs(facts["sum"]["value"] - values.sum()) < 6 * facts["sum"]["standard_error"]
    median = facts["quantiles"]["0.5"]
    assert median["lower"] <= np.sort(values)[2499] <= median["upper"]
    assert facts["central"]["epsilon"] <= 0.5 and facts["central"]["bound"] == "dummies"
    assert facts["remains_if_colluding"].startswith("nothing") and facts["influence"] == 120
    table = Path("levels.csv").read_text().splitlines()
    assert table[0] == "level,frequency,at_or_below,lower,upper"
    assert len(table) == 1 + facts["protocol"]["categories"] and Path("levels.png").stat().st_size > 1000


def test_what_people_read(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, f"sum people.csv {_OPTIONS} --covers")
    assert status == 0
    for word in ("5,000 people", "sum", "median", "upper quartile", "covers", "one malicious person", "nothing"):
        assert word in out
    assert "fills all slots" in " ".join(out.split())
    _, out, _ = run(capsys, f"sum people.csv {_OPTIONS}")
    assert "forgets how many they were" in " ".join(out.split())


@pytest.mark.slow
def test_extreme_intervals_and_budgets(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    """An interval whose squares overflow is refused; where the noise is next to nothing, levels do not run away."""
    status, _, error = run(capsys, "sum people.csv --column age --lower 0 --upper 1e308 --epsilon 0.5")
    assert status == 2 and "upper − lower must be from 1e-100 to 1e+100, got 1e+308" in " ".join(error.split())
    facts = facts_of(capsys, "sum people.csv --column age --lower 0 --upper 120 --epsilon 80")
    assert facts["protocol"]["categories"] == 4097
    assert abs(facts["sum"]["value"] - values.sum()) < 6 * facts["sum"]["standard_error"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("3\n\n4\n", "row 2 (line 3): column 'age' is empty"),
        ("3\nfoo\n", "row 2 (line 3): column 'age' does not hold a number from 0 to 120"),
        ("3\n121\n", "row 2 (line 3): column 'age' does not hold a number from 0 to 120"),
        ("nan\n", "row 1 (line 2): column 'age' does not hold a number from 0 to 120"),
    ],
)
def test_rows_that_are_no_numbers(
    rows: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text(f"age,name\n{''.join(f'{row},x' + chr(10) for row in rows.splitlines())}")
    status, _, err = run(capsys, f"sum bad.csv {_OPTIONS}")
    assert status == 2 and message in " ".join(err.split())


def test_columns_of_parquet_files(tmp_path: Path) -> None:
    path, within = tmp_path / "people.parquet", NumberRange(0, 10)
    parquet.write_table(pa.table({"whole": [1, 2, 3], "real": [0.5, 1.5, 10.0], "truth": [True, False, True]}), path)
    for name, expected in (("whole", [1, 2, 3]), ("real", [0.5, 1.5, 10])):
        assert np.concatenate(list(numbers(path, name, within))).tolist() == expected
    with pytest.raises(Exception, match="does not hold a number"):
        list(numbers(path, "truth", within))


@pytest.mark.slow
def test_quantiles_of_a_column(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    """The coins are real: intervals at 0.999999, a false alarm in 300,000."""
    facts = facts_of(
        capsys, f"quantiles people.csv {_OPTIONS} --leaves 100 --confidence 0.999999 --output tree.csv --plot tree.png"
    )
    for share, rank in (("0.25", 1249), ("0.5", 2499), ("0.75", 3749)):
        assert facts["quantiles"][share]["lower"] <= np.sort(values)[rank] <= facts["quantiles"][share]["upper"]
    assert facts["central"]["epsilon"] <= 0.5 and facts["central"]["rounds"] == len(facts["protocols"]) == 2
    assert facts["remains_if_colluding"].startswith("nothing") and facts["influence"] == 2
    table = Path("tree.csv").read_text().splitlines()
    assert table[0] == "edge,below,lower,upper,standard_error" and len(table) == facts["leaves"] == 100
    assert Path("tree.png").stat().st_size > 1000


@pytest.mark.slow
def test_what_people_read_of_quantiles(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, f"quantiles people.csv {_OPTIONS} --leaves 16 --covers --depth 1")
    assert status == 0
    for word in ("5,000 people", "median", "upper quartile", "16 leaves", "covered", "one malicious person", "nothing"):
        assert word in out
    assert "± error" not in out


@pytest.mark.slow
def test_each_depth_and_what_its_dummies_need(
    values: np.ndarray, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = run(capsys, f"quantiles people.csv {_OPTIONS} --leaves 100")
    assert "dummies at each depth (10 and 100 categories), ε = 0.249" in out and "each, limit" in out
    assert "categories = " not in out
    lines = out.splitlines()
    needs = next(index for index, line in enumerate(lines) if line.startswith("needs"))
    assert "adds the dummies of every category" in lines[needs] and "forgets how many" in lines[needs]
    assert "every round has a fresh shuffle" in lines[needs + 1]


def test_a_depth_that_is_none_is_refused(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, f"quantiles people.csv {_OPTIONS} --leaves 8 --depth 9")
    assert status == 2 and "depth" in err
