"""Sums of a W with a long tail, split by the largest copy: at least the exact sum, and hardly more."""

import itertools
import math
from itertools import product

import numpy as np
import pytest
from flint import arb

import shoal
from shoal.proofs.balls import Summand, ball, precision, total
from shoal.proofs.blanket_claim import GaussianClaim
from shoal.proofs.inversion import Aim, Part, _ranges, _Scaled, _thinned, inverted, smoothed
from tests.exhaustive import representative


def long_tailed(count: int, growth: float, shift: float) -> Summand:
    """Return a W whose values grow exponentially while they get rarer, below zero as above it."""
    places = range(-count, count + 1)
    values = tuple(ball(math.copysign(math.expm1(growth * abs(place)), place) - shift) for place in places)
    weights = [math.exp(-((6 * place / count) ** 2) / 2) for place in places]
    return Summand(values, tuple(ball(0.9 * weight / sum(weights)) for weight in weights), ball(0.0))


def exact(summand: Summand, copies: int) -> float:
    """Return E[(S)₊] from all combinations."""
    values = np.array([0.0, *map(float, summand.values)])
    masses = np.array([float(1 - total(summand.probabilities)), *map(float, summand.probabilities)])
    sums, weights = values, masses
    for _ in range(copies - 1):
        sums, weights = np.add.outer(sums, values).ravel(), np.multiply.outer(weights, masses).ravel()
    return float(weights @ np.maximum(sums, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "copies", "fineness"), representative(product((0.5, 40.0, 3000.0), (2, 3), (0.02, 0.004)), 6)
)
def test_a_split_sum_is_hardly_above_all_combinations(shift: float, copies: int, fineness: float) -> None:
    w = long_tailed(40, 0.25, shift)
    true = exact(w, copies)
    with precision(128):
        value = inverted(w, copies, fineness=fineness)
    assert float(value.upper()) >= true * (1 - 1e-12)
    assert float(value.upper()) <= true * (1 + 0.02)


@pytest.mark.slow
def test_a_range_is_the_sums_whose_largest_copy_is_in_it() -> None:
    values, masses = [-3.0, -1.0, 0.5, 2.0, 9.0], [0.2, 0.3, 0.1, 0.05, 0.01]
    rest, copies, inner = 1 - sum(masses), 4, 3
    true = 0.0
    for picks in itertools.product(range(-1, 5), repeat=copies):
        height = sum(values[pick] for pick in picks if pick >= 0)
        if max(picks) >= inner and height > 0:
            true += height * math.prod(masses[pick] if pick >= 0 else rest for pick in picks)
    with precision(128):
        part = Part([ball(value) for value in values], [ball(mass) for mass in masses], ball(rest), inner)
        for aimed in (Aim(0.3, 60.0, 6.0), Aim(0.1, 200.0, 6.0), Aim(2.0, 9.0, 6.0)):
            value = smoothed(part, copies, aimed, fineness=1e-3)
            assert value.upper() >= true * (1 - 1e-12)
        assert smoothed(part, copies, Aim(0.3, 60.0, 6.0), fineness=1e-3) <= true * (1 + 1e-3)


def test_fewer_values_have_the_same_mean_and_mass_and_are_larger_in_convex_order() -> None:
    w = long_tailed(40, 0.2, 1.0)
    with precision(128):
        values, masses, _, inner = _thinned(Part(list(w.values), list(w.probabilities), ball(0.1), 61))
        assert len(values) < len(w.values)
        assert [float(value) for value in values[inner:]] == [float(value) for value in w.values[61:]]
        assert (total(masses) - total(w.probabilities)).contains(0)
        for level in (-1e9, -50.0, -1.0, 0.0, 3.0):
            ours, theirs = (
                total([mass * (value - level).max(arb(0)) for value, mass in zip(*both, strict=True)])
                for both in ((values, masses), (w.values, w.probabilities))
            )
            assert ours >= theirs * (1 - arb(1e-25))


def test_ranges_are_one_where_no_tail_counts_and_several_where_it_does() -> None:
    for growth, several in ((0.01, False), (0.3, True)):
        w = long_tailed(40, growth, 0.1)
        scaled = _Scaled.of(w)
        assert scaled is not None
        ranges = _ranges(scaled, 50)
        assert (len(ranges) > 1) == several
        assert ranges[0].inner is None
        assert ranges[-1].outer == len(w.values)
        assert all(one.outer == two.inner for one, two in itertools.pairwise(ranges))


def test_few_values_are_not_split() -> None:
    w = Summand((ball(1.0), ball(-2.0)), (ball(0.2), ball(0.3)), ball(0.0))
    with precision(128):
        scaled = _Scaled.of(w)
        assert scaled is not None
        whole = scaled.unit * smoothed(scaled.part, 20, scaled.aim(20), fineness=0.1)
        assert float(inverted(w, 20, fineness=0.1)) == float(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deviation", "reports"),
    representative([(0.59, 10), (0.5, 1000), (0.5, 10**4), (0.3, 10**4), (0.59, 10**6)], 2),
)
def test_gaussian_noise_with_a_long_tail_is_proved(deviation: float, reports: int) -> None:
    curve = shoal.amplify(shoal.Gaussian(sigma=deviation), reports=reports)
    certificate = curve.certify(delta=1e-6)
    assert isinstance(certificate.claim, GaussianClaim)
    assert certificate.epsilon >= curve.epsilon_bracket(1e-6).lower
    assert shoal.Certificate.from_json(certificate.to_json()).verify()
    lower = curve.epsilon_bracket(1e-6).lower * (1 - 1e-6)
    with precision(160):  # at an ε that is too small, no choice of the fineness shows δ
        for fineness in (1.0, 0.1, 0.02):
            assert not certificate.claim.at(lower, fineness=fineness) <= 1e-6
