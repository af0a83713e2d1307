"""The question `plan`: the best mechanism for a histogram."""

import math
from typing import Any

import numpy as np

import shoal
from shoal.charts import Axis, Chart
from shoal.questions.copied_code import call, opened, taken, target
from shoal.questions.parameters import Count, Flag, LedgerText, Number
from shoal.questions.question import Answer, asks

_MOST_BARS = 24


def _python(given: dict[str, Any]) -> list[str]:
    asked = taken(given, "categories", "reports", "epsilon", "local_epsilon", "rounds")
    return [*opened(given), f"print({call('shoal.plan', *asked, *target(given))})"]


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    """Draw an example: shares that fall like 1, ½, ⅓, …, with the error that the best mechanism has at each of them."""
    plan, best = answer.result, answer.result.best
    shares = 1 / np.arange(1.0, plan.categories + 1)
    shares /= shares.sum()
    errors = 2 * np.sqrt(best.mechanism.variance(shares, reports=plan.reports))
    names, order = [f"{position + 1:,}" for position in range(plan.categories)], np.arange(plan.categories)
    note = ""
    if plan.categories > _MOST_BARS:  # the first ones, a gap, and the last one
        order = np.append(np.arange(_MOST_BARS - 2), [0, -1])
        names = [*names[: _MOST_BARS - 2], "…", names[-1]]
        note = f"{plan.categories - _MOST_BARS + 1:,} categories in between are left out."
    chart = Chart(
        Axis("category", names=tuple(names)),
        Axis("share of the people"),
        f"An example, estimated by {best.mechanism.name.replace('-', ' ')}",
        "Shares of an example with error bars of two standard deviations, from the most frequent to the rarest.",
        note=note,
    )
    values = [each[order] for each in (shares, shares - errors, shares + errors)]
    if note:
        for each in values:
            each[-2] = math.nan
    bars, lower, upper = values
    chart.bars(bars, lower=lower, upper=upper, label="share", interval="± 2 standard deviations")
    return chart


@asks(example="categories=100&reports=1e5&epsilon=0.5", python=_python, chart=_chart, seconds=60.0)
def plan(
    *,
    categories: Count,
    reports: Count,
    epsilon: Number | None = None,
    delta: Number | None = None,
    local_epsilon: Number | None = None,
    rounds: Count = 1,
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
    rounds : int or float
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
        rounds=rounds,
        ledger=ledger,
        messages=messages,
        dummies=dummies,
    )
    return Answer(result.to_dict(), result)
