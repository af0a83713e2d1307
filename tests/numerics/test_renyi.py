"""Rényi divergences from the profile: against every outcome in balls, naive double sums and closed forms."""

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from shoal.numerics.contour import log_ceilings, positive_parts
from shoal.numerics.renyi import (
    BracketIntegral,
    ProfileIntegral,
    SummandIntegral,
    chords,
    divergences,
    one_report,
)
from shoal.numerics.summand import Tilted
from shoal.pairs import ClonePair, Family, LikelihoodPair
from shoal.pairs.likelihoods import Likelihoods
from tests.oracles import exact

Array = NDArray[np.float64]

_COMMON = 1 - 0.12 * (math.exp(1.5) + 1)
RESPONSE = Likelihoods(((1.5, 0.0, 0.12), (0.0, 1.5, 0.12), (0.0, 0.0, _COMMON)))


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
def test_never_below_and_hardly_above_the_double_sum(
    reports: int, local_epsilon: float, order: float, family: Family
) -> None:
    pair = ClonePair(reports, local_epsilon, family)
    value = float(pair.renyi(np.array([order]))[0])
    expected = _naive(pair, order)
    assert expected * (1 - 1e-9) <= value <= expected * (1 + 3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [10**5, 10**7, 10**9, 10**12])
def test_leading_term_at_many_reports(reports: int) -> None:
    """D_α is close to α(E − 1)²/((E + 1)n), and slightly more, as long as α² is small against the clones."""
    orders = np.array([1 + 1e-9, 2.0, 16.0])
    values = ClonePair(reports, 1.0, "strong-clones").renyi(orders)
    leading = orders * (math.e - 1) ** 2 / ((math.e + 1) * reports)
    assert np.all(values >= leading)
    assert np.all(values <= leading * (1 + 3e-4 + 256 / (0.5 * reports)))


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
        assert value <= float(ball.mid()) * (1 + 3e-4)


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
    assert expected * (1 - 1e-12) <= value <= expected * (1 + 3e-4)


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
@pytest.mark.parametrize("order", [1 + 1e-15, 1.000001, 1.0045542408563461, 1.3])
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


@pytest.mark.parametrize("excess", [1e-15, 1e-12, 1e-9, 3e-7, 1e-3, 0.5, 30.0, 1e4])
@pytest.mark.parametrize("ratio", [1e-6, 0.3, 40.0, 290.0, 480.0, 600.0])
def test_one_report_near_the_order_one_is_above_the_sum_in_balls(excess: float, ratio: float) -> None:
    """Powers next to one lost their digits, and the divergence of large likelihood ratios was too small."""
    rng = np.random.default_rng(18)
    order = 1 + excess
    for _ in range(20):
        firsts, seconds = rng.uniform(-ratio / 2, ratio / 2, (2, 3))
        probabilities = rng.dirichlet(np.ones(3))
        (found,) = one_report(firsts, seconds, probabilities, np.array([order]))
        with ctx.workprec(2_000):
            moment, power = arb(1), arb(order)
            for first, second, probability in zip(firsts, seconds, probabilities, strict=True):
                likelihood = (arb(first) - arb(second)).exp()
                term = likelihood**power - 1 - power * (likelihood - 1)
                moment += arb(probability) * arb(second).exp() * term
            truth = moment.log() / (power - 1)
        assert truth <= found <= float(truth.mid()) * (1 + 1e-5)


def test_a_direction_without_a_positive_loss_adds_nothing() -> None:
    """Rounded likelihoods may have no outcome that speaks for the first input: this raised an error."""
    rows = ((163.88299081727365, 163.88299081727368, 6.7e-72), (121.2, 207.2, 5.1e-187))
    (found,) = LikelihoodPair(2, Likelihoods(rows)).one_way(np.array([2.0]))
    assert 0 < found <= 86.0 + 1e-9


class Normal(ProfileIntegral):
    """δ of two normal distributions whose loss has this standard deviation."""

    def __init__(self, deviation: float, *orders: float) -> None:
        asked = np.array(orders)
        super().__init__(60 * deviation + max(orders) * deviation**2, (asked - 1, -asked))
        self.deviation = deviation

    def _log(self, points: Array) -> Array:
        s = self.deviation
        logs = []
        for x in points.tolist():
            tail, other = (math.erfc((x / s + sign * s / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
            logs.append(math.log(max(tail - math.exp(x) * other, 1e-320)))
        return np.array(logs)

    def rough(self, points: Array) -> Array:
        away = np.maximum(points / self.deviation - self.deviation / 2, 0.0)
        return np.asarray(-(away**2) / 2 - np.log1p(2 * away + away**2) + math.log(0.4 * self.deviation))

    def close(self, knots: Array) -> Array:
        return np.minimum(self._log(knots) + 1e-9, 0.0)


@pytest.mark.parametrize("deviation", [1e-3, 0.05, 0.4])
@pytest.mark.parametrize("order", [1.01, 2.0, 8.0, 20.0])
def test_normal_losses(deviation: float, order: float) -> None:
    truth = order * deviation**2 / 2
    assert truth <= divergences([Normal(deviation, order)], np.array([order]))[0] <= truth * (1 + 3e-4)


def test_normal_losses_at_several_orders_share_their_knots() -> None:
    """Each order is as tight as alone, and grows with the order."""
    orders = np.array([1.01, 2.0, 8.0, 20.0])
    truth = orders * 0.2**2 / 2
    integral = Normal(0.2, *orders.tolist())
    close = integral.close
    asked: list[int] = []

    def counted(knots: Array) -> Array:
        asked.append(len(knots))
        return close(knots)

    integral.close = counted  # type: ignore[method-assign]
    values = divergences([integral], orders)
    assert np.all(truth <= values)
    assert np.all(values <= truth * (1 + 3e-4))
    assert np.all(np.diff(values) > 0)
    assert sum(asked) < 600


def test_rough_values_decide_only_how_tight_the_bound_is() -> None:
    """With rough values that are far off, the knots are poor at first; the bound holds, and is still close."""
    integral = Normal(0.1, 4.0)
    integral.rough = lambda points: -points  # type: ignore[method-assign]
    truth = 4.0 * 0.1**2 / 2
    assert truth <= divergences([integral], np.array([4.0]))[0] <= truth * (1 + 1e-3)


def test_bounds_that_are_not_known_are_replaced() -> None:
    """Infinity and NaN at some knots cost tightness, and nothing else."""
    integral = Normal(0.1, 4.0)
    close = integral.close

    def holes(knots: Array) -> Array:
        logs = close(knots)
        logs[::7] = math.inf
        logs[3::7] = math.nan
        return logs

    integral.close = holes  # type: ignore[method-assign]
    truth = 4.0 * 0.1**2 / 2
    assert truth <= divergences([integral], np.array([4.0]))[0] <= truth * 2


@pytest.mark.parametrize("order", [1.5, 40.0])
def test_chords_are_integrals_of_lines_in_the_exponential(order: float) -> None:
    knots, logs = np.array([0.1, 0.3, 0.35]), np.log([0.2, 0.05, 0.04])
    exponents = (order - 1, -order)
    for index, log in enumerate(chords(exponents, knots, logs[:-1], logs[1:]).tolist()):
        points = np.linspace(knots[index], knots[index + 1], 100_001)
        left, right = np.exp(knots[index : index + 2])
        share = (np.exp(points) - left) / (right - left)
        line = math.exp(logs[index]) * (1 - share) + math.exp(logs[index + 1]) * share
        whole = np.trapezoid(line * (np.exp((order - 1) * points) + np.exp(-order * points)), points)
        assert math.log(whole) == pytest.approx(log, abs=1e-8)


def three_kinds(reports: int) -> LikelihoodPair:
    """Return reports that differ in both directions: likelihoods (3, 1), (1, 2), (1, 1.5) and nothing."""
    rows = [(math.log(3), 0.0, 0.2), (0.0, math.log(2), 0.25), (0.0, math.log(1.5), 0.2)]
    # Scaled so that both inputs have probability one.
    first = sum(p * math.exp(a) for a, _, p in rows)
    second = sum(p * math.exp(b) for _, b, p in rows)
    scaled = tuple((a - math.log(first), b - math.log(second), p) for a, b, p in rows)
    return LikelihoodPair(reports, Likelihoods(scaled, rest=0.35))


def enumerated(pair: LikelihoodPair, order: float) -> arb:
    """Return D_α(P‖Q) from every outcome, in balls."""
    with ctx.workprec(200):
        rows = [tuple(arb(number) for number in row) for row in pair.likelihoods.rows]
        firsts = [first.exp() for first, _, _ in rows] + [arb(0)]
        seconds = [second.exp() for _, second, _ in rows] + [arb(0)]
        shares = [share for _, _, share in rows]
        shares.append(1 - sum(shares, arb(0)))
        n, total = pair.reports, arb(0)
        for counts in itertools.product(range(n + 1), repeat=len(shares) - 1):
            last = n - sum(counts)
            if last < 0:
                continue
            whole = (*counts, last)
            first, second = (
                sum((count * each for count, each in zip(whole, side, strict=True)), arb(0)) / n
                for side in (firsts, seconds)
            )
            if whole[:-1] == (0,) * len(counts):
                continue
            weight = arb(math.factorial(n))
            for count, share in zip(whole, shares, strict=True):
                weight *= share**count / math.factorial(count)
            total += weight * first ** arb(order) * second ** arb(1 - order)
        return total.log() / (arb(order) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 7.5, 64.0, 1e3])
@pytest.mark.parametrize("reports", [2, 5, 12])
def test_both_directions_against_every_outcome(reports: int, order: float) -> None:
    forward = three_kinds(reports)
    for pair in (forward, LikelihoodPair(reports, forward.likelihoods.swapped)):
        truth = enumerated(pair, order)
        value = float(pair.one_way(np.array([order]))[0])
        assert truth <= value
        assert value <= float(truth.mid()) * (1 + 5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), [(0.5, 60), (1.0, 80), (3.0, 60)])
@pytest.mark.parametrize("order", [1.2, 2.0, 16.0, 200.0, 1e4])
def test_clones_against_balls(local_epsilon: float, reports: int, order: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    truth = exact.pair_renyi(reports, local_epsilon, order, "strong")
    value = float(pair.renyi(np.array([order]))[0])
    assert truth <= value <= float(truth.mid()) * (1 + 5e-4)
    together = pair.renyi(np.array([1.5, order, 2 * order]))
    assert truth <= float(together[1]) <= float(truth.mid()) * (1 + 5e-4)


@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order"),
    [(10**6, 4.0, 1e5), (10**9, 8.0, 1e5), (10**9, 14.0, 64.0), (10**4, 4.0, 1e3)],
)
def test_beyond_the_leap_every_clone_is_of_the_right_kind(reports: int, local_epsilon: float, order: float) -> None:
    """These outcomes, all with the largest loss, are part of the sum: (1 − p/2)ⁿ⁻¹·e^((α − 1)ε₀)·e^ε₀/(e^ε₀ + 1)."""
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    value = float(pair.renyi(np.array([order]))[0])
    alone = (reports - 1) * math.log1p(-pair.clone_probability / 2) + (order - 1) * local_epsilon
    alone -= math.log1p(math.exp(-local_epsilon))
    assert value >= alone / (order - 1)
    if order * local_epsilon > 1e4:
        assert value <= alone / (order - 1) * (1 + 1e-3)


def test_one_way_is_no_more_than_both() -> None:
    pair = LikelihoodPair(500, RESPONSE)
    assert pair.likelihoods.symmetric
    orders = np.array([1.5, 4.0, 300.0])
    values = pair.renyi(orders)
    assert np.array_equal(values, pair.one_way(orders))
    assert np.all(np.diff(values) > 0)
    assert values[-1] <= 1.5


def test_logarithms_are_those_of_the_bounds() -> None:
    pair = ClonePair(10_000, 1.0, "strong-clones")
    points = np.array([0.01, 0.02, 0.05])
    summands = [pair.distribution(point) for point in points.tolist()]
    lower, upper = positive_parts(Tilted.of(summands), tolerance=1e-6)
    logs = log_ceilings(Tilted.of(summands), 1e-6)
    assert np.all(logs >= np.log(lower))
    assert logs == pytest.approx(np.log(upper), abs=1e-9)
    # Where nobody can add as many terms, infinity is said; with a few more, something coarser.
    assert np.all(np.isinf(log_ceilings(Tilted.of(summands), 1e-6, 1)))
    coarse = log_ceilings(Tilted.of(summands), 1e-6, 2_000)
    assert np.all(coarse >= np.log(lower))
    # The bounds at knots are one or the other of listed counts, contour and Chernoff's bound.
    orders = np.array([2.0])
    integral = SummandIntegral(pair.distribution, 1.0, (orders - 1, -orders))
    close = integral.close(points)
    assert np.all(close >= np.log(lower))
    assert close == pytest.approx(np.log(upper), abs=3e-5)


@pytest.mark.parametrize(("reports", "local_epsilon"), [(2, 1.0), (30, 0.2), (40, 3.0), (25, 9.0)])
@pytest.mark.parametrize("order", [1.001, 1.5, 3.0, 6.0, 30.0])
def test_few_counts_against_balls(reports: int, local_epsilon: float, order: float) -> None:
    value = float(ClonePair(reports, local_epsilon, "strong-clones").renyi(np.array([order]))[0])
    truth = exact.pair_renyi(reports, local_epsilon, order, "strong")
    assert truth <= value <= float(truth.mid()) * (1 + 3e-4)


def with_common(reports: int, local_epsilon: float, common: float, both: float) -> LikelihoodPair:
    """Return two kinds that differ, a frequent one that is the same for both inputs, and a rare one, more likely."""
    local = local_epsilon
    share = (1 - common - both * math.exp(local)) / (math.exp(local) + 1)
    rows = ((local, 0.0, share), (0.0, local, share), (0.0, 0.0, common), (local, local, both))
    return LikelihoodPair(reports, Likelihoods(rows))


def every_outcome(pair: LikelihoodPair, order: float, highest: tuple[int, int, int]) -> float:
    """Return the divergence from all counts up to these of the rare kinds, and all that matter of the frequent one."""
    n, factorials = pair.reports, np.array([math.lgamma(count + 1) for count in range(pair.reports + 1)])
    firsts, seconds, shares = zip(*pair.likelihoods.rows, strict=True)
    mean = n * shares[2]
    width = 9 * math.sqrt(mean)
    frequent = np.arange(max(0, int(mean - width)), int(mean + width))
    grids = np.meshgrid(*(np.arange(each + 1) for each in highest), frequent, indexing="ij")
    first, second, rare, common = (grid.ravel() for grid in grids)
    counts = (first, second, common, rare)
    left = n - sum(counts)
    logs = factorials[n] - factorials[left] + left * math.log(pair.likelihoods.missing)
    for count, share in zip(counts, shares, strict=True):
        logs = logs + count * math.log(share) - factorials[count]
    a, b = (sum(c * x for c, x in zip(counts, np.exp(side).tolist(), strict=True)) for side in (firsts, seconds))
    ratio = a / b
    total = float((np.exp(logs) * b * (ratio**order - 1 - order * (ratio - 1))).sum()) / n
    return math.log1p(total) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 5.0])
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "shares", "highest"),
    [
        (400_000, 10.0, (0.002, 1e-8), (65, 65, 2)),
        (400_000, 11.0, (0.01, 1e-9), (40, 40, 1)),
        (400_000, 12.0, (0.004, 4e-7), (30, 30, 5)),
        (1_000, 4.0, (0.5, 1e-6), (40, 40, 1)),
    ],
)
def test_frequent_reports_of_both_inputs(
    reports: int, local_epsilon: float, shares: tuple[float, float], highest: tuple[int, int, int], order: float
) -> None:
    pair = with_common(reports, local_epsilon, *shares)
    value = float(pair.renyi(np.array([order]))[0])
    truth = every_outcome(pair, order, highest)
    assert truth * (1 - 1e-7) <= value <= truth * (1 + 1e-3)


def test_a_report_that_both_inputs_give_equally_often_adds_nothing() -> None:
    """Of a single report: its part of D_α is zero, and it must not make the rest unknown."""
    high, low = math.log(1.5), math.log(0.5)
    likelihoods = Likelihoods(((high, low, 0.25), (low, high, 0.25), (0.0, 0.0, 0.5)), complete=True)
    (found,) = LikelihoodPair(1, likelihoods).renyi(np.array([2.0]))
    assert math.log(5 / 3) <= found <= math.log(5 / 3) * (1 + 1e-12)


@pytest.mark.parametrize("order", [1.01, 2.0, 40.0, 1e5])
def test_brackets_give_the_divergence_of_the_distribution(order: float) -> None:
    """Above the same outcomes in balls, and close to the integral of the distribution of W."""
    pair = ClonePair(60, 1.0, "strong-clones")
    orders = np.array([order])
    integral = BracketIntegral(pair.brackets, pair.local_epsilon, (orders - 1, -orders))
    value = min(float(divergences([integral], orders)[0]), 1.0)
    truth = exact.pair_renyi(60, 1.0, order, "strong")
    assert truth <= value <= float(truth.mid()) * (1 + 5e-4)
