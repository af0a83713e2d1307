"""Print how fast and how tight shoal is, beside the paper's own algorithm in the same run: `make bench`."""

import math
import os
import resource
import statistics
import subprocess
import sys
import time
from functools import partial

import numpy as np

import shoal
from benchmarks.collection import collection
from benchmarks.frequency import frequency
from benchmarks.heavy_hitters import heavy_hitters
from benchmarks.overload import overload
from benchmarks.planning import choices
from benchmarks.rounds import blankets, composition, renyi
from benchmarks.timing import median_seconds
from benchmarks.training import training
from shoal.pairs import ClonePair
from shoal.proofs.balls import precision
from shoal.proofs.clone_claim import CloneClaim
from tests.oracles import paper

_GRID = (
    (0.1, 10**5), (0.5, 10**4), (1, 10**4), (1, 10**6), (2, 10**6), (4, 10**5), (4, 10**6),
    (6, 10**6), (6, 10**7), (8, 10**6), (1, 10**7), (1, 10**9), (2, 10**12),
)  # fmt: skip
_DELTA = 1e-6


def _limit(reports: int) -> float:
    return 5.0 if reports <= 10**6 else 10.0 if reports <= 10**7 else 20.0


def queries() -> None:
    """Time one ε query on the grid, and bound its excess over the exact value of the pair."""
    print(f"\nOne ε query at δ = {_DELTA:g}, one core")
    print(f"{'ε₀':>5} {'n':>8} {'bound':>14} {'ε':>14} {'excess ≤':>9} {'ms':>6} {'must ≤ ms':>9}")
    for local_epsilon, reports in _GRID:
        for bound in ("strong-clones", "clones"):
            curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)
            bracket = curve.epsilon_bracket(_DELTA)
            excess = bracket.upper / bracket.lower - 1
            milliseconds = 1e3 * median_seconds(lambda curve=curve: curve.epsilon(_DELTA))  # type: ignore[misc]
            print(
                f"{local_epsilon:>5g} {reports:>8.0e} {bound:>14} {bracket.upper:>14.8g} {excess:>9.1e}"
                f" {milliseconds:>6.2f} {_limit(reports):>9g}"
            )


def profiles() -> None:
    """Bound the excess of δ(ε), down to 1e-290."""
    worst = {1e-10: 0.0, 1e-30: 0.0, 1e-100: 0.0, 1e-290: 0.0}

    for local_epsilon, reports in _GRID:
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        for target, largest in worst.items():
            epsilon = float(curve.epsilon(target))
            if epsilon < local_epsilon * (1 - 1e-9):
                with precision(256):
                    claim = CloneClaim(reports, float(local_epsilon), 0.0, "strong-clones")
                    ball = claim.at(epsilon, fineness=1e-4)
                worst[target] = max(largest, float(curve.delta(epsilon)) / float(ball.mid()) - 1)
    print("\nExcess of δ(ε) over its value in 256-bit balls, largest on the grid (must ≤ 1e-6)")
    print("  ".join(f"δ≈{target:g}: {excess:.1e}" for target, excess in worst.items()))


def against_the_paper() -> None:
    """Run the paper's algorithm with S = 100, T = 10 at (1, 10⁶), beside ours for both pairs."""
    start = time.process_time()
    theirs = paper.clones_epsilon(10**6, 1.0, _DELTA, step=100, iterations=10)
    span = time.process_time() - start
    print("\nThe paper's algorithm (S = 100, T = 10) at ε₀ = 1, n = 10⁶, in this run")
    print(f"{'':>28} {'ε':>12} {'seconds':>10} {'ratio':>8}")
    print(f"{'paper, clones pair':>28} {theirs:>12.8f} {span:>10.2f} {1:>8}")
    for bound in ("clones", "strong-clones"):
        curve = shoal.amplify(local_epsilon=1, reports=10**6, bound=bound)
        ours = median_seconds(lambda curve=curve: curve.epsilon(_DELTA))  # type: ignore[misc]
        print(f"{'shoal, ' + bound:>28} {curve.epsilon(_DELTA):>12.8f} {ours:>10.5f} {span / ours:>8,.0f}")


def other_questions() -> None:
    """Time Rényi divergences, calibration and certificates."""
    print("\nOther questions (CPU seconds)")
    pair, orders = ClonePair(10**6, 2.0, "strong-clones"), np.arange(2.0, 65.0)
    seconds = median_seconds(lambda: pair.renyi(orders), times=3)
    print(f"Rényi, orders 2…64, n = 10⁶, ε₀ = 2        {seconds:>8.3f}   must ≤ 1")
    for arguments in ({"reports": 10**4}, {"reports": 10**9}, {"local_epsilon": 4.0}, {"local_epsilon": 1.0}):
        for epsilon in (0.1, 1e-3):
            try:
                asked = partial(shoal.calibrate, epsilon=epsilon, delta=_DELTA, **arguments)
                seconds = median_seconds(asked, times=3)
            except shoal.errors.UnreachableError:
                continue
            print(f"calibrate ε = {epsilon:g}, {arguments!s:<26} {seconds:>8.3f}   must ≤ 0.2")
    for local_epsilon, reports in ((1.0, 10**4), (1.0, 10**6), (1.0, 10**9), (2.0, 10**12)):
        for delta in (1e-6, 1e-30):
            curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
            start = time.process_time()
            certificate = curve.certify(delta=delta)
            seconds = time.process_time() - start
            grown = certificate.epsilon / curve.epsilon(delta) - 1
            setting = f"certify ε₀ = {local_epsilon:g}, n = {reports:.0e}, δ = {delta:g}:"
            print(f"{setting} grown {grown:.0e} {seconds:>8.3f}   must ≤ 5")


def imports() -> None:
    """Compare what starting costs with `import numpy`: CPU seconds of fresh processes, in turns."""
    scripts = {
        "import numpy": "import numpy",
        "import shoal": "import shoal",
        "the first answer": "import shoal; shoal.amplify(local_epsilon=1, reports=1e4).epsilon(1e-6)",
        "shoal amplify": "from shoal.cli import main; main(['amplify', '--local-epsilon', '1', '--reports', '1e4'])",
    }
    spans: dict[str, list[float]] = {name: [] for name in scripts}
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(10):
        for name, script in scripts.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, env=compiled)
            if not turn:  # now everything is compiled, as it is where shoal is installed
                continue
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spans[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print("\nStarting, in a fresh process")
    print(f"{'':<18} {'s':>6} {'÷ numpy':>8} {'must':>12}")
    base = statistics.median(spans["import numpy"])
    musts = {"import shoal": "≤ 1.5 numpy", "shoal amplify": "≤ 0.5 s"}
    for name, each in spans.items():
        middle = statistics.median(each)
        print(f"{name:<18} {middle:>6.3f} {middle / base:>8.2f} {musts.get(name, ''):>12}")


def memory() -> None:
    """Print the peak memory of a process that answers the whole grid."""
    script = (
        "import resource, shoal\n"
        f"for e, n in {_GRID!r}: shoal.amplify(local_epsilon=e, reports=n).epsilon(1e-6)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peak = int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
    print(f"peak memory of a process that answers the grid: {peak / 1024:.0f} MB (must < 200)")


def random_points(count: int = 400) -> None:
    """Check random points against the certified lower end, and print the largest excess."""
    random = np.random.default_rng(20_211_203)
    worst, spans = 0.0, []
    for _ in range(count):
        reports = int(10 ** random.uniform(0, 12))
        local_epsilon, delta = 10 ** random.uniform(-3, math.log10(20)), 10 ** random.uniform(-30, -2)
        curve = shoal.amplify(
            local_epsilon=local_epsilon, reports=reports, bound=str(random.choice(["clones", "strong-clones"]))
        )
        start = time.process_time()
        curve.epsilon(delta)
        spans.append(time.process_time() - start)
        lower, upper = curve.epsilon_bracket(delta)
        if upper - lower > 1e-12:
            worst = max(worst, upper / lower - 1)
    print(
        f"\n{count} random points (n ≤ 10¹², 10⁻³ ≤ ε₀ ≤ 20, 10⁻³⁰ ≤ δ ≤ 10⁻²): "
        f"largest excess ≤ {worst:.1e} (must ≤ 1e-6), "
        f"median {1e3 * statistics.median(spans):.2f} ms, slowest {1e3 * max(spans):.1f} ms"
    )


if __name__ == "__main__":
    queries()
    random_points()
    profiles()
    other_questions()
    imports()
    memory()
    composition()
    renyi()
    blankets()
    frequency()
    heavy_hitters()
    choices()
    training()
    collection()
    overload()
    against_the_paper()
    print(f"\npeak memory of this run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
