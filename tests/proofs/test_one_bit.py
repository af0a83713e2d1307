"""Theorem O in balls against all datasets of few people, and certificates of one-bit reports."""

import math
from fractions import Fraction
from typing import Any

import pytest

import shoal
from shoal.assumptions import BLANKET, THEOREM_O
from shoal.mechanisms.coins import logarithm_above
from shoal.proofs.balls import ball, precision
from shoal.proofs.one_bit_claim import BitSums, OneBitClaim


def counted(chances: list[Fraction]) -> list[Fraction]:
    """Return how likely each number of ones is."""
    result = [Fraction(1)]
    for chance in chances:
        result = [
            (result[t] if t < len(result) else 0) * (1 - chance) + (result[t - 1] * chance if t else 0)
            for t in range(len(result) + 1)
        ]
    return result


def worst(low: Fraction, high: Fraction, reports: int, growth: Any) -> Any:
    """Return the largest δ over all datasets of people with either input, in both directions, in balls."""
    best = ball(0.0)
    for others in range(reports):
        rest = [high] * others + [low] * (reports - 1 - others)
        one, two = counted([low, *rest]), counted([high, *rest])
        for first, second in ((one, two), (two, one)):
            gains = [(ball(f) - growth * ball(g)).max(ball(0.0)) for f, g in zip(first, second, strict=True)]
            best = best.max(sum(gains, ball(0.0)))
    return best


@pytest.mark.slow
@pytest.mark.parametrize(("fewest", "most", "total"), [(1, 3, 4), (4, 15, 20), (1, 2, 50), (40, 49, 50)])
@pytest.mark.parametrize("reports", [1, 2, 7, 15])
def test_the_bound_is_the_largest_over_all_datasets(fewest: int, most: int, total: int, reports: int) -> None:
    low, high = Fraction(fewest, total), Fraction(most, total)
    local = logarithm_above(max(high / low, (1 - low) / (1 - high)))
    claim = OneBitClaim(reports, local, fewest, most, total)
    with precision(128):
        for share in (0.0, 0.2, 0.7):
            exact = worst(low, high, reports, ball(share * local).exp())
            value = claim.at(share * local, fineness=0.0)
            assert not value < exact
            assert value < exact * (1 + 1e-8) + 1e-30
        assert claim.at(local, fineness=0.0) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("fineness", "cost"), [(0.0, 1e-7), (0.01, 2e-4)])
@pytest.mark.parametrize("reports", [9_000, 10**7])
def test_cells_cost_little_and_are_safe(fineness: float, cost: float, reports: int) -> None:
    claim, curve = OneBitClaim(reports, 1.0, 0, 0, 0), shoal.amplify(shoal.OneBitMean(local_epsilon=1), reports=reports)
    with precision(128):
        for epsilon in (0.0, 3 / math.sqrt(reports)):
            value = claim.at(epsilon, fineness=fineness)
            assert value.upper() >= curve.profile.ends(epsilon)[0]  # type: ignore[attr-defined]
            assert value.upper() <= curve.profile.ends(epsilon)[1] * (1 + cost)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0.25, 0.75), (0.02, 0.1), (0.4, 0.45), (1e-3, 0.999)])
@pytest.mark.parametrize("people", [3, 40, 700])
def test_a_cell_is_above_all_numbers_of_people_in_it(low: float, high: float, people: int) -> None:
    with precision(128):
        for growth in (1.0, 1.02, 1.08):
            sums = BitSums(ball(low), ball(high), ball(growth), people)
            for first, last in ((0, people), (0, people // 3), (people // 3, people // 3 + 2), (people - 1, people)):
                value, _ = sums.cell(first, last)
                within = range(first, last + 1, max(1, (last - first) // 9))
                largest = [sums.largest(people - number, number) for number in within]
                assert not any(value < each for each in largest)


def test_offsets_that_no_whole_number_has_are_left_out() -> None:
    """With 0.25 and 0.75 at ε = 0, means are multiples of one half: no t is a quarter away from one."""
    with precision(128):
        sums = BitSums(ball(0.25), ball(0.75), ball(1.0), 4_000)
        single, _ = sums.cell(2_000, 2_000)
        odd, _ = sums.cell(2_001, 2_001)
        assert odd < single * (1 - 1e-4)
        assert not single < sums.largest(2_000, 2_000)
        assert not odd < sums.largest(1_999, 2_001)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("randomizer", "reports"),
    [
        (shoal.RandomizedResponse(categories=2, local_epsilon=1), 100),
        (shoal.RandomizedResponse(categories=2, local_epsilon=4), 10**6),
        (shoal.OneBitMean(local_epsilon=0.5), 10**4),
        (shoal.MatrixRandomizer([[3, 1], [1, 4], [1, 1]]), 1000),
    ],
    ids=str,
)
def test_one_bit_is_proved(randomizer: Any, reports: int) -> None:
    curve = shoal.amplify(randomizer, reports=reports)
    assert curve.bound == "one-bit"
    certificate = curve.certify(delta=1e-6)
    assert isinstance(certificate.claim, OneBitClaim)
    assert curve.epsilon(1e-6) <= certificate.epsilon <= curve.epsilon(1e-6) * (1 + 1e-6)
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    assert (certificate.claim.theorem, certificate.claim.assumptions) == (curve.citation, curve.assumptions)
    assert curve.citation == THEOREM_O


def test_the_sentence_cites_the_blanket_too() -> None:
    """What this proves is the blanket's: ε(0.1) = 0.1454 of 640 reports, and Theorem O evaluates to more."""
    certificate = shoal.amplify(shoal.MatrixRandomizer([[0.999, 0.001], [0.7, 0.3]]), reports=640).certify(delta=0.1)
    assert isinstance(certificate.claim, OneBitClaim)
    assert "Theorem O of shoal (docs/theory/one-bit.md)" in certificate.claim.theorem
    assert BLANKET in certificate.claim.theorem
    assert BLANKET in certificate.to_json()


@pytest.mark.parametrize("local_epsilon", [100.0, 130.0, 400.0])
def test_the_blanket_of_a_large_local_epsilon_is_finite(local_epsilon: float) -> None:
    """1 − high was all rounding, and the ball of δ was not a number."""
    with precision(128):
        claim, epsilon = OneBitClaim(2, local_epsilon, 0, 0, 0), 0.9 * local_epsilon
        assert claim._blanket(ball(epsilon).exp(), 0.0) < 1
        assert claim.at(epsilon, fineness=0.0).is_finite()


@pytest.mark.parametrize(
    "numbers", [(0, 1.0, 0, 0, 0), (5, 1.0, 1, 0, 0), (5, 1.0, 1, 3, 4), (5, 2.0, 3, 1, 4), (5, 2.0, 1, 4, 4)]
)
def test_bits_of_nothing_are_refused(numbers: Any) -> None:
    with pytest.raises(shoal.ParameterError):
        OneBitClaim(*numbers)
