"""Whatever precision a model runs in, what is added up is no longer than the clip norm, and what was measured."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from shoal.errors import NotFiniteError, NotFiniteWarning, ParameterError
from shoal.sgd.torch.book_keeping import Part
from shoal.sgd.torch.clipping import Clipping
from shoal.sgd.torch.example_loss import Loss
from shoal.sgd.torch.precision import as_convolutions, exact, whole_convolutions
from tests.sgd.torch_tests.models import CASES
from tests.sgd.torch_tests.test_clipping import EXAMPLES, batch_of, tried
from tests.sgd.torch_tests.trainings import dataset, training

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


DEPENDENT: list[dict[str, Any]] = [
    {"adjacency": "add-remove", "public_steps": 4},
    {"collate": torch.utils.data.default_collate},
]
"""Trainings in which the shapes of batches depend on the data."""


@pytest.fixture
def settings_put_back() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("chosen", DEPENDENT)
@pytest.mark.usefixtures("settings_put_back")
def test_low_precision_is_refused_where_shapes_depend_on_the_data(chosen: dict[str, Any]) -> None:
    run = training(**chosen)
    batch = next(run.batches())
    for dtype in (torch.bfloat16, torch.float16):
        with (
            torch.autocast("cpu", dtype),
            pytest.raises(
                ParameterError, match=r"autocast rounds .* depend on the data .*; call step\(\) outside of it"
            ),
        ):
            run.step(batch)
    for precision in ("high", "medium"):
        torch.set_float32_matmul_precision(precision)
        with pytest.raises(ParameterError, match=r'use torch.set_float32_matmul_precision\("highest"\)'):
            run.step(batch)
    assert run.epochs == 0
    torch.set_float32_matmul_precision("highest")
    run.step(batch)
    assert run.epochs == 1


@pytest.mark.parametrize("chosen", DEPENDENT)
@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="settings by name came later")
def test_settings_by_name_are_refused_where_shapes_depend_on_the_data(chosen: dict[str, Any]) -> None:
    run = training(**chosen)
    batch = next(run.batches())
    setting: Any = torch.backends.mkldnn.conv  # type: ignore[attr-defined]
    setting.fp32_precision = "bf16"
    try:
        with pytest.raises(ParameterError, match=r'torch.backends.mkldnn.conv.fp32_precision = "ieee"'):
            run.step(batch)
    finally:
        setting.fp32_precision = "none"
    run.step(batch)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="settings by name came later")
@pytest.mark.usefixtures("settings_put_back")
def test_products_rounded_by_name_are_refused_in_words() -> None:
    run = training()
    batch = next(run.batches())
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with pytest.raises(ParameterError, match=r'set by name .* use torch.set_float32_matmul_precision\("high"\)'):
        run.step(batch)
    assert run.epochs == 0
    torch.set_float32_matmul_precision("high")  # what it says helps
    run.step(batch)
    assert run.epochs == 1


@pytest.mark.parametrize("sampling", ["permutation", "allocation", "poisson"])
@pytest.mark.usefixtures("settings_put_back")
def test_low_precision_is_allowed_where_shapes_are_public(sampling: str) -> None:
    run = training(sampling=sampling)
    torch.set_float32_matmul_precision("medium")
    with torch.autocast("cpu", torch.bfloat16):
        for batch in run.batches():
            run.step(batch)
    assert run.epochs == 1


def test_convolutions_are_whole_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
        with whole_convolutions(torch.device("cuda")):
            assert not torch.backends.cudnn.allow_tf32
        assert torch.backends.cudnn.allow_tf32 == before
        with whole_convolutions(torch.device("cpu")):
            assert torch.backends.cudnn.allow_tf32 == before


@pytest.mark.parametrize("chosen", [*DEPENDENT, {}])
def test_steps_have_whole_convolutions_where_shapes_depend_on_the_data(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    rounded = list[bool]()
    total = Clipping.total

    def noted(self: Clipping, *given: Any, **named: Any) -> Any:
        rounded.append(torch.backends.cudnn.allow_tf32)
        return total(self, *given, **named)

    monkeypatch.setattr(Clipping, "total", noted)
    run = training(**chosen)
    run._device = torch.device("cuda")  # as far as settings go
    run.step(next(run.batches()))
    assert rounded == [not chosen] and torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_that_is_not_finite_changes_no_shape(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In low precision, fewer rows might change what is computed for all others."""
    points, labels = (tensor.to(device) for tensor in dataset(12).tensors)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).to(device)
    clipping = tried(model, points, labels, 0.3)
    kept = torch.ones(12, dtype=torch.bool, device=device)
    kept[[0, 7]] = False
    sizes = list[int]()
    part = Clipping._part

    def noted(self: Clipping, inputs: tuple[torch.Tensor, ...], target: torch.Tensor) -> Part:
        sizes.append(len(target))
        return part(self, inputs, target)

    with torch.autocast(device, torch.bfloat16):
        right, loss = clipping.total(batch_of(points[kept], labels[kept]))
        monkeypatch.setattr(Clipping, "_part", noted)
        points[~kept, 1] = torch.nan
        with pytest.warns(NotFiniteWarning, match="example 0"):
            found, without = clipping.total(batch_of(points, labels))
    assert set(sizes) == {12}
    assert without == pytest.approx(loss, rel=1e-2)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_example_that_is_left_out_changes_nothing_for_others(one_by_one: bool) -> None:
    """Others draw the same random numbers, are computed in the same way, and so are the steps after."""
    points, labels = dataset(12).tensors
    points[3, 0] = 1e30  # finite at times, by dropout
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))
    parameters = dict(model.named_parameters())
    for seed in range(20):
        results = []
        for value in (0.0, torch.nan):
            points[8] = value
            clipping = Clipping(model, Loss(nn.CrossEntropyLoss()), parameters, clip_norm=1.0, one_by_one=one_by_one)
            clipping._warned = True
            torch.manual_seed(seed)
            sums, _ = clipping.total(batch_of(points, labels))
            results.append((sums[0], torch.rand(3)))
        # All zeros have no gradient for a weight: with them or without, that of the weights is the same.
        assert torch.equal(results[0][0], results[1][0])
        assert torch.equal(results[0][1], results[1][1])
        assert all(bool(torch.isfinite(total).all()) for total in sums)


def test_an_example_that_is_finite_at_times_and_nothing_to_stand_in() -> None:
    class Inverse(nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return 1 / value

    points, labels = torch.tensor([[torch.nan] * 4, [1.0, 1.0, 1.0, 1.0]]), torch.tensor([0, 1])
    model = nn.Sequential(nn.Dropout(0.5), Inverse(), nn.Linear(4, 2))
    clipping = Clipping(model, Loss(nn.CrossEntropyLoss()), dict(model.named_parameters()), clip_norm=1.0)
    clipping._warned = True
    refused = 0
    for seed in range(64):
        torch.manual_seed(seed)
        try:
            sums, _ = clipping.total(batch_of(points, labels))
        except NotFiniteError as error:
            assert "the gradient of example 1 is finite or not by the random numbers" in str(error)
            refused += 1
        else:
            assert all(bool(torch.isfinite(total).all()) for total in sums)
    assert refused


def test_norms_are_not_shorter_than_float32_where_losses_are() -> None:
    torch.manual_seed(2)
    model = nn.Linear(300, 1)
    points, target = torch.randn(6, 300), torch.zeros(6)
    clipping = Clipping(
        model, Loss(lambda output, _: output[:, 0]), dict(model.named_parameters()), clip_norm=1e-3, one_by_one=True
    )
    for i in range(6):
        with torch.autocast("cpu", torch.bfloat16):
            sums, _ = clipping.total(batch_of(points[i : i + 1], target[i : i + 1]))
        length = float(torch.sqrt(sum((total.double() ** 2).sum() for total in sums)))  # type: ignore[arg-type]
        assert length == pytest.approx(1e-3, rel=2**-15)
