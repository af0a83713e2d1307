"""Every mechanism from values to frequencies: unbiased, as exact as its formula says, strict about what it takes."""

import json
import math
import struct
import zlib
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from shoal import ParameterError, ProjectiveGeometryResponse, RandomizedResponse, Simulation, SubsetSelection
from shoal.errors import FileError
from shoal.mechanisms import UnaryEncoding, kinds, mechanism_of
from shoal.mechanisms.categorical import Categorical
from shoal.mechanisms.mechanism import Counts
from tests.exhaustive import amount, representative
from tests.oracles.reports import schemas

MECHANISMS: dict[str, type[Categorical]] = kinds("categories", within=("categories", "local_epsilon"))

_AWKWARD = (2, 3, 5, 17, 31, 32, 33)
_FALSE_ALARM = 1e-9
"""Of each statistical test; there are fewer than 300 here, each with its own seed: 3e-7 together."""


def made_of(name: str, categories: int, local_epsilon: float) -> Categorical:
    return MECHANISMS[name](categories=categories, local_epsilon=local_epsilon)


def shape_of(categories: int) -> NDArray[np.float64]:
    """Return frequencies that differ a lot, one of them 0 where there is room."""
    weights = 1 / np.arange(1, categories + 1) ** 1.5
    if categories > 4:
        weights[2] = 0
    return np.asarray(weights / weights.sum())


def people(categories: int, count: int) -> NDArray[np.int64]:
    counts = np.floor(shape_of(categories) * count).astype(np.int64)
    counts[0] += count - counts.sum()
    return np.repeat(np.arange(categories), counts)


_SETTINGS = [*product(sorted(MECHANISMS), (2, 3, 17, 33), (1.0, 3.5)), *product(sorted(MECHANISMS), (6,), (0.3,))]
_SETTINGS = representative(_SETTINGS, 4 * len(MECHANISMS) // 3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "categories", "local_epsilon"), _SETTINGS)
def test_estimates_are_unbiased_with_the_stated_variance(name: str, categories: int, local_epsilon: float) -> None:
    runs, reports = 300, 400
    made = made_of(name, categories, local_epsilon)
    values = people(categories, reports)
    truth = np.bincount(values, minlength=categories) / reports
    seed = sum(map(ord, name)) + 1000 * categories + round(10 * local_epsilon)
    drawn = made.randomize(np.tile(values, runs), simulation=Simulation(seed=seed))
    found = [made.estimate(made.aggregate(part), confidence=0.9) for part in np.split(drawn, runs)]
    errors = np.array([estimate.frequencies for estimate in found]) - truth
    variance = made.variance(truth, reports=reports)
    # The mean of 300 runs of 400 reports: within 6.5 standard deviations, 8e-11 for each category.
    assert (abs(errors.mean(axis=0)) < 6.5 * np.sqrt(variance / runs)).all()
    # The ratio of the variances: chi-square with 300 degrees, with some room since errors are discrete.
    ratio = (errors**2).mean(axis=0) / variance
    tails = [chi2.ppf(_FALSE_ALARM / 100, runs) / runs * 0.95, chi2.isf(_FALSE_ALARM / 100, runs) / runs * 1.1]
    assert tails[0] < ratio.min()
    assert ratio.max() < tails[1]
    # The squared error of all categories together.
    spread = np.sum(errors**2, axis=1)
    assert abs(spread.mean() - variance.sum()) < 6.5 * spread.std() / math.sqrt(runs)
    # The intervals: 90 % of them hold the truth. Rare categories are discrete, and get more.
    held = sum(int(((e.lower <= truth + 1e-12) & (truth <= e.upper + 1e-12))[0]) for e in found)
    assert binom.sf(held - 1, runs, 0.93) > _FALSE_ALARM
    assert binom.cdf(held, runs, 0.87) > _FALSE_ALARM
    assert all((e.lower <= e.upper).all() and (e.lower >= 0).all() and (e.upper <= 1).all() for e in found)


def supported_by_hand(made: Categorical, reports: NDArray[Any]) -> NDArray[np.int64]:
    every = np.arange(made.categories)
    return np.asarray(made.supports(reports[:, None], every[None, :]).sum(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("categories", [*_AWKWARD, 64, 100, 257])
@pytest.mark.parametrize("local_epsilon", [0.4, 2.0, 6.0])
def test_fast_decoding_counts_what_supports(name: str, categories: int, local_epsilon: float) -> None:
    made = made_of(name, categories, local_epsilon)
    values = np.random.default_rng(categories).integers(0, categories, 300)
    drawn = made.randomize(values, simulation=Simulation(seed=categories))
    counts = made.aggregate(drawn)
    support, block = made.supported(counts.values, counts.reports)
    assert np.array_equal(support, supported_by_hand(made, drawn))
    moments = made.moments
    plain = ((support - moments.overlap * block) / 300 - moments.base) / moments.scale
    assert np.array_equal(made.estimate(counts).frequencies, plain)
    assert plain.shape == (categories,)


_BLOCKS = ((2, 1), (3, 2), (5, 4), (17, 16), (31, 8), (32, 16), (33, 2), (33, 32))
_DESIGNS = [
    *schemas("hadamard-response", "categories blocks", *_BLOCKS),
    *schemas("recursive-hadamard-response", "categories blocks", *_BLOCKS),
    *schemas("projective-geometry-response", "categories order dimension blocks", (2, 2, 2, 1), (3, 2, 2, 1),
             (5, 2, 2, 3), (31, 2, 5, 1), (33, 5, 3, 2), (100, 3, 3, 10), (57, 7, 3, 1), (40, 3, 4, 1)),
    *schemas("private-independent-rappor", "categories order window", (2, 2, 1), (3, 2, 1), (5, 5, 4), (17, 3, 2),
             (31, 7, 3), (33, 11, 10), (125, 5, 2)),
    *schemas("local-hashing", "categories buckets", (2, 2), (3, 2), (5, 5), (17, 2), (31, 31), (32, 31), (33, 3)),
    *schemas("subset-selection", "categories size", (2, 1), (3, 2), (17, 16), (33, 17), (33, 32)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("schema", _DESIGNS, ids=lambda schema: "-".join(str(value) for value in schema.values()))
def test_designs_that_are_given(schema: dict[str, Any]) -> None:
    made = mechanism_of({"version": 1, "local_epsilon": 1, **schema})
    values = np.arange(400) % made.categories
    drawn = made.randomize(values, simulation=Simulation(seed=1))
    counts = made.aggregate(drawn)
    assert np.array_equal(made.supported(counts.values, 400)[0], supported_by_hand(made, drawn))
    assert np.array_equal(made.from_bytes(made.to_bytes(drawn)), drawn)
    # Almost nobody lies at this ε₀: the estimate is the truth.
    clear = mechanism_of(schema | {"version": 1, "local_epsilon": 40})
    drawn = clear.randomize(values, simulation=Simulation(seed=2))
    estimate = clear.estimate(clear.aggregate(drawn))
    truth = np.bincount(values, minlength=made.categories) / 400
    assert (abs(estimate.frequencies - truth) < 6.5 * np.sqrt(clear.variance(truth, reports=400)) + 1e-9).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_counts_add_and_travel(name: str) -> None:
    made = made_of(name, 33, 1)
    drawn = made.randomize(np.arange(330) % 33, simulation=Simulation(seed=1))
    whole = made.aggregate(drawn)
    parts = [made.aggregate(part) for part in (drawn[:100], drawn[100:100], drawn[100:])]
    assert sum(parts) == whole == parts[2] + parts[0]
    assert (whole.reports, str(whole.values.dtype), len(whole.values)) == (330, "int64", made.cells)
    assert whole != parts[0]
    assert Counts.from_bytes(whole.to_bytes()) == whole
    other = made_of(name, 33, 1.5)
    with pytest.raises(ParameterError, match="don't add"):
        _ = whole + other.aggregate(other.randomize([1]))
    with pytest.raises(ParameterError, match="these counts are not of"):
        other.estimate(whole)
    with pytest.raises(ParameterError, match="no reports"):
        made.estimate(made.aggregate(drawn[:0]))
    with pytest.raises(TypeError):
        _ = whole + 1  # type: ignore[operator]


@pytest.mark.parametrize("name", MECHANISMS)
def test_damaged_counts_are_refused(name: str) -> None:
    made = made_of(name, 9, 1)
    data = made.aggregate(made.randomize(np.arange(9), simulation=Simulation(seed=1))).to_bytes()
    generator = np.random.default_rng(1)
    for place in generator.integers(0, len(data), 60).tolist():
        broken = bytearray(data)
        broken[place] ^= 1 << int(generator.integers(8))
        with pytest.raises(FileError):
            Counts.from_bytes(bytes(broken))
    for cut in (0, 1, 15, 20, len(data) // 2, len(data) - 1):
        with pytest.raises(FileError):
            Counts.from_bytes(data[:cut])
    with pytest.raises(FileError):
        Counts.from_bytes(data + b"\0")


def sealed(schema: Any, reports: int, cells: bytes, length: int | None = None) -> bytes:
    """Return a count state whose checksum is right, whatever else it says."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    body = struct.pack("<Iq", len(text) if length is None else length, reports) + text + cells
    return b"shoal counts 1\n" + body + struct.pack("<I", zlib.crc32(body))


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


_SCHEMA = {"mechanism": "randomized-response", "version": 1, "categories": 3, "local_epsilon": 1.0}


@pytest.mark.parametrize(
    "data",
    [
        sealed(b"{", 3, numbers(1, 1, 1)),
        sealed(b"\xff\xfe", 3, numbers(1, 1, 1)),
        sealed(_SCHEMA, 3, numbers(1, 1, 1), length=1 << 31),
        sealed(_SCHEMA, 3, numbers(1, 1, 1), length=3),
        sealed(json.dumps(_SCHEMA).replace("{", '{"local_epsilon": 9.0, ').encode(), 3, numbers(1, 1, 1)),
        sealed({**_SCHEMA, "mechanism": "laplace", "lower": "0"}, 3, numbers(1, 1, 1)),
        sealed([1, 2], 3, numbers(1, 1, 1)),
        sealed({"mechanism": "no such thing"}, 3, numbers(1, 1, 1)),
        sealed({**_SCHEMA, "categories": "many"}, 3, numbers(1, 1, 1)),
        sealed({**_SCHEMA, "colour": 1}, 3, numbers(1, 1, 1)),
        sealed(_SCHEMA, 3, numbers(1, 1)),
        sealed(_SCHEMA, 3, numbers(1, 1, 1, 0)),
        sealed(_SCHEMA, 3, numbers(1, 1, 1) + b"abc"),
        sealed(_SCHEMA, 3, numbers(-1, 3, 1)),
        sealed(_SCHEMA, -3, numbers(1, 1, 1)),
        sealed(_SCHEMA, 7, numbers(1, 1, 1)),
        sealed({**_SCHEMA, "mechanism": "subset-selection", "size": 2}, 3, numbers(3, 3, 3)),
        sealed({**_SCHEMA, "mechanism": "unary-encoding"}, 3, numbers(4, 0, 0)),
    ],
    ids=[
        "no json", "no text", "long schema", "short schema", "twice", "lower", "list", "unknown", "categories",
        "colour", "few cells", "many cells", "odd bytes", "negative cell", "negative reports", "other sum", "set sizes",
        "too many bits",
    ],
)  # fmt: skip
def test_count_states_that_lie_are_refused(data: bytes) -> None:
    with pytest.raises(FileError):
        Counts.from_bytes(data)
    assert Counts.from_bytes(sealed(_SCHEMA, 3, numbers(1, 1, 1))).reports == 3  # which does not lie


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("categories", [2, 3, 31, 32, 33, 300])
@pytest.mark.parametrize("local_epsilon", [0.5, 3.0])
def test_reports_travel_at_a_fixed_length(name: str, categories: int, local_epsilon: float) -> None:
    made = made_of(name, categories, local_epsilon)
    assert made.bytes_per_report == -(-made.bits_per_report // 8)
    for value in (0, categories - 1):
        drawn = made.randomize(np.full(50, value), simulation=Simulation(seed=value))
        data = made.to_bytes(drawn)
        assert isinstance(data, bytes)
        assert len(data) == 50 * made.bytes_per_report
        again = made.from_bytes(data)
        assert again.dtype == drawn.dtype
        assert np.array_equal(again, drawn)
        assert b"".join(made.to_bytes(drawn[place : place + 1]) for place in range(50)) == data
        with pytest.raises(ParameterError) if made.bytes_per_report > 1 else pytest.raises(AssertionError):
            assert len(made.from_bytes(data[:-1])) == 50
    assert len(made.from_bytes(b"")) == 0
    assert made.to_bytes(made.from_bytes(b"")) == b""


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(60, 300))
@given(
    name=st.sampled_from(sorted(MECHANISMS)),
    categories=st.sampled_from([2, 3, 5, 9, 17, 33]),
    local_epsilon=st.sampled_from([0.5, 2.0]),
    data=st.binary(max_size=60),
)
def test_junk_is_refused_or_is_a_report(name: str, categories: int, local_epsilon: float, data: bytes) -> None:
    made = made_of(name, categories, local_epsilon)
    try:
        found = made.from_bytes(data)
    except ParameterError:
        return
    assert made.to_bytes(found) == data  # one report has one form: nothing can be hidden in it
    counts = made.aggregate(found)
    assert counts.reports == len(found) == len(data) // made.bytes_per_report
    if len(found):
        assert made.supports(found[:, None], np.arange(categories)[None, :]).shape == (len(found), categories)


@pytest.mark.parametrize("name", MECHANISMS)
def test_values_that_make_no_sense(name: str) -> None:
    made = made_of(name, 5, 1)
    for wrong, place in (([0, 1, 5], 2), ([0, -1, 7], 1), (np.array([0, 255], np.uint8), 1), ([2**62], 0)):
        with pytest.raises(ParameterError, match=rf"values\[{place}\].*0 to 4"):
            made.randomize(wrong)
    for strange in ([0.0, 1.0], ["a"], [[0, 1]], 3, None, [None], [1j], np.zeros((2, 2), np.int64), [[0], [1, 2]]):
        with pytest.raises(ParameterError, match="values"):
            made.randomize(strange)  # type: ignore[arg-type]
    nothings: list[Any] = [[], np.empty(0, np.int64), np.empty(0)]
    for nothing in nothings:
        assert len(made.randomize(nothing)) == 0
        assert made.aggregate(made.randomize(nothing)).reports == 0


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_seed_is_no_simulation(name: str) -> None:
    with pytest.raises(ParameterError, match="simulation"):
        made_of(name, 5, 1).randomize([1], simulation=7)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("kind", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8"])
def test_values_of_every_whole_type(name: str, kind: str) -> None:
    made = made_of(name, 100, 2)
    values = np.arange(120) % (2 if kind == "bool" else 100)
    plain = made.randomize(values, simulation=Simulation(seed=4))
    assert np.array_equal(made.randomize(values.astype(kind), simulation=Simulation(seed=4)), plain)
    backwards = np.ascontiguousarray(values[::-1])[::-1]
    assert np.array_equal(made.randomize(backwards, simulation=Simulation(seed=4)), plain)
    assert np.array_equal(made.randomize(values.tolist(), simulation=Simulation(seed=4)), plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_values_are_left_as_they_are(name: str) -> None:
    made = made_of(name, 100, 2)
    for kind in (np.uint32, np.int64, np.uint64):
        values = (np.arange(20_000) % 100).astype(kind)
        values.flags.writeable = False
        drawn = made.randomize(values)
        drawn.flags.writeable = False
        made.estimate(made.aggregate(drawn))
        assert np.array_equal(made.from_bytes(made.to_bytes(drawn)), drawn)


@pytest.mark.parametrize("name", MECHANISMS)
def test_reports_that_make_no_sense(name: str) -> None:
    made = made_of(name, 20, 1)
    drawn = made.randomize(np.arange(20))
    for wrong in (drawn.astype(np.float64), drawn[None], [["a"]], drawn.astype(np.int64) - 1000, 5, None):
        with pytest.raises(ParameterError):
            made.aggregate(wrong)  # type: ignore[arg-type]
        with pytest.raises(ParameterError):
            made.to_bytes(wrong)  # type: ignore[arg-type]
    if drawn.ndim == 1:  # the others are rows of bytes
        for kind in (np.int64, np.uint64, np.uint32):
            assert made.aggregate(drawn.astype(kind)) == made.aggregate(drawn)


def test_the_place_of_a_wrong_report_is_named() -> None:
    response = RandomizedResponse(categories=5, local_epsilon=1)
    with pytest.raises(ParameterError, match=r"reports\[2\] is 5"):
        response.aggregate(np.array([0, 4, 5]))
    subsets = SubsetSelection(categories=9, local_epsilon=1, size=2)
    for wrong in ([1, 1], [2, 1], [1, 9], [-1, 3]):
        with pytest.raises(ParameterError, match=r"reports\[1\]"):
            subsets.aggregate(np.array([[0, 1], wrong]))
    bits = UnaryEncoding(categories=9, local_epsilon=1)
    with pytest.raises(ParameterError, match=r"reports\[1\]"):
        bits.aggregate(np.array([[255, 1], [0, 2]], np.uint8))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(30, 100))
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=40),
    st.sampled_from([0.05, 1.0, 8.0]),
    st.sampled_from(sorted(MECHANISMS)),
)
def test_projection_gives_a_distribution(values: list[int], local_epsilon: float, name: str) -> None:
    made = made_of(name, 21, local_epsilon)
    estimate = made.estimate(made.aggregate(made.randomize(values, simulation=Simulation(seed=len(values)))))
    projected = estimate.projected()
    assert (projected.frequencies >= 0).all()
    assert projected.frequencies.sum() == pytest.approx(1, abs=1e-9)
    assert projected.on_simplex
    assert not estimate.on_simplex
    np.testing.assert_allclose(projected.projected().frequencies, projected.frequencies, atol=1e-12)
    # The nearest one: nearer than the truth, than a uniform distribution, than all mass at one place.
    corners = (*np.eye(21), np.full(21, 1 / 21), np.bincount(values, minlength=21) / len(values))
    distance = np.sum((projected.frequencies - estimate.frequencies) ** 2)
    assert all(distance <= np.sum((corner - estimate.frequencies) ** 2) + 1e-9 for corner in corners)


def test_more_blocks_than_categories_leave_no_third_category() -> None:
    """What `homogeneous` lists are datasets that may occur: with two categories, the others hold one of them."""
    two = ProjectiveGeometryResponse(categories=2, local_epsilon=1, order=2, dimension=2, blocks=4)
    assert len(two.homogeneous) == 2


@pytest.mark.parametrize("name", ["unary-encoding", "rappor", "subset-selection", "hadamard-response"])
def test_very_many_categories(name: str) -> None:
    """More than are drawn at once."""
    categories = 2_200_000
    more = {"size": 17} if name == "subset-selection" else {}
    made = MECHANISMS[name](categories=categories, local_epsilon=30, **more)
    values = np.array([0, categories - 1, 5])
    drawn = made.randomize(values, simulation=Simulation(seed=1))
    assert made.supports(drawn, values).sum() >= (1 if name == "unary-encoding" else 3)
    assert np.array_equal(made.from_bytes(made.to_bytes(drawn)), drawn)


@pytest.mark.slow
def test_pictures_and_tables_show_what_is_below_zero() -> None:
    """The bar goes down, the interval does not, and a line says why; a projected one has neither."""
    made = RandomizedResponse(categories=3, local_epsilon=2)
    found = made.estimate(made.aggregate([0, 0, 1]))
    assert found.outside.tolist() == [False, False, True]
    axes = found.plot()
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx(found.frequencies[found.top()])
    assert axes.get_ylim()[0] < heights[-1] < 0
    assert "unbiased: some bars are below 0 or above 1" in axes.get_title("left")
    assert found.note is not None and f"; {found.note}</p>" in found._repr_html_()
    assert found.to_dict()["outside_interval"] == 1
    fair = found.projected()
    assert fair.note is None
    assert fair.plot().get_ylim()[0] == 0
    assert found.note not in fair._repr_html_()
    assert fair.to_dict()["note"] is None
    assert (fair.lower.tolist(), fair.upper.tolist()) == (found.lower.tolist(), found.upper.tolist())


@pytest.mark.slow
def test_a_file_name_is_nothing_to_draw_on() -> None:
    made = MECHANISMS["randomized-response"](categories=2, local_epsilon=1)
    with pytest.raises(ParameterError, match="savefig"):
        made.estimate(made.aggregate([0, 1])).plot("picture.png")
