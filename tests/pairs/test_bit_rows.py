"""The two extreme rows of a randomizer that reports one bit."""

import math

import pytest

from shoal.pairs import BitRows


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
