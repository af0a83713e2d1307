"""The verbs about many rounds: `compose` and `ledger`."""

import csv
from pathlib import Path
from typing import Any

from cyclopts import App

import shoal
from shoal.cli.app import app, draw, show
from shoal.cli.arguments import Count, Flag, Number, described
from shoal.cli.output import print_guarantee, print_ledger
from shoal.errors import FormatError, ParameterError, StorageError
from shoal.numerals import count_in, number_in

__all__ = ["compose", "record", "show_ledger"]

_COLUMNS = {"reports": count_in, "local_epsilon": number_in, "local_delta": number_in, "times": count_in}
_MORE = "values without a column"

ledger = App(
    name="ledger",
    help="Keep a budget: what was released, in order, and what it has cost.",
    help_epilogue="Example:  shoal ledger show telemetry.json",
)
app.command(ledger)


@app.command(help_epilogue="Example:  shoal compose --local-epsilon 2 --reports 1e6 --times 365")
def compose(
    *,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    times: Count = 1,
    delta: Number = 1e-6,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    bound: str = "tightest",
    rounds: Path | None = None,
    method: str = "loss",
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Say what (ε, δ) many rounds have together.

    Parameters
    ----------
    reports
        how many reports are shuffled together in a round.
    local_epsilon
        ε₀ of what each person runs in a round.
    times
        how many such rounds there are.
    delta
        δ of the answer.
    local_delta
        δ₀ of what each person runs.
    randomizer
        what each person runs, as for `shoal amplify`.
    categories
        over how many categories.
    deviation
        of Gaussian noise.
    bound
        which bound to use for a round; `shoal explain` lists them.
    rounds
        a CSV file of different rounds, with the columns reports, local_epsilon and, if you like, local_delta and times.
    method
        how rounds are added up: loss (tight), renyi, advanced or advanced-closed-form.
    json
        print everything as JSON.
    plot
        draw ε against δ into this file (.png, .svg, .pdf).
    """
    if (rounds is None) == (reports is None):
        raise ParameterError("give either --reports and --local-epsilon, with --times, or a file of --rounds")
    if rounds is not None:
        parts = _read(rounds, bound)
    else:
        kind = described(randomizer, local_epsilon, categories, deviation)
        parts = [(shoal.amplify(**kind, reports=reports, local_delta=local_delta, bound=bound), times)]
    curve = shoal.compose(parts, method=method)
    show(curve.to_dict(delta=delta), print_guarantee, json=json, picture=draw(plot, [curve], delta))


@ledger.command(name="show", help_epilogue="Example:  shoal ledger show telemetry.json --delta 1e-6")
def show_ledger(file: Path, *, delta: Number = 1e-6, json: Flag = False) -> None:
    """Show what a ledger has, and what it has cost.

    Parameters
    ----------
    file
        the ledger, a JSON file.
    delta
        δ of the answer.
    json
        print everything as JSON.
    """
    if not file.exists():
        raise ParameterError(f"{file} does not exist; `shoal ledger record {file} …` starts it")
    book = shoal.Ledger(file)
    show({**book.to_dict(), "delta": delta, "spent": book.spent(delta)}, print_ledger, json=json, picture=None)


@ledger.command(
    help_epilogue="Example:  shoal ledger record telemetry.json --local-epsilon 2 --reports 1e6 --label monday "
    "--epsilon 1"
)
def record(
    file: Path,
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    times: Count = 1,
    label: str = "",
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    planned: Flag = False,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    bound: str = "tightest",
    json: Flag = False,
) -> None:
    """Write a round into a ledger, before it runs; with --epsilon, only if the budget allows it.

    Parameters
    ----------
    file
        the ledger, a JSON file; it is created if it does not exist.
    reports
        how many reports are shuffled together in the round.
    local_epsilon
        ε₀ of what each person runs.
    times
        how many such rounds there are.
    label
        what to call it.
    epsilon
        the budget; a round that would break it is refused, with exit status 1. It is stored with the first round, and
        another one is refused in the same way.
    delta
        the δ of the budget.
    planned
        say that all rounds were settled in advance, whatever earlier ones released: more of them fit then.
    local_delta
        δ₀ of what each person runs.
    randomizer
        what each person runs, as for `shoal amplify`.
    categories
        over how many categories.
    bound
        which bound to use; `shoal explain` lists them.
    json
        print everything as JSON.
    """
    kind = described(randomizer, local_epsilon, categories, None)
    curve = shoal.amplify(**kind, reports=reports, local_delta=local_delta, bound=bound)
    book = shoal.Ledger(file)
    if epsilon is None:
        book.record(curve, label=label, times=times)
    else:
        with book.budget(curve, epsilon=epsilon, delta=delta, label=label, times=times, planned=planned):
            pass
    show({**book.to_dict(), "delta": delta, "spent": book.spent(delta)}, print_ledger, json=json, picture=None)


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
            told = f"more values than columns, the last of them {row[_MORE][-1]!r}"
            raise ParameterError(f"{path}, line {line}: {told}; decimals have a point, as in 0.5")
        try:
            values: dict[str, Any] = {name: _COLUMNS[name](value, name) for name, value in row.items() if value}
            count = values.pop("times", 1.0)
            parts.append((shoal.amplify(**values, bound=bound), count))
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{path}, line {line}: {error}") from None
    return parts
