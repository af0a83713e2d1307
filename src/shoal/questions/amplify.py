"""The question `amplify`: the guarantee of one round."""

from typing import Any

from shoal.charts import Chart
from shoal.questions.copied_code import curve_lines, literal
from shoal.questions.parameters import USUAL_DELTA, BoundName, Count, Flag, Number
from shoal.questions.question import Answer, asks
from shoal.questions.setting import Setting


def _python(given: dict[str, Any]) -> list[str]:
    delta = literal(given.get("delta", USUAL_DELTA))
    asked = f"certify(delta={delta})" if given.get("certify") else f"epsilon({delta})"
    return [*curve_lines(given), f"print(curve.{asked})"]


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    chart: Chart = answer.result.chart(delta=arguments.get("delta", USUAL_DELTA))
    return chart


@asks(
    example="local_epsilon=1&reports=10_000&delta=1e-6",
    python=_python,
    quick=True,
    chart=_chart,
    drawn="ε against δ",
)
def amplify(
    *,
    reports: Count,
    setting: Setting = Setting(),
    delta: Number = USUAL_DELTA,
    bound: BoundName = "tightest",
    certify: Flag = False,
) -> Answer:
    """Say what (ε, δ) n shuffled reports have.

    Parameters
    ----------
    reports : int or float
        How many reports are shuffled together, n; 10_000, 1e6 and 1000000 are all fine.
    setting : Setting
        What each person runs.
    delta : float
        δ of the answer.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.
    certify : bool
        Prove the answer in ball arithmetic.

    Returns
    -------
    Answer
        Its result is the `PrivacyCurve`.

    Examples
    --------
    >>> amplify(reports=10_000, local_epsilon=1).facts["epsilon"]
    0.04095...
    """
    curve = setting.amplified(reports, bound)
    facts = curve.to_dict(delta=delta, certify=certify)
    return Answer(facts, curve, lambda: curve.certify(delta=delta))
