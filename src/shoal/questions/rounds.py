"""The question `rounds`: ε against the number of rounds, the budget, and the day on which it is spent."""

from typing import Any

from shoal.calibration.spending import Spending
from shoal.charts import Axis, Chart
from shoal.digits import rounded_up
from shoal.errors import AskedError
from shoal.questions.compose import compose
from shoal.questions.copied_code import rounds_lines
from shoal.questions.ledger import ledger
from shoal.questions.parameters import USUAL_DELTA, BoundName, Count, Day, Number, Text, ledger_in
from shoal.questions.question import Answer, asks, column
from shoal.questions.setting import Setting


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    x, y = Axis("number of rounds", low=0.0), Axis("central ε of all rounds together", low=0.0)
    chart = Chart(x, y, "What rounds cost", "The guarantee of the first rounds, together, against their number.")
    done = [point for point in facts["points"] if point["rounds"] <= facts["rounds"]]
    later = [point for point in facts["points"] if point["rounds"] >= facts["rounds"]]
    chart.line([0.0, *column(done, "rounds")], [0.0, *column(done, "epsilon")], "", kind="guarantee")
    if len(later) > 1:
        chart.line(column(later, "rounds"), column(later, "epsilon"), "more of the last kind", kind="comparison")
    if facts["budget"] is not None:
        chart.level(facts["budget"]["epsilon"], f"budget ε = {facts['budget']['epsilon']:g}", kind="budget")
    if done:
        count = f"{facts['rounds']:,} round{'' if facts['rounds'] == 1 else 's'}"
        chart.mark(facts["rounds"], facts["epsilon"], f"{count}: ε = {rounded_up(facts['epsilon'], 3)}")
    return chart


@asks(
    example="reports=1e6&local_epsilon=2&rounds=30",
    python=lambda given: rounds_lines("rounds", given),
    chart=_chart,
    seconds=30.0,
    verb="compose",
    adds="--plot rounds.svg",
)
def rounds(
    *,
    reports: Count | None = None,
    setting: Setting = Setting(),
    rounds: Count = 1,
    epsilon: Number | None = None,
    delta: Number | None = None,
    start: Day | None = None,
    every: str | None = None,
    bound: BoundName = "tightest",
    table: Text | None = None,
) -> Answer:
    """Follow ε from round to round, up to the number that was asked for or that a budget allows.

    Parameters
    ----------
    reports : int or float, optional
        How many reports are shuffled together in a round; 10_000, 1e6 and 1000000 are all fine.
    setting : Setting
        What each person runs.
    rounds : int or float
        How many such rounds there are.
    epsilon : float, optional
        A budget for all of them.
    delta : float, optional
        δ of the answer; that of a ledger's budget if not given, or 1e-6.
    start : date, optional
        The day of the first round.
    every : str, optional
        How often there is a round: every day, week or month; day if not given. Of a table or a ledger, this tells when
        the rounds of one line or entry are, which have one date.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    table : NamedText, optional
        Different rounds: a CSV table as for `compose`, or the JSON of a ledger, which has a budget of its own.

    Returns
    -------
    Answer
        Its result is the `Spending`, or nothing of an empty ledger.

    Examples
    --------
    >>> facts = rounds(reports=1e6, local_epsilon=2, rounds=3).facts
    >>> [(point["rounds"], round(point["epsilon"], 4)) for point in facts["points"]]
    [(1, 0.0092), (2, 0.0135), (3, 0.0168)]
    """
    if table is not None and table.text.lstrip("\ufeff \t\r\n").startswith("{"):
        for name, value in (("reports", reports), ("epsilon", epsilon), ("start", start)):
            if value is not None:
                raise AskedError(f"a ledger has its rounds, days and budget in itself; leave out {{{name}}}", name)
        book = ledger.function(ledger=ledger_in(table.text, table.name), delta=delta, every=every)
        return _answer(book.result.spending, book.facts["delta"])
    composed = compose.function(
        reports=reports,
        setting=setting,
        rounds=rounds,
        epsilon=epsilon,
        delta=USUAL_DELTA if delta is None else delta,
        start=start,
        every=every,
        bound=bound,
        table=table,
    )
    return _answer(composed.result.spending, composed.facts["delta"])


def _answer(spending: Spending | None, delta: float) -> Answer:
    """Return the points of the curve, and where the budget ends."""
    facts: dict[str, Any] = {"delta": delta, "rounds": 0, "epsilon": 0.0, "points": [], "kinds": []}
    if spending is None:
        return Answer(facts | {"budget": None, "affordable_rounds": None, "last_day": None, "lasts": None}, None)
    points = []
    for count in spending.counts():
        day = spending.day(count)
        points.append({"rounds": count, "epsilon": spending.epsilon(count), "day": day and day.isoformat()})
    facts |= {
        "rounds": spending.total,
        "epsilon": next(point["epsilon"] for point in points if point["rounds"] == spending.total),
        "points": points,
        "kinds": [
            {
                "reports": stretch.curve.reports,
                "local_epsilon": stretch.curve.local_epsilon,
                "randomizer": None if stretch.curve.randomizer is None else repr(stretch.curve.randomizer),
                "bound": stretch.curve.bound,
                "rounds": stretch.rounds,
                "day": stretch.day and stretch.day.isoformat(),
            }
            for stretch in spending.stretches
        ],
        **spending.to_dict(),
        "lasts": spending.sentence,
    }
    return Answer(facts, spending)
