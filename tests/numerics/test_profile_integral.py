"""Rényi divergences from bounds of a profile: a normal one, whose divergence is known, from quick and close bounds."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.numerics.profile_integral import ProfileIntegral, chords, divergence

Array = NDArray[np.float64]


class Normal(ProfileIntegral):
    """δ of two normal distributions whose loss has this standard deviation; quick bounds are Chernoff's."""

    def __init__(self, deviation: float, order: float) -> None:
        super().__init__(60 * deviation + order * deviation**2, (order - 1, -order))
        self.deviation = deviation

    @property
    def spread(self) -> float:
        return self.deviation

    def _log(self, points: Array) -> Array:
        s = self.deviation
        logs = []
        for x in points.tolist():
            tail, other = (math.erfc((x / s + sign * s / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
            logs.append(math.log(max(tail - math.exp(x) * other, 1e-320)))
        return np.array(logs)

    def looked_at(self, points: Array) -> tuple[Array, Array]:
        away = np.maximum(points / self.deviation - self.deviation / 2, 0.0)
        quick = np.minimum(-(away**2) / 2, 0.0)
        return quick, quick - np.log1p(2 * away + away**2) + math.log(0.4 * self.deviation)

    def quick(self, points: Array, known: Array) -> Array:
        return known

    def bounds(self, points: Array, known: Array) -> tuple[Array, Array]:
        return chords(self.exponents, points, known), np.abs(np.diff(known)) / 4

    def close(self, knots: Array, smoothing: float) -> Array:
        return np.minimum(self._log(knots) + 1e-9, 0.0)


@pytest.mark.parametrize("deviation", [1e-3, 0.05, 0.4])
@pytest.mark.parametrize("order", [1.01, 2.0, 8.0, 20.0])
def test_normal_losses(deviation: float, order: float) -> None:
    truth = order * deviation**2 / 2
    assert truth <= divergence([Normal(deviation, order)], order) <= truth * (1 + 3e-4)


@pytest.mark.parametrize("order", [1.5, 40.0])
def test_chords_are_integrals_of_lines_in_the_exponential(order: float) -> None:
    knots, logs = np.array([0.1, 0.3, 0.35]), np.log([0.2, 0.05, 0.04])
    exponents = (order - 1, -order)
    for index, log in enumerate(chords(exponents, knots, logs).tolist()):
        points = np.linspace(knots[index], knots[index + 1], 100_001)
        left, right = np.exp(knots[index : index + 2])
        share = (np.exp(points) - left) / (right - left)
        line = math.exp(logs[index]) * (1 - share) + math.exp(logs[index + 1]) * share
        whole = np.trapezoid(line * (np.exp((order - 1) * points) + np.exp(-order * points)), points)
        assert math.log(whole) == pytest.approx(log, abs=1e-8)
