"""ε against δ: the picture of every guarantee, with what no bound can beat, and one report alone."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.charts.scale import Axis, number_text
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.digits import rounded_up
from shoal.progress import progress

__all__ = ["MANY", "EpsilonLine", "ShownCurve", "epsilon_chart", "guaranteed"]

_FEW, MANY = 21, 41
"""How many points a line has in a notebook, where nobody wants to wait, and in a picture that was asked for."""
_FAR = 100.0
_DELTAS = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
"""Those of a table."""


class EpsilonLine(NamedTuple):
    """A line of such a chart: its label, its kind, and its ε at a δ, NaN where there is none."""

    label: str
    kind: str
    epsilon: Callable[[float], float]


def _deltas_around(delta: float, points: int) -> list[float]:
    """Return the δ that are drawn: from 1e-12 to 1e-2, or to where this one is seen."""
    low, high = math.log(max(min(1e-12, delta / 100), 1e-300)), math.log(max(1e-2, delta))
    return [math.exp(low + (high - low) * index / (points - 1)) for index in range(points)]


def guaranteed(epsilon: float) -> str:
    """Return a guarantee in words, rounded up."""
    return f"ε = {rounded_up(epsilon)}"


def epsilon_chart(
    title: str,
    lines: Sequence[EpsilonLine],
    *,
    delta: float,
    local_epsilon: float = math.inf,
    points: int = MANY,
    words: Callable[[float], str] = guaranteed,
) -> Chart:
    """Return ε against δ: the first line is marked at this δ, with its number.

    Parameters
    ----------
    title : str
        What is guaranteed.
    lines : sequence of EpsilonLine
        The first is what the chart is about.
    delta : float
        Where it is marked.
    local_epsilon : float
        ε₀, for a line across; it is left out where it is so far off that it would squash the others.
    points : int
        How many for each line.
    words : callable
        The words at the mark, from its ε.
    """
    deltas = _deltas_around(delta, points)
    asked = (line.epsilon(value) for line in lines for value in deltas)
    answers = list(progress(asked, total=len(lines) * points, label="picture"))
    heights = [answers[start : start + points] for start in range(0, len(answers), points)]
    marked = lines[0].epsilon(delta)
    scale = "log" if any(height > 0 for row in heights for height in row) else "linear"
    number = "" if math.isnan(marked) else words(marked)
    said = f"{number} at δ = {number_text(delta)}" if number else f"there is no ε at δ = {number_text(delta)}"
    names = ", ".join(line.label for line in lines)
    chart = Chart(Axis("δ", "log"), Axis("central ε", scale), title, f"ε against δ of {names}; {said}.")
    for line, row in zip(lines, heights, strict=True):
        chart.line(deltas, row, line.label, line.kind)
    finite = [height for height in (heights[0][0], marked) if height > 0]
    if math.isfinite(local_epsilon) and local_epsilon > 0 and local_epsilon <= _FAR * max(finite, default=math.inf):
        chart.level(local_epsilon, f"one report alone: ε₀ = {local_epsilon:g}")
    if number:
        chart.mark(delta, marked, number)
    return chart


class ShownCurve(Shown):
    """A result that has an ε for each δ."""

    __slots__ = ()

    @abstractmethod
    def _epsilon_or_nan(self, delta: float) -> float:
        """Return ε, or NaN where there is none."""

    @abstractmethod
    def chart(self, *, points: int = MANY) -> Chart:
        """Return ε against δ, with this many points."""

    def _columns(self) -> dict[str, list[float]]:
        """Return ε at the usual δ; NaN where nothing is known."""
        return {"delta": list(_DELTAS), "epsilon": [self._epsilon_or_nan(delta) for delta in _DELTAS]}

    def _shown(self, epsilon: float) -> str:
        """Return ε as it is printed: rounded up, as a guarantee."""
        return rounded_up(epsilon)

    def _cells(self) -> dict[str, list[str]]:
        epsilons = ["–" if math.isnan(value) else self._shown(value) for value in self._columns()["epsilon"]]
        return {"δ": [f"{delta:.0e}" for delta in _DELTAS], "ε": epsilons}

    def _small_chart(self) -> Chart:
        return self.chart(points=_FEW)
