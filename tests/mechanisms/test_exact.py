"""The probabilities of every report as fractions are ε₀-DP, and the reports that are drawn have them, bit by bit."""

import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from shoal import ParameterError, Simulation
from shoal.mechanisms import UnaryEncoding, kinds, mechanism_of
from shoal.mechanisms.categorical import Categorical, Indexed
from shoal.mechanisms.coins import WHOLE, Coins
from shoal.mechanisms.packed_bits import _patterns, bits_at, check_spare, column_sums, independent_bytes, random_sets
from tests.exhaustive import representative
from tests.oracles.reports import matrix_of, outputs_of, row_of, schemas

MECHANISMS: dict[str, type[Categorical]] = kinds("categories", within=("categories", "local_epsilon"))

_UNARY = ("rappor", "unary-encoding")
_GIVEN = "categories local_epsilon"
_FALSE_ALARM = 1e-9
"""Of each chi-square test; there are fewer than 1000 here."""


def logarithm(ratio: Fraction) -> Any:
    return arb(fmpq(ratio.numerator, ratio.denominator)).log()


def ratio_of(made: Categorical) -> Fraction:
    """Return the largest ratio of probabilities from the integers, for any number of categories."""
    if isinstance(made, UnaryEncoding):
        bit = Fraction(made.resolution - made.flip, made.flip)
        return bit**2 if made.symmetric else bit
    design = made.design  # type: ignore[attr-defined]
    truth = made.truth  # type: ignore[attr-defined]
    return 1 + Fraction(design.outputs, design.supporting) * Fraction(truth, WHOLE - truth)


def check_epsilon(made: Categorical, asked: float, ratio: Fraction) -> None:
    with ctx.workprec(400):
        assert logarithm(ratio) <= arb(asked)
        assert logarithm(ratio) <= arb(made.local_epsilon)
        assert made.local_epsilon <= asked
        # It is the smallest double above, so that nobody is told a worse ε₀ than there is.
        assert logarithm(ratio) > arb(math.nextafter(made.local_epsilon, 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("categories", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("asked", [1e-6, 0.1, 1.0, math.log(3), 2.5, 10.0, 60.0])
def test_all_probabilities_of_small_mechanisms(name: str, categories: int, asked: float) -> None:
    made = MECHANISMS[name](categories=categories, local_epsilon=asked)
    if isinstance(made, Indexed) and made.outputs > 2000:  # too many to list: a smaller one of its kind
        smaller = {"local-hashing": {"buckets": 7}, "private-independent-rappor": {"order": 7, "window": 2}}
        other = {"order": 5, "dimension": 3, "blocks": 1}
        made = MECHANISMS[name](categories=categories, local_epsilon=asked, **smaller.get(name, other))
    matrix = matrix_of(made)
    assert all(sum(row) == 1 for row in matrix)
    columns = list(zip(*matrix, strict=True))
    assert min(map(min, columns)) > 0
    ratio = max(max(column) / min(column) for column in columns)
    assert ratio == ratio_of(made)
    check_epsilon(made, asked, ratio)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("categories", [2, 16, 17, 1000, 1024, 70_000])
@pytest.mark.parametrize("asked", [1e-6, 1e-3, 0.3, 1.0, 4.0, 12.0, 20.0, 35.0, 60.0])
def test_the_integers_keep_the_promise(name: str, categories: int, asked: float) -> None:
    try:
        made = MECHANISMS[name](categories=categories, local_epsilon=asked)
    except ParameterError as error:
        assert "use HadamardResponse" in str(error)  # there is no fast decoder for it
        return
    check_epsilon(made, asked, ratio_of(made))
    if 0.01 <= asked <= 20:
        assert made.local_epsilon >= asked * (1 - 1e-9)
    # One coin more would break the promise: nothing is given away.
    with ctx.workprec(400):
        if isinstance(made, UnaryEncoding):
            if made.flip > 1:
                bit = Fraction(made.resolution - made.flip + 1, made.flip - 1)
                assert logarithm(bit**2 if made.symmetric else bit) > arb(asked)
        elif made.truth < WHOLE - 1:  # type: ignore[attr-defined]
            design, more = made.design, made.truth + 1  # type: ignore[attr-defined]
            assert logarithm(1 + Fraction(design.outputs, design.supporting) * Fraction(more, WHOLE - more)) > arb(
                asked
            )


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(MECHANISMS)),
    categories=st.integers(2, 5000),
    exponent=st.floats(-6, 1.8),
    share=st.sampled_from([1.0, 2 / math.e, math.log(2)]),
)
def test_a_schema_makes_the_same_mechanism(name: str, categories: int, exponent: float, share: float) -> None:
    asked = share * 10**exponent
    made = MECHANISMS[name](categories=categories, local_epsilon=asked)
    schema = made.to_dict()
    again = mechanism_of(schema)
    for other in (again, pickle.loads(pickle.dumps(made))):
        assert (other, type(other), hash(other)) == (made, type(made), hash(made))
        assert other.local_epsilon == made.local_epsilon
        assert ratio_of(other) == ratio_of(made)
    assert again.to_dict() == schema
    assert (schema.pop("mechanism"), schema.pop("version")) == (name, 1)
    assert None not in schema.values()
    assert type(made)(**schema) == made


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_schema_keeps_the_coins_where_their_number_changes(symmetric: bool) -> None:
    for digits in range(1, 40):
        edge = digits * math.log(2) * (2 if symmetric else 1)
        for step in (*range(-20, 20), 100, 1000, 3000):
            made = UnaryEncoding(categories=4, local_epsilon=edge * (1 + step * 2**-52), symmetric=symmetric)
            again = mechanism_of(made.to_dict())
            assert isinstance(again, UnaryEncoding)
            assert (again, again.flip, again.resolution) == (made, made.flip, made.resolution)


def chi_square(made: Categorical, value: int, reports: int, seed: int) -> float:
    """Return the probability of a worse fit, groups of rare reports taken together."""
    places = {row.tobytes(): place for place, row in enumerate(made.to_rows(outputs_of(made)))}
    drawn = made.randomize(np.full(reports, value), simulation=Simulation(seed=seed))
    seen = np.zeros(len(places))
    for row in made.to_rows(drawn):
        seen[places[row.tobytes()]] += 1  # a report that does not exist is a KeyError
    means = np.array([float(probability) for probability in row_of(made, value)]) * reports
    order = np.argsort(-means, kind="stable")  # not by the counts: they must not choose their group
    rest = means[order][::-1].cumsum()[::-1]
    groups = np.minimum(((reports - rest) // 10).astype(np.int64), (reports - 10) // 10)
    _, groups = np.unique(groups, return_inverse=True)
    mean, count = np.bincount(groups, means[order]), np.bincount(groups, seen[order])
    return float(chi2.sf(((count - mean) ** 2 / mean).sum(), max(1, len(mean) - 1)))


_SAMPLED: list[dict[str, Any]] = [
    *({"mechanism": name, "categories": 2, "local_epsilon": 1} for name in MECHANISMS),
    *({"mechanism": name, "categories": 3, "local_epsilon": 0.2} for name in MECHANISMS),
    *({"mechanism": name, "categories": 9, "local_epsilon": 2} for name in MECHANISMS),
    *schemas("randomized-response", _GIVEN, (1000, 4)),
    *schemas("hadamard-response", f"{_GIVEN} blocks", (33, 3, 1), (33, 3, 2), (33, 3, 8), (33, 3, 32)),
    *schemas("recursive-hadamard-response", f"{_GIVEN} blocks", (33, 3, 1), (33, 3, 4)),
    *schemas("projective-geometry-response", f"{_GIVEN} order dimension blocks", (31, 3, 2, 5, 1), (13, 8, 3, 3, 1),
             (57, 4, 7, 3, 1), (20, 3, 3, 2, 5), (50, 2, 3, 3, 4), (100, 9, 5, 4, 1)),
    *schemas("private-independent-rappor", f"{_GIVEN} order window", (30, 3, 5, 2), (30, 8, 7, 3), (11, 1, 11, 10),
             (12, 9, 11, 4)),
    *schemas("local-hashing", f"{_GIVEN} buckets", (30, 3, 5), (8, 8, 2), (13, 9, 13), (14, 2, 13)),
    *schemas("subset-selection", f"{_GIVEN} size", (8, 1, 3), (8, 9, 7), (20, 4, 17), (18, 9, 17), (18, 0.1, 17),
             (19, 9, 18), (19, 2, 16), (40, 3, 2)),
    *(schema for name in _UNARY for schema in schemas(name, _GIVEN, (7, 3), (8, 3), (10, 3), (4, 12))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", representative(_SAMPLED, 24), ids=lambda schema: "-".join(str(value) for value in schema.values())
)
def test_reports_have_the_distribution_that_is_analysed(schema: dict[str, Any]) -> None:
    made = mechanism_of({"version": 1, **schema})
    for seed, value in enumerate({0, made.categories // 2, made.categories - 1}):
        assert chi_square(made, value, 60_000, seed) > _FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", _UNARY)
@pytest.mark.parametrize("categories", [17, 64, 65, 200])
def test_bits_of_wide_encodings_are_independent(name: str, categories: int) -> None:
    reports, value = 40_000, categories - 2
    made = MECHANISMS[name](categories=categories, local_epsilon=2)
    assert isinstance(made, UnaryEncoding)
    rows = made.randomize(np.full(reports, value), simulation=Simulation(seed=3))
    bits = np.unpackbits(rows, axis=1, bitorder="little")[:, :categories].astype(np.float64)
    probabilities = np.full(categories, made.flip / made.resolution)
    probabilities[value] = 1 - probabilities[0] if made.symmetric else 0.5
    scaled = (bits - probabilities) / np.sqrt(probabilities * (1 - probabilities))
    assert abs(scaled.sum(axis=0)).max() < 7 * math.sqrt(reports)
    pairs = scaled.T @ scaled / math.sqrt(reports)
    np.fill_diagonal(pairs, 0)
    assert abs(pairs).max() < 7  # 2.6e-12 for each of at most 20,000 pairs, 5e-8 together
    following = (scaled[1:].T @ scaled[:-1]) / math.sqrt(reports)
    assert abs(following).max() < 7


@pytest.mark.parametrize("name", MECHANISMS)
def test_reports_after_one_another_are_independent(name: str) -> None:
    """A coin that is used twice would show between neighbours, or between the halves of a batch."""
    made = MECHANISMS[name](categories=5, local_epsilon=1)
    reports = 80_000
    drawn = made.randomize(np.zeros(reports, np.int64), simulation=Simulation(seed=5))
    held = made.supports(drawn, np.ones(reports, np.int64)).astype(np.float64)
    held = (held - held.mean()) / held.std()
    for lag in (1, 2, 8, 64, 4096, 8192):
        assert abs(held[lag:] @ held[:-lag]) < 7 * math.sqrt(reports - lag)


@pytest.mark.parametrize("name", MECHANISMS)
def test_parameters_that_make_no_sense(name: str) -> None:
    kind = MECHANISMS[name]
    nonsense: list[dict[str, Any]] = [
        {"categories": 1, "local_epsilon": 1},
        {"categories": 2.5, "local_epsilon": 1},
        {"categories": "3", "local_epsilon": 1},
        {"categories": 3, "local_epsilon": 0},
        {"categories": 3, "local_epsilon": -1},
        {"categories": 3, "local_epsilon": math.nan},
        {"categories": 3, "local_epsilon": math.inf},
        {"categories": True, "local_epsilon": 1},
    ]
    for wrong in nonsense:
        with pytest.raises(ParameterError):
            kind(**wrong)
    with pytest.raises(TypeError):
        kind(3, 1.0)  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="too small"):
        kind(categories=3, local_epsilon=1e-300).randomize([1])
    assert kind(categories=3, local_epsilon=1e300).local_epsilon < 100


@pytest.mark.parametrize(
    "schema",
    [
        {"mechanism": "unary-encoding", "symmetric": 2},
        {"mechanism": "unary-encoding", "symmetric": "no"},
        {"mechanism": "rappor", "symmetric": False},
        {"mechanism": "subset-selection", "size": 9},
        {"mechanism": "subset-selection", "size": 0},
        {"mechanism": "hadamard-response", "blocks": 3},
        {"mechanism": "hadamard-response", "blocks": 16},
        {"mechanism": "local-hashing", "buckets": 4},
        {"mechanism": "local-hashing", "buckets": 1},
        {"mechanism": "private-independent-rappor", "order": 5},
        {"mechanism": "private-independent-rappor", "order": 5, "window": 5},
        {"mechanism": "private-independent-rappor", "order": 9, "window": 2},
        {"mechanism": "projective-geometry-response", "order": 2},
        {"mechanism": "projective-geometry-response", "order": 4, "dimension": 3, "blocks": 1},
        {"mechanism": "projective-geometry-response", "order": 2, "dimension": 3, "blocks": 1},
        {"mechanism": "projective-geometry-response", "order": 2, "dimension": 1, "blocks": 9},
    ],
    ids=str,
)
def test_designs_that_make_no_sense(schema: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        mechanism_of({"version": 1, "categories": 9, "local_epsilon": 1, **schema})


_ALARM = 1e-9
"""How often a test of statistics may fail though nothing is wrong."""


class _Scripted(Coins):
    """Coins that fall as they are told, and then as in a simulation."""

    def __init__(self, *words: int) -> None:
        self._script, self._rest = list(words), Simulation(seed=1)

    def words(self, count: int) -> Any:
        scripted, self._script = self._script[:count], self._script[count:]
        return np.concatenate([np.array(scripted, np.uint64), self._rest.words(count - len(scripted))])


@given(st.integers(1, WHOLE - 1))
def test_every_byte_has_exactly_its_probability(probability: int) -> None:
    patterns = _patterns(probability)
    settled = np.bincount(patterns.table, minlength=256).tolist()
    ends = [0, *patterns.exact]
    for value in range(256):
        ones = value.bit_count()
        exact = Fraction(probability, WHOLE) ** ones * Fraction(WHOLE - probability, WHOLE) ** (8 - ones)
        opened = Fraction(ends[value + 1] - ends[value], 1 << 496)
        assert (settled[value] + opened) / 65536 == exact
    assert len(patterns.table) + Fraction(ends[-1], 1 << 496) == 65536


def _words(digits: int) -> list[int]:
    """Return 440 bits as words, the highest first; the lowest bits of the last one do not count."""
    return [(digits << 8) >> 64 * (6 - word) & (WHOLE - 1) for word in range(7)]


@pytest.mark.parametrize("position", [0, 3, 100, 254])
def test_a_tie_is_decided_by_all_digits(position: int) -> None:
    probability = WHOLE // 3
    patterns = _patterns(probability)
    end = patterns.exact[position]
    key, rest = divmod(end, 1 << 440)
    index = len(patterns.table) + (key >> 56)
    assert rest > 0
    start = [index | index << 16 | index << 32 | index << 48, (key % (1 << 56)) << 8]
    assert independent_bytes(probability, 1, _Scripted(*start, *_words(rest))).tolist() == [position + 1]
    assert independent_bytes(probability, 1, _Scripted(*start, *_words(rest - 1))).tolist() == [position]


@pytest.mark.parametrize("probability", [0, 1, WHOLE // 2, WHOLE - 1])
def test_probabilities_at_the_ends(probability: int) -> None:
    mean = np.unpackbits(independent_bytes(probability, 4096, Simulation(seed=3))).mean()
    assert mean == pytest.approx(probability / WHOLE, abs=0.02)


def _chi_square(observed: dict[tuple[int, ...], int], kinds: int, count: int) -> float:
    expected = count / kinds
    return sum((observed.get(key, 0) - expected) ** 2 / expected for key in observed) + expected * (
        kinds - len(observed)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "size"), [(6, 3), (7, 2), (9, 4), (65, 1), (10, 5)])
@pytest.mark.parametrize("member", [-1, 0, 5])
def test_all_sets_are_equally_likely(columns: int, size: int, member: int) -> None:
    count = 60_000
    rows = random_sets(size, np.full(count, member), columns, Simulation(seed=4))
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    assert not bits[:, columns:].any()
    assert (bits.sum(axis=1) == size).all()
    assert member < 0 or bits[:, member].all()
    seen: dict[tuple[int, ...], int] = {}
    for chosen in np.nonzero(bits)[1].reshape(count, size).tolist():
        seen[tuple(chosen)] = seen.get(tuple(chosen), 0) + 1
    possible = [set_ for set_ in itertools.combinations(range(columns), size) if member < 0 or member in set_]
    assert set(seen) <= set(possible)
    freedom = len(possible) - 1
    if freedom:
        bound = freedom + 2 * math.sqrt(freedom * -math.log(_ALARM)) - 2 * math.log(_ALARM)  # Laurent and Massart
        assert _chi_square(seen, len(possible), count) < bound


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "size"), [(1024, 276), (1000, 499), (70_000, 3000)])
def test_wide_sets_have_their_size_and_prefer_no_column(columns: int, size: int) -> None:
    count = 4000 if columns < 2000 else 60
    rows = random_sets(size, np.full(count, -1), columns, Simulation(seed=5))
    sums = column_sums(rows, columns)
    assert sums.sum() == count * size
    deviation = math.sqrt(count * size / columns * (1 - size / columns))
    assert np.abs(sums - count * size / columns).max() < 8 * deviation  # a normal one would fail once in 10¹⁰
    halves = np.bitwise_count(rows[:, : rows.shape[1] // 2]).sum(axis=1)
    share = 8 * (rows.shape[1] // 2) / columns
    spread = math.sqrt(size * share * (1 - share) * (columns - size) / (columns - 1))
    assert np.std(halves) == pytest.approx(spread, rel=0.5 if count < 100 else 0.1)


def test_bits_are_looked_up_and_counted() -> None:
    rows = random_sets(5, np.full(300, -1), 19, Simulation(seed=6))
    bits = np.unpackbits(rows, axis=1, bitorder="little")[:, :19]
    columns = np.arange(300) % 19
    assert (bits_at(rows, columns) == bits[np.arange(300), columns]).all()
    assert (bits_at(rows[:, None, :], np.arange(19)) == bits).all()
    assert (column_sums(rows, 19) == bits.sum(axis=0)).all()


def test_bits_beyond_the_last_column_are_refused() -> None:
    check_spare(np.array([[255, 7]], np.uint8), 11)
    with pytest.raises(ParameterError, match=r"reports\[1\] has bits set beyond the last category"):
        check_spare(np.array([[255, 7], [255, 8]], np.uint8), 11)
    with pytest.raises(ParameterError, match="are rows of bytes, got int64"):
        check_spare(np.array([[1, 2]]), 11)
