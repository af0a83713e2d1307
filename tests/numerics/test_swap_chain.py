"""Theorem N: its four lemmas, its value against the exact right side of Lemma K, against balls, and lower bounds.

Its Rényi divergences are those of the lesser of both profiles: never above the clones, never below a pair.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from shoal.amplification.swap_chains import SwapChainProfile
from shoal.numerics.swap_chain import (
    _chords,
    _excess,
    _laws,
    _Proxies,
    _Question,
    _Weights,
    swap_chain_delta,
    swap_chain_spread,
)
from shoal.pairs import BitRows, ClonePair, LikelihoodPair
from shoal.proofs.balls import above, ball, normal, precision
from shoal.proofs.clone_claim import _Chains
from tests.exhaustive import amount

Array = NDArray[np.float64]


def positive(mean: Any, variance: Any) -> Any:
    """Return E[(mean + √variance·Z)₊] in balls."""
    spread = variance.sqrt()
    density = (-(mean**2) / (2 * variance)).exp() / (2 * ball(math.pi)).sqrt()
    return spread * density + mean * normal(mean / spread)


def pmf(trials: int, probability: float) -> Array:
    """Return binomial probabilities."""
    counts = np.arange(trials + 1)
    logs = np.array([math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in counts])
    return np.asarray(np.exp(logs + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)))


def random_rows(rng: np.random.Generator, ratio: float) -> Array:
    """Return three rows of probabilities that are pairwise within a ratio: a mixture of extreme ones, or garbled."""
    collections: list[list[tuple[int, ...]]] = [
        [(0,), (1, 2)],
        [(1,), (0, 2)],
        [(2,), (0, 1)],
        [(0,), (1,), (2,)],
        [(0, 1), (0, 2), (1, 2)],
    ]
    parts = rng.dirichlet(np.full(5, float(rng.choice([0.05, 1.0]))))
    columns = []
    for collection, part in zip(collections, parts, strict=True):
        heights = np.array([[ratio if row in high else 1.0 for high in collection] for row in range(3)])
        columns.append(part * heights / heights.sum(axis=1, keepdims=True))
    rows = np.concatenate(columns, axis=1)
    channel = rng.dirichlet(np.ones(4), size=rows.shape[1])
    return np.asarray(rows @ channel if rng.random() < 0.5 else rows[:, rows.min(axis=0) > 0])


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize(("local_epsilon", "excess"), [(0.05, 0.0), (0.7, 0.01), (1.0, 0.3), (3.0, 0.001)])
def test_a_term_may_be_replaced_by_a_normal_one(which: int, local_epsilon: float, excess: float) -> None:
    rng = np.random.default_rng(which)
    with precision(256):
        big, lam = ball(local_epsilon).exp(), 1 + ball(excess)
        two, three, pairs = 1 / (big + 1), 1 / (big + 2), 1 / (2 * big + 1)
        values, probabilities = [
            ((ball(1), -1 / big), (two, big * two)),
            ((-lam, lam / big), (two, big * two)),
            ((ball(1), -lam, (lam - 1) / big), (three, three, big * three)),
            ((1 - lam, lam / big, -1 / big), (pairs, big * pairs, big * pairs)),
        ][which]
        law = list(zip(values, probabilities, strict=True))
        assert abs(sum(p * x for x, p in law)) < 1e-60
        variance = float(sum(p * x**2 for x, p in law))
        bound = max(abs(float(x)) for x in values)
        for window, noise in ((1.0, 3.0), (4.0, 10.0), (8.0, 40.0), (6.0, 400.0)):
            tau = noise * variance
            heights = np.linspace(-1, 1, 401)[np.arange(401) != 200] * window / math.sqrt(tau)
            means = np.array([sum(float(p) * math.exp(h * float(x)) for x, p in law) for h in heights])
            proxy = max(variance, float(np.max(2 * np.log(means) / heights**2))) * (1 + 1e-4)
            larger = ball(tau) + proxy / (1 - proxy / ball(tau))
            for part in (*rng.uniform(-1, 1, 6), 1.0, -1.0, 1.3, -2.0):
                start = ball(float(part) * window * math.sqrt(tau))
                left = sum(p * positive(start + x, ball(tau)) for x, p in law)
                charge = proxy / (2 * math.sqrt(tau)) * math.exp(-((window - bound / math.sqrt(tau)) ** 2) / 2)
                charge *= 0.3989422804 if abs(part) > 1 else 0.0
                assert left <= positive(start, larger) + charge


@pytest.mark.slow
def test_four_distributions_are_the_extreme_ones() -> None:
    rng = np.random.default_rng(7)
    closest = 0.0
    for _ in range(3000):
        ratio = float(np.exp(rng.uniform(0.1, 2)))
        rows = random_rows(rng, ratio)
        first, second, third = rows
        fourth = rng.dirichlet(np.full(3, 0.1)) @ rows
        lam = 1 + (ratio - 1) * float(rng.choice([0, 0.01, 0.4]))
        sizes = np.array([1.0, 1 / ratio, lam, lam / ratio, (lam - 1) / ratio, lam - 1])
        height, tilt = float(rng.normal()) * 2, float(rng.normal() * rng.choice([0.0, 0.1, 1.0]))
        term = ((first - lam * second) / third - (1 - lam)) / (ratio - 1)
        both = term + tilt * (fourth / third - 1) / (ratio - 1)
        powers = (1 + abs(tilt)) * height * np.concatenate((sizes, -sizes))
        means = _laws(ratio) @ np.exp(powers)
        largest = float((means if tilt else means[:4]).max())
        mean = float(third @ np.exp(height * both))
        assert mean <= largest * (1 + 1e-12)
        closest = max(closest, mean / largest)
    assert closest > 0.99


def test_extreme_distributions_have_mean_zero_and_the_largest_variance() -> None:
    for local_epsilon, epsilon in ((0.1, 0.0), (0.1, 0.01), (1.0, 0.2), (3.0, 0.5)):
        asked = _Question.of(1000, local_epsilon, epsilon)
        values = np.concatenate((asked.sizes, -asked.sizes))
        assert asked.laws.sum(axis=1) == pytest.approx(np.ones(8), rel=1e-14)
        assert np.abs(asked.laws @ values).max() <= 1e-14
        assert (asked.laws @ values**2).max() <= asked.variance * (1 + 1e-15)
    at_zero = _Question.of(1000, 1.0, 0.0).variance
    assert at_zero == pytest.approx(max(2 / (math.e + 2), 1 / math.e), rel=1e-12)


def test_squares_of_weights_of_a_pool() -> None:
    rng = np.random.default_rng(8)
    for _ in range(500):
        ratio = float(np.exp(rng.uniform(0.05, 3)))
        weights = ratio ** (rng.random(int(rng.integers(2, 40))) < rng.random())
        weights = weights / weights.mean()
        assert (weights**2).mean() <= (1 + (ratio - 1) ** 2 / (4 * ratio)) * (1 + 1e-12)


@pytest.mark.parametrize("ratio", [1.3, 2.0, 4.0])
def test_weights_of_people_outside_the_pool(ratio: float) -> None:
    # Y = 1 and X = E or 1/E: the largest conditional variances.
    pool, low = 60, 1 / (ratio + 1)
    spread = (ratio - 1) ** 2 / ratio
    weights = _Weights(pool, 1 + spread / 4, (1 + spread / 4) * spread, ratio * (ratio - 1) / 3)
    apart = (np.arange(pool + 1) * ratio + np.arange(pool, -1, -1) / ratio) / pool - 1
    probabilities = pmf(pool, low)
    for depth in (0.5, 2.0, 5.0, 12.0):
        y = float(weights.distance(np.array([depth]))[0])
        assert probabilities[np.abs(apart) >= y].sum() <= 2 * math.exp(-depth)
        assert probabilities @ np.maximum(apart**2 - y**2, 0) <= weights.beyond(np.array([y]))[0]


def test_proxies_bound_the_moment_generating_functions() -> None:
    rng = np.random.default_rng(9)
    for _ in range(60):
        asked = _Question.of(10**4, float(rng.uniform(0.01, 4)), float(rng.choice([0, 1e-4, 0.3])))
        top = float(rng.uniform(0.05, 4))
        proxies = _Proxies.of(asked, top, top / 40)
        reaches = np.linspace(top / 3000, top, 3000)
        known = proxies.at(reaches)
        assert np.all(np.diff(known) >= 0) and known[0] >= asked.variance
        powers = np.multiply.outer(np.concatenate((asked.sizes, -asked.sizes)), reaches)
        needed = 2 * np.log1p(asked.laws @ (np.expm1(powers) - powers)) / reaches**2
        assert np.all(needed <= known * (1 + 1e-9))
        assert np.all(known <= np.maximum.accumulate(needed.max(axis=0)) * 1.06)
        assert math.isinf(proxies.at(np.array([1.01 * top]))[0])


def test_chords_lie_above_a_convex_function() -> None:
    for shift in (-1.0, 0.0, 2.0, 6.0):
        nodes = np.linspace(shift - 6, shift + 4, 90)
        variance = 0.3
        heights = math.sqrt(variance) * _excess((shift - nodes) / math.sqrt(variance))
        whole = math.sqrt(1 + variance) * float(_excess(np.array([shift / math.sqrt(1 + variance)]))[0])
        assert whole <= _chords(nodes, heights, 1.0) <= whole * 1.03


def lemma_k(ratio: float, lam: float, reports: int, *, pool: int, zeros: int, other: int) -> float:
    """Return the right side of Lemma K for one order of people with bits.

    Of the pool, `zeros` have a one with probability 1/(E + 1) and the rest with E/(E + 1); all outside have `other`.
    """
    low, main = 1 / (ratio + 1), reports - 1 - pool
    ones = (low, 1 - low)

    def row(who: int, bit: int) -> float:
        return ones[who] if bit else 1 - ones[who]

    def term(who: int, bit: int) -> float:
        return (row(0, bit) - lam * row(1, bit)) / row(who, bit)

    sums = np.arange(main + 1) * term(other, 1) + np.arange(main, -1, -1) * term(other, 0)
    order = np.argsort(sums)
    sums, outside = sums[order], pmf(main, ones[other])[order]
    tails = np.append(np.cumsum(outside[::-1])[::-1], 0.0)
    means = np.append(np.cumsum((outside * sums)[::-1])[::-1], 0.0)
    first, second = np.meshgrid(np.arange(zeros + 1), np.arange(pool - zeros + 1), indexing="ij")
    weights = np.outer(pmf(zeros, low), pmf(pool - zeros, 1 - low))
    total = 0.0
    for bit in (0, 1):
        base = (zeros * row(0, bit) + (pool - zeros) * row(1, bit)) / pool
        scale = [row(who, bit) / base for who in (0, 1)]
        counts = ((0, 1, first), (0, 0, zeros - first), (1, 1, second), (1, 0, pool - zeros - second))
        rho = sum(scale[who] * count * row(other, b) / row(who, b) for who, b, count in counts) / pool
        own = (row(0, bit) - lam * row(1, bit)) / base
        inner = own + sum(scale[who] * count * term(who, b) for who, b, count in counts)
        index = np.searchsorted(sums, -inner / rho, side="right")
        total += base * float((weights * (inner * tails[index] + rho * means[index])).sum())
    return total / reports


@pytest.mark.parametrize(
    ("local_epsilon", "epsilon", "reports", "loose"),
    [
        (0.1, 0.006, 3000, 1.3),
        (0.3, 0.02, 2000, 2.0),
        (0.5, 0.03, 3000, 3.0),
        (0.1, 0.0, 1000, 1.1),
        (1.0, 0.03, 3000, 4.0),
    ],
)
def test_never_below_the_exact_right_side_of_lemma_k(
    local_epsilon: float, epsilon: float, reports: int, loose: float
) -> None:
    bound = swap_chain_delta(reports, local_epsilon, epsilon)
    ratio, lam, largest = math.exp(local_epsilon), math.exp(epsilon), 0.0
    pool = min(round(14 * math.sqrt(reports * (1 + (ratio - 1) ** 2 / ratio / 4))), reports // 4)
    for share, other in product((0, 1, 2), (0, 1)):
        value = lemma_k(ratio, lam, reports, pool=pool, zeros=pool * share // 2, other=other)
        assert value <= bound
        largest = max(largest, value)
    assert bound <= loose * largest


@pytest.mark.parametrize(("reports", "local_epsilon"), [(300, 0.02), (300, 0.1), (500, 0.2), (900, 0.3)])
def test_never_below_randomized_response_with_any_others(reports: int, local_epsilon: float) -> None:
    low = 1 / (math.exp(local_epsilon) + 1)
    finite = 0
    for part in (0.0, 1.0, 2.0, 3.0):
        epsilon = part * local_epsilon / math.sqrt(reports)
        bound = swap_chain_delta(reports, local_epsilon, epsilon)
        finite += bound < 1
        for others in range(0, reports, reports // 12):
            rest = np.convolve(pmf(reports - 1 - others, low), pmf(others, 1 - low))
            one, two = (np.convolve(rest, [1 - p, p]) for p in (low, 1 - low))
            for first, second in ((one, two), (two, one)):
                assert np.maximum(first - math.exp(epsilon) * second, 0).sum() <= bound
    assert finite == 4


def _questions(count: int, seed: int) -> list[tuple[int, float, float]]:
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        reports, local = int(10 ** rng.uniform(2.4, 12)), float(10 ** rng.uniform(-3, 0.7))
        spread = math.expm1(local) * math.sqrt(max(2 / (math.exp(local) + 2), math.exp(-local)) / reports)
        result.append((reports, local, float(min(spread * rng.uniform(0, rng.choice([6, 30])), 0.9 * local))))
    return result


@pytest.mark.slow
def test_floating_point_is_never_below_the_balls_and_close_to_them() -> None:
    finite = 0
    for reports, local_epsilon, epsilon in _questions(amount(90, 150), 11):
        quick = swap_chain_delta(reports, local_epsilon, epsilon)
        with precision(160):
            exact = above(_Chains(reports, local_epsilon, epsilon).bound(192))
        assert exact <= quick
        if quick < math.inf:
            finite += 1
            assert quick <= exact * (1 + 1e-6)
    assert finite > amount(60, 100)


@pytest.mark.slow
def test_never_below_the_lower_bound_and_close_to_it() -> None:
    closest = math.inf
    for reports, local_epsilon, epsilon in _questions(60, 12):
        delta = swap_chain_delta(reports, local_epsilon, epsilon)
        if 1e-250 < delta < 1e-2:
            least = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports).epsilon(delta)
            assert least <= epsilon * (1 + 1e-9)
            closest = min(closest, epsilon / max(least, 1e-300))
    assert closest < 1.002


@pytest.mark.parametrize(
    "question",
    [
        (100, 1.0, 0.1),
        (10**6, 13.0, 0.1),
        (10**6, 1.0, 0.9),
        (1 << 60, 1.0, 1e-9),
        (10**6, 1e-12, 1e-13),
        (3000, 1.0, 15 * math.expm1(1) / math.sqrt(3000)),  # was a ValueError
    ],
)
def test_says_nothing_where_it_cannot(question: tuple[int, float, float]) -> None:
    assert math.isinf(swap_chain_delta(*question))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "order"),
    [
        (10**4, 0.1, 2.0),
        (10**4, 1.0, 8.0),
        (10**6, 1.0, 1.01),
        (10**6, 1.0, 1e3),
        (10**9, 0.1, 1e5),
        (10**9, 2.0, 64.0),
    ],
)
def test_it_is_the_integral_of_the_profile(reports: int, local_epsilon: float, order: float) -> None:
    pair = ClonePair(reports, local_epsilon, "strong-clones")
    value = float(SwapChainProfile(reports, local_epsilon).renyi(np.array([order]))[0])
    spread = math.expm1(local_epsilon) * math.sqrt(1 / reports)
    points = np.linspace(0, min(9 * spread + 2 * order * spread**2, 0.4 * local_epsilon), 1201)
    chains = [swap_chain_delta(reports, local_epsilon, point, refinement=4.0) for point in points.tolist()]
    deltas = np.minimum(chains, pair.brackets(points, 1e-6)[1])
    heights = deltas * (np.exp((order - 1) * points) + np.exp(-order * points))
    whole = math.log1p(order * (order - 1) * float(np.trapezoid(heights, points))) / (order - 1)
    assert whole * (1 - 2e-4) <= value <= whole * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.01, 2.0, 64.0, 1e3, 1e5])
@pytest.mark.parametrize(("reports", "local_epsilon"), [(10**4, 0.1), (10**6, 0.5), (10**6, 1.0), (10**9, 1.0)])
def test_between_randomized_response_and_the_clones(reports: int, local_epsilon: float, order: float) -> None:
    """All others on one input, whatever the randomizer is: nothing that holds for all may be below."""
    value = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="swap-chains").renyi(order)
    strong = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound="strong-clones").renyi(order)
    rows = BitRows.response(local_epsilon)
    least = float(LikelihoodPair(reports, rows.likelihoods).one_way(np.array([order]))[0]) / (1 + 4e-4)
    assert least <= value <= strong


@pytest.mark.parametrize(("reports", "local_epsilon"), [(10**4, 0.1), (10**4, 1.0), (10**6, 1.0), (10**9, 2.0)])
def test_refined_ends_only_help(reports: int, local_epsilon: float) -> None:
    spread = swap_chain_spread(reports, local_epsilon)
    for part in (0.0, 1.0, 3.0, 5.0):
        plain = swap_chain_delta(reports, local_epsilon, part * spread)
        refined = swap_chain_delta(reports, local_epsilon, part * spread, refinement=4.0)
        assert 0.8 * plain <= refined <= plain * (1 + 1e-9)
        least = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports).delta(part * spread)
        assert least <= refined


@pytest.mark.parametrize(("reports", "local_epsilon"), [(10**6, 0.1), (10**6, 1.0), (10**9, 3.0)])
def test_limits_of_many_reports(reports: int, local_epsilon: float) -> None:
    """At ε = 0, δ of normal losses is their standard deviation over √(2π)."""
    chains = swap_chain_delta(reports, local_epsilon, 0.0)
    root = math.sqrt(2 * math.pi)
    assert swap_chain_spread(reports, local_epsilon) <= chains * root
    assert chains * root <= 1.02 * swap_chain_spread(reports, local_epsilon)
