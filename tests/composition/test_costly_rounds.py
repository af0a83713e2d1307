"""Rounds each of whose knots takes long have fewer of them: the ends of ε contain the exact value, and are close."""

import numpy as np
import pytest

from shoal import Gaussian, MatrixRandomizer, RandomizedResponse, amplify
from shoal.amplification.blanket import BlanketProfile
from shoal.composition.composition_method import Round
from shoal.composition.loss_accountant import LossProfile


def table(size: int, local_epsilon: float, seed: int) -> MatrixRandomizer:
    """Return random rows."""
    rows = np.exp(local_epsilon * np.random.default_rng(seed).random((size, size)))
    return MatrixRandomizer(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "local_epsilon", "reports", "times", "delta"),
    [(4, 2.0, 10, 30, 1e-6), (4, 0.5, 60, 7, 1e-12), (5, 1.0, 10**4, 365, 1e-3)],
)
def test_fewer_knots_of_tables_agree_with_many(
    size: int, local_epsilon: float, reports: int, times: int, delta: float
) -> None:
    profile = amplify(table(size, local_epsilon, 1), reports=reports, bound="blanket").profile
    assert isinstance(profile, BlanketProfile)
    assert profile.costly
    pairs = tuple(profile.pairs)
    one_by_one = BlanketProfile(pairs, profile.local_epsilon)
    assert not one_by_one.costly
    few, many = (LossProfile((Round(each, profile.local_epsilon, times),)) for each in (profile, one_by_one))
    (lower, upper), (least, most) = few.bracket(delta), many.bracket(delta)
    assert lower <= most
    assert least <= upper <= 1.001 * lower
    assert upper <= 1.0005 * most


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), [(4.0, 100), (8.0, 10**4), (8.0, 10**5), (1.0, 10**4)])
def test_more_knots_where_the_ends_would_be_far_apart(local_epsilon: float, reports: int) -> None:
    curve = amplify(RandomizedResponse(categories=2, local_epsilon=local_epsilon), reports=reports)
    assert curve.bound == "one-bit"
    lower, upper = curve.repeated(30).epsilon_bracket(1e-6)
    assert 0 < lower <= upper <= 1.001 * lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports", "times"),
    [(3.0, 100, 365), (1.0, 10**4, 30), pytest.param(0.5, 10**6, 365, marks=pytest.mark.exhaustive)],
)
def test_few_knots_of_gaussian_noise_are_enough(deviation: float, reports: int, times: int) -> None:
    """Also where a single large loss is as likely as many small ones, and the moments are those of the former."""
    profile = Gaussian(deviation=deviation).profile(reports)
    lower, upper = LossProfile((Round(profile, float("inf"), times),)).bracket(1e-6)
    assert 0 < lower <= upper <= 1.001 * lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports", "times", "least", "most"),
    [
        pytest.param(0.3, 100, 30, 154.9789294288719, 155.09965257107822, marks=pytest.mark.exhaustive),
        (0.3, 10**4, 365, 232.87482188604886, 233.06785323920994),
        pytest.param(0.3, 10**6, 10**4, 321.57103891545813, 321.85760601148985, marks=pytest.mark.exhaustive),
        pytest.param(0.5, 100, 365, 160.18729343010915, 160.3217197060168, marks=pytest.mark.exhaustive),
        (0.5, 10**6, 30, 0.2440574732603662, 0.24426202716721176),
        (1.0, 10**4, 10**4, 9.110017064976763, 9.115794225086365),
        (3.0, 100, 30, 0.8821843734642728, 0.8826831994807223),
    ],
)
def test_rounds_of_gaussian_noise_hold_what_they_held_before(
    deviation: float, reports: int, times: int, least: float, most: float
) -> None:
    """Both ends of before had every path followed up to its end."""
    lower, upper = amplify(Gaussian(deviation=deviation), reports=reports).repeated(times).epsilon_bracket(1e-6)
    assert lower <= most
    assert least <= upper <= most * (1 + 3e-4)
    assert upper <= 1.001 * lower
