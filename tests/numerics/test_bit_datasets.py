"""Rényi divergences of one-bit reports over all datasets: against balls, and against every dataset one by one."""

import math

import pytest
from flint import arb, ctx

from shoal.numerics.bit_datasets import every_dataset, rarely_changed
from shoal.pairs import BitRows


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


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 30.0, 1e4])
@pytest.mark.parametrize("rows", [BitRows.response(1.0), BitRows.response(9.0), BitRows.of(1, 2, 8)])
def test_every_dataset_of_few_reports(rows: BitRows, order: float) -> None:
    truth = max((divergences(rows, 12, order, count) for count in range(12)), key=float)
    value = every_dataset(rows.rows, 12, rows.reach, order)
    assert value is not None
    assert float(truth) * (1 - 1e-15) <= value <= float(truth) * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.01, 1.5, 8.0])
@pytest.mark.parametrize("local_epsilon", [4.0, 6.0, 9.0])
def test_bits_that_rarely_change(local_epsilon: float, order: float) -> None:
    rows = BitRows.response(local_epsilon)
    value = rarely_changed(rows.rows, 190, rows.reach, order)
    exact = every_dataset(rows.rows, 190, rows.reach, order)
    assert value is not None and exact is not None
    assert exact * (1 - 1e-9) <= value <= exact * (1 + 4e-4)


def test_says_nothing_where_it_takes_too_long() -> None:
    assert every_dataset(BitRows.response(1.0).rows, 10**4, 1.0, 2.0) is None
    assert rarely_changed(BitRows.response(1.0).rows, 10**4, 1.0, 2.0) is None
    assert rarely_changed(BitRows.response(9.0).rows, 10**4, 9.0, 1e3) is None


def test_all_others_on_one_value_are_a_part_of_it() -> None:
    """Nobody reports a one: the largest loss has the probability (1 − a)ⁿ, and this many terms are in the sum."""
    rows = BitRows.response(8.0)
    for reports, order in ((10**4, 3.0), (3 * 10**4, 20.0)):
        value = rarely_changed(rows.rows, reports, 8.0, order)
        assert value is not None
        nobody = (reports * math.log1p(-rows.low) + (order - 1) * 8.0) / (order - 1)
        assert nobody <= value <= 8.0
