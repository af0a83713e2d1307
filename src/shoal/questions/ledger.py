"""The question `ledger`: what was released, and what it has cost."""

from typing import Any, NamedTuple

import shoal
from shoal.calibration.spending import Spending, Stretch
from shoal.questions.copied_code import literal, opened
from shoal.questions.parameters import LedgerText, Number, usual_delta
from shoal.questions.question import Answer, asks


class Kept(NamedTuple):
    """A ledger, and how its rounds went by; nothing of an empty one."""

    ledger: shoal.Ledger
    spending: Spending | None


def _python(given: dict[str, Any]) -> list[str]:
    delta = usual_delta(given.get("delta"), given["ledger"])
    return [*opened(given), f"print(ledger.spent({literal(delta)}))"]


@asks(python=_python, verb="ledger show", first="ledger")
def ledger(*, ledger: LedgerText, delta: Number | None = None, every: str | None = None) -> Answer:
    """Say what a ledger has, what it has cost, and how long its budget lasts if it goes on like this.

    Parameters
    ----------
    ledger : Ledger
        What was released; the JSON of its file.
    delta : float, optional
        δ of the answer; that of the budget if not given, or 1e-6.
    every : str, optional
        How often there is a round of an entry of several: every day, week or month. If it is not given, only the day
        of the first is known.

    Returns
    -------
    Answer
        Its result is `Kept`: the ledger, and its spending.
    """
    delta = usual_delta(delta, ledger)
    facts: dict[str, Any] = {**ledger.to_dict(), "delta": delta, "spent": ledger.spent(delta)}
    spending, limit = None, ledger.limit
    if limit is not None:
        facts["counted"] = ledger.counted
    stretches = tuple(Stretch(curve, rounds, entry.time.date()) for entry in ledger for curve, rounds in entry.rounds)
    if stretches:
        spending = Spending(stretches, delta, limit if limit is not None and limit.delta == delta else None, every)
        lasts = spending.to_dict()
        facts |= {"affordable_rounds": lasts["affordable_rounds"], "last_day": lasts["last_day"]}
        facts["lasts"] = spending.sentence
    return Answer(facts, Kept(ledger, spending), lambda: ledger.certify(delta=delta))
