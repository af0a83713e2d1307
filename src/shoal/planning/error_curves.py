"""The error of a histogram against the central ε: of each mechanism of a plan, of a trusted curator, of no shuffler."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.calibration import gaussian_spread
from shoal.mechanisms import Categorical, RandomizedResponse, SubsetSelection, UnaryEncoding
from shoal.progress import progress
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.planning.plan import Plan

_LINEAR = 1e-9
"""Below this ε, errors without a shuffler are as 1/ε, and probabilities too close to tell apart."""
_SAME_LINE = 0.02
"""Curves that are this close everywhere could not be told apart, and have one label."""


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


@dataclass(frozen=True)
class ErrorCurves(Shown):
    """The error against the central ε: of each mechanism of a plan, of a trusted curator, and of no shuffler.

    Attributes
    ----------
    plan : Plan
        The plan, which is a point of these curves.
    epsilons : list of float
        The central ε.
    errors : dict of str to list of float
        The error at each of them, by the label of the curve; NaN where a mechanism does not fit.
    """

    plan: "Plan"
    epsilons: list[float]
    errors: dict[str, list[float]]

    @classmethod
    def of(cls, plan: "Plan", *, points: int = 7) -> "ErrorCurves":
        """Return the curves around a plan; mechanisms with about the same error share one."""
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
            for members, known in groups:
                if np.allclose(errors, known, rtol=_SAME_LINE, equal_nan=True):
                    members.append(kind.name)
                    break
            else:
                groups.append(([kind.name], errors))
        curves = {_label(members): errors.tolist() for members, errors in groups}
        setting: dict[str, Any] = {"categories": plan.categories, "reports": plan.reports}
        curves["no shuffler"] = [local_error(**setting, epsilon=epsilon / plan.rounds) for epsilon in epsilons]
        setting |= {"delta": plan.delta, "rounds": plan.rounds}
        curves["trusted curator"] = [central_error(**setting, epsilon=epsilon) for epsilon in epsilons]
        return cls(plan, epsilons, curves)

    def _columns(self) -> dict[str, list[float]]:
        return {"epsilon": self.epsilons, **self.errors}


def _label(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
