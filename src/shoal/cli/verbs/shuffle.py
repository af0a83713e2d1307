"""The verb `shuffle`: a uniformly random order."""

from pathlib import Path

from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.options import Flag, Json
from shoal.cli.output import show
from shoal.cli.report_output import given, print_written, written
from shoal.files.report_file import ReportFile
from shoal.shuffling import shuffle as shuffle_files


@app.command(
    group=HISTOGRAMS, help_epilogue="Example:  shoal shuffle monday.shoal tuesday.shoal --output shuffled.shoal"
)
def shuffle(*reports: Path, output: Path, again: Flag = False, json: Json = False) -> None:
    """Put all reports into a uniformly random order, so that none can be traced to a row.

    Parameters
    ----------
    reports
        report files; several are shuffled together into one, and no person should be in two of them.
    output
        the report file to write, such as shuffled.shoal.
    again
        draw dummies for reports that have had theirs: only if nobody has seen what was written then, else ε is spent
        twice.
    """
    paths = given(reports, "shuffle")
    count = shuffle_files(paths, output, again=again)
    mixed = ReportFile.opened(output)
    facts = written(mixed.mechanism, count, output, mixed.rows, mixed.batches) | {"next": f"shoal estimate {output}"}
    if mixed.added:
        facts["once"] = f"{mixed.records - count:,} dummies were added; keep no second shuffle of the same reports"
    show(facts, print_written, json=json)
