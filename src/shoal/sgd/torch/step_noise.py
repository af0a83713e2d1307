"""The noise of a step, from a secret key, the epoch, the step and the sum itself.

A step that is run again on the same sum gets the same noise, and shows nothing new. If anything made the sum another
one, such as other random augmentation or another processor's rounding, its noise is independent of the first: the
difference of two noised sums never lacks noise. On the central processor the noise comes from AES.

**On a graphics processor** normal numbers come from ChaCha20, under a key that a hash of the sum gives. Words of 32
bits, in rows of 1,024, are multiplied by fixed secret words of 64 bits, and added up modulo 2⁶⁴, four times with other
secret words. The results, 128 times fewer, are hashed again with others, until there are few enough for HMAC-SHA-256 on
the central processor. Let two sums differ, say in a row by integers d₁, …, d₁₀₂₄ of which dⱼ is not 0. Whatever the
other secret words are, Σ kᵢ·dᵢ ≡ 0 modulo 2⁶⁴ for at most 2³¹ of all 2⁶⁴ values of kⱼ, for |dⱼ| < 2³² has at most 31
factors of 2. So all four results agree with a probability of at most 2⁻¹³², and after at most four levels 2⁻¹³⁰. HMAC
then makes the keys of different epochs, steps and hashes independent of each other, as far as anybody can tell.
"""

import hmac
import math
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from torch import Tensor

from shoal.sgd.gradient_noise import GRID, put_normals, subkey
from shoal.sgd.torch.kernels import constexpr, jit, launch, runs_on, tl

_MOST_BYTES = 1 << 30
_PAIRS = 1 << 14
"""At most this many pairs are drawn at once, to stay near the processor."""
_ZEROS = memoryview(bytes(16 * _PAIRS))
_ROW = 1024
"""How many words are hashed to four numbers of 64 bits."""
_ROWS = 8
"""How many rows a program of the device hashes: it then fetches the secret words less often."""
_FEW = 4096
"""So many words are taken to the central processor."""
_BLOCKS = 128
"""How many blocks of the cipher a program makes: 8 normal numbers each."""


class StepNoise:
    """Noise that depends on a key, the epoch, the step and the sum alone.

    Normal numbers are made of words as those of `shoal.sgd.gradient_noise.Noise`, are on the same grid, and come from
    keys by the same HMAC. Only the streams of words differ: that one is addressed by step, so that many steps are drawn
    at once; this one by a hash of the sum, which has to be there first.

    On a graphics processor `DeviceNoise` makes it, or, without Triton, the sum is taken to the central one and back.
    """

    def __init__(self, *, key: bytes) -> None:
        self._key = key
        self._devices: dict[torch.device, DeviceNoise] = {}
        self._hash = AESGCM(subkey(key, "hash of sums", 0))
        self._block = Cipher(AES256(subkey(key, "start of steps", 0)), ECB()).encryptor()
        self._stream: Any = Cipher(AES256(subkey(key, "noise of steps", 0)), CTR(bytes(16))).encryptor()

    def add(self, total: Tensor, *, margin: float, unit: float, epoch: int, step: int) -> Tensor:
        """Return the sum with noise, rounded to whole numbers, times `unit`; in the memory of the sum.

        The sum has one axis, is in float32 or float64, and is in units of the grid, of
        which a standard deviation of the noise has 2²⁰. `margin` is by how much more noise
        is added than is promised, relatively, and `unit` is what one step of the grid is in
        the answer.
        """
        if runs_on(total):
            if total.device not in self._devices:
                self._devices[total.device] = DeviceNoise(key=self._key, device=total.device)
            return self._devices[total.device].add(total, margin=margin, unit=unit, epoch=epoch, step=step)
        if total.device.type != "cpu":
            return total.copy_(self.add(total.cpu(), margin=margin, unit=unit, epoch=epoch, step=step))
        self._stream.reset_nonce(self._start(total, epoch, step))
        values = total.numpy()
        for first in range(0, len(values), 2 * _PAIRS):
            part = values[first : first + 2 * _PAIRS]
            pairs = -(-len(part) // 2)
            words = np.empty((1, pairs, 2), "<i8")
            normals = np.empty((1, 2, pairs))
            self._stream.update_into(_ZEROS[: 16 * pairs], words.reshape(-1).view(np.uint8))
            put_normals(words, normals)
            noised = normals.reshape(-1)[: len(part)]
            noised *= (1 + margin) / GRID
            noised += part
            np.rint(noised, out=part, casting="same_kind")
        return total.mul_(unit)

    def _start(self, total: Tensor, epoch: int, step: int) -> bytes:
        """Return where in the stream of the cipher this step's part begins: a pseudorandom block.

        The tag of AES-GCM is a secret universal hash of the sum, masked by a block of the epoch and step; one more
        block of AES makes it a pseudorandom function of all three. Parts of a million steps with a million
        parameters overlap with a probability below 2⁻⁶⁴.
        """
        data = memoryview(total.numpy()).cast("B")  # type: ignore[arg-type]
        start = bytes(16)
        for index, first in enumerate(range(0, len(data), _MOST_BYTES)):
            nonce = epoch.to_bytes(4, "big") + step.to_bytes(6, "big") + index.to_bytes(2, "big")
            tag = self._hash.encrypt(nonce, b"", data[first : first + _MOST_BYTES])
            if index:  # the first is added to zeros
                tag = bytes(x ^ y for x, y in zip(start, tag, strict=True))
            start = self._block.update(tag)
        return start


class DeviceNoise:
    """Noise on one device; as `StepNoise` has it, but from another cipher and another hash of the sum."""

    def __init__(self, *, key: bytes, device: torch.device) -> None:
        self._key = key
        self._device = device
        self._secret = subkey(key, "noise of steps on a device", 0)
        self._levels: list[Tensor] = []
        self._cipher_key = torch.empty(8, dtype=torch.int32, device=device)
        self._constants: dict[tuple[float, float], Tensor] = {}

    def add(self, total: Tensor, *, margin: float, unit: float, epoch: int, step: int) -> Tensor:
        """Return the sum with noise, as `StepNoise.add` does, in the memory of the sum."""
        self._rekey(self._start(total, epoch, step))
        if (margin, unit) not in self._constants:
            deviation = (1 + margin) / GRID
            numbers = [-2 * deviation * deviation, math.pi * 2.0**-63, unit]
            self._constants = {(margin, unit): torch.tensor(numbers, dtype=torch.float64, device=self._device)}
        programs = -(-total.numel() // (8 * _BLOCKS))
        constants = self._constants[margin, unit]
        launch(_noise, (programs, 1, 1), (total, self._cipher_key, constants), total.numel(), _BLOCKS)
        return total

    def _start(self, total: Tensor, epoch: int, step: int) -> bytes:
        """Return the key of the cipher for this step: a pseudorandom function of epoch, step and sum."""
        words = total.view(torch.int32)
        level = 0
        while words.numel() > _FEW:
            words = self._hashed(words, level)
            level += 1
        few: bytes = words.cpu().numpy().tobytes()
        message = b"".join(number.to_bytes(8, "big") for number in (epoch, step, total.numel())) + few
        return hmac.digest(self._secret, message, "sha256")

    def _hashed(self, words: Tensor, level: int) -> Tensor:
        rows = -(-words.numel() // _ROW)
        results = torch.empty(4 * rows, dtype=torch.int64, device=self._device)
        secrets = self._secret_words(level)
        launch(_hash, (-(-rows // _ROWS), 1, 1), (words, secrets, results), words.numel(), _ROW, _ROWS)
        return results.view(torch.int32)

    def _secret_words(self, level: int) -> Tensor:
        while len(self._levels) <= level:
            secret = subkey(self._key, "hash of sums on a device", len(self._levels))
            stream = Cipher(AES256(secret), CTR(bytes(16))).encryptor().update(bytes(4 * _ROW * 8))
            self._levels.append(torch.frombuffer(bytearray(stream), dtype=torch.int64).to(self._device))
        return self._levels[level]

    def _rekey(self, key: bytes) -> None:
        self._cipher_key.copy_(torch.frombuffer(bytearray(key), dtype=torch.int32))


@jit
def quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    """Return a quarter round of ChaCha (RFC 8439, section 2.1), of words of 32 bits without sign."""
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@jit
def rounds(  # type: ignore[no-untyped-def] # noqa: PLR0917
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15
):  # fmt: skip
    """Return the twenty rounds of ChaCha20 (RFC 8439, section 2.3), without the final addition."""
    for _ in range(10):
        x0, x4, x8, x12 = quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = quarter(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@jit
def _pair(  # type: ignore[no-untyped-def] # noqa: PLR0917
    total, offsets, after, count, low, high, other_low, other_high, constants
):  # fmt: skip
    """Add two normal numbers, made of four words, to the sum at these offsets, and `after` them."""
    first = (low.to(tl.uint64) | (high.to(tl.uint64) << 32)).to(tl.int64, bitcast=True)
    second = (other_low.to(tl.uint64) | (other_high.to(tl.uint64) << 32)).to(tl.int64, bitcast=True)
    # Words lie on both sides of 0, evenly with the half that is added.
    part = tl.abs(first.to(tl.float64) + 0.5) * 1.0842021724855044e-19  # 2⁻⁶³
    radius = tl.sqrt(tl.log(part) * tl.load(constants))
    angle = second.to(tl.float64) * tl.load(constants + 1)
    unit = tl.load(constants + 2)
    value = tl.load(total + offsets, mask=offsets < count, other=0.0).to(tl.float64)
    tl.store(total + offsets, tl.floor(value + radius * tl.cos(angle) + 0.5) * unit, mask=offsets < count)
    offsets = offsets + after
    value = tl.load(total + offsets, mask=offsets < count, other=0.0).to(tl.float64)
    tl.store(total + offsets, tl.floor(value + radius * tl.sin(angle) + 0.5) * unit, mask=offsets < count)


@jit
def _noise(total, key, constants, count, blocks: constexpr):  # type: ignore[no-untyped-def]
    """Add noise: numbers 0, …, 7 of a program's blocks lie one after the other, each for all blocks."""
    program = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, blocks)
    number = (program * blocks + lane).to(tl.uint64)
    none = tl.zeros([blocks], tl.uint32)
    # The constants, the key, and the number of the block in the counter and the first word of the nonce.
    c0 = none + 0x61707865
    c1 = none + 0x3320646E
    c2 = none + 0x79622D32
    c3 = none + 0x6B206574
    k0 = none + tl.load(key).to(tl.uint32, bitcast=True)
    k1 = none + tl.load(key + 1).to(tl.uint32, bitcast=True)
    k2 = none + tl.load(key + 2).to(tl.uint32, bitcast=True)
    k3 = none + tl.load(key + 3).to(tl.uint32, bitcast=True)
    k4 = none + tl.load(key + 4).to(tl.uint32, bitcast=True)
    k5 = none + tl.load(key + 5).to(tl.uint32, bitcast=True)
    k6 = none + tl.load(key + 6).to(tl.uint32, bitcast=True)
    k7 = none + tl.load(key + 7).to(tl.uint32, bitcast=True)
    n0 = (number & 0xFFFFFFFF).to(tl.uint32)
    n1 = (number >> 32).to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = rounds(
        c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, none, none
    )
    at = program * (8 * blocks) + lane
    _pair(total, at, blocks, count, x0 + c0, x1 + c1, x2 + c2, x3 + c3, constants)
    _pair(total, at + 2 * blocks, blocks, count, x4 + k0, x5 + k1, x6 + k2, x7 + k3, constants)
    _pair(total, at + 4 * blocks, blocks, count, x8 + k4, x9 + k5, x10 + k6, x11 + k7, constants)
    _pair(total, at + 6 * blocks, blocks, count, x12 + n0, x13 + n1, x14, x15, constants)


@jit
def _hash(  # type: ignore[no-untyped-def] # noqa: PLR0917
    words, secrets, results, count, row: constexpr, rows: constexpr
):  # fmt: skip
    """Put four sums of words times secret words, modulo 2⁶⁴, into the results, for some rows."""
    lane = tl.arange(0, row)
    k0 = tl.load(secrets + lane)
    k1 = tl.load(secrets + row + lane)
    k2 = tl.load(secrets + 2 * row + lane)
    k3 = tl.load(secrets + 3 * row + lane)
    for turn in range(rows):
        index = tl.program_id(0).to(tl.int64) * rows + turn
        at = index * row + lane
        word = tl.load(words + at, mask=at < count, other=0).to(tl.int64) & 0xFFFFFFFF
        there = index * row < count
        tl.store(results + 4 * index, tl.sum(word * k0), mask=there)
        tl.store(results + 4 * index + 1, tl.sum(word * k1), mask=there)
        tl.store(results + 4 * index + 2, tl.sum(word * k2), mask=there)
        tl.store(results + 4 * index + 3, tl.sum(word * k3), mask=there)
