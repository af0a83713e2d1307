"""Rényi divergences of swap chains: of the lesser of both profiles, never above the clones, never below a pair."""

import math

import numpy as np
import pytest

import shoal
from shoal.numerics.swap_chain import swap_chain_delta, swap_chain_deltas
from shoal.numerics.swap_chain_integral import clone_floor, swap_chain_renyi
from shoal.pairs import BitRows, ClonePair, LikelihoodPair


@pytest.mark.parametrize(("reports", "local_epsilon"), [(10**4, 0.1), (10**4, 1.0), (10**6, 1.0), (10**9, 2.0)])
def test_many_epsilons_at_once_are_as_one_by_one(reports: int, local_epsilon: float) -> None:
    spread = math.expm1(local_epsilon) / math.sqrt(reports)
    epsilons = np.append(np.linspace(0, 5 * spread, 12), [0.9 * local_epsilon])
    together = swap_chain_deltas(reports, local_epsilon, epsilons)
    single = np.array([swap_chain_delta(reports, local_epsilon, epsilon) for epsilon in epsilons.tolist()])
    assert np.array_equal(np.isinf(together), np.isinf(single)) and math.isinf(together[-1])
    # Windows go on to smaller ends than each would have alone: that only helps.
    assert np.all(together[:-1] <= single[:-1] * (1 + 1e-9)) and np.all(together[:-1] >= 0.8 * single[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order"),
    [
        (10**4, 0.1, 2.0),
        (10**4, 1.0, 8.0),
        (10**6, 1.0, 1.01),
        (10**6, 1.0, 1e3),
        (10**9, 0.1, 1e5),
        (10**9, 2.0, 64.0),
    ],
)
def test_it_is_the_integral_of_the_profile(reports: int, local_epsilon: float, order: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    value = swap_chain_renyi(pair.kinds, local_epsilon, order)
    spread = math.expm1(local_epsilon) * math.sqrt(1 / reports)
    points = np.linspace(0, min(9 * spread + 2 * order * spread**2, 0.4 * local_epsilon), 1201)
    deltas = np.minimum(swap_chain_deltas(reports, local_epsilon, points), pair.brackets(points, 1e-6)[1])
    heights = deltas * (np.exp((order - 1) * points) + np.exp(-order * points))
    whole = math.log1p(order * (order - 1) * float(np.trapezoid(heights, points))) / (order - 1)
    assert whole * (1 - 2e-4) <= value <= whole * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 64.0, 1e3, 1e5])
@pytest.mark.parametrize(("reports", "local_epsilon"), [(10**4, 0.1), (10**6, 0.5), (10**6, 1.0), (10**9, 1.0)])
def test_between_randomized_response_and_the_clones(reports: int, local_epsilon: float, order: float) -> None:
    """All others on one input, whatever the randomizer is: nothing that holds for all may be below."""
    value = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains").renyi(order)
    strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones").renyi(order)
    rows = BitRows.response(local_epsilon)
    least = float(LikelihoodPair(reports, rows.likelihoods).one_way(np.array([order]))[0]) / (1 + 4e-4)
    assert least <= value <= strong


@pytest.mark.parametrize("order", [1.01, 2.0, 16.0, 200.0])
def test_a_floor_of_the_clones(order: float) -> None:
    for reports, local_epsilon in ((100, 1.0), (10**4, 4.0), (10**6, 0.3)):
        pair = ClonePair(reports, local_epsilon, "strong-clones")
        floor = clone_floor(reports, pair.clone_probability, local_epsilon, order)
        assert floor <= float(pair.renyi(np.array([order]))[0])
        if reports == 10**6:
            assert floor >= 0.99 * float(pair.renyi(np.array([order]))[0])
