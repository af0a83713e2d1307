"""Tables of examples from files: what is read, and what is refused with its place."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from shoal.errors import DamagedError, ParameterError
from shoal.sgd.example_table import Examples, read_examples

GOOD = "age,height,kind\n1,2.5,yes\n-3e2, 4 ,no\n\n5,0,yes\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(GOOD)
    return path


def refused(path: Path, target: str | None = "kind", features: list[str] | None = None) -> str:
    with pytest.raises((DamagedError, ParameterError)) as caught:
        read_examples(path, target=target, features=features)
    assert str(path) in str(caught.value) or target is None or target in (features or ())
    return str(caught.value)


def test_a_table_of_text(table: Path) -> None:
    found = read_examples(table, target="kind")
    assert found.features.tolist() == [[1, 2.5], [-300, 4], [5, 0]]
    assert found.labels.tolist() == ["yes", "no", "yes"]
    assert found.names == ("age", "height")
    assert len(found) == 3
    assert found.taken(np.array([2, 0])).features.tolist() == [[5, 0], [1, 2.5]]


def test_columns_can_be_chosen_in_any_order(table: Path) -> None:
    table.write_text("name,height,kind,age\nAnn,2,7,1\nBob,4,-7,3\n")
    found = read_examples(table, target="kind", features=["age", "height"])
    assert found.features.tolist() == [[1, 2], [3, 4]]
    assert found.labels.tolist() == [7, -7]
    assert found.labels.dtype == np.int64
    assert "one of the features" in refused(table, "kind", ["kind", "age"])


def test_packed_tabbed_and_marked_files(table: Path, tmp_path: Path) -> None:
    expected = read_examples(table, target="kind").features.tolist()
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    (tmp_path / "table.tsv").write_text(GOOD.replace(",", "\t"))
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    for name in ("table.csv.gz", "table.tsv", "marked.csv"):
        assert read_examples(tmp_path / name, target="kind").features.tolist() == expected
    content = gzip.compress(GOOD.encode() * 9)
    (tmp_path / "table.csv.gz").write_bytes(content[:-12])
    assert "cannot read" in refused(tmp_path / "table.csv.gz")


@pytest.mark.slow
def test_rows_beyond_a_block_keep_their_lines(table: Path) -> None:
    rows = [f"{row},{row / 8},{row % 2}" for row in range(20_000)]
    table.write_text("\n".join(["age,height,kind", *rows]))
    found = read_examples(table, target="kind")
    assert found.features[:, 1].tolist() == [row / 8 for row in range(20_000)]
    assert found.labels.tolist() == [row % 2 for row in range(20_000)]
    rows[17_000] = "1,tall,0"
    table.write_text("\n".join(["age,height,kind", *rows]))
    assert "line 17,002, column 'height': 'tall' is not a number" in refused(table)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("age,height,kind\n", "no rows"),
        ("\n\n", "has no column 'kind'; it has none"),
        ("age,height,kind\n1,two,yes\n", "line 2, column 'height': 'two' is not a number"),
        ("age,height,kind\n1,,yes\n", "line 2, column 'height': the value is missing"),
        ("age,height,kind\n1,2,yes\n1,nan,yes\n", "line 3, column 'height': 'nan' is not finite"),
        ("age,height,kind\n1,-inf,yes\n", "line 2, column 'height': '-inf' is not finite"),
        ("age,height,kind\n1,1e999,yes\n", "'1e999' is not finite"),
        ("age,height,kind\n1,2,\n", "line 2: column 'kind', the target, is empty"),
        ("age,height,kind\n1,2,NaN\n", "the target, is empty"),
        ("age,height,kind\n1,2\n", "line 2: 2 values for 3 columns"),
        ("age,height,kind\n1,2,yes,4\n", "line 2: 4 values for 3 columns"),
        ("age,kind,kind\n1,2,yes\n", "more than one column 'kind'"),
        ("age,height,Kinds\n1,2,yes\n", "did you mean 'Kinds'?"),
        ("age;height;kind\n1;2;yes\n", "semicolons"),
        ("age\theight\tkind\n1\t2\tyes\n", "call it .tsv"),
        ("kind\nyes\n", "nothing to learn from"),
        ('age,height,kind\n1,"2,yes\n', "cannot read"),
    ],
)
def test_what_is_wrong_in_a_text_is_told_with_its_place(table: Path, text: str, told: str) -> None:
    table.write_text(text)
    assert told in refused(table)


def test_what_is_no_text_is_refused(table: Path, tmp_path: Path) -> None:
    table.write_bytes(b"age,height,kind\n1,2,\xff\xfe\n")
    assert "not UTF-8" in refused(table)
    for content in (b"PAR1\x15\x04", b"\x93NUMPY\x01", b"\x00\x01\x02"):
        table.write_bytes(content)
        assert "neither CSV" in refused(table)
    assert "does not exist" in refused(tmp_path / "none.csv")
    assert "is not a file" in refused(tmp_path)
    table.write_text(GOOD)
    assert "--target" in refused(table, target=None)


def test_arrays(tmp_path: Path) -> None:
    path, rows = tmp_path / "table.npz", np.arange(6.0).reshape(3, 2)
    for labels, expected in (
        (np.array([1, 0, 1], np.uint8), [1, 0, 1]),
        (np.array([True, False, True]), [1, 0, 1]),
        (np.array([1.0, -2.0, 0.0]), [1, -2, 0]),
        (np.array(["a", "b", "a"]), ["a", "b", "a"]),
        (np.array([b"a", b"b", b"a"]), ["a", "b", "a"]),
    ):
        np.savez(path, X=rows.astype(np.float32), y=labels)
        found = read_examples(path)
        assert (found.features.tolist(), found.labels.tolist(), found.names) == (rows.tolist(), expected, ())
    np.savez_compressed(path, pixels=rows.astype(np.uint8), digit=np.array([1, 2, 3]))
    assert read_examples(path, target="digit", features=["pixels"]).features.tolist() == rows.tolist()
    assert "no array 'X'; it has 'pixels', 'digit'" in refused(path, None)


def test_bad_arrays_are_refused(tmp_path: Path) -> None:
    path, rows, labels = tmp_path / "table.npz", np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    holed = rows.copy()
    holed[2, 1] = np.nan
    for arrays, told in (
        ({"X": rows, "y": labels[:2]}, "one label for each of the 3 rows"),
        ({"X": rows[0], "y": labels}, "one row for each example"),
        ({"X": rows.astype(str), "y": labels}, "array of numbers"),
        ({"X": rows[:0], "y": labels[:0]}, "is empty"),
        ({"X": holed, "y": labels}, "row 2, column 1: nan is not finite"),
        ({"X": rows, "y": np.array([0.0, np.nan, 1.0])}, "row 1"),
        ({"X": rows, "y": np.array([0.0, 0.5, 1.0])}, "not the name of a class"),
        ({"X": rows, "y": labels.astype(complex)}, "whole numbers or texts"),
    ):
        np.savez(path, **arrays)
        assert told in refused(path, None)
    np.savez(path, X=rows, y=np.array([{}, [], None], dtype=object))
    assert "Python objects" in refused(path, None)
    np.savez(path, X=rows, y=labels)
    assert "one name" in refused(path, "y", ["X", "Z"])


def test_an_archive_that_is_cut_off_or_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez_compressed(path, X=np.random.default_rng(1).normal(size=(50, 2)), y=np.arange(50) % 2)
    content = path.read_bytes()
    for end in (4, 40, len(content) // 2, len(content) - 30):
        path.write_bytes(content[:end])
        assert "cannot read" in refused(path, None)
    path.write_bytes(content[:200] + b"garbage" + content[207:])
    assert "cannot read" in refused(path, None)


def test_rows_are_clipped_each_by_itself() -> None:
    rows = np.random.default_rng(1).normal(size=(100, 3)) * np.geomspace(1e-3, 1e3, 100)[:, None]
    table = Examples(rows, np.zeros(100, int), ("a", "b", "c"))
    clipped = table.clipped(2).features
    lengths, before = np.linalg.norm(clipped, axis=1), np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(lengths, np.minimum(before, 2), rtol=1e-12)
    np.testing.assert_allclose(clipped / lengths[:, None], rows / before[:, None], rtol=1e-12)
    assert table.taken(np.array([99])).clipped(2).features.tolist() == clipped[99:].tolist()
    with pytest.raises(ParameterError, match="row_norm"):
        table.clipped(0)
