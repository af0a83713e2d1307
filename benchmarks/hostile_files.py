"""Certificates that were made to keep `shoal verify` busy: CPU time and memory until each of them is refused.

Run: python -m benchmarks.hostile_files [NAME …]
"""

import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from shoal.mechanisms.coins import logarithm_above
from shoal.proofs.certificate import Certificate
from shoal.proofs.claim import claim_from

__all__ = ["HOSTILE_FILES"]

_MANY = 399_999
"""Nodes, as many as a composition may have."""
_NO_SMOOTHING = 1e-308


def _certificate(
    claim: dict[str, Any], witness: dict[str, Any], *, epsilon: float = 0.1, bits: int = 160
) -> Certificate:
    return Certificate(
        claim=claim_from(claim), epsilon=epsilon, delta=1e-6, printed_epsilon=epsilon, proven_delta=1e-6,
        witness=witness, bits=bits,
    )  # fmt: skip


def _composed(
    points: int, *, nodes: int = 1001, step: float = 2.0**-12, far: Sequence[int] = (), kinds: int = 1
) -> dict[str, Any]:
    grid = [[1, points, list(far)] for _ in range(kinds)]
    return {"step": step, "grid": grid, "fineness": 0.008, "tilt": 1.0, "nodes": nodes}


def _rounds(claims: Iterable[dict[str, Any]], points: int, **witness: Any) -> Certificate:
    parts = [{"times": 1, "claim": claim} for claim in claims]
    return _certificate({"name": "rounds", "parts": parts}, _composed(points, kinds=len(parts), **witness))


def _alone(claim: dict[str, Any], fineness: float, *, epsilon: float = 0.1, bits: int = 160) -> Certificate:
    return _certificate(claim, {"fineness": fineness, "from": epsilon}, epsilon=epsilon, bits=bits)


def _run(
    steps: int, cells: int, inner: dict[str, Any], *, epochs: int = 1, sampling: str = "allocation",
    adjacency: str = "zero-out", epsilon: float = 0.1,
) -> Certificate:  # fmt: skip
    claim = {
        "name": "participation", "sampling": sampling, "steps": steps, "numerator": 1, "denominator": steps,
        "noise_multiplier": 1.0, "epochs": epochs, "adjacency": adjacency, "charged": 0.0,
    }  # fmt: skip
    directions = ("replace",) if adjacency == "replace" else ("remove", "add")
    witness = {"cells": cells, "reach": 8.0} | dict.fromkeys(directions, inner)
    return _certificate(claim, witness, epsilon=epsilon)


def _matrix(inputs: int, outputs: int, digits: int) -> dict[str, Any]:
    dice = random.Random(0)
    rows = [[dice.randrange(1 << (digits - 1), 1 << digits) for _ in range(outputs)] for _ in range(inputs)]
    shares = [[Fraction(weight, sum(row)) for weight in row] for row in rows]
    ratio = max(max(column) / min(column) for column in zip(*shares, strict=True))
    return {"name": "matrix", "reports": 50, "local_epsilon": logarithm_above(ratio), "weights": rows}


def _chains(index: int) -> dict[str, Any]:
    return {"name": "swap-chains", "reports": 300 + index, "local_epsilon": 0.5}


def _dummies(index: int) -> dict[str, Any]:
    return {"name": "dummies", "decay": (1 << 63) + index, "limit": 1 << 16}


def _laplace(index: int) -> dict[str, Any]:
    return {"name": "laplace", "reports": 10**6 + index, "local_epsilon": 2.0, "cells": 5000}


def _bits(index: int) -> dict[str, Any]:
    return {
        "name": "one-bit", "reports": 10**9 + index, "local_epsilon": 1.0, "fewest": 0, "most": 0, "total": 0
    }  # fmt: skip


def _clones(reports: int, local_epsilon: float) -> dict[str, Any]:
    return {
        "name": "clones", "reports": reports, "local_epsilon": local_epsilon, "local_delta": 0.0, "family": "clones"
    }  # fmt: skip


def _mix(index: int) -> dict[str, Any]:
    return {
        "name": "split-and-mix", "honest": 100, "messages": 64, "modulus": (1 << 63) - index, "decay": 1 << 63,
        "steps": 1 << 20,
    }  # fmt: skip


HOSTILE_FILES: dict[str, Callable[[], Certificate]] = {
    "many chains of swaps": lambda: _rounds(map(_chains, range(100)), 590),
    "many kinds, many nodes": lambda: _rounds(map(_dummies, range(600)), 1, nodes=_MANY, step=0.25),
    "points far apart": lambda: _run(
        1000, 2, _composed(10, nodes=_MANY, far=[1000 + 5001 * index for index in range(400)]), sampling="poisson"
    ),
    "a large table of long integers": lambda: _alone(_matrix(88, 88, 62), 1e-3),
    "a large table": lambda: _alone(_matrix(88, 88, 3), 1e-3),
    "a table at many points": lambda: _rounds([_matrix(40, 40, 3)], 60_000),
    "few cells, no smoothing": lambda: _run(50, 60, {"fineness": _NO_SMOOTHING}),
    "an allocation at many points": lambda: _run(
        100, 5000, _composed(60_000, nodes=_MANY), epochs=2, adjacency="replace"
    ),
    "many cells": lambda: _rounds(map(_laplace, range(600)), 1),
    "many bits": lambda: _rounds(map(_bits, range(600)), 100),
    "many sums that are split": lambda: _rounds(map(_mix, range(500)), 1),
    "a sum without smoothing": lambda: _alone(_laplace(0) | {"reports": 5}, _NO_SMOOTHING, bits=512),
    "balls too wide to tell a sign": lambda: _alone(_clones(10**15, 2.0**-59), 0.0, epsilon=0.0, bits=64),
    "a very large loss": lambda: _run(100, 200, {"fineness": 0.003}, epsilon=599.0),
}
"""By what keeps them busy: certificates of every size that `from_json` reads."""


def _peak_megabytes() -> float:
    """Return the largest resident memory of this process; `getrusage` would count that of its parent before exec."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def _measured(name: str) -> str:
    text = HOSTILE_FILES[name]().to_json()
    start = time.process_time()
    answer = Certificate.from_json(text).objection() or "proved"
    seconds, memory = time.process_time() - start, _peak_megabytes()
    return f"{name:32} {len(text):7,} characters {seconds:6.1f} s {math.ceil(memory):5,} MB  {answer:.60}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(_measured(sys.argv[1]), flush=True)
    else:
        for name in sys.argv[1:] or HOSTILE_FILES:  # each in a separate process, to measure its memory
            subprocess.run([sys.executable, "-m", "benchmarks.hostile_files", name], check=True)
