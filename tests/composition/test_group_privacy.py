"""A person with several of the shuffled reports: the charge against brute force, and its rounding."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

import shoal
from shoal.composition.group_privacy import group_epsilon, multiplied
from tests.oracles import enumeration


def _worst(mechanism: shoal.RandomizedResponse, reports: int, rows: int, epsilon: float) -> float:
    """Return the exact δ at ε of a person with these many rows, over all values of the person and the others."""
    categories = mechanism.categories
    matrix = enumeration.randomized_response(categories, mechanism.local_epsilon)
    owned = list(combinations_with_replacement(range(categories), rows))
    largest = 0.0
    for others in combinations_with_replacement(range(categories), reports - rows):
        seen = {own: enumeration.shuffled_distribution(matrix, (*own, *others)) for own in owned}
        largest = max(largest, *(enumeration.hockey_stick(seen[p], seen[q], epsilon) for p, q in product(owned, owned)))
    return largest


@pytest.mark.parametrize(("local_epsilon", "reports", "rows"), [(0.5, 5, 2), (1.0, 4, 2), (1.0, 5, 3), (2.0, 5, 2)])
@pytest.mark.parametrize("delta", [1e-3, 0.02])
def test_the_charge_holds_for_every_dataset(local_epsilon: float, reports: int, rows: int, delta: float) -> None:
    mechanism = shoal.RandomizedResponse(categories=2, local_epsilon=local_epsilon)
    curve = shoal.amplify(mechanism, reports=reports)
    epsilon = group_epsilon(curve, rows_per_person=rows, delta=delta)
    assert _worst(mechanism, reports, rows, epsilon) <= delta
    assert epsilon <= rows * mechanism.local_epsilon * (1 + 1e-15)


def test_the_charge_for_one_row_is_too_small_for_two() -> None:
    """The ε that was printed for such a table before is wrong: its exact δ is seven times as large."""
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    curve = shoal.amplify(mechanism, reports=5)
    assert _worst(mechanism, 5, 1, curve.epsilon(0.02)) <= 0.02
    assert _worst(mechanism, 5, 2, curve.epsilon(0.02)) > 0.14
    assert _worst(mechanism, 5, 2, group_epsilon(curve, rows_per_person=2, delta=0.02)) <= 0.02


def test_the_charge_is_group_privacy_of_a_point_of_the_curve() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    for rows in (2, 7):
        epsilon = group_epsilon(curve, rows_per_person=rows, delta=1e-6)
        each = epsilon / rows
        reached = curve.delta(each) * math.expm1(epsilon) / math.expm1(each)
        assert reached == pytest.approx(1e-6, rel=1e-4)
    assert group_epsilon(curve, rows_per_person=1, delta=1e-6) == curve.epsilon(1e-6)


@pytest.mark.slow
def test_rounds_are_charged_together() -> None:
    """A person with two rows in each of 52 rounds: more than once the rounds, less than the rounds of all rows."""
    curve = shoal.amplify(local_epsilon=1, reports=10_000)
    year = curve.repeated(52)
    epsilon = group_epsilon(year, rows_per_person=2, delta=1e-6)
    assert 2 * year.epsilon(1e-6) < epsilon < 104


def test_no_more_than_the_local_guarantee_is_charged() -> None:
    curve = shoal.amplify(local_epsilon=3, reports=10)
    assert group_epsilon(curve, rows_per_person=1000, delta=1e-6) == 3000
    assert group_epsilon(curve, rows_per_person=3, delta=0) == 9


def test_without_a_local_guarantee_it_may_be_refused() -> None:
    curve = shoal.amplify(shoal.Dummies(categories=5, epsilon=0.5, limit=50), reports=10)
    with pytest.raises(shoal.errors.UnreachableError, match="a person with 2 rows; ask for a larger δ"):
        group_epsilon(curve, rows_per_person=2, delta=1e-6)
    assert group_epsilon(curve, rows_per_person=2, delta=1e-4) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_wrong_numbers_of_rows(wrong: float) -> None:
    with pytest.raises(shoal.ParameterError, match="rows_per_person"):
        group_epsilon(shoal.amplify(local_epsilon=1, reports=10), rows_per_person=wrong, delta=1e-6)  # type: ignore[arg-type]


def test_the_product_is_rounded_up() -> None:
    for epsilon in (0.1, 1 / 3, 2.0):
        for rows in (1, 3, 10):
            product_ = multiplied(epsilon, rows)
            assert Fraction(product_) >= rows * Fraction(epsilon)
            assert math.nextafter(product_, 0) < rows * Fraction(epsilon)
