"""The ladder of Rényi orders loses hardly anything against the best real order."""

import numpy as np
import pytest

import shoal
from shoal.figures.composed_rounds import through_renyi


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "rounds"), [(1.0, 10), (4.0, 1000)])
def test_ladder_is_close_to_the_best_order(local_epsilon: float, rounds: int) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=1_000, bound="clones")
    best = curve.repeated(rounds, method="renyi").epsilon(1e-6)
    (ladder,) = through_renyi(curve, np.array([float(rounds)]))
    assert best * (1 - 1e-6) <= ladder <= best * 1.006
