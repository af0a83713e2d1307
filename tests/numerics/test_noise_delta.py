"""δ(ε) of noise from both sides: against quadrature for two reports, and against each other."""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from shoal.numerics.noise_ratio import GaussianRatio, LaplaceRatio, NoiseRatio
from shoal.randomizers.noise_profile import NoiseProfile


def _exact_of_two(local_epsilon: float, epsilon: float) -> float:
    """Return δ(ε) of two reports with Laplace noise: E[(W₁ + W₂)₊]/2, the mean over W₁ of a ramp of W₂.

    On the blanket, t = R₀/R₁ or its inverse has density g/4·t^(−3/2) on [1, E], g = E^(−1/2), and an atom of
    1/(2E) at E.
    """
    top, growth, g = math.exp(local_epsilon), math.exp(epsilon), math.exp(-local_epsilon / 2)

    def above(edge: float) -> float:  # E[(t − edge)₊] of one half
        start = min(max(edge, 1.0), top)
        middle = g / 2 * (math.sqrt(top) - math.sqrt(start)) - edge * g / 2 * (start**-0.5 - top**-0.5)
        return float(middle + max(top - edge, 0.0) / (2 * top))

    def ramp(cut: float) -> float:  # E[(W − cut)₊]
        half = g / 2
        falling = (1 - cut) * half - growth * (1 - half) + growth * above((1 - cut) / growth)
        return above(growth + cut) + falling + (1 - g) * max(-cut, 0.0)

    def integral(value: Callable[[float], float], kinks: set[float]) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(64)  # the integrand is analytic between its kinks
        ends = sorted({1.0, top, *(kink for kink in kinks if 1 < kink < top)})
        total = 0.0
        for left, right in itertools.pairwise(ends):
            points = 0.5 * (left + right) + 0.5 * (right - left) * nodes
            total += 0.5 * (right - left) * float(np.dot(weights, [value(point) for point in points.tolist()]))
        return total

    rising = integral(
        lambda t: g / 4 * t**-1.5 * ramp(growth - t),
        {growth, 2 * growth - top, 2 * growth - 1, growth + growth * top - 1},
    )
    falling = integral(
        lambda t: g / 4 * t**-1.5 * ramp(growth * t - 1),
        {(1 + top - growth) / growth, (2 - growth) / growth},
    )
    atoms = (ramp(growth - top) + ramp(growth * top - 1)) / (2 * top) + (1 - g) * ramp(0.0)
    return (rising + falling + atoms) / 2


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [0.3, 1.0, 3.0, 5.5])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99, 0.999])
def test_two_reports_with_laplace_noise(local_epsilon: float, share: float) -> None:
    """Next to ε₀ the lattice is short, and W below its first edge must not be counted as zero."""
    epsilon = share * local_epsilon
    profile, exact = NoiseProfile(2, LaplaceRatio(local_epsilon)), _exact_of_two(local_epsilon, epsilon)
    lower, upper = profile.delta_below(epsilon), profile.delta(epsilon)
    assert lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= upper
    assert upper <= lower * (1 + 1e-3)


@pytest.mark.slow
def test_the_lower_end_is_never_above_the_upper_one() -> None:
    draws, checked = random.Random(5), 0
    while checked < 60:
        gaussian = draws.random() < 0.5
        ratio: NoiseRatio = (
            GaussianRatio(10 ** draws.uniform(0, 1)) if gaussian else LaplaceRatio(10 ** draws.uniform(-1, 1.1))
        )
        reports = int(10 ** draws.uniform(0.31, 12)) if not gaussian else int(10 ** draws.uniform(4, 12))
        profile, delta = NoiseProfile(reports, ratio), 10 ** draws.uniform(-20, -2)
        most = profile.alone(delta)
        if most > 0:
            epsilon = profile.guess(delta, most)[0]
            assert profile.delta_below(epsilon) <= profile.delta(epsilon) * (1 + 1e-12)
            checked += 1
