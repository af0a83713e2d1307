"""The verb `sum`: sum, mean and quantiles of a column of numbers."""

from functools import partial
from pathlib import Path

import numpy as np

from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Flag, Json, Number, Person
from shoal.cli.output import show
from shoal.cli.pictures import PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.cli.report_output import check_exists, guaranteed, print_sum
from shoal.digits import rounded_up
from shoal.files.column_values import numbers
from shoal.files.person_rows import RowsPerPerson
from shoal.mechanisms.number_range import NumberRange
from shoal.planning.number_plans import plan_sum


@app.command(
    group=HISTOGRAMS,
    name="sum",
    help_epilogue="Example:  shoal sum people.csv --column age --lower 0 --upper 120 --epsilon 0.5",
)
def sum_of_column(
    data: Path,
    *,
    column: str,
    lower: Number,
    upper: Number,
    epsilon: Number,
    delta: Number = 1e-6,
    covers: Flag = False,
    person: Person = None,
    confidence: Number = 0.95,
    output: Path | None = None,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Publish the sum, mean and quartiles of a column of numbers, with intervals, under a central guarantee.

    Each number is rounded at random to one of a few levels, and the levels are shuffled with dummies, or with covers.
    What is printed is private; to run it again on the same people costs ε again.

    Parameters
    ----------
    data
        a CSV file (with a header; .csv.gz will do) or a Parquet file.
    column
        the name of the column.
    lower
        the least number there may be: public, and not taken from the data.
    upper
        the largest number there may be.
    epsilon
        the central ε that must hold.
    delta
        the δ that goes with it.
    covers
        people add random messages, and the shuffler adds none: about 1.7 times the error.
    confidence
        of each interval by itself.
    output
        write all levels with the share of people at or below each into this file (.csv, .parquet, .json).
    plot
        draw the distribution with its intervals into this file (.png, .svg, .pdf).
    """
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, [data])
    check_exists(data)
    values = np.concatenate(list(numbers(data, column, NumberRange(lower, upper), person=person)))
    levels = plan_sum(reports=len(values), epsilon=epsilon, delta=delta, lower=lower, upper=upper, covers=covers)
    counts = levels.released(levels.aggregate(levels.randomize(values)))
    result = levels.estimate(counts, confidence=confidence)
    facts = result.to_dict() | {"influence": levels.influence}
    facts |= guaranteed(levels.protocol, result.reports, delta, rows=RowsPerPerson(checked=person is not None))
    if output is not None:
        write_table(output, facts, result.columns(), [data])
    central = facts["central"]
    holds = f"ε = {rounded_up(central['epsilon'])} at δ = {central['delta']!r}"
    draw_estimate(plot, partial(result.chart, holds), [data])
    files = {"table": str(output) if output else None, "picture": str(plot) if plot else None}
    show(facts | files, print_sum, json=json)
