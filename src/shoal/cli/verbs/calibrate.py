"""The verb `calibrate`: the question backwards."""

from functools import partial
from pathlib import Path
from typing import Any

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.ledger_file import LedgerOption, opened, usual_delta
from shoal.cli.options import Bound, Count, Json, Number, described
from shoal.cli.output import print_guarantee, show
from shoal.cli.pictures import check_plot, draw, save_plot
from shoal.digits import exactly, rounded_up
from shoal.errors import ParameterError

__all__ = ["calibrate"]


@app.command(
    group=GUARANTEES,
    help_epilogue="Example:  shoal calibrate --epsilon 1 --reports 10_000 --times 365",
)
def calibrate(
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    reports: Count | None = None,
    local_epsilon: Number | None = None,
    times: Count | None = None,
    randomizer: str | None = None,
    categories: Count | None = None,
    bound: Bound = "tightest",
    ledger: LedgerOption = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Find the largest local ε₀ for these reports, the fewest reports for this ε₀, or the most rounds for both.

    Parameters
    ----------
    epsilon
        the central ε that must hold for all rounds together.
    delta
        the δ that goes with it; 1e-6 if not given.
    reports
        how many reports there are in a round, to get the largest ε₀.
    local_epsilon
        ε₀ of what each person runs, to get the fewest reports; with --reports as well, the most rounds.
    times
        how many rounds there are; 1 if not given.
    randomizer
        for a better answer: a mechanism as for `shoal amplify`, but gaussian.
    categories
        over how many categories; alone, it says randomized-response.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), or against δ if there is only one.
    """
    check_plot(plot)
    asked = [name for name, given in (("ε₀", local_epsilon), ("reports", reports)) if given is None]
    if len(asked) == 2 or (not asked and times is not None):
        raise ParameterError(
            "give either --reports (to get the largest ε₀) or --local-epsilon (to get the reports), with --times; or "
            "both of them without --times (to get the number of rounds)"
        )
    wanted: dict[str, Any] = {"local_epsilon": local_epsilon}
    if randomizer is not None or categories is not None:
        wanted = described(randomizer, local_epsilon or 1.0, categories, None)
    book = None if ledger is None else opened(ledger)
    rounds = 1 if times is None else times
    answer = shoal.calibrate(
        **wanted,
        epsilon=epsilon,
        delta=usual_delta(delta, book),
        reports=reports,
        times=rounds if asked else None,
        bound=bound,
        ledger=book,
    )
    result = f"times = {answer.times:,}"
    if asked:
        result = f"local_epsilon = {answer.local_epsilon!r}" if "ε₀" in asked else f"reports = {answer.reports:,}"
    facts = answer.to_dict()
    if plot is None or facts["rounds"] == 1:
        picture = draw(plot, [answer.curve], answer.delta)
    else:
        picture = save_plot(plot, answer.spending.plot())
    show(facts, partial(print_guarantee, headline=result, more=_more(facts)), json=json, picture=picture)


def _more(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is to be said of several rounds, and of the error."""
    rows = []
    one = facts["one_round"]
    if facts["rounds"] > 1:
        setting = f"{one['reports']:,} shuffled reports, each ε₀ = {one['local_epsilon']:g}"
        rows.append(("one round", f"ε = {rounded_up(one['epsilon'])} at δ = {facts['delta']!r}: {setting}"))
    if facts["spent"]:
        rows.append(("ledger", f"had spent ε = {rounded_up(facts['spent'])} of {exactly(facts['target'])} before"))
    if facts["error"] is not None:
        average = f", {facts['average_error']:.4g} of the average over all {facts['times']:,}"
        rows.append(("error", f"{facts['error']:.4g} in one round{average if facts['times'] > 1 else ''}"))
    return rows
