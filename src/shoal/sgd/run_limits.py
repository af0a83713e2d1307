"""What no bound for a run can beat: two neighbouring datasets, and events that tell them apart.

All examples but one pull the same way, and the one pulls the other way: the sum of its batch stands out. Three
statistics of an epoch see it: whether any sum exceeds a level (Chua et al., arXiv 2403.17673), what all sums add up to,
and something between (`soft_maximum`). A batch with empty slots stands out as well. So the others pull less hard where
slots are empty, and every placement of those is counted. Each pull and each level gives a limit, which is proved in
docs/theory/sgd.md, section 7, and docs/theory/samplers.md, section 6; the largest counts.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.checks import probability
from shoal.errors import ParameterError
from shoal.rounding import slack
from shoal.sgd.exceedance import Crowd, Exceeding, above
from shoal.sgd.run import Run
from shoal.sgd.soft_maximum import Victim, soft_limit

__all__ = ["allocation_limit", "loader_limit", "lower_bound", "permutation_limit", "summed_limit"]

_PULLS = (1.0, 0.75, 0.5, 0.25, 0.0)
_LEVELS = 24
_MANY = 4096
"""With more epochs than this, only the event that some epoch has such a sum is tried, and that none has."""
_MANY_SUMS = 10**5
"""With more sums than this, and empty slots among them, only others that do not pull at all are counted softly."""
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
    moved = run.sensitivity * run.participations
    return _summed(moved * math.sqrt(run.epochs / vectors) / run.seen_multiplier, delta)


def permutation_limit(run: Run, delta: float) -> float:
    """Return the greatest of the limits from all sums together, from those that stand out, and from all of them softly.

    For fresh permutations of all slots: which batches have empty ones is as random as all else.
    """
    # Where every noised gradient is seen, those of the examples are, and no slot is empty.
    count, empty = (run.steps, run.slots - run.examples) if run.sums_only else (run.examples, 0)
    return max(summed_limit(run, delta), _crowded(run, count, empty, 0.0, delta))


def loader_limit(run: Run, *, delta: float, drop_last: bool = False) -> float:
    """Return an ε below which no (ε, δ) holds for batches from a loader that shuffles, such as torch's DataLoader.

    In every epoch it draws a fresh permutation of the examples and cuts it into batches of b. The last one has those
    that are left, at the end of the epoch, and everybody knows how many; or it is dropped. So no slot is empty: what
    the other examples add to a sum is known, if all of them pull the same way, and the victim stands out.

    Parameters
    ----------
    run : Run
        Its `examples`, `batch_size`, `noise_multiplier`, `epochs` and `adjacency` count, and nothing else of it.
    delta : float
        δ of the guarantee.
    drop_last : bool
        Whether the examples that are left at the end of an epoch are in no batch.

    Examples
    --------
    >>> run = Run(examples=6_000, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    >>> round(loader_limit(run, delta=1e-6), 3)
    6.283
    """
    delta = probability(delta=delta)
    full, left = divmod(run.examples, run.batch_size)
    if run.adjacency == "add-remove" or not run.sums_only or not full:
        raise ParameterError(
            "a loader's limit is for sums of batches of a public number of examples; use adjacency "
            '"replace" or "zero-out", and noise="batch"'
        )
    run = Run(
        examples=run.examples,
        batch_size=run.batch_size,
        noise_multiplier=run.multiplier,
        epochs=run.epochs,
        adjacency=run.adjacency,
    )
    if drop_last and left:
        return _crowded(run, full, 0, left / run.examples * (1 + slack(4)), delta)
    return max(summed_limit(run, delta), _crowded(run, run.steps, 0, 0.0, delta))


def allocation_limit(run: Run, delta: float) -> float:
    """Return the limit for an example that joins one random step of each epoch: that of the exact pair, nearly."""
    if run.participations > 1:  # whether one of each block, or any others, is not known
        return summed_limit(run, delta)
    return max(summed_limit(run, delta), _crowded(run, run.steps, 0, 0.0, delta, pulls=(0.0,)))


def _crowded(
    run: Run, count: int, empty: int, absent: float, delta: float, *, pulls: tuple[float, ...] = _PULLS
) -> float:
    """Return the greater limit of one sum that stands out and of all sums softly, for the pull that has the greatest.

    The victim is in one of `count` sums, or with the probability `absent` in none; `empty` slots are at random.
    """
    multiplier = run.seen_multiplier

    def victim(pull: float) -> Victim:
        other = (-1.0 if run.adjacency == "replace" else 0.0) + pull
        return Victim((1 + pull) / multiplier, other / multiplier, absent)

    def crowd(pull: float) -> Crowd:
        return Crowd(count, run.batch_size, empty, pull / multiplier)

    def standing_out(pull: float, level: float) -> float:
        one, other, _ = victim(pull)
        exceeding = crowd(pull).exceeding(level, one, other, 0.0)
        if exceeding is None:
            return 0.0
        here, there = (_mixed(each, exceeding[2], absent) for each in exceeding[:2])
        return _distinguished(here, there, run.epochs, delta)

    def highest(pull: float, level: float | None = None) -> tuple[float, float]:
        """Return the greatest value of this pull, at about this level or any, and the level."""
        top = (1 + pull) / multiplier + 9.0
        if level is None:
            return _greatest(lambda point: standing_out(pull, point), 0.0, top, _LEVELS, 12 if empty == 0 else 0)
        return _greatest(lambda point: standing_out(pull, point), max(0.0, level - 0.5), level + 0.5, 2, 4)

    # Where no slot is empty, others hide the victim least if they pull as hard as they can.
    pulls = pulls if empty else pulls[:1]
    (value, level), pull = max((highest(pull), pull) for pull in pulls)
    if empty and value:
        low, high = max(0.0, pull - 0.25), min(1.0, pull + 0.25)
        value, _ = _greatest(lambda point: highest(point, level)[0], low, high, 4, 4)
    soft = pulls if count <= _MANY_SUMS else pulls[-1:]
    return max(value, *(soft_limit(crowd(pull), victim(pull), run.epochs, delta) for pull in soft))


def _mixed(there: Exceeding, gone: Exceeding, absent: float) -> Exceeding:
    """Return the probabilities where the victim is in no sum with this probability."""
    return Exceeding(*((1 - absent) * one + absent * other for one, other in zip(there, gone, strict=True)))


def _greatest(value: Callable[[float], float], low: float, high: float, parts: int, fine: int) -> tuple[float, float]:
    """Return about the greatest value between two points, and where: on a grid, and then by golden sections.

    There is a peak for every number of epochs with such a sum, so the sections begin at several points.
    """
    points = [low + (high - low) * index / parts for index in range(parts + 1)]
    tried = [(value(point), point) for point in points]
    for index in sorted(range(parts + 1), key=tried.__getitem__, reverse=True)[: max(1, parts // 8)]:
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
