"""Noise on a graphics processor: the cipher by its standard, the hash and the normal numbers by their definitions.

Kernels run where there is a graphics processor; the rounds of the cipher, which are the same functions, run anywhere.
"""

import hmac
import itertools
import math

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray
from torch import Tensor

from shoal.sgd.gradient_noise import GRID, subkey
from shoal.sgd.torch import step_noise
from shoal.sgd.torch.kernels import runs_on
from shoal.sgd.torch.step_noise import DeviceNoise

Words = NDArray[np.uint32]
KEY = bytes(range(32))
NO_DEVICE = not torch.cuda.is_available() or not runs_on(torch.zeros(1, device="cuda"))
needs_device = pytest.mark.skipif(NO_DEVICE, reason="needs a graphics processor and Triton")


def words_of(text: str) -> list[Words]:
    return [np.array([int(word, 16)], np.uint32) for word in text.split()]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Take the functions as they are written, even where Triton would compile them."""
    if "device" not in request.node.name:
        for name in ("quarter", "rounds"):
            function = getattr(step_noise, name)
            monkeypatch.setattr(step_noise, name, getattr(function, "fn", function))


def test_quarter_round_is_that_of_the_standard() -> None:
    # RFC 8439, section 2.1.1
    found = step_noise.quarter(*words_of("11111111 01020304 9b8d6f43 01234567"))
    assert [int(word[0]) for word in found] == [0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB]


def test_rounds_are_those_of_the_standard() -> None:
    # RFC 8439, section 2.3.2: the state after twenty rounds
    state = words_of(
        "61707865 3320646e 79622d32 6b206574 03020100 07060504 0b0a0908 0f0e0d0c "
        "13121110 17161514 1b1a1918 1f1e1d1c 00000001 09000000 4a000000 00000000"
    )
    after = words_of(
        "837778ab e238d763 a67ae21e 5950bb2f c4f2d0c7 fc62bb2f 8fa018fc 3f5ec7b7 "
        "335271c2 f29489f3 eabda8fc 82e46ebd d19c12b4 b04e16de 9e83d0cb 4e3c50a2"
    )
    assert [int(word[0]) for word in step_noise.rounds(*state)] == [int(word[0]) for word in after]


def stream(key: bytes, blocks: int) -> Words:
    """Return the words of these blocks, one row for each, by another library."""
    encryptor = Cipher(ChaCha20(key, bytes(16)), None).encryptor()
    return np.frombuffer(encryptor.update(bytes(64 * blocks)), "<u4").reshape(blocks, 16)


def test_rounds_and_the_final_addition_are_the_cipher_of_another_library() -> None:
    blocks = 1000
    start = [np.uint32(word) for word in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)]
    start += list(np.frombuffer(KEY, "<u4")) + [np.uint32(0)] * 4
    state = [np.full(blocks, word) for word in start]
    state[12] = np.arange(blocks, dtype=np.uint32)
    mixed = step_noise.rounds(*state)
    found = np.stack([word + first for word, first in zip(mixed, state, strict=True)], axis=1)
    assert np.array_equal(found, stream(KEY, blocks))


def hashed(words: Words, level: int) -> Words:
    """Return one level of the hash, as its definition has it."""
    encryptor = Cipher(AES256(subkey(KEY, "hash of sums on a device", level)), CTR(bytes(16))).encryptor()
    secrets = np.frombuffer(encryptor.update(bytes(4 * 1024 * 8)), "<u8").reshape(4, 1024)
    rows = np.zeros(-(-len(words) // 1024) * 1024, np.uint64)
    rows[: len(words)] = words
    sums: NDArray[np.uint64] = (rows.reshape(-1, 1, 1024) * secrets).sum(axis=2, dtype=np.uint64)
    result: Words = sums.reshape(-1).view(np.uint32)
    return result


def key_of_step(total: Tensor, epoch: int, step: int) -> bytes:
    words = total.cpu().numpy().view(np.uint32)
    for level in itertools.count():
        if len(words) <= 4096:
            break
        words = hashed(words, level)
    message = b"".join(number.to_bytes(8, "big") for number in (epoch, step, total.numel())) + words.tobytes()
    return hmac.digest(subkey(KEY, "noise of steps on a device", 0), message, "sha256")


def normals(key: bytes, count: int) -> NDArray[np.float64]:
    """Return standard normal numbers in the order of the kernel."""
    programs = -(-count // 1024)
    words = stream(key, 128 * programs).reshape(programs, 128, 4, 2, 2)
    numbers = np.ascontiguousarray(words).view("<i8")[..., 0]
    radius = np.sqrt(-2 * np.log(np.abs(numbers[..., 0] + 0.5) * 2.0**-63))
    angle = numbers[..., 1] * (math.pi * 2.0**-63)
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return both.transpose(0, 2, 3, 1).reshape(-1)[:count]


@needs_device
@pytest.mark.parametrize("count", [1, 7, 1024, 4097, 100_003, 1_234_567])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_on_the_device_is_what_its_definition_says(count: int, dtype: torch.dtype) -> None:
    total = torch.randn(count, dtype=dtype, device="cuda") * 2**20
    expected = total.cpu().double().numpy() + normals(key_of_step(total, 3, 5), count) * (1.25 / GRID)
    noise = DeviceNoise(key=KEY, device=torch.device("cuda"))
    noise.add(torch.ones_like(total), margin=0.25, unit=0.5, epoch=3, step=4)
    found = noise.add(total, margin=0.25, unit=0.5, epoch=3, step=5)
    assert found is total
    steps = found.cpu().double().numpy() / 0.5
    assert np.array_equal(steps, np.rint(steps))
    apart = np.abs(steps - expected)
    least = 0.5 + 2.0**-20 + np.abs(expected) * (2.0**-24 if dtype is torch.float32 else 0)
    assert (apart <= least).all()


@needs_device
def test_noise_on_the_device_depends_on_key_epoch_step_and_every_word() -> None:
    total = torch.randn(300_000, device="cuda") * 100

    def added(total: Tensor, key: bytes = KEY, epoch: int = 0, step: int = 0) -> Tensor:
        noise = DeviceNoise(key=key, device=total.device)
        return noise.add(total.clone(), margin=0.0, unit=1.0, epoch=epoch, step=step)

    first = added(total)
    assert torch.equal(first, added(total))
    others = [added(total, key=bytes(32)), added(total, epoch=1), added(total, step=1)]
    for index in (0, 1023, 1024, 299_999):
        other = total.clone()
        other[index] = torch.nextafter(other[index], other[index] + 1)
        others.append(added(other))
    for one, two in itertools.combinations([first, *others], 2):
        assert 1.2 < float((one - two).double().std()) * GRID < 1.7  # √2, for independent noise


@needs_device
def test_noise_on_the_device_is_normal() -> None:
    count = 1 << 22
    noise = DeviceNoise(key=KEY, device=torch.device("cuda"))
    added = noise.add(torch.zeros(count, device="cuda"), margin=0.0, unit=GRID, epoch=0, step=0).double()
    ordered, _ = torch.sort(added)
    even = (torch.arange(count, device="cuda", dtype=torch.float64) + 0.5) / count
    distance = (torch.special.ndtr(ordered) - even).abs().max()
    assert float(distance) < 2.0 / math.sqrt(count)  # a probability below 10⁻³ of being larger, for a fixed key
    assert abs(float(torch.corrcoef(added.view(2, -1))[0, 1])) < 5 / math.sqrt(count / 2)
