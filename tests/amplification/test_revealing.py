"""What randomizers that are only (ε₀, δ₀)-DP reach, against a list of everything that can happen."""

import math
from fractions import Fraction
from itertools import product

import pytest

import shoal
from shoal.amplification.lower_bounds import RevealingProfile, lower_bound


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
