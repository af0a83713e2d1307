"""The figures of the paper, redrawn next to the tighter curves added here."""

from shoal.figures.draw import FIGURES, draw
from shoal.figures.figure import Figure

__all__ = ["FIGURES", "Figure", "draw"]
