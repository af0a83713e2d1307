"""Sums with jumps, for many points: at least the exact sum, and hardly more; the golden values of allocation."""

import math
from itertools import pairwise

import numpy as np
import pytest
from flint import arb

from shoal.proofs.balls import Summand, ball, precision, total
from shoal.proofs.lattice import Roots, Turns
from shoal.proofs.participation_pairs import AllocationPair, AllocationSums, _Calm, _Jumps, _rising, _rounded, _spaced

_GOLDEN = [
    (1.0, 235, "remove", 0.0, 3.3820156269e-2),
    (1.0, 235, "remove", 0.5, 6.792785e-7),
    (1.0, 235, "remove", 1.0, 2.8769e-9),
    (1.0, 235, "replace", 0.5, 1.19580676e-5),
    (0.6, 938, "remove", 0.5, 4.80735e-4),
    (0.6, 938, "remove", 1.0, 4.82632e-5),
    (0.6, 938, "replace", 1.0, 5.62787e-5),
]
"""σ, t, direction, ε and δ, from an integral along a contour."""


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "steps", "direction", "epsilon", "delta"), _GOLDEN)
def test_an_epoch_is_hardly_above_the_golden_values(
    noise: float, steps: int, direction: str, epsilon: float, delta: float
) -> None:
    reach = 1 / noise + 7.5
    claim = AllocationPair(steps, noise, direction, 2 * math.ceil(reach / 0.006), reach)
    with precision(160):
        value = float(claim.at(epsilon, fineness=0.003).upper())
    assert delta * (1 - 1e-5) - 1e-11 <= value <= delta * 1.003


def lognormal(spread: float, count: int) -> Summand:
    """Return values that rise ever faster and get rare, with a mean of about zero."""
    points = np.linspace(-3, 5, count)
    masses = np.exp(-(points**2) / 2)
    masses /= masses.sum()
    values = np.exp(spread * points)
    values -= values @ masses
    return Summand(tuple(map(ball, values.tolist())), tuple(map(ball, masses.tolist())), ball(0.0))


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("copies", "spread"), [(2, 1.5), (3, 1.0), (3, 2.5)])
def test_a_sum_is_hardly_above_all_combinations(copies: int, spread: float, many: bool) -> None:
    summand = lognormal(spread, 81)
    values = np.array([float(value) for value in summand.values])
    masses = np.array([float(mass) for mass in summand.probabilities])
    sums, weights = values, masses
    for _ in range(copies - 1):
        sums, weights = np.add.outer(sums, values).ravel(), np.multiply.outer(weights, masses).ravel()
    with precision(160):
        all_copies = AllocationSums(summand, copies, fineness=0.02, ratio=1.008, many=many, turns={})
        for point in (0.0, 0.7, 12.0):
            value, exact = float(all_copies.upper(ball(point)).upper()), float(weights @ np.maximum(sums - point, 0))
            assert exact * (1 - 1e-9) <= value <= exact * 1.03 + 1e-12


def test_lattices_get_coarser_with_the_distance() -> None:
    assert _rising(10, 15, 1.2) == [10, 12, 15]
    assert _spaced(9, 4) == [0, 1, 2, 3, 4, 6, 8, 12]
    assert (_rounded(17), _rounded(5)) == (24, 6)


def test_jumps_together_keep_their_mass_and_mean() -> None:
    with precision(160):
        one = _Jumps([10, 12, 17, 40], [arb(1) / 8, arb(1) / 16, arb(1) / 64, arb(1) / 512])
        both = one.and_more(one, 1.3)

        def mean(jumps: _Jumps) -> float:
            rows = zip(jumps.multiples, jumps.masses, strict=True)
            return float(total([multiple * mass for multiple, mass in rows]))

        assert float(both.mass) == pytest.approx(float(one.mass) ** 2, rel=1e-12)
        assert mean(both) == pytest.approx(2 * float(one.mass) * mean(one), rel=1e-12)
        assert all(1.3 * before <= after for before, after in pairwise(both.multiples))
        mass, moment = both.after[0]
        assert float(mass) == pytest.approx(float(both.mass)) and float(moment) == pytest.approx(mean(both))
        assert float(both.before[-1]) == pytest.approx(float(both.mass))


def test_a_chord_is_above() -> None:
    """Far from the mean a bound from there serves, and between a few points their chords."""
    multiples = (-8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)
    masses = [math.exp(-(multiple**2) / 9) for multiple in multiples]
    with precision(160):
        turns = Turns(multiples, Roots(2001), shared=True)
        calm = _Calm(turns, [ball(mass / (1.01 * sum(masses))) for mass in masses], 0.06)
        sums = calm.copies(3000)
        for point in range(sums.low - 5, sums.high + 5, 37):
            assert float(sums.upper(point)) <= float(sums.chord(point)) * (1 + 1e-9) + 1e-15
        middle = (sums.low + sums.high) // 3
        assert float(sums.chord(middle)) == pytest.approx(float(sums.upper(middle)), rel=2e-3)
        alone = calm.copies(1)
        for point in (alone.low - 200, alone.low - 1, alone.high + 1, 0):
            gains = [
                mass / (1.01 * sum(masses)) * max(each - point, 0) for each, mass in zip(multiples, masses, strict=True)
            ]
            assert math.fsum(gains) * (1 - 1e-12) <= float(alone.upper(point))
        assert float(calm.copies(0).upper(-7)) == 7 and float(calm.copies(0).upper(7)) == 0
