"""The question `compose`: the guarantee of many rounds."""

import csv
import io
from typing import Any, NamedTuple

import shoal
from shoal.calibration.spending import Spending, Stretch
from shoal.checks import positive, probability, whole
from shoal.composition.budget import Budget
from shoal.composition.composition_method import MOST_TIMES
from shoal.curve import PrivacyCurve
from shoal.digits import count_in, number_in
from shoal.errors import AskedError, FormatError, ParameterError
from shoal.questions.copied_code import rounds_lines
from shoal.questions.parameters import (
    USUAL_DELTA,
    BoundName,
    Count,
    Day,
    MethodName,
    NamedText,
    Number,
    Text,
    day_in,
)
from shoal.questions.question import Answer, asks
from shoal.questions.setting import Setting

_READ: dict[str, Any] = {
    "reports": count_in,
    "local_epsilon": number_in,
    "local_delta": number_in,
    "randomizer": lambda text, _: text,
    "categories": count_in,
    "sigma": number_in,
    "rounds": count_in,
    "date": day_in,
}
COLUMNS = tuple(_READ)
"""All columns that the table may have; only the first is needed in every line."""


class Composed(NamedTuple):
    """Rounds together, and one after the other."""

    curve: PrivacyCurve
    spending: Spending


@asks(
    example="reports=1e6&local_epsilon=2&rounds=365&epsilon=0.5",
    python=lambda given: rounds_lines("compose", given),
)
def compose(
    *,
    reports: Count | None = None,
    setting: Setting = Setting(),
    rounds: Count = 1,
    epsilon: Number | None = None,
    delta: Number = USUAL_DELTA,
    start: Day | None = None,
    every: str | None = None,
    bound: BoundName = "tightest",
    table: Text | None = None,
    method: MethodName = "pld",
) -> Answer:
    """Say what (ε, δ) many rounds have together, and how many of them a budget allows.

    Parameters
    ----------
    reports : int or float, optional
        How many reports are shuffled together in a round; 10_000, 1e6 and 1000000 are all fine.
    setting : Setting
        What each person runs.
    rounds : int or float
        How many such rounds there are.
    epsilon : float, optional
        A budget: say how many rounds it allows, and draw it.
    delta : float
        δ of the answer.
    start : date, optional
        The day of the first round; then the answer says on which day the budget is spent.
    every : str, optional
        How often there is a round: every day, week or month; day if not given.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    table : NamedText, optional
        A CSV table of different rounds, with the columns reports and local_epsilon and, if you like, local_delta,
        randomizer, categories, sigma, rounds and date.
    method : str
        How rounds are added up, as `shoal.explain` names it.

    Returns
    -------
    Answer
        Its result is `Composed`: the curve of all rounds, and their spending.

    Examples
    --------
    >>> compose(reports=1e6, local_epsilon=2, rounds=365, epsilon=0.5).facts["affordable_rounds"]
    1676
    """
    if (table is None) == (reports is None):
        raise AskedError("give either {reports} and {local_epsilon}, with {rounds}, or different rounds in a {table}")
    if table is not None and start is not None:
        raise AskedError("the days of rounds from a file stand in its column date; leave out {start}", "start")
    if table is not None:
        stretches = stretches_in(table, bound)
    else:
        curve = setting.amplified(reports or 0, bound)
        stretches = (Stretch(curve, whole(rounds=rounds, most=MOST_TIMES), start),)
    delta = probability(delta=delta, zero=True)
    budget = None if epsilon is None else Budget(positive(epsilon=epsilon), delta, planned=True)
    if method != "pld" and budget:
        raise AskedError("how long a budget lasts, and the picture, need {method=pld}", "method")
    if every is None and start is not None:
        every = "day"
    spending = Spending(stretches, delta, budget, every)
    curve = shoal.compose([(stretch.curve, stretch.rounds) for stretch in stretches], method=method)
    facts = curve.to_dict(delta=delta) | spending.to_dict()
    return Answer(facts, Composed(curve, spending), lambda: curve.certify(delta=delta))


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
        raise ParameterError("reports must have a value, such as 10_000", "reports")
    if not values.keys() & {"local_epsilon", "sigma"}:
        raise ParameterError(
            "local_epsilon must have a value, such as 1; or sigma, if randomizer is gaussian", "local_epsilon"
        )
    rounds = whole(rounds=values.pop("rounds", 1.0), most=MOST_TIMES)
    day = values.pop("date", None)
    reports = values.pop("reports")
    return Stretch(Setting(**values).amplified(reports, bound), rounds, day)
