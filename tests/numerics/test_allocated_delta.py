"""δ(ε) of allocation against a contour integral, closed forms, integration for two steps, and identities."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, polygamma

from shoal.numerics import ramp_sums
from shoal.numerics.allocated_delta import TAIL, allocated_delta, lattice_delta, little_noise
from shoal.numerics.normal import gaussian_delta
from shoal.numerics.ramp_sums import GaussianSum
from tests.exhaustive import representative

DIRECTIONS = {"remove": (1.0, 0.0), "add": (0.0, 1.0), "replace": (1.0, 1.0)}


def _ours(direction: str, separation: float, steps: int, *epsilons: float) -> NDArray[np.float64]:
    above, below = DIRECTIONS[direction]
    return allocated_delta(separation * above, separation * below, steps, np.array(epsilons))


def _contour(direction: str, a: float, steps: int, epsilon: float) -> float:
    """Return δ(ε) from E S₊ = (E S + (2/π)·∫(1 − Re φ(u)^t)/u² du)/2, φ along a shifted line; within about 1e-11."""
    above, below = (a * each for each in DIRECTIONS[direction])
    growth = math.exp(epsilon)
    shift = min(math.pi / (2 * a), 1.5)
    z = np.asarray(np.linspace(-16, 16, 6401) + 1j * shift, dtype=np.complex128)
    width = 32 / 6400

    def value(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return 0j + np.exp(above * z - above**2 / 2) - growth * np.exp(-below * z - below**2 / 2)

    # e^{iuV} decays along z + iη where V rises fast, and along z − iη where it falls fast to the left: −V rises there.
    v = value(z)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * width
    second = math.expm1(above**2) + growth**2 * math.expm1(below**2) - 2 * growth * math.expm1(-above * below)
    mean = steps * (1 - growth)
    square = steps * second + mean**2
    reach = 60 * math.sqrt(square) + 4 * float(np.abs(value(np.array([a + 7.5 + 0j, -a - 7.5 + 0j]))).max())
    step = 2 * math.pi / reach
    total, start, block = square / 4 * step, 1, 256
    while True:
        u = step * np.arange(start, start + block)
        phi = np.array([((np.exp(1j * each * v) - 1) * density).sum() for each in u])
        powers = np.exp(steps * np.log1p(phi))
        total += step * float(((1 - powers.real) / u**2).sum())
        start += block
        if np.abs(powers).max() < 1e-16:
            break
        assert start < 400_000
    total += float(polygamma(1, start)) / step
    return (mean + 2 / math.pi * total) / 2 / steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "noise", "steps", "epsilon"),
    [
        ("remove", 1.0, 235, 0.2), ("remove", 1.5, 15, 0.5), ("remove", 2.0, 59, 0.1), ("remove", 0.9, 100, 0.5),
        ("add", 1.0, 100, 0.2), ("add", 2.0, 59, 0.1), ("replace", 1.0, 235, 0.3), ("replace", 1.5, 15, 1.0),
        ("replace", 2.0, 59, 0.2), ("remove", 20.0, 1000, 0.001), ("replace", 20.0, 1000, 0.002),
    ],
)  # fmt: skip
def test_delta_is_that_of_a_contour_integral(direction: str, noise: float, steps: int, epsilon: float) -> None:
    exact = _contour(direction, 1 / noise, steps, epsilon)
    assert exact > 1e-7
    assert exact - 3e-11 <= float(_ours(direction, 1 / noise, steps, epsilon)[0]) <= exact * 1.001


GOLDEN = [  # from a contour integral elsewhere, within 3e-12
    ("remove", 1.0, 235, 0.0, 3.3820156269e-2), ("remove", 1.0, 235, 0.5, 6.792785e-7),
    ("replace", 1.0, 235, 0.0, 5.6154144036e-2), ("replace", 1.0, 235, 0.5, 1.19580676e-5),
    ("remove", 1.0, 15, 0.5, 1.3858591286e-2), ("remove", 1.0, 15, 1.0, 8.4657598e-4),
    ("add", 1.0, 15, 0.5, 8.2328923e-3), ("add", 1.0, 15, 1.0, 4.69047086e-5),
    ("replace", 1.0, 15, 0.5, 6.5922409067e-2), ("replace", 1.0, 15, 1.0, 1.1482803823e-2),
    ("remove", 0.6, 938, 0.0, 4.684592895e-2), ("remove", 0.6, 938, 0.5, 4.80735e-4),
    ("remove", 0.6, 938, 1.0, 4.82632e-5), ("replace", 0.6, 938, 0.5, 7.51424e-4),
    ("replace", 0.6, 938, 1.0, 5.62787e-5),
]  # fmt: skip


@pytest.mark.parametrize(("direction", "noise", "steps", "epsilon", "exact"), GOLDEN)
def test_known_values(direction: str, noise: float, steps: int, epsilon: float, exact: float) -> None:
    value = float(_ours(direction, 1 / noise, steps, epsilon)[0])
    assert exact * (1 - 2e-6) <= value <= exact * 1.002


def _two_steps(direction: str, a: float, epsilon: float) -> float:
    """Return δ(ε) of two steps: one is integrated over, the other has a closed form."""
    growth = math.exp(epsilon)
    z, weights = np.linspace(-a - 12, a + 12, 200_001, retstep=True)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * weights
    first, second = np.exp(a * z - a * a / 2), np.exp(-a * z - a * a / 2)
    if direction == "remove":  # E(X − k)₊, k = 2λ − x
        left = 2 * growth - first
        root = np.log(np.maximum(left, 1e-300)) / a + a / 2
        inner = np.where(left > 0, ndtr(a - root) - left * ndtr(-root), 1 - left)
    elif direction == "add":  # E(k − λX)₊, k = 2 − λx
        left = 2 - growth * first
        root = np.log(np.maximum(left, 1e-300) / growth) / a + a / 2
        inner = np.where(left > 0, left * ndtr(root) - growth * ndtr(root - a), 0.0)
    else:  # E(k + X − λX′)₊, k = x − λx′; X − λX′ rises with Z
        left = first - growth * second
        half = -left * math.exp(a * a / 2) / 2
        roots = np.hypot(half, math.sqrt(growth))
        root = np.log(np.where(half > 0, half + roots, growth / (np.abs(half) + roots))) / a
        inner = left * ndtr(-root) + ndtr(a - root) - growth * ndtr(-a - root)
    return float((inner * density).sum()) / 2


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("noise", [0.4, 0.6, 0.9, 1.0, 1.3, 2.0, 2.6, 4.0, 20.0, 100.0])
def test_two_steps_by_integration(direction: str, noise: float) -> None:
    for losses in (0.0, 0.01, 0.3, 1.0, 2.0, 3.0, 4.0, 5.0):
        exact = _two_steps(direction, 1 / noise, losses / noise)
        value = float(_ours(direction, 1 / noise, 2, losses / noise)[0])
        assert exact * (1 - 1e-9) - 1e-15 <= value
        assert value <= exact * 1.006 + 1e-16, losses


def _largest_alone(a: float, steps: int, epsilon: float, draws: int) -> tuple[float, float]:
    """Return δ(ε) of replacing by simulation, and its deviation: all but the largest V are drawn, where they count.

    V = X − λX′ rises with Z, so that the mean over the largest has a closed form.
    """
    generator, growth, middle = np.random.default_rng(7), math.exp(epsilon), epsilon / (2 * a)
    near = ((steps - 2) * middle - math.log(steps - 1) / a) / steps
    z = generator.normal(middle - near, 1.3, (draws, steps - 1))
    logs = (-(z**2) / 2 + ((z - middle + near) / 1.3) ** 2 / 2 + math.log(1.3)).sum(axis=1)
    left = (np.exp(a * z - a * a / 2) - growth * np.exp(-a * z - a * a / 2)).sum(axis=1)
    half = -left * math.exp(a * a / 2) / 2
    roots = np.hypot(half, math.sqrt(growth))
    root = np.log(np.where(half > 0, half + roots, growth / (np.abs(half) + roots))) / a
    root = np.maximum(root, z.max(axis=1))
    inner = left * ndtr(-root) + ndtr(a - root) - growth * ndtr(-a - root)
    gains = np.exp(logs) * np.maximum(inner, 0.0)
    return float(gains.mean()), float(gains.std()) / math.sqrt(draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"),
    [
        (0.4, 3, 10.0), (0.4, 3, 17.0), (0.4, 3, 24.0), (0.4, 5, 5.0), (0.4, 5, 14.0), (0.4, 5, 20.0),
        (0.4, 8, 11.0), (0.6, 3, 10.0), (0.6, 5, 13.0), (0.6, 8, 10.0), (1.0, 3, 5.0), (1.0, 5, 4.0), (2.0, 4, 1.5),
    ],
)  # fmt: skip
def test_replacing_in_few_steps_by_simulation(noise: float, steps: int, epsilon: float) -> None:
    """The false-alarm rate of five deviations is below 1e-6, if they are few enough to know."""
    mean, wrong = _largest_alone(1 / noise, steps, epsilon, 400_000)
    value = float(_ours("replace", 1 / noise, steps, epsilon)[0])
    assert wrong < 0.01 * mean
    assert mean - 5 * wrong <= value <= mean * 1.003 + 5 * wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"),
    [(0.4, 3, 10.0), (0.4, 3, 14.0), (0.4, 5, 8.0), (0.4, 16, 4.0), (0.6, 4, 5.0), (1.0, 3, 3.0), (1.5, 4, 1.5)],
)
def test_adding_to_few_steps_by_simulation(noise: float, steps: int, epsilon: float) -> None:
    """Every X is drawn near te^−ε/t, and weighed; five deviations."""
    generator, a, most = np.random.default_rng(8), 1 / noise, steps * math.exp(-epsilon)
    shift = max(-(math.log(most / steps) + a * a / 2) / a, 0.0) + 0.3
    z = generator.normal(-shift, 1.0, (400_000, steps))
    weights = np.exp((((z + shift) ** 2 - z**2) / 2).sum(axis=1))
    gains = weights * np.maximum(most - np.exp(a * z - a * a / 2).sum(axis=1), 0.0) / most
    wrong = float(gains.std()) / math.sqrt(len(gains))
    value = float(_ours("add", a, steps, epsilon)[0])
    assert wrong < 0.03 * gains.mean()
    assert gains.mean() - 5 * wrong <= value <= gains.mean() * 1.003 + 5 * wrong


@pytest.mark.parametrize("steps", [8, 16, 40])
@pytest.mark.parametrize("separation", [1.0, 1.8, 2.4])
def test_the_lattice_of_few_is_as_good_as_that_of_many(
    separation: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size of each term, and by the deviation: both are upper bounds, and where both are close they agree."""
    for epsilon in (0.5, 2.0, 4.0):
        sums = []
        steps_of_lattices: list[float] = []
        for most in (64, 1):
            monkeypatch.setattr(ramp_sums, "_FEW", most)
            summed = GaussianSum(separation, separation, epsilon, steps, beyond=TAIL)
            steps_of_lattices.append(summed.ramps.measure.step)
            sums.append(summed.at_constant())
        assert steps_of_lattices[0] != steps_of_lattices[1]
        assert sums[0] == pytest.approx(sums[1], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, 3, 235])
def test_very_little_noise_has_a_bound(steps: int) -> None:
    values = _ours("replace", 6.0, steps, 0.0, 1.0, 20.0)
    assert np.all((values > 1e-3) & (values <= 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "separation", "steps"),
    representative(
        product(DIRECTIONS, (5.0, 9.0, 12.0, 14.0, 16.0, 17.0, 18.0, 22.0, 38.0, 300.0), (2, 3, 24, 64, 1000)), 14
    ),
)
def test_hardly_any_noise_hides_nothing(direction: str, separation: float, steps: int) -> None:
    """Values with squares that are no doubles, and more than 2⁶⁰ steps apart: the bound is 1, or hardly less."""
    for epsilon in (0.0, 1.0, separation):
        exact = _two_steps(direction, separation, epsilon) if steps == 2 and separation < 15 else 0.0
        value = float(_ours(direction, separation, steps, epsilon)[0])
        assert exact * (1 - 1e-9) <= value <= 1
        if separation >= 9 and (direction != "add" or epsilon == 0):
            assert value > 0.95, epsilon


@pytest.mark.parametrize(("noise", "steps"), [(0.4, 3), (0.5, 100), (1.0, 1000), (4.0, 10**5), (100.0, 10**7)])
def test_the_directions_agree_where_they_must(noise: float, steps: int) -> None:
    """At ε = 0 adding and removing are the same; and replacing is at least either, at most one step that is known."""
    remove, add, both = (float(_ours(name, 1 / noise, steps, 0.0)[0]) for name in ("remove", "add", "replace"))
    assert remove == pytest.approx(add, rel=2e-3)
    assert both >= max(remove, add) * 0.998
    for name, far in (("remove", 1.0), ("replace", 2.0)):
        for epsilon in (0.0, 0.1 / noise, 1 / noise):
            assert float(_ours(name, 1 / noise, steps, epsilon)[0]) <= gaussian_delta(noise / far, epsilon) * 1.002


@pytest.mark.slow
def test_the_sheet_was_wrong_for_little_noise() -> None:
    """It said 0.135; the mean of 200,000 draws is within 0.005 of δ, but for a probability below 1e-6."""
    generator, a = np.random.default_rng(3), 2.0
    z = generator.standard_normal((200_000, 15))
    z[:, 0] += a
    gains = np.maximum(1 - math.exp(0.5) / np.exp(a * z - a * a / 2).mean(axis=1), 0)
    value = float(_ours("remove", a, 15, 0.5)[0])
    assert value == pytest.approx(0.2340, abs=5e-5)
    assert abs(float(gains.mean()) - value) < 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "steps"), [(0.4, 15), (0.5, 15), (0.4, 50)])
def test_little_noise_by_simulation(noise: float, steps: int) -> None:
    """Under the victim's distribution, one coordinate moved; the false-alarm rate of five deviations is below 1e-6."""
    generator, a, draws = np.random.default_rng(20), 1 / noise, 200_000
    for direction, epsilon in (("remove", 0.5), ("replace", 1.0), ("remove", 2.0)):
        z = generator.standard_normal((draws, steps))
        z[:, 0] += a
        mine = np.exp(a * z - a * a / 2).mean(axis=1)
        other = np.exp(-a * z - a * a / 2).mean(axis=1) if direction == "replace" else 1.0
        gains = np.maximum(1 - math.exp(epsilon) * other / mine, 0)
        value = float(_ours(direction, a, steps, epsilon)[0])
        wrong = float(gains.std()) / math.sqrt(draws)
        assert abs(float(gains.mean()) - value) <= 5 * wrong + 1e-3 * value


def test_many_points_are_what_each_is() -> None:
    for direction in DIRECTIONS:
        points = [0.0, 0.01, 0.1, 0.4, 1.0, 2.0]
        together = _ours(direction, 1.25, 300, *points)
        apart = [float(_ours(direction, 1.25, 300, point)[0]) for point in points]
        assert together == pytest.approx(apart, rel=2e-3)
        assert np.all(np.diff(together[together > 1e-20]) < 0)


def _bound(direction: str, separation: float, steps: int, epsilon: float) -> float:
    above, below = DIRECTIONS[direction]
    return min(1.0, little_noise(separation * above, separation * below, steps, epsilon)[0])


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("noise", [0.39, 0.3, 0.22, 0.2, 0.15, 0.1])
def test_two_steps_with_little_noise_by_integration(direction: str, noise: float) -> None:
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
    lattice = float(lattice_delta(above, below, steps, np.array([epsilon]))[0])
    assert 1e-8 < lattice <= _bound(direction, 1 / noise, steps, epsilon) * 1.002


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"),
    [(0.35, 3, 20.0), (0.3, 5, 20.0), (0.25, 8, 26.0), (0.2, 3, 44.0), (0.17, 8, 48.0), (0.15, 3, 70.0)],
)
def test_replacing_with_little_noise_by_simulation(noise: float, steps: int, epsilon: float) -> None:
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
def test_removing_with_little_noise_by_simulation(noise: float, steps: int, epsilon: float) -> None:
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
            bounds = [little_noise(above, below, steps, epsilon)[0] for epsilon in range(0, 601, 100)]
        values = np.minimum(bounds, 1.0)
        assert np.all(values >= 0)
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
    assert little_noise(separation, 0.0, steps, epsilon)[0] == 1
