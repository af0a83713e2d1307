"""The verb `aggregate`: from reports to counts."""

from pathlib import Path

from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.cli.report_output import given, print_aggregate, written
from shoal.durable_file import check_output
from shoal.files.count_file import aggregated, write_counts


@app.command(group=HISTOGRAMS, help_epilogue="Example:  shoal aggregate shuffled.shoal --output counts.shoal")
def aggregate(*files: Path, output: Path, json: Json = False) -> None:
    """Add reports up to a small file of counts, all that an estimate needs.

    Parameters
    ----------
    files
        report files and count files, of one mechanism over the same categories; no person should be in two of them.
    output
        the count file to write, such as counts.shoal.
    """
    paths = given(files, "aggregate")
    check_output(output, paths)
    state = aggregated(paths)
    write_counts(output, state, inputs=paths)
    facts = written(state.counts.mechanism, state.counts.reports, output, state.rows, state.batches)
    show(facts, print_aggregate, json=json)
