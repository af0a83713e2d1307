"""Charts by matplotlib: the numbers on real axes, and labels that do not overlap as they are really drawn."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from shoal.charts import Axis, Chart
from shoal.charts.axes_painter import painted
from shoal.errors import MissingExtraError, ParameterError

pytest.importorskip("matplotlib")


def _curves() -> Chart:
    chart = Chart(
        Axis("people", "log"), Axis("central ε", "log"), "Curves that end close to each other", note="a note",
        caption="A caption that says more.",
    )  # fmt: skip
    xs = np.geomspace(1e3, 1e6, 20)
    for index in range(9):
        chart.line(xs, (1 + index / 30) / np.sqrt(xs), f"bound number {index}")
    chart.band(xs, 0.5 / np.sqrt(xs), 2 / np.sqrt(xs), "a band")
    chart.level(0.3, "one report alone: ε₀ = 0.3")
    chart.level(5e4, "spent", "budget", upright=True)
    chart.mark(1e4, 0.01, "ε = 0.01")
    return chart


def _lying() -> Chart:
    names = ("one", "another", "$a_b$ & <c>")
    chart = Chart(Axis("error", "log"), Axis("", names=names), "Lying bars")
    chart.bars([0.1, 0.2, math.nan], texts=["0.1", "0.2", "says nothing"], kind=["guarantee", "local", "comparison"])
    chart.level(0.05, "trusted curator 0.05", "limit")
    return chart


def _upright() -> Chart:
    names = tuple(f"a rather long name {index}" for index in range(12))
    chart = Chart(Axis("", names=names), Axis("frequency"), "Upright bars")
    values = np.linspace(0.3, -0.02, 12)
    chart.bars(values, lower=values - 0.02, upper=values + 0.02, label="estimate", interval="95 % interval")
    chart.dots(values, "truth")
    return chart


def _extents(axes: Any) -> list[tuple[str, Any]]:
    """Return every text that is drawn level, with its rectangle in pixels."""
    axes.figure.canvas.draw()
    renderer = axes.figure.canvas.get_renderer()
    texts = [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
    texts += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [
        (text.get_text(), text.get_window_extent(renderer))
        for text in texts
        if text.get_text() and text.get_rotation() == 0
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make", [_curves, _lying, _upright])
def test_texts_do_not_overlap_as_they_are_drawn(make: Any) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    axes = painted(make())
    FigureCanvasAgg(axes.figure)
    box = axes.figure.bbox
    extents = _extents(axes)
    assert len(extents) > 6
    for text, extent in extents:
        assert extent.x0 >= -1 and extent.y0 >= -1 and extent.x1 <= box.x1 + 1 and extent.y1 <= box.y1 + 1, text
    for (one, first), (two, second) in itertools.combinations(extents, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) <= 1, (one, two)


def test_numbers_are_those_of_the_chart() -> None:
    axes = painted(_curves())
    first = axes.get_lines()[0]
    assert first.get_xdata().tolist() == np.geomspace(1e3, 1e6, 20).tolist()
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("people", "central ε")
    assert axes.get_title() == "Curves that end close to each other"
    bars = painted(_upright()).patches
    assert [bar.get_height() for bar in bars] == pytest.approx(np.linspace(0.3, -0.02, 12))


def test_axes_of_somebody_else() -> None:
    from matplotlib.figure import Figure

    axes = Figure((9, 4), layout="constrained").subplots(1, 2)[1]
    assert _curves().plot(axes) is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a band"]
    with pytest.raises(ParameterError, match="axes must be matplotlib axes"):
        _curves().plot("picture.png")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"shoal-dp\[plot\]\""):
        _curves().plot()
