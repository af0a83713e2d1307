"""Hadamard matrices: signs, and the fast transform."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["negative", "power_above", "transform"]

Floats = NDArray[np.float64]


def power_above(number: int) -> int:
    """Return the smallest power of two that is at least this number."""
    return 1 << max(number - 1, 0).bit_length()


def negative(rows: NDArray[np.uint64], columns: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return where Sylvester's matrix has −1: an odd number of common bits."""
    return np.asarray(np.bitwise_count(rows & columns) & 1, np.bool_)


@cache
def _matrix(order: int) -> Floats:
    positions = np.arange(order, dtype=np.uint64)
    return np.where(negative(positions[:, None], positions[None, :]), -1.0, 1.0)


def transform(table: NDArray[np.int64] | Floats) -> Floats:
    """Return the product of each row with the Hadamard matrix of its length, a power of two.

    Sixteen at a time, each step a small matrix product. Whole numbers up to 2⁵³ stay exact.

    Examples
    --------
    >>> transform(np.array([[1, 2, 3, 4]])).tolist()
    [[10.0, -2.0, -4.0, 0.0]]
    """
    shape = table.shape
    bits = (shape[1] - 1).bit_length()
    steps = -(-bits // 4)
    left, result = shape[1], np.ascontiguousarray(table, dtype=np.float64)
    for step in range(steps):
        radix = 1 << -(-bits * (step + 1) // steps) + (bits * step) // -steps  # about equal, and 16 at most
        left //= radix
        if left > 1:
            result = np.matmul(_matrix(radix), result.reshape(-1, radix, left))
        else:
            result = result.reshape(-1, radix) @ _matrix(radix)
    return result.reshape(shape)
