"""Rényi divergences of one-bit reports over all datasets, against balls."""

import math

import numpy as np
import pytest
from flint import arb, ctx

import shoal
from shoal.amplification.one_bit import OneBitProfile
from shoal.pairs import BitRows, LikelihoodPair


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
