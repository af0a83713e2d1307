"""As people train: schedulers of the learning rate, held-out data, callbacks, adapters of low rank, small memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from shoal.errors import ParameterError
from shoal.sgd.torch import Training
from tests.sgd.torch_tests.trainings import Quiet, dataset, double, network, training

SCHEDULERS: list[Any] = [
    lambda optimizer: lr_scheduler.StepLR(optimizer, 2, gamma=0.5),
    lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [3, 5]),
    lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=20),
    lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3), lr_scheduler.ExponentialLR(optimizer, 0.9)],
        milestones=[3],
    ),
]


def scheduled(make: Any, per: str, **changed: Any) -> Training:
    """Return a training with a scheduler."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return training(model, optimizer=optimizer, scheduler=make(optimizer), scheduler_per=per, epochs=4, **changed)


def rate(run: Training) -> float:
    """Return the learning rate as it is."""
    return float(run.optimizer.param_groups[0]["lr"])


@pytest.mark.slow
@pytest.mark.parametrize("make", SCHEDULERS)
@pytest.mark.parametrize("per", ["epoch", "step"])
def test_a_scheduler_is_stepped_and_remembered(make: Any, per: str, tmp_path: Path) -> None:
    alone = torch.optim.SGD(network().parameters(), lr=0.5)
    reference, file = make(alone), tmp_path / "training.shoal"
    run, rates = scheduled(make, per), list[float]()
    for _ in range(4):
        for batch in run.batches():
            if batch.epoch == 1 and batch.step == 2:
                run.save(file)
            assert rate(run) == alone.param_groups[0]["lr"]
            run.step(batch)
            rates.append(rate(run))
            if per == "step" or batch.step == run.run.steps - 1:
                alone.step()
                reference.step()
    assert len(set(rates)) > 1
    later, after = scheduled(make, per, resume=file), list[float]()
    while len(after) < len(rates) - 6:
        for batch in later.batches():
            later.step(batch)
            after.append(rate(later))
    assert after == rates[6:]
    for one, other in zip(run.model.parameters(), later.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ParameterError, match="another scheduler"):
        scheduled(make, "step" if per == "epoch" else "epoch", resume=file)


def test_schedulers_that_are_refused() -> None:
    other = torch.optim.SGD(network().parameters(), lr=0.1)
    for make, message in (
        (lr_scheduler.ReduceLROnPlateau, "goes by a loss, which tells of the data without noise"),
        (lambda optimizer: lr_scheduler.StepLR(other, 2), "the scheduler has another optimizer"),
        (lambda optimizer: lambda step: 0.1, "must be one of torch.optim.lr_scheduler, got function"),
    ):
        with pytest.raises(ParameterError, match=message):
            scheduled(make, "epoch")
    with pytest.raises(ParameterError, match="scheduler_per must be one of epoch, step"):
        scheduled(SCHEDULERS[0], "batch")


@pytest.mark.slow
def test_held_out_data_and_what_is_called_after_an_epoch(tmp_path: Path) -> None:
    held, file = dataset(50), tmp_path / "training.shoal"
    model, seen = network(dropout=0.5), list[tuple[int, int]]()
    run = training(model, validation=held, epochs=3, batch_size=6)
    next(model.children()).eval()  # a part that was not in training mode stays so
    modes = [module.training for module in model.modules()]
    run.fit(checkpoint=file, after_epoch=lambda each: seen.append((each.epochs, len(each.validation_losses))))
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [module.training for module in model.modules()] == modes
    model.eval()
    points, labels = held.tensors
    with torch.no_grad():
        right = nn.functional.cross_entropy(model(points), labels).item()
    epoch, loss = run.validation_losses[-1]
    assert epoch == 3
    assert loss == pytest.approx(right, rel=1e-5)
    again = training(network(dropout=0.5), validation=held, epochs=3, batch_size=6, resume=file)
    assert again.validation_losses == run.validation_losses
    # It changes nothing of the training.
    one = training(network(dropout=0.0), epochs=2).fit()
    two = training(network(dropout=0.0), epochs=2, validation=held).fit()
    assert all(map(torch.equal, one.model.parameters(), two.model.parameters()))


class Adapted(nn.Module):
    """A frozen layer, and a product of two thin ones that is trained (LoRA)."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.normal_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + self.up(self.down(x))  # type: ignore[no-any-return]


@pytest.mark.parametrize("virtual", [None, 4])
def test_adapters_of_low_rank_are_trained_alone(virtual: int | None) -> None:
    """Clipping is over what is trained: each example's gradient of the adapters, by a loop, in a small memory too."""
    torch.manual_seed(3)
    model = nn.Sequential(Adapted(nn.Linear(4, 6), 2), nn.Tanh(), Adapted(nn.Linear(6, 2), 1))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(trained) == 4
    data: TensorDataset = dataset(20)
    run = training(model, data, optimizer=torch.optim.Adam(trained, lr=0.1), virtual_batch_size=virtual, clip_norm=0.1)
    assert run.route == "book-keeping"
    frozen = [parameter.clone() for parameter in model.parameters() if not parameter.requires_grad]
    batch = next(run.batches())
    sums, _ = run._clipping.total(batch)
    expected = [torch.zeros_like(parameter) for parameter in trained]
    for index in batch.indices.tolist():
        loss = nn.functional.cross_entropy(model(data.tensors[0][[index]]), data.tensors[1][[index]])
        parts = torch.autograd.grad(loss, trained)
        norm = float(torch.cat([part.reshape(-1) for part in parts]).norm())
        for total, part in zip(expected, parts, strict=True):
            total.add_(part, alpha=min(1.0, 0.1 / norm))
    for total, right in zip(sums, expected, strict=True):
        assert torch.allclose(total, right, atol=1e-6)
    run.step(batch)
    kept = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    assert all(map(torch.equal, frozen, kept))


class Counted(torch.optim.SGD):
    """Counts its steps."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        self.steps += 1
        return super().step(closure)


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [True, False])
def test_a_loader_with_a_large_batch_in_a_small_memory(quiet: bool) -> None:
    """Model, optimizer and loader in Opacus's order; sums are accumulated, and there is one step and one noise."""
    results = []
    for virtual in (None, 7):
        model = network().double()
        optimizer = Counted(model.parameters(), lr=0.5)
        loader = DataLoader(double(400), batch_size=200, shuffle=True)
        run = training(
            model,
            loader,
            optimizer=optimizer,
            batch_size=200,
            noise_multiplier=1e4,
            clip_norm=0.1,
            virtual_batch_size=virtual,
        )
        if quiet:
            run._noise = Quiet(key=bytes(32))
        run.fit()
        assert (run.run.batch_size, run.run.steps, optimizer.steps, run.epochs) == (200, 2, 2, 1)
        results.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))
        gradient = torch.cat(
            [parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None]
        )
        if not quiet:  # 1e4·0.1/200 = 5, of 37 numbers; with noise for each of 29 parts it would be 27
            assert 3 < float(gradient.std()) < 7.5
    if quiet:
        torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-13)
