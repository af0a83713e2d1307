"""Rows of bits, eight to a byte, the lowest first: drawn with exact probabilities, counted and looked up."""

import math
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.arrays import BoolArray, ByteArray, IntArray, WordArray
from shoal.errors import ParameterError
from shoal.mechanisms.coins import WHOLE, Coins

_PART = 1 << 21
"""How many bits to unpack at once."""
_INDICES = 1 << 16
"""A byte is looked up by 16 random bits."""
_KEY = 56
"""The few indices that do not decide a byte are decided by this number of further bits."""
_DIGITS = 7
"""Of the probability with which the first members of a set are drawn."""
_BELOW = 0.7
"""How many standard deviations fewer than a set needs they are on average, so that most rows need only more."""
_ROUNDS = 8
"""How many more members are drawn for all rows, before those that are complete are left out."""


class _Patterns(NamedTuple):
    """How 16 random bits become eight that are set with some probability each."""

    table: ByteArray  # the byte of each index below the first open one
    # Of the open ones: their number and further bits, as one key, at which the next byte begins
    thresholds: WordArray
    exact: tuple[int, ...]  # the same with all digits


@lru_cache(maxsize=64)
def _patterns(probability: int) -> _Patterns:
    """Return the table for this probability, out of 2⁶⁴.

    Eight bits, i of them set, have the probability a^i·b^(8 − i)/2^512 with a + b = 2⁶⁴. The whole part of 2^16 times
    this is how many indices they have. What is left over adds up to a whole number of indices, the open ones.
    """
    digits = 8 * 64 - 16
    parts = []
    for ones in range(9):
        share = probability**ones * (WHOLE - probability) ** (8 - ones)
        parts.append(divmod(share, 1 << digits))
    shares = [parts[byte.bit_count()] for byte in range(256)]
    settled = [indices for indices, _ in shares]
    table = np.repeat(np.arange(256, dtype=np.uint8), settled)
    exact = tuple(accumulate(rest for _, rest in shares))
    shift = digits - _KEY
    thresholds = np.array([end >> shift for end in exact[:-1]], np.uint64)
    return _Patterns(table, thresholds, exact)


def independent_bytes(probability: int, count: int, coins: Coins) -> ByteArray:
    """Return bytes whose bits are independent, each set with probability exactly probability/2⁶⁴."""
    patterns = _patterns(probability)
    indices = coins.words(-(-count // 4)).view(np.uint16)[:count]
    result = patterns.table.take(indices, mode="clip")
    if len(patterns.table) < _INDICES:
        opened = np.flatnonzero(indices >= len(patterns.table))
        numbers = indices[opened].astype(np.uint64) - np.uint64(len(patterns.table))
        further = coins.words(len(opened)) >> np.uint64(64 - _KEY)
        keys = (numbers << np.uint64(_KEY)) | further
        values = np.searchsorted(patterns.thresholds, keys, side="right")
        for position in np.flatnonzero(np.isin(keys, patterns.thresholds)):  # about once in 2⁴⁸: more digits decide
            values[position] = _decided(int(keys[position]), patterns, coins)
        result[opened] = values
    return result


def _decided(key: int, patterns: _Patterns, coins: Coins) -> int:
    """Return the byte of a key that equals a threshold, from all digits."""
    rest = 8 * 64 - 16 - _KEY
    number = key << rest
    while rest > 0:
        word = int(coins.words(1)[0])
        rest -= 64
        number |= word << rest if rest >= 0 else word >> -rest
    return sum(end <= number for end in patterns.exact)


def random_sets(size: int, members: IntArray, columns: int, coins: Coins) -> ByteArray:
    """Return rows with `size` bits set, all sets equally likely, or all that contain a given member.

    At first all bits are independent, which makes sets of the same size equally likely; rows with too many are drawn
    again, and to the others uniformly random columns are added until there are enough. None of that prefers a column.
    A row has at most half of its columns set; `members` has −1 for a row without a given member.
    """
    count = len(members)
    width = -(-columns // 64)
    digits = _first_digits(size, columns)
    rows = np.empty((count, width), np.uint64)
    missing = np.empty(count, np.int64)
    again = np.arange(count)
    while len(again):
        words = _words(digits, len(again) * width, coins).reshape(-1, width)
        if columns % 64:
            words[:, -1] &= np.uint64((1 << columns % 64) - 1)
        own = np.flatnonzero(members[again] >= 0)
        column = members[again[own]]
        shift = (column & 63).astype(np.uint64)
        words[own, column >> 6] |= np.left_shift(np.uint64(1), shift)
        short = size - np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        fine = short >= 0
        kept = again[fine]
        rows[kept] = words[fine]
        missing[kept] = short[fine]
        again = again[~fine]
    result = rows.astype("<u8", copy=False).view(np.uint8)
    _complete(result.reshape(-1), missing, columns, 8 * width, coins)
    return result[:, : -(-columns // 8)]


def _first_digits(size: int, columns: int) -> tuple[int, ...]:
    """Return the binary digits of a probability with which somewhat fewer than `size` bits are set, lowest first."""
    deviation = math.sqrt(size * (1 - size / columns))
    mean = size - _BELOW * deviation
    share = max(1, math.floor(mean * (1 << _DIGITS) / columns))
    digits = [share >> digit & 1 for digit in range(_DIGITS)]
    return tuple(digits[digits.index(1) :])


def _words(digits: tuple[int, ...], count: int, coins: Coins) -> WordArray:
    """Return words of independent bits, each set with the probability that has these digits."""
    words = coins.words(count)
    for digit in digits[1:]:
        combine = np.bitwise_or if digit else np.bitwise_and
        combine(words, coins.words(count), out=words)
    return words


def _complete(cells: ByteArray, missing: IntArray, columns: int, width: int, coins: Coins) -> None:
    """Set as many more bits of each row as are missing, one uniformly random column after the other."""
    rows = np.flatnonzero(missing)
    missing = missing[rows]
    starts = rows * width
    mask = (1 << (columns - 1).bit_length()) - 1
    while len(starts):
        count = _ROUNDS * len(starts)
        draws = coins.halves(count) if columns > _INDICES else coins.words(-(-count // 4)).view(np.uint16)
        kind = draws.dtype.type
        draws &= kind(mask)
        shifts = (draws & kind(7)).astype(np.uint8)
        bits = np.left_shift(np.uint8(1), shifts)
        bits *= draws < columns  # no such column: nothing is set
        positions = np.minimum(draws, columns - 1) >> kind(3)  # in its own row, in any case
        for first in range(0, count, len(starts)):
            part = slice(first, first + len(starts))
            cell = starts + positions[part]
            before = cells.take(cell, mode="clip")
            after = before | bits[part] * (missing > 0)
            cells[cell] = after
            missing -= after != before
        left = np.flatnonzero(missing)
        missing = missing[left]
        starts = starts[left]


def bits_at(rows: ArrayLike, columns: ArrayLike) -> BoolArray:
    """Return whether each row has the bit of the column next to it set."""
    cells = np.asarray(rows)
    positions = np.asarray(columns, np.int64)
    shape = np.broadcast_shapes(cells.shape[:-1], positions.shape)
    positions = np.broadcast_to(positions, shape)
    cells = np.broadcast_to(cells, (*shape, cells.shape[-1]))
    places = (positions >> 3)[..., None]
    chosen = np.take_along_axis(cells, places, axis=-1)[..., 0]
    shifts = (positions & 7).astype(np.uint8)
    return np.asarray(chosen >> shifts & 1, np.bool_)


def column_sums(rows: ByteArray, columns: int) -> IntArray:
    """Return how often the bit of each column is set."""
    total = np.zeros(8 * rows.shape[1], np.int64)
    step = 255 * max(1, _PART // (255 * columns))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        bits = np.unpackbits(part, axis=1, bitorder="little")
        for first in range(0, len(bits), 255):  # this number of ones fits into a byte
            few = bits[first : first + 255]
            total += few.sum(axis=0, dtype=np.uint8)
    return total[:columns]


def check_spare(rows: NDArray[np.generic], columns: int) -> None:
    """Refuse rows that are no bytes, or have bits set beyond the last column."""
    if len(rows) and rows.dtype != np.uint8:
        raise ParameterError(f"reports of one bit a category are rows of bytes, got {rows.dtype}")
    used = (columns - 1) % 8 + 1
    last = rows[:, -1].astype(np.uint16)
    spare = np.flatnonzero(last >> np.uint16(used))
    if len(spare):
        raise ParameterError(f"reports[{int(spare[0])}] has bits set beyond the last category")
