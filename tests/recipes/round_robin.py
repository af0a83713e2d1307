"""A sampler in one file, as CONTRIBUTING's recipe "add a sampler" says: example i is in step i modulo the steps."""

from collections.abc import Iterator

import numpy as np

from shoal.errors import ParameterError
from shoal.sgd.bounds import Bound, plain
from shoal.sgd.run import Run
from shoal.sgd.run_limits import summed_limit
from shoal.sgd.sampler import Indices, Sampler, register


@register
class RoundRobin(Sampler):
    """Deals the examples out to the steps, one after the other, the same in every epoch."""

    name = "round-robin"
    description = "example i in step i modulo the number of steps"

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return every `run.steps`-th example, from each start."""
        return [np.arange(start, run.examples, run.steps) for start in range(run.steps)]

    def bounds(self, run: Run, delta: float) -> Iterator[Bound]:
        """Yield the plain bound, which holds for any order."""
        yield plain(run, delta)

    def lower_bound(self, run: Run, delta: float) -> float:
        """Return the limit from the sum of all that is seen."""
        return summed_limit(run, delta)

    def check(self, run: Run) -> None:
        """Refuse the local model."""
        super().check(run)
        if not run.sums_only:
            raise ParameterError('round-robin is for sums of batches; use noise="batch"')
