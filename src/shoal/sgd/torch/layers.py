"""What a layer's input and the gradient of its output tell of every example's gradient: its norm, and weighted sums.

For a layer y = W·x the gradient of one example is Σₜ gₜ·xₜᵀ over its positions t. Its squared norm is |g|²·|x|² where
there is one position, else Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩, or it is formed. The weighted sum over examples is one product of
matrices: gradients of examples need not be formed (book-keeping, Bu et al., arXiv 2210.00038).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["LAYERS", "Layer", "Share", "fits", "separate"]

_MOST_FORMED = 1 << 26
"""The most numbers that the gradients of all examples formed for one layer may have, if there is another way."""


class Share(NamedTuple):
    """What a parameter contributes: the squared norm of every example, and how to add up the examples by weight.

    `into` does the same as `total`, in given memory.
    """

    squares: Tensor
    total: Callable[[Tensor], Tensor]
    into: Callable[[Tensor, Tensor], Tensor] | None = None


class Layer(NamedTuple):
    """How a kind of layer is run without gradients for its parameters, and what its parameters contribute."""

    run: Callable[[Any, Tensor], Tensor]
    shares: Callable[[Any, Tensor, Tensor], dict[str, Share]]


def _constant(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.detach()


def _formed(gradients: Tensor) -> Share:
    """Share of a parameter whose gradients are given, one for each example."""
    flat = gradients.flatten(1)
    return Share((flat * flat).sum(1), lambda weights: (weights @ flat).view(gradients.shape[1:]))


def _product(gradient: Tensor, value: Tensor, shape: torch.Size) -> Share:
    """Share of a parameter with gradients Σₜ gₜ·xₜᵀ, from g: examples × p × t and x: examples × d × t."""
    examples, rows, positions = gradient.shape
    columns = value.shape[1]
    formed = rows * columns
    paired = (
        2 * positions * (rows + columns)
    )  # float64, for Σₜₛ cancels where a long gradient is the sum of longer ones
    if formed <= paired and (examples * formed <= _MOST_FORMED or formed <= positions * positions):
        return _formed(torch.bmm(gradient, value.transpose(1, 2)).view(examples, *shape))
    g, x = gradient.double(), value.double()
    squares = (torch.bmm(g.transpose(1, 2), g) * torch.bmm(x.transpose(1, 2), x)).sum((1, 2)).clamp_min(0)

    def total(weights: Tensor) -> Tensor:
        weighted = (gradient * weights[:, None, None]).transpose(0, 1).flatten(1)
        return (weighted @ value.transpose(0, 1).flatten(1).t()).view(shape)

    return Share(squares, total)


def _run_linear(module: nn.Linear, value: Tensor) -> Tensor:
    return functional.linear(value, module.weight.detach(), _constant(module.bias))


def _linear(module: nn.Linear, value: Tensor, gradient: Tensor) -> dict[str, Share]:
    if value.dim() == 2:
        squares = torch.linalg.vector_norm(gradient, dim=1).square_()
        lengths = torch.linalg.vector_norm(value, dim=1).square_()

        def into(weights: Tensor, memory: Tensor) -> Tensor:
            return torch.mm((gradient * weights[:, None]).t(), value, out=memory)

        return {
            "weight": Share(squares * lengths, lambda weights: (gradient * weights[:, None]).t() @ value, into),
            "bias": Share(squares, lambda weights: weights @ gradient),
        }
    value, gradient = value.flatten(1, -2), gradient.flatten(1, -2)
    return {
        "weight": _product(gradient.transpose(1, 2), value.transpose(1, 2), module.weight.shape),
        "bias": _formed(gradient.sum(1)),
    }


def _run_convolution(module: Any, value: Tensor) -> Tensor:
    return module._conv_forward(value, module.weight.detach(), _constant(module.bias))  # type: ignore[no-any-return]


def _padded(module: Any, value: Tensor) -> Tensor:
    """Return the input with its zeros around it."""
    if module.padding == "valid":
        return value
    sides = []
    for axis in reversed(range(len(module.kernel_size))):
        if module.padding == "same":
            around = module.dilation[axis] * (module.kernel_size[axis] - 1)
            sides += [around // 2, around - around // 2]
        else:
            sides += [module.padding[axis]] * 2
    return functional.pad(value, sides) if any(sides) else value


def _convolution(module: Any, value: Tensor, gradient: Tensor) -> dict[str, Share]:
    value = _padded(module, value)
    flat = len(module.kernel_size) == 1
    if flat:
        value = value.unsqueeze(2)
    geometry = [(1, *each) if flat else each for each in (module.kernel_size, module.dilation, module.stride)]
    patches = functional.unfold(value, geometry[0], dilation=geometry[1], stride=geometry[2])
    examples, groups = value.shape[0], module.groups
    gradient = gradient.flatten(2)
    if groups == 1:
        weight = _product(gradient, patches, module.weight.shape)
    else:
        split = [each.reshape(examples, groups, -1, each.shape[2]) for each in (gradient, patches)]
        formed = torch.matmul(split[0], split[1].transpose(2, 3))
        weight = _formed(formed.reshape(examples, *module.weight.shape))
    return {"weight": weight, "bias": _formed(gradient.sum(2))}


def _run_embedding(module: nn.Embedding, value: Tensor) -> Tensor:
    return functional.embedding(value, module.weight.detach(), module.padding_idx)


def _embedding(module: nn.Embedding, value: Tensor, gradient: Tensor) -> dict[str, Share]:
    examples, (rows, width) = value.shape[0], module.weight.shape
    words = value.reshape(examples, -1)
    gradient = gradient.reshape(examples, -1, width)
    if module.padding_idx is not None:
        gradient = gradient * (words != module.padding_idx).unsqueeze(2)
    # A word that an example has twice has the sum of both gradients.
    numbers = words + rows * torch.arange(examples, device=words.device).unsqueeze(1)
    kinds, index = torch.unique(numbers, return_inverse=True)
    sums = gradient.new_zeros(len(kinds), width).index_add_(0, index.reshape(-1), gradient.reshape(-1, width))
    owner = torch.div(kinds, rows, rounding_mode="floor")
    squares = gradient.new_zeros(examples).index_add_(0, owner, (sums * sums).sum(1))

    def total(weights: Tensor) -> Tensor:
        return sums.new_zeros(rows, width).index_add_(0, kinds % rows, sums * weights[owner].unsqueeze(1))

    return {"weight": Share(squares, total)}


def _run_layer_norm(module: nn.LayerNorm, value: Tensor) -> Tensor:
    shape = list(module.normalized_shape)
    return functional.layer_norm(value, shape, _constant(module.weight), _constant(module.bias), module.eps)


def _layer_norm(module: nn.LayerNorm, value: Tensor, gradient: Tensor) -> dict[str, Share]:
    shape = module.normalized_shape
    normal = functional.layer_norm(value, list(shape), None, None, module.eps)
    return {
        "weight": _formed((gradient * normal).reshape(value.shape[0], -1, *shape).sum(1)),
        "bias": _formed(gradient.reshape(value.shape[0], -1, *shape).sum(1)),
    }


def _run_group_norm(module: nn.GroupNorm, value: Tensor) -> Tensor:
    return functional.group_norm(value, module.num_groups, _constant(module.weight), _constant(module.bias), module.eps)


def _group_norm(module: nn.GroupNorm, value: Tensor, gradient: Tensor) -> dict[str, Share]:
    normal = functional.group_norm(value, module.num_groups, None, None, module.eps)
    channels = (*value.shape[:2], -1)
    return {
        "weight": _formed((gradient * normal).reshape(channels).sum(2)),
        "bias": _formed(gradient.reshape(channels).sum(2)),
    }


LAYERS: dict[type[nn.Module], Layer] = {
    nn.Conv1d: Layer(_run_convolution, _convolution),
    nn.Conv2d: Layer(_run_convolution, _convolution),
    nn.Embedding: Layer(_run_embedding, _embedding),
    nn.GroupNorm: Layer(_run_group_norm, _group_norm),
    nn.LayerNorm: Layer(_run_layer_norm, _layer_norm),
    nn.Linear: Layer(_run_linear, _linear),
}
"""Exactly these types: a subclass may do anything."""


def fits(module: nn.Module) -> bool:
    """Say whether a layer is what its type says: its own forward, no parameters but its own, no wrapping."""
    if type(module) not in LAYERS or "forward" in module.__dict__:
        return False
    if not set(dict(module.named_parameters(recurse=False))) <= {"weight", "bias"}:
        return False
    if not isinstance(module._parameters.get("weight"), nn.Parameter):  # as weight_norm leaves it
        return False
    return getattr(module, "padding_mode", "zeros") == "zeros"


def separate(module: nn.Module, value: Tensor) -> bool:
    """Say whether the first axis of a layer's input can be that of the examples."""
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return value.dim() == len(module.kernel_size) + 2
    if isinstance(module, nn.LayerNorm):
        return value.dim() > len(module.normalized_shape)
    return value.dim() >= (1 if isinstance(module, nn.Embedding) else 2)
