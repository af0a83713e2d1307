"""All figures by name, each built when it is asked for; a figure is a file of this folder that adds itself."""

import csv
import difflib
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from figures.figure import Array, Figure, Piece
from shoal.checks import Number, whole
from shoal.durable_file import whole_file
from shoal.errors import MissingExtraError, ParameterError
from shoal.lazy_names import gather
from shoal.processes import cores, shared

__all__ = ["FIGURES", "Gallery", "draw", "figure"]

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
        gather("figures")
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


def draw(
    names: Iterable[str] | None = None,
    *,
    output: str | os.PathLike[str],
    processes: int | None = None,
    points: Number | None = None,
) -> list[Path]:
    """Draw the figures of the paper, with the tighter bounds of shoal, and return the files written.

    Each figure becomes NAME.png, NAME.svg and NAME.csv, the numbers behind every curve: the first column is the axis
    along which the curves are computed, and a cell is empty where a bound does not apply. A file is written whole or
    not at all.

    Parameters
    ----------
    names : iterable of str, optional
        Some of the names in `FIGURES`, or nothing for all.
    output : str or PathLike
        The folder to write to; it is created if it does not exist.
    processes : int, optional
        How many to compute with; one for each core if not given. A script that uses more than one should have the usual
        ``if __name__ == "__main__":`` guard.
    points : int, optional
        How many points along the axis, if not as many as each figure has on its own.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in draw(["tail"], output=folder, processes=1, points=3)]
    ['tail.png', 'tail.svg', 'tail.csv']
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None
    figures = _chosen(names)
    count = None if points is None else whole(points=points, least=2, most=10_000)
    processes = cores() if processes is None else whole(processes=processes, most=1024)
    folder = _writable(Path(output))
    plan = {figure.name: figure.pieces(count) for figure in figures}
    tasks = [(name, piece) for name, pieces in plan.items() for piece in pieces]
    written: list[Path] = []
    with closing(shared(_solved, tasks, processes=processes, label="figures", patience=0.0)) as answers:
        for figure in figures:
            pieces = plan[figure.name]
            rows = figure.rows(pieces, [next(answers) for _ in pieces])
            for suffix, content in {**figure.pictures(rows), "csv": _table(figure.header, rows)}.items():
                path = folder / f"{figure.name}.{suffix}"
                with whole_file(path) as file:
                    file.write(content)
                written.append(path)
        next(answers, None)  # lets the bar end
    return written


def _chosen(names: Iterable[str] | None) -> list[Figure]:
    if names is None:
        return list(FIGURES.values())
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in FIGURES:
            near = difflib.get_close_matches(str(name), FIGURES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ParameterError(f"no figure is called {name!r}; there are {', '.join(FIGURES)}{hint}")
    return [FIGURES[name] for name in dict.fromkeys(wanted)]


def _solved(task: tuple[str, Piece]) -> Array:
    name, piece = task
    return FIGURES[name].solve(piece)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow("" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row)
    return text.getvalue().encode()


def _writable(folder: Path) -> Path:
    """Return the folder, created if it does not exist, after a file could be written to it."""
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ParameterError(
            f"output must be a folder that can be written to, got {str(folder)!r}: {error}", "output"
        ) from None
    return folder
