"""Draw the figures: compute their pieces on several processes, then write three files a figure."""

import csv
import difflib
import io
import math
import os
import signal
import textwrap
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from shoal.checks import whole
from shoal.errors import MissingExtraError, ParameterError
from shoal.figures.figure import Array, Figure, Piece
from shoal.figures.gallery import FIGURES
from shoal.progress import progress

__all__ = ["draw"]

_DOTS_PER_INCH = 110


def draw(
    names: Iterable[str] | None = None,
    *,
    output: str | os.PathLike[str],
    processes: int | None = None,
    points: int | None = None,
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
    points = None if points is None else whole(points=points, least=2, most=10_000)
    processes = _cores() if processes is None else whole(processes=processes, most=1024)
    folder = _writable(Path(output))
    plan = {figure.name: figure.pieces(points) for figure in figures}
    tasks = [(name, piece) for name, pieces in plan.items() for piece in pieces]
    written: list[Path] = []
    with closing(_answers(tasks, processes)) as stream:
        answers = progress(stream, total=len(tasks), label="figures", patience=0.0)
        for figure in figures:
            pieces = plan[figure.name]
            rows = figure.rows(pieces, [next(answers) for _ in pieces])
            for suffix, content in _files(figure, rows).items():
                path = folder / f"{figure.name}.{suffix}"
                _write(path, content)
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _answers(tasks: Sequence[tuple[str, Piece]], processes: int) -> Generator[Array, None, None]:
    """Yield the answers in order, from other processes where these can start."""
    done = 0
    if min(processes, len(tasks)) > 1:
        try:
            with ProcessPoolExecutor(min(processes, len(tasks)), initializer=_interrupted_at_once) as pool:
                try:
                    for answer in pool.map(_solved, tasks):
                        yield answer
                        done += 1
                finally:  # whoever stops early does not wait for the rest
                    workers = list((pool._processes or {}).values())
                    pool.shutdown(wait=False, cancel_futures=True)
                    if done < len(tasks):
                        for worker in workers:
                            worker.terminate()
        except (BrokenProcessPool, OSError):  # a script without a __main__ guard, or a system without semaphores
            pass
    yield from map(_solved, tasks[done:])


def _interrupted_at_once() -> None:
    """Let Ctrl-C end a worker; as an exception it would end one piece only, and the worker would take the next."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _solved(task: tuple[str, Piece]) -> Array:
    name, piece = task
    return FIGURES[name].solve(piece)


def _files(figure: Figure, rows: Sequence[Sequence[Any]]) -> dict[str, bytes]:
    """Return what the three files contain; the same numbers give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    # Fixed, so that the settings of whoever calls do not change the figures.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "svg.hashsalt": "shoal", "font.size": 9}):
        canvas = Canvas(figsize=(8.6, 4.6), layout="constrained")
        figure.paint(canvas, rows)
        canvas.suptitle(figure.title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        canvas.supxlabel(
            textwrap.fill(figure.caption, 140), x=0.01, ha="left", fontsize=8, color="#444444", linespacing=1.4
        )
        pictures = {}
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            content = io.BytesIO()
            canvas.savefig(content, format=suffix, dpi=_DOTS_PER_INCH, metadata=metadata)
            pictures[suffix] = content.getvalue()
    return {**pictures, "csv": _table(figure.header, rows)}


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
        raise ParameterError(f"output must be a folder that can be written to, got {str(folder)!r}: {error}") from None
    return folder


def _write(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that nobody sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ParameterError(f"could not write {str(path)!r}: {error}") from None
