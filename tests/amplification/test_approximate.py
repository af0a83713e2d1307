"""Randomizers that are only (ε₀, δ₀)-DP, bounds and what they reach, against a list of everything that can happen."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shoal
from shoal.amplification.clones import ApproximateProfile
from shoal.amplification.lower_bounds import RevealingProfile, lower_bound
from tests.oracles import enumeration


def profile(reports: int, local_epsilon: float, local_delta: float, bound: str = "strong-clones") -> ApproximateProfile:
    """Return the profile of any such randomizer."""
    curve = shoal.amplify(local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, bound=bound)
    assert isinstance(curve.profile, ApproximateProfile)
    return curve.profile


def test_the_example_of_the_page() -> None:
    found = profile(10**4, 1.0, 1e-12)
    assert found.through == pytest.approx(0.0695, abs=2e-4)
    assert found.delta(0.9) == pytest.approx(2.40e-9, rel=2e-3)  # the least total up to there is 1.53e-8
    assert found.delta(1.0) == 1e-12 == found.delta(3.0)


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["strong-clones", "clones"])
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "local_delta"),
    [(10**4, 1.0, 1e-12), (50, 0.3, 1e-5), (10**6, 3.0, 1e-15), (1, 1.0, 1e-3)],
)
def test_it_is_below_every_chord_and_convex(reports: int, local_epsilon: float, local_delta: float, bound: str) -> None:
    found = profile(reports, local_epsilon, local_delta, bound)
    points = np.linspace(0, local_epsilon, 60)
    values = np.array([found.delta(float(point)) for point in points])
    assert np.all(np.diff(values) <= 1e-12 * values[:-1])
    growth, end = np.exp(points), math.exp(local_epsilon)
    slopes = np.diff(values) / np.diff(growth)
    assert np.all(np.diff(slopes) >= -1e-6 * np.abs(slopes[:-1]))
    for start, point in product(range(0, 59, 3), range(59)):
        if start <= point:
            total = found.pair.delta(float(points[start])) + found.pair.charge(float(points[start])) * local_delta
            share = (end - growth[point]) / (end - growth[start])
            assert values[point] <= (share * total + (1 - share) * local_delta) * (1 + 1e-6)


def test_epsilon_is_where_delta_is_reached() -> None:
    found = profile(10**4, 1.0, 1e-12)
    for delta in (1e-3, 1e-6, 1.6e-8, 1.5e-8, 1e-9, 1e-11, 1.0001e-12):
        epsilon = found.epsilon(delta)
        assert found.delta(epsilon) <= delta < found.delta(epsilon * (1 - 1e-6))
        assert epsilon < 1
    assert found.epsilon(1e-12) == 1.0
    with pytest.raises(shoal.errors.UnreachableError, match="local_delta itself"):
        found.epsilon(0.9e-12)
    assert profile(10, 0.0, 1e-6).epsilon(1e-6) == 0.0


@pytest.mark.slow
def test_truth_of_random_randomizers_is_below_the_line() -> None:
    rng = np.random.default_rng(151)
    on_the_line = 0
    for _ in range(150):
        local_epsilon, reports = float(rng.uniform(0.2, 2.0)), int(rng.integers(1, 4))
        matrix = enumeration.random_approximate(rng, 3, 4, local_epsilon, float(10 ** rng.uniform(-4, -1)))
        local_delta = enumeration.worst_local_delta(matrix, local_epsilon) * (1 + 1e-12)
        if not 0 < local_delta < 0.5:
            continue
        found = profile(reports, local_epsilon, local_delta)
        for share in (0.0, 0.3, 0.6, 0.9, 0.97, 1.0):
            epsilon = share * local_epsilon
            on_the_line += epsilon > found.through
            for others in product(range(3), repeat=reports - 1):
                one, two = (enumeration.shuffled_distribution(matrix, (x, *others)) for x in (0, 1))
                truth = max(enumeration.hockey_stick(*pair, epsilon) for pair in ((one, two), (two, one)))
                assert truth <= found.delta(epsilon) * (1 + 1e-12) + 1e-15
    assert on_the_line > 100


@pytest.mark.slow
def test_rounds_are_those_of_the_line() -> None:
    rounds = shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10**4).repeated(10)
    assert rounds.epsilon(1e-6) < 0.2955 and rounds.epsilon(1e-9) < 1.0339  # 0.29577 and 1.03391 with the least total


def _reached(odds: int, revealed: Fraction, values: tuple[int, ...], growth: Fraction) -> Fraction:
    """Return D of binary randomized response that reveals all now and then: person 0 holds 0 or 1, others `values`."""
    keep = Fraction(odds, odds + 1)
    worlds = []
    for first in (0, 1):
        seen: dict[tuple[tuple[int, int, int], ...], Fraction] = {}
        for choice in product((0, 1, 2), repeat=len(values) + 1):
            weight, reports = Fraction(1), []
            for person, (value, report) in enumerate(zip((first, *values), choice, strict=True)):
                if report == 2:
                    weight *= revealed
                    reports.append((2, person, value))
                else:
                    weight *= (1 - revealed) * (keep if report == value else 1 - keep)
                    reports.append((report, -1, -1))
            key = tuple(sorted(reports))
            seen[key] = seen.get(key, Fraction()) + weight
        worlds.append(seen)
    one, other = worlds
    return sum((max(weight - growth * other.get(key, 0), Fraction()) for key, weight in one.items()), Fraction())


@pytest.mark.slow
@pytest.mark.parametrize("revealed", [Fraction(1, 1000), Fraction(1, 20)])
@pytest.mark.parametrize("reports", [1, 3, 5])
def test_a_randomizer_reaches_it(revealed: Fraction, reports: int) -> None:
    """It is (ε₀, δ₀)-DP alone, and the lower limit of one-bit reports is no more than what it reaches."""
    assert _reached(3, revealed, (), Fraction(3)) == revealed
    pure = lower_bound(shoal.RandomizedResponse(categories=2, local_epsilon=math.log(3)), reports=reports).profile
    limit = RevealingProfile(pure, float(revealed))
    for growth in (Fraction(1), Fraction(6, 5), Fraction(2), Fraction(3), Fraction(4)):
        datasets = product((0, 1), repeat=reports - 1)
        truth = max(_reached(3, revealed, others, growth) for others in datasets)
        assert (
            revealed * (1 - Fraction(1, 10**12)) <= limit.delta(math.log(growth)) <= truth * (1 + Fraction(1, 10**12))
        )


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 10, 10**4, 10**9])
@pytest.mark.parametrize("bound", ["strong-clones", "clones", "tightest"])
def test_it_is_between_that_of_pure_randomizers_and_the_bound(reports: int, bound: str) -> None:
    pure = lower_bound(local_epsilon=1.0, reports=reports)
    curve = shoal.amplify(local_epsilon=1.0, local_delta=1e-9, reports=reports, bound=bound)
    assert curve.lower is not None
    assert "with probability 1e-09 all is revealed" in curve.lower.description
    for delta in (2e-9, 1e-6, 1e-3):
        assert pure.epsilon(delta) <= curve.lower.epsilon(delta) <= curve.epsilon(delta)
    for epsilon in (0.0, 0.05, 0.7, 1.0, 3.0):
        assert max(1e-9, pure.delta(epsilon)) <= curve.lower.delta(epsilon) <= curve.delta(epsilon)
    assert curve.lower.epsilon(1e-9) == curve.lower.epsilon(0.0) == pure.epsilon(0.0)
    reached = curve.lower.epsilon(1e-6)
    assert curve.lower.delta(reached) >= 1e-6 * (1 - 1e-6)


def test_a_delta_goes_with_a_local_epsilon_alone() -> None:
    with pytest.raises(shoal.ParameterError, match=r"local_delta=0\.1 goes with local_epsilon alone"):
        lower_bound(local_epsilon=1, local_delta=0.1, reports=5, categories=3)
