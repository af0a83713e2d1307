"""Noise for a true ε, by training with it."""

import pytest
import torch
from torch.utils.data import DataLoader

from shoal.errors import ParameterError
from shoal.sgd.opacus import noise_multiplier_for
from shoal.sgd.opacus.engine_account import coins_epsilon
from tests.sgd.opacus_tests.engines import dataset, made

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus, in every step


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
