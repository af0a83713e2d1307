"""Files of reports and counts, as people would break them."""

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shoal
from shoal.errors import ParameterError
from shoal.frequency.count_file import NamedCounts, aggregated, read_counts, write_counts
from shoal.frequency.names import Names
from shoal.frequency.report_file import ReportFile, records_at_once, write_reports
from shoal.frequency.shuffle import permutation, shuffle
from shoal.frequency.trial import run_trials, zipf_people
from shoal.frequency.whole_file import whole_file
from shoal.randomizers import MECHANISMS, Categorical
from shoal.randomizers.coins import Coins, Simulation

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
    assert mixed.stat().st_size == path.stat().st_size
    state = tmp_path / "counts.shoal"
    write_counts(state, NamedCounts(file.counts(), names), inputs=[])
    both = aggregated([path, state])
    assert both.counts == mechanism.aggregate(reports) + mechanism.aggregate(reports)
    assert both.names == names


def test_any_cut_and_any_flipped_bit_is_found(tmp_path: Path) -> None:
    path, broken = tmp_path / "reports.shoal", tmp_path / "broken.shoal"
    report_file(path, count=50)
    data = path.read_bytes()
    for size in range(len(data)):
        broken.write_bytes(data[:size])
        with pytest.raises(ParameterError, match=r"broken\.shoal"):
            read_counts(broken)
    for place in range(len(data)):
        broken.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        with pytest.raises(ParameterError, match=r"broken\.shoal"):
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
        with pytest.raises(ParameterError, match=message):
            read_counts(broken)
    for missing in (tmp_path, tmp_path / "nothing.shoal"):
        with pytest.raises(ParameterError, match="cannot read"):
            read_counts(missing)


def test_headers_that_contradict_themselves_are_told(tmp_path: Path) -> None:
    path = tmp_path / "reports.shoal"
    mechanism = shoal.RandomizedResponse(categories=300, local_epsilon=2)
    write_reports(path, mechanism, Names(2, ("a", "b")), [bytes(600)], inputs=[])
    with pytest.raises(ParameterError, match="names 2 categories"):
        ReportFile.opened(path)


def test_states_of_different_people_only_add(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.shoal", "b.shoal", "c.shoal"))
    hadamard = shoal.HadamardResponse(categories=4, local_epsilon=2)
    report_file(first, hadamard)
    report_file(second, shoal.HadamardResponse(categories=4, local_epsilon=1))
    report_file(third, hadamard, names=Names.parsed("a,b,c,d"))
    for combine in (aggregated, lambda paths: shuffle(paths, tmp_path / "out.shoal")):
        with pytest.raises(ParameterError, match=r"b\.shoal holds reports of HadamardResponse\(categories=4, local_ep"):
            combine([first, second])
        with pytest.raises(ParameterError, match=r"categories.*c\.shoal|c\.shoal.*categories"):
            combine([first, third])
        with pytest.raises(ParameterError, match="given twice"):
            combine([first, tmp_path / "." / "a.shoal"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.shoal", "b.shoal", "c.shoal"]


def test_broken_count_files_are_told(tmp_path: Path) -> None:
    path, broken = tmp_path / "counts.shoal", tmp_path / "broken.shoal"
    mechanism: Categorical = shoal.RandomizedResponse(categories=3, local_epsilon=1)
    counts = mechanism.aggregate(np.array([0, 1, 1]))
    write_counts(path, NamedCounts(counts, COLORS), inputs=[])
    data = path.read_bytes()
    for size in range(len(data)):
        broken.write_bytes(data[:size])
        with pytest.raises(ParameterError, match=r"broken\.shoal"):
            read_counts(broken)
        broken.write_bytes(data[:size] + bytes([data[size] ^ 4]) + data[size + 1 :])
        with pytest.raises(ParameterError, match=r"broken\.shoal"):
            read_counts(broken)
    broken.write_bytes(data + b"\n")
    with pytest.raises(ParameterError, match="damaged"):
        read_counts(broken)
    broken.write_bytes(counts.to_bytes())
    assert read_counts(broken).counts == counts  # a state as the library writes it will do


# --- shuffle ----------------------------------------------------------------------------------------------------------


def test_every_order_is_equally_likely() -> None:
    coins, rounds = Simulation(seed=3), 24_000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(rounds):
        order = tuple(permutation(4, coins).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    chi_square = sum((count - rounds / 24) ** 2 / (rounds / 24) for count in seen.values())
    assert chi_square < 80  # 23 degrees of freedom: the chance of more is below 1e-7


def test_equal_keys_are_drawn_again() -> None:
    class Few(Coins):
        asked = 0

        def words(self, count: int) -> Any:
            self.asked += 1
            return np.arange(count, dtype=np.uint64)[::-1] // (2 if self.asked < 3 else 1)

    coins = Few()
    assert permutation(4, coins).tolist() == [3, 2, 1, 0]
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
    with pytest.raises(ParameterError, match="checksum"):
        shuffle([path], mixed, bucket_records=bucket_records)
    assert [file.name for file in tmp_path.iterdir()] == ["a.shoal"]


# --- whole files ------------------------------------------------------------------------------------------------------


class Stop(BaseException):
    pass


@pytest.mark.parametrize("trouble", [Stop, KeyboardInterrupt, ParameterError("no"), OSError(errno.ENOSPC, "full")])
def test_nothing_half_written_is_left_behind(trouble: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "reports.shoal", "as it was")
    kind = ParameterError if isinstance(trouble, Exception) else trouble
    with pytest.raises(kind), whole_file(path) as file:
        file.write(b"new" * 10**6)
        raise trouble
    assert [file.name for file in tmp_path.iterdir()] == ["reports.shoal"]
    assert path.read_text() == "as it was"


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    mechanism = shoal.UnaryEncoding(categories=1000, local_epsilon=1)
    source, target = tmp_path / "a.shoal", tmp_path / "b.shoal"
    report_file(source, mechanism, count=20_000)  # 2.5 MB
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        for bucket_records in (1000, 100_000):
            with pytest.raises(ParameterError, match=r"cannot write .*b\.shoal.*nothing was written.*another disk"):
                shuffle([source], target, bucket_records=bucket_records)
            assert [file.name for file in tmp_path.iterdir()] == ["a.shoal"]
        with pytest.raises(ParameterError, match="cannot write"):
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
    with pytest.raises(ParameterError, match="make the folder first"):
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


# --- trials and size --------------------------------------------------------------------------------------------------


def test_trials_measure_what_was_foretold() -> None:
    mechanism = shoal.HadamardResponse(categories=50, local_epsilon=2)
    people = zipf_people(20_000, 50)
    assert int(people.sum()) == 20_000
    done = run_trials(mechanism, people, trials=200, seed=4)
    facts = done.to_dict()
    assert 0.9 < facts["ratio"] < 1.1
    assert 0.94 < facts["coverage"] < 0.96
    again = run_trials(mechanism, people, trials=200, seed=4)
    assert np.array_equal(again.squared_errors, done.squared_errors)
    with pytest.raises(ParameterError, match="trials"):
        run_trials(mechanism, people, trials=0, seed=4)


def test_wide_reports_are_held_a_few_at_a_time() -> None:
    assert records_at_once(2) == 1 << 20
    assert records_at_once(10**5) == 20
    assert records_at_once(10**9) == 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("many")
    colors = pa.array([f"color number {number}" for number in range(500)])
    indices = pa.array(np.arange(2_000_000) % 500, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, colors)
    # One row group without a dictionary: the hardest way to have it.
    parquet.write_table(pa.table({"color": column.cast(pa.string())}), folder / "data.parquet", use_dictionary=False)
    (folder / "names.txt").write_text("\n".join(colors.to_pylist()) + "\n")
    yield folder


def test_memory_stays_small(many: Path) -> None:
    program = textwrap.dedent("""
        import json, resource, sys
        from pathlib import Path
        import shoal
        from shoal.frequency import count_file, names, report_file, shuffle, values
        folder = Path(sys.argv[1])
        known = names.Names.parsed(str(folder / "names.txt"))
        mechanism = shoal.HadamardResponse(categories=500, local_epsilon=2)
        import pyarrow.compute, pyarrow.parquet
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        parts = (mechanism.to_bytes(mechanism.randomize(part))
                 for part in values.values(folder / "data.parquet", "color", known))
        report_file.write_reports(folder / "a.shoal", mechanism, known, parts, inputs=[])
        shuffle.shuffle([folder / "a.shoal"], folder / "b.shoal", bucket_records=200_000)
        counts = count_file.aggregated([folder / "b.shoal"]).counts
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([counts.reports, (after - before) / 1024]))
    """)
    result = subprocess.run([sys.executable, "-c", program, str(many)], capture_output=True, check=True, text=True)
    reports, grown = json.loads(result.stdout)
    assert reports == 2_000_000
    assert grown < 150  # MiB; the text alone is 60, and its offsets 8
