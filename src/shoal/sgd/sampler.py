"""How a run draws the examples of its steps (its subsampling), and what is proved of a run that draws so.

A sampler is one class, which calls `register`; everything else asks the registry. Where batches vary in size, sums of
floats are rounded by an amount that grows with the number of terms, and more noise pays for that. How many terms there
were is a secret, so the payment is for `largest_batch`, a number that is known in advance.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.checks import known
from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.sgd.bounds import Bound
    from shoal.sgd.run import Run

Indices = NDArray[np.int64]
OVERFULL = 2.0**-40
"""The share of δ that pays for batches with more examples than that."""
_MOST_EPOCHS = 10**6


class Sampler(ABC):
    """How the steps of an epoch are drawn, and which guarantees hold for that.

    Attributes
    ----------
    name : str
        The value of `Run.sampling` and of ``--sampling``.
    description : str
        What it does, in a few words without a full stop: for help and tables.
    usage : str
        How often an epoch uses an example: "every example is used …".
    assumption : str
        What every bound but the plain one needs to be true of the draws.
    adjacencies : tuple of str
        The values of `Run.adjacency` that it has guarantees for.
    any_steps : bool
        Whether an epoch may have any number of steps (`Run.public_steps`), and not only ⌈n/b⌉.
    any_participations : bool
        Whether an example may take part in more than one step of an epoch (`Run.participations`).
    """

    name: ClassVar[str]
    description: ClassVar[str]
    usage: ClassVar[str] = "once an epoch"
    assumption: ClassVar[str] = ""
    adjacencies: ClassVar[tuple[str, ...]] = ("replace", "zero-out")
    any_steps: ClassVar[bool] = False
    any_participations: ClassVar[bool] = False

    @abstractmethod
    def batches(self, run: "Run", *, key: bytes, epoch: int) -> list[Indices]:
        """Return the examples of each of the `run.steps` steps of an epoch, which the key alone decides.

        Parameters
        ----------
        run : Run
            What is done.
        key : bytes
            32 secret bytes; take `subkey(key, …)` of them, with a purpose that nothing else has.
        epoch : int
            Counted from 0.
        """

    @abstractmethod
    def bounds(self, run: "Run", delta: float) -> Iterator["Bound"]:
        """Yield what every theorem that holds for these draws says of the whole run, in any order."""

    def epsilon(self, run: "Run", delta: float) -> float:
        """Return a proven ε without asking every theorem; the accountant asks for it in every epoch."""
        return min(bound.epsilon for bound in self.bounds(run, delta))

    def estimate(self, run: "Run", delta: float) -> float:
        """Return roughly what `epsilon` does, faster where that is possible: to begin a search, never a guarantee."""
        return self.epsilon(run, delta)

    def lower_bound(self, run: "Run", delta: float) -> float:
        """Return an ε below which no bound can be; 0 where nothing is known."""
        return 0.0

    def largest(self, run: "Run", delta: float) -> int:
        """Return how many examples a batch has at most: a public number, which the rounding of sums is paid for."""
        return run.batch_size

    def check(self, run: "Run") -> None:
        """Raise `ParameterError` for a run that this sampler cannot do or has no guarantee for.

        An override calls this one too.
        """
        if run.adjacency == "add-remove" and "add-remove" not in self.adjacencies:
            raise ParameterError(
                f'adjacency "add-remove" has no guarantee for sampling="{self.name}": a deletion shifts every later '
                f'batch; use {" or ".join(self.adjacencies)}, or sampling="allocation" with public_steps='
            )
        known(self.adjacencies, adjacency=run.adjacency)
        if run.public_steps is not None and not self.any_steps:
            raise ParameterError(
                f'public_steps is for sampling="allocation" and "poisson"; with "{self.name}" an epoch has '
                "⌈examples/batch_size⌉ steps",
                "public_steps",
            )
        if run.participations > 1 and not self.any_participations:
            raise ParameterError(
                f'participations is for sampling="allocation"; with "{self.name}" every example is used {self.usage}',
                "participations",
            )
        if run.public_steps is None and run.adjacency == "add-remove":
            raise ParameterError(
                'adjacency "add-remove" needs public_steps, the number of steps of an epoch: it must not be computed '
                "from the number of examples, which is a secret there"
            )


SAMPLERS: dict[str, Sampler] = {}
"""All samplers, by name."""


def register(sampler: type[Sampler]) -> type[Sampler]:
    """Add a sampler to `SAMPLERS`, as a decorator of its class; a name that is taken is refused.

    Parameters
    ----------
    sampler : type
        The class.
    """
    if sampler.name in SAMPLERS:
        raise ParameterError(f"there is a sampler {sampler.name!r} already; give the new one another name")
    SAMPLERS[sampler.name] = sampler()
    return sampler


def sampler_of(name: str) -> Sampler:
    """Return a sampler by its name, or say which there are."""
    return SAMPLERS[known(tuple(SAMPLERS), sampling=name)]


def usual_sampling(noise: str) -> str:
    """Return the sampler of a trainer that was not told one, which draws the batches by itself.

    It is "allocation" where noise is added to the sum of a batch. A permutation never has a smaller ε there, if the
    bounds are exact: the worst that allocation shows, a permutation shows as well, where all other gradients are zero.
    With noise for every example there is no batch to hide in, and it is "permutation".
    """
    return "allocation" if noise == "batch" else "permutation"


def largest_batch(run: "Run", joining: Fraction, delta: float) -> int:
    """Return a size that no batch of a million epochs exceeds, but for a probability of at most `OVERFULL`·δ.

    Of N examples that join a step independently, M or more do with a probability of at most exp(−N·D), where D is the
    divergence of two coins, with M/N and with the probability of joining (Chernoff). N is `run.most_examples`: the size
    is a function of numbers that are public.

    Each example joins a step with the probability `joining`.
    """
    examples = run.most_examples
    rate = float(joining)
    if rate == 1:
        return examples
    allowed = math.log(OVERFULL / 2) + math.log(delta) - math.log(run.steps * _MOST_EPOCHS)

    def unlikely(size: int) -> bool:
        share = size / examples
        divergence = share * math.log(share / rate)
        if share < 1:
            divergence += (1 - share) * math.log1p((rate - share) / (1 - rate))
        return -examples * divergence * (1 - 1e-9) <= allowed

    low = math.ceil(examples * rate)
    high = examples
    if low >= high or not unlikely(high):
        return examples
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if unlikely(middle) else (middle, high)
    return high
