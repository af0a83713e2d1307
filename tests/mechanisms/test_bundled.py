"""Covers and dummies as they run: bundles, counts, exact noise, errors as the formula says, intervals that hold."""

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

import shoal
from shoal.errors import DamagedError
from shoal.mechanisms import Counts, Simulation, mechanism_of
from shoal.mechanisms.bundled import binomial_masses, quantiles
from shoal.mechanisms.coins import Coins
from shoal.planning.simulation import run_trials, zipf_people

_GEOMETRY = shoal.ProjectiveGeometryResponse(categories=200, local_epsilon=14, order=17, dimension=3, blocks=1)
_BLOCKS = shoal.HadamardResponse(categories=60, local_epsilon=9, blocks=4)
_MECHANISMS = [
    shoal.Covered(categories=100, fill=0.1361),
    shoal.Covered(categories=5, slots=3, fill=1),
    shoal.Covered(categories=3, slots=2, fill=0.25, response=shoal.RandomizedResponse(categories=3, local_epsilon=3)),
    shoal.Covered(categories=200, slots=1, fill=0.6, response=_GEOMETRY),
    shoal.Covered(categories=60, slots=1, fill=0.5, response=_BLOCKS),
    shoal.Dummies(categories=100, epsilon=0.5, limit=50),
    shoal.Dummies(categories=7, epsilon=0.2, limit=5, helpers=3),
]
_IDS = ["categories", "all filled", "randomized", "geometry", "blocks", "dummies", "helpers"]


@pytest.mark.parametrize("made", _MECHANISMS, ids=_IDS)
def test_schemas_and_counts_come_back(made: shoal.Covered | shoal.Dummies) -> None:
    assert mechanism_of(json.loads(json.dumps(made.to_dict()))) == made
    people = np.arange(500) % made.categories
    bundles = made.randomize(people, simulation=Simulation(seed=1))
    assert len(bundles) == 500 and bundles.size == 500 * made.bundle
    messages = made.from_bytes(made.to_bytes(bundles))
    assert np.array_equal(messages, bundles.ravel())
    shuffled = made.aggregate(messages[np.random.default_rng(1).permutation(len(messages))])
    assert shuffled == made.aggregate(bundles) and shuffled.reports == 500
    counts = made.released(shuffled, simulation=Simulation(seed=2))
    assert Counts.from_bytes(counts.to_bytes()) == counts
    more = made.aggregate(bundles[:100]) + made.aggregate(bundles[100:])
    assert more == shuffled
    estimate = made.estimate(counts)
    assert estimate.reports == 500 and np.all(estimate.lower <= estimate.upper)
    wrong = counts.values.copy()
    wrong[0] += 10**6
    with pytest.raises(DamagedError):
        Counts.from_bytes(Counts(made, wrong, 500).to_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("made", _MECHANISMS, ids=_IDS)
def test_errors_are_those_of_the_formula(made: shoal.Covered | shoal.Dummies) -> None:
    """60 trials: the mean of k squares, over theory, has a deviation of √(2/(60·k)) or less for independent bins.

    It may be off by 5 %, or by four such deviations where there are few categories: a false alarm in 16,000.
    """
    people = zipf_people(20_000, made.categories)
    done = run_trials(made, people, trials=60, seed=5)
    ratio = done.to_dict()["ratio"]
    assert abs(ratio - 1) < max(0.05, 4 * math.sqrt(2 / (60 * (made.categories - 1)))), ratio
    assert done.coverage > 0.94  # of 60·k intervals, at 95 %: discrete ones hold more often


def test_frequent_categories_are_as_good_as_rare_ones() -> None:
    frequencies = np.array([0.5, *([0.5 / 99] * 99)])
    for made in (shoal.Covered(categories=100, fill=0.1361), shoal.Dummies(categories=100, epsilon=0.5, limit=50)):
        variance = made.variance(frequencies, reports=10**5)
        assert variance[0] == variance[1]
    assert math.sqrt(shoal.Covered(categories=100, fill=0.1361).variance(reports=10**5)[0]) == pytest.approx(
        math.sqrt(13_610 * 0.99 / 100) / 1e5, rel=1e-8
    )


def test_a_uniform_message_for_nobody_would_be_counted_and_a_category_of_its_own_is_not() -> None:
    made = shoal.Covered(categories=11, fill=1)
    n, listed = 40_000, 20_000
    coins = Simulation(seed=3)
    uniform = np.concatenate([np.zeros(listed, np.int64), coins.below(11, n - listed).astype(np.int64)])
    biased = made.estimate(made.aggregate(made.randomize(uniform, simulation=coins)))
    assert biased.frequencies[5] > 20 * biased.standard_errors[5]
    own = np.concatenate([np.zeros(listed, np.int64), np.full(n - listed, 10)])
    fair = made.estimate(made.aggregate(made.randomize(own, simulation=coins)))
    assert abs(fair.frequencies[5]) < 5 * fair.standard_errors[5]  # a false alarm in a million


class _Words(Coins):
    """Coins that show given words."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> NDArray[np.uint64]:
        shown, self._words = self._words[:count], self._words[count:]
        return np.array(shown, np.uint64)


def test_events_of_any_ratio_are_exact() -> None:
    """A word that is equal to the first 64 digits of a third asks for 64 more."""
    third = (1 << 64) // 3
    coins = _Words([third - 1, third, third, third + 1, third - 1, third + 1])
    assert coins.happen(1, 3, 4).tolist() == [True, True, False, False]
    assert Simulation(seed=1).happen(5, 5, 3).all() and not Simulation(seed=1).happen(0, 5, 3).any()


@pytest.mark.slow
def test_the_noise_of_dummies_has_its_distribution() -> None:
    """χ² over all values with 2·10⁶ draws: beyond five deviations once in a million."""
    made = shoal.Dummies(categories=2, epsilon=0.9, limit=11)
    count = 2_000_000
    noise = made.noise(Simulation(seed=4), count)
    assert np.abs(noise).max() == 11
    seen = np.bincount(noise + 11, minlength=23)
    decay = made.decay / 2**64
    powers = decay ** np.abs(np.arange(-11.0, 12))
    expected = count * powers / powers.sum()
    squares = float(((seen - expected) ** 2 / expected).sum())
    assert abs(squares - 22) < 5 * math.sqrt(44)


def test_dummies_are_drawn_once() -> None:
    made = shoal.Dummies(categories=4, epsilon=1, limit=20)
    counts = made.aggregate([0, 1, 1])
    with pytest.raises(shoal.ParameterError, match="exact histogram"):
        made.estimate(counts)
    released = made.released(counts)
    with pytest.raises(shoal.ParameterError, match="already"):
        made.released(released)
    messages = np.concatenate([made.randomize([0, 1, 1]), made.dummies()])
    assert made.aggregate(messages, people=3).reports == 3
    with pytest.raises(shoal.ParameterError, match="people"):
        made.aggregate(messages, people=len(messages) + 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"categories": 3, "fill": 0}, "fill"),
        ({"categories": 3, "fill": 1.1}, "fill"),
        ({"categories": 3, "fill": 0.5, "slots": 0}, "slots"),
        ({"categories": 3, "fill": 0.5, "response": shoal.Rappor(categories=3, local_epsilon=1)}, "response"),
        (
            {"categories": 3, "fill": 0.5, "response": shoal.RandomizedResponse(categories=4, local_epsilon=1)},
            "response",
        ),
    ],
)
def test_bad_covers_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(shoal.ParameterError, match=words):
        shoal.Covered(**arguments)  # type: ignore[arg-type]


def test_bad_messages_are_refused() -> None:
    made = shoal.Covered(categories=3, fill=0.5)
    with pytest.raises(shoal.ParameterError, match="bundles of 2"):
        made.aggregate([0, 1, 2])
    with pytest.raises(shoal.ParameterError, match="message 1 is 4"):
        made.aggregate([0, 4])
    for arguments in ({"epsilon": 1e-30}, {"epsilon": 0}, {"epsilon": 1, "limit": 0}, {"epsilon": 1, "limit": 10**6}):
        with pytest.raises(shoal.ParameterError):
            shoal.Dummies(**{"categories": 3, "limit": 5} | arguments)


def test_quantiles_are_those_of_the_sum() -> None:
    for trials, share, level in ((10, 0.3, 0.025), (1000, 0.01, 0.005), (50, 0.9, 0.1), (0, 0.5, 0.1)):
        exact = [math.comb(trials, x) * share**x * (1 - share) ** (trials - x) for x in range(trials + 1)]
        first, masses = binomial_masses(trials, share)
        assert masses == pytest.approx(exact[first : first + len(masses)], rel=1e-9, abs=1e-30)
        low, high = (first + place for place in quantiles(masses, level))
        assert sum(exact[:low]) <= level < sum(exact[: low + 1])
        assert sum(exact[high + 1 :]) <= level < sum(exact[high:])
    assert quantiles(np.ones(1), 0.1) == (0, 0)


@pytest.mark.parametrize(
    ("order", "dimension", "categories"), [(3, 2, 4), (5, 3, 20), (5, 3, 31), (7, 4, 300), (2, 5, 31)]
)
def test_candidates_are_counted_as_the_whole_geometry_would_be(order: int, dimension: int, categories: int) -> None:
    response = shoal.ProjectiveGeometryResponse(
        categories=categories, local_epsilon=3, order=order, dimension=dimension, blocks=1
    )
    coins = shoal.Simulation(seed=order)
    reports = response.randomize(np.arange(3000) % categories, simulation=coins)
    support, block = response.supported_by(reports)
    one_by_one = [response.supports(reports, np.full(3000, value)).sum() for value in range(categories)]
    assert support.tolist() == one_by_one
    assert support.tolist() == response.supported(response.tally(reports), 3000)[0].tolist()
    assert block.tolist() == [3000]
    for fill in (1, 0.5):
        made = shoal.Covered(categories=categories, fill=fill, response=response)
        messages = made.randomize(np.arange(500) % categories, simulation=coins).ravel()
        whole, listed = made.estimate(made.aggregate(messages)), made.estimate_messages(messages[::-1])
        assert whole.frequencies.tolist() == listed.frequencies.tolist()
        assert whole.standard_errors.tolist() == listed.standard_errors.tolist()


def test_a_geometry_too_large_to_transform_is_decoded_by_its_candidates() -> None:
    response = shoal.ProjectiveGeometryResponse(categories=40, local_epsilon=20, order=211, dimension=3, blocks=1)
    made = shoal.Covered(categories=40, fill=1, response=response)
    estimate = made.estimate(made.aggregate(made.randomize(np.full(5000, 7), simulation=shoal.Simulation(seed=1))))
    assert estimate.frequencies[7] == pytest.approx(1, abs=6 * estimate.standard_errors[7])
    assert np.abs(np.delete(estimate.frequencies, 7)).max() < 6 * estimate.standard_errors[0]


def test_messages_are_estimated_whatever_the_response() -> None:
    plain = shoal.Covered(categories=9, fill=0.5)
    blocks = shoal.ProjectiveGeometryResponse(categories=9, local_epsilon=9, order=2, dimension=2, blocks=3)
    for made in (plain, shoal.Covered(categories=9, fill=0.5, response=blocks)):
        messages = made.randomize(np.arange(900) % 9, simulation=shoal.Simulation(seed=1))
        assert (
            made.estimate_messages(messages).frequencies.tolist()
            == made.estimate(made.aggregate(messages)).frequencies.tolist()
        )
        for wrong in (messages.ravel()[:-1], messages[:0]):
            with pytest.raises(shoal.ParameterError, match="no whole number of bundles"):
                made.estimate_messages(wrong)
