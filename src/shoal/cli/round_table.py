"""The table of rounds: a CSV file with a line for each kind of round, read with errors that name the line."""

import csv
from datetime import date
from pathlib import Path
from typing import Any

import shoal
from shoal.calibration.spending import Stretch
from shoal.checks import whole
from shoal.cli.options import described
from shoal.composition.composition_method import MOST_TIMES
from shoal.errors import FormatError, ParameterError, StorageError
from shoal.numerals import count_in, number_in

__all__ = ["COLUMNS", "stretches_in"]


def _day(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"{name} must be a day such as 2026-01-31, got {text!r}") from None


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
    "date": _day,
}
COLUMNS = tuple(_READ)
"""All columns that the table may have; only the first is needed in every line."""
_MORE = "values without a column"


def stretches_in(path: Path, bound: str) -> tuple[Stretch, ...]:
    """Return the rounds of a CSV file, in its order."""
    stretches = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey=_MORE, strict=True)
            _check_columns(path, reader.fieldnames)
            for row in reader:
                try:
                    stretches.append(_stretch(row, bound))
                    _check_days(stretches)
                except (TypeError, ValueError) as error:
                    raise ParameterError(f"{path}, line {reader.line_num}: {error}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"cannot read {path}: {error}") from None
    if not stretches:
        raise ParameterError(f"{path} has no rounds below its first line, which names the columns")
    return tuple(stretches)


def _check_columns(path: Path, columns: Any) -> None:
    """Refuse a first line that is not one of known columns, each of them once."""
    given = [column.strip() for column in columns or ()]
    wrong = next((name for name in given if name not in COLUMNS or given.count(name) > 1), None)
    allowed = f"the first line names columns, of {', '.join(COLUMNS)}"
    if wrong is not None:
        raise ParameterError(f"{path}: there is no column {wrong!r}, or it is there twice; {allowed}")
    if "reports" not in given:
        raise ParameterError(f"{path}: the column reports is missing; {allowed}")
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


def _stretch(row: dict[str, Any], bound: str) -> Stretch:
    if _MORE in row:
        extra = f"more values than columns, the last of them {row[_MORE][-1]!r}"
        raise ParameterError(f"{extra}; decimals have a point, as in 0.5")
    values = {name: _READ[name](text.strip(), name) for name, text in row.items() if text and text.strip()}
    if "reports" not in values:
        raise ParameterError("reports must have a value, such as 10_000")
    if not values.keys() & {"local_epsilon", "deviation"}:
        raise ParameterError("local_epsilon must have a value, such as 1; or deviation, if randomizer is gaussian")
    kind = [values.pop(name, None) for name in ("randomizer", "local_epsilon", "categories", "deviation")]
    times, day = whole(times=values.pop("times", 1.0), most=MOST_TIMES), values.pop("date", None)
    return Stretch(shoal.amplify(**described(*kind), **values, bound=bound), times, day)
