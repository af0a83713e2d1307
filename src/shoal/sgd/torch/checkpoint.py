"""A training in a file: a line that says what it is, a hash, and tensors. It holds the secret key."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from shoal.durable_file import whole_file
from shoal.errors import DamagedError, FormatError, ParameterError, StorageError

__all__ = ["compare", "read_checkpoint", "write_checkpoint"]

_HEAD = b"shoal training 1\n"
_HASH_BYTES = 32


def write_checkpoint(path: Path, fields: dict[str, Any]) -> None:
    """Write the file, whole or not at all, so that only its owner can read it."""
    buffer = io.BytesIO()
    torch.save(fields, buffer)
    body = buffer.getbuffer()
    with whole_file(path, mode=0o600) as file:
        file.write(_HEAD + hashlib.sha256(body).digest())
        file.write(body)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what was written. No code in the file is run."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(_HEAD))
            digest, body = file.read(_HASH_BYTES), file.read()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}", error) from error
    if head != _HEAD:
        raise FormatError(f"{path} is not a training of this version; give resume= a file that save() wrote")
    if hashlib.sha256(body).digest() != digest:
        raise DamagedError(f"{path} is damaged or cut short; use an earlier copy of it")
    try:
        fields = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except Exception as error:
        raise FormatError(f"{path} holds more than tensors and numbers, and was not read") from error
    if not isinstance(fields, dict):
        raise FormatError(f"{path} is not a training; give resume= a file that save() wrote")
    return fields


def compare(saved: dict[str, Any], current: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse a training that was made with other settings or other data."""
    for name, value in current.items():
        old = saved.get(name)
        if old == value:
            continue
        shown = f"{old!r}, not {value!r}" if max(len(repr(old)), len(repr(value))) < 80 else "another"
        raise ParameterError(
            f"{os.fspath(path)} has another {name.replace('_', ' ')} ({shown}); resume with all settings and data as "
            "they were, or begin a new training"
        )
