"""Time a search for heavy hitters by a million people, ε = 1, five rounds: `python -m benchmarks.heavy_hitters`."""

import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray

import shoal
from shoal.planning.heavy_hitters import compared

__all__ = ["heavy_hitters", "zipf_numbers"]

_PEOPLE, _STRINGS, _EXPONENT, _BITS = 10**6, 10**5, 1.05, 48
_MOST_SECONDS, _MOST_GIGABYTES, _LEAST_FOUND = 600, 4, 0.99


def zipf_numbers(people: int, *, seed: int) -> NDArray[np.uint64]:
    """Return one of 10⁵ random 48-bit strings for each person, the i-th with a probability in proportion to i^−1.05."""
    generator = np.random.default_rng(seed)
    strings = generator.integers(0, 1 << _BITS, _STRINGS, np.uint64)
    shares = np.arange(1, _STRINGS + 1) ** -_EXPONENT
    return strings[generator.choice(_STRINGS, people, p=shares / shares.sum())]


def heavy_hitters(seeds: int = 1) -> None:
    """Print what is found of what should be, with real coins, for a few numbers of covers."""
    print(f"\nHeavy hitters: {_PEOPLE:,} people, {_BITS}-bit strings, five rounds, ε = 1 in all, δ = 1e-6")
    print(
        f"{'covers':>7} {'order':>6} {'sd':>6} {'T':>6} {'found':>6} {'of expected':>12} {'must ≥':>7} {'false':>6} "
        f"{'false, at most':>14} {'longest list':>13} {'seconds':>8} {'must ≤':>7} {'peak GB':>8} {'must ≤':>7}"
    )
    for covers in (1.0, 0.2):
        for seed in range(1, seeds + 1):
            numbers = zipf_numbers(_PEOPLE, seed=seed)
            start = time.perf_counter()
            found = shoal.heavy_hitters(numbers, epsilon=1, bits=_BITS, covers=covers, code="numbers")
            seconds = time.perf_counter() - start
            truth, plan = compared(found, numbers), found.plan
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
            share = f"{truth['expected_found']}/{truth['expected']}"
            print(
                f"{covers:>7g} {plan.order:>6} {plan.error():>6.1f} {plan.threshold:>6.1f} {len(found.items):>6} "
                f"{share:>12} {_LEAST_FOUND:>7} {truth['false']:>6} {found.false_items:>14.3f} "
                f"{max(each.listed for each in found.rounds):>13,} {seconds:>8.1f} {_MOST_SECONDS:>7} {peak:>8.2f} "
                f"{_MOST_GIGABYTES:>7}"
            )


if __name__ == "__main__":
    heavy_hitters(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
