"""How fast and how exact the histograms are, in turns with pure-ldp and multi-freq-ldpy."""

import itertools
import json
import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from benchmarks.competitors import zipf

__all__ = ["frequency"]

_ENVIRONMENT = Path(__file__).parents[1] / ".venv-bench"
_SCRIPT = Path(__file__).with_name("competitors.py")
_TURNS = 2
"""How often ours and theirs take turns."""
_EPSILONS = (1.0, 4.0)
_MANY = 10**6

_MECHANISMS: dict[Any, tuple[str, str]] = {
    shoal.RandomizedResponse: ("GRR", "GRR"),
    shoal.HadamardResponse: ("HR", ""),
    shoal.RecursiveHadamardResponse: ("", ""),
    shoal.ProjectiveGeometryResponse: ("", ""),
    shoal.PrivateIndependentRappor: ("", ""),
    shoal.LocalHashing: ("OLH", "OLH"),
    shoal.SubsetSelection: ("", "SS"),
    shoal.UnaryEncoding: ("OUE", "OUE"),
    shoal.Rappor: ("SUE", "SUE"),
}
"""Each with what pure-ldp and multi-freq-ldpy call it, where they have it."""
_FAST = (shoal.RandomizedResponse, shoal.HadamardResponse)
_WIDE = (shoal.SubsetSelection, shoal.UnaryEncoding, shoal.Rappor)
"""Their reports grow with k."""
_CELLS: list[tuple[Any, int]] = [
    *((kind, categories) for kind in _FAST for categories in (16, 1024, 65536)),
    *((kind, 1024) for kind in _MECHANISMS if kind not in _FAST),
]
_DEVIATION = 0.0125
"""A standard error of which the ±5 % are four."""
_PARTS = ("encode", "aggregate", "decode")


class _Competitors:
    """The process that times the other libraries, in their own environment; silent if there is none."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        if not (_ENVIRONMENT / "ready").exists():
            print("pure-ldp and multi-freq-ldpy are not here to compare with; `make .venv-bench/ready` gets them")
            return
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [str(_ENVIRONMENT / "bin" / "python"), "-P", "-W", "ignore", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | alone,
        )

    def ask(self, question: str, **parameters: object) -> dict[str, float]:
        """Return the answer, empty if there is nobody to ask."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return {}
        try:
            self._process.stdin.write(json.dumps({"ask": question, **parameters}) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            print("the process of pure-ldp and multi-freq-ldpy ended; what follows is without them")
            self._process = None
            return {}
        found: dict[str, float] = json.loads(answer)
        return found

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.communicate()


def _seconds(action: Callable[..., object], *arguments: object) -> float:
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start


def _rates(others: _Competitors, question: str, mechanism: Any, data: Any, must: str) -> None:
    """Print how many reports a CPU second we do, in the median, beside each of the others at its best, in turns."""
    action = {"encode": mechanism.randomize, "aggregate": mechanism.aggregate}[question]
    count = min(len(data), 1 << 12)
    while _seconds(action, data[:count]) < 0.02 and count < len(data):
        count = min(len(data), 4 * count)
    spans: list[float] = []
    theirs = [0.0, 0.0]
    setting = {"categories": mechanism.categories, "local_epsilon": mechanism.local_epsilon}
    for _ in range(_TURNS):
        spans += [_seconds(action, data[:count]) for _ in range(7)]
        for place, library in enumerate(("pure-ldp", "multi-freq-ldpy")):
            if called := _MECHANISMS[type(mechanism)][place]:
                answer = others.ask(question, library=library, mechanism=called, **setting)
                theirs[place] = max(theirs[place], answer.get("rate", 0.0))
    ours = count / statistics.median(spans)
    times = f"{ours / max(theirs):,.0f}" if max(theirs) else "–"
    print(
        f"{type(mechanism).__name__:<27} {mechanism.local_epsilon:>3.2g} {mechanism.categories:>6} "
        f"{_millions(ours):>7} {must:>6} {_millions(theirs[0]):>9} {_millions(theirs[1]):>15} {times:>8}"
    )


def _millions(rate: float) -> str:
    return "–" if not rate else f"{rate / 1e6:.0f}" if rate >= 1e8 else f"{rate / 1e6:.3g}"


def _heading(title: str) -> None:
    print(f"\n{title}")
    print(
        f"{'million reports/s':<27} {'ε₀':>3} {'k':>6} {'shoal':>7} {'must ≥':>6} {'pure-ldp':>9} "
        f"{'multi-freq-ldpy':>15} {'times':>8}"
    )


def encoding(others: _Competitors) -> None:
    """Time how reports are made: the two fast mechanisms at three k, the others at k = 1024."""
    _heading("Encoding with cryptographic coins, one core (the others: a Mersenne Twister)")
    for kind, categories in _CELLS:
        for local_epsilon in _EPSILONS:
            mechanism = kind(categories=categories, local_epsilon=local_epsilon)
            must = "50" if kind in _FAST else "20×" if kind in _WIDE else "10"
            _rates(others, "encode", mechanism, zipf(categories, _MANY), must)


def aggregation(others: _Competitors) -> None:
    """Time how reports are counted, at the same settings."""
    _heading("Counting reports, one core (pure-ldp only keeps a list of Hadamard reports)")
    for kind, categories in _CELLS:
        for local_epsilon in _EPSILONS:
            mechanism = kind(categories=categories, local_epsilon=local_epsilon)
            reports = mechanism.randomize(zipf(categories, 20_000 if kind in _WIDE else _MANY))
            _rates(others, "aggregate", mechanism, reports, "" if kind in _WIDE else "200")


def decoding(others: _Competitors) -> None:
    """Time one estimate, with its standard errors and intervals, from 2²⁰ categories."""
    print("\nDecoding Hadamard response with 2²⁰ categories, one core (milliseconds)")
    print(f"{'ε₀':>3} {'outputs':>9} {'shoal':>8} {'must ≤':>7} {'pure-ldp':>9} {'times':>8}")
    for local_epsilon in _EPSILONS:
        mechanism = shoal.HadamardResponse(categories=1 << 20, local_epsilon=local_epsilon)
        counts = mechanism.aggregate(mechanism.randomize(zipf(1 << 20, _MANY)))
        spans = [_seconds(mechanism.estimate, counts) for _ in range(5)]
        answer = others.ask("end_to_end", categories=1 << 20, local_epsilon=local_epsilon, reports=100_000)
        spans += [_seconds(mechanism.estimate, counts) for _ in range(5)]
        ours, theirs = statistics.median(spans), answer.get("decode", 0.0)
        beside = f"{1e3 * theirs:>9,.0f} {theirs / ours:>8,.0f}" if theirs else f"{'–':>9} {'–':>8}"
        print(f"{local_epsilon:>3g} {mechanism.outputs:>9} {1e3 * ours:>8.1f} {100:>7} {beside}")


def _run(mechanism: Any, values: Any, truth: Any) -> dict[str, float]:
    """Encode, count and decode once, and give the seconds of each and the squared error."""
    clock = [time.process_time()]
    reports = mechanism.randomize(values)
    clock.append(time.process_time())
    counts = mechanism.aggregate(reports)
    clock.append(time.process_time())
    estimate = mechanism.estimate(counts)
    clock.append(time.process_time())
    spans = dict(zip(_PARTS, np.diff(clock).tolist(), strict=True))
    return {**spans, "squared_error": float(np.sum((estimate.frequencies - truth) ** 2))}


def _all(run: dict[str, float]) -> float:
    return sum(run[part] for part in _PARTS)


def end_to_end(others: _Competitors) -> None:
    """Encode, count and decode a million reports of Hadamard response, all of it by both."""
    print("\nEnd to end, Hadamard response, n = 10⁶, k = 1024, one core (milliseconds; all n reports by both)")
    print(
        f"{'ε₀':>3} {'':<9} {'encode':>8} {'count':>6} {'decode':>7} {'all':>8} {'times':>6} {'must ≥':>7} "
        f"{'Σ error²':>10} {'closed form':>12}"
    )
    values = zipf(1024, _MANY)
    truth = np.bincount(values, minlength=1024) / _MANY
    for local_epsilon in _EPSILONS:
        mechanism = shoal.HadamardResponse(categories=1024, local_epsilon=local_epsilon)
        runs = [_run(mechanism, values, truth) for _ in range(7)]
        theirs = others.ask("end_to_end", categories=1024, local_epsilon=local_epsilon, reports=_MANY)
        runs += [_run(mechanism, values, truth) for _ in range(7)]
        ours = sorted(runs, key=_all)[len(runs) // 2]
        predicted = f"{mechanism.variance(truth, reports=_MANY).sum():.3e}"
        for name, run in (("shoal", ours), ("pure-ldp", theirs)):
            if run:
                encode, count, decode = (1e3 * run[part] for part in _PARTS)
                times = f"{_all(theirs) / _all(ours):,.0f}" if theirs and run is ours else ""
                print(
                    f"{local_epsilon:>3g} {name:<9} {encode:>8,.1f} {count:>6,.1f} {decode:>7,.2f} "
                    f"{1e3 * _all(run):>8,.1f} {times:>6} {100 if run is ours else '':>7} "
                    f"{run['squared_error']:>10.3e} {predicted if run is ours else '':>12}"
                )


def _ratio(mechanism: Any, reports: int, trials: int, seed: int) -> tuple[float, float]:
    """Return the mean of Σ error² over its closed form, and the standard error of this mean, small enough."""
    values = zipf(mechanism.categories, reports)
    truth = np.bincount(values, minlength=mechanism.categories) / reports
    predicted = float(mechanism.variance(truth, reports=reports).sum())
    simulation = shoal.Simulation(seed=seed)
    found: list[float] = []
    deviation = math.inf
    while deviation > _DEVIATION:
        for _ in range(trials):
            counts = mechanism.aggregate(mechanism.randomize(values, simulation=simulation))
            found.append(float(np.sum((mechanism.estimate(counts).frequencies - truth) ** 2)) / predicted)
        deviation = statistics.stdev(found) / math.sqrt(len(found))
    return statistics.fmean(found), deviation


def errors() -> None:
    """Compare measured squared errors with the closed form, for every mechanism."""
    cells, seeds = [(16, 1_000, 1_000), (1024, 10_000, 16)], itertools.count()
    print("\nΣ error² over its closed form, ± one standard error (must: 0.95…1.05); frequencies as 1/x")
    print(f"{'':<27}" + "".join(f"{f'k = {k}, ε₀ = {e:g}':>19}" for k, _, _ in cells for e in _EPSILONS))
    for kind in _MECHANISMS:
        row = f"{kind.__name__:<27}"
        for categories, reports, trials in cells:
            for local_epsilon in _EPSILONS:
                mechanism = kind(categories=categories, local_epsilon=local_epsilon)
                mean, deviation = _ratio(mechanism, reports, trials, seed=next(seeds))
                row += f"{f'{mean:.3f} ± {deviation:.3f}':>19}"
        print(row)
    print(
        "; ".join(f"k = {k}: {trials:,} runs with n = {reports:,}" for k, reports, trials in cells)
        + f", and as many again until one standard error is at most {_DEVIATION:g}"
    )


def frequency() -> None:
    """Print everything about histograms."""
    start = time.perf_counter()
    others = _Competitors()
    print("\nHistograms: CPU time, taking turns; ours in the median, the others at their best")
    encoding(others)
    aggregation(others)
    decoding(others)
    end_to_end(others)
    others.close()
    errors()
    print(f"histograms: {time.perf_counter() - start:.0f} s")
