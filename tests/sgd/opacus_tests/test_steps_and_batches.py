"""Opacus itself: steps whose batches the loader did not draw, or that were not counted, have no guarantee."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from shoal.errors import ParameterError
from shoal.sgd.opacus import account
from tests.sgd.opacus_tests.engines import Made, dataset, loss_of, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step
_DELTA = 1e-6
_ACCOUNTANTS = ("shoal", "prv", "rdp", "gdp")
_EVERY = [(poisson, accountant) for poisson in (False, True) for accountant in _ACCOUNTANTS]


def _loader(data: Any = None, **more: Any) -> Any:
    return DataLoader(dataset(64) if data is None else data, batch_size=16, shuffle=True, **more)


def _step(trained: Made, batch: Any) -> None:
    trained.optimizer.zero_grad()
    loss_of(trained.model, *batch).backward()
    trained.optimizer.step()


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
        _step(trained, next(batches))
    assert _asked(trained) > 0
    batch = next(batches)
    _step(trained, batch)
    with pytest.raises(ParameterError, match=r"step 4, and the loader has drawn 3 batches"):
        _step(trained, batch)
        _asked(trained)


@pytest.mark.parametrize(("poisson", "accountant"), _EVERY)
def test_iterators_opened_before_the_account(poisson: bool, accountant: str) -> None:
    engine, model, optimizer, loader = prepared(_loader(), poisson=poisson, accountant=accountant)
    batches = iter(loader)
    next(batches)
    trained = Made(engine, model, optimizer, loader, account(engine, loader, optimizer))
    with pytest.raises(ParameterError, match="by iterators that are opened after account"):
        _step(trained, next(batches))
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
            _step(trained, batch)


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
def test_a_rate_that_is_changed(accountant: str) -> None:
    trained = made(_loader(), poisson=True, accountant=accountant).train()
    before = _asked(trained)
    trained.loader.batch_sampler.sample_rate = 0.9
    with pytest.raises(ParameterError, match=r"at the rate 0\.25, and now from 64 at 0\.9"):
        trained.train()
    assert _asked(trained) == before
    trained.loader.batch_sampler.sample_rate = 0.25
    assert _asked(trained.train()) > before


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
