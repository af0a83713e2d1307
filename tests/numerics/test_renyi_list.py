"""Lists of few outcomes: against one report, against balls, and what is refused."""

import math

import numpy as np
import pytest

from shoal.numerics.renyi_integral import Kinds
from shoal.numerics.renyi_list import listed_excess
from tests.oracles import exact


def clones(reports: int, local_epsilon: float) -> Kinds:
    local = np.array([local_epsilon, 0.0])
    probability = 1 / (math.exp(local_epsilon) + 1)
    return Kinds(reports, local, local[::-1], np.full(2, probability), math.tanh(local_epsilon / 2))


@pytest.mark.parametrize(("reports", "local_epsilon"), [(2, 1.0), (30, 0.2), (40, 3.0), (25, 9.0)])
@pytest.mark.parametrize("order", [1.001, 1.5, 3.0, 6.0, 30.0])
def test_list_against_balls(reports: int, local_epsilon: float, order: float) -> None:
    excess = listed_excess(clones(reports, local_epsilon), local_epsilon, order, 10**6)
    assert excess is not None
    truth = exact.pair_renyi(reports, local_epsilon, order, "strong")
    value = math.log1p(excess) / (order - 1)
    assert truth <= value * (1 + 1e-15)
    assert value <= float(truth.mid()) * (1 + 2e-5)


def with_common(reports: int, local_epsilon: float, common: float, both: float) -> Kinds:
    """Return two kinds that differ, a frequent one that is the same for both inputs, and a rare one, more likely."""
    local, own = np.array([local_epsilon, 0.0, 0.0, local_epsilon]), math.exp(local_epsilon)
    probability = (1 - common - both * own) / (own + 1)
    shares = np.array([probability, probability, common, both])
    return Kinds(reports, local, local[[1, 0, 2, 3]], shares, 1 - float(shares.sum()))


def every_outcome(kinds: Kinds, order: float, highest: tuple[int, int, int]) -> float:
    """Return the divergence from all counts up to these of the rare kinds, and all that matter of the frequent one."""
    n, factorials = kinds.reports, np.array([math.lgamma(count + 1) for count in range(kinds.reports + 1)])
    mean = n * float(kinds.probabilities[2])
    width = 9 * math.sqrt(mean)
    frequent = np.arange(max(0, int(mean - width)), int(mean + width))
    grids = np.meshgrid(*(np.arange(each + 1) for each in highest), frequent, indexing="ij")
    first, second, rare, common = (grid.ravel() for grid in grids)
    counts = (first, second, common, rare)
    left = n - sum(counts)
    logs = factorials[n] - factorials[left] + left * math.log(kinds.missing)
    for count, share in zip(counts, kinds.probabilities.tolist(), strict=True):
        logs = logs + count * math.log(share) - factorials[count]
    a, b = (sum(c * x for c, x in zip(counts, np.exp(side).tolist(), strict=True)) for side in kinds[1:3])
    ratio = a / b
    total = float((np.exp(logs) * b * (ratio**order - 1 - order * (ratio - 1))).sum()) / n
    return math.log1p(total) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 5.0])
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "shares", "highest"),
    [
        (400_000, 10.0, (0.002, 1e-8), (65, 65, 2)),
        (400_000, 11.0, (0.01, 1e-9), (40, 40, 1)),
        (400_000, 12.0, (0.004, 4e-7), (30, 30, 5)),
        (1_000, 4.0, (0.5, 1e-6), (40, 40, 1)),
    ],
)
def test_frequent_reports_of_both_inputs_need_few_counts(
    reports: int, local_epsilon: float, shares: tuple[float, float], highest: tuple[int, int, int], order: float
) -> None:
    kinds = with_common(reports, local_epsilon, *shares)
    excess = listed_excess(kinds, local_epsilon, order, 1)  # nothing but the few counts lets this be answered
    assert excess is not None
    truth = every_outcome(kinds, order, highest)
    value = math.log1p(excess) / (order - 1)
    assert truth * (1 - 1e-7) <= value <= truth * (1 + 1e-4)


def test_too_many_outcomes_and_too_large_orders_are_not_listed() -> None:
    assert listed_excess(clones(10**6, 1.0), 1.0, 2.0, 10**5) is None
    assert listed_excess(clones(100, 1.0), 1.0, 400.0, 10**6) is None
    assert listed_excess(clones(1, 1.0), 1.0, 2.0, 10**6) is None
