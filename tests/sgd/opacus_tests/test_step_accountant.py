"""Opacus itself: the accountant, its checkpoints, and checks of every step.

Steps whose batches the loader did not draw, or that were not counted, have no guarantee. Every class of optimizer is
known or refused, and so are norms that change, and gradients of frozen parameters.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import opacus.optimizers
import pytest
import torch
from opacus.accountants import create_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader

from shoal.errors import ParameterError
from shoal.sgd.opacus import StepAccountant, account
from shoal.sgd.opacus.step_accountant import check_optimizer
from tests.sgd.opacus_tests.engines import Made, dataset, loss_of, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step
_DELTA = 1e-6
_ACCOUNTANTS = ("shoal", "prv", "rdp", "gdp")
_EVERY = [(poisson, accountant) for poisson in (False, True) for accountant in _ACCOUNTANTS]
_FLAT: dict[str, Any] = {}
_PER_LAYER: dict[str, Any] = {"clipping": "per_layer", "max_grad_norm": [0.6, 0.8]}
_GHOST: dict[str, Any] = {"grad_sample_mode": "ghost"}
OPTIMIZERS: dict[str, dict[str, Any] | None] = {
    "DPOptimizer": _FLAT,
    "DPPerLayerOptimizer": _PER_LAYER,
    "DPOptimizerFastGradientClipping": _GHOST,
    "AdaClipDPOptimizer": None,
    "DistributedDPOptimizer": None,
    "DistributedDPOptimizerFastGradientClipping": None,
    "DistributedPerLayerOptimizer": None,
    "FSDPOptimizerFastGradientClipping": None,
    "SimpleDistributedPerLayerOptimizer": None,
}
"""Arguments of `make_private` for each optimizer class of Opacus; None for a class that is refused."""


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


def _loader(data: Any = None, **more: Any) -> Any:
    return DataLoader(dataset(64) if data is None else data, batch_size=16, shuffle=True, **more)


def _asked(trained: Made) -> float:
    """Return ε by every way to ask for it, or be refused by the first."""
    result = trained.account.guarantee(delta=_DELTA).epsilon
    trained.account.epsilon(delta=_DELTA)
    return result


@pytest.mark.parametrize(("poisson", "accountant"), _EVERY)
def test_batches_of_another_loader(poisson: bool, accountant: str) -> None:
    """With Poisson sampling that is the loader that make_private was given, and not the one that it returned."""
    given = _loader()
    trained = made(given, poisson=poisson, accountant=accountant)
    other = given if poisson else _loader(given.dataset)
    assert other is not trained.loader
    with pytest.raises(ParameterError, match=r"this is step \d, and the loader has drawn 0 batches"):
        _asked(trained.train(loader=other))
    if accountant == "shoal":  # refused before the model was changed
        assert trained.account.steps == 0


@pytest.mark.parametrize(("poisson", "accountant"), _EVERY)
def test_a_batch_that_is_used_twice(poisson: bool, accountant: str) -> None:
    trained = made(_loader(), poisson=poisson, accountant=accountant)
    batches = iter(trained.loader)
    for _ in range(2):
        trained.step(*next(batches))
    assert _asked(trained) > 0
    batch = next(batches)
    trained.step(*batch)
    with pytest.raises(ParameterError, match=r"step 4, and the loader has drawn 3 batches"):
        trained.step(*batch)
        _asked(trained)


@pytest.mark.parametrize(("poisson", "accountant"), _EVERY)
def test_iterators_opened_before_the_account(poisson: bool, accountant: str) -> None:
    engine, model, optimizer, loader = prepared(_loader(), poisson=poisson, accountant=accountant)
    batches = iter(loader)
    next(batches)
    trained = Made(engine, model, optimizer, loader, account(engine, loader, optimizer))
    with pytest.raises(ParameterError, match="by iterators that are opened after account"):
        trained.step(*next(batches))
        _asked(trained)
    if accountant == "shoal":
        assert trained.train().account.steps == 4
        assert _asked(trained) > 0


def test_batches_before_the_account_do_not_count() -> None:
    for poisson in (False, True):
        engine, model, optimizer, loader = prepared(_loader(), poisson=poisson)
        account(prepared(loader)[0], loader)  # of another engine: the loader is watched from here on
        (batch, *_) = list(loader)
        trained = Made(engine, model, optimizer, loader, account(engine, loader))
        with pytest.raises(ParameterError, match="step 1, and the loader has drawn 0 batches"):
            trained.step(*batch)


def test_a_checkpoint_counts_from_there(tmp_path: Path) -> None:
    path, data = tmp_path / "checkpoint.pt", dataset(64)
    for poisson in (False, True):
        trained = made(_loader(data), poisson=poisson).train()
        trained.engine.save_checkpoint(path=path, module=trained.model, optimizer=trained.optimizer)
        engine, model, optimizer, loader = prepared(_loader(data), poisson=poisson)
        engine.load_checkpoint(path=path, module=model, optimizer=optimizer)
        resumed = Made(engine, model, optimizer, loader, account(engine, loader))
        assert _asked(resumed) == _asked(trained)
        assert _asked(resumed.train()) > _asked(trained)
        assert resumed.account.steps == 8
        with pytest.raises(ParameterError, match="step 5, and the loader has drawn 4 batches"):
            resumed.train(loader=_loader(data))


@pytest.mark.parametrize(("poisson", "accountant"), _EVERY)
def test_another_hook(poisson: bool, accountant: str) -> None:
    trained = made(_loader(), poisson=poisson, accountant=accountant).train()
    counted = trained.optimizer.step_hook
    before = _asked(trained)
    for other in (None, lambda _: None):
        trained.optimizer.attach_step_hook(other)
        trained.train()
        for ask in (trained.account.guarantee, trained.account.epsilon):
            with pytest.raises(ParameterError, match="the step hook of the optimizer is another"):
                ask(delta=_DELTA)
    if accountant == "shoal":
        with pytest.raises(ParameterError, match="the step hook of the optimizer is another"):
            trained.engine.get_epsilon(_DELTA)
    trained.optimizer.attach_step_hook(counted)
    assert _asked(trained) >= before  # what was made in between cannot be seen, so that it is assumed not to be
    assert "every step called the hook" in trained.account.guarantee(delta=_DELTA).explain()


def test_another_hook_before_the_first_step() -> None:
    """With the accountant "shoal" that is seen where account was given the optimizer."""
    engine, _, optimizer, loader = prepared(_loader())
    with pytest.raises(ParameterError, match="does not count its steps with this engine"):
        account(engine, loader, prepared(_loader())[2])
    made_account = account(engine, loader, optimizer)
    assert made_account.epsilon(delta=_DELTA) == 0
    optimizer.attach_step_hook(lambda _: None)
    with pytest.raises(ParameterError, match="the step hook of the optimizer is another"):
        made_account.epsilon(delta=_DELTA)


def test_workers_that_draw_ahead() -> None:
    for poisson in (False, True):
        trained = made(_loader(num_workers=1, persistent_workers=True), poisson=poisson).train(2)
        assert trained.account.steps == 8
        assert _asked(trained) > 0


def _classes() -> dict[str, type[Any]]:
    """Return every optimizer class of Opacus, exported or not."""
    package = opacus.optimizers
    names = [package.__name__, *(f"{package.__name__}.{each.name}" for each in pkgutil.iter_modules(package.__path__))]
    found = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {each.__name__: each for each in found if isinstance(each, type) and issubclass(each, DPOptimizer)}


def test_every_optimizer_of_opacus_is_in_the_table() -> None:
    """A class that is new in Opacus is refused until somebody has read it, and put into the table."""
    assert sorted(_classes()) == sorted(OPTIMIZERS)


@pytest.mark.parametrize("name", [name for name, made_by in OPTIMIZERS.items() if made_by is None])
def test_an_optimizer_that_adds_noise_in_other_ways_is_refused(name: str) -> None:
    optimizer = object.__new__(_classes()[name])  # without the processes that most of them need
    with pytest.raises(ParameterError, match=f"{name} is not known here"):
        check_optimizer(optimizer)


def test_an_optimizer_of_ones_own_is_refused() -> None:
    class Own(DPOptimizer):  # type: ignore[misc]
        """With noise that nobody knows."""

    with pytest.raises(ParameterError, match="Own is not known here"):
        check_optimizer(object.__new__(Own))


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
@pytest.mark.parametrize("name", [name for name, made_by in OPTIMIZERS.items() if made_by is not None])
def test_a_clip_norm_that_only_the_noise_follows_is_refused(name: str, accountant: str) -> None:
    trained = made(dataset(64), accountant=accountant, **(OPTIMIZERS[name] or {}))
    assert type(trained.optimizer).__name__ == name
    schedule = ExponentialGradClip(trained.optimizer, gamma=0.1)
    trained.train()
    epsilon = trained.account.epsilon(delta=_DELTA)
    schedule.step()
    before = [parameter.detach().clone() for parameter in trained.optimizer.params]
    if name == "DPOptimizer":  # which clips to the norm that its noise is for
        assert trained.train().account.epsilon(delta=_DELTA) > epsilon
        return
    with pytest.raises(ParameterError, match=r"for a max_grad_norm of 0\.1, and gradients were clipped to 1:"):
        trained.train()
    assert all(map(torch.equal, before, trained.optimizer.params))


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
def test_a_ghost_norm_that_was_changed_before_the_first_step_is_refused(accountant: str) -> None:
    trained = made(dataset(64), accountant=accountant, **_GHOST)
    trained.optimizer.max_grad_norm = 0.1
    with pytest.raises(ParameterError, match=r"clipped to 1:"):
        trained.train()
    trained.model.max_grad_norm = 0.1  # after gradients may have been clipped to 1
    with pytest.raises(ParameterError, match=r"clipped to 0\.1, 1:"):
        trained.train()


def test_ghost_clipping_needs_the_module_that_clips() -> None:
    engine, model, optimizer, loader = prepared(dataset(64), **_GHOST)
    tied = account(engine, loader)
    with pytest.raises(ParameterError, match=r"account\(engine, loader, module=module\)"):
        Made(engine, model, optimizer, loader, tied).train()
    assert account(engine, loader, module=model) is tied
    assert Made(engine, model, optimizer, loader, tied).train().account.steps == 4
    for other, message in ((prepared(dataset(64), **_GHOST)[1], "does not clip"), (model._module, "got Linear")):
        engine, _, optimizer, loader = prepared(dataset(64), accountant="prv", **_GHOST)
        with pytest.raises(ParameterError, match=message):
            account(engine, loader, optimizer, other)


def test_a_norm_that_changes_within_a_batch_is_refused() -> None:
    trained = made(dataset(64))
    schedule = ExponentialGradClip(trained.optimizer, gamma=0.5)
    trained.train()
    with BatchMemoryManager(
        data_loader=trained.loader, max_physical_batch_size=8, optimizer=trained.optimizer
    ) as small:
        trained.train(loader=small)  # of two parts each, with the same norm
        with pytest.raises(ParameterError, match=r"of 0\.5, and gradients were clipped to 0\.5, 1:"):
            for points, labels in small:
                trained.step(points, labels)
                schedule.step()


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
def test_a_gradient_of_a_frozen_parameter_is_refused(accountant: str) -> None:
    engine, model, optimizer, loader = prepared(dataset(64), accountant=accountant)
    tied = account(engine, loader, optimizer)
    model._module.bias.requires_grad_(False)
    model._module.bias.grad = torch.ones(2)
    before = model._module.bias.detach().clone()
    trained = Made(engine, model, optimizer, loader, tied)
    points, labels = next(iter(loader))
    loss_of(model, points, labels).backward()
    with pytest.raises(ParameterError, match="a frozen parameter has a gradient"):
        optimizer.step()
    assert torch.equal(model._module.bias, before)
    assert trained.train().account.steps > 0  # with zero_grad
