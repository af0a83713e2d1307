"""Any table of probabilities: exact ε₀, a guarantee above all that enumeration finds, an unbiased estimate."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

import shoal
from shoal.amplification.blanket import BlanketProfile, ceiling
from shoal.amplification.lower_bounds import lower_bound
from shoal.mechanisms import MatrixRandomizer, Simulation, mechanism_of
from shoal.mechanisms.matrix_randomizer import LinearDecoder
from shoal.mechanisms.mechanism import Counts
from shoal.pairs.directed_pairs import DirectedPairs, Screen
from shoal.pairs.integer_likelihoods import IntegerLikelihoods
from shoal.pairs.likelihoods import LikelihoodPair
from tests.exhaustive import representative
from tests.oracles import enumeration, mechanisms

_SURVEY = [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]
Shares = dict[tuple[int, ...], int]


def _random(seed: int) -> MatrixRandomizer:
    """Return small random weights, so that proportional columns and equal rows occur; every tenth has a zero column."""
    rng = np.random.default_rng(seed)
    inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    weights = rng.integers(1, int(rng.choice([3, 8, 60])), size=(inputs, outputs), endpoint=True)
    weights[0, 0] += 1 + weights[1, 0]  # no two rows alike, at least
    if seed % 10 == 9 and outputs > 2:
        weights[:, -1] = 0
    return MatrixRandomizer(weights)


def _exact_counts(rows: Sequence[Sequence[int]], inputs: Sequence[int]) -> Shares:
    """Return how many of all outcomes have these counts of outputs, in whole numbers."""
    counts: Shares = {(0,) * len(rows[0]): 1}
    for value in inputs:
        following: Shares = {}
        for count, ways in counts.items():
            for output, weight in enumerate(rows[value]):
                key = (*count[:output], count[output] + 1, *count[output + 1 :])
                following[key] = following.get(key, 0) + ways * weight
        counts = following
    return counts


def _worst(given: MatrixRandomizer, reports: int, epsilons: Sequence[float]) -> list[arb]:
    """Return the largest δ(ε) over all neighbouring datasets: roughly for all, and in balls for those near the top."""
    total = math.lcm(*map(sum, given.matrix))
    rows = [[weight * (total // sum(row)) for weight in row] for row in given.matrix]
    whole = total**reports
    candidates: list[tuple[NDArray[np.float64], list[int], list[int]]] = []
    for others in combinations_with_replacement(range(len(rows)), reports - 1):
        shared = [_exact_counts(rows, (*others, value)) for value in range(len(rows))]
        for one, two in permutations(shared, 2):
            p, q = [one[key] for key in one], [two[key] for key in one]
            first, second = np.array([x / whole for x in p]), np.array([x / whole for x in q])
            rough = np.array([np.maximum(first - math.exp(epsilon) * second, 0).sum() for epsilon in epsilons])
            candidates.append((rough, p, q))
    results = []
    with ctx.workprec(200):
        for index, epsilon in enumerate(epsilons):
            top = max(rough[index] for rough, _, _ in candidates) * (1 - 1e-9) - 1e-15
            factor = arb(epsilon).exp()
            sums = []
            for rough, p, q in candidates:
                if rough[index] >= top:
                    gains = (x - factor * y for x, y in zip(p, q, strict=True))
                    sums.append(sum((gain for gain in gains if gain > 0), arb(0)) / whole)
            results.append(max(sums, key=float))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_the_guarantee_is_above_every_dataset_and_the_limit_below_the_worst(seed: int) -> None:
    given = _random(seed)
    reports = 2 + seed % (5 if given.categories < 4 else 3)
    epsilons = [given.local_epsilon * share for share in (0.0, 0.2, 0.5, 0.8, 0.99)]
    curve = shoal.amplify(given, reports=reports)
    assert curve.bound == ("one-bit" if sum(map(any, zip(*given.matrix, strict=True))) == 2 else "blanket")
    assert curve.lower is not None
    for epsilon, exact in zip(epsilons, _worst(given, reports, epsilons), strict=True):
        assert exact <= arb(curve.delta(epsilon)), (seed, epsilon)
        assert arb(curve.lower.delta(epsilon)) <= exact, (seed, epsilon)


@pytest.mark.parametrize("matrix", [[[5, 2], [11, 9]], [[5, 12], [7, 3]], [[7, 9], [9, 5]], [[8, 11], [7, 4]]])
def test_delta_is_above_that_of_outcomes_in_the_last_digit_before_epsilon(matrix: Any) -> None:
    """There, a difference of rounded logarithms may say that the one positive W is negative.

    Each negative W outweighs it twice. So δ of two reports is a·(1 − p), with a = R₀ − e^ε·R₁ of that outcome, and p
    the probability of the others on the blanket.
    """
    given = MatrixRandomizer(matrix)
    for epsilon in (math.nextafter(given.local_epsilon, 0), math.nextafter(given.local_epsilon, 0) * (1 - 2.0**-53)):
        upper, exact = shoal.amplify(given, reports=2).delta(epsilon), arb(0)
        with ctx.workprec(512):
            for likelihoods in (*given.blanket, *(each.swapped for each in given.blanket)):
                gains = [arb(first) - arb(epsilon).exp() * second for first, second, _ in likelihoods.outcomes]
                lost = sum(each[2] for gain, each in zip(gains, likelihoods.outcomes, strict=True) if gain < 0)
                alone = sum((gain for gain in gains if gain > 0), arb(0)) / likelihoods.total
                exact = exact.max(alone * (likelihoods.total - lost) / likelihoods.total)
            assert 0 < exact <= upper <= exact * (1 + 1e-9)


def test_the_largest_case_of_the_enumeration() -> None:
    given = MatrixRandomizer([[9, 2, 3, 1, 5], [1, 6, 6, 2, 5], [2, 2, 9, 4, 3], [4, 4, 4, 4, 4]])
    epsilons = [0.0, 0.5, 1.0, 2.0]
    curve = shoal.amplify(given, reports=6)
    assert curve.lower is not None
    for epsilon, exact in zip(epsilons, _worst(given, 6, epsilons), strict=True):
        assert arb(curve.lower.delta(epsilon)) <= exact <= arb(curve.delta(epsilon))
        assert curve.delta(epsilon) < 3 * float(exact)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 5, 30_000, 1_000_000])
@pytest.mark.parametrize(
    ("known", "matrix"),
    [
        (shoal.RandomizedResponse(categories=4, local_epsilon=2), enumeration.randomized_response(4, 2)),
        (shoal.UnaryEncoding(categories=3, local_epsilon=1.5), mechanisms.unary_encoding(3, 1.5)),
        (shoal.Rappor(categories=3, local_epsilon=2), mechanisms.rappor(3, 2)),
        (shoal.HadamardResponse(categories=5, local_epsilon=2, blocks=1), mechanisms.hadamard_response(5, 2)),
        (shoal.SubsetSelection(categories=5, local_epsilon=1, size=2), mechanisms.subset_selection(5, 1, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_agrees_with_mechanisms_whose_matrix_it_is_given(known: Any, matrix: Any, reports: int) -> None:
    given = MatrixRandomizer(matrix)
    assert given.local_epsilon == pytest.approx(known.local_epsilon, rel=1e-14)
    ours, theirs = shoal.amplify(given, reports=reports), shoal.amplify(known, reports=reports)
    for delta in (1e-3, 1e-6, 1e-10):
        # Entries that are equal in the mechanism differ in the last digit of the matrix, and so do the nodes; but the
        # exact values are the same to twelve digits, and both brackets contain them.
        one, other = ours.epsilon_bracket(delta), theirs.epsilon_bracket(delta)
        assert max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + 1e-12)
        assert max(one.upper, other.upper) <= min(one.lower, other.lower) * (1 + 1e-6)
        assert ours.lower.epsilon(delta) == pytest.approx(theirs.lower.epsilon(delta), rel=1e-9)  # type: ignore[union-attr]
    assert ours.delta(0.1) == pytest.approx(theirs.delta(0.1), rel=1e-8)


def test_local_epsilon_is_that_of_the_integers_rounded_up() -> None:
    for seed in range(20):
        given = _random(seed)
        rows = [[Fraction(weight, sum(row)) for weight in row] for row in given.matrix]
        largest = max(x / y for column in zip(*rows, strict=True) if any(column) for x, y in permutations(column, 2))
        with ctx.workprec(200):
            exact = arb(fmpq(largest.numerator, largest.denominator)).log()
            assert arb(math.nextafter(given.local_epsilon, 0)) < exact <= arb(given.local_epsilon)
        first, second = given.worst_pair
        assert max(x / y for x, y in zip(rows[first], rows[second], strict=True) if y) == largest


def test_numbers_are_kept_exactly_where_they_can_be() -> None:
    thirds = MatrixRandomizer([[Fraction(2, 3), Fraction(1, 3)], ["1/3", "2/3"]])
    assert thirds.matrix == ((2, 1), (1, 2))
    assert thirds == MatrixRandomizer([[2, 1], [10, 20]]) == MatrixRandomizer(np.array([[4, 2], [3, 6]]))
    assert hash(thirds) == hash(MatrixRandomizer([[2, 1], [1, 2]]))
    assert thirds.local_epsilon == math.nextafter(math.log(2), 1) or thirds.local_epsilon == math.log(2)
    assert MatrixRandomizer([[0.75, 0.25], [0.5, 0.5]]).matrix == ((3, 1), (1, 1))
    tiny = MatrixRandomizer([[1 - 1e-25, 1e-25], [0.5, 0.5]])
    assert tiny.matrix == ((2**61 - 1, 1), (1, 1))
    assert all(2**61 % sum(row) == 0 for row in MatrixRandomizer(_SURVEY).matrix)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], r"matrix\[0\] sums to 0.9; .* within 1e-9"),
        ([[1.5, -0.5], [0.5, 0.5]], r"matrix\[0\]\[1\] must be at least 0, got -0.5"),
        ([[0.5, 0.5], [0.5, math.nan]], r"matrix\[1\]\[1\] must be a finite number, got nan"),
        ([[0.5, math.inf], [0.5, 0.5]], r"matrix\[0\]\[1\] must be a finite number, got inf"),
        ([[0.5, 0.5], [True, 0.5]], r"matrix\[1\]\[0\] must be a finite number, got True"),
        ([[0.5, 0.5], [0.5, "half"]], "got 'half'"),
        ([[0.5, 0.5], [1.0]], r"matrix\[1\] has 1 entries, and matrix\[0\] has 2"),
        ([[0.5, 0.5]], "at least 2 inputs"),
        ([[1.0], [1.0]], "at least 2 outputs, got 2 rows of 1"),
        ([], "got 0 rows"),
        (7, "rows of probabilities"),
        ([0.5, 0.5], "rows of probabilities"),
        ([[0, 0], [1, 1]], r"matrix\[0\] has only zeros"),
        ([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]], "input 0 never reports output 2, and input 1 does.* ε₀ is infinite"),
        ([[0.5, 0.5], [2, 2]], r"matrix\[1\] sums to 4"),
        ([[3, 1], [6, 2]], "all rows of the matrix are the same"),
        (np.full((300, 300), 1 / 300), "65,536 entries, got 300 × 300"),
    ],
)
def test_bad_matrices_are_refused(matrix: Any, message: str) -> None:
    with pytest.raises(shoal.ParameterError, match=message):
        MatrixRandomizer(matrix)


def test_too_many_pairs_are_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.mechanisms.matrix_randomizer._MOST_COMPARED", 3)
    matrix = np.random.default_rng(5).dirichlet(np.full(6, 3.0), size=6)
    with pytest.raises(
        shoal.errors.RangeError, match=r"15 pairs .* 90 likelihoods.* at most 3 .* amplify\(local_epsilon="
    ):
        shoal.amplify(MatrixRandomizer(matrix), reports=100)


def test_pairs_are_left_out_only_where_that_changes_nothing() -> None:
    for seed in range(40):
        given = _random(seed)
        total, table = given._common
        least = [min(column) for column in zip(*table, strict=True)]
        every = [
            LikelihoodPair(50, IntegerLikelihoods.of(zip(one, two, least, strict=True), total))
            for one, two in permutations(table, 2)
        ]
        for epsilon in (0.0, 0.1, 0.5 * given.local_epsilon):
            # The distributions of W themselves, compared at every c where they bend: largest in the increasing order.
            kept = [pair for likelihoods in given.blanket for pair in (likelihoods, likelihoods.swapped)]
            for pair in every:
                assert any(_below(pair.likelihoods, one, epsilon) for one in kept), (seed, epsilon)


def _below(one: Any, other: Any, epsilon: float) -> bool:
    """Tell whether E(W − c)₊ of one is at most that of the other, for every c."""
    values = [(np.array([*x.values(epsilon), 0.0]), np.array([*x.probabilities, x.missing])) for x in (one, other)]
    cuts = np.concatenate([value for value, _ in values])
    low, high = (np.maximum(value - cuts[:, None], 0) @ mass for value, mass in values)
    return bool(np.all(low <= high + 1e-13 * (1 + np.abs(cuts))))


@pytest.mark.slow
@pytest.mark.parametrize("reports", [2, 8, 100_000, 10**9, 10**15])
def test_the_ceiling_is_above_delta_and_near_it(reports: int) -> None:
    for seed in (1, 4, 7):
        given = _random(seed)
        profile = shoal.amplify(given, reports=reports).profile
        assert isinstance(profile, BlanketProfile)
        for delta in (0.3, 1e-3, 1e-9):
            epsilon = min(profile.epsilon(delta), 0.9 * given.local_epsilon)
            for pair in profile.pairs:
                assert pair.delta_bracket(epsilon)[0] <= ceiling(pair, epsilon), (seed, epsilon)
            if reports > 1000:
                assert max(ceiling(pair, epsilon) for pair in profile.pairs) < 20 * profile.delta(epsilon)


def test_the_ends_of_an_ordered_scale_are_proved_to_be_the_worst() -> None:
    distance = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    given = MatrixRandomizer(np.exp(-0.5 * distance) / np.exp(-0.5 * distance).sum(axis=1, keepdims=True))
    total, table = given._common
    least = [min(column) for column in zip(*table, strict=True)]
    ends, near = (IntegerLikelihoods.of(zip(table[0], table[x], least, strict=True), total) for x in (6, 5))
    assert given.blanket[0] in (ends, ends.swapped)
    assert ends.advantage(0.0) > near.advantage(0.0)
    for delta in (1e-2, 1e-12):
        alone = max(LikelihoodPair(500, each).epsilon(delta) for each in (ends, ends.swapped))
        assert shoal.amplify(given, reports=500).epsilon(delta) == pytest.approx(alone, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("reports", representative([1, 2, 30, 3000, 10**6, 10**11], 4))
def test_the_screened_pairs_have_the_largest_delta_of_all(reports: int) -> None:
    for seed, (inputs, outputs) in enumerate(((4, 3), (5, 9), (9, 6), (7, 20))):
        rng = np.random.default_rng(seed)
        spread = (0.3, 1.0, 3.0, 6.0)[seed]
        rows = np.exp(spread * (rng.random((inputs, outputs)) - 0.5))
        given = MatrixRandomizer(rows / rows.sum(axis=1, keepdims=True))
        pairs = DirectedPairs(reports, given.blanket)
        assert len(pairs) == inputs * (inputs - 1)
        for delta in (0.1, 1e-4, 1e-10):
            epsilon = pairs.epsilon(delta, given.local_epsilon)
            each = [pair.delta_bracket(epsilon) for pair in pairs]
            assert max(upper for _, upper in each) <= delta or epsilon == given.local_epsilon
            asked = 0.8 * epsilon
            each = [pair.delta_bracket(asked) for pair in pairs]
            lower, upper = pairs.ends(asked)
            assert upper == max(upper for _, upper in each)
            assert lower <= max(lower for lower, _ in each) * (1 + 1e-12)
            screen = Screen(reports, given.blanket, asked)
            for above in (0.0, 0.5 * upper):
                left = set(screen.contenders(above, known=0))
                for index, (least, _) in enumerate(each):
                    assert index == 0 or index in left or least <= above, (seed, reports, delta, index)
            ceilings = Screen(reports, given.blanket, asked)
            first = ceilings.likeliest()
            assert all(ceilings._ceilings[index] >= least for index, (least, _) in enumerate(each)), (seed, first)


def test_pairs_with_the_same_numbers_are_there_once() -> None:
    assert len(MatrixRandomizer(np.exp(np.eye(12)) / np.exp(np.eye(12)).sum(axis=1, keepdims=True)).blanket) == 1
    assert len(MatrixRandomizer([[5, 2, 1, 2], [1, 4, 3, 2], [1, 1, 6, 2]]).blanket) == 3
    one, other = MatrixRandomizer([[3, 1], [1, 3]]).blanket, MatrixRandomizer([[6, 2], [2, 6]]).blanket
    assert one == other
    assert hash(one) == hash(other)
    assert one[0:1] == (one[0],) == (one[-1],)
    assert one != MatrixRandomizer([[2, 1], [1, 2]]).blanket
    matrix = [[5, 2, 1, 2], [1, 4, 3, 2], [1, 1, 6, 2]]
    curves = [shoal.amplify(MatrixRandomizer(matrix), reports=reports) for reports in (50, 50, 51)]
    assert curves[0] == curves[1] != curves[2]
    assert hash(curves[0].profile) == hash(curves[1].profile)


def test_likelihoods_keep_their_digits_where_logarithms_cancel() -> None:
    big = 10**17
    close = IntegerLikelihoods.of([(big + 1, big, 1), (big, big + 1, 1), (1, 1, 1)], 2 * big + 2)
    assert sorted(close.values(0.0)) == [-1.0, 0.0, 1.0]
    assert all(first == second for first, second, _ in close.rows)  # logarithms can't tell
    assert close.advantage(0.0) == 1 / (2 * big + 2)


def test_the_estimate_is_unbiased_exactly() -> None:
    for seed in range(30):
        given = _random(seed)
        rows = [[Fraction(weight, sum(row)) for weight in row] for row in given.matrix]
        try:
            decoder = LinearDecoder.of(given.matrix)
        except shoal.ParameterError:
            assert np.linalg.matrix_rank(given.probabilities) < given.categories
            continue
        assert np.linalg.matrix_rank(given.probabilities) == given.categories
        weights = [[Fraction(weight) for weight in row] for row in decoder.weights.tolist()]
        for index, row in enumerate(weights):
            size = max(map(abs, row))
            for value, probabilities in enumerate(rows):
                mean = sum((w * p for w, p in zip(row, probabilities, strict=True)), Fraction(0))
                assert abs(mean - int(index == value)) <= size / 2**52  # D is rounded once
        assert decoder.weights.sum(axis=0)[given.probabilities.any(axis=0)] == pytest.approx(1, rel=1e-12, abs=1e-9)


def test_the_variance_is_that_of_all_outcomes() -> None:
    given = MatrixRandomizer([[5, 2, 1, 2], [1, 4, 3, 2], [1, 1, 6, 2]])
    people = [0, 0, 1, 2]
    counts = _exact_counts(given.matrix, people)
    whole = math.prod(sum(given.matrix[value]) for value in people)
    truth = np.bincount(people, minlength=3) / len(people)
    mean, second, plug_in = np.zeros(3), np.zeros(3), np.zeros(3)
    for count, ways in counts.items():
        estimate = given._decoder.frequencies(np.array(count), len(people))
        mean += ways / whole * estimate
        second += ways / whole * (estimate - truth) ** 2
        plug_in += ways / whole * given._decoder.variance(np.array(count) / len(people), estimate) / len(people)
    assert mean == pytest.approx(truth, abs=1e-14)
    assert given.variance(truth, reports=len(people)) == pytest.approx(second, rel=1e-13)
    assert plug_in == pytest.approx(second, rel=1e-12)  # the standard errors are unbiased, squared


def test_no_other_unbiased_weights_do_better_where_inputs_are_equally_frequent() -> None:
    given = MatrixRandomizer([[5, 2, 1, 2], [1, 4, 3, 2], [1, 1, 6, 2]])
    best, equal = given._decoder.weights, np.full(3, 1 / 3)
    _, _, axes = np.linalg.svd(given.probabilities)
    shares = equal @ given.probabilities
    for step in (1e-3, -1e-3, 0.5):
        other = LinearDecoder(given.probabilities, best + step * axes[-1])
        assert other.weights @ given.probabilities.T == pytest.approx(np.eye(3), abs=1e-12)
        assert np.all(other.variance(shares, equal) > given.variance(reports=1))


def test_standard_errors_and_estimates_are_those_of_randomized_response() -> None:
    known = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    given = MatrixRandomizer(enumeration.randomized_response(3, known.local_epsilon))
    reports = known.randomize([0, 1, 1, 2, 2, 2] * 500, simulation=Simulation(seed=3))
    ours, theirs = given.estimate(given.aggregate(reports)), known.estimate(known.aggregate(reports))
    assert ours.frequencies == pytest.approx(theirs.frequencies, abs=1e-13)
    assert ours.standard_errors == pytest.approx(theirs.standard_errors, rel=1e-12)
    assert np.all(ours.lower <= theirs.lower + 1e-12)
    assert np.all(ours.upper >= theirs.upper - 1e-12)
    assert np.all(ours.upper - ours.lower < 1.6 * (theirs.upper - theirs.lower))


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("people", [(0,), (2,), (0, 1), (0, 0, 1, 2), (1, 1, 1, 1, 1, 1), (2, 2, 0, 2, 1, 2, 2)])
def test_intervals_cover_as_often_as_they_say(people: tuple[int, ...], confidence: float) -> None:
    given = MatrixRandomizer([[7, 2, 1], [2, 9, 2], [1, 3, 8]])
    whole = math.prod(sum(given.matrix[value]) for value in people)
    truth = np.bincount(people, minlength=3) / len(people)
    missed = np.zeros((2, 3))
    for count, ways in _exact_counts(given.matrix, people).items():
        lower, upper = given._decoder.limits(np.array(count), len(people), (1 - confidence) / 2)
        missed += ways / whole * np.array([lower > truth, upper < truth])
        estimate = np.clip(given._decoder.frequencies(np.array(count), len(people)), 0, 1)
        assert np.all((lower <= estimate) & (estimate <= upper))
    assert missed.max() <= (1 - confidence) / 2


def test_equal_rows_are_one_input_to_the_accountant() -> None:
    twice, once = MatrixRandomizer([[3, 1], [3, 1], [1, 3]]), MatrixRandomizer([[3, 1], [1, 3]])
    assert twice.blanket == once.blanket
    assert set(twice.homogeneous) == set(once.homogeneous)
    assert shoal.amplify(twice, reports=50).epsilon(1e-3) == shoal.amplify(once, reports=50).epsilon(1e-3)


def test_what_cannot_be_told_apart_is_named() -> None:
    given = MatrixRandomizer([[3, 1, 1], [1, 3, 1], [2, 2, 1], [1, 1, 3]])
    assert shoal.amplify(given, reports=1000).epsilon(1e-6) < given.local_epsilon
    counts = given.aggregate(given.randomize([0, 1, 2, 3]))
    with pytest.raises(shoal.ParameterError, match=r"of inputs 0, 1, 2 cannot be estimated: .* rank 3 and 4 rows"):
        given.estimate(counts)


def test_randomize_draws_from_the_integers() -> None:
    given = MatrixRandomizer(_SURVEY)
    reports = given.randomize(np.repeat([0, 1, 2], 200_000), simulation=Simulation(seed=5))
    assert reports.dtype == np.uint8
    counts = np.stack([np.bincount(part, minlength=3) for part in reports.reshape(3, -1)])
    expected = 200_000 * given.probabilities
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    assert np.array_equal(reports, given.randomize(np.repeat([0, 1, 2], 200_000), simulation=Simulation(seed=5)))
    # The coins at the ends of each output, and nothing in between, decide.
    for row, sums in zip(given.matrix, given._thresholds, strict=True):
        assert sums.tolist() == np.cumsum(np.array(row, dtype=object)).tolist()
        edges = [0, *sums[:-1].tolist()]
        assert np.searchsorted(sums, np.array(edges, np.uint64), side="right").tolist() == [0, 1, 2]
        assert np.searchsorted(sums, sums - np.uint64(1), side="right").tolist() == [0, 1, 2]


def test_reports_counts_and_schemas_travel() -> None:
    given = MatrixRandomizer([[4, 0, 1], [1, 0, 4]])
    reports = given.randomize([0, 1, 1, 0, 1], simulation=Simulation(seed=2))
    assert set(reports.tolist()) <= {0, 2}
    assert given.from_bytes(given.to_bytes(reports)).tolist() == reports.tolist()
    counts = given.aggregate(reports)
    assert Counts.from_bytes(counts.to_bytes()) == counts
    assert mechanism_of(given.to_dict()) == given
    assert given.to_dict() == {"mechanism": "matrix", "version": 1, "matrix": [[4, 0, 1], [1, 0, 4]]}
    assert given.estimate(counts).frequencies.sum() == pytest.approx(1)
    with pytest.raises(shoal.ParameterError, match=r"reports\[1\] is 1, which no input"):
        given.aggregate([0, 1])
    with pytest.raises(shoal.ParameterError, match=r"values\[1\] is none of the categories, .* from 0 to 1"):
        given.randomize([0, 2])
    with pytest.raises(shoal.ParameterError, match="whole numbers from 0 to 1"):
        given.randomize([0.5])
    with pytest.raises(shoal.ParameterError, match="no reports"):
        given.estimate(given.aggregate([]))
    with pytest.raises(shoal.ParameterError, match="are not of"):
        given.estimate(MatrixRandomizer(_SURVEY).aggregate([0]))
    with pytest.raises(shoal.ParameterError, match="2 numbers of at least 0 with sum 1"):
        given.variance([0.5, 0.6], reports=10)
    assert len(repr(MatrixRandomizer(np.random.default_rng(1).dirichlet(np.full(9, 9.0), size=9)))) < 80


@pytest.mark.slow
def test_it_works_everywhere(tmp_path: Path) -> None:
    given = MatrixRandomizer(_SURVEY)
    curve = shoal.amplify(given, reports=100_000)
    curves = shoal.compare(given, reports=100_000, delta=1e-6)
    assert curves[0].bound == "blanket"
    assert curves[0].epsilon(1e-6) == curve.epsilon(1e-6)
    assert lower_bound(given, reports=100_000).epsilon(1e-6) == curve.lower.epsilon(1e-6) <= curve.epsilon(1e-6)  # type: ignore[union-attr]
    assert lower_bound(given, reports=100_000).epsilon(0.0) <= given.local_epsilon
    general = shoal.amplify(local_epsilon=given.local_epsilon, reports=100_000)
    assert 0 < curve.renyi(4.0) <= general.renyi(4.0)
    assert curve.epsilon(1e-6) < curve.repeated(4).epsilon(1e-6) < general.repeated(4).epsilon(1e-6)
    ledger = shoal.Ledger(tmp_path / "ledger.json")
    ledger.record(curve, label="survey")
    (entry,) = shoal.Ledger(tmp_path / "ledger.json").entries
    assert entry.rounds[0][0].randomizer == given
    assert entry.rounds[0][0].epsilon(1e-6) == curve.epsilon(1e-6)
    first, second = given.worst_pair
    audit = shoal.audit(given, trials=20_000, first=first, second=second, simulation=Simulation(seed=1))
    assert audit.passed
    assert audit.lower > 0.9 * given.local_epsilon
