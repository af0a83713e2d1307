"""The verb `estimate`: from reports or counts to a histogram with intervals."""

from functools import partial
from pathlib import Path
from typing import Any

from shoal.checks import whole
from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Count, Flag, Json, Number
from shoal.cli.output import print_json
from shoal.cli.pictures import MOST_DRAWN, PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.cli.report_output import given, guaranteed, in_order, print_estimate
from shoal.errors import ParameterError
from shoal.files.count_file import aggregated


@app.command(
    group=HISTOGRAMS, help_epilogue="Example:  shoal estimate counts.shoal --output histogram.csv --plot histogram.png"
)
def estimate(
    *files: Path,
    confidence: Number = 0.95,
    delta: Number = 1e-6,
    project: Flag = False,
    output: Path | None = None,
    plot: Path | None = None,
    top: Count | None = None,
    json: Json = False,
) -> None:
    """Estimate how frequent each category is, with intervals, and say how private that is.

    Parameters
    ----------
    files
        report files and count files, of one mechanism over the same categories; no person should be in two of them.
    confidence
        of each interval by itself.
    delta
        δ of the central guarantee.
    project
        make the estimates a distribution: none below 0, and their sum is 1. They are no longer unbiased then.
    output
        write all categories into this file (.csv, .parquet, .json).
    plot
        draw the top categories with their intervals into this file (.png, .svg, .pdf).
    top
        how many categories to print (20 if not given) and to draw (40 if not given, and 1000 at most).
    """
    paths, most = given(files, "estimate"), whole(top=20 if top is None else top, least=0)
    if plot is not None and not most:
        raise ParameterError("there is nothing to draw with --top 0; give --top 1 or more, or leave --plot out")
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, paths)
    state = aggregated(paths)
    result = state.counts.mechanism.estimate(state.counts, confidence=confidence)
    result = result.projected() if project else result
    facts = result.to_dict(state.names.labels)
    if facts["note"] is not None and not project:
        facts["note"] += ", and so does --project here"
    facts |= guaranteed(result.mechanism, result.reports, delta, state.batches, rows=state.rows)
    if state.in_order:
        facts["warning"] = in_order(result.mechanism, state.in_order, len(paths) == 1)
    if output is not None:
        write_table(output, facts, result.columns(state.names.labels), paths)
    drawn: dict[str, Any] = {} if top is None else {"most": min(most, MOST_DRAWN)}
    draw_estimate(plot, partial(result.chart, names=state.names.labels, **drawn), paths)
    if json:
        print_json(facts)
    else:
        print_estimate(facts, result.top(most).tolist(), {"table": output, "picture": plot})
