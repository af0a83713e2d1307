"""All figures by name, each built when it is asked for; a figure is a file of this folder that adds itself."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeVar

from shoal.figures.figure import Figure
from shoal.folder_modules import gather

__all__ = ["FIGURES", "Gallery", "figure"]

F = TypeVar("F", bound=Figure)
_MAKERS: dict[str, tuple[float, Callable[[], Figure]]] = {}


def figure(name: str, *, order: float = float("inf")) -> Callable[[Callable[[], F]], Callable[[], F]]:
    """Add what a function returns to the gallery.

    Parameters
    ----------
    name : str
        The name of its files, and what `shoal figures` takes.
    order : float
        Where it stands among the others; by default at the end, in alphabetical order.
    """

    def add(make: Callable[[], F]) -> Callable[[], F]:
        _MAKERS[name] = order, make
        return make

    return add


class Gallery(Mapping[str, Figure]):
    """The figures by name: those of the paper in its order, then the ones added to them."""

    def _makers(self) -> dict[str, Callable[[], Figure]]:
        gather("shoal.figures")
        return {name: make for name, (_, make) in sorted(_MAKERS.items(), key=lambda item: (item[1][0], item[0]))}

    def __getitem__(self, name: str) -> Figure:
        """Return a figure, built the first time it is asked for."""
        return _built(self._makers()[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; nothing is built."""
        return iter(self._makers())

    def __len__(self) -> int:
        """Return how many figures there are."""
        return len(self._makers())


@cache
def _built(make: Callable[[], Figure]) -> Figure:
    return make()


FIGURES = Gallery()
"""All figures by name: those of the paper in its order, then the ones added to them; built when they are asked for."""
