"""The verbs about files of reports: `randomize`, `shuffle`, `aggregate`, `estimate`, `simulate`."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from shoal.checks import whole
from shoal.cli.app import app, show
from shoal.cli.arguments import Count, Flag, Number
from shoal.cli.choice import CategoryNames, chosen
from shoal.cli.output import print_json
from shoal.cli.report_output import print_aggregate, print_estimate, print_simulation, print_written
from shoal.cli.tables import MOST_DRAWN, PICTURES, TABLES, check_suffix, draw_estimate, write_table
from shoal.durable_file import check_output
from shoal.errors import ParameterError
from shoal.frequency.count_file import aggregated, write_counts
from shoal.frequency.report_file import ReportFile, records_at_once, write_reports
from shoal.frequency.simulation import run_trials, zipf_people
from shoal.frequency.values import values
from shoal.randomizers import Categorical
from shoal.shuffling import shuffle as shuffle_files

__all__ = ["aggregate", "estimate", "randomize", "shuffle", "simulate"]

_SEEN = "to whoever sees the reports only shuffled together, or added up"
_ONCE = "if each person is in one of them only"
_NOTICED = 1e-6
_NOT_PRIVATE = {
    "guarantees_of": "real reports made with this mechanism",
    "private": False,
    "warning": "this output itself is not private: it contains the truth, or is computed from it",
}


@app.command(
    help_epilogue="Example:  shoal randomize data.csv --column color --categories names.txt "
    "--mechanism hadamard-response --local-epsilon 2 --output reports.shoal"
)
def randomize(
    data: Path,
    *,
    column: str,
    output: Path,
    categories: CategoryNames = None,
    mechanism: str | None = None,
    local_epsilon: Number | None = None,
    schema: Path | None = None,
    json: Flag = False,
) -> None:
    """Make a private report of every value in a column of a CSV or Parquet file.

    The categories must be known beforehand, from a public source, and are never taken from the data: the mere presence
    of a name that only one person holds would give that person away.

    Parameters
    ----------
    data
        a CSV file (with a header; .csv.gz will do) or a Parquet file.
    column
        the name of the column.
    output
        the report file to write, such as reports.shoal. The reports are in the order of the data: shuffle them.
    categories
        all categories there may be: a file with one name a line (the first line is a name too), a CSV or Parquet file
        that has a column of the same name, names with commas between them, or a number k if the column holds
        the whole numbers from 0 to k - 1.
    mechanism
        what each person runs: hadamard-response, local-hashing, private-independent-rappor,
        projective-geometry-response, randomized-response, rappor, recursive-hadamard-response, subset-selection or
        unary-encoding; `shoal plan` finds the best.
    local_epsilon
        ε₀ of each report; 2, say. The smaller, the more private, and the larger the error.
    schema
        a JSON file with the mechanism and all its parameters, such as `shoal plan --json` prints, in place of
        --mechanism and --local-epsilon.
    json
        print what was done as JSON.
    """
    inputs = [path for path in (data, schema, Path(categories or "")) if path is not None]
    check_output(output, inputs)
    _check_there(data)
    made, names, asked = chosen(column, categories, mechanism, local_epsilon, schema)
    step = records_at_once(made.bytes_per_report)

    def records() -> Iterator[bytes]:
        for batch in values(data, column, names):
            for start in range(0, len(batch), step):
                yield made.to_bytes(made.randomize(batch[start : start + step]))

    count = write_reports(output, made, names, records(), inputs=inputs)
    facts = _written(made, count, output) | {"next": f"shoal shuffle {output} --output shuffled.shoal"}
    if made.local_epsilon < (1 - _NOTICED) * asked:
        facts["local_epsilon_asked"] = asked
    show(facts, print_written, json=json, picture=None)


@app.command(help_epilogue="Example:  shoal shuffle monday.shoal tuesday.shoal --output shuffled.shoal")
def shuffle(*reports: Path, output: Path, json: Flag = False) -> None:
    """Put all reports into a uniformly random order, so that none can be traced to a row.

    Parameters
    ----------
    reports
        report files; several are shuffled together into one, and no person should be in two of them.
    output
        the report file to write, such as shuffled.shoal.
    json
        print what was done as JSON.
    """
    paths = _some(reports, "shuffle")
    count = shuffle_files(paths, output)
    mixed = ReportFile.opened(output)
    facts = _written(mixed.mechanism, count, output, mixed.batches) | {"next": f"shoal estimate {output}"}
    show(facts, print_written, json=json, picture=None)


@app.command(help_epilogue="Example:  shoal aggregate shuffled.shoal --output counts.shoal")
def aggregate(*files: Path, output: Path, json: Flag = False) -> None:
    """Add reports up to a small file of counts, all that an estimate needs.

    Parameters
    ----------
    files
        report files and count files, of one mechanism over the same categories; no person should be in two of them.
    output
        the count file to write, such as counts.shoal.
    json
        print what was done as JSON.
    """
    paths = _some(files, "aggregate")
    check_output(output, paths)
    state = aggregated(paths)
    write_counts(output, state, inputs=paths)
    facts = _written(state.counts.mechanism, state.counts.reports, output, state.batches)
    show(facts, print_aggregate, json=json, picture=None)


@app.command(help_epilogue="Example:  shoal estimate counts.shoal --output histogram.csv --plot histogram.png")
def estimate(
    *files: Path,
    confidence: Number = 0.95,
    delta: Number = 1e-6,
    project: Flag = False,
    output: Path | None = None,
    plot: Path | None = None,
    top: Count | None = None,
    json: Flag = False,
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
    json
        print everything, and all categories, as JSON.
    """
    paths, most = _some(files, "estimate"), whole(top=20 if top is None else top, least=0)
    if plot is not None and not most:
        raise ParameterError("there is nothing to draw with --top 0; give --top 1 or more, or leave --plot out")
    for name, path, suffixes in (("output", output, TABLES), ("plot", plot, PICTURES)):
        check_suffix(name, path, suffixes, paths)
    state = aggregated(paths)
    found = state.counts.mechanism.estimate(state.counts, confidence=confidence)
    found = found.projected() if project else found
    facts = found.to_dict(state.names.labels) | _guaranteed(found.mechanism, found.reports, delta, state.batches)
    if state.in_order:
        facts["warning"] = _in_order(state.in_order, len(paths) == 1)
    if output is not None:
        write_table(output, facts, found.columns(state.names.labels), paths)
    drawn: dict[str, Any] = {} if top is None else {"most": min(most, MOST_DRAWN)}
    draw_estimate(plot, partial(found.plot, names=state.names.labels, **drawn), paths)
    if json:
        print_json(facts)
    else:
        print_estimate(facts, found.top(most).tolist(), {"table": output, "picture": plot})


@app.command(
    help_epilogue="Example:  shoal simulate --people 1e5 --categories 100 --mechanism rappor --local-epsilon 2"
)
def simulate(
    data: Path | None = None,
    *,
    column: str | None = None,
    categories: CategoryNames = None,
    mechanism: str | None = None,
    local_epsilon: Number | None = None,
    schema: Path | None = None,
    people: Count | None = None,
    trials: Count = 10,
    seed: Count = 1,
    confidence: Number = 0.95,
    delta: Number = 1e-6,
    plot: Path | None = None,
    json: Flag = False,
) -> None:
    """Try a mechanism out: measure its error on your data, or on made data, beside the closed form.

    The coins come from a seed, so that a run can be repeated: for simulation only. `shoal randomize` takes none.
    What this prints and draws is not private, as it shows the truth; the guarantees are those of real reports.

    Parameters
    ----------
    data
        a CSV or Parquet file with the truth, as for `shoal randomize`; without one, give --people and --categories.
    column
        the name of its column.
    categories
        as for `shoal randomize`.
    mechanism
        what each person runs, such as hadamard-response.
    local_epsilon
        ε₀ of each report.
    schema
        a JSON file with the mechanism and all its parameters, in place of --mechanism and --local-epsilon.
    people
        how many people to make up; the i-th category is 1/i as frequent among them as the first.
    trials
        how often to run it.
    seed
        of the coins, a whole number.
    confidence
        of the intervals.
    delta
        δ of the central guarantee.
    plot
        draw the estimates of the first trial and the truth into this file (.png, .svg, .pdf).
    json
        print everything as JSON.
    """
    if (data is None) == (people is None):
        raise ParameterError("give either a data file with --column, or --people and --categories for made data")
    if data is not None and column is None:
        raise ParameterError("this needs --column, the name of the column to read")
    inputs = [path for path in (data, schema, Path(categories or "")) if path is not None]
    check_suffix("plot", plot, PICTURES, inputs)
    _check_there(data)
    made, names, _ = chosen(column or "", categories, mechanism, local_epsilon, schema)
    if data is None:
        counts = zipf_people(people, made.categories)
    else:
        counts = np.zeros(made.categories, np.int64)
        for batch in values(data, column or "", names):
            counts += np.bincount(batch, minlength=made.categories)
    done = run_trials(made, counts, trials=trials, seed=seed, confidence=confidence)
    facts = {
        "mechanism": made.to_dict(),
        "categories": made.categories,
        "reports": int(counts.sum()),
        "seed": whole(seed=seed, least=0),
        **done.to_dict(),
        "note": done.estimate.note,
        **_guaranteed(made, int(counts.sum()), delta),
        **_NOT_PRIVATE,
    }
    draw_estimate(plot, partial(done.estimate.plot, names=names.labels, truth=done.truth), inputs)
    if json:
        columns = done.estimate.columns(names.labels) | {"truth": done.truth}
        print_json(facts | {key: np.asarray(column).tolist() for key, column in columns.items()})
    else:
        print_simulation(facts, plot)


def _check_there(data: Path | None) -> None:
    """Say no to data that do not exist before anything else is looked at."""
    if data is not None and not data.exists():
        raise ParameterError(f"{data} does not exist; give a CSV or Parquet file")


def _some(paths: Sequence[Path], verb: str) -> list[Path]:
    if not paths:
        raise ParameterError(f"shoal {verb} needs a file, such as reports.shoal. Try: shoal {verb} --help")
    return list(paths)


def _written(made: Categorical, reports: int, output: Path, batches: Sequence[str] = ()) -> dict[str, Any]:
    condition = f"these are {len(batches):,} batches: the central guarantee of all together holds {_ONCE}"
    return {
        "output": str(output),
        "reports": reports,
        "mechanism": made.to_dict(),
        "local_epsilon": made.local_epsilon,
        "bytes_per_report": made.bytes_per_report,
        **({"condition": condition} if len(batches) > 1 else {}),
    }


def _guaranteed(made: Categorical, reports: int, delta: float, batches: Sequence[str] = ()) -> dict[str, Any]:
    central = shoal.amplify(made, reports=reports).to_dict(delta=delta)
    several = f"reports of these {len(batches):,} batches"
    holds = f"{_SEEN.replace('reports', several)}, {_ONCE}" if len(batches) > 1 else _SEEN
    return {"local_epsilon": made.local_epsilon, "central": central | {"holds": holds}}


def _in_order(paths: Sequence[Path], alone: bool) -> str:
    told = "these reports" if alone else f"the reports in {', '.join(map(str, paths))}"
    files, them = ("this file", "it") if len(paths) == 1 else ("these files", "them")
    return (
        f"{told} are in the order of the people: whoever sees {files} has only the local guarantee; shuffle {them}, or "
        "pass on the counts alone"
    )
