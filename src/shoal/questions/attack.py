"""The question `attack`: how often an attacker recognises a person."""

import math
from typing import Any

import numpy as np

from shoal.attack import attack_bound
from shoal.checks import whole
from shoal.questions.answer import Answer
from shoal.questions.parameters import Count, Number
from shoal.questions.randomizer_choice import amplified

__all__ = ["attack"]

_MOST_POINTS = 100


def attack(
    *,
    reports: Count,
    local_epsilon: Number | None = None,
    local_delta: Number = 0.0,
    randomizer: str | None = None,
    categories: Count | None = None,
    deviation: Number | None = None,
    false_alarms: Number = 0.01,
    points: Count = 0,
    bound: str = "tightest",
) -> Answer:
    """Say how often an attacker recognises a person at most, given how often there is a false alarm.

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
    curve = amplified(
        reports=reports,
        local_epsilon=local_epsilon,
        local_delta=local_delta,
        randomizer=randomizer,
        categories=categories,
        deviation=deviation,
        bound=bound,
    )
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
