"""What no bound for a run can beat: two neighbouring datasets, and events that tell them apart.

All examples but one pull the same way, and the one pulls the other way: the sum of its batch stands out. Two statistics
of an epoch see it: whether any sum exceeds a level (Chua et al., arXiv 2403.17673), and what all sums add up to. A
batch with empty slots stands out as well. So the others pull less hard where slots are empty, and every placement of
those is counted. Each pull and each level gives a limit, which is proved in docs/theory/sgd.md, section 7; the largest
counts.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.checks import probability
from shoal.rounding import slack
from shoal.sgd.exceedance import Crowd, Exceeding, above
from shoal.sgd.run import Run

__all__ = ["lower_bound", "permutation_limit", "summed_limit"]

_PULLS = (1.0, 0.75, 0.5, 0.25, 0.0)
_LEVELS = 24
_MANY = 4096
"""With more epochs than this, only the event that some epoch has such a sum is tried, and that none has."""
_DOWN, _UP = 1 - 1e-8, 1 + 1e-8
"""They outweigh the rounding of the binomial probabilities of up to `_MANY` epochs, by twenty times."""
_TINY = 1e-290
_GOLDEN = (math.sqrt(5) - 1) / 2


@lru_cache(maxsize=64)
def lower_bound(run: Run, *, delta: float) -> float:
    """Return an ε below which no (ε, δ) holds for this run, as a guarantee for all data.

    Examples
    --------
    >>> run = Run(examples=60_032, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(lower_bound(run, delta=1e-6), 2)
    6.06

    With 60,000 examples there are 32 empty slots, and a batch that has one hides the victim's:

    >>> run = Run(examples=60_000, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(lower_bound(run, delta=1e-6), 2)
    2.77
    """
    return run.sampler.lower_bound(run, probability(delta=delta))


def summed_limit(run: Run, delta: float) -> float:
    """Return the limit from what all vectors that are seen add up to: in any order, dependent or not."""
    vectors = run.steps if run.sums_only else run.examples
    return _summed(run.sensitivity * math.sqrt(run.epochs / vectors) / run.seen_multiplier, delta)


def permutation_limit(run: Run, delta: float) -> float:
    """Return the greater of `summed_limit` and the limit from sums that stand out, for fresh permutations."""
    multiplier = run.seen_multiplier
    # Where every noised gradient is seen, those of the examples are, and no slot is empty.
    count, empty = (run.steps, run.slots - run.examples) if run.sums_only else (run.examples, 0)

    def standing_out(pull: float, level: float) -> float:
        crowd = Crowd(count, run.batch_size, empty, pull / multiplier)
        other = (-1.0 if run.adjacency == "replace" else 0.0) + pull
        exceeding = crowd.exceeding(level, (1 + pull) / multiplier, other / multiplier)
        return 0.0 if exceeding is None else _distinguished(exceeding[0], exceeding[1], run.epochs, delta)

    def highest(pull: float, level: float | None = None) -> tuple[float, float]:
        """Return the greatest value of this pull, at about this level or any, and the level."""
        top = (1 + pull) / multiplier + 9.0
        if level is None:
            return _greatest(lambda point: standing_out(pull, point), 0.0, top, _LEVELS, 12 if empty == 0 else 0)
        return _greatest(lambda point: standing_out(pull, point), max(0.0, level - 0.5), level + 0.5, 2, 4)

    (value, level), pull = max((highest(pull), pull) for pull in (_PULLS if empty else _PULLS[:1]))
    if empty and value:
        low, high = max(0.0, pull - 0.25), min(1.0, pull + 0.25)
        value, _ = _greatest(lambda point: highest(point, level)[0], low, high, 4, 4)
    return max(summed_limit(run, delta), value)


def _greatest(value: Callable[[float], float], low: float, high: float, parts: int, fine: int) -> tuple[float, float]:
    """Return about the greatest value between two points, and where: on a grid, and then by golden sections."""
    points = [low + (high - low) * index / parts for index in range(parts + 1)]
    tried = [(value(point), point) for point in points]
    index = tried.index(max(tried))
    left, right = points[max(0, index - 1)], points[min(parts, index + 1)]
    for _ in range(fine):
        inner = [right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)]
        values = [value(point) for point in inner]
        tried += zip(values, inner, strict=True)
        left, right = (left, inner[1]) if values[0] >= values[1] else (inner[0], right)
    return max(tried)


def _summed(separation: float, delta: float) -> float:
    """Return the ε of a normal variable whose mean moves by this many standard deviations, rounded down."""

    def least(epsilon: float) -> float:
        """Return δ(ε), rounded down: e^ε·Φ(−y) ≤ φ(x)/y for x = ε/μ − μ/2 and y = x + μ."""
        near = epsilon / separation - separation / 2
        far = near + separation
        error = slack(64) * (1 + far) ** 2
        if error > 1e-3:
            return 0.0
        lost = math.exp(-(near**2) / 2) / math.sqrt(2 * math.pi) / far
        if epsilon < 600 and far < 35:
            lost = min(lost, math.exp(epsilon) * above(far))
        return above(near) * (1 - error) - lost * (1 + error * (1 + epsilon))

    low, high = 0.0, separation * (separation / 2 + 40)
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if least(middle) >= delta else (low, middle)
    return low


def _distinguished(one: Exceeding, other: Exceeding, epochs: int, delta: float) -> float:
    """Return an ε that the number of epochs with a sum above the level contradicts, in either direction."""
    if epochs > _MANY:
        # (1 − p)ᵀ, from above in one world and from below in the other.
        one_none = math.exp(epochs * math.log1p(-min(one.some_low, 0.5)))
        other_none = math.exp(epochs * math.log1p(-other.some_high)) if other.some_high < 1 else 0.0
        some = -math.expm1(epochs * math.log1p(-other.some_high)) if other.some_high < 1 else 1.0
        return max(_ratio(1 - one_none, some, delta), _ratio(other_none, one_none, delta))
    # At least each number of epochs; and at most each, which is likelier where the victim stands out less.
    tails = (
        (_counts(one, epochs, high=False)[::-1], _counts(other, epochs, high=True)[::-1]),
        (_counts(other, epochs, high=False), _counts(one, epochs, high=True)),
    )
    best = 0.0
    for first, second in tails:
        likely, rare = np.cumsum(first), np.cumsum(second)
        index = int(np.argmax((likely * _DOWN - delta) / (rare + _TINY)))
        best = max(best, _ratio(float(likely[index]), float(rare[index]), delta))
    return best


def _counts(each: Exceeding, epochs: int, *, high: bool) -> NDArray[np.float64]:
    """Return the probability of every number of epochs with such a sum: all of them from above, or all from below."""
    some, none = (each.some_high, each.none_high) if high else (each.some_low, each.none_low)
    less = 1 - (each.some_low if high else each.some_high)  # the more precise one where it is nearly all
    none = min(none, less) if high else max(none, less)
    numbers = np.arange(epochs + 1)
    if some <= 0 or none <= 0:
        return np.where(numbers == (0 if some <= 0 else epochs), max(some, none, 0.0) ** epochs, 0.0)
    logs = np.array([math.lgamma(number + 1) for number in range(epochs + 1)])
    return np.asarray(np.exp(logs[-1] - logs - logs[::-1] + numbers * math.log(some) + numbers[::-1] * math.log(none)))


def _ratio(first: float, second: float, delta: float) -> float:
    """Return ln((first − δ)/second), rounded down, if that is positive."""
    if first * _DOWN <= delta:
        return 0.0
    return max(0.0, (math.log(first * _DOWN - delta) - math.log(second * _UP + _TINY)) * (1 - 1e-12) - 1e-12)
