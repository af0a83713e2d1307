"""Charts by matplotlib: the numbers on real axes, and every label in a legend or beside its point."""

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


@pytest.mark.slow
@pytest.mark.parametrize("make", [_curves, _lying, _upright])
def test_every_label_is_in_the_figure(make: Any) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    chart = make()
    axes = painted(chart)
    canvas: Any = FigureCanvasAgg(axes.figure)
    canvas.draw()
    legend = axes.get_legend()
    shown = {
        text.get_text() for text in [*axes.texts, *legend.get_texts(), *axes.get_xticklabels(), *axes.get_yticklabels()]
    }
    expected = {part.label for part in (*chart.lines, *chart.bands, *chart.levels, *chart.columns, *chart.dotted)}
    expected |= {mark.text for mark in chart.marks} | {text for bars in chart.columns for text in bars.texts}
    assert expected - {""} <= shown
    box, drawn = axes.figure.bbox, legend.get_window_extent(canvas.get_renderer())
    assert drawn.x0 >= -1 and drawn.y0 >= -1 and drawn.x1 <= box.x1 + 1 and drawn.y1 <= box.y1 + 1


def test_numbers_are_those_of_the_chart() -> None:
    axes = painted(_curves())
    first = axes.get_lines()[0]
    assert first.get_xdata().tolist() == np.geomspace(1e3, 1e6, 20).tolist()
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("people", "central ε")
    assert axes.get_title("left").startswith("Curves that end close to each other")
    bars = painted(_upright()).patches
    assert [bar.get_height() for bar in bars] == pytest.approx(np.linspace(0.3, -0.02, 12))


def test_axes_of_somebody_else() -> None:
    from matplotlib.figure import Figure

    axes = Figure((9, 4), layout="constrained").subplots(1, 2)[1]
    assert _curves().plot(axes) is axes
    assert "a band" in [text.get_text() for text in axes.get_legend().get_texts()]
    with pytest.raises(ParameterError, match="axes must be matplotlib axes"):
        _curves().plot("picture.png")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"shoal-dp\[plot\]\""):
        _curves().plot()
