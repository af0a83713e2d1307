"""The figures of the paper, redrawn with the tighter bounds of shoal."""

from shoal.figures.draw import draw
from shoal.figures.figure import Figure
from shoal.figures.gallery import FIGURES

__all__ = ["FIGURES", "Figure", "draw"]
