"""δ(ε) of allocation with σ below 0.4 against integration, simulation and the lattice."""

import math

import numpy as np
import pytest

from shoal.numerics.allocated_delta import _bounds, allocated_delta
from shoal.numerics.little_noise_delta import _remove, little_noise_delta
from tests.numerics.test_allocated_delta import DIRECTIONS, _largest_alone, _ours, _two_steps


def _bound(direction: str, separation: float, steps: int, epsilon: float) -> float:
    above, below = DIRECTIONS[direction]
    bounds = little_noise_delta(separation * above, separation * below, steps, np.array([epsilon]))
    return float(bounds.upper[0])


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("noise", [0.39, 0.3, 0.22, 0.2, 0.15, 0.1])
def test_two_steps_by_integration(direction: str, noise: float) -> None:
    """From large δ down to far tails: never below the integral, and close to it where δ is of use."""
    a = 1 / noise
    for epsilon in np.linspace(a, a * a * DIRECTIONS[direction][0] * 1.2 + 4 * a, 4).tolist():
        exact = _two_steps(direction, a, epsilon)
        for value in (_bound(direction, a, 2, epsilon), float(_ours(direction, a, 2, epsilon)[0])):
            assert exact * (1 - 1e-9) - 1e-15 <= value
        if exact > 1e-7:
            assert value <= exact * (1.03 if noise < 0.25 else 1.002), epsilon


@pytest.mark.parametrize(
    ("direction", "noise", "steps", "epsilon"),
    [
        ("remove", 0.3, 235, 13.0), ("remove", 0.22, 24, 25.0), ("add", 0.3, 24, 5.5), ("add", 0.2, 100, 8.0),
        ("replace", 0.3, 8, 21.0), ("replace", 0.25, 24, 25.0), ("replace", 0.2, 3, 48.0), ("replace", 0.2, 64, 34.0),
    ],
)  # fmt: skip
def test_the_lattice_is_below_the_closed_forms(direction: str, noise: float, steps: int, epsilon: float) -> None:
    """Both are upper bounds, and the lattice is close: a closed form that is far below it would be wrong."""
    above, below = (each / noise for each in DIRECTIONS[direction])
    lattice = float(_bounds(above, below, steps, np.array([epsilon]))[0])
    assert 1e-8 < lattice <= _bound(direction, 1 / noise, steps, epsilon) * 1.002


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"),
    [(0.35, 3, 20.0), (0.3, 5, 20.0), (0.25, 8, 26.0), (0.2, 3, 44.0), (0.17, 8, 48.0), (0.15, 3, 70.0)],
)
def test_replacing_by_simulation(noise: float, steps: int, epsilon: float) -> None:
    """The false-alarm rate of five standard deviations is below 1e-6."""
    mean, error = _largest_alone(1 / noise, steps, epsilon, 400_000)
    value = float(_ours("replace", 1 / noise, steps, epsilon)[0])
    assert error < 0.02 * mean
    assert mean - 5 * error <= value <= mean * (1.003 if noise > 0.18 else 1.25) + 5 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"),
    [(0.39, 235, 8.0), (0.35, 235, 10.0), (0.3, 235, 13.5), (0.25, 64, 20.0), (0.15, 24, 46.0)],
)
def test_removing_by_simulation(noise: float, steps: int, epsilon: float) -> None:
    """The example's own step is drawn where it counts, and weighted; five standard deviations."""
    generator, a, draws = np.random.default_rng(29), 1 / noise, 20_000
    shift = max((epsilon + math.log(steps)) / a - a / 2, 0.0)
    z = generator.standard_normal((draws, steps))
    weights = np.exp(-shift * z[:, 0] - shift**2 / 2)
    z[:, 0] += a + shift
    ratios = np.exp(a * z - a * a / 2).mean(axis=1)
    gains = weights * np.maximum(1 - math.exp(epsilon) / ratios, 0.0)
    error = float(gains.std()) / math.sqrt(draws)
    value = float(_ours("remove", a, steps, epsilon)[0])
    assert 0 < error < 0.03 * gains.mean()
    assert gains.mean() - 5 * error <= value <= gains.mean() * 1.003 + 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("separation", [2.6, 6.0, 20.0, 28.0, 40.0, 300.0, 1e6])
def test_delta_falls_and_is_a_number(direction: str, separation: float) -> None:
    """No overflow for any noise that a run may have, down to 1e-6 of the clip norm."""
    above, below = (each * separation for each in DIRECTIONS[direction])
    for steps in (2, 3, 10**7):
        with np.errstate(all="raise", under="ignore"):
            values = little_noise_delta(above, below, steps, np.linspace(0.0, 600.0, 7)).upper
        assert np.all((values >= 0) & (values <= 1))
        assert np.all(np.diff(values) <= 1e-6 * values[:-1])


def test_the_jumps_of_a_lattice_may_underflow() -> None:
    """No two jumps had a probability above 5e-324 here, which raised ValueError."""
    values = allocated_delta(4.0, 4.0, 2000, np.array([30.0, 60.0, 90.0]))
    assert np.all((values > 0) & (values <= 1))


@pytest.mark.parametrize(
    ("separation", "steps", "epsilon"),
    [(3.9144695913929093, 10, 11.528174404246819), (3.1161938991514386, 5, 11.532129993175596)],
)
def test_a_share_that_rounds_to_one_has_the_trivial_bound(separation: float, steps: int, epsilon: float) -> None:
    assert _remove(separation, steps, epsilon)[0] == 1
