"""Words of a key and two counters: AES as it is specified, and numbers below a bound."""

import numpy as np
from scipy.stats import chisquare

from shoal.sgd.gradient_noise import KeyedWords


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
