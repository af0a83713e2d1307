"""The verb `quantiles`: a column of numbers in, quartiles and the distribution out, with intervals and a guarantee."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import facts_of, run

_OPTIONS = "--column age --lower 0 --upper 120 --epsilon 0.5"


@pytest.fixture
def values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Make a folder with the ages of 5,000 people in a file, and return them."""
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(1).uniform(0, 100, 5000).round(3)
    Path("people.csv").write_text("age\n" + "".join(f"{age:.3f}\n" for age in ages))
    return ages


@pytest.mark.slow
def test_a_column_of_numbers(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_what_people_read(values: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
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
