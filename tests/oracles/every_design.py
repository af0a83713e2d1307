"""The best mechanism for a histogram, by brute force over all mechanisms and all their designs."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import shoal
from shoal.calibration import largest_private
from shoal.randomizers import MECHANISMS, Categorical
from shoal.randomizers.indexed import Selection

__all__ = ["best_design", "error", "every_design"]

_LARGEST_LOCAL = 40.0
_GAIN = 1 - 1e-4
"""A design that is better by less is not looked at: many are the same one by another name."""


def every_design(categories: int, *, coarse: float = 0.0) -> Iterator[Categorical]:
    """Yield the designs of all mechanisms, at ε₀ = 1; with `coarse`, one of those that agree up to this share."""
    for kind in MECHANISMS.values():
        if not issubclass(kind, Selection):
            yield kind(categories=categories, local_epsilon=1.0)
            continue
        seen: set[tuple[float, ...]] = set()
        for parameters, design in kind.designs(categories):
            numbers = (
                math.log(design.outputs / design.supporting),
                design.common / design.supporting,
                math.log(design.blocks),
            )
            key = tuple(round(number / coarse) for number in numbers) if coarse else (float(len(seen)),)
            if key not in seen:
                seen.add(key)
                yield kind(categories=categories, local_epsilon=1.0, **parameters)


def error(mechanism: Categorical, local_epsilon: float, reports: int) -> float:
    """Return the root mean square ℓ₂ error at some ε₀, where all frequencies are equal."""
    if isinstance(mechanism, Selection):
        square = mechanism.design.error(local_epsilon, mechanism.categories) / reports
        return math.sqrt(max(square, 0.0))  # it may be 0 up to rounding
    return math.sqrt(float(replace(mechanism, local_epsilon=local_epsilon).variance(reports=reports).sum()))


def best_design(
    *, categories: int, reports: int, epsilon: float, delta: float, coarse: float = 0.0
) -> tuple[Categorical, float]:
    """Return the mechanism with the least error of all at its own largest ε₀, and this error, within 1e-4.

    For a fixed design the error falls and δ rises with ε₀ (docs/theory/frequency.md, statement 1). So a design is
    better than the best one so far exactly if it still has the guarantee at the ε₀ where it has the same error; only
    then its largest ε₀ is searched for.
    """
    target: dict[str, Any] = {"reports": reports, "epsilon": epsilon, "delta": delta}
    best: Categorical | None = None
    least = math.inf
    for design in every_design(categories, coarse=coarse):
        local = 0.0 if best is None else _local_epsilon(design, least * _GAIN, reports)
        if local > _LARGEST_LOCAL:
            continue
        if local > epsilon:
            made = replace(design, local_epsilon=local)
            if shoal.amplify(made, reports=reports).delta(epsilon) > delta:
                continue
        found = largest_private(design, **target, tolerance=1e-6)
        reached = math.sqrt(float(found.variance(reports=reports).sum()))
        if reached < least:
            best, least = found, reached
    assert best is not None
    return best, least


def _local_epsilon(design: Categorical, goal: float, reports: int) -> float:
    """Return the ε₀ at which the error is the goal, or infinity where no ε₀ is enough."""
    low, high = 0.0, _LARGEST_LOCAL
    if error(design, high, reports) > goal:
        return math.inf
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if error(design, middle, reports) <= goal else (middle, high)
    return low
