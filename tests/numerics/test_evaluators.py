"""The two evaluators and the ball arithmetic against one another, and against naive sums."""

import math

import numpy as np
import pytest

from shoal.numerics.contour import NodeGrid, positive_part
from shoal.numerics.listing import counts_of, listed
from shoal.pairs import ClonePair, DecompositionPair, Family, LikelihoodPair, Pair
from shoal.pairs.decomposition import largest_local_epsilon
from shoal.pairs.likelihoods import response as response_of
from shoal.proofs.balls import Ball, precision
from shoal.proofs.claim import RoundClaim
from shoal.searches import greatest_unsafe, smallest_safe
from tests.exhaustive import representative
from tests.oracles import exact

_FAMILIES: tuple[Family, ...] = ("clones", "strong-clones")


def certified(pair: Pair, epsilon: float, bits: int) -> Ball:
    """Return a ball whose upper end is at least δ(ε)."""
    claim = pair.provable()
    assert isinstance(claim, RoundClaim)
    with precision(bits):
        ends = [claim.at(epsilon, fineness=fineness) for fineness in ((0.0, 1e-4) if claim.reports > 50 else (0.0,))]
    return min(ends, key=lambda end: float(end.upper()))


def decomposed(reports: int, blanket: float, own: float) -> DecompositionPair:
    """Return the pair of Theorem 4.1 with the largest ε₀ that it may have."""
    return DecompositionPair(reports, blanket, own, largest_local_epsilon(blanket, own))


def _points(count: int, seed: int, most_reports: float) -> list[tuple[ClonePair, float]]:
    random = np.random.default_rng(seed)
    points = []
    for _ in range(count):
        pair = ClonePair(
            int(10 ** random.uniform(0, most_reports)),
            float(10 ** random.uniform(-3, 1.3)),
            _FAMILIES[random.integers(2)],
        )
        points.append((pair, float(pair.local_epsilon * random.uniform(0, 1) ** 4)))
    return points


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "epsilon"), representative(_points(60, 1, 2.4), 15))
def test_clones_contain_the_exact_value(pair: ClonePair, epsilon: float) -> None:
    ball = exact.pair_delta(
        pair.reports, pair.local_epsilon, epsilon, "clones" if pair.family == "clones" else "strong"
    )
    if ball < 1e-290:
        pytest.skip("below what doubles resolve")
    lower, upper = pair.delta_bracket(epsilon)
    assert lower <= ball <= upper
    assert float(ball.mid()) * (1 + 1e-6) >= upper
    if pair.reports > 30 and pair.reports * pair.clone_probability > 5:
        lower, upper = positive_part(pair.distribution(epsilon))
        assert lower <= ball <= upper
        assert float(ball.mid()) * (1 + 1e-5) >= upper


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-100, 1e-200, 1e-290])
@pytest.mark.parametrize(
    ("local_epsilon", "reports"), [(1.0, 10**4), (1.0, 10**6), (2.0, 10**7), (1.0, 10**9), (2.0, 10**12)]
)
def test_tiny_deltas_keep_their_accuracy(local_epsilon: float, reports: int, delta: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    spread = 2 * math.tanh(local_epsilon / 2) / math.sqrt(pair.clone_probability * reports)
    epsilon = min(0.5 * local_epsilon, spread * math.sqrt(-2 * math.log(delta)))
    lower, upper = pair.delta_bracket(epsilon)
    ball = certified(pair, epsilon, 256)
    assert lower <= ball.upper()
    assert float(ball.mid()) <= upper * (1 + 1e-5)
    assert upper <= float(ball.mid()) * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2, 5, 30])
@pytest.mark.parametrize(("blanket", "own"), [(1 / 3, 0.5), (0.1, 0.9), (0.01, 0.2), (0.2, 1.0)])
def test_decomposition_pair_contains_the_exact_value(reports: int, blanket: float, own: float) -> None:
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        ball = exact.decomposition_delta(reports, blanket, own, epsilon)
        pair = decomposed(reports, blanket, own)
        lower, upper = pair.delta_bracket(epsilon)
        assert lower <= ball <= upper * (1 + 1e-15)
        assert upper <= float(ball.mid()) * (1 + 1e-6)
        if epsilon < pair.local_epsilon:
            assert ball <= certified(pair, epsilon, 128).upper()


def response(reports: int, local_epsilon: float, categories: int, place: int) -> LikelihoodPair:
    """Return randomized response with all others on a third input (if there is one), the second, or the first."""
    return LikelihoodPair(reports, response_of(categories, local_epsilon).homogeneous[place])


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2, 10, 60])
@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 4.0])
def test_response_pairs_contain_the_exact_value(reports: int, local_epsilon: float) -> None:
    for epsilon in (0.0, 0.3 * local_epsilon, 0.9 * local_epsilon):
        forward, backward = exact.two_rr_delta(reports, local_epsilon, epsilon)
        third = exact.three_rr_delta(reports, local_epsilon, epsilon)
        for place, ball, size in ((1, forward, 2), (0, backward, 2), (0, third, 3)):
            lower, upper = response(reports, local_epsilon, size, place).delta_bracket(epsilon)
            assert lower <= ball.upper()
            assert ball.lower() <= upper * (1 + 1e-15)


def test_searches_end_on_the_safe_side() -> None:
    def value(point: float) -> float:
        return math.exp(-3 * point)

    safe = smallest_safe(value, 1e-4, 100.0, 1.0, -1.0)
    assert value(safe) <= 1e-4
    assert safe == pytest.approx(math.log(1e4) / 3, rel=1e-10)
    unsafe = greatest_unsafe(value, 1e-4, safe)
    assert value(unsafe) >= 1e-4
    assert unsafe == pytest.approx(safe, rel=1e-9)
    assert smallest_safe(value, 2.0, 100.0, 1.0, -1.0) == 0.0
    assert smallest_safe(lambda point: 1.0 if point < 5 else 0.0, 0.5, 10.0, 1.0, -1.0) == pytest.approx(5.0, rel=1e-9)


# Settings in which an earlier version was wrong, each found by attacking it.


def test_no_node_is_lost_between_adjacent_peaks() -> None:
    for period in (4.0, 6.0, 8.0, 26.0):
        step = 2 * math.pi / period
        heights = NodeGrid.consecutive(step, math.floor((2 * math.pi * 5000 + math.pi) / step) + 1).heights
        assert np.array_equal(np.rint(heights / step), np.arange(len(heights)))


def test_few_reports_with_a_rare_symbol() -> None:
    for pair, epsilon in (
        (decomposed(3, 3.25278315079061e-05, 0.441541681127828), 0.0010921969375857826),
        (decomposed(3, 0.00042392542210238496, 0.48682329191027673), 0.5349457816674846),
        (decomposed(22, 0.1, 0.9999678487915397), 4.550925294693767),
    ):
        ball = exact.decomposition_delta(pair.reports, pair.blanket_probability, pair.own_probability, epsilon)
        lower, upper = pair.delta_bracket(epsilon)
        assert lower <= ball <= upper
        assert upper <= float(ball.mid()) * (1 + 1e-6)
        if epsilon < pair.local_epsilon:  # beyond, a certificate knows that nothing is left
            assert ball <= certified(pair, epsilon, 128).upper()


@pytest.mark.parametrize("local_epsilon", [1e-15, 1e-12, 1e-8, 1e-4])
def test_lower_limits_at_a_tiny_local_epsilon(local_epsilon: float) -> None:
    for reports in (2, 30):
        for epsilon in (0.0, 0.7 * local_epsilon):
            for place, ball in zip((1, 0), exact.two_rr_delta(reports, local_epsilon, epsilon), strict=True):
                lower, _ = response(reports, local_epsilon, 2, place).delta_bracket(epsilon)
                assert lower <= ball.upper()
                assert lower >= float(ball.mid()) * (1 - 1e-6)


def test_sums_over_counts_and_the_integral_agree_at_many_reports() -> None:
    for reports, local_epsilon, epsilon in ((10**12, 24.0, 0.01), (10**9, 15.0, 0.5), (10**15, 31.0, 1.0)):
        distribution = response(reports, local_epsilon, 2, 0).distribution(epsilon)
        counts = counts_of(distribution, depth=27.0)
        assert counts is not None
        ends = listed(distribution, counts)
        assert ends is not None
        summed_lower, summed_upper = ends
        lower, upper = positive_part(distribution)
        assert summed_lower <= upper
        assert lower <= summed_upper


def test_delta_never_exceeds_one() -> None:
    assert decomposed(3, 1.8864793693982768e-29, 1.0).delta_bracket(0.0005944459665301762)[1] <= 1
