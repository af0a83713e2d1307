"""Squared norms and weighted sums of gradients Σₜ gₜ·xₜᵀ on a graphics processor, with no gradient formed.

**Norms.** The squared norm is Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩. Inner products in float32 are off by some u·|gₜ|·|gₛ|, so the sum
is off by about 2u·(Σₜ |gₜ|·|xₜ|)², which may be much of it where long terms cancel. That is why 2⁻¹⁸ of the latter, or
a little more, is added: a norm is not too small, and where nothing cancels it is 2⁻¹⁹ of itself too large. (The sum
over t is split into parts, and the square of a sum of n parts is at most n times the sum of their squares.)

**Precision.** Numbers in float32 are multiplied as three products of their halves of 11 bits each, which leaves an
error of 2⁻²¹; numbers in bfloat16 are multiplied exactly. Both are added up in float32, a few dozen at a time by the
units for matrices, which do not round to nearest, and these sums by ordinary additions. A weight is applied in float32,
and its product with a number in bfloat16 is split into three of bfloat16, which together have all of its 24 bits: what
is added up is what was measured, though both were rounded to 8 bits before.
"""

import torch
from torch import Tensor

from shoal.sgd.torch.kernel import constexpr, jit, launch, runs_on, tl

__all__ = ["clip_weights", "ghost_squares", "takes", "weighted_sum"]

_TILE = 64
"""Positions or numbers of a side of a tile."""
_WIDTH = 64
"""How many products are added up at once."""
_PROGRAMS = 528
"""About so many programs keep a device busy."""
_LEAST = 64
"""A program adds up at least so many times."""
_EXAMPLES = 256
"""How many examples a program weighs."""


def takes(gradient: Tensor) -> bool:
    """Say whether these kernels can be used for a gradient: on a graphics processor, in float32 or bfloat16."""
    return runs_on(gradient) and gradient.dtype in (torch.float32, torch.bfloat16)


def ghost_squares(gradient: Tensor, value: Tensor, *, bias: bool = False) -> Tensor:
    """Return the squared norm of Σₜ gₜ·xₜᵀ for every example, from above: a row whose sum it is.

    Parameters
    ----------
    gradient : Tensor
        Examples × positions × numbers, with any strides.
    value : Tensor
        The same; or whole numbers, examples × positions, for words whose vectors x are of length 1 and orthogonal.
    bias : bool
        Whether x has one number more, which is 1.
    """
    words = not value.is_floating_point()
    value = value.unsqueeze(2) if words else value
    examples, positions, rows = gradient.shape
    side = min(_TILE, max(16, 1 << (positions - 1).bit_length()))
    tiles = -(-positions // side)
    pairs = tiles * (tiles + 1) // 2
    products = torch.empty((examples, pairs), dtype=torch.float32, device=gradient.device)
    strides = (*gradient.stride(), *value.stride())
    short = gradient.dtype != torch.float32
    if positions == 1:
        ends = (strides[0], strides[2], strides[3], strides[5])
        sizes = (rows, value.shape[2])
        launch(_lengths, (examples, 1, 1), gradient, value, products, *sizes, *ends, float(bias), words, 1024)
    else:
        launch(
            _squares, (examples, pairs, 1), gradient, value, products, positions, rows, value.shape[2], *strides,
            float(bias), words, short, tiles, side, _WIDTH,
        )  # fmt: skip
    return products


def weighted_sum(
    gradient: Tensor, value: Tensor, weights: Tensor, out: Tensor, bias: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Put Σ wᵢ·Σₜ gᵢₜ·xᵢₜᵀ over all examples i into `out`, of two axes, and Σ wᵢ·Σₜ gᵢₜ into `bias`, except some parts.

    What is returned is what is still to be added: pairs of tensors, the second one of which belongs into the first. So
    that can be done for many layers at once.
    """
    examples, positions, rows = gradient.shape
    columns = value.shape[2]
    short = value.dtype != torch.float32
    side = 2 * _TILE if min(rows, columns) > _TILE and not short else _TILE
    width = _WIDTH if side == _TILE else _WIDTH // 2
    grid = (-(-rows // side), -(-columns // side))
    steps = -(-examples * positions // width)
    parts = max(1, min(_PROGRAMS // (4 if short else 1) // (grid[0] * grid[1]), steps // _LEAST))
    more = out.new_empty((parts - 1, rows, columns)) if parts > 1 else None
    ends = out.new_empty((parts - 1, rows)) if parts > 1 and bias is not None else None
    share = -(-steps // parts)
    strides = (*gradient.stride(), *value.stride(), *out.stride())
    launch(
        _weighted, (*grid, parts), gradient, value, weights, out, bias, more, ends,
        examples * positions, positions, rows, columns, share, *strides, short, side, width,
        warps=4 if side == _TILE else 8,
    )  # fmt: skip
    left = [] if more is None else [(out, each) for each in more]
    return left if ends is None or bias is None else left + [(bias, each) for each in ends]


def clip_weights(squares: Tensor, losses: Tensor, *, clip_norm: float, scale: float) -> tuple[Tensor, Tensor]:
    """Return the weight of every example, and rows whose sums are those of all squared norms and all losses."""
    weights = torch.empty_like(squares)
    sums = squares.new_empty((-(-len(squares) // _EXAMPLES), 2))
    limits = (float(clip_norm * scale), float(scale))
    launch(_weights, (len(sums), 1, 1), squares, losses, weights, sums, len(squares), *limits, _EXAMPLES)
    return weights, sums


@jit
def _weights(  # type: ignore[no-untyped-def] # noqa: PLR0917
    squares, losses, weights, sums, count, clip, most, width: constexpr
):  # fmt: skip
    """Put the smaller of most and clip / |g| into the weights, and the sums of squares and losses into theirs."""
    number = tl.program_id(0) * width + tl.arange(0, width)
    square = tl.load(squares + number, mask=number < count, other=0.0)
    loss = tl.load(losses + number, mask=number < count, other=0.0).to(tl.float32)
    tl.store(weights + number, tl.minimum(clip / tl.sqrt(square), most), mask=number < count)
    tl.store(sums + 2 * tl.program_id(0), tl.sum(square))
    tl.store(sums + 2 * tl.program_id(0) + 1, tl.sum(loss))


@jit
def _lengths(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, products, rows, columns, gradient_example, gradient_row, value_example, value_column,
    bias, words: constexpr, width: constexpr,
):  # fmt: skip
    """Put |g|²·(|x|² + bias), and what is added for its errors, into the results."""
    example = tl.program_id(0).to(tl.int64)
    along = tl.arange(0, width)
    inner = tl.zeros([width], tl.float32)
    for start in range(0, rows, width):
        there = start + along < rows
        a = tl.load(gradient + example * gradient_example + (start + along) * gradient_row, mask=there, other=0.0)
        a = a.to(tl.float32)
        inner += a * a
    outer = tl.zeros([width], tl.float32)
    if words:
        length = 1.0
    else:
        for start in range(0, columns, width):
            there = start + along < columns
            a = tl.load(value + example * value_example + (start + along) * value_column, mask=there, other=0.0)
            a = a.to(tl.float32)
            outer += a * a
        length = tl.sum(outer) + bias
    tl.store(products + example, tl.sum(inner) * length * 1.000003814697265625)  # 1 + 2⁻¹⁸


@jit
def _squares(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, products, positions, rows, columns,
    gradient_example, gradient_position, gradient_row, value_example, value_position, value_column,
    bias, words: constexpr, short: constexpr, tiles: constexpr, side: constexpr, width: constexpr,
):  # fmt: skip
    """Put one tile's part of Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩ into the results, and what is added for its errors."""
    example = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1)
    lower = 0  # the pairs are (0, 0), (1, 0), (1, 1), (2, 0), …
    while (lower + 1) * (lower + 2) // 2 <= pair:
        lower += 1
    upper = pair - lower * (lower + 1) // 2
    first = lower * side + tl.arange(0, side)
    second = upper * side + tl.arange(0, side)
    along = tl.arange(0, width)
    gradient += example * gradient_example
    value += example * value_example
    one = gradient + first[:, None] * gradient_position + along[None, :] * gradient_row
    two = gradient + second[None, :] * gradient_position + along[:, None] * gradient_row
    inner = tl.zeros([side, side], tl.float32)
    for start in range(0, rows, width):
        left = start + along < rows
        a = tl.load(one, mask=(first < positions)[:, None] & left[None, :], other=0.0)
        b = tl.load(two, mask=(second < positions)[None, :] & left[:, None], other=0.0)
        # Times 0, so that it is not made one long sum of the units for matrices; in three products it is none.
        inner = inner + tl.dot(a, b, inner * 0.0) if short else tl.dot(a, b, inner, input_precision="tf32x3")
        one += width * gradient_row
        two += width * gradient_row
    if words:
        a = tl.load(value + first * value_position, mask=first < positions, other=-1)
        b = tl.load(value + second * value_position, mask=second < positions, other=-1)
        outer = (a[:, None] == b[None, :]).to(tl.float32)
    else:
        one = value + first[:, None] * value_position + along[None, :] * value_column
        two = value + second[None, :] * value_position + along[:, None] * value_column
        outer = tl.zeros([side, side], tl.float32)
        for start in range(0, columns, width):
            left = start + along < columns
            a = tl.load(one, mask=(first < positions)[:, None] & left[None, :], other=0.0)
            b = tl.load(two, mask=(second < positions)[None, :] & left[:, None], other=0.0)
            outer = outer + tl.dot(a, b, outer * 0.0) if short else tl.dot(a, b, outer, input_precision="tf32x3")
            one += width * value_column
            two += width * value_column
    # A bias is a number more, which is 1, at positions that there are: elsewhere the other factor is 0.
    both = inner * (outer + bias)
    result = tl.sum(both)
    if lower == upper:
        diagonal = first[:, None] == second[None, :]
        length = tl.sum(tl.sqrt(tl.where(diagonal, tl.maximum(both, 0.0), 0.0)))
        result += length * length * (tiles * 3.814697265625e-06)  # 2⁻¹⁸
    else:
        result *= 2.0
    tl.store(products + example * tl.num_programs(1) + pair, result)


@jit
def _weighted(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, weights, out, bias, more, ends, count, positions, rows, columns, share,
    gradient_example, gradient_position, gradient_row, value_example, value_position, value_column,
    out_row, out_column,
    short: constexpr, side: constexpr, width: constexpr,
):  # fmt: skip
    """Add up one tile of the weighted sum over a part of all positions of all examples."""
    row = tl.program_id(0) * side + tl.arange(0, side)
    column = tl.program_id(1) * side + tl.arange(0, side)
    along = tl.arange(0, width)
    total = tl.zeros([side, side], tl.float32)
    end = tl.zeros([side], tl.float32)
    for step in range(tl.program_id(2) * share, (tl.program_id(2) + 1) * share):
        number = step * width + along
        there = number < count
        example = (number // positions).to(tl.int64)
        position = number % positions
        weight = tl.load(weights + example, mask=there, other=0.0)
        from_gradient = example * gradient_example + position * gradient_position
        from_value = example * value_example + position * value_position
        a = tl.load(
            gradient + from_gradient[:, None] + row[None, :] * gradient_row,
            mask=there[:, None] & (row < rows)[None, :],
            other=0.0,
        )
        b = tl.load(
            value + from_value[:, None] + column[None, :] * value_column,
            mask=there[:, None] & (column < columns)[None, :],
            other=0.0,
        )
        scaled = tl.trans(a.to(tl.float32) * weight[:, None])
        if bias is not None:
            end += tl.sum(scaled, axis=1)
        if short:
            high = scaled.to(b.dtype)
            scaled -= high.to(tl.float32)
            middle = scaled.to(b.dtype)
            low = (scaled - middle.to(tl.float32)).to(b.dtype)
            few = tl.dot(low, b)
            few = tl.dot(middle, b, few)
            total += tl.dot(high, b, few)
        else:
            total = tl.dot(scaled, b, total, input_precision="tf32x3")
    there = (row < rows)[:, None] & (column < columns)[None, :]
    part = tl.program_id(2)
    if part == 0:
        tl.store(out + row[:, None] * out_row + column[None, :] * out_column, total, mask=there)
        if bias is not None:
            tl.store(bias + row, end, mask=(row < rows) & (tl.program_id(1) == 0))
    elif more is not None:
        more += (part - 1).to(tl.int64) * rows * columns
        tl.store(more + row[:, None] * columns + column[None, :], total, mask=there)
        if bias is not None:
            tl.store(ends + (part - 1) * rows + row, end, mask=(row < rows) & (tl.program_id(1) == 0))
