"""Batch selection strategies of jax-privacy; it brings JAX along, and so it is tested where it is installed."""

import math
from typing import Any

import pytest

import shoal
from shoal.interop.jax_privacy import StrategyAccountant, strategy_epsilon
from shoal.sgd import Run, guarantee, lower_bound

selection = pytest.importorskip("jax_privacy.batch_selection", reason="jax-privacy is not installed (it needs JAX)")
accounting = pytest.importorskip("jax_privacy.accounting", reason="jax-privacy is not installed (it needs JAX)")

SETTING: dict[str, Any] = {"examples": 10_000, "noise_multiplier": 1.0, "delta": 1e-6}


def _theirs(updates: int, batch: int, **more: Any) -> float:
    accountant = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig())
    params = accounting.DpParams(noise_multipliers=1.0, num_samples=10_000, delta=1e-6, batch_size=batch, **more)
    return float(accountant.compute_epsilon(updates, params))


def test_balls_in_bins_are_a_kept_allocation() -> None:
    """Each example is in one step of every cycle, the same in all: their own draws show it."""
    strategy = selection.BallsInBinsSampling(iterations=200, cycle_length=100)
    batches = [set(batch.tolist()) for batch in strategy.batch_iterator(1000, 1)]
    assert batches[:100] == batches[100:]
    assert sorted(index for batch in batches[:100] for index in batch) == list(range(1000))
    run = Run(examples=10_000, batch_size=100, noise_multiplier=1.0, epochs=2, sampling="kept-allocation")
    epsilon = strategy_epsilon(strategy, **SETTING)
    assert epsilon == pytest.approx(guarantee(run, delta=1e-6).epsilon, rel=1e-9)
    limit = lower_bound(run, delta=1e-6)
    assert epsilon >= limit
    # Told to assume coins, which these are not, their accountant says less than any true ε.
    assert _theirs(200, 100) < limit


def test_poisson_sampling_costs_a_little_more_if_examples_are_replaced() -> None:
    strategy = selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=100)
    epsilon = strategy_epsilon(strategy, **SETTING)
    assert _theirs(100, 100) < epsilon < 2.5 * _theirs(100, 100)


def test_a_cycle_has_fewer_rounds_for_each_example() -> None:
    cyclic = selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=100, cycle_length=10)
    single = selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=10)
    assert strategy_epsilon(cyclic, **SETTING) == strategy_epsilon(single, **SETTING)


def test_truncated_groups_of_unknown_size_are_refused() -> None:
    independent = selection.PartitionType.INDEPENDENT
    strategy = selection.CyclicPoissonSampling(0.1, 10, 150, cycle_length=2, partition_type=independent)
    with pytest.raises(shoal.ParameterError, match="groups of a size that is not known"):
        strategy_epsilon(strategy, **SETTING)


def test_truncated_batches_are_known() -> None:
    strategy = selection.CyclicPoissonSampling(sampling_prob=0.01, iterations=10, truncated_batch_size=150)
    assert 0 < strategy_epsilon(strategy, **SETTING) < math.inf


def test_fixed_batches_have_the_plain_number() -> None:
    strategy = selection.FixedBatchSampling(batch_size=100, iterations=4)
    plain = guarantee(Run(examples=2, noise_multiplier=1.0, epochs=4, sampling="fixed-order"), delta=1e-6).epsilon
    assert strategy_epsilon(strategy, **SETTING) == pytest.approx(plain, rel=1e-9)
    zeroed = strategy_epsilon(strategy, **SETTING, adjacency="zero-out")
    assert zeroed < plain
    with pytest.raises(shoal.ParameterError, match="no theorem"):
        strategy_epsilon(selection.FixedBatchSampling(batch_size=100, iterations=4, replace=True), **SETTING)


def test_what_is_not_known_is_refused() -> None:
    separate = selection.BMinSepSampling(sampling_prob=0.1, iterations=10, min_sep=2)
    with pytest.raises(shoal.ParameterError, match="no theorem"):
        strategy_epsilon(separate, **SETTING)
    with pytest.raises(shoal.ParameterError, match="no batch selection strategy"):
        strategy_epsilon("poisson", **SETTING)


def test_the_accountant_has_their_protocol() -> None:
    strategy = selection.BallsInBinsSampling(iterations=200, cycle_length=100)
    accountant = StrategyAccountant(strategy)
    params = accounting.DpParams(noise_multipliers=1.0, num_samples=10_000, delta=1e-6, batch_size=100)
    assert accountant.compute_epsilon(0, params) == 0
    assert accountant.compute_epsilon(200, params) == strategy_epsilon(strategy, **SETTING)
    assert accountant.compute_epsilon(50, params) == accountant.compute_epsilon(100, params)
    infinite = accounting.DpParams(
        noise_multipliers=1.0, num_samples=10, delta=1e-6, batch_size=1, is_finite_guarantee=False
    )
    assert accountant.compute_epsilon(1, infinite) == math.inf
    users = accounting.DpParams(noise_multipliers=1.0, num_samples=10, delta=1e-6, batch_size=1, examples_per_user=3)
    with pytest.raises(shoal.ParameterError, match="one example a user"):
        accountant.compute_epsilon(1, users)
