"""Examples in a fixed order: the plain bound holds, and nothing is amplified."""

from collections.abc import Iterator

import numpy as np

from shoal.sgd.bounds import plain
from shoal.sgd.run import Run
from shoal.sgd.run_limits import summed_limit
from shoal.sgd.sampler import Indices, Sampler, register
from shoal.sgd.training_bound import Bound

__all__ = ["FixedOrder"]


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
