"""Theorem 5.2 of the paper, measured: histograms from shuffled reports, and those of a trusted curator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from figures.figure import Array, Axis, PaintedFigure, Piece
from figures.gallery import figure
from figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION
from shoal.calibration import calibrate, largest_private
from shoal.mechanisms import Categorical, RandomizedResponse, RecursiveHadamardResponse, Simulation
from shoal.planning.error_curves import central_error
from shoal.planning.simulation import zipf_people

__all__ = ["HistogramFigure", "histogram"]

_DELTA = 1e-6
_TOLERANCE = 1e-6
_RESPONSE, _HADAMARD = "randomized response", "recursive Hadamard response"
_NUMBERS = (
    *(f"{_RESPONSE}, measured", f"{_RESPONSE}, closed form"),
    *(f"{_HADAMARD}, measured", f"{_HADAMARD}, closed form"),
    "trusted curator",
)
_ERRORS, _QUOTIENTS = (2e-7, 20.0), (0.009, 9.0)
"""Where the axes end, with room for the names."""
_TICKS, _RATIOS = (0.01, 0.1, 1), (0.01, 0.1, 1, 2, 5)
_DOTS = (0, (1, 1.4))


class Setting(NamedTuple):
    """So many categories and people, how often they are asked, and in which colour they are drawn."""

    categories: int
    reports: int
    trials: int
    colour: str

    @property
    def label(self) -> str:
        """The setting as text."""
        return f"k = {self.categories:,}, n = {self.reports:,}"


_SETTINGS = (
    Setting(1024, 10_000, 40, VERMILION),
    Setting(16, 10_000, 400, ORANGE),
    Setting(1024, 1_000_000, 16, BLUE),
    Setting(16, 1_000_000, 64, GREEN),
)


def _measured(mechanism: Categorical, people: NDArray[np.int64], *, trials: int, seed: int) -> float:
    """Return the root of the mean squared ℓ₂ error over some runs of the mechanism."""
    values, truth = np.repeat(np.arange(len(people)), people), people / people.sum()
    coins = Simulation(seed=seed)
    total = 0.0
    for _ in range(trials):
        counts = mechanism.aggregate(mechanism.randomize(values, simulation=coins))
        total += float(np.square(mechanism.estimate(counts).frequencies - truth).sum())
    return math.sqrt(total / trials)


@dataclass(frozen=True, kw_only=True)
class HistogramFigure(PaintedFigure):
    """The ℓ₂ error of two mechanisms against the central ε, in several settings.

    Attributes
    ----------
    axis : Axis
        The central ε.
    settings : tuple of Setting
        Categories and people.
    """

    axis: Axis
    settings: tuple[Setting, ...]

    @property
    def header(self) -> list[str]:
        """The axis, then all numbers of each setting."""
        return [self.axis.column, *(f"{setting.label}: {number}" for setting in self.settings for number in _NUMBERS)]

    def pieces(self, points: int | None = None) -> list[Piece]:
        """Return one piece a setting and ε."""
        positions = self.axis.positions(points)
        return [
            Piece(part, positions[at : at + 1]) for part in range(len(self.settings)) for at in range(len(positions))
        ]

    def solve(self, piece: Piece) -> Array:
        """Return the errors of both mechanisms, measured and in closed form, and that of the curator.

        Randomized response has the largest ε₀ under its own bound, and recursive Hadamard response the one that any
        randomizer may have, as in the theorem.
        """
        categories, reports, trials, _ = self.settings[piece.part]
        epsilon = float(piece.positions[0])
        target: dict[str, Any] = {"reports": reports, "epsilon": epsilon, "delta": _DELTA}
        response = RandomizedResponse(categories=categories, local_epsilon=1.0)
        mechanisms = (
            largest_private(response, **target, tolerance=_TOLERANCE),
            RecursiveHadamardResponse(categories=categories, local_epsilon=calibrate(**target).local_epsilon),
        )
        people = zipf_people(reports, categories)
        numbers: list[float] = []
        for index, mechanism in enumerate(mechanisms):
            seed = 10 * round(1e6 * epsilon) + 2 * piece.part + index
            numbers.append(_measured(mechanism, people, trials=trials, seed=seed))
            numbers.append(math.sqrt(mechanism.variance(people / reports, reports=reports).sum()))
        return np.array([*numbers, central_error(categories=categories, **target)])

    def rows(self, pieces: Sequence[Piece], answers: Sequence[Array]) -> list[list[Any]]:
        """Return a row an ε: then all numbers of each setting."""
        rows: dict[float, list[Any]] = {}
        for piece, answer in zip(pieces, answers, strict=True):
            epsilon = float(piece.positions[0])
            rows.setdefault(epsilon, [epsilon]).extend(answer.tolist())
        return list(rows.values())

    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Draw the errors on the left, and on the right what the theorem bounds by a constant."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import NullFormatter

        left, right = canvas.subplots(1, 2)
        table = np.array(rows, dtype=np.float64)
        positions, largest = table[:, 0], 0.0
        for part, setting in enumerate(self.settings):
            errors = table[:, 1 + part * len(_NUMBERS) :][:, : len(_NUMBERS)]
            curator = errors[:, -1:]
            ratios = errors / np.sqrt(curator**2 + 1 / setting.reports)
            largest = max(largest, float(ratios.max()))
            _draw(left, positions, errors, setting.colour)
            _draw(right, positions, ratios, setting.colour)
            left.plot(positions, curator, color=setting.colour, linestyle=_DOTS, linewidth=1.3)
        right.axhline(1, color=BLACK, linestyle=_DOTS, linewidth=1.3)
        right.axhline(largest, color=GREY, linewidth=0.8)
        right.annotate(
            f"at most {largest:.1f}", (positions[0], largest), (0, 4), textcoords="offset points", color=GREY
        )
        left.set_title("ℓ₂ error of all frequencies together", loc="left", fontsize=9)
        right.set_title("divided by √(curator's error² + 1/n)", loc="left", fontsize=9)
        left.set_ylim(*_ERRORS)
        right.set_ylim(*_QUOTIENTS)
        for axes in (left, right):
            axes.set(xlabel=self.axis.label, xscale="log", yscale="log")
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            for line in (axes.xaxis, axes.yaxis):
                line.set_minor_formatter(NullFormatter())
            axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
        right.set_yticks(_RATIOS, [f"{tick:g}" for tick in _RATIOS])
        colours = [Line2D([], [], color=setting.colour, linewidth=4, label=setting.label) for setting in self.settings]
        kinds = [
            Line2D([], [], color=GREY, marker="o", markersize=5, linewidth=1.4, label=_RESPONSE),
            Line2D(
                [], [], color=GREY, marker="D", markersize=4.5, markerfacecolor="white", linewidth=0.9, label=_HADAMARD
            ),
            Line2D([], [], color=GREY, linestyle=_DOTS, linewidth=1.3, label="trusted curator"),
        ]
        left.legend(handles=colours, loc="lower left", frameon=False, handlelength=1.2)
        right.legend(handles=kinds, loc="lower left", frameon=False, handlelength=2.8)


def _draw(axes: Any, positions: Array, errors: Array, colour: str) -> None:
    """Draw what was measured as marks, on the lines of the closed form."""
    response, response_line, hadamard, hadamard_line = errors.T[:4]
    axes.plot(positions, response_line, color=colour, linewidth=1.4)
    axes.plot(positions, response, "o", color=colour, markersize=5)
    axes.plot(positions, hadamard_line, color=colour, linewidth=0.9)
    axes.plot(positions, hadamard, "D", color=colour, markersize=4.5, markerfacecolor="white")


@figure("histogram", order=11)
def histogram() -> HistogramFigure:
    """Return the error of histograms against the central ε (the paper's Theorem 5.2)."""
    trials = [setting.trials for setting in _SETTINGS]
    return HistogramFigure(
        name="histogram",
        title="Theorem 5.2, measured: histograms from shuffled reports",
        caption=(
            f"Marks: root mean square over {min(trials)} to {max(trials)} runs on simulated coins; lines: the closed "
            "form. δ = 1e-6, and the i-th category is 1/i as frequent as the first. Randomized response, the plan's "
            "first choice at all these points, has the largest ε₀ under its own bound; recursive Hadamard response, "
            "the theorem's, has the one that any randomizer may have. The curator adds Gaussian or Laplace noise, "
            "whichever is less. 1/√n is how far n people may be from a population, without any privacy."
        ),
        axis=Axis("central ε", "epsilon", 0.003, 1.0, points=9),
        settings=_SETTINGS,
    )
