"""Does it train? Accuracy against ε by every sampler, beside Opacus at the same true ε, as a table and a picture.

The noise is calibrated for what each trainer draws, to the same (ε, δ) for an example that is zeroed. Opacus draws by
coins, and gets the noise of shoal's Poisson sampling. Each has the best of a few learning rates on a seed that does not
count. `python -m benchmarks.accuracy` takes about a quarter of an hour of one core, and writes docs/accuracy.csv and
docs/figures/accuracy.png.
"""

import argparse
import csv
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from benchmarks.accuracy_trainings import task
from benchmarks.training import ALONE, ENVIRONMENT, ROOT
from figures.palette import BLACK, BLUE, GREEN, GREY, VERMILION, Ink
from shoal import sgd
from shoal.progress import progress

__all__ = ["accuracy"]

_SCRIPT = Path(__file__).with_name("accuracy_trainings.py")
_EPSILONS = (0.5, 1.0, 3.0, 8.0)
_TRAINERS = {
    "allocation": ("shoal, allocation", BLUE, "solid"),
    "poisson": ("shoal, Poisson", GREEN, "solid"),
    "opacus": ("Opacus, Poisson", BLACK, "dashed"),
    "permutation": ("shoal, permutation", VERMILION, "solid"),
}
_NOT_PRIVATE = "not private"
_RATES = {"glyphs": (2.0, 4.0, 8.0), "digits": (0.1, 0.25, 0.5, 1.0)}
"""Chosen after a look at earlier trainings with other rates: mostly by allocation, and some on seeds that count."""
_PLAIN_RATES = (0.2, 0.5)
_TITLES = {
    "glyphs": "20,000 drawn glyphs, 16 × 16, a convolutional network",
    "digits": "1,408 handwritten digits of scikit-learn, softmax regression",
}
_TUNING, _SEEDS = 1000, 5
_FIELDS = ("data", "trainer", "epsilon", "delta", "noise_multiplier", "learning_rate", "seed", "accuracy", "printed")


class _Plan(NamedTuple):
    """One cell of the study: a trainer at a budget."""

    data: str
    trainer: str
    epsilon: float


class _Asked:
    """A process with all trainers, which answers line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None and process.stdout is not None
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout

    def __call__(self, **asked: Any) -> dict[str, Any]:
        self._to.write(json.dumps(asked) + "\n")
        self._to.flush()
        answer: dict[str, Any] = json.loads(self._from.readline())
        return asked | answer


@contextmanager
def _trainers() -> Iterator[_Asked]:
    environment = os.environ | ALONE | {"PYTHONPATH": str(ROOT / "src")}
    command = [str(ENVIRONMENT / "bin" / "python"), "-P", "-W", "ignore", str(_SCRIPT)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield _Asked(process)
        finally:
            process.terminate()


def _noise(plan: _Plan, known: dict[_Plan, float]) -> float:
    """Return the noise multiplier with which this trainer's run has ε, for what it draws."""
    if plan.trainer == _NOT_PRIVATE:
        return 0.0
    drawn = plan._replace(trainer="poisson" if plan.trainer == "opacus" else plan.trainer)
    if drawn not in known:
        examples = task(plan.data)
        run = sgd.Run(
            examples=len(examples.labels),
            batch_size=examples.batch_size,
            epochs=examples.epochs,
            sampling=drawn.trainer,
            adjacency="zero-out",
        )
        known[drawn] = sgd.calibrate(run, epsilon=plan.epsilon, delta=examples.delta).multiplier
    return known[drawn]


def accuracy(seeds: int, names: Sequence[str], trainers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Train everything, and yield a row for each training that counts."""
    cells = itertools.product(names, trainers)
    plans = [
        _Plan(data, name, epsilon)
        for data, name in cells
        for epsilon in ((math.inf,) if name == _NOT_PRIVATE else _EPSILONS)
    ]
    known: dict[_Plan, float] = {}
    with _trainers() as asked:
        for plan in progress(plans, total=len(plans), label="trainings"):
            rates = _PLAIN_RATES if plan.trainer == _NOT_PRIVATE else _RATES[plan.data]
            setting = {"data": plan.data, "trainer": plan.trainer, "noise_multiplier": _noise(plan, known)}
            tried = [asked(**setting, learning_rate=rate, seed=_TUNING) for rate in rates]
            best = max(tried, key=lambda row: row["accuracy"])["learning_rate"]
            for seed in range(1, seeds + 1):
                row = asked(**setting, learning_rate=best, seed=seed)
                yield {**row, "epsilon": plan.epsilon, "delta": task(plan.data).delta}


Cell = tuple[str, str, float]


def _spread(rows: list[dict[str, Any]]) -> dict[Cell, tuple[float, float]]:
    """Return the mean accuracy of every trainer at every ε, and its standard error."""
    cells: dict[Cell, list[float]] = {}
    for row in rows:
        cells.setdefault((row["data"], row["trainer"], float(row["epsilon"])), []).append(float(row["accuracy"]))
    return {
        cell: (statistics.fmean(each), statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else math.nan)
        for cell, each in cells.items()
    }


def _summary(rows: list[dict[str, Any]]) -> None:
    """Print every mean, and how far it is from that of Opacus, in standard errors of the difference."""
    spread = _spread(rows)
    noise = {(row["data"], row["trainer"], float(row["epsilon"])): float(row["noise_multiplier"]) for row in rows}
    last = None
    for cell, (mean, error) in spread.items():
        data, name, epsilon = cell
        if data != last:
            print(f"\n{_TITLES[data]}\n{'':<20} {'ε':>5} {'noise':>7} {'accuracy':>9} {'error':>7} {'to Opacus':>10}")
            last = data
        other, others = spread.get((data, "opacus", epsilon), (math.nan, math.nan))
        apart = (mean - other) / math.hypot(error, others) if name != "opacus" else math.nan
        label = _TRAINERS[name][0] if name in _TRAINERS else name
        print(f"{label:<20} {epsilon:>5g} {noise[cell]:>7.3f} {mean:>9.4f} {error:>7.4f} {apart:>+10.1f}")


def _drawn(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the means with two standard errors each way, one picture for each of the data."""
    import matplotlib
    from matplotlib.figure import Figure

    spread = _spread(rows)
    names = list(dict.fromkeys(row["data"] for row in rows))
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "font.size": 9}):
        canvas = Figure(figsize=(5.6 * len(names), 4.2), layout="constrained")
        for axes, data in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            ends = []
            for index, (name, (label, colour, style)) in enumerate(_TRAINERS.items()):
                means, errors = zip(*(spread[data, name, epsilon] for epsilon in _EPSILONS), strict=True)
                # A little apart, so that no bar hides another.
                along = [epsilon * 1.03 ** (index - 1.5) for epsilon in _EPSILONS]
                bars = [2 * error for error in errors]
                axes.errorbar(along, means, bars, color=colour, linestyle=style, linewidth=1.8, capsize=2.5)
                ends.append((label, along[-1], means[-1], Ink(colour)))
            if (data, _NOT_PRIVATE, math.inf) in spread:
                mean, _ = spread[data, _NOT_PRIVATE, math.inf]
                axes.axhline(mean, color=GREY, linestyle="dotted", linewidth=1.4)
                ends.append((_NOT_PRIVATE, _EPSILONS[-1] * 1.1, mean, Ink(GREY)))
            axes.set(xscale="log", xlabel="ε", ylabel="accuracy on held-out examples")
            axes.set_xticks(_EPSILONS, [f"{epsilon:g}" for epsilon in _EPSILONS])
            axes.minorticks_off()
            axes.set_title(_TITLES[data], loc="left", fontsize=9)
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            _label_ends(axes, ends)
        canvas.suptitle("Private training at the same true ε", x=0.01, ha="left", fontsize=11, fontweight="bold")
        note = f"Means of {_SEEDS} trainings with two standard errors each way; δ = 1e-5, one example zeroed."
        canvas.supxlabel(note, x=0.01, ha="left", fontsize=8, color="#444444")
        canvas.savefig(path, dpi=110, metadata={"Software": None})


def _label_ends(axes: Any, ends: Sequence[tuple[str, float, float, Ink]]) -> None:
    """Write labels beside the last points of lines, none over another."""
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # heights stay what they are from here on
    to_axes = axes.transData + axes.transAxes.inverted()
    spots = [to_axes.transform((across, up)) for _, across, up, _ in ends]
    height = 0.0
    for (label, _, _, ink), spot in sorted(zip(ends, spots, strict=True), key=lambda pair: pair[1][1]):
        height = max(height + 0.055, float(spot[1]))
        line = {"arrowstyle": "-", "color": ink.colour, "linewidth": 0.7, "relpos": (0, 0.5)}
        where = {"xycoords": "axes fraction", "textcoords": "axes fraction", "annotation_clip": False, "va": "center"}
        axes.annotate(label, tuple(spot), (1.035, height), color=ink.colour, arrowprops=line, **where)


def main(arguments: list[str] | None = None) -> int:
    """Train, or read what was trained, and write it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="Accuracy against ε.")
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="how many trainings of each kind count")
    parser.add_argument("--data", nargs="*", choices=_TITLES, default=list(_TITLES), help="these data only")
    everybody = [_NOT_PRIVATE, *_TRAINERS]
    parser.add_argument("--trainers", nargs="*", choices=everybody, default=everybody, help="these trainers only")
    parser.add_argument("--drawn", action="store_true", help="draw what accuracy.csv has, without training")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs", help="where accuracy.csv is written")
    given = parser.parse_args(arguments)
    path = given.folder / "accuracy.csv"
    if not given.drawn:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _FIELDS, lineterminator="\n")
            writer.writeheader()
            for row in accuracy(given.seeds, given.data, given.trainers):
                writer.writerow(row)
                file.flush()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    _summary(rows)
    picture = given.folder / "figures" / "accuracy.png"
    if {row["trainer"] for row in rows} >= set(_TRAINERS) and picture.parent.is_dir():
        _drawn(rows, picture)
        print(f"written: {path}, {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
