"""Layers whose gradients need not be formed, on a graphics processor: those of one shape are computed together.

To launch a kernel takes the central processor longer than many of them run. A model of many equal blocks has many equal
layers, which one kernel can do; it finds their tensors by a table of addresses.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shoal.sgd.torch.ghost_kernels import ghost_squares, weighted_sums
from shoal.sgd.torch.share import Share

__all__ = ["Ghost", "together"]

_MOST_LAUNCHED = 1 << 29
"""The most products for which one kernel is better than the library's faster one and two more."""


class Ghost(NamedTuple):
    """Gradients Σₜ gₜ·xₜᵀ of a weight, and Σₜ gₜ of a bias if it is named: examples × positions × numbers."""

    names: tuple[str, ...]
    gradient: Tensor
    value: Tensor

    @property
    def kind(self) -> tuple[object, ...]:
        """What is the same for layers that can be computed together."""
        g, x = self.gradient, self.value
        return len(self.names), g.dtype, g.shape, g.stride(), x.shape, x.stride()


def together(ghosts: list[Ghost]) -> Share:
    """Return what layers of one kind contribute."""
    bias = len(ghosts[0].names) > 1
    gradients, values = [each.gradient for each in ghosts], [each.value for each in ghosts]
    first = gradients[0]
    (examples, positions, rows), columns = first.shape, values[0].shape[2]
    plain = first.dtype == torch.float32 and first.is_contiguous() and values[0].is_contiguous()
    large = examples * positions * rows * columns > _MOST_LAUNCHED

    def into(weights: Tensor, *memories: Tensor) -> list[tuple[Tensor, Tensor]]:
        outs, biases = (memories[::2], memories[1::2]) if bias else (memories, ())
        if not all(memory.is_contiguous() for memory in outs):
            rooms = [memory.new_empty((rows, columns)) for memory in outs]
            for total, more in weighted_sums(gradients, values, weights, rooms, biases):
                total.add_(more)
            for memory, room in zip(outs, rooms, strict=True):
                memory.copy_(room.view(memory.shape))
            return []
        outs = tuple([memory.view(rows, columns) for memory in outs])
        if not (plain and large):
            return weighted_sums(gradients, values, weights, outs, biases)
        for layer, out in enumerate(outs):
            weighted = (gradients[layer] * weights.view(-1, 1, 1)).flatten(0, 1)
            torch.mm(weighted.t(), values[layer].flatten(0, 1), out=out)
            if bias:  # a sum would take twice the memory
                torch.mv(weighted.t(), weights.new_ones(len(weighted)), out=biases[layer])
            del weighted
        return []

    names = tuple([name for each in ghosts for name in each.names])
    return Share(names, ghost_squares(gradients, values, bias=bias), into)
