"""Sums of copies of a measure on whole numbers: at least the exact mean, and hardly more, at every point."""

import math

import numpy as np
import pytest
from flint import arb

from shoal.proofs.balls import ball, precision
from shoal.proofs.lattice import LatticeMeasure, LatticeSum, Roots, Turns, hockey_stick, ramp

_MULTIPLES = (-8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)
_MASSES = np.exp(-(np.array(_MULTIPLES) ** 2) / 9.0) * 0.3
_MASSES /= _MASSES.sum() * 1.01  # a hundredth is missing


def exact(copies: int, point: int) -> float:
    """Return E[(M − u)₊] from all sums."""
    line = distribution(_MULTIPLES, _MASSES)
    power = np.ones(1)
    for _ in range(copies):
        power = np.convolve(power, line)
    sums = np.arange(len(power)) + copies * _MULTIPLES[0]
    return float(power @ np.maximum(sums - point, 0))


@pytest.fixture(name="measure")
def tilted_measure() -> LatticeMeasure:
    with precision(160):
        turns = Turns(_MULTIPLES, Roots(2001), shared=True)
        return LatticeMeasure(turns, [ball(float(mass)) for mass in _MASSES], ball(0.06))


@pytest.mark.parametrize("copies", [1, 2, 7, 40])
def test_a_sum_is_hardly_above_all_combinations(measure: LatticeMeasure, copies: int) -> None:
    with precision(160):
        sums = LatticeSum([(measure, copies)], ramp)
        for point in (-50, -31, -5, 0, 1, 17, 40):
            value, least = float(sums.upper(point)), exact(copies, point)
            assert least * (1 - 1e-12) <= value
            if least > 1e-9:
                assert value <= least * (1 + 1e-5)


@pytest.mark.parametrize("nodes", [11, 31, 2001])
@pytest.mark.parametrize("tilt", [0.01, 0.06, 0.5])
@pytest.mark.parametrize("kernel", ["ramp", "hockey stick"])
def test_every_tilt_and_number_of_nodes_gives_an_upper_bound(nodes: int, tilt: float, kernel: str) -> None:
    """Of two measures together; aliases add to the sum, and never take from it."""
    step = 0.25
    with precision(160):
        masses = [ball(float(mass)) for mass in _MASSES]
        roots = Roots(nodes)
        one = LatticeMeasure(Turns(_MULTIPLES, roots, shared=False), masses, ball(tilt))
        other = LatticeMeasure(Turns((-4, 0, 6), roots, shared=False), [ball(0.25), ball(0.5), ball(0.25)], ball(tilt))
        sums = LatticeSum([(one, 3), (other, 2)], ramp if kernel == "ramp" else hockey_stick(ball(step)))
        line, wide = distribution(_MULTIPLES, _MASSES), distribution((-4, 0, 6), np.array([0.25, 0.5, 0.25]))
        power = np.ones(1)
        for each in (line, line, line, wide, wide):
            power = np.convolve(power, each)
        places = np.arange(len(power)) + 3 * _MULTIPLES[0] - 8
        for point in (-7, 0, 9, 30):
            gaps = np.maximum(places - point, 0)
            least = float(power @ (gaps if kernel == "ramp" else -np.expm1(-step * gaps)))
            assert least * (1 - 1e-12) <= float(sums.upper(point))


def distribution(multiples: tuple[int, ...], masses: np.ndarray) -> np.ndarray:
    """Return the masses at all integers from the first multiple to the last."""
    line = np.zeros(multiples[-1] - multiples[0] + 1)
    line[np.array(multiples) - multiples[0]] = masses
    return line


@pytest.mark.parametrize("first", [40, 200, 700])
def test_ranges_are_bounded(measure: LatticeMeasure, first: int) -> None:
    with precision(160):
        final = first + 60
        for index in range(first, final + 1):
            value = measure.node(index)
            square = value.real * value.real + value.imag * value.imag
            assert square <= measure.range_bound(first, final)
            assert square <= measure.tail_bound(first)


def test_turns_are_cosines_and_sines() -> None:
    with precision(160):
        cosines, sines = Turns(_MULTIPLES, Roots(11), shared=False).row(5)
        for index, multiple in enumerate(_MULTIPLES):
            angle = math.pi * 5 * multiple / 11
            assert float(cosines[0, index]) == pytest.approx(math.cos(angle), abs=1e-14)
            assert float(sines[0, index]) == pytest.approx(math.sin(angle), abs=1e-14)
        assert isinstance(cosines[0, 0], arb)
