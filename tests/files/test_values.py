"""Columns of data files and names of categories, as people would break them; trials, and how much memory is used."""

import gzip
import json
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
from shoal.errors import FormatError, MissingExtraError, ParameterError
from shoal.files.column_values import values
from shoal.files.memory_limits import records_at_once
from shoal.files.names import Names, UnknownValue
from shoal.files.table import Column
from shoal.planning.simulation import run_trials, zipf_people
from shoal.progress import followed

COLORS = Names.parsed("red,green,blue")


def numbers(path: Path, column: str = "color", names: Names = COLORS) -> list[int]:
    return [int(number) for batch in values(path, column, names) for number in batch]


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(folder: Path, name: str, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), folder / name)
    return folder / name


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", b"id,color\n1,red\n2,blue\n3,green\n"),
        ("no end.csv", b"id,color\n1,red\n2,blue\n3,green"),
        ("windows.csv", b"\xef\xbb\xbfcolor,id\r\nred,1\r\nblue,2\r\ngreen,3\r\n"),
        ("quoted.csv", b'note,color\n"a\nb, c","red"\n"""",blue\n,green\n'),
        ("tab.tsv", b"id\tcolor\n1\tred\n2\tblue\n3\tgreen\n"),
        ("packed.csv.gz", gzip.compress(b"color\nred\nblue\ngreen\n", mtime=0)),
        ("packed without a suffix", gzip.compress(b"color\nred\nblue\ngreen\n", mtime=0)),
    ],
)
def test_csv_files_of_many_kinds(name: str, text: bytes, tmp_path: Path) -> None:
    assert numbers(written(tmp_path, name, text)) == [0, 2, 1]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_parquet_columns_of_many_types(kind: Any, tmp_path: Path) -> None:
    column = pa.array(["red", "blue", "green", "blue"]).cast(kind)
    assert numbers(table(tmp_path, "data", color=column)) == [0, 2, 1, 2]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float64(), pa.decimal128(20, 1), pa.string(), pa.int32()])
def test_numbered_categories(kind: Any, tmp_path: Path) -> None:
    path = table(tmp_path, "data.parquet", digit=pa.array([3, 0, 9]).cast(kind))
    assert numbers(path, "digit", Names(10)) == [3, 0, 9]
    assert numbers(written(tmp_path, "data.csv", "digit\n3\n0\n9\n"), "digit", Names(10)) == [3, 0, 9]


def test_numbers_and_truth_values_may_have_names(tmp_path: Path) -> None:
    path = table(tmp_path, "data.parquet", zip=pa.array([8001, 3000]), yes=pa.array([True, False]))
    assert numbers(path, "zip", Names.parsed("3000,8001")) == [1, 0]
    assert numbers(path, "yes", Names.parsed("false,true")) == [1, 0]
    assert numbers(path, "yes", Names(2)) == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("color\nred\nmauve\n", r"row 2 \(line 3\): column 'color' holds none of the 3 categories; correct it"),
        ("color\nred\n\nblue\n", r"row 2 \(line 3\): column 'color' is empty"),
        ("id,color\n1,red\n2,\n", r"row 2 \(line 3\): column 'color' is empty"),
        ('note,color\n"a\nb",red\nc,pink\n', r"row 2 \(line 4\): column 'color' holds none"),
        ("color\nRed \n", "holds none of the 3 .* differs from one of them in spaces or capitals only"),
        (b"color\nr\xffd\n", r"row 1 \(line 2\): column 'color' holds none"),
        ("color\n" + "x" * 500 + "\n", "row 1 .*holds none"),
        ("color\n", "has no rows"),
        ("", "is empty"),
        ("\n", "no column 'color'"),
        ("colour\nred\n", "its columns are 'colour'"),
        ("color;id\nred;1\n", "its columns are 'color;id'; it seems to have semicolons.* save it with commas"),
        ("color\tid\nred\t1\n", r"tabs between the columns: call it \.tsv"),
        ("color,color\nred,red\n", "more than one column"),
        ("id,color\n1,red\n2,blue,4\n", r"row 3 must have 2 columns, got 3; the header is row 1"),
        (b"PK\x03\x04\0\0", "neither CSV"),
        (b"\x1f\x8b\x08\x00nonsense", "cannot read"),
        (gzip.compress(b"color\n" + b"red\n" * 10**5, mtime=0)[:-30], "cannot read"),
        (b"PAR1 and then nothing", "cannot read"),
        (b"shoal reports 1\n", "a file of shoal already"),
        ("color\nred\n" * 2, r"row 2 \(line 3\): column 'color' holds none"),
    ],
)
def test_what_csv_files_have_wrong_is_told(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, "data.csv", text)
    with pytest.raises((FormatError, ParameterError), match=message) as caught:
        numbers(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("value", ["mauve", " Red", "secret,7"])
def test_no_error_contains_the_value_of_a_person(value: str, tmp_path: Path) -> None:
    path = written(tmp_path, "data.csv", f"person,color\n1,red\n2,{value}\n")
    with pytest.raises((FormatError, ParameterError), match=r"row [23] ") as caught:
        numbers(path)
    told = f"{caught.value} {caught.value.__context__}"
    assert value.partition(",")[0] not in told


@pytest.mark.parametrize(
    ("digits", "message"),
    [
        ("3\n10\n", r"row 2 \(line 3\): column 'digit' holds none of the 10 categories, the whole numbers from 0 to 9"),
        ("-1\n", "row 1"),
        ("red\n", "if the column holds names, give --categories the names"),
        ("3\n\n", "row 2.* is empty"),
        ("1\n2.5\n", "row 2"),
        ("1\n2.0\n", "row 2"),
        ("1\n 2\n", "row 2"),
        ("1\nnan\n", "row 2"),
        ("1\n99999999999999999999999\n", "row 2"),
        ("1\n٣\n", "row 2"),
        ("1\n0x3\n", "row 2"),
        ("0X3\n", "row 1"),
        ("1\n-0\n", "row 2"),
        ("1\n+3\n", "row 2"),
    ],
)
def test_numbers_out_of_range(digits: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=message):
        numbers(written(tmp_path, "data.csv", "digit\n" + digits), "digit", Names(10))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
def test_text_counts_as_a_number_only_in_plain_digits(kind: Any) -> None:
    assert Names(100).numbers(pa.array(["31", "007", "0" * 40 + "2"]).cast(kind)).tolist() == [31, 7, 2]
    assert Names(100).numbers(pa.array([], pa.string()).cast(kind)).tolist() == []
    for bad in ("0x1F", "0X1f", "-0", "+3", "1_0", ""):
        with pytest.raises(UnknownValue) as caught:
            Names(100).numbers(pa.array(["31", bad]).cast(kind))
        assert caught.value.index == 1


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        (pa.array(["red", None]), COLORS, "row 2: column 'c' is empty"),
        (pa.array(["red", "mauve"]), COLORS, "row 2: column 'c' holds none of the 3"),
        (pa.array([1, None]), Names(3), "row 2: column 'c' is empty"),
        (pa.array([1.0, float("nan")]), Names(3), "row 2: column 'c' is empty"),
        (pa.array([1.0, 1.5]), Names(3), "row 2: column 'c' holds none of the 3"),
        (pa.array([1, 2**64 - 1], pa.uint64()), Names(3), "row 2: column 'c' holds none of the 3"),
        (pa.array([None, None]), COLORS, "row 1: column 'c' is empty"),
        (pa.array([1.5, 2.5]), COLORS, "column 'c': the column holds double, and the categories are text"),
        (pa.array([0], pa.timestamp("s")), Names(3), "neither whole numbers nor names"),
        (pa.array([["red"]]), COLORS, "lists or structures"),
        (pa.array([], pa.string()), COLORS, "has no rows"),
        (pa.array([{"x": 1}]), COLORS, "lists or structures"),
    ],
)
def test_what_parquet_files_have_wrong_is_told(column: Any, names: Names, message: str, tmp_path: Path) -> None:
    path = table(tmp_path, "data.parquet", c=column)
    with pytest.raises(ParameterError, match=message) as caught:
        numbers(path, "c", names)
    assert str(path) in str(caught.value)


@pytest.mark.slow
def test_rows_are_counted_over_batches(tmp_path: Path) -> None:
    count = 600_000
    colors = np.array(["red", "green", "blue"])[np.arange(count) % 3]
    colors[-2] = "mauve"
    with pytest.raises(ParameterError, match=f"row {count - 1:,}:"):
        numbers(table(tmp_path, "data.parquet", color=pa.array(colors)))
    path = written(tmp_path, "data.csv", "color\n" + "\n".join(colors) + "\n")
    with pytest.raises(ParameterError, match=rf"row {count - 1:,} \(line {count:,}\)"):
        numbers(path)


def test_folders_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="is not a file"):
        numbers(tmp_path)
    with pytest.raises(ParameterError, match="does not exist"):
        numbers(tmp_path / "nothing.csv")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'pip install "shoal-dp\[files\]"'):
        numbers(written(tmp_path, "data.csv", "color\nred\n"))


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_come_from_lists_files_and_tables(tmp_path: Path) -> None:
    colors = ("red", "dark green", "blue")
    for text in ("red,dark green,blue", 'red, "dark green" ,blue', " red , dark green,blue"):
        assert Names.parsed(text).labels == colors
    for content in (b"red\ndark green\nblue\n", b"\xef\xbb\xbfred\r\ndark green\r\nblue", b"red\ndark green\nblue"):
        assert Names.parsed(str(written(tmp_path, "names.txt", content))).labels == colors
    path = written(tmp_path, "names.csv", "color,code\nred,1\ndark green,2\nblue,3\n")
    assert Names.parsed(str(path), "color").labels == colors
    assert Names.parsed(str(table(tmp_path, "n.parquet", color=list(colors))), "color").labels == colors
    assert Names.parsed(str(table(tmp_path, "z.parquet", zip=[3000, 8001])), "zip").labels == ("3000", "8001")
    for text in ("1000", "1e3", "1_000"):
        assert Names.parsed(text) == Names(1000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names.txt", "there is no file 'names.txt'"),
        ("red", "there is no file"),
        ("red,green,red", "'red' stands in name 1 and name 3"),
        ("red,,blue", "name 2 is empty"),
        ("1", "at least 2"),
        ("0", "at least 2"),
        ("2.5", "whole number"),
        ("nan", "NaN"),
        ("inf", "finite"),
        ("", "there is no file"),
        ("red,gr\udcffn", "name 2 is .*not text"),
    ],
)
def test_bad_names_are_told(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Names.parsed(text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("names.txt", b"red\n\nblue\n", "line 2 is empty"),
        ("names.txt", b"red\nblue\nred\n", "'red' stands in line 1 and line 3"),
        ("names.txt", b"red\n", "at least 2 categories, got 1"),
        ("names.txt", b"", "empty"),
        ("names.txt", b"red\nblue\xff\n", "line 2: not in UTF-8"),
        ("names.csv", b"red\ngreen\nblue\n", "one name a line, call it .txt"),
        ("names.csv", b"color\nred\n\xff\n", "not in UTF-8"),
        ("names.csv", b"color\nred\nred\n", "row 1 and row 2; .*a list of unique names"),
    ],
)
def test_bad_files_of_names_are_told(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises((FormatError, ParameterError), match=message) as caught:
        Names.parsed(str(path), "color")
    assert str(path) in str(caught.value)


def test_a_column_says_on_which_line_a_row_is(tmp_path: Path) -> None:
    path = written(tmp_path, "data.csv", 'a\n"1\n2\n3"\nx\n')
    assert [Column(path, "a").line(row) for row in (1, 2)] == [2, 5]
    assert Column(path, "a").line(10**9) is None


def test_a_parquet_file_without_the_column_says_what_it_has(tmp_path: Path) -> None:
    path = table(tmp_path, "data.parquet", hue=["red"], id=[1])
    with pytest.raises(ParameterError, match="no column 'color'; its columns are 'hue', 'id'"):
        numbers(path)


def test_a_bar_follows_the_position(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    monkeypatch.setattr("shoal.progress.time.monotonic", lambda: next(now))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    done: list[int] = []
    for item in followed(range(10), lambda: len(done), 10, "data.csv"):
        done.append(item)
    shown = capsys.readouterr().err
    assert "data.csv [" in shown
    assert "999/1,000" in shown
    assert shown.endswith("\r\x1b[2K")


# --- trials and size --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trials_measure_what_was_foretold() -> None:
    mechanism = shoal.HadamardResponse(categories=50, local_epsilon=2)
    people = zipf_people(20_000, 50)
    assert int(people.sum()) == 20_000
    done = run_trials(mechanism, people, trials=200, seed=4)
    facts = done.to_dict()
    assert 0.9 < facts["ratio"] < 1.1
    assert 0.94 < facts["coverage"] < 0.985  # of a rare category, 97.5 %: its estimate is moved up to 0
    again = run_trials(mechanism, people, trials=200, seed=4)
    assert np.array_equal(again.squared_errors, done.squared_errors)
    with pytest.raises(ParameterError, match="trials"):
        run_trials(mechanism, people, trials=0, seed=4)


def test_a_mechanism_without_noise_has_no_ratio() -> None:
    mechanism = shoal.RandomizedResponse(categories=5, local_epsilon=700)
    facts = run_trials(mechanism, zipf_people(100, 5), trials=1, seed=1).to_dict()
    assert (facts["squared_error"], facts["squared_error_closed_form"], facts["ratio"]) == (0, 0, None)


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


@pytest.mark.slow
def test_memory_stays_small(many: Path) -> None:
    program = textwrap.dedent("""
        import json, resource, sys
        from pathlib import Path
        import shoal
        from shoal import shuffling
        from shoal.files import column_values, count_file, names, report_file
        folder = Path(sys.argv[1])
        known = names.Names.parsed(str(folder / "names.txt"))
        mechanism = shoal.HadamardResponse(categories=500, local_epsilon=2)
        import pyarrow.compute, pyarrow.parquet
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        parts = (mechanism.to_bytes(mechanism.randomize(part))
                 for part in column_values.values(folder / "data.parquet", "color", known))
        report_file.write_reports(folder / "a.shoal", mechanism, known, parts, inputs=[])
        shuffling.shuffle([folder / "a.shoal"], folder / "b.shoal", bucket_records=200_000)
        counts = count_file.aggregated([folder / "b.shoal"]).counts
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([counts.reports, (after - before) / 1024]))
    """)
    result = subprocess.run([sys.executable, "-c", program, str(many)], capture_output=True, check=True, text=True)
    reports, grown = json.loads(result.stdout)
    assert reports == 2_000_000
    assert grown < 150  # MiB; the text alone is 60, and its offsets 8
