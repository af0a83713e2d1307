"""Errors are told apart by type, and nothing branches on the words of a message."""

import ast
import builtins
import errno
import os
import pickle
import re
import resource
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal import errors
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.keys import shuffler_key
from shoal.collect.sender import read_tokens
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.durable_file import whole_file
from shoal.errors import (
    DamagedError,
    FileError,
    ForgedError,
    FormatError,
    LedgerDamagedError,
    LedgerStorageError,
    ParameterError,
    ShoalError,
    StorageError,
    WrongKeyError,
)
from shoal.files.count_file import read_counts
from shoal.files.names import Names
from shoal.files.report_file import write_reports
from shoal.mechanisms.mechanism import Counts
from tests.collect.world import World, make_exact_world

SOURCE = Path(shoal.__file__).parent


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path / "world")


def test_the_tree_is_drawn_as_it_is() -> None:
    """Each class stands once in the drawing at the top, below its parent, with the builtin that it also is."""
    drawn: list[tuple[int, str, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([│├└─ ]*)([A-Za-z]+(?:Error|Warning))\b(?:\s+\((?:also|a) ([A-Za-z, ]+)\))?", line):
            drawn.append((len(found[1]) // 4, found[2], found[3] or ""))
    assert sorted(name for _, name, _ in drawn) == sorted(errors.__all__)
    path: list[str] = []
    for depth, name, also in drawn:
        path[depth:] = [name]
        kind = getattr(errors, name)
        assert issubclass(kind, tuple(getattr(errors, above) for above in path[-2:])), name
        for builtin in filter(None, also.split(", ")):
            assert issubclass(kind, getattr(builtins, builtin)), (name, builtin)


@pytest.mark.slow
def test_five_kinds_of_trouble_have_five_types(world: World, tmp_path: Path) -> None:
    """A forged signature, a damaged file, a full disk, a wrong key and a typo."""
    path = tmp_path / "batch"
    signed = world.release(path, world.sealed([1, 2, 3]))
    manifest = Manifest.verified(signed, world.task, 1)
    other = make_exact_world(tmp_path / "other")
    kinds: dict[str, type[BaseException]] = {}

    def caught(name: str, kind: type[BaseException]) -> "pytest.RaisesExc[BaseException]":
        kinds[name] = kind
        return pytest.raises(kind)

    with caught("forged", ForgedError):
        Manifest.verified(replace(manifest, reports=4).signed(other.shuffler_key), world.task, 1)
    path.write_bytes(path.read_bytes()[:-1])
    with caught("damaged", DamagedError):
        BatchFile.checked(path, world.task, manifest)
    with caught("wrong key", WrongKeyError):
        Shuffler(world.task, SqliteStore(tmp_path / "db", world.task, now=0), tmp_path, other.shuffler_key)
    with caught("typo", ParameterError):
        replace(world.task, too_small="exted")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with caught("full", StorageError) as full, whole_file(tmp_path / "large") as file:
            file.write(bytes(10**7))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(full.value, OSError) and full.value.errno == errno.EFBIG
    assert full.value.filename == str(tmp_path / "large")
    assert len(set(kinds.values())) == 5
    for one in kinds.values():
        assert not any(issubclass(one, two) for two in kinds.values() if two is not one)
        assert issubclass(one, ShoalError)


def test_what_is_not_there_has_its_errno(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.shoal"
    for read in (read_counts, Task.read, shuffler_key, read_tokens):
        with pytest.raises(StorageError) as caught:
            read(missing)
        assert caught.value.errno == errno.ENOENT and str(missing) in str(caught.value)
        assert isinstance(caught.value, FileError) and isinstance(caught.value, OSError)
        with pytest.raises(StorageError) as caught:
            read(tmp_path)
        assert caught.value.errno == errno.EISDIR


def test_another_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "reports.shoal"
    path.write_bytes(b"color\nred\n")
    for read in (read_counts, Task.read, shuffler_key):
        with pytest.raises(FormatError):
            read(path)
    made = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    write_reports(path, made, Names(3), [bytes(3)], inputs=[])
    data = path.read_bytes()
    for broken in (data[:-1], data[:40], data[:-1] + b"\1", data + b"\0"):
        path.write_bytes(broken)
        with pytest.raises(DamagedError):
            read_counts(path)
    with pytest.raises(DamagedError):
        Counts.from_bytes(made.aggregate(np.array([0, 1])).to_bytes()[:-1])


def test_a_ledger_says_which_kind(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{")
    with pytest.raises(LedgerDamagedError) as damaged:
        shoal.Ledger(tmp_path / "ledger.json")
    assert isinstance(damaged.value, DamagedError) and isinstance(damaged.value, shoal.errors.LedgerError)
    with pytest.raises(LedgerStorageError) as stored:
        shoal.Ledger(tmp_path / "no folder" / "ledger.json")
    assert isinstance(stored.value, StorageError) and stored.value.errno == errno.ENOENT


def _raise(path: str) -> None:
    raise StorageError(f"cannot write {path}", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path))


@pytest.mark.slow
def test_an_error_comes_back_whole_from_another_process() -> None:
    with get_context("spawn").Pool(1) as pool, pytest.raises(StorageError) as caught:
        pool.apply(_raise, ("x",))
    assert (caught.value.errno, caught.value.filename, str(caught.value)) == (errno.ENOSPC, "x", "cannot write x")
    again = pickle.loads(pickle.dumps(LedgerStorageError("no", OSError(errno.EIO, "bad"))))
    assert (type(again), again.errno, str(again)) == (LedgerStorageError, errno.EIO, "no")


@pytest.mark.slow
def test_nothing_branches_on_the_words_of_an_error() -> None:
    """No text is looked for in `str(error)` or in the arguments of an error, in any file of the package."""
    caught: list[str] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            told: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                told = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                looked = ("startswith", "endswith", "search", "match", "find", "fullmatch")
                told = [node.func.value, *node.args] if node.func.attr in looked else []
            words = {ast.unparse(part) for part in told}
            if any(re.match(r"str\((e|err|error|exc|exception|trouble)\)|\w*error\.args", word) for word in words):
                caught.append(f"{path.relative_to(SOURCE)}: {sorted(words)}")
    assert caught == []
