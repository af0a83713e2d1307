"""Figures are drawn whole, from numbers in the order that theory demands."""

import csv
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from figures import FIGURES, draw
from figures.composed_rounds import through_renyi
from figures.figure import Axis, Curve, CurveFigure, Dot
from figures.histogram import histogram
from figures.palette import BLACK, Ink
from shoal.charts.svg_writer import laid_out
from shoal.errors import MissingExtraError, ParameterError

Table = list[dict[str, str]]
HISTOGRAM = histogram()
NUMBERS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    draw(output=folder, processes=1, points=2)
    return folder


def table(folder: Path, name: str) -> tuple[list[str], Table]:
    with open(folder / f"{name}.csv", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return list(reader.fieldnames or ()), list(reader)


def ordered(rows: Table, *columns: str) -> bool:
    """Tell whether each column is at most the next, wherever both apply."""
    for row in rows:
        values = [float(row[column] or math.nan) for column in columns]
        if any(low > high * (1 + 1e-9) for low, high in pairwise(values)):
            return False
    return bool(rows)


def test_names() -> None:
    """Those of the paper come first, in its order."""
    assert list(FIGURES)[:3] == ["central-small", "central-large", "central-local"]
    assert all(figure.title and figure.caption for figure in FIGURES.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_files(folder: Path, name: str) -> None:
    header, rows = table(folder, name)
    assert header == list(FIGURES[name].header) and len(set(header)) == len(header) > 1
    assert len(rows) == (12 if name == "table-one" else 2)
    picture = (folder / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and picture.endswith(b"IEND\xaeB`\x82")
    assert ElementTree.fromstring((folder / f"{name}.svg").read_bytes()).tag.endswith("svg")


@pytest.mark.slow
def test_nothing_else_is_left(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{end}" for name in FIGURES for end in ("png", "svg", "csv")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["central-small", "central-large", "central-local"])
def test_central_bounds_are_in_order(folder: Path, name: str) -> None:
    _, rows = table(folder, name)
    assert ordered(rows, "2RR, exact", "best possible", "Strong clones", "Clones", "Clones, theoretical")
    assert ordered(rows, "Clones", "BBGN'19")
    assert ordered(rows, "2RR, exact", "CSUZZ'19, 2RR")
    assert ordered(rows, "Strong clones", "BKMTT'20 (comparison only)")


@pytest.mark.slow
def test_more_local_privacy_is_more_central_privacy(folder: Path) -> None:
    _, rows = table(folder, "amplification")
    assert ordered(rows, "at least, ε₀ = 1", *(f"local ε₀ = {local}" for local in (1, 2, 4, 8)))
    assert ordered(rows, "at least, ε₀ = 8", "local ε₀ = 8")


@pytest.mark.slow
def test_sharp_form_is_between(folder: Path) -> None:
    _, rows = table(folder, "central-local")
    assert ordered(rows, "Strong clones", "Strong clones, sharp form", "Clones, theoretical")


@pytest.mark.slow
def test_renyi_is_in_order(folder: Path) -> None:
    _, rows = table(folder, "renyi")
    assert ordered(rows, "2RR, lower bound", "Strong clones", "Clones", "GDDSK'21")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rounds-small", "rounds-large", "rounds-local"])
def test_rounds_are_in_order(folder: Path, name: str) -> None:
    _, rows = table(folder, name)
    assert ordered(rows, "Strong clones, loss distribution", "Clones, loss distribution", "Clones, via RDP")
    assert ordered(
        rows,
        "Clones, loss distribution",
        "Clones, via approximate DP, optimal",
        "Clones, via approximate DP",
    )
    assert ordered(rows, "Clones, via RDP", "GDDSK'21")


@pytest.mark.slow
def test_tail_reaches_the_local_epsilon(folder: Path) -> None:
    _, rows = table(folder, "tail")
    for local in (3, 4, 5):
        names = [f"{bound}, ε₀ = {local}" for bound in ("2RR, exact", "Strong clones", "Clones")]
        assert ordered(rows, *names)
        assert all(float(rows[0][name]) < 0.1 * local for name in names)
        assert all(float(rows[1][name]) == pytest.approx(local, rel=1e-6) for name in names)


@pytest.mark.slow
def test_exponents_are_those_of_table_one(folder: Path) -> None:
    claims = {"e^(2.5ε₀)/√n": 2.5, "e^ε₀/√n": 1.0, "e^(ε₀/2)/√n": 0.5, "e^ε₀/√(n(e^ε₀ + k))": 1.0, "": 0.5}
    _, rows = table(folder, "table-one")
    assert [row["bound"] for row in rows if not row["exponent in n"]] == ["EFMRTT'19"]
    for row in rows[1:]:
        assert float(row["exponent in n"]) == pytest.approx(-0.5, abs=0.01)
        assert float(row["exponent in eps0"]) == pytest.approx(claims[row["the paper's claim"]], abs=0.02)


@pytest.mark.slow
def test_methods_are_at_least_the_exact_value(folder: Path) -> None:
    header, rows = table(folder, "methods")
    assert all(float(row[name]) >= 1 for row in rows for name in header[1:])
    assert all(float(row["loss distribution"]) < 1.001 for row in rows)


@pytest.mark.slow
def test_named_randomizers_are_below_the_bound_for_any(folder: Path) -> None:
    header, rows = table(folder, "randomizers")
    assert all(ordered(rows, name, "any randomizer") for name in header[2:])


@pytest.mark.slow
def test_samplers_are_in_order(folder: Path) -> None:
    _, rows = table(folder, "permutation")
    assert ordered(rows, "permutation, at least", "permutation, proven", "any order, proven")
    assert ordered(rows, "allocation, proven", "Poisson, proven", "permutation, proven")
    assert ordered(rows[:1], "Poisson, not valid if shuffled", "permutation, at least")
    for row in rows:
        printed, proven = float(row["Poisson, not valid if shuffled"]), float(row["Poisson, proven"])
        assert printed == pytest.approx(proven, rel=2e-3)


def test_dots_carry_their_values() -> None:
    ends = {"upper": 2.0, "a": 1.0002, "b": 1.0001, "c": 1.0, "gone": math.nan}
    drawn = CurveFigure(
        name="ends",
        title="",
        caption="",
        axis=Axis("x", "x", 1.0, 2.0),
        label="y",
        curves=tuple(Curve(label, lambda positions: positions, Ink(BLACK)) for label in ends),
        dots=(
            Dot("upper", 1.0, "is {}"),
            Dot("upper", 1.5, "not computed {}"),
            Dot("a", 2.0, "at least {}", limit=True),
            Dot("a", 2.0, "at most {}"),
        ),
    ).chart([[1.0, *(value * 3 for value in ends.values())], [2.0, *ends.values()]])
    texts = laid_out(drawn).texts
    assert {text.text for text in texts if text.role == "mark"} == {"is 6", "at least 1", "at most 1.01"}
    assert [text.text for text in texts if text.role == "key"] == list(ends)
    with pytest.raises(ParameterError, match="a colour of a figure is one of"):
        _ = Ink("#123456").stroke


@pytest.mark.slow
def test_some_figures_only_and_the_same_bytes_from_two_processes(tmp_path: Path) -> None:
    names = ["central-large", "tail"]
    written = draw(names, output=tmp_path / "one", processes=1, points=4)
    assert [path.name for path in written] == [f"{name}.{end}" for name in names for end in ("png", "svg", "csv")]
    again = draw([*names, "tail"], output=tmp_path / "two", processes=2, points=4)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


@pytest.mark.slow
def test_where_processes_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise BrokenProcessPool("no processes here")

    monkeypatch.setattr(sys.modules["shoal.processes"], "ProcessPoolExecutor", broken)
    assert len(draw("tail", output=tmp_path, processes=2, points=2)) == 3


@pytest.mark.slow
def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"no figure is called 'central'; there are central-small, "):
        draw(["central"], output=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("wrong", [{"points": 1}, {"points": 2.5}, {"processes": 0}])
def test_wrong_numbers(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        draw(["tail"], output=tmp_path, **wrong)


def test_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ParameterError, match="output must be a folder that can be written to"):
            draw(["tail"], output=place, points=2)


@pytest.mark.slow
def test_a_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "tail.svg" / "inside").mkdir(parents=True)
    with pytest.raises(ParameterError, match=r"cannot write .*tail\.svg"):
        draw(["tail"], output=tmp_path, processes=1, points=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tail.png", "tail.svg"]


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        draw(["tail"], output=tmp_path)


def _computed(first: int) -> dict[str, float]:
    """Return the processes that the first one has started, and the seconds that each has computed."""
    seconds = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == first:
                seconds[folder.name] = int(fields[11]) / os.sysconf("SC_CLK_TCK")
    return seconds


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists() or len(os.sched_getaffinity(0)) < 2, reason="needs processes")
def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    """The bar is there from the beginning, and nothing goes on computing.

    There are so many points that it cannot have ended by itself, however long this test has to wait for its turn.
    """
    terminal, theirs = os.openpty()
    command = [sys.executable, "-m", "shoal", "figures", "renyi", "--points", "10_000", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        try:
            printed = b""
            while b" 0/" not in printed:
                printed += os.read(terminal, 4096)
            before: dict[str, float] = {}
            while max(before.values(), default=0) < 0.5:  # until another computes, too
                assert process.poll() is None
                time.sleep(0.02)
                before = _computed(process.pid)
            os.kill(process.pid, signal.SIGINT)  # to the first process alone: the others must be told
            after, end = before, time.monotonic() + 300
            while process.poll() is None and time.monotonic() < end:
                after = after | _computed(process.pid)
                time.sleep(0.02)
            assert process.wait(timeout=0) == 130
            assert sum(after.values()) - sum(before.values()) < 2 * len(after)
            with pytest.raises(ProcessLookupError):  # nobody of the group is left
                while time.monotonic() < end:
                    os.killpg(process.pid, 0)
                    time.sleep(0.1)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert b"interrupted" in os.read(terminal, 4096)
    os.close(terminal)
    os.close(theirs)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_dummies_are_as_good_as_a_curator_and_covers_better_than_one_message(folder: Path) -> None:
    _, rows = table(folder, "messages")
    for against in ("epsilon", "categories"):
        names = [
            f"{label}, against {against}" for label in ("dummies", "trusted curator", "one message", "local model")
        ]
        assert ordered(rows, *names)
    assert float(rows[1]["covers, against epsilon"]) < float(rows[1]["one message, against epsilon"])


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "rounds"), [(1.0, 10), (4.0, 1000)])
def test_ladder_is_close_to_the_best_order(local_epsilon: float, rounds: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1_000, bound="clones")
    best = curve.repeated(rounds, method="renyi").epsilon(1e-6)
    (ladder,) = through_renyi(curve, np.array([float(rounds)]))
    assert best * (1 - 1e-6) <= ladder <= best * 1.006


def _histogram(folder: Path) -> NDArray[np.float64]:
    _, rows = table(folder, "histogram")
    return np.array([list(row.values()) for row in rows], dtype=np.float64)


@pytest.mark.slow
def test_marks_of_the_histogram_lie_on_its_lines(folder: Path) -> None:
    numbers = _histogram(folder)
    for part, setting in enumerate(HISTOGRAM.settings):
        errors = numbers[:, 1 + NUMBERS * part :][:, :NUMBERS]
        # Of k equal squares the sum has a relative deviation of √(2/k) at most, were they normal; its root has half.
        deviation = 0.5 * math.sqrt(2 / min(setting.categories, 100) / setting.trials)
        assert errors[:, 0] == pytest.approx(errors[:, 1], rel=6 * deviation)
        assert errors[:, 2] == pytest.approx(errors[:, 3], rel=6 * deviation)


@pytest.mark.slow
def test_within_a_constant_of_the_curator(folder: Path) -> None:
    numbers = _histogram(folder)
    for part, setting in enumerate(HISTOGRAM.settings):
        response, _, hadamard, _, curator = numbers[:, 1 + NUMBERS * part :].T[:NUMBERS]
        goal = np.sqrt(curator**2 + 1 / setting.reports)
        assert np.all(response < 2.2 * goal) and np.all(hadamard < 5.5 * goal)
        assert np.all(response > curator) and np.all(response < 3.5 * curator)


@pytest.mark.slow
def test_points_do_not_change_each_other() -> None:
    figure = replace(HISTOGRAM, settings=HISTOGRAM.settings[:2])
    few, many = figure.pieces(2), figure.pieces(3)
    (first,) = (piece for piece in many if piece.part == 1 and piece.positions[0] == few[2].positions[0])
    assert np.array_equal(figure.solve(few[2]), figure.solve(first))


@pytest.mark.slow
@pytest.mark.parametrize(("categories", "reports", "epsilon"), [(16, 1_000_000, 0.003), (1024, 1_000_000, 0.03)])
def test_plan_puts_randomized_response_first(categories: int, reports: int, epsilon: float) -> None:
    plan = shoal.plan(categories=categories, reports=reports, epsilon=epsilon, delta=1e-6)
    assert isinstance(plan.mechanism, shoal.RandomizedResponse)
