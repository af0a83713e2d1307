"""A loss that gives one value an example."""

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from shoal.errors import ParameterError


class Loss:
    """One value an example, from a loss of torch or any function that has one.

    A module with a `reduction` is copied and set to "none". The values of an example are then
    averaged if it was "mean", over the positions whose target is not `ignore_index`, and added
    up if it was "sum" or "batchmean". Any other loss takes outputs and targets and returns one
    value per example.
    """

    def __init__(self, loss: Callable[..., Any]) -> None:
        if not callable(loss):
            raise ParameterError(
                f"loss must be a module such as nn.CrossEntropyLoss(), or a function, got {loss!r}", "loss"
            )
        if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
            raise ParameterError("the loss has parameters of its own; make them part of the model")
        self._reduction = getattr(loss, "reduction", None)
        if self._reduction is not None:
            if self._reduction not in ("mean", "sum", "none", "batchmean"):
                raise ParameterError(
                    f'loss.reduction must be "mean", "sum", "batchmean" or "none", got {self._reduction!r}'
                )
            name = _described(loss)
            loss = copy.deepcopy(loss)
            loss.reduction = "none"  # type: ignore[attr-defined]
        else:
            name = _described(loss)
        self.name = f"{name} {self._reduction}"
        self.given = loss

    def __call__(self, output: Any, target: Tensor) -> Tensor:
        """Return one value for each example of the batch."""
        if not isinstance(output, Tensor) and self._reduction is not None:
            raise ParameterError(
                f"the model returns a {type(output).__name__}, and {self.name.split('(')[0]} takes a tensor; give a "
                'function as the loss, such as lambda output, target: cross_entropy(output["logits"], target, '
                'reduction="none")'
            )
        values = self.given(output, target)
        examples = target.shape[0]
        if not isinstance(values, Tensor) or values.dim() == 0 or values.shape[0] != examples:
            shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ParameterError(
                f"the loss must have one value for each of {examples} examples, got {shape}; "
                'use a loss of torch.nn, or one that does not reduce: reduction="none"'
            )
        if values.dim() == 1:
            return values
        values = values.flatten(1)
        if self._reduction == "mean":
            return values.sum(1) / self._positions(values, target)
        if self._reduction in ("sum", "batchmean"):
            return values.sum(1)
        if values.shape[1] != 1:
            raise ParameterError(
                f'the loss must have one value an example, got {values.shape[1]}; average them, or use reduction="mean"'
            )
        return values[:, 0]

    def _positions(self, values: Tensor, target: Tensor) -> Tensor | int:
        """Return the number of positions that count in each example, as torch counts them for one example."""
        ignored = getattr(self.given, "ignore_index", None)
        if ignored is None or target.is_floating_point():  # targets that are probabilities have no positions to ignore
            return values.shape[1]
        counted: Tensor = (target.flatten(1) != ignored).sum(1)
        return counted.clamp_min(1)  # an example without any has a loss of 0


def _described(loss: Callable[..., Any]) -> str:
    """Return what a loss is, with its settings and class weights, for a checkpoint to compare."""
    if not isinstance(loss, nn.Module):
        return str(getattr(loss, "__qualname__", type(loss).__qualname__))
    kept = {name: value for name, value in vars(loss).items() if isinstance(value, (bool, int, float, str))}
    numbers = {name: buffer.detach().cpu().tolist() for name, buffer in loss.named_buffers()}
    shown = ", ".join(f"{name}={value}" for name, value in sorted({**kept, **numbers}.items()) if name != "training")
    return f"{loss!r} {shown}"
