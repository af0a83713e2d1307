"""Examples that join steps by themselves: Poisson steps against integration, and both directions of every pair."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile
from shoal.numerics.normal import gaussian_delta
from shoal.numerics.profile_grid import Mesh
from shoal.sgd.bounds import Elements, _stray
from shoal.sgd.participation import Allocation, PoissonStep

_POINTS = np.linspace(-14.0, 18.0, 400_001)


def _integrated(rate: float, separation: float, epsilon: float, direction: str) -> float:
    """Return the divergence by the trapezoidal rule."""
    base = np.exp(-(_POINTS**2) / 2) / math.sqrt(2 * math.pi)
    joined = base * (1 - rate + rate * np.exp(separation * _POINTS - separation**2 / 2))
    reflected = base * (1 - rate + rate * np.exp(-separation * _POINTS - separation**2 / 2))
    one, two = {"remove": (joined, base), "add": (base, joined), "replace": (joined, reflected)}[direction]
    return float(np.maximum(one - math.exp(epsilon) * two, 0).sum() * (_POINTS[1] - _POINTS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("separation", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_delta_is_the_integral_of_the_densities(rate: float, separation: float, direction: str) -> None:
    step = PoissonStep(separation, direction, rate)
    for epsilon in (0.0, 1e-4, 0.01, 0.3, 1.0, 3.0):
        exact = _integrated(rate, separation, epsilon, direction)
        assert exact * (1 - 1e-7) - 1e-15 <= step.delta(epsilon) <= exact * (1 + 1e-6) + 1e-13, epsilon


def test_epsilon_is_where_delta_falls_to_the_target() -> None:
    for profile in (PoissonStep(1.0, "replace", 0.1), Allocation(1.0, "remove", 50)):
        epsilon = profile.epsilon(1e-5)
        assert profile.delta(epsilon) <= 1e-5 < profile.delta(epsilon * (1 - 1e-6))
        assert math.isinf(profile.epsilon(0.0))


def test_one_step_is_the_gaussian_mechanism() -> None:
    for direction, far in (("remove", 1), ("add", 1), ("replace", 2)):
        assert Allocation(0.5, direction, 1).delta(0.7) == gaussian_delta(2 / far, 0.7)
        assert Allocation(0.5, direction, 2).delta(0.7) < gaussian_delta(2 / far, 0.7)
        assert Allocation(0.5, direction, 2).delta(700.0) == 1e-300


def _exact(profile: Allocation, epochs: int, epsilon: float) -> float:
    """Return δ(ε) of epochs with two steps each, by adding up the losses on a fine grid, roughly."""
    a, size = profile.separation, 1 << 16
    z = np.linspace(-a - 8, a + 8, 1201)
    weights = np.exp(-(z**2) / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    ratio = np.log(np.add.outer(np.exp(a * z - a * a / 2), np.exp(a * z - a * a / 2)) / 2).ravel()
    base = np.multiply.outer(weights, weights).ravel()
    losses, masses = (ratio, base * np.exp(ratio)) if profile.direction == "remove" else (-ratio, base)
    step = 80.0 / size
    index, share = np.floor(losses / step).astype(np.int64), losses / step - np.floor(losses / step)
    folded = np.bincount(index % size, masses * (1 - share), size) + np.bincount(
        (index + 1) % size, masses * share, size
    )
    sums = np.fft.irfft(np.fft.rfft(folded) ** epochs, size)
    total = step * ((np.arange(size) + size // 2) % size - size // 2)
    above = total > epsilon
    return float((sums[above] * -np.expm1(epsilon - total[above])).sum())


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_each_direction_is_composed_by_itself(direction: str) -> None:
    profile = Allocation(0.5, direction, 2)
    together = LossProfile((Round(profile, 600.0, 4),))
    for epsilon in (0.5, 1.0, 2.0):
        assert together.delta(epsilon) == pytest.approx(_exact(profile, 4, epsilon), rel=2e-3)
        assert together.delta(epsilon) >= _exact(profile, 4, epsilon) * (1 - 1e-4)


@pytest.mark.parametrize(("separation", "direction"), [(0.1, "remove"), (1.0, "add"), (1.0, "replace")])
def test_a_grid_ends_where_the_bound_of_delta_falls_no_further(separation: float, direction: str) -> None:
    """Beyond, rare losses would be ever larger, and a sum of them would need millions of nodes."""
    profile = Allocation(separation, direction, 10_000)
    grid = profile.grid(Mesh(0.01 * profile.spread, 600.0, 60.0, tilts=(3 / profile.spread,), goal=0.1))
    assert profile.floor < grid.upper[-1] <= 2 * profile.floor
    assert grid.knots[-1] < 10**5


def test_removing_costs_more_than_adding_and_their_maximum_more_than_both() -> None:
    remove, add = (
        LossProfile((Round(PoissonStep(1.0, each, 0.01), 600.0, 100),)).epsilon(1e-5) for each in ("remove", "add")
    )
    assert add < remove


def _tail(point: arb) -> arb:
    return (point / arb(2).sqrt()).erfc() / 2


def _replaced(rate: float, separation: float, epsilon: float) -> arb:
    """Return δ(ε) of a Poisson step as a ball."""
    a, p, growth = arb(separation), arb(rate), arb(epsilon).exp()
    middle = (1 - p) * (growth - 1) / p
    half = middle * (a * a / 2).exp() / 2
    point = (half + (half * half + growth).sqrt()).log() / a
    return p * (_tail(point - a) - middle * _tail(point) - growth * _tail(point + a))


def _kappa(separation: float, log_ratio: float) -> arb:
    """Return κ of Theorem G with r = s as a ball."""
    s, log = arb(separation), arb(log_ratio)
    point = 3 * s / 2 - log / s
    return _tail(-point) - (log - s * s).exp() * _tail(s - point)


@pytest.mark.slow
@pytest.mark.parametrize("separation", [0.5, 1.0, 2.0, 4.0])
def test_a_tail_that_is_hardly_a_double_makes_nothing_too_small(separation: float) -> None:
    before, ctx.prec = ctx.prec, 600
    try:
        elements = Elements("examples", 10, 2 * separation, separation, 0.0, separation)
        for epsilon in np.arange(5.0, 80.0, 0.2).tolist():
            for rate in (1e-6, 0.01, 0.5):
                exact = _replaced(rate, separation, epsilon)
                assert not exact > 1e-300 or arb(PoissonStep(separation, "replace", rate).delta(epsilon)) >= exact
            kappa = _kappa(separation, epsilon)
            assert not kappa > 1e-300 or arb(_stray(elements, epsilon)) >= kappa
    finally:
        ctx.prec = before
