"""Intervals hold the truth as often as they say: exactly, summed over all counts, and on simulated coins."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from shoal import (
    Gaussian,
    HadamardResponse,
    Laplace,
    OneBitMean,
    ParameterError,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    RecursiveHadamardResponse,
    Simulation,
    UnaryEncoding,
)
from shoal.estimation.design import Moments
from shoal.estimation.interval import fewest, holders, least_share, most, upper_tail
from shoal.mechanisms import Categorical, kinds
from shoal.mechanisms.mean import MeanMechanism
from shoal.mechanisms.mechanism import Counts
from tests.exhaustive import representative

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

Floats = NDArray[np.float64]

_FALSE_ALARM = 1e-9
"""Of each statistical test; there are fewer than 1,000 of them here, each with its own seed: 1e-6 together."""
_CONFIDENCES = (0.5, 0.9, 0.95, 0.99, 0.9999)


def masses(people: int, total: int, high: float, low: float) -> tuple[int, Floats]:
    """Return the probabilities of Bin(m, p) + Bin(n − m, q) in a window without 1e-12 of them, and where it starts."""
    parts = []
    for count, rate in ((people, high), (total - people, low)):
        reach = 7.5 * math.sqrt(count * rate * (1 - rate)) + 40
        first, last = max(0, math.floor(count * rate - reach)), min(count, math.ceil(count * rate + reach))
        parts.append((first, stats.binom.pmf(np.arange(first, last + 1), count, rate)))
    (first, one), (second, two) = parts
    size = 1 << (len(one) + len(two)).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(two, size), size)[: len(one) + len(two) - 1]
    assert found.sum() == pytest.approx(1, abs=1e-9)
    return first + second, found


def misses(people: int, total: int, rates: tuple[float, float], confidence: float) -> tuple[float, float]:
    """Return how likely the interval lies above the truth, and below it."""
    start, probabilities = masses(people, total, *rates)
    counts, reports = (
        np.arange(start, start + len(probabilities), dtype=np.float64),
        np.full(len(probabilities), float(total)),
    )
    low, high = (limit(counts, reports, *rates, (1 - confidence) / 2) for limit in (fewest, most))
    assert (low <= high).all()
    return float(probabilities[low > people].sum()), float(probabilities[high < people].sum())


def response_rates(categories: int, local_epsilon: float) -> tuple[float, float]:
    moments = RandomizedResponse(categories=categories, local_epsilon=local_epsilon).moments
    return moments.own[0], moments.same[0]


_FEW_FLIPS = [(2, 6.0, 100), (10, 10.0, 3000), (10, 6.0, 50), (10, 9.0, 1000)]
"""Where the normal approximation covered 79 to 81 % instead of 95 %."""
_SMALL = [*product((2, 3, 10, 1000), (0.5, 2.0, 6.0, 12.0), (1, 2, 3, 10, 50)), *_FEW_FLIPS]


@pytest.mark.slow
@pytest.mark.parametrize("confidence", _CONFIDENCES)
def test_exact_coverage_for_every_number_of_holders(confidence: float) -> None:
    """Both tails of all m, for k-ary response with up to 3,000 people; none misses more often than it says."""
    level = (1 - confidence) / 2
    for categories, local_epsilon, total in _SMALL:
        rates = response_rates(categories, local_epsilon)
        counts, reports = np.arange(total + 1, dtype=np.float64), np.full(total + 1, float(total))
        low, high = (limit(counts, reports, *rates, level) for limit in (fewest, most))
        assert (np.diff(low) >= 0).all()
        assert (np.diff(high) >= 0).all()
        for people in range(0, total + 1, 1 if total < 3000 else 7):
            start, probabilities = masses(people, total, *rates)
            here = slice(start, start + len(probabilities))
            above, below = probabilities[low[here] > people].sum(), probabilities[high[here] < people].sum()
            assert max(above, below) <= level * (1 + 1e-6) + 1e-11, (categories, local_epsilon, total, people)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", _CONFIDENCES)
@pytest.mark.parametrize("total", [3000, 10**4, 10**5, 10**6])
def test_exact_coverage_with_many_people(total: int, confidence: float) -> None:
    """On both sides of the switch from exact tails to the expansion; the latter is off by less than 1 in 500."""
    level = (1 - confidence) / 2
    unary = UnaryEncoding(categories=5, local_epsilon=8).moments
    kinds = [response_rates(*kind) for kind in ((2, 6.0), (10, 10.0), (100, 4.0), (1000, 7.0), (3, 0.3))]
    for rates in (*kinds, (unary.own[0], unary.same[0])):
        for people in {0, 1, 30, 500, total // 10, total // 2, total}:
            assert max(misses(people, total, rates, confidence)) <= level * 1.002, (rates, people)


@pytest.mark.parametrize(("categories", "local_epsilon", "total"), _FEW_FLIPS)
def test_the_library_covers_where_few_reports_are_flipped(categories: int, local_epsilon: float, total: int) -> None:
    """Exactly, from the counts of a category to the ends of `estimate`, where everybody is equally frequent."""
    made = RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    people = total // categories
    start, probabilities = masses(people, total, *response_rates(categories, local_epsilon))
    covered = 0.0
    for count, probability in enumerate(probabilities, start=start):
        if probability > 1e-9 and count <= total:
            values = np.zeros(categories, np.int64)
            values[0], values[1] = count, total - count
            found = made.estimate(Counts(made, values, total))
            covered += probability * bool(found.lower[0] <= people / total <= found.upper[0])
            assert found.lower[0] <= min(max(found.frequencies[0], 0), 1) <= found.upper[0]
    assert covered >= 0.95 - 1e-6


# Several blocks


def joint(people: tuple[int, int, int], moments: Moments) -> Floats:
    """Return how likely so many reports support the category and so many others are in its block, for a few people."""
    found = np.ones((1, 1))
    for count, (support, block) in zip(people, (moments.own, moments.same, moments.other), strict=True):
        for _ in range(count):
            grown = np.zeros((found.shape[0] + 1, found.shape[1] + 1))
            grown[:-1, :-1] += (1 - block) * found
            grown[1:, :-1] += support * found
            grown[:-1, 1:] += (block - support) * found
            found = grown
    return found


_BLOCKED: list[Any] = [
    HadamardResponse(categories=8, local_epsilon=1.0, blocks=4),
    HadamardResponse(categories=64, local_epsilon=6.0, blocks=16),
    RecursiveHadamardResponse(categories=8, local_epsilon=10.0, blocks=2),
    ProjectiveGeometryResponse(categories=12, local_epsilon=4.0, order=2, dimension=3, blocks=6),
    ProjectiveGeometryResponse(categories=12, local_epsilon=9.0, order=2, dimension=3, blocks=2),
    ProjectiveGeometryResponse(categories=60, local_epsilon=6.0, order=5, dimension=3, blocks=2),
    ProjectiveGeometryResponse(categories=12, local_epsilon=3.0, order=3, dimension=2, blocks=4),
]


@pytest.mark.slow
@pytest.mark.parametrize("made", _BLOCKED, ids=repr)
@pytest.mark.parametrize("total", [1, 2, 3, 10, 25])
def test_exact_coverage_of_blocks(made: Categorical, total: int) -> None:
    """Summed over all pairs of counts, for all or many numbers of people who hold a category and share its block."""
    moments, step = made.moments, 1 if total < 25 else 6
    support, others = (part.ravel() for part in np.indices((total + 1, total + 1)).astype(np.float64))
    fits = support + others <= total
    support, block = support[fits], (support + others)[fits]
    for confidence in (0.5, 0.95, 0.9999):
        low, high = holders(support, block, total, moments, confidence=confidence)
        assert (low <= high).all()
        for inside in range(0, total + 1, step):
            for people in range(0, inside + 1, step):
                probabilities = joint((people, inside - people, total - inside), moments).ravel()[fits]
                missed = float(probabilities[(people < low) | (people > high)].sum())
                assert missed <= (1 - confidence) * (1 + 1e-9) + 1e-12, (inside, people, confidence)


def drawn(
    people: int, probabilities: tuple[float, float], runs: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    block = rng.binomial(people, min(probabilities[1], 1.0), runs)
    return rng.binomial(block, probabilities[0] / probabilities[1]).astype(np.float64), block.astype(np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "confidence"), representative(product(_BLOCKED, (0.5, 0.95, 0.99)), len(_BLOCKED)), ids=repr
)
def test_coverage_of_blocks_with_many_people(made: Categorical, confidence: float) -> None:
    """10,000 draws a setting, on both sides of the switch to the expansion: at most 1 in 20 misses is too many."""
    rng, runs, moments = np.random.default_rng(11), 10_000, made.moments
    for total, share, part in product((50, 400, 3000, 10**6), (0.01, 0.2, 1.0), (0.0, 0.3, 1.0)):
        inside = int(share * total)
        people = int(part * inside)
        groups = zip((people, inside - people, total - inside), (moments.own, moments.same, moments.other), strict=True)
        (support, block) = (sum(part) for part in zip(*(drawn(*group, runs, rng) for group in groups), strict=True))
        low, high = holders(np.asarray(support), np.asarray(block), total, moments, confidence=confidence)
        missed = int(np.count_nonzero((people < low) | (people > high)))
        assert stats.binom.sf(missed - 1, runs, 1.05 * (1 - confidence)) > _FALSE_ALARM, (total, inside, people)


# Every mechanism, from values to intervals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "people"),
    representative(
        product(sorted(MECHANISMS), [(1, 4.0), (2, 1.0), (10, 6.0), (60, 6.0), (1000, 5.0)]), 4 * len(MECHANISMS) // 3
    ),
)
def test_coverage_of_every_mechanism(name: str, people: tuple[int, float]) -> None:
    """Each of 6 categories in 300 runs, on coins that can be tossed again: consistent with 95 % and more."""
    runs, categories = 300, 6
    total, local_epsilon = people
    made = MECHANISMS[name](categories=categories, local_epsilon=local_epsilon)
    values = np.arange(total) ** 2 % 7 % categories
    truth = np.bincount(values, minlength=categories) / total
    reports = made.randomize(np.tile(values, runs), simulation=Simulation(seed=total))
    found = [made.estimate(made.aggregate(part)) for part in np.split(reports, runs)]
    held = np.sum([(each.lower <= truth) & (truth <= each.upper) for each in found], axis=0)
    assert (stats.binom.cdf(held, runs, 0.95) > _FALSE_ALARM).all()
    for each in found:
        near = np.clip(each.frequencies, 0, 1)
        assert ((each.lower <= near) & (near <= each.upper)).all()
        assert np.array_equal(each.outside, (each.frequencies < 0) | (each.frequencies > 1))
        assert (each.note is None) == (not each.outside.any())


_SHAPES: dict[str, dict[str, int]] = {
    "local-hashing": {"buckets": 3},
    "private-independent-rappor": {"order": 5, "window": 2},
    "projective-geometry-response": {"order": 2, "dimension": 3, "blocks": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("local_epsilon", [1e-12, 0.01, 3.0, 45.0, 800.0])
def test_intervals_are_never_empty_and_nested(name: str, local_epsilon: float) -> None:
    made = MECHANISMS[name](categories=6, local_epsilon=local_epsilon, **_SHAPES.get(name, {}))
    for total in (1, 7, 5000):
        counts = made.aggregate(made.randomize(np.zeros(total, np.int64), simulation=Simulation(seed=3)))
        found = [made.estimate(counts, confidence=each) for each in (1e-6, *_CONFIDENCES, 1 - 1e-15)]
        for inner, outer in pairwise(found):
            assert ((outer.lower <= inner.lower) & (inner.lower <= inner.upper) & (inner.upper <= outer.upper)).all()
            assert ((outer.lower >= 0) & (outer.upper <= 1)).all()


def test_an_estimate_far_outside_still_has_an_interval() -> None:
    """Everybody reported it, or nobody did: the interval holds the end of [0, 1] that is the nearest."""
    made = UnaryEncoding(categories=2, local_epsilon=1)
    found = made.estimate(Counts(made, np.array([1000, 0]), 1000))
    assert found.frequencies[0] > 2
    assert found.frequencies[1] < -1
    assert 0.8 < found.lower[0] <= found.upper[0] == 1
    assert 0 == found.lower[1] <= found.upper[1] < 0.2
    certain = RandomizedResponse(categories=2, local_epsilon=40)
    found = certain.estimate(Counts(certain, np.array([1000, 0]), 1000))
    assert (found.lower.tolist(), found.upper.tolist()) == ([1.0, 0.0], [1.0, 0.0])


def test_too_small_a_difference_is_refused() -> None:
    made = RandomizedResponse(categories=3, local_epsilon=1e-17)
    with pytest.raises(ParameterError, match="too small to estimate from"):
        made.estimate(made.aggregate([0, 1, 2]))


@pytest.mark.parametrize(("people", "total"), [(0, 10**15), (3, 10**15), (40, 10**12), (7, 9), (2500, 2600)])
def test_exact_tails(people: int, total: int) -> None:
    """Against a sum over both binomials, with rates that make few of very many people differ."""
    low = min(20 / total, 0.3)
    high = 1 - min(5 / max(people, 10), 0.4)
    yes, no = np.arange(400), np.arange(people + 1)
    others = stats.poisson.pmf(yes, total * low) if total > 10**9 else stats.binom.pmf(yes, total - people, low)
    both = np.convolve(others, stats.binom.pmf(no, people, high))
    for count in (0, 1, people // 2, people, people + 20, people + 45):
        found = upper_tail(np.array([1.0 * count]), np.array([1.0 * people]), np.array([1.0 * total]), high, low)
        assert found[0] == pytest.approx(both[count:].sum(), abs=1e-9)


# Means


def distribution(mechanism: MeanMechanism, share: float) -> Floats:
    """Return the probabilities of all reports of one value: the given share of a step above the lower end."""
    noise = mechanism.noise
    ends = [
        np.array([float(Fraction(part, 1 << noise.bits)) for part in noise.distribution(point)]) for point in (0, 1)
    ]
    return np.asarray((1 - share) * ends[0] + share * ends[1])


_MEANS: list[Any] = [
    Laplace(local_epsilon=1.0),
    Laplace(local_epsilon=0.02),
    Laplace(local_epsilon=600.0),
    Gaussian(sigma=0.4),
    Gaussian(sigma=40.0),
    OneBitMean(local_epsilon=1.0),
    OneBitMean(local_epsilon=8.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "total"), representative(product(_MEANS, (1, 2, 3, 10, 60)), 12), ids=repr)
def test_exact_coverage_of_means(mechanism: MeanMechanism, total: int) -> None:
    """Summed over all totals of reports, where everybody holds the same number."""
    for share, confidence in product((0.0, 0.02, 0.5, 0.9), (0.5, 0.95, 0.9999)):
        one = distribution(mechanism, share)
        size = total * (len(one) - 1) + 1
        space = 1 << size.bit_length()
        probabilities = np.fft.irfft(np.fft.rfft(one, space) ** total, space)[:size]
        ends = partial(mean_ends, mechanism, total, confidence)
        truth = share / mechanism.grid.intervals
        above = first_of(size, lambda number, ends=ends, truth=truth: ends(number)[0] > truth + 1e-12)
        below = first_of(size, lambda number, ends=ends, truth=truth: ends(number)[1] >= truth - 1e-12)
        missed = float(probabilities[above:].sum() + probabilities[:below].sum())
        assert missed <= (1 - confidence) * (1 + 1e-6) + 1e-11, (share, confidence)


def mean_ends(mechanism: MeanMechanism, total: int, confidence: float, number: int) -> tuple[float, float]:
    """Return the interval from reports with this sum, which is all that matters."""
    values = np.zeros(mechanism.outputs, np.int64)
    each, rest = divmod(number, total)
    values[min(each + 1, mechanism.outputs - 1)] += rest
    values[each] += total - rest
    found = mechanism.estimate(Counts(mechanism, values, total), confidence=confidence)
    assert found.lower <= found.mean <= found.upper
    return found.lower, found.upper


def first_of(size: int, holds: Any) -> int:
    """Return the first whole number at which something that stays true is true, or the size."""
    below, above = -1, size
    while above - below > 1:
        middle = (above + below) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


@pytest.mark.parametrize("total", [1, 2, 30, 700, 10**6, 10**12])
@pytest.mark.parametrize("level", [0.25, 0.025, 5e-5])
def test_equal_bits_have_the_interval_of_clopper_and_pearson(total: int, level: float) -> None:
    for count in {2, 3, 20, 90, 400, total // 2, total - 1, total} - {0, 1}:
        if count <= total:
            exact = stats.beta.ppf(level, count, total - count + 1)
            found = least_share(count, total, level)
            assert found == pytest.approx(min(exact, (count - 1) / total), rel=2e-4 if count > 100 else 3e-9)
            assert found <= exact * (1 + 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("total", [1, 5, 40])
def test_unequal_bits_do_not_miss_more_often(total: int) -> None:
    """Random people: the number of ones is a sum of different bits, and equal ones are the worst for the interval."""
    mechanism, rng = OneBitMean(local_epsilon=3.0), np.random.default_rng(4)
    noise = mechanism.noise
    found = [mechanism.estimate(Counts(mechanism, np.array([total - ones, ones]), total)) for ones in range(total + 1)]
    for _ in range(200):
        values = rng.choice([rng.beta(0.2, 2, total), rng.beta(2, 0.2, total), rng.integers(0, 2, total)])
        probabilities = np.ones(1)
        for value in values:
            one = float(noise.centre) + float(noise.slope) * value
            probabilities = np.convolve(probabilities, [1 - one, one])
        missed = sum(
            probability
            for probability, each in zip(probabilities, found, strict=True)
            if not each.lower - 1e-12 <= values.mean() <= each.upper + 1e-12
        )
        assert missed <= 0.05
