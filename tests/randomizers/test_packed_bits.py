"""Rows of bits: probabilities that are exact, sets that are uniform, and what is refused."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ParameterError
from shoal.randomizers.coins import WHOLE, Coins, Simulation
from shoal.randomizers.packed_bits import _patterns, bits_at, check_spare, column_sums, independent_bytes, random_sets

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


def test_bits_are_set_as_often_as_they_should() -> None:
    probability = int(0.1 * WHOLE)
    bits = np.unpackbits(independent_bytes(probability, 1 << 20, Simulation(seed=2)))
    deviation = math.sqrt(bits.size * 0.09)
    assert abs(int(bits.sum()) - bits.size * 0.1) < 6.2 * deviation  # fails once in 10⁹


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
