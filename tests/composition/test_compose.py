"""Several rounds: between the two ends lies the exact composition, and all the ways to bound it are in order."""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_laplace_mechanism
from flint import arb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal
from shoal import (
    Gaussian,
    MatrixRandomizer,
    ParameterError,
    PrivacyCurve,
    RandomizedResponse,
    ShoalError,
    amplify,
    compose,
)
from shoal.amplification.blanket import BlanketProfile
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.errors import NoPairError
from tests.exhaustive import amount, representative
from tests.oracles import exact, products

Setting = tuple[int, float, exact.CloneProbability]
"""Reports, ε₀ and which clones."""
BOUNDS: dict[exact.CloneProbability, str] = {"clones": "clones", "strong": "strong-clones"}
METHODS = ("pld", "renyi", "advanced", "advanced-closed-form")
DELTAS = (0.3, 1e-2, 1e-4, 1e-6, 1e-10, 1e-20)


@cache
def curve_of(setting: Setting) -> PrivacyCurve:
    """Return the curve of one round."""
    reports, local_epsilon, clones = setting
    return amplify(local_epsilon=local_epsilon, reports=reports, bound=BOUNDS[clones])


@cache
def distribution_of(rounds: tuple[tuple[Setting, int], ...]) -> products.Distribution:
    """Return the exact distribution of all rounds together."""
    return products.joined(
        [products.repeated(products.clone_distribution(*setting), times) for setting, times in rounds]
    )


def composed(rounds: tuple[tuple[Setting, int], ...], method: str = "pld") -> PrivacyCurve:
    return compose([(curve_of(setting), times) for setting, times in rounds], method=method)


def exact_epsilon(distribution: products.Distribution, delta: float, ceiling: float) -> float:
    """Return the ε at which the exact δ is reached, by bisection."""
    low, high = 0.0, ceiling
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if products.distribution_delta(distribution, middle) > delta else (low, middle)
    return high


# Against brute force

SMALL: list[tuple[tuple[Setting, int], ...]] = [
    *(((((reports, 1.0, "strong"), times)),) for reports, times in product((1, 2, 3, 6), (2, 3, 4))),
    *(((((reports, 0.2, "clones"), times)),) for reports, times in product((1, 4), (2, 4))),
    (((5, 4.0, "strong"), 3),),
    (((6, 0.01, "strong"), 4),),
    (((3, 12.0, "clones"), 2),),
    (((1, 1.0, "strong"), 2), ((6, 1.0, "strong"), 1)),
    (((4, 1.0, "clones"), 1), ((4, 1.0, "strong"), 1), ((2, 0.3, "strong"), 1)),
    (((6, 2.0, "strong"), 2), ((1, 0.37, "strong"), 2)),
    (((1, 3.0, "strong"), 1), ((1, 0.05, "strong"), 3)),
]


def names(rounds: tuple[tuple[Setting, int], ...]) -> str:
    return "+".join(f"{times}x({setting[0]},{setting[1]:g},{setting[2]})" for setting, times in rounds)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", SMALL, ids=names)
def test_delta_is_at_least_exact(rounds: tuple[tuple[Setting, int], ...]) -> None:
    distribution, ceiling = distribution_of(rounds), math.fsum(times * setting[1] for setting, times in rounds)
    curve = composed(rounds)
    for share in (0.0, 1e-9, 0.01, 0.1, 0.3, 0.5, 0.77, 0.9, 0.99, 1 - 1e-9, 1.0, 1.5):
        epsilon = share * ceiling
        truth = products.distribution_delta(distribution, epsilon)
        found = curve.delta(epsilon)
        assert 0 <= found <= 1
        assert truth.lower() <= found * (1 + 1e-15) + 1e-40, share
        if share < 0.9:
            # The grid moves a loss by a sixtieth of a standard deviation or so.
            moved = products.distribution_delta(distribution, max(0.0, epsilon - 0.02 * ceiling - 1e-12))
            assert found <= float(moved.mid()) * 1.02 + 1e-12, share


@pytest.mark.slow
@pytest.mark.parametrize("rounds", SMALL, ids=names)
def test_epsilon_bracket_has_exact_epsilon_inside(rounds: tuple[tuple[Setting, int], ...]) -> None:
    distribution, ceiling = distribution_of(rounds), math.fsum(times * setting[1] for setting, times in rounds)
    curve = composed(rounds)
    for delta in (0.2, 0.01, 1e-3, 1e-6, 1e-12):
        lower, upper = curve.epsilon_bracket(delta)
        assert 0 <= lower <= upper <= ceiling * (1 + 1e-14)
        assert upper == curve.epsilon(delta)
        if upper < ceiling:
            assert products.distribution_delta(distribution, upper).lower() <= delta
        if lower > 0:
            assert products.distribution_delta(distribution, arb(lower) * (1 - arb(2) ** -45)).upper() >= delta
        assert upper <= exact_epsilon(distribution, delta, ceiling) * 1.01 + 1e-3 * ceiling


@pytest.mark.slow
@pytest.mark.parametrize("rounds", SMALL[::3], ids=names)
@pytest.mark.parametrize("method", METHODS[1:])
def test_every_method_is_at_least_exact(rounds: tuple[tuple[Setting, int], ...], method: str) -> None:
    distribution, ceiling = distribution_of(rounds), math.fsum(times * setting[1] for setting, times in rounds)
    curve = composed(rounds, method)
    for delta in (0.1, 1e-3, 1e-8):
        epsilon = curve.epsilon(delta)
        assert 0 <= epsilon <= ceiling * (1 + 1e-14)
        if epsilon < ceiling:
            assert products.distribution_delta(distribution, epsilon).lower() <= delta
    for share in () if method == "advanced" else (0.0, 0.3, 0.8):
        assert products.distribution_delta(distribution, share * ceiling).lower() <= curve.delta(share * ceiling)


def test_renyi_is_the_sum() -> None:
    rounds: tuple[tuple[Setting, int], ...] = (((4, 1.0, "strong"), 2), ((6, 0.5, "clones"), 1))
    curve, distribution = composed(rounds), distribution_of(rounds)
    for order in (1.5, 2.0, 8.0):
        truth = products.distribution_renyi(distribution, order)
        assert truth.lower() <= curve.renyi(order) <= float(truth.mid()) * 1.001


@pytest.mark.slow
@settings(
    max_examples=amount(20, 60),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(
            st.tuples(st.integers(1, 5), st.floats(0.01, 6), st.sampled_from(["clones", "strong"])), st.integers(1, 3)
        ),
        min_size=1,
        max_size=2,
    ),
    st.floats(0, 1),
    st.floats(-14, -0.3),
)
def test_any_rounds_contain_the_truth(rounds: list[tuple[Setting, int]], share: float, exponent: float) -> None:
    key = tuple(rounds)
    distribution, ceiling = distribution_of(key), math.fsum(times * setting[1] for setting, times in rounds)
    curve = composed(key)
    epsilon, delta = share * ceiling, 10**exponent
    assert products.distribution_delta(distribution, epsilon).lower() <= curve.delta(epsilon) * (1 + 1e-15) + 1e-40
    lower, upper = curve.epsilon_bracket(delta)
    if upper < ceiling:
        assert products.distribution_delta(distribution, upper).lower() <= delta
    if lower > 0:
        assert products.distribution_delta(distribution, arb(lower) * (1 - arb(2) ** -45)).upper() >= delta


# Against references


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "clones", "least", "most"),
    [
        (10**4, 1.0, "strong", 6.3716, 6.3720),
        (10**6, 2.0, "strong", 1.34747, 1.34768),
        (10**8, 4.0, "strong", 0.40386, 0.40393),
        (10**4, 1.0, "clones", 7.95252, 7.95295),
        (10**6, 2.0, "clones", 1.83328, 1.83357),
    ],
)
def test_ten_thousand_rounds(
    reports: int, local_epsilon: float, clones: exact.CloneProbability, least: float, most: float
) -> None:
    """Intervals from an independent prototype that splits the atoms of the pair."""
    lower, upper = curve_of((reports, local_epsilon, clones)).repeated(10_000).epsilon_bracket(1e-6)
    assert lower <= most
    assert upper >= least
    assert upper - lower <= 1e-3 * upper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "delta", "step"),
    [
        ((((10_000, 1.0, "strong"), 10_000),), 1e-6, 4e-4),
        ((((1000, 1.0, "strong"), 10), ((300, 0.5, "clones"), 5)), 1e-6, 4e-4),
        ((((1000, 3.0, "strong"), 100),), 1e-5, 4e-3),
        ((((2000, 0.5, "clones"), 30), ((500, 2.0, "strong"), 3)), 1e-4, 2e-3),
    ],
)
def test_between_two_plain_convolutions(rounds: tuple[tuple[Setting, int], ...], delta: float, step: float) -> None:
    least, most = products.reference_bracket(rounds, delta, step=step)
    lower, upper = composed(rounds).epsilon_bracket(delta)
    assert lower <= most * (1 + 1e-7)
    assert upper >= least * (1 - 1e-7)
    assert upper - lower <= 2e-3 * upper


@pytest.mark.parametrize("times", [2, 10, 300])
def test_single_reports_are_randomized_response(times: int) -> None:
    """With one report a round, the loss is ±ε₀: the optimal composition of Kairouz, Oh and Viswanath."""
    curve = curve_of((1, 0.1, "strong")).repeated(times)
    for delta in (0.05, 1e-5):
        lower, upper = curve.epsilon_bracket(delta)
        assert products.response_delta(times, 0.1, 0.0, upper) <= delta * (1 + 1e-12) or upper >= 0.1 * times
        assert lower == 0 or products.response_delta(times, 0.1, 0.0, lower * (1 - 1e-12)) >= delta * (1 - 1e-12)
        assert upper - lower <= 0.06 * upper
    for method in ("advanced", "advanced-closed-form"):
        epsilon = curve_of((1, 0.1, "strong")).repeated(times, method=method).epsilon(1e-5)
        assert products.response_delta(times, 0.1, 0.0, epsilon) <= 1e-5 or epsilon >= 0.1 * times


def test_advanced_is_optimal_for_one_point_of_each_curve() -> None:
    """No way to divide δ equally between the rounds, on a grid of shares, does much better."""
    base, times, delta = curve_of((10_000, 1.0, "strong")), 50, 1e-6
    found = base.repeated(times, method="advanced").epsilon(delta)
    closed = base.repeated(times, method="advanced-closed-form").epsilon(delta)
    best_found = best_closed = math.inf
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        each = share * delta / times
        epsilon = base.epsilon(each)
        best_closed = min(best_closed, products.closed_form_epsilon([(epsilon, each)] * times, delta))
        low, high = 0.0, times * epsilon
        for _ in range(40):
            middle = (low + high) / 2
            over = products.response_delta(times, epsilon, each, middle) > delta
            low, high = (middle, high) if over else (low, middle)
        best_found = min(best_found, high)
    assert found <= best_found * 1.01
    assert closed <= best_closed * 1.01
    assert found >= base.repeated(times).epsilon(delta)


# Order and structure

MEDIUM: list[Setting] = [(1000, 1.0, "strong"), (10_000, 2.0, "strong"), (10_000, 0.5, "clones"), (20, 0.3, "strong")]
EXTREME: list[Setting] = [(10**8, 4.0, "strong"), (10**6, 8.0, "clones"), (1, 1.0, "strong")]


@pytest.mark.slow
@pytest.mark.parametrize("setting", MEDIUM, ids=str)
@pytest.mark.parametrize("times", [2, 300])
def test_methods_are_in_order(setting: Setting, times: int) -> None:
    for delta in (1e-6,):
        loss, renyi, advanced, closed = (
            curve_of(setting).repeated(times, method=method).epsilon(delta) for method in METHODS
        )
        assert loss <= renyi * 1.001
        assert loss <= advanced * 1.001
        assert advanced <= closed * 1.001
        assert closed <= times * setting[1] * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "method"), representative(product(MEDIUM, METHODS), 6), ids=str)
def test_monotone_in_rounds_and_in_delta(setting: Setting, method: str) -> None:
    rounds, deltas = ((1, 2, 3, 10, 100), DELTAS) if method == "pld" else ((1, 30), (1e-2, 1e-8))
    curves = [curve_of(setting).repeated(times, method=method) for times in rounds]
    table = np.array([[curve.epsilon(delta) for delta in deltas] for curve in curves])
    assert np.all(np.isfinite(table))
    assert np.all(np.diff(table, axis=0) >= -1e-3 * table[1:])
    assert np.all(np.diff(table, axis=1) >= -1e-3 * table[:, 1:])
    for curve in curves if method == "pld" else ():
        heights = [curve.delta(epsilon) for epsilon in (0.0, 0.05, 0.2, 0.6, 2.0)]
        assert all(two <= one * (1 + 1e-3) for one, two in pairwise(heights))


@pytest.mark.slow
@pytest.mark.parametrize("setting", MEDIUM, ids=str)
def test_epsilon_and_delta_are_inverse(setting: Setting) -> None:
    curve = curve_of(setting).repeated(20)
    for delta in (1e-2, 1e-5, 1e-9):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) == pytest.approx(delta, rel=1e-3)
        assert curve.delta(epsilon * 1.01) < delta


@pytest.mark.parametrize("setting", MEDIUM, ids=str)
def test_one_round_is_the_curve(setting: Setting) -> None:
    curve = curve_of(setting)
    for again in (curve.repeated(1), compose([curve]), compose([(curve, 1)])):
        for delta in DELTAS:
            lower, upper = again.epsilon_bracket(delta)
            inner = curve.epsilon_bracket(delta)
            assert lower <= inner.upper
            assert inner.lower <= upper <= inner.upper * 1.001


def test_order_of_rounds_does_not_matter() -> None:
    one, two, three = (curve_of(setting) for setting in MEDIUM[:3])
    for method in ("pld", "advanced-closed-form"):
        there = compose([one, (two, 3), three], method=method)
        back = compose([three, two, one, (two, 2)], method=method)
        for delta in (1e-3, 1e-8):
            assert there.epsilon(delta) == pytest.approx(back.epsilon(delta), rel=1e-9)


def test_rounds_of_rounds() -> None:
    curve = curve_of(MEDIUM[0])
    six, nested = curve.repeated(6), curve.repeated(2).repeated(3)
    mixed = compose([curve.repeated(2), (curve, 3), curve])
    for delta in (1e-2, 1e-6, 1e-12):
        lower, upper = six.epsilon_bracket(delta)
        for other in (nested, mixed):
            assert lower <= other.epsilon(delta) <= upper * 1.002


def test_harmless_rounds_add_nothing() -> None:
    curve, nothing = curve_of(MEDIUM[0]), amplify(local_epsilon=0, reports=100)
    both = compose([(curve, 5), (nothing, 1000)])
    assert both.epsilon(1e-6) == pytest.approx(curve.repeated(5).epsilon(1e-6), rel=1e-2)
    assert both.epsilon(1e-6) >= curve.repeated(5).epsilon_bracket(1e-6).lower
    assert compose([(nothing, 3)]).epsilon(1e-6) == 0


def test_adding_a_round_never_helps() -> None:
    base = composed(((MEDIUM[1], 20),))
    lower = base.epsilon_bracket(1e-6).lower
    for setting in MEDIUM:
        assert composed(((MEDIUM[1], 20), (setting, 1))).epsilon(1e-6) >= lower


# Ends of the range


@pytest.mark.parametrize("setting", MEDIUM, ids=str)
@pytest.mark.parametrize("times", [2, 100, 10_000])
def test_without_delta_local_epsilons_add_up(setting: Setting, times: int) -> None:
    curve = curve_of(setting).repeated(times)
    whole = times * setting[1]
    assert whole <= curve.epsilon(0) <= whole * (1 + 1e-12)
    assert curve.delta(whole * (1 + 1e-12)) == 0
    assert curve.local_epsilon == pytest.approx(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "times"), representative(product([*MEDIUM, *EXTREME], (2, 10_000, 10**6)), 8), ids=str
)
def test_nothing_is_infinite(setting: Setting, times: int) -> None:
    curve = curve_of(setting).repeated(times)
    ceiling = times * setting[1] * (1 + 1e-12)
    values = [curve.epsilon(delta) for delta in (0.5, 1e-6, 1e-20, 1e-100, 1e-305)]
    assert all(0 <= value <= ceiling for value in values), values
    assert all(two >= one * (1 - 1e-3) for one, two in pairwise(values))
    lower, upper = curve.epsilon_bracket(1e-20)
    assert 0 <= lower <= upper <= ceiling
    for epsilon in (0.0, 0.1, 30.0):
        assert 0 <= curve.delta(epsilon) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 1e-20, 1e-60])
def test_tiny_deltas_are_exact_too(delta: float) -> None:
    """One round and one that reveals nothing: all the machinery, at probabilities that no untilted sum sees."""
    both = compose([curve_of((2000, 1.0, "strong")), amplify(local_epsilon=0, reports=2)])
    lower, upper = both.epsilon_bracket(delta)
    assert exact.pair_delta_window(2000, 1.0, upper, "strong", deviations=40.0).lower() <= delta
    assert exact.pair_delta_window(2000, 1.0, lower * (1 - 1e-12), "strong", deviations=40.0).upper() >= delta
    assert upper - lower <= 0.01 * upper


@pytest.mark.slow
def test_many_rounds_approach_the_gaussian() -> None:
    """The square of the standard deviation of all losses is twice the sum of the divergences."""
    curve = curve_of((10**8, 1.0, "strong"))
    times = 10**6
    variance = times * 2 * (math.e - 1) ** 2 / ((math.e + 1) * 1e8)
    spread, delta = math.sqrt(variance), 1e-6

    def gaussian(epsilon: float) -> float:
        tails = [math.erfc((epsilon / spread + sign * spread / 2) / math.sqrt(2)) / 2 for sign in (-1, 1)]
        return tails[0] - math.exp(epsilon) * tails[1]

    epsilon = curve.repeated(times).epsilon(delta)
    assert gaussian(epsilon * 0.998) > delta > gaussian(epsilon * 1.002)


# Rounds that are not a pair


@pytest.mark.slow
def test_approximate_rounds_are_never_better_than_their_local_delta() -> None:
    """With δ₀ > 0, T rounds fail with probability up to 1 − (1 − δ₀)^T, whatever ε is."""
    curve = amplify(local_epsilon=1, local_delta=1e-9, reports=1000)
    for method in ("pld", "advanced", "advanced-closed-form"):
        try:
            many = curve.repeated(100, method=method)
        except NoPairError:
            continue
        assert many.delta(1e6) >= 1 - (1 - 1e-9) ** 100
        for delta in (0.0, 1e-305, 1e-12, 0.9e-7):
            with contextlib.suppress(ShoalError):
                assert many.epsilon(delta) == math.inf, (method, delta)
        assert many.epsilon(1e-3) <= 100


@pytest.mark.slow
def test_decomposition_rounds_are_ordered() -> None:
    curve = amplify(RandomizedResponse(categories=20, local_epsilon=2), reports=5000, bound="decomposition")
    for times in (2, 20):
        many = curve.repeated(times)
        for delta in (1e-3, 1e-6):
            lower, upper = many.epsilon_bracket(delta)
            assert curve.epsilon_bracket(delta).lower <= upper <= times * 2.0 * (1 + 1e-12)
            assert lower <= upper
        assert many.epsilon(1e-6) <= curve.repeated(times, method="advanced-closed-form").epsilon(1e-6) * 1.001


@pytest.mark.slow
def test_closed_forms_compose_by_advanced_composition_only() -> None:
    curve = amplify(local_epsilon=1, reports=100_000, bound="clones-closed-form")
    pair = amplify(local_epsilon=1, reports=100_000, bound="clones")
    for method in ("advanced", "advanced-closed-form"):
        assert curve.repeated(10, method=method).epsilon(1e-6) >= pair.repeated(10).epsilon(1e-6)
    for method in ("pld", "renyi"):
        with pytest.raises(NoPairError):
            curve.repeated(10, method=method).epsilon(1e-6)


@pytest.mark.slow
def test_rounds_that_are_known_from_above_only_have_no_bracket() -> None:
    """An end at zero would not be wrong, and would be taken for what the rounds may have."""
    curve = amplify(local_epsilon=1, reports=20_000, bound="swap-chains")
    for rounds in (curve.repeated(3), compose([curve, curve_of(MEDIUM[0])])):
        with pytest.raises(NoPairError, match="Theorem N is an upper bound"):
            rounds.epsilon_bracket(1e-6)
        assert rounds.to_dict(delta=1e-6)["epsilon_bracket"] is None


def test_only_losses_have_a_bracket() -> None:
    for method in METHODS[1:]:
        with pytest.raises(NoPairError):
            curve_of(MEDIUM[0]).repeated(3, method=method).epsilon_bracket(1e-6)


def test_bad_arguments_are_refused() -> None:
    curve = curve_of(MEDIUM[0])
    for times in (0, -1, 1.5, "two", True):
        with pytest.raises(ParameterError):
            curve.repeated(times)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="method"):
        compose([curve, curve], method="basic")
    with pytest.raises(ParameterError):
        compose([])
    with pytest.raises(ParameterError):
        compose([0.5])  # type: ignore[list-item]


def test_extreme_local_epsilons_are_safe() -> None:
    """Squares underflow, exponentials overflow: then nothing but the local guarantees is claimed."""
    steep = amplify(local_epsilon=800, reports=1000)
    assert steep.renyi(2.0) == 800
    for method in METHODS:
        # All seven losses are 800, but for a probability of no weight: δ(ε) = 1 − e^(ε − 5600).
        assert steep.repeated(7, method=method).epsilon(1e-6) >= 5600 - 1.001e-6
    for local_epsilon in (1e-200, 1e-308, 5e-324):
        flat = amplify(local_epsilon=local_epsilon, reports=10).repeated(3)
        assert 0 < flat.epsilon(1e-6) <= 3 * local_epsilon
        assert flat.epsilon_bracket(1e-6).lower == 0
    assert amplify(local_epsilon=1e308, reports=10).repeated(20).epsilon(1e-6) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1e-12, 1e-7, 8.230065985990276e-07, 2.7234194416520686e-06])
def test_small_losses_stay_on_their_side_of_the_grid(local_epsilon: float) -> None:
    """The greatest loss is next to a grid point; an absolute error of a unit moves its mass into the cell before."""
    for reports in (2, 3, 10):
        curve = amplify(local_epsilon=local_epsilon, reports=reports)
        many = curve.repeated(2)
        for share in (0.3, 0.9, 1 - 1e-7, 1 - 1e-9):
            epsilon = 2 * local_epsilon * share
            distribution = products.repeated(products.clone_distribution(reports, local_epsilon, "strong"), 2)
            assert many.delta(epsilon) >= float(products.distribution_delta(distribution, epsilon).lower()) * (
                1 - 1e-15
            )


def table(size: int, local_epsilon: float, seed: int) -> MatrixRandomizer:
    """Return random rows."""
    rows = np.exp(local_epsilon * np.random.default_rng(seed).random((size, size)))
    return MatrixRandomizer(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "local_epsilon", "reports", "times", "delta"),
    [(4, 2.0, 10, 30, 1e-6), (4, 0.5, 60, 7, 1e-12), (5, 1.0, 10**4, 365, 1e-3)],
)
def test_fewer_knots_of_tables_agree_with_many(
    size: int, local_epsilon: float, reports: int, times: int, delta: float
) -> None:
    profile = amplify(table(size, local_epsilon, 1), reports=reports, bound="blanket").profile
    assert isinstance(profile, BlanketProfile)
    assert profile.costly
    pairs = tuple(profile.pairs)
    one_by_one = BlanketProfile(pairs, profile.local_epsilon)
    assert not one_by_one.costly
    few, many = (LossProfile((Round(each, profile.local_epsilon, times),)) for each in (profile, one_by_one))
    (lower, upper), (least, most) = few.bracket(delta), many.bracket(delta)
    assert lower <= most
    assert least <= upper <= 1.001 * lower
    assert upper <= 1.0005 * most


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), [(4.0, 100), (8.0, 10**4), (8.0, 10**5), (1.0, 10**4)])
def test_more_knots_where_the_ends_would_be_far_apart(local_epsilon: float, reports: int) -> None:
    curve = amplify(RandomizedResponse(categories=2, local_epsilon=local_epsilon), reports=reports)
    assert curve.bound == "one-bit"
    lower, upper = curve.repeated(30).epsilon_bracket(1e-6)
    assert 0 < lower <= upper <= 1.001 * lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "reports", "times"),
    [(3.0, 100, 365), (1.0, 10**4, 30), pytest.param(0.5, 10**6, 365, marks=pytest.mark.exhaustive)],
)
def test_few_knots_of_gaussian_noise_are_enough(sigma: float, reports: int, times: int) -> None:
    """Also where a single large loss is as likely as many small ones, and the moments are those of the former."""
    profile = Gaussian(sigma=sigma).profile(reports)
    lower, upper = LossProfile((Round(profile, float("inf"), times),)).bracket(1e-6)
    assert 0 < lower <= upper <= 1.001 * lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "reports", "times", "least", "most"),
    [
        pytest.param(0.3, 100, 30, 154.9789294288719, 155.09965257107822, marks=pytest.mark.exhaustive),
        (0.3, 10**4, 365, 232.87482188604886, 233.06785323920994),
        pytest.param(0.3, 10**6, 10**4, 321.57103891545813, 321.85760601148985, marks=pytest.mark.exhaustive),
        pytest.param(0.5, 100, 365, 160.18729343010915, 160.3217197060168, marks=pytest.mark.exhaustive),
        (0.5, 10**6, 30, 0.2440574732603662, 0.24426202716721176),
        (1.0, 10**4, 10**4, 9.110017064976763, 9.115794225086365),
        (3.0, 100, 30, 0.8821843734642728, 0.8826831994807223),
    ],
)
def test_rounds_of_gaussian_noise_hold_what_they_held_before(
    sigma: float, reports: int, times: int, least: float, most: float
) -> None:
    """Both ends of before had every path followed up to its end."""
    lower, upper = amplify(Gaussian(sigma=sigma), reports=reports).repeated(times).epsilon_bracket(1e-6)
    assert lower <= most
    assert least <= upper <= most * (1 + 3e-4)
    assert upper <= 1.001 * lower


_SOURCE = Path(shoal.__file__).parent
_LOOP = [  # the picture in docs/design.md
    "composition/loss_accountant.py",
    "numerics/profile_grid.py",
    "numerics/convolution.py",
]


def _walked(reports: int) -> Counter[tuple[str, str]]:
    """Return how often each function runs, by file and name; what is cached does not run again."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(_SOURCE):
            calls[str(path.relative_to(_SOURCE)), frame.f_code.co_name] += 1

    curve = shoal.amplify(shoal.RandomizedResponse(categories=16, local_epsilon=2), reports=reports)
    year = curve.repeated(365)
    sys.setprofile(note)
    try:
        year.epsilon(1e-6)
    finally:
        sys.setprofile(None)
    return calls


def test_many_rounds_are_a_short_walk() -> None:
    calls = _walked(12_345)
    files = list(dict.fromkeys(name for name, _ in calls))
    assert set(_LOOP) <= set(files)
    upper = [name for name in files if name.split("/")[0] in ("composition", "curve.py", "checks.py")]
    assert sorted(upper) == ["checks.py", "composition/loss_accountant.py", "curve.py"]
    assert len(files) <= 18, files


def test_two_passes_are_enough() -> None:
    calls = _walked(12_346)
    assert calls["composition/loss_accountant.py", "_summed"] == 2
    assert calls["numerics/profile_grid.py", "dominating"] == 2


DELTA = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(100, 0.5), (10_000, 1.0), (1_000_000, 4.0)])
def test_one_round_is_at_least_the_exact_one_and_close(reports: int, local_epsilon: float) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones")
    handed = curve.to_dp_accounting()
    lower, upper = curve.epsilon_bracket(DELTA)
    assert lower <= handed.get_epsilon_for_delta(DELTA) <= upper * 1.02 + 1e-4
    for epsilon in (0.0, 0.5 * upper, upper, 2 * upper):
        assert handed.get_delta_for_epsilon(epsilon) >= curve.delta(epsilon) * (1 - 1e-6) - 1e-15


@pytest.mark.slow
def test_rounds_are_composed_there_as_here() -> None:
    daily = shoal.amplify(local_epsilon=2, reports=100_000)
    weekly = shoal.amplify(local_epsilon=3, reports=100_000)
    together = shoal.compose([(daily, 30), (weekly, 4)])
    lower, upper = together.epsilon_bracket(DELTA)
    assert lower <= together.to_dp_accounting().get_epsilon_for_delta(DELTA) <= upper * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("other", [from_gaussian_mechanism(5.0), from_laplace_mechanism(10.0)])
def test_it_composes_with_other_mechanisms(other: object) -> None:
    handed = shoal.amplify(local_epsilon=2, reports=100_000).to_dp_accounting()
    alone = other.get_epsilon_for_delta(DELTA)  # type: ignore[attr-defined]
    both = other.compose(handed).get_epsilon_for_delta(DELTA)  # type: ignore[attr-defined]
    assert alone < both < alone + handed.get_epsilon_for_delta(DELTA / 2) + 0.1


def test_a_formula_has_nothing_to_hand_over() -> None:
    formula = shoal.amplify(local_epsilon=1, reports=100_000, bound="clones-closed-form")
    with pytest.raises(shoal.errors.NoPairError, match="numerical bound"):
        formula.to_dp_accounting()
    with pytest.raises(shoal.ParameterError, match="interval"):
        shoal.amplify(local_epsilon=1, reports=100).to_dp_accounting(interval=0)
