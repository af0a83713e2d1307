"""The table of rounds: CSV with a line for each kind of round, read with errors that name the line."""

import csv
import io
from typing import Any

import shoal
from shoal.calibration.spending import Stretch
from shoal.checks import whole
from shoal.composition.composition_method import MOST_TIMES
from shoal.errors import FormatError, ParameterError
from shoal.numerals import count_in, number_in
from shoal.questions.named_text import NamedText
from shoal.questions.parameters import day_in
from shoal.questions.randomizer_choice import described

__all__ = ["COLUMNS", "stretches_in"]


def _text(text: str, _: str) -> str:
    return text


_READ: dict[str, Any] = {
    "reports": count_in,
    "local_epsilon": number_in,
    "local_delta": number_in,
    "randomizer": _text,
    "categories": count_in,
    "deviation": number_in,
    "times": count_in,
    "date": day_in,
}
COLUMNS = tuple(_READ)
"""All columns that the table may have; only the first is needed in every line."""


def stretches_in(table: NamedText, bound: str) -> tuple[Stretch, ...]:
    """Return the rounds of a table, in its order."""
    stretches = []
    reader = csv.DictReader(io.StringIO(table.text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        _check_columns(table.name, reader.fieldnames)
        for row in reader:
            try:
                stretches.append(_stretch(row, bound))
                _check_days(stretches)
            except (TypeError, ValueError) as error:
                raise ParameterError(f"{table.name}, line {reader.line_num}: {error}") from None
    except csv.Error as error:
        raise FormatError(f"cannot read {table.name}: {error}") from None
    if not stretches:
        raise ParameterError(f"{table.name} has no rounds below its first line, which names the columns")
    return tuple(stretches)


def _check_columns(name: str, columns: Any) -> None:
    """Refuse a first line that is not one of known columns, each of them once."""
    given = [column.strip() for column in columns or ()]
    wrong = next((column for column in given if column not in COLUMNS or given.count(column) > 1), None)
    allowed = f"the first line names columns, of {', '.join(COLUMNS)}"
    if wrong is not None:
        raise ParameterError(f"{name}: there is no column {wrong!r}, or it is there twice; {allowed}")
    if "reports" not in given:
        raise ParameterError(f"{name}: the column reports is missing; {allowed}")
    if columns is not None:
        columns[:] = given


def _check_days(stretches: list[Stretch]) -> None:
    """Refuse a day before that of the line above, and days in some lines only."""
    if len(stretches) > 1:
        before, day = stretches[-2].day, stretches[-1].day
        if (before is None) != (day is None):
            raise ParameterError("either all lines have a date, or none has")
        if before is not None and day is not None and day < before:
            raise ParameterError(f"the lines must be in the order of their dates, and {day} is before {before}")


def _stretch(row: dict[Any, Any], bound: str) -> Stretch:
    if None in row:  # where csv puts values that have no column
        extra = f"more values than columns, the last of them {row[None][-1]!r}"
        raise ParameterError(f"{extra}; decimals have a point, as in 0.5")
    values = {name: _READ[name](text.strip(), name) for name, text in row.items() if text and text.strip()}
    if "reports" not in values:
        raise ParameterError("reports must have a value, such as 10_000", parameter="reports")
    if not values.keys() & {"local_epsilon", "deviation"}:
        raise ParameterError(
            "local_epsilon must have a value, such as 1; or deviation, if randomizer is gaussian",
            parameter="local_epsilon",
        )
    kind = [values.pop(name, None) for name in ("randomizer", "local_epsilon", "categories", "deviation")]
    times, day = whole(times=values.pop("times", 1.0), most=MOST_TIMES), values.pop("date", None)
    return Stretch(shoal.amplify(**described(*kind), **values, bound=bound), times, day)
