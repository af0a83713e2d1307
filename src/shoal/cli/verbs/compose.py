"""The verb `compose`: the guarantee of many rounds."""

import csv
from pathlib import Path
from typing import Any

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Bound, Count, CurveOutput, LocalRandomizer, Method, Number
from shoal.cli.output import print_guarantee
from shoal.errors import FormatError, ParameterError, StorageError
from shoal.numerals import count_in, number_in

__all__ = ["compose"]

_COLUMNS = {"reports": count_in, "local_epsilon": number_in, "local_delta": number_in, "times": count_in}
_MORE = "values without a column"


@app.command(group=GUARANTEES, help_epilogue="Example:  shoal compose --local-epsilon 2 --reports 1e6 --times 365")
def compose(
    *,
    reports: Count | None = None,
    local: LocalRandomizer = LocalRandomizer(),
    times: Count = 1,
    delta: Number = 1e-6,
    bound: Bound = "tightest",
    rounds: Path | None = None,
    method: Method = "loss",
    output: CurveOutput = CurveOutput(),
) -> None:
    """Say what (ε, δ) many rounds have together.

    Parameters
    ----------
    reports
        how many reports are shuffled together in a round.
    times
        how many such rounds there are.
    delta
        δ of the answer.
    rounds
        a CSV file of different rounds, with the columns reports, local_epsilon and, if you like, local_delta and times.
    """
    if (rounds is None) == (reports is None):
        raise ParameterError("give either --reports and --local-epsilon, with --times, or a file of --rounds")
    parts: list[Any] = _read(rounds, bound) if rounds is not None else [(local.amplify(reports or 0, bound), times)]
    curve = shoal.compose(parts, method=method)
    output.show(curve.to_dict(delta=delta), print_guarantee, [curve], delta)


def _read(path: Path, bound: str) -> list[Any]:
    """Return the rounds of a CSV file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, restkey=_MORE)
            rows, columns = list(reader), set(reader.fieldnames or ())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"cannot read {path}: {error}") from None
    if not rows or not {"reports", "local_epsilon"} <= columns or not columns <= set(_COLUMNS):
        raise ParameterError(f"{path} must have rows, and the columns reports, local_epsilon, local_delta, times only")
    parts = []
    for line, row in enumerate(rows, start=2):
        if _MORE in row:
            extra = f"more values than columns, the last of them {row[_MORE][-1]!r}"
            raise ParameterError(f"{path}, line {line}: {extra}; decimals have a point, as in 0.5")
        try:
            values: dict[str, Any] = {name: _COLUMNS[name](value, name) for name, value in row.items() if value}
            count = values.pop("times", 1.0)
            parts.append((shoal.amplify(**values, bound=bound), count))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{path}, line {line}: {error}") from None
    return parts
