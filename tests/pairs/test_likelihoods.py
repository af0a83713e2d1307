"""The likelihoods of every mechanism, against the whole matrix of its outputs; the two extreme rows of one bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import pytest
from flint import arb

import shoal
from shoal.mechanisms import Categorical, Likelihoods
from shoal.pairs import BitRows
from shoal.pairs.integer_likelihoods import IntegerLikelihoods
from shoal.pairs.likelihoods import LikelihoodPair
from shoal.proofs.balls import precision
from tests.exhaustive import representative
from tests.oracles import enumeration, mechanisms

Matrix = Sequence[Sequence[float]]
Rows = list[tuple[float, float, float]]

EPSILONS = (0.01, 0.5, 1.0, 2.3, 6.0)


def cases() -> list[tuple[Categorical, Matrix]]:
    """Return descriptions with their matrices."""
    found: list[tuple[Categorical, Matrix]] = []
    for local in EPSILONS:
        for k in (2, 3, 4, 5, 7, 8):
            found.append(
                (shoal.RandomizedResponse(categories=k, local_epsilon=local), enumeration.randomized_response(k, local))
            )
            found.append(
                (
                    shoal.HadamardResponse(categories=k, local_epsilon=local, blocks=1),
                    mechanisms.hadamard_response(k, local),
                )
            )
            found.append((shoal.UnaryEncoding(categories=k, local_epsilon=local), mechanisms.unary_encoding(k, local)))
            found.append((shoal.Rappor(categories=k, local_epsilon=local), mechanisms.rappor(k, local)))
            best = shoal.SubsetSelection(categories=k, local_epsilon=local)
            found.append((best, mechanisms.subset_selection(k, local, best.subset_size)))
            for size in {1, k // 2, k - 1}:
                subsets = shoal.SubsetSelection(categories=k, local_epsilon=local, size=size)
                found.append((subsets, mechanisms.subset_selection(k, local, size)))
    return found


def grouped(first: Sequence[float], second: Sequence[float], reference: Sequence[float]) -> Rows:
    """Return the rows of two distributions relative to a third one, equal ones merged."""
    merged: dict[tuple[float, float], list[float]] = {}
    for one, two, probability in zip(first, second, reference, strict=True):
        place = (round(math.log(one / probability), 9) + 0.0, round(math.log(two / probability), 9) + 0.0)
        merged.setdefault(place, []).append(probability)
    return sorted((*place, math.fsum(probabilities)) for place, probabilities in merged.items())


def same(likelihoods: Likelihoods, rows: Rows) -> bool:
    """Tell whether the likelihoods are these rows."""
    found = sorted(
        (round(one, 9) + 0.0, round(two, 9) + 0.0, probability) for one, two, probability in likelihoods.rows
    )
    return len(found) == len(rows) and all(
        ours[:2] == pytest.approx(theirs[:2], abs=1e-8) and ours[2] == pytest.approx(theirs[2], rel=1e-12)
        for ours, theirs in zip(found, rows, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("randomizer", "matrix"), representative(cases(), 75), ids=str)
def test_distributions_are_those_of_the_matrix(randomizer: Categorical, matrix: Matrix) -> None:
    """Every pair of inputs has one of the distributions given, and every one given is that of some pair."""
    assert all(math.fsum(row) == pytest.approx(1, rel=1e-14) for row in matrix)
    assert enumeration.worst_local_delta(matrix, randomizer.local_epsilon) < 1e-14
    blanket = [min(column) for column in zip(*matrix, strict=True)]
    distributions = [grouped(one, two, blanket) for one, two in permutations(matrix, 2)]
    assert all(any(same(given, distribution) for given in randomizer.blanket) for distribution in distributions)
    assert all(any(same(given, distribution) for distribution in distributions) for given in randomizer.blanket)
    for given in randomizer.blanket:
        assert given.symmetric
        assert math.fsum((*given.probabilities, given.missing)) == pytest.approx(1, rel=1e-14)

    distributions = [grouped(one, two, other) for one, two in permutations(matrix, 2) for other in matrix]
    assert all(any(same(given, distribution) for given in randomizer.homogeneous) for distribution in distributions)
    assert all(any(same(given, distribution) for distribution in distributions) for given in randomizer.homogeneous)
    for given in randomizer.homogeneous:
        assert given.missing == 0
        assert math.fsum(given.probabilities) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize(("randomizer", "matrix"), cases()[:40], ids=str)
def test_both_inputs_have_distributions(randomizer: Categorical, matrix: Matrix) -> None:
    for likelihoods in (*randomizer.blanket, *randomizer.homogeneous):
        for epsilon in (0.0, 0.4 * randomizer.local_epsilon):
            values = likelihoods.values(epsilon)
            mean = math.fsum(
                value * probability for value, probability in zip(values, likelihoods.probabilities, strict=True)
            )
            assert mean == pytest.approx(-math.expm1(epsilon), rel=1e-10, abs=1e-14)
            alone = enumeration.hockey_stick(dict(enumerate(matrix[0])), dict(enumerate(matrix[1])), epsilon)
            assert likelihoods.advantage(epsilon) == pytest.approx(alone, rel=1e-11)
        assert likelihoods.advantage(randomizer.local_epsilon) == 0
        assert likelihoods.reach == randomizer.local_epsilon
        assert likelihoods.swapped.swapped == likelihoods


def test_the_tables_for_any_number_of_categories_are_a_little_too_large() -> None:
    """Their blanket leaves out that the output which supports every category is common to all of them in full."""
    for categories in (2, 3, 5):
        for randomizer, matrix, share in (
            (
                shoal.Rappor(categories=categories, local_epsilon=1.0),
                mechanisms.rappor(categories, 1.0),
                math.exp(-0.5),
            ),
            (
                shoal.UnaryEncoding(categories=categories, local_epsilon=1.0),
                mechanisms.unary_encoding(categories, 1.0),
                (1 + math.exp(-1.0)) / 2,
            ),
            (
                shoal.HadamardResponse(categories=categories, local_epsilon=1.0, blocks=1),
                mechanisms.hadamard_response(categories, 1.0),
                2 / (math.e + 1),
            ),
        ):
            exact = math.fsum(min(column) for column in zip(*matrix, strict=True))
            ((given,)) = randomizer.blanket
            assert math.fsum(given.probabilities) == pytest.approx(exact, rel=1e-13)
            assert exact > share * (1 + 1e-3)


@pytest.mark.parametrize("kind", [shoal.HadamardResponse, shoal.Rappor, shoal.SubsetSelection, shoal.UnaryEncoding])
def test_descriptions_are_checked(kind: type[Categorical]) -> None:
    for arguments in (
        {"categories": 1, "local_epsilon": 1},
        {"categories": 2.5, "local_epsilon": 1},
        {"categories": 3, "local_epsilon": 0},
        {"categories": 3, "local_epsilon": math.nan},
    ):
        with pytest.raises(shoal.ParameterError):
            kind(**arguments)


def test_subsets_have_a_sensible_size() -> None:
    for size in (0, 5, 6, 1.5):
        with pytest.raises(shoal.ParameterError, match="size must be"):
            shoal.SubsetSelection(categories=5, local_epsilon=1, size=size)  # type: ignore[arg-type]
    for categories in (2, 3, 4, 1000, 10**9, 10**15):
        for local_epsilon in (1e-300, 1e-9, 1.0, 5.0, 700.0):
            size = shoal.SubsetSelection(categories=categories, local_epsilon=local_epsilon).subset_size
            assert 1 <= size < categories


def test_exact_shares_are_rounded_once() -> None:
    rows = BitRows.of(1, 2**61 - 1, 2**61)
    assert rows.low == rows.not_high == 2.0**-61 and rows.symmetric
    assert rows.reach == pytest.approx(61 * math.log(2), rel=1e-15)


def test_response_is_that_of_the_integers() -> None:
    exact, rounded = BitRows.of(1, 3, 4), BitRows.response(math.log(3))
    for epsilon in (0.0, 0.3, 1.0):
        (one,), (two,) = exact.counts(7, epsilon), rounded.counts(7, epsilon)
        assert one.gain == pytest.approx(two.gain, rel=1e-14) and one.low == pytest.approx(two.low, rel=1e-15)
        assert one.excess == two.excess == math.expm1(epsilon) and one.others == 6


def test_rows_that_are_not_symmetric_have_two_directions() -> None:
    rows = BitRows.of(1, 3, 10)  # ones at most three times as often, zeros 9/7 times
    zeros, ones = rows.counts(5, 0.1)
    factor = math.exp(0.1)
    assert zeros.gain == pytest.approx(0.9 - factor * 0.7) and (zeros.low, zeros.high) == (0.1, 0.3)
    assert ones.gain == pytest.approx(0.3 - factor * 0.1) and (ones.low, ones.high) == (0.7, 0.9)
    assert len(rows.counts(5, 0.5)) == 1 and rows.counts(5, 1.2) == ()
    assert rows.reach == pytest.approx(math.log(3))


@pytest.mark.parametrize(("first", "second"), [(474, 243), (6, 1), (369, 23), (850, 541)])
def test_what_is_known_of_the_largest_loss_is_rounded_up(first: int, second: int) -> None:
    """Rényi divergences of huge orders, and δ next to the largest loss, come close to it."""
    whole = first + second
    rows = [[Fraction(first, whole), Fraction(second, whole)], [Fraction(second, whole), Fraction(first, whole)]]
    table = shoal.MatrixRandomizer(rows)
    with precision(400):
        ratio = arb(first) / second
        for order in (1e12, 1e15, 1e16, 1e18, 1e22):
            moment = (second * (ratio.log() * arb(order)).exp() + first * (-ratio.log() * arb(order)).exp()) / whole
            exact = moment.log() / (arb(order) - 1)
            for bound in ("tightest", "blanket"):
                assert not arb(shoal.amplify(table, reports=1, bound=bound).renyi(order)) < exact
        pair = LikelihoodPair(1, IntegerLikelihoods.of([(first, second, second), (second, first, second)], whole))
        assert ratio.log() < arb(pair.local_epsilon)
        largest = math.nextafter(pair.local_epsilon, 0)
        delta = (arb(first) - arb(largest).exp() * second) / whole
        assert not arb(pair.delta(largest)) < delta
