"""Poisson sampling: a coin for every example and every step, all of them independent and of one exact probability.

All statistics are of fixed keys: were these not fixed, each assertion would be a false alarm with probability 1e-6.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from shoal import ParameterError, sgd
from shoal.sgd.gradient_noise import KeyedWords
from shoal.sgd.run import Run
from shoal.sgd.sampler import OVERFULL
from shoal.sgd.samplers import _tossed
from tests.sgd.samplers.draws import Counts, sizes, surprise

KEY = bytes(range(32))
RISK = 1e-6


def coins(examples: int, steps: int, rate: Fraction) -> Counts:
    """Return a table of zeros and ones: steps, and examples."""
    table = np.zeros((steps, examples), np.int64)
    for step, batch in enumerate(_tossed(KeyedWords(KEY), np.arange(steps, dtype=np.uint64), examples, rate)):
        assert (np.diff(batch) > 0).all()
        table[step, batch] = 1
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    "rate", [Fraction(1), Fraction(2, 3), Fraction(1, 2), Fraction(3, 7), Fraction(1, 8), Fraction(64, 6001)]
)
def test_all_coins_have_the_probability_and_are_independent(rate: Fraction) -> None:
    table, probability = coins(200, 3000, rate), float(rate)
    if rate == 1:
        assert table.all()
        return
    assert sizes(table.sum(axis=1), 200, probability) > RISK  # of a step, over its examples
    scores = (table.sum(axis=0) - 3000 * probability) / math.sqrt(3000 * probability * (1 - probability))
    assert RISK < chi2(200).cdf((scores**2).sum()) < 1 - RISK  # of each example, over all steps
    for example in (0, 63, 64, 191, 199):
        assert sizes(table[:, example].reshape(-1, 20).sum(axis=1), 20, probability) > RISK
    expected = np.array(
        [(1 - probability) ** 2, probability * (1 - probability), probability * (1 - probability), probability**2]
    )
    for later, further in ((1, 0), (0, 1), (0, 63), (0, 64), (1, 1), (7, 13)):
        # Pairs of coins that have none in common.
        steps, examples = np.arange(3000 - later), np.arange(200 - further)
        steps = steps[steps // later % 2 == 0] if later else steps
        examples = examples if later else examples[examples // further % 2 == 0]
        one, other = table[np.ix_(steps, examples)], table[np.ix_(steps + later, examples + further)]
        counts = np.bincount((2 * one + other).ravel(), minlength=4)
        assert surprise(counts, expected * counts.sum()) > RISK


@pytest.mark.slow
@given(
    examples=st.integers(1, 300),
    share=st.floats(0, 1),
    key=st.binary(min_size=32, max_size=32),
    epoch=st.integers(0, 99),
)
def test_batches(examples: int, share: float, key: bytes, epoch: int) -> None:
    run = Run(examples=examples, batch_size=1 + round(share * (examples - 1)), sampling="poisson")
    batches = run.batches(key=key, epoch=epoch)
    assert len(batches) == run.steps
    assert all(batch.dtype == np.int64 for batch in batches)
    again = run.batches(key=key, epoch=epoch)
    assert all((one == other).all() for one, other in zip(batches, again, strict=True))
    if run.batch_size == examples:
        assert [len(batch) for batch in batches] == [examples]


@pytest.mark.slow
@given(examples=st.integers(1, 300), more=st.integers(1, 100), steps=st.integers(2, 40))
def test_nobody_moves_when_others_come_or_go(examples: int, more: int, steps: int) -> None:
    """A coin depends on the key, the epoch, the step and the index: an example more changes no other coin."""
    few, many = (
        Run(examples=count, batch_size=400, public_steps=steps, sampling="poisson", adjacency="add-remove").batches(
            key=KEY, epoch=3
        )
        for count in (examples, examples + more)
    )
    for one, other in zip(few, many, strict=True):
        assert one.tolist() == other[other < examples].tolist()


def test_it_does_not_depend_on_how_many_steps_are_tossed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(examples=1000, batch_size=7, sampling="poisson")
    whole = run.batches(key=KEY, epoch=1)
    monkeypatch.setattr("shoal.sgd.samplers._AT_ONCE", 40)
    parts = run.batches(key=KEY, epoch=1)
    assert all((one == other).all() for one, other in zip(whole, parts, strict=True))
    others = [run.batches(key=KEY, epoch=2), run.batches(key=bytes(32), epoch=1)]
    for other in others:
        assert sum(len(np.intersect1d(one, two)) for one, two in zip(whole, other, strict=True)) < 40


def test_sizes_are_binomial_in_a_run() -> None:
    """A permutation has the same size always; an empty batch is there as often as it should be, and drawn once."""
    run = Run(examples=100, batch_size=2, sampling="poisson")
    drawn = np.array([[len(batch) for batch in run.batches(key=KEY, epoch=epoch)] for epoch in range(40)])
    assert sizes(drawn.ravel(), 100, 0.02) > RISK
    assert (drawn == 0).sum() > 100
    unmarked = Run(examples=100, batch_size=2)
    same = np.array([len(batch) for epoch in range(40) for batch in unmarked.batches(key=KEY, epoch=epoch)])
    assert sizes(same, 100, 0.02) < RISK


@pytest.mark.parametrize(("examples", "size"), [(50, 10), (60_000, 256), (10, 10), (1000, 1)])
def test_the_size_that_rounding_is_paid_for(examples: int, size: int) -> None:
    run = Run(examples=examples, batch_size=size, sampling="poisson")
    most = run.sampler.largest(run, 1e-6)
    assert size <= most <= examples
    assert binom(examples, float(run.rate)).sf(most) * run.steps * 1e6 <= OVERFULL * 1e-6


def test_the_rate_is_exact_and_public() -> None:
    assert Run(examples=60_000, batch_size=256, sampling="poisson").rate == Fraction(256, 60_000)
    secret = Run(examples=59_999, batch_size=256, sampling="poisson", adjacency="add-remove", public_steps=235)
    assert secret.rate == Fraction(1, 235)
    wider = Run(examples=60_000, batch_size=256, sampling="poisson", public_steps=300)
    assert (wider.rate, wider.steps) == (Fraction(1, 300), 300)


@pytest.mark.slow
def test_poisson_accounting_is_for_runs_that_drew_so() -> None:
    run = Run(examples=6000, batch_size=60, noise_multiplier=1, adjacency="zero-out", sampling="poisson")
    result = sgd.guarantee(run, delta=1e-6)
    assert (result.bound, result.alternatives) == ("poisson", ())
    assert "by a coin of its own" in result.explain()
    for sampling in ("permutation", "fixed-order", "allocation"):
        other = Run(examples=6000, batch_size=60, noise_multiplier=1, adjacency="zero-out", sampling=sampling)
        assert "poisson" not in {bound.name for bound in other.sampler.bounds(other, 1e-6)}
    with pytest.raises(ParameterError, match="a filter counts one use an epoch"):
        sgd.Filter(epsilon=1, delta=1e-6, adjacency="zero-out").charge(run)
