"""Allocation: uniform, secret and independent steps; steps that are kept; what holds for them, by brute force.

All statistics are of fixed keys: were these not fixed, each assertion would be a false alarm with probability 1e-6.
"""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from shoal import ParameterError, sgd
from shoal.numerics.normal import gaussian_delta
from shoal.sgd.bounds import plain
from shoal.sgd.gradient_noise import KeyedWords, Words
from shoal.sgd.run import Run
from shoal.sgd.sampler import OVERFULL, SAMPLERS, Indices, Sampler
from shoal.sgd.samplers import Allocation
from tests.exhaustive import representative
from tests.sgd.samplers.draws import joint, sizes, steps_of

KEY = bytes(range(32))
RISK = 1e-6


def allocated(sampler: Sampler, examples: int, steps: int, epoch: int, key: bytes = KEY) -> list[Indices]:
    """Return the batches of an epoch."""
    run = Run(examples=examples, batch_size=max(1, examples // steps), public_steps=steps, sampling="allocation")
    return sampler.batches(run, key=key, epoch=epoch)


class SameStep(Allocation):
    """A planted fault: an example keeps its step for all epochs."""

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the batches of the first epoch, always."""
        return super().batches(run, key=key, epoch=0)


class Cut(Allocation):
    """A planted fault: a permutation, cut into batches, that calls itself an allocation."""

    def batches(self, run: Run, *, key: bytes, epoch: int) -> list[Indices]:
        """Return the batches of a permutation."""
        shuffled = replace(run, sampling="permutation", public_steps=None)
        return SAMPLERS["permutation"].batches(shuffled, key=key, epoch=epoch)


@pytest.mark.slow
@given(
    examples=st.integers(1, 400),
    steps=st.integers(1, 60),
    key=st.binary(min_size=32, max_size=32),
    epoch=st.integers(0, 99),
)
def test_every_example_is_in_one_step(examples: int, steps: int, key: bytes, epoch: int) -> None:
    batches = allocated(Allocation(), examples, steps, epoch, key)
    assert len(batches) == steps
    assert all(batch.dtype == np.int64 and (np.diff(batch) > 0).all() for batch in batches)
    assert sorted(np.concatenate(batches).tolist()) == list(range(examples))


@given(examples=st.integers(1, 300), more=st.integers(1, 100), steps=st.integers(1, 40), epoch=st.integers(0, 9))
def test_nobody_moves_when_others_come_or_go(examples: int, more: int, steps: int, epoch: int) -> None:
    """The step of an example depends on the key, the epoch and its index: an example more moves no other one."""
    few, many = (allocated(Allocation(), count, steps, epoch) for count in (examples, examples + more))
    for one, other in zip(few, many, strict=True):
        assert one.tolist() == other[other < examples].tolist()


def test_the_key_and_the_epoch_decide_it() -> None:
    drawn = [
        steps_of(allocated(Allocation(), 1000, 50, epoch, key), 1000) for key in (KEY, bytes(32)) for epoch in range(3)
    ]
    assert (steps_of(allocated(Allocation(), 1000, 50, 2), 1000) == drawn[2]).all()
    for number, steps in enumerate(drawn):
        # One of 50 is the same at random, 20 of 1000: 60 and more have a probability below 1e-12.
        assert all((steps == other).sum() < 60 for other in drawn[:number])


def test_steps_are_uniform_and_epochs_independent() -> None:
    first, second = (steps_of(allocated(Allocation(), 60_000, 12, epoch), 60_000) for epoch in (4, 5))
    assert joint(first, second, 12) > RISK
    first, second = (steps_of(allocated(SameStep(), 60_000, 12, epoch), 60_000) for epoch in (4, 5))
    assert joint(first, second, 12) < RISK


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1, 2, 7])
def test_two_examples_are_independent(apart: int) -> None:
    """Twelve examples in three steps: a permutation has two together in 3 of 11 cases, and not in a third."""

    def pairs(sampler: Sampler) -> float:
        drawn = np.array([steps_of(allocated(sampler, 12, 3, epoch), 12) for epoch in range(3000)])
        return joint(drawn[:, 0], drawn[:, apart], 3)

    assert pairs(Allocation()) > RISK
    assert pairs(Cut()) < RISK
    # In one epoch, from one example to the next.
    steps = steps_of(allocated(Allocation(), 60_000, 12, 0), 60_000).reshape(-1, apart + 1)
    assert joint(steps[:, 0], steps[:, apart], 12) > RISK


@pytest.mark.slow
def test_sizes_are_binomial() -> None:
    def counts(sampler: Sampler) -> Any:
        return np.array([len(allocated(sampler, 40, 4, epoch)[epoch % 4]) for epoch in range(2000)])

    assert sizes(counts(Allocation()), 40, 1 / 4) > RISK
    assert sizes(counts(Cut()), 40, 1 / 4) < RISK
    drawn = np.array([len(batch) for batch in allocated(Allocation(), 256_000, 1000, 0)])
    assert abs(drawn.mean() - 256) < 1e-9
    assert 0.8 < drawn.var() / 256 < 1.2


@pytest.mark.slow
def test_bounds_of_any_noise() -> None:
    """With too little noise to hide in, the plain bound is left; a search over noise meets all of these."""
    for sampling in ("allocation", "poisson"):
        values = []
        for noise in (1e-3, 0.1, 0.39, 0.41, 1.0, 30.0, 1e6):
            run = Run(examples=1000, batch_size=10, noise_multiplier=noise, adjacency="zero-out", sampling=sampling)
            values.append(run.sampler.epsilon(run, 1e-6))
            assert values[-1] >= 0 and (sampling == "poisson" or values[-1] < float("inf"))
        assert values == sorted(values, reverse=True)
        run = Run(examples=1000, batch_size=10, adjacency="zero-out", sampling=sampling)
        calibrated = sgd.calibrate(run, epsilon=1.0, delta=1e-6)
        assert 0.99 < sgd.guarantee(calibrated, delta=1e-6).epsilon <= 1


def test_a_permutation_cannot_take_its_name() -> None:
    with pytest.raises(ParameterError, match="there is a sampler 'allocation' already"):
        sgd.register(Cut)
    run = Run(examples=1000, batch_size=10, noise_multiplier=1, sampling="allocation")
    assert type(run.sampler) is Allocation
    shuffled = replace(run, sampling="permutation")
    assert "allocation" not in {bound.name for bound in shuffled.sampler.bounds(shuffled, 1e-6)}


def test_words_that_favour_a_step_are_drawn_again() -> None:
    class Fed(KeyedWords):
        def blocks(self, first: Any, second: Any) -> Words:
            asked.append(np.asarray(second).tolist())
            return np.array([[word, 0] for word in fed.pop(0)], np.uint64)

    # 2⁶⁴ is 6 more than a multiple of 10: the six words at the end are not used.
    asked: list[Any] = []
    fed = [[17, 2**64 - 1, 2**64 - 7, 2**64 - 6], [2**64 - 3, 4], [25]]
    assert Fed(KEY).below(10, 0, np.arange(4), tries=100).tolist() == [7, 5, 9, 4]
    assert asked == [[0, 1, 2, 3], [101, 103], [201]]
    fed = [[2**64 - 1, 3]]
    assert Fed(KEY).below(8, 0, np.arange(2), tries=100).tolist() == [7, 3]


@pytest.mark.parametrize(("examples", "steps"), [(50, 5), (1000, 20), (60_000, 235), (64, 1), (10, 1000)])
def test_the_size_that_rounding_is_paid_for(examples: int, steps: int) -> None:
    """It is exceeded in a million epochs with a probability of less than 2⁻⁴⁰·δ; it is not that of the draws."""
    run = Run(examples=examples, batch_size=max(1, examples // steps), public_steps=steps, sampling="allocation")
    for delta in (1e-6, 1e-12):
        most = run.sampler.largest(run, delta)
        assert run.batch_size <= most <= examples
        assert binom(examples, 1 / steps).sf(most) * steps * 1e6 <= OVERFULL * delta
    assert replace(run, sampling="permutation", public_steps=None).sampler.largest(run, 1e-6) == run.batch_size
    secret = replace(run, adjacency="add-remove", batch_size=max(1, examples // steps) + 1)
    assert len({replace(secret, examples=count).sampler.largest(secret, 1e-6) for count in (0, 1, examples)}) == 1


def test_the_number_of_examples_is_in_no_guarantee_where_it_is_a_secret() -> None:
    fields: dict[str, Any] = {"adjacency": "add-remove", "public_steps": 20, "batch_size": 50, "noise_multiplier": 2.0}
    for sampling in ("allocation", "poisson"):
        results = [
            sgd.guarantee(Run(examples=count, sampling=sampling, **fields), delta=1e-6) for count in (0, 7, 1653, 1999)
        ]
        assert len({result.epsilon for result in results}) == 1
        for result in results:
            assert result == results[0]
            assert "1653" not in result.explain() + str(result.to_dict())
            assert "how many there are is a secret, at most 2,000" in result.explain()
    with pytest.raises(ParameterError, match="does not say how many examples there are"):
        Run(sampling="allocation", **fields).batches(key=KEY, epoch=0)


def test_several_participations_are_one_in_each_block() -> None:
    run = Run(examples=3000, batch_size=300, sampling="allocation", participations=3, public_steps=20)
    assert run.blocks == [7, 7, 6]
    batches = run.batches(key=KEY, epoch=0)
    blocks = [batches[:7], batches[7:14], batches[14:]]
    for block in blocks:
        assert sorted(np.concatenate(block).tolist()) == list(range(3000))
    # The steps of two blocks are independent: a chi-square of 49 cells; 115 has a probability below 1e-6.
    first, second = (steps_of(block, 3000) for block in blocks[:2])
    counts = np.bincount(7 * first + second, minlength=49)
    assert float(((counts - 3000 / 49) ** 2).sum() / (3000 / 49)) < 115
    assert Run(examples=3000, batch_size=300, sampling="allocation", participations=3).steps == 30


@pytest.mark.slow
def test_several_participations_compose_like_epochs() -> None:
    fields: dict[str, Any] = {"batch_size": 10, "noise_multiplier": 2.0, "sampling": "allocation"}
    twice = sgd.guarantee(Run(examples=1000, participations=2, **fields), delta=1e-6)
    epochs = sgd.guarantee(Run(examples=1000, epochs=2, **fields), delta=1e-6)
    assert twice.run.steps == 200 and twice.epsilon == epochs.epsilon and twice.plain_epsilon == epochs.plain_epsilon
    uneven = sgd.guarantee(Run(examples=1000, participations=2, public_steps=201, **fields), delta=1e-6)
    assert sgd.lower_bound(uneven.run, delta=1e-6) < uneven.epsilon < twice.epsilon
    every = sgd.guarantee(Run(examples=1000, participations=4, public_steps=4, **fields), delta=1e-6)
    assert every.epsilon == pytest.approx(every.plain_epsilon, rel=1e-3)
    assert "in 2 steps of an epoch" in " ".join(map(str, twice.assumptions))


def test_more_participations_than_steps_are_refused() -> None:
    with pytest.raises(ParameterError, match="at most as many"):
        Run(examples=100, batch_size=10, sampling="allocation", participations=5, public_steps=4)
    with pytest.raises(ParameterError, match="allocation"):
        Run(examples=100, batch_size=10, sampling="poisson", participations=2)
    run = Run(examples=100, batch_size=10, sampling="allocation", participations=2, noise_multiplier=1)
    with pytest.raises(ParameterError, match="one use"):
        sgd.Filter(epsilon=1, delta=1e-6).cost(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "steps", "noise", "epsilon"),
    [
        ("zero-out", 235, 0.39, 8.178), ("zero-out", 235, 0.35, 10.199), ("zero-out", 235, 0.3, 13.672),
        ("replace", 2, 0.35, 24.717), ("replace", 2, 0.3, 30.507), ("replace", 2, 0.2, 54.42),
        ("replace", 3, 0.2, 48.354),
    ],
)  # fmt: skip
def test_little_noise_is_evaluated(adjacency: Any, steps: int, noise: float, epsilon: float) -> None:
    """Known from integration elsewhere. Below σ = 0.4 the plain bound used to be printed: 13.64 for the first row."""
    run = Run(examples=64 * steps, batch_size=64, noise_multiplier=noise, sampling="allocation", adjacency=adjacency)
    result = sgd.guarantee(run, delta=1e-5)
    assert result.bound == "allocation"
    assert epsilon * 0.999 <= result.epsilon <= epsilon
    assert sgd.lower_bound(run, delta=1e-5) <= result.epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "steps"), representative(product(("zero-out", "replace"), (2, 8, 235)), 2))
def test_epsilon_has_no_cliff(adjacency: Any, steps: int) -> None:
    """With every step of 8 % in σ from 0.44 to 0.12, ε grows, and not by much more than the plain bound does."""
    run = Run(examples=64 * steps, batch_size=64, noise_multiplier=0.44, sampling="allocation", adjacency=adjacency)
    epsilon, unhidden = sgd.guarantee(run, delta=1e-5).epsilon, plain(run, 1e-5).epsilon
    while run.multiplier > 0.12:
        run = replace(run, noise_multiplier=run.multiplier * 0.92)
        before, unhidden_before = epsilon, unhidden
        epsilon, unhidden = sgd.guarantee(run, delta=1e-5).epsilon, plain(run, 1e-5).epsilon
        assert 0 < epsilon - before < 1.1 * (unhidden - unhidden_before), run.multiplier


@pytest.mark.parametrize("sampling", ["allocation", "kept-allocation"])
@pytest.mark.parametrize("noise", [0.03, 0.01, 1e-6])
def test_hardly_any_noise_has_the_plain_bound(sampling: str, noise: float) -> None:
    """Above ε = 600 no other bound is evaluated, and nothing overflows."""
    run = Run(examples=640, batch_size=64, noise_multiplier=noise, sampling=sampling)
    result = sgd.guarantee(run, delta=1e-5)
    assert result.bound == "plain"
    assert [other.epsilon for other in result.alternatives] == [float("inf")]
    assert sgd.lower_bound(run, delta=1e-5) <= result.epsilon


def kept_run(**fields: object) -> Run:
    settings = {"examples": 60_000, "batch_size": 256, "noise_multiplier": 2.0, "adjacency": "zero-out"} | fields
    return Run(**settings)  # type: ignore[arg-type]


def test_every_epoch_has_the_batches_of_the_first() -> None:
    kept, fresh = (kept_run(examples=500, batch_size=50, sampling=name) for name in ("kept-allocation", "allocation"))
    first = [batch.tolist() for batch in fresh.batches(key=KEY, epoch=0)]
    for epoch in (0, 1, 7):
        assert [batch.tolist() for batch in kept.batches(key=KEY, epoch=epoch)] == first
    assert [batch.tolist() for batch in fresh.batches(key=KEY, epoch=1)] != first


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
def test_all_epochs_are_one_with_less_noise(adjacency: str) -> None:
    kept = sgd.guarantee(kept_run(sampling="kept-allocation", epochs=4, adjacency=adjacency), delta=1e-6)
    once = sgd.guarantee(kept_run(sampling="allocation", noise_multiplier=1.0, adjacency=adjacency), delta=1e-6)
    fresh = sgd.guarantee(kept_run(sampling="allocation", epochs=4, adjacency=adjacency), delta=1e-6)
    assert kept.bound == "kept-allocation"
    assert kept.epsilon == pytest.approx(once.epsilon, rel=1e-6)
    assert kept.epsilon > 1.1 * fresh.epsilon
    assert 0.99 * kept.epsilon < sgd.lower_bound(kept.run, delta=1e-6) <= kept.epsilon


def test_little_noise_is_evaluated_up_to_an_epsilon_of_600() -> None:
    """Together the epochs have σ = 0.1, where less than the plain bound is proved; or 0.01, where it is not."""
    result = sgd.guarantee(kept_run(sampling="kept-allocation", epochs=400), delta=1e-6)
    assert result.bound == "kept-allocation"
    assert sgd.lower_bound(result.run, delta=1e-6) <= result.epsilon < 0.99 * result.plain_epsilon
    result = sgd.guarantee(kept_run(sampling="kept-allocation", epochs=40_000), delta=1e-6)
    assert result.bound == "plain"
    assert gaussian_delta(2 / math.sqrt(40_000), result.epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_there_is_one_step_to_keep() -> None:
    with pytest.raises(ParameterError, match="participations"):
        kept_run(sampling="kept-allocation", participations=2)
