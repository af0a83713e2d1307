"""Sums over nodes against sums over all outcomes, with every alias, for both kernels."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.numerics import lattice
from shoal.numerics.lattice import LatticeMeasure, NodeSum, hockey_stick, node_sum, ramp
from shoal.numerics.ramp_sums import RampSums

Array = NDArray[np.float64]
Parts = list[tuple[LatticeMeasure, int]]
KERNELS = {"ramp": ramp, "hockey stick": hockey_stick}


def _measure(step: float, positions: list[int], masses: list[float]) -> LatticeMeasure:
    return LatticeMeasure(step, np.array(positions), np.array(masses))


def _parts(copies: int, others: int = 0) -> Parts:
    first = _measure(0.25, [-7, -3, -1, 0, 2, 5, 11], [0.05, 0.2, 0.3, 0.13, 0.2, 0.08, 0.02])
    second = _measure(0.25, [-2, 0, 1, 9], [0.5, 0.3, 0.15, 0.01])
    return [(first, copies), (second, others)] if others else [(first, copies)]


def _outcomes(parts: Parts) -> tuple[int, Array]:
    """Return the least position of the sum, and the masses from there on, by convolution."""
    least = 0
    total = np.ones(1)
    for measure, copies in parts:
        dense = np.zeros(int(measure.positions[-1] - measure.positions[0]) + 1)
        dense[measure.positions - measure.positions[0]] = measure.masses
        for _ in range(copies):
            total = np.convolve(total, dense)
            least += int(measure.positions[0])
    return least, total


def _exact(parts: Parts, kernel: str, indices: NDArray[np.int64]) -> Array:
    """Return E[kernel(S − ja)] at each j."""
    least, total = _outcomes(parts)
    step = parts[0][0].step
    values = step * (least + np.arange(len(total)))
    result = []
    for index in indices.tolist():
        over = np.maximum(values - step * index, 0.0)
        gains = over if kernel == "ramp" else -np.expm1(-over)
        result.append(math.fsum((gains * total).tolist()))
    return np.array(result)


def _aliased(parts: Parts, kernel: str, sums: NodeSum, index: int) -> float:
    """Return the right side of (L1), over e^{θja}."""
    least, total = _outcomes(parts)
    low = min(least, index) - 40 * sums.nodes
    shifts = np.arange((low - index) // sums.nodes, (least + len(total) - index) // sums.nodes + 1)
    terms = _exact(parts, kernel, index + sums.nodes * shifts)
    return math.fsum((np.exp(sums.tilt * sums.step * sums.nodes * shifts) * terms).tolist())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("copies", "others"), [(1, 0), (2, 0), (5, 3), (40, 0), (70, 65)])
@pytest.mark.parametrize("tilt", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("nodes", [64, 1 << 12])
def test_the_sum_over_nodes_is_the_sum_over_aliases(
    kernel: str, copies: int, others: int, tilt: float, nodes: int
) -> None:
    """Both ends are within their errors, which are small; and no upper end is below the exact value."""
    parts = _parts(copies, others)
    sums = node_sum(parts, tilt, nodes, KERNELS[kernel](0.25))
    indices = np.array([-30, -1, 0, 1, 17, 60])
    uppers = sums.upper(indices, sums.sums(indices))
    lowers = sums.lower(indices, sums.sums(indices))
    exact = _exact(parts, kernel, indices)
    assert np.all(uppers >= exact * (1 - 1e-13))
    for index, upper, lower in zip(indices.tolist(), uppers.tolist(), lowers.tolist(), strict=True):
        aliased = _aliased(parts, kernel, sums, index)
        error = math.exp(sums.log_moment - tilt * sums.step * index) * sums.abs_error
        assert lower <= aliased * (1 + 1e-12) and aliased * (1 - 1e-12) <= upper
        assert upper - lower <= 2.1 * error + 1e-9 * aliased
        assert sums.abs_error < 1e-8


@pytest.mark.parametrize("kernel", KERNELS)
def test_first_nodes_are_those_of_a_whole_transform(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of many copies needs the first nodes only, which a guard proves."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    measure = LatticeMeasure(0.05, positions, masses / masses.sum())
    parts = [(measure, 10**5), (_measure(0.05, [-1, 0, 3], [0.2, 0.5, 0.3]), 7)]
    few = node_sum(parts, 2e-3, 1 << 18, KERNELS[kernel](0.05))
    monkeypatch.setattr(lattice, "_ALL_NODES", 1 << 30)
    everything = node_sum(parts, 2e-3, 1 << 18, KERNELS[kernel](0.05))
    assert 1 < len(few.places) <= len(everything.places) < 1 << 10
    indices = np.linspace(-9_000, 9_000, 7).astype(np.int64) + round(10**5 * float(measure.positions.mean()))
    difference = np.abs(few.sums(indices) - everything.sums(indices)).max()
    assert difference <= min(few.abs_error, everything.abs_error) + 1e-30
    assert few.abs_error < 1e-6 * abs(few.terms[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nodes", [1 << 11, 1 << 16])
def test_omitted_nodes_are_charged(kernel: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a coarse rule, what is omitted is seen in the sums, and the charge covers it."""
    parts = _parts(30, 4)
    exact = node_sum(parts, 0.1, nodes, KERNELS[kernel](0.25))
    indices = np.arange(-400, 400, 7)
    seen = []
    for negligible in (-8.0, -3.0, -1.0):
        monkeypatch.setattr(lattice, "NEGLIGIBLE", negligible)
        coarse = node_sum(parts, 0.1, nodes, KERNELS[kernel](0.25))
        assert len(coarse.places) < len(exact.places)
        difference = float(np.abs(coarse.sums(indices) - exact.sums(indices)).max())
        assert difference <= coarse.abs_error
        seen.append(difference / coarse.abs_error)
    assert max(seen) > 1e-3


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_a_table_has_the_sums_of_every_index(stride: int) -> None:
    sums = node_sum(_parts(40), 0.3, 1 << 10, ramp(0.25))
    kept = sums.places <= sums.nodes // (2 * stride)
    part = NodeSum(sums.step, sums.tilt, sums.nodes, 0.0, 0.0, sums.places[kept], sums.terms[kept], 0.0)
    indices = stride * np.arange(sums.nodes // stride)
    scale = float(np.abs(part.terms).sum())
    assert np.abs(part.table(stride) - part.sums(indices)).max() <= 1e-13 * scale
    assert np.abs(part.sums(indices + 3 * sums.nodes) - part.sums(indices)).max() <= 1e-12 * scale


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("step", "tilt"), [(0.01, 0.5), (0.5, 3.0), (2.0, 0.1)])
def test_the_mean_size_bounds_the_kernel_at_all_nodes(kernel: str, step: float, tilt: float) -> None:
    """For the ramp it is the mean size."""
    transform = KERNELS[kernel](step)
    for nodes in (8, 256, 1 << 14):
        halves = np.full(nodes, 0.5 * step * tilt, dtype=np.complex128)
        halves.imag = math.pi / nodes * np.arange(-nodes // 2, nodes // 2)
        size = float(np.abs(transform.values(halves)).sum()) / nodes
        bound = transform.mean_size(0.5 * step * tilt, nodes)
        assert size * (1 - 1e-12) <= bound <= 10 * size * math.exp(step)
        assert kernel != "ramp" or bound <= size * (1 + 1e-12)


def test_a_tilt_that_overflows_gives_no_bound() -> None:
    parts = [(_measure(1.0, [-1, 0, 1], [0.3, 0.6, 0.1]), 5)]
    indices = np.array([0])
    for tilt, usable in ((1500.0, False), (1.0, True)):
        sums = node_sum(parts, tilt, 64, ramp(1.0))
        assert (float(sums.upper(indices, sums.sums(indices))[0]) < 1) == usable


def _ramp_sums(step: float, positions: NDArray[np.int64], masses: Array, copies: int) -> RampSums:
    return RampSums(LatticeMeasure(step, positions, masses), copies)


def _exact_ramps(step: float, positions: NDArray[np.int64], masses: Array, copies: int, *points: float) -> list[float]:
    """Return E[(S − x)₊] at each point, by convolving the masses."""
    dense = np.zeros(int(positions[-1] - positions[0]) + 1)
    dense[positions - positions[0]] = masses
    total = np.ones(1)
    for _ in range(copies):
        total = np.convolve(total, dense)
    values = step * (copies * int(positions[0]) + np.arange(len(total)))
    return [math.fsum((np.maximum(values - x, 0) * total).tolist()) for x in points]


def _each(ramps: RampSums, points: Array, fewer: int) -> Array:
    """Return the bound at each point."""
    copies = ramps.copies - fewer
    return ramps.upper(points, copies, 1e-9 * ramps.least(points, copies) + 1e-250)


@pytest.mark.parametrize("copies", [2, 5, 40])
def test_a_ramp_is_the_sum_over_all_outcomes(copies: int) -> None:
    generator = np.random.default_rng(copies)
    positions = np.array([-7, -3, -1, 0, 2, 5, 11])
    masses = generator.dirichlet(np.ones(7)) * 0.98
    ramps = _ramp_sums(0.25, positions, masses, copies)
    points = np.concatenate((np.linspace(-3, 3, 7) * math.sqrt(copies), [-200.0, 0.3 + copies]))
    for fewer in (0, 1, 2):
        for x, value in zip(points.tolist(), _each(ramps, points, fewer).tolist(), strict=True):
            (exact,) = _exact_ramps(0.25, positions, masses, copies - fewer, x)
            assert exact * (1 - 1e-12) <= value <= exact * (1 + 1e-5) + 1e-9, (fewer, x)


@pytest.mark.parametrize("distance", [1e-6, 1e-9, 1.438e-12, 1e-15])
def test_a_point_just_below_a_value_is_charged(distance: float) -> None:
    """The chord ends at a much smaller value there, and its rounding is relative to the larger end."""
    step, mass = 4.67e-5, math.exp(-1.91950757)
    ramps = RampSums(LatticeMeasure(step, np.array([0]), np.array([mass])), 1)
    (value,) = ramps.upper(np.array([-distance * step]), 1, np.array([1e-30])).tolist()
    assert value >= mass * distance * step * (1 - 1e-13)


@pytest.mark.slow
def test_scales_that_are_far_apart_have_lattices_of_their_own() -> None:
    """Values between −40 and 40 decide near zero, and rare ones of −2,000 far below."""
    positions = np.concatenate(([-20_000, -15_000], np.arange(-400, 401)))
    masses = np.concatenate(([1e-3, 2e-3], 0.01 * np.exp(-0.01 * np.abs(np.arange(-400.0, 401)))))
    masses /= masses.sum()
    ramps = _ramp_sums(0.1, positions, masses, 4)
    points = np.concatenate((-np.geomspace(1, 6_000, 30), np.linspace(0, 150, 11)))
    exact = np.array(_exact_ramps(0.1, positions, masses, 4, *points.tolist()))
    values = _each(ramps, points, 0)
    assert np.all(values >= exact * (1 - 1e-12)) and np.all(values <= exact * (1 + 5e-4))
    assert len(ramps._coarser) > 1


def test_a_coarser_lattice_keeps_mass_and_mean() -> None:
    positions = np.array([-(1 << 40) - 5, -77, -3, 0, 1, 64, 999, 1 << 20])
    masses = np.full(8, 0.125)
    ramps = _ramp_sums(2.0**-30, positions, masses, 3)
    for halvings in (1, 3, 8, 20):
        coarser = ramps._coarsened(halvings)
        pmf = coarser.masses
        assert coarser.step == 2.0 ** (halvings - 30)
        assert pmf.sum() == pytest.approx(1.0, abs=1e-13) and pmf.sum() >= 1
        assert (pmf * coarser.values).sum() == pytest.approx(ramps.mean, rel=1e-12)


def test_many_points_have_the_bounds_of_one() -> None:
    """Points that are asked together share tilts, and each is at most its chord."""
    positions = np.arange(-60, 90)
    masses = np.exp(-0.5 * (positions / 20) ** 2)
    masses /= masses.sum()
    for copies in (30, 10**6):
        ramps = _ramp_sums(0.05, positions, masses, copies)
        points = ramps.mean * copies + ramps.root * np.linspace(-3, 4, 2000)
        together = _each(ramps, points, 0)
        for index in range(0, 2000, 333):
            apart = float(_each(ramps, points[index : index + 1], 0)[0])
            assert together[index] == pytest.approx(apart, rel=1e-3)


def test_rough_bounds_are_off_by_as_little_as_is_asked() -> None:
    positions = np.arange(-20, 40)
    masses = np.exp(-0.1 * np.abs(positions))
    ramps = _ramp_sums(0.1, positions, masses / masses.sum(), 100)
    points = np.linspace(-400.0, 500.0, 64)
    fine = _each(ramps, points, 0)
    rough = {}
    for errors in (1e-4, 0.1, math.inf):
        allowed = np.minimum(errors * np.linspace(1.0, 50.0, 64), 1e300)
        rough[errors] = ramps.upper(points, 100, allowed)
        assert np.all(rough[errors] >= fine * (1 - 1e-6))
        assert np.all(rough[errors] <= (fine + allowed) * (1 + 1e-3))
    assert np.any(rough[math.inf] > 1.0003 * rough[1e-4])
