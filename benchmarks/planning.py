"""The plan's first choice beside the best mechanism found by brute force, and how long a plan takes."""

import time

import shoal
from tests.oracles.every_design import best_design, every_design

__all__ = ["choices"]

_DELTA = 1e-6
_SETTINGS = (
    (16, 10_000, 0.1),
    (20, 100, 2.0),
    (300, 1_000, 0.03),
    (300, 10_000_000, 0.05),
)
"""Categories, reports and ε."""


def choices() -> None:
    """Print the error of the first choice over that of the best of all designs, each at its own largest ε₀."""
    start = time.perf_counter()
    print(f"\nThe plan's first choice against brute force over all designs, δ = {_DELTA:g}")
    print(
        f"{'k':>5} {'n':>9} {'ε':>5} {'first choice':>28} {'best':>28} {'designs':>8} {'error, ratio':>13} "
        f"{'must ≤':>7} {'plan, s':>8} {'all, s':>7}"
    )
    for categories, reports, epsilon in _SETTINGS:
        clock = [time.process_time()]
        chosen = shoal.plan(categories=categories, reports=reports, epsilon=epsilon, delta=_DELTA).best
        clock.append(time.process_time())
        best, least = best_design(categories=categories, reports=reports, epsilon=epsilon, delta=_DELTA)
        clock.append(time.process_time())
        designs = sum(1 for _ in every_design(categories))
        print(
            f"{categories:>5} {reports:>9.0e} {epsilon:>5g} {chosen.mechanism.name:>28} {best.name:>28} {designs:>8,} "
            f"{chosen.error / least:>13.4f} {1.05:>7} {clock[1] - clock[0]:>8.2f} {clock[2] - clock[1]:>7.1f}"
        )
    print(f"plans: {time.perf_counter() - start:.0f} s")
