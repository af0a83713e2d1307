"""The verb `quantiles`: the distribution and quantiles of a column of numbers, from a tree."""

from pathlib import Path

import numpy as np

from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Count, Flag, Json, Number, Person
from shoal.cli.output import show
from shoal.cli.pictures import PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.cli.report_output import check_exists, guaranteed_together, print_quantiles
from shoal.files.column_values import numbers
from shoal.files.person_rows import RowsPerPerson
from shoal.mechanisms.number_range import NumberRange
from shoal.planning.number_plans import plan_quantiles


@app.command(
    group=HISTOGRAMS,
    name="quantiles",
    help_epilogue="Example:  shoal quantiles people.csv --column age --lower 0 --upper 120 --epsilon 0.5",
)
def quantiles_of_column(
    data: Path,
    *,
    column: str,
    lower: Number,
    upper: Number,
    epsilon: Number,
    delta: Number = 1e-6,
    leaves: Count = 1024,
    depth: Count | None = None,
    covers: Flag = False,
    person: Person = None,
    confidence: Number = 0.95,
    output: Path | None = None,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Publish the quartiles and the distribution of a column of numbers, with intervals, under a central guarantee.

    The interval is parted evenly into leaves of a tree. Each person is counted once at every depth, and what is below a
    point is the sum of few counts. What is printed is private; to run it again on the same people costs ε again. For
    the sum or the mean, or if a few dozen levels are fine enough, use `shoal sum`.

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
    leaves
        how many leaves there are at least: a quantile is known to a leaf or two at best.
    depth
        how many depths there are; the best number if not given. 1 is a histogram of the leaves.
    covers
        people add random messages, and the shuffler adds none.
    confidence
        of each interval by itself.
    output
        write the share of people below each edge of a leaf into this file (.csv, .parquet, .json).
    plot
        draw the distribution with its intervals into this file (.png, .svg, .pdf).
    """
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, [data])
    check_exists(data)
    values = np.concatenate(list(numbers(data, column, NumberRange(lower, upper), person=person)))
    tree = plan_quantiles(
        reports=len(values), epsilon=epsilon, delta=delta, lower=lower, upper=upper, leaves=leaves, depth=depth,
        covers=covers,
    )  # fmt: skip
    result = tree.estimate(tree.released(tree.aggregate(tree.randomize(values))), confidence=confidence)
    facts = result.to_dict() | {"error": float(np.sqrt(tree.variance(reports=result.reports).mean()))}
    rows = RowsPerPerson(checked=person is not None)
    facts |= {"influence": tree.influence} | guaranteed_together(tree.protocols, result.reports, delta, rows=rows)
    if output is not None:
        write_table(output, facts, result.columns(), [data])
    draw_estimate(plot, result.chart, [data])
    files = {"table": str(output) if output else None, "picture": str(plot) if plot else None}
    show(facts | files, print_quantiles, json=json)
