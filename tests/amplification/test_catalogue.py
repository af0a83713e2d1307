"""Every proven bound of the catalogue above what real inputs reach, and in the order that their proofs say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import shoal
from shoal.amplification.amplify import BOUNDS
from shoal.amplification.catalogue import CATALOGUE, Entry, entry
from shoal.amplification.setting import Setting
from shoal.cli import main
from shoal.randomizers import Randomizer

_SLOW = {"girgis", "koskela"}
_ORDER = (  # the first is never above the second
    ("strong-clones", "clones"),
    ("clones", "clones-sharp-form"),
    ("clones", "clones-closed-form"),
    ("clones", "koskela"),
    ("strong-clones", "strong-clones-sharp-form"),
    ("strong-clones-sharp-form", "clones-sharp-form"),
    ("strong-clones", "girgis"),
    ("strong-clones", "erlingsson"),
    ("blanket", "strong-clones"),
    ("blanket", "decomposition"),
    ("blanket", "blanket-bennett"),
    ("blanket", "blanket-hoeffding"),
    ("blanket", "cheu"),
    ("decomposition", "decomposition-closed-form"),
)


def points() -> Iterator[tuple[Randomizer | None, int, float, float]]:
    """Yield 500 settings: 125 on a grid, the others drawn once and for all."""
    for reports, local_epsilon, delta in product(
        (1, 30, 1000, 10**5, 10**8), (0.01, 0.3, 1.0, 3.0, 9.0), (0.1, 1e-3, 1e-6, 1e-12, 1e-50)
    ):
        yield None, reports, local_epsilon, delta
    random = np.random.default_rng(2012)
    for place in range(375):
        reports, local_epsilon = int(10 ** random.uniform(0, 8)), float(10 ** random.uniform(-2, 1))
        delta = float(10 ** random.uniform(-15, -0.5))
        if place < 205:
            yield None, reports, local_epsilon, delta
        elif place < 355:
            size = (2, 3, 10, 100)[place % 4]
            yield shoal.RandomizedResponse(categories=size, local_epsilon=local_epsilon), reports, 0.0, delta
        else:
            kinds = shoal.HadamardResponse, shoal.Rappor, shoal.UnaryEncoding, shoal.SubsetSelection
            yield kinds[place % 4](categories=12, local_epsilon=local_epsilon), reports, 0.0, delta
    # Noise, sparsely: it takes longer.


def asked(row: Entry, setting: Setting, delta: float) -> float | None:
    """Return ε(δ) by this bound, or nothing out of its range."""
    try:
        return float(row.make(setting).epsilon(delta))
    except (shoal.RangeError, shoal.UnreachableError):
        return None


@cache
def reached(randomizer: Randomizer | None, reports: int, local_epsilon: float, delta: float) -> float:
    """Return what real inputs reach."""
    if randomizer is not None:
        return shoal.lower_bound(randomizer, reports=reports).epsilon(delta)  # type: ignore[arg-type]
    return shoal.lower_bound(local_epsilon=local_epsilon, reports=reports).epsilon(delta)


def checked(randomizer: Randomizer | None, reports: int, local_epsilon: float, delta: float, *, slow: bool) -> set[str]:
    """Check limits and order at one point, and return the bounds that said something."""
    given = None if randomizer is not None else local_epsilon
    setting = Setting.checked(randomizer, reports=reports, local_epsilon=given, local_delta=0.0)
    rows = [row for row in CATALOGUE if row.proven and row.applies(setting) and (slow or row.name not in _SLOW)]
    found = {row.name: asked(row, setting, delta) for row in rows}
    told = {name: epsilon for name, epsilon in found.items() if epsilon is not None}
    lower = reached(randomizer, reports, local_epsilon, delta)
    for name, epsilon in told.items():
        assert lower <= epsilon <= setting.local_epsilon, (name, setting, delta)
    for smaller, larger in _ORDER:
        if smaller in told and larger in told:
            assert told[smaller] <= told[larger] * (1 + 1e-6) + 1e-12, (smaller, larger, setting, delta)
    return set(told)


def test_bounds_are_in_order_at_500_points() -> None:
    everything = list(points())
    assert len(everything) == 500
    told: set[str] = set()
    for place, point in enumerate(everything):
        slow = place % 29 == 0 and point[1] <= 10**6
        told |= checked(*point, slow=slow)
    assert told == {row.name for row in CATALOGUE if row.proven}


@pytest.mark.parametrize(
    ("randomizer", "reports", "delta"),
    [
        (shoal.Laplace(local_epsilon=0.5), 10**5, 1e-6),
        (shoal.Laplace(local_epsilon=4.0), 10**6, 1e-10),
        (shoal.Gaussian(deviation=20.0), 100, 1e-4),
    ],
    ids=str,
)
def test_bounds_for_noise_are_in_order(randomizer: Randomizer, reports: int, delta: float) -> None:
    assert "blanket" in checked(randomizer, reports, 0.0, delta, slow=False)


@pytest.mark.parametrize("name", [row.name for row in CATALOGUE if not row.proven])
def test_what_is_not_proven_is_labelled(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    curves = {curve.bound: curve for curve in shoal.compare(local_epsilon=1, reports=10**6, delta=1e-6)}
    assert isinstance(curves[name], shoal.Comparison)
    assert not isinstance(curves[name], shoal.PrivacyCurve)
    assert not curves[name].proven
    assert curves[name].to_dict(delta=1e-6)["proven"] is False
    assert "no guarantee" in repr(curves[name])
    with pytest.raises(shoal.ParameterError, match="comparison only"):
        shoal.amplify(local_epsilon=1, reports=10**6, bound=name)
    main(["explain", name])
    assert "comparison only" in capsys.readouterr().out


def test_what_is_proven_is_not_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(BOUNDS) == {"tightest", *(row.name for row in CATALOGUE)}
    for curve in shoal.compare(shoal.RandomizedResponse(categories=2, local_epsilon=0.4), reports=10**5, delta=1e-6):
        assert isinstance(curve, shoal.PrivacyCurve) == curve.proven == entry(curve.bound).proven
    assert {row.name for row in CATALOGUE if not row.proven} == {"check-ins", "bassily"}
    main(["explain", "strong-clones"])
    assert "comparison only" not in capsys.readouterr().out
    with pytest.raises(shoal.ShoalError):
        entry("no-such-bound")


# Errata that are about the catalogue


def homogeneous_delta(categories: int, reports: int, local_epsilon: float, epsilon: float, *, third: bool) -> float:
    """Return δ of k-ary randomized response, victim at 0 or 1, all others at 2, or all others at 1; by enumeration.

    The reports are counted by what they tell: 0, 1 and, where others are on it, 2.
    """
    local, growth = math.exp(local_epsilon), math.exp(epsilon)
    unit = 1 / (local + categories - 1)
    home = 2 if third else 1
    law = [local * unit if symbol == home else unit for symbol in range(3)]
    rest = 1 - sum(law)
    assert rest == pytest.approx((categories - 3) * unit, abs=1e-12)
    first, second = np.meshgrid(np.arange(reports + 1), np.arange(reports + 1), indexing="ij")
    total = 0.0
    best = []
    for sign in (1, -1):
        total = 0.0
        for number in range(reports + 1):
            left = reports - first - second - number
            kept = left >= 0
            if categories == 3:
                kept &= left == 0
            a, b, c = first[kept], second[kept], left[kept]
            chances = (
                binom.pmf(number, reports, law[2])
                * binom.pmf(a, reports - number, law[0] / (1 - law[2]))
                * binom.pmf(b, reports - number - a, law[1] / (1 - law[2] - law[0]))
            )
            ones, twos = a * local * unit / law[0], a * unit / law[0]
            ones, twos = ones + b * unit / law[1], twos + b * local * unit / law[1]
            alike = number * unit / law[2] + c
            ones, twos = ones + alike, twos + alike
            if sign < 0:
                ones, twos = twos, ones
            total += float((chances * np.maximum(ones - growth * twos, 0)).sum())
        best.append(total / reports)
    return max(best)


def test_the_third_symbol_is_not_always_the_worst_place() -> None:
    local_epsilon, reports, found = 8.98318, 13, []
    for share in (0.9, 0.95, 0.99, 0.999):
        third, second = (
            homogeneous_delta(3, reports, local_epsilon, share * local_epsilon, third=third) for third in (True, False)
        )
        found.append(second / third)
        lower = shoal.lower_bound(shoal.RandomizedResponse(categories=3, local_epsilon=local_epsilon), reports=reports)
        assert lower.delta(share * local_epsilon) == pytest.approx(max(second, third), rel=1e-6)
    print(found)
    assert max(found) > 1
