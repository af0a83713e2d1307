"""A released round: a file of sealed reports in random order, and a manifest that the shuffler has signed.

::

    shoal batch 1↵↵↵        16 bytes
    id of the task          32 bytes
    number of the round      8 bytes, the highest first, as all numbers
    number of messages       8 bytes; one for each report, but in bundles and with dummies
    bytes a report           4 bytes
    SHA-256 of all reports  32 bytes
    reports
"""

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, ForgedError, FormatError, StorageError
from shoal.strict_json import canonical, read_fields

MAGIC = b"shoal batch 1\n\n\n"
_HEAD = struct.Struct(">16s32sQQI32s")
_FIELDS = {"format": str, "record_bytes": int, "reports": int, "round": int, "sha256": str, "task": str}
_FORMAT = "shoal manifest 1"
_SEVERAL = "shoal manifest 2"
"""With the number of messages, where it is not that of reports."""
_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a release is, as the shuffler states it.

    `reports` counts people. `messages` is how many there are where people send bundles or the shuffler adds
    dummies, and otherwise None. `sha256` is of all messages, one after the other.
    """

    task: str
    round: int
    reports: int
    record_bytes: int
    sha256: str
    messages: int | None = None

    @property
    def records(self) -> int:
        """How many ciphertexts the batch has."""
        return self.reports if self.messages is None else self.messages

    @property
    def file_bytes(self) -> int:
        """How many bytes the batch file has."""
        return _HEAD.size + self.records * self.record_bytes

    def _stated(self) -> dict[str, Any]:
        stated = {"format": _FORMAT if self.messages is None else _SEVERAL} | asdict(self)
        return {name: value for name, value in stated.items() if value is not None}

    def _signed_bytes(self) -> bytes:
        stated = self._stated()
        return f"{stated['format']}\n".encode() + canonical(stated)

    def signed(self, key: Ed25519PrivateKey) -> bytes:
        """Return the manifest with a signature, as JSON."""
        return canonical(self._stated() | {"signature": key.sign(self._signed_bytes()).hex()})

    @staticmethod
    def verified(data: bytes, task: Task, number: int, *, source: str = "the manifest") -> "Manifest":
        """Return a manifest that the task's shuffler has signed for this task and round, or say why it is none."""
        several = {"messages": int} if task.several else {}
        values = read_fields(data, _FIELDS | several | {"signature": str}, source)
        if values.pop("format") != (_SEVERAL if several else _FORMAT):
            raise FormatError(f"{source} is no manifest of version {2 if several else 1}, as this task has it")
        signature = values.pop("signature")
        manifest = Manifest(**values)
        try:
            Ed25519PublicKey.from_public_bytes(task.shuffler_key).verify(
                bytes.fromhex(signature), manifest._signed_bytes()
            )
        except (InvalidSignature, ValueError):
            raise ForgedError(
                f"{source} is not signed by the shuffler of this task: somebody else made it, or changed it"
            ) from None
        if (manifest.task, manifest.round, manifest.record_bytes) != (task.id, number, task.ciphertext_bytes):
            raise FormatError(f"{source} is for another task or round than {task.id[:16]}…, round {number:,}")
        if manifest.reports < task.minimum:
            raise CollectError(
                f"{source} releases {manifest.reports:,} reports, and the task allows no fewer than {task.minimum:,}; "
                "the shuffler has not kept its promise: do not open this batch"
            )
        if not task.fits(manifest.reports, manifest.records):
            raise CollectError(
                f"{source} says that {manifest.reports:,} people make {manifest.records:,} messages, and in this task "
                "they can't: the shuffler has not kept its promise: do not open this batch"
            )
        return manifest


def write_batch(
    file: BinaryIO, task: Task, number: int, total: int, records: Iterable[bytes], *, messages: int | None = None
) -> Manifest:
    """Write a batch into an open, empty file, and return its manifest.

    `records` are the messages in their final order, many at once. `total` reports, one for each person, or
    `messages` are how many there must be.
    """
    if total < task.minimum:
        raise CollectError(f"{total:,} reports are fewer than the minimum of {task.minimum:,}; nothing is released")
    length, count = task.ciphertext_bytes, total if messages is None else messages
    if task.several != (messages is not None) or not task.fits(total, count):
        raise DamagedError(f"round {number:,} was said to have {count:,} messages of {total:,} people: it can't have")
    inner, size = hashlib.sha256(), 0
    file.write(bytes(_HEAD.size))
    for part in records:
        inner.update(part)
        size += len(part)
        file.write(part)
    if size != count * length:
        what = "reports" if messages is None else "messages"
        raise DamagedError(f"round {number:,} was said to have {count:,} {what}, and there are {size / length:,g}")
    file.seek(0)
    file.write(_HEAD.pack(MAGIC, task.id_bytes, number, count, length, inner.digest()))
    return Manifest(
        task=task.id, round=number, reports=total, record_bytes=length, sha256=inner.hexdigest(), messages=messages
    )


@dataclass(frozen=True)
class BatchFile:
    """A batch file that is the one which a manifest states, to the byte."""

    path: Path
    manifest: Manifest

    @staticmethod
    def checked(path: Path, task: Task, manifest: Manifest) -> "BatchFile":
        """Return a batch file once its header, its size and its hash are right."""
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                head = file.read(_HEAD.size)
                digest = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}; pull the round again", error) from None
        wanted = (MAGIC, task.id_bytes, manifest.round, manifest.records, manifest.record_bytes, digest.digest())
        if (  # the size first: what does not fit a file does not fit the header either
            size != manifest.file_bytes or head != _HEAD.pack(*wanted) or digest.hexdigest() != manifest.sha256
        ):
            raise DamagedError(f"{path} is not the batch that the shuffler signed; pull the round again")
        return BatchFile(path, manifest)

    def records(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the messages from one index to another."""
        length = self.manifest.record_bytes
        with self.path.open("rb") as file:
            file.seek(_HEAD.size + start * length)
            left = (stop - start) * length
            step = max(1, _AT_ONCE // length) * length
            while left:
                data = file.read(min(step, left))
                if not data or len(data) % length:
                    raise DamagedError(f"{self.path} was cut off while it was read; pull the round again")
                left -= len(data)
                for first in range(0, len(data), length):
                    yield data[first : first + length]
