"""The question `attack`: how often an attacker recognises a person."""

import math
from typing import Any

import numpy as np

from shoal.attack import attack_bound
from shoal.charts import Axis, Chart
from shoal.checks import whole
from shoal.digits import rounded_up
from shoal.questions.copied_code import curve_lines, literal
from shoal.questions.parameters import BoundName, Count, Number
from shoal.questions.question import Answer, asks, column
from shoal.questions.setting import Setting

_MOST_POINTS = 100
_FALSE_ALARMS = 0.01


def _python(given: dict[str, Any]) -> list[str]:
    return [*curve_lines(given), f"print(curve.attack_success({literal(given.get('false_alarms', _FALSE_ALARMS))}))"]


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    rates = Axis("false alarms", "log", 1e-3, 1.0)
    success = Axis("attacker's success, at most", "log", 1e-3, 1.0)
    chart = Chart(rates, success, "What an attacker can do", "The rate of right claims against that of wrong ones.")
    points, xs = facts["points"], column(facts["points"], "false_alarms")
    if points:
        chart.line(xs, column(points, "success"), "shuffled", kind="guarantee")
        if facts["alone"] is not None:
            chart.line(xs, column(points, "alone"), "one report alone", kind="series")
    chart.line([1e-3, 1.0], [1e-3, 1.0], "guessing", kind="local")
    chart.mark(facts["false_alarms"], facts["success"], f"{rounded_up(100 * facts['success'], 3)} %")
    return chart


@asks(
    example="reports=10_000&local_epsilon=1&false_alarms=0.01",
    python=_python,
    quick=True,
    chart=_chart,
    verb="amplify",
    without=("false_alarms", "points"),
)
def attack(
    *,
    reports: Count,
    setting: Setting = Setting(),
    false_alarms: Number = _FALSE_ALARMS,
    points: Count = 0,
    bound: BoundName = "tightest",
) -> Answer:
    """Say how often an attacker recognises a person at most, given how often there is a false alarm.

    Parameters
    ----------
    reports : int or float
        How many reports are shuffled together, n; 10_000, 1e6 and 1000000 are all fine.
    setting : Setting
        What each person runs.
    false_alarms : float
        The rate at which the attacker says B of someone whose value is A; success is to say B where it is B.
    points : int or float
        How many points of the curve of success against false alarms to add, from 0.001 to 1; none if 0.
    bound : str
        Which bound to use, as `shoal.explain` names it; tightest takes the best.

    Returns
    -------
    Answer
        Its result is the `PrivacyCurve`. "alone" is the attacker's success against one report that nobody shuffled.

    Examples
    --------
    >>> facts = attack(reports=10_000, local_epsilon=1).facts
    >>> round(facts["success"], 5), round(facts["alone"], 5)
    (0.01032, 0.02718)
    """
    curve = setting.amplified(reports, bound)
    shown = whole(points=points, least=0, most=_MOST_POINTS)
    known = math.isfinite(curve.local_epsilon)

    def alone(rate: float) -> float | None:
        return attack_bound(curve.local_epsilon, curve.local_delta, rate) if known else None

    rates = [float(rate) for rate in np.geomspace(1e-3, 0.999, shown)] if shown else []
    facts: dict[str, Any] = {
        "false_alarms": float(false_alarms),
        "success": curve.attack_success(false_alarms),
        "alone": alone(false_alarms),
        "points": [
            {"false_alarms": rate, "success": curve.attack_success(rate), "alone": alone(rate)} for rate in rates
        ],
        "reports": curve.reports,
        "local_epsilon": curve.local_epsilon if known else None,
        "local_delta": curve.local_delta,
        "randomizer": None if curve.randomizer is None else repr(curve.randomizer),
        "bound": curve.bound,
        "theorem": curve.theorem,
    }
    return Answer(facts, curve)
