"""Clipped sums against a loop over examples, of batches that are padded to public sizes, and sums that are replayed."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from shoal.errors import NotFiniteWarning, ParameterError
from shoal.sgd.torch.clipping import Clipping, StepGraph, Sums, padded, public_size
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.examples import Batch, Examples, Group
from tests.sgd.torch_tests.models import CASES, clipped_loop
from tests.sgd.torch_tests.trainings import dataset, network, training

EXAMPLES = 7
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")),
]
needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")


def one_by_one(model: nn.Module, loss: nn.Module, inputs: Tensor, target: Tensor, clip: float) -> list[Tensor]:
    return clipped_loop(model, loss, (inputs,), target, clip)


def tried(model: nn.Module, inputs: Tensor, target: Tensor, clip: float, size: int | None = None) -> Clipping:
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    clipping = Clipping(model, Loss(nn.CrossEntropyLoss()), trained, clip_norm=clip, virtual_batch_size=size)
    dataset = TensorDataset(inputs, target)
    clipping.try_out(Examples(dataset, count=len(target), collate=None, device=target.device))
    return clipping


def batch_of(inputs: Tensor, target: Tensor) -> Batch:
    return Batch(0, 0, (Group(np.arange(len(target)), (inputs,), target),))


def check(name: str, dtype: torch.dtype, size: int | None, *, device: str = "cpu", tolerance: float = 1e-6) -> None:
    model, inputs, target = CASES[name].make(dtype, EXAMPLES)
    model, inputs, target = model.to(device), inputs.to(device), target.to(device)
    norms = [
        float(torch.sqrt(sum((total**2).sum() for total in alone)))  # type: ignore[arg-type]
        for alone in (
            one_by_one(model, nn.CrossEntropyLoss(), inputs[i : i + 1], target[i : i + 1], 1e9) for i in range(EXAMPLES)
        )
    ]
    clip = sorted(norms)[EXAMPLES // 2] * 0.999  # some are clipped, and some are not
    clipping = tried(model, inputs, target, clip, size)
    assert clipping.route == CASES[name].route, clipping.why
    sums, loss = clipping.total(batch_of(inputs, target))
    expected = one_by_one(model, nn.CrossEntropyLoss(), inputs, target, clip)
    for found, right in zip(sums, expected, strict=True):
        torch.testing.assert_close(found, right, rtol=tolerance, atol=tolerance * clip)
    assert loss == pytest.approx(nn.CrossEntropyLoss()(model(inputs), target).item(), rel=1e-5)
    assert all("forward" not in module.__dict__ for module in model.modules())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", CASES)
def test_sum_is_that_of_a_loop(name: str) -> None:
    check(name, torch.float64, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["linear", "conv", "mixed", "in place", "frozen", "a layer used twice", "tied weights"]
)
def test_sum_is_that_of_a_loop_if_gradients_are_used_as_they_come(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sgd.torch.book_keeping._MOST_KEPT", 0)
    check(name, torch.float64, None)
    check(name, torch.float64, 2)  # it is known from the first part on that they are many


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "conv", "embedding", "layer norm", "group norm", "mixed", "tied weights"])
def test_sum_is_that_of_a_loop_in_single_precision(name: str) -> None:
    check(name, torch.float32, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.route == "book-keeping"])
def test_sum_is_that_of_a_loop_on_a_graphics_processor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    check(name, torch.float64, None, device="cuda")
    check(name, torch.float32, None, device="cuda", tolerance=1e-4)
    check(name, torch.float32, 3, device="cuda", tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed", "a layer used twice", "a parameter of its own"])
@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_virtual_batches_change_nothing(name: str, size: int) -> None:
    check(name, torch.float64, size)


def test_large_gradients_are_formed_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sgd.torch.clipping._MOST_NUMBERS", 100)
    monkeypatch.setattr("shoal.sgd.torch.layers._MOST_FORMED", 10)
    check("a layer used twice", torch.float64, None)
    check("linear, positions, formed", torch.float64, None)


def test_no_gradient_is_longer_than_the_clip_norm() -> None:
    model, inputs, target = CASES["mixed"].make(torch.float32, EXAMPLES)
    clipping = tried(model, inputs, target, 1e-3)
    for i in range(EXAMPLES):
        sums, _ = clipping.total(batch_of(inputs[i : i + 1], target[i : i + 1]))
        assert float(torch.sqrt(sum((total.double() ** 2).sum() for total in sums))) <= 1e-3 * (1 + 2**-16)  # type: ignore[arg-type]


class Wanting(nn.Module):
    """A layer whose input wants a gradient, and so is not the first to want one."""

    def __init__(self) -> None:
        super().__init__()
        self.idle, self.layer, self.shift = nn.Linear(6, 6), nn.Linear(6, 3), torch.zeros(6, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        self.idle(x)
        return self.layer(x + self.shift)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kept", [0, 1 << 22])
def test_a_layer_whose_input_wants_a_gradient(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sgd.torch.book_keeping._MOST_KEPT", kept)
    torch.manual_seed(5)
    model, inputs, target = Wanting(), torch.randn(EXAMPLES, 6), torch.randint(3, (EXAMPLES,))
    clipping = tried(model, inputs, target, 0.5)
    assert clipping.route == "book-keeping"
    clipping.total(batch_of(inputs, target))
    sums, _ = clipping.total(batch_of(inputs, target))
    for found, right in zip(sums, one_by_one(model, nn.CrossEntropyLoss(), inputs, target, 0.5), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-6)


def test_huge_and_zero_gradients() -> None:
    model, inputs, target = CASES["linear"].make(torch.float32, EXAMPLES)
    inputs[0] *= 1e15
    inputs[1] = 0
    sums, _ = tried(model, inputs, target, 1.0).total(batch_of(inputs, target))
    assert all(bool(torch.isfinite(total).all()) for total in sums)
    assert float(torch.sqrt(sum((total**2).sum() for total in sums))) <= EXAMPLES  # type: ignore[arg-type]


def test_squares_that_vanish_beside_huge_inputs() -> None:
    model = nn.Linear(3, 2)
    inputs, target = torch.full((1, 3), 1e18), torch.zeros(1, dtype=torch.int64)
    loss = Loss(lambda output, _: 2e-23 * output.sum(1))  # its gradient has the length 3e-23, whose square is 0
    clipping = Clipping(model, loss, dict(model.named_parameters()), clip_norm=1e-6)
    sums, _ = clipping.total(batch_of(inputs, target))
    assert clipping.route == "book-keeping"
    assert 0 < float(torch.cat([total.double().flatten() for total in sums]).norm()) <= 1e-6


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_values_of_an_example_are_reduced_as_the_loss_says(reduction: str) -> None:
    output, target = torch.randn(4, 3), torch.randn(4, 3)
    whole = nn.MSELoss(reduction=reduction)
    found = Loss(whole)(output, target)
    assert found.tolist() == pytest.approx([float(whole(output[i], target[i])) for i in range(4)])
    assert whole.reduction == reduction


def test_ignored_positions_do_not_count() -> None:
    """The loss of a text is the one that torch gives for this text alone; without any label it is 0."""
    output = torch.randn(4, 5, 6)
    target = torch.randint(0, 5, (4, 6))
    target[1, 3:] = target[2, :5] = target[3] = -100
    found = Loss(nn.CrossEntropyLoss())(output, target)
    alone = [float(nn.CrossEntropyLoss()(output[i : i + 1], target[i : i + 1])) for i in range(3)]
    assert found.tolist() == pytest.approx([*alone, 0.0])
    probable = torch.softmax(torch.randn(4, 5, 6), 1)
    assert Loss(nn.CrossEntropyLoss())(output, probable)[0] == pytest.approx(
        float(nn.CrossEntropyLoss()(output[:1], probable[:1]))
    )


def test_class_weights_weigh_the_examples() -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 10.0]))
    output, target = torch.zeros(2, 2), torch.tensor([0, 1])
    assert Loss(loss)(output, target).tolist() == pytest.approx([np.log(2), 10 * np.log(2)])


def test_a_loss_is_one_value_an_example() -> None:
    values = torch.ones(4, 3)
    assert Loss(lambda output, target: output[:, :1])(values, values).tolist() == [1, 1, 1, 1]
    with pytest.raises(ParameterError, match=r"one value for each of 4 examples, got \(\)"):
        Loss(lambda output, target: output.sum())(values, values)
    with pytest.raises(ParameterError, match="one value an example, got 3"):
        Loss(nn.MSELoss(reduction="none"))(values, values)
    with pytest.raises(ParameterError, match="reduction must be"):
        Loss(nn.MSELoss(reduction="median"))
    with pytest.raises(ParameterError, match="loss must be a module"):
        Loss(7)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="make them part of the model"):
        Loss(nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3]))


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


def chain(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), *middle, nn.Linear(5, 3))


class Other(nn.Sequential):
    pass


def never(tensors: tuple[Tensor, ...]) -> Sums:
    raise AssertionError("nothing is to be computed")


def hooked() -> nn.Module:
    model = chain(nn.ReLU())
    model[0].register_forward_hook(lambda *_: None)
    return model


def replaced() -> nn.Module:
    model = chain(nn.ReLU())
    model[1].forward = torch.tanh
    return model


MODELS: list[tuple[Callable[[], nn.Module], bool]] = [
    (lambda: chain(nn.ReLU()), True),
    (lambda: chain(nn.Sequential(nn.Tanh(), nn.LayerNorm(5))), True),
    (lambda: chain(nn.Dropout()), False),
    (lambda: chain(Other(nn.ReLU())), False),
    (lambda: nn.Linear(6, 3), False),
    (hooked, False),
    (replaced, False),
]


@pytest.mark.parametrize(("make", "safe"), MODELS)
def test_what_is_safe(make: Callable[[], nn.Module], safe: bool) -> None:
    assert StepGraph(make(), nn.CrossEntropyLoss(), never)._safe == safe
    assert not StepGraph(make(), lambda output, target: output[:, 0], never)._safe


def test_nothing_is_replayed_on_the_central_processor() -> None:
    graph = StepGraph(chain(nn.ReLU()), nn.CrossEntropyLoss(), never)
    assert all(graph.sums((torch.zeros(4, 6), torch.zeros(4))) is None for _ in range(5))


@needs_device
def test_replayed_sums_are_those_of_a_loop() -> None:
    torch.manual_seed(5)
    model = chain(nn.ReLU()).cuda()
    layer = model[0]
    assert isinstance(layer, nn.Linear)
    inputs, target = torch.randn(64, 6, device="cuda"), torch.randint(3, (64,), device="cuda")
    clipping = tried(model, inputs, target, 0.5)

    def compare() -> None:
        rows = torch.randperm(64, device="cuda")[:16]
        sums, loss = clipping.total(batch_of(inputs[rows], target[rows]), scale=2.0)
        right = one_by_one(model, nn.CrossEntropyLoss(), inputs[rows], target[rows], 0.5)
        for found, expected in zip(sums, right, strict=True):
            torch.testing.assert_close(found, 2 * expected, rtol=1e-4, atol=1e-4)
        assert loss == pytest.approx(nn.CrossEntropyLoss()(model(inputs[rows]), target[rows]).item(), rel=1e-5)
        with torch.no_grad():  # as an optimizer does it
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)

    for _ in range(6):
        compare()
    (graph,) = clipping._graphs.values()
    assert len(graph._recorded) == 1
    model[1] = nn.Tanh()
    for _ in range(6):
        compare()
    layer.weight.data = torch.randn_like(layer.weight)
    for _ in range(6):
        compare()
    assert len(graph._recorded) == 3
    calls: list[int] = []
    handle = layer.register_forward_pre_hook(lambda *_: calls.append(1))
    for _ in range(6):
        compare()
    assert len(calls) >= 6
    handle.remove()
    inputs[:] = torch.inf
    layer.weight.data = torch.randn_like(layer.weight)
    with pytest.warns(NotFiniteWarning, match="example 0"):
        clipping.total(batch_of(inputs[:16], target[:16]), scale=2.0)
    for _ in range(5):
        sums, loss = clipping.total(batch_of(inputs[:16], target[:16]), scale=2.0)
        assert math.isnan(loss) and not any(bool(total.any()) for total in sums)
    inputs[1:16] = 1.0
    right = one_by_one(model, nn.CrossEntropyLoss(), inputs[1:16], target[1:16], 0.5)
    for _ in range(5):  # replayed, and without the first
        sums, _ = clipping.total(batch_of(inputs[:16], target[:16]), scale=2.0)
        for found, expected in zip(sums, right, strict=True):
            torch.testing.assert_close(found, 2 * expected, rtol=1e-4, atol=1e-4)
