"""How each bound is drawn: one colour for it in all figures, dotted where it is a formula.

The first eight colours are those of Okabe and Ito, which people with any kind of colour vision tell apart; the rest are
from Tol's muted scheme.
"""

from typing import Literal, NamedTuple

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

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#7f7f7f"
WINE, OLIVE, INDIGO = "#882255", "#999933", "#332288"


class Ink(NamedTuple):
    """The colour, style and width of a line."""

    colour: str
    style: Literal["solid", "dotted", "dashed", "dashdot"] = "solid"
    width: float = 1.5

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
