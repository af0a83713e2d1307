"""A training uses every example once a pass, charges before it shows, and adds the noise that it promises."""

import io
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate, get_worker_info

from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.sgd.gradient_noise import GRID, margin_for
from shoal.sgd.guarantees import guarantee
from shoal.sgd.run import Run
from shoal.sgd.torch import step_noise as noise_module
from shoal.sgd.torch.step_noise import StepNoise
from tests.sgd.torch_tests.trainings import dataset, network, training


class Workers(Dataset[tuple[torch.Tensor, int]]):
    """Examples that tell which worker has loaded them: their second feature."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        worker = get_worker_info()
        return torch.tensor([float(index), -1.0 if worker is None else worker.id, 0, 0]), index % 2


class Together(Workers):
    """Examples that are centred if they are asked for all at once, which mixes them."""

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        mean = torch.tensor([np.mean(indices), 0.0, 0.0, 0.0])
        return [(self[index][0] - mean, self[index][1]) for index in indices]


@pytest.mark.slow
def test_workers_load_examples_one_by_one() -> None:
    """A worker of torch calls __getitems__ where there is one, and nothing else does."""
    run = training(
        data=DataLoader(Together(), batch_size=8, num_workers=1),
    )
    for batch in run.batches():
        assert batch.inputs[0][:, 0].tolist() == batch.indices.tolist()
        run.step(batch)


def test_a_loop_that_another_one_has_overtaken_is_refused() -> None:
    """It had loaded the examples of earlier steps, and gave them as those of the current one."""
    run = training()
    batches = run.batches()
    run.step(next(batches))
    run.step(next(run.batches()))
    with pytest.raises(ParameterError, match=r"call batches\(\) again"):
        next(batches)
    assert next(run.batches()).step == 2


@pytest.mark.slow
@pytest.mark.parametrize("collate", [None, default_collate])
def test_the_workers_of_a_loader_load_the_batches_that_are_drawn(collate: Callable[..., Any] | None) -> None:
    """They see indices that were drawn before, and so the examples of every step are those without workers."""
    loader: DataLoader[Any] = DataLoader(Workers(), batch_size=8, num_workers=2)
    here = training(data=Workers(), collate=collate)
    there = training(data=loader, collate=collate)
    seen: set[float] = set()
    for own, loaded in zip(here.batches(), there.batches(), strict=True):
        assert own.indices.tolist() == loaded.indices.tolist()
        for one, other in zip(own.groups, loaded.groups, strict=True):
            assert torch.equal(one.inputs[0][:, 0], other.inputs[0][:, 0]) and torch.equal(one.target, other.target)
            seen |= set(other.inputs[0][:, 1].tolist())
        here.step(own)
        there.step(loaded)
    assert seen == {0.0, 1.0}


def total_of(*, key: bytes, total: torch.Tensor, step: int = 0, deviation: float = 2.0) -> torch.Tensor:
    spacing = deviation * GRID
    return StepNoise(key=key).add(total / spacing, margin=0.0, unit=spacing, epoch=0, step=step)


@pytest.mark.slow
@given(examples=st.integers(1, 60), share=st.floats(0, 1), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_every_example_once_a_pass(examples: int, share: float, seed: int) -> None:
    size = max(1, math.ceil(share * examples))
    torch.manual_seed(seed)
    sampling = ("permutation", "allocation")[seed % 2]
    run = training(nn.Linear(4, 2), dataset(examples), batch_size=size, simulation=None, sampling=sampling)
    orders = []
    for _ in range(2):
        seen = []
        for batch in run.batches():
            assert len(batch) <= size or sampling == "allocation"
            if len(batch):
                assert torch.equal(batch.inputs[0], dataset(examples).tensors[0][torch.from_numpy(batch.indices)])
            seen += batch.indices.tolist()
            run.step(batch)
        assert sorted(seen) == list(range(examples))
        orders.append(seen)
    assert run.epochs == 2
    # Two orders are the same once in 20! times, and two allocations once in 4²⁰.
    if examples >= 20 and (sampling == "permutation" or run.run.steps >= 4):
        assert orders[0] != orders[1]


@pytest.mark.slow
def test_other_trainings_have_other_orders() -> None:
    for sampling, size in (("permutation", 30), ("allocation", 10), ("poisson", 10)):
        runs = [training(simulation=None, batch_size=size, sampling=sampling) for _ in range(3)]
        assert len({tuple(next(run.batches()).indices.tolist()) for run in runs}) == 3


def test_step_takes_the_current_batch_once() -> None:
    run, other = training(), training()
    batches = run.batches()
    first = next(batches)
    for wrong in (next(other.batches()), dataset()[0], None):
        with pytest.raises(ParameterError, match="the batch that batches"):
            run.step(wrong)  # type: ignore[arg-type]
    run.step(first)
    with pytest.raises(ParameterError, match="once"):
        run.step(first)
    second = next(batches)
    again = next(run.batches())
    assert again.indices.tolist() == second.indices.tolist()
    with pytest.raises(ParameterError, match="just yielded"):
        run.step(second)
    run.step(again)
    assert next(batches).step == 2
    with pytest.raises(ParameterError, match="was not trained on"):
        next(batches)


def test_an_interrupted_pass_goes_on() -> None:
    run = training()
    seen = []
    for batch in run.batches():
        run.step(batch)
        seen += batch.indices.tolist()
        if batch.step == 1:
            break
    assert run.epochs == 1
    for batch in run.batches():
        run.step(batch)
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(30))
    assert run.epochs == 1


@pytest.mark.slow
def test_guarantee_is_that_of_the_plan_or_of_the_epochs_begun_beyond_it() -> None:
    run = training()
    assert run.guarantee() is None
    assert run.epsilon == 0
    batches = run.batches()
    batch = next(batches)
    assert run.epochs == 0
    run.step(batch)
    made = Run(examples=30, batch_size=8, noise_multiplier=20.0, epochs=1, releases="sums", sampling="allocation")
    right = guarantee(made, delta=1e-6)
    assert run.epsilon == right.epsilon > 0
    for batch in batches:
        run.step(batch)
    assert run.epsilon == right.epsilon
    run.step(next(run.batches()))
    assert run.epochs == 2
    assert run.epsilon > right.epsilon


class Broken(torch.optim.SGD):
    """An optimizer that fails."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        raise RuntimeError("a crash")


def test_charged_before_the_step() -> None:
    model = network()
    run = training(model, optimizer=Broken(model.parameters(), lr=0.1))
    with pytest.raises(RuntimeError, match="a crash"):
        run.step(next(run.batches()))
    assert run.epochs == 1
    assert run.epsilon > 0
    assert next(run.batches()).step == 1  # its noised sum may have been seen, so it is not made again


@pytest.mark.parametrize(("kind", "factor"), [("batch", 1.0), ("example", math.sqrt(8))])
def test_noise_has_the_deviation_that_is_promised(kind: str, factor: float) -> None:
    model = nn.Linear(40, 500)
    points = torch.zeros(16, 40)
    run = training(
        model,
        TensorDataset(points, torch.zeros(16, dtype=torch.int64)),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        noise=kind,
        clip_norm=0.5,
        noise_multiplier=3.0,
    )
    run.step(next(run.batches()))
    assert model.weight.grad is not None
    found = model.weight.grad.double() * 8  # zero inputs: nothing but noise
    count = found.numel()
    # False alarms: once in 10⁹, for a normal sample of 20,000 is off by 6.1 standard errors that often.
    assert abs(float(found.square().mean().sqrt()) / (1.5 * factor) - 1) < 6.1 / math.sqrt(2 * count)
    assert abs(float(found.mean())) < 6.1 * 1.5 * factor / math.sqrt(count)


def test_noise_is_normal() -> None:
    found = (total_of(key=bytes(32), total=torch.zeros(100_001, dtype=torch.float64)) / 2).sort().values
    expected = torch.special.ndtr(found)
    steps = torch.arange(1, len(found) + 1) / len(found)
    # Kolmogorov and Smirnov: exceeded once in 10⁹ times, 2·exp(−2·t²) for t = 3.28.
    assert float((expected - steps).abs().max()) < 3.28 / math.sqrt(len(found)) + 1 / len(found)
    half = 16384  # sines and cosines of the same radius are not correlated, nor are their squares
    fresh = total_of(key=bytes([1]) * 32, total=torch.zeros(2 * half, dtype=torch.float64)) / 2
    assert abs(float((fresh[:half] * fresh[half:]).mean())) < 6.1 / math.sqrt(half)
    squares = (fresh[:half].square() - 1) * (fresh[half:].square() - 1) / 2
    assert abs(float(squares.mean())) < 6.5 / math.sqrt(half)


@pytest.mark.parametrize("count", [1, 2, 3, 2 * noise_module._PAIRS, 2 * noise_module._PAIRS + 1])
def test_every_sum_has_noise_of_its_own(count: int) -> None:
    total = torch.zeros(count, dtype=torch.float64)
    found = total_of(key=bytes(32), total=total)
    assert len(torch.unique(found)) > 0.9 * count  # a grid of 2²⁰ points a deviation
    assert not bool((found == 0).any())
    assert torch.equal(found, total_of(key=bytes(32), total=total))
    others = [
        total_of(key=bytes(31) + b"1", total=total),
        total_of(key=bytes(32), total=total, step=1),
        StepNoise(key=bytes(32)).add(total.clone(), margin=0.0, unit=2 * GRID, epoch=1, step=0),
        total_of(key=bytes(32), total=total.index_fill(0, torch.tensor([count - 1]), 1e-12)),
    ]
    for other in others:
        assert not bool((other == found).all())
        assert count < 100 or abs(float(torch.corrcoef(torch.stack([found, other]))[0, 1])) < 6.1 / math.sqrt(count)


def test_sums_are_multiples_of_the_grid() -> None:
    model = network().double()
    points, labels = dataset().tensors
    run = training(model, TensorDataset(points.double(), labels), noise_multiplier=2.0)
    run.step(next(run.batches()))
    spacing = 2.0 * 2**-20
    for parameter in model.parameters():
        assert parameter.grad is not None
        multiples = parameter.grad * 8 / spacing
        assert float((multiples - multiples.round()).abs().max()) < 1e-6
        assert float(multiples.abs().max()) > 2**10


def test_noise_and_the_sum_are_what_the_optimizer_sees() -> None:
    model = network()
    run = training(model, noise_multiplier=2.0)
    batch = next(run.batches())
    sums, loss = run._clipping.total(batch)
    total = torch.cat([part.reshape(-1) for part in sums])
    grid = torch.cat([part.reshape(-1) for part in run._clipping.total(batch, scale=0.5 / GRID)[0]])
    margin = margin_for(30, single=True)  # one of four steps may have all 30, if rarely
    right = StepNoise(key=run._key).add(grid, margin=margin, unit=2 * GRID / 8, epoch=0, step=0)
    assert run.step(batch) == loss
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert torch.equal(torch.cat([gradient.reshape(-1) for gradient in found]), right)
    assert float((right * 8 - total).abs().max()) < 2 * 7  # 7 standard deviations; once in 10¹⁰ times more


class Pairs(Dataset[tuple[torch.Tensor, int]]):
    """Examples that are made one by one."""

    def __init__(self) -> None:
        self.points, self.labels = dataset().tensors

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.points[index], int(self.labels[index])


@pytest.mark.slow
def test_all_kinds_of_datasets_train_the_same() -> None:
    kinds = [
        dataset(),
        Pairs(),
        [dataset()[index] for index in range(30)],
        Subset(dataset(), range(30)),
        DataLoader(dataset(), batch_size=8),
        DataLoader(Pairs(), batch_size=8, shuffle=True),
    ]
    weights = []
    for data in kinds:
        model = network()
        run = training(model, data)
        run.fit(epochs=1)
        weights.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))
    assert all(torch.equal(weights[0], other) for other in weights[1:])


def test_collate_makes_the_batches() -> None:
    def collate(items: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        points = torch.stack([point for point, _ in items])
        return points[:, :2], points[:, 2:], torch.tensor([label for _, label in items])

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.cat([left, right], 1))  # type: ignore[no-any-return]

    run = training(Two(), Pairs(), collate=collate).fit()
    assert run.route == "book-keeping"
    assert len(run.history) == 4


def test_only_the_first_examples_are_used() -> None:
    run = training(data=DataLoader(dataset(), batch_size=8, drop_last=True), examples=24)
    assert sorted(index for batch in run.batches() for index in (batch.indices, run.step(batch))[0]) == list(range(24))
    assert run.run.examples == 24
    assert training(data=DataLoader(dataset(32), batch_size=8, drop_last=True)).run.examples == 32


@pytest.mark.slow
def test_fit_counts_epochs_in_all() -> None:
    run = training(epochs=2)
    run.step(next(run.batches()))
    assert run.fit() is run
    assert run.epochs == 2
    assert run.fit(epochs=2).epochs == 2
    assert run.fit(epochs=3).epochs == 3
    entries = run.history
    assert [(entry["epoch"], entry["step"]) for entry in entries] == [(p, s) for p in (1, 2, 3) for s in (1, 2, 3, 4)]
    assert entries[0]["epsilon"] == entries[3]["epsilon"] < entries[4]["epsilon"]
    assert entries[-1]["epsilon"] == run.epsilon
    assert all(entry["loss"] > 0 for entry in entries)
    with pytest.raises(ParameterError, match="every="):
        run.fit(every=3)


def test_the_bar_shows_loss_and_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("shoal.progress._PATIENCE", -1.0)
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    run = training().fit(epochs=2)
    shown = screen.getvalue()
    assert f"training, epoch 2 of 2: ε = {rounded_up(run.epsilon, 3)} (epochs fixed beforehand)" in shown
    assert f", loss {run.history[-1]['loss']:.4f} (not private) [" in shown
    assert "8/8" in shown


def test_training_learns() -> None:
    data = dataset(4000)
    model = network()
    before = nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1])
    training(model, data, batch_size=200, noise_multiplier=4.0, simulation=None).fit(epochs=3)
    after = nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1])
    assert after.item() < 0.6 * before.item()


@pytest.mark.slow
def test_any_optimizer_will_do() -> None:
    for make in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        model = network()
        run = training(model, optimizer=make(model.parameters(), lr=0.1))
        before = [parameter.clone() for parameter in model.parameters()]
        run.fit()
        assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_dropout_differs_between_examples() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.PReLU(), nn.Linear(400, 2))
    assert training(model, TensorDataset(torch.ones(30, 400), torch.ones(30).long())).fit().route == "per-example"


def test_repr() -> None:
    run = training()
    assert repr(run).startswith(
        "Training(examples=30, batch_size=8, noise_multiplier=20, epochs=0, step=0 of 4, epsilon=0"
    )
    assert repr(next(run.batches())).startswith("Batch(epoch=0, step=0, examples=")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
def test_cuda_trains_like_the_processor() -> None:
    data = dataset()
    weights = []
    for device in ("cpu", "cuda"):
        model = network().to(device)
        run = training(model, data, noise_multiplier=1e-6)
        run.step(next(run.batches()))
        weights.append(np.concatenate([parameter.detach().cpu().numpy().ravel() for parameter in model.parameters()]))
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-4)
