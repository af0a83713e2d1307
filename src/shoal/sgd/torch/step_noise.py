"""The noise of a step, from a secret key, the epoch, the step and the sum itself.

A step that is run again on the same sum gets the same noise, and shows nothing new. If anything made the sum another
one, such as other random augmentation or another processor's rounding, its noise is independent of the first: the
difference of two noised sums never lacks noise.
"""

import math
from typing import Any

import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from torch import Tensor

from shoal.sgd.gradient_noise import GRID, subkey
from shoal.sgd.torch.device_noise import DeviceNoise
from shoal.sgd.torch.kernel import runs_on

__all__ = ["StepNoise"]

_MOST_BYTES = 1 << 30
_PAIRS = 1 << 16
"""At most this many pairs are drawn at once, to stay near the processor."""
_ZEROS = memoryview(bytes(16 * _PAIRS))


class StepNoise:
    """Noise that depends on a key, the epoch, the step and the sum alone.

    Normal numbers have the distribution of `shoal.sgd.gradient_noise.Noise`: √(−2·ln u) times sine and cosine, in
    float64, with u in steps of 2⁻⁶³ from 2⁻⁶⁴ on, on the same grid and from keys by the same HMAC. Only the streams
    differ: that one is addressed by step, so that many steps are drawn at once; this one by a hash of the sum, which
    has to be there first, and torch's functions are faster for many parameters.

    On a graphics processor `DeviceNoise` makes it, or, without Triton, the sum is taken to the central one and back.

    Parameters
    ----------
    key : bytes
        32 secret bytes.
    """

    def __init__(self, *, key: bytes) -> None:
        self._key = key
        self._devices: dict[torch.device, DeviceNoise] = {}
        self._hash = AESGCM(subkey(key, "hash of sums", 0))
        self._block = Cipher(AES256(subkey(key, "start of steps", 0)), ECB()).encryptor()
        self._stream: Any = Cipher(AES256(subkey(key, "noise of steps", 0)), CTR(bytes(16))).encryptor()
        self._rooms: dict[int, _Room] = {}

    def add(self, total: Tensor, *, margin: float, unit: float, epoch: int, step: int) -> Tensor:
        """Return the sum with noise, rounded to whole numbers, times `unit`; in the memory of the sum.

        Parameters
        ----------
        total : Tensor
            One axis, float32 or float64; in units of the grid, of which a standard deviation of the noise has 2²⁰.
        margin : float
            By how much more noise is added than is promised, relatively.
        unit : float
            What one step of the grid is in the answer.
        epoch, step : int
            Both counted from 0.
        """
        if runs_on(total):
            if total.device not in self._devices:
                self._devices[total.device] = DeviceNoise(key=self._key, device=total.device)
            return self._devices[total.device].add(total, margin=margin, unit=unit, epoch=epoch, step=step)
        if total.device.type != "cpu":
            return total.copy_(self.add(total.cpu(), margin=margin, unit=unit, epoch=epoch, step=step))
        self._stream.reset_nonce(self._start(total, epoch, step))
        for part in (total,) if total.numel() <= 2 * _PAIRS else torch.split(total, 2 * _PAIRS):
            count = part.numel()
            if count not in self._rooms:
                self._rooms[count] = _Room(count)
            part.copy_(self._rooms[count].noised(self._stream, part, (1 + margin) / GRID))
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


class _Room:
    """Memory for some numbers, which is used again and again: to ask for new memory takes as long as the cosines."""

    def __init__(self, count: int) -> None:
        pairs = -(-count // 2)
        self._words = torch.empty((2, pairs), dtype=torch.int64)
        self._bytes = memoryview(self._words.numpy()).cast("B")  # type: ignore[arg-type]
        self._zeros = _ZEROS[: 16 * pairs]
        self._sums = self._words.view(torch.float64)  # where the words were, when they are used up
        self._sum = self._sums.view(-1)[:count]
        self._waves = torch.empty((2, pairs), dtype=torch.float64)
        self._cosine, self._angle = self._waves
        self._result = self._waves.view(-1)[:count]
        self._radius = torch.empty(pairs, dtype=torch.float64)

    def noised(self, stream: Any, values: Tensor, deviation: float) -> Tensor:
        """Return the values plus independent normal numbers of this standard deviation, rounded to whole numbers."""
        stream.update_into(self._zeros, self._bytes)
        self._waves.copy_(self._words)
        # Words lie on both sides of 0, evenly with the half that is added.
        torch.add(self._cosine, 0.5, out=self._radius)
        self._radius.abs_().mul_(2.0**-63).log_().mul_(-2 * deviation * deviation).sqrt_()
        self._angle.mul_(math.pi * 2.0**-63)
        torch.cos(self._angle, out=self._cosine)
        self._angle.sin_()
        self._sum.copy_(values)
        torch.addcmul(self._sums, self._waves, self._radius, out=self._waves)
        return self._result.round_()
