"""The rows of each person in a table: repeats are refused, or the first m rows of each person are kept.

Which rows are kept depends on that person's rows alone, so the rows of one person do not change
which rows of others are kept (docs/histograms.md, "One row per person"). The ids stay in memory:
no file, report or message contains them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.arrays import BoolArray
from shoal.checks import whole
from shoal.errors import FormatError, ParameterError

KEEP_SEVERAL = ", or keep the first M rows of each person and charge for M: rows_per_person=M"
"""The hint where rows are randomized one by one, so that several of one person can be charged."""


class PersonRowError(Exception):
    """A row whose person is missing, or has a row already: its index in the batch, and the reason.

    It never leaves the package.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason


@dataclass(frozen=True)
class RowsPerPerson:
    """Most rows of a table that one person has, and whether a column of ids was checked for it."""

    most: int = 1  # rows of one person, m ≥ 1. The guarantee is stated for a person with m reports
    checked: bool = False  # false if nobody checked it, so that it is an assumption

    def __or__(self, other: "RowsPerPerson") -> "RowsPerPerson":
        """Return the number and the check that hold for two tables together, if no person is in both."""
        return RowsPerPerson(max(self.most, other.most), self.checked and other.checked)

    @property
    def sentence(self) -> str:
        """The assumption, or the result of the check, in words."""
        rows = "one row" if self.most == 1 else f"at most {self.most:,} rows"
        if self.checked:
            together = "" if self.most == 1 else "; the guarantee is for all of them together"
            return f"each person has {rows} of the table, checked by a column of ids{together}"
        return f"assumed, not checked: each person has {rows} of the table (--person checks it)"

    def to_fields(self) -> dict[str, Any]:
        """Return the fields for the header of a file; none for the assumption that old files make."""
        if self == RowsPerPerson():
            return {}
        return {"rows_per_person": self.most, "person_checked": self.checked}

    @staticmethod
    def from_fields(fields: Mapping[str, Any], source: str) -> "RowsPerPerson":
        """Return the number and the check in the header of a file; without the fields one row per person is assumed."""
        most = fields.get("rows_per_person", 1)
        if most < 1:
            raise FormatError(f"{source}: rows_per_person in its header must be at least 1, got {most!r}")
        return RowsPerPerson(most, fields.get("person_checked", False))


ASSUMED_ROWS = RowsPerPerson()
"""One row per person, not checked: the assumption of every table without a column of people, and of old files."""
ROWS_FIELDS: Mapping[str, type] = {"rows_per_person": int, "person_checked": bool}
"""The fields of `RowsPerPerson` in the header of a file, both optional."""


@dataclass(eq=False)
class PersonRows:
    """The number of rows of each person so far, in the order of a table."""

    # Keep the first `most` rows of each person. If not given, a second row of a person is
    # refused
    most: int | None = None
    hint: str = ""  # what else the user can do about a second row, for the error
    left_out: int = field(default=0, init=False)
    """How many rows were not kept so far."""
    _seen: dict[Any, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the number."""
        if self.most is not None:
            self.most = whole(rows_per_person=self.most)

    @property
    def rows(self) -> RowsPerPerson:
        """The number and the check of the rows that are kept."""
        return RowsPerPerson(self.most or 1, True)

    def kept(self, ids: Any) -> BoolArray:
        """Return which rows of the next batch are kept, or raise `PersonRowError`."""
        limit = self.most or 1
        kept = np.ones(len(ids), np.bool_)
        for index, person in enumerate(ids.to_pylist()):
            if person is None or person in ("", b"") or (isinstance(person, float) and math.isnan(person)):
                raise PersonRowError(index, "the person is missing; give every row a person, or leave the row out")
            try:
                before = self._seen.get(person, 0)
            except TypeError:
                raise ParameterError(
                    "person must be a column of numbers or text, one value per row", "person"
                ) from None
            if before == limit:
                if self.most is None:
                    raise PersonRowError(index, f"this person has an earlier row; keep one row per person{self.hint}")
                kept[index] = False
                self.left_out += 1
            else:
                self._seen[person] = before + 1
        return kept
