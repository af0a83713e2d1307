"""Every report of a mechanism for categories, with its probability as a fraction, from the integers and `supports`."""

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.mechanisms import Categorical, SubsetSelection, UnaryEncoding
from shoal.mechanisms.coins import WHOLE


def outputs_of(mechanism: Categorical) -> NDArray[Any]:
    """Return all reports that there are."""
    k = mechanism.categories
    if isinstance(mechanism, SubsetSelection):
        members = np.array(list(combinations(range(k), mechanism.subset_size)), np.uint32)
        if mechanism.blank.dtype != np.uint8:
            return members
        return np.packbits((members[:, :, None] == np.arange(k)).any(axis=1), axis=1, bitorder="little")
    if isinstance(mechanism, UnaryEncoding):
        return np.packbits(np.array(list(product((0, 1), repeat=k)), np.uint8), axis=1, bitorder="little")
    return np.arange(mechanism.outputs)  # type: ignore[attr-defined]


def table_of(mechanism: Categorical) -> NDArray[np.bool_]:
    """Return which output (row) supports which category (column)."""
    outputs = outputs_of(mechanism)
    columns = [mechanism.supports(outputs, np.full(len(outputs), x)) for x in range(mechanism.categories)]
    return np.stack(columns, axis=1)


def row_of(mechanism: Categorical, value: int) -> list[Fraction]:
    """Return the probability of every output from a value."""
    if isinstance(mechanism, UnaryEncoding):
        noise = Fraction(mechanism.flip, mechanism.resolution)
        set_ = [noise] * mechanism.categories
        set_[value] = 1 - noise if mechanism.symmetric else Fraction(1, 2)
        pairs = [(1 - share, share) for share in set_]
        return [math.prod(chosen, start=Fraction(1)) for chosen in product(*pairs)]
    outputs = outputs_of(mechanism)
    supported = mechanism.supports(outputs, np.full(len(outputs), value))
    truth = Fraction(mechanism.truth, WHOLE)  # type: ignore[attr-defined]
    base = (1 - truth) / len(outputs)
    own = base + truth / int(supported.sum())
    return [own if inside else base for inside in supported.tolist()]


def matrix_of(mechanism: Categorical) -> list[list[Fraction]]:
    """Return the probability of every output (column) from every category (row)."""
    return [row_of(mechanism, value) for value in range(mechanism.categories)]


def schemas(mechanism: str, names: str, *rows: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return a schema for each row of parameters, whose names are in one text."""
    return [{"mechanism": mechanism, **dict(zip(names.split(), row, strict=True))} for row in rows]
