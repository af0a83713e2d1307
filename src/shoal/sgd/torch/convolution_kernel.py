"""Gradients of the weights of a convolution, formed for every example on a graphics processor, without its patches."""

import torch
from torch import Tensor

from shoal.sgd.torch.kernel import constexpr, jit, launch, tl

__all__ = ["convolution_gradients"]

_TILE = 64
"""Numbers of a side of a tile; twice as many for large gradients."""
_WIDTH = 32
"""How many products are added up at once."""


def convolution_gradients(
    gradient: Tensor,
    value: Tensor,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    before: tuple[int, int],
) -> Tensor:
    """Return Σₜ gₜ·xₜᵀ for every example: examples × channels of the output × (channels of the input × kernel).

    Parameters
    ----------
    gradient, value : Tensor
        Of the output, and the input without the zeros around it; examples × channels × height × width.
    kernel, stride, dilation : tuple of int
        As the convolution has them.
    before : tuple of int
        How many zeros there are above and on the left.
    """
    examples, rows, high, wide = gradient.shape
    columns = value.shape[1] * kernel[0] * kernel[1]
    results = torch.empty((examples, rows, columns), dtype=torch.float32, device=value.device)
    rounded = "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    side = 2 * _TILE if min(rows, columns) > _TILE else _TILE
    grid = (-(-columns // side), -(-rows // side), examples)
    launch(
        _gradients, grid, (gradient, value, results), rows, columns, high * wide, wide, *value.shape[2:],
        *gradient.stride(), *value.stride(), *kernel, *stride, *dilation, *before, rounded, side, _WIDTH, warps=8,
    )  # fmt: skip
    return results


@jit
def _gradients(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, results, rows, columns, positions, wide, value_high, value_wide,
    gradient_example, gradient_row, gradient_y, gradient_x, value_example, value_channel, value_y, value_x,
    kernel_y: constexpr, kernel_x: constexpr, stride_y: constexpr, stride_x: constexpr,
    dilation_y: constexpr, dilation_x: constexpr, before_y: constexpr, before_x: constexpr,
    rounded: constexpr, side: constexpr, width: constexpr,
):  # fmt: skip
    """Form one tile of one example's gradient."""
    example = tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * side + tl.arange(0, side)
    column = tl.program_id(0) * side + tl.arange(0, side)
    along = tl.arange(0, width)
    channel = column // (kernel_y * kernel_x)
    inside = column % (kernel_y * kernel_x)
    shift_y = inside // kernel_x * dilation_y - before_y
    shift_x = inside % kernel_x * dilation_x - before_x
    gradient += example * gradient_example
    value += example * value_example
    total = tl.zeros([side, side], tl.float32)
    for start in range(0, positions, width):
        number = start + along
        there = number < positions
        y = number // wide
        x = number % wide
        a = tl.load(
            gradient + row[:, None] * gradient_row + (y * gradient_y + x * gradient_x)[None, :],
            mask=(row < rows)[:, None] & there[None, :],
            other=0.0,
        )
        at_y = (y * stride_y)[:, None] + shift_y[None, :]
        at_x = (x * stride_x)[:, None] + shift_x[None, :]
        met = (at_y >= 0) & (at_y < value_high) & (at_x >= 0) & (at_x < value_wide)
        b = tl.load(
            value + (channel * value_channel)[None, :] + at_y * value_y + at_x * value_x,
            mask=met & there[:, None] & (column < columns)[None, :],
            other=0.0,
        )
        total = tl.dot(a, b, total, input_precision=rounded)
    at = results + (example * rows + row[:, None]) * columns + column[None, :]
    tl.store(at, total, mask=(row < rows)[:, None] & (column < columns)[None, :])
