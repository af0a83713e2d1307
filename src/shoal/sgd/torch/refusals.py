"""What cannot be trained with a guarantee, and what to do instead: models, optimizers, loaders, repeated examples."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from shoal.checks import whole
from shoal.errors import ParameterError

__all__ = [
    "Loaded",
    "check_model",
    "check_optimizer",
    "check_repeats",
    "fixed_batch_norms",
    "size_of",
    "unwrapped",
]

_WORKERS = ("multiprocessing_context", "num_workers", "pin_memory", "prefetch_factor", "timeout", "worker_init_fn")
"""Settings of a loader that say how its workers load examples, and nothing about which."""
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_INSTANCE_NORMS = (nn.modules.instancenorm._InstanceNorm,)
Indices = NDArray[np.int64]


def check_model(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trained parameters of a model, by name."""
    if not isinstance(model, nn.Module):
        raise ParameterError(f"model must be a torch.nn.Module, got {type(model).__name__}", "model")
    for name, module in model.named_modules():
        where = f"{type(module).__name__} ({name or 'the model'})"
        if isinstance(module, _INSTANCE_NORMS):
            if module.track_running_stats:
                raise ParameterError(
                    f"{where} keeps running statistics, which are not noised; use track_running_stats=False"
                )
        elif isinstance(module, _BATCH_NORMS) and not _is_fixed(module):
            raise ParameterError(
                f"{where} mixes the examples of a batch, so that no gradient belongs to one example; use "
                f"nn.GroupNorm({_groups(module.num_features)}, {module.num_features}), or keep its public statistics: "
                "freeze its parameters by requires_grad_(False), and call eval() on it"
            )
        elif isinstance(module, nn.Embedding) and (module.max_norm or module.scale_grad_by_freq or module.sparse):
            raise ParameterError(
                f"{where}: max_norm changes weights without noise, scale_grad_by_freq mixes examples, and noise is not "
                "sparse; use none of them"
            )
        elif hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
            raise ParameterError(
                f"{where} is compiled, and what its layers do is not seen; give make_private the module that "
                "torch.compile was given: both have the same parameters, and the compiled one can be used to evaluate"
            )
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise ParameterError("the model has no parameter to train: none has requires_grad")
    kinds = {(parameter.dtype, parameter.device) for parameter in trained.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        mixed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise ParameterError(
            f"the trained parameters must all be float32, or all float64, on one device, got {mixed}; use model.float()"
        )
    return trained


def _is_fixed(module: nn.Module) -> bool:
    """Return whether a batch normalization is a fixed function: in eval mode, with statistics, and frozen."""
    trained = any(parameter.requires_grad for parameter in module.parameters())
    return not module.training and module.running_mean is not None and not trained


def fixed_batch_norms(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the batch normalizations of a checked model, which have to stay in eval mode, by name."""
    return [(name, module) for name, module in model.named_modules() if isinstance(module, _BATCH_NORMS)]


def _groups(features: int) -> int:
    return next(groups for groups in (32, 16, 8, 4, 2, 1) if features % groups == 0)


def check_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, trained: dict[str, nn.Parameter]) -> None:
    """Check that the optimizer trains this model, all of it, from gradients alone."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ParameterError(f"optimizer must be one of torch.optim, got {type(optimizer).__name__}", "optimizer")
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if held - {id(parameter) for parameter in model.parameters()}:
        raise ParameterError(
            "the optimizer has parameters that are not the model's; make it from model.parameters(), after the model "
            "is on its device"
        )
    for name, parameter in trained.items():
        if id(parameter) not in held:
            raise ParameterError(
                f"{name} is trainable, and the optimizer does not have it; add it there, or freeze it: "
                "requires_grad_(False)"
            )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ParameterError(
            f"{type(optimizer).__name__} computes the loss more than once a step; use another, such as SGD or Adam"
        )


class Loaded(NamedTuple):
    """A dataset, and what a plain loader of it says: its batch size, its own collate, and how its workers load."""

    dataset: Any
    batch_size: int | None = None
    drop_last: bool = False
    collate: Callable[[list[Any]], Any] | None = None
    workers: dict[str, Any] | None = None


def unwrapped(dataset: Any) -> Loaded:
    """Return the dataset of a plain loader with the loader's settings, or a dataset alone."""
    if not isinstance(dataset, DataLoader):
        return Loaded(dataset)
    _check_iterable(dataset.dataset)
    plain = type(dataset.batch_sampler) is BatchSampler
    sampler = dataset.sampler
    if type(sampler) is RandomSampler:
        plain = plain and not sampler.replacement and sampler.num_samples == len(sampler.data_source)
    elif type(sampler) is not SequentialSampler:
        plain = False
    if isinstance(sampler, DistributedSampler):
        raise ParameterError(
            "the loader has a DistributedSampler, and batches are drawn and shared out here; give make_private the "
            "whole dataset in every process, and batch_size= of all processes together"
        )
    if not plain:
        raise ParameterError(
            f"the loader has its own sampler ({type(sampler).__name__}, {type(dataset.batch_sampler).__name__}), and "
            "batches are drawn here, by `sampling`, for the guarantee to be true; give make_private the dataset itself"
        )
    collate = None if dataset.collate_fn is default_collate else dataset.collate_fn
    workers = {name: getattr(dataset, name) for name in _WORKERS} if dataset.num_workers else None
    return Loaded(dataset.dataset, dataset.batch_size, bool(dataset.drop_last), collate, workers)


def _check_iterable(dataset: Any) -> None:
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ParameterError(
            f"{type(dataset).__name__} has no examples by number, so it cannot be permuted; use a dataset with "
            "__len__ and __getitem__"
        )


def size_of(dataset: Any, *, examples: int | None, batch_size: int, drop_last: bool) -> int:
    """Return how many examples are used."""
    _check_iterable(dataset)
    there = len(dataset)
    if there == 0:
        raise ParameterError("the dataset is empty; it must have at least one example")
    full = there // batch_size * batch_size
    if drop_last and full not in (there, examples):
        raise ParameterError(
            f"drop_last would leave out {there - full} of {there} examples, others in every epoch, and the guarantee "
            "is for an epoch that uses every example once. Leave drop_last out: empty slots fill the batches. Or "
            f"train on the first {full} alone: examples={full}"
        )
    return there if examples is None else whole(examples=examples, most=there)


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
