"""The verbs about noisy SGD: from a table to a model, and the accountant by itself."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shoal.cli import train_output
from shoal.errors import MissingExtraError
from shoal.mechanisms.coins import Simulation
from shoal.sgd.comparisons import poisson_comparison
from shoal.sgd.guarantees import LABELS, calibrate, guarantee
from shoal.sgd.logistic import LocalLogisticRegression, PrivateLogisticRegression
from shoal.sgd.run import Run
from shoal.sgd.run_limits import lower_bound
from tests.cli.commands import facts_of, refused, run

OPTIONS = "--target buys --noise-multiplier 40"
EXAMPLES = 5000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with an easy problem as a table and as arrays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rows = np.random.default_rng(1).normal(size=(EXAMPLES, 3)).round(3)
    labels = np.where(rows[:, 0] > rows[:, 1], "yes", "no")
    lines = (f"{','.join(map(str, row))},{label}\n" for row, label in zip(rows.tolist(), labels, strict=True))
    Path("people.csv").write_text("age,height,hours,buys\n" + "".join(lines))
    np.savez("people.npz", X=rows, y=labels)
    return tmp_path


@pytest.mark.slow
def test_from_a_table_to_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(capsys, f"train people.csv {OPTIONS} --simulation 7 --output model.npz --plot curve.png")
    assert (facts["examples"], facts["features"], facts["classes"]) == (4000, 3, ["no", "yes"])
    assert facts["held_out"]["examples"] == 1000
    assert facts["held_out"]["accuracy"] > 0.9
    assert 0.5 <= facts["held_out"]["most_frequent_class"] < 0.55
    assert "without noise" in facts["held_out"]["note"]
    trained = Run(examples=4000, batch_size=256, noise_multiplier=40, releases="sums", sampling="allocation")
    expected = replace(guarantee(trained, delta=1e-6), labels_from_data=True)
    promised = expected.to_dict()
    assert {name: facts[name] for name in promised} == promised
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")
    with np.load("model.npz", allow_pickle=False) as model:
        assert set(model) == {"coef", "intercept", "classes", "features", "guarantee"}
        assert model["coef"].shape == (1, 3)
        assert model["classes"].tolist() == ["no", "yes"]
        assert model["features"].tolist() == ["age", "height", "hours"]
        told = json.loads(str(model["guarantee"]))
        assert {name: told[name] for name in promised} == promised
        assert not told["private"]  # the coins came from a seed
        assert "accuracy" not in str(told)
        assert "loss" not in str(told["run"])
        rows = np.load("people.npz")["X"]
        right = (rows @ model["coef"][0] + model["intercept"][0] > 0) == (np.load("people.npz")["y"] == "yes")
    assert right.mean() > 0.9
    assert sorted(path.name for path in folder.iterdir()) == ["curve.png", "model.npz", "people.csv", "people.npz"]


@pytest.mark.slow
def test_the_same_by_hand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = np.load("people.npz")
    for flag, kind in (("", PrivateLogisticRegression), ("--local", LocalLogisticRegression)):
        command = f"train people.npz --noise-multiplier 40 --test-share 0 --simulation 3 --output model.npz {flag}"
        assert facts_of(capsys, command)["held_out"] is None
        made = kind(noise_multiplier=40, classes=["no", "yes"], simulation=Simulation(seed=3))
        made.fit(arrays["X"], arrays["y"])
        np.testing.assert_array_equal(np.load("model.npz")["coef"], made.coef_)
        np.testing.assert_array_equal(np.load("model.npz")["intercept"], made.intercept_)


@pytest.mark.slow
def test_people_get_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, error = run(capsys, f"train people.csv {OPTIONS}")
    assert (status, error) == (0, "")
    text = " ".join(out.split())
    assert out.startswith("ε = ") and "\x1b" not in out
    for told in (
        "at δ = 1e-06",
        "on 1,000 held-out examples",
        "trained on 4,000 examples in batches of about 256, 1 epoch; 3 features, rows as they are in the file",
        f"classes 2 classes: no, yes; {LABELS} (--classes names the labels instead)",
        "noise 40 × clip norm 1, on the sum of each batch",
        "not hidden ε = ",
        "local ε₀ = ",
        "assumes neighbours: one of 4,000 examples replaced by another",
        "the number of epochs was fixed beforehand, and not by what was seen",
        "nobody sees how many a step has, nor what tells that: its loss, time or memory",
        "not covered accuracy, loss and their picture are computed from data without noise",
        "model not kept; --output model.npz writes it",
    ):
        assert told in text, told
    assert "seed" not in text
    assert "careful" not in text
    status, out, error = run(capsys, f"train people.csv {OPTIONS} --delta 1e-13 --plot c.svg")
    assert (status, error) == (0, "")
    assert "careful δ below 1e-12 is that of real-valued noise" in " ".join(out.split())
    status, out, _ = run(
        capsys, f"train people.csv {OPTIONS} --simulation 1 --test-share 0 --plot c.svg --classes no,yes"
    )
    text = " ".join(out.split())
    assert "not private seed 1: the coins come from a seed, and anybody can toss them again" in text
    assert "not measured" in text
    assert "those in the data" not in text
    assert "picture c.svg" in text
    assert "the loss in the picture is computed without noise" in text
    assert Path("c.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_local_training(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(
        capsys, "train people.csv --target buys --noise-multiplier 2 --local --row-norm 1 --batch-size 100"
    )
    expected = guarantee(
        Run(examples=4000, batch_size=100, noise_multiplier=2, noise="example", releases="every-step"), delta=1e-6
    )
    assert facts["epsilon"] == expected.epsilon
    assert facts["local_epsilon"] == expected.local_epsilon
    assert facts["local"]
    assert facts["row_norm"] == 1
    assert facts["held_out"]["accuracy"] > 0.8
    _, out, _ = run(capsys, "train people.csv --target buys --noise-multiplier 2 --local --row-norm 1")
    text = " ".join(out.split())
    assert "4,000 clients in rounds of 256, 1 epoch; 3 features, rows at most 1 long" in text
    assert "on each report" in text
    assert "to whoever knows which report is whose" in text
    assert "for one report by itself" in text


def test_noise_for_a_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(capsys, "train people.csv --target buys --epsilon 0.5 --delta 1e-5 --epochs 1")
    assert 0.49 < facts["epsilon"] <= 0.5
    assert facts["noise_multiplier"] == facts["run"]["noise_multiplier"]
    assert facts["delta"] == 1e-5


@pytest.mark.slow
def test_held_out_files_and_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("people.csv").read_text().splitlines()
    Path("test.csv").write_text("\n".join(["buys,hours,age,height", "yes,0,2,-2", "no,0,-2,2", "yes,9,3,-3"]))
    facts = facts_of(capsys, f"train people.csv {OPTIONS} --test test.csv")
    assert facts["examples"] == EXAMPLES
    assert facts["held_out"]["examples"] == 3
    assert facts["held_out"]["accuracy"] == 1
    assert facts["held_out"]["most_frequent_class"] == pytest.approx(2 / 3)
    chosen = facts_of(capsys, f"train people.csv {OPTIONS} --features height,age --classes no,yes,never")
    assert (chosen["features"], chosen["classes"]) == (2, ["never", "no", "yes"])
    Path("test.csv").write_text("\n".join([lines[0], "1,2,3,perhaps"]))
    assert "'perhaps', which is none of the classes no, yes" in refused(
        capsys, f"train people.csv {OPTIONS} --test test.csv"
    )
    Path("test.csv").write_text("age,height,buys\n1,2,yes\n")
    assert "no column 'hours'" in refused(capsys, f"train people.csv {OPTIONS} --test test.csv")
    np.savez("few.npz", X=np.zeros((2, 2)), y=np.array(["no", "yes"]))
    assert "has 2 features" in refused(capsys, "train people.npz --noise-multiplier 9 --test few.npz")
    assert "none of the classes" in refused(capsys, f"train people.csv {OPTIONS} --classes no,never")


def test_labels_that_are_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(2).normal(size=(900, 2))
    np.savez("digits.npz", pixels=rows, digit=np.arange(900) % 3)
    command = "train digits.npz --features pixels --target digit --noise-multiplier 100 --output digits-model.npz"
    facts = facts_of(capsys, f"{command} --classes 0,1,2,3")
    assert facts["classes"] == [0, 1, 2, 3]
    assert not facts["labels_from_data"]
    assert np.load("digits-model.npz")["coef"].shape == (4, 2)
    assert "whole numbers" in refused(capsys, f"{command} --classes zero,one,two")
    assert "different names" in refused(capsys, f"{command} --classes 0,0,1,2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "train needs"),
        ("people.csv --noise-multiplier 1", "--target"),
        ("people.csv --target buys", "--noise-multiplier"),
        (f"people.csv {OPTIONS} --epsilon 1", "either"),
        ("people.csv --target bus --noise-multiplier 1", "did you mean 'buys'?"),
        ("people.csv --target age --noise-multiplier 1", "column 'buys'"),
        (f"people.csv {OPTIONS} --features age,size", "no column 'size'"),
        ("none.csv --target buys --noise-multiplier 1", "does not exist"),
        ("people.csv --target buys --noise-multiplier 0", "--noise-multiplier must be greater than 0"),
        ("people.csv --target buys --noise-multiplier many", "--noise-multiplier must be a number"),
        ("people.csv --target buys --epsilon -1", "epsilon"),
        (f"people.csv {OPTIONS} --delta 2", "delta"),
        (f"people.csv {OPTIONS} --clip-norm 0", "--clip-norm must"),
        (f"people.csv {OPTIONS} --epochs 1.5", "epochs"),
        (f"people.csv {OPTIONS} --batch-size 0", "--batch-size must"),
        (f"people.csv {OPTIONS} --learning-rate 0", "--learning-rate must"),
        (f"people.csv {OPTIONS} --noise both", "noise must be one of"),
        (f"people.csv {OPTIONS} --adjacency add-remove", "needs public_steps"),
        (f"people.csv {OPTIONS} --local --noise batch", "--local"),
        (f"people.csv {OPTIONS} --row-norm -1", "--row-norm must"),
        (f"people.csv {OPTIONS} --test-share 1", "--test-share must"),
        (f"people.csv {OPTIONS} --test-share 0.1 --test people.csv", "either --test"),
        (f"people.csv {OPTIONS} --test-share 0.9999", "too few"),
        (f"people.csv {OPTIONS} --output model.txt", ".npz"),
        (f"people.csv {OPTIONS} --plot curve.gif", ".png"),
        (f"people.csv {OPTIONS} --output none/model.npz", "make the folder first"),
        (f"people.csv {OPTIONS} --plot none/curve.png", "make the folder first"),
        ("people.npz --noise-multiplier 1 --output people.npz", "also an input"),
        (f"people.csv {OPTIONS} --simulation -1", "simulation"),
        (f"people.csv {OPTIONS} --classes yes", "none of the classes"),
        (f"people.csv {OPTIONS} --colour red", "--colour"),
    ],
)
def test_wrong_arguments(folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, told: str) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert told.casefold() in refused(capsys, f"train {arguments}").casefold()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.slow
def test_bad_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, content = Path("people.csv").read_text(), Path("people.npz").read_bytes()
    for name, bad, told in (
        ("bad.csv", b"", "bad.csv is empty"),
        ("bad.csv", b"age,buys\n", "no rows"),
        ("bad.csv", text.replace("\n", "\nold,1,1,yes\n", 1).encode(), "line 2, column 'age': 'old' is not a number"),
        ("bad.csv", text.replace("\n", "\n1,nan,1,yes\n", 1).encode(), "column 'height': 'nan' is not finite"),
        ("bad.csv", text.replace("\n", "\n1,1,1,\n", 1).encode(), "column 'buys', the target, is empty"),
        ("bad.csv", text[:-20].rsplit(",", 1)[0].encode(), "values for 4 columns"),
        ("bad.csv", b"age,buys\n1,yes\n2,yes\n3,yes\n4,yes\n5,yes\n", "at least 2 classes"),
        ("bad.npz", content[:-300], "cannot read bad.npz"),
        ("bad.npz", content[:1000], "cannot read bad.npz"),
        ("bad.npz", b"\x93NUMPY\x01\x00", "neither CSV"),
    ):
        Path(name).write_bytes(bad)
        target = "--target buys" if name == "bad.csv" else ""
        assert told in refused(capsys, f"train {name} {target} --noise-multiplier 1 --output model.npz")
        assert not Path("model.npz").exists()
        assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_a_gradient_that_is_not_finite_stops_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("wild.npz", X=np.full((50, 2), 1e200), y=np.arange(50) % 2)
    error = refused(capsys, "train wild.npz --noise-multiplier 1 --output model.npz")
    assert "row 0" in error
    assert not Path("model.npz").exists()


def test_an_old_model_is_kept_until_the_new_one_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.npz").write_text("old")
    refused(capsys, f"train people.csv {OPTIONS} --learning-rate 0 --output model.npz")
    assert Path("model.npz").read_text() == "old"
    run(capsys, f"train people.csv {OPTIONS} --output model.npz")
    assert np.load("model.npz")["coef"].shape == (1, 3)


def test_what_can_not_be_drawn_is_not_trained(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"')

    monkeypatch.setattr(train_output, "check_drawing", missing)
    assert "shoal-dp[plot]" in refused(capsys, f"train people.csv {OPTIONS} --output model.npz --plot curve.png")
    assert not Path("model.npz").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(number: signal.Signals, status: int, folder: Path) -> None:
    # Whoever runs the tests in the background has these signals ignored, and a child would inherit that.
    heard = "signal.default_int_handler" if number == signal.SIGINT else "signal.SIG_DFL"
    program = f"import signal, sys, shoal.cli; signal.signal({int(number)}, {heard}); sys.exit(shoal.cli.main())"
    options = [*OPTIONS.split(), "--batch-size", "1", "--epochs", "1000", "--output", "model.npz"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "train", "people.csv", *options], stderr=subprocess.PIPE, text=True
    )
    for _ in range(2000):
        if any(path.name.endswith(".part") for path in folder.iterdir()):
            break
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status
    assert "Traceback" not in error
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv", "people.npz"]


@pytest.mark.slow
def test_a_run_has_straight_columns_and_a_reason_for_what_is_recommended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, out, _ = run(capsys, "sgd --examples 6_000 --batch-size 64 --noise-multiplier 20 --epochs 3")
    assert status == 0
    rows = [line[16:] for line in out.splitlines() if " ε = " in line and line.startswith(("samplers", "   "))]
    assert len(rows) == 5 and {row.index("ε") for row in rows} == {len("kept-allocation ")}
    assert "recommended     allocation is within 1 % of kept-allocation" in out


@pytest.mark.slow
def test_the_accountant_by_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    command = "sgd --examples 60_032 --batch-size 64 --noise-multiplier 0.8 --adjacency zero-out"
    facts = facts_of(capsys, f"{command} --poisson")
    described = Run(examples=60_032, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    expected = guarantee(described, delta=1e-6).to_dict()
    assert {name: facts[name] for name in expected} == expected
    assert facts["best_possible"] == lower_bound(described, delta=1e-6)
    assert facts["best_possible"] > 6.05
    assert facts["poisson"]["epsilon"] == poisson_comparison(described, delta=1e-6).poisson_epsilon
    assert facts["poisson"]["valid"] is False
    status, out, _ = run(capsys, f"{command} --poisson")
    text = " ".join(out.split())
    assert status == 0
    assert out.startswith("ε = 6.3")
    assert "60,032 examples in batches of 64, 1 epoch" in text
    assert "the number of epochs was fixed beforehand, and not by what was seen" in text
    assert "best possible 6.05" in text
    assert "NOT VALID for a zeroed example Poisson accounting would print 0.49" in text
    assert "12.3 times below what is true at least" in text
    assert "left out of its batch" in text
    assert text.count("nothing is said of this run") == 1 and "not applicable" in text
    assert "Poisson" not in run(capsys, command)[1]
    assert "samplers allocation ε = 0." in text
    assert "representatives (representatives)" not in text
    assert "(recommended)" in text
    assert facts["samplers"][0]["sampling"] == "allocation"
    assert [each["recommended"] for each in facts["samplers"]] == [True, False, False, False]
    ran = {each["sampling"]: each["epsilon"] for each in facts["samplers"]}
    assert ran["permutation"] == facts["epsilon"] and set(ran) == {
        "allocation",
        "fixed-order",
        "permutation",
        "poisson",
    }
    assert "Poisson accounting; poisson_comparison is for runs" in refused(
        capsys, f"{command} --poisson --sampling poisson"
    )
    empty = " ".join(run(capsys, f"{command.replace('60_032', '60_000')} --poisson")[1].split())
    assert "best possible 2.76" in empty  # 32 empty slots hide an example
    assert "5.62 times below what is true at least" in empty


@pytest.mark.slow
def test_the_noise_for_a_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(capsys, "sgd --examples 1e4 --batch-size 200 --epsilon 0.5 --delta 1e-5")
    assert (
        facts["noise_multiplier"]
        == calibrate(Run(examples=10_000, batch_size=200), epsilon=0.5, delta=1e-5).noise_multiplier
    )
    assert 0.49 < facts["epsilon"] <= 0.5
    assert facts["calibrated"]
    _, out, _ = run(capsys, "sgd --examples 1e4 --batch-size 200 --epsilon 0.5 --delta 1e-5")
    assert out.startswith(f"noise_multiplier = {facts['noise_multiplier']!r}\n")
    assert "guarantee" in out
    least = {each["sampling"]: each["noise_multiplier"] for each in facts["samplers"]}
    assert least["permutation"] == facts["noise_multiplier"] and facts["samplers"][0]["noise_multiplier"] == min(
        least.values()
    )
    secret = facts_of(capsys, "sgd --public-steps 100 --batch-size 50 --noise-multiplier 3 --adjacency add-remove")
    assert secret["run"]["examples"] == 0 and secret["run"]["sampling"] == "allocation"
    assert {each["sampling"] for each in secret["samplers"]} == {"allocation", "poisson"}
    kept = facts_of(capsys, "sgd --examples 1e5 --noise-multiplier 3 --sampling fixed-order")
    assert kept["best_possible"] is None
    assert kept["bound"] == "plain"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--noise-multiplier 1", "needs --examples"),
        ("--examples 100", "either --noise-multiplier"),
        ("--examples 100 --noise-multiplier 1 --epsilon 1", "either --noise-multiplier"),
        ("--examples 0 --noise-multiplier 1", "examples"),
        ("--examples 10 --batch-size 11 --noise-multiplier 1", "--batch-size must be at most --examples 10"),
        ("--examples 10 --noise-multiplier 1 --noise none", "noise must be one of"),
        ("--examples 10 --noise-multiplier 1 --releases all", "releases must be one of"),
        ("--examples 10 --noise-multiplier 1 --adjacency add-remove", "needs public_steps"),
        (
            "--examples 10 --noise-multiplier 1 --sampling mixed",
            "sampling must be one of allocation, fixed-order, kept-allocation, permutation, poisson",
        ),
        ("--examples 10 --noise-multiplier 1 --sampling poisson --adjacency add-remove", "needs public_steps"),
    ],
)
def test_wrong_runs(capsys: pytest.CaptureFixture[str], arguments: str, told: str) -> None:
    assert told in refused(capsys, f"sgd {arguments}")


@pytest.mark.slow
def test_the_curve_of_many_epochs() -> None:
    """A step at the start of every epoch, the last as high as the guarantee; and what shuffling bought."""
    found = guarantee(
        Run(examples=1000, batch_size=100, noise_multiplier=50, epochs=60, sampling="fixed-order"), delta=1e-6
    )
    curve = [(step, 1 / (1 + step)) for step in range(0, 600, 6)]
    axes = train_output.training_curve(found, curve, held_out=False)
    above, below = axes.figure.axes
    assert above is axes
    heights = below.patches[-1].get_data().values
    assert heights[-1] == found.epsilon
    assert (np.diff(heights) > 0).all()
    assert len(heights) == 16
    assert below.patches[-1].get_data().edges[[0, -1]].tolist() == [0, 60]
    raw, smoothed = above.lines
    assert raw.get_ydata().tolist() == [loss for _, loss in curve]
    assert np.abs(np.diff(smoothed.get_ydata())).max() < np.abs(np.diff(raw.get_ydata())).max()
    train_output.training_curve(found, [], held_out=False)
    (line, dot), _ = (panel.lines for panel in train_output.training_curve(found, curve[:5], held_out=True).figure.axes)
    assert (len(line.get_xdata()), len(dot.get_xdata())) == (4, 1)
