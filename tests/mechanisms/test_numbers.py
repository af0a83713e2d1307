"""Laplace, Gaussian and one-bit mechanisms, from the integers to the estimate.

Everything random is seeded, so a test that passes always passes. Each statistical limit would fail for one seed in 10⁷
if the code is right; there are fewer than 60 of them.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
import zlib
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from shoal.errors import FileError, ParameterError
from shoal.mechanisms.coins import Coins, Simulation
from shoal.mechanisms.gaussian import Gaussian
from shoal.mechanisms.integer_noise import Grid, Noise, gaussian_noise, laplace_noise
from shoal.mechanisms.laplace import Laplace
from shoal.mechanisms.mean import MeanMechanism
from shoal.mechanisms.mechanism import Counts
from shoal.mechanisms.number_range import NumberRange
from shoal.mechanisms.one_bit_mean import OneBitMean
from shoal.mechanisms.randomized_response import RandomizedResponse
from tests.exhaustive import amount
from tests.work import calls

LIMIT = 5.33
"""A normal variable exceeds so many deviations with probability 1e-7."""

MECHANISMS: list[MeanMechanism] = [
    Laplace(local_epsilon=0.01, lower=-1, upper=3),
    Laplace(local_epsilon=0.3),
    Laplace(local_epsilon=2.0, lower=10, upper=110),
    Laplace(local_epsilon=20.0),
    Gaussian(sigma=0.02),
    Gaussian(sigma=1.5, lower=-2, upper=-1),
    Gaussian(sigma=300.0, lower=0, upper=2),
    OneBitMean(local_epsilon=0.5),
    OneBitMean(local_epsilon=4.0, lower=-5, upper=5),
]
EPSILONS = (1e-6, 0.001, 0.01, 0.05, 0.1, 1.0, 3.3, 8.0, 50.0)


class Scripted(Coins):
    """Coins that give these words, and then 0."""

    def __init__(self, words: list[int]) -> None:
        self._script = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        found, self._script = self._script[:count], self._script[count:]
        return np.array(found + [0] * (count - len(found)), np.uint64)

    @property
    def left(self) -> int:
        return len(self._script)


def growth(epsilon: float) -> Fraction:
    """Return a rational number just below e^ε."""
    with ctx.workprec(3000):
        return Fraction(int((arb(epsilon).exp() * arb(2) ** 2000).lower().floor().fmpz()), 1 << 2000)


def largest_ratio(noise: Noise) -> Fraction:
    """Return the largest ratio of the probabilities of one report from two points, over all of them."""
    distributions = [noise.distribution(point) for point in range(noise.grid.intervals + 1)]
    assert all(
        sum(distribution) == 1 << noise.bits and len(distribution) == noise.grid.outputs
        for distribution in distributions
    )
    return max(Fraction(max(column), min(column)) for column in zip(*distributions, strict=True))


def people(mechanism: MeanMechanism, count: int) -> NDArray[np.float64]:
    """Return values all over the interval, the ends among them."""
    shares = np.random.default_rng(3).beta(0.6, 1.1, count)
    shares[:3] = 0.0, 1.0, 0.5
    return np.asarray(mechanism.lower + mechanism.length * shares)


def positions(mechanism: MeanMechanism, reports: NDArray[Any]) -> NDArray[np.float64]:
    """Return one estimate for each row of reports."""
    noise = mechanism.noise
    share = (reports.mean(axis=1) - float(noise.centre)) / float(noise.slope * noise.grid.intervals)
    return np.asarray(mechanism.lower + mechanism.length * share)


# The integers


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", EPSILONS)
def test_laplace_is_private_as_rationals(local_epsilon: float) -> None:
    noise = laplace_noise(local_epsilon)
    found, most = largest_ratio(noise), growth(local_epsilon)
    assert found <= most
    assert found >= growth(local_epsilon * (1 - 2.0**-52))  # and no privacy is left unused
    assert all(min(noise.distribution(point)) > 0 for point in (0, noise.grid.intervals))


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1e-9, 120.0, 700.0])
def test_laplace_at_the_limits(local_epsilon: float) -> None:
    noise = laplace_noise(local_epsilon)
    assert noise.holds(local_epsilon)
    assert not noise.holds(local_epsilon * (1 - 1e-15))
    lowest, highest = noise.distribution(0), noise.distribution(noise.grid.intervals)
    assert lowest == highest[::-1]
    assert max(Fraction(*pair) for pair in zip(lowest, highest, strict=True)) <= growth(local_epsilon)


@pytest.mark.parametrize("local_epsilon", [1e-15, 1e-3, 0.3, 1.0, 8.0, 30.0, 50.0, 300.0])
def test_one_bit_is_private_as_rationals(local_epsilon: float) -> None:
    mechanism = OneBitMean(local_epsilon=local_epsilon)
    ratio = largest_ratio(mechanism.noise)
    assert 1 < ratio <= growth(mechanism.local_epsilon)
    assert mechanism.local_epsilon <= local_epsilon
    assert mechanism.noise.thresholds[0] == (1 << 127) + (mechanism.truth << 63)
    assert OneBitMean(local_epsilon=mechanism.local_epsilon) == mechanism
    assert OneBitMean(local_epsilon=mechanism.local_epsilon).truth == mechanism.truth


def test_a_table_that_is_not_private_is_found_out() -> None:
    noise = laplace_noise(1.0)
    for place in (0, 5, 700, 728):
        moved = list(noise.thresholds)
        moved[place] += (moved[place] - (moved[place - 1] if place else 0)) >> 8
        moved[-1 - place] = (1 << noise.bits) - moved[place]
        assert not Noise(noise.grid, noise.bits, tuple(moved), noise.first).holds(1.0)
    assert not Noise(Grid(1, 1, 0), 128, (1 << 126,)).holds(1.0)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 2.0, 16.0, 500.0, 1e6])
def test_gaussian_integers_are_the_rounded_normal_distribution(sigma: float) -> None:
    noise = gaussian_noise(sigma)
    grid = noise.grid
    for point in {0, grid.intervals // 2, grid.intervals}:
        distribution = noise.distribution(point)
        assert sum(distribution) == 1 << noise.bits
        edges = (np.arange(-grid.margin, grid.intervals + grid.margin) * grid.width + 0.5) / grid.intervals
        below = np.concatenate(([0.0], stats.norm.cdf(edges, point / grid.intervals, sigma), [1.0]))
        assert np.allclose([weight / (1 << noise.bits) for weight in distribution], np.diff(below), rtol=0, atol=1e-13)
        assert noise.distribution(grid.intervals - point) == distribution[::-1]


@pytest.mark.parametrize("local_epsilon", EPSILONS)
def test_laplace_integers_are_the_rounded_distribution(local_epsilon: float) -> None:
    noise = laplace_noise(local_epsilon)
    grid = noise.grid
    edges = (np.arange(-grid.margin, grid.intervals + grid.margin) * grid.width + 0.5) / grid.intervals
    below = np.concatenate(([0.0], stats.laplace.cdf(edges, 0, 1 / local_epsilon), [1.0]))
    assert np.allclose(
        [weight / (1 << noise.bits) for weight in noise.distribution(0)], np.diff(below), rtol=0, atol=1e-13
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        *(Laplace(local_epsilon=local) for local in (1e-9, 1e-3, 0.0624, 0.0626, 1.0, 50.0, 256.0, 700.0)),
        *(Gaussian(sigma=sigma) for sigma in (0.01, 0.05, 1.0, 31.9, 1e6)),
    ],
    ids=repr,
)
def test_moments_and_sizes(mechanism: MeanMechanism) -> None:
    laplace_noise.cache_clear()
    gaussian_noise.cache_clear()
    with calls() as count:
        mechanism.randomize([0.5], simulation=Simulation(seed=1))
    assert count() < 200_000  # at ε₀ = 256 it is half of that, a tenth of a second
    ideal = 2 / mechanism.local_epsilon**2 if isinstance(mechanism, Laplace) else mechanism.sigma**2  # type: ignore[attr-defined]
    assert mechanism.variance(reports=1) == pytest.approx(ideal, rel=0.005)
    assert mechanism.variance([0.0, 1.0], reports=1) <= mechanism.variance(reports=1)
    assert mechanism.outputs <= 1 << 13
    assert mechanism.bytes_per_report == 2
    assert mechanism.noise.grid == mechanism.grid
    assert max(mechanism.noise.thresholds) < 1 << mechanism.noise.bits
    assert all(one <= two for one, two in pairwise(mechanism.noise.thresholds))


# The draws


@pytest.mark.parametrize("noise", [laplace_noise(1.0), gaussian_noise(0.01), gaussian_noise(1e3)])
def test_ties_take_all_bits(noise: Noise) -> None:
    words, shift = noise.bits // 64, noise.bits - 64
    chosen = [0, 1, 17, len(noise.thresholds) // 2, len(noise.thresholds) - 20]
    for place in chosen:
        threshold = noise.thresholds[place]
        for number in (threshold - 1, threshold, threshold + 1):
            parts = [number >> (64 * part) & (1 << 64) - 1 for part in reversed(range(words))]
            coins = Scripted([parts[0], 123, *parts[1:]])
            found = noise.draw(2, coins)
            assert found[0] == sum(number >= other for other in noise.thresholds)
            assert found[1] == sum(123 << shift >= other for other in noise.thresholds)
    top = noise.thresholds[len(noise.thresholds) // 2] >> shift
    for word in (top - 1, top + 1):  # no tie: nothing else is drawn
        coins = Scripted([word, 7])
        assert noise.draw(1, coins)[0] == sum(word << shift >= other for other in noise.thresholds)
        assert coins.left == 1


def test_the_first_and_last_words() -> None:
    noise = laplace_noise(1.0)
    found = noise.draw(2, Scripted([0, (1 << 64) - 1, 1]))
    assert found[0] <= 40
    assert found[1] >= len(noise.thresholds) - 40


def test_a_word_equal_to_many_thresholds() -> None:
    noise = Noise(Grid(2, 1, 1), 128, (5, 9, 1 << 64, (1 << 64) + 3, 3 << 64), 0)
    for low, expected in ((4, 0), (5, 1), (8, 1), (9, 2), ((1 << 64) - 1, 2)):
        assert noise.draw(1, Scripted([0, low]))[0] == expected
    for low, expected in ((0, 3), (2, 3), (3, 4)):
        assert noise.draw(1, Scripted([1, low]))[0] == expected
    assert noise.draw(1, Scripted([2]))[0] == 4
    assert noise.draw(1, Scripted([3, 0]))[0] == 5


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.37, 1.0])
def test_reports_follow_the_table(mechanism: MeanMechanism, share: float) -> None:
    count, intervals, noise = 400_000, mechanism.grid.intervals, mechanism.noise
    value = mechanism.lower + share * mechanism.length
    reports = mechanism.randomize(np.full(count, value), simulation=Simulation(seed=11))
    point, part = divmod(share * intervals, 1)
    distribution = np.array([weight / (1 << noise.bits) for weight in noise.distribution(int(point))])
    if part:
        after = np.array([weight / (1 << noise.bits) for weight in noise.distribution(int(point) + 1)])
        distribution = (1 - part) * distribution + part * after
    seen = mechanism.aggregate(reports).values
    cuts = np.unique(np.searchsorted(np.cumsum(distribution), np.linspace(0, 1, 200)[1:-1]))
    expected = count * np.add.reduceat(distribution, np.r_[0, cuts + 1][np.r_[0, cuts + 1] < len(distribution)])
    found = np.add.reduceat(seen, np.r_[0, cuts + 1][np.r_[0, cuts + 1] < len(distribution)])
    kept = expected > 5
    assert found[~kept].sum() < 50
    statistic = ((found[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum() - 1) > 1e-7


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_ends_are_points(mechanism: MeanMechanism) -> None:
    one, two = (
        mechanism.randomize(np.full(2000, end), simulation=Simulation(seed=5))
        for end in (mechanism.lower, mechanism.upper)
    )
    # The same coins: the reports of the two ends are apart by the grid, or mirrored.
    if mechanism.grid.intervals == 1:
        assert (one.astype(int) + two == mechanism.outputs - 1).all()
    else:
        assert (two.astype(int) - one == mechanism.grid.intervals).all()


# The estimate


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_mean_and_variance(mechanism: MeanMechanism) -> None:
    trials, count = 40_000, 50
    values = people(mechanism, count)
    reports = mechanism.randomize(np.tile(values, trials), simulation=Simulation(seed=2)).reshape(trials, count)
    errors = positions(mechanism, reports) - values.mean()
    variance = mechanism.variance(values, reports=count)
    assert abs(errors.mean()) <= LIMIT * math.sqrt(variance / trials)
    # The sum of 50 has an excess kurtosis of at most 3/50.
    assert (errors**2).mean() / variance == pytest.approx(1, abs=LIMIT * math.sqrt(2.1 / trials))
    assert variance <= mechanism.variance(reports=count)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_estimate(mechanism: MeanMechanism) -> None:
    values = people(mechanism, 100_000)
    counts = mechanism.aggregate(mechanism.randomize(values, simulation=Simulation(seed=4)))
    found = mechanism.estimate(counts)
    assert abs(found.mean - values.mean()) <= LIMIT * found.standard_error
    assert found.standard_error**2 == pytest.approx(mechanism.variance(reports=100_000), rel=0.5)
    assert found.standard_error**2 >= mechanism.variance(values, reports=100_000) * 0.99
    assert (found.lower + found.upper) / 2 == pytest.approx(found.mean, abs=0.01 * found.standard_error)
    width = (found.upper - found.lower) / (2 * 1.959964 * found.standard_error)
    assert 1 - 1e-9 < width < 1.005  # half a cell more at each end, and half a report for the one bit
    wider = mechanism.estimate(counts, confidence=0.99)
    assert wider.mean == found.mean
    assert wider.upper - wider.lower > found.upper - found.lower
    assert json.loads(json.dumps(found.to_dict()))["mechanism"] == mechanism.to_dict()
    assert repr(found).startswith("MeanEstimate(")
    assert "\n" not in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [OneBitMean(local_epsilon=1.0), Laplace(local_epsilon=0.05)], ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5])
def test_intervals_cover(mechanism: MeanMechanism, share: float) -> None:
    trials, count = amount(600, 2000), 400
    values = np.random.default_rng(8).permutation(np.arange(count) < share * count).astype(float)
    coins = Simulation(seed=9)
    covered = 0
    for _ in range(trials):
        found = mechanism.estimate(mechanism.aggregate(mechanism.randomize(values, simulation=coins)))
        covered += found.lower <= values.mean() <= found.upper
    assert stats.binom.cdf(covered, trials, 0.95) > 1e-7
    # People at the ends have no rounding; the interval is for the worst with this mean.
    rounding = share * (1 - share) / mechanism.variance(np.zeros(1), reports=1)
    most = 2 * stats.norm.cdf(1.959964 * math.sqrt(1 + rounding)) - 1 + 0.01
    assert stats.binom.sf(covered - 1, trials, most) > 1e-7


def test_one_bit_variance_is_the_formula() -> None:
    mechanism, odds = OneBitMean(local_epsilon=1.3), math.exp(1.3)
    for value in (0.0, 0.2, 1.0):
        expected = (odds / (odds - 1) ** 2 + value * (1 - value)) / 70
        assert mechanism.variance([value], reports=70) == pytest.approx(expected, rel=1e-12)
    assert mechanism.variance(reports=70) == mechanism.variance([0.5], reports=70)


def test_large_interval_and_unusual_arrays() -> None:
    mechanism = Laplace(local_epsilon=1.0, lower=-1e300, upper=1e300)
    assert math.isfinite(mechanism.estimate(mechanism.aggregate(mechanism.randomize([1e300, -1e300]))).mean)
    whole = Laplace(local_epsilon=1.0, upper=10)
    for values in (range(11), np.arange(11, dtype=np.uint8), np.arange(11, dtype=np.float32), np.arange(22.0)[::2] / 2):
        reports = whole.randomize(values, simulation=Simulation(seed=3))
        assert reports.tolist() == whole.randomize(list(range(11)), simulation=Simulation(seed=3)).tolist()
    assert len(whole.randomize([])) == 0
    assert whole.aggregate([]).reports == 0


def test_secure_coins_are_the_default() -> None:
    mechanism = Laplace(local_epsilon=1.0)
    values = np.zeros(200)
    assert mechanism.randomize(values).tolist() != mechanism.randomize(values).tolist()


# The wire


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reports_there_and_back(data: st.DataObject) -> None:
    mechanism = data.draw(st.sampled_from(MECHANISMS))
    reports = data.draw(st.lists(st.integers(0, mechanism.outputs - 1), max_size=40))
    sent = mechanism.to_bytes(reports)
    assert len(sent) == len(reports) * mechanism.bytes_per_report
    assert mechanism.from_bytes(sent).tolist() == reports
    counts = mechanism.aggregate(mechanism.from_bytes(sent))
    assert counts.values.tolist() == np.bincount(np.array(reports, int), minlength=mechanism.outputs).tolist()
    assert Counts.from_bytes(counts.to_bytes()) == counts


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bad_bytes_are_refused_or_read_back(data: st.DataObject) -> None:
    mechanism = data.draw(st.sampled_from(MECHANISMS))
    noise = data.draw(st.binary(max_size=9))
    with contextlib.suppress(ParameterError):
        assert mechanism.to_bytes(mechanism.from_bytes(noise)) == noise
    whole = bytearray(mechanism.aggregate([0, 1]).to_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FileError):
        Counts.from_bytes(bytes(whole))
    with pytest.raises(FileError):
        Counts.from_bytes(bytes(whole[:place]))


def sealed(schema: Any, reports: int, values: bytes) -> bytes:
    """Return a count state with a right checksum, whatever it says."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    body = struct.pack("<Iq", len(text), reports) + text + values
    return b"shoal counts 1\n" + body + struct.pack("<I", zlib.crc32(body))


GOOD = {"mechanism": "one-bit-mean", "version": 1, "local_epsilon": 1.0, "lower": 0.0, "upper": 1.0}


@pytest.mark.parametrize(
    ("schema", "reports", "values", "message"),
    [
        (GOOD, 3, struct.pack("<qq", 1, 1), "says 3 reports"),
        (GOOD, 0, struct.pack("<qq", -1, 1), "counts say otherwise"),
        (GOOD, 2, struct.pack("<qqq", 1, 1, 0), "24 bytes of counts"),
        (GOOD, 2, struct.pack("<qq", 1, 1)[:-1], "15 bytes of counts"),
        (GOOD | {"mechanism": "laplace", "version": 1}, 2, struct.pack("<qq", 1, 1), "16 bytes of counts"),
        (GOOD | {"mechanism": "randomised", "version": 1}, 2, b"", "must be one of"),
        (GOOD | {"size": 3}, 2, b"", "one-bit-mean has the parameters lower, upper, local_epsilon, got"),
        (GOOD | {"local_epsilon": -1}, 2, b"", "local_epsilon must be greater than 0"),
        (GOOD | {"lower": "0"}, 2, b"", "lower must be a finite number"),
        ([1], 2, b"", "a schema names a mechanism"),
        (b"{", 2, b"", "does not say which mechanism"),
        (b"\xff", 2, b"", "does not say which mechanism"),
        (
            json.dumps(GOOD).replace("{", '{"local_epsilon": 9.0, ').encode(),
            2,
            struct.pack("<qq", 1, 1),
            "does not say",
        ),
    ],
)
def test_foreign_states(schema: Any, reports: int, values: bytes, message: str) -> None:
    with pytest.raises(FileError, match=message):
        Counts.from_bytes(sealed(schema, reports, values))
    good = Counts.from_bytes(sealed(GOOD, 2, struct.pack("<qq", 1, 1)))
    assert good == OneBitMean(local_epsilon=1.0).aggregate([0, 1])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_states_add(mechanism: MeanMechanism) -> None:
    reports = mechanism.randomize(people(mechanism, 3000), simulation=Simulation(seed=6))
    parts = [mechanism.aggregate(part) for part in np.split(reports, [10, 1700])]
    assert sum(parts) == parts[0] + parts[1] + parts[2] == mechanism.aggregate(reports)
    other = Laplace(local_epsilon=7.0)
    with pytest.raises(ParameterError, match="don't add"):
        parts[0] + other.aggregate([1])
    with pytest.raises(ParameterError, match="these counts are not of"):
        mechanism.estimate(other.aggregate([1]))
    with pytest.raises(ParameterError, match="no reports"):
        mechanism.estimate(mechanism.aggregate([]))
    assert parts[0] != other
    assert "reports" in repr(parts[0])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_schema(mechanism: MeanMechanism) -> None:
    schema = json.loads(json.dumps(mechanism.to_dict()))
    assert (schema.pop("mechanism"), schema.pop("version")) == (mechanism.name, 1)
    assert type(mechanism)(**schema) == mechanism


# What is refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 1.0, 1.0000001, 7.0], r"values\[2\] is not between 0 and 1; clip"),
        ([0.5, -1e-300], r"values\[1\] is not between"),
        ([math.nan], r"values\[0\] is not between"),
        ([0.1, math.inf], r"values\[1\] is not between"),
        ([[0.5]], "2 dimensions"),
        (0.5, "0 dimensions"),
        (["0.5"], "list of numbers"),
        ([True], "list of numbers"),
        ([0.5, None], "list of numbers"),
        ([[1.0], [1.0, 2.0]], "different lengths"),
    ],
)
def test_bad_values(values: Any, message: str) -> None:
    for mechanism in (Laplace(local_epsilon=1.0), Gaussian(sigma=1.0), OneBitMean(local_epsilon=1.0)):
        with pytest.raises(ParameterError, match=message):
            mechanism.randomize(values)


@pytest.mark.parametrize("reports", [[2], [-1], [0.5], [[0]], ["0"]])
def test_bad_reports(reports: Any) -> None:
    with pytest.raises(ParameterError, match="reports"):
        OneBitMean(local_epsilon=1.0).aggregate(reports)
    with pytest.raises(ParameterError, match=r"reports\[1\] is 9"):
        OneBitMean(local_epsilon=1.0).from_bytes(b"\x01\x09")
    with pytest.raises(ParameterError, match="cut off"):
        Laplace(local_epsilon=1.0).from_bytes(b"\x01\x01\x01")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Laplace, {"local_epsilon": 1, "lower": 1.0}),
        (Laplace, {"local_epsilon": 1, "lower": 2, "upper": 1}),
        (Laplace, {"local_epsilon": 1, "lower": -1e308, "upper": 1e308}),
        (Laplace, {"local_epsilon": 1, "upper": math.nan}),
        (Laplace, {"local_epsilon": 1, "upper": math.inf}),
        (Laplace, {"local_epsilon": 1, "upper": True}),
        (Laplace, {"local_epsilon": 0}),
        (OneBitMean, {"local_epsilon": 1, "upper": None}),
        (OneBitMean, {"local_epsilon": -1}),
        (Gaussian, {"sigma": 1, "upper": 101}),
        (Gaussian, {"sigma": 1, "upper": 1e-7}),
        (Gaussian, {"sigma": 0.001}),
    ],
)
def test_bad_parameters(kind: type[MeanMechanism], arguments: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        kind(**arguments)


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(local_epsilon=1e-10), Laplace(local_epsilon=701), OneBitMean(local_epsilon=1e-21)],
    ids=repr,
)
def test_described_but_not_run(mechanism: MeanMechanism) -> None:
    with pytest.raises(ParameterError, match="local_epsilon"):
        mechanism.randomize([0.5])


def test_bad_questions() -> None:
    mechanism = Laplace(local_epsilon=1.0)
    for confidence in (0.0, 1.0, 2.0, "x"):
        with pytest.raises(ParameterError, match="confidence"):
            mechanism.estimate(mechanism.aggregate([0]), confidence=confidence)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="reports"):
        mechanism.variance(reports=0)
    with pytest.raises(ParameterError, match="at least one number"):
        mechanism.variance([], reports=5)


# For the accountant


def test_only_the_relative_size_matters() -> None:
    assert Gaussian(sigma=50, lower=-20, upper=80).homogeneous == Gaussian(sigma=0.5).homogeneous
    assert Gaussian(sigma=50, lower=-20, upper=80).blanket_probability == Gaussian(sigma=0.5).blanket_probability
    assert Laplace(local_epsilon=1.5, lower=-20, upper=80).blanket == Laplace(local_epsilon=1.5).blanket
    assert Laplace(local_epsilon=2, lower=-20, upper=80).scale == 50
    assert repr(Laplace(local_epsilon=2)) == "Laplace(local_epsilon=2.0)"
    assert repr(Gaussian(sigma=2, upper=9)) == "Gaussian(sigma=2.0, lower=0.0, upper=9.0)"


def test_one_bit_is_randomized_response() -> None:
    mechanism, response = OneBitMean(local_epsilon=1.5), RandomizedResponse(categories=2, local_epsilon=1.5)
    assert mechanism.response == response
    assert mechanism.blanket == response.blanket
    assert mechanism.homogeneous == response.homogeneous


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1.0, 4.0])
def test_the_integers_shuffled_are_below_the_blanket_of_one_report(local_epsilon: float) -> None:
    """δ(ε) of one report from either end, as rationals, is at most that of real-valued noise."""
    noise = laplace_noise(local_epsilon)
    one, two = noise.distribution(0), noise.distribution(noise.grid.intervals)
    for share in (0.0, 0.3, 0.8):
        factor = growth(share * local_epsilon)
        found = float(sum(max(a - factor * b, Fraction(0)) for a, b in zip(one, two, strict=True)) / (1 << noise.bits))
        exact = -math.expm1(-(1 - share) * local_epsilon / 2)
        assert exact * (1 - 1e-2) <= found <= exact * (1 + 1e-12)


@pytest.mark.slow
def test_a_mean_shows_itself() -> None:
    mechanism = Laplace(local_epsilon=2, lower=0, upper=120)
    found = mechanism.estimate(mechanism.aggregate(mechanism.randomize([30.0] * 500, simulation=Simulation(seed=3))))
    assert found.to_frame()["mean"].tolist() == [found.mean]
    assert found.plot().get_xlim() == (0, 120)
    with pytest.raises(ParameterError, match="savefig"):
        found.plot("mean.png")


@pytest.mark.parametrize("steps", [1, 4095, 8191, 8192, 1 << 20])
def test_numbers_are_rounded_to_a_point_next_to_them(steps: int) -> None:
    """From 8,192 steps on, a position in units of 2⁻⁵⁰ of a step is no integer of 64 bits."""
    numbers = np.append(np.random.default_rng(steps).random(1000), [0.0, 1.0])
    points = NumberRange(0, 1).rounded(numbers, steps, Simulation(seed=steps))
    assert np.all(np.abs(points - numbers * steps) < 1)
    assert points[-2:].tolist() == [0, steps]
