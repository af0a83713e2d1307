"""Sums that are replayed are those that would be computed, and only what is the same every time is replayed."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from shoal.errors import NotFiniteWarning
from shoal.sgd.torch.step_graph import StepGraph, Sums
from tests.sgd.torch_tests.test_clipping import batch_of, one_by_one, tried

needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")


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
