"""Where the coins come from: a cipher keyed by the operating system, or, for simulations only, by a seed."""

import hashlib
import math
import os
import sys
import threading
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from shoal.arrays import BoolArray, IntArray, WordArray
from shoal.errors import ParameterError

WHOLE = 1 << 64
"""The number of coins that a threshold is out of."""
_PRECISION = 320
_LARGEST = 1000.0
"""No ε₀ beyond it makes a difference to 64-bit coins."""
CHUNK = 1 << 13
"""How many reports are drawn at once, so that all they need stays near the processor."""
_REKEY = 1 << 30
"""Bytes after which a key is thrown away."""


def share_below(local_epsilon: float, odds: Fraction) -> int:
    """Return the largest L < 2⁶⁴ for which L/(2⁶⁴ − L) is at most (e^ε₀ − 1)·odds."""
    with ctx.workprec(_PRECISION):
        expm1_eps = arb(min(local_epsilon, _LARGEST)).expm1()
        most = expm1_eps * fmpq(odds.numerator, odds.denominator)
        share = WHOLE * most / (1 + most)
        return min(int(share.lower().floor().fmpz()), WHOLE - 1)


def logarithm_above(ratio: Fraction) -> float:
    """Return the smallest double that is at least ln(ratio)."""
    with ctx.workprec(_PRECISION):
        exact = arb(fmpq(ratio.numerator, ratio.denominator)).log()
        result = float(exact)
        while not arb(result) >= exact:
            result = math.nextafter(result, math.inf)
        return result


_ZEROS = memoryview(bytes(1 << 17))


class Coins:
    """A stream of random bits: AES-256 in counter mode, under a key that nobody else has."""

    def __init__(self) -> None:
        self._rekey()

    def _key(self) -> bytes:
        return os.urandom(32)

    def _rekey(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        self._stream: Any = Cipher(AES256(self._key()), CTR(bytes(16))).encryptor()
        self._left = _REKEY

    def _fill(self, array: NDArray[Any]) -> None:
        self._left -= array.nbytes
        if self._left < 0:
            self._rekey()
        target = memoryview(array).cast("B")  # type: ignore[arg-type]
        for start in range(0, len(target), len(_ZEROS)):
            part = target[start : start + len(_ZEROS)]
            self._stream.update_into(_ZEROS[: len(part)], part)

    def words(self, count: int) -> WordArray:
        """Return uniform 64-bit words."""
        words = np.empty(count, np.uint64)
        self._fill(words)
        return words

    def halves(self, count: int) -> NDArray[np.uint32]:
        """Return uniform 32-bit words."""
        halves = np.empty(count, np.uint32)
        self._fill(halves)
        return halves

    def permutation(self, count: int) -> IntArray:
        """Return a uniformly random order: that of random 64-bit keys, drawn again if two of them are equal."""
        while True:
            keys = self.words(count)
            order = np.argsort(keys)
            ordered = keys[order]
            if not np.any(ordered[1:] == ordered[:-1]):
                return order

    def below(self, bound: int, count: int) -> NDArray[Any]:
        """Return uniform whole numbers less than the bound, at most 2⁶²; 32 bits wide if it is at most 2³¹.

        Lemire's method (ACM TOMACS 2019): the upper part of word · bound, drawn again for the few words that some
        numbers have more of than others. No number is more likely than another, not even by 2⁻⁶⁴.
        """
        if bound > 1 << 31:
            unused = 64 - (bound - 1).bit_length()
            result: NDArray[Any] = self.words(count) >> np.uint64(unused)
            again = np.flatnonzero(result >= np.uint64(bound))
        elif bound & (bound - 1) == 0:
            return self.halves(count) & np.uint32(bound - 1)
        else:
            product = np.multiply(self.halves(count), np.uint64(bound), dtype=np.uint64)
            parts = product.view(np.uint32).reshape(-1, 2)  # the lower part decides, the upper part is the number
            low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
            result = parts[:, high].copy()
            excess = np.uint32((1 << 32) % bound)
            again = np.flatnonzero(parts[:, low] < excess)
        if len(again):
            result[again] = self.below(bound, len(again))
        return result

    def happen(self, numerator: int, denominator: int, count: int) -> BoolArray:
        """Return events of this probability, a ratio of whole numbers, exactly: 64 of its digits at a time.

        A word below the first 64 digits of the ratio happens, one above does not, and one that is equal asks the next.
        """
        first, rest = divmod(numerator << 64, denominator)
        if first >> 64:
            return np.ones(count, np.bool_)
        words = self.words(count)
        result = words < np.uint64(first)
        if rest:
            equal = np.flatnonzero(words == np.uint64(first))
            if len(equal):
                result[equal] = self.happen(rest, denominator, len(equal))
        return result


class Simulation(Coins):
    """Coins that anybody can toss again: for simulations and tests, **never** for the reports of real people.

    Parameters
    ----------
    seed : int
        Any whole number.

    Examples
    --------
    >>> Simulation(seed=7).below(10, 5).tolist() == Simulation(seed=7).below(10, 5).tolist()
    True
    """

    def __init__(self, *, seed: int) -> None:
        self.seed = int(seed)
        self._keys = 0
        super().__init__()

    def _key(self) -> bytes:
        self._keys += 1
        return hashlib.sha256(f"shoal simulation {self.seed} {self._keys}".encode()).digest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by the seed: a copy starts from the beginning."""
        return _simulation, (self.seed,)

    def __repr__(self) -> str:
        """Show the seed."""
        return f"Simulation(seed={self.seed})"


def _simulation(seed: int) -> Simulation:
    return Simulation(seed=seed)


_local = threading.local()


def secure_coins() -> Coins:
    """Return the coins of this thread, keyed by the operating system."""
    coins: Coins | None = getattr(_local, "coins", None)
    if coins is None:
        coins = _local.coins = Coins()
    return coins


def coins_for(simulation: Simulation | None) -> Coins:
    """Return the coins of a simulation, or those for real people."""
    if simulation is None:
        return secure_coins()
    if not isinstance(simulation, Coins):
        raise ParameterError(f"simulation must be coins, such as Simulation(seed=7), got {simulation!r}", "simulation")
    return simulation


def _forget() -> None:
    global _local  # noqa: PLW0603  (a child must not toss the coins of its parent)
    _local = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
