"""The envelope: a report of fixed length, sealed so that only the analyst can read it, for one task and one round.

::

    plaintext   version (1 byte) ‖ mechanism (1 byte) ‖ value ‖ zeros up to a multiple of 16 bytes
    info        "shoal report 1" ‖ id of the task (32 bytes) ‖ number of the round (8 bytes, the highest first) ‖ key id
    ciphertext  encapsulated key (32 bytes) ‖ sealed plaintext ‖ tag (16 bytes)
"""

from collections.abc import Iterable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import ArrayLike

from shoal.collect.task import Task
from shoal.mechanisms import Categorical
from shoal.pairs.registry import wire_code

VERSION = 1
_LABEL = b"shoal report 1"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def information(task: Task, number: int) -> bytes:
    """Return what a report is sealed for: it can't be opened for another task, round or key."""
    return _LABEL + task.id_bytes + number.to_bytes(8, "big") + task.key_id


def head(task: Task) -> bytes:
    """Return the bytes before the value: the version, and the code under which the mechanism is registered."""
    return bytes([VERSION, wire_code(task.mechanism)])


def plaintexts(task: Task, reports: ArrayLike, mechanism: Categorical | None = None) -> list[bytes]:
    """Return reports as they are sealed, all of the same length; a heavy-hitter round has its own `mechanism`."""
    ran = mechanism or task.mechanism
    size = ran.bytes_per_report
    values = ran.to_bytes(reports)
    first = head(task)
    tail = bytes(task.plaintext_bytes - len(first) - size)
    return [first + values[start : start + size] + tail for start in range(0, len(values), size)]


def seal(task: Task, number: int, plaintext: bytes) -> bytes:
    """Return a report of `plaintexts`, sealed for the analyst in round `number`."""
    key = X25519PublicKey.from_public_bytes(task.analyst_key)
    return _SUITE.encrypt(plaintext, key, info=information(task, number))


def opened(private_key: X25519PrivateKey, info: bytes, ciphertexts: Iterable[Any]) -> list[bytes | None]:
    """Return what each ciphertext holds, or None if it is no report for this key and `information`."""
    decrypt = _SUITE.decrypt
    contents: list[bytes | None] = []
    for ciphertext in ciphertexts:
        try:
            contents.append(decrypt(ciphertext, private_key, info=info))
        except InvalidTag:
            contents.append(None)
    return contents
