"""The order of an epoch: a fresh permutation, in which every order is as likely as any other, or a fixed order."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import hypergeom

from shoal import ParameterError, sgd
from shoal.mechanisms.coins import Coins
from shoal.sgd.gradient_noise import Noise
from shoal.sgd.run import Run
from shoal.sgd.sampler import Indices
from tests.sgd.samplers.draws import surprise

KEY = bytes(range(32))


def drawn(examples: int, batch_size: int, epoch: int, key: bytes = KEY) -> list[Indices]:
    """Return the batches of an epoch."""
    run = Run(examples=examples, batch_size=batch_size)
    return run.sampler.batches(run, key=key, epoch=epoch)


@pytest.mark.slow
@given(
    examples=st.integers(1, 400),
    share=st.floats(0, 1),
    key=st.binary(min_size=32, max_size=32),
    number=st.integers(0, 99),
)
def test_every_example_is_used_exactly_once(examples: int, share: float, key: bytes, number: int) -> None:
    size = 1 + round(share * (examples - 1))
    batches = drawn(examples, size, number, key)
    assert len(batches) == -(-examples // size)
    assert all(len(batch) <= size and batch.dtype == np.int64 for batch in batches)
    assert sorted(np.concatenate(batches).tolist()) == list(range(examples))


def test_the_key_and_the_epoch_decide_it() -> None:
    orders = [np.concatenate(drawn(1000, 7, epoch, key)) for key in (KEY, bytes(32)) for epoch in range(3)]
    assert (np.concatenate(drawn(1000, 7, 2)) == orders[2]).all()
    assert (np.concatenate(drawn(1000, 7, 0)) == orders[0]).all()
    for place, order in enumerate(orders):
        # a common place has the probability 1/1000: more than 20 of 1000 have less than 1e-18
        assert all((order == one).sum() <= 20 for one in orders[:place])


@pytest.mark.slow
def test_all_orders_are_equally_likely() -> None:
    """Chi-square with 23 degrees of freedom; false alarms: 1e-6, were the key not fixed."""
    trials = 4800
    seen = Counter(tuple(int(batch[0]) for batch in drawn(4, 1, epoch)) for epoch in range(trials))
    counts = np.array([seen[order] for order in permutations(range(4))])
    assert counts.sum() == trials
    assert surprise(counts, np.full(24, trials / 24)) > 1e-6


@pytest.mark.slow
def test_empty_slots_are_anywhere() -> None:
    """5 examples in 2 batches of 4 slots leave 3 empty: hypergeometric in each; false alarms: 1e-6 a batch."""
    trials = 3000
    sizes = np.array([[len(batch) for batch in drawn(5, 4, epoch)] for epoch in range(trials)])
    distribution = hypergeom(8, 3, 4).pmf(range(4)) * trials
    for place in range(2):
        assert surprise(np.bincount(4 - sizes[:, place], minlength=4), distribution) > 1e-6


def test_equal_keys_are_drawn_again() -> None:
    class Fed(Coins):
        def words(self, count: int) -> NDArray[np.uint64]:
            return np.array(fed.pop(0), np.uint64)

    fed = [[5, 1, 5], [2, 2, 2], [9, 4, 6]]
    assert Fed().permutation(3).tolist() == [1, 2, 0]
    assert not fed


def test_refusals() -> None:
    for bad in (b"short", "a" * 32, None):
        with pytest.raises(ParameterError, match="key must be 32 bytes"):
            drawn(10, 2, 0, bad)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="key must be 32 bytes"):
            Noise(key=bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="epoch must be at least 0"):
        drawn(10, 2, -1)


@pytest.mark.parametrize(("examples", "size"), [(10, 1), (10, 4), (12, 4), (7, 7)])
def test_it_is_the_order_of_the_data(examples: int, size: int) -> None:
    run = sgd.Run(examples=examples, batch_size=size, sampling="fixed-order")
    for epoch in range(2):
        batches = run.sampler.batches(run, key=bytes(32), epoch=epoch)
        assert len(batches) == run.steps
        assert np.concatenate(batches).tolist() == list(range(examples))
        assert all(len(batch) == size for batch in batches[:-1])
