"""Batches that are padded to public sizes have the sums, the losses and the warnings of those that are not."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from shoal.errors import NotFiniteWarning
from shoal.sgd.torch.clipping import Clipping, padded, public_size
from tests.sgd.torch_tests.test_clipping import batch_of, one_by_one, tried
from tests.sgd.torch_tests.trainings import dataset, network, training

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")),
]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_sizes_are_few_and_near(size: int, expected: int) -> None:
    larger = public_size(size, expected)
    assert public_size(expected, expected) == expected
    assert public_size(larger, expected) == larger
    assert 0 <= larger - size < 2 * math.sqrt(expected) + 1
    # Nearly all batches, within six deviations of what is expected, have few sizes.
    spread = math.ceil(6 * math.sqrt(expected))
    low, high = (public_size(max(1, expected + each), expected) for each in (-spread, spread))
    step = public_size(expected + 1, expected) - expected
    assert (high - low) // step <= 13


def test_copies_of_the_first_row_are_put_behind() -> None:
    tensors = (torch.randn(9, 2, 3), torch.arange(9))
    longer = padded(tensors, 16)
    assert [len(each) for each in longer] == [12, 12]
    for each, more in zip(tensors, longer, strict=True):
        assert torch.equal(more[:9], each) and torch.equal(more[9:], each[:1].expand_as(more[9:]))
    assert padded(longer, 16) is longer


def made(device: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Tensor, Tensor, Clipping]:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(device, dtype)
    inputs = torch.randn(40, 6, device=device, dtype=dtype)
    target = torch.randint(3, (40,), device=device)
    clipping = tried(model, inputs, target, 0.5)
    clipping._pads, clipping._expected = True, 16
    return model, inputs, target, clipping


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_and_losses_are_those_of_the_examples(device: str, dtype: torch.dtype) -> None:
    model, inputs, target, clipping = made(device, dtype)
    tolerance = 1e-6 if dtype == torch.float64 else 1e-4
    for turn in range(4):  # on a graphics processor the last ones are replayed
        for size in (1, 3, 4, 13, 15, 16, 17, 21, 40):
            draw = bytes([turn * 64, *range(7)])  # the first turn is tested for examples that are mixed
            sums, loss = clipping.total(batch_of(inputs[:size], target[:size]), scale=2.0, draw=draw)
            right = one_by_one(model, nn.CrossEntropyLoss(), inputs[:size], target[:size], 0.5)
            for found, expected in zip(sums, right, strict=True):
                torch.testing.assert_close(found, 2 * expected, rtol=tolerance, atol=tolerance)
            assert loss == pytest.approx(nn.CrossEntropyLoss()(model(inputs[:size]), target[:size]).item(), rel=1e-5)
    assert clipping._sizes <= {4, 16, 20, 24, 40}
    if device == "cuda":
        (graph,) = clipping._graphs.values()
        assert len(graph._recorded) == 5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [[0], [3], [0, 4], [0, 1, 2, 3, 4]])
def test_what_is_not_finite_is_left_out_once(device: str, bad: list[int]) -> None:
    model, inputs, target, clipping = made(device)
    inputs[bad] = torch.nan
    batch = batch_of(inputs[:5], target[:5])
    with pytest.warns(NotFiniteWarning, match=f"example {bad[0]} is not finite"):
        sums, loss = clipping.total(batch)
    kept = [row for row in range(5) if row not in bad]
    if not kept:
        assert math.isnan(loss) and not any(bool(total.any()) for total in sums)
        return
    right = one_by_one(model, nn.CrossEntropyLoss(), inputs[kept], target[kept], 0.5)
    for found, expected in zip(sums, right, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert loss == pytest.approx(nn.CrossEntropyLoss()(model(inputs[kept]), target[kept]).item(), rel=1e-6)


class Twice(nn.Module):
    """Is not finite for copies of the first row, and finite for that row: as random numbers may make it."""

    def forward(self, x: Tensor) -> Tensor:
        behind = torch.arange(len(x), device=x.device).unsqueeze(1) >= 5
        return x * torch.where(behind & (x[:, :1] == x[0, :1]), torch.nan, 1.0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_that_is_not_finite_leaves_no_trace(device: str) -> None:
    model, inputs, target, clipping = made(device)
    plain = one_by_one(model, nn.CrossEntropyLoss(), inputs[:5], target[:5], 0.5)
    assert isinstance(model, nn.Sequential)
    model.insert(0, Twice())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums, loss = clipping.total(batch_of(inputs[:5], target[:5]))
    assert math.isfinite(loss)
    for found, expected in zip(sums, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sampling", ["allocation", "poisson"])
def test_a_training_by_padded_batches(device: str, sampling: str) -> None:
    """The same steps but for rounding, so that the model is the same but for noise that depends on the last bits."""
    data = dataset(300)
    data.tensors = tuple(each.to(device) for each in data.tensors)
    losses = []
    for pads in (False, True):
        run = training(network().to(device), data, batch_size=20, sampling=sampling, noise_multiplier=1e-6)
        run._clipping._pads = pads
        losses.append([run.step(batch) for batch in run.batches()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3, nan_ok=True)
