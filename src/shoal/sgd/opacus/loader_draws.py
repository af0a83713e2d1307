"""How a loader draws its batches, read from the loader itself; loaders of which nothing is proved are refused.

Random generators of torch must never be in one state twice, because the noise might repeat with it.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from opacus.data_loader import CollateFnWithEmpty, DPDataLoader
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from shoal.checks import known
from shoal.errors import ParameterError
from shoal.sgd.run import Run
from shoal.sgd.torch.make_private import check_repeats

SEEDED_AGAIN = (
    "a generator was seeded again, and then the noise may be the same, too, which leaves no "
    "guarantee. Seed once, before the first epoch, and after a checkpoint with another number"
)
_BYTES = 8
_FINEST = 24
"""Uniform numbers of type float32 are multiples of 2⁻²⁴."""
_MANY = 20
"""Random orders of so many examples are never the same by accident."""
_ADVICE = (
    "use DataLoader(dataset, batch_size=…, shuffle=True), or Opacus's own Poisson sampling (poisson_sampling=True)"
)


class GeneratorStates:
    """Hashes of the states in which a generator was seen; it is refused in one of them again."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        """A hash of every state."""

    def check(self, generator: Any, device: torch.device) -> None:
        """Remember the state of a generator; refuse one that it was in before.

        None is the default generator of the device; on other devices than the CPU and CUDA
        it is not known, and not checked.
        """
        if generator is None and device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            generator = torch.cuda.default_generators[index]
        elif generator is None and device.type == "cpu":
            generator = torch.default_generator
        elif generator is None:
            return
        state = hashlib.sha256(generator.get_state().numpy().tobytes()).digest()
        digest = int.from_bytes(state[:_BYTES], "big")
        if digest in self.seen:
            raise ParameterError(
                f"the random numbers of this step come from a state that their generator was in before: {SEEDED_AGAIN}"
            )
        self.seen.add(digest)


class WatchedBatches(BatchSampler):
    """The batches of a loader in an order, which go on as they were; batches and epochs are counted as they are drawn.

    An epoch that does not use every example once, or has the random order of an earlier one, is refused as it begins.
    """

    def __init__(self, batches: Any, examples: int) -> None:
        super().__init__(batches.sampler, batches.batch_size, batches.drop_last)
        self.examples = examples
        self.epochs = 0
        """How many epochs were begun."""
        self.batches = 0
        """How many batches were drawn."""
        self.seen: set[str] = set()
        """A hash of every order that was drawn."""
        self.since: list[tuple[Any, int, int]] = []
        """Every accountant that is tied to it, with its steps and the batches at that time."""
        self._read = self._cuts()

    def _cuts(self) -> tuple[Any, ...]:
        return self.sampler, self.batch_size, self.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the batches of one epoch; refuse one that is not cut as the account says."""
        self._check_cuts()
        order = self._order()
        used = len(order) - len(order) % self.batch_size if self.drop_last else len(order)
        for start in range(0, used, self.batch_size):
            self._check_cuts()
            self.batches += 1
            yield order[start : start + self.batch_size]

    def _check_cuts(self) -> None:
        if self._cuts() != self._read:
            raise ParameterError(
                f"the batch sampler of the loader was changed: it had batch_size={self._read[1]}, "
                f"drop_last={self._read[2]}, and has {self.batch_size}, {self.drop_last}, or another sampler; "
                "make another loader, with an engine of its own"
            )

    def _order(self) -> list[int]:
        """Draw the order of one epoch, all at once."""
        drawn = np.fromiter(self.sampler, np.int64)
        if not np.array_equal(np.sort(drawn), np.arange(self.examples)):
            raise ParameterError(
                f"the sampler of the loader, {type(self.sampler).__name__}, drew {len(drawn):,} indices that are not "
                f"the {self.examples:,} examples, each once; {_ADVICE}"
            )
        digest = hashlib.sha256(drawn.tobytes()).hexdigest()
        if digest in self.seen and type(self.sampler) is RandomSampler and self.examples >= _MANY:
            raise ParameterError(f"this epoch has the order of an earlier one: {SEEDED_AGAIN}")
        self.epochs += 1
        self.seen.add(digest)
        indices: list[int] = drawn.tolist()
        return indices


class WatchedCoins(UniformWithReplacementSampler):  # type: ignore[misc]
    """Opacus's Poisson sampling, which goes on as it was; its batches are counted as they are drawn."""

    def __init__(self, coins: Any) -> None:
        super().__init__(
            num_samples=coins.num_samples, sample_rate=coins.sample_rate, generator=coins.generator, steps=coins.steps
        )
        self.batches = 0
        """How many were drawn."""
        self.since: list[tuple[Any, int, int]] = []
        """Every accountant that is tied to it, with its steps and the batches at that time."""
        self.states = GeneratorStates()
        """States of the generator, one for each batch."""
        self._read = self.num_samples, self.sample_rate

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the batches of one epoch; refuse another rate or a repeated state of the generator."""
        batches = super().__iter__()
        for _ in range(len(self)):
            self.states.check(self.generator, torch.get_default_device())
            batch = next(batches)
            _check_coins()
            if (self.num_samples, self.sample_rate) != self._read:
                raise ParameterError(
                    f"the Poisson sampler of the loader was changed: it drew from {self._read[0]:,} examples at the "
                    f"rate {self._read[1]:.6g}, and now from {self.num_samples:,} at {self.sample_rate:.6g}; make "
                    "another loader, with an engine of its own"
                )
            self.batches += 1
            yield batch


@dataclass(frozen=True)
class LoaderDraws:
    """What a loader draws.

    An epoch has `steps` batches of `batch_size` examples (with Poisson sampling, about so many
    on average). The `left_over` examples of an epoch are not in full batches: they are dropped,
    or a batch of their own. `rate` is the probability that an example joins a batch, from
    above; 0 where batches are not drawn by coins.
    """

    loader: Any = field(repr=False)
    sampling: str
    examples: int
    batch_size: int
    steps: int
    watched: WatchedBatches | WatchedCoins = field(repr=False)
    left_over: int = 0
    drop_last: bool = False
    rate: float = 0.0

    @property
    def order(self) -> WatchedBatches | None:
        """What counts the epochs; None for Poisson sampling, where only batches count."""
        return self.watched if isinstance(self.watched, WatchedBatches) else None

    @property
    def seen(self) -> set[Any]:
        """Hashes of the orders that were drawn, or of the generator before each Poisson batch."""
        return self.watched.seen if isinstance(self.watched, WatchedBatches) else self.watched.states.seen

    def run(self, *, noise_multiplier: float | None, epochs: int, adjacency: str) -> Run:
        """Return the run whose theorems hold for batches in an order (docs/opacus.md)."""
        uniform = self.sampling == "permutation" and (self.drop_last or not self.left_over)
        return Run(
            examples=self.steps * self.batch_size if self.drop_last else self.examples,
            batch_size=min(self.batch_size, self.examples),
            noise_multiplier=noise_multiplier,
            epochs=epochs,
            adjacency=adjacency,
            sampling="permutation" if uniform else "fixed-order",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what another loader must have in common, for a training to go on with it."""
        return {
            "sampling": self.sampling,
            "examples": self.examples,
            "batch_size": self.batch_size,
            "steps": self.steps,
            "drop_last": self.drop_last,
            "rate": self.rate,
        }

    @classmethod
    def of(cls, loader: Any) -> "LoaderDraws":
        """Read a loader, and watch the batches that it draws; refuse one of which nothing is proved."""
        if not isinstance(loader, DataLoader):
            raise ParameterError(
                f"loader must be the DataLoader that make_private returned, got {type(loader).__name__}", "loader"
            )
        if type(loader) not in (DataLoader, DPDataLoader):
            raise ParameterError(f"{type(loader).__name__} is a loader of your own, which is not known; {_ADVICE}")
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            raise ParameterError(
                "torch.distributed is running: which examples each process draws, and whose noise is added, is not "
                "known here; train in one process, or with shoal.sgd.torch"
            )
        batches = loader.batch_sampler
        if batches is None or isinstance(loader.dataset, IterableDataset):
            raise ParameterError(f"the loader has no batch sampler: it reads a stream, or single examples; {_ADVICE}")
        if isinstance(batches, DistributedUniformWithReplacementSampler):
            raise ParameterError("the loader draws for several processes, which is not known; train in one process")
        data: Any = loader.dataset
        check_repeats(data, len(data))
        if type(batches) in (UniformWithReplacementSampler, WatchedCoins):
            return cls._poisson(loader, batches)
        if type(batches) not in (BatchSampler, WatchedBatches):
            raise ParameterError(f"{type(batches).__name__} is a batch sampler of your own; {_ADVICE}")
        return cls._in_order(loader, batches)

    @classmethod
    def _poisson(cls, loader: Any, batches: Any) -> "LoaderDraws":
        examples = len(loader.dataset)
        if batches.num_samples != examples:
            raise ParameterError(
                f"the sampler draws from {batches.num_samples:,} examples, and the dataset has {examples:,}"
            )
        _check_coins()
        collate = loader.collate_fn
        if isinstance(collate, CollateFnWithEmpty) and collate.rand_on_empty:
            raise ParameterError(
                "with rand_on_empty=True a batch without examples gets a random one, so that an example changes what "
                "others add; leave it out"
            )
        rate = coin_probability(batches.sample_rate)
        watched = batches if type(batches) is WatchedCoins else _replaced(loader, WatchedCoins(batches))
        return cls(loader, "poisson", examples, max(1, round(rate * examples)), len(loader), watched, rate=rate)

    @classmethod
    def _in_order(cls, loader: Any, batches: Any) -> "LoaderDraws":
        order: Any = batches.sampler
        examples = len(loader.dataset)
        known = type(order) is SequentialSampler or (
            type(order) is RandomSampler and not order.replacement and order.num_samples == examples
        )
        if not known or len(order) != examples:
            raise ParameterError(
                f"the order of the loader is drawn by {type(order).__name__}, with replacement or by rules of its own, "
                f"so that an epoch need not use every example once; {_ADVICE}"
            )
        watched = batches if type(batches) is WatchedBatches else _replaced(loader, WatchedBatches(batches, examples))
        return cls(
            loader,
            "permutation" if type(order) is RandomSampler else "fixed-order",
            examples,
            batches.batch_size,
            len(loader),
            watched,
            examples % batches.batch_size,
            bool(batches.drop_last),
        )


def _replaced(loader: Any, watched: Any) -> Any:
    """Let the loader draw by what counts; torch forbids that by an assignment, as the loader's size could change."""
    object.__setattr__(loader, "batch_sampler", watched)
    return watched


def _check_coins() -> None:
    if torch.get_default_dtype() not in (torch.float32, torch.float64):
        raise ParameterError(
            f"torch's default dtype is {torch.get_default_dtype()}, in which Opacus's coins are too coarse; use "
            "torch.set_default_dtype(torch.float32)"
        )


def coin_probability(rate: float) -> float:
    """Return how likely `torch.rand(()) < rate` is: a multiple of 2⁻²⁴, and not less than it is.

    The uniform numbers are multiples of 2⁻²⁴, and the rate is rounded to float32 before it is compared.
    """
    if not 0 < rate <= 1:
        raise ParameterError(f"the sample rate of the loader must be above 0 and at most 1, got {rate!r}")
    most = max(Fraction(rate), Fraction(float(np.float32(rate))))
    return min(1.0, float(Fraction(math.ceil(most * 2**_FINEST), 2**_FINEST)))


def check_adjacency(adjacency: str) -> None:
    """Refuse neighbours of which nothing is proved for batches of Opacus."""
    if adjacency == "add-remove":
        raise ParameterError(
            'adjacency "add-remove" has no guarantee for Opacus: it computes the number of steps, the sample rate and '
            'what sums are divided by from the number of examples; use "zero-out" or "replace"'
        )
    known(("zero-out", "replace"), adjacency=adjacency)
