"""What a layer's input and the gradient of its output tell of every example's gradient: its norm, and weighted sums.

For a layer y = W·x the gradient of one example is Σₜ gₜ·xₜᵀ over its positions t. Its squared norm is |g|²·|x|² where
there is one position, else Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩, or it is formed. The weighted sum over examples is one product of
matrices: gradients of examples need not be formed (book-keeping, Bu et al., arXiv 2210.00038).

Whatever precision the model was run in, x and g are an example's own numbers. What is formed is the gradient, however
its products were rounded: it is measured and added up as it is. Where none is formed, norm and sum are two computations
of the same gradient, and both are of the precision that the margin of the noise pays for.

On a graphics processor, to launch a kernel takes the central processor longer than many of them run. A model of many
equal blocks has many equal layers, which one kernel can do together (`Ghost`); it finds their tensors by a table of
addresses.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from shoal.sgd.torch.kernels import (
    convolution_gradients,
    ghost_squares,
    group_norm_gradients,
    layer_norm_gradients,
    takes,
    weighted_sums,
    widths_fit,
)
from shoal.sgd.torch.precision import as_convolutions

_MOST_LAUNCHED = 1 << 29
"""The most products for which one kernel is better than the library's faster one and two more."""
_WIDE = (torch.float32, torch.float64)
_MOST_FORMED = 1 << 26
"""The most numbers that the gradients of all examples formed for one layer may have, if there is another way."""
_MOST_PAIRED = 1 << 10
"""The most positions of a text whose words are compared in pairs, on a graphics processor."""


class Share(NamedTuple):
    """What parameters contribute: the squared norm of every example, and how to add up the examples by weight.

    `squares` has one number an example, or a row whose sum it is. `into` takes the weights, and puts the sums into the
    memory of every parameter that is named, but for what it returns: that is still to be added to them.
    """

    names: tuple[str, ...]
    squares: Tensor
    into: Callable[..., list[tuple[Tensor, Tensor]] | None]


class Ghost(NamedTuple):
    """Gradients Σₜ gₜ·xₜᵀ of a weight, and Σₜ gₜ of a bias if it is named: examples × positions × numbers."""

    names: tuple[str, ...]
    gradient: Tensor
    value: Tensor

    @property
    def kind(self) -> tuple[object, ...]:
        """What is the same for layers that can be computed together."""
        g = self.gradient
        x = self.value
        return len(self.names), g.dtype, g.shape, g.stride(), x.shape, x.stride()


def together(ghosts: list[Ghost]) -> Share:
    """Return what layers of one kind contribute."""
    bias = len(ghosts[0].names) > 1
    gradients = [each.gradient for each in ghosts]
    values = [each.value for each in ghosts]
    first = gradients[0]
    (examples, positions, rows) = first.shape
    columns = values[0].shape[2]
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


class Formed(NamedTuple):
    """The gradients of all examples, formed: one row for each, with those of all that is named side by side."""

    names: tuple[str, ...]
    rows: Tensor

    def share(self) -> Share:
        """Return what these gradients contribute."""
        rows = self.rows

        def into(weights: Tensor, *memories: Tensor) -> None:
            if len(memories) == 1:
                _put(memories[0], (rows.shape[1],), lambda room: torch.mv(rows.t(), weights, out=room))
                return
            pieces = torch.split(torch.mv(rows.t(), weights), [memory.numel() for memory in memories])
            torch._foreach_copy_([memory.view(-1) for memory in memories], list(pieces))

        return Share(self.names, _lengths(rows) if rows.is_cuda else (rows * rows).sum(1), into)


Shares = Iterator[Share | Formed | Ghost]
"""Of the parameters that are wanted: what is not trained is not computed."""


class Layer(NamedTuple):
    """How a kind of layer is run without gradients for its parameters, and what its parameters contribute."""

    run: Callable[[Any, Tensor, Tensor, Tensor | None], Tensor]
    shares: Callable[[Any, Tensor, Tensor, Collection[str]], Shares]


def _widened(tensor: Tensor) -> Tensor:
    """Return numbers in float32 or float64."""
    return tensor if tensor.dtype in _WIDE else tensor.float()


def _lengths(rows: Tensor) -> Tensor:
    """Return the squared length of every row, in float32 at least, with what may vanish of the squares of its numbers.

    The length of a tiny gradient of an output is multiplied by that of an input, which may be huge.
    """
    dtype = None if rows.dtype in _WIDE else torch.float32
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
    if rows.is_cuda:  # nothing that is kept may come from what is recorded
        return lengths.square_().add_(rows.shape[1] * torch.finfo(lengths.dtype).tiny)
    return torch.addcmul(_vanishing(rows.shape[1], lengths.dtype), lengths, lengths)


@functools.cache
def _vanishing(numbers: int, dtype: torch.dtype) -> Tensor:
    """Return the most that squares of so many numbers lack, all together, on the central processor."""
    return torch.full((), numbers * torch.finfo(dtype).tiny, dtype=dtype, device="cpu")


def _put(memory: Tensor, shape: tuple[int, ...], fill: Callable[[Tensor], object]) -> None:
    """Fill memory as if it had this shape."""
    if memory.is_contiguous():
        fill(memory.view(shape))
    else:
        fill(room := memory.new_empty(shape))
        memory.copy_(room.view(memory.shape))


def formed_rows(name: str, gradients: Tensor) -> Formed:
    """Return the gradients of one parameter, a row for each example, in float32 or float64."""
    return Formed((name,), _widened(gradients.flatten(1)))


def _total(gradient: Tensor, value: Tensor) -> Callable[[Tensor, Tensor], None]:
    """Return how to put Σ wᵢ·gᵢ·xᵢᵀ over all rows i into memory; more rows than weights are positions of examples."""

    def into(weights: Tensor, memory: Tensor) -> None:
        if gradient.dim() == 2:
            torch.mm((gradient * weights[:, None]).t(), value, out=memory)
            return
        weighted = (gradient * weights[:, None, None]).flatten(0, 1).t()
        values = value.flatten(0, 1)
        _put(memory, (len(weighted), values.shape[1]), lambda room: torch.mm(weighted, values, out=room))

    return into


def _product(gradient: Tensor, value: Tensor) -> Share | Formed:
    """Share of a weight with gradients Σₜ gₜ·xₜᵀ, from g: examples × t × p and x: examples × t × d."""
    examples, positions, rows = gradient.shape
    formed = rows * value.shape[2]
    gradient = _widened(gradient)
    value = _widened(value)
    # Pairs are in float64, for Σₜₛ cancels where a long gradient is the sum of longer ones.
    paired = 2 * positions * (rows + value.shape[2])
    if formed <= paired and (examples * formed <= _MOST_FORMED or formed <= positions * positions):
        return formed_rows("weight", torch.bmm(gradient.transpose(1, 2), value))
    g = gradient.double()
    x = value.double()
    gradients = torch.bmm(g, g.transpose(1, 2))
    values = torch.bmm(x, x.transpose(1, 2))
    squares = (gradients * values).sum((1, 2)).clamp_min(0)
    return Share(("weight",), squares, _total(gradient, value))


def _is_formed(positions: int, rows: int, columns: int) -> bool:
    """Say whether a gradient is formed on a graphics processor: if it is no longer than what it is formed from."""
    return positions > 1 and rows * columns <= positions * (rows + columns)


def _device_product(gradient: Tensor, value: Tensor, wanted: Collection[str]) -> Shares:
    """Yield the shares of a weight and a bias on a graphics processor, by kernels; both together are Σₜ gₜ·(xₜ, 1)ᵀ."""
    if _is_formed(gradient.shape[1], gradient.shape[2], value.shape[2]):
        yield formed_rows("weight", torch.bmm(gradient.transpose(1, 2), value))
        if "bias" in wanted:
            yield formed_rows("bias", gradient.sum(1, dtype=torch.float32))
        return
    yield Ghost(("weight", "bias") if "bias" in wanted else ("weight",), gradient, value)


def _run_linear(module: nn.Linear, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(value, weight, bias)


def _linear(module: nn.Linear, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    if gradient.is_cuda and "weight" in wanted and takes(gradient):
        flat = [each.unsqueeze(1) if each.dim() == 2 else each.flatten(1, -2) for each in (gradient, value)]
        yield from _device_product(flat[0], flat[1], wanted)
        return
    if value.dim() == 2:
        gradient = _widened(gradient)
        value = _widened(value)
        squares = _lengths(gradient)
        if "weight" in wanted:
            yield Share(("weight",), squares * _lengths(value), _total(gradient, value))
        if "bias" in wanted:

            def into(weights: Tensor, memory: Tensor) -> None:
                torch.mv(gradient.t(), weights, out=memory)

            yield Share(("bias",), squares, into)
        return
    value = value.flatten(1, -2)
    gradient = gradient.flatten(1, -2)
    if "weight" in wanted:
        yield _product(gradient, value)
    if "bias" in wanted:
        yield formed_rows("bias", _widened(gradient).sum(1))


def _run_convolution(module: Any, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return module._conv_forward(value, weight, bias)  # type: ignore[no-any-return]


def _zeros(module: Any) -> list[tuple[int, int]]:
    """Return how many zeros there are before and after the input, axis by axis."""
    if module.padding == "valid":
        return [(0, 0) for _ in module.kernel_size]
    if module.padding == "same":
        around = [each * (size - 1) for each, size in zip(module.dilation, module.kernel_size, strict=True)]
        return [(each // 2, each - each // 2) for each in around]
    return [(each, each) for each in module.padding]


def _padded(module: Any, value: Tensor) -> Tensor:
    """Return the input with its zeros around it."""
    sides = [zeros for axis in reversed(_zeros(module)) for zeros in axis]
    return functional.pad(value, sides) if any(sides) else value


def _patches(module: Any, value: Tensor, positions: torch.Size) -> Tensor:
    """Return what the weights of a convolution meet, examples × numbers × positions."""
    value = _padded(module, value)
    flat = len(module.kernel_size) == 1
    if flat:
        value = value.unsqueeze(2)
        positions = torch.Size((1, *positions))
    kernel, dilation, stride = (
        (1, *each) if flat else each for each in (module.kernel_size, module.dilation, module.stride)
    )
    if not value.is_cuda:
        return functional.unfold(value, kernel, dilation=dilation, stride=stride)
    # There torch's own function copies one example after the other.
    example, channel, *steps = value.stride()
    inside = [step * each for step, each in zip(steps, dilation, strict=True)]
    across = [step * each for step, each in zip(steps, stride, strict=True)]
    shape = (*value.shape[:2], *kernel, *positions)
    return value.as_strided(shape, (example, channel, *inside, *across)).flatten(1, 3).flatten(2)


def _convolution(module: Any, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    if "bias" in wanted:
        yield formed_rows("bias", _widened(gradient).flatten(2).sum(2))
    if "weight" not in wanted:
        return
    flat = gradient.flatten(2)
    if module.groups > 1:
        patches = _patches(module, value, gradient.shape[2:])
        gradients = flat.reshape(len(flat), module.groups, -1, flat.shape[2])
        values = patches.reshape(len(patches), module.groups, -1, patches.shape[2])
        with as_convolutions(gradient.device):
            formed = torch.matmul(gradients, values.transpose(2, 3))
        yield formed_rows("weight", formed.reshape(len(value), *module.weight.shape))
    elif not takes(gradient):
        patches = _patches(module, value, gradient.shape[2:])
        yield _product(flat.transpose(1, 2), patches.transpose(1, 2))
    elif _is_formed(flat.shape[2], len(module.weight), module.weight[0].numel()):
        yield formed_rows("weight", _formed_convolution(module, value, gradient))
    else:
        patches = _patches(module, value, gradient.shape[2:])
        yield from _device_product(flat.transpose(1, 2), patches.transpose(1, 2), ("weight",))


def _formed_convolution(module: Any, value: Tensor, gradient: Tensor) -> Tensor:
    before = tuple(zeros for zeros, _ in _zeros(module))
    geometry: list[Any] = [module.kernel_size, module.stride, module.dilation, before]
    if len(module.kernel_size) == 1:
        value = value.unsqueeze(2)
        gradient = gradient.unsqueeze(2)
        geometry = [(1, *geometry[0]), (1, *geometry[1]), (1, *geometry[2]), (0, *before)]
    names = ("kernel", "stride", "dilation", "before")
    return convolution_gradients(gradient, value, **dict(zip(names, geometry, strict=True)))


def _run_embedding(module: nn.Embedding, value: Tensor, weight: Tensor, _: Tensor | None) -> Tensor:
    return functional.embedding(value, weight, module.padding_idx)


def _embedding(module: nn.Embedding, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    examples = value.shape[0]
    (rows, width) = module.weight.shape
    words = value.reshape(examples, -1)
    gradient = _widened(gradient.reshape(examples, -1, width))
    if module.padding_idx is not None:
        gradient = gradient * (words != module.padding_idx).unsqueeze(2)
    if takes(gradient) and words.shape[1] <= _MOST_PAIRED:

        def added(weights: Tensor, memory: Tensor) -> None:
            weighted = (gradient * weights[:, None, None]).flatten(0, 1)
            memory.zero_().index_add_(0, words.flatten(), weighted)

        yield Share(("weight",), ghost_squares([gradient], [words]), added)
        return
    # A word that an example has twice has the sum of both gradients.
    numbers = words + rows * torch.arange(examples, device=words.device).unsqueeze(1)
    kinds, index = torch.unique(numbers, return_inverse=True)
    sums = gradient.new_zeros(len(kinds), width).index_add_(0, index.reshape(-1), gradient.reshape(-1, width))
    owner = torch.div(kinds, rows, rounding_mode="floor")
    squares = gradient.new_zeros(examples).index_add_(0, owner, (sums * sums).sum(1))

    def into(weights: Tensor, memory: Tensor) -> None:
        memory.zero_().index_add_(0, kinds % rows, sums * weights[owner].unsqueeze(1))

    yield Share(("weight",), squares, into)


def _run_layer_norm(module: nn.LayerNorm, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.layer_norm(value, list(module.normalized_shape), weight, bias, module.eps)


def _layer_norm(module: nn.LayerNorm, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    shape = module.normalized_shape
    width = math.prod(shape)
    value = _widened(value)
    gradient = _widened(gradient)
    if len(wanted) > 1 and widths_fit(gradient, value, width):
        yield Formed(("weight", "bias"), layer_norm_gradients(gradient, value, width=width, eps=module.eps))
        return
    if "weight" in wanted:
        normal = functional.layer_norm(value, list(shape), None, None, module.eps)
        yield formed_rows("weight", (gradient * normal).reshape(value.shape[0], -1, *shape).sum(1))
    if "bias" in wanted:
        yield formed_rows("bias", gradient.reshape(value.shape[0], -1, *shape).sum(1))


def _run_rms_norm(module: nn.RMSNorm, value: Tensor, weight: Tensor, _: Tensor | None) -> Tensor:
    return functional.rms_norm(value, list(module.normalized_shape), weight, module.eps)


def _rms_norm(module: nn.RMSNorm, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    shape = module.normalized_shape
    value = _widened(value)
    gradient = _widened(gradient)
    normal = functional.rms_norm(value, list(shape), None, module.eps)
    yield formed_rows("weight", (gradient * normal).reshape(value.shape[0], -1, *shape).sum(1))


def _run_transposed(module: nn.Module, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(value, weight.t(), bias)


def _transposed(module: nn.Module, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    """Yield the shares of a linear layer y = x·W + b, whose weight has the gradients Σₜ xₜ·gₜᵀ."""
    flat = [each.unsqueeze(1) if each.dim() == 2 else each.flatten(1, -2) for each in (value, gradient)]
    if "weight" in wanted:
        if gradient.is_cuda and takes(gradient):
            yield from _device_product(flat[0], flat[1], ("weight",))
        else:
            yield _product(flat[0], flat[1])
    if "bias" in wanted:
        yield formed_rows("bias", _widened(flat[1]).sum(1))


def _run_group_norm(module: nn.GroupNorm, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.group_norm(value, module.num_groups, weight, bias, module.eps)


def _group_norm(module: nn.GroupNorm, value: Tensor, gradient: Tensor, wanted: Collection[str]) -> Shares:
    value = _widened(value)
    gradient = _widened(gradient)
    channels = (*value.shape[:2], -1)
    if len(wanted) > 1 and widths_fit(gradient, value, module.num_channels // module.num_groups):
        rows = group_norm_gradients(gradient, value, groups=module.num_groups, eps=module.eps)
        yield Formed(("weight", "bias"), rows)
        return
    if "weight" in wanted:
        normal = functional.group_norm(value, module.num_groups, None, None, module.eps)
        yield formed_rows("weight", (gradient * normal).reshape(channels).sum(2))
    if "bias" in wanted:
        yield formed_rows("bias", gradient.reshape(channels).sum(2))


PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d)
"""Layers that autocast runs in low precision."""

LAYERS: dict[type[nn.Module], Layer] = {
    nn.Conv1d: Layer(_run_convolution, _convolution),
    nn.Conv2d: Layer(_run_convolution, _convolution),
    nn.Embedding: Layer(_run_embedding, _embedding),
    nn.GroupNorm: Layer(_run_group_norm, _group_norm),
    nn.LayerNorm: Layer(_run_layer_norm, _layer_norm),
    nn.Linear: Layer(_run_linear, _linear),
    nn.RMSNorm: Layer(_run_rms_norm, _rms_norm),
}
"""Exactly these types: a subclass may do anything."""

_FOREIGN = {("transformers.pytorch_utils", "Conv1D"): Layer(_run_transposed, _transposed)}
"""Layers of libraries that are not imported here, by the module and the name of their class."""


def layer_of(module: nn.Module) -> Layer | None:
    """Return how a layer of this type is run and what it contributes; None if the type is not known."""
    kind = type(module)
    return LAYERS.get(kind) or _FOREIGN.get((kind.__module__, kind.__qualname__))


def fits(module: nn.Module) -> bool:
    """Return whether a layer is what its type says: its own forward, no parameters but its own, no wrapping."""
    if layer_of(module) is None or "forward" in module.__dict__:
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
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return value.dim() > len(module.normalized_shape)
    return value.dim() >= (1 if isinstance(module, nn.Embedding) else 2)
