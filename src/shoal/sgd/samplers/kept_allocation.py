"""Kept allocation: every example joins one uniformly random step, the same in every epoch."""

import math
from collections.abc import Iterator
from dataclasses import replace

from shoal.rounding import slack
from shoal.sgd.batch_sizes import OVERFULL
from shoal.sgd.bounds import kept_allocation, plain
from shoal.sgd.run import Run
from shoal.sgd.run_limits import allocation_limit
from shoal.sgd.sampler import Indices, register
from shoal.sgd.samplers.allocation import Allocation
from shoal.sgd.training_bound import Bound

__all__ = ["KeptAllocation"]

_LEAST_NOISE = 1e-5
"""A run with less has no limit that is computed."""


@register
class KeptAllocation(Allocation):
    """A uniformly random, secret step for every example, which it keeps: balls in bins that are filled once.

    Some libraries sample so, as batches then need not be drawn again. All epochs together see an example in one step,
    with a separation that is √E times as large. So ε is larger than with a fresh allocation in every epoch, and much so
    where there is little noise. The batches are those of the first epoch of an allocation.

    Examples
    --------
    >>> run = Run(examples=10, batch_size=4, sampling="kept-allocation")
    >>> first, second = (KeptAllocation().batches(run, key=bytes(32), epoch=epoch) for epoch in (0, 1))
    >>> [batch.tolist() for batch in first] == [batch.tolist() for batch in second]
    True
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
