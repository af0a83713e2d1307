"""The order in which files reach the disk."""

import os
import stat
from typing import Any

import pytest


def on_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every fsync of a file or folder, and with every rename."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"file of {status.st_size}")
        fsync(descriptor)

    def spy_replace(old: Any, new: Any) -> None:
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    return done
