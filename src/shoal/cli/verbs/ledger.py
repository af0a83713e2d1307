"""The verb `ledger`: what was released, and what it has cost."""

from pathlib import Path

from cyclopts import App

import shoal
from shoal.cli.app import GUARANTEES, app
from shoal.cli.options import Bound, Count, Flag, Json, LocalRandomizer, Number
from shoal.cli.output import print_ledger, show
from shoal.errors import ParameterError

__all__ = ["record", "show_ledger"]

ledger = App(
    name="ledger",
    help="Keep a budget: what was released, in order, and what it has cost.",
    help_epilogue="Example:  shoal ledger show telemetry.json",
    group=GUARANTEES,
)
app.command(ledger)


@ledger.command(name="show", help_epilogue="Example:  shoal ledger show telemetry.json --delta 1e-6")
def show_ledger(file: Path, *, delta: Number = 1e-6, json: Json = False) -> None:
    """Show what a ledger has, and what it has cost.

    Parameters
    ----------
    file
        the ledger, a JSON file.
    delta
        δ of the answer.
    """
    if not file.exists():
        raise ParameterError(f"{file} does not exist; `shoal ledger record {file} …` starts it")
    book = shoal.Ledger(file)
    show({**book.to_dict(), "delta": delta, "spent": book.spent(delta)}, print_ledger, json=json)


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
    delta: Number = 1e-6,
    planned: Flag = False,
    bound: Bound = "tightest",
    json: Json = False,
) -> None:
    """Write a round into a ledger, before it runs; with --epsilon, only if the budget allows it.

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
        the budget; a round that would break it is refused, with exit status 1. It is stored with the first round, and
        another one is refused in the same way.
    delta
        the δ of the budget.
    planned
        say that all rounds were settled in advance, whatever earlier ones released: more of them fit then.
    """
    curve = local.amplify(reports, bound)
    book = shoal.Ledger(file)
    if epsilon is None:
        book.record(curve, label=label, times=times)
    else:
        with book.budget(curve, epsilon=epsilon, delta=delta, label=label, times=times, planned=planned):
            pass
    show({**book.to_dict(), "delta": delta, "spent": book.spent(delta)}, print_ledger, json=json)
