"""Opacus itself: what its loaders draw, and generators that are seeded again, in a training or after a checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opacus.data_loader import DPDataLoader
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from shoal.errors import ParameterError
from shoal.sgd.opacus import account
from shoal.sgd.opacus.loader_draws import LoaderDraws, WatchedBatches, coin_probability
from tests.sgd.opacus_tests.engines import Made, dataset, made, prepared

_DATA = dataset(50)
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (DataLoader(_DATA, batch_size=10, shuffle=True), ("permutation", 50, 10, 5, 0, False)),
        (DataLoader(_DATA, batch_size=16, shuffle=True), ("permutation", 50, 16, 4, 2, False)),
        (DataLoader(_DATA, batch_size=16, shuffle=True, drop_last=True), ("permutation", 50, 16, 3, 2, True)),
        (DataLoader(_DATA, batch_size=16), ("fixed-order", 50, 16, 4, 2, False)),
    ],
)
def test_orders_are_read(loader: Any, expected: tuple[Any, ...]) -> None:
    draws = LoaderDraws.of(loader)
    found = (draws.sampling, draws.examples, draws.batch_size, draws.steps, draws.left_over, draws.drop_last)
    assert found == expected
    assert draws.order is not None
    assert draws.order.epochs == 0
    sizes = [len(labels) for _, labels in loader]
    assert len(sizes) == draws.steps
    assert draws.order.epochs == 1
    assert LoaderDraws.of(loader).order is draws.order  # watched once, and read again


def test_a_watched_loader_draws_what_it_drew_before() -> None:
    numbers: Any = torch.arange(50)
    plain: Any
    watched: Any
    plain, watched = (
        DataLoader(numbers, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    draws = LoaderDraws.of(watched)
    for _ in range(3):
        assert [batch.tolist() for batch in plain] == [batch.tolist() for batch in watched]
    assert draws.order is not None
    assert (draws.order.epochs, len(draws.order.seen)) == (3, 3)


def test_a_random_order_that_comes_again_is_refused() -> None:
    for examples, again in ((50, True), (3, False)):
        loader = DataLoader(dataset(examples), batch_size=16, shuffle=True)
        draws = LoaderDraws.of(loader)
        torch.manual_seed(5)
        list(loader)
        torch.manual_seed(5)
        if again:
            with pytest.raises(
                ParameterError, match="a generator was seeded again, and then the noise may be the same"
            ):
                list(loader)
        else:  # orders of so few are often the same
            list(loader)
        assert draws.order is not None
        assert draws.order.epochs == (1 if again else 2)


def test_poisson_sampling_is_read() -> None:
    draws = LoaderDraws.of(DPDataLoader.from_data_loader(DataLoader(_DATA, batch_size=16)))
    assert (draws.sampling, draws.examples, draws.steps, draws.order) == ("poisson", 50, 4, None)
    assert draws.rate == 0.25


def test_watched_coins_fall_as_they_did_before() -> None:
    numbers = TensorDataset(torch.arange(50))
    plain, watched = (
        DPDataLoader(numbers, sample_rate=0.25, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    draws = LoaderDraws.of(watched)
    for epochs in range(1, 4):
        assert [batch.tolist() for (batch,) in plain] == [batch.tolist() for (batch,) in watched]
        assert draws.watched.batches == 4 * epochs
    assert LoaderDraws.of(watched).watched is draws.watched  # watched once, and read again
    assert len(watched) == 4


def test_batches_are_counted_as_they_are_drawn() -> None:
    for loader in (
        DataLoader(_DATA, batch_size=16, shuffle=True, drop_last=True),
        DPDataLoader(_DATA, sample_rate=0.3),
    ):
        early = iter(loader)
        next(early)
        watched = LoaderDraws.of(loader).watched
        next(early)
        assert watched.batches == 0
        batches = iter(loader)
        for drawn in range(1, 4):
            next(batches)
            assert watched.batches == drawn
        assert next(batches, None) is None
        assert watched.batches == 3


def test_samplers_that_are_changed_are_refused_at_the_next_batch() -> None:
    changes: list[tuple[Any, dict[str, Any], str]] = [
        (DataLoader(_DATA, batch_size=16, shuffle=True), {"batch_size": 50}, "had batch_size=16, drop_last=False"),
        (DataLoader(_DATA, batch_size=16, shuffle=True), {"drop_last": True}, "has 16, True, or another sampler"),
        (DataLoader(_DATA, batch_size=16, shuffle=True), {"sampler": range(50)}, "or another sampler"),
        (DPDataLoader(_DATA, sample_rate=0.25), {"sample_rate": 0.9}, r"and now from 50 at 0\.9"),
        (DPDataLoader(_DATA, sample_rate=0.25), {"num_samples": 40}, r"and now from 40 at 0\.25"),
    ]
    for loader, change, message in changes:
        watched = LoaderDraws.of(loader).watched
        batches = iter(loader)
        next(batches)
        for name, value in change.items():
            setattr(loader.batch_sampler, name, value)
        for each in (batches, iter(loader)):
            with pytest.raises(ParameterError, match=message):
                next(each)
        assert watched.batches == 1


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(50))


class _OwnLoader(DataLoader[Any]):
    pass


class _OwnBatches(BatchSampler):
    pass


class _Liar(RandomSampler):
    """A sampler that says it draws without replacement."""

    def __iter__(self) -> Any:
        return iter([0] * 50)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (_DATA, "must be the DataLoader that make_private returned, got TensorDataset"),
        (_OwnLoader(_DATA), "_OwnLoader is a loader of your own"),
        (DataLoader(_Stream(), batch_size=4), "it reads a stream"),
        (DataLoader(_DATA, batch_size=None), "no batch sampler"),
        (DataLoader(_DATA, sampler=RandomSampler(_DATA, replacement=True)), "RandomSampler, with replacement"),
        (DataLoader(_DATA, sampler=RandomSampler(_DATA, num_samples=20)), "RandomSampler, with replacement"),
        (DataLoader(_DATA, sampler=SubsetRandomSampler(range(20))), "SubsetRandomSampler"),
        (DataLoader(_DATA, sampler=WeightedRandomSampler([1.0] * 50, 50)), "WeightedRandomSampler"),
        (
            DataLoader(_DATA, batch_sampler=_OwnBatches(range(50), 5, False)),
            "_OwnBatches is a batch sampler of your own",
        ),
        (DataLoader(Subset(_DATA, [0, 1, 0])), "are the same example"),
        (DPDataLoader(_DATA, sample_rate=0.25, rand_on_empty=True), "rand_on_empty=True"),
    ],
)
def test_loaders_that_are_not_known_are_refused(loader: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        LoaderDraws.of(loader)


def test_an_epoch_that_is_no_permutation_is_refused_as_it_begins() -> None:
    watched = WatchedBatches(BatchSampler(_Liar(_DATA), 5, False), 50)
    with pytest.raises(ParameterError, match="_Liar, drew 50 indices that are not the 50 examples, each once"):
        next(iter(watched))
    assert watched.epochs == 0


def test_coarse_coins_are_refused() -> None:
    loader = DPDataLoader(_DATA, sample_rate=0.25)
    torch.set_default_dtype(torch.float16)
    try:
        with pytest.raises(ParameterError, match="Opacus's coins are too coarse"):
            LoaderDraws.of(loader)
        torch.set_default_dtype(torch.float32)
        LoaderDraws.of(loader)
        torch.set_default_dtype(torch.float16)
        with pytest.raises(ParameterError, match="Opacus's coins are too coarse"):
            next(iter(loader))
    finally:
        torch.set_default_dtype(torch.float32)


def test_several_processes_are_refused(tmp_path: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/together", rank=0, world_size=1)
    try:
        with pytest.raises(ParameterError, match=r"torch\.distributed is running"):
            LoaderDraws.of(DataLoader(_DATA, shuffle=True))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_coins_are_as_likely_as_torch_makes_them() -> None:
    """All numbers that torch.rand can give, compared with a rate as Opacus does."""
    uniform = torch.rand(100_000)
    assert torch.equal(uniform * 2**24, (uniform * 2**24).round())
    every = torch.arange(2**24, dtype=torch.float32) / 2**24
    for rate in (0.25, 0.1, 1 / 94, 1 / 938, 0.7, 1e-5, np.nextafter(1, 0)):
        likely = int((every < rate).sum()) / 2**24
        assert likely <= coin_probability(rate) <= likely + 2**-24
    assert int((every < 1 / 94).sum()) / 2**24 > 1 / 94  # more than the rate says
    with pytest.raises(ParameterError, match="sample rate"):
        coin_probability(0.0)


def _seed_torch(_: Made) -> None:
    torch.manual_seed(5)


def _seed_loader(trained: Made) -> None:
    trained.loader.batch_sampler.generator.manual_seed(5)


def _seed_noise(trained: Made) -> None:
    trained.optimizer.generator.manual_seed(5)


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
@pytest.mark.parametrize("seed", [_seed_torch, _seed_loader, _seed_noise])
def test_a_seed_before_every_poisson_epoch_is_refused(seed: Callable[[Made], None], accountant: str) -> None:
    data: Any = dataset(64)
    if seed is _seed_loader:
        data = torch.utils.data.DataLoader(data, batch_size=16, generator=torch.Generator())
    noise = torch.Generator() if seed is _seed_noise else None
    trained = made(data, poisson=True, accountant=accountant, noise_generator=noise)
    seed(trained)
    trained.train()
    steps = trained.account.steps
    trained.train()
    seed(trained)
    before = [parameter.detach().clone() for parameter in trained.optimizer.params]
    with pytest.raises(ParameterError, match="a generator was seeded again"):
        trained.train()
    assert all(map(torch.equal, before, trained.optimizer.params))
    assert trained.account.steps == 2 * steps + (accountant == "prv" and seed is _seed_noise)


def test_the_same_noise_after_the_order_of_another_generator_is_refused() -> None:
    loader = torch.utils.data.DataLoader(dataset(64), batch_size=16, shuffle=True, generator=torch.Generator())
    trained = made(loader)
    torch.manual_seed(5)
    trained.train()
    torch.manual_seed(5)
    with pytest.raises(ParameterError, match="a generator was seeded again"):
        trained.train()


@pytest.mark.parametrize("poisson", [False, True])
def test_the_same_seed_after_a_checkpoint_is_refused(tmp_path: Path, poisson: bool) -> None:
    path, data = tmp_path / "checkpoint.pt", DataLoader(dataset(64), batch_size=16, shuffle=True)
    trained = made(data, poisson=poisson)
    torch.manual_seed(8)
    trained.train()
    trained.engine.save_checkpoint(path=path, module=trained.model, optimizer=trained.optimizer)
    engine, model, optimizer, loader = prepared(data, poisson=poisson)
    engine.load_checkpoint(path=path, module=model, optimizer=optimizer)
    resumed = Made(engine, model, optimizer, loader, account(engine, loader))
    torch.manual_seed(8)
    with pytest.raises(ParameterError, match="after a checkpoint with another number"):
        resumed.train()
    torch.manual_seed(9)
    assert resumed.train().account.steps == 8
