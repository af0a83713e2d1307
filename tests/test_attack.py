"""The attacker's success against every test that there is: brute force over small pairs of distributions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.attack import attack_bound, attack_success
from shoal.errors import ParameterError

_RATES = (0.0, 1e-9, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.9, 0.999)


class Pair:
    """Two distributions of few outcomes, with the exact δ(ε) of both directions, as a curve has it."""

    def __init__(self, first: list[int], second: list[int]) -> None:
        self.p = [Fraction(weight, sum(first)) for weight in first]
        self.q = [Fraction(weight, sum(second)) for weight in second]
        ratios = [max(a / b, b / a) if a and b else math.inf for a, b in zip(self.p, self.q, strict=True) if a or b]
        self.local_epsilon = math.nextafter(math.log(max(ratios)), math.inf) if max(ratios) < math.inf else math.inf

    def delta(self, epsilon: float) -> float:
        factor = Fraction(math.nextafter(math.exp(epsilon), 0))
        both = ((self.p, self.q), (self.q, self.p))
        exact = max(sum(max(a - factor * b, Fraction(0)) for a, b in zip(x, y, strict=True)) for x, y in both)
        return math.nextafter(float(exact), math.inf)

    def epsilon(self, delta: float) -> float:
        if self.delta(700.0) > delta:
            return math.inf
        low, high = 0.0, 700.0
        while self.delta(low) > delta and high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def power(self, rate: float) -> Fraction:
        """Return the success of the best test of either direction, randomized tests included, by Neyman and Pearson."""
        best = Fraction(0)
        for hit, alarm in ((self.p, self.q), (self.q, self.p)):
            left, success = Fraction(rate), Fraction(0)
            order = sorted(zip(hit, alarm, strict=True), key=lambda each: each[0] / each[1] if each[1] else math.inf)
            for a, b in reversed(order):
                share = Fraction(1) if b <= left else left / b
                success, left = success + share * a, left - share * b
            best = max(best, success)
        return best


def _every_test(pair: Pair, rate: float) -> Fraction:
    """Return the success of the best set of outcomes, all of them tried."""
    outcomes = range(len(pair.p))
    best = Fraction(0)
    for size in range(len(pair.p) + 1):
        for chosen in itertools.combinations(outcomes, size):
            for hit, alarm in ((pair.p, pair.q), (pair.q, pair.p)):
                if sum(alarm[one] for one in chosen) <= Fraction(rate):
                    best = max(best, Fraction(sum(hit[one] for one in chosen)))
    return best


_weights = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=6).filter(
    lambda pairs: any(a for a, _ in pairs) and any(b for _, b in pairs)
)


@pytest.mark.slow
@given(_weights, st.sampled_from(_RATES))
def test_no_attack_does_better_than_the_bound(weights: list[tuple[int, int]], rate: float) -> None:
    pair = Pair([a for a, _ in weights], [b for _, b in weights])
    bound = attack_success(pair, rate)
    assert _every_test(pair, rate) <= pair.power(rate) <= Fraction(bound)
    assert bound <= 1


@pytest.mark.parametrize("rate", _RATES[1:])
@pytest.mark.parametrize("weights", [(9, 3, 1), (3, 1), (20, 9, 5, 2, 1, 1)])
def test_the_bound_is_reached_by_a_pair_whose_directions_are_alike(weights: tuple[int, ...], rate: float) -> None:
    """The hockey sticks of both directions are the same curve then, and it tells all about the best tests."""
    pair = Pair(list(weights), list(reversed(weights)))
    assert attack_success(pair, rate) == pytest.approx(float(pair.power(rate)), rel=1e-4)


def test_what_one_guarantee_says_is_reached_by_randomized_response() -> None:
    """Of (ε, δ) alone nothing better can be said: the pair that reveals with probability δ reaches it."""
    epsilon, delta = math.log(3), 0.125
    first = [Fraction(1, 8), Fraction(7, 8) * Fraction(3, 4), Fraction(7, 8) * Fraction(1, 4), Fraction(0)]
    weights = [int(32 * part) for part in first]
    pair = Pair(weights, list(reversed(weights)))
    for rate in (0.01, 0.1, 0.2, 0.3, 0.6, 0.9):
        assert Fraction(attack_bound(epsilon, delta, rate)) >= pair.power(rate)
    assert attack_bound(epsilon, delta, 0.1) == pytest.approx(float(pair.power(0.1)), rel=1e-12)
    assert attack_bound(epsilon, delta, 0.5) == pytest.approx(float(pair.power(0.5)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "curve",
    [
        shoal.amplify(local_epsilon=1, reports=1000),
        shoal.amplify(local_epsilon=6, reports=50),
        shoal.amplify(local_epsilon=1, local_delta=1e-6, reports=1000),
        shoal.amplify(shoal.RandomizedResponse(categories=4, local_epsilon=2), reports=2000),
    ],
    ids=lambda curve: curve.bound,
)
def test_success_is_monotone_and_never_below_guessing(curve: shoal.PrivacyCurve) -> None:
    rates = [0.0, *np.geomspace(1e-6, 0.999, 12)]
    values = [curve.attack_success(rate) for rate in rates]
    assert all(before <= after * (1 + 1e-5) for before, after in itertools.pairwise(values))
    assert all(rate <= value <= 1 for rate, value in zip(rates, values, strict=True))
    for rate, value in zip(rates, values, strict=True):
        for epsilon in (0.0, 0.1, curve.epsilon(1e-6), curve.local_epsilon):
            assert value <= attack_bound(epsilon, curve.delta(epsilon), rate) * (1 + 1e-5)


def test_more_people_hide_better() -> None:
    values = [shoal.amplify(local_epsilon=2, reports=10**power).attack_success() for power in range(1, 8)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.0101


def test_without_false_alarms_only_delta_helps() -> None:
    assert shoal.amplify(local_epsilon=1, reports=100).attack_success(0) <= 1e-299
    assert shoal.amplify(local_epsilon=1, local_delta=1e-3, reports=100).attack_success(0) >= 1e-3


@pytest.mark.slow
def test_gaussian_noise_has_no_local_epsilon_and_an_answer() -> None:
    curve = shoal.amplify(shoal.Gaussian(sigma=2), reports=1000)
    assert 0.01 < curve.attack_success(0.01) < 0.02


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(shoal.ParameterError, match="false_alarms must be"):
        shoal.amplify(local_epsilon=1, reports=100).attack_success(rate)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, -0.5), (1, 1.5), (math.nan, 0), (1, math.nan)])
def test_what_is_no_guarantee_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ParameterError, match="epsilon must be at least 0"):
        attack_bound(epsilon, delta, 0.01)


def test_a_huge_epsilon_says_nothing() -> None:
    assert attack_bound(1000, 0, 0.01) == attack_bound(math.inf, 0, 0.01) == 1


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 600.0, 700.0, 709.0, 750.0, 1e6, math.inf])
@pytest.mark.parametrize("alarms", [5e-324, 2e-323, 1e-310, 1e-306, 1e-300, 0.01])
def test_the_bound_of_one_guarantee_is_not_below_it_where_doubles_end(epsilon: float, alarms: float) -> None:
    growth = Fraction(math.exp(min(epsilon, 709.0))) * (1 - Fraction(1, 2**50))  # at most e^ε
    assert attack_bound(epsilon, 0.0, alarms) >= min(growth * Fraction(alarms), Fraction(1, 2))
    assert attack_bound(epsilon, 0.0, 0.0) == 0
