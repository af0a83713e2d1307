"""The accountant that Opacus is given: registered, restored from a checkpoint, and of no use without a loader."""

from pathlib import Path
from typing import Any

import pytest
import torch
from opacus.accountants import create_accountant
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader

from shoal.errors import ParameterError
from shoal.sgd.opacus import StepAccountant, account
from tests.sgd.opacus_tests.engines import Made, dataset, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step
_DELTA = 1e-6


def test_opacus_makes_it_by_its_name() -> None:
    accountant = create_accountant("shoal")
    assert isinstance(accountant, StepAccountant)
    assert (accountant.mechanism(), len(accountant)) == ("shoal", 0)
    with pytest.raises(ParameterError, match="To choose the noise for an ε: noise_multiplier_for"):
        get_noise_multiplier(target_epsilon=1, target_delta=_DELTA, sample_rate=0.1, epochs=1, accountant="shoal")


def test_steps_are_counted_by_their_noise() -> None:
    trained = made(DataLoader(dataset(64), batch_size=16, shuffle=True))
    accountant = trained.engine.accountant
    trained.train()
    trained.optimizer.noise_multiplier = 3.0
    trained.train()
    assert accountant.history == [(2.0, 0.25, 4), (3.0, 0.25, 4)]
    assert len(accountant) == 8
    assert trained.account.guarantee(delta=_DELTA).noise_multiplier == 2.0  # the least counts


def _again(path: Path, loader: Any, **more: Any) -> Made:
    engine, model, optimizer, loader = prepared(loader, **more)
    engine.load_checkpoint(path=path, module=model, optimizer=optimizer)
    return Made(engine, model, optimizer, loader, account(engine, loader))


def test_a_checkpoint_remembers_the_epochs(tmp_path: Path) -> None:
    path, data = tmp_path / "checkpoint.pt", dataset(72)
    trained = made(DataLoader(data, batch_size=16, shuffle=True)).train(2).train(steps=2)
    trained.engine.save_checkpoint(path=path, module=trained.model, optimizer=trained.optimizer)
    resumed = _again(path, DataLoader(data, batch_size=16, shuffle=True))
    assert (resumed.account.steps, resumed.account.epochs) == (12, 3)
    resumed.train()
    assert (resumed.account.steps, resumed.account.epochs) == (17, 4)
    assert resumed.account.epsilon(delta=_DELTA) > trained.account.epsilon(delta=_DELTA)
    for other in (
        {"loader": DataLoader(data, batch_size=16, shuffle=True), "poisson": True},
        {"loader": DataLoader(data, batch_size=16)},
        {"loader": DataLoader(data, batch_size=16, shuffle=True, drop_last=True)},
    ):
        with pytest.raises(ParameterError, match="go on with one that is the same"):
            _again(path, **other)
    with pytest.raises(ParameterError, match="load a checkpoint before account"):
        trained.engine.load_checkpoint(path=path, module=trained.model)


def test_a_checkpoint_that_does_not_say_how_it_was_drawn_is_refused() -> None:
    accountant = StepAccountant()
    with pytest.raises(ParameterError, match="does not say how its steps were drawn"):
        accountant.load_state_dict({"history": [(1.0, 0.5, 3)], "mechanism": "shoal"})
    fresh = StepAccountant()
    fresh.load_state_dict(StepAccountant().state_dict())
    assert len(fresh) == 0


def test_the_same_seed_after_a_checkpoint_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "checkpoint.pt", dataset(64)
    engine, model, optimizer, loader = prepared(DataLoader(data, batch_size=16, shuffle=True))
    trained = Made(engine, model, optimizer, loader, account(engine, loader))
    torch.manual_seed(8)
    trained.train()
    engine.save_checkpoint(path=path, module=model, optimizer=optimizer)
    resumed = _again(path, DataLoader(data, batch_size=16, shuffle=True))
    torch.manual_seed(8)
    with pytest.raises(ParameterError, match="after a checkpoint with another number"):
        resumed.train()
    torch.manual_seed(9)
    assert resumed.train().account.epochs == 2
