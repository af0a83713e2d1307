"""Files of reports and counts, as people would break them."""

import json
import math
import os
import resource
import stat
import struct
import time
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.errors import DamagedError, FileError, FormatError, ParameterError, StorageError
from shoal.files.count_file import NamedCounts, aggregated, read_counts, write_counts
from shoal.files.memory_limits import categorical
from shoal.files.names import Names
from shoal.files.report_file import MAGIC, ReportFile, write_reports
from shoal.mechanisms import Categorical, kinds, mechanism_of
from shoal.mechanisms.coins import Coins, Simulation
from shoal.shuffling import shuffle

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

COLORS = Names.parsed("red,green,blue")


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- report files -----------------------------------------------------------------------------------------------------


def report_file(path: Path, mechanism: Categorical | None = None, count: int = 1000, names: Names | None = None) -> Any:
    mechanism = mechanism or shoal.HadamardResponse(categories=300, local_epsilon=2)
    reports = mechanism.randomize(np.arange(count) % mechanism.categories)
    write_reports(path, mechanism, names or Names(mechanism.categories), [mechanism.to_bytes(reports)], inputs=[])
    return reports


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_goes_through_files(name: str, tmp_path: Path) -> None:
    mechanism = MECHANISMS[name](categories=37, local_epsilon=1.5)
    path, mixed = tmp_path / "reports.shoal", tmp_path / "mixed.shoal"
    names = Names.labelled([f"größe {number}" for number in range(37)])
    reports = report_file(path, mechanism, names=names)
    file = ReportFile.opened(path)
    assert (file.mechanism, file.names, file.reports) == (mechanism, names, 1000)
    assert file.counts() == mechanism.aggregate(reports)
    shuffle([path], mixed)
    assert read_counts(mixed).counts == mechanism.aggregate(reports)
    assert mixed.stat().st_size == path.stat().st_size - 1  # true is shorter than false
    state = tmp_path / "counts.shoal"
    write_counts(state, NamedCounts(file.counts(), names), inputs=[])
    both = aggregated([path, state])
    assert both.counts == mechanism.aggregate(reports) + mechanism.aggregate(reports)
    assert both.names == names


@pytest.mark.slow
def test_any_cut_and_any_flipped_bit_is_found(tmp_path: Path) -> None:
    path, broken = tmp_path / "reports.shoal", tmp_path / "broken.shoal"
    report_file(path, count=50)
    data = path.read_bytes()
    for size in range(len(data)):
        broken.write_bytes(data[:size])
        with pytest.raises(FileError, match=r"broken\.shoal"):
            read_counts(broken)
    for place in range(len(data)):
        broken.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        with pytest.raises(FileError, match=r"broken\.shoal"):
            read_counts(broken)


def test_what_report_files_have_wrong_is_told_with_the_record(tmp_path: Path) -> None:
    path, broken = tmp_path / "reports.shoal", tmp_path / "broken.shoal"
    mechanism = shoal.RandomizedResponse(categories=300, local_epsilon=2)
    report_file(path, mechanism)
    data = path.read_bytes()
    for content, message in (
        (data[:-1], "cut off in record 1,000 of 1,000"),
        (data[:-100], "cut off in record 951 of 1,000"),
        (data + b"\0", "goes on for 1 bytes after its last record 1,000"),
        (b"", "is empty"),
        (b"color\nred\n", "no report file and no count file"),
        (data.replace(b"reports 1", b"reports 2", 1), "version '2'"),
        (data[:20], "cut off after 20 bytes, before its first record"),
        (data[:100], "cut off in its header"),
        (data[:-1400] + b"\xff\xff" + data[-1398:], "record 301 is no report of RandomizedResponse"),
        (data[:-1400] + bytes([data[-1400] ^ 1]) + data[-1399:], r"checksum of its records|record 301"),
    ):
        broken.write_bytes(content)
        with pytest.raises(FileError, match=message):
            read_counts(broken)
    for missing in (tmp_path, tmp_path / "nothing.shoal"):
        with pytest.raises(StorageError, match="cannot read"):
            read_counts(missing)


def test_headers_that_contradict_themselves_are_told(tmp_path: Path) -> None:
    path = tmp_path / "reports.shoal"
    mechanism = shoal.RandomizedResponse(categories=300, local_epsilon=2)
    write_reports(path, mechanism, Names(2, ("a", "b")), [bytes(600)], inputs=[])
    with pytest.raises(FormatError, match="names 2 categories"):
        ReportFile.opened(path)


GOOD = shoal.RandomizedResponse(categories=3, local_epsilon=1).to_dict()
BAD_NAMES: tuple[Any, ...] = (
    [1, 2, 3], ["a", "b", 3], ["a", "b", None], ["a", "b", ["c"]], "abc", {"a": 1, "b": 2, "c": 3}, 3, True, [], ["a"],
    ["a", "b"], ["a", "b", "c", "d"], ["a", "b", "a"], ["a", "", "c"], ["a", "b", "\ud800"],
)  # fmt: skip
BAD_LENGTHS: tuple[Any, ...] = (None, "1", 1.0, True, [1], {}, 0, -1, 2, 10**30)
ID = "0123456789abcdef" * 2
BAD_BATCHES: tuple[Any, ...] = (
    None, [], ID, [ID[1:]], [ID, ID], [ID.upper()], ["f" + ID[1:], ID], [1], {ID: 1}, [ID + "\n"],
)  # fmt: skip
PLAIN = {"names": None, "batches": [ID]}
NO_HEADERS = (
    b"", b"[]", b"{}", b"3", b"null", b'"names"', b"\xff", b"{", b"nonsense", b"[" * 10**5, b"9" * 10**4, b"[[1]]",
)  # fmt: skip


def header_of(schema: dict[str, Any], length: int = 1, batch: str = ID) -> dict[str, Any]:
    return {"schema": schema, "names": None, "record_bytes": length, "batches": [batch], "shuffled": False}


def with_header(path: Path, header: Any, records: bytes = b"\0\1\1", count: int | None = None) -> Path:
    """Write a report file whose checksums fit, whatever its header says."""
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = struct.pack("<16sQII", MAGIC, len(records) if count is None else count, len(data), zlib.crc32(records))
    path.write_bytes(head + struct.pack("<I", zlib.crc32(data, zlib.crc32(head))) + data + records)
    return path


def with_names(path: Path, header: Any, state: bytes | None = None) -> Path:
    """Write a count file whose checksums fit, whatever its header says."""
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    if state is None:
        state = shoal.RandomizedResponse(categories=3, local_epsilon=1).aggregate(np.array([0, 1, 1])).to_bytes()
    path.write_bytes(b"shoal named counts 1\n" + struct.pack("<II", len(data), zlib.crc32(data)) + data + state)
    return path


def refused(path: Path) -> str:
    """Return the error that names the file and is not long."""
    with pytest.raises(FileError) as caught:
        read_counts(path)
    told = str(caught.value)
    assert str(path) in told
    assert "\n" not in told
    assert len(told) < len(str(path)) + 600
    return told


def test_headers_of_count_files_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "counts.shoal"
    assert read_counts(with_names(path, PLAIN | {"names": ["a", "b", "c"]})).names.labels == ("a", "b", "c")
    assert read_counts(with_names(path, PLAIN)).names == Names(3)
    for header in (*NO_HEADERS, {"names": None}, PLAIN | {"more": 1}, b'{"names": null, "names": null}'):
        assert "header" in refused(with_names(path, header))
    for names in BAD_NAMES:
        assert "name" in refused(with_names(path, PLAIN | {"names": names}))
    for batches in BAD_BATCHES:
        assert "batches in its header" in refused(with_names(path, PLAIN | {"batches": batches}))


def test_headers_of_report_files_are_checked(tmp_path: Path) -> None:
    path, good = tmp_path / "reports.shoal", header_of(GOOD) | {"names": ["a", "b", "c"]}
    assert read_counts(with_header(path, good)).counts.reports == 3
    less = [{name: good[name] for name in good if name != field} for field in good]
    for header in (*NO_HEADERS, *less, good | {"more": 1}):
        assert "header" in refused(with_header(path, header))
    assert "twice" in refused(with_header(path, json.dumps(good).encode().replace(b"{", b'{"names": null, ', 1)))
    assert "twice" in refused(with_header(path, json.dumps(good).encode().replace(b'{"m', b'{"categories": 9, "m', 1)))
    for names in BAD_NAMES:
        assert "name" in refused(with_header(path, good | {"names": names}))
    for length in BAD_LENGTHS:
        said = "a record has" if type(length) is int else "record_bytes"
        assert said in refused(with_header(path, good | {"record_bytes": length}))
    for batches in BAD_BATCHES:
        assert "batches in its header" in refused(with_header(path, good | {"batches": batches}))
    for shuffled in (None, 0, 1, "true"):
        assert "true or false" in refused(with_header(path, good | {"shuffled": shuffled}))
    schemas: list[Any] = [
        None, 3, [], {}, "randomized-response", GOOD | {"mechanism": "magic"}, GOOD | {"mechanism": ["rappor"]},
        {"mechanism": "laplace", "version": 1, "local_epsilon": 1, "lower": 0, "upper": 1}, GOOD | {"more": 1},
        GOOD | {"version": 2}, GOOD | {"version": True}, GOOD | {"categories": [3]}, GOOD | {"categories": True},
        GOOD | {"local_epsilon": None}, GOOD | {"local_epsilon": -1},
        GOOD | {"categories": 10**400}, GOOD | {"mechanism": "hadamard-response"},
        {name: value for name, value in GOOD.items() if name != "version"},
    ]  # fmt: skip
    for schema in schemas:
        assert "schema" in refused(with_header(path, good | {"schema": schema}))
    for number in (math.nan, math.inf):
        assert "is no number" in refused(with_header(path, good | {"schema": GOOD | {"local_epsilon": number}}))


@pytest.mark.parametrize(
    "schema",
    [
        {"mechanism": "randomized-response", "version": 1, "categories": 2**31, "local_epsilon": 1.0},
        {"mechanism": "randomized-response", "version": 1, "categories": 10**15, "local_epsilon": 1.0},
        {"mechanism": "rappor", "version": 1, "categories": 2**31, "local_epsilon": 1.0, "symmetric": True},
        {"mechanism": "hadamard-response", "version": 1, "categories": 2**31, "local_epsilon": 1.0, "blocks": 1},
        {"mechanism": "subset-selection", "version": 1, "categories": 2**31, "local_epsilon": 1.0, "size": 2**30},
        {"mechanism": "projective-geometry-response", "version": 1, "categories": 3, "local_epsilon": 1.0, "order": 3,
         "dimension": 64, "blocks": 1},
        {"mechanism": "projective-geometry-response", "version": 1, "categories": 3, "local_epsilon": 1.0, "order": 3,
         "dimension": 10**8, "blocks": 1},
        {"mechanism": "local-hashing", "version": 1, "categories": 3, "local_epsilon": 1.0, "buckets": 1_000_003},
        {"mechanism": "private-independent-rappor", "version": 1, "categories": 3, "local_epsilon": 1.0,
         "order": 1_000_003, "window": 3},
    ],
)  # fmt: skip
def test_a_small_file_can_not_ask_for_much_memory(schema: dict[str, Any], tmp_path: Path) -> None:
    path, began, length = tmp_path / "a.shoal", time.monotonic(), 1
    with suppress(ParameterError):  # as the mechanism itself would write it, so that nothing else is wrong
        made = mechanism_of(schema)
        schema, length = made.to_dict(), made.bytes_per_report
    tracemalloc.start()
    try:
        refused(
            with_header(path, header_of(schema, length), bytes(length) if length < 20 else b"", 1 if length < 20 else 0)
        )
        text = json.dumps(schema).encode()
        body = struct.pack("<Iq", len(text), 1) + text + bytes(8)
        state = b"shoal counts 1\n" + body + struct.pack("<I", zlib.crc32(body))
        refused(with_names(path, PLAIN, state))
        path.write_bytes(state)
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 60  # a loop over 2³¹ takes longer anywhere


def test_a_count_file_is_not_read_without_end(tmp_path: Path) -> None:
    path = with_names(tmp_path / "a.shoal", PLAIN)
    with path.open("r+b") as file:
        file.truncate(1 << 35)  # without a block on the disk
    assert "larger than any count file" in refused(path)


def test_no_mechanism_that_is_planned_is_too_large_for_a_file() -> None:
    assert all(categorical(kind(categories=1 << 20, local_epsilon=0.5)) for kind in MECHANISMS.values())
    assert categorical(shoal.HadamardResponse(categories=1 << 24, local_epsilon=2)).cells == 1 << 25


@pytest.mark.parametrize("count", [1, 2])
def test_files_without_reports(count: int, tmp_path: Path) -> None:
    paths = [
        with_header(tmp_path / f"{number}.shoal", header_of(GOOD, batch=f"{number:032x}"), b"")
        for number in range(count)
    ]
    with pytest.raises(ParameterError, match=r"no reports in .*0\.shoal.*mixed\.shoal was not written"):
        shuffle(paths, tmp_path / "mixed.shoal")
    assert aggregated(paths).counts.reports == 0
    full = with_header(tmp_path / "full.shoal", header_of(GOOD))
    assert shuffle([*paths, full], tmp_path / "mixed.shoal") == 3


@pytest.mark.slow
def test_broken_count_files_are_told(tmp_path: Path) -> None:
    path, broken = tmp_path / "counts.shoal", tmp_path / "broken.shoal"
    mechanism: Categorical = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    counts = mechanism.aggregate(np.array([0, 1, 1]))
    write_counts(path, NamedCounts(counts, COLORS), inputs=[])
    data = path.read_bytes()
    for size in range(len(data)):
        broken.write_bytes(data[:size])
        with pytest.raises(FileError, match=r"broken\.shoal"):
            read_counts(broken)
        broken.write_bytes(data[:size] + bytes([data[size] ^ 4]) + data[size + 1 :])
        with pytest.raises(FileError, match=r"broken\.shoal"):
            read_counts(broken)
    broken.write_bytes(data + b"\n")
    with pytest.raises(DamagedError, match="damaged"):
        read_counts(broken)
    broken.write_bytes(counts.to_bytes())
    assert read_counts(broken).counts == counts  # a state as the library writes it will do


# --- shuffle ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_order_is_equally_likely() -> None:
    coins, rounds = Simulation(seed=3), 24_000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(rounds):
        order = tuple(coins.permutation(4).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    chi_square = sum((count - rounds / 24) ** 2 / (rounds / 24) for count in seen.values())
    assert chi_square < 80  # 23 degrees of freedom: the probability of more is below 1e-7


def test_equal_keys_are_drawn_again() -> None:
    class Few(Coins):
        asked = 0

        def words(self, count: int) -> Any:
            self.asked += 1
            return np.arange(count, dtype=np.uint64)[::-1] // (2 if self.asked < 3 else 1)

    coins = Few()
    assert coins.permutation(4).tolist() == [3, 2, 1, 0]
    assert coins.asked == 3


@pytest.mark.parametrize("bucket_records", [7, 100, 10_000])
def test_shuffling_keeps_every_record_and_leaves_nothing(bucket_records: int, tmp_path: Path) -> None:
    mechanism = shoal.RandomizedResponse(categories=60_000, local_epsilon=30)
    first, second, mixed = (tmp_path / name for name in ("a.shoal", "b.shoal", "mixed.shoal"))
    for path, start in ((first, 0), (second, 500)):
        records = mechanism.to_bytes(np.arange(start, start + 500, dtype=np.uint16))
        write_reports(path, mechanism, Names(60_000), [records], inputs=[])
    assert shuffle([first, second], mixed, bucket_records=bucket_records) == 1000
    places = np.concatenate([mechanism.from_bytes(rows.tobytes()) for rows in ReportFile.opened(mixed).blocks("")])
    assert sorted(places.tolist()) == list(range(1000))
    # The sum of |σ(i) − i| of a random order of 1,000 is 333,333 ± 6,700.
    assert abs(np.abs(places.astype(int) - np.arange(1000)).sum() - 333_333) < 6 * 6_700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.shoal", "b.shoal", "mixed.shoal"]


@pytest.mark.parametrize("bucket_records", [7, 10_000])
def test_a_damaged_file_is_not_shuffled(bucket_records: int, tmp_path: Path) -> None:
    path, mixed = tmp_path / "a.shoal", tmp_path / "mixed.shoal"
    report_file(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(DamagedError, match="checksum"):
        shuffle([path], mixed, bucket_records=bucket_records)
    assert [file.name for file in tmp_path.iterdir()] == ["a.shoal"]


# --- whole files ------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    mechanism = shoal.UnaryEncoding(categories=1000, local_epsilon=1)
    source, target = tmp_path / "a.shoal", tmp_path / "b.shoal"
    report_file(source, mechanism, count=20_000)  # 2.5 MB
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        for bucket_records in (1000, 100_000):
            with pytest.raises(StorageError, match=r"cannot write .*b\.shoal.*nothing was written.*another disk"):
                shuffle([source], target, bucket_records=bucket_records)
            assert [file.name for file in tmp_path.iterdir()] == ["a.shoal"]
        with pytest.raises(StorageError, match="cannot write"):
            report_file(target, mechanism, count=20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in tmp_path.iterdir()] == ["a.shoal"]


def test_outputs_replace_files_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.shoal"
    report_file(path)
    path.chmod(0o640)
    link, target = tmp_path / "link.shoal", tmp_path / "b.shoal"
    link.symlink_to(path)
    hard = tmp_path / "hard.shoal"
    os.link(path, hard)
    before = path.read_bytes()
    for output in (path, link, hard):
        with pytest.raises(ParameterError, match="also an input"):
            shuffle([path], output)
    hard.unlink()
    with pytest.raises(ParameterError, match="is not a file"):
        shuffle([path], tmp_path)
    with pytest.raises(StorageError, match="make the folder first"):
        shuffle([path], tmp_path / "no" / "such.shoal")
    assert path.read_bytes() == before
    report_file(target)
    shuffle([target], link)  # the link stays, and what it points to is new
    assert link.is_symlink()
    assert path.read_bytes() != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_no_reports_are_no_file(tmp_path: Path) -> None:
    mechanism = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    with pytest.raises(ParameterError, match="no reports"):
        write_reports(tmp_path / "a.shoal", mechanism, COLORS, [], inputs=[])
    assert not list(tmp_path.iterdir())
