"""How fast and how tight composition and the blankets are; as a command, every point of a grid as CSV."""

import csv
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

import shoal

__all__ = ["KINDS", "NOISES", "RENYI_KINDS", "blankets", "composition", "points", "renyi", "renyi_points"]

_DELTA = 1e-6
_MIXED = ("gaussian, σ=0.5", "gaussian, σ=1", "laplace, ε₀=2")
_WEIGHTS = (3, 4, 1, 4, 3, 3, 3, 1, 2, 3, 1, 3, 4, 2, 3, 2)
_MATRIX = [[_WEIGHTS[(column - row) % 16] for column in range(16)] for row in range(16)]
KINDS: dict[str, Callable[[int], shoal.PrivacyCurve]] = {
    "clones": lambda n: shoal.amplify(local_epsilon=2, reports=n),
    "k-ary": lambda n: shoal.amplify(shoal.RandomizedResponse(categories=16, local_epsilon=2), reports=n),
    "k-ary, 200, ε₀=7.23": lambda n: shoal.amplify(
        shoal.RandomizedResponse(categories=200, local_epsilon=7.23), reports=n
    ),
    "rappor": lambda n: shoal.amplify(shoal.Rappor(categories=16, local_epsilon=2), reports=n),
    "hadamard": lambda n: shoal.amplify(shoal.HadamardResponse(categories=16, local_epsilon=2), reports=n),
    "matrix 16×16": lambda n: shoal.amplify(shoal.MatrixRandomizer(_MATRIX), reports=n),
    "approximate": lambda n: shoal.amplify(local_epsilon=2, local_delta=1e-15, reports=n),
    "decomposition": lambda n: shoal.amplify(
        shoal.Decomposition(local_epsilon=1.8, blanket_probability=0.05, own_probability=0.3), reports=n
    ),
}
"""One curve of each kind, for a number of reports."""
NOISES: dict[str, Callable[[int], shoal.PrivacyCurve]] = {
    "gaussian, σ=0.3": lambda n: shoal.amplify(shoal.Gaussian(sigma=0.3), reports=n),
    "gaussian, σ=0.5": lambda n: shoal.amplify(shoal.Gaussian(sigma=0.5), reports=n),
    "gaussian, σ=1": lambda n: shoal.amplify(shoal.Gaussian(sigma=1), reports=n),
    "gaussian, σ=3": lambda n: shoal.amplify(shoal.Gaussian(sigma=3), reports=n),
    "laplace, ε₀=1": lambda n: shoal.amplify(shoal.Laplace(local_epsilon=1), reports=n),
    "laplace, ε₀=2": lambda n: shoal.amplify(shoal.Laplace(local_epsilon=2), reports=n),
    "laplace, ε₀=8": lambda n: shoal.amplify(shoal.Laplace(local_epsilon=8), reports=n),
}
"""The same for noise on a number."""
RENYI_KINDS: dict[str, Callable[[float, int], shoal.PrivacyCurve]] = {
    "strong clones": lambda local, n: shoal.amplify(local_epsilon=local, reports=n),
    "clones": lambda local, n: shoal.amplify(local_epsilon=local, reports=n, bound="clones"),
    "k-ary": lambda local, n: shoal.amplify(shoal.RandomizedResponse(categories=16, local_epsilon=local), reports=n),
    "rappor": lambda local, n: shoal.amplify(shoal.Rappor(categories=16, local_epsilon=local), reports=n),
    "hadamard": lambda local, n: shoal.amplify(shoal.HadamardResponse(categories=16, local_epsilon=local), reports=n),
    "subset": lambda local, n: shoal.amplify(shoal.SubsetSelection(categories=16, local_epsilon=local), reports=n),
    "laplace": lambda local, n: shoal.amplify(shoal.Laplace(local_epsilon=local), reports=n),
    "one bit": lambda local, n: shoal.amplify(shoal.RandomizedResponse(categories=2, local_epsilon=local), reports=n),
}
"""Curves whose Rényi divergences are asked for, for an ε₀ and a number of reports."""


def points() -> Iterable[tuple[str, str, int, float, float, float, float]]:
    """Yield kind, question, n, T or the order, the lower and the upper end, and CPU seconds, point by point."""
    for name, curve in (KINDS | NOISES).items():
        for reports in (100, 10**4, 10**6):
            for times in (1, 30, 365, 10**4, 10**5):
                rounds = curve(reports).repeated(times)
                start = time.process_time()
                upper = rounds.epsilon(_DELTA)
                seconds = time.process_time() - start
                try:
                    lower = float(rounds.epsilon_bracket(_DELTA).lower)
                except shoal.errors.NoPairError:
                    lower = float("nan")
                yield name, "rounds", reports, times, lower, upper, seconds
    mixed = {
        "ten kinds": [curve(reports) for reports in (20_000, 300_000) for curve in list(KINDS.values())[:5]],
        "ten kinds with noise": [
            curve(100_000)
            for curve in (*list(KINDS.values())[:6], KINDS["decomposition"], *(NOISES[name] for name in _MIXED))
        ],
    }
    for (name, curves), times in itertools.product(mixed.items(), (1, 30, 1000)):
        rounds = shoal.compose([(curve, times) for curve in curves])
        start = time.process_time()
        upper = rounds.epsilon(_DELTA)
        seconds = time.process_time() - start
        lower = float(rounds.epsilon_bracket(_DELTA).lower)
        yield name, "rounds", 20_000 if name == "ten kinds" else 100_000, 10 * times, lower, upper, seconds
    yield from renyi_points()


def renyi_points() -> Iterable[tuple[str, str, int, float, float, float, float]]:
    """Yield the same for Rényi divergences: every kind, ε₀, n and order, each from a new curve."""
    for local_epsilon, (name, curve), reports in itertools.product(
        (0.1, 1.0, 4.0, 8.0, 14.0), RENYI_KINDS.items(), (100, 10**4, 10**6, 10**9)
    ):
        for order in (1.01, 1.5, 2.0, 8.0, 64.0, 1e3, 1e5):
            start = time.process_time()
            value = curve(local_epsilon, reports).renyi(order)
            seconds = time.process_time() - start
            yield f"{name}, ε₀={local_epsilon:g}", "renyi", reports, order, float("nan"), value, seconds
    for reports, order in itertools.product((100, 10**4, 10**6), (1.5, 8.0, 1e3)):
        start = time.process_time()
        value = KINDS["matrix 16×16"](reports).renyi(order)
        yield "matrix 16×16", "renyi", reports, order, float("nan"), value, time.process_time() - start


def renyi() -> None:
    """Show the median and the largest CPU time of an order, for each kind and n."""
    print("\nRényi divergences, milliseconds an order: median and most (must: ≤ 10 and ≤ 30 at n = 10⁶)")
    seconds = defaultdict[tuple[str, int], list[float]](list)
    for name, _, reports, _, _, _, span in renyi_points():
        seconds[name.partition(",")[0], reports].append(1e3 * span)
    for (name, reports), spans in sorted(seconds.items()):
        print(f"{name:<14} n = {reports:<11,} {np.median(spans):>8.1f} {max(spans):>8.1f}")


def composition() -> None:
    """Time T rounds at three settings, and a thousand different ones, and show the width of the bracket."""
    print(f"\nComposition at δ = {_DELTA:g}, one core (must: width ≤ 0.1 %, ≤ 5 s for everything)")
    print(f"{'ε₀':>5} {'n':>8} {'T':>7} {'lower':>12} {'upper':>12} {'width %':>8} {'s':>6}")
    start = time.process_time()
    for local_epsilon, reports in ((1, 10**4), (2, 10**6), (4, 10**8)):
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        for times in (1, 10, 100, 1_000, 10_000):
            before = time.process_time()
            lower, upper = curve.repeated(times).epsilon_bracket(_DELTA)
            seconds = time.process_time() - before
            print(
                f"{local_epsilon:>5g} {reports:>8.0e} {times:>7} {lower:>12.7g} {upper:>12.7g} "
                f"{100 * (upper / lower - 1):>8.4f} {seconds:>6.2f}"
            )
    print(f"all together: {time.process_time() - start:.1f} s")
    _against_dp_accounting()
    generator = np.random.default_rng(1)
    curves = [
        shoal.amplify(local_epsilon=float(generator.uniform(0.5, 4)), reports=int(10 ** generator.uniform(4, 8)))
        for _ in range(1000)
    ]
    start = time.process_time()
    lower, upper = shoal.compose(curves).epsilon_bracket(_DELTA)
    width = 100 * (upper / lower - 1)
    print(
        f"a thousand different rounds: {lower:.6g} to {upper:.6g}, {width:.3f} % wide (must ≤ 0.5), "
        f"{time.process_time() - start:.0f} s (must ≤ 60)"
    )


def _against_dp_accounting() -> None:
    """Compose 10,000 rounds with dp-accounting, from its own default grid, in the same run."""
    curve = shoal.amplify(local_epsilon=2, reports=10**6, bound="clones")
    start = time.process_time()
    ours = curve.repeated(10_000).epsilon(_DELTA)
    middle = time.process_time()
    theirs = curve.repeated(10_000).to_dp_accounting().get_epsilon_for_delta(_DELTA)
    end = time.process_time()
    print(
        f"10,000 rounds of clones at ε₀ = 2, n = 10⁶: {ours:.6g} in {middle - start:.2f} s; by dp-accounting at its "
        f"grid of 1e-4, from our dots: {theirs:.6g} in {end - middle:.2f} s, "
        f"{(end - middle) / (middle - start):.1f} times as long"
    )


def blankets() -> None:
    """Time one ε query of every randomizer, at two δ."""
    print("\nBlankets of given randomizers, ε₀ = 2 (σ = 1), n = 10⁶, one core")
    print(f"{'randomizer':<22} {'δ':>6} {'ε':>12} {'best possible':>14} {'s':>7}")
    randomizers = [
        kind(categories=100, local_epsilon=2)
        for kind in (
            shoal.RandomizedResponse,
            shoal.HadamardResponse,
            shoal.Rappor,
            shoal.UnaryEncoding,
            shoal.SubsetSelection,
        )
    ]
    for randomizer in (*randomizers, shoal.Laplace(local_epsilon=2), shoal.Gaussian(sigma=1)):
        for delta in (1e-6, 1e-20):
            curve = shoal.amplify(randomizer, reports=10**6)
            start = time.process_time()
            epsilon = curve.epsilon(delta)
            seconds = time.process_time() - start
            limit = curve.lower.epsilon(delta) if curve.lower else float("nan")
            name = type(randomizer).__name__
            print(f"{name:<22} {delta:>6.0e} {epsilon:>12.8f} {limit:>14.8f} {seconds:>7.3f}")


if __name__ == "__main__":
    writer = csv.writer(sys.stdout)
    writer.writerow(("kind", "question", "reports", "rounds or order", "lower", "upper", "width %", "seconds"))
    for kind, question, reports, times, lower, upper, seconds in points():
        width = 100 * (upper / lower - 1) if lower > 0 else float("nan")
        row = (kind, question, reports, f"{times:g}", f"{lower:.8g}", f"{upper:.8g}", f"{width:.4f}", f"{seconds:.4f}")
        writer.writerow(row)
        sys.stdout.flush()
