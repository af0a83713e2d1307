"""Noise on an interval: Gaussian and Laplace blankets against quadrature, enumeration and simulation."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import shoal
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.normal import gaussian_delta
from shoal.pairs import LikelihoodPair

Array = NDArray[np.float64]


def shuffled_delta(sigma: float, reports: int, epsilon: float) -> float:
    """Return δ(ε) of Gaussian noise, rounded up."""
    return shoal.Gaussian(sigma=sigma).profile(reports).delta(epsilon)


def normal_ramp(sigma: float, epsilon: float, levels: Array) -> Array:
    """Return E[(W − c)₊] of the blanket of Gaussian noise, from distribution functions."""
    growth, half = math.exp(epsilon), 0.5 / sigma
    top, nothing = 1 - growth, math.erf(half / math.sqrt(2))
    ratios = np.maximum(levels + growth, 1.0)
    logs = sigma * np.log(ratios)
    right = stats.norm.sf(logs - half) - ratios * stats.norm.sf(logs + half)
    ratios = np.maximum((1 - levels) / growth, 1.0)
    logs = sigma * np.log(ratios)
    left = growth * (stats.norm.sf(logs - half) - ratios * stats.norm.sf(logs + half))
    return np.asarray(np.where(levels >= top, right + nothing * np.maximum(-levels, 0), top - levels + left))


def normal_atoms(sigma: float, epsilon: float, cells: int) -> tuple[Array, Array]:
    """Return W with every cell of outputs at its mean: less than W in the convex order."""
    inner = np.linspace(-0.5 - 9 * sigma, 1.5 + 9 * sigma, cells | 1)  # with 1/2 among the edges
    edges = np.concatenate(([-np.inf], inner, [np.inf]))

    def masses(value: float) -> Array:
        steps = (edges - value) / sigma
        lower, upper = stats.norm.cdf(steps), stats.norm.sf(steps)
        return np.asarray(np.where(steps[:-1] > 0, upper[:-1] - upper[1:], lower[1:] - lower[:-1]))

    zero, one = masses(0.0), masses(1.0)
    shared = np.where(edges[1:] <= 0.5 + 1e-12, one, zero)
    kept = shared > 0
    values = (zero[kept] - math.exp(epsilon) * one[kept]) / shared[kept]
    return np.append(values, 0.0), np.append(shared[kept], math.erf(0.5 / sigma / math.sqrt(2)))


def merged(values: Array, masses: Array, most: int) -> tuple[Array, Array]:
    """Return the distribution with neighbours at their common mean, which only lowers E[(S − c)₊]."""
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    # Even steps of the arcsinh keep the bulk fine and the far ends coarse.
    places = np.arcsinh(values / 0.3)
    bins = ((places - places[0]) / (places[-1] - places[0] + 1e-300) * (most - 1)).astype(int)
    sums, means = (np.asarray(np.bincount(bins, part), dtype=np.float64) for part in (masses, masses * values))
    return means[sums > 0] / sums[sums > 0], sums[sums > 0]


def normal_blanket_below(sigma: float, reports: int, epsilon: float) -> float:
    """Return E[(W₁ + … + Wₙ)₊]/n, a little below: the last summand exact, the others at the means of cells."""
    total = np.zeros(1), np.ones(1)
    for _ in range(reports - 1):
        values, masses = normal_atoms(sigma, epsilon, 700)
        sums, products = np.add.outer(total[0], values).ravel(), np.multiply.outer(total[1], masses).ravel()
        total = merged(sums, products, 3000)
    return float((total[1] * normal_ramp(sigma, epsilon, -total[0])).sum()) / reports


_SMALL = [(2.0, 4, 0.3), (3.0, 6, 0.2), (5.0, 5, 0.0)]
_LOOSE = [(20.0, 4, 0.02), (20.0, 6, 0.0)]
_UNSOUND = [(1.0, 1, 0.5), (0.5, 2, 0.0), (0.7, 2, 0.5), (1.0, 2, 0.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "reports", "epsilon"), _SMALL)
def test_gaussian_noise_is_just_above_the_plain_sum(sigma: float, reports: int, epsilon: float) -> None:
    below = normal_blanket_below(sigma, reports, epsilon)
    value = shuffled_delta(sigma, reports, epsilon)
    assert below <= value <= below * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "reports", "epsilon"), _LOOSE)
def test_wide_gaussian_noise_is_just_above_the_plain_sum(sigma: float, reports: int, epsilon: float) -> None:
    below = normal_blanket_below(sigma, reports, epsilon)
    value = shuffled_delta(sigma, reports, epsilon)
    assert value <= below * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "reports", "epsilon"), _UNSOUND)
def test_gaussian_noise_with_very_few_reports(sigma: float, reports: int, epsilon: float) -> None:
    value = shuffled_delta(sigma, reports, epsilon)
    assert value >= normal_blanket_below(sigma, reports, epsilon)


def test_the_plain_sum_is_right() -> None:
    for sigma, epsilon in ((0.5, 0.0), (1.0, 0.7), (3.0, 0.1)):
        assert normal_blanket_below(sigma, 1, epsilon) == pytest.approx(gaussian_delta(sigma, epsilon), rel=1e-12)
        values, masses = normal_atoms(sigma, epsilon, 4000)
        assert masses.sum() == pytest.approx(1, rel=1e-12)
        assert (values * masses).sum() == pytest.approx(-math.expm1(epsilon), rel=1e-9, abs=1e-12)
        for level in (-3.0, -0.5, 0.0, 0.4, 5.0):
            below = float((masses * np.maximum(values - level, 0)).sum())
            ramp = float(normal_ramp(sigma, epsilon, np.array(level)))
            assert below <= ramp * (1 + 1e-12)
            assert ramp <= below * (1 + 1e-3) + 1e-7


@pytest.mark.slow
def test_gaussian_noise_falls_with_epsilon() -> None:
    for sigma, reports, step in ((20.0, 50, 0.004), (100.0, 1000, 2e-4), (5.0, 300, 0.01)):
        values = [shuffled_delta(sigma, reports, step * place) for place in range(6)]
        assert all(after <= before * (1 + 1e-6) for before, after in pairwise(values))


@pytest.mark.slow
def test_gaussian_noise_is_between_its_limits() -> None:
    for sigma, reports, epsilon in ((20.0, 50, 0.01), (5.0, 300, 0.02), (1.0, 1000, 0.05), (100.0, 1000, 1e-3)):
        profile = shoal.Gaussian(sigma=sigma).profile(reports)
        lower = shoal.lower_bound(shoal.Gaussian(sigma=sigma), reports=reports)
        assert lower.delta(epsilon) <= profile.delta(epsilon) < gaussian_delta(sigma, epsilon)


def shuffled_normal(sigma: float, others: tuple[float, ...], epsilon: float, cells: int) -> float:
    """Return δ of real reports, the victim's at 0 or 1, from the densities of the shuffled reports on a grid."""
    edges = np.linspace(-5 * sigma, 1 + 5 * sigma, cells + 1)
    distributions = [np.diff(stats.norm.cdf(edges, value, sigma)) for value in (0.0, 1.0, *others)]

    def density(victim: Array) -> Any:
        held = [victim, *distributions[2:]]
        axes = range(len(held))
        total: Any = 0.0
        for first in axes:  # others are alike, so that it only matters where the victim's report is
            place = [held[0] if axis == first else held[1] for axis in axes]
            total = total + np.multiply.outer(np.multiply.outer(place[0], place[1]), place[2] if len(held) > 2 else 1.0)
        return total / len(held)

    zero, one, growth = density(distributions[0]), density(distributions[1]), math.exp(epsilon)
    return float(max(np.maximum(zero - growth * one, 0).sum(), np.maximum(one - growth * zero, 0).sum()))


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "reports"), [(0.5, 2), (3.0, 2), (3.0, 3)])
def test_real_gaussian_reports_stay_below(sigma: float, reports: int) -> None:
    # Binning outputs can only lower δ, so that no margin is needed.
    for epsilon in (0.1, 0.4):
        value = shoal.Gaussian(sigma=sigma).profile(reports).delta(epsilon)
        for other in (0.0, 0.5, 1.0):
            truth = shuffled_normal(sigma, (other,) * (reports - 1), epsilon, 600 if reports == 2 else 120)
            assert 0 < truth <= value
            lower = shoal.lower_bound(shoal.Gaussian(sigma=sigma), reports=reports).delta(epsilon)
        assert lower <= value


@pytest.mark.slow
def test_simulated_gaussian_reports_stay_below() -> None:
    # A score between 0 and 1 whose mean is δ. By Hoeffding each of the nine comparisons fails by chance with
    # probability 1e-10 at most, so that all together give a false alarm once in a thousand million runs.
    random, draws, growth = np.random.default_rng(12), 100_000, math.exp(0.02)
    margin = math.sqrt(math.log(1e10) / (2 * draws))
    for sigma, reports in ((5.0, 8), (3.0, 5), (20.0, 5)):
        value = shuffled_delta(sigma, reports, 0.02)
        for other in (0.0, 0.5, 1.0):
            outputs = random.normal(other, sigma, (draws, reports))
            outputs[:, 0] += 0.0 - other

            def weights(victim: float, outputs: Array = outputs, other: float = other, scale: float = sigma) -> Any:
                return np.exp((victim - other) * (2 * outputs - victim - other) / (2 * scale**2)).sum(axis=1)

            scores = np.maximum(1 - growth * weights(1.0) / weights(0.0), 0)
            assert float(scores.mean()) - margin <= value


def test_absurd_gaussian_noise_is_safe() -> None:
    for sigma, reports, epsilon in ((100.0, 2, 0.0), (100.0, 2, 1.0), (100.0, 10**4, 1e-4), (1.0, 1, 0.0)):
        value = shoal.Gaussian(sigma=sigma).profile(reports).delta(epsilon)
        assert 0 < value <= max(gaussian_delta(sigma, epsilon), SMALLEST_DELTA)


@pytest.mark.parametrize(("sigma", "reports"), [(100.0, 10**9), (0.05, 10**9)])
def test_absurd_numbers_of_reports_with_gaussian_noise(sigma: float, reports: int) -> None:
    assert 0 < shoal.Gaussian(sigma=sigma).profile(reports).delta(0.0) <= gaussian_delta(sigma, 0.0)


@pytest.mark.slow
def test_no_gaussian_noise_has_a_delta_of_zero() -> None:
    assert shoal.Gaussian(sigma=100.0).profile(10**9).delta(1e-3) > 0


# Laplace


def laplace_ramp(local_epsilon: float, epsilon: float, level: float) -> float:
    """Return E[(W − c)₊] of the blanket of Laplace noise, from distribution functions."""
    growth, largest = math.exp(epsilon), math.exp(local_epsilon)
    root = 0.5 * math.exp(-local_epsilon / 2)

    def above(ratio: float) -> float:
        """Return the integral of t − ratio where t is larger, on one half."""
        start = min(max(ratio, 1.0), largest)
        inner = root * (2 * math.sqrt(start) - 2 * math.sqrt(largest)) * -0.5
        density = inner - ratio * root * (1 / math.sqrt(start) - 1 / math.sqrt(largest))
        return density + 0.5 / largest * max(largest - ratio, 0.0)

    # On the other half, with W = 1 − e^ε·t: (W − c)₊ = 1 − c − e^ε·t + e^ε·(t − (1 − c)/e^ε)₊.
    half = 0.5 * math.exp(-local_epsilon / 2)
    other = (1 - level) * half - growth * (1 - half) + growth * above((1 - level) / growth)
    return above(growth + level) + other - math.expm1(-local_epsilon / 2) * max(-level, 0.0)


def laplace_values(local_epsilon: float, epsilon: float, count: int) -> tuple[Array, Array]:
    """Return W and its weights for Gauss's rule on both halves, the two atoms, and the zero."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    logs = local_epsilon * (nodes + 1) / 2
    masses = weights * local_epsilon / 2 * 0.25 * np.exp(-0.5 * (local_epsilon + logs))
    logs, masses = np.append(logs, local_epsilon), np.append(masses, 0.5 * math.exp(-local_epsilon))
    growth = math.exp(epsilon)
    values = np.concatenate((np.exp(logs) - growth, 1 - growth * np.exp(logs), [0.0]))
    return values, np.concatenate((masses, masses, [-math.expm1(-local_epsilon / 2)]))


@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 4.0])
def test_the_ramp_of_laplace_noise_is_that_of_its_density(local_epsilon: float) -> None:
    epsilon = 0.3 * local_epsilon
    values, masses = laplace_values(local_epsilon, epsilon, 400)
    for level in np.quantile(values, [0.02, 0.3, 0.5, 0.7, 0.95]).tolist():
        summed = float((masses * np.maximum(values - level, 0.0)).sum())
        assert laplace_ramp(local_epsilon, epsilon, level) == pytest.approx(summed, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [2, 3])
@pytest.mark.parametrize(("local_epsilon", "share"), [(0.1, 0.3), (1.0, 0.0), (1.0, 0.5), (4.0, 0.2), (10.0, 0.9)])
def test_few_laplace_reports_are_enclosed(local_epsilon: float, share: float, reports: int) -> None:
    # E[(W₁ + … + Wₙ)₊] is the mean of the ramp of one of them, at minus the sum of the others.
    epsilon = share * local_epsilon
    values, masses = laplace_values(local_epsilon, epsilon, 400 if reports == 2 else 60)
    sums, weights = values, masses
    if reports == 3:
        sums, weights = np.add.outer(values, values).ravel(), np.multiply.outer(masses, masses).ravel()
    exact = math.fsum(w * laplace_ramp(local_epsilon, epsilon, -x) for x, w in zip(sums, weights, strict=True))
    profile = shoal.Laplace(local_epsilon=local_epsilon).profile(reports)
    lower, upper = profile.delta_below(epsilon), profile.delta(epsilon)
    tolerance = 1e-5 if reports == 2 else 1e-3  # of the quadrature, whose integrand has kinks
    assert lower * (1 - tolerance) <= exact / reports <= upper * (1 + tolerance)
    assert upper <= lower * (1 + 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local_epsilon", "reports", "epsilon"), [(0.1, 10**4, 2e-3), (1.0, 10**3, 0.12), (4.0, 10**5, 0.1)]
)
def test_laplace_bounds_agree_with_a_fine_table(local_epsilon: float, reports: int, epsilon: float) -> None:
    # Cells of the likelihood ratio, and another evaluator: from above, and narrower than 1e-4.
    (table,) = shoal.Laplace(local_epsilon=local_epsilon).blanket
    other = LikelihoodPair(reports, table).delta_bracket(epsilon)
    profile = shoal.Laplace(local_epsilon=local_epsilon).profile(reports)
    lower, upper = profile.delta_below(epsilon), profile.delta(epsilon)
    assert lower <= other[1] <= upper * (1 + 1e-4)
    assert upper <= other[1] * (1 + 5e-4)


@pytest.mark.slow
@given(
    local=st.floats(-1, 1.15),
    log_reports=st.floats(0, 12),
    log_delta=st.floats(-20, -2),
)
@settings(deadline=None, max_examples=40)
def test_laplace_brackets_are_narrow(local: float, log_reports: float, log_delta: float) -> None:
    local_epsilon, reports, delta = 10**local, math.floor(10**log_reports), 10**log_delta
    profile = shoal.Laplace(local_epsilon=local_epsilon).profile(reports)
    lower, upper = profile.bracket(delta)
    assert 0 <= lower <= upper <= local_epsilon
    assert upper - lower <= 2e-4 * upper
    assert profile.delta(upper) <= delta
    if upper:
        assert profile.delta_below(lower) >= delta or lower == 0


@pytest.mark.parametrize(
    ("mechanism", "reports", "epsilon"),
    [
        (shoal.Laplace(local_epsilon=14), 100, 12.6),
        (shoal.Laplace(local_epsilon=14), 1000, 13.5),
        (shoal.Laplace(local_epsilon=14), 10**4, 12.6),
        (shoal.Laplace(local_epsilon=10), 100, 9.0),
        (shoal.Laplace(local_epsilon=2), 10**10, 1.38e-4),
        (shoal.Gaussian(sigma=10), 3000, 0.0142),
        (shoal.Gaussian(sigma=100), 10**6, 1e-5),
    ],
    ids=str,
)
def test_both_ends_of_delta_are_close(mechanism: Any, reports: int, epsilon: float) -> None:
    profile = mechanism.profile(reports)
    upper = profile.delta(epsilon)
    assert 0 < profile.delta_below(epsilon) <= upper <= profile.delta_below(epsilon * (1 - 2e-4))


@pytest.mark.parametrize("local_epsilon", [1e-300, 1e-12, 1e-3, 0.3, 30.0, 700.0, 1e4])
def test_one_laplace_report_has_a_closed_form(local_epsilon: float) -> None:
    profile = shoal.Laplace(local_epsilon=local_epsilon).profile(1)
    for share in (0.0, 0.5, 0.999):
        exact = max(-math.expm1((share * local_epsilon - local_epsilon) / 2), SMALLEST_DELTA)
        assert exact <= profile.delta(share * local_epsilon) <= min(1.0, exact * (1 + 1e-12))
    assert profile.delta(local_epsilon) == 0
    assert profile.epsilon(0.0) == local_epsilon


# Gaussian, from both sides


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "reports", "epsilon"),
    [(1.0, 2, 1.0), (1.0, 10, 1.0), (0.5, 10**4, 0.5), (0.3, 100, 8.0), (1.0, 10**4, 0.04), (10.0, 1000, 0.01)],
)
def test_gaussian_bounds_enclose_cells_at_their_means(sigma: float, reports: int, epsilon: float) -> None:
    profile = shoal.Gaussian(sigma=sigma).profile(reports)
    lower, upper = profile.delta_below(epsilon), profile.delta(epsilon)
    assert 0 < lower <= upper <= lower * 1.05
    if reports == 2:  # every pair of cells: less than the truth, and close to it
        values, masses = normal_atoms(sigma, epsilon, 2000)
        summed = float(masses @ np.maximum(np.add.outer(values, values), 0.0) @ masses) / 2
        assert summed <= upper * (1 + 1e-9)
        assert lower <= summed * (1 + 1e-4)


@pytest.mark.slow
@given(sigma=st.floats(0.7, 10), log_reports=st.floats(1, 12), log_delta=st.floats(-9, -3))
@settings(deadline=None, max_examples=10)
def test_gaussian_brackets_hold_what_they_say(sigma: float, log_reports: float, log_delta: float) -> None:
    reports, delta = math.floor(10**log_reports), 10**log_delta
    profile = shoal.Gaussian(sigma=sigma).profile(reports)
    lower, upper = profile.bracket(delta)
    assert 0 <= lower <= upper <= profile.alone(delta)
    assert profile.delta(upper) <= delta
    assert lower == 0 or profile.delta_below(lower) >= delta


# What is reached by the integers that are drawn

RUN = (
    shoal.Laplace(local_epsilon=0.5),
    shoal.Laplace(local_epsilon=2.0, lower=-3.0, upper=0.1),
    shoal.Laplace(local_epsilon=0.05),  # two points, and cells of more than a step
    shoal.Laplace(local_epsilon=0.9),  # 15 steps: nobody's value is rounded to the middle for sure
    shoal.Laplace(local_epsilon=20.0),  # more cells than pools
    shoal.Gaussian(sigma=0.5),
    shoal.Gaussian(sigma=3.0),
    shoal.Gaussian(sigma=40.0),
    shoal.Gaussian(sigma=0.02),  # from one end, reports of the other are impossible
)


def drawn(mechanism: Any, value: float) -> Array:
    """Return the distribution of the reports of a value, from the integers: rounded to a point, then the noise."""
    noise = mechanism.noise
    place = int(mechanism._range.positions(np.array([value]), mechanism.grid.intervals)[0])
    point, part = divmod(place, 1 << 50)
    total = 1 << (noise.bits + 50)
    above = noise.distribution(point + 1) if part else noise.distribution(point)
    weights = [((1 << 50) - part) * one + part * two for one, two in zip(noise.distribution(point), above, strict=True)]
    return np.array([weight / total for weight in weights])


def two_reports(mechanism: Any, epsilon: float) -> float:
    """Return the largest δ of two shuffled reports, the victim's from either end, the other one's from three values."""
    values = (mechanism.lower, mechanism.upper, mechanism.lower + mechanism.length / 2)
    low, high, middle = (drawn(mechanism, value) for value in values)
    best = 0.0
    for one, two in ((low, high), (high, low)):
        gain = one - math.exp(epsilon) * two
        for other in (low, high, middle):
            table = np.multiply.outer(gain, other)
            best = max(best, float(np.maximum(table + table.T, 0).sum()) / 2)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RUN, ids=repr)
def test_the_lower_limit_is_reached_by_what_is_run(mechanism: Any) -> None:
    lower = shoal.lower_bound(mechanism, reports=2)
    wide = mechanism.local_epsilon if math.isfinite(mechanism.local_epsilon) else 2 / mechanism.relative_sigma
    for share in (0.0, 0.3, 0.6, 0.9):
        truth = two_reports(mechanism, share * wide)
        assert 0.85 * truth <= lower.delta(share * wide) <= truth * (1 + 1e-11)
    assert "real-valued" not in lower.description


def test_few_cells_are_not_put_together() -> None:
    for local_epsilon, epsilon, truth, before in ((0.5, 0.3, 0.0536837, 0.0538753), (0.5, 0.0, 0.1419381, 0.1419820)):
        mechanism = shoal.Laplace(local_epsilon=local_epsilon)
        limit = shoal.lower_bound(mechanism, reports=2).delta(epsilon)
        assert limit == pytest.approx(truth, abs=1e-7)
        assert limit == pytest.approx(two_reports(mechanism, epsilon), rel=1e-6)
        assert limit < before


@pytest.mark.parametrize("mechanism", RUN, ids=repr)
def test_pools_are_sums_of_the_integers(mechanism: Any) -> None:
    values = (mechanism.lower, mechanism.upper, mechanism.lower + mechanism.length / 2)
    distributions = [drawn(mechanism, value) for value in values]
    for table, distribution in zip(mechanism.homogeneous, distributions, strict=True):
        assert table.missing == 0
        rows = np.array(table.rows)
        for masses, whole in (
            (rows[:, 2], distribution),
            *((rows[:, 2] * np.exp(rows[:, i]), distributions[i]) for i in (0, 1)),
        ):
            assert math.fsum(masses) == pytest.approx(1, rel=1e-11)
            for epsilon in (0.0, 0.2):  # what pools show of one report is not more than the cells do
                gain = masses - math.exp(epsilon) * rows[:, 2]
                cells = whole - math.exp(epsilon) * distribution
                assert np.maximum(gain, 0).sum() <= np.maximum(cells, 0).sum() * (1 + 1e-11) + 1e-13
        assert len(rows) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1e-300, 1e-10, 1e-9, 699.0, 700.0, 701.0, 1e5])
def test_lower_limits_of_absurd_laplace_noise(local_epsilon: float) -> None:
    alone = shoal.amplify(shoal.Laplace(local_epsilon=local_epsilon), reports=1)
    for reports in (1, 2, 1000):
        lower = shoal.lower_bound(shoal.Laplace(local_epsilon=local_epsilon), reports=reports)
        assert 0 <= lower.epsilon(1e-6) <= lower.epsilon(0) <= local_epsilon
        assert 0 <= lower.delta(local_epsilon / 2) <= alone.delta(local_epsilon / 2)


def test_gaussian_reports_of_real_inputs() -> None:
    for sigma in (0.3, 1.0, 10.0):
        for table in shoal.Gaussian(sigma=sigma).homogeneous:
            rows = np.array(table.rows)
            for masses in (rows[:, 2], *(rows[:, 2] * np.exp(rows[:, column]) for column in (0, 1))):
                assert math.fsum(masses) == pytest.approx(1, rel=1e-11)
            # What binning leaves of one report alone is less than all of it, and most of it.
            for epsilon in (0.0, 0.3 / sigma):
                left = math.fsum(
                    rows[:, 2] * np.maximum(np.exp(rows[:, 0]) - math.exp(epsilon) * np.exp(rows[:, 1]), 0)
                )
                alone = gaussian_delta(sigma, epsilon)
                assert 0.9 * alone <= left <= alone * (1 + 1e-10)


# Theorem B


@pytest.mark.parametrize("kind", ["laplace", "norm", "logistic"])
@pytest.mark.parametrize("scale", [0.15, 0.6, 2.5])
def test_the_ends_are_the_worst_pair(kind: str, scale: float) -> None:
    outputs = np.linspace(0.5 - 25 * scale, 0.5 + 25 * scale, 8001)
    inputs = np.array([0.0, 0.15, 0.4, 0.5, 0.7, 1.0])
    distributions = np.array([getattr(stats, kind).pdf(outputs, value, scale) for value in inputs]) * (
        outputs[1] - outputs[0]
    )
    shared = np.minimum(distributions[0], distributions[-1])
    assert np.all(shared <= distributions.min(axis=0) * (1 + 1e-12))

    def excess(first: int, second: int, beta: float, kappa: float) -> float:
        return float(np.maximum(distributions[first] - beta * distributions[second] - kappa * shared, 0).sum())

    for beta, kappa in product((0.2, 1.0, 1.5, 6.0), (0.0, 0.1, 0.7, 3.0)):
        worst = excess(0, len(inputs) - 1, beta, kappa)
        assert worst == pytest.approx(excess(len(inputs) - 1, 0, beta, kappa), rel=1e-9, abs=1e-12)
        for first, second in product(range(len(inputs)), repeat=2):
            assert excess(first, second, beta, kappa) <= worst + 1e-6


def test_bins_of_a_lattice_pair_are_those_of_the_table() -> None:
    # The table of real inputs, n = 2, summed by hand.
    table = shoal.Laplace(local_epsilon=1.0).homogeneous[0]
    rows = np.array(table.rows)
    values = np.exp(rows[:, 0]) - math.exp(0.2) * np.exp(rows[:, 1])
    exact = float(rows[:, 2] @ np.maximum(np.add.outer(values, values), 0) @ rows[:, 2]) / 2
    lower, upper = LikelihoodPair(2, table).delta_bracket(0.2)
    assert lower * (1 - 1e-10) <= exact <= upper * (1 + 1e-10)
