"""One step of Poisson sampling, against integration of the two densities."""

import math

import numpy as np
import pytest

from shoal.sgd.poisson_step import PoissonStep

_POINTS = np.linspace(-14.0, 18.0, 400_001)


def _integrated(rate: float, separation: float, epsilon: float, *, replaced: bool) -> float:
    """Return the larger divergence of the two directions, by the trapezoidal rule."""
    base = np.exp(-(_POINTS**2) / 2) / math.sqrt(2 * math.pi)
    joined = base * (1 - rate + rate * np.exp(separation * _POINTS - separation**2 / 2))
    other = base * (1 - rate + rate * np.exp(-separation * _POINTS - separation**2 / 2)) if replaced else base
    width = _POINTS[1] - _POINTS[0]
    return max(
        float(np.maximum(one - math.exp(epsilon) * two, 0).sum() * width)
        for one, two in ((joined, other), (other, joined))
    )


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("separation", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("replaced", [False, True])
def test_delta_is_the_integral_of_the_densities(rate: float, separation: float, replaced: bool) -> None:
    step = PoissonStep(rate, separation, replaced)
    for epsilon in (0.0, 1e-4, 0.01, 0.3, 1.0, 3.0):
        exact = _integrated(rate, separation, epsilon, replaced=replaced)
        assert exact * (1 - 1e-7) - 1e-15 <= step.delta(epsilon) <= exact * (1 + 1e-6) + 1e-13, epsilon


def test_both_directions_count() -> None:
    """With coins that are nearly sure, removing and adding exchange their order along the curve."""
    step = PoissonStep(0.05, 1.0, False)
    assert step.removed(0.5) > step.added(0.5)
    assert step.removed(0.0) == pytest.approx(step.added(0.0), rel=1e-9)
    assert step.added(0.1) == 0.0


def test_epsilon_is_where_delta_falls_to_the_target() -> None:
    step = PoissonStep(0.1, 1.0, True)
    epsilon = step.epsilon(1e-5)
    assert step.delta(epsilon) <= 1e-5 < step.delta(epsilon * (1 - 1e-6))
    assert math.isinf(step.epsilon(0.0))
