"""Every tutorial runs as a script, and what it claims is so."""

import re
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_FOLDER = Path(__file__).parents[2] / "docs/tutorials"
_NAMES = sorted(path.stem for path in _FOLDER.glob("plot_*.py"))


def _run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Run a tutorial in a folder of its own; it must end with a picture that has something in it."""
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pyplot.close("all")
    names = runpy.run_path(str(_FOLDER / f"{name}.py"))
    axes = pyplot.figure(pyplot.get_fignums()[-1]).axes[0]
    assert axes.has_data()
    pyplot.close("all")
    return names


@pytest.mark.slow
def test_histogram(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = _run("plot_a_histogram", monkeypatch, tmp_path)
    estimate, truth = names["estimate"], names["truth"]
    assert names["curve"].epsilon(1e-6) <= 0.5
    assert type(names["plan"].mechanism).__name__ == "RandomizedResponse"
    assert np.abs(estimate.frequencies - truth).max() < 8 * estimate.standard_errors.max()  # 1e-14 for each of six


@pytest.mark.slow
def test_choosing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_b_choosing", monkeypatch, tmp_path)
    curve = names["curve"]
    assert curve.epsilon(1e-12) < 2 * curve.epsilon(1e-6)  # a much smaller δ costs little
    assert names["modest"].best.error > 10 * names["plan"].best.error
    assert names["modest"].best.epsilon < 0.5
    lines = capsys.readouterr().out.splitlines()
    told = [float(line.split("ε = ")[1]) for line in lines if line.startswith("n =")]
    assert all(1.3 < before / after < 1.5 for before, after in pairwise(told))  # √2 for twice as many
    attacks = [[float(word) for word in line.split()[2:]] for line in lines if re.match(r"ε = [\d.]+ ", line)]
    assert [epsilon for epsilon, _, _ in attacks] == [0.1, 0.5, 1, 2, 4]
    for epsilon, shuffled, alone in attacks:  # each rounded up; what ε alone says is never less
        assert 1 < shuffled < alone
        assert 0 <= alone / (np.exp(epsilon) + 1e-4) - 1 < 1e-3


@pytest.mark.slow
def test_year(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_c_year", monkeypatch, tmp_path)
    year = names["year"]
    assert names["careless"].epsilon(1e-6) > 20
    assert year.best.curve.repeated(365).epsilon(1e-6) <= 1
    assert 15.45 < 365 * year.best.round_epsilon < 15.5
    assert len(names["ledger"].entries) == 3
    assert "over the budget" in capsys.readouterr().out
    assert names["spending"].affordable < 90


@pytest.mark.slow
def test_randomizer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = _run("plot_d_randomizer", monkeypatch, tmp_path)
    opinion = names["opinion"]
    assert opinion.local_epsilon == pytest.approx(names["ratios"].max(), rel=1e-9)
    assert opinion.local_epsilon > 1.5
    assert names["known"].epsilon(1e-6) < names["unknown"].epsilon(1e-6)
    assert names["honest"].passed
    assert not names["boastful"].passed


@pytest.mark.slow
def test_collection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    names = _run("plot_e_collection", monkeypatch, tmp_path)
    facts = names["facts"]
    assert names["shuffler"].returncode is not None
    assert 250 <= facts["reports_valid"] <= 260
    assert facts["reports_accounted"] == facts["reports_valid"] - 10
    assert facts["epsilon"] <= 1 < facts["local_epsilon"] == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Opacus and torch, about themselves
def test_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("opacus")
    names = _run("plot_f_training", monkeypatch, tmp_path)
    assert names["training"].guarantee().epsilon <= 1
    assert names["accuracy"] > 0.85
    assert names["honest_epsilon"] > 6
    assert names["printed"] < 2.2


@pytest.mark.slow
def test_review(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_g_review", monkeypatch, tmp_path)
    printed = capsys.readouterr().out
    assert names["status"] == 0
    assert "exit status 1" in printed
    assert "proved: ε = 0.0670964" in printed
    assert names["forged"].read_text() != names["page"].read_text()
    scripts = re.findall("<script[^>]*>", names["page"].read_text())
    assert scripts == ['<script type="application/json" id="shoal-review">']  # data, which nothing runs


@pytest.mark.slow
def test_messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_h_messages", monkeypatch, tmp_path)
    expected = [1.0, 2.05, 2.81]  # of a trusted curator's error: dummies, covers, one message
    assert names["table"]["error"].head(3).tolist() == pytest.approx(expected, abs=0.01)
    assert all(curve.epsilon(1e-6) <= 0.5 for curve in names["curves"].values())
    sizes = {name: float(np.sqrt(np.mean(error**2))) for name, error in names["errors"].items()}
    assert sizes["dummies"] == pytest.approx(names["curator"], rel=0.6)  # 8 standard deviations of 100 squares
    assert sizes["dummies"] < sizes["covers"]
    assert names["exact"] > 0.9
    assert 100 * names["alone"] == pytest.approx(86.4, abs=1)
    printed = capsys.readouterr().out
    assert printed.count("nothing: whoever sees messages before they are shuffled") == 2
    assert printed.count("nothing remains if shuffler and analyst collude") == 2


@pytest.mark.slow
def test_sums(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_i_sums", monkeypatch, tmp_path)
    people, estimate = names["people"], names["estimate"]
    assert abs(estimate.sum.value - people.sum()) < 8 * estimate.sum.standard_error
    assert abs(estimate.quantile(0.5).value - np.median(people)) < 2 * names["step"]
    errors = list(names["errors"].values())
    assert errors == sorted(errors, reverse=True)  # from one bit to the curator
    assert names["curve"].epsilon(1e-6) <= 0.5
    means = [
        float(line.split("mean ")[1].split()[0]) for line in capsys.readouterr().out.splitlines() if ": mean" in line
    ]
    assert means[1] - means[0] == pytest.approx(36, abs=0.02)  # 10,000 intervals of one person in 50,000


@pytest.mark.slow
def test_heavy_hitters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _run("plot_j_heavy_hitters", monkeypatch, tmp_path)
    found, table = names["found"], names["table"]
    assert {"tram", "bus", "métro", "taxi", "bike", "ferry", "walk", "τρα", "plane"} <= set(found.items)
    assert not {"kayak"} & set(found.items)
    assert (np.abs(table["count"] - table["truth"]) < 8 * table["standard_error"]).all()
    assert found.curve.epsilon(1e-6) <= 1
    assert {"tram", "τραμ"} <= set(names["hashed"].items)
    assert "next to nothing" in capsys.readouterr().out


def test_every_tutorial_has_a_test() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {name.split("_", 2)[2] for name in _NAMES} <= tested
