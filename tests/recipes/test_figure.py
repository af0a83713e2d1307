"""The recipe "add a figure" of CONTRIBUTING.md, followed with a toy: one file."""

import math
import sys
from pathlib import Path

import pytest

import figures
from figures import FIGURES, draw, gallery

_FIGURE = '''
"""A toy: a straight line."""

from figures.figure import Axis, Curve, CurveFigure, pointwise
from figures.gallery import figure
from figures.palette import BEST


@figure("line")
def line() -> CurveFigure:
    """Return the line y = x."""
    return CurveFigure(
        name="line",
        title="A line",
        caption="y = x.",
        axis=Axis("x", "x", 1, 10, points=3),
        label="y",
        curves=(Curve("y = x", pointwise(lambda x: x), BEST),),
    )
'''


@pytest.mark.slow
def test_a_figure_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "line.py").write_text(_FIGURE)
    assert "line" not in FIGURES
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(source)])
    monkeypatch.setattr(gallery, "_MAKERS", dict(gallery._MAKERS))
    try:
        names = list(FIGURES)
        numbered = [name for name, (order, _) in gallery._MAKERS.items() if math.isfinite(order)]
        assert max(map(names.index, numbered)) < names.index("line")
        written = draw(["line"], output=tmp_path / "drawn", processes=1)
        assert [path.name for path in written] == ["line.png", "line.svg", "line.csv"]
    finally:
        sys.modules.pop("figures.line", None)
    assert len(list(source.glob("*.py"))) == 1


def test_figures_are_built_when_they_are_asked_for() -> None:
    gallery._built.cache_clear()
    assert len(list(FIGURES)) == len(FIGURES) > 10
    assert gallery._built.cache_info().currsize == 0
    assert FIGURES["tail"] is FIGURES["tail"]
    assert gallery._built.cache_info().currsize == 1
