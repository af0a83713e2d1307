"""δ(ε) of noise from both sides: of one report against balls, of two against quadrature, and against each other."""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, ctx

import shoal
from shoal.numerics.noise import GaussianRatio, LaplaceRatio, NoiseRatio, gaussian_epsilon, summand
from shoal.pairs.noise_profile import NoiseProfile


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
            GaussianRatio(10 ** draws.uniform(-0.7, 1)) if gaussian else LaplaceRatio(10 ** draws.uniform(-1, 1.1))
        )
        reports = int(10 ** draws.uniform(0.31, 12))
        profile, delta = NoiseProfile(reports, ratio), 10 ** draws.uniform(-20, -2)
        most = profile.alone(delta)
        if most > 0:
            epsilon = draws.uniform(0, 1.5) * profile.epsilon(delta)
            assert profile.delta_below(epsilon) <= profile.delta(epsilon) * (1 + 1e-12)
            checked += 1


def _delta(sigma: float, epsilon: float) -> arb:
    """Return Φ(1/(2σ) − εσ) − e^ε·Φ(−1/(2σ) − εσ) as a ball."""
    half, place, root = 1 / (2 * arb(sigma)), arb(epsilon) * arb(sigma), arb(2).sqrt()
    near, far = ((place + side * half) / root for side in (-1, 1))
    return (near.erfc() - arb(epsilon).exp() * far.erfc()) / 2


@pytest.mark.parametrize("sigma", [0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("point", [0.0, 0.5, 3.0, 10.0, 30.0, 34.0, 35.5, 36.5, 36.9])
def test_both_sides_of_one_report(sigma: float, point: float) -> None:
    epsilon = (point + 0.5 / sigma) / sigma
    ratio, before = GaussianRatio(sigma), ctx.prec
    ctx.prec = 400
    try:
        exact = _delta(sigma, epsilon)
        assert arb(ratio.alone_below(epsilon)) <= exact <= arb(ratio.alone(epsilon))
    finally:
        ctx.prec = before


def test_the_lower_end_of_a_tiny_delta_is_below_the_exact_value() -> None:
    low, high = shoal.amplify(shoal.Gaussian(sigma=0.3), reports=1).epsilon_bracket(1e-300)
    assert low <= 128.8214382 <= high  # 128.82143821…, where the farther tail is no double


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("sigma", "delta"), [(0.05, 1e-300), (0.05, 1e-100), (0.3, 1e-300), (0.02, 1e-6)])
def test_rounds_with_losses_whose_exponential_is_no_double_are_answered(sigma: float, delta: float) -> None:
    curve = shoal.amplify(shoal.Gaussian(sigma=sigma), reports=1)
    assert curve.repeated(2).epsilon(delta) > curve.epsilon(delta)


@pytest.mark.parametrize("ratio", [GaussianRatio(0.2), GaussianRatio(1.0), GaussianRatio(30.0), LaplaceRatio(2.0)])
def test_cells_keep_masses_and_means(ratio: NoiseRatio) -> None:
    """Both finite distributions have the mass of the blanket, and E[t; t ≤ last] or E[t] as in the closed form."""
    cells = ratio.cells(-30.0)
    assert cells is not None
    for atoms in (cells.above, cells.below):
        assert 2 * float(atoms.masses.sum()) == pytest.approx(1 - ratio.rest, rel=1e-12)
        for epsilon in (0.0, 0.1, 1.0):
            values, masses = summand(atoms, epsilon, side=1)
            # E[W] = 1 − e^ε; what lies beyond the last cell was lowered on one half and raised on the other.
            assert float((values * masses).sum()) == pytest.approx(math.expm1(-epsilon), abs=1e-9)
            assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("ratio", [GaussianRatio(0.5), GaussianRatio(3.0), LaplaceRatio(2.0)])
def test_cells_enclose_one_report(ratio: NoiseRatio) -> None:
    """E[(W)₊] of one report has a closed form: convex order puts it between the two finite distributions."""
    cells = ratio.cells(-30.0)
    assert cells is not None
    for epsilon in (0.01, 0.3, 1.3):
        ends = []
        for atoms, side in ((cells.below, -1), (cells.above, 1)):
            values, masses = summand(atoms, epsilon, side=side)
            ends.append(float((np.maximum(values, 0.0) * masses).sum()) * math.exp(epsilon))
        exact = ratio.alone(epsilon)
        assert ends[0] <= exact * (1 + 1e-12) <= (ends[1] + cells.cost) * (1 + 1e-11)
        assert ends[1] <= ends[0] * (1 + 2e-3)


def test_epsilon_of_a_gaussian_mechanism_is_the_least_safe_one() -> None:
    epsilon = gaussian_epsilon(2.0, 1e-5)
    assert GaussianRatio(2.0).alone(epsilon) <= 1e-5 < GaussianRatio(2.0).alone(epsilon * (1 - 1e-9))
