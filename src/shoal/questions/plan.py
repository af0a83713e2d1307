"""The question `plan`: the best mechanism for a histogram."""

import shoal
from shoal.questions.answer import Answer
from shoal.questions.parameters import Count, Flag, LedgerText, Number

__all__ = ["plan"]


def plan(
    *,
    categories: Count,
    reports: Count,
    epsilon: Number | None = None,
    delta: Number | None = None,
    local_epsilon: Number | None = None,
    times: Count = 1,
    ledger: LedgerText | None = None,
    messages: Count = 1,
    dummies: Flag = False,
) -> Answer:
    """Rank the mechanisms for a histogram under a central guarantee, the best first.

    Parameters
    ----------
    categories : int or float
        Over how many categories.
    reports : int or float
        How many reports are shuffled together in a round; 10_000, 1e6 and 1000000 are all fine.
    epsilon : float, optional
        The central ε that must hold for all rounds together.
    delta : float, optional
        The δ that goes with it; that of the ledger's budget if not given, or 1e-6.
    local_epsilon : float, optional
        The most that a report by itself may have, for those who see it unshuffled; no limit if not given.
    times : int or float
        How many such histograms of the same people there will be.
    ledger : Ledger, optional
        What was released about the same people before: what is left of its budget is the target.
    messages : int or float
        How many messages a person may send; with 2 or more, covers are among the choices.
    dummies : bool
        Whether the shuffler may add dummies.

    Returns
    -------
    Answer
        Its result is the `Plan`.
    """
    result = shoal.plan(
        categories=categories,
        reports=reports,
        epsilon=epsilon,
        delta=delta,
        local_epsilon=local_epsilon,
        times=times,
        ledger=ledger,
        messages=messages,
        dummies=dummies,
    )
    return Answer(result.to_dict(), result)
