"""Norms and sums without gradients formed are those of gradients that are: on a graphics processor."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from shoal.sgd.torch.kernels import (
    clip_weights,
    convolution_gradients,
    ghost_squares,
    group_norm_gradients,
    layer_norm_gradients,
    takes,
    weighted_sums,
    widths_fit,
)

NO_DEVICE = not torch.cuda.is_available() or not takes(torch.zeros(1, device="cuda"))
needs_device = pytest.mark.skipif(NO_DEVICE, reason="needs a graphics processor and Triton")

SHAPES = [(3, 70, 40, 33), (5, 1, 7, 9), (4, 16, 512, 4608), (2, 130, 8, 8), (64, 128, 512, 2048), (1, 300, 65, 1)]


def made(shape: tuple[int, int, int, int], dtype: torch.dtype, kind: str) -> tuple[Tensor, Tensor]:
    """Return gradients and values, examples × positions × numbers, the former with another order of its axes."""
    examples, positions, rows, columns = shape
    gradient = torch.randn(examples, rows, positions, device="cuda").transpose(1, 2)
    value = torch.randn(examples, positions, columns, device="cuda")
    if kind == "positive":  # where errors of one sign add up
        gradient, value = gradient.abs(), value.abs()
    if kind == "cancelling" and positions > 1:
        gradient = gradient - gradient.mean(1, keepdim=True)
        value = 1 + value * 1e-3
    return gradient.to(dtype), value.to(dtype)


@needs_device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling"])
def test_squared_norms_are_those_of_gradients_from_above(
    shape: tuple[int, int, int, int], dtype: torch.dtype, kind: str
) -> None:
    gradient, value = made(shape, dtype, kind)
    right = torch.bmm(gradient.double().transpose(1, 2), value.double()).square().sum((1, 2))
    lengths = (gradient.double().norm(dim=2) * value.double().norm(dim=2)).sum(1).square()
    assert torch.equal(ghost_squares([gradient], [value]), ghost_squares([gradient], [value]))
    found = ghost_squares([gradient], [value]).sum(1).double()
    apart = (found - right) / lengths
    assert float(apart.min()) >= 0
    assert float(apart.max()) <= 2.0**-16  # for up to five tiles of unequal length
    longer = torch.cat([value, torch.ones_like(value[:, :, :1])], 2)
    with_bias = ghost_squares([gradient], [value], bias=True).sum(1).double()
    right = torch.bmm(gradient.double().transpose(1, 2), longer.double()).square().sum((1, 2))
    lengths = (gradient.double().norm(dim=2) * longer.double().norm(dim=2)).sum(1).square()
    assert float(((with_bias - right) / lengths).min()) >= 0
    assert float(((with_bias - right) / lengths).max()) <= 2.0**-16


@needs_device
@pytest.mark.parametrize("positions", [1, 3, 70])
@pytest.mark.parametrize("lengths", [(2e-23, 1e18), (1e-21, 1e18), (1e18, 2e-23)])
def test_squares_that_vanish_are_made_up_for(positions: int, lengths: tuple[float, float]) -> None:
    gradient = torch.randn(3, positions, 7, device="cuda") * lengths[0]
    value = torch.randn(3, positions, 9, device="cuda") * lengths[1]
    right = torch.bmm(gradient.double().transpose(1, 2), value.double()).square().sum((1, 2))
    assert bool((ghost_squares([gradient], [value]).sum(1).double() >= right).all())


@needs_device
@pytest.mark.parametrize("shape", SHAPES)
def test_squared_norms_of_words(shape: tuple[int, int, int, int]) -> None:
    gradient, _ = made(shape, torch.float32, "normal")
    words = torch.randint(5, shape[:2], device="cuda")
    vectors = torch.nn.functional.one_hot(words, 5).double()
    right = torch.bmm(gradient.double().transpose(1, 2), vectors).square().sum((1, 2))
    found = ghost_squares([gradient], [words]).sum(1).double()
    lengths = gradient.double().norm(dim=2).sum(1).square()
    assert float((found - right).min()) >= 0
    assert float(((found - right) / lengths).max()) <= 2.0**-16


@needs_device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["normal", "positive"])
def test_weighted_sums(shape: tuple[int, int, int, int], dtype: torch.dtype, kind: str) -> None:
    gradient, value = made(shape, dtype, kind)
    weights = torch.rand(shape[0], device="cuda")
    each = torch.bmm(gradient.double().transpose(1, 2), value.double())
    right = torch.einsum("i,ipd->pd", weights.double(), each)
    out = torch.full(right.shape, torch.nan, device="cuda")
    bias = torch.full(right.shape[:1], torch.nan, device="cuda")
    for total, more in weighted_sums([gradient], [value], weights, [out], [bias]):
        total.add_(more)
    assert float((out - right).norm() / right.norm()) < (2.0**-19 if dtype == torch.float32 else 2.0**-17)
    ends = torch.einsum("i,itp->p", weights.double(), gradient.double())
    assert float((bias - ends).norm() / ends.norm()) < 2.0**-19
    whole = torch.full((right.shape[1], right.shape[0]), torch.nan, device="cuda").t()  # other strides
    for _ in range(2):  # the second time it is launched as it was compiled the first time
        whole.fill_(torch.nan)
        for total, more in weighted_sums([gradient], [value], weights, [whole]):
            total.add_(more)
        assert torch.equal(whole, out)


@needs_device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling"])
def test_nothing_that_is_added_up_is_longer_than_it_was_measured(
    shape: tuple[int, int, int, int], dtype: torch.dtype, kind: str
) -> None:
    gradient, value = made(shape, dtype, kind)
    squares = ghost_squares([gradient], [value], bias=True).sum(1)
    for example in range(min(shape[0], 3)):
        weights = torch.zeros(shape[0], device="cuda")
        weights[example] = 0.3 / squares[example].sqrt()
        out, bias = torch.empty(shape[2:], device="cuda"), torch.empty(shape[2], device="cuda")
        for total, more in weighted_sums([gradient], [value], weights, [out], [bias]):
            total.add_(more)
        length = math.sqrt(float(out.double().square().sum() + bias.double().square().sum()))
        assert length <= 0.3 * (1 + 2.0**-16)


@needs_device
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
def test_layers_of_one_shape_together(
    shape: tuple[int, int, int, int], dtype: torch.dtype, bias: bool, aligned: bool
) -> None:
    layers = [made(shape, dtype, "normal") for _ in range(3)]
    gradients, values = [each[0] for each in layers], [each[1] for each in layers]
    weights = torch.rand(shape[0], device="cuda")
    together = ghost_squares(gradients, values, bias=bias)
    alone = torch.cat([ghost_squares([g], [x], bias=bias) for g, x in layers], 1)
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=0)
    size, start = shape[2] * shape[3], 0 if aligned else 1
    step = -(-(size + start) // 4) * 4
    memory = torch.full((3, step), torch.nan, device="cuda")
    outs = [row[start : start + size].view(shape[2], shape[3]) for row in memory]
    biases = list(torch.full((3, shape[2]), torch.nan, device="cuda")) if bias else []
    for total, more in weighted_sums(gradients, values, weights, outs, biases):
        total.add_(more)
    for layer, (gradient, value) in enumerate(layers):
        right = torch.einsum("i,itp,itd->pd", weights.double(), gradient.double(), value.double())
        assert float((outs[layer] - right).norm() / right.norm()) < (2.0**-19 if dtype == torch.float32 else 2.0**-17)
        if bias:
            ends = torch.einsum("i,itp->p", weights.double(), gradient.double())
            assert float((biases[layer] - ends).norm() / ends.norm()) < 2.0**-19
    assert int(memory.isnan().sum()) == 3 * (step - size)


@needs_device
def test_weights_clip_and_report() -> None:
    squares, losses = torch.rand(700, device="cuda") * 3, torch.rand(700, device="cuda")
    squares[3] = 0
    weights, report = clip_weights(squares, losses, clip_norm=0.7, scale=5.0)
    torch.testing.assert_close(weights, (squares.rsqrt() * 3.5).clamp_max(5), rtol=1e-6, atol=0)
    assert report.sum(0).tolist() == pytest.approx([float(squares.sum()), float(losses.sum())], rel=1e-5)
    real = torch.tensor([300], dtype=torch.int32, device="cuda")
    fewer, report = clip_weights(squares, losses, clip_norm=0.7, scale=5.0, real=real)
    assert torch.equal(fewer[:300], weights[:300]) and not bool(fewer[300:].any())
    assert report.sum(0).tolist() == pytest.approx([float(squares.sum()), float(losses[:300].sum())], rel=1e-5)
    for bad in (torch.nan, torch.inf):
        squares[5] = bad
        _, report = clip_weights(squares, losses, clip_norm=0.7, scale=5.0)
        assert not bool(torch.isfinite(report[:, 0]).all())


@needs_device
@pytest.mark.parametrize("shape", [(3, 5, 12), (64, 128, 512), (2, 1, 4097), (7, 33)])
def test_layer_norms(shape: tuple[int, ...]) -> None:
    value, gradient = torch.randn(shape, device="cuda") + 3, torch.randn(shape, device="cuda")
    width = shape[-1]
    assert widths_fit(gradient, value, width)
    normal = torch.nn.functional.layer_norm(value.double(), [width], None, None, 1e-5)
    both = torch.cat([(each.view(shape[0], -1, width)).sum(1) for each in (gradient * normal, gradient.double())], 1)
    layer_norm_gradients(value, gradient, width=width, eps=1e-5)
    found = layer_norm_gradients(gradient, value, width=width, eps=1e-5).double()
    torch.testing.assert_close(found, both, rtol=1e-4, atol=1e-4)


@needs_device
@pytest.mark.parametrize(("shape", "groups"), [((3, 6, 5, 7), 2), ((16, 64, 32, 32), 32), ((4, 12, 3000), 1)])
def test_group_norms(shape: tuple[int, ...], groups: int) -> None:
    value, gradient = torch.randn(shape, device="cuda") + 3, torch.randn(shape, device="cuda")
    assert widths_fit(gradient, value, shape[1] // groups)
    normal = torch.nn.functional.group_norm(value.double(), groups, None, None, 1e-5)
    both = torch.cat([each.flatten(2).sum(2) for each in (gradient * normal, gradient.double())], 1)
    group_norm_gradients(value, gradient, groups=groups, eps=1e-5)
    found = group_norm_gradients(gradient, value, groups=groups, eps=1e-5).double()
    torch.testing.assert_close(found, both, rtol=1e-3, atol=1e-3)


@needs_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_formed_convolutions(dtype: torch.dtype, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    geometry = {"kernel": (3, 2), "stride": (2, 1), "dilation": (1, 2), "before": (1, 2)}
    value = torch.randn(5, 7, 12, 13, device="cuda").to(dtype).to(memory_format=layout)
    padded = torch.nn.functional.pad(value.double(), (2, 2, 1, 1))
    patches = torch.nn.functional.unfold(padded, (3, 2), dilation=(1, 2), stride=(2, 1))
    gradient = torch.randn(5, 70, 6, 15, device="cuda").to(dtype)
    right = torch.bmm(gradient.double().flatten(2), patches.transpose(1, 2))
    convolution_gradients(gradient * 2, value * 3, **geometry)
    found = convolution_gradients(gradient, value, **geometry).double()
    assert float((found - right).norm() / right.norm()) < 1e-5


def test_kernels_are_not_for_the_central_processor() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert not takes(torch.zeros(1, dtype=dtype))


@needs_device
def test_what_kernels_take() -> None:
    kinds = itertools.chain((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
    assert [takes(torch.zeros(1, dtype=dtype, device="cuda")) for dtype in kinds] == [True, True, False, False]
