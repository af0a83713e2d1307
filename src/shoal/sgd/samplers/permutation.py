"""A fresh permutation for every epoch: all slots in uniformly random order, cut into batches of equally many slots."""

import math
from collections.abc import Iterator

import numpy as np

from shoal.checks import whole
from shoal.mechanisms.coins import Coins
from shoal.rounding import slack
from shoal.sgd.bounds import plain, shuffled_bounds, theorem_g, theorem_r
from shoal.sgd.gradient_noise import subkey
from shoal.sgd.ratio_search import Search
from shoal.sgd.run import Run
from shoal.sgd.run_limits import permutation_limit
from shoal.sgd.sampler import Indices, Sampler, register
from shoal.sgd.training_bound import Bound, Elements

__all__ = ["Permutation"]

_UP = 1 + slack(32)


class _EpochCoins(Coins):
    """The coins of one epoch: whoever has the key can toss them again."""

    def __init__(self, key: bytes, epoch: int) -> None:
        self._secret, self._epoch, self._keys = key, epoch, 0
        super().__init__()

    def _key(self) -> bytes:
        self._keys += 1
        # The words are part of every key: other words would be another permutation.
        return subkey(self._secret, f"permutation {self._keys} of pass", self._epoch)


@register
class Permutation(Sampler):
    """A uniformly random, secret permutation of all slots, fresh in every epoch.

    The examples and as many empty slots as make the last batch full are permuted together, and every order is equally
    likely: none is less likely by even 2⁻⁶⁴, for random 64-bit keys are sorted, and drawn again if two are equal. Every
    example is in exactly one batch of an epoch. A batch has at most b examples; which batches have fewer is as random
    as all else. Where every noised gradient is seen, no slot is empty: the last batch has the examples that are left.

    Examples
    --------
    >>> from shoal.sgd.run import Run
    >>> batches = Permutation().batches(Run(examples=10, batch_size=4), key=bytes(32), epoch=0)
    >>> len(batches), sorted(index for batch in batches for index in batch.tolist())
    (3, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    name = "permutation"
    description = "a fresh random permutation of the examples in every epoch"
    assumption = "every epoch has a fresh, uniformly random, secret permutation of its slots"

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples in each batch of an epoch."""
        coins = _EpochCoins(key, whole(epoch=epoch, least=0))
        if not run.sums_only:
            order = coins.permutation(run.examples)
            return [order[start : start + run.batch_size] for start in range(0, run.examples, run.batch_size)]
        slots = coins.permutation(run.slots).reshape(run.steps, run.batch_size)
        batches = list(slots)
        for step in np.flatnonzero((slots >= run.examples).any(axis=1)):
            batches[step] = slots[step][slots[step] < run.examples]
        return batches

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the plain bound, every theorem for examples and batches as shuffled elements, and representatives."""
        unshuffled = plain(run, delta)
        yield unshuffled
        for elements in _views(run):
            yield from shuffled_bounds(elements, run.epochs, delta, limit=unshuffled.epsilon)
        searches = [theorem_r(elements, run.epochs, delta) for elements in _representatives(run)]
        if searches:
            tried = {searches[0], min(searches, key=lambda search: search.estimate()[0])}
            yield min(search.best(limit=unshuffled.epsilon) for search in tried)

    def epsilon(self, run: Run, delta: float) -> float:
        """Return the smaller ε of the plain bound and Theorem G or R for the elements that promise the least."""
        unshuffled = plain(run, delta).epsilon
        best = min(self._searches(run, delta), key=lambda search: search.estimate()[0])
        return min(unshuffled, best.best(limit=unshuffled).epsilon)

    def estimate(self, run: Run, delta: float) -> float:
        """Return roughly what `epsilon` does, in milliseconds."""
        return min(plain(run, delta).epsilon, *(search.estimate()[0] for search in self._searches(run, delta)))

    def _searches(self, run: Run, delta: float) -> list[Search]:
        searches = [theorem_r(elements, run.epochs, delta) for elements in _representatives(run)]
        return [theorem_g(next(_views(run)), run.epochs, delta), *searches]

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the sum of all that is seen, and from sums that stand out."""
        return permutation_limit(run, delta)


def _views(run: Run) -> Iterator[Elements]:
    """Yield what an epoch can be taken to shuffle: its examples first, then its batches."""
    zeroed = run.adjacency == "zero-out"
    unit, number = _UP / run.slot_multiplier, run.slots if run.sums_only else run.examples
    # Gradients are around zero, which is one of the two if an example is zeroed.
    yield Elements("examples", number, run.sensitivity * unit, 2 * unit, unit, 0.0 if zeroed else unit, unit)
    if run.sums_only and run.batch_size > 1:
        unit = _UP / run.sum_multiplier
        near, far = run.sensitivity * unit, 2 * run.batch_size * unit
        yield Elements("batches", run.steps, near, far, near / 2, near / 2, far)


def _representatives(run: Run) -> Iterator[Elements]:
    """Yield r slots of every batch, r = 1, 2, 4, … below the batch size, each with 1/√r of the deviation of a sum."""
    shown = 1
    while run.sums_only and shown < run.batch_size:
        unit, zeroed = _UP * math.sqrt(shown) / run.sum_multiplier, run.adjacency == "zero-out"
        near, below = run.sensitivity * unit, 0.0 if zeroed else unit
        yield Elements("representatives", shown * run.steps, near, 2 * unit, unit, below, unit)
        shown *= 2
