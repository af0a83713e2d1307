"""Losses on a grid: never below, or never above, the pair they were made from, in one round or in several."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import scipy.fft
from flint import arb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.numerics.convolution import Convolution, _coarsened, crossing
from shoal.numerics.lattice import LatticeMeasure
from shoal.numerics.profile_grid import DeltaGrid, Mesh, dominated, dominating
from shoal.pairs import ClonePair, Family
from tests.exhaustive import amount
from tests.oracles import products
from tests.oracles.exact import CloneProbability

ROUNDING = 2e-13
"""What the sums of this file are off by, relatively; and the number of rounds times as much."""
NAMES: dict[Family, CloneProbability] = {"clones": "clones", "strong-clones": "strong"}


def profile(losses: LatticeMeasure, epsilon: float) -> float:
    """Return δ(ε) of losses on a grid, in positive terms."""
    return losses.infinite + float(losses.masses @ -np.expm1(np.minimum(epsilon - losses.values, 0.0)))


def lattice(losses: LatticeMeasure) -> products.Lattice:
    """Return the finite losses, the negative ones too."""
    first = int(losses.positions[0])
    masses = np.asarray(np.bincount(losses.positions - first, losses.masses), dtype=np.float64)
    return products.Lattice(first, losses.step, masses)


def truth(distribution: products.Distribution, epsilon: float) -> float:
    return float(products.distribution_delta(distribution, epsilon).mid())


def exact_grid(distribution: products.Distribution, step: float, count: int) -> DeltaGrid:
    """Return the narrowest possible bracket at so many points, that is a true value and its neighbours."""
    values = np.array([truth(distribution, index * step) for index in range(count)])
    values[values < 1e-40] = 0.0
    return DeltaGrid(step, values * (1 - 1e-15), values * (1 + 1e-15))


def check(grid: DeltaGrid, distribution: products.Distribution, epsilons: list[float]) -> None:
    """Assert that both ends hold at every ε."""
    above, below = dominating(grid), dominated(grid)
    assert above.total >= 1 - ROUNDING
    assert below.total <= 1
    assert min(above.masses.min(), below.masses.min(), above.infinite, below.infinite) >= 0
    for epsilon in epsilons:
        value = truth(distribution, epsilon)
        assert profile(below, epsilon) <= value * (1 + ROUNDING) + 1e-40, epsilon
        assert profile(above, epsilon) >= value * (1 - ROUNDING) - 1e-40, epsilon


# The pairs of the library


@pytest.mark.slow
@pytest.mark.parametrize("family", ["clones", "strong-clones"])
@pytest.mark.parametrize("reports", [1, 2, 3, 6, 20])
@pytest.mark.parametrize(
    ("local_epsilon", "cells"),
    [(0.05, 40), (1.0, 64), (1.0, 33.4), (1.0, 14.3), (2.0, 7.7), (6.0, 90.1), (1.0, 1.9), (1.0, 0.7)],
)
def test_one_round_is_between_the_two(family: Family, reports: int, local_epsilon: float, cells: float) -> None:
    """ε₀ may lie on the grid, or inside a cell of it, where H falls to zero."""
    step = local_epsilon / cells
    distribution = products.clone_distribution(reports, local_epsilon, NAMES[family])
    grid = ClonePair(reports, local_epsilon, family).grid(Mesh(step, local_epsilon, 80.0))
    epsilons = [*np.linspace(0, local_epsilon + 2 * step, 97).tolist(), local_epsilon, local_epsilon * (1 - 1e-9)]
    check(grid, distribution, epsilons)


@pytest.mark.parametrize("local_epsilon", [0.3, 1.0, 3.0])
def test_lower_end_vanishes_where_the_pair_does(local_epsilon: float) -> None:
    """A single report has no loss above ε₀; a polygon that is cut off at zero would have some."""
    for cells in (1.5, 3.3, 7.01, 30.99):
        step = local_epsilon / cells
        grid = ClonePair(1, local_epsilon, "strong-clones").grid(Mesh(step, local_epsilon, 80.0))
        below = dominated(grid)
        assert below.values[below.masses > 0].max() <= local_epsilon * (1 + 1e-12)
        assert below.infinite == 0


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon", "step"), [(100, 1.0, 0.005), (400, 2.0, 0.004)])
def test_fine_grids_come_close(reports: int, local_epsilon: float, step: float) -> None:
    distribution = products.clone_distribution(reports, local_epsilon, "strong")
    grid = ClonePair(reports, local_epsilon, "strong-clones").grid(Mesh(step, local_epsilon, 60.0))
    above, below = dominating(grid), dominated(grid)
    for epsilon in (0.0, step / 2, 0.1, 0.2, 0.333):
        value = truth(distribution, epsilon)
        assert value * (1 - ROUNDING) <= profile(above, epsilon) <= value * 1.005
        assert value * 0.99 <= profile(below, epsilon) <= value * (1 + ROUNDING)


def test_wide_brackets_are_safe() -> None:
    """Upper and lower ends that are far apart, and not even convex, still give safe losses."""
    rng = np.random.default_rng(0)
    distribution = products.clone_distribution(4, 1.0, "strong")
    for noise in (1e-12, 1e-6, 1e-3, 0.1, 0.9):
        for _ in range(10):
            values = exact_grid(distribution, 0.06, 18)
            lower = values.lower * (1 - noise * rng.random(18))
            upper = values.upper * (1 + noise * rng.random(18))
            check(DeltaGrid(0.06, lower, upper), distribution, np.linspace(0, 1.1, 57).tolist())


def test_grids_that_end_early_are_safe() -> None:
    distribution = products.clone_distribution(4, 1.0, "strong")
    values = exact_grid(distribution, 0.06, 18)
    for count in range(1, 18):
        check(
            DeltaGrid(0.06, values.lower[:count], values.upper[:count]), distribution, np.linspace(0, 1.1, 57).tolist()
        )


def test_any_choice_of_knots_is_safe() -> None:
    """Knots may be anywhere on the grid; the brackets at them, too, may be wide."""
    rng = np.random.default_rng(1)
    for reports, local_epsilon in ((4, 1.0), (1, 1.0), (9, 2.5)):
        distribution = products.clone_distribution(reports, local_epsilon, "strong")
        values = exact_grid(distribution, local_epsilon / 39.7, 42)
        for noise in (0.0, 1e-9, 0.05):
            for share in (0.05, 0.3, 0.8):
                knots = np.flatnonzero(rng.random(42) < share)
                knots = np.unique(np.concatenate(([0], knots)))
                lower = values.lower[knots] * (1 - noise * rng.random(len(knots)))
                upper = values.upper[knots] * (1 + noise * rng.random(len(knots)))
                grid = DeltaGrid(values.step, lower, upper, knots)
                check(grid, distribution, np.linspace(0, 1.1 * local_epsilon, 57).tolist())


# Several rounds


@pytest.mark.parametrize(("reports", "local_epsilon", "cells"), [(1, 1.0, 9.6), (2, 1.0, 12.0), (4, 0.5, 20.3)])
@pytest.mark.parametrize("times", [2, 3, 4])
def test_rounds_of_plain_convolution(reports: int, local_epsilon: float, cells: float, times: int) -> None:
    """Composition keeps both ends, without any of the machinery for many rounds."""
    step = local_epsilon / cells
    grid = ClonePair(reports, local_epsilon, "strong-clones").grid(Mesh(step, local_epsilon, 80.0))
    distribution = products.repeated(products.clone_distribution(reports, local_epsilon, "strong"), times)
    above, below = dominating(grid), dominated(grid)
    highs = lows = None
    for _ in range(times):
        highs = lattice(above) if highs is None else highs.convolved(lattice(above))
        lows = lattice(below) if lows is None else lows.convolved(lattice(below))
    assert highs is not None
    assert lows is not None
    for epsilon in np.linspace(0, times * local_epsilon, 41).tolist():
        value = truth(distribution, epsilon)
        assert lows.delta(epsilon) <= value + 1e-14
        assert highs.delta(epsilon) + times * above.infinite >= value - 1e-14


@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize(("reports", "local_epsilon", "cells"), [(1, 1.0, 16), (3, 1.0, 25.5), (6, 2.0, 40)])
def test_tilted_sums_bracket_the_product(reports: int, local_epsilon: float, cells: float, times: int) -> None:
    """Wherever the tilt is aimed, both ends hold at every grid point."""
    step = local_epsilon / cells
    grid = ClonePair(reports, local_epsilon, "strong-clones").grid(Mesh(step, local_epsilon, 80.0))
    distribution = products.repeated(products.clone_distribution(reports, local_epsilon, "strong"), times)
    highs, lows = Convolution([(dominating(grid), times)]), Convolution([(dominated(grid), times)])
    last = math.floor(times * cells)
    values = {
        index: products.distribution_delta(distribution, arb(index) * arb(step))
        for index in {0, 1, 3, last // 3, last // 2, last}
    }
    for aim in (0.0, 0.3 * times * local_epsilon, 0.9 * times * local_epsilon):
        upper, lower = highs.aimed_at_epsilon(aim), lows.aimed_at_epsilon(aim)
        for index, value in values.items():
            assert value.lower() * (1 - 1e-14) <= upper.upper(index) + 1e-40, (aim, index)
            assert value.upper() * (1 + 1e-14) >= lower.lower(index), (aim, index)


# Coarser lattices


def everywhere(losses: LatticeMeasure, epsilon: float) -> float:
    """Return D_{e^ε} of all losses, the negative ones too, for any ε, in positive terms."""
    gains = -np.expm1(np.minimum(epsilon - losses.values, 0.0))
    return losses.infinite + math.fsum((losses.masses * gains).tolist())


@st.composite
def any_losses(draw: st.DrawFn) -> LatticeMeasure:
    """Draw masses at some points."""
    weights = st.floats(1e-12, 1.0)
    positions = np.array(sorted(draw(st.sets(st.integers(-300, 300), min_size=1, max_size=16))))
    masses = np.array([draw(weights) for _ in positions])
    return LatticeMeasure(draw(st.sampled_from([2.0**-10, 0.01, 0.1])), positions, masses, draw(weights))


@given(losses=any_losses(), halvings=st.integers(1, 12))
@settings(max_examples=amount(60, 200), deadline=None)
def test_coarser_losses_are_nowhere_less(losses: LatticeMeasure, halvings: int) -> None:
    coarser = _coarsened(losses, halvings)
    assert coarser.step == losses.step * 2**halvings
    assert coarser.total == pytest.approx(losses.total, rel=1e-9)
    farthest = 300 * losses.step + coarser.step
    for epsilon in np.linspace(-farthest, farthest, 61).tolist():
        assert everywhere(coarser, epsilon) >= everywhere(losses, epsilon) * (1 - 1e-15)


@pytest.mark.slow
def test_a_sum_on_a_coarser_lattice_is_hardly_larger() -> None:
    """Rare losses of 4, next to a deviation of 0.01: the whole lattice needs a million nodes."""
    step = 2.0**-14
    positions = np.unique(np.concatenate((np.arange(0, 400, 8), np.geomspace(500, 4 / step, 60).astype(np.int64))))
    masses = np.where(positions < 400, np.exp(-0.5 * (positions / 130) ** 2), 1e-6 * np.exp(-3 * positions * step))
    masses /= masses[0] + (masses[1:] * (1 + np.exp(-step * positions[1:]))).sum()
    before = (masses * np.exp(-positions * step))[:0:-1]
    signed = np.concatenate((-positions[:0:-1], positions))
    losses = LatticeMeasure(step, signed, np.concatenate((before, masses)), 1e-20)
    fine = Convolution([(losses, 10)])
    quick = Convolution([(losses, 10)], from_above=True)
    for delta, at_least in ((1e-9, 8), (1e-7, 4), (1e-6, 1)):
        exact, epsilon = fine.epsilon(delta), quick.epsilon(delta)
        assert exact * (1 - 1e-9) <= epsilon <= exact * (1 + 1e-3)
        whole, coarse = fine.aimed_at_delta(delta)[0], quick.aimed_at_delta(delta)[0]
        assert coarse.sums.nodes <= whole.sums.nodes / at_least and coarse.step >= whole.step * at_least
        assert fine.delta(epsilon) <= quick.delta(epsilon) <= fine.delta(epsilon) * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("size", [2**8, 2**14, 2**19])
def test_fourier_transform_errs_less_than_is_charged(size: int) -> None:
    """Each coefficient is within 16·log₂N units of the sum, by docs/theory/composition.md; 200 times less in fact."""
    rng = np.random.default_rng(size)
    places = np.arange(size)
    for weights in (
        rng.random(size),
        np.exp(-(((places - size / 3) / (size / 50)) ** 2)),
        np.where(places % 97 == 1, rng.random(size), 0.0),
        np.eye(1, size, 5)[0],
    ):
        exact = np.asarray(scipy.fft.rfft(weights.astype(np.longdouble)))
        error = np.abs(np.fft.rfft(weights) - exact).max()
        assert error <= 0.05 * 16 * 2.0**-53 * math.log2(size) * weights.sum()


# Any pair


@st.composite
def distributions(draw: st.DrawFn) -> products.Distribution:
    """Return a pair of two to five outcomes, some of them impossible in one world."""
    size = draw(st.integers(2, 5))
    weights = st.lists(st.integers(0, 40), min_size=size, max_size=size).filter(any)
    p, q = draw(weights), draw(weights)
    return [(arb(one) / sum(p), arb(two) / sum(q)) for one, two in zip(p, q, strict=True)]


@pytest.mark.slow
@settings(
    max_examples=amount(50, 150),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(distributions(), distributions(), st.sampled_from([0.03, 0.11, 0.4, 1.3]), st.integers(1, 60))
def test_any_two_pairs_compose(one: products.Distribution, two: products.Distribution, step: float, count: int) -> None:
    """Whatever the pairs, and in whichever directions they are combined, the product is below."""
    uppers = [dominating(exact_grid(distribution, step, count)) for distribution in (one, two)]
    both = products.joined([one, two])
    flipped = products.joined([one, [(q, p) for p, q in two]])
    highs = lattice(uppers[0]).convolved(lattice(uppers[1]))
    mass, finite = (
        math.prod(values) for values in zip(*((x.total, x.total - x.infinite) for x in uppers), strict=True)
    )
    for epsilon in (0.0, 0.5 * step, 0.2, 0.7, 1.5, 3.0):
        value = max(truth(both, epsilon), truth(flipped, epsilon))
        assert highs.delta(epsilon) + mass - finite >= value - 1e-13


@settings(
    max_examples=amount(30, 80),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(distributions(), st.sampled_from([0.03, 0.11, 0.4, 1.3]), st.integers(1, 60), st.integers(1, 3))
def test_any_symmetric_pair_composes(half: products.Distribution, step: float, count: int, times: int) -> None:
    """A pair mixed with its mirror image is the same in both directions, and both ends hold."""
    distribution = [(p / 2, q / 2) for p, q in half] + [(q / 2, p / 2) for p, q in half]
    grid = exact_grid(distribution, step, count)
    check(grid, distribution, [0.0, 0.5 * step, 0.2, 0.7, 1.5, 3.0, count * step])
    above, below = dominating(grid), dominated(grid)
    product_distribution = (
        products.joined([distribution] * times) if times < 3 else products.repeated(distribution, times)
    )
    highs, lows = lattice(above), lattice(below)
    for _ in range(times - 1):
        highs, lows = highs.convolved(lattice(above)), lows.convolved(lattice(below))
    infinite = above.total**times - (above.total - above.infinite) ** times
    for epsilon in (0.0, 0.5 * step, 0.2, 0.7, 1.5, 3.0):
        value = truth(product_distribution, epsilon)
        assert lows.delta(epsilon) <= value + 1e-13
        assert highs.delta(epsilon) + infinite >= value - 1e-13


def test_oracles_agree_with_one_another() -> None:
    for reports, times in product((1, 2, 4), (1, 2, 3)):
        distribution = products.clone_distribution(reports, 1.0, "strong")
        for epsilon in (0.0, 0.3, 1.1):
            one = products.distribution_delta(products.repeated(distribution, times), epsilon)
            two = products.distribution_delta(products.joined([distribution] * times), epsilon)
            assert one.overlaps(two)
    response = products.response_distribution(0.7, 1e-3)
    for times in (1, 3, 5):
        for epsilon in (0.0, 0.5, 2.0):
            assert products.distribution_delta(products.repeated(response, times), epsilon).overlaps(
                products.response_delta(times, 0.7, 1e-3, epsilon)
            )
    # Theorem 3.5 is above the exact composition.
    for times, delta in product((5, 50), (1e-3, 1e-8)):
        bound = products.closed_form_epsilon([(0.1, 1e-10)] * times, delta)
        assert products.response_delta(times, 0.1, 1e-10, bound) <= delta
    # And the exact sum over all outcomes lies between the two plain convolutions.
    distribution = products.repeated(products.clone_distribution(16, 0.5, "strong"), 2)
    lower, upper = products.reference_bracket([((16, 0.5, "strong"), 2)], 1e-3, step=1e-3)
    assert upper - lower < 1e-3
    assert (
        products.distribution_delta(distribution, lower * (1 - 1e-9))
        >= 1e-3
        >= products.distribution_delta(distribution, upper * (1 + 1e-9))
    )


@pytest.mark.parametrize("guess", [0.0, 3.1, 47.0, 50.0, 900.0])
@pytest.mark.parametrize("tilt", [0.01, 0.3, 20.0])
def test_searches_end_between_two_grid_points(guess: float, tilt: float) -> None:
    def bound(index: int) -> float:
        return math.exp(-0.3 * 0.1 * index - (0.1 * index) ** 2 / 400)

    delta = bound(431) * 1.001
    epsilon = crossing(bound, delta, guess, 0.1, tilt=tilt)
    assert 43.0 < epsilon < 43.1
    share = math.expm1(epsilon - 43.0) / math.expm1(0.1)
    assert (1 - share) * bound(430) + share * bound(431) == pytest.approx(delta, rel=1e-9)


def test_searches_need_no_bound_far_from_the_guess() -> None:
    # A lower bound that says nothing but next to what it is aimed at.
    def bound(index: int) -> float:
        return math.exp(-0.03 * index) if 380 <= index <= 440 else 0.0

    assert 40.0 < crossing(bound, bound(400) * 0.999, 43.7, 0.1, tilt=0.3) < 40.1
    assert crossing(lambda _: 0.0, 1e-6, 5.0, 0.1, tilt=0.3) == 0
    assert crossing(lambda _: math.inf, 1e-6, 5.0, 0.1, tilt=0.3) == math.inf
