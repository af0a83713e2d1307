"""The verb `randomize`: a private report of every value in a column."""

from collections.abc import Iterator
from pathlib import Path

from shoal.checks import whole
from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.choice import MechanismChoice
from shoal.cli.options import Count, Json, Person
from shoal.cli.output import show
from shoal.cli.report_output import check_exists, print_written, written
from shoal.durable_file import check_output
from shoal.errors import ParameterError
from shoal.files.column_values import values
from shoal.files.memory_limits import records_at_once
from shoal.files.person_rows import ASSUMED_ROWS, KEEP_SEVERAL, PersonRows
from shoal.files.report_file import write_reports

_NOTICED = 1e-6
"""An ε₀ that is smaller by more than this share than the one asked for is mentioned."""


@app.command(
    group=HISTOGRAMS,
    help_epilogue="Example:  shoal randomize data.csv --column color --categories names.txt "
    "--mechanism hadamard-response --local-epsilon 2 --output reports.shoal",
)
def randomize(
    data: Path,
    *,
    column: str,
    output: Path,
    choice: MechanismChoice = MechanismChoice(),
    person: Person = None,
    rows_per_person: Count | None = None,
    json: Json = False,
) -> None:
    """Make a private report of every value in a column of a CSV or Parquet file.

    The categories must be known beforehand, from a public source, and are never taken from the data: the mere presence
    of a name that only one person holds would give that person away.

    Every row becomes a report. A guarantee for one report is a guarantee for one person if each person has one row:
    --person checks it.

    Parameters
    ----------
    data
        a CSV file (with a header; .csv.gz will do) or a Parquet file.
    column
        the name of the column.
    output
        the report file to write, such as reports.shoal. The reports are in the order of the data: shuffle them.
    rows_per_person
        keep the first rows of each person, at most this many, instead of refusing a second one. All later guarantees
        are then for a person with that many reports.
    """
    if person is None and rows_per_person is not None:
        raise ParameterError(
            "rows_per_person must come with --person COLUMN, the column that says whose each row is", "rows_per_person"
        )
    inputs = [path for path in (data, *choice.inputs) if path is not None]
    check_output(output, inputs)
    check_exists(data)
    mechanism, names, asked = choice.chosen(column)
    most = None if rows_per_person is None else whole(rows_per_person=rows_per_person)
    people = None if person is None else PersonRows(most, KEEP_SEVERAL)
    rows = ASSUMED_ROWS if people is None else people.rows
    step = records_at_once(mechanism.bytes_per_report)

    def records() -> Iterator[bytes]:
        for batch in values(data, column, names, person=person, people=people):
            for start in range(0, len(batch), step):
                yield mechanism.to_bytes(mechanism.randomize(batch[start : start + step]))

    count = write_reports(output, mechanism, names, records(), inputs=inputs, rows=rows)
    facts = written(mechanism, count // mechanism.bundle, output, rows) | {
        "next": f"shoal shuffle {output} --output shuffled.shoal"
    }
    if most is not None and people is not None:
        facts["rows_left_out"] = people.left_out
    if mechanism.local_epsilon < (1 - _NOTICED) * asked:
        facts["local_epsilon_asked"] = asked
    show(facts, print_written, json=json)
