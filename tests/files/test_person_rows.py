"""The rows of each person: which are kept, what is refused, and what the files say of it."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shoal
from shoal.errors import FormatError, ParameterError
from shoal.files.column_values import values
from shoal.files.count_file import NamedCounts, aggregated, read_counts, write_counts
from shoal.files.encode import encode
from shoal.files.names import Names
from shoal.files.person_rows import PersonRowError, PersonRows, RowsPerPerson
from shoal.files.report_file import ReportFile, write_reports
from shoal.shuffling import shuffle

COLOURS = Names.parsed("red,green,blue")
MECHANISM = shoal.RandomizedResponse(categories=3, local_epsilon=1)


def test_the_first_rows_of_each_person_are_kept_over_batches() -> None:
    people = PersonRows(2)
    assert people.kept(pa.array([7, 8, 7])).tolist() == [True, True, True]
    assert people.kept(pa.array([7, 8, 8, 9])).tolist() == [False, True, False, True]
    assert people.rows == RowsPerPerson(2, True)


def test_which_rows_of_others_are_kept_does_not_depend_on_a_person() -> None:
    """The rows of person 0 are replaced, moved and multiplied: those kept of all others stay the same."""
    rng = np.random.default_rng(random.getrandbits(32))
    others = rng.integers(1, 6, 40)
    kept = [others[PersonRows(2).kept(pa.array(others))].tolist()]
    for count in (1, 5, 30):
        ids = rng.permutation(np.concatenate([np.zeros(count, np.int64), np.full(40, -1)]))
        ids[ids == -1] = others
        chosen = ids[PersonRows(2).kept(pa.array(ids))]
        assert np.count_nonzero(chosen == 0) == min(count, 2)
        kept.append(chosen[chosen != 0].tolist())
    assert all(each == kept[0] for each in kept)


@pytest.mark.parametrize(
    "ids",
    [["ann", None], ["ann", ""], [b"ann", b""], [1.0, float("nan")], pa.array([None, "x"]).dictionary_encode()[::-1]],
)
def test_a_row_without_a_person_is_refused(ids: Any) -> None:
    with pytest.raises(PersonRowError) as caught:
        PersonRows(5).kept(pa.array(ids) if isinstance(ids, list) else ids)
    assert caught.value.index == 1


@pytest.mark.parametrize("most", [0, -3, 1.5])
def test_a_wrong_number_of_rows_is_refused(most: Any) -> None:
    with pytest.raises(ParameterError, match="rows_per_person"):
        PersonRows(most)


def _files(folder: Path) -> list[Path]:
    table = {"who": ["ann", "bob", "ann", "ann"], "colour": ["red", "blue", "blue", "green"]}
    rows = zip(*table.values(), strict=True)
    (folder / "a.csv").write_text("who,colour\n" + "".join(f"{who},{colour}\n" for who, colour in rows))
    parquet.write_table(pa.table(table), folder / "a.parquet")
    return [folder / "a.csv", folder / "a.parquet"]


def test_files_are_read_with_their_people(tmp_path: Path) -> None:
    for path in _files(tmp_path):
        for most, expected in ((1, [0, 2]), (2, [0, 2, 2]), (3, [0, 2, 2, 1])):
            parts = values(path, "colour", COLOURS, person="who", people=PersonRows(most))
            assert np.concatenate(list(parts)).tolist() == expected
        with pytest.raises(ParameterError, match=r"row 3(| \(line 4\)): this person has an earlier row") as caught:
            list(values(path, "colour", COLOURS, person="who", people=PersonRows()))
        assert "ann" not in str(caught.value)
        with pytest.raises(ParameterError, match="no column 'id'; its columns are 'who', 'colour'"):
            list(values(path, "colour", COLOURS, person="id", people=PersonRows()))
        with pytest.raises(ParameterError, match="person must be another column"):
            list(values(path, "colour", COLOURS, person="colour", people=PersonRows()))


@pytest.mark.parametrize("make", [lambda table: table, pa.table], ids=["columns", "frame"])
def test_columns_are_encoded_with_their_people(make: Any) -> None:
    who, colour = ["ann", "bob", "ann"], ["red", "blue", "green"]
    if make is pa.table:
        given: tuple[Any, dict[str, Any]] = (make({"who": who, "c": colour}), {"column": "c", "person": "who"})
    else:
        given = (colour, {"person": who})
    labels = ["red", "green", "blue"]
    assert encode(given[0], labels, **given[1], rows_per_person=1).tolist() == [0, 2]
    assert encode(given[0], labels, **given[1], rows_per_person=2).tolist() == [0, 2, 1]
    with pytest.raises(ParameterError, match=r"row 2, counted from 0: .* rows_per_person=M") as caught:
        encode(given[0], labels, **given[1])
    assert "ann" not in str(caught.value)


def test_what_does_not_name_people_is_refused() -> None:
    with pytest.raises(ParameterError, match="rows_per_person must come with person"):
        encode(["red"], ["red", "blue"], rows_per_person=2)
    with pytest.raises(ParameterError, match="one value per row: there are 2 rows, got 1"):
        encode(["red", "blue"], ["red", "blue"], person=[1])
    with pytest.raises(ParameterError, match="name both columns"):
        encode(["red"], ["red", "blue"], person="who")
    with pytest.raises(ParameterError, match="numbers or text"):
        encode(["red"], ["red", "blue"], person=[[1]], rows_per_person=1)


def _written(path: Path, rows: RowsPerPerson) -> Path:
    write_reports(path, MECHANISM, COLOURS, [b"\0\1\2"], inputs=[], rows=rows)
    return path


def test_the_number_of_rows_goes_through_all_files(tmp_path: Path) -> None:
    several = _written(tmp_path / "several", RowsPerPerson(3, True))
    two = _written(tmp_path / "two", RowsPerPerson(2, True))
    old = _written(tmp_path / "old", RowsPerPerson())
    assert b"person" not in old.read_bytes()  # as old files are
    assert ReportFile.opened(several).rows == RowsPerPerson(3, True)
    for other, expected in ((two, RowsPerPerson(3, True)), (old, RowsPerPerson(3, False))):
        shuffle([several, other], tmp_path / "shuffled")
        assert ReportFile.opened(tmp_path / "shuffled").rows == expected
        state = aggregated([several, other])
        write_counts(tmp_path / "counts", state, inputs=[])
        assert state.rows == read_counts(tmp_path / "counts").rows == expected
    assert NamedCounts(state.counts, COLOURS).rows == RowsPerPerson()


def test_a_file_with_an_impossible_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="rows_per_person in its header must be at least 1, got 0"):
        ReportFile.opened(_written(tmp_path / "none", RowsPerPerson(0, True)))
