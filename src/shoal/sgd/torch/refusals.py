"""What cannot be trained with a guarantee, and what to do instead."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from shoal.checks import whole
from shoal.errors import ParameterError

__all__ = ["check_model", "check_optimizer", "size_of", "unwrapped"]

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_INSTANCE_NORMS = (nn.modules.instancenorm._InstanceNorm,)


def check_model(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trained parameters of a model, by name."""
    if not isinstance(model, nn.Module):
        raise ParameterError(f"model must be a torch.nn.Module, got {type(model).__name__}", parameter="model")
    for name, module in model.named_modules():
        where = f"{type(module).__name__} ({name or 'the model'})"
        if isinstance(module, _INSTANCE_NORMS):
            if module.track_running_stats:
                raise ParameterError(
                    f"{where} keeps running statistics, which are not noised; use track_running_stats=False"
                )
        elif isinstance(module, _BATCH_NORMS):
            raise ParameterError(
                f"{where} mixes the examples of a batch, so that no gradient belongs to one example; "
                f"use nn.GroupNorm({_groups(module.num_features)}, {module.num_features})"
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


def _groups(features: int) -> int:
    return next(groups for groups in (32, 16, 8, 4, 2, 1) if features % groups == 0)


def check_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, trained: dict[str, nn.Parameter]) -> None:
    """Check that the optimizer trains this model, all of it, from gradients alone."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ParameterError(
            f"optimizer must be one of torch.optim, got {type(optimizer).__name__}", parameter="optimizer"
        )
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


def unwrapped(dataset: Any) -> tuple[Any, int | None, bool, Callable[[list[Any]], Any] | None]:
    """Return the dataset of a plain loader, its batch size, whether it drops the last batch, and its own collate."""
    if not isinstance(dataset, DataLoader):
        return dataset, None, False, None
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
    return dataset.dataset, dataset.batch_size, bool(dataset.drop_last), collate


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
