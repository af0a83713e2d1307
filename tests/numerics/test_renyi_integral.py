"""The Rényi divergence as an integral of the profile, against every outcome in balls and against closed forms."""

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx

from shoal.numerics.contour import log_ceilings, positive_parts
from shoal.numerics.renyi_integral import Kinds, integrated
from shoal.numerics.renyi_list import listed_excess
from shoal.pairs import ClonePair, LikelihoodPair
from shoal.pairs.likelihoods import Likelihoods
from tests.oracles import exact

_COMMON = 1 - 0.12 * (math.exp(1.5) + 1)
RESPONSE = Likelihoods(((1.5, 0.0, 0.12), (0.0, 1.5, 0.12), (0.0, 0.0, _COMMON)))


def of_ratios(reports: int, rows: list[tuple[float, float, float]], missing: float) -> Kinds:
    firsts, seconds, probabilities = np.array(rows).T
    return Kinds(reports, firsts, seconds, probabilities, missing)


def three_kinds(reports: int) -> Kinds:
    """Return kinds that differ in both directions: likelihoods (3, 1), (1, 2), (1, 1.5) and nothing."""
    rows = [(math.log(3), 0.0, 0.2), (0.0, math.log(2), 0.25), (0.0, math.log(1.5), 0.2)]
    # Scaled so that both inputs have probability one.
    first = sum(p * math.exp(a) for a, _, p in rows)
    second = sum(p * math.exp(b) for _, b, p in rows)
    rows = [(a - math.log(first), b - math.log(second), p) for a, b, p in rows]
    return of_ratios(reports, rows, 0.35)


def enumerated(kinds: Kinds, order: float) -> arb:
    """Return D_α(P‖Q) from every outcome, in balls."""
    with ctx.workprec(200):
        firsts = [arb(x).exp() for x in kinds.firsts.tolist()] + [arb(0)]
        seconds = [arb(x).exp() for x in kinds.seconds.tolist()] + [arb(0)]
        shares = [arb(x) for x in kinds.probabilities.tolist()]
        shares.append(1 - sum(shares, arb(0)))
        n, total = kinds.reports, arb(0)
        for counts in itertools.product(range(n + 1), repeat=len(shares) - 1):
            last = n - sum(counts)
            if last < 0:
                continue
            whole = (*counts, last)
            first, second = (
                sum((count * each for count, each in zip(whole, side, strict=True)), arb(0)) / n
                for side in (firsts, seconds)
            )
            if whole[:-1] == (0,) * len(counts):
                continue
            weight = arb(math.factorial(n))
            for count, share in zip(whole, shares, strict=True):
                weight *= share**count / math.factorial(count)
            total += weight * first ** arb(order) * second ** arb(1 - order)
        return total.log() / (arb(order) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 7.5, 64.0, 1e3])
@pytest.mark.parametrize("reports", [2, 5, 12])
def test_both_directions_against_every_outcome(reports: int, order: float) -> None:
    for kinds in (three_kinds(reports), three_kinds(reports).swapped):
        ceiling = float(np.abs(kinds.firsts - kinds.seconds).max())
        truth = enumerated(kinds, order)
        value = integrated(kinds, ceiling, order, symmetric=False)
        assert truth <= value
        listed = listed_excess(kinds, ceiling, order, 10**6)
        if listed is not None:
            divergence = math.log1p(listed) / (order - 1)
            assert truth <= divergence * (1 + 1e-14)
            assert divergence <= float(truth.mid()) * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports"), [(0.5, 60), (1.0, 80), (3.0, 60)])
@pytest.mark.parametrize("order", [1.2, 2.0, 16.0, 200.0, 1e4])
def test_clones_against_balls(local_epsilon: float, reports: int, order: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    truth = exact.pair_renyi(reports, local_epsilon, order, "strong")
    value = float(pair.renyi(np.array([order]))[0])
    assert truth <= value <= float(truth.mid()) * (1 + 1e-3)
    local = np.array([local_epsilon, 0.0])
    kinds = Kinds(reports, local, local[::-1], np.full(2, pair.clone_probability / 2), pair.other_probability)
    assert truth <= integrated(kinds, local_epsilon, order, symmetric=True)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 8.0, 64.0])
@pytest.mark.parametrize(("local_epsilon", "reports"), [(1.0, 4_000), (4.0, 10_000), (2.0, 3_000)])
def test_list_and_integral_agree(local_epsilon: float, reports: int, order: float) -> None:
    """Two ways that share nothing: the list is the more accurate one."""
    local = np.array([local_epsilon, 0.0])
    probability = 1 / (math.exp(local_epsilon) + 1)
    kinds = Kinds(reports, local, local[::-1], np.full(2, probability), math.tanh(local_epsilon / 2))
    excess = listed_excess(kinds, local_epsilon, order, 10**7)
    value = integrated(kinds, local_epsilon, order, symmetric=True)
    if excess is not None:
        listed = math.log1p(excess) / (order - 1)
        assert listed * (1 - 1e-5) <= value <= listed * (1 + 1e-3)


@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order"),
    [(10**6, 4.0, 1e5), (10**9, 8.0, 1e5), (10**9, 14.0, 64.0), (10**4, 4.0, 1e3)],
)
def test_beyond_the_leap_every_clone_is_of_the_right_kind(reports: int, local_epsilon: float, order: float) -> None:
    """These outcomes, all with the largest loss, are part of the sum: (1 − p/2)ⁿ⁻¹·e^((α − 1)ε₀)·e^ε₀/(e^ε₀ + 1)."""
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    value = float(pair.renyi(np.array([order]))[0])
    alone = (reports - 1) * math.log1p(-pair.clone_probability / 2) + (order - 1) * local_epsilon
    alone -= math.log1p(math.exp(-local_epsilon))
    assert value >= alone / (order - 1)
    if order * local_epsilon > 1e4:
        assert value <= alone / (order - 1) * (1 + 1e-3)


def test_one_way_is_no_more_than_both() -> None:
    pair = LikelihoodPair(500, RESPONSE)
    assert pair.likelihoods.symmetric
    orders = np.array([1.5, 4.0, 300.0])
    values = pair.renyi(orders)
    assert np.array_equal(values, pair.one_way(orders))
    assert np.all(np.diff(values) > 0)
    assert values[-1] <= 1.5


def test_logarithms_are_those_of_the_bounds() -> None:
    pair = ClonePair(10_000, 1.0, "strong-clones")
    points = np.array([0.01, 0.02, 0.05])
    local = np.array([1.0, 0.0])
    kinds = Kinds(10_000, local, local[::-1], np.full(2, pair.clone_probability / 2), pair.other_probability)
    lower, upper = positive_parts([pair.distribution(point) for point in points.tolist()], tolerance=1e-6)
    logs = log_ceilings(kinds.tilted(points), 1e-6)
    assert np.all(logs >= np.log(lower))
    assert logs == pytest.approx(np.log(upper), abs=1e-9)
    # Where nobody can add as many terms, infinity is said; with a few more, something coarser.
    assert np.all(np.isinf(log_ceilings(kinds.tilted(points), 1e-6, 1)))
    coarse = log_ceilings(kinds.tilted(points), 1e-6, 2_000)
    assert np.all(coarse >= np.log(lower))
    # Chernoff's bound is above, with any tilt.
    for tilt in (0.01, 0.03, 0.1):
        assert np.all(kinds.log_chernoff(points, np.full(3, tilt)) >= np.log(lower))
