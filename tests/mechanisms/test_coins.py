"""The coins: uniform without bias, different in every process and thread, and never those of a simulation unasked."""

import os
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal import Simulation
from shoal.mechanisms import coins, kinds
from shoal.mechanisms.coins import Coins, secure_coins

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))


class Fed(Coins):
    """Coins whose words are given beforehand."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = np.asarray(given)

    def _fill(self, array: NDArray[Any]) -> None:
        taken, self.given = self.given[: len(array)], self.given[len(array) :]
        assert len(taken) == len(array), "more words were asked for than there are"
        array[:] = taken


@pytest.mark.parametrize("bound", [3, 5, 6, 7, 10, 1000, 65_535, 65_537, (1 << 31) - 1, 3 << 29])
def test_below_keeps_as_many_words_for_every_number(bound: int) -> None:
    """A number y is the upper half of word·bound; its words are consecutive, and the first few are drawn again.

    y has the words from ⌈y·2³²/bound⌉ on: as many must be kept for each, and only the first may be left out.
    """
    least = (1 << 32) // bound
    picks = {0, 1, 2, bound // 3, bound // 2, bound - 2, bound - 1}
    for number in picks:
        start, stop = -(-(number << 32) // bound), -(-((number + 1) << 32) // bound)
        kept = stop - start
        assert kept in (least, least + 1)
        for word, fine in ((start, kept == least), (stop - 1, True), (start + 1, True)):
            if start <= word < stop:
                replacement = (bound - 1 << 32) // bound + 1 if bound > 1 else 0  # one in the middle of the last number
                found = Fed(np.array([word, replacement + 1, replacement + 1], np.uint32)).below(bound, 1)
                assert int(found[0]) == (number if fine else int((replacement + 1) * bound >> 32))


@pytest.mark.parametrize("bound", [3, 5, 6, 7, 11, 100, 255])
def test_below_is_unbiased_over_all_words_of_a_small_width(bound: int) -> None:
    """The same rule with 16 bits, for all words: the rule is uniform, and `below` follows it on the same words."""
    threshold = (1 << 16) % bound
    kept = [word * bound >> 16 for word in range(1 << 16) if (word * bound) & 0xFFFF >= threshold]
    assert set(Counter(kept).values()) == {(1 << 16) // bound}
    wide = (1 << 32) % bound
    words = np.random.default_rng(1).integers(0, 1 << 32, 5000, dtype=np.uint64)
    fine = words[(words * np.uint64(bound)) & np.uint64(0xFFFFFFFF) >= wide]
    assert (Fed(fine.astype(np.uint32)).below(bound, len(fine)) == (fine * np.uint64(bound)) >> np.uint64(32)).all()


def test_below_draws_again_where_it_must() -> None:
    bound = 3  # 2³² = 1 mod 3: the word 0 alone is too much
    assert Fed(np.array([0, 0, 0, 1], np.uint32)).below(bound, 1).tolist() == [0]
    assert Fed(np.array([0, 1 << 31, 0, (1 << 32) - 1, (1 << 32) - 1, 7], np.uint32)).below(bound, 4).tolist() == [
        2,
        1,
        0,
        2,
    ]
    large = (1 << 31) + 1  # 32 bits of a word at a time, and those from the bound on are drawn again
    words = [(large << 32), (large - 1) << 32 | 5, ((1 << 32) - 1) << 32, 77]
    assert Fed(np.array([words[0], words[1], words[2]], np.uint64)).below(large, 1).tolist() == [large - 1]
    assert Fed(np.array([words[2], words[0], words[3]], np.uint64)).below(large, 1).tolist() == [0]


@pytest.mark.parametrize("bound", [1, 2, 256, 1 << 31, 1 << 32, 1 << 40, (1 << 62) - 1, 1 << 62])
def test_below_at_powers_of_two_and_for_wide_numbers(bound: int) -> None:
    drawn = Simulation(seed=1).below(bound, 2000)
    assert drawn.dtype == (np.uint32 if bound <= 1 << 31 else np.uint64)
    assert int(drawn.max()) < bound
    if bound > 1 << 20:
        assert len(set(drawn.tolist())) > 1990
        assert abs(float(drawn.mean()) / bound - 0.5) < 0.05
    assert len(Simulation(seed=1).below(bound, 0)) == 0


def test_no_words_at_all() -> None:
    assert len(Coins().words(0)) == len(Coins().halves(0)) == 0


def test_a_simulation_can_be_repeated() -> None:
    first, second = Simulation(seed=7), Simulation(seed=7)
    assert (first.words(1000) == second.words(1000)).all()
    assert (first.halves(10) == second.halves(10)).all()
    assert (Simulation(seed=8).words(1000) != Simulation(seed=7).words(1000)).all()
    assert repr(Simulation(seed=7)) == "Simulation(seed=7)"


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole = Simulation(seed=3).words(40_000)  # longer than the zeros that are encrypted at once
    cut = Simulation(seed=3)
    assert (np.concatenate([cut.words(count) for count in (1, 7, 20_000, 19_992)]) == whole).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_simulation_is_never_used_by_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MECHANISMS[name](categories=9, local_epsilon=1)
    values = np.zeros(500, np.int64)
    monkeypatch.setattr(Simulation, "_key", lambda self: pytest.fail("a seed where nobody asked for one"))
    monkeypatch.setattr(coins, "_local", threading.local())
    asked: list[int] = []
    urandom = os.urandom

    def watched(count: int) -> bytes:
        asked.append(count)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", watched)
    first, second = made.randomize(values), made.randomize(values)
    assert asked == [32]
    assert not np.array_equal(first, second)


def test_a_child_tosses_other_coins() -> None:
    secure_coins().words(3)
    seen = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, secure_coins().words(4).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(reader, 32))
        os.close(reader)
        os.close(writer)
    seen.append(secure_coins().words(4).tobytes())
    assert len(set(seen)) == 4


def test_threads_toss_different_coins() -> None:
    seen: list[tuple[int, ...]] = []
    streams: list[Coins] = []

    def toss() -> None:
        streams.append(secure_coins())
        seen.append(tuple(secure_coins().words(4).tolist()))

    threads = [threading.Thread(target=toss) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    toss()
    assert len(set(seen)) == 5
    assert len({id(stream) for stream in streams}) == 5
    assert secure_coins() is streams[-1]


def test_keys_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "_REKEY", 1024)
    keys: list[bytes] = []

    class Watched(Coins):
        def _key(self) -> bytes:
            keys.append(super()._key())
            return keys[-1]

    watched = Watched()
    seen = [watched.words(16) for _ in range(8)]  # 1024 bytes: the first key is used up, and not yet replaced
    assert len(keys) == 1
    seen.append(watched.words(1))
    assert len(keys) == 2
    seen.append(watched.words(64))
    words = np.concatenate(seen)
    assert len(set(words.tolist())) == len(words)
    for _ in range(100):
        watched.words(100)
    assert len(keys) > 50
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)


def test_a_simulation_goes_on_under_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "_REKEY", 1024)
    first, second = Simulation(seed=1), Simulation(seed=1)
    one = np.concatenate([first.words(32) for _ in range(40)])
    two = np.concatenate([second.words(32) for _ in range(40)])
    assert (one == two).all()
    assert len(set(one.tolist())) == len(one)


def test_words_are_uniform_bit_by_bit() -> None:
    """False alarms: 64 bits and 63 neighbours beyond 7 standard deviations, 4e-10 together."""
    for stream in (Simulation(seed=11), Coins()):
        bits = np.unpackbits(stream.words(20_000).view(np.uint8)).reshape(-1, 64).astype(np.float64) - 0.5
        limit = 7 * np.sqrt(len(bits))
        assert abs(bits.sum(axis=0)).max() < limit / 2
        assert abs((bits[:, 1:] * bits[:, :-1]).sum(axis=0)).max() < limit / 4
