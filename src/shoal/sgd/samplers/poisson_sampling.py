"""Poisson sampling: every example is in every step independently, with probability b/n."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from shoal.checks import whole
from shoal.sgd.batch_sizes import OVERFULL, largest_batch
from shoal.sgd.bounds import poisson
from shoal.sgd.gradient_noise import subkey
from shoal.sgd.keyed_words import KeyedWords, Words
from shoal.sgd.run import Run
from shoal.sgd.sampler import Indices, Sampler, register
from shoal.sgd.samplers.allocation import check_sums, normal_estimate
from shoal.sgd.training_bound import Bound

__all__ = ["PoissonSampling"]

_WORD = 64
_LEVEL = 1 << 40
"""More than any index: how far apart the counters of two rounds of coins are."""
_LAST = 64 * _LEVEL
"""Where the counters of the last coins begin."""
_AT_ONCE = 1 << 18
"""About how many words are tossed at once."""


@register
class PoissonSampling(Sampler):
    """A coin for every example and every step, all independent, with the probability p = b/n exactly (`Run.rate`).

    The coin of an example in a step is a function of the key, the epoch, the step and its index alone. p is a rational
    number, 2⁻ᵐ·r with r above 1/2: a coin is m fair ones, 64 examples at a time, and one of probability r, a uniform
    whole number by rejection, for the few for which all of those fell well. An example may be in several steps of an
    epoch, or in none. Batches have b examples on average, and may be empty.

    Examples
    --------
    >>> run = Run(examples=1000, batch_size=10, sampling="poisson")
    >>> batches = PoissonSampling().batches(run, key=bytes(32), epoch=0)
    >>> len(batches), sum(map(len, batches)), len(np.unique(np.concatenate(batches)))
    (100, 1005, 632)
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
    step, word = np.repeat(steps, across), np.tile(np.arange(across, dtype=np.uint64), len(steps))
    bits = np.full(len(step), 2**64 - 1, np.uint64)
    for level in range(0, halvings, 2):
        coins = words.blocks(step, word + np.uint64(level * _LEVEL))
        bits &= coins[:, 0] & coins[:, 1] if level + 1 < halvings else coins[:, 0]
        kept = np.flatnonzero(bits)
        bits, step, word = bits[kept], step[kept], word[kept]
    row, position = np.nonzero(
        np.unpackbits(bits.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    )
    step, index = step[row], word[row].astype(np.int64) * _WORD + position
    inside = index < examples
    step, index = step[inside], index[inside]
    left = rate * 2**halvings
    if left < 1:
        counters = index.astype(np.uint64) + np.uint64(_LAST)
        well = words.below(left.denominator, step, counters, tries=_LEVEL) < left.numerator
        step, index = step[well], index[well]
    return np.split(index, np.searchsorted(step, steps[1:]))
