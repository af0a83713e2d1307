"""Per-example gradients of any model: torch.func differentiates the loss of one example, and maps that over a batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from shoal.sgd.torch.book_keeping import Part
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.precision import exact

__all__ = ["PerExample"]

_MOST_NUMBERS = 1 << 26
"""The most numbers that the gradients of all examples formed at once may have."""


class PerExample:
    """Gradients that are formed for every example; shared parameters and layers used twice are right by construction.

    Parameters
    ----------
    model, loss, trained : nn.Module, Loss, dict
        As for `BookKeeping`.
    """

    def __init__(self, model: nn.Module, loss: Loss, trained: dict[str, nn.Parameter]) -> None:
        self._trained = trained
        self.most = max(1, _MOST_NUMBERS // max(1, sum(parameter.numel() for parameter in trained.values())))

        def one(parameters: dict[str, Tensor], target: Tensor, *inputs: Tensor) -> Tensor:
            output: Any = torch.func.functional_call(model, parameters, tuple(value.unsqueeze(0) for value in inputs))
            return loss(output, target.unsqueeze(0))[0]

        self._one = torch.func.grad_and_value(one)

    def part(self, inputs: tuple[Tensor, ...], target: Tensor) -> Part:
        """Return the gradients of these examples."""
        parameters = {name: parameter.detach() for name, parameter in self._trained.items()}
        each = torch.func.vmap(self._one, in_dims=(None, 0, *(0 for _ in inputs)), randomness="different")
        with sdpa_kernel(SDPBackend.MATH):  # the others cannot be mapped, and would be run one by one
            gradients, losses = each(parameters, target, *inputs)
        flat = [gradients[name].reshape(len(losses), -1) for name in self._trained]  # a parameter may be a number
        squares = torch.zeros_like(losses, dtype=flat[0].dtype)  # a loss may be shorter
        for gradient in flat:
            squares += (gradient * gradient).sum(1)

        def totals(weights: Tensor, room: list[Tensor]) -> None:
            with exact(weights.device):
                for gradient, memory in zip(flat, room, strict=True):
                    memory.copy_((weights.to(gradient.dtype) @ gradient).view_as(memory))

        return Part(squares, losses.detach(), totals)
