"""The figures of the paper, redrawn next to the tighter curves added here."""

from shoal.figures.draw import draw
from shoal.figures.figure import Figure
from shoal.figures.gallery import FIGURES

__all__ = ["FIGURES", "Figure", "draw"]
