"""The verb `calibrate`: the question backwards."""

from functools import partial
from pathlib import Path
from typing import Any

from shoal.cli.app import GUARANTEES, app
from shoal.cli.asking import asking
from shoal.cli.options import Json
from shoal.cli.output import fixed_in_advance, print_guarantee, show
from shoal.cli.pictures import check_plot, draw, save_plot
from shoal.digits import exactly, input_down, rounded_up
from shoal.questions.calibrate import calibrate as question


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal calibrate --epsilon 1 --reports 10_000 --rounds 365",
)
@asking("calibrate")
def calibrate(asked: dict[str, Any], *, json: Json = False, plot: Path | None = None) -> None:
    """Find the largest local ε₀ for these reports, the fewest reports for this ε₀, or the most rounds for both.

    Parameters
    ----------
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), or against δ if there is only one.
    """
    check_plot(plot)
    answer = question(**asked)
    calibration, facts = answer.result, answer.facts
    if asked.get("reports") is None:
        headline = f"reports = {calibration.reports:,}"
    elif asked.get("local_epsilon") is None:
        headline = f"local_epsilon = {calibration.local_epsilon!r}"
    else:
        headline = f"rounds = {calibration.rounds:,}"
    if plot is None or facts["rounds"] == 1:
        picture = draw(plot, [calibration.curve], calibration.delta)
    else:
        picture = save_plot(plot, calibration.spending.chart())
    more = _more(facts, planned=calibration.target.budget.planned)
    show(facts, partial(print_guarantee, headline=headline, more=more), json=json, picture=picture)


def _more(facts: dict[str, Any], *, planned: bool) -> list[tuple[str, str]]:
    """Return what is to be said of several rounds, and of the error."""
    rows = []
    one = facts["one_round"]
    if facts["rounds"] > 1:
        setting = f"{one['reports']:,} shuffled reports, each ε₀ = {input_down(one['local_epsilon'])}"
        rows.append(("one round", f"ε = {rounded_up(one['epsilon'])} at δ = {facts['delta']!r}: {setting}"))
    if facts["spent"]:
        rows.append(("ledger", f"had counted ε = {rounded_up(facts['spent'])} of {exactly(facts['target'])} before"))
    if not planned:
        cost = f"ε = {rounded_up(facts['cost'])} if all rounds are fixed in advance"
        counted = f"The budget counts {rounded_up(facts['counted'])}, because later rounds may be chosen by earlier"
        rows.append(("cost", f"{cost}. {counted} results; the guarantee is the whole budget"))
    elif facts["rounds"] > 1:
        rows.append(fixed_in_advance(facts["rounds"]))
    if facts["error"] is not None:
        average = f", {facts['average_error']:.4g} of the average over all {facts['rounds']:,}"
        rows.append(("error", f"{facts['error']:.4g} in one round{average if facts['rounds'] > 1 else ''}"))
    return rows
