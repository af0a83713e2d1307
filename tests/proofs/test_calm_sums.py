"""Sums of copies of a measure on whole numbers: at least the exact mean, and hardly more, at every point."""

import math

import numpy as np
import pytest
from flint import arb

from shoal.proofs.balls import ball, precision
from shoal.proofs.calm_sums import CalmSums, Turns

_MULTIPLES = (-8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)
_MASSES = np.exp(-(np.array(_MULTIPLES) ** 2) / 9.0) * 0.3
_MASSES /= _MASSES.sum() * 1.01  # a hundredth is missing


def exact(copies: int, point: int) -> float:
    """Return E[(M − u)₊] from all sums."""
    line = np.zeros(_MULTIPLES[-1] - _MULTIPLES[0] + 1)
    line[np.array(_MULTIPLES) - _MULTIPLES[0]] = _MASSES
    power = np.ones(1)
    for _ in range(copies):
        power = np.convolve(power, line)
    sums = np.arange(len(power)) + copies * _MULTIPLES[0]
    return float(power @ np.maximum(sums - point, 0))


@pytest.fixture(name="sums")
def calm_sums() -> CalmSums:
    with precision(160):
        return CalmSums(Turns(_MULTIPLES, 2001), [ball(float(mass)) for mass in _MASSES], 0.06)


@pytest.mark.parametrize("copies", [0, 1, 2, 7, 40])
def test_a_sum_is_hardly_above_all_combinations(sums: CalmSums, copies: int) -> None:
    with precision(160):
        for point in (-200, -31, -5, 0, 1, 17, 40):
            value, least = float(sums.of(copies).upper(point)), exact(copies, point)
            assert least * (1 - 1e-12) <= value
            if least > 1e-9:
                assert value <= least * (1 + 1e-5)


def test_a_chord_is_above(sums: CalmSums) -> None:
    with precision(160):
        copies = sums.of(3000)
        low, high = copies.window
        for point in range(low - 5, high + 5, 37):
            assert float(copies.upper(point)) <= float(copies.chord(point)) * (1 + 1e-9) + 1e-15
        middle = (low + high) // 3
        assert float(copies.chord(middle)) == pytest.approx(float(copies.upper(middle)), rel=2e-3)


@pytest.mark.parametrize("first", [40, 200, 700])
def test_ranges_are_bounded(sums: CalmSums, first: int) -> None:
    with precision(160):
        final = first + 60
        for index in range(first, final + 1):
            value = sums.node(2 * index)
            square = value.real * value.real + value.imag * value.imag
            assert square <= sums.largest(first, final)
            assert square <= sums.beyond(first)


def test_turns_are_cosines_and_sines() -> None:
    with precision(160):
        cosines, sines = Turns(_MULTIPLES, 11).row(5)
        for index, multiple in enumerate(_MULTIPLES):
            angle = math.pi * 5 * multiple / 11
            assert float(cosines[0, index]) == pytest.approx(math.cos(angle), abs=1e-14)
            assert float(sines[0, index]) == pytest.approx(math.sin(angle), abs=1e-14)
        assert isinstance(cosines[0, 0], arb)
