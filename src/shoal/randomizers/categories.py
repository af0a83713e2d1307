"""What mechanisms for one of k categories check and do alike: the values of people, their counts, and frequencies."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.errors import ParameterError
from shoal.randomizers.coins import CHUNK, Coins, Simulation, coins_for
from shoal.randomizers.counts import Counts
from shoal.randomizers.mechanism import Reports

__all__ = ["check_counts", "checked_frequencies", "randomized"]


def randomized(
    values: ArrayLike,
    categories: int,
    blank: Reports,
    report: Callable[[NDArray[Any], Coins], Reports],
    simulation: Simulation | None,
) -> Reports:
    """Return a report for each value, made in chunks by `report`, in an array like `blank`."""
    numbers = _numbers(values, categories)
    coins = coins_for(simulation)
    reports = np.empty((len(numbers), *blank.shape[1:]), blank.dtype)
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        reports[start : start + len(part)] = report(part, coins)
    return reports


def _numbers(values: ArrayLike, categories: int) -> NDArray[Any]:
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise ParameterError("values must be a list of whole numbers, all in one row", parameter="values") from None
    if numbers.size == 0:
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iub":
        raise ParameterError(
            f"values must be a list of whole numbers from 0 to {categories - 1}, "
            f"got {numbers.ndim} dimensions of {numbers.dtype}",
            parameter="values",
        )
    if numbers.min() < 0 or numbers.max() >= categories:
        index = int(np.flatnonzero((numbers < 0) | (numbers >= categories))[0])
        raise ParameterError(
            f"values[{index}] is {numbers[index]}, and the categories are numbered from 0 to {categories - 1}"
        )
    return numbers


def check_counts(mechanism: object, counts: object) -> None:
    """Refuse counts of another mechanism, and those of no reports."""
    if not isinstance(counts, Counts) or counts.mechanism != mechanism:
        other = counts.mechanism if isinstance(counts, Counts) else counts
        raise ParameterError(f"these counts are not of {mechanism!r}, but of {other!r}")
    if counts.reports == 0:
        raise ParameterError("there are no reports to estimate from")


def checked_frequencies(frequencies: ArrayLike | None, categories: int) -> NDArray[np.float64]:
    """Return the frequencies of the categories, equal ones if none are given."""
    if frequencies is None:
        return np.full(categories, 1 / categories)
    given = np.asarray(frequencies, dtype=np.float64)
    if given.shape != (categories,) or not (np.all(given >= 0) and abs(given.sum() - 1) < 1e-6):
        raise ParameterError(
            f"frequencies must be {categories} numbers of at least 0 with sum 1", parameter="frequencies"
        )
    return given
