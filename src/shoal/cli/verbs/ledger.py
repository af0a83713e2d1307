"""The verb `ledger`: what was released, and what it has cost."""

from pathlib import Path

from cyclopts import App

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.certificates import CertificateFile, certified
from shoal.cli.ledger_file import opened
from shoal.cli.options import Bound, Count, Flag, Json, LocalRandomizer, Number
from shoal.cli.output import print_ledger, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.composition.budget import Budget
from shoal.questions import ledger as question
from shoal.questions.parameters import USUAL_DELTA
from shoal.questions.randomizer_choice import amplified

__all__ = ["record", "show_ledger"]

ledger = App(
    name="ledger",
    help="Keep a budget: what was released, in order, and what it has cost.",
    help_epilogue="Example:  shoal ledger show telemetry.json",
    group=GUARANTEES,
)
app.command(ledger)


@ledger.command(name="show", help_epilogue="Example:  shoal ledger show telemetry.json --plot spending.png")
def show_ledger(
    file: Path,
    *,
    delta: Number | None = None,
    certificate: CertificateFile = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Show what a ledger has, what it has cost, and how long its budget lasts if it goes on like this.

    Parameters
    ----------
    file
        the ledger, a JSON file.
    delta
        δ of the answer; that of the budget if not given, or 1e-6.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    book = opened(file)
    _show(book, delta, json, plot, certificate)


@ledger.command(
    help_epilogue="Example:  shoal ledger record telemetry.json --local-epsilon 2 --reports 1e6 --label monday "
    "--epsilon 1"
)
def record(
    file: Path,
    *,
    reports: Count,
    local: LocalRandomizer = LocalRandomizer(),
    times: Count = 1,
    label: str = "",
    epsilon: Number | None = None,
    delta: Number | None = None,
    planned: Flag = False,
    over_budget: Flag = False,
    bound: Bound = "tightest",
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Write a round into a ledger, before it runs: only if its budget allows it, where it has one.

    Parameters
    ----------
    file
        the ledger, a JSON file; it is created if it does not exist.
    reports
        how many reports are shuffled together in the round.
    times
        how many such rounds there are.
    label
        what to call it.
    epsilon
        the budget; a round that would break it is refused, with exit status 1. It is stored with the first round, holds
        for all that follow, and another one is refused in the same way.
    delta
        the δ of the budget; 1e-6 if not given, or that of the stored one.
    planned
        say that all rounds were settled in advance, whatever earlier ones released: more of them fit then.
    over_budget
        write down a release that has happened already, whatever the budget says.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    curve = amplified(**local.arguments(), reports=reports, bound=bound)
    book = shoal.Ledger(file)
    limit = book.limit if epsilon is None else Budget(epsilon, USUAL_DELTA if delta is None else delta, planned)
    if over_budget and epsilon is not None:
        raise shoal.ParameterError(
            "--over-budget writes down what has happened, whatever the budget: leave out --epsilon"
        )
    if limit is None or over_budget:
        book.record(curve, label=label, times=times)
    else:
        asked = {"epsilon": limit.epsilon, "delta": limit.delta if delta is None else delta}
        with book.budget(curve, **asked, label=label, times=times, planned=planned or limit.planned):
            pass
    _show(book, delta, json, plot)


def _show(
    book: shoal.Ledger, delta: float | None, json: bool, plot: Path | None, certificate: Path | None = None
) -> None:
    """Print what a ledger has, and draw it if a file is named."""
    answer = question.ledger(ledger=book, delta=delta)
    facts, spending = answer.facts, answer.result.spending
    if certificate is not None:
        proof = certified(answer, certificate)
        facts |= {"spent": proof["epsilon"], "certificate": proof["certificate"]}
    picture = None
    if spending is not None and plot is not None:
        picture = save_plot(plot, spending.chart(), inputs=(Path(str(book.path)),))
    show(facts, print_ledger, json=json, picture=picture)
