"""Ghost clipping by book-keeping: one backward pass gives the clipped sum, from inputs and output gradients."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.layers import LAYERS, Share, fits, separate

__all__ = ["BookKeeping", "Part", "UnfitError"]


class UnfitError(Exception):
    """The model does something with its parameters that layers alone do not tell."""


class Part:
    """The gradients of some examples: their squared norms, losses, and how to put weighted sums of them into memory."""

    def __init__(self, squares: Tensor, losses: Tensor, totals: Callable[[Tensor, list[Tensor]], None]) -> None:
        self.squares, self.losses, self.totals = squares, losses, totals


class _Record:
    """What one layer saw."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.layer = LAYERS[type(module)]
        self.clear()

    def clear(self) -> None:
        self.calls = 0
        self.version = 0
        self.value: Tensor | None = None
        self.output: Tensor | None = None
        self.output_version = 0
        self.gradient: Tensor | None = None


class _InPlaceError(Exception):
    """The output of a layer was changed in place, so that its gradient is only known on the way back."""


class _Tap(torch.autograd.Function):
    """The identity, in place, that notes the gradient on its way back."""

    @staticmethod
    def forward(context: Any, output: Tensor, anchor: Tensor, record: _Record) -> Tensor:
        """Let through; the anchor makes all outputs depend on something that wants a gradient."""
        context.mark_dirty(output)
        context.record = record
        return output

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        """Note the gradient."""
        record = context.record
        record.gradient = gradient if record.gradient is None else record.gradient + gradient
        return gradient, None, None


class BookKeeping:
    """Gradients of a model whose parameters all belong to known layers, each used once.

    Parameters
    ----------
    model : nn.Module
        The model.
    loss : Loss
        Gives one value an example.
    trained : dict
        Its trained parameters, by name.
    """

    def __init__(self, model: nn.Module, loss: Loss, trained: dict[str, nn.Parameter]) -> None:
        self._model, self._loss = model, loss
        self._trained = list(trained.values())
        numbers = {id(parameter): number for number, parameter in enumerate(self._trained)}
        self._records: list[tuple[_Record, dict[str, int]]] = []
        self._taps = False
        seen: set[int] = set()
        for module in model.modules():
            own = {name: numbers[id(p)] for name, p in module.named_parameters(recurse=False) if id(p) in numbers}
            if not own:
                continue
            if not fits(module):
                raise UnfitError(f"{type(module).__name__} is not a layer that book-keeping knows")
            if seen & set(own.values()):
                raise UnfitError("a parameter is shared by layers")
            seen |= set(own.values())
            self._records.append((_Record(module), own))

    def part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        """Return the gradients of these examples."""
        losses = self._backward(inputs, target)
        shares: list[tuple[int, Share]] = []
        for record, own in self._records:
            if record.gradient is not None and record.value is not None:
                computed = record.layer.shares(record.module, record.value, record.gradient)
                shares += [(number, computed[name]) for name, number in own.items()]
            record.clear()
        squares = functools.reduce(torch.add, [share.squares for _, share in shares] or [torch.zeros_like(losses)])

        def totals(weights: Tensor, room: list[Tensor]) -> None:
            for number in set(range(len(room))) - {number for number, _ in shares}:
                room[number].zero_()
            for number, share in shares:
                if share.into is None:
                    room[number].copy_(share.total(weights))
                else:
                    share.into(weights, room[number])

        return Part(squares, losses, totals)

    def check(self, inputs: tuple[Tensor, ...], target: Tensor) -> None:
        """Raise `UnfitError` unless the loss of the first example reaches only the first row of every layer."""
        self._backward(inputs, target, first=True)
        for record, _ in self._records:
            if record.gradient is not None and torch.count_nonzero(record.gradient[1:]):
                raise UnfitError("the first axis of a layer is not that of the examples")
            record.clear()

    def _backward(self, inputs: tuple[Tensor, ...], target: Tensor, *, first: bool = False) -> Tensor:
        if not self._taps:
            try:
                return self._run(inputs, target, first)
            except _InPlaceError:
                self._taps = True  # a little slower, and right for all
        return self._run(inputs, target, first)

    def _run(self, inputs: tuple[Tensor, ...], target: Tensor, first: bool) -> Tensor:
        anchor = torch.zeros((), device=target.device, requires_grad=True) if self._taps else None
        records = [record for record, _ in self._records]
        with self._watched(anchor, target.shape[0]):
            losses = self._loss(self._model(*inputs), target)
            if not losses.requires_grad:
                raise UnfitError("the loss does not depend on the layers")
            if any(each.output is not None and each.output._version != each.output_version for each in records):
                raise _InPlaceError
            chosen = losses[0] if first else losses.sum()
            reached = [each for each in records if each.output is not None]
            outputs = [each.output for each in reached if each.output is not None] if anchor is None else [anchor]
            gradients = torch.autograd.grad(chosen, [*outputs, *self._trained], allow_unused=True)
        if any(gradient is not None for gradient in gradients[len(outputs) :]):
            raise UnfitError("a parameter is used outside of its layer")
        for record, gradient in zip(reached, gradients, strict=False):
            record.gradient = gradient
        for record in records:
            if record.calls > 1:
                raise UnfitError("a layer is used twice")
            if record.value is not None and record.value._version != record.version:
                raise UnfitError("the input of a layer was changed in place")
        return losses.detach()

    @contextmanager
    def _watched(self, anchor: Tensor | None, examples: int) -> Iterator[None]:
        try:
            for record, _ in self._records:
                record.clear()
                record.module.__dict__["forward"] = functools.partial(_forward, record, anchor, examples)
            yield
        except RuntimeError as error:
            if anchor is None:  # torch does not say by type that an output was changed in place; the second try tells
                raise _InPlaceError from error
            raise
        finally:
            for record, _ in self._records:
                record.module.__dict__.pop("forward", None)


def _forward(record: _Record, anchor: Tensor | None, examples: int, value: Tensor) -> Tensor:
    if not separate(record.module, value) or value.shape[0] != examples:
        raise UnfitError("the first axis of a layer is not that of the examples")
    record.calls += 1
    record.value, record.version = value.detach(), value._version
    output = record.layer.run(record.module, value)
    if not torch.is_grad_enabled():
        return output
    if anchor is None:
        record.output = output if output.requires_grad else output.requires_grad_()
        record.output_version = output._version
        return output
    return _Tap.apply(output, anchor, record)  # type: ignore[no-any-return,no-untyped-call]
