"""The verb `compose`: the guarantee of many rounds."""

from datetime import date
from functools import partial
from pathlib import Path

from shoal.cli.app import GUARANTEES, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.help_text import asking
from shoal.cli.options import Bound, Count, Json, LocalRandomizer, Method, Number, Rounds
from shoal.cli.output import fixed_in_advance, print_guarantee, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.cli.text_file import text_of
from shoal.errors import AskedError
from shoal.questions import compose as question

__all__ = ["compose"]


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal compose --local-epsilon 2 --reports 1e6 --rounds 365 --epsilon 0.5 --plot year.png",
)
@asking("compose")
def compose(
    *,
    reports: Count | None = None,
    local: LocalRandomizer = LocalRandomizer(),
    times: Rounds = 1,
    epsilon: Number | None = None,
    delta: Number = 1e-6,
    start: date | None = None,
    every: str | None = None,
    bound: Bound = "tightest",
    table: Path | None = None,
    method: Method = "loss",
    certificate: CertificateFile = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Say what (ε, δ) many rounds have together, and how many of them a budget allows.

    Parameters
    ----------
    table
        a CSV file of different rounds, with the columns reports and local_epsilon and, if you like, local_delta,
        randomizer, categories, deviation, times and date.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    if method != "loss" and plot:
        raise AskedError("how long a budget lasts, and the picture, need {method=loss}")
    if every is not None and start is None and table is None:
        raise AskedError("{every} needs {start}, the day of the first round", "every")
    if start is not None and epsilon is None and table is None:
        raise AskedError("{start} needs {epsilon}: the answer says on which day that budget is spent", "start")
    answer = question.compose(
        **local.arguments(),
        reports=reports,
        times=times,
        epsilon=epsilon,
        delta=delta,
        start=start,
        every=every,
        bound=bound,
        table=None if table is None else text_of(table),
        method=method,
    )
    facts, spending = answer.facts, answer.result.spending
    if certificate is not None:
        facts |= certified(answer, certificate)
    picture = None if plot is None else save_plot(plot, spending.chart(), inputs=() if table is None else (table,))
    more = [("budget", spending.sentence)] if spending.sentence else []
    if facts["rounds"] > 1:
        more.append(fixed_in_advance(facts["rounds"]))
    show(facts, partial(print_guarantee, more=more), json=json, picture=picture)
