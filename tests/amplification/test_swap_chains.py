"""The bound swap-chains: below the strong clones for many reports, and the same where it gains nothing."""

import math

import numpy as np
import pytest

import shoal
from shoal.amplification.swap_chains import SwapChainProfile
from shoal.errors import NoPairError, ParameterError

# (ε₀, n, ε at δ = 1e-6, to a thousandth): docs/theory/tighter.md
GOLDEN = [
    (0.1, 10**4, 0.00273986),
    (0.5, 10**4, 0.0167788),
    (1.0, 10**4, 0.0409515),
    (math.log(2), 10**5, 0.00674197),
    (1.0, 10**6, 0.00309338),
    (2.0, 10**6, 0.00924005),
    (2.0, 10**8, 0.00068836),
]


@pytest.mark.parametrize(("local_epsilon", "reports", "epsilon"), GOLDEN)
def test_between_the_lower_bound_and_the_strong_clones(local_epsilon: float, reports: int, epsilon: float) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains")
    strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones")
    answer = curve.epsilon(1e-6)
    assert answer == pytest.approx(epsilon, rel=1e-3)
    assert curve.delta(answer) <= 1e-6
    assert curve.lower is not None
    assert curve.lower.epsilon(1e-6) <= answer < strong.epsilon(1e-6)


@pytest.mark.parametrize(("local_epsilon", "reports"), [(1.0, 100), (4.0, 10**6), (0.5, 1), (20.0, 10**4)])
def test_the_strong_clones_are_the_answer_where_nothing_is_gained(local_epsilon: float, reports: int) -> None:
    chains = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains")
    strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones")
    for delta in (0.0, 1e-9, 1e-6):
        assert chains.epsilon(delta) == strong.epsilon(delta)
    assert chains.delta(0.1 * local_epsilon) <= strong.delta(0.1 * local_epsilon)
    assert chains.delta(local_epsilon) == 0


def test_the_default_is_the_lesser_of_both() -> None:
    assert shoal.amplify(local_epsilon=1, reports=10**6).bound == "swap-chains"
    assert shoal.amplify(local_epsilon=1, reports=100).bound == "strong-clones"
    assert shoal.amplify(local_epsilon=4, reports=10**6).bound == "strong-clones"
    assert shoal.amplify(local_epsilon=1, local_delta=1e-14, reports=10**6).bound == "strong-clones"


@pytest.mark.parametrize("local_epsilon", [0.05, 0.3, 1.0, 2.0, 4.0])
def test_clearly_tighter_is_tighter(local_epsilon: float) -> None:
    """Where the clones are not asked, they are above; and both ways are taken."""
    taken = set()
    for reports in (10, 300, 3_000, 10**4, 10**5, 10**6, 10**8):
        profile = SwapChainProfile(reports, local_epsilon)
        for delta in (1e-2, 1e-6, 1e-12, 1e-40):
            clones = profile._clones.epsilon(delta)
            most, improves = profile._ceiling(delta)
            if most != clones:
                assert improves and profile.epsilon(delta) < 0.99 * clones
            assert profile.epsilon(delta) <= clones
            taken.add(most != clones)
    assert taken == ({False} if local_epsilon == 4 else {False, True})


def test_never_above_the_strong_clones_and_falling() -> None:
    curve = shoal.amplify(local_epsilon=0.8, reports=20_000, bound="swap-chains")
    strong = shoal.amplify(local_epsilon=0.8, reports=20_000, bound="strong-clones")
    epsilons = np.linspace(0, 0.2, 41)
    deltas = curve.delta(epsilons)
    assert np.all(deltas <= strong.delta(epsilons))
    assert np.all(np.diff(deltas) <= 0)


@pytest.mark.slow
def test_rounds_gain_as_well() -> None:
    rounds = [
        shoal.amplify(local_epsilon=1, reports=100_000, bound=bound).repeated(30).epsilon(1e-6)
        for bound in ("swap-chains", "strong-clones")
    ]
    assert 0.87 < rounds[0] / rounds[1] < 0.92


@pytest.mark.slow
def test_renyi_divergences_gain_as_well() -> None:
    chains, strong = (
        np.asarray(shoal.amplify(local_epsilon=1, reports=10**6, bound=bound).renyi([2.0, 30.0]))
        for bound in ("swap-chains", "strong-clones")
    )
    # The limit: half the variance (e − 1)²·2/(e + 2)/n, times the order.
    limit = np.array([2.0, 30.0]) * math.expm1(1) ** 2 / (math.e + 2) / 10**6
    assert np.all(limit * (1 - 1e-3) <= chains) and np.all(chains <= 0.82 * strong)


def test_refuses_what_it_has_not() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=10**5, bound="swap-chains")
    with pytest.raises(NoPairError, match="strong-clones"):
        curve.epsilon_bracket(1e-6)
    with pytest.raises(ParameterError, match="local_delta=0"):
        shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10**5, bound="swap-chains")
