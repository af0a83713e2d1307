"""How each bound is drawn: one colour for it in all figures, dotted where it is a formula.

The colours are those of all charts (`shoal.charts.colours`).
"""

from typing import Literal, NamedTuple

from shoal.charts.colours import LIGHT, Stroke
from shoal.errors import ParameterError

__all__ = [
    "APPROXIMATE",
    "BEST",
    "BINARY",
    "BLACK",
    "BLANKET",
    "BLUE",
    "CHECK_IN",
    "CLONES",
    "GIRGIS",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RENYI",
    "RESPONSE",
    "SKY",
    "STRONG",
    "VERMILION",
    "WINE",
    "Ink",
]

BLACK, ORANGE, SKY, GREEN = LIGHT["ink"], LIGHT["orange"], LIGHT["sky"], LIGHT["green"]
BLUE, VERMILION, PURPLE, GREY = LIGHT["blue"], LIGHT["vermilion"], LIGHT["purple"], LIGHT["soft"]
WINE, OLIVE, INDIGO = LIGHT["wine"], LIGHT["olive"], LIGHT["indigo"]
_NAMES = {colour: name for name, colour in LIGHT.items()}
_DASHES = {"solid": (), "dotted": (1.5, 3.0), "dashed": (5.0, 3.5), "dashdot": (7.0, 3.0, 1.5, 3.0)}


class Ink(NamedTuple):
    """The colour, style and width of a line."""

    colour: str
    style: Literal["solid", "dotted", "dashed", "dashdot"] = "solid"
    width: float = 1.5

    @property
    def stroke(self) -> Stroke:
        """The same for a chart."""
        if self.colour not in _NAMES:
            raise ParameterError(f"a colour of a figure is one of figures.palette, got {self.colour!r}")
        return Stroke(_NAMES[self.colour], self.width, _DASHES[self.style])

    @property
    def formula(self) -> "Ink":
        """The same bound as a closed form."""
        return self._replace(style="dotted", width=1.8)


STRONG = Ink(BLUE, width=2.8)
CLONES = Ink(VERMILION)
BLANKET = Ink(GREEN)
CHECK_IN = Ink(ORANGE).formula
BINARY = Ink(PURPLE).formula
RESPONSE = Ink(SKY, width=2.2)
BEST = Ink(BLACK, style="dashed", width=1.2)
GIRGIS = Ink(WINE)
APPROXIMATE = Ink(OLIVE)
RENYI = Ink(INDIGO)
