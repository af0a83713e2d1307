"""A training in a file: a line that says what it is, a hash, and tensors. It holds the secret key."""

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from shoal.checks import whole
from shoal.durable_file import opened, whole_file
from shoal.errors import DamagedError, FormatError, ParameterError, ShoalError
from shoal.sgd.account import Account

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
    with opened(path) as file:
        if file.read(len(_HEAD)) != _HEAD:
            raise FormatError(f"{path} is not a training of this version; give resume= a file that save() wrote")
        digest = file.read(_HASH_BYTES)
        body = file.read()
    if hashlib.sha256(body).digest() != digest:
        raise DamagedError(f"{path} is damaged or cut short; use an earlier copy of it")
    try:
        fields = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except Exception as error:
        raise FormatError(f"{path} holds more than tensors and numbers, and was not read") from error
    if not isinstance(fields, dict):
        raise FormatError(f"{path} is not a training; give resume= a file that save() wrote")
    return fields


def compare(saved: dict[str, Any], current: dict[str, Any], *, who: str, advice: str) -> None:
    """Refuse what was made with other settings or other data.

    All that `current` has must be in `saved`. `who` is whose `saved` is, and `advice` is what
    to do.
    """
    for name, value in current.items():
        old = saved.get(name)
        if old == value:
            continue
        shown = f"{old!r}, not {value!r}" if max(len(repr(old)), len(repr(value))) < 80 else "another"
        raise ParameterError(f"{who} has another {name.replace('_', ' ')} ({shown}); {advice}")


@contextmanager
def whole_fields(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in words that a file lacks what a training saves, whatever is raised by that."""
    try:
        yield
    except ShoalError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError(
            f"{os.fspath(path)} lacks what a training saves; give resume= a file as save() wrote it"
        ) from error


def account_of(fields: dict[str, Any], begun: Account) -> Account:
    """Return the account in a file; refuse one that is not of this training, or not of what was done by then.

    `begun` is the account of the same training before its first epoch.
    """
    account = Account.from_dict(fields["account"])
    run = begun.run
    epoch = whole(epoch=fields["epoch"], least=0)
    step = whole(step=fields["step"], least=0, most=run.steps - 1)
    same = replace(account.run, epochs=run.epochs) == run
    if not same or (account.delta, account.budget) != (begun.delta, begun.budget):
        raise FormatError("the account in the file is not of the training in it; use a file as save() wrote it")
    if account.epochs != epoch + (step > 0):
        raise FormatError(
            f"the account in the file has {account.epochs:,} epochs, and {epoch:,} epochs and {step:,} steps were "
            "made; use a file as save() wrote it"
        )
    account.run = replace(account.run, epochs=max(account.run.epochs, run.epochs))
    return account
