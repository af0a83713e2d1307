"""The matrices of the mechanisms for k categories, written out from their definitions; the outputs are listed."""

from __future__ import annotations

import math
from itertools import combinations, product


def hadamard_response(categories: int, local_epsilon: float) -> list[list[float]]:
    """Return the matrix with a row of the Sylvester-Hadamard matrix for each category, the first row left out."""
    order = 2 ** math.ceil(math.log2(categories + 1))
    low = 2 / (order * (math.exp(local_epsilon) + 1))
    return [
        [low * math.exp(local_epsilon * ((x & y).bit_count() % 2 == 0)) for y in range(order)]
        for x in range(1, categories + 1)
    ]


def unary(categories: int, kept: float, noise: float) -> list[list[float]]:
    """Return the matrix of independent bits: the true one is set with probability `kept`, others with `noise`."""
    return [
        [
            math.prod(
                (probability if bit else 1 - probability)
                for place, bit in enumerate(bits)
                for probability in [kept if place == x else noise]
            )
            for bits in product((0, 1), repeat=categories)
        ]
        for x in range(categories)
    ]


def rappor(categories: int, local_epsilon: float) -> list[list[float]]:
    """Return the matrix of one-time RAPPOR."""
    noise = 1 / (math.exp(local_epsilon / 2) + 1)
    return unary(categories, 1 - noise, noise)


def unary_encoding(categories: int, local_epsilon: float) -> list[list[float]]:
    """Return the matrix of optimized unary encoding."""
    return unary(categories, 0.5, 1 / (math.exp(local_epsilon) + 1))


def subset_selection(categories: int, local_epsilon: float, size: int) -> list[list[float]]:
    """Return the matrix over all subsets of this size."""
    subsets = list(combinations(range(categories), size))
    weights = [[math.exp(local_epsilon * (x in subset)) for subset in subsets] for x in range(categories)]
    return [[weight / math.fsum(row) for weight in row] for row in weights]
