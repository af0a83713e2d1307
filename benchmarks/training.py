"""How fast and how good noisy training is: in turns with Opacus and plain torch, as ratios of one run."""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import median_seconds
from shoal import sgd
from shoal.sgd.gradient_noise import Noise, new_key
from shoal.sgd.logistic import PrivateLogisticRegression
from shoal.sgd.run import Run

__all__ = ["ALONE", "ENVIRONMENT", "ROOT", "training"]

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-bench"
_SCRIPT = Path(__file__).with_name("opacus_competitor.py")
_NAMES = {
    "shoal": "shoal",
    "torch": "plain torch, not private",
    "ghost": "Opacus, ghost clipping",
    "hooks": "Opacus, hooks",
}
_MUSTS = {"network": {"torch": 0.5, "ghost": 1.0, "hooks": 10.0}, "softmax": {"hooks": 5.0}}
ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_TOP_PAD_": str(1 << 26)}
"""Freed memory is kept, for all alike: else the hooks, which form every gradient, wait most of the time for pages."""
_MANY = 10**6
_DELTA = 1e-6
_RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
_LENGTH = 2.5568
"""Of the true weights: the best classifier there is, which knows them, is right on 0.814 of all."""

Floats = NDArray[np.float64]


def _rates(kind: str) -> dict[str, list[float]]:
    """Return the examples a CPU second of every trainer, one number a turn, from a process with all of them."""
    beside = (ENVIRONMENT / "ready").exists()
    python = str(ENVIRONMENT / "bin" / "python") if beside else sys.executable
    process = subprocess.run(
        [python, "-P", "-W", "ignore", str(_SCRIPT), kind],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | ALONE | _KEPT | {"PYTHONPATH": str(ROOT / "src")},
    )
    found: dict[str, list[float]] = json.loads(process.stdout.splitlines()[-1])
    return found


def throughput(kind: str) -> None:
    """Print the examples a CPU second of every trainer, and shoal's over theirs, each a median over turns."""
    found = _rates(kind)
    for name, called in _NAMES.items():
        if name not in found:
            print(f"{called:<26} is not here to compare with; `make .venv-bench/ready` gets it")
            continue
        ratios = [ours / theirs for ours, theirs in zip(found["shoal"], found[name], strict=True)]
        least, middle, most = min(ratios), statistics.median(ratios), max(ratios)
        must = _MUSTS[kind].get(name)
        beside = "" if name == "shoal" else f"{middle:>9.2f} {f'{least:.2f}…{most:.2f}':>16} {must or '':>7}"
        print(f"{called:<26} {statistics.median(found[name]):>14,.0f} {beside}")


def throughputs() -> None:
    """Time the network and the regression."""
    titles = {
        "network": "784-128-10 network, batch 256, SGD; shoal's is in torch, with cryptographic noise",
        "softmax": "Softmax regression, 64 features, 10 classes, batch 256; shoal's is in numpy, all of `fit`",
    }
    for kind, title in titles.items():
        print(f"\n{title}; one thread, taking turns")
        print(f"{'':<26} {'examples/CPU s':>14} {'shoal is':>9} {'in every turn':>16} {'must ≥':>7}")
        throughput(kind)


def generators() -> None:
    """Time a permutation and a million normal numbers, from keys of the operating system."""
    run, key = Run(examples=_MANY, batch_size=256), new_key()
    print("\nWhat cryptographic keys cost, one core (milliseconds for a million)")
    permuted = median_seconds(lambda: run.sampler.batches(run, key=key, epoch=0), 9)
    plain = median_seconds(lambda: np.random.default_rng().permutation(_MANY), 9)
    print(f"permutation: shoal {1e3 * permuted:.0f} (must ≤ 500), numpy's PCG64 {1e3 * plain:.0f}")
    noise, generator = Noise(key=new_key()), np.random.default_rng()
    actions: dict[str, Callable[[], object]] = {
        "shoal": lambda: noise.normals(_MANY, epoch=0, step=0),
        "numpy's PCG64": lambda: generator.standard_normal(_MANY),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(1)
        actions["torch.randn in float64"] = lambda: torch.randn(_MANY, dtype=torch.float64)
        actions["in float32"] = lambda: torch.randn(_MANY)
    spans: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(15):
        for name, action in actions.items():
            spans[name].append(median_seconds(action, 1))
    print("normal numbers: " + ", ".join(f"{name} {1e3 * statistics.median(each):.1f}" for name, each in spans.items()))


def _draw(generator: np.random.Generator, weights: Floats, count: int) -> tuple[Floats, NDArray[np.int64]]:
    features = generator.standard_normal((count, len(weights)))
    probabilities = 1 / (1 + np.exp(-(features @ weights)))
    return features, (generator.random(count) < probabilities).astype(np.int64)


def _not_private(features: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the weights after one epoch of SGD with batches of 64, a column for every learning rate."""
    weights = np.zeros((features.shape[1], len(_RATES)))
    rates = np.array(_RATES) / 64
    for start in range(0, len(labels), 64):
        batch = features[start : start + 64]
        errors = 1 / (1 + np.exp(-(batch @ weights))) - labels[start : start + 64, None]
        weights -= batch.T @ errors * rates
    return weights


def _accuracy(weights: Floats, intercepts: Floats, data: tuple[Floats, NDArray[np.int64]]) -> Floats:
    """Return the part that is right, for every column of weights."""
    features, labels = data
    right: Floats = ((features @ weights + intercepts > 0) == labels[:, None]).mean(axis=0)
    return right


def _utility(seed: int) -> tuple[sgd.Guarantee, dict[str, tuple[float, float]]]:
    """Return the guarantee, and for each way of training the rate chosen on held-out data and its test accuracy."""
    generator = np.random.default_rng(seed)
    direction = generator.standard_normal(20)
    truth = _LENGTH * direction / np.linalg.norm(direction)
    data, held_out, test = (_draw(generator, truth, count) for count in (_MANY, 20_000, 100_000))
    models = [
        PrivateLogisticRegression(
            noise_multiplier=2, noise="example", batch_size=64, learning_rate=rate, delta=_DELTA
        ).fit(*data)
        for rate in _RATES
    ]
    trained: dict[str, tuple[Floats, Floats]] = {
        "private": (np.hstack([model.coef_.T for model in models]), np.hstack([model.intercept_ for model in models])),
        "not private": (_not_private(*data), np.zeros(len(_RATES))),
    }
    found = {"": (math.nan, float(_accuracy(truth[:, None], np.zeros(1), test)[0]))}
    for name, (weights, intercepts) in trained.items():
        best = int(np.argmax(_accuracy(weights, intercepts, held_out)))
        found[name] = _RATES[best], float(_accuracy(weights, intercepts, test)[best])
    guarantee = models[0].guarantee_
    assert guarantee is not None
    return guarantee, found


def utility(seeds: int = 5) -> None:
    """Train logistic regressions on a million examples each, and compare accuracies with those without noise."""
    runs = [_utility(seed) for seed in range(1, seeds + 1)]
    guarantee, found = runs[0][0], [each for _, each in runs]
    print(
        f"\nLogistic regression, n = 10⁶, d = 20, batch 64, noise 2 an example, one epoch: ε = {guarantee.epsilon:.4f}"
        f" (must ≤ 0.35) at δ = {_DELTA:g} by {guarantee.bound}, the choice of the rate not counted"
    )
    print(f"{'':<28} {'accuracy':>9} {'least':>7} {'must ≥':>7}   learning rates, by 20,000 held-out examples")
    names = {"private": "shoal", "not private": "not private", "": "the truth itself"}
    for name, called in names.items():
        scores = [each[name][1] for each in found]
        rates = ", ".join(f"{each[name][0]:g}" for each in found) if name else ""
        must = 0.8 if name == "private" else ""
        print(f"{called:<28} {statistics.fmean(scores):>9.4f} {min(scores):>7.4f} {must:>7}   {rates}")


def queries() -> None:
    """Time the guarantee of runs over 10⁸ examples."""
    settings: list[dict[str, Any]] = [
        {"noise_multiplier": 2, "delta": 1.6e-9},
        {"noise_multiplier": 2, "epochs": 10, "delta": 1.6e-9},
        {"noise_multiplier": 4, "epochs": 50},
        {"noise_multiplier": 1, "batch_size": 256},
        {"noise_multiplier": 64, "batch_size": 16, "epochs": 3},
        {"noise_multiplier": 2, "batch_size": 64, "noise": "example", "releases": "sums"},
        {"noise_multiplier": 2, "batch_size": 64, "noise": "example", "adjacency": "zero-out", "epochs": 10},
    ]
    print("\nThe guarantee of a run over 10⁸ examples, one core (must ≤ 1 s)")
    print(f"{'ε':>9} {'of one report':>14} {'s':>6}  {'bound':<24} run")
    for setting in settings:
        delta, fields = setting.get("delta", _DELTA), {name: setting[name] for name in setting if name != "delta"}
        start = time.process_time()
        found = sgd.guarantee(Run(examples=10**8, **fields), delta=delta)
        seconds = time.process_time() - start
        told = ", ".join(f"{name} = {value}" for name, value in setting.items())
        print(f"{found.epsilon:>9.4g} {found.local_epsilon:>14.4g} {seconds:>6.2f}  {found.bound:<24} {told}")


def training() -> None:
    """Print everything about training."""
    start = time.perf_counter()
    throughputs()
    generators()
    utility()
    queries()
    print(f"training: {time.perf_counter() - start:.0f} s")
