r"""By what the shuffler knows that dummies are from a helper: a signature over the task, the round and their hash.

::

    Authorization: Helper KEY SHA256 SIGNATURE      in hexadecimal
    signed      "shoal dummies 1\n" ‖ id of the task (32 bytes) ‖ number of the round (8 bytes) ‖ SHA-256 of the body
"""

import hashlib
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shoal.collect.task import Task

__all__ = ["ASKING", "proof_of", "proven"]

ASKING = 0
"""In place of a round, to ask which rounds wait."""
_LABEL = b"shoal dummies 1\n"
_PROOF = re.compile("[Hh]elper ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")


def _signed(task: Task, number: int, digest: bytes) -> bytes:
    return _LABEL + task.id_bytes + number.to_bytes(8, "big") + digest


def proof_of(key: Ed25519PrivateKey, task: Task, number: int, body: bytes) -> str:
    """Return what a helper sends as Authorization with a body; the same each time for the same body."""
    digest = hashlib.sha256(body).digest()
    signature = key.sign(_signed(task, number, digest))
    return f"Helper {key.public_key().public_bytes_raw().hex()} {digest.hex()} {signature.hex()}"


def proven(given: str, task: Task, number: int) -> tuple[int, bytes] | None:
    """Return which helper of the task has signed this, and the SHA-256 that its body must have; None if none has."""
    parts = _PROOF.fullmatch(given)
    if parts is None:
        return None
    key, digest, signature = map(bytes.fromhex, parts.groups())
    if key not in task.helper_keys:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _signed(task, number, digest))
    except (InvalidSignature, ValueError):
        return None
    return task.helper_keys.index(key), digest
