"""Vectors over the field of q elements, q prime, written as whole numbers with q digits."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import WordArray
from shoal.errors import ParameterError

largest_transform = 1 << 23
"""Tables beyond this size would take seconds to decode."""


@cache
def primes(most: int) -> tuple[int, ...]:
    """Return the primes up to this number."""
    sieve = np.ones(most + 1, np.bool_)
    sieve[:2] = False
    for number in range(2, math.isqrt(most) + 1):
        if sieve[number]:
            sieve[number * number :: number] = False
    return tuple(np.flatnonzero(sieve).tolist())


def check_prime(number: int, name: str) -> int:
    """Return the number if it is a prime."""
    if number > 1 << 31:
        raise ParameterError(f"{name} must be a prime below 2**31, got {number}", name)
    divisors = range(2, math.isqrt(max(number, 0)) + 1)
    if number < 2 or any(number % divisor == 0 for divisor in divisors):
        raise ParameterError(f"{name} must be a prime such as 2, 3, 5, 7, 11, got {number}", name)
    return number


@cache
def inverses(order: int) -> WordArray:
    """Return the inverse of every number modulo q; that of 0 is 0."""
    result = np.zeros(order, np.uint64)
    for number in range(1, order):
        result[number] = pow(number, -1, order)
    return result


def digits(numbers: WordArray, order: int, dimension: int) -> list[WordArray]:
    """Return the digits, the lowest first."""
    result = []
    rest = numbers
    for _ in range(dimension):
        rest, digit = np.divmod(rest, np.uint64(order))
        result.append(digit)
    return result


def product(first: list[WordArray], second: list[WordArray], order: int) -> WordArray:
    """Return the inner products modulo q, for q below 2²⁸."""
    total = first[0] * second[0]
    for a, b in zip(first[1:], second[1:], strict=True):
        total = (total + a * b) % np.uint64(order)
    return total % np.uint64(order)


def spectrum_of(table: NDArray[Any], order: int, dimension: int) -> NDArray[np.complex128]:
    """Return the discrete Fourier transform of each row, a function of vectors of this dimension."""
    vectors = (order,) * dimension
    axes = tuple(range(1, dimension + 1))
    result = np.fft.fftn(table.reshape(len(table), *vectors), axes=axes)
    return np.asarray(result.reshape(len(table), -1))
