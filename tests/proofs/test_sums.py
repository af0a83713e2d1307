"""Sums in balls against enumeration: what is proved is at least the exact value, and hardly more."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.proofs.balls import Ball, Summand, above, ball, normal, precision, total
from shoal.proofs.claim import hidden
from shoal.proofs.inversion import Aim, Part, _Smoothed, aim, chernoff, effort, gaussian, inverted, tilt_of
from shoal.proofs.listing import binomial_tail, counted, listed
from shoal.proofs.transforms import Tilted, halved, row_at
from shoal.proofs.work import limited, spend
from tests.exhaustive import amount
from tests.test_properties import examples


def enumerated(values: list[Fraction], probabilities: list[Fraction], copies: int) -> Fraction:
    """Return E[(S)₊] of a sum of copies, from all their combinations."""
    rest = 1 - sum(probabilities, Fraction())
    outcomes = [*zip(values, probabilities, strict=True), (Fraction(), rest)]
    sums = {Fraction(): Fraction(1)}
    for _ in range(copies):
        after: dict[Fraction, Fraction] = {}
        for (before, weight), (value, probability) in product(sums.items(), outcomes):
            after[before + value] = after.get(before + value, Fraction()) + weight * probability
        sums = after
    return sum((weight * value for value, weight in sums.items() if value > 0), Fraction())


def summand(values: list[Fraction], probabilities: list[Fraction]) -> Summand:
    return Summand(tuple(map(ball, values)), tuple(map(ball, probabilities)), ball(0.0))


@pytest.mark.parametrize("likely", [Fraction(0), Fraction(1, 3)])
def test_a_value_whose_probability_is_no_double_is_not_lost(likely: Fraction) -> None:
    """All of E[(S)₊] may be there: 10⁴⁰⁰, with probability 10⁻⁴⁰⁰."""
    tiny = Fraction(1, 10**400)
    values, probabilities = [1 / tiny, Fraction(-1)], [tiny, likely]
    for copies in (1, 2, 3):
        proved = listed(summand(values, probabilities), copies, 0.0)
        exact = enumerated(values, probabilities, copies)
        assert exact > Fraction(9, 10) and proved.upper() >= ball(exact).lower()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(20, 40)))
def test_sums_are_at_least_the_exact_value(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [(int(random.integers(-40, 41)), int(random.integers(1, 31))) for _ in range(random.integers(1, 5))]
    rest, copies = int(random.integers(0, 41)), int(random.integers(1, 8))
    whole = sum(weight for _, weight in rows) + rest
    values = [Fraction(value, 7) for value, _ in rows]
    probabilities = [Fraction(weight, whole) for _, weight in rows]
    exact = enumerated(values, probabilities, copies)
    with precision(128):
        w = summand(values, probabilities)
        if not exact:
            assert hidden(w, copies, fineness=0.01) >= 0
            return
        floor = ball(exact)
        for fineness in (0.1, 0.01, 1e-3):
            value = inverted(w, copies, fineness=fineness)
            assert not value < floor
        assert not chernoff(w, copies) < floor
        assert not chernoff(w, copies, tilt=0.3) < floor
        assert not gaussian(w, copies) < floor
        assert effort(w, copies, fineness=1e-3) > effort(w, copies, fineness=1e-2)
        exactly = listed(w, copies, math.log(exact))
        assert not exactly < floor
        assert exactly < floor * (1 + 1e-9)
        for fineness in (0.0, 1e-3):
            assert not copies * hidden(w, copies, fineness=fineness) < floor


@pytest.mark.parametrize("seed", range(40))
def test_one_value_above_zero_and_one_below_are_counted_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    high, low = Fraction(int(random.integers(1, 41)), 7), -Fraction(int(random.integers(1, 41)), 7)
    weights, copies = [int(random.integers(1, 31)) for _ in range(3)], int(random.integers(1, 12))
    probabilities = [Fraction(weight, sum(weights)) for weight in weights[:2]]
    values = [high, low]
    if seed % 2:
        values, probabilities = values[::-1], probabilities[::-1]
    exact = enumerated(values, probabilities, copies)
    with precision(128):
        value = counted(summand(values, probabilities), copies, math.log(exact), most=100)
        assert not value < ball(exact)
        assert value < ball(exact) * (1 + ball(1e-12))


@pytest.mark.slow
@pytest.mark.parametrize(("copies", "weight"), [(3_000, Fraction(1, 3)), (10**5, Fraction(1, 10_000))])
@pytest.mark.parametrize("low", [Fraction(-31, 10), Fraction(-5)])
def test_counting_from_the_middle_is_counting_from_one(copies: int, weight: Fraction, low: Fraction) -> None:
    """Numbers of copies that are left out are charged, and tails start where the first number is."""
    with precision(256):
        w = summand([Fraction(3), low], [weight, weight])
        all_of_them = counted(w, copies, -1e5, most=10**6)
        some = counted(w, copies, math.log(float(all_of_them)), most=10**6)
        assert not some < all_of_them
        assert some < all_of_them * (1 + ball(1e-15))


def test_values_beyond_doubles_are_charged_in_full() -> None:
    """Of a W with values above 10³⁰⁸ counting says nothing, and δ is that of a report alone: never less."""
    with precision(160):
        large, rare = ball(10.0) ** 170, ball(10.0) ** -178
        w = Summand((large, -(large**2)), (rare, rare), ball(0.0))
        assert not counted(w, 100, math.nan, most=1000).is_finite()
        assert not hidden(w, 100, fineness=0.01) < large * rare * (1 - 100 * rare)


@pytest.mark.parametrize("local_epsilon", [356, 500, 700])
def test_certificates_of_reports_that_hide_nothing(local_epsilon: float) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=100)
    assert curve.epsilon(1e-6) <= curve.certify(delta=1e-6).epsilon <= local_epsilon


def test_a_sum_that_may_be_zero_counts_as_one_that_may_be_positive() -> None:
    """Three ups and two downs of −3/2 cancel: in balls, the sum is neither positive nor not."""
    values, probabilities = [Fraction(1, 3), Fraction(-1, 2)], [Fraction(2, 5), Fraction(1, 5)]
    exact = enumerated(values, probabilities, 10)
    with precision(64):
        value = counted(summand(values, probabilities), 10, math.log(exact), most=100)
        assert not value < ball(exact)
        assert value < ball(exact) * (1 + ball(1e-12))


def test_what_is_not_two_values_is_not_counted() -> None:
    third = Fraction(1, 3)
    with precision(128):
        for values in ([Fraction(1)], [Fraction(1), Fraction(2)], [Fraction(-1), Fraction(0)], [Fraction(1)] * 3):
            assert not counted(summand(values, [third / 2] * len(values)), 5, 0.0, most=100).is_finite()
        assert not counted(summand([Fraction(1), Fraction(-1)], [third, 2 * third]), 5, 0.0, most=100).is_finite()
        assert not counted(summand([Fraction(1), Fraction(-1)], [third, third]), 10**6, 0.0, most=100).is_finite()


@pytest.mark.slow
def test_less_smoothing_costs_less() -> None:
    copies = 30
    values, probabilities = [Fraction(3), Fraction(-5), Fraction(-1, 3)], [Fraction(1, 5)] * 3
    exact = enumerated([3 * value for value in values], probabilities, copies) / 3
    with precision(128):
        w = summand(values, probabilities)
        ends = [inverted(w, copies, fineness=fineness) for fineness in (3e-2, 3e-3, 3e-4)]
        best = ball(exact)
        excess = [float(end / best) - 1 for end in ends]
    assert excess[0] > excess[1] > excess[2] > -1e-12
    assert excess[2] < 1e-5


def test_a_range_of_nodes_is_bounded_by_its_middle() -> None:
    """|g″| ≤ 2·Var: the bound of a range is never below what any node of it has."""
    values, probabilities = [ball(1.0), ball(-0.75), ball(0.125)], [ball(0.25), ball(0.5), ball(0.125)]
    with precision(128):
        tilted = Tilted([*values, arb(0)], [*probabilities, ball(0.125)], ball(0.3))
        split = _Smoothed(Part(values, probabilities, ball(0.125), 1), 3, Aim(0.3, 60.0, 2.0), 0.1)
        whole = _Smoothed(Part(values, probabilities, ball(0.125)), 3, Aim(0.3, 60.0, 2.0), 0.1)
        for middle, radius in ((0.5, 0.1), (2.0, 0.5), (6.0, 0.01), (9.0, 3.0)):
            square = tilted.square_bound(row_at(tilted.points, ball(middle)), ball(radius))
            most = [sums.size_bound(ball(middle), ball(radius)) for sums in (whole, split)]
            for share in range(-10, 11):
                value, first = split.transform(ball(middle + radius * share / 10))
                assert first is not None
                assert value.abs_upper() ** 2 <= square * (1 + 1e-30)
                assert abs(value - first).upper() <= split.jumps.upper()
                assert abs(value**3).upper() <= most[0] * (1 + 1e-30)
                assert abs(value**3 - first**3).upper() <= most[1] * (1 + 1e-30)


@pytest.mark.parametrize("last", [9, 100, 1023])
def test_every_node_is_summed_or_charged_once(last: int) -> None:
    """Of a row of numbers that fall: what is charged is at least what is left out."""
    summed: set[int] = set()
    charged: set[int] = set()

    def charge(first: int, final: int) -> Ball | None:
        if first < 40:
            return None
        charged.update(range(first, final + 1))
        return arb(final - first + 1) / first

    def term(index: int) -> Ball:
        assert index not in summed
        summed.add(index)
        return arb(1) / index

    value = halved(5, last, short=4, charge=charge, summed=term)
    assert summed | charged == set(range(5, last + 1))
    assert not summed & charged
    assert value is not None and value >= sum(arb(1) / index for index in range(5, last + 1)) - arb(1e-12)
    assert halved(5, last, short=4, charge=charge, summed=lambda _: arb(0), most=2) is None


def test_a_normal_sum_is_close_where_there_are_many_copies() -> None:
    with precision(128):
        w = summand([Fraction(3), Fraction(-4)], [Fraction(2, 5), Fraction(3, 10)])
        exact = counted(w, 10**6, 0.0, most=10**5)
        assert exact < gaussian(w, 10**6) < exact * ball(1.005)
        assert chernoff(w, 10**6, tilt=tilt_of(w, 10**6)).overlaps(chernoff(w, 10**6))
        assert not gaussian(summand([Fraction(1)], [Fraction(1)]), 5).is_finite()


def test_the_aim_is_at_the_saddle_point() -> None:
    chosen = aim([1.0, -1.0], [0.3, 0.6], 0.1, 100)
    weights = [0.3 * math.exp(chosen.tilt), 0.6 * math.exp(-chosen.tilt), 0.1]
    assert 100 * chosen.tilt * (weights[0] - weights[1]) / sum(weights) == pytest.approx(2, rel=1e-2)


@examples(40)
@given(st.integers(1, 60), st.integers(0, 60), st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50)))
def test_binomial_tails_are_bounded(trials: int, count: int, probability: Fraction) -> None:
    exact = sum(
        math.comb(trials, each) * probability**each * (1 - probability) ** (trials - each)
        for each in range(count, trials + 1)
    )
    with precision(128):
        assert not binomial_tail(trials, count, ball(probability)) < ball(Fraction(exact))


@examples(40)
@given(st.floats(-30, 30))
def test_the_normal_distribution_is_that_of_the_library(point: float) -> None:
    with precision(128):
        assert float(normal(ball(point))) == pytest.approx(0.5 * math.erfc(-point / math.sqrt(2)), rel=1e-12)


def test_ends_of_balls_are_above_them() -> None:
    third: Ball = arb(1) / 3
    assert third <= above(third)
    assert above(third) - 1 / 3 < 1e-15
    assert above(ball(1.0)) == 1.0
    assert above(arb("inf")) == math.inf
    assert total([ball(1.0), ball(2.0)]) == 3


def test_work_is_limited() -> None:
    with limited(100):
        spend(60)
        with limited(10), pytest.raises(shoal.errors.RangeError, match="more work"):
            spend(11)
        spend(29)  # the inner block has spent eleven
        with limited(10), pytest.raises(shoal.errors.RangeError, match="more work"):
            spend(1)
        with pytest.raises(shoal.errors.RangeError):
            spend(1)
    values, probabilities = [Fraction(3), Fraction(-5)], [Fraction(1, 5)] * 2
    with limited(50), precision(128), pytest.raises(shoal.errors.RangeError):
        inverted(summand(values, probabilities), 10, fineness=1e-3)
