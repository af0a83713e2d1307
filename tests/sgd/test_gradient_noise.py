"""Normal noise from a cipher: its words, its distribution, its streams, the grid and the margin."""

import random
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare, kstest, norm

from shoal import ParameterError, Simulation
from shoal.sgd.gradient_noise import KeyedWords, Noise, Words, key_of, margin_for, new_key, noised, subkey

NOISE = Noise(key=bytes(range(32)))
MANY = NOISE.normals(1_000_001, epoch=0, step=0)


@pytest.mark.slow
def test_the_distribution_is_normal() -> None:
    """Kolmogorov-Smirnov, on all numbers, on both halves of the pairs and on their radii; false alarms: 4e-6."""
    half = len(MANY) // 2
    cosines, sines = MANY[:half], MANY[half + 1 :]
    for sample in (MANY, cosines, sines):
        assert kstest(sample, norm.cdf).pvalue > 1e-6
    assert kstest((cosines**2 + sines**2) / 2, "expon").pvalue > 1e-6


@pytest.mark.parametrize("beyond", [2.0, 3.0, 4.0, 4.5])
def test_tails(beyond: float) -> None:
    """Exact binomial tests of both tails; false alarms: 2e-6."""
    probability = float(norm.sf(beyond))
    for count in ((beyond < MANY).sum(), (-beyond > MANY).sum()):
        assert binomtest(int(count), len(MANY), probability).pvalue > 1e-6


def test_a_pair_is_box_and_muller_of_a_block_in_counter_mode() -> None:
    """Against the textbook, in long doubles, from words of the cipher in its own counter mode."""
    pairs, step = 3000, 11
    words = np.frombuffer(
        b"".join(
            Cipher(AES256(subkey(bytes(range(32)), "noise", 4)), CTR(nonce)).encryptor().update(bytes(16))
            for nonce in (step.to_bytes(8, "little") + pair.to_bytes(8, "little") for pair in range(pairs))
        ),
        "<i8",
    ).reshape(-1, 2)
    exact = words.astype(np.longdouble)
    radius = np.sqrt(-2 * np.log(np.abs(exact[:, 0] + 0.5) / 2**63)) * np.sign(exact[:, 0] + 0.5)
    angle = exact[:, 1] / 2**63 * (np.arctan(np.longdouble(1)) * 2)
    found = NOISE.normals(2 * pairs, epoch=4, step=step)
    assert np.abs(found[:pairs] - radius * np.cos(angle)).max() < 2**-44
    assert np.abs(found[pairs:] - radius * np.sin(angle)).max() < 2**-44


def test_extreme_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fed(KeyedWords):
        def blocks(self, first: Any, second: Any) -> Words:
            least, most = -(2**63), 2**63 - 1
            words = [[[first, second] for first in (least, -1, 0, most) for second in (least, 0, most)]]
            return np.array(words).view(np.uint64)

    monkeypatch.setattr("shoal.sgd.gradient_noise.KeyedWords", Fed)
    found = Noise(key=bytes(32)).normals(24, epoch=0, step=0).reshape(2, 4, 3)
    reach = np.sqrt(128 * np.log(2))
    assert np.allclose(found[0, :, 1], [0, -reach, reach, 0], atol=1e-7)
    assert np.allclose(found[0, :, ::2], 0, atol=1e-7)
    assert np.allclose(found[1, 1:3, ::2], [[reach, -reach], [-reach, reach]])
    assert 9.4 < reach < 9.5


@given(count=st.integers(0, 200), first=st.integers(0, 2**40), steps=st.integers(0, 9), number=st.integers(0, 2**40))
def test_the_key_the_pass_and_the_step_decide_it(count: int, first: int, steps: int, number: int) -> None:
    table = NOISE.table(count, epoch=number, first_step=first, steps=steps)
    assert table.shape == (steps, count)
    again = Noise(key=bytes(range(32)))
    for place, row in enumerate(table):
        assert (again.normals(count, epoch=number, step=first + place) == row).all()


def test_a_table_does_not_depend_on_how_it_is_cut() -> None:
    count = 50_001  # more than a block of pairs
    table = NOISE.table(count, epoch=0, first_step=0, steps=3)
    assert (table[2] == NOISE.normals(count, epoch=0, step=2)).all()


def test_streams_are_independent() -> None:
    """All correlations of 12 streams within 6 standard errors; false alarms: 66 · 2e-9."""
    size = 10_000
    streams = [
        each.normals(size, epoch=number, step=step)
        for each in (NOISE, Noise(key=bytes(32)))
        for number in (0, 1, 256)
        for step in (0, 1)
    ]
    matrix = np.asarray(np.corrcoef(np.array(streams)))
    assert np.abs(matrix[~np.eye(12, dtype=bool)]).max() < 6 / np.sqrt(size)
    assert len(np.unique(np.concatenate(streams))) == 12 * size


@pytest.mark.slow
@given(
    deviation=st.floats(1e-6, 1e6),
    margin=st.floats(0, 1),
    total=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9),
    step=st.integers(0, 50),
)
def test_noised_sums_lie_on_the_grid(deviation: float, margin: float, total: list[float], step: int) -> None:
    before = np.array(total) * deviation
    normals = NOISE.normals(len(total), epoch=3, step=step)
    found = noised(before, normals, deviation=deviation, margin=margin)
    cells = found / (deviation * 2**-20)
    assert np.abs(cells - np.rint(cells)).max() <= 1e-6  # the quotient is rounded too
    exact = before + deviation * (1 + margin) * normals
    assert np.abs(found - exact).max() <= deviation * 2**-20 * 0.5001


def test_the_margin_is_added() -> None:
    zeros = np.zeros((500, 100))
    normals = NOISE.normals(zeros.size, epoch=0, step=1).reshape(zeros.shape)
    plain, more = (noised(zeros, normals, deviation=3, margin=part) for part in (0.0, 0.25))
    assert plain.shape == zeros.shape
    assert abs((more * plain).sum() / (plain * plain).sum() - 1.25) < 1e-6
    assert abs(plain.std() / 3 - 1) < 6 / np.sqrt(2 * zeros.size)
    assert not zeros.any()
    assert margin_for(64, single=True) == 2**-14 + 2**-16
    assert margin_for(256, single=False, parameters=256) == 2**-40 + 2**-36 + 2**-44


def test_keys() -> None:
    assert len(new_key()) == len(key_of(None)) == len(key_of(Simulation(seed=1))) == 32
    assert new_key() != new_key()
    assert key_of(Simulation(seed=1)) == key_of(Simulation(seed=1)) != key_of(Simulation(seed=2))
    keys = {
        subkey(random.randbytes(32), "a", 1),
        *(subkey(bytes(32), name, number) for name in "ab" for number in range(9)),
    }
    assert len(keys) == 19
    with pytest.raises(ParameterError, match=r"simulation must be None or coins such as Simulation\(seed=7\), got 7"):
        key_of(7)  # type: ignore[arg-type]


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="step must be at least 0"):
        NOISE.normals(3, epoch=0, step=-1)
    with pytest.raises(ParameterError, match="epoch must be at least 0"):
        NOISE.normals(3, epoch=-1, step=0)


def test_it_is_aes_of_the_counters() -> None:
    """The example of FIPS 197, appendix C.3."""
    words = KeyedWords(bytes(range(32)))
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    first, second = (int.from_bytes(block[half : half + 8], "little") for half in (0, 8))
    result = words.blocks(np.uint64(first), np.uint64(second))
    assert result.astype("<u8").tobytes().hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_counters_are_broadcast_and_each_word_is_by_itself() -> None:
    words = KeyedWords(bytes(32))
    table = words.blocks(np.arange(5)[:, None], np.arange(7))
    assert table.shape == (5, 7, 2)
    assert (table[3, 4] == words.blocks(3, 4)).all()
    assert len(np.unique(table)) == 70
    assert words.below(1000, np.arange(5)[:, None], np.arange(7), tries=7).shape == (5, 7)
    assert words.below(1000, 3, 4, tries=7) == words.below(1000, np.arange(5)[:, None], np.arange(7), tries=7)[3, 4]


def test_numbers_are_uniform() -> None:
    """Chi-square with 18 degrees of freedom; false alarms: 1e-6, were the key not fixed."""
    numbers = KeyedWords(bytes(range(32))).below(19, 0, np.arange(50_000), tries=1 << 40)
    assert chisquare(np.bincount(numbers, minlength=19)).pvalue > 1e-6
    assert not KeyedWords(bytes(32)).below(1, 0, np.arange(9), tries=1 << 40).any()
