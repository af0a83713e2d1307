"""Opacus itself: the guarantee of what its loader drew, noise for a true ε, and the script of docs/opacus.md."""

import math
import re
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from flint import arb, ctx
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant
from opacus.schedulers import ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader

from shoal import sgd
from shoal.errors import ParameterError
from shoal.sgd.opacus import account, noise_multiplier_for
from shoal.sgd.opacus.engine_account import EngineGuarantee, coins_epsilon
from tests.sgd.opacus_tests.engines import dataset, loss_of, made, prepared

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step
_DELTA = 1e-6
_PAGE = Path(__file__).parents[3] / "docs" / "opacus.md"


def _loader(examples: int, size: int, **more: Any) -> Any:
    return DataLoader(dataset(examples), batch_size=size, shuffle=True, **more)


def _below(point: arb) -> arb:
    """Return the probability that a standard normal variable is below the point."""
    return (-point / arb(2).sqrt()).erfc() / 2


def _plain(multiplier: float, epochs: int, sensitivity: int = 1) -> float:
    """Return ε of the Gaussian mechanism, by bisection in balls of 128 bits."""
    with ctx.workprec(128):
        mu, low, high = arb(epochs).sqrt() * sensitivity / arb(multiplier), 0.0, 60.0
        while high - low > 1e-13:
            middle = (low + high) / 2
            delta = _below(mu / 2 - arb(middle) / mu) - arb(middle).exp() * _below(-mu / 2 - arb(middle) / mu)
            low, high = (middle, high) if delta > _DELTA else (low, middle)
    return low


@pytest.mark.slow
def test_the_numbers_of_the_page() -> None:
    """With n = 6,000, b = 64, σ = 0.8, one epoch: torch's own loader, whose last batch has 48 examples."""
    ours = made(_loader(6_000, 64), noise=0.8)
    theirs = made(_loader(6_000, 64), noise=0.8, accountant="prv")
    for each in (ours, theirs):
        result = each.train().account.guarantee(delta=_DELTA)
        assert (result.sampling, result.bound, result.steps, result.epochs) == ("permutation", "plain", 94, 1)
        assert "the last batch of an epoch is short" in result.reason
        assert _plain(0.8, 1) <= result.epsilon <= _plain(0.8, 1) * (1 + 1e-9)
        assert 6.283 < result.lower_bound < result.epsilon < 6.313
        assert round(each.account.opacus_epsilon(delta=_DELTA), 2) == 2.09
    assert ours.engine.get_epsilon(_DELTA) == ours.account.epsilon(delta=_DELTA) > 6.31
    assert round(theirs.engine.get_epsilon(_DELTA), 2) == 2.09  # what Opacus prints
    coins = made(_loader(6_000, 64), noise=0.8, poisson=True).train()
    result = coins.account.guarantee(delta=_DELTA)
    assert (result.sampling, result.bound, result.steps, result.epochs) == ("poisson", "poisson", 94, 0)
    # The accountant "prv" adds 0.01 for its own error.
    assert 2.0767 <= result.epsilon <= coins.account.opacus_epsilon(delta=_DELTA) <= result.epsilon + 0.0102


def _exceeding(level: float, multiplier: float, steps: int) -> tuple[arb, arb]:
    """Return how likely some centred sum exceeds the level where the victim is there, and where it is zeroed."""
    one = 1 / arb(multiplier)
    others = _below(arb(level)) ** (steps - 1)
    return 1 - others * _below(level - 2 * one), 1 - others * _below(level - one)


def test_the_least_that_is_true_by_high_precision() -> None:
    """Section "Why 6.28" of the page, by its formula."""
    limits = []
    with ctx.workprec(128):
        for level in np.linspace(6, 8, 201).tolist():
            there, zeroed = _exceeding(level, 0.8, 94)
            limits.append(float(((there - _DELTA) / zeroed).log()))
    run = sgd.Run(examples=94 * 64, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
    assert max(limits) == pytest.approx(6.28336, abs=1e-5)
    assert sgd.lower_bound(run, delta=_DELTA) >= max(limits) - 1e-5


@pytest.mark.slow
def test_a_short_batch_hides_nothing_by_simulation() -> None:
    """The loader of torch draws the batches; others pull down by 1 each, and the victim up, or not at all."""
    loader: DataLoader[Any] = DataLoader(cast(Any, torch.arange(22)), batch_size=8, shuffle=True)
    sizes, multiplier, level, trials = np.array([8, 8, 6]), 1.0, 1.5, 3_000
    noise, exceeded = np.random.default_rng(5), np.zeros(2)
    places = np.zeros(3)
    for _ in range(trials):
        batches = [batch.numpy() for batch in loader]
        assert [len(batch) for batch in batches] == sizes.tolist()
        sums = -sizes.astype(float)
        place = next(index for index, batch in enumerate(batches) if (batch == 0).any())
        places[place] += 1
        for world, victim in enumerate((1.0, 0.0)):
            seen = sums + multiplier * noise.standard_normal(3)
            seen[place] += victim + 1
            exceeded[world] += (seen + sizes).max() > level
    assert abs(places / trials - sizes / 22).max() < 6 * math.sqrt(0.25 / trials)  # the short one is less likely
    for count, exact in zip(exceeded, _exceeding(level, multiplier, 3), strict=True):
        assert abs(count / trials - float(exact)) < 5 * math.sqrt(float(exact * (1 - exact)) / trials)


@pytest.mark.slow
def test_full_batches_are_a_permutation() -> None:
    result = made(_loader(1_600, 16), noise=4).train().account.guarantee(delta=_DELTA)
    run = sgd.Run(examples=1_600, batch_size=16, noise_multiplier=4, adjacency="zero-out")
    expected = sgd.guarantee(run, delta=_DELTA)
    assert (result.epsilon, result.bound) == (expected.epsilon, expected.bound)
    assert result.bound == "representatives"
    assert result.lower_bound == sgd.lower_bound(run, delta=_DELTA) > 0
    assert "all its batches are full" in result.explain()


@pytest.mark.slow
def test_dropped_examples_leave_a_permutation_of_the_others() -> None:
    trained = made(_loader(1_609, 16, drop_last=True), noise=4).train()
    result = trained.account.guarantee(delta=_DELTA, adjacency="replace")
    run = sgd.Run(examples=1_600, batch_size=16, noise_multiplier=4)
    assert result.epsilon == sgd.guarantee(run, delta=_DELTA).epsilon < sgd.guarantee(run, delta=_DELTA).plain_epsilon
    assert 0 < result.lower_bound < sgd.lower_bound(run, delta=_DELTA)  # an example may not be used at all
    assert (result.examples, result.steps) == (1_609, 100)
    assert "9 dropped" in repr(trained.account)


def test_dropped_examples_by_enumeration() -> None:
    """Batches of 1, and the last of 3 examples is dropped: no more is seen than of a permutation of 2 of them."""
    grid = np.linspace(-8, 9, 241)
    reports = {centre: np.exp(-((grid - centre) ** 2) / 2) for centre in (-1.0, 0.0, 1.0)}

    def divergence(ratio: float, others: tuple[float, ...]) -> float:
        worlds = []
        for victim in (1.0, 0.0):
            orders = list(permutations((victim, *others), 2))
            worlds.append(sum(np.outer(reports[one], reports[two]) for one, two in orders) / len(orders))
        return float(np.maximum(worlds[0] - ratio * worlds[1], 0).sum() * (grid[1] - grid[0]) ** 2 / (2 * math.pi))

    for ratio in (1.0, 1.3, 2.0):
        for others in ((0.0, 0.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 0.0)):
            kept = np.mean([divergence(ratio, (other,)) for other in others])
            assert 0 < divergence(ratio, others) <= 2 / 3 * kept + 1e-12


def test_broken_off_epochs_count() -> None:
    """Four steps, each the first of an epoch: an example may be in all four."""
    trained = made(_loader(64, 16)).train(4, steps=1)
    assert (trained.account.steps, trained.account.epochs) == (4, 4)
    result = trained.account.guarantee(delta=_DELTA)
    assert result.epsilon >= _plain(2, 4) * (1 - 1e-9)
    assert result.epsilon > made(_loader(64, 16)).train().account.epsilon(delta=_DELTA)
    assert result.lower_bound == 0  # an example need not be in any


def test_an_order_that_is_kept_hides_nothing() -> None:
    for adjacency, sensitivity in (("zero-out", 1), ("replace", 2)):
        trained = made(DataLoader(dataset(64), batch_size=16)).train(2)
        result = trained.account.guarantee(delta=_DELTA, adjacency=adjacency)
        assert (result.sampling, result.bound, result.lower_bound) == ("fixed-order", "plain", 0)
        assert result.epsilon == pytest.approx(_plain(2, 2, sensitivity), rel=1e-9)
        assert "is the same in every epoch" in result.reason


def test_ghost_clipping_and_workers() -> None:
    """Opacus's ghost clipping, and a loader whose worker draws ahead and stays."""
    loader = _loader(72, 16, num_workers=1, persistent_workers=True)
    trained = made(loader, grad_sample_mode="ghost").train(2)
    assert (trained.account.steps, trained.account.epochs) == (10, 2)
    assert trained.engine.get_epsilon(_DELTA) == pytest.approx(_plain(2, 2), rel=1e-9)


def test_evaluation_after_the_last_step_is_no_epoch() -> None:
    trained = made(_loader(64, 16)).train(2)
    before = trained.account.epsilon(delta=_DELTA)
    list(trained.loader)
    assert trained.account.epochs == 2
    assert trained.account.epsilon(delta=_DELTA) == before


@pytest.mark.slow
def test_poisson_steps_by_another_accountant() -> None:
    """Two kinds of noise; and the account can be opened again."""
    trained = made(_loader(200, 16), noise=1.0, accountant="prv", poisson=True)
    engine, _, optimizer, loader, first = trained
    schedule = ExponentialNoise(optimizer, gamma=1.5)
    for _ in range(2):
        trained.train()
        schedule.step()
    result = first.guarantee(delta=1e-5)
    assert result.steps == 2 * len(loader)
    assert result.noise_multiplier == 1.0
    theirs = PRVAccountant()
    theirs.history = list(engine.accountant.history)
    assert len(theirs.history) == 2
    exact = theirs.get_epsilon(1e-5, eps_error=1e-3)
    assert exact - 2.5e-3 <= result.epsilon <= exact + 1e-3
    again = account(engine, loader, optimizer)
    assert again.epsilon(delta=1e-5) == result.epsilon
    replaced = again.guarantee(delta=1e-5, adjacency="replace")
    assert result.epsilon < replaced.epsilon


@pytest.mark.slow
def test_physical_batches_are_counted_as_one() -> None:
    for poisson in (False, True):
        trained = made(_loader(64, 16), poisson=poisson)
        with BatchMemoryManager(
            data_loader=trained.loader, max_physical_batch_size=4, optimizer=trained.optimizer
        ) as small:
            trained.train(2, loader=small)
        assert trained.account.steps == 8
        assert trained.account.epochs == (0 if poisson else 2)
        assert trained.account.epsilon(delta=_DELTA) > 0


def test_per_layer_clipping_has_the_noise_of_all_layers() -> None:
    trained = made(_loader(64, 16), clipping="per_layer", max_grad_norm=[0.6, 0.8]).train()
    assert trained.optimizer.max_grad_norm == pytest.approx(1.0)
    assert trained.account.epsilon(delta=_DELTA) == made(_loader(64, 16)).train().account.epsilon(delta=_DELTA)


@pytest.mark.parametrize("accountant", ["shoal", "prv"])
def test_adaptive_clipping_is_refused(accountant: str) -> None:
    settings = {
        "target_unclipped_quantile": 0.5,
        "clipbound_learning_rate": 0.2,
        "max_clipbound": 10,
        "min_clipbound": 0.1,
        "unclipped_num_std": 4,
    }
    with pytest.raises(ParameterError, match="AdaClipDPOptimizer is not known here"):
        made(_loader(64, 16), clipping="adaptive", accountant=accountant, **settings).train()


def test_steps_without_noise_have_no_guarantee() -> None:
    silent = made(_loader(64, 16), noise=0.0).train()
    with pytest.raises(ParameterError, match="without noise nothing is guaranteed"):
        silent.account.guarantee(delta=_DELTA)


def test_an_engine_that_is_not_ready_is_refused() -> None:
    loader = _loader(64, 16)
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = PrivacyEngine(accountant="shoal")
    with pytest.raises(ParameterError, match=r"call engine\.make_private first"):
        account(engine, loader)
    with pytest.raises(ParameterError, match="must be a PrivacyEngine of Opacus, got DataLoader"):
        account(loader, loader)
    trained = made(loader)
    with pytest.raises(ParameterError, match="another dataset"):
        account(trained.engine, _loader(64, 16))
    with pytest.raises(ParameterError, match="another loader already"):
        account(trained.engine, DataLoader(loader.dataset, batch_size=16, shuffle=True))
    assert account(trained.engine, trained.loader) is trained.account
    with pytest.raises(ParameterError, match="no step yet"):
        trained.account.guarantee(delta=_DELTA)
    assert trained.engine.get_epsilon(_DELTA) == trained.account.epsilon(delta=_DELTA) == 0
    with pytest.raises(ParameterError, match="computes the number of steps, the sample rate"):
        trained.train().account.guarantee(delta=_DELTA, adjacency="add-remove")


def test_steps_that_nobody_watched_are_refused() -> None:
    engine, model, optimizer, loader = prepared(_loader(64, 16))
    points, labels = next(iter(loader))
    loss_of(model, points, labels).backward()
    with pytest.raises(ParameterError, match=r"call shoal.sgd.opacus.account\(engine, loader\) after make_private"):
        optimizer.step()
    with pytest.raises(ParameterError, match="To choose the noise for an ε: noise_multiplier_for"):
        engine.get_epsilon(_DELTA)
    for poisson in (False, True):
        engine, model, optimizer, loader = prepared(_loader(64, 16), accountant="rdp", poisson=poisson)
        with pytest.raises(ParameterError, match="does not see who makes a step"):
            account(engine, loader)
        with pytest.raises(ParameterError, match="does not count its steps with this engine"):
            account(engine, loader, prepared(_loader(64, 16), accountant="rdp")[2])
        points, labels = next(iter(loader))
        loss_of(model, points, labels).backward()
        optimizer.step()
        with pytest.raises(ParameterError, match="before the loader was watched"):
            account(engine, loader, optimizer)


def test_a_second_make_private_is_noticed() -> None:
    twice = made(_loader(64, 16))
    again = prepared(twice.loader, engine=twice.engine)
    points, labels = next(iter(again[3]))
    loss_of(again[1], points, labels).backward()
    with pytest.raises(ParameterError, match="make_private was called more than once"):
        again[2].step()


def test_accumulated_gradients_are_refused() -> None:
    trained = made(_loader(64, 16))
    for step, (points, labels) in enumerate(trained.loader):
        loss_of(trained.model, points, labels).backward()
        if step % 2:
            trained.optimizer.step()
            trained.optimizer.zero_grad()
    with pytest.raises(ParameterError, match="gradients were accumulated over batches"):
        trained.account.guarantee(delta=_DELTA)


def test_the_answer_can_be_written_down() -> None:
    result = made(_loader(64, 16)).train().account.guarantee(delta=_DELTA)
    assert isinstance(result, EngineGuarantee)
    fields = result.to_dict()
    assert fields["epsilon"] == result.epsilon
    assert fields["theorem"] == result.theorem
    assert len(fields["assumptions"]) == len(result.assumptions) >= 5
    assert repr(result).startswith("EngineGuarantee(ε=")


@pytest.mark.slow
@pytest.mark.parametrize(("poisson", "adjacency"), [(True, "zero-out"), (True, "replace"), (False, "zero-out")])
def test_the_account_of_a_training_stays_below(poisson: bool, adjacency: str) -> None:
    loader = DataLoader(dataset(200), batch_size=16, shuffle=True)
    noise = noise_multiplier_for(
        loader, epsilon=1.5, delta=1e-5, epochs=2, poisson_sampling=poisson, adjacency=adjacency
    )
    trained = made(loader, noise=noise, poisson=poisson).train(2)
    assert 1.49 < trained.account.epsilon(delta=1e-5, adjacency=adjacency) <= 1.5


@pytest.mark.slow
def test_a_rate_that_opacus_takes_for_another() -> None:
    """With 93 batches the sampler makes 92, by coins of 1/93, and the engine takes their rate for 1/92."""
    trained = made(DataLoader(dataset(930), batch_size=10, shuffle=True), noise=1.0, poisson=True).train()
    assert trained.loader.batch_sampler.sample_rate == 1 / 93
    assert trained.engine.accountant.history == [(1.0, 1 / 92, 92)]
    result = trained.account.guarantee(delta=1e-5)
    assert result.epsilon == pytest.approx(
        coins_epsilon(1 / 93, [(1.0, 92)], delta=1e-5, adjacency="zero-out"), rel=1e-4
    )
    assert result.epsilon < coins_epsilon(1 / 92, [(1.0, 92)], delta=1e-5, adjacency="zero-out")


def test_questions_without_an_answer() -> None:
    loader = DataLoader(dataset(64), batch_size=16, shuffle=True)
    with pytest.raises(ParameterError, match="add-remove"):
        noise_multiplier_for(loader, epsilon=1, delta=1e-5, epochs=1, adjacency="add-remove")
    with pytest.raises(ParameterError, match="epsilon must be"):
        noise_multiplier_for(loader, epsilon=0, delta=1e-5, epochs=1)
    assert coins_epsilon(0.5, [(1e-5, 3)], delta=1e-5, adjacency="zero-out") == torch.inf


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing", "ignore:Secure RNG turned off")
def test_the_script_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (script,), (printed,) = (
        re.findall(rf"```{kind}\n(.*?)```", _PAGE.read_text(), re.DOTALL) for kind in ("python", "text")
    )
    exec(compile(script, str(_PAGE), "exec"), {})
    assert capsys.readouterr().out == printed
