"""The question `compare`: every bound that applies."""

from typing import Any

import shoal
from shoal.charts import Axis, Chart
from shoal.digits import rounded_up
from shoal.questions.copied_code import call, literal, runs, taken
from shoal.questions.parameters import USUAL_DELTA, Count, Number
from shoal.questions.question import Answer, asks, column
from shoal.questions.setting import Setting


def _python(given: dict[str, Any]) -> list[str]:
    delta = literal(given.get("delta", USUAL_DELTA))
    asking = call("shoal.compare", *runs(given), *taken(given, "local_delta", "reports"), f"delta={delta}")
    return [f"for curve in {asking}:", f"    print(curve.bound, curve.epsilon({delta}))"]


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    names = Axis("", names=tuple(row["bound"] for row in facts))
    chart = Chart(Axis("central ε"), names, "Every bound that applies", "The ε of each bound, the tightest first.")
    kinds = ["guarantee" if row["proven"] else "comparison" for row in facts]
    texts = [rounded_up(row["epsilon"], 3) + ("" if row["proven"] else " (no guarantee)") for row in facts]
    chart.bars(column(facts, "epsilon"), texts=texts, kind=kinds)
    if facts[0]["best_possible"] is not None:
        chart.level(facts[0]["best_possible"], "best possible", kind="limit")
    return chart


@asks(example="local_epsilon=4&reports=1e6", python=_python, quick=True, chart=_chart, drawn="ε against δ")
def compare(
    *,
    reports: Count,
    setting: Setting = Setting(),
    delta: Number = USUAL_DELTA,
) -> Answer:
    """List every bound that applies, the tightest first, and what no bound can beat.

    Parameters
    ----------
    reports : int or float
        How many reports are shuffled together, n; 10_000, 1e6 and 1000000 are all fine.
    setting : Setting
        What each person runs.
    delta : float
        δ of the answers.

    Returns
    -------
    Answer
        Its result is what `shoal.compare` returns.
    """
    curves = shoal.compare(**setting.described(), local_delta=setting.local_delta, reports=reports, delta=delta)
    return Answer([curve.to_dict(delta=delta) for curve in curves], curves)
