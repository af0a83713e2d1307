"""The order of a pass: a uniformly random permutation of all slots, cut into batches of equally many slots."""

import numpy as np
from numpy.typing import NDArray

from shoal.checks import whole
from shoal.randomizers.coins import Coins
from shoal.sgd.gradient_noise import subkey

__all__ = ["Permutation"]

Indices = NDArray[np.int64]


class _PassCoins(Coins):
    """The coins of one pass: whoever has the key can toss them again."""

    def __init__(self, key: bytes, number: int) -> None:
        self._secret, self._number, self._keys = key, number, 0
        super().__init__()

    def _key(self) -> bytes:
        self._keys += 1
        return subkey(self._secret, f"permutation {self._keys} of pass", self._number)


class Permutation:
    """The batches of every pass, which a key decides.

    The examples and as many empty slots as make the last batch full are permuted together, and every order is equally
    likely: none is less likely by even 2⁻⁶⁴, for random 64-bit keys are sorted, and drawn again if two are equal. Every
    example is in exactly one batch of a pass. A batch has at most `batch_size` examples; which batches have fewer is as
    random as all else.

    Parameters
    ----------
    examples : int
        n.
    batch_size : int
        b, at most n.
    key : bytes
        32 secret bytes; a pass has coins of its own, keyed by HMAC-SHA-256.

    Examples
    --------
    >>> batches = Permutation(examples=10, batch_size=4, key=bytes(32)).batches(0)
    >>> len(batches), sorted(index for batch in batches for index in batch.tolist())
    (3, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(self, *, examples: int, batch_size: int, key: bytes) -> None:
        self.examples = whole(examples=examples)
        self.batch_size = whole(batch_size=batch_size, most=self.examples)
        subkey(key, "check", 0)
        self._key = key

    @property
    def steps(self) -> int:
        """How many batches a pass has."""
        return -(-self.examples // self.batch_size)

    def batches(self, number: int) -> list[Indices]:
        """Return the indices of the examples in each batch of pass `number`, counted from 0."""
        coins = _PassCoins(self._key, whole(number=number, least=0))
        slots = coins.permutation(self.steps * self.batch_size).reshape(self.steps, self.batch_size)
        batches = list(slots)
        for place in np.flatnonzero((slots >= self.examples).any(axis=1)):
            batches[place] = slots[place][slots[place] < self.examples]
        return batches
