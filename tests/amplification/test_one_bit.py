"""Reports of one bit: δ and Rényi divergences are what the worst dataset has, and not more."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import flint
import numpy as np
import pytest
from flint import arb, ctx

import shoal
from shoal.amplification.one_bit import OneBitProfile
from shoal.assumptions import FIXED
from shoal.pairs import BitRows, LikelihoodPair
from tests.oracles import enumeration

# tighter than strong clones and blanket: (ε₀, n, exact ε at δ = 1e-6 to the digits given, how many of them)
GOLDEN = [
    (0.5, 10**4, 0.016181144, 1e-7),
    (math.log(2), 10**4, 0.023353387, 1e-7),
    (1.0, 10**4, 0.035658815, 1e-7),
    (4.0, 10**4, 0.31464312, 1e-7),
    (1.0, 10**6, 0.0028490087, 1e-6),
    (2.0, 10**6, 0.0069997244, 1e-6),
    (4.0, 10**6, 0.024013967, 1e-7),
    (1.0, 100, 0.48365125, 1e-7),
    (2.0, 1000, 0.32332355, 1e-7),
    (1.0, 1000, 0.12661448, 1e-7),
    (math.log(2), 1000, 0.08227789, 1e-7),
]


def response(local_epsilon: float) -> shoal.RandomizedResponse:
    """Return binary randomized response."""
    return shoal.RandomizedResponse(categories=2, local_epsilon=local_epsilon)


def truth(matrix: list[list[Fraction]], reports: int, epsilon: float) -> float:
    """Return the largest δ over all datasets and pairs of inputs, in both directions, by listing everything."""
    inputs, largest = range(len(matrix)), 0.0
    for others in combinations_with_replacement(inputs, reports - 1):
        shuffled = [enumeration.shuffled_distribution(matrix, (x, *others)) for x in inputs]
        for one, two in product(shuffled, repeat=2):
            largest = max(largest, enumeration.hockey_stick(one, two, epsilon))
    return largest


@pytest.mark.slow
def test_it_is_the_worst_of_all_datasets() -> None:
    rng = np.random.default_rng(8)
    for index in range(24):
        total, inputs = int(rng.integers(4, 60)), 2 + index % 3
        ones = rng.integers(1, total, inputs).tolist()
        if len(set(ones)) == 1:
            continue
        matrix = [[Fraction(total - one, total), Fraction(one, total)] for one in ones]
        reports = int(rng.integers(1, 9 if inputs == 2 else 6))
        curve = shoal.amplify(shoal.MatrixRandomizer(matrix), reports=reports)
        assert curve.bound == "one-bit"
        for share in (0.0, 0.2, 0.6, 0.95):
            epsilon = share * curve.local_epsilon
            exact = truth(matrix, reports, epsilon)
            assert exact * (1 - 1e-12) <= curve.delta(epsilon) <= exact * (1 + 1e-9) + 1e-300


def neighbours(matrix: list[list[Fraction]], reports: int) -> list[list[tuple[Fraction, Fraction]]]:
    """Return, for all neighbouring datasets, the two probabilities of every multiset of reports, as fractions."""
    inputs, found = range(len(matrix)), []
    for others in combinations_with_replacement(inputs, reports - 1):
        shuffled = [enumeration.shuffled_distribution(matrix, (x, *others)) for x in inputs]
        for one, two in permutations(shuffled, 2):
            found.append([(Fraction(mass), Fraction(two[outputs])) for outputs, mass in one.items()])
    return found


def enclosed(datasets: list[list[tuple[Fraction, Fraction]]], epsilon: float) -> flint.arb:
    """Return a ball with the largest hockey-stick divergence of these datasets."""
    growth, largest = flint.arb(epsilon).exp(), flint.arb(0)
    for pairs in datasets:
        gains = (_ball(first) - growth * _ball(second) for first, second in pairs)
        largest = largest.max(sum((gain.max(flint.arb(0)) for gain in gains), flint.arb(0)))
    return largest


def _ball(value: Fraction) -> flint.arb:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


@pytest.mark.slow
@pytest.mark.parametrize("compared", [False, True], ids=["as it is", "always compared with the blanket"])
@pytest.mark.parametrize(
    "ones", [(1, 3), (1, 999), (250, 750), (1, 300), (1, 2, 900), (699, 999), (499, 500)], ids=str
)  # of 1,000
def test_no_multiset_of_reports_exceeds_it(
    ones: tuple[int, ...], compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every δ at ε, and every ε at δ, of up to six reports: a little less than the truth would be seen, in balls."""
    if compared:
        monkeypatch.setattr("shoal.amplification.one_bit._WIDE", -math.inf)
    matrix = [[Fraction(1000 - one, 1000), Fraction(one, 1000)] for one in ones]
    for reports in range(1, 7):
        curve, datasets = shoal.amplify(shoal.MatrixRandomizer(matrix), reports=reports), neighbours(matrix, reports)
        assert isinstance(curve.profile, OneBitProfile)
        for share in (0.0, 1e-3, 0.2, 0.6, 0.95, 1.0):
            epsilon = share * curve.local_epsilon
            exact = enclosed(datasets, epsilon)
            assert not flint.arb(curve.delta(epsilon)) < exact
            # alone, the blanket is not below it either
            assert epsilon == curve.local_epsilon or not flint.arb(curve.profile._blanket(epsilon)) < exact
        for delta in (0.3, 0.01, 1e-6, 1e-12):
            assert not enclosed(datasets, curve.epsilon(delta)) > delta


def test_people_between_the_two_ends_are_never_worse() -> None:
    matrix = [[Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 2), Fraction(1, 2)], [Fraction(2, 5), Fraction(3, 5)]]
    curve = shoal.amplify(shoal.MatrixRandomizer(matrix), reports=4)
    ends = shoal.amplify(shoal.MatrixRandomizer([matrix[0], matrix[2]]), reports=4)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        assert curve.delta(epsilon) == pytest.approx(ends.delta(epsilon), rel=1e-12)
        assert truth(matrix, 4, epsilon) <= curve.delta(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize(("local_epsilon", "reports", "epsilon", "digits"), GOLDEN)
def test_golden_values(local_epsilon: float, reports: int, epsilon: float, digits: float) -> None:
    curve = shoal.amplify(response(local_epsilon), reports=reports)
    assert curve.bound == "one-bit"
    assert curve.epsilon(1e-6) == pytest.approx(epsilon, rel=digits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local_epsilon", "reports"), [(1.0, 10**4), (4.0, 10**6), (8.0, 10**6), (0.1, 10**5), (1.0, 3)]
)
def test_upper_and_lower_bound_are_one_line(local_epsilon: float, reports: int) -> None:
    curve = shoal.amplify(response(local_epsilon), reports=reports)
    limit = curve.lower
    assert limit is not None
    for delta in (1e-2, 1e-6, 1e-12):
        upper, lower = curve.epsilon(delta), limit.epsilon(delta)
        assert lower <= upper <= lower * (1 + 1e-6)
        assert limit.delta(upper) <= delta * (1 + 1e-12)
    anybody = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports)
    assert limit.epsilon(1e-6) <= anybody.epsilon(1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2, 30, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("local_epsilon", [0.05, 1.0, 5.0])
def test_it_is_never_above_the_blanket(local_epsilon: float, reports: int) -> None:
    exact = shoal.amplify(response(local_epsilon), reports=reports)
    blanket = shoal.amplify(response(local_epsilon), reports=reports, bound="blanket")
    for delta in (1e-3, 1e-8):
        assert exact.epsilon(delta) <= blanket.epsilon(delta) * (1 + 1e-6)
    for share in (0.0, 0.01, 0.5):
        assert exact.delta(share * local_epsilon) <= blanket.delta(share * local_epsilon) * (1 + 1e-6)


@pytest.mark.parametrize(("reports", "low", "high"), [(640, 0.001, 0.3), (300, 0.002, 0.1), (2000, 0.0005, 0.2)])
def test_a_rare_value_is_not_above_the_blanket(reports: int, low: float, high: float) -> None:
    """Theorem O is not evaluated closely at small ε: δ was up to 3.5 times that of the blanket."""
    table = shoal.MatrixRandomizer([[1 - low, low], [1 - high, high]])
    curve, blanket = (shoal.amplify(table, reports=reports, bound=bound) for bound in ("tightest", "blanket"))
    assert curve.bound == "one-bit"
    for epsilon in (0.0, 0.05, 0.18):
        assert curve.delta(epsilon) <= blanket.delta(epsilon) * (1 + 1e-6)
    assert curve.epsilon(0.1) <= blanket.epsilon(0.1) * (1 + 1e-6)


def test_what_the_blanket_gives_is_certified() -> None:
    table = shoal.MatrixRandomizer([[0.999, 0.001], [0.7, 0.3]])
    certificate = shoal.amplify(table, reports=640).certify(delta=0.1)
    assert certificate.epsilon <= 0.1454
    certificate.verify()


def test_a_search_next_to_the_local_epsilon_ends() -> None:
    """One secant step went to within rounding of ε₀: ValueError for 20 reports, and ε₀ = 7.6 for 100 of them."""
    rare = shoal.MatrixRandomizer([[0.9999, 0.0001], [0.95, 0.05]])
    assert shoal.amplify(rare, reports=20).epsilon(1e-8) <= rare.local_epsilon
    curve = shoal.amplify(shoal.MatrixRandomizer([[0.9999, 0.0001], [0.8, 0.2]]), reports=100)
    assert curve.delta(4.0) < 1e-6
    assert curve.epsilon(1e-6) <= 4.0


def test_every_mechanism_with_two_reports_has_it() -> None:
    mean = shoal.OneBitMean(local_epsilon=1, lower=0, upper=10)
    matrix = shoal.MatrixRandomizer([[3, 1, 0], [1, 3, 0]])
    subset = shoal.SubsetSelection(categories=2, local_epsilon=1, size=1)
    randomizer: Any
    for randomizer in (response(1), mean, matrix, subset):
        assert shoal.amplify(randomizer, reports=100).bound == "one-bit"
    for randomizer in (
        shoal.RandomizedResponse(categories=3, local_epsilon=1),
        shoal.MatrixRandomizer([[2, 1, 1], [1, 2, 1]]),
        shoal.HadamardResponse(categories=2, local_epsilon=1),
    ):
        assert shoal.amplify(randomizer, reports=100).bound == "blanket"
        with pytest.raises(shoal.ParameterError, match="two values"):
            shoal.amplify(randomizer, reports=100, bound="one-bit")
    with pytest.raises(shoal.ParameterError, match="two values"):
        shoal.amplify(local_epsilon=1, reports=100, bound="one-bit")


def test_it_assumes_a_randomizer_fixed_beforehand() -> None:
    row = shoal.explain("one-bit")
    assert not row.adaptive and FIXED[0] in row.assumptions


def pair(count: int, others: int, low: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the distributions of the number of ones in both worlds, with so many others on the high row."""
    pmf = np.ones(1)
    for share in [low] * (others - count) + [1 - low] * count:
        pmf = np.convolve(pmf, [1 - share, share])
    return np.convolve(pmf, [1 - low, low]), np.convolve(pmf, [low, 1 - low])


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon", "rounds"), [(3, math.log(2), 2), (4, 1.0, 2), (3, 2.0, 3)])
def test_rounds_hold_whatever_the_others_hold_in_each(reports: int, local_epsilon: float, rounds: int) -> None:
    curve = shoal.amplify(response(local_epsilon), reports=reports).repeated(rounds)
    low = 1 / (math.exp(local_epsilon) + 1)
    pairs = [pair(count, reports - 1, low) for count in range(reports)]
    pairs += [(two, one) for one, two in pairs]

    def worst(one: float, two: float, left: int, factor: float) -> float:
        """Return the largest δ, where the others of a round depend on the reports before it."""
        if left == 0:
            return max(one - factor * two, 0.0)
        return max(sum(worst(one * p, two * q, left - 1, factor) for p, q in zip(*each, strict=True)) for each in pairs)

    for share in (0.0, 0.1, 0.3, 0.7):
        epsilon = share * rounds * local_epsilon
        exact = worst(1.0, 1.0, rounds, math.exp(epsilon))
        assert exact <= curve.delta(epsilon) * (1 + 1e-9)
    if (reports, rounds) == (3, 2):
        assert worst(1.0, 1.0, 2, 1.0) == pytest.approx(0.25103, abs=1e-5)  # one number for both rounds has 0.23045
        assert curve.delta(0.0) == pytest.approx(0.25103, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(5, 1.0), (40, 2.0), (400, 1.0)])
def test_renyi_divergence_of_every_dataset_is_below(reports: int, local_epsilon: float) -> None:
    curve = shoal.amplify(response(local_epsilon), reports=reports)
    low = 1 / (math.exp(local_epsilon) + 1)
    orders = np.array([1.1, 2.0, 8.0, 64.0])
    largest = np.zeros(4)
    for count in range(reports):
        one, two = pair(count, reports - 1, low)
        for p, q in ((one, two), (two, one)):
            values = [math.log(float((p * (p / q) ** (order - 1)).sum())) / (order - 1) for order in orders]
            largest = np.maximum(largest, values)
    found = curve.renyi(orders)
    assert np.all(largest <= found)
    assert np.all(found <= shoal.amplify(local_epsilon=local_epsilon, reports=reports).renyi(orders))
    if reports == 400:  # no dataset is the worst for every ε and both directions, which costs less with more people
        assert np.all(found <= 1.04 * largest)


@pytest.mark.slow
def test_many_rounds_cost_less_than_with_the_blanket() -> None:
    exact = shoal.amplify(response(1.0), reports=10**4).repeated(50).epsilon_bracket(1e-6)
    blanket = shoal.amplify(response(1.0), reports=10**4, bound="blanket").repeated(50).epsilon(1e-6)
    assert exact.upper < 0.9 * blanket and exact.upper <= exact.lower * 1.002


def test_large_epsilons_and_many_reports_are_answered() -> None:
    assert shoal.amplify(response(500.0), reports=10**6).epsilon(1e-6) <= 500
    assert shoal.amplify(response(60.0), reports=10).delta(59.0) <= 1
    assert 0 < shoal.amplify(response(1.0), reports=10**15).epsilon(1e-9) < 1e-6
    assert shoal.amplify(response(1.0), reports=1).epsilon(0) == pytest.approx(1.0)
    assert shoal.amplify(response(1.0), reports=10**4).epsilon(1e-310) <= 1


@pytest.mark.parametrize(("reports", "delta"), [(100, 1e-6), (300, 1e-14), (3_000, 1e-8), (10_000, 1e-17)])
def test_the_ends_are_close_next_to_the_local_epsilon(reports: int, delta: float) -> None:
    """With others who all report zeros, δ = A·(1 − a)ᵐ, which nothing exceeds by more than 1 − (1 − a)ᵐ, relatively."""
    curve = shoal.amplify(shoal.RandomizedResponse(categories=2, local_epsilon=14), reports=reports)
    assert isinstance(curve.profile, OneBitProfile)
    lower, upper = curve.epsilon_bracket(delta)
    assert upper * (1 - 1e-6) <= lower <= upper
    local = Fraction(curve.local_epsilon)
    flint.ctx.prec, before = 200, flint.ctx.prec
    try:
        ratio = (flint.arb(flint.fmpq(local.numerator, local.denominator))).exp()
        for epsilon in (lower, upper * (1 - 1e-5), 13.0):
            least, most = curve.profile.ends(epsilon)
            gain = (ratio - flint.arb(epsilon).exp()) / (1 + ratio)
            reached = gain * (ratio / (1 + ratio)) ** (reports - 1)
            assert least <= float(gain) * (1 + 1e-14)
            assert most >= float(reached) * (1 - 1e-14)
            assert least >= float(reached) * (1 - 1e-9)
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize("reports", [1_000, 3_000, 10**5, 10**7])
def test_a_row_that_hardly_varies_has_no_answer_of_zero(reports: int) -> None:
    """Sums overflowed, and ε was 0 at δ = 0.01 with 3,000 reports, where all others on the first row have δ = 0.48."""
    curve = shoal.amplify(shoal.MatrixRandomizer([[0.99999, 0.00001], [0.5, 0.5]]), reports=reports)
    nobody = 0.49999 * 0.99999 ** (reports - 1)
    assert curve.delta(0.0) >= nobody
    blanket = shoal.amplify(curve.randomizer, reports=reports, bound="blanket")
    assert curve.delta(0.0) <= blanket.delta(0.0) * (1 + 1e-6)
    assert isinstance(curve.profile, OneBitProfile)
    lower, upper = curve.profile.ends(0.0)
    assert 0 < lower <= upper


def divergences(rows: BitRows, reports: int, order: float, count: int) -> arb:
    """Return the larger D_α of both directions with `count` of the others on the high row, in balls."""
    with ctx.workprec(160):
        low, high = arb(rows.low), arb(rows.high)
        sums = [arb(1)]
        for q in [low] * (reports - 1 - count) + [high] * count:
            sums = [
                (sums[t] if t < len(sums) else 0) * (1 - q) + (sums[t - 1] if t else 0) * q
                for t in range(len(sums) + 1)
            ]
        one, two = (
            [
                (sums[t] if t < len(sums) else 0) * (1 - q) + (sums[t - 1] if t else 0) * q
                for t in range(len(sums) + 1)
            ]
            for q in (low, high)
        )  # fmt: skip
        alpha, values = arb(order), []
        for above, below in ((one, two), (two, one)):
            total = sum(
                ((x.log() * alpha + y.log() * (1 - alpha)).exp() for x, y in zip(above, below, strict=True)), arb(0)
            )
            values.append(total.log() / (alpha - 1))
        return max(values, key=float)


def divergence_of(rows: BitRows, reports: int, order: float) -> float:
    return float(OneBitProfile(reports, rows, rows.reach).renyi(np.array([order]))[0])


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 30.0, 1e4])
@pytest.mark.parametrize("rows", [BitRows.response(1.0), BitRows.response(9.0), BitRows.of(1, 2, 8)])
def test_never_below_any_dataset_of_few_reports(rows: BitRows, order: float) -> None:
    """Above all of them by up to a half, as the largest δ at different ε is that of different datasets."""
    truth = max((divergences(rows, 12, order, count) for count in range(12)), key=float)
    assert truth <= divergence_of(rows, 12, order) <= 1.5 * float(truth)


def test_all_others_on_one_value_are_a_part_of_it() -> None:
    """Nobody reports a one: the largest loss has the probability (1 − a)ⁿ, and this many terms are in the sum."""
    rows = BitRows.response(8.0)
    for reports, order in ((10**4, 3.0), (3 * 10**4, 20.0)):
        nobody = (reports * math.log1p(-rows.low) + (order - 1) * 8.0) / (order - 1)
        assert nobody <= divergence_of(rows, reports, order) <= 8.0


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 64.0, 1e3])
@pytest.mark.parametrize(("local_epsilon", "reports"), [(0.1, 10**6), (1.0, 10**6), (4.0, 10**9), (8.0, 10**9)])
def test_close_to_all_others_on_one_value(local_epsilon: float, reports: int, order: float) -> None:
    """With many reports all datasets are about the same; one of them is a pair, evaluated by other means."""
    rows = BitRows.response(local_epsilon)
    ways = (rows.likelihoods, rows.likelihoods.swapped)
    least = max(float(LikelihoodPair(reports, way).one_way(np.array([order]))[0]) for way in ways) / (1 + 4e-4)
    value = shoal.amplify(shoal.RandomizedResponse(categories=2, local_epsilon=local_epsilon), reports=reports).renyi(
        order
    )
    assert least <= value <= least * (1 + 3e-3)


@pytest.mark.parametrize("order", [1.5, 8.0, 300.0])
def test_never_below_a_dataset(order: float) -> None:
    """Of two thousand people, by convolution."""
    reports, low = 2_000, 1 / (np.e**2 + 1)
    value = shoal.amplify(shoal.RandomizedResponse(categories=2, local_epsilon=2.0), reports=reports).renyi(order)
    largest = 0.0
    for count in (0, 1, 40, 700, 1000, 1999):
        logs = [np.zeros(1), np.zeros(1)]
        for index, (people, q) in enumerate(((reports - 1 - count, low), (count, 1 - low))):
            steps = np.arange(people)
            logs[index] = people * np.log1p(-q) + np.append(
                0.0, np.cumsum(np.log((people - steps) / (steps + 1) * q / (1 - q)))
            )
        sums = np.convolve(np.exp(logs[0]), np.exp(logs[1]))
        one, two = (np.convolve(sums, [1 - q, q]) for q in (low, 1 - low))
        some = (one > 1e-250) & (two > 1e-250)
        ratios = np.log(one[some] / two[some])
        for each, weights in ((ratios, two[some]), (-ratios, one[some])):
            excess = float((weights * (np.expm1(order * each) - order * np.expm1(each))).sum())
            largest = max(largest, np.log1p(excess) / (order - 1))
    assert largest * (1 - 1e-9) <= value <= largest * (1.05 if order < 100 else 1.02)


def test_rows_that_are_not_symmetric() -> None:
    matrix = shoal.MatrixRandomizer([[3, 1], [2, 2]])
    curve = shoal.amplify(matrix, reports=10**5)
    strong = shoal.amplify(local_epsilon=curve.local_epsilon, reports=10**5)
    orders = np.array([1.1, 4.0, 500.0])
    rows = BitRows.of(1, 2, 4)
    ways = (rows.likelihoods, rows.likelihoods.swapped)
    least = np.max([LikelihoodPair(10**5, way).one_way(orders) for way in ways], axis=0) / (1 + 4e-4)
    assert np.all(least <= curve.renyi(orders)) and np.all(curve.renyi(orders) <= strong.renyi(orders))


def test_one_report_is_the_divergence_of_both_inputs() -> None:
    value = shoal.amplify(shoal.RandomizedResponse(categories=2, local_epsilon=1.0), reports=1).renyi(2.0)
    low = 1 / (np.e + 1)
    truth = np.log(low**2 / (1 - low) + (1 - low) ** 2 / low)
    assert truth <= value <= truth * (1 + 1e-9)
