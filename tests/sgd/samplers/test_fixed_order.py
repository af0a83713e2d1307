"""A fixed order: what it draws, and what training by it guarantees."""

import numpy as np
import pytest

from shoal import Simulation, sgd


@pytest.mark.parametrize(("examples", "size"), [(10, 1), (10, 4), (12, 4), (7, 7)])
def test_it_is_the_order_of_the_data(examples: int, size: int) -> None:
    run = sgd.Run(examples=examples, batch_size=size, sampling="fixed-order")
    for epoch in range(2):
        batches = run.sampler.batches(run, key=bytes(32), epoch=epoch)
        assert len(batches) == run.steps
        assert np.concatenate(batches).tolist() == list(range(examples))
        assert all(len(batch) == size for batch in batches[:-1])


@pytest.mark.parametrize("kind", [sgd.PrivateLogisticRegression, sgd.LocalLogisticRegression])
def test_training_by_it_has_the_plain_guarantee(
    kind: type[sgd.PrivateLogisticRegression | sgd.LocalLogisticRegression],
) -> None:
    rows = np.random.default_rng(1).normal(size=(3000, 3))
    fixed, shuffled = (
        kind(noise_multiplier=3, batch_size=50, sampling=sampling, simulation=Simulation(seed=1)).fit(
            rows, rows[:, 0] > 0
        )
        for sampling in ("fixed-order", "permutation")
    )
    assert fixed.guarantee_.bound == "plain"
    assert fixed.guarantee_.epsilon == shuffled.guarantee_.plain_epsilon
    assert fixed.guarantee_.run.sampling == "fixed-order"
    assert not any("permutation" in str(line) for line in fixed.guarantee_.assumptions)
    assert fixed.score(rows, rows[:, 0] > 0) > 0.8
