"""The Rényi divergence of clones against naive double sums and balls, from few reports to very many."""

import math

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from shoal.pairs import ClonePair, Family
from tests.oracles import exact


def _naive(pair: ClonePair, order: float, deviations: float = 14.0) -> float:
    """Sum P^α·Q^(1−α) over both counts, the number of clones within so many standard deviations."""
    trials, probability = pair.reports - 1, pair.clone_probability
    mean, deviation = trials * probability, math.sqrt(trials * probability * (1 - probability))
    first, last = max(0, int(mean - deviations * deviation)), min(trials, int(mean + deviations * deviation))
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 2)))))

    def log_binomial(count: int, part: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(factorials[count] - factorials[part] - factorials[count - part])

    half = math.tanh(pair.local_epsilon / 2)
    excess = 0.0
    for clones in range(first, last + 1):
        log_weight = float(log_binomial(trials, np.array([clones]))[0])
        log_weight += clones * math.log(probability) + (trials - clones) * math.log1p(-probability)
        count = clones + 1
        right = np.arange(count + 1)
        lean = half * (2 * right / count - 1)
        base = np.exp(log_binomial(count, right) - count * math.log(2) + log_weight)
        ratio = (1 + lean) / (1 - lean)
        excess += float((base * (1 - lean) * (ratio**order - 1 - order * (ratio - 1))).sum())
    return math.log1p(excess) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order", "family"),
    [
        (10**4, 4.0, 32.0, "clones"),
        (10**4, 4.0, 8.0, "strong-clones"),
        (10**4, 1.0, 1.5, "strong-clones"),
        (3000, 2.0, 20.0, "strong-clones"),
        (10**4, 5.0, 60.0, "strong-clones"),
    ],
)
def test_never_below_and_at_most_one_in_ten_thousand_above(
    reports: int, local_epsilon: float, order: float, family: Family
) -> None:
    pair = ClonePair(reports, local_epsilon, family)
    value = float(pair.renyi(np.array([order]))[0])
    expected = _naive(pair, order)
    assert expected * (1 - 1e-9) <= value <= expected * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [10**5, 10**7, 10**9, 10**12])
def test_leading_term_at_many_reports(reports: int) -> None:
    """D_α is close to α(E − 1)²/((E + 1)n), and slightly more, as long as α² is small against the clones."""
    orders = np.array([1 + 1e-9, 2.0, 16.0])
    values = ClonePair(reports, 1.0, "strong-clones").renyi(orders)
    leading = orders * (math.e - 1) ** 2 / ((math.e + 1) * reports)
    assert np.all(values >= leading)
    assert np.all(values <= leading * (1 + 1e-4 + 256 / (0.5 * reports)))


def test_large_orders_approach_the_local_epsilon() -> None:
    values = ClonePair(1000, 3.0, "strong-clones").renyi(np.array([2.0, 10.0, 100.0, 1e4, 1e8]))
    assert np.all(np.diff(values) > 0)
    assert values[-1] <= 3.0
    assert values[-1] > 2.99


def test_angles_keep_their_digits_at_a_large_local_epsilon() -> None:
    for reports, local_epsilon, order in ((20, 35.377048056838134, 694.4), (5, 59.0, 3.0), (40, 24.0, 50.0)):
        value = float(ClonePair(reports, local_epsilon, "strong-clones").renyi(np.array([order]))[0])
        ball = exact.pair_renyi(reports, local_epsilon, order, "strong")
        assert ball <= value
        assert value <= float(ball.mid()) * (1 + 1e-4)


@pytest.mark.parametrize("local_epsilon", [1e-300, 1e-9, 40.0, 800.0, 1e300])
def test_extreme_local_epsilons_and_orders(local_epsilon: float) -> None:
    values = ClonePair(100, local_epsilon, "clones").renyi(np.array([1 + 1e-12, 2.0, 1e6, 1e300]))
    assert np.all((values > 0) & (values <= local_epsilon))


def _ball_sum(pair: ClonePair, order: float, deviations: float = 13.0) -> float:
    """Sum over all counts with balls of 80 bits that matter: those near the middle, and those of few clones."""
    with ctx.workprec(80):
        reports, tilt = pair.reports, (arb(pair.local_epsilon) / 2).tanh()
        probability = 2 / (arb(pair.local_epsilon).exp() + 1)
        mean, total = float(reports * probability), arb(0)
        width = deviations * math.sqrt(mean)
        wanted = {*range(1, 40), *range(max(1, int(mean - width)), min(reports, int(mean + width)) + 1)}
        for count in sorted(wanted):
            clones = count - 1
            weight = (
                arb.bin_uiui(reports - 1, clones) * probability**clones * (1 - probability) ** (reports - 1 - clones)
            )
            inner = arb(0)
            for right in range(count + 1):
                lean = tilt * (arb(2 * right) / count - 1)
                inner += arb.bin_uiui(count, right) * (1 + lean) ** arb(order) * (1 - lean) ** arb(1 - order)
            total += weight * inner / arb(2) ** count
        return float(total.log() / (order - 1))


@pytest.mark.slow
@pytest.mark.parametrize("order", [8.0, 12.0, 13.0, 14.0, 16.0, 30.0])
def test_both_sides_of_the_leap(order: float) -> None:
    """With few clones the divergence leaps from that of many of them to that of none; both count in between."""
    pair = ClonePair(400, 3.0, "strong-clones")
    value = float(pair.renyi(np.array([order]))[0])
    expected = _ball_sum(pair, order)
    assert expected * (1 - 1e-12) <= value <= expected * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order", "known"),
    [(10**6, 4.0, 1e4, 2.1858479), (10**6, 1.0, 1e5, 0.089778018), (10**6, 8.0, 100.0, 5.0), (10**4, 2.0, 1e3, 0.75)],
)
def test_leaps_of_many_reports_are_tighter_than_rough_bounds(
    reports: int, local_epsilon: float, order: float, known: float
) -> None:
    """Below what wide ranges of the number of clones gave, and above two parts of the sum, each in closed form."""
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    value = float(pair.renyi(np.array([order]))[0])
    assert value < known
    # No clones at all; and, by Jensen's inequality, a loss whose variance is that of the usual number.
    none = (reports - 1) * math.log1p(-pair.clone_probability) + (order - 1) * local_epsilon
    none -= math.log1p(math.exp(-local_epsilon))
    usual = math.log(order / (order - 1)) + 2 * order * math.tanh(local_epsilon / 2) ** 2 / (
        reports * pair.clone_probability
    )
    assert value >= max(none / (order - 1) * (1 - 1e-9), 0.5 * (usual if order < 50 else 0.0))


@pytest.mark.parametrize("order", [1 + 1e-9, 1.5, 40.0, 1e6])
@pytest.mark.parametrize("local_epsilon", [1e-3, 2.0, 30.0])
def test_one_report_alone(local_epsilon: float, order: float) -> None:
    value = float(ClonePair(1, local_epsilon, "strong-clones").renyi(np.array([order]))[0])
    truth = exact.pair_renyi(1, local_epsilon, order, "strong")
    assert truth <= value
    assert value <= local_epsilon
    if order > 1.1:
        assert value <= float(truth.mid()) * (1 + 1e-9)


@pytest.mark.parametrize("family", ["clones", "strong-clones"])
@pytest.mark.parametrize("local_epsilon", [150.7, 268.2314791444801, 326.02166229018087, 411.3, 633.1])
@pytest.mark.parametrize("order", [1.000001, 1.0045542408563461, 1.3])
def test_one_report_with_a_huge_local_epsilon_is_never_below_the_exact_divergence(
    family: Family, local_epsilon: float, order: float
) -> None:
    value = float(ClonePair(1, local_epsilon, family).renyi(np.array([order]))[0])
    before, ctx.prec = ctx.prec, 4096
    try:
        ratio, alpha = arb(local_epsilon).exp(), arb(order)
        moment = ((alpha * local_epsilon).exp() + ((1 - alpha) * local_epsilon).exp()) / (ratio + 1)
        assert arb(value) >= moment.log() / (alpha - 1)
    finally:
        ctx.prec = before
    assert value <= local_epsilon


@pytest.mark.parametrize("local_epsilon", [350.0, 360.0, 500.0, 650.0])
@pytest.mark.parametrize("order", [1.0001, 3.0, 1e4])
def test_a_huge_local_epsilon_overflows_nowhere(local_epsilon: float, order: float) -> None:
    value = float(ClonePair(10, local_epsilon, "strong-clones").renyi(np.array([order]))[0])
    assert local_epsilon * (1 - 1e-6) <= value <= local_epsilon
