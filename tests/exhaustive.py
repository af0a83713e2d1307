"""`make exhaustive` runs the tests of `make test` with every point of their grids and more examples of hypothesis.

A test that has a grid runs over `representative(grid, size)`. A point, a
backend or a test that only `make exhaustive` runs has the marker `exhaustive`.
"""

import os
from collections.abc import Iterable
from typing import Any, TypeVar

Point = TypeVar("Point")

EXHAUSTIVE = os.environ.get("SHOAL_EXHAUSTIVE", "") == "1"
"""True in `make exhaustive`."""


def representative(points: Iterable[Point], size: int) -> list[Point]:
    """Return `size` of the points, or all of them under `make exhaustive`.

    Each choice is the point with the most coordinates that no earlier choice has, so that a part
    of `product(A, B)` contains every element of A and of B if `size` allows it. Among equals, the
    point farthest from its chosen neighbours in the list is taken. The order of the list remains,
    and the choice is the same in every run.
    """
    every = list(points)
    if EXHAUSTIVE or size >= len(every):
        return every
    coordinates = [_coordinates(point) for point in every]
    distances = [len(every)] * len(every)  # from each point to the nearest one that is chosen
    seen: set[tuple[Any, str]] = set()
    chosen: list[int] = []
    for _ in range(size):
        best = max(
            range(len(every)),
            key=lambda index: (distances[index] > 0, len(coordinates[index] - seen), distances[index]),
        )
        chosen.append(best)
        seen |= coordinates[best]
        distances = [min(distance, abs(index - best)) for index, distance in enumerate(distances)]
    return [every[index] for index in sorted(chosen)]


def amount(default: int, exhaustive: int) -> int:
    """Return how many trials, seeds or examples of hypothesis a test runs."""
    return exhaustive if EXHAUSTIVE else default


def _coordinates(point: Any) -> set[tuple[Any, str]]:
    if isinstance(point, dict):
        return {(name, repr(value)) for name, value in point.items()}
    if isinstance(point, tuple):
        return {(place, repr(value)) for place, value in enumerate(point)}
    return {(None, repr(point))}
