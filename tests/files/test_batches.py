"""Batches: nobody is counted twice, whatever their reports went through; and what a signal to end leaves behind."""

import errno
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.durable_file import cleaned_up, whole_file
from shoal.errors import ParameterError, StorageError
from shoal.files.count_file import NamedCounts, aggregated, read_counts, write_counts
from shoal.files.names import Names
from shoal.files.report_file import ReportFile, joined_batches, write_reports
from shoal.mechanisms import Categorical
from shoal.shuffling import shuffle

MECHANISM = shoal.RandomizedResponse(categories=5, local_epsilon=1)


def reports(path: Path, *, mechanism: Categorical = MECHANISM, names: Names | None = None) -> Path:
    records = mechanism.to_bytes(mechanism.randomize(np.arange(100) % mechanism.categories))
    write_reports(path, mechanism, names or Names(mechanism.categories), [records], inputs=[])
    return path


def shuffled(path: Path, *sources: Path) -> Path:
    shuffle(sources, path)
    return path


def counted(path: Path, *sources: Path) -> Path:
    write_counts(path, aggregated(sources), inputs=sources)
    return path


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    return reports(tmp_path / "a.shoal")


def test_every_batch_has_a_name_of_its_own_that_stays_with_it(batch: Path, tmp_path: Path) -> None:
    other = reports(tmp_path / "b.shoal")
    first, second = ReportFile.opened(batch), ReportFile.opened(other)
    assert len(first.batches) == len(second.batches) == 1
    assert first.batches != second.batches
    both = tuple(sorted(first.batches + second.batches))
    mixed = ReportFile.opened(shuffled(tmp_path / "mixed.shoal", other, batch))
    assert mixed.batches == both
    assert read_counts(counted(tmp_path / "counts.shoal", batch, other)).batches == both
    assert read_counts(counted(tmp_path / "again.shoal", tmp_path / "counts.shoal")).batches == both
    assert (first.shuffled, mixed.shuffled) == (False, True)
    assert aggregated([batch, other]).in_order == (batch, other)
    assert aggregated([batch, counted(tmp_path / "c.shoal", other)]).in_order == (batch,)
    assert aggregated([mixed.path]).in_order == ()


@pytest.mark.parametrize("bucket_records", [7, 10_000])
def test_a_copy_is_not_shuffled_in(bucket_records: int, batch: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.shoal"
    shutil.copy(batch, copy)
    with pytest.raises(ParameterError, match=r"a\.shoal and .*copy\.shoal hold the same reports"):
        shuffle([batch, copy], tmp_path / "out.shoal", bucket_records=bucket_records)
    assert not (tmp_path / "out.shoal").exists()


@pytest.mark.parametrize(
    "again",
    [
        lambda path, batch: Path(shutil.copy(batch, path)),
        shuffled,
        counted,
        lambda path, batch: counted(path, shuffled(path.with_name("s.shoal"), batch)),
        lambda path, batch: counted(path, reports(path.with_name("other.shoal")), batch),
        lambda path, batch: shuffled(path, reports(path.with_name("other.shoal")), batch),
    ],
)
def test_nobody_is_counted_twice(again: Callable[[Path, Path], Path], batch: Path, tmp_path: Path) -> None:
    path, third = again(tmp_path / "again.shoal", batch), reports(tmp_path / "third.shoal")
    told = rf"hold the same reports \(batch {ReportFile.opened(batch).batches[0][:4]}…\); give each batch once"
    for paths in ([batch, path], [path, third, batch]):
        with pytest.raises(ParameterError, match=told) as caught:
            aggregated(paths)
        assert f"{paths[0]} and {paths[-1]} hold" in str(caught.value)
    if path.read_bytes().startswith(b"shoal reports"):
        with pytest.raises(ParameterError, match=told):
            shuffle([path, batch], tmp_path / "out.shoal")
    assert aggregated([path, third]).counts.reports >= 200


def test_a_state_of_the_library_has_no_batch_until_it_is_added_up(batch: Path, tmp_path: Path) -> None:
    state, copy = tmp_path / "state.shoal", tmp_path / "copy.shoal"
    state.write_bytes(ReportFile.opened(batch).counts().to_bytes())
    shutil.copy(state, copy)
    assert aggregated([state, copy]).counts.reports == 200  # nobody can tell
    with pytest.raises(ParameterError, match="given twice"):
        aggregated([state, state])
    total = counted(tmp_path / "counts.shoal", state, batch)
    assert len(read_counts(total).batches) == 2
    assert read_counts(total).batches == read_counts(total).batches
    with pytest.raises(ParameterError, match="hold the same reports"):
        aggregated([total, counted(copy, total)])


def test_counts_made_by_hand_are_a_batch(tmp_path: Path) -> None:
    counts: Any = MECHANISM.aggregate(np.array([0, 1, 1]))
    first, second = NamedCounts(counts, Names(5)), NamedCounts(counts, Names(5))
    assert joined_batches([(tmp_path, first.batches), (tmp_path, second.batches)])
    write_counts(tmp_path / "a.shoal", first, inputs=[])
    assert read_counts(tmp_path / "a.shoal").batches == first.batches


def test_states_of_different_people_only_add(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.shoal", "b.shoal", "c.shoal"))
    hadamard = shoal.HadamardResponse(categories=4, local_epsilon=2)
    reports(first, mechanism=hadamard)
    reports(second, mechanism=shoal.HadamardResponse(categories=4, local_epsilon=1))
    reports(third, mechanism=hadamard, names=Names.parsed("a,b,c,d"))
    for combine in (aggregated, lambda paths: shuffle(paths, tmp_path / "out.shoal")):
        with pytest.raises(ParameterError, match=r"b\.shoal holds reports of HadamardResponse\(categories=4, local_ep"):
            combine([first, second])
        with pytest.raises(ParameterError, match=r"categories.*c\.shoal|c\.shoal.*categories"):
            combine([first, third])
        with pytest.raises(ParameterError, match="given twice"):
            combine([first, tmp_path / "." / "a.shoal"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.shoal", "b.shoal", "c.shoal"]


# --- whole files and signals ------------------------------------------------------------------------------------------


class Stop(BaseException):
    pass


@pytest.mark.parametrize("trouble", [Stop, KeyboardInterrupt, ParameterError("no"), OSError(errno.ENOSPC, "full")])
def test_nothing_half_written_is_left_behind(trouble: Any, tmp_path: Path) -> None:
    path = tmp_path / "reports.shoal"
    path.write_text("as it was")
    kind = (
        StorageError if isinstance(trouble, OSError) else ParameterError if isinstance(trouble, Exception) else trouble
    )
    with pytest.raises(kind), whole_file(path) as file:
        file.write(b"new" * 10**6)
        raise trouble
    assert [file.name for file in tmp_path.iterdir()] == ["reports.shoal"]
    assert path.read_text() == "as it was"


def test_a_signal_to_end_removes_what_is_half_written(tmp_path: Path) -> None:
    path = tmp_path / "a.shoal"
    with pytest.raises(SystemExit) as caught, whole_file(path) as file:
        file.write(b"new" * 10**6)
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_to_end_removes_the_buckets(batch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deal(_files: Any, paths: list[Path]) -> None:
        paths[0].write_bytes(b"half a bucket")
        assert len(list(tmp_path.iterdir())) == 3
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("shoal.shuffling._deal", deal)
    with pytest.raises(SystemExit):
        shuffle([batch], tmp_path / "out.shoal", bucket_records=7)
    assert [path.name for path in tmp_path.iterdir()] == ["a.shoal"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signals_that_somebody_else_has_settled_are_left_alone(tmp_path: Path) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: got.append(number))
    try:
        with whole_file(tmp_path / "a.shoal") as file:
            os.kill(os.getpid(), signal.SIGTERM)
            file.write(b"done")
        assert got == [signal.SIGTERM]
        assert (tmp_path / "a.shoal").read_bytes() == b"done"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_files_are_written_in_other_threads_too(tmp_path: Path) -> None:
    def write() -> None:
        with cleaned_up(), whole_file(tmp_path / "a.shoal") as file:
            file.write(b"done")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (tmp_path / "a.shoal").read_bytes() == b"done"
