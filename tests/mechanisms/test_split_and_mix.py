"""Split and mix as it runs: exact shares of noise, sums that come back, guarantees, dropouts and malicious clients."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shoal
from shoal.assumptions import ANYWHERE
from shoal.errors import NoPairError, ParameterError, UnreachableError
from shoal.mechanisms import Simulation
from shoal.mechanisms.split_and_mix import SplitAndMix, fewest_messages, noise_shares
from shoal.pairs.discrete_laplace import DECAYS
from tests.exhaustive import representative


def _negative_binomial(shape: float, decay: float, size: int = 4000) -> np.ndarray:
    masses = [(1 - decay) ** shape]
    for k in range(size - 1):
        masses.append(masses[-1] * decay * (shape + k) / (k + 1))
    return np.array(masses)


def _delta(shape: float, epsilon: float) -> float:
    """Return δ(ε) of a sum that one person changes by 1, with noise NB(shape, e^−ε) − NB(shape, e^−ε)."""
    each = _negative_binomial(shape, math.exp(-epsilon), 400)
    noise = np.convolve(each, each[::-1])
    return float(np.maximum(noise[1:] - math.exp(epsilon) * noise[:-1], 0).sum())


def test_dropouts_with_bursty_shares_are_caught() -> None:
    """Of people for whom the noise was made a tenth is missing: shape 0.9, and δ(½) = 0.034 in place of 0."""
    assert _delta(1, 0.5) < 1e-12
    for shape, delta in ((0.9, 0.034), (0.95, 0.016), (0.5, 0.26)):
        assert _delta(shape, 0.5) == pytest.approx(delta, rel=0.04)
    made = SplitAndMix(epsilon=0.5, honest=1000, people=2000, messages=12)
    assert shoal.amplify(made, reports=1000).epsilon(1e-6) <= 0.5
    with pytest.raises(ParameterError, match="fewer than honest=1,000"):
        shoal.amplify(made, reports=900)


def test_the_noise_of_honest_people_alone_is_discrete_laplace() -> None:
    """Whatever number comes, a share is NB(1/honest): its shape does not depend on how many are randomized.

    The variance of the sum of shares of 20 people, in 4,000 rounds, within five of its deviations: 1 in 10⁶.
    """
    made = SplitAndMix(epsilon=2, honest=20, people=40, messages=5, steps=4)
    a = made.decay / DECAYS
    assert a == pytest.approx(math.exp(-0.5), rel=1e-15)
    coins = Simulation(seed=4)
    for present in (20, 30):
        sums = made.noise(coins, 4000 * present).reshape(4000, present).sum(axis=1)
        variance = 2 * present / 20 * a / (1 - a) ** 2
        excess = 3 * 20 / present + 1 / variance
        assert abs(np.mean(sums.astype(float) ** 2) / variance - 1) < 5 * math.sqrt((2 + excess) / 4000)


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "decay"), [(1, DECAYS // 2), (2, DECAYS // 3), (5, DECAYS * 9 // 10)])
def test_shares_are_negative_binomial(parts: int, decay: int) -> None:
    """60,000 draws; every mass within five deviations and one, a false alarm in 10⁵ for all of them."""
    drawn = noise_shares(Simulation(seed=parts), decay, parts, 60_000)
    expected = _negative_binomial(1 / parts, decay / DECAYS, 60) * 60_000
    found = np.bincount(drawn, minlength=60)[:60]
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected) + 1)


def test_the_urn_is_exactly_a_share_of_a_geometric_number() -> None:
    """In fractions: the masses of an urn of g steps, times that of g, add up to those of NB(1/3, ½), times (½)^⅓."""
    share, masses = Fraction(1, 3), [Fraction(1)]
    for g in range(40):
        grown = [Fraction(0)] * (g + 2)
        for own, mass in enumerate(masses):
            chance = (share + own) / (1 + g)
            grown[own + 1] += mass * chance
            grown[own] += mass * (1 - chance)
        masses = grown
        expected = [Fraction(1)]
        rest = [Fraction(1)]
        for k in range(g + 1):
            expected.append(expected[-1] * (share + k) / (k + 1))
            rest.append(rest[-1] * (1 - share + k) / (k + 1))
        assert masses == [expected[k] * rest[g + 1 - k] for k in range(g + 2)]


def test_messages_add_up_and_each_of_them_is_uniform() -> None:
    made = SplitAndMix(epsilon=1, honest=50, people=100, messages=4, steps=10, lower=-5, upper=5)
    values = np.linspace(-5, 5, 60)
    messages = made.randomize(values, simulation=Simulation(seed=1))
    assert messages.shape == (60, 4) and messages.max() < made.modulus and made.modulus > 2 * (100 * 10 + 400)
    ordered = np.random.default_rng(1).permutation(messages.ravel())
    assert made.total(ordered) == (made.total(messages[:7]) + made.total(messages[7:])) % made.modulus
    found = made.estimate(made.total(ordered), reports=60)
    assert abs(found.sum.value - values.sum()) < 6 * (found.sum.standard_error or 0)
    many = made.randomize(np.zeros(50_000), simulation=Simulation(seed=2)) >> np.uint64(made.modulus.bit_length() - 4)
    for column in many.T:  # eight equal parts, each within five deviations of 6,250: a false alarm in 10⁵
        assert np.all(np.abs(np.bincount(column.astype(int), minlength=8) - 6250) < 5 * math.sqrt(6250))
    with pytest.raises(ParameterError, match="whole numbers from 0"):
        made.total([made.modulus])


def test_sums_below_the_lower_end_come_back() -> None:
    made = SplitAndMix(epsilon=0.5, honest=2, people=2, messages=3, steps=8)
    for true in (-100, 0, 16, 150):
        assert made.estimate(true % made.modulus, reports=2).steps == true


def test_one_malicious_client_moves_it_anywhere_and_that_is_said() -> None:
    made = SplitAndMix(epsilon=0.5, honest=100, people=200, messages=10)
    messages = made.randomize(np.full(100, 0.5), simulation=Simulation(seed=1))
    total = made.total(messages)
    messages[0, 0] = (int(messages[0, 0]) + 77 * made.steps) % made.modulus
    moved = made.estimate(made.total(messages), reports=100)
    honest = made.estimate(total, reports=100)
    assert moved.sum.value - honest.sum.value == pytest.approx(77)
    assert "anywhere" in repr(moved) and ANYWHERE.text == moved.to_dict()["warning"] == made.to_dict()["warning"]
    assert "anywhere" in moved._repr_html_() and list(moved.to_frame()["quantity"]) == ["sum", "mean"]
    assert ANYWHERE in shoal.amplify(made, reports=100).assumptions


def test_the_error_of_a_hundred_thousand_numbers_is_a_curators() -> None:
    made = SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=10**5, people=10**5)
    assert math.sqrt(made.variance(reports=10**5)) <= 3.2
    assert shoal.amplify(made, reports=10**5).epsilon(1e-6) <= 0.5
    fewer = SplitAndMix(epsilon=0.5, honest=10**5, people=10**5, messages=made.messages - 1, steps=made.steps)
    assert shoal.amplify(fewer, reports=10**5).epsilon(1e-6) == math.inf


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_measured_error_of_a_hundred_thousand_numbers() -> None:
    """24 runs of nearly Laplace noise: the mean square has a deviation of √(5/24) = 46 % of 2.86²; within two of them.

    A false alarm in 15 with other seeds, and in three for the limit of 3.2; these are fixed, and the formula is not
    drawn.
    """
    made = SplitAndMix.fitted(epsilon=0.5, delta=1e-6, honest=10**5, people=10**5)
    values = np.random.default_rng(5).uniform(size=10**5)
    sums = [
        made.estimate(made.total(made.randomize(values, simulation=Simulation(seed=seed))), reports=10**5).sum
        for seed in range(24)
    ]
    squares = [(each.value - values.sum()) ** 2 for each in sums]
    assert math.sqrt(np.mean(squares)) <= 3.2
    assert abs(np.mean(squares) / (made.variance(reports=10**5) - 10**5 / (12 * made.steps**2)) - 1) < 0.92
    assert np.mean([each.lower <= values.sum() <= each.upper for each in sums]) > 0.85


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("steps", [1, 8, 1000])
def test_the_profile_is_that_of_the_noise_and_of_a_failure(epsilon: float, steps: int) -> None:
    made = SplitAndMix(epsilon=epsilon, honest=10**5, people=10**5, messages=6, steps=steps)
    profile = made.profile(10**5)
    assert epsilon * (1 - 1e-12) < profile.limit <= epsilon
    assert profile.failure == pytest.approx((1 + math.exp(epsilon)) * made.distance, rel=1e-12)
    assert profile.delta(epsilon) == profile.delta(epsilon + 1) == profile.failure
    half = (steps + 1) // 2  # whether the sum is on the farther side
    a = made.decay / DECAYS
    apart = 1 - (a**half + a ** (steps + 1 - half)) / (1 + a)
    assert profile.delta(0) == pytest.approx(apart + 2 * made.distance, rel=1e-11)
    assert profile.delta(0) <= math.tanh(epsilon / 2) + profile.failure + 1e-12  # no more than a randomized bit
    for delta in (2 * profile.failure, 0.01, 0.3):
        found = profile.epsilon(delta)
        assert profile.delta(found) <= delta and found <= epsilon
        assert found == 0 or profile.delta(found * (1 - 1e-9)) > delta
    assert profile.epsilon(profile.failure / 2) == math.inf
    with pytest.raises(NoPairError, match="infinite"):
        profile.renyi(np.array([2.0]))


@pytest.mark.slow
def test_it_composes() -> None:
    made = SplitAndMix.fitted(epsilon=0.5, delta=1e-7, honest=10**4, people=10**4)
    curve = shoal.amplify(made, reports=10**4)
    assert 0.9 < shoal.compose([curve, curve]).epsilon(1e-6) <= 1.02
    mixed = shoal.compose([curve, shoal.amplify(shoal.Dummies(categories=5, epsilon=0.5, limit=60), reports=10**4)])
    assert 0.8 < mixed.epsilon(1e-6) <= 1.02


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UnreachableError, match="take more people"):
        fewest_messages(101, 1 << 60, 1e-150)
    with pytest.raises(ParameterError, match="honest"):
        SplitAndMix(epsilon=1, honest=11, people=10, messages=3)
    with pytest.raises(ParameterError, match="modulus above"):
        SplitAndMix(epsilon=1, honest=10, people=10**14, messages=3, steps=1 << 20)


def test_the_loss_of_the_noise_is_never_above_epsilon() -> None:
    """In balls, for ε and Δ whose quotient is rounded up and down: Δ·ln(1/a) ≤ ε."""
    from flint import arb, ctx

    with ctx.workprec(300):
        for epsilon, steps in ((0.5, 3), (0.3, 7), (1 / 3, 49), (0.7, 1000), (math.pi, 11), (1e-3, 3 << 10)):
            made = SplitAndMix(epsilon=epsilon, honest=10, people=10, messages=3, steps=steps)
            loss = -steps * (arb(made.decay) / DECAYS).log()
            assert loss <= arb(epsilon) and loss > arb(epsilon) * (1 - 1e-12)


@pytest.mark.slow
def test_losses_beyond_doubles_have_no_guarantee_and_say_so() -> None:
    for epsilon in representative((709, 710, 5000), 1):
        with pytest.raises(UnreachableError, match="a smaller epsilon"):
            SplitAndMix.fitted(epsilon=epsilon, delta=1e-6, honest=1000, people=10**4)
    curve = shoal.amplify(SplitAndMix(epsilon=710, honest=1000, people=10**4, messages=9, steps=100), reports=1000)
    assert curve.epsilon(1e-6) == math.inf and curve.delta(705.0) == 1


def test_an_excess_beyond_doubles_is_a_distance_of_one() -> None:
    assert SplitAndMix(epsilon=1e-3, honest=100, people=10**10, messages=3, steps=1 << 20).distance == 1


@pytest.mark.parametrize(("epsilon", "people"), [(3.0, 10**12), (0.3, 10**13), (1e308, 10**4)])
def test_fitted_names_what_was_given(epsilon: float, people: int) -> None:
    with pytest.raises(ParameterError, match="take a smaller epsilon or fewer people") as caught:
        SplitAndMix.fitted(epsilon=epsilon, delta=1e-6, honest=100, people=people)
    assert f"epsilon={epsilon:g} and people={people:,}" in str(caught.value)
