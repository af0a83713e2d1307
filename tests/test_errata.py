"""What docs/theory/errata.md says, computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom, norm

import shoal
from tests.oracles import enumeration, exact, paper


def clones_delta(reports: int, local_epsilon: float, epsilon: float) -> float:
    """Return δ at ε of the clones pair, rounded up, from the slow oracle."""
    return float(exact.pair_delta_window(reports, local_epsilon, epsilon, "clones").upper())


def printed_closed_form(reports: int, local_epsilon: float, delta: float, constant: float = 4) -> float:
    """Return the ε of Theorem 3.1, with ln(constant/δ) under the root."""
    ratio = math.exp(local_epsilon) / reports
    excess = 8 * math.sqrt(ratio * math.log(constant / delta)) + 8 * ratio
    return math.log1p(math.tanh(local_epsilon / 2) * excess)


def worst_delta(matrix: enumeration.Matrix, others: tuple[int, ...], epsilon: float) -> float:
    """Return the larger hockey-stick of a victim at 0 and one at 1 among the others."""
    zero, one = (enumeration.shuffled_distribution(matrix, (victim, *others)) for victim in (0, 1))
    return max(enumeration.hockey_stick(zero, one, epsilon), enumeration.hockey_stick(one, zero, epsilon))


def gaussian_delta(shift: float, epsilon: float) -> float:
    """Return δ at ε of a Gaussian whose mean moves by this many standard deviations."""
    return float(norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))


def mean_positive_part(
    reports: int, values: tuple[float, float, float, float], probabilities: tuple[float, float, float, float]
) -> float:
    """Return E[(W₁ + … + Wₙ)₊]/n for a distribution of W with four values, the first two of them rare.

    All numbers of the first two are visited up to far beyond 12 deviations, and all of the others. Every
    term is non-negative, so nothing cancels and what is left out could only add.
    """
    most = [math.ceil(reports * c + 12 * math.sqrt(reports * c) + 30) for c in probabilities[:2]]
    rare = np.arange(most[1] + 1)
    third = np.arange(reports + 1)
    left = np.arange(max(0, reports - sum(most)), reports + 1)
    share = probabilities[2] / (probabilities[2] + probabilities[3])
    table = np.asarray(binom.pmf(third, left[:, None], share))
    total = 0.0
    for count in range(most[0] + 1):
        weights = binom.pmf(count, reports, probabilities[0]) * binom.pmf(
            rare, reports - count, probabilities[1] / (1 - probabilities[0])
        )
        rest = np.maximum(reports - count - rare, 0)
        start = count * values[0] + rare * values[1] + rest * values[3]
        sums = np.maximum(start[:, None] + third * (values[2] - values[3]), 0)
        rows = table[np.maximum(rest - left[0], 0)]
        total += float(weights @ (rows * sums).sum(axis=1))
    return total / reports


# The paper


@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-8])
def test_theorem_3_1_condition(local_epsilon: float, delta: float) -> None:
    ratio = math.exp(local_epsilon)
    reports = math.ceil(16 * ratio * math.log(2 / delta))  # meets the printed condition, just
    clones = reports / (2 * ratio)
    assert clones >= 8 * math.log(2 / delta)
    assert math.sqrt(clones / 2 * math.log(4 / delta)) > clones / 4  # where the printed proof needs "at most"

    # The statement is true all the same, also with the smaller logarithm under the root.
    for constant in (2, 4):
        epsilon = printed_closed_form(reports, local_epsilon, delta, constant)
        assert clones_delta(reports, local_epsilon, epsilon) <= math.tanh(local_epsilon / 2) * delta

    # The library asks for what the proof asks for.
    def closed_form(reports: int) -> float:
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="clones-closed-form")
        return float(curve.epsilon(delta))

    with pytest.raises(shoal.errors.RangeError):
        closed_form(reports)
    enough = math.ceil(16 * ratio * math.log(4 / delta))
    assert closed_form(enough) == pytest.approx(
        min(local_epsilon, printed_closed_form(enough, local_epsilon, delta)), rel=1e-12
    )
    with pytest.raises(shoal.errors.RangeError):
        closed_form(enough - 1)


def test_lemma_a_1_centre() -> None:
    probability, people = Fraction(1, 3), 40
    masses = [math.comb(people - 1, c) * probability**c * (1 - probability) ** (people - 1 - c) for c in range(people)]
    mean = sum(count * mass for count, mass in enumerate(masses))
    assert mean == probability * (people - 1) != probability * people

    # What the proof takes from the wrong centre is true: C > pn/2 but for δ/10, and C near pn but for δ/2.
    for p in (1.0, 0.5, 0.1, 0.01):
        for delta in (0.5, 1e-3, 1e-6, 1e-9):
            reports = math.ceil(16 * math.log(4 / delta) / p)
            distribution = binom(reports - 1, p)
            assert distribution.cdf(p * reports / 2) < delta / 10
            reach = math.sqrt(3 * p * reports * math.log(4 / delta))
            assert distribution.cdf(p * reports - reach) + distribution.sf(p * reports + reach) < delta / 2


@pytest.mark.slow
def test_theorem_3_1_is_loose() -> None:
    found = {c.bound: c.epsilon(1e-6) for c in shoal.compare(local_epsilon=1, reports=10_000, delta=1e-6)}
    assert found["clones-closed-form"] == pytest.approx(0.2140, abs=5e-5)
    assert found["clones"] == pytest.approx(0.0530, abs=5e-5)
    assert found["clones-sharp-form"] == pytest.approx(0.0863, abs=5e-5)
    assert found["strong-clones-sharp-form"] == pytest.approx(0.0707, abs=5e-5)
    assert exact.pair_delta_window(10_000, 1.0, found["clones"], "clones") <= 1e-6
    assert exact.pair_delta_window(10_000, 1.0, 0.999 * found["clones"], "clones") > 1e-6

    # The printed ε holds with a smaller δ than printed.
    for reports, local_epsilon, delta in ((10_000, 1.0, 1e-6), (2000, 0.05, 1e-4), (3000, 2.0, 0.1)):
        epsilon = printed_closed_form(reports, local_epsilon, delta)
        assert clones_delta(reports, local_epsilon, epsilon) <= math.tanh(local_epsilon / 2) * delta


def test_amplification_range_sign() -> None:
    def outside(reports: int, local_epsilon: float, delta: float) -> bool:
        return local_epsilon > math.log(reports / (16 * math.log(2 / delta)))

    def printed(reports: int, local_epsilon: float, delta: float) -> bool:
        return math.log(2 / delta) <= reports * math.exp(local_epsilon) / 16

    for reports, local_epsilon, delta in product((10**3, 10**4, 10**6), (0.5, 2.0, 4.0, 8.0), (1e-3, 1e-6, 1e-12)):
        true_form = math.log(2 / delta) > reports * math.exp(-local_epsilon) / 16
        assert outside(reports, local_epsilon, delta) == true_form

    # After the theorem the printed inequality is called equivalent to being outside: here it is not.
    assert printed(10_000, 1.0, 1e-6)
    assert not outside(10_000, 1.0, 1e-6)

    # In the appendix it is the range of validity: here it holds, and the closed form does not.
    assert printed(1000, 8.0, 1e-6)
    epsilon = printed_closed_form(1000, 8.0, 1e-6)
    assert epsilon < 8
    assert max(exact.two_rr_delta(1000, 8.0, epsilon, bits=120)) > 0.5
    with pytest.raises(shoal.errors.RangeError):
        shoal.amplify(local_epsilon=8, reports=1000, bound="clones-closed-form").epsilon(1e-6)


def test_delta_budget_factor() -> None:
    local_epsilon, reports = 4.0, 400
    ratio = math.exp(local_epsilon)
    weight, probability = (ratio - 1) / (ratio + 1), 1 / ratio
    assert weight == pytest.approx(0.964, abs=5e-4)
    assert probability == pytest.approx(0.018, abs=5e-4)

    # D of the pair without the victim's own noise, (A + 1, C − A) against (A, C − A + 1).
    inner = 1.2
    counts = np.arange(reports + 1)
    below = binom.pmf(counts - 1, counts[:-1, None], 0.5)
    here = binom.pmf(counts, counts[:-1, None], 0.5)
    given = np.maximum(below - inner * here, 0).sum(axis=1)
    bare = float(binom.pmf(counts[:-1], reports - 1, probability) @ given)

    noisy = clones_delta(reports, local_epsilon, math.log1p(weight * (inner - 1)))
    assert noisy <= weight * bare
    assert noisy > 10 * probability * bare


@pytest.mark.slow
def test_total_variation_of_local_dp() -> None:
    def variation(matrix: enumeration.Matrix) -> float:
        return enumeration.worst_local_delta(matrix, 0.0)

    ratio = math.exp(2)
    binary = variation(enumeration.randomized_response(2, 2.0))
    assert binary == pytest.approx((ratio - 1) / (ratio + 1), rel=1e-14)
    assert binary == pytest.approx(0.762, abs=5e-4)
    assert 2 / (ratio + 1) == pytest.approx(1 - binary, rel=1e-14)
    assert 2 / (ratio + 1) == pytest.approx(0.238, abs=5e-4)
    rng = np.random.default_rng(6)
    found = [variation(enumeration.random_randomizer(rng, 3, 4, 2.0)) for _ in range(60)]
    assert 0.7 < max(found) <= binary * (1 + 1e-13)


def test_krr_corollary_condition() -> None:
    local_epsilon, delta, reports, categories = 1.0, 1e-30, 3035, 303_500
    ratio = math.exp(local_epsilon)
    assert local_epsilon <= math.log(reports / (16 * math.log(2 / delta)))  # the printed condition
    p = categories / ((categories + 1) * (ratio + categories - 1))
    assert p < 8 * math.log(2 / delta) / reports  # which is said to imply the opposite
    inside = (ratio - 1) * (
        4 * math.sqrt(2 * (categories + 1) * math.log(4 / delta) / ((ratio + categories - 1) * categories * reports))
        + 4 * (categories + 1) / (categories * reports)
    )
    epsilon = math.log1p(inside)
    assert epsilon == pytest.approx(0.0049408, abs=5e-8)

    unit, factor = 1 / (ratio + categories - 1), math.exp(epsilon)
    truth = mean_positive_part(
        reports,
        (ratio - factor, 1 - ratio * factor, (1 - factor) / ratio, 1 - factor),
        (unit, unit, ratio * unit, (categories - 3) * unit),
    )
    assert truth == pytest.approx(3.8e-28, rel=0.02)
    assert truth > 300 * delta

    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    with pytest.raises(shoal.errors.RangeError):
        shoal.amplify(randomizer, reports=reports, bound="decomposition-closed-form").epsilon(delta)
    assert shoal.amplify(randomizer, reports=reports, bound="strong-clones").delta(epsilon) >= truth

    # The implication holds exactly for k ≤ E − 1, where p ≥ 1/(2E).
    for size in range(2, 40):
        probability = size / ((size + 1) * (math.exp(3) + size - 1))
        assert (probability >= 1 / (2 * math.exp(3))) == (size <= math.exp(3) - 1)


def test_krr_equal_symbols_have_no_decomposition() -> None:
    categories, ratio = 2, 3.0
    q, p = (ratio - 1) / (ratio + categories - 1), categories / ((categories + 1) * (ratio + categories - 1))
    assert (q, p) == pytest.approx((1 / 2, 1 / 6))
    response = enumeration.randomized_response(categories, math.log(ratio))

    def decomposes(first: int, second: int) -> bool:
        """Tell whether distributions Q⁰, Q¹, Q₀ on the symbols exist, as Theorem 4.1 needs them."""
        equations: list[list[float]] = []
        sides: list[float] = []
        for world, symbol in enumerate((first, second)):
            for output in range(categories):
                row = [0.0] * (3 * categories)
                row[world * categories + output], row[2 * categories + output] = q, 1 - q
                equations.append(row)
                sides.append(response[symbol][output])
        for distribution in range(3):
            equations.append([float(index // categories == distribution) for index in range(3 * categories)])
            sides.append(1.0)
        blankets = [[p * (index % categories == y) for index in range(3 * categories)] for y in range(categories)]
        most = [min(row[y] for row in response) for y in range(categories)]
        found = linprog(np.zeros(3 * categories), A_ub=blankets, b_ub=np.array(most) + 1e-9, A_eq=equations, b_eq=sides)
        return bool(found.success)

    assert decomposes(0, 1)
    assert not decomposes(0, 0)

    # Adaptive maps to symbols that are equal for the victim's two inputs at some positions: the bound holds.
    rng = np.random.default_rng(7)
    largest = 0.0
    for _ in range(40):
        people = int(rng.integers(2, 4))
        protocol = {}
        equal = 0
        for length in range(people):
            for history in product(range(categories), repeat=length):
                symbols = rng.integers(categories, size=people + 1)
                equal += int(symbols[0] == symbols[1])
                protocol[history] = [response[symbol] for symbol in symbols]
        others = tuple(range(2, people + 1))
        distributions = [enumeration.adaptive_distribution(protocol, (victim, *others)) for victim in (0, 1)]
        if 0 < equal < len(protocol):
            for epsilon in (0.0, 0.2, 0.6):
                bound = float(exact.decomposition_delta(people, p, q, epsilon, bits=100).upper())
                truth = max(
                    enumeration.hockey_stick(distributions[0], distributions[1], epsilon),
                    enumeration.hockey_stick(distributions[1], distributions[0], epsilon),
                )
                largest = max(largest, truth / bound)
    assert 0.3 < largest <= 1


def test_monotone_lemma_ties() -> None:
    def divergence(count: int, ratio: Fraction, factor: Fraction) -> Fraction:
        total = Fraction(0)
        for zeros in range(count + 2):
            here = Fraction(math.comb(count, zeros), 2**count)
            below = Fraction(math.comb(count, zeros - 1) if zeros else 0, 2**count)
            p, q = (ratio * below + here) / (ratio + 1), (below + ratio * here) / (ratio + 1)
            total += max(p - factor * q, Fraction(0))
        return total

    three = Fraction(3)
    at_zero = [divergence(count, three, Fraction(1)) for count in range(6)]
    assert at_zero == [Fraction(part, 32) for part in (16, 8, 8, 6, 6, 5)]
    above_zero = [divergence(count, three, Fraction(7, 5)) for count in range(7)]
    assert above_zero == [Fraction(part, 40) for part in (16, 8, 4, 4, 3, 2, 2)]

    ties = 0
    for ratio in (Fraction(3), Fraction(2), Fraction(5, 2), Fraction(10)):
        for factor in (Fraction(1), Fraction(7, 5), Fraction(3, 2), Fraction(17, 9)):
            inner = (ratio * factor - 1) / (ratio - factor)
            values = [divergence(count, ratio, factor) for count in range(26)]
            for count in range(25):
                tied = ((count + 1) * inner / (inner + 1)).denominator == 1
                ties += tied
                assert (values[count + 1] == values[count]) if tied else (values[count + 1] < values[count])
    assert ties > 20


@pytest.mark.slow
def test_approximate_term_is_loose() -> None:
    def printed(reports: int, ratio: float, factor: float) -> float:
        return (factor + 1) * (1 + 1 / (2 * ratio)) * reports

    def sharper(reports: int, ratio: float, factor: float) -> float:
        return (reports - 1) * 2 / ratio * (1 + factor) + 1

    def with_clones(reports: int, ratio: float, factor: float) -> float:
        return (reports - 1) * 3 / (2 * ratio) * (1 + factor) + 1

    assert printed(10**6, 100, 1.5) / sharper(10**6, 100, 1.5) == pytest.approx(50, rel=0.02)
    for ratio, factor in product((1.0, 1.2, 2.0, 30.0), (1.0, 1.1, 5.0)):
        assert with_clones(1000, ratio, factor) < printed(1000, ratio, factor)

    # The library charges one or the other: far out, nothing else is left.
    loose, sharp = (
        shoal.amplify(local_epsilon=math.log(100), local_delta=1e-9, reports=10_000, bound=bound).delta(1.0)
        for bound in ("clones", "strong-clones")
    )
    assert 45 < loose / sharp < 60

    # Both sharper totals hold for randomizers that spend all of δ₀.
    rng = np.random.default_rng(8)
    for _ in range(40):
        reports, local_epsilon = int(rng.integers(2, 4)), float(rng.uniform(0.2, 3))
        matrix = enumeration.random_approximate(rng, reports + 1, 3, local_epsilon, float(10 ** rng.uniform(-4, -1)))
        local_delta = enumeration.worst_local_delta(matrix, local_epsilon) * (1 + 1e-12)
        for share in (0.0, 0.4, 0.9):
            epsilon = share * local_epsilon
            truth = worst_delta(matrix, tuple(range(2, reports + 1)), epsilon)
            numbers = (reports, math.exp(local_epsilon), math.exp(epsilon))
            strong = float(exact.pair_delta(reports, local_epsilon, epsilon, "strong", bits=100))
            clones = float(exact.pair_delta(reports, local_epsilon, epsilon, "clones", bits=100))
            assert truth <= strong + sharper(*numbers) * local_delta + 1e-15
            assert truth <= clones + with_clones(*numbers) * local_delta + 1e-15

    # The total falls and rises again, so the best of what is on the left is taken.
    pure = shoal.amplify(local_epsilon=1, reports=10_000)
    curve = shoal.amplify(local_epsilon=1, local_delta=1e-12, reports=10_000)
    factors = np.linspace(1, math.e, 60)
    totals = [pure.delta(math.log(f)) + sharper(10_000, math.e, f) * 1e-12 for f in factors]
    assert np.all(np.diff(totals, 2) > -1e-15)
    assert pure.delta(0.0715) + sharper(10_000, math.e, math.exp(0.0715)) * 1e-12 == pytest.approx(1.53e-8, rel=0.01)
    assert pure.delta(0.9) + sharper(10_000, math.e, math.exp(0.9)) * 1e-12 == pytest.approx(2.55e-8, rel=0.01)
    assert curve.delta(0.9) <= curve.delta(0.0715) == pytest.approx(1.53e-8, rel=0.01)
    assert curve.delta(1.0) <= 1e-12


def test_frequency_parameters_negative() -> None:
    reports, delta = 10**6, 1e-6

    def printed(epsilon: float) -> float:
        return math.log(epsilon**2 * reports / (100 * math.log(1 / delta)))

    start = math.sqrt(math.log(1 / delta) / reports)
    assert start == pytest.approx(0.0037, abs=5e-5)
    assert 10 * start == pytest.approx(0.0372, abs=5e-5)
    for epsilon in np.linspace(start, 10 * start, 20, endpoint=False):
        assert printed(float(epsilon)) < 0
    assert printed(10.001 * start) > 0

    for epsilon in (1.01 * start, 0.01, 0.03):
        found = shoal.calibrate(epsilon=epsilon, delta=delta, reports=reports)
        assert found.local_epsilon > 0
        assert found.epsilon <= epsilon


def test_sgd_sigma_sensitivity() -> None:
    sigma = 1 + math.sqrt(2 * math.log(1e6))
    assert gaussian_delta(1 / sigma, 1.0) <= 1e-6
    assert gaussian_delta(2 / sigma, 1.0) == pytest.approx(1.26e-4, rel=0.005)


def test_sgd_sigma_fails_for_large_local_epsilon() -> None:
    local_delta = 1e-6
    spread = 1 + math.sqrt(2 * math.log(1 / local_delta))
    for local_epsilon in np.linspace(0.01, 2 * spread, 200):  # the range in which the formula is proved
        assert gaussian_delta(local_epsilon / spread, local_epsilon) <= local_delta / 2
    assert gaussian_delta(30 / spread, 30) == pytest.approx(3.0e-5, rel=0.02)
    assert gaussian_delta(50 / spread, 50) == pytest.approx(8.9e-3, rel=0.01)


def test_sgd_batches_record_level() -> None:
    sigma, epsilon, batches = 10.0, 0.2, 1000
    local_delta = gaussian_delta(2 / sigma, 1.0)
    assert local_delta == pytest.approx(1.75e-8, rel=0.005)
    paper_claim, our_claim = (
        shoal.amplify(local_epsilon=1, local_delta=local_delta, reports=batches, bound=bound).delta(epsilon)
        for bound in ("clones", "strong-clones")
    )
    assert paper_claim == pytest.approx(4.6e-5, rel=0.02)
    assert our_claim == pytest.approx(2.7e-5, rel=0.03)

    # The victim's batch has sum −1 or +1, all others −10⁶. The event: some report is above a threshold.
    log_others = (batches - 1) * norm.logcdf(1e6 / sigma)
    thresholds = np.linspace(-30, 60, 2000)
    above, below = (-np.expm1(norm.logcdf((thresholds - centre) / sigma) + log_others) for centre in (1, -1))
    truth = float(np.max(above - math.exp(epsilon) * below))
    assert truth == pytest.approx(0.0184, abs=5e-5)
    assert truth == pytest.approx(gaussian_delta(2 / sigma, epsilon), rel=1e-4)
    assert truth > 300 * max(paper_claim, our_claim)


# FMT23


def small_pair(categories: int, local_epsilon: float) -> list[list[float]]:
    """Return a protocol on three symbols that draws the pair with p = 1/(E + k − 1): victims 0, 1, others 2."""
    ratio = math.exp(local_epsilon)
    p = 1 / (ratio + categories - 1)
    common = 1 - ratio * p - p
    return [[ratio * p, p, common], [p, ratio * p, common], [p, p, 1 - 2 * p]]


@pytest.mark.parametrize(
    ("categories", "local_epsilon", "epsilon", "others", "true", "claimed", "strong"),
    [
        (3, 1.0, 0.6, (1, 2), 0.0734890490, 0.0675784424, 0.1288),
        (4, 1.0, 0.6, (1, 3), 0.0471528527, 0.0325104789, 0.1288),
        (3, 1.0, 0.6, (1, 2, 2), 0.0489129921, 0.0414508893, 0.0942),
        (5, 2.0, 1.2, (4, 4, 4), 0.1557475838, 0.1497071911, 0.3314),
    ],
)
def test_small_p_pair_counterexamples(
    *,
    categories: int,
    local_epsilon: float,
    epsilon: float,
    others: tuple[int, ...],
    true: float,
    claimed: float,
    strong: float,
) -> None:
    truth = worst_delta(enumeration.randomized_response(categories, local_epsilon), others, epsilon)
    pair = worst_delta(small_pair(categories, local_epsilon), (2,) * len(others), epsilon)
    assert truth == pytest.approx(true, abs=6e-11)
    assert pair == pytest.approx(claimed, abs=6e-11)
    assert truth > pair
    bound = shoal.amplify(local_epsilon=local_epsilon, reports=len(others) + 1).delta(epsilon)
    assert bound == pytest.approx(strong, abs=6e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "categories", "local_epsilon", "epsilon", "true", "claimed", "strong"),
    [
        (1000, 10, 2.0, 0.3, 1.743e-7, 1.687e-7, 4.17e-5),
        (1000, 50, 4.0, 1.5, 4.64e-14, 2.15e-14, 9.89e-6),
        (100, 10, 1.0, 0.4, 1.806e-11, 1.145e-11, 3.53e-5),
    ],
)
def test_small_p_pair_large_n(
    *,
    reports: int,
    categories: int,
    local_epsilon: float,
    epsilon: float,
    true: float,
    claimed: float,
    strong: float,
) -> None:
    ratio, factor = math.exp(local_epsilon), math.exp(epsilon)
    p = 1 / (ratio + categories - 1)
    first, second = ratio - factor, 1 - ratio * factor
    truth = mean_positive_part(
        reports,
        (first, second, (1 - factor) / ratio, 1 - factor),
        (p, p, ratio * p, (categories - 3) * p),
    )
    common = (1 - factor) * (1 - ratio * p - p) / (1 - 2 * p)
    pair = mean_positive_part(reports, (first, second, common, 0.0), (p, p, 1 - 2 * p, 0.0))
    assert truth == pytest.approx(true, rel=1e-3)
    assert pair == pytest.approx(claimed, rel=2.5e-3)
    assert truth > 1.02 * pair
    assert shoal.amplify(local_epsilon=local_epsilon, reports=reports).delta(epsilon) == pytest.approx(strong, rel=2e-3)


# Published code, rewritten for the purpose


class ReferenceCode:
    """The search of the published code: runs of `step` clone counts, in turn above and below the mean.

    `repeated` keeps its repeated argument: one direction looks at the right end of a run only.
    """

    def __init__(self, reports: int, local_epsilon: float, step: int, *, repeated: bool = True) -> None:
        self.local_epsilon, self.repeated = local_epsilon, repeated
        probability = math.exp(-local_epsilon)
        mean = (reports - 1) * probability
        runs: list[tuple[int, int]] = []
        for ring in range(1, math.ceil(reports / step)):
            top, bottom = math.ceil(mean + ring * step), math.ceil(mean - ring * step)
            above = top - step + (ring > 1), min(top, reports - 1)
            below = max(bottom, 0), bottom + step - 1
            runs += [run for run in (above, below) if run[0] < reports and run[1] >= 0]
        self.first, self.last = (np.array([run[end] for run in runs], dtype=np.int64) for end in (0, 1))
        distribution = binom(reports - 1, probability)
        self.masses = distribution.cdf(self.last) - distribution.cdf(self.first) + distribution.pmf(self.first)

    def sticks(self, counts: NDArray[np.int64], epsilon: float, sign: int) -> NDArray[np.float64]:
        """Return the divergence given each number of clones, P from Q (sign 1) or Q from P (sign −1)."""
        ratio, factor = math.exp(self.local_epsilon), math.exp(epsilon)
        truth = ratio / (ratio + 1)
        tilt = ((factor + 1) * truth - 1) / ((factor + 1) * truth - factor)
        cut = (counts + 1) / (tilt**sign + 1)
        here, below = binom.cdf(cut, counts, 0.5), binom.cdf(cut - 1, counts, 0.5)
        p, q = truth * here + (1 - truth) * below, (1 - truth) * here + truth * below
        return np.asarray(p - factor * q if sign == 1 else (1 - q) - factor * (1 - p))

    def sums(self, epsilon: float, cap: float = 1.0) -> tuple[float, float]:
        """Return the two sums as they stand at the end, leftover mass added where the code adds it."""
        p_right, q_right = (self.sticks(self.last, epsilon, sign) for sign in (1, -1))
        p_terms = np.maximum(p_right, self.sticks(self.first, epsilon, 1))
        q_terms = q_right if self.repeated else np.maximum(q_right, self.sticks(self.first, epsilon, -1))
        delta_p = delta_q = used = 0.0
        for mass, p_term, q_term in zip(self.masses, p_terms, q_terms, strict=True):
            if max(delta_p, delta_q) > cap:
                return cap, cap
            if 1 - used < delta_p and 1 - used < delta_q:
                return delta_p + 1 - used, delta_q + 1 - used
            delta_p, delta_q, used = delta_p + mass * p_term, delta_q + mass * q_term, used + mass
        return delta_p, delta_q

    def delta(self, epsilon: float, cap: float = 1.0) -> float:
        """Return what the code calls an upper bound of δ."""
        return max(self.sums(epsilon, cap))


def reference_closed_form(reports: int, local_epsilon: float, delta: float, sign: int = -1) -> float:
    """Return the closed form of the published code; sign +1 corrects it."""
    ratio = math.exp(local_epsilon) / reports
    excess = 8 * math.sqrt(ratio * math.log(4 / delta)) + 8 * ratio
    small = math.exp(-local_epsilon)
    return math.log1p((1 - small) / (1 + small * (1 + excess) ** sign) * excess)


def reference_epsilon(reports: int, local_epsilon: float, delta: float, step: int, iterations: int = 20) -> float:
    """Return the published code's ε, its search starting from its closed form where that applies."""
    code = ReferenceCode(reports, local_epsilon, step)
    start = local_epsilon
    if local_epsilon < math.log(reports / (16 * math.log(4 / delta))):
        start = reference_closed_form(reports, local_epsilon, delta)
    return paper.binary_search(start, delta, iterations, lambda epsilon: code.delta(epsilon, delta))


def test_reference_code_step_at_least_n() -> None:
    assert ReferenceCode(10, 2.0, step=100).delta(0.5) == 0
    assert reference_epsilon(10, 2.0, 1e-3, step=100) == pytest.approx(1.9e-6, rel=0.01)
    assert exact.pair_delta(10, 2.0, 1.9e-6, "clones") > 0.2
    truth = shoal.amplify(local_epsilon=2, reports=10, bound="clones").epsilon(1e-3)
    assert truth == pytest.approx(1.998, abs=5e-4)
    assert exact.pair_delta(10, 2.0, truth, "clones") <= 1e-3 < exact.pair_delta(10, 2.0, truth - 1e-6, "clones")
    # The same search in the paper goes through all counts, whatever the step.
    assert paper.clones_epsilon(10, 2.0, 1e-3, step=100) >= truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "epsilon", "step", "true"),
    [(10_000, 2.0, 0.3, 30, 2.2e-15), (3000, 0.5, 0.1, 100, 2.0e-21)],
)
def test_reference_code_tiny_delta(reports: int, local_epsilon: float, epsilon: float, step: int, true: float) -> None:
    truth = exact.pair_delta_window(reports, local_epsilon, epsilon, "clones")
    assert float(truth) == pytest.approx(true, rel=0.01)
    code = ReferenceCode(reports, local_epsilon, step)
    misses = []
    for near in np.linspace(epsilon, 1.1 * epsilon, 6):
        true_here = float(exact.pair_delta_window(reports, local_epsilon, float(near), "clones"))
        misses.append(code.delta(float(near)) < 0.1 * true_here)  # zero or negative: rounding decides
    assert sum(misses) >= 3
    bound = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="clones").delta(epsilon)
    assert truth <= bound <= float(truth) * (1 + 1e-6)


@pytest.mark.slow
def test_reference_code_max_typo() -> None:
    understated = 0
    for reports, local_epsilon, step in ((1000, 1.0, 50), (1000, 1.0, 10), (500, 3.0, 5), (200, 0.5, 40)):
        as_printed = ReferenceCode(reports, local_epsilon, step)
        corrected = ReferenceCode(reports, local_epsilon, step, repeated=False)
        for share in (0.0, 0.05, 0.12, 0.3):
            epsilon = share * local_epsilon
            truth = float(exact.pair_delta_window(reports, local_epsilon, epsilon, "clones"))
            if truth < 1e-12:
                continue
            delta_p, delta_q = as_printed.sums(epsilon)
            understated += delta_q < 0.9 * truth
            assert min(corrected.sums(epsilon)) >= truth * (1 - 1e-12)
            assert max(delta_p, delta_q) >= truth * (1 - 1e-12)
    assert understated > 0  # the direction with the slip is no bound by itself


def test_reference_code_closed_form_sign() -> None:
    assert reference_closed_form(10_000, 1.0, 1e-6) == pytest.approx(0.2333, abs=5e-5)
    assert printed_closed_form(10_000, 1.0, 1e-6) == pytest.approx(0.2140, abs=5e-5)
    assert reference_closed_form(10_000, 1.0, 1e-6, sign=1) == pytest.approx(0.1902, abs=5e-5)
    for reports, local_epsilon, delta in ((3000, 0.2, 1e-3), (10_000, 2.0, 1e-6), (30_000, 3.0, 1e-5)):
        corrected = reference_closed_form(reports, local_epsilon, delta, sign=1)
        theorem = printed_closed_form(reports, local_epsilon, delta)
        assert corrected < theorem <= reference_closed_form(reports, local_epsilon, delta)
        inner = 1 + 8 * math.sqrt(math.exp(local_epsilon) * math.log(4 / delta) / reports)
        inner += 8 * math.exp(local_epsilon) / reports
        exact_form = math.log((math.exp(local_epsilon) * inner + 1) / (math.exp(local_epsilon) + inner))
        assert corrected == pytest.approx(exact_form, rel=1e-12)
        assert clones_delta(reports, local_epsilon, corrected) <= delta


@pytest.mark.slow
def test_reference_code_stop_rule() -> None:
    found = {step: reference_epsilon(1000, 1.0, 1e-6, step) for step in (1, 10, 50)}
    assert found == pytest.approx({1: 0.1902, 10: 0.1852, 50: 0.1908}, abs=5e-5)
    assert found[10] < found[1] < found[50]
    truth = shoal.amplify(local_epsilon=1, reports=1000, bound="clones").epsilon(1e-6)
    assert truth == pytest.approx(0.1824, abs=5e-5)
    worst = 0.0
    for share in np.linspace(0.01, 0.3, 20):
        epsilon = float(share)
        ratio = ReferenceCode(1000, 1.0, 1).delta(epsilon) / clones_delta(1000, 1.0, epsilon)
        assert 1 - 1e-6 <= ratio < 2.01
        worst = max(worst, ratio)
    assert worst > 1.5


def test_random_allocation_factor() -> None:
    def charge(reports: int, local_epsilon: float, epsilon: float, sign: int) -> float:
        return (math.exp(epsilon) + 1) * (1 + math.exp(sign * local_epsilon) / 2) * reports

    ratio = math.exp(2)
    loss = charge(1000, 2.0, 0.3, 1) / charge(1000, 2.0, 0.3, -1)
    assert loss == pytest.approx((1 + ratio / 2) / (1 + 1 / (2 * ratio)), rel=1e-12)
    assert loss == pytest.approx(4.4, abs=0.05)

    # What the library charges for the clones pair is the theorem's.
    total: Callable[[float], float] = shoal.amplify(
        local_epsilon=2, local_delta=1e-9, reports=1000, bound="clones"
    ).delta
    pure: Callable[[float], float] = shoal.amplify(local_epsilon=2, reports=1000, bound="clones").delta
    for epsilon in (0.05, 0.15, 0.25):  # before the turn
        assert total(epsilon) - pure(epsilon) == pytest.approx(charge(1000, 2.0, epsilon, -1) * 1e-9, rel=1e-4)
