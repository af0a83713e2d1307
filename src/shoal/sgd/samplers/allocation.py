"""Allocation: every example joins one uniformly random step of each epoch, independently of all others."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.numerics.noise import gaussian_epsilon
from shoal.sgd.batch_sizes import OVERFULL, largest_batch
from shoal.sgd.bounds import allocation, plain
from shoal.sgd.gradient_noise import subkey
from shoal.sgd.keyed_words import KeyedWords
from shoal.sgd.run import Run
from shoal.sgd.run_limits import allocation_limit
from shoal.sgd.sampler import Indices, Sampler, register
from shoal.sgd.training_bound import Bound

__all__ = ["Allocation"]

_TRIES = 1 << 40
"""More than any index: how far apart the counters of two tries for one example are."""


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

    Examples
    --------
    >>> batches = Allocation().batches(Run(examples=10, batch_size=4, sampling="allocation"), key=bytes(32), epoch=0)
    >>> len(batches), sorted(index for batch in batches for index in batch.tolist())
    (3, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
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


def normal_estimate(run: Run, joining: float, delta: float) -> float:
    """Return the ε of all steps together, if their losses added up to a normal variable: no guarantee.

    The likelihood ratio of a step in which the victim is with probability p has the variance p²·(e^(a²) − 1) if it is
    added, removed or zeroed, and p²·2·(e^(a²) − e^(−a²)) if it is replaced, a = 1/multiplier.
    """
    square = min(run.multiplier**-2, 600.0)
    each = 2 * (math.exp(square) - math.exp(-square)) if run.adjacency == "replace" else math.expm1(square)
    separation = joining * math.sqrt(run.steps * run.epochs * each)
    return gaussian_epsilon(1 / separation, delta)


def check_sums(run: Run) -> None:
    """Refuse a run without sums of varying size to hide among."""
    if run.noise != "batch":
        raise ParameterError(
            f'sampling="{run.sampling}" has batches without slots, and hides an example in the noise of a sum; use '
            'noise="batch", or sampling="permutation" with noise="example"'
        )
