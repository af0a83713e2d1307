"""The Rényi bound of Girgis et al. above the exact pairs, and shuffled randomized response below them."""

import math

import numpy as np
import pytest

import shoal
from shoal.amplification.girgis import GirgisForm, response_renyi
from shoal.amplification.lower_bounds import lower_bound

_ORDERS = np.array([1.01, 1.5, 2.0, 2.7, 5.0, 16.0, 64.5, 400.0])


def _direct(reports: int, local_epsilon: float, order: float, *, forward: bool = False) -> float:
    """Return the larger divergence of the two count distributions, or the forward one, from their definitions."""
    local = math.exp(local_epsilon)
    probability = 1 / (local + 1)

    def distribution(trials: int) -> list[float]:
        return [math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)]

    alike, others = distribution(reports), [0.0, *distribution(reports - 1), 0.0]
    differ = [others[k + 1] * probability + others[k] * (1 - probability) for k in range(reports + 1)]
    return max(
        math.log(math.fsum(b * (a / b) ** order for a, b in zip(one, two, strict=True) if b)) / (order - 1)
        for one, two in (((differ, alike),) if forward else ((alike, differ), (differ, alike)))
    )


def test_response_is_the_exact_divergence_rounded_down() -> None:
    orders = np.array([1.1, 2.0, 3.5, 16.0, 60.0])
    for reports in (1, 2, 7, 40, 300):
        for local_epsilon in (0.2, 1.0, 3.0):
            values = response_renyi(orders, reports=reports, local_epsilon=local_epsilon)
            exact = np.array([_direct(reports, local_epsilon, order) for order in orders])
            assert np.all(values <= exact * (1 + 1e-10))
            assert values == pytest.approx(exact, rel=1e-8)


def test_the_published_lower_bound_is_this_divergence() -> None:
    # 1 + C(α,2)(E−1)²/(nE) + Σᵢ C(α,i)((E²−1)/(nE))ⁱ·E[(K − n/(E+1))ⁱ]
    reports, local_epsilon, order = 50, 1.0, 6
    local = math.exp(local_epsilon)
    probability, step = 1 / (local + 1), (local**2 - 1) / (reports * local)
    distribution = [
        math.comb(reports, k) * probability**k * (1 - probability) ** (reports - k) for k in range(reports + 1)
    ]
    total = 1 + math.comb(order, 2) * (local - 1) ** 2 / (reports * local)
    for power in range(3, order + 1):
        moment = math.fsum(p * (k - reports * probability) ** power for k, p in enumerate(distribution))
        total += math.comb(order, power) * step**power * moment
    published = math.log(total) / (order - 1)
    assert published == pytest.approx(_direct(reports, local_epsilon, order, forward=True), rel=1e-9)
    # The other direction is larger here: both are needed.
    value = float(response_renyi(np.array([float(order)]), reports=reports, local_epsilon=local_epsilon)[0])
    assert published == pytest.approx(0.061078, rel=1e-4)
    assert value == pytest.approx(0.071803, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [5, 1000, 1025, 10**6])
@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 3.0])
def test_response_lies_below_the_pair_and_the_pair_below_the_theorem(reports: int, local_epsilon: float) -> None:
    lower = response_renyi(_ORDERS, reports=reports, local_epsilon=local_epsilon)
    strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports).renyi(_ORDERS)
    upper = GirgisForm(reports, local_epsilon).renyi(_ORDERS)
    assert np.all(lower > 0)
    assert np.all(lower <= strong)
    assert np.all(strong <= upper * (1 + 1e-4))  # the pair's divergence is rounded up by at most that
    assert np.all(lower <= upper)
    assert np.all(upper <= local_epsilon)
    assert np.all(np.diff(lower) >= 0)
    high = response_renyi(np.array([10_000.0]), reports=reports, local_epsilon=local_epsilon)
    assert lower[-1] <= high[0] <= local_epsilon


def test_blocks_lose_little() -> None:
    orders = np.array([2.0, 30.0, 1000.0])
    for reports in (10**10, 10**12):
        values = response_renyi(orders, reports=reports, local_epsilon=1.0)
        leading = orders * math.expm1(1.0) ** 2 / (2 * math.e * reports)
        assert values == pytest.approx(leading, rel=2e-3)
        assert np.all(values <= leading * 1.001)


def test_known_values() -> None:
    form = GirgisForm(2000, 1.0)
    assert form.renyi(np.array([16.0]))[0] == pytest.approx(0.0716, rel=1e-3)
    assert response_renyi(np.array([16.0]), reports=2000, local_epsilon=1.0)[0] == pytest.approx(0.00437, rel=1e-3)


def test_the_theorem_has_its_terms() -> None:
    reports, local_epsilon, order = 4000, 0.8, 9
    local = math.exp(local_epsilon)
    clones = math.floor((reports - 1) / (2 * local)) + 1
    total = 1 + math.comb(order, 2) * (local - 1) ** 2 / (clones * local)
    for power in range(3, order + 1):
        scale = (local**2 - 1) ** 2 / (2 * clones * local**2)
        total += math.comb(order, power) * power * math.gamma(power / 2) * scale ** (power / 2)
    total += math.exp(order * local_epsilon - (reports - 1) / (8 * local))
    value = GirgisForm(reports, local_epsilon).renyi(np.array([float(order)]))[0]
    assert math.log(total) / (order - 1) <= value * (1 + 1e-14)
    assert value == pytest.approx(math.log(total) / (order - 1), rel=1e-10)
    # Between whole orders, the chord; up to two, the value at two.
    two, three = GirgisForm(reports, local_epsilon).renyi(np.array([2.0, 3.0]))
    between = GirgisForm(reports, local_epsilon).renyi(np.array([1.3, 2.5]))
    assert between == pytest.approx([two, (0.5 * two + 0.5 * 2 * three) / 1.5], rel=1e-10)


@pytest.mark.slow
def test_epsilon_lies_above_what_no_bound_can_beat_and_is_inverted() -> None:
    for reports in (100, 10**4, 10**6):
        for local_epsilon in (0.1, 1.0, 3.0):
            form = GirgisForm(reports, local_epsilon)
            strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
            limit = lower_bound(local_epsilon=local_epsilon, reports=reports)
            for delta in (1e-3, 1e-6, 1e-12):
                epsilon = form.epsilon(delta)
                assert limit.epsilon(delta) <= strong.epsilon(delta) <= epsilon <= local_epsilon
                if 0 < epsilon < local_epsilon:
                    assert form.delta(epsilon) == pytest.approx(delta, rel=1e-3)
            assert form.delta(local_epsilon) == 0.0


def test_edges() -> None:
    assert GirgisForm(100, 0.0).epsilon(1e-6) == 0.0
    assert GirgisForm(100, 1.0).epsilon(0.0) == 1.0
    assert GirgisForm(100, 1.0).renyi(np.array([1e9]))[0] == 1.0
    assert response_renyi(np.array([2.0]), reports=10, local_epsilon=0.0)[0] == 0.0
    with pytest.raises(shoal.errors.NoPairError):
        GirgisForm(100, 1.0).bracket(1e-6)
