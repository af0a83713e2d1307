"""What several messages are worth: the error of a histogram with one message, covers, dummies, and elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from figures.figure import Array, Axis, PaintedFigure, Piece
from figures.gallery import figure
from figures.palette import BLACK, BLUE, GREEN, GREY, VERMILION, Ink
from shoal.planning.plan import plan

__all__ = ["MessagesFigure", "messages"]

_DELTA, _REPORTS, _CATEGORIES, _EPSILON = 1e-6, 100_000, 100, 0.5
_INKS = {
    "local model": Ink(GREY, "dotted", 1.8),
    "one message": Ink(GREEN),
    "covers": Ink(VERMILION),
    "dummies": Ink(BLUE, width=2.6),
    "trusted curator": Ink(BLACK, "dashed"),
}


@dataclass(frozen=True, kw_only=True)
class MessagesFigure(PaintedFigure):
    """The ℓ₂ error of all counts together, against ε for some categories, and against their number for one ε."""

    axes: ClassVar[tuple[Axis, Axis]] = (
        Axis(f"central ε, {_CATEGORIES} categories", "epsilon", 0.05, 4.0, points=13),
        Axis(f"categories, ε = {_EPSILON:g}", "categories", 2, 1e5, points=13, whole=True),
    )

    @property
    def header(self) -> list[str]:
        """ε and the errors, then the number of categories and the errors."""
        against = ((axis.column, *(f"{label}, against {axis.column}" for label in _INKS)) for axis in self.axes)
        return [column for columns in against for column in columns]

    def pieces(self, points: int | None = None) -> list[Piece]:
        """Return one piece a panel and position."""
        return [
            Piece(part, np.array([position]))
            for part, axis in enumerate(self.axes)
            for position in axis.positions(points)
        ]

    def solve(self, piece: Piece) -> Array:
        """Return the errors in counts: that of a frequency, times n."""
        position = float(piece.positions[0])
        epsilon, categories = (position, _CATEGORIES) if piece.part == 0 else (_EPSILON, round(position))
        made = plan(categories=categories, reports=_REPORTS, epsilon=epsilon, delta=_DELTA, messages=2, dummies=True)
        errors = {choice.mechanism.name: choice.error for choice in reversed(made.choices)}
        covers, dummies = errors.pop("covered", math.nan), errors.pop("dummies", math.nan)
        one = min(errors.values())
        return _REPORTS * np.array([made.local_error, one, covers, dummies, made.central_error])

    def rows(self, pieces: Sequence[Piece], answers: Sequence[Array]) -> list[list[Any]]:
        """Return as many rows as a panel has positions, with both panels next to each other."""
        panels: tuple[list[list[Any]], list[list[Any]]] = ([], [])
        for piece, answer in zip(pieces, answers, strict=True):
            panels[piece.part].append([float(piece.positions[0]), *answer.tolist()])
        return [[*left, *right] for left, right in zip(*panels, strict=True)]

    def paint(self, canvas: Any, rows: Sequence[Sequence[Any]]) -> None:
        """Draw both panels, and the names of the lines once."""
        from matplotlib.ticker import NullFormatter

        table = np.array(rows, dtype=np.float64)
        width = 1 + len(_INKS)
        for part, axes in enumerate(canvas.subplots(1, 2, sharey=True)):
            panel = table[:, part * width : (part + 1) * width]
            per_category = np.sqrt(panel[:, :1] if part else np.full((len(panel), 1), _CATEGORIES))
            for (label, ink), errors in zip(_INKS.items(), (panel[:, 1:] / per_category).T, strict=True):
                axes.plot(panel[:, 0], errors, color=ink.colour, linestyle=ink.style, linewidth=ink.width, label=label)
            axes.set(xlabel=self.axes[part].label, xscale="log", yscale="log")
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.set_minor_formatter(NullFormatter())
            if part == 0:
                ticks = (0.05, 0.1, 0.2, 0.5, 1, 2, 4)
                axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
                axes.set_title("root mean square error of a category, in people", loc="left", fontsize=9)
            else:
                axes.legend(loc="center", bbox_to_anchor=(0.5, 0.54), ncols=2, frameon=False)


@figure("messages", order=15)
def messages() -> MessagesFigure:
    """Return the error of histograms with several messages, against ε and against the number of categories."""
    return MessagesFigure(
        name="messages",
        title="Several messages a person: histograms nearly as good as a trusted curator's",
        caption=(
            f"n = {_REPORTS:,} people, δ = 1e-6, all categories equally frequent; the error of an estimated count. "
            "Covers: one slot a person, so that from 735 categories on they are messages of a projective geometry. "
            "Dummies: added by the shuffler, 50 a category at ε = ½, for any number of people. One message: the "
            "plan's best choice. If shuffler and analyst collude, nothing remains of covers and dummies."
        ),
    )
