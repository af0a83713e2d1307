"""The figures of the paper, redrawn with the tighter bounds of shoal."""

from figures.figure import Figure
from figures.gallery import FIGURES, draw

__all__ = ["FIGURES", "Figure", "draw"]
