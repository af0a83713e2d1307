"""Charts as self-contained SVG, for web pages, reviews, documents and notebooks: no script, light and dark."""

from shoal.charts.colours import STYLE
from shoal.charts.scale import Axis
from shoal.charts.svg_chart import Chart

__all__ = ["STYLE", "Axis", "Chart"]
