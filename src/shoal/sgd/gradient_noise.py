"""Keys, random words and normal noise from a cipher, for the steps of a training.

A word is AES-256 of a pair of counters. Pair j of normal numbers of step i is Box-Muller of the block AES(i, j), under
a key of the epoch. The noised sum is rounded to a grid, so that the last bits of a float, which tell what was added,
are not seen.
"""

import hashlib
import hmac
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.checks import whole
from shoal.errors import ParameterError
from shoal.mechanisms.coins import Simulation

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

GRID = 2.0**-20
"""The spacing of the grid, in standard deviations."""
_BLOCK = 1 << 14
"""At most this many pairs are drawn at once, to stay near the processor."""
_KEY_BYTES = 32
_MOST_STEPS = 1 << 62
_WORD_VALUES = 1 << 64
_SINE = [(-1) ** k * (math.pi / 4) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(8)]
"""sin(π/4·v) as v times a polynomial in v²: its relative error is less than 2⁻⁵³ for |v| ≤ 1."""


class KeyedWords:
    """Two uniform 64-bit words for every pair of counters, which nobody without the key can tell from fresh ones.

    Whoever has the key can draw any of them again, in any order and none of the others. Counters that never repeat make
    this AES in counter mode, with the first counter as a nonce.

    The key is for one purpose (`subkey`).
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import ECB

        # ECB of counters that never repeat is counter mode, for many nonces at once.
        self._cipher: Any = Cipher(AES256(key), ECB()).encryptor()

    def blocks(self, first: Any, second: Any) -> Words:
        """Return the two words of each pair of counters, along a last axis; the counters are broadcast."""
        first = np.asarray(first)
        second = np.asarray(second)
        counters: NDArray[Any] = np.empty((*np.broadcast_shapes(first.shape, second.shape), 2), "<u8")
        counters[..., 0] = first
        counters[..., 1] = second
        blocks: NDArray[Any] = np.empty(counters.size + 2, "<u8")  # the cipher asks for room for one more block
        self._cipher.update_into(counters.reshape(-1).view(np.uint8), blocks.view(np.uint8))
        return blocks[:-2].reshape(counters.shape)

    def below(self, bound: int, first: Any, second: Any, *, tries: int) -> NDArray[np.int64]:
        """Return a uniform whole number less than the bound for each pair of counters, by rejection.

        A word at or above the greatest multiple of the bound is thrown away, and the second counter grows by `tries`
        for the next one: no number is more likely than another, not even by 2⁻⁶⁴.

        The bound is at most 2⁶², and no two of the given second counters are `tries` or
        more apart.
        """
        first, second = np.broadcast_arrays(np.asarray(first, np.uint64), np.asarray(second, np.uint64))
        words = self.blocks(first, second)[..., 0]
        numbers = (words % np.uint64(bound)).astype(np.int64)
        excess = _WORD_VALUES % bound
        if excess:
            again = words >= np.uint64(_WORD_VALUES - excess)
            if again.any():
                numbers[again] = self.below(bound, first[again], second[again] + np.uint64(tries), tries=tries)
        return numbers


def new_key() -> bytes:
    """Return a secret key for a training, from the operating system."""
    return os.urandom(_KEY_BYTES)


def key_of(simulation: Simulation | None) -> bytes:
    """Return the key of a simulation, which its seed decides alone, or a new secret one where there is none."""
    if simulation is None:
        return new_key()
    if not isinstance(simulation, Simulation):
        raise ParameterError(
            f"simulation must be None or coins such as Simulation(seed=7), got {simulation!r}", "simulation"
        )
    return hashlib.sha256(f"shoal simulated training {simulation.seed}".encode()).digest()


def subkey(key: bytes, purpose: str, number: int) -> bytes:
    """Return the key for one purpose in one epoch: HMAC-SHA-256, so that none of them tells anything of another."""
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise ParameterError(f"key must be {_KEY_BYTES} bytes, such as new_key() returns", "key")
    return hmac.digest(key, f"shoal {purpose} {number}".encode(), "sha256")


def margin_for(batch_size: int, *, single: bool, parameters: int = 0) -> float:
    """Return by how much more noise pays for the rounding of norms and sums of b clipped gradients.

    In float64 it covers the worst: a norm of p numbers is off by p·2⁻⁵³ of itself, and the sums of two neighbours by
    2·b²·2⁻⁵³ of the norm that gradients are clipped to, in whatever order they are added. In float32 the errors in a
    sum are taken to grow with b and not with b², as they do where they are not all of one sign.

    p is `parameters`, if they are more than a few thousand; `single` says that gradients are in
    float32.
    """
    if single:
        return 2.0**-14 + batch_size * 2.0**-22
    return 2.0**-40 + batch_size**2 * 2.0**-52 + parameters * 2.0**-52


def noised(total: Floats, normals: Floats, *, deviation: float, margin: float) -> Floats:
    """Return the sum with noise of (1 + margin)·deviation, rounded to multiples of 2⁻²⁰·deviation."""
    result = normals * (deviation * (1 + margin))
    result += total
    result /= deviation * GRID
    np.rint(result, out=result)
    result *= deviation * GRID
    return result


class Noise:
    """Standard normal numbers that depend on a key, the epoch and the step alone.

    An epoch has a key of its own, by HMAC-SHA-256, and AES-256 under it makes the blocks (step, 0), (step, 1), … into
    two 64-bit words each: counter mode, with the step as the nonce. Two streams never share a block. A step that is run
    again gets the same noise, and so shows nothing new; a step has one noised sum, and must not ask for two.

    The first word of a pair gives the sign and the radius √(−2·ln u), with u in steps of 2⁻⁶³ from 2⁻⁶⁴ on: it reaches
    9.4, and 2⁻⁶⁴ of the true distribution lies beyond. The second word gives the angle. All is in float64: next to an
    exact pair of normals made from the same words and infinitely many bits more, a number is off by less than 2⁻⁴⁴ but
    for a probability of 2⁻¹⁴, and by less than 2⁻²⁵, a thirtieth of the grid, but for a probability of 2⁻⁴⁰.
    """

    def __init__(self, *, key: bytes) -> None:
        subkey(key, "check", 0)
        self._key = key
        self._epoch = -1
        self._words: KeyedWords

    def normals(self, count: int, *, epoch: int, step: int) -> Floats:
        """Return independent standard normal numbers for a step of an epoch, both counted from 0."""
        step = whole(step=step, least=0, most=_MOST_STEPS)
        return self.table(count, epoch=epoch, first_step=step, steps=1).reshape(-1)

    def table(self, count: int, *, epoch: int, first_step: int, steps: int) -> Floats:
        """Return the numbers of many steps at once, one row for each."""
        count = whole(count=count, least=0)
        first = whole(first_step=first_step, least=0, most=_MOST_STEPS)
        steps = whole(steps=steps, least=0)
        self._rekey(whole(epoch=epoch, least=0))
        pairs = -(-count // 2)
        normals = np.empty((steps, 2, pairs))
        width = max(1, min(pairs, _BLOCK))
        height = max(1, _BLOCK // width)
        for top in range(0, steps, height):
            for left in range(0, pairs, width):
                part = normals[top : top + height, :, left : left + width]
                self._fill(part, first + top, left)
        return normals.reshape(steps, 2 * pairs)[:, :count]

    def _rekey(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._words = KeyedWords(subkey(self._key, "noise", epoch))
            self._epoch = epoch

    def _fill(self, target: Floats, step: int, pair: int) -> None:
        steps = np.arange(step, step + target.shape[0])
        pairs = np.arange(pair, pair + target.shape[2])
        put_normals(self._words.blocks(steps[:, None], pairs).view("<i8"), target)


def put_normals(words: NDArray[np.int64], target: Floats) -> None:
    """Put independent standard normal numbers, made of uniform words, into the target.

    Words are rows × pairs × 2, and the target is rows × 2 × pairs.
    """
    signed = words[..., 0] + 0.5  # as likely below as above 0, and never 0
    radius = np.abs(signed)
    radius *= 2.0**-63
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    np.copysign(radius, signed, out=radius)  # turns by half a circle, or not
    part = words[..., 1] * 2.0**-63
    square = np.multiply(part, part, out=signed)
    sine = square * _SINE[-1]
    for coefficient in _SINE[-2:0:-1]:
        sine += coefficient
        sine *= square
    sine += _SINE[0]
    sine *= part  # of an angle between ∓π/4; twice that angle is uniform in half a circle
    np.multiply(sine, sine, out=square)
    np.subtract(1, square, out=part)
    np.sqrt(part, out=part)
    part *= sine
    part *= radius
    np.add(part, part, out=target[:, 1])
    square *= -2
    square += 1
    np.multiply(square, radius, out=target[:, 0])
