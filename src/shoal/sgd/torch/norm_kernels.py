"""Gradients of the weights and biases of layer norms and group norms, formed in one pass on a graphics processor."""

import torch
from torch import Tensor

from shoal.sgd.torch.kernel import constexpr, jit, launch, runs_on, tl

__all__ = ["group_norm_gradients", "layer_norm_gradients", "widths_fit"]

_MOST = 1 << 13
"""The most numbers that a program keeps of an example at once."""


def _power(count: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << max(0, count - 1).bit_length()


def widths_fit(gradient: Tensor, value: Tensor, width: int) -> bool:
    """Say whether these kernels can be used, for layers that normalize so many numbers, or channels, together."""
    same = gradient.dtype == value.dtype == torch.float32 and gradient.shape == value.shape
    return runs_on(gradient) and same and value.is_contiguous() and _power(width) <= _MOST


def layer_norm_gradients(gradient: Tensor, value: Tensor, *, width: int, eps: float) -> Tensor:
    """Return Σₜ gₜ·x̂ₜ and Σₜ gₜ, side by side, for every example; x̂ is x less its mean, over its deviation."""
    gradient = gradient.contiguous()
    examples = len(value)
    rows = value[0].numel() // width
    results = torch.empty((examples, 2 * width), dtype=torch.float32, device=value.device)
    columns = _power(width)
    height = max(1, _MOST // columns // 2)
    launch(_layer_norm, (examples, 1, 1), (gradient, value, results), rows, width, eps, height, columns)
    return results


def group_norm_gradients(gradient: Tensor, value: Tensor, *, groups: int, eps: float) -> Tensor:
    """Return the same for a group norm: sums over the positions of every channel."""
    gradient = gradient.contiguous()
    examples, channels = value.shape[:2]
    positions = value[0, 0].numel()
    results = torch.empty((examples, 2 * channels), dtype=torch.float32, device=value.device)
    together = channels // groups
    side = _power(together)
    width = max(1, min(_power(positions), _MOST // 2 // side))
    sizes = (positions, together, channels)
    launch(_group_norm, (examples, groups, 1), (gradient, value, results), *sizes, eps, side, width)
    return results


@jit
def _layer_norm(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, results, rows, width, eps, height: constexpr, columns: constexpr
):  # fmt: skip
    """Add up one example's rows, some at a time."""
    example = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, height)
    column = tl.arange(0, columns)
    weight = tl.zeros([columns], tl.float32)
    bias = tl.zeros([columns], tl.float32)
    for start in range(0, rows, height):
        there = (start + row < rows)[:, None] & (column < width)[None, :]
        at = example * rows * width + (start + row)[:, None] * width + column[None, :]
        x = tl.load(value + at, mask=there, other=0.0)
        g = tl.load(gradient + at, mask=there, other=0.0)
        mean = tl.sum(x, axis=1) / width
        x = tl.where(there, x - mean[:, None], 0.0)
        deviation = tl.sqrt(tl.sum(x * x, axis=1) / width + eps)
        weight += tl.sum(g * x / deviation[:, None], axis=0)
        bias += tl.sum(g, axis=0)
    tl.store(results + example * 2 * width + column, weight, mask=column < width)
    tl.store(results + example * 2 * width + width + column, bias, mask=column < width)


@jit
def _group_norm(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, results, positions, together, channels, eps, side: constexpr, width: constexpr
):  # fmt: skip
    """Add up one example's channels of one group."""
    example = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, side)
    along = tl.arange(0, width)
    first = tl.program_id(1) * together
    base = (example * channels + first) * positions
    sums = tl.zeros([side, width], tl.float32)
    for start in range(0, positions, width):
        there = (channel < together)[:, None] & (start + along < positions)[None, :]
        sums += tl.load(value + base + channel[:, None] * positions + start + along[None, :], mask=there, other=0.0)
    mean = tl.sum(sums) / (together * positions)
    sums = tl.zeros([side, width], tl.float32)
    for start in range(0, positions, width):
        there = (channel < together)[:, None] & (start + along < positions)[None, :]
        x = tl.load(value + base + channel[:, None] * positions + start + along[None, :], mask=there, other=mean)
        sums += (x - mean) * (x - mean)
    deviation = tl.sqrt(tl.sum(sums) / (together * positions) + eps)
    weight = tl.zeros([side, width], tl.float32)
    bias = tl.zeros([side, width], tl.float32)
    for start in range(0, positions, width):
        there = (channel < together)[:, None] & (start + along < positions)[None, :]
        at = base + channel[:, None] * positions + start + along[None, :]
        x = tl.load(value + at, mask=there, other=0.0)
        g = tl.load(gradient + at, mask=there, other=0.0)
        weight += g * (x - mean)
        bias += g
    at = results + example * 2 * channels + first + channel
    tl.store(at, tl.sum(weight, axis=1) / deviation, mask=channel < together)
    tl.store(at + channels, tl.sum(bias, axis=1), mask=channel < together)
