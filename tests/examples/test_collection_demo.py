"""The demonstration of a collection: from keys to a histogram; and however it ends, no process is left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import shoal
from examples import collection_demo
from examples.crowd import SHARES, answers
from shoal.collect import Task
from tests.cli.commands import facts_of

_CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_crowd_says_what_it_should() -> None:
    said = answers(1000)
    assert [said.count(number) for number in range(len(SHARES))] == [round(1000 * share) for share in SHARES]
    assert said != sorted(said)


@pytest.mark.slow
def test_the_demonstration_knows_how_many_it_takes() -> None:
    mechanism = shoal.SubsetSelection(categories=len(SHARES), local_epsilon=2.5)
    assert shoal.amplify(mechanism, reports=collection_demo._LEAST).epsilon(1e-6) <= 1
    assert shoal.amplify(mechanism, reports=collection_demo._LEAST - 1).epsilon(1e-6) > 1


def test_the_demonstration_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    for options, reason in {
        "--people 100": "people must be at least 247",
        "--plot none/x.png": "in a folder that is there",
        "--folder full": "not an empty folder",
        "--plot x.txt": "must be a .png file",
    }.items():
        assert collection_demo.main(options.split()) == 2
        assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_of_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From keys to a histogram, each part in its own process; an error of 7 deviations has probability below 1e-6."""
    assert collection_demo.main(["--people", "600", "--folder", "all", "--plot", "collected.png", "--json"]) == 0
    out, error = capfd.readouterr()
    warning, *lines = error.splitlines()
    assert re.fullmatch("WARNING: open to anybody. If more than m = 6 reports of a round, .*", warning)
    assert all(" event=round-" in line for line in lines)
    result = json.loads(out)
    assert sum(result["sent"].values()) == 600
    assert result["reports_received"] == result["reports_valid"] == result["sent"]["1"] >= 540
    assert result["malicious_assumed"] == 6
    assert result["reports_accounted"] == result["reports_valid"] - 6
    task = Task.read(folder / "all" / "task.json")
    assert result["task"] == task.id
    assert result["epsilon"] == task.central(result["reports_valid"]).epsilon(1e-6) < 1
    errors = [
        abs(frequency - truth) / error
        for frequency, truth, error in zip(result["frequency"], SHARES, result["standard_error"], strict=True)
    ]
    assert max(errors) < 7
    assert result["intervals_that_hold"] > 0
    assert (folder / "collected.png").read_bytes() == (folder / "all" / "collected.png").read_bytes()
    states = facts_of(capfd, "shuffler status --task all/task.json --folder all/rounds")["rounds"]
    assert [one["state"] for one in states] in (["acked", "open"], ["purged", "open"])
    assert _left_over(folder / "all") == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_demonstration_takes_its_children_along(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "examples.collection_demo", "--people", "200000", "--folder", str(tmp_path / "d")]
    with subprocess.Popen(
        command, cwd=_CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "people, each of whom" in line:
                break
        process.send_signal(number)
        assert process.wait(20) != 0
    deadline = time.monotonic() + 60  # a busy machine may be slow to end them
    while _left_over(tmp_path / "d") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _left_over(tmp_path / "d") == []


def _left_over(folder: Path) -> list[int]:
    """Return the processes that still run in a folder."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                processes.append(int(process.name))
    return processes
