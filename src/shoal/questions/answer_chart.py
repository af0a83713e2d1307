"""The chart of an answer: along axes that stay where they are while sliders move."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.charts import Axis, Chart
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.questions.answer import Answer

__all__ = ["chart_of", "check_chart"]

_MOST_BARS = 24
_EPSILON = Axis("central ε", "log", 1e-4, 10.0)
"""Wider by whole powers of ten where there is more to show."""
_LEAST = 1e-9
"""An ε below this is zero in a picture: against δ, it falls to zero."""
_AXES = {
    "reports": Axis("reports that are shuffled together", "log", 10.0, 1e9),
    "delta": Axis("δ", "log", 1e-12, 1e-2),
    "local_epsilon": Axis("ε₀ of one report", "log", 0.1, 10.0),
}


def chart_of(name: str, answer: Answer, arguments: dict[str, Any]) -> Chart:
    """Return the chart of an answer.

    Parameters
    ----------
    name : str
        The question, which `check_chart` has let through.
    answer : Answer
        Its answer.
    arguments : dict
        What was asked.
    """
    return _CHARTS[name](answer, arguments)


def check_chart(name: str) -> None:
    """Refuse a question whose answer is nothing to draw, before it is answered.

    Parameters
    ----------
    name : str
        The question.
    """
    if name not in _CHARTS:
        raise ParameterError(f"{name} has no chart; {', '.join(_CHARTS)} have")


def _column(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Return a column of facts, NaN where there is nothing."""
    return [math.nan if row[name] is None else row[name] for row in rows]


def _wide_enough(axis: Axis, values: Sequence[float]) -> Axis:
    """Return an axis that shows all of these values, but those next to zero: a curve that is cut off misleads."""
    powers = [math.log10(value) for value in values if _LEAST < value < math.inf]
    assert axis.low is not None and axis.high is not None
    low, high = min([math.log10(axis.low), *powers]), max([math.log10(axis.high), *powers])
    return replace(axis, low=10.0 ** math.floor(low), high=10.0 ** math.ceil(high))


def _curve(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    against, points = facts["against"], facts["points"]
    fixed = "least" not in arguments and "most" not in arguments
    axis = _AXES[against] if fixed else Axis(_AXES[against].label, "log")
    label = axis.label.split(" of")[0]
    shown = [*_column(points, "epsilon"), *_column(points, "best_possible"), facts["local_epsilon"] or math.nan]
    chart = Chart(
        axis,
        _wide_enough(_EPSILON, shown),
        f"Central ε against {label}",
        "The guarantee along one parameter, the others fixed.",
    )
    xs = _column(points, against)
    chart.line(xs, _column(points, "epsilon"), points[-1]["bound"], kind="guarantee")
    if any(point["best_possible"] is not None for point in points):
        chart.line(xs, _column(points, "best_possible"), "best possible", kind="limit")
    if facts["local_epsilon"] is not None and against != "local_epsilon":
        chart.level(facts["local_epsilon"], f"ε₀ = {facts['local_epsilon']:g} alone")
    at = arguments.get(against, facts["delta"] if against == "delta" else None)
    if at is not None and facts["epsilon"] is not None:
        chart.mark(at, facts["epsilon"], f"ε = {rounded_up(facts['epsilon'], 3)}")
    return chart


def _attack(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    rates = Axis("false alarms", "log", 1e-3, 1.0)
    success = Axis("attacker's success, at most", "log", 1e-3, 1.0)
    chart = Chart(rates, success, "What an attacker can do", "The rate of right claims against that of wrong ones.")
    points, xs = facts["points"], _column(facts["points"], "false_alarms")
    if points:
        chart.line(xs, _column(points, "success"), "shuffled", kind="guarantee")
        if facts["alone"] is not None:
            chart.line(xs, _column(points, "alone"), "one report alone", kind="series")
    chart.line([1e-3, 1.0], [1e-3, 1.0], "guessing", kind="local")
    chart.mark(facts["false_alarms"], facts["success"], f"{rounded_up(100 * facts['success'], 3)} %")
    return chart


def _rounds(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    x, y = Axis("number of rounds", low=0.0), Axis("central ε of all rounds together", low=0.0)
    chart = Chart(x, y, "What rounds cost", "The guarantee of the first rounds, together, against their number.")
    done = [point for point in facts["points"] if point["rounds"] <= facts["rounds"]]
    later = [point for point in facts["points"] if point["rounds"] >= facts["rounds"]]
    chart.line([0.0, *_column(done, "rounds")], [0.0, *_column(done, "epsilon")], "", kind="guarantee")
    if len(later) > 1:
        chart.line(_column(later, "rounds"), _column(later, "epsilon"), "more of the last kind", kind="comparison")
    if facts["budget"] is not None:
        chart.level(facts["budget"]["epsilon"], f"budget ε = {facts['budget']['epsilon']:g}", kind="budget")
    if done:
        count = f"{facts['rounds']:,} round{'' if facts['rounds'] == 1 else 's'}"
        chart.mark(facts["rounds"], facts["epsilon"], f"{count}: ε = {rounded_up(facts['epsilon'], 3)}")
    return chart


def _compare(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    names = Axis("", names=tuple(row["bound"] for row in facts))
    chart = Chart(Axis("central ε"), names, "Every bound that applies", "The ε of each bound, the tightest first.")
    kinds = ["guarantee" if row["proven"] else "comparison" for row in facts]
    texts = [rounded_up(row["epsilon"], 3) + ("" if row["proven"] else " (no guarantee)") for row in facts]
    chart.bars(_column(facts, "epsilon"), texts=texts, kind=kinds)
    if facts[0]["best_possible"] is not None:
        chart.level(facts[0]["best_possible"], "best possible", kind="limit")
    return chart


def _plan(answer: Answer, arguments: dict[str, Any]) -> Chart:
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


def _sgd(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    calibrated = facts["calibrated"]
    shown = "noise_multiplier" if calibrated else "epsilon"
    rows = [row for row in facts["samplers"] if row[shown] is not None]
    names = Axis("", names=tuple(row["sampling"] for row in rows))
    label = "noise multiplier" if calibrated else "ε"
    chart = Chart(Axis(label), names, "The same run by every sampler", f"The {label} of each sampler, the best first.")
    chart.bars(_column(rows, shown), texts=[rounded_up(row[shown], 3) for row in rows])
    return chart


_CHARTS: dict[str, Callable[[Answer, dict[str, Any]], Chart]] = {
    "attack": _attack,
    "compare": _compare,
    "curve": _curve,
    "plan": _plan,
    "rounds": _rounds,
    "sgd": _sgd,
}
