"""The verb `simulate`: the error of a mechanism, measured."""

from functools import partial
from pathlib import Path

import numpy as np

from shoal.checks import whole
from shoal.cli.app import HISTOGRAMS, app
from shoal.cli.choice import MechanismChoice
from shoal.cli.options import Count, Json, Number
from shoal.cli.output import print_json
from shoal.cli.pictures import PICTURES, check_suffix, draw_estimate
from shoal.cli.report_output import NOT_PRIVATE, check_exists, guaranteed, print_simulation
from shoal.errors import ParameterError
from shoal.files.column_values import values
from shoal.files.person_rows import ASSUMED_ROWS
from shoal.planning.simulation import run_trials, zipf_people


@app.command(
    group=HISTOGRAMS,
    help_epilogue="Example:  shoal simulate --people 1e5 --categories 100 --mechanism rappor --local-epsilon 2",
)
def simulate(
    data: Path | None = None,
    *,
    column: str | None = None,
    choice: MechanismChoice = MechanismChoice(),
    people: Count | None = None,
    trials: Count = 10,
    seed: Count = 1,
    confidence: Number = 0.95,
    delta: Number = 1e-6,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Try a mechanism out: measure its error on your data, or on synthetic data, next to the closed form.

    The coins come from a seed, so that a run can be repeated: for simulation only. `shoal randomize` takes none.
    What this prints and draws is not private, as it shows the truth; the guarantees are those of real reports.

    Parameters
    ----------
    data
        a CSV or Parquet file with the truth, as for `shoal randomize`; without one, give --people and --categories.
    column
        the name of its column.
    people
        how many people to simulate; the i-th category is 1/i as frequent among them as the first.
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
    """
    if (data is None) == (people is None):
        raise ParameterError("give either a data file with --column, or --people and --categories for synthetic data")
    if data is not None and column is None:
        raise ParameterError("this needs --column, the name of the column to read")
    inputs = [path for path in (data, *choice.inputs) if path is not None]
    check_suffix("plot", plot, PICTURES, inputs)
    check_exists(data)
    mechanism, names, _ = choice.chosen(column or "")
    if people is not None:
        counts = zipf_people(people, mechanism.categories)
    else:
        assert data is not None
        counts = np.zeros(mechanism.categories, np.int64)
        for batch in values(data, column or "", names):
            counts += np.bincount(batch, minlength=mechanism.categories)
    done = run_trials(mechanism, counts, trials=trials, seed=seed, confidence=confidence)
    facts = {
        "mechanism": mechanism.to_dict(),
        "categories": mechanism.categories,
        "reports": int(counts.sum()),
        "seed": whole(seed=seed, least=0),
        **done.to_dict(),
        "note": done.estimate.note,
        **guaranteed(mechanism, int(counts.sum()), delta, rows=None if data is None else ASSUMED_ROWS),
        **NOT_PRIVATE,
    }
    draw_estimate(plot, partial(done.estimate.chart, names=names.labels, truth=done.truth), inputs)
    if json:
        columns = done.estimate.columns(names.labels) | {"truth": done.truth}
        print_json(facts | {key: np.asarray(column).tolist() for key, column in columns.items()})
    else:
        print_simulation(facts, plot)
