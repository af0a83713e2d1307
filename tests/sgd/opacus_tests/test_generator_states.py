"""Opacus itself: generators of batches and of noise that are seeded again, within a training or after a checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from shoal.errors import ParameterError
from shoal.sgd.opacus import account
from tests.sgd.opacus_tests.engines import Made, dataset, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step


def _torch(_: Made) -> None:
    torch.manual_seed(5)


def _loader(trained: Made) -> None:
    trained.loader.batch_sampler.generator.manual_seed(5)


def _noise(trained: Made) -> None:
    trained.optimizer.generator.manual_seed(5)


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
@pytest.mark.parametrize("seed", [_torch, _loader, _noise])
def test_a_seed_before_every_poisson_epoch_is_refused(seed: Callable[[Made], None], accountant: str) -> None:
    data: Any = dataset(64)
    if seed is _loader:
        data = torch.utils.data.DataLoader(data, batch_size=16, generator=torch.Generator())
    noise = torch.Generator() if seed is _noise else None
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
    assert trained.account.steps == 2 * steps + (accountant == "prv" and seed is _noise)


def test_the_same_noise_after_the_order_of_another_generator_is_refused() -> None:
    loader = torch.utils.data.DataLoader(dataset(64), batch_size=16, shuffle=True, generator=torch.Generator())
    trained = made(loader)
    torch.manual_seed(5)
    trained.train()
    torch.manual_seed(5)
    with pytest.raises(ParameterError, match="a generator was seeded again"):
        trained.train()


def test_the_same_seed_after_a_checkpoint_of_poisson_steps_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "checkpoint.pt", dataset(64)
    trained = made(data, poisson=True)
    torch.manual_seed(8)
    trained.train()
    trained.engine.save_checkpoint(path=path, module=trained.model, optimizer=trained.optimizer)
    engine, model, optimizer, loader = prepared(data, poisson=True)
    engine.load_checkpoint(path=path, module=model, optimizer=optimizer)
    resumed = Made(engine, model, optimizer, loader, account(engine, loader))
    torch.manual_seed(8)
    with pytest.raises(ParameterError, match="after a checkpoint with another number"):
        resumed.train()
    torch.manual_seed(9)
    assert resumed.train().account.steps == 8
