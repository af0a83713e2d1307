"""The verb `ledger`: what was released, and what it has cost."""

from pathlib import Path

from cyclopts import App

import shoal
from shoal.calibration.spending import EVERY
from shoal.checks import known
from shoal.cli.app import GUARANTEES, app
from shoal.cli.asking import LocalRandomizer
from shoal.cli.files import CertificateFile, certified, opened, text_of
from shoal.cli.options import Bound, Count, Flag, Json, Number, OptionalRounds
from shoal.cli.output import print_ledger, show
from shoal.cli.pictures import check_plot, save_plot
from shoal.composition.budget import Budget
from shoal.planning.plan import PlannedRounds
from shoal.questions.ledger import ledger as question
from shoal.questions.parameters import USUAL_DELTA

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
    every: str | None = None,
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
    every
        how often there is a round of an entry of several: every day, week or month.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    book = opened(file)
    _show(book, delta, every, json=json, plot=plot, certificate=certificate)


@ledger.command(help_epilogue="Example:  shoal ledger record telemetry.json --plan plan.json")
def record(
    file: Path,
    *,
    plan: Path | None = None,
    reports: Count | None = None,
    local: LocalRandomizer = LocalRandomizer(),
    rounds: OptionalRounds = None,
    label: str = "",
    epsilon: Number | None = None,
    delta: Number | None = None,
    planned: Flag = False,
    over_budget: Flag = False,
    bound: Bound = "tightest",
    every: str | None = None,
    json: Json = False,
    plot: Path | None = None,
) -> None:
    """Write rounds into a ledger, before they run: only if its budget allows them, where it has one.

    Parameters
    ----------
    file
        the ledger, a JSON file; it is created if it does not exist.
    plan
        a plan, as `shoal plan --output` writes it: record its rounds, fixed in advance, with its numbers
        and under its target.
    reports
        how many reports are shuffled together in the round.
    rounds
        how many such rounds there are; all of a plan, or 1, if not given.
    label
        what to call it.
    epsilon
        the budget; a round that would break it is refused, with exit status 1. It is stored with the first round, holds
        for all that follow, and another one is refused in the same way.
    delta
        the δ of the budget; 1e-6 if not given, or that of the stored one.
    planned
        state that all rounds were fixed in advance, whatever earlier ones released. Then rounds count as
        what they cost; otherwise they count as more, because they may be chosen by earlier results. The
        first round of a ledger decides.
    over_budget
        write down a release that has happened already, whatever the budget says.
    every
        how often there is a round, if there are several: every day, week or month. The answer then says until
        when the budget lasts; the ledger does not store it.
    plot
        draw ε against the number of rounds into this file (.png, .svg, .pdf), with the budget as a line.
    """
    check_plot(plot)
    if every is not None:
        known(EVERY, every=every)
    if (plan is None) == (reports is None):
        raise shoal.ParameterError("give either --plan with a file, or --reports with what each person runs")
    if plan is not None:
        if local != LocalRandomizer() or bound != "tightest" or epsilon is not None or delta is not None:
            raise shoal.ParameterError("the plan has its randomizer, ε and δ; leave such options out")
        source = text_of(plan)
        planned_rounds = PlannedRounds.from_json(source.text, source.name)
        curve = planned_rounds.curve()
        all_rounds = planned_rounds.rounds
    else:
        curve, all_rounds = local.amplified(reports or 0, bound), 1
    rounds = all_rounds if rounds is None else rounds
    book = shoal.Ledger(file)
    if plan is not None and not over_budget:
        epsilon, delta = planned_rounds.epsilon, planned_rounds.delta
        planned = book.limit is None or book.limit.planned
    limit = book.limit if epsilon is None else Budget(epsilon, USUAL_DELTA if delta is None else delta, planned)
    if over_budget and epsilon is not None:
        raise shoal.ParameterError(
            "--over-budget writes down what has happened, whatever the budget: leave out --epsilon"
        )
    if limit is None or over_budget:
        book.record(curve, label=label, rounds=rounds)
    else:
        asked = {"epsilon": limit.epsilon, "delta": limit.delta if delta is None else delta}
        with book.budget(curve, **asked, label=label, rounds=rounds, planned=planned or limit.planned):
            pass
    _show(book, delta, every, json=json, plot=plot)


def _show(
    book: shoal.Ledger,
    delta: float | None,
    every: str | None,
    *,
    json: bool,
    plot: Path | None,
    certificate: Path | None = None,
) -> None:
    """Print what a ledger has, and draw it if a file is named."""
    answer = question(ledger=book, delta=delta, every=every)
    facts, spending = answer.facts, answer.result.spending
    if certificate is not None:
        proof = certified(answer, certificate)
        facts |= {"spent": proof["epsilon"], "certificate": proof["certificate"]}
    picture = None
    if spending is None and plot is not None:
        raise shoal.ParameterError("plot needs at least one round, and the ledger has none", "plot")
    if spending is not None and plot is not None:
        picture = save_plot(plot, spending.chart(), inputs=(Path(str(book.path)),))
    show(facts, print_ledger, json=json, picture=picture)
