"""Sums on a lattice, from both sides, against enumeration of every outcome."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.numerics.lattice_sum import LatticeSum

Array = NDArray[np.float64]


def exact(positions: list[int], masses: list[float], copies: int) -> float:
    """Return E[(S)₊] in units of the step, with what is missing from one at zero: all terms are positive."""
    least, most = positions[0], positions[-1]
    one = np.zeros(most - least + 1)
    one[[position - least for position in positions]] = masses
    one[-least] = 1 - math.fsum(mass for position, mass in zip(positions, masses, strict=True) if position)
    sums = np.ones(1)
    for _ in range(copies):
        sums = np.convolve(sums, one)
    totals = np.arange(len(sums)) + copies * least
    return math.fsum((sums * np.maximum(totals, 0)).tolist())


def fractions(positions: list[int], masses: list[float], copies: int) -> Fraction:
    """Return the same in rational numbers, outcome by outcome."""
    parts = dict(zip(positions, map(Fraction, masses), strict=True))
    parts[0] = 1 - sum((mass for position, mass in parts.items() if position), Fraction(0))
    outcomes = product(parts.items(), repeat=copies)
    total = Fraction(0)
    for each in outcomes:
        total += max(sum(position for position, _ in each), 0) * math.prod(
            (mass for _, mass in each), start=Fraction(1)
        )
    return total


def test_the_oracle_is_right() -> None:
    for masses in ([0.1, 0.2, 0.0, 0.05], [1e-9, 0.3, 0.0, 0.7]):
        truth = float(fractions([-3, -1, 0, 2], masses, 4))
        assert exact([-3, -1, 0, 2], masses, 4) == pytest.approx(truth, rel=1e-13)


def framed(positions: list[int], masses: list[float], copies: int, tilt: float, period: float = 300.0) -> LatticeSum:
    places = np.array(positions, dtype=np.int64)
    return LatticeSum(0.5, places, tilt=tilt, copies=copies, period=period, masses=np.array(masses))


def ends(positions: list[int], masses: list[float], copies: int, tilt: float) -> tuple[float, float]:
    lattice = framed(positions, masses, copies, tilt, period=max(300.0, 40 / tilt))
    known, errors = np.array(masses), np.zeros(len(masses))
    gains = known * lattice.values
    return copies * lattice.lower(known, gains, (errors, errors)), lattice.upper(known, errors)


CASES = [
    ([-3, -1, 0, 2], [0.1, 0.2, 0.0, 0.05], 7, 0.9),
    ([-3, -1, 0, 2], [0.1, 0.2, 0.0, 0.2], 1000, 0.1),
    ([-40, -1, 0, 1, 30], [0.01, 0.3, 0.0, 0.3, 0.002], 60, 0.1),
    ([-2, -1, 0, 1], [1e-3, 1e-3, 0.0, 1e-3], 5, 1.5),
    (list(range(-1500, 1501)), [2e-4 if position % 3 else 1e-5 for position in range(-1500, 1501)], 3, 1e-3),
]


@pytest.mark.parametrize(("positions", "masses", "copies", "tilt"), CASES)
def test_sums_are_those_of_all_outcomes(positions: list[int], masses: list[float], copies: int, tilt: float) -> None:
    truth = 0.5 * exact(positions, masses, copies)
    lower, upper = ends(positions, masses, copies, tilt)
    assert lower * (1 - 1e-11) <= truth <= upper * (1 + 1e-11)
    assert upper - lower <= 1e-6 * truth


def test_both_ways_of_summing_are_used() -> None:
    assert {framed(*case, period=max(300.0, 40 / case[3])).fast for case in CASES} == {True, False}


@given(
    masses=st.lists(st.floats(1e-6, 0.2), min_size=4, max_size=4),
    copies=st.integers(2, 30),
    tilt=st.floats(0.02, 1.5),
    error=st.floats(0, 1e-3),
)
@settings(deadline=None, max_examples=60)
def test_any_tilt_is_valid(masses: list[float], copies: int, tilt: float, error: float) -> None:
    positions, parts = [-5, -1, 0, 1, 4], [*masses[:2], 0.0, *masses[2:]]
    truth = 0.5 * exact(positions, parts, copies)
    lattice, known = framed(positions, parts, copies, tilt), np.array(parts)
    wrong = known * (1 + error * np.array([1.0, -1.0, 0.0, 1.0, -1.0]))  # what was computed, and how wrong it may be
    doubts = known * error * 1.01
    gains = wrong * lattice.values
    assert lattice.upper(wrong, doubts) >= truth * (1 - 1e-12)
    assert copies * lattice.lower(wrong, gains, (doubts, np.abs(gains) * error * 1.01)) <= truth * (1 + 1e-12)


def test_a_period_that_is_too_short_only_makes_it_looser() -> None:
    positions, masses, copies = [-3, -1, 0, 2], [0.1, 0.2, 0.0, 0.05], 7
    truth = 0.5 * exact(positions, masses, copies)
    lattice = framed(positions, masses, copies, 0.4, period=4.0)
    known, errors = np.array(masses), np.zeros(4)
    assert lattice.upper(known, errors) >= truth
    assert copies * lattice.lower(known, known * lattice.values, (errors, errors)) <= truth


def test_too_steep_a_tilt_is_not_used() -> None:
    assert not framed([-1, 0, 10**6], [0.1, 0.0, 0.1], 5, 1.0).usable
    assert math.isfinite(framed([-1, 0, 10], [0.1, 0.0, 0.1], 5, 1.0).tilt)


@pytest.mark.parametrize("rarity", [1e-2, 1e-4, 1e-9, 1e-18])
@pytest.mark.parametrize(("copies", "tilt"), [(3, 0.6), (60, 0.25)])
def test_jumps_are_told_from_all_else(rarity: float, copies: int, tilt: float) -> None:
    # With a jump to 9 of this probability: E[(S)₊; none] and E[(S)₊; some], by the number of jumps.
    positions, usual = [-3, -1, 0, 2, 9], [0.1, 0.2, 0.0, 0.05, 0.0]
    rest = 1 - math.fsum(usual) - rarity
    one = np.zeros(6)
    one[[0, 2, 3, 5]] = [0.1, 0.2, rest, 0.05]
    parts, sums = [0.0, 0.0], np.ones(1)
    for calm in range(copies + 1):
        jumps = copies - calm
        totals = np.arange(len(sums)) - 3 * calm + 9 * jumps
        ways = math.comb(copies, jumps) * rarity**jumps
        parts[jumps > 0] += ways * math.fsum((sums * np.maximum(totals, 0)).tolist()) / 2
        sums = np.convolve(sums, one)
    lattice = framed(positions, usual, copies, tilt, period=900.0)
    known, errors, leap = np.array(usual), np.zeros(5), np.array([0.0, 0.0, 0.0, 0.0, rarity])
    gains, leaps = known * lattice.values, leap * lattice.values
    none = lattice.upper(known, errors, missing=rarity)
    some = lattice.upper(known, errors, missing=rarity, jumps=(leap, errors))
    assert parts[0] * (1 - 1e-11) <= none <= parts[0] * (1 + 1e-5)
    assert parts[1] * (1 - 1e-11) <= some <= parts[1] * (1 + 1e-5)
    none = copies * lattice.lower(known, gains, (errors, errors), missing=rarity)
    some = copies * lattice.lower(
        known, gains, (errors, errors), missing=rarity, jumps=((leap, leaps), (errors, errors))
    )
    assert parts[0] * (1 - 1e-5) <= none <= parts[0] * (1 + 1e-11)
    assert parts[1] * (1 - 1e-5) <= some <= parts[1] * (1 + 1e-11)
