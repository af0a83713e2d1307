"""A file that is there is whole and on the disk, with the owner and the permissions that it had."""

import errno
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from shoal.durable_file import new_file, settle, whole_file
from shoal.errors import StorageError
from tests.disk import on_disk


def test_the_order_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes first, then the name, then the folder that has the name."""
    done = on_disk(monkeypatch)
    with whole_file(tmp_path / "a.shoal") as file:
        file.write(b"123")
    assert done == ["file of 3", "rename", "folder"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.shoal"
    path.touch()
    path.chmod(mode)
    with whole_file(path) as file:
        file.write(b"new")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (mode, b"new")
    with whole_file(path, mode=0o600) as file:
        file.write(b"newer")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (0o600, b"newer")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.shoal"
    path.touch()
    os.chown(path, 65534, 65534)
    with whole_file(path) as file:
        file.write(b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)


def test_a_file_that_is_there_is_not_new(tmp_path: Path) -> None:
    path = tmp_path / "a.shoal"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError), new_file(path):
        pytest.fail("it was opened")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    path = tmp_path / "a.shoal"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(StorageError, match="free some space") as caught, whole_file(path) as file:
        file.write(b"new")
    assert caught.value.errno == errno.ENOSPC
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.shoal": b"old"}


def test_a_signal_at_the_moment_of_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.open

    def interrupted(path: Any, *rest: Any) -> int:
        descriptor = create(path, *rest)
        if str(path).endswith(".part"):
            signal.raise_signal(signal.SIGTERM)
        return descriptor

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(SystemExit, match="143"), whole_file(tmp_path / "a"):
        pytest.fail("the signal was lost")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_cannot_be_settled(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        settle(tmp_path / "nothing")
