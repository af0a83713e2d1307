"""Lists of few outcomes: against one report, against balls, and what is refused."""

import math

import numpy as np
import pytest

from shoal.evaluators.renyi_integral import Kinds
from shoal.evaluators.renyi_list import listed_excess
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


def test_too_many_outcomes_and_too_large_orders_are_not_listed() -> None:
    assert listed_excess(clones(10**6, 1.0), 1.0, 2.0, 10**5) is None
    assert listed_excess(clones(100, 1.0), 1.0, 400.0, 10**6) is None
    assert listed_excess(clones(1, 1.0), 1.0, 2.0, 10**6) is None
