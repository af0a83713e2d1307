"""Steps that are kept over epochs: the same batches, and one epoch of less noise."""

import math

import pytest

from shoal import ParameterError, sgd
from shoal.numerics.normal import gaussian_delta
from shoal.sgd.run import Run

KEY = bytes(range(32))


def _run(**fields: object) -> Run:
    settings = {"examples": 60_000, "batch_size": 256, "noise_multiplier": 2.0, "adjacency": "zero-out"} | fields
    return Run(**settings)  # type: ignore[arg-type]


def test_every_epoch_has_the_batches_of_the_first() -> None:
    kept, fresh = (_run(examples=500, batch_size=50, sampling=name) for name in ("kept-allocation", "allocation"))
    first = [batch.tolist() for batch in fresh.batches(key=KEY, epoch=0)]
    for epoch in (0, 1, 7):
        assert [batch.tolist() for batch in kept.batches(key=KEY, epoch=epoch)] == first
    assert [batch.tolist() for batch in fresh.batches(key=KEY, epoch=1)] != first


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_all_epochs_are_one_with_less_noise(adjacency: str) -> None:
    kept = sgd.guarantee(_run(sampling="kept-allocation", epochs=4, adjacency=adjacency), delta=1e-6)
    once = sgd.guarantee(_run(sampling="allocation", noise_multiplier=1.0, adjacency=adjacency), delta=1e-6)
    fresh = sgd.guarantee(_run(sampling="allocation", epochs=4, adjacency=adjacency), delta=1e-6)
    assert kept.bound == "kept-allocation"
    assert kept.epsilon == pytest.approx(once.epsilon, rel=1e-6)
    assert kept.epsilon > 1.1 * fresh.epsilon
    assert 0.99 * kept.epsilon < sgd.lower_bound(kept.run, delta=1e-6) <= kept.epsilon


def test_little_noise_is_evaluated_up_to_an_epsilon_of_600() -> None:
    """Together the epochs have σ = 0.1, where less than the plain bound is proved; or 0.01, where it is not."""
    result = sgd.guarantee(_run(sampling="kept-allocation", epochs=400), delta=1e-6)
    assert result.bound == "kept-allocation"
    assert sgd.lower_bound(result.run, delta=1e-6) <= result.epsilon < 0.99 * result.plain_epsilon
    result = sgd.guarantee(_run(sampling="kept-allocation", epochs=40_000), delta=1e-6)
    assert result.bound == "plain"
    assert gaussian_delta(2 / math.sqrt(40_000), result.epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_there_is_one_step_to_keep() -> None:
    with pytest.raises(ParameterError, match="participations"):
        _run(sampling="kept-allocation", participations=2)
