"""The figure of Theorem 5.2: measured errors lie on the closed form, and within a constant of the curator."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from figures import draw
from figures.histogram import histogram

FIGURE = histogram()
NUMBERS = 5


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], NDArray[np.float64]]:
    folder = tmp_path_factory.mktemp("histogram")
    written = draw(["histogram"], output=folder, processes=1, points=2)
    assert [path.name for path in written] == ["histogram.png", "histogram.svg", "histogram.csv"]
    with open(written[-1], encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, dtype=np.float64)


@pytest.mark.slow
def test_header(table: tuple[list[str], NDArray[np.float64]]) -> None:
    header, numbers = table
    assert header == FIGURE.header and numbers.shape == (2, 1 + NUMBERS * len(FIGURE.settings))
    assert header[1] == "k = 1,024, n = 10,000: randomized response, measured"
    assert numbers[:, 0] == pytest.approx(FIGURE.axis.positions(2))


@pytest.mark.slow
def test_marks_lie_on_the_lines(table: tuple[list[str], NDArray[np.float64]]) -> None:
    for part, setting in enumerate(FIGURE.settings):
        errors = table[1][:, 1 + NUMBERS * part :][:, :NUMBERS]
        # Of k equal squares the sum has a relative deviation of √(2/k) at most, were they normal; its root has half.
        deviation = 0.5 * math.sqrt(2 / min(setting.categories, 100) / setting.trials)
        assert errors[:, 0] == pytest.approx(errors[:, 1], rel=6 * deviation)
        assert errors[:, 2] == pytest.approx(errors[:, 3], rel=6 * deviation)


@pytest.mark.slow
def test_within_a_constant_of_the_curator(table: tuple[list[str], NDArray[np.float64]]) -> None:
    for part, setting in enumerate(FIGURE.settings):
        response, _, hadamard, _, curator = table[1][:, 1 + NUMBERS * part :].T[:NUMBERS]
        goal = np.sqrt(curator**2 + 1 / setting.reports)
        assert np.all(response < 2.2 * goal) and np.all(hadamard < 5.5 * goal)
        assert np.all(response > curator) and np.all(response < 3.5 * curator)


@pytest.mark.slow
def test_points_do_not_change_each_other() -> None:
    figure = replace(FIGURE, settings=FIGURE.settings[:2])
    few, many = figure.pieces(2), figure.pieces(3)
    (first,) = (piece for piece in many if piece.part == 1 and piece.positions[0] == few[2].positions[0])
    assert np.array_equal(figure.solve(few[2]), figure.solve(first))


@pytest.mark.slow
@pytest.mark.parametrize(("categories", "reports", "epsilon"), [(16, 1_000_000, 0.003), (1024, 1_000_000, 0.03)])
def test_plan_puts_randomized_response_first(categories: int, reports: int, epsilon: float) -> None:
    plan = shoal.plan(categories=categories, reports=reports, epsilon=epsilon, delta=1e-6)
    assert isinstance(plan.mechanism, shoal.RandomizedResponse)


def test_picture_in_the_gallery() -> None:
    folder = Path(__file__).parents[2] / "docs"
    assert "figures/histogram.png" in (folder / "gallery.md").read_text(encoding="utf-8")
    assert (folder / "figures" / "histogram.png").exists()
