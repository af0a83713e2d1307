"""The best mechanism for a histogram, by brute force over all mechanisms and all their designs."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import shoal
from shoal.calibration import largest_private
from shoal.mechanisms import Categorical, kinds
from shoal.mechanisms.categorical import Selection
from shoal.pairs.randomizer import ability

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

_LARGEST_LOCAL = 40.0
_GAIN = 1 - 1e-4
"""A design that is better by less is not looked at: many are the same one by another name."""
_NODES, _DEVIATIONS = 1200, 40.0


def every_design(categories: int) -> Iterator[Categorical]:
    """Yield the designs of all mechanisms, at ε₀ = 1."""
    for kind in MECHANISMS.values():
        if issubclass(kind, Selection):
            for parameters, _ in kind.designs(categories):
                yield kind(categories=categories, local_epsilon=1.0, **parameters)
        else:
            yield kind(categories=categories, local_epsilon=1.0)


def best_design(*, categories: int, reports: int, epsilon: float, delta: float) -> tuple[Categorical, float]:
    """Return the mechanism with the least error of all at its own largest ε₀, and this error, within 1e-4.

    For a fixed design the error falls and δ rises with ε₀ (docs/theory/frequency.md, statement 1). So a design is
    better than the best one so far exactly if it still has the guarantee at the ε₀ where it has the same error; only
    then its largest ε₀ is searched for. The library is not asked where the integral says that δ is a quarter too large.
    """
    best: Categorical | None = None
    least = math.inf
    designs = list(every_design(categories))
    random.Random(7).shuffle(designs)  # in order they would get better one by one, and all be searched
    for design in designs:
        local = 0.0 if best is None else _local_epsilon(design, least * _GAIN, reports)
        if local > _LARGEST_LOCAL:
            continue
        if local > epsilon:
            made = replace(design, local_epsilon=local)
            blanket = ability(made, "bit") is None  # reports of one bit have a smaller δ than that of the blanket
            if blanket and inverted_delta(made, reports=reports, epsilon=epsilon) > 1.25 * delta:
                continue
            if shoal.amplify(made, reports=reports).delta(epsilon) > delta:
                continue
        found = largest_private(design, reports=reports, epsilon=epsilon, delta=delta, tolerance=1e-6)
        reached = math.sqrt(float(found.variance(reports=reports).sum()))
        if reached < least:
            best, least = found, reached
    assert best is not None
    return best, least


def inverted_delta(mechanism: Categorical, *, reports: int, epsilon: float) -> float:
    """Return δ(ε) = E[(W₁ + … + Wₙ)₊]/n of the blanket in plain doubles.

    E[S₊] is the integral of M(z)ⁿ/z² along a vertical line, over 2πi, where M is the moment generating function of W.
    The line goes through the saddle point; what is left out of it at either end is small, but not bounded here.
    """
    (blanket, *_) = mechanism.blanket
    values = np.array([*blanket.values(epsilon), 0.0])
    probabilities = np.array([*blanket.probabilities, blanket.missing])
    unit = float(values.max())
    if unit <= 0:
        return 0.0
    values /= unit

    def slope(tilt: float) -> float:
        weights = probabilities * np.exp(tilt * values)
        return reports * float(values @ weights / weights.sum()) - 2 / tilt

    low, high = 1e-12, 600.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    weights = probabilities * np.exp(low * values)
    mean, moment = float(values @ weights / weights.sum()), float(weights.sum())
    variance = float((values - mean) ** 2 @ weights / weights.sum())
    heights = np.linspace(0, _DEVIATIONS / math.sqrt(reports * variance + 2 / low**2), _NODES)
    nodes = low + 1j * heights
    powers = (np.exp(nodes[:, None] * values) @ probabilities / moment) ** reports / nodes**2
    integral = float(np.trapezoid(powers.real, heights)) / math.pi
    return unit * math.exp(reports * math.log(moment)) * integral / reports


def _local_epsilon(mechanism: Categorical, goal: float, reports: int) -> float:
    """Return the ε₀ at which the error is the goal, or infinity where no ε₀ is enough."""

    def square(local: float) -> float:
        if isinstance(mechanism, Selection):
            return mechanism.design.error(local, mechanism.categories) / reports
        return float(replace(mechanism, local_epsilon=local).variance(reports=reports).sum())

    low, high = 0.0, _LARGEST_LOCAL
    if square(high) > goal**2:
        return math.inf
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if square(middle) <= goal**2 else (middle, high)
    return low
