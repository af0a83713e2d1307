"""Whatever precision a model runs in, what is added up is no longer than the clip norm, and what was measured."""

import pytest
import torch
from torch import nn

from shoal.sgd.torch.precision import as_convolutions, exact
from tests.sgd.torch_tests.models import CASES
from tests.sgd.torch_tests.test_clipping import EXAMPLES, batch_of, tried

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")),
]
NAMES = ["linear", "linear, positions, formed", "linear, positions, paired", "conv", "conv, groups", "conv, paired"]
NAMES += ["embedding", "layer norm", "group norm", "mixed", "a layer used twice"]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_clipped_gradients_in_bfloat16_have_the_clip_norm(name: str, device: str) -> None:
    model, inputs, target = CASES[name].make(torch.float32, EXAMPLES)
    model, inputs, target = model.to(device), inputs.to(device), target.to(device)
    clip = 1e-3  # all are longer
    clipping = tried(model, inputs, target, clip)
    assert clipping.route == CASES[name].route
    for i in range(EXAMPLES):
        with torch.autocast(device, torch.bfloat16):
            sums, _ = clipping.total(batch_of(inputs[i : i + 1], target[i : i + 1]))
        length = float(torch.sqrt(sum((total.double() ** 2).sum() for total in sums)))  # type: ignore[arg-type]
        assert all(total.dtype == torch.float32 for total in sums)
        assert clip * (1 - 2**-8) <= length <= clip * (1 + 2**-15)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_sums_in_bfloat16_are_those_of_gradients_in_bfloat16(name: str, device: str) -> None:
    model, inputs, target = CASES[name].make(torch.float32, EXAMPLES)
    model, inputs, target = model.to(device), inputs.to(device), target.to(device)
    clipping = tried(model, inputs, target, 1e9)
    whole, _ = clipping.total(batch_of(inputs, target))
    with torch.autocast(device, torch.bfloat16):
        rounded, _ = clipping.total(batch_of(inputs, target))
    for right, found in zip(whole, rounded, strict=True):
        assert float((right - found).norm()) <= 0.1 * float(right.norm()) + 1e-3


def test_precision_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16), exact(torch.device("cpu")):
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.is_autocast_enabled("cpu")
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        with as_convolutions(torch.device("cpu")):
            assert torch.get_float32_matmul_precision() == "medium"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
def test_rounded_convolutions_are_clipped_to_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    layers = [nn.Conv2d(16, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(64 * 16, 3)]
    model = nn.Sequential(*layers).cuda()
    inputs, target = torch.randn(4, 16, 8, 8, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
    clipping = tried(model, inputs, target, 1e-3)
    for i in range(4):
        sums, _ = clipping.total(batch_of(inputs[i : i + 1], target[i : i + 1]))
        length = float(torch.sqrt(sum((total.double() ** 2).sum() for total in sums)))  # type: ignore[arg-type]
        assert 1e-3 * (1 - 2**-8) <= length <= 1e-3 * (1 + 2**-15)
