"""The error of a histogram against the central ε: of each mechanism of a plan, of a trusted curator, of no shuffler."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.calibration import gaussian_spread
from shoal.charts.scale import Axis
from shoal.charts.svg_chart import Chart
from shoal.mechanisms import Categorical, RandomizedResponse, SubsetSelection, UnaryEncoding
from shoal.progress import progress

if TYPE_CHECKING:
    from shoal.planning.plan import Plan

__all__ = ["central_error", "error_chart", "local_error"]

_LINEAR = 1e-9
"""Below this ε, errors without a shuffler are as 1/ε, and probabilities too close to tell apart."""


def central_error(*, categories: int, reports: int, epsilon: float, delta: float, rounds: int = 1) -> float:
    """Return the ℓ₂ error of all frequencies in one round if a curator adds the noise, Gaussian or Laplace.

    Replacing one person changes two counts by one each. The Laplace noise has scale 2/ε, and the Gaussian noise is
    calibrated exactly (Balle and Wang, ICML 2018), for all rounds together; it is the less of the two.
    """
    laplace = math.sqrt(2) * 2 * rounds / epsilon
    gaussian = math.sqrt(2 * rounds) / gaussian_spread(epsilon, delta)
    return math.sqrt(categories) * min(laplace, gaussian) / reports


def local_error(*, categories: int, reports: int, epsilon: float) -> float:
    """Return the least ℓ₂ error of all mechanisms of shoal if every report has to be ε-DP by itself."""
    best: tuple[type[Categorical], ...] = (RandomizedResponse, SubsetSelection, UnaryEncoding)  # no other is better
    least = max(epsilon, _LINEAR)
    error = min(
        math.sqrt(float(kind(categories=categories, local_epsilon=least).variance(reports=reports).sum()))
        for kind in best
    )
    return error * (least / epsilon)


def error_chart(plan: "Plan", *, points: int = 7) -> Chart:
    """Return the errors of all mechanisms, of a trusted curator and without a shuffler, and the plan as a dot."""
    epsilons = [float(epsilon) for epsilon in plan.epsilon * np.geomspace(0.1, 4, points)]
    kinds = [type(choice.mechanism) for choice in plan.choices]
    asked = [plan.question.at(epsilon) for epsilon in epsilons]
    pairs = [(kind, question) for kind in kinds for question in asked]
    results = ((question, question.likely(kind)) for kind, question in pairs)
    fits = list(progress(results, total=len(pairs), label="plan"))
    groups: list[tuple[list[str], NDArray[np.float64]]] = []
    for index, kind in enumerate(kinds):
        fitted = fits[index * points : (index + 1) * points]
        errors = np.array([question.error(fit) if fit else math.nan for question, fit in fitted])
        for members, known in groups:  # curves that nobody could tell apart have one label
            if np.allclose(errors, known, rtol=0.02, equal_nan=True):
                members.append(kind.name)
                break
        else:
            groups.append(([kind.name], errors))
    chart = Chart(
        Axis("central ε" if plan.rounds == 1 else "central ε of all rounds together", "log"),
        Axis(f"expected ℓ₂ error of all frequencies{'' if plan.rounds == 1 else ' in one round'}", "log"),
        "Error of a histogram against the guarantee",
        note=plan.setting,
        width=720.0,
    )
    for members, errors in groups:
        chart.line(epsilons, errors.tolist(), _label(members))
    setting: dict[str, Any] = {"categories": plan.categories, "reports": plan.reports}
    locals_ = [local_error(**setting, epsilon=epsilon / plan.rounds) for epsilon in epsilons]
    central: dict[str, Any] = {**setting, "delta": plan.delta, "rounds": plan.rounds}
    chart.line(epsilons, locals_, "no shuffler", "comparison")
    chart.line(
        epsilons, [central_error(**central, epsilon=epsilon) for epsilon in epsilons], "trusted curator", "limit"
    )
    chart.mark(plan.epsilon, plan.best.error, f"this plan: {plan.best.error:.3g}")
    return chart


def _label(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
