"""Kernels that Triton compiles for a graphics processor: norms and weighted sums of gradients, and gradients of layers.

**Norms** of gradients Σₜ gₜ·xₜᵀ, with no gradient formed. The squared norm is Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩. Inner products in
float32 are off by some u·|gₜ|·|gₛ|, so the sum is off by about 2u·(Σₜ |gₜ|·|xₜ|)², which may be much of it where long
terms cancel. That is why 2⁻¹⁸ of the latter, or a little more, is added, and 2⁻¹⁷ for bfloat16: a norm is not too
small, and where nothing cancels it is 2⁻¹⁹ or 2⁻¹⁸ of itself too large. (The sum over t is split into parts, and the
square of a sum of n parts is at most n times the sum of their squares.) Squares below 2⁻¹²⁶ may vanish, and then be
multiplied by a large number: 2⁻¹⁰⁶ for each number of g and x makes up for that.

**Precision.** Numbers in float32 are multiplied as three products of their halves of 11 bits each, which leaves an
error of 2⁻²¹; numbers in bfloat16 are multiplied exactly. Both are added up in float32, a few dozen at a time by the
units for matrices, which do not round to nearest, and these sums by ordinary additions. A weight is applied in float32,
and its product with a number in bfloat16 is split into two of bfloat16, which leaves an error of 2⁻¹⁷: so what is added
up is 2⁻¹⁷·S apart from w times the gradient G, for S = w·Σₜ |gₜ|·|xₜ|, and by the inequality of Cauchy and Schwarz
w·|G| + 2⁻¹⁷·S ≤ (1 + 2⁻¹⁷)·√(w²·|G|² + 2⁻¹⁸·S²), which is 1 + 2⁻¹⁷ times w times the norm that was measured.

Without Triton the functions are plain ones, which are never launched.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

_TRITON: Any = import_module("triton") if find_spec("triton") is not None else None
tl: Any = _TRITON and import_module("triton.language")
"""The language of kernels."""
constexpr: Any = tl.constexpr if tl else int
"""The type of an argument that a kernel is compiled for."""

_TILE = 64
"""Positions or numbers of a side of a tile, for norms and weighted sums."""
_WIDTH = 64
"""How many products of a norm are added up at once."""
_SUMS = {
    (False, False): (64, 64, 64, 4, 528),
    (False, True): (128, 128, 32, 8, 528),
    (True, False): (64, 64, 64, 4, 132),
    (True, True): (64, 128, 64, 4, 264),
}
"""For short numbers or not, for long rows and columns or not: the sides of a tile of a weighted sum, how many products
are added up at once, how many warps do it, and about how many programs keep a device busy."""
_LEAST = 8
"""A program adds up at least so many times."""
_EXAMPLES = 256
"""How many examples a program weighs."""
_MOST_TABLES = 1 << 10
_tables: dict[tuple[object, ...], tuple[Tensor, int]] = {}
_MOST_KEPT = 1 << 13
"""The most numbers that a program keeps of an example at once, for layers that normalize."""
_SIDE = 64
"""Numbers of a side of a tile of a convolution; twice as many for large gradients."""
_PRODUCTS = 32
"""How many products of a convolution are added up at once."""


def jit(function: Callable[..., Any]) -> Any:
    """Make a function a kernel, which is compiled when it is first launched."""
    return _TRITON.jit(function) if _TRITON else function


def runs_on(tensor: Tensor) -> bool:
    """Say whether kernels can be launched where this tensor is."""
    return _TRITON is not None and tensor.is_cuda


def launch(
    kernel: Any, grid: tuple[int, int, int], tensors: tuple[Tensor | None, ...], *numbers: float | str, warps: int = 4
) -> None:
    """Launch so many programs of a kernel, which takes tensors and then numbers, on the device of its first tensor."""
    assert tensors[0] is not None
    device = tensors[0].get_device()
    if torch.cuda.current_device() == device:
        kernel[grid](*tensors, *numbers, num_warps=warps)
        return
    with torch.cuda.device(device):
        kernel[grid](*tensors, *numbers, num_warps=warps)


def takes(gradient: Tensor) -> bool:
    """Say whether these kernels can be used for a gradient: on a graphics processor, in float32 or bfloat16."""
    return runs_on(gradient) and gradient.dtype in (torch.float32, torch.bfloat16)


def ghost_squares(gradients: Sequence[Tensor], values: Sequence[Tensor], *, bias: bool = False) -> Tensor:
    """Return the squared norm of Σₜ gₜ·xₜᵀ over some layers, for every example, from above: a row whose sum it is.

    Gradients are examples × positions × numbers, with any strides, but the same ones for all
    layers. Values are as well; or they are integers, examples × positions, for words whose
    vectors x are of length 1 and orthogonal. With `bias`, x has one number more, which is 1.
    """
    words = not values[0].is_floating_point()
    if words:
        values = [value.unsqueeze(2) for value in values]
    gradient = gradients[0]
    value = values[0]
    examples, positions, rows = gradient.shape
    side = min(_TILE, max(16, 1 << (positions - 1).bit_length()))
    tiles = -(-positions // side)
    pairs = tiles * (tiles + 1) // 2
    layers = len(gradients)
    products = torch.empty((examples, layers * pairs), dtype=torch.float32, device=gradient.device)
    strides = (*gradient.stride(), *value.stride())
    short = gradient.dtype != torch.float32
    if positions == 1:
        ends = (strides[0], strides[2], strides[3], strides[5])
        sizes = (rows, value.shape[2])
        for layer, both in enumerate(zip(gradients, values, strict=True)):
            tensors = (*both, products[:, layer:])
            launch(_lengths, (examples, 1, 1), tensors, *sizes, *ends, layers, float(bias), words, 1024)
    else:
        table, step = _table(gradients, values)
        launch(
            _squares, (examples, pairs, layers), (gradient, value, products, table), positions, rows, value.shape[2],
            *strides, float(bias), words, short, tiles, side, _WIDTH, step,
        )  # fmt: skip
    return products


def weighted_sums(
    gradients: Sequence[Tensor],
    values: Sequence[Tensor],
    weights: Tensor,
    outs: Sequence[Tensor],
    biases: Sequence[Tensor] = (),
) -> list[tuple[Tensor, Tensor]]:
    """Put Σ wᵢ·Σₜ gᵢₜ·xᵢₜᵀ over all examples i into `outs`, of two axes, layer by layer, except some parts.

    The same for Σ wᵢ·Σₜ gᵢₜ and `biases`, if they are given. What is returned is what is still to be added: pairs of
    tensors, the second one of which belongs into the first. So that can be done for many layers at once.
    """
    gradient = gradients[0]
    value = values[0]
    out = outs[0]
    layers = len(outs)
    examples, positions, rows = gradient.shape
    columns = value.shape[2]
    short = value.dtype != torch.float32
    high, wide, width, warps, programs = _SUMS[short, min(rows, columns) > _TILE]
    grid = (-(-rows // high), -(-columns // wide))
    steps = -(-examples * positions // width)
    parts = max(1, min(programs // (grid[0] * grid[1] * layers), steps // _LEAST))
    share = -(-steps // parts)
    parts = -(-steps // share)
    more = out.new_empty((layers, parts - 1, rows, columns)) if parts > 1 else None
    ends = out.new_empty((layers, parts - 1, rows)) if parts > 1 and biases else None
    strides = (*gradient.stride(), *value.stride(), *out.stride())
    table, step = _table(gradients, values, outs, biases or outs)
    bias = biases[0] if biases else None
    launch(
        _weighted, (*grid, parts * layers), (gradient, value, weights, out, bias, more, ends, table),
        examples * positions, positions, rows, columns, share, *strides, parts, short, high, wide, width, step,
        warps=warps,
    )  # fmt: skip
    left = [] if more is None else [(out, each) for out, rest in zip(outs, more, strict=True) for each in rest]
    return (
        left if ends is None else left + [(one, each) for one, rest in zip(biases, ends, strict=True) for each in rest]
    )


def _table(*columns: Sequence[Tensor]) -> tuple[Tensor | None, int]:
    """Return how far each layer's tensors are behind those of the first, in numbers; what divides the first two."""
    if len(columns[0]) == 1:
        return None, 0
    addresses = [[tensor.data_ptr() for tensor in column] for column in columns]
    sizes = tuple([column[0].element_size() for column in columns])
    device = columns[0][0].device
    key = (device, sizes, *(address for column in addresses for address in column))
    if key not in _tables:  # memory is mostly where it was in the last step
        if len(_tables) > _MOST_TABLES:
            _tables.clear()
        behind = [[(one - column[0]) // size for one in column] for column, size in zip(addresses, sizes, strict=True)]
        step = 1 if any(number % 8 for column in behind[:2] for number in column) else 8
        _tables[key] = torch.tensor(behind, dtype=torch.int64).t().contiguous().to(device), step
    return _tables[key]


def clip_weights(
    squares: Tensor, losses: Tensor, *, clip_norm: float, scale: float, real: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the weight of every example, and rows whose sums are those of all squared norms and all losses.

    Only so many examples at the beginning are real, as the whole number `real` of the device says, if it is given: the
    weight of others is 0, and their losses are not added up.
    """
    weights = torch.empty_like(squares)
    sums = squares.new_empty((-(-len(squares) // _EXAMPLES), 2))
    limits = (float(clip_norm * scale), float(scale))
    launch(_weights, (len(sums), 1, 1), (squares, losses, weights, sums, real), len(squares), *limits, _EXAMPLES)
    return weights, sums


@jit
def _weights(  # type: ignore[no-untyped-def] # noqa: PLR0917
    squares, losses, weights, sums, real, count, clip, most, width: constexpr
):  # fmt: skip
    """Put the smaller of most and clip / |g| into the weights, and the sums of squares and losses into theirs."""
    number = tl.program_id(0) * width + tl.arange(0, width)
    last = count
    if real is not None:
        last = tl.load(real)
    square = tl.load(squares + number, mask=number < count, other=0.0)
    loss = tl.load(losses + number, mask=number < last, other=0.0).to(tl.float32)
    weight = tl.where(number < last, tl.minimum(clip / tl.sqrt(square), most), 0.0)
    tl.store(weights + number, weight, mask=number < count)
    tl.store(sums + 2 * tl.program_id(0), tl.sum(square))
    tl.store(sums + 2 * tl.program_id(0) + 1, tl.sum(loss))


@jit
def _lengths(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, products, rows, columns, gradient_example, gradient_row, value_example, value_column,
    products_example, bias, words: constexpr, width: constexpr,
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
        length = tl.sum(outer) + columns * 1.1754943508222875e-38 + bias
    # What vanishes of a square is less than 2⁻¹²⁶; 1 + 2⁻¹⁸.
    square = (tl.sum(inner) + rows * 1.1754943508222875e-38) * length * 1.000003814697265625
    tl.store(products + example * products_example, square)


@jit
def _squares(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, products, table, positions, rows, columns,
    gradient_example, gradient_position, gradient_row, value_example, value_position, value_column,
    bias, words: constexpr, short: constexpr, tiles: constexpr, side: constexpr, width: constexpr, step: constexpr,
):  # fmt: skip
    """Put one tile's part of Σₜₛ ⟨gₜ, gₛ⟩·⟨xₜ, xₛ⟩ into the results, and what is added for its errors."""
    example = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1)
    layer = tl.program_id(2)
    if table is not None:
        gradient += tl.multiple_of(tl.load(table + 2 * layer), step)
        value += tl.multiple_of(tl.load(table + 2 * layer + 1), step)
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
        # A little more than both, for what vanished of them: 2⁻¹⁰⁶ for every number.
        more = (inner + rows * 1.232595164407831e-32) * (outer + columns * 1.232595164407831e-32 + bias)
        length = tl.sum(tl.sqrt(tl.where(diagonal, tl.maximum(more, 0.0), 0.0)))
        result += length * length * (tiles * (7.62939453125e-06 if short else 3.814697265625e-06))  # 2⁻¹⁷ or 2⁻¹⁸
    else:
        result *= 2.0
    tl.store(products + (example * tl.num_programs(2) + layer) * tl.num_programs(1) + pair, result)


@jit
def _weighted(  # type: ignore[no-untyped-def] # noqa: PLR0917
    gradient, value, weights, out, bias, more, ends, table, count, positions, rows, columns, share,
    gradient_example, gradient_position, gradient_row, value_example, value_position, value_column,
    out_row, out_column, parts,
    short: constexpr, high: constexpr, wide: constexpr, width: constexpr, step: constexpr,
):  # fmt: skip
    """Add up one tile of one layer's weighted sum over a part of all positions of all examples."""
    layer = tl.program_id(2) // parts
    part = tl.program_id(2) % parts
    if table is not None:
        gradient += tl.multiple_of(tl.load(table + 4 * layer), step)
        value += tl.multiple_of(tl.load(table + 4 * layer + 1), step)
        out += tl.load(table + 4 * layer + 2)
        if bias is not None:
            bias += tl.load(table + 4 * layer + 3)
    row = tl.program_id(0) * high + tl.arange(0, high)
    column = tl.program_id(1) * wide + tl.arange(0, wide)
    along = tl.arange(0, width)
    total = tl.zeros([high, wide], tl.float32)
    end = tl.zeros([width, high], tl.float32)
    for turn in range(part * share, (part + 1) * share):
        number = turn * width + along
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
        scaled = a.to(tl.float32) * weight[:, None]
        if bias is not None:
            end += scaled
        if short:
            large = scaled.to(b.dtype)
            small = (scaled - large.to(tl.float32)).to(b.dtype)
            few = tl.dot(tl.trans(small), b)
            total += tl.dot(tl.trans(large), b, few)
        else:
            total = tl.dot(tl.trans(scaled), b, total, input_precision="tf32x3")
    ends_here = tl.sum(end, axis=0)
    there = (row < rows)[:, None] & (column < columns)[None, :]
    if part == 0:
        tl.store(out + row[:, None] * out_row + column[None, :] * out_column, total, mask=there)
        if bias is not None:
            tl.store(bias + row, ends_here, mask=(row < rows) & (tl.program_id(1) == 0))
    elif more is not None:
        rest = (layer * (parts - 1) + part - 1).to(tl.int64)
        more += rest * rows * columns
        tl.store(more + row[:, None] * columns + column[None, :], total, mask=there)
        if bias is not None:
            tl.store(ends + rest * rows + row, ends_here, mask=(row < rows) & (tl.program_id(1) == 0))


def _power(count: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << max(0, count - 1).bit_length()


def widths_fit(gradient: Tensor, value: Tensor, width: int) -> bool:
    """Say whether these kernels can be used, for layers that normalize so many numbers, or channels, together."""
    same = gradient.dtype == value.dtype == torch.float32 and gradient.shape == value.shape
    return runs_on(gradient) and same and value.is_contiguous() and _power(width) <= _MOST_KEPT


def layer_norm_gradients(gradient: Tensor, value: Tensor, *, width: int, eps: float) -> Tensor:
    """Return Σₜ gₜ·x̂ₜ and Σₜ gₜ, side by side, for every example; x̂ is x less its mean, over its deviation."""
    gradient = gradient.contiguous()
    examples = len(value)
    rows = value[0].numel() // width
    results = torch.empty((examples, 2 * width), dtype=torch.float32, device=value.device)
    columns = _power(width)
    height = max(1, _MOST_KEPT // columns // 2)
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
    width = max(1, min(_power(positions), _MOST_KEPT // 2 // side))
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

    Both are examples × channels × height × width, and the value is the input without the zeros
    around it, of which there are `before` above and on the left.
    """
    examples, rows, high, wide = gradient.shape
    columns = value.shape[1] * kernel[0] * kernel[1]
    results = torch.empty((examples, rows, columns), dtype=torch.float32, device=value.device)
    rounded = "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
    side = 2 * _SIDE if min(rows, columns) > _SIDE else _SIDE
    grid = (-(-columns // side), -(-rows // side), examples)
    launch(
        _gradients, grid, (gradient, value, results), rows, columns, high * wide, wide, *value.shape[2:],
        *gradient.stride(), *value.stride(), *kernel, *stride, *dilation, *before, rounded, side, _PRODUCTS, warps=8,
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
