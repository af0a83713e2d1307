"""Random words that a key and two counters decide: AES-256 of the pair of counters, each block by itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyedWords", "Words"]

Words = NDArray[np.uint64]

_MOST = 1 << 64


class KeyedWords:
    """Two uniform 64-bit words for every pair of counters, which nobody without the key can tell from fresh ones.

    Whoever has the key can draw any of them again, in any order and none of the others. Counters that never repeat make
    this AES in counter mode, with the first counter as a nonce.

    Parameters
    ----------
    key : bytes
        32 secret bytes, for one purpose (`shoal.sgd.gradient_noise.subkey`).

    Examples
    --------
    >>> words = KeyedWords(bytes(32))
    >>> words.blocks(np.arange(3), 7).shape, bool((words.blocks(2, 7) == words.blocks(np.arange(3), 7)[2]).all())
    ((3, 2), True)
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import ECB

        # ECB of counters that never repeat is counter mode, for many nonces at once.
        self._cipher: Any = Cipher(AES256(key), ECB()).encryptor()

    def blocks(self, first: Any, second: Any) -> Words:
        """Return the two words of each pair of counters, along a last axis; the counters are broadcast."""
        first, second = np.asarray(first), np.asarray(second)
        counters: NDArray[Any] = np.empty((*np.broadcast_shapes(first.shape, second.shape), 2), "<u8")
        counters[..., 0], counters[..., 1] = first, second
        blocks: NDArray[Any] = np.empty(counters.size + 2, "<u8")  # the cipher asks for room for one more block
        self._cipher.update_into(counters.reshape(-1).view(np.uint8), blocks.view(np.uint8))
        return blocks[:-2].reshape(counters.shape)

    def below(self, bound: int, first: Any, second: Any, *, tries: int) -> NDArray[np.int64]:
        """Return a uniform whole number less than the bound for each pair of counters, by rejection.

        A word at or above the greatest multiple of the bound is thrown away, and the second counter grows by `tries`
        for the next one: no number is more likely than another, not even by 2⁻⁶⁴.

        Parameters
        ----------
        bound : int
            At most 2⁶².
        first, second : int or numpy.ndarray
            The counters, which are broadcast.
        tries : int
            How far apart the second counters of two tries are; farther than any two of those that are given.
        """
        first, second = np.broadcast_arrays(np.asarray(first, np.uint64), np.asarray(second, np.uint64))
        words = self.blocks(first, second)[..., 0]
        numbers = (words % np.uint64(bound)).astype(np.int64)
        excess = _MOST % bound
        if excess:
            again = words >= np.uint64(_MOST - excess)
            if again.any():
                numbers[again] = self.below(bound, first[again], second[again] + np.uint64(tries), tries=tries)
        return numbers
