"""The question `curve`: ε against the number of reports, against δ or against ε₀, as points to draw."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.checks import known, positive, whole
from shoal.errors import ParameterError, RangeError
from shoal.questions.answer import Answer
from shoal.questions.parameters import USUAL_DELTA, Count, Flag, Number
from shoal.questions.randomizer_choice import amplified

__all__ = ["curve"]

_RANGES = {"reports": (10.0, 1e9), "delta": (1e-12, 1e-2), "local_epsilon": (0.1, 10.0)}
"""What is drawn if nothing else is asked for, along each axis; the scale is logarithmic."""
_MOST_POINTS = 200


def curve(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    delta: Number = USUAL_DELTA,
    bound: str = "tightest",
    against: str = "reports",
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
    local_epsilon : float, optional
        ε₀ of what each person runs.
    local_delta : float
        δ₀ of what each person runs.
    randomizer : str, optional
        What each person runs, by its registered name, for a tighter answer.
    categories : int or float, optional
        Over how many categories; alone, it says randomized-response.
    deviation : float, optional
        The standard deviation of Gaussian noise on values between 0 and 1.
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
        raise ParameterError(f"least must be less than most, got {start:g} and {end:g}", parameter="least")
    count = whole(points=points, least=2, most=_MOST_POINTS)
    values = [float(value) for value in np.geomspace(start, end, count)]
    if against == "reports":
        values = [float(value) for value in dict.fromkeys(round(value) for value in values)]
    fixed: dict[str, Any] = {
        "reports": reports,
        "local_epsilon": local_epsilon,
        "local_delta": local_delta,
        "randomizer": randomizer,
        "categories": categories,
        "deviation": deviation,
        "bound": bound,
    }
    whole_curve = amplified(**fixed)  # which says what is wrong with what is fixed, too
    drawn = []
    for value in values:
        one = whole_curve if against == "delta" else amplified(**(fixed | {against: value}))
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
