"""The examples of a training: taken from a dataset by their indices, and from nowhere else."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Subset, TensorDataset, default_collate

from shoal.errors import ParameterError

__all__ = ["Batch", "Examples"]

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """The examples of one step of one pass, both counted from 0.

    It may have a few examples less than `batch_size`, for some slots are empty; sums are divided by that all the same.
    """

    pass_number: int
    step: int
    indices: Indices
    inputs: tuple[Tensor, ...]
    target: Tensor

    def __len__(self) -> int:
        """Return how many examples there are."""
        return len(self.indices)

    def __repr__(self) -> str:
        """Show which batch it is."""
        return f"Batch(pass_number={self.pass_number}, step={self.step}, examples={len(self)})"


class Examples:
    """The first so many examples of a dataset.

    Parameters
    ----------
    dataset : anything with a length and examples by number.
    count : how many there are.
    collate : makes a list of examples into a batch, which is a sequence of tensors, the target last.
    device : where they are taken to.
    """

    def __init__(
        self, dataset: Any, *, count: int, collate: Callable[[list[Any]], Any] | None, device: torch.device
    ) -> None:
        self.count = count
        self._dataset, self._collate, self._device = dataset, collate, device
        self._tensors = dataset.tensors if collate is None and type(dataset) is TensorDataset else None
        self._mark: str | None = None

    def load(self, indices: Indices) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the inputs and the targets of these examples."""
        found: Any
        if self._tensors is not None:
            place = torch.from_numpy(indices)
            found = [tensor.index_select(0, place.to(tensor.device)) for tensor in self._tensors]
        else:
            items = [self._dataset[int(index)] for index in indices]
            found = (self._collate or default_collate)(items)
        return self._checked(found, len(indices))

    def _checked(self, found: Any, size: int) -> tuple[tuple[Tensor, ...], Tensor]:
        advice = "an example must be (inputs, …, target); give collate= a function that makes tensors of a list of them"
        if not isinstance(found, Sequence) or len(found) < 2:
            raise ParameterError(f"a batch must be two or more tensors, got {type(found).__name__}: {advice}")
        for part in found:
            if not isinstance(part, Tensor) or part.dim() == 0 or len(part) != size:
                kind = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
                raise ParameterError(f"a batch of {size} must be tensors of {size} rows, got {kind}: {advice}")
        *inputs, target = (part.to(self._device) for part in found)
        return tuple(inputs), target

    @property
    def fingerprint(self) -> str:
        """A hash of the tensors of a `TensorDataset`, or a part of one; of the kind and the length of any other."""
        if self._mark is None:
            self._mark = _fingerprint(self._dataset, self.count)
        return self._mark


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
