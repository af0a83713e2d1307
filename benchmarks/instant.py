"""How long one question takes everywhere: mechanisms × ε₀ × n × δ, every point with its CPU time and its bracket.

Usage: python -m benchmarks.instant [--sample N] [--kinds KIND …] [--folder docs] [--table]

Writes instant.csv, one line a point, and instant.png; prints the median and the largest of each kind beside the limits.
With all points, or with --table, which measures nothing, the table of docs/speed.md is written from docs/instant.csv.
"""

import argparse
import csv
import itertools
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import shoal
from shoal.amplification.lower_bounds import _reached
from shoal.digits import rounded_up
from shoal.progress import progress

__all__ = ["Point", "discrete", "grid", "main", "measured", "page", "table"]

_LOCAL = (0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 14.0)
_REPORTS = (1, 10, 100, 300, 1_000, 3_000, 10**4, 10**5, 10**6, 10**8, 10**10, 10**12)
_DELTAS = (1e-2, 1e-4, 1e-6, 1e-8, 1e-11, 1e-14, 1e-17, 1e-20)
_LIMIT, _LARGEST = 5.0, 200.0
"""CPU milliseconds that the median of a kind may take, and a point."""
_WIDTHS = {"laplace": 2e-4, "gaussian": 2e-3}
_NAMES = {
    **{"clones": "any randomizer (clones)", "unknown": "any randomizer (default)"},
    **{"response": "randomized response", "unary": "unary encoding"},
    **{"rappor": "RAPPOR", "hadamard": "Hadamard response", "recursive-hadamard": "recursive Hadamard response"},
    **{"projective-geometry": "projective geometry response", "pi-rappor": "private independent RAPPOR"},
    **{"subset": "subset selection", "hashing": "local hashing", "matrix": "a table of probabilities"},
    **{"lower-bound": "what no bound can beat", "laplace": "Laplace noise", "gaussian": "Gaussian noise"},
}
"""What each kind is called in the picture."""
_WIDTH = 1e-6
"""How far an answer may be from the exact value of its pair, relatively: of continuous noise, and of all others."""

_AGAIN = 4.0
_SMALLEST, _SMALLEST_DELTA = 1e-12, 1e-290
"""Of what a relative width is told."""

_FIELDS = (
    "kind", "setting", "local_epsilon", "reports", "delta", "epsilon", "epsilon_ms", "delta_ms", "width", "delta_width",
)  # fmt: skip


_ROWS = {
    "any randomizer: clones, strong clones": ("clones",),
    "any randomizer, by default": ("unknown",),
    "randomized response": ("response",),
    "unary encodings (OUE, RAPPOR)": ("unary", "rappor"),
    "Hadamard, recursive Hadamard": ("hadamard", "recursive-hadamard"),
    "projective geometry, PI-RAPPOR, subset selection, local hashing": (
        "projective-geometry", "pi-rappor", "subset", "hashing",
    ),
    "a table of probabilities, up to 64 × 64": ("matrix",),
    "Laplace noise": ("laplace",),
    "Gaussian noise, deviation 0.3 to 10": ("gaussian",),
    "`lower_bound`": ("lower-bound",),
}  # fmt: skip
"""The lines of the table in docs/speed.md, and the kinds in each."""
_NOT_DISCRETE = ("clones", "unknown", "laplace", "gaussian", "lower-bound")
_DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"(?s)(?<=<!-- begin: python -m benchmarks\.instant --table -->\n\n).*?(?=\n<!-- end -->)")


class Point(NamedTuple):
    """One question: a kind, what it is about, and how the curve is made."""

    kind: str
    setting: str
    local_epsilon: float
    reports: int
    delta: float
    make: Callable[[], Any]


def _randomizers() -> dict[str, Callable[[float], Any]]:
    """Return the mechanisms for categories, by kind, each of ε₀."""
    kinds: dict[str, Callable[[float], Any]] = {}
    for name, kind, sizes in (
        ("response", shoal.RandomizedResponse, (2, 10, 200)),
        ("unary", shoal.UnaryEncoding, (50,)),
        ("rappor", shoal.Rappor, (10, 97)),
        ("hadamard", shoal.HadamardResponse, (10, 300)),
        ("recursive-hadamard", shoal.RecursiveHadamardResponse, (100,)),
        ("projective-geometry", shoal.ProjectiveGeometryResponse, (1000,)),
        ("pi-rappor", shoal.PrivateIndependentRappor, (500,)),
        ("subset", shoal.SubsetSelection, (20, 1000)),
        ("hashing", shoal.LocalHashing, (1000,)),
    ):
        for size in sizes:
            kinds[f"{name} k={size}"] = partial(_of_kind, kind, size)
    return kinds


def _of_kind(kind: Any, categories: int, local_epsilon: float) -> Any:
    return kind(categories=categories, local_epsilon=local_epsilon)


def matrix(size: int, shape: str, local_epsilon: float) -> Any:
    """Return a table of probabilities: random rows, noise that falls with the distance, or randomized response."""
    inputs = np.arange(size)
    if shape == "random":
        generator = np.random.default_rng(size)
        rows = np.exp(local_epsilon * (generator.random((size, size)) - 0.5))
    elif shape == "distance":
        rows = np.exp(-local_epsilon * np.abs(inputs[:, None] - inputs) / size)
    else:
        rows = np.exp(local_epsilon * np.eye(size))
    return shoal.MatrixRandomizer(rows / rows.sum(axis=1, keepdims=True))


def _cycled(firsts: Iterable[Any], start: int) -> Iterator[tuple[Any, float]]:
    """Yield each with a δ: all δ in turn, so that each meets all others somewhere."""
    for index, first in enumerate(firsts):
        yield first, _DELTAS[(3 * index + start) % len(_DELTAS)]


def grid() -> list[Point]:
    """Return all points."""
    points = []
    settings = list(itertools.product(_LOCAL, _REPORTS))
    for start, bound in enumerate(("clones", "strong-clones")):
        for (local, n), delta in _cycled(settings, start):
            make = partial(shoal.amplify, local_epsilon=local, reports=n, bound=bound)
            points.append(Point("clones", bound, local, n, delta, make))
    for (local, n), delta in _cycled(settings, 2):
        make = partial(shoal.amplify, local_epsilon=local, reports=n)
        points.append(Point("unknown", "tightest", local, n, delta, make))
    for start, (setting, of) in enumerate(_randomizers().items()):
        for (local, n), delta in _cycled(settings, start):
            points.append(
                Point(setting.split()[0], setting, local, n, delta, partial(_amplified, partial(of, local), n))
            )
    for start, (size, shape) in enumerate(itertools.product((2, 3, 5, 16, 33, 64), ("random", "distance", "response"))):
        for (local, n), delta in _cycled(itertools.product((0.5, 2.0, 6.0), _REPORTS[::2]), start):
            build = partial(matrix, size, shape, local)
            points.append(Point("matrix", f"{shape} {size}×{size}", local, n, delta, partial(_amplified, build, n)))
    for (local, n), delta in _cycled(settings, 0):
        points.append(
            Point("lower-bound", "any", local, n, delta, partial(shoal.lower_bound, local_epsilon=local, reports=n))
        )
    for (local, n), delta in _cycled(itertools.product(_LOCAL, _REPORTS[::2]), 0):
        build = partial(shoal.Laplace, local_epsilon=local)
        points.append(Point("laplace", "laplace", local, n, delta, partial(_amplified, build, n)))
    for (deviation, n), delta in _cycled(itertools.product((0.3, 0.5, 1.0, 3.0, 10.0), _REPORTS), 0):
        build = partial(shoal.Gaussian, sigma=deviation)
        points.append(
            Point("gaussian", f"gaussian σ={deviation:g}", float("inf"), n, delta, partial(_amplified, build, n))
        )
    return points


def _amplified(build: Callable[[], Any], reports: int) -> Any:
    return shoal.amplify(_built(build), reports=reports)


def _built(build: Callable[[], Any]) -> Any:
    """Return the randomizer of a point; reading its parameters is no part of the question."""
    key = repr(build)
    if key not in _BUILT:
        _BUILT.clear()
        _BUILT[key] = build()
    return _BUILT[key]


_BUILT: dict[str, Any] = {}


def measured(point: Point) -> dict[str, object]:
    """Return a point with its answers, the CPU milliseconds that ε and δ took, and the widths of their brackets."""
    curve = point.make()
    epsilon, epsilon_ms = _timed(lambda: curve.epsilon(point.delta))
    asked = 0.9 * epsilon
    delta, delta_ms = _timed(lambda: curve.delta(asked))
    width, wide = _widths(curve, point.delta, asked, delta)
    return {
        **point._asdict(),
        "epsilon": epsilon,
        "epsilon_ms": round(epsilon_ms, 3),
        "delta_ms": round(delta_ms, 3),
        "width": width,
        "delta_width": wide,
    }


def _timed(ask: Callable[[], float]) -> tuple[float, float]:
    """Return an answer and its CPU milliseconds; the median of three, where it takes long enough to ask again."""
    spans: list[float] = []
    while not spans or (len(spans) < 3 and spans[0] > _AGAIN):
        _reached.cache_clear()
        start = time.process_time()
        answer = ask()
        spans.append(1e3 * (time.process_time() - start))
    return answer, statistics.median(spans)


def _widths(curve: Any, delta: float, epsilon: float, upper: float) -> tuple[float | str, float | str]:
    """Return how far the bracket of ε is open, relatively, and that of δ; empty where there is none."""
    if not hasattr(curve, "epsilon_bracket"):
        return "", ""
    try:
        least, most = curve.epsilon_bracket(delta)
    except shoal.errors.NoPairError:
        return "", ""
    width = float(most - least) / most if most > _SMALLEST else 0.0
    ends = getattr(curve.profile, "delta_bracket", None)
    below = getattr(curve.profile, "delta_below", None)
    if upper <= _SMALLEST_DELTA or epsilon >= curve.local_epsilon:
        return width, ""
    if below is not None:
        return width, 1 - below(epsilon) / upper
    return width, "" if ends is None else 1 - ends(epsilon)[0] / upper


def _summary(lines: list[dict[str, Any]]) -> None:
    print(f"\n{'':<20} {'points':>6} {'median ms':>10} {'largest':>8} {'limit':>6} {'widest':>9} {'δ':>9} {'limit':>7}")
    for kind in dict.fromkeys(line["kind"] for line in lines):
        own = [line for line in lines if line["kind"] == kind]
        spans = [line[name] for line in own for name in ("epsilon_ms", "delta_ms")]
        width = _WIDTHS.get(kind, _WIDTH)
        widths = [line["width"] for line in own if line["width"] != ""]
        others = [line["delta_width"] for line in own if line["delta_width"] != ""]
        print(
            f"{kind:<20} {len(own):>6} {statistics.median(spans):>10.2f} {max(spans):>8.1f} {_LIMIT:>6g} "
            f"{max(widths, default=0.0):>9.1e} {max(others, default=0.0):>9.1e} {width:>7g}"
        )


def _read() -> list[dict[str, str]]:
    """Return every line of docs/instant.csv."""
    with (_DOCS / "instant.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _spans(lines: Iterable[dict[str, str]]) -> list[float]:
    """Return the CPU milliseconds of every question."""
    return [float(line[name]) for line in lines for name in ("epsilon_ms", "delta_ms")]


def discrete() -> tuple[float, float]:
    """Return the median and the largest CPU milliseconds of a question about a discrete mechanism or a table."""
    spans = _spans(line for line in _read() if line["kind"] not in _NOT_DISCRETE)
    return statistics.median(spans), max(spans)


def table() -> str:
    """Return the table of docs/speed.md, from docs/instant.csv."""
    lines = _read()
    rows = ["| | points | median | largest | bracket |", "|---|---|---|---|---|"]
    for name, kinds in _ROWS.items():
        own = [line for line in lines if line["kind"] in kinds]
        spans, widths = _spans(own), [float(line["width"]) for line in own if line["width"]]
        bracket = rounded_up(max(widths), 2).replace("e-0", "e-") if widths else "–"
        rows.append(f"| {name} | {len(own)} | {statistics.median(spans):.1f} | {max(spans):.0f} | {bracket} |")
    return "".join(f"{row}\n" for row in rows)


def page(text: str) -> str:
    """Return a page with the table between its markers as docs/instant.csv has it now."""
    written, count = _TABLE.subn(lambda _: table(), text)
    if count != 1:
        raise ValueError("the page has no markers, or several, for the table of instant.csv")
    return written


def _write_table() -> None:
    path = _DOCS / "speed.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    median, largest = discrete()
    print(
        f"written: {path}; for README.md, of any discrete mechanism: median {median:.1f}, {math.ceil(largest)} at most"
    )


def _drawn(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw every point: CPU milliseconds against n, and the width of the bracket, one colour a kind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    for index, kind in enumerate(kinds):
        own = [line for line in lines if line["kind"] == kind]
        reports = np.array([line["reports"] for line in own], dtype=float) * 1.05 ** (index - len(kinds) / 2)
        colour = f"C{index % 10}"
        mark = "o" if index < 10 else "^"
        for name in ("epsilon_ms", "delta_ms"):
            spans = np.maximum([line[name] for line in own], 0.05)
            above.plot(reports, spans, mark, color=colour, markersize=2.5, alpha=0.6)
        above.plot([], [], mark, color=colour, label=_NAMES.get(kind, kind))
        wide = [(n, line["width"]) for n, line in zip(reports, own, strict=True) if line["width"] != ""]
        if wide:
            below.plot(
                *zip(*[(n, max(width, 1e-13)) for n, width in wide], strict=True), mark, color=colour, markersize=2.5
            )
    for axes, limit, style, words in (
        (above, _LIMIT, "-", f"{_LIMIT:g} ms: limit of medians"),
        (above, _LARGEST, "--", f"{_LARGEST:g} ms: limit of points"),
        (below, _WIDTH, "-", "1e-6: limit"),
        (below, max(_WIDTHS.values()), "--", "2e-3: limit, noise"),
    ):
        axes.axhline(limit, color="0.4", linewidth=0.8, linestyle=style)
        axes.annotate(words, (0.662, limit), xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8)
    above.set_title(
        "One question to shoal, at every point of the grid: how long it takes, and how close it is", loc="left"
    )
    above.set(xscale="log", yscale="log", ylabel="CPU milliseconds of one ε(δ) or δ(ε)", ylim=(None, 500))
    below.set(
        yscale="log", ylim=(None, 5e-3), xlabel="n, the number of reports", ylabel="width of the bracket of ε, relative"
    )
    figure.legend(*above.get_legend_handles_labels(), fontsize=8, ncols=5, loc="outside lower center")
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> int:
    """Measure the grid, and write it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instant", description="Time one question everywhere.")
    parser.add_argument("--sample", type=int, help="so many points, at random")
    parser.add_argument("--kinds", nargs="*", help="these kinds only")
    parser.add_argument("--folder", type=Path, help="where instant.csv and instant.png are written; docs if all points")
    parser.add_argument("--table", action="store_true", help="only write the table of docs/speed.md from instant.csv")
    given = parser.parse_args(arguments)
    if given.table:
        _write_table()
        return 0
    points = [point for point in grid() if not given.kinds or point.kind in given.kinds]
    if given.sample and given.sample < len(points):
        chosen = np.random.default_rng(1).choice(len(points), given.sample, replace=False)
        points = [points[index] for index in sorted(chosen)]
    shoal.amplify(local_epsilon=1, reports=100).epsilon(1e-6)
    lines = [measured(point) for point in progress(points, total=len(points), label="points")]
    _summary(lines)
    folder = given.folder or (None if given.sample or given.kinds else Path("docs"))
    if folder is not None:
        with (folder / "instant.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _FIELDS, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        _drawn(lines, folder / "instant.png")
        print(f"written: {folder / 'instant.csv'}, {folder / 'instant.png'}")
        if folder.resolve() == _DOCS:
            _write_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
