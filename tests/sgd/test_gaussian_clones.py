"""δ of the clones of a Gaussian against sums and integrals that are done another way."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from shoal.amplification.gaussian_clones import GaussianClonesProfile
from shoal.numerics.allocated_delta import gaussian_clones
from shoal.numerics.normal import gaussian_delta
from shoal.pairs import LikelihoodPair, RatioPair
from shoal.pairs.likelihoods import Likelihoods

DIRECTIONS = [(0.1, 0.1), (0.25, 0.25), (0.5, 0.5), (0.5, 0.0), (0.0, 0.5)]
TAIL = 1e-12


def _values(above: float, below: float, epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return W/q of a clone on a fine grid of outcomes, and its probabilities."""
    points = np.linspace(-9.5, 9.5, 2401)
    probabilities = np.exp(-0.5 * points**2)
    first, second = np.exp(above * points - above**2 / 2), np.exp(-below * points - below**2 / 2)
    return first - math.exp(epsilon) * second, probabilities / probabilities.sum()


@pytest.mark.slow
@pytest.mark.parametrize(("above", "below"), DIRECTIONS)
@pytest.mark.parametrize("log_ratio", [0.3, 2.0, 7.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.5])
def test_two_reports(above: float, below: float, log_ratio: float, epsilon: float) -> None:
    values, probabilities = _values(above, below, epsilon)
    share = math.exp(-log_ratio)
    one = float((probabilities * np.maximum(values, 0.0)).sum())
    two = float((probabilities[:, None] * probabilities * np.maximum(values[:, None] + values, 0.0)).sum())
    exact = (2 * (1 - share) * one + share * two) / 2
    found = gaussian_clones(above, below, log_ratio, 2, epsilon, tail=TAIL)
    assert exact * (1 - 1e-4) - 1e-11 <= found <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("above", "below"), [(1.5, 1.5), (2.0, 0.0), (0.0, 2.0)])
@pytest.mark.parametrize(("log_ratio", "epsilon"), [(0.3, 0.2), (2.0, 1.5), (4.0, 4.0)])
def test_two_reports_with_less_noise(above: float, below: float, log_ratio: float, epsilon: float) -> None:
    values, probabilities = _values(above, below, epsilon)
    share = math.exp(-log_ratio)
    one = float((probabilities * np.maximum(values, 0.0)).sum())
    two = float((probabilities[:, None] * probabilities * np.maximum(values[:, None] + values, 0.0)).sum())
    exact = (2 * (1 - share) * one + share * two) / 2
    found = gaussian_clones(above, below, log_ratio, 2, epsilon, tail=TAIL)
    assert exact * (1 - 1e-4) <= found <= exact * 1.02 + 2e-12


def test_distances_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="only known if one is 0"):
        gaussian_clones(0.3, 0.5, 0.1, 2, 1.0, tail=TAIL)


def test_what_is_far_below_is_raised() -> None:
    """With so large a tail, all W that are left out below are positive."""
    alone = gaussian_delta(1 / 2.657, 0.0)
    assert gaussian_clones(0.0, 2.657, 3.0, 2, 0.0, tail=0.264) >= -math.expm1(-3.0) * alone


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize(("above", "below"), [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0)])
def test_one_report_is_the_gaussian_delta(above: float, below: float, epsilon: float) -> None:
    alone = gaussian_delta(1.0, epsilon)
    assert alone * (1 - 1e-9) <= gaussian_clones(above, below, 2.0, 1, epsilon, tail=TAIL)
    assert GaussianClonesProfile(1, above, below, 2.0, TAIL).delta(epsilon) == alone


def _sums(above: float, below: float, epsilon: float, clones: int) -> float:
    """Return E[(S)₊] for so many clones, roughly, from a histogram of W/q and plain convolutions."""
    values, probabilities = _values(above, below, epsilon)
    step = 0.01
    low = math.floor(values.min() / step)
    distribution = np.bincount(np.rint(values / step).astype(np.int64) - low, probabilities)
    total: NDArray[Any] = np.array([1.0])
    power: NDArray[Any] = distribution
    offset, shift = 0, low
    while clones:
        if clones & 1:
            total, offset = fftconvolve(total, power), offset + shift
        power, shift, clones = fftconvolve(power, power), 2 * shift, clones >> 1
    return float((total * np.maximum(step * (offset + np.arange(len(total))), 0.0)).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("above", "below", "epsilon"), [(0.5, 0.5, 0.2), (0.5, 0.0, 0.2), (0.0, 0.5, 0.3), (0.8, 0.8, 0.8)]
)
def test_all_are_clones(above: float, below: float, epsilon: float) -> None:
    """With q = 1, δ is that of n values 0 among which the victim's is a or −b."""
    exact = _sums(above, below, epsilon, 12) / 12
    assert gaussian_clones(above, below, 0.0, 12, epsilon, tail=1e-13) == pytest.approx(exact, rel=0.01)


def _seen_in_cells(reports: int, log_ratio: float, above: float, below: float, epsilon: float) -> tuple[float, float]:
    """Return a lower bound of δ, from cells of outcomes instead of outcomes, and what lies outside of all cells."""
    edges = np.linspace(-6.5, 6.5, 41) + above / 2
    masses = []
    for mean in (0.0, above, -below):
        upper = np.array([0.5 * math.erfc((edge - mean) / math.sqrt(2)) for edge in edges])
        lower = np.array([0.5 * math.erfc(-(edge - mean) / math.sqrt(2)) for edge in edges])
        masses.append(np.where(edges[:-1] < mean, np.diff(lower), -np.diff(upper)))
    middle, first, second = masses
    share = math.exp(-log_ratio)
    inner = [
        (math.log(a / c) + log_ratio, math.log(b / c) + log_ratio, c * share)
        for c, a, b in zip(middle.tolist(), first.tolist(), second.tolist(), strict=True)
    ]
    made = Likelihoods(tuple(inner), rest=1 - share * float(middle.sum()))
    least = LikelihoodPair(reports, made).delta_bracket(epsilon, tolerance=1e-5)[0]
    outside = (1 - float(first.sum())) + math.exp(epsilon) * (1 - float(second.sum()))
    return max(0.0, least * 0.999), outside


@pytest.mark.parametrize(
    ("reports", "above", "below", "log_ratio", "epsilon"),
    [
        (10_000, 0.25, 0.25, 1.2, 0.031),
        (60_000, 0.5, 0.5, 2.6, 0.054),
        (60_000, 0.5, 0.0, 2.6, 0.03),
        (60_000, 0.0, 0.5, 2.6, 0.03),
    ],
)
def test_above_what_cells_show(reports: int, above: float, below: float, log_ratio: float, epsilon: float) -> None:
    """An observer who sees only cells of the reports has a little less; 40 cells show nearly everything."""
    least, outside = _seen_in_cells(reports, log_ratio, above, below, epsilon)
    found = gaussian_clones(above, below, log_ratio, reports, epsilon, tail=1e-12)
    assert least - outside <= found <= 1.15 * least + outside


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 10**7),
    st.floats(0.01, 1.0),
    st.sampled_from([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)]),
    st.floats(0.01, 12.0),
    st.floats(0.0, 3.0),
)
@example(65351, 0.8855954215083858, (1.0, 0.0), 10.1171875, 0.0)  # one draw is as long as a period
@example(65346, 0.8855954215083858, (1.0, 0.0), 10.1171875, 0.0)
def test_falls_with_epsilon_and_reports(
    reports: int, size: float, sides: tuple[float, float], log_ratio: float, epsilon: float
) -> None:
    """So it does for noise of at least the clip norm; with less, what cannot be summed up is given up."""

    def delta(log_ratio: float, reports: int, epsilon: float) -> float:
        return GaussianClonesProfile(reports, size * sides[0], size * sides[1], log_ratio, 1e-12).delta(epsilon)

    here = delta(log_ratio, reports, epsilon)
    assert 0 <= here <= 1
    assert delta(log_ratio, reports, 1.1 * epsilon + 0.01) <= here * 1.01 + 3e-12
    assert delta(log_ratio, 2 * reports, epsilon) <= here * 1.01 + 3e-12
    assert delta(log_ratio + 0.1, reports, epsilon) >= here * 0.99 - 3e-12


@pytest.mark.parametrize(("log_near", "log_ratio"), [(0.5, 0.5), (0.5, 2.0), (3.0, 5.0), (2.0, 2.0)])
@pytest.mark.parametrize("reports", [3, 200, 100_000])
def test_two_ratios_are_a_clone_pair(log_near: float, log_ratio: float, reports: int) -> None:
    probability = math.exp(-log_ratio) / (1 + math.exp(-log_near))
    rows = ((log_ratio, log_ratio - log_near, probability), (log_ratio - log_near, log_ratio, probability))
    general = LikelihoodPair(reports, Likelihoods(rows, rest=1 - 2 * probability))
    special = RatioPair(reports, log_near, log_ratio)
    assert special.clone_probability + special.other_probability == pytest.approx(1, abs=1e-15)
    for epsilon in (0.0, 0.3 * log_near, 0.9 * log_near):
        lower, upper = special.delta_bracket(epsilon)
        least, most = general.delta_bracket(epsilon)
        assert least <= upper * (1 + 1e-9) and lower <= most * (1 + 1e-9)
