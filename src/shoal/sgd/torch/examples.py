"""The examples of a training: taken from a dataset by their indices, and from nowhere else."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate

from shoal.errors import MixedError, ParameterError
from shoal.sgd.sampler import Indices
from shoal.sgd.torch.mixing import Randomness

_COLLATED = 5
_TRIALS = 6
_MIXING_COLLATE = (
    "collate mixes examples: what it makes of one depends on the others (as MixUp, CutMix, a mean over the batch or "
    "sorting do), so that no gradient is an example's own. Make each example a tensor by itself; collate gets "
    "one at a time"
)


class Group(NamedTuple):
    """Examples of a batch whose tensors have the same shapes."""

    indices: Indices
    inputs: tuple[Tensor, ...]
    target: Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """The examples of one step of one epoch, both counted from 0.

    It may have more or fewer examples than `batch_size`, or none; sums are divided by that all the same, and every step
    has its noise. How many it has, and which, is part of what the noise hides: it is not private, like the data.
    Examples of different shapes, such as texts of different lengths, are in groups of their own: nothing is padded.
    """

    epoch: int
    step: int
    groups: tuple[Group, ...]

    @property
    def indices(self) -> Indices:
        """Which examples these are, group by group."""
        return np.concatenate([np.empty(0, np.int64), *(group.indices for group in self.groups)])

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is given, one row for each example, if all have the same shapes."""
        return self._only.inputs

    @property
    def target(self) -> Tensor:
        """What the loss is given with that, if all have the same shapes."""
        return self._only.target

    @property
    def _only(self) -> Group:
        if len(self.groups) != 1:
            raise ParameterError(
                f"the examples of this batch have {len(self.groups)} different shapes; use batch.groups"
                if self.groups
                else "this batch has no examples; give it to step() all the same, which adds its noise"
            )
        return self.groups[0]

    def __post_init__(self) -> None:
        """Note how often the tensors were changed in place, so that `check_unchanged` sees a change after this."""
        object.__setattr__(self, "_versions", self._seen())

    def _seen(self) -> list[int]:
        tensors = [tensor for group in self.groups for tensor in (*group.inputs, group.target)]
        return [0 if tensor.is_inference() else tensor._version for tensor in tensors]

    def check_unchanged(self) -> None:
        """Refuse a batch that was changed in place: nobody knows whether examples were mixed."""
        if self._seen() != vars(self)["_versions"]:
            raise ParameterError(
                "the tensors of this batch were changed in place, and what became of an example may depend on others "
                "(as with MixUp): change examples one by one, in the dataset, or in the model"
            )

    def __len__(self) -> int:
        """Return how many examples there are."""
        return sum(len(group.indices) for group in self.groups)

    def __repr__(self) -> str:
        """Show which batch it is."""
        return f"Batch(epoch={self.epoch}, step={self.step}, examples={len(self)})"


class _OneByOne(Dataset[Any]):
    """A dataset without its `__getitems__`, which workers would call for all examples of a batch: it may mix them."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]


class Examples:
    """The first examples of a dataset.

    `collate` makes a list of examples into a batch, a sequence of tensors, the target last. It
    is called with one example at a time, so that it cannot mix them. `workers` are arguments of
    `DataLoader` for the processes that load examples ahead; without them this process loads.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        count: int,
        collate: Callable[[list[Any]], Any] | None,
        device: torch.device,
        workers: dict[str, Any] | None = None,
    ) -> None:
        self.count = count
        self._workers = workers
        self._dataset = dataset
        self._collate = collate
        self._device = device
        self._tensors = dataset.tensors if collate is None and type(dataset) is TensorDataset else None
        self._mark: str | None = None

    @property
    def same_shapes(self) -> bool:
        """Whether all examples of a batch have the same shapes, whatever they are: others are refused."""
        return self._collate is None

    def load(self, indices: Indices) -> tuple[Group, ...]:
        """Return the inputs and the targets of these examples, those of the same shapes together."""
        if self._tensors is not None and len(indices):
            chosen = {
                device: torch.from_numpy(indices).to(device) for device in {each.device for each in self._tensors}
            }
            loaded = [tensor.index_select(0, chosen[tensor.device]) for tensor in self._tensors]
            return self._grouped([(np.arange(len(indices)), _checked(loaded, len(indices)))], indices)
        return self._grouped(self._collated([self._dataset[int(index)] for index in indices]), indices)

    def stream(self, steps: Sequence[Indices]) -> Iterator[tuple[Group, ...]]:
        """Yield what `load` returns for each of these steps; workers, if there are any, load ahead.

        Which examples a step has was drawn before: workers see the indices, and change nothing about them.
        """
        if self._workers is None or self._tensors is not None:
            yield from map(self.load, steps)
            return
        drawn = [indices.tolist() for indices in steps]
        items = _OneByOne(self._dataset) if hasattr(self._dataset, "__getitems__") else self._dataset
        loader = DataLoader(items, batch_sampler=drawn, collate_fn=self._collated, **self._workers)
        for indices, parts in zip(steps, loader, strict=True):
            yield self._grouped(parts, indices)

    def _collated(self, items: list[Any]) -> list[tuple[Indices, Sequence[Tensor]]]:
        """Return the tensors of examples of the same shapes together, with the rows that they had among all."""
        if not items:
            return []
        if self._collate is None:  # which puts them side by side, and no more
            return [(np.arange(len(items)), _checked(default_collate(items), len(items)))]
        groups: dict[tuple[Any, ...], tuple[list[int], list[Sequence[Tensor]]]] = {}
        for row, item in enumerate(items):
            loaded = _checked(self._collate([item]), 1)
            shapes = tuple((part.shape, part.dtype) for part in loaded)
            rows, parts = groups.setdefault(shapes, ([], []))
            rows.append(row)
            parts.append(loaded)
        return [
            (np.array(rows), [torch.cat(part) for part in zip(*parts, strict=True)]) for rows, parts in groups.values()
        ]

    def _grouped(self, parts: list[tuple[Indices, Sequence[Tensor]]], indices: Indices) -> tuple[Group, ...]:
        """Return groups of examples on the device."""
        grouped = []
        for rows, tensors in parts:
            *inputs, target = (tensor.to(self._device) for tensor in tensors)
            grouped.append(Group(indices[rows], tuple(inputs), target))
        return tuple(grouped)

    def check_collate(self) -> None:
        """Refuse a collate that mixes examples: what it is for would not happen, as it gets one at a time."""
        if self._collate is None or self.count == 1:
            return
        numbers = np.random.default_rng()
        size = min(_COLLATED, self.count)
        for _ in range(_TRIALS):
            first, second = (numbers.choice(self.count, size, replace=False) for _ in range(2))
            kept = np.arange(size) == numbers.integers(size)
            items = [self._dataset[int(index)] for index in first]
            others = [
                item if keep else self._dataset[int(index)]
                for item, keep, index in zip(items, kept, second, strict=True)
            ]
            randomness = Randomness(self._device)
            batches = []
            for chosen in (items, items, others):
                with randomness.again():
                    batches.append(_checked(self._collate(list(chosen)), size))
            row = int(kept.argmax())
            rows = [[part[row] for part in batch] for batch in batches]
            # With random numbers of its own it cannot be tested; one at a time, it is harmless all the same.
            if all(map(_alike, rows[0], rows[1])) and not all(map(_alike, rows[0], rows[2])):
                raise MixedError(_MIXING_COLLATE)

    @property
    def fingerprint(self) -> str:
        """A hash of the tensors of a `TensorDataset`, or a part of one; of the kind and the length of any other."""
        if self._mark is None:
            self._mark = _fingerprint(self._dataset, self.count)
        return self._mark


def _alike(first: Tensor, second: Tensor) -> bool:
    """Tell whether two rows are the same, but for rounding, and for a constant that one is padded with."""
    if first.dim() != second.dim() or first.dtype != second.dtype:
        return False
    if first.shape == second.shape:
        return torch.allclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True)
    return any(_alike_from(first, second, left) for left in (True, False))


def _alike_from(first: Tensor, second: Tensor, left: bool) -> bool:
    shape = [min(sizes) for sizes in zip(first.shape, second.shape, strict=True)]
    common = []
    for tensor in (first, second):
        ends = [(0, size) if left else (whole - size, whole) for size, whole in zip(shape, tensor.shape, strict=True)]
        inside = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
        inside[tuple(slice(*end) for end in ends)] = True
        if len(torch.unique(tensor[~inside])) > 1:
            return False
        common.append(tensor[tuple(slice(*end) for end in ends)])
    return torch.allclose(common[0], common[1], rtol=1e-5, atol=1e-6, equal_nan=True)


def _checked(loaded: Any, size: int) -> Sequence[Tensor]:
    advice = "an example must be (inputs, …, target); give collate= a function that makes tensors of a list of them"
    if not isinstance(loaded, Sequence) or len(loaded) < 2:
        raise ParameterError(f"a batch must be two or more tensors, got {type(loaded).__name__}: {advice}")
    for part in loaded:
        if not isinstance(part, Tensor) or part.dim() == 0 or len(part) != size:
            kind = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
            raise ParameterError(f"a batch of {size} must be tensors of {size} rows, got {kind}: {advice}")
    return loaded


def _fingerprint(dataset: Any, count: int) -> str:
    digest = hashlib.sha256(f"{type(dataset).__qualname__} {count} ".encode())
    if type(dataset) is TensorDataset:
        for tensor in dataset.tensors:
            part = tensor[:count].detach().cpu().contiguous()
            digest.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            digest.update(memoryview(part.reshape(-1).view(torch.uint8).numpy()))  # type: ignore[arg-type]
    elif type(dataset) is Subset:
        digest.update(np.asarray(dataset.indices[:count], np.int64).tobytes())
        digest.update(_fingerprint(dataset.dataset, len(dataset.dataset)).encode())  # type: ignore[arg-type]
    return digest.hexdigest()
