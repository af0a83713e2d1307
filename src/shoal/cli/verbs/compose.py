"""The verb `compose`: the guarantee of many rounds."""

from functools import partial
from pathlib import Path
from typing import Any

from shoal.cli.app import GUARANTEES, app
from shoal.cli.asking import asking
from shoal.cli.files import CertificateFile, certified
from shoal.cli.options import Json
from shoal.cli.output import fixed_in_advance, print_guarantee, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.errors import AskedError
from shoal.questions.compose import compose as question


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal compose --local-epsilon 2 --reports 1e6 --rounds 365 --epsilon 0.5 --plot year.png",
)
@asking("compose")
def compose(
    asked: dict[str, Any],
    *,
    certificate: CertificateFile = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Say what (ε, δ) many rounds have together, and how many of them a budget allows.

    Parameters
    ----------
    table
        a CSV file of different rounds, with the columns reports and local_epsilon and, if you like, local_delta,
        randomizer, categories, sigma, rounds and date.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    table, dated = asked.get("table"), asked.get("start") is not None
    if asked.get("method", "pld") != "pld" and plot:
        raise AskedError("how long a budget lasts, and the picture, need {method=pld}")
    if asked.get("every") is not None and not dated and table is None:
        raise AskedError("{every} needs {start}, the day of the first round", "every")
    if dated and asked.get("epsilon") is None and table is None:
        raise AskedError("{start} needs {epsilon}: the answer says on which day that budget is spent", "start")
    answer = question(**asked)
    facts, spending = answer.facts, answer.result.spending
    if certificate is not None:
        facts |= certified(answer, certificate)
    picture = (
        None if plot is None else save_plot(plot, spending.chart(), inputs=() if table is None else (Path(table.name),))
    )
    more = [("budget", spending.sentence)] if spending.sentence else []
    if facts["rounds"] > 1:
        more.append(fixed_in_advance(facts["rounds"]))
    show(facts, partial(print_guarantee, more=more), json=json, picture=picture)
