"""How often intervals hold the truth: exactly for k-ary response, by simulation for every mechanism.

Run it with `python -m benchmarks.coverage`; it takes some ten minutes. The table is in docs/theory/frequency.md.
"""

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import shoal
from shoal.estimation.interval import fewest, holders, most
from shoal.mechanisms import Categorical, kinds

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

__all__ = ["drawn", "exact", "simulated"]

Floats = NDArray[np.float64]

_PEOPLE = (1, 2, 3, 10, 30, 100, 300, 1000, 3000, 10**4, 10**5, 10**6)
_KINDS = (*product((2, 10, 100, 1000), (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)),)
_HOLDERS = 40
_CONFIDENCES = (0.5, 0.95, 0.99, 0.9999)
_SIZES = tuple(10**power for power in range(7))
_PARTS = (0.0, 0.02, 0.5, 1.0)
_REPORTS, _DRAWS = 10**6, 50_000
_SHAPES: dict[str, tuple[dict[str, int], ...]] = {
    "hadamard-response": ({"blocks": 1}, {"blocks": 4}, {"blocks": 8}),
    "recursive-hadamard-response": ({"blocks": 1}, {"blocks": 4}, {"blocks": 8}),
    "projective-geometry-response": (
        {"order": 3, "dimension": 3, "blocks": 1},
        {"order": 2, "dimension": 3, "blocks": 2},
        {"order": 2, "dimension": 3, "blocks": 6},
    ),
}


def _masses(people: int, total: int, high: float, low: float) -> tuple[int, Floats]:
    """Return the distribution of Bin(m, p) + Bin(n − m, q) in a window of 7.5 deviations of each and 40 more."""
    starts, parts = [], []
    for count, rate in ((people, high), (total - people, low)):
        reach = 7.5 * math.sqrt(count * rate * (1 - rate)) + 40
        first, last = max(0, math.floor(count * rate - reach)), min(count, math.ceil(count * rate + reach))
        starts.append(first)
        parts.append(stats.binom.pmf(np.arange(first, last + 1), count, rate))
    size = 1 << (len(parts[0]) + len(parts[1])).bit_length()
    found = np.fft.irfft(np.fft.rfft(parts[0], size) * np.fft.rfft(parts[1], size), size)
    return sum(starts), found[: len(parts[0]) + len(parts[1]) - 1]


def _old(counts: Floats, people: int, total: int, rates: tuple[float, float], normal: float) -> NDArray[np.bool_]:
    """Return where the interval by the normal approximation holds the truth."""
    high, low = rates
    scale, share = high - low, people / total
    near = np.clip((counts / total - low) / scale, 0, 1)
    level, slope = low * (1 - low) / scale**2, (1 - high - low) / scale
    return np.asarray((near - share) ** 2 <= normal**2 * max(level + slope * share, 0) / total)


def exact() -> None:
    """Print the least coverage of k-ary response over all settings and many numbers of holders, before and now."""
    print("Least exact coverage of k-ary response, k = 2 to 1000, ε₀ = 1 to 12")
    print(f"{'n':>9} {'normal, 95 %':>13}" + "".join(f" {f'{100 * each:g} %':>9}" for each in _CONFIDENCES))
    for total in _PEOPLE:
        least, before = dict.fromkeys(_CONFIDENCES, 1.0), 1.0
        chosen = np.unique(np.concatenate(([0], np.geomspace(1, total, _HOLDERS), total - np.geomspace(1, total, 9))))
        for (categories, local_epsilon), people in product(_KINDS, np.unique(np.rint(chosen).astype(int)).tolist()):
            moments = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon).moments
            rates = moments.own[0], moments.same[0]
            start, masses = _masses(people, total, *rates)
            counts = np.arange(start, start + len(masses), dtype=np.float64)
            before = min(before, float(masses[_old(counts, people, total, rates, 1.959964)].sum()))
            for each in _CONFIDENCES:
                level, reports = (1 - each) / 2, np.full(len(counts), float(total))
                low, high = (limit(counts, reports, *rates, level) for limit in (fewest, most))
                least[each] = min(least[each], float(masses[(low <= people) & (people <= high)].sum()))
        print(f"{total:>9,} {before:>13.4f}" + "".join(f" {each:>9.5f}" for each in least.values()), flush=True)


def _made(name: str, local_epsilon: float) -> list[Categorical]:
    shapes = _SHAPES.get(name, ({},))
    return [MECHANISMS[name](categories=12, local_epsilon=local_epsilon, **shape) for shape in shapes]


def _drawn(made: Categorical, total: int, inside: int, people: int, rng: np.random.Generator) -> float:
    """Return the coverage of one category, from draws of how many reports support it and how many are in its block."""
    moments, support, block = made.moments, np.zeros(_DRAWS), np.zeros(_DRAWS)
    groups = (people, moments.own), (inside - people, moments.same), (total - inside, moments.other)
    for count, (supports, reaches) in groups:
        reached = rng.binomial(count, min(reaches, 1.0), _DRAWS)
        block += reached
        support += rng.binomial(reached, min(supports / reaches, 1.0))
    low, high = holders(support, block if made._parted else None, total, moments, confidence=0.95)
    return float(np.mean((low <= people) & (people <= high)))


def drawn() -> None:
    """Print the least coverage over many numbers of people who hold a category and who share its block."""
    print(f"\nLeast coverage of 95 % intervals, {_DRAWS:,} draws for each of 48 kinds of people and ε₀")
    print(f"{'':>32}" + "".join(f" {total:>9,}" for total in _SIZES))
    rng = np.random.default_rng(1)
    for name in sorted(MECHANISMS):
        for place in range(len(_SHAPES.get(name, ({},)))):
            row = []
            for total in _SIZES:
                least = 1.0
                for local_epsilon, share, part in product((1.0, 4.0, 8.0, 12.0), (0.05, 0.4, 1.0), _PARTS):
                    made = _made(name, local_epsilon)[place]
                    inside = round(share * total)
                    people = round(part * inside)
                    least = min(least, _drawn(made, total, inside if made._parted else total, people, rng))
                row.append(least)
            blocks = getattr(made, "blocks", None)
            title = f"{name[:28]} {'' if blocks is None else blocks}"
            print(f"{title:>32}" + "".join(f" {each:>9.4f}" for each in row), flush=True)


def simulated() -> None:
    """Print the coverage of all intervals together, and of the category that is worst off, from values to intervals."""
    print("\nCoverage of 95 % intervals on simulated coins, all of 12 categories, one of them empty; ε₀ = 1, 4, 8;")
    print("and by how many standard deviations the worst category is away from 95 % of its runs")
    sizes = tuple(total for total in _SIZES if total <= 10**4)
    print(f"{'':>32}" + "".join(f" {total:>12,}" for total in sizes))
    for name, local_epsilon in product(sorted(MECHANISMS), (1.0, 4.0, 8.0)):
        for made in _made(name, local_epsilon):
            row = []
            for total in sizes:
                shares = 1 / np.arange(1, 13) ** 1.3 * (np.arange(12) != 4)
                people = np.floor(shares / shares.sum() * total).astype(int)
                people[0] += total - people.sum()
                values, truth = np.repeat(np.arange(12), people), people / total
                runs = min(max(_REPORTS // total, 100), 1000)
                held, coins = np.zeros(12), shoal.Simulation(seed=total)
                for _ in range(runs):
                    found = made.estimate(made.aggregate(made.randomize(values, simulation=coins)))
                    held += (found.lower <= truth) & (truth <= found.upper)
                worst = (held.min() - 0.95 * runs) / math.sqrt(runs * 0.95 * 0.05)
                row.append(f"{held.mean() / runs:.4f} {worst:+.1f}")
            blocks = getattr(made, "blocks", None)
            title = f"{name[:24]} {'' if blocks is None else blocks} ε₀={local_epsilon:g}"
            print(f"{title:>32}" + "".join(f" {each:>12}" for each in row), flush=True)


if __name__ == "__main__":
    exact()
    drawn()
    simulated()
