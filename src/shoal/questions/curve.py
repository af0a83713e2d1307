"""The question `curve`: ε against the number of reports, against δ or against ε₀, as points to draw."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from shoal.charts import Axis, Chart
from shoal.checks import known, positive, whole
from shoal.digits import rounded_up
from shoal.errors import ParameterError, RangeError
from shoal.questions.copied_code import curve_lines, literal
from shoal.questions.parameters import USUAL_DELTA, BoundName, Count, Flag, Number, word
from shoal.questions.question import Answer, asks, column
from shoal.questions.setting import Setting

_RANGES = {"reports": (10.0, 1e9), "delta": (1e-12, 1e-2), "local_epsilon": (0.1, 10.0)}
"""What is drawn if nothing else is asked for, along each axis; the scale is logarithmic."""
_MOST_POINTS = 200
_EPSILON = Axis("central ε", "log", 1e-4, 10.0)
"""Wider by whole powers of ten where there is more to show."""
_LEAST = 1e-9
"""An ε below this is zero in a picture: against δ, it falls to zero."""
_AXES = {
    "reports": Axis("reports that are shuffled together", "log", 10.0, 1e9),
    "delta": Axis("δ", "log", 1e-12, 1e-2),
    "local_epsilon": Axis("ε₀ of one report", "log", 0.1, 10.0),
}


def _python(given: dict[str, Any]) -> list[str]:
    delta = literal(given.get("delta", USUAL_DELTA))
    return [*curve_lines(given), f'curve.plot(delta={delta}).figure.savefig("curve.svg")']


def _chart(answer: Answer, arguments: dict[str, Any]) -> Chart:
    facts = answer.facts
    against, points = facts["against"], facts["points"]
    fixed = "least" not in arguments and "most" not in arguments
    axis = _AXES[against] if fixed else Axis(_AXES[against].label, "log")
    label = axis.label.split(" of")[0]
    shown = [*column(points, "epsilon"), *column(points, "best_possible"), facts["local_epsilon"] or math.nan]
    chart = Chart(
        axis,
        _wide_enough(_EPSILON, shown),
        f"Central ε against {label}",
        "The guarantee along one parameter, the others fixed.",
    )
    xs = column(points, against)
    chart.line(xs, column(points, "epsilon"), points[-1]["bound"], kind="guarantee")
    if any(point["best_possible"] is not None for point in points):
        chart.line(xs, column(points, "best_possible"), "best possible", kind="limit")
    if facts["local_epsilon"] is not None and against != "local_epsilon":
        chart.level(facts["local_epsilon"], f"ε₀ = {facts['local_epsilon']:g} alone")
    at = arguments.get(against, facts["delta"] if against == "delta" else None)
    if at is not None and facts["epsilon"] is not None:
        chart.mark(at, facts["epsilon"], f"ε = {rounded_up(facts['epsilon'], 3)}")
    return chart


def _wide_enough(axis: Axis, values: Sequence[float]) -> Axis:
    """Return an axis that shows all of these values, but those next to zero: a curve that is cut off misleads."""
    powers = [math.log10(value) for value in values if _LEAST < value < math.inf]
    assert axis.low is not None and axis.high is not None
    low, high = min([math.log10(axis.low), *powers]), max([math.log10(axis.high), *powers])
    return replace(axis, low=10.0 ** math.floor(low), high=10.0 ** math.ceil(high))


@asks(
    example="reports=10_000&local_epsilon=1&against=delta",
    python=_python,
    quick=True,
    chart=_chart,
    verb="amplify",
    without=("against", "least", "limit", "most", "points"),
    adds="--plot curve.svg",
)
def curve(
    *,
    reports: Count,
    setting: Setting = Setting(),
    delta: Number = USUAL_DELTA,
    bound: BoundName = "tightest",
    against: Annotated[str, word(*_RANGES)] = "reports",
    least: Number | None = None,
    most: Number | None = None,
    points: Count = 25,
    limit: Flag = False,
) -> Answer:
    """Follow ε along one parameter, as points that are evenly spaced on a logarithmic scale.

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
    against : str
        The parameter that varies: reports, delta or local_epsilon.
    least : float, optional
        Where it begins; 10 reports, δ = 1e-12 or ε₀ = 0.1 if not given.
    most : float, optional
        Where it ends; 1e9 reports, δ = 0.01 or ε₀ = 10 if not given.
    points : int or float
        How many points there are.
    limit : bool
        Also say what no bound can beat, which may take longer.

    Returns
    -------
    Answer
        Its result is the list of the curves behind the points; ε is null where the bound says nothing.

    Examples
    --------
    >>> facts = curve(reports=10_000, local_epsilon=1, least=100, most=10_000, points=3).facts
    >>> [(point["reports"], round(point["epsilon"], 3)) for point in facts["points"]]
    [(100, 0.516), (1000, 0.149), (10000, 0.041)]
    """
    known(tuple(_RANGES), against=against)
    low, high = _RANGES[against]
    start, end = positive(least=low if least is None else least), positive(most=high if most is None else most)
    if start >= end:
        raise ParameterError(f"least must be less than most, got {start:g} and {end:g}", "least")
    count = whole(points=points, least=2, most=_MOST_POINTS)
    values = [float(value) for value in np.geomspace(start, end, count)]
    if against == "reports":
        values = [float(value) for value in dict.fromkeys(round(value) for value in values)]
    whole_curve = setting.amplified(reports, bound)  # which says what is wrong with what is fixed, too
    drawn = []
    for value in values:
        one = whole_curve
        if against == "reports":
            one = setting.amplified(value, bound)
        elif against == "local_epsilon":
            one = replace(setting, local_epsilon=value).amplified(reports, bound)
        drawn.append((value, one, value if against == "delta" else delta))
    facts = {
        "against": against,
        "delta": float(delta),
        "epsilon": _value(whole_curve.epsilon, delta),
        "points": [
            {
                against: int(value) if against == "reports" else value,
                "epsilon": _value(one.epsilon, at),
                "best_possible": _value(one.lower.epsilon, at) if limit and one.lower else None,
                "bound": one.bound,
            }
            for value, one, at in drawn
        ],
        "local_epsilon": whole_curve.local_epsilon if math.isfinite(whole_curve.local_epsilon) else None,
        "randomizer": None if whole_curve.randomizer is None else repr(whole_curve.randomizer),
    }
    return Answer(facts, [one for _, one, _ in drawn])


def _value(function: Callable[[float], float], delta: float) -> float | None:
    """Return ε at this δ; nothing where the bound is not proven."""
    try:
        return float(function(delta))
    except RangeError:
        return None
