"""Opacus itself: every class of optimizer, norms that change, gradients of frozen parameters."""

import importlib
import pkgutil
from typing import Any

import opacus.optimizers
import pytest
import torch
from opacus.optimizers import DPOptimizer
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager

from shoal.errors import ParameterError
from shoal.sgd.opacus import account
from shoal.sgd.opacus.step_accountant import check_optimizer
from tests.sgd.opacus_tests.engines import Made, dataset, loss_of, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step
_DELTA = 1e-6
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
