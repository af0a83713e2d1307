"""The samplers of shoal: allocation, kept allocation, Poisson sampling, fresh permutations, and a fixed order.

Each registers itself. What is proved of a run that draws so is in `bounds` (docs/theory/samplers.md).
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.mechanisms.coins import Coins
from shoal.numerics.noise import gaussian_epsilon
from shoal.rounding import slack
from shoal.sgd.bounds import (
    Bound,
    Elements,
    Search,
    allocation,
    kept_allocation,
    plain,
    poisson,
)
from shoal.sgd.gradient_noise import KeyedWords, Words, subkey
from shoal.sgd.run import Run
from shoal.sgd.run_limits import allocation_limit, permutation_limit, summed_limit
from shoal.sgd.sampler import OVERFULL, Indices, Sampler, largest_batch, register

_TRIES = 1 << 40
"""More than any index: how far apart the counters of two tries for one example of an allocation are."""
_LEAST_NOISE = 1e-5
"""A run of kept allocation with less has no limit that is computed."""
_WORD = 64
_LEVEL = 1 << 40
"""More than any index: how far apart the counters of two rounds of coins are."""
_LAST = 64 * _LEVEL
"""Where the counters of the last coins begin."""
_AT_ONCE = 1 << 18
"""About how many words are tossed at once."""
_UP = 1 + slack(32)


@register
class Allocation(Sampler):
    """A uniformly random, secret step for every example, fresh in every epoch ("balls in bins").

    The step of an example is a function of the key, the epoch and its index alone: no other example has anything to do
    with it, and it can be drawn again after a crash. It is by rejection, so that no step is more likely than another.
    Batches have b examples on average, and may be empty. How many one has is a secret: sums are divided by b, and every
    step has its noise.

    It is never worse than a permutation with as many steps. If the gradients of all other examples are zero, both show
    the same, and this is the worst that allocation can show: so no ε that is true for the permutation, for all data, is
    below that of the pair of which `allocation` computes the ε (docs/theory/samplers.md).
    """

    name = "allocation"
    description = "every example in one random step of each epoch, independently of the others"
    assumption = (
        "in every epoch each example joins one step, uniformly random, secret, and independent of all others; nobody "
        "sees how many a step has, nor what tells that: its loss, time or memory"
    )
    adjacencies = ("replace", "zero-out", "add-remove")
    any_steps = any_participations = True

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples of each step of an epoch, in ascending order."""
        words = KeyedWords(subkey(key, "allocation of epoch", whole(epoch=epoch, least=0)))
        batches = list[Indices]()
        for block, size in enumerate(run.blocks):
            steps = words.below(size, block, np.arange(run.examples), tries=_TRIES)
            ends = np.cumsum(np.bincount(steps, minlength=size))
            batches += np.split(np.argsort(steps, kind="stable"), ends[:-1])
        return batches

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the bound of the exact pair, and the plain one."""
        yield allocation(run, delta * (1 - OVERFULL))
        yield plain(run, delta * (1 - OVERFULL))

    def estimate(self, run: Run, delta: float) -> float:
        """Return roughly what `epsilon` does: exactly that for one epoch, which is fast."""
        unhidden = plain(run, delta).epsilon
        return (
            self.epsilon(run, delta)
            if run.epochs * run.participations == 1
            else min(unhidden, normal_estimate(run, run.participations / run.steps, delta))
        )

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the exact pair, from below."""
        return allocation_limit(run, delta)

    def largest(self, run: Run, delta: float) -> int:
        """Return a size that no batch exceeds, but for a probability that `bounds` charge."""
        return largest_batch(run, Fraction(1, min(run.blocks)), delta)

    def check(self, run: Run) -> None:
        """Refuse noise for every slot, as there are none, and more blocks than steps."""
        super().check(run)
        check_sums(run)
        if run.participations > run.steps:
            raise ParameterError(
                f"an example cannot take part in participations={run.participations:,} of {run.steps:,} steps; use at "
                "most as many as there are"
            )


@register
class FixedOrder(Sampler):
    """The examples in the order of the data, the same in every epoch; its bound holds for any other order too."""

    name = "fixed-order"
    description = "any fixed order, the same in every epoch, which amplifies nothing"

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples one after the other; the last batch has those that are left."""
        order = np.arange(run.examples)
        return [order[start : start + run.batch_size] for start in range(0, run.examples, run.batch_size)]

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the plain bound."""
        yield plain(run, delta)

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the sum of all that is seen, whose distribution no order changes."""
        return summed_limit(run, delta)


@register
class KeptAllocation(Allocation):
    """A uniformly random, secret step for every example, which it keeps: balls in bins that are filled once.

    Some libraries sample so, as batches then need not be drawn again. All epochs together see an example in one step,
    with a separation that is √E times as large. So ε is larger than with a fresh allocation in every epoch, and much so
    where there is little noise. The batches are those of the first epoch of an allocation.
    """

    name = "kept-allocation"
    description = "every example in one random step, the same in every epoch, which costs more"
    assumption = (
        "each example joins one step, uniformly random, secret, and independent of all others, the same in every "
        "epoch; nobody sees how many a step has, nor what tells that: its loss, time or memory"
    )
    any_participations = False

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples of each step of the first epoch."""
        return super().batches(run, key=key, epoch=0)

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the bound of the exact pair, and the plain one."""
        yield kept_allocation(run, delta * (1 - OVERFULL))
        yield plain(run, delta * (1 - OVERFULL))

    def estimate(self, run: Run, delta: float) -> float:
        """Return what `epsilon` does, which is fast."""
        return self.epsilon(run, delta)

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the exact pair, from below: one epoch with less noise, or 0 if that is too little."""
        noise = run.multiplier / math.sqrt(run.epochs) * (1 + slack(4))
        if noise < _LEAST_NOISE:
            return 0.0
        return allocation_limit(replace(run, noise_multiplier=noise, epochs=1), delta)


class _EpochCoins(Coins):
    """The coins of one epoch: whoever has the key can toss them again."""

    def __init__(self, key: bytes, epoch: int) -> None:
        self._secret = key
        self._epoch = epoch
        self._keys = 0
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
        """Yield the plain bound, Theorem G for examples and batches as shuffled elements, and representatives."""
        unshuffled = plain(run, delta)
        yield unshuffled
        for elements in _views(run):
            yield Search("gaussian-clones", elements, run.epochs, delta).best(limit=unshuffled.epsilon)
        searches = _shown_searches(run, delta)
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
        estimates = [search.estimate()[0] for search in self._searches(run, delta)]
        return min(plain(run, delta).epsilon, *estimates)

    def _searches(self, run: Run, delta: float) -> list[Search]:
        return [Search("gaussian-clones", next(_views(run)), run.epochs, delta), *_shown_searches(run, delta)]

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the sum of all that is seen, and from sums that stand out."""
        return permutation_limit(run, delta)


def _views(run: Run) -> Iterator[Elements]:
    """Yield what an epoch can be taken to shuffle: its examples first, then its batches."""
    zeroed = run.adjacency == "zero-out"
    unit = _UP / run.slot_multiplier
    number = run.slots if run.sums_only else run.examples
    # Gradients are around zero, which is one of the two if an example is zeroed.
    yield Elements("examples", number, 2 * unit, unit, 0.0 if zeroed else unit, unit)
    if run.sums_only and run.batch_size > 1:
        unit = _UP / run.sum_multiplier
        near = run.sensitivity * unit
        far = 2 * run.batch_size * unit
        yield Elements("batches", run.steps, far, near / 2, near / 2, far)


def _shown_searches(run: Run, delta: float) -> list[Search]:
    """Return the searches by Theorem R, one for each number of slots that are not told."""
    return [Search("representatives", elements, run.epochs, delta) for elements in _representatives(run)]


def _representatives(run: Run) -> Iterator[Elements]:
    """Yield r slots of every batch, r = 1, 2, 4, … below the batch size, each with 1/√r of the deviation of a sum."""
    shown = 1
    while run.sums_only and shown < run.batch_size:
        unit = _UP * math.sqrt(shown) / run.sum_multiplier
        below = 0.0 if run.adjacency == "zero-out" else unit
        yield Elements("representatives", shown * run.steps, 2 * unit, unit, below, unit)
        shown *= 2


@register
class PoissonSampling(Sampler):
    """A coin for every example and every step, all independent, with the probability p = b/n exactly (`Run.rate`).

    The coin of an example in a step is a function of the key, the epoch, the step and its index alone. p is a rational
    number, 2⁻ᵐ·r with r above 1/2: a coin is m fair ones, 64 examples at a time, and one of probability r, a uniform
    whole number by rejection, for the few for which all of those fell well. An example may be in several steps of an
    epoch, or in none. Batches have b examples on average, and may be empty.
    """

    name = "poisson"
    description = "every example in every step independently, with probability batch_size/examples"
    usage = "in every step by a coin of its own"
    assumption = (
        "in every step each example is there or not by a secret coin of its own, independent of all others; nobody "
        "sees how many a step has, nor what tells that: its loss, time or memory"
    )
    adjacencies = ("replace", "zero-out", "add-remove")
    any_steps = True

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples of each step of an epoch, in ascending order."""
        words = KeyedWords(subkey(key, "coins of epoch", whole(epoch=epoch, least=0)))
        at_once = max(1, _AT_ONCE * _WORD // run.examples)
        batches: list[Indices] = []
        for first in range(0, run.steps, at_once):
            steps = np.arange(first, min(first + at_once, run.steps), dtype=np.uint64)
            batches += _tossed(words, steps, run.examples, run.rate)
        return batches

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the bound of the exact pair."""
        yield poisson(run, delta * (1 - OVERFULL))

    def estimate(self, run: Run, delta: float) -> float:
        """Return roughly what `epsilon` does."""
        return normal_estimate(run, float(run.rate), delta)

    def largest(self, run: Run, delta: float) -> int:
        """Return a size that no batch exceeds, but for a probability that `bounds` charge."""
        return largest_batch(run, run.rate, delta)

    def check(self, run: Run) -> None:
        """Refuse noise for every slot, as there are none."""
        super().check(run)
        check_sums(run)


def _tossed(words: KeyedWords, steps: Words, examples: int, rate: Fraction) -> list[Indices]:
    """Return for each of the steps the examples whose coins of this probability fell well."""
    halvings = 0
    while rate * 2 ** (halvings + 1) <= 1:
        halvings += 1
    across = -(-examples // _WORD)
    step = np.repeat(steps, across)
    word = np.tile(np.arange(across, dtype=np.uint64), len(steps))
    bits = np.full(len(step), 2**64 - 1, np.uint64)
    for level in range(0, halvings, 2):
        coins = words.blocks(step, word + np.uint64(level * _LEVEL))
        bits &= coins[:, 0] & coins[:, 1] if level + 1 < halvings else coins[:, 0]
        kept = np.flatnonzero(bits)
        bits = bits[kept]
        step = step[kept]
        word = word[kept]
    row, position = np.nonzero(
        np.unpackbits(bits.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    )
    step = step[row]
    index = word[row].astype(np.int64) * _WORD + position
    inside = index < examples
    step = step[inside]
    index = index[inside]
    left = rate * 2**halvings
    if left < 1:
        counters = index.astype(np.uint64) + np.uint64(_LAST)
        well = words.below(left.denominator, step, counters, tries=_LEVEL) < left.numerator
        step = step[well]
        index = index[well]
    return np.split(index, np.searchsorted(step, steps[1:]))


def normal_estimate(run: Run, joining: float, delta: float) -> float:
    """Return the ε of all steps together, if their losses added up to a normal variable: no guarantee.

    The likelihood ratio of a step in which the victim is with probability p has the variance p²·(e^(a²) − 1) if it is
    added, removed or zeroed, and p²·2·(e^(a²) − e^(−a²)) if it is replaced, a = 1/multiplier.
    """
    square = min(run.multiplier**-2, 600.0)
    each = math.expm1(square)
    if run.adjacency == "replace":
        each = 2 * (math.exp(square) - math.exp(-square))
    separation = joining * math.sqrt(run.steps * run.epochs * each)
    return gaussian_epsilon(1 / separation, delta)


def check_sums(run: Run) -> None:
    """Refuse a run without sums of varying size to hide among."""
    if run.noise != "batch":
        raise ParameterError(
            f'sampling="{run.sampling}" has batches without slots, and hides an example in the noise of a sum; use '
            'noise="batch", or sampling="permutation" with noise="example"'
        )
