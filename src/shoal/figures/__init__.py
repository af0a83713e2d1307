"""The figures of the paper, redrawn with the tighter bounds of shoal."""

from shoal.figures.figure import Figure
from shoal.figures.gallery import FIGURES, draw

__all__ = ["FIGURES", "Figure", "draw"]
