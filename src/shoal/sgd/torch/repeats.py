"""Examples that a dataset has more than once: the guarantee is for each being used once an epoch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from shoal.errors import ParameterError

__all__ = ["check_repeats"]

Indices = NDArray[np.int64]


def check_repeats(dataset: Any, count: int) -> None:
    """Refuse a dataset among whose first entries one is there twice, as far as torch's own wrappers show it.

    Subsets and concatenations, nested or not, are followed to the datasets that they take examples from, and a
    `TensorDataset` to the memory of its rows.
    """
    sources: dict[object, list[tuple[Indices, Indices]]] = {}
    for source, positions, entries in _sources(dataset, np.arange(count), np.arange(count)):
        sources.setdefault(source, []).append((positions, entries))
    for parts in sources.values():
        positions, entries = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(positions, kind="stable")
        same = np.flatnonzero(np.diff(positions[order]) == 0)
        if len(same):
            first = same[0]
            pair = sorted((int(entries[order[first]]), int(entries[order[first + 1]])))
            raise ParameterError(
                f"entries {pair[0]} and {pair[1]} of the dataset are the same example, and {len(same):,} in all are "
                "repeated: the guarantee is for examples that are used once an epoch. Leave repeated indices out of "
                "Subset and ConcatDataset; to weigh an example more, give the loss a weight, which clipping bounds"
            )


def _sources(dataset: Any, indices: Indices, entries: Indices) -> Iterator[tuple[object, Indices, Indices]]:
    """Yield what examples come from, their positions there, and which entries they are."""
    if isinstance(dataset, Subset):
        try:
            taken = np.array([int(index) for index in dataset.indices], np.int64)
        except (TypeError, ValueError):  # names, and not numbers
            yield id(dataset), indices, entries
            return
        inner: Any = dataset.dataset
        positions = taken[indices]
        if hasattr(inner, "__len__"):
            positions = np.where(positions < 0, positions + len(inner), positions)
        yield from _sources(inner, positions, entries)
    elif isinstance(dataset, ConcatDataset):
        ends = np.array(dataset.cumulative_sizes)
        which = np.searchsorted(ends, indices, side="right")
        for number, part in enumerate(dataset.datasets):
            own = which == number
            start = ends[number - 1] if number else 0
            yield from _sources(part, indices[own] - start, entries[own])
    elif type(dataset) is TensorDataset:
        for tensor in dataset.tensors:
            if tensor.numel() and tensor.stride(0):
                positions = tensor.data_ptr() + indices * (tensor.stride(0) * tensor.element_size())
                yield ("memory", str(tensor.device)), positions, entries
                return
        yield id(dataset), np.zeros_like(indices), entries  # one row, many times
    else:
        yield id(dataset), indices, entries
