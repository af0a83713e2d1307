"""The plan: which mechanism estimates a histogram best under a central guarantee."""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.amplify import amplify
from shoal.calibration import gaussian_spread, largest_private
from shoal.checks import Number, positive, probability, whole
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.frequency.other_models import central_error, local_error
from shoal.progress import progress
from shoal.randomizers import Categorical
from shoal.randomizers.design import Design
from shoal.randomizers.estimate import axes_for
from shoal.randomizers.registry import REGISTRY, registration

__all__ = ["Choice", "Plan", "plan"]

_TOLERANCE, _SEEN = 1e-6, 1e-3
"""Of ε₀, in a plan and in a picture."""
_TRIED = 2
"""How many designs of a mechanism are calibrated, after all were compared by a formula."""
_AS_GOOD = 1.03
"""Among mechanisms with about the same error, the one with the shortest reports comes first."""


@dataclass(frozen=True)
class Choice:
    """One mechanism of a plan, with the largest ε₀ that its own bound allows.

    Attributes
    ----------
    mechanism : Categorical
        Ready to run.
    curve : PrivacyCurve
        Its central guarantee.
    epsilon, delta : float
        What it reaches, at most what was asked for.
    error : float
        The expected ℓ₂ error of all frequencies together, where all are equal: the root of the mean square.
    category_error : float
        The standard error of the frequency of a rare category.
    """

    mechanism: Categorical
    curve: PrivacyCurve
    epsilon: float
    delta: float
    error: float
    category_error: float

    @cached_property
    def decoding_seconds(self) -> float:
        """How long it takes to decode the reports of one person, measured now: no part of the plan."""
        counts = self.mechanism.aggregate(self.mechanism.randomize([0]))
        start = time.perf_counter()
        self.mechanism.estimate(counts)
        return time.perf_counter() - start

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "mechanism": self.mechanism.name,
            "schema": self.mechanism.to_dict(),
            "local_epsilon": self.mechanism.local_epsilon,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.curve.bound,
            "error": self.error,
            "category_error": self.category_error,
            "bits_per_report": self.mechanism.bits_per_report,
        }


@dataclass(frozen=True)
class Plan:
    """Mechanisms that meet the guarantee, the best first.

    Attributes
    ----------
    categories, reports, epsilon, delta, local_epsilon : int, float
        What was asked; the last is infinite if there is no limit.
    choices : tuple of Choice
        One for each mechanism; `best` is the first.
    """

    categories: int
    reports: int
    epsilon: float
    delta: float
    local_epsilon: float
    choices: tuple[Choice, ...]

    @property
    def best(self) -> Choice:
        """The first choice."""
        return self.choices[0]

    @property
    def mechanism(self) -> Categorical:
        """The mechanism of the first choice, ready to run."""
        return self.best.mechanism

    @cached_property
    def central_error(self) -> float:
        """The ℓ₂ error of a trusted curator with the same guarantee."""
        return central_error(categories=self.categories, reports=self.reports, epsilon=self.epsilon, delta=self.delta)

    @cached_property
    def local_error(self) -> float:
        """The ℓ₂ error if every report had to be ε-DP by itself."""
        return local_error(categories=self.categories, reports=self.reports, epsilon=self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; "schema" is that of the first choice."""
        return {
            "categories": self.categories,
            "reports": self.reports,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "local_epsilon": self.local_epsilon if self.local_epsilon < math.inf else None,
            "schema": self.mechanism.to_dict(),
            "central_error": self.central_error,
            "local_error": self.local_error,
            "choices": [choice.to_dict() for choice in self.choices],
        }

    def plot(self, axes: Any = None, *, points: int = 7) -> Any:
        """Draw the error against the central ε for each mechanism, and return the matplotlib axes.

        So are the errors of a trusted curator and of the model without a shuffler. Each point is a plan of its own,
        and so this takes several seconds.
        """
        axes = axes_for(axes, (7.4, 4.8))
        setting: dict[str, Any] = {"categories": self.categories, "reports": self.reports}
        epsilons = self.epsilon * np.geomspace(0.1, 4, points)
        kinds = [type(choice.mechanism) for choice in self.choices]
        pairs = [(kind, epsilon) for kind in kinds for epsilon in epsilons]
        rest: dict[str, Any] = {"delta": self.delta, "local_epsilon": self.local_epsilon}
        rest |= {"tried": 1, "tolerance": _SEEN}
        results = (_fitted(kind, **setting, epsilon=float(epsilon), **rest) for kind, epsilon in pairs)
        fits = list(progress(results, total=len(pairs), label="plan"))
        groups: list[tuple[list[type[Categorical]], NDArray[np.float64]]] = []
        for index, kind in enumerate(kinds):
            fitted = fits[index * points : (index + 1) * points]
            errors = np.array([fit[1] if fit else math.nan for fit in fitted])
            for members, known in groups:  # curves that nobody could tell apart have one label
                if np.allclose(errors, known, rtol=0.02, equal_nan=True):
                    members.append(kind)
                    break
            else:
                groups.append(([kind], errors))
        for members, errors in groups:
            axes.plot(
                epsilons, errors, color=registration(members[0].name).colour, label="\n".join(map(_label, members))
            )
        locals_ = [local_error(**setting, epsilon=float(epsilon)) for epsilon in epsilons]
        centrals = [central_error(**setting, epsilon=float(epsilon), delta=self.delta) for epsilon in epsilons]
        axes.plot(epsilons, locals_, color="#555555", linestyle=":", label="no shuffler")
        axes.plot(epsilons, centrals, color="black", linestyle="--", label="trusted curator")
        axes.plot([self.epsilon], [self.best.error], "o", color="black", markersize=8, fillstyle="none")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("central ε")
        axes.set_ylabel("expected ℓ₂ error of all frequencies")
        axes.set_title(f"{self.categories:,} categories, {self.reports:,} reports, δ = {self.delta:g}", fontsize=10)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def __repr__(self) -> str:
        """Show the first choice and its error."""
        return (
            f"Plan({self.mechanism!r}, error {self.best.error:.3g}, ε={rounded_up(self.best.epsilon)} "
            f"at δ={self.delta:g}, {len(self.choices)} choices)"
        )

    def _repr_html_(self) -> str:
        head = "<tr><th>mechanism</th><th>ε₀</th><th>error</th><th>bits</th></tr>"
        rows = "".join(
            f"<tr><td>{choice.mechanism.name}</td><td>{choice.mechanism.local_epsilon:.4g}</td>"
            f"<td>{choice.error:.4g}</td><td>{choice.mechanism.bits_per_report}</td></tr>"
            for choice in self.choices
        )
        return f"<table>{head}{rows}</table>"


def plan(
    *, categories: Number, reports: Number, epsilon: Number, delta: Number = 1e-6, local_epsilon: Number | None = None
) -> Plan:
    """Return the mechanisms for a histogram under a central guarantee, the best first.

    Each may use the largest ε₀ that its own bound allows, and the parameters that suit it best then. Those whose error
    is within 3 % of the smallest come first: the one with the shortest reports, and of several such the simplest.

    Parameters
    ----------
    categories, reports : int
        k and n.
    epsilon, delta : float
        The central guarantee that must hold.
    local_epsilon : float
        The most that a report by itself may have, for those who see it unshuffled; no limit if not given.

    Examples
    --------
    >>> chosen = plan(categories=100, reports=10_000, epsilon=1)
    >>> chosen
    Plan(RandomizedResponse(categories=100, local_epsilon=5.79...), error 0.00836, ε=1 at δ=1e-06, 8 choices)
    >>> reports = chosen.mechanism.randomize([0, 1, 2, 2, 99])
    """
    setting: dict[str, Any] = {
        "categories": whole(categories=categories, least=2, most=1 << 24),
        "reports": whole(reports=reports),
        "epsilon": positive(epsilon=epsilon),
        "delta": probability(delta=delta),
        "local_epsilon": math.inf if local_epsilon is None else positive(local_epsilon=local_epsilon),
    }
    planned = _planned()
    results = progress((_choice(kind, **setting) for kind in planned), total=len(planned), label="plan")
    choices = [choice for choice in results if choice is not None]
    least = min(choice.error for choice in choices)

    def rank(choice: Choice) -> tuple[bool, float]:
        worse = choice.error > _AS_GOOD * least
        return worse, choice.error if worse else choice.mechanism.bits_per_report

    return Plan(**setting, choices=tuple(sorted(choices, key=rank)))  # of equal ones, the simpler first


def _planned() -> list[type[Categorical]]:
    """Return the mechanisms to try, the simpler ones first."""
    rows = [(row.planned, row.name, row.kind) for row in REGISTRY.values() if row.planned is not None]
    return [kind for _, _, kind in sorted(rows, key=lambda row: row[:2])]


def _choice(kind: type[Categorical], *, reports: int, epsilon: float, delta: float, **rest: Any) -> Choice | None:
    """Return the best of a mechanism with its guarantee, or nothing where it can't be decoded fast."""
    fitted = _fitted(kind, reports=reports, epsilon=epsilon, delta=delta, **rest)
    if fitted is None:
        return None
    mechanism, error = fitted
    curve = amplify(mechanism, reports=reports)
    return Choice(
        mechanism=mechanism,
        curve=curve,
        epsilon=min(float(curve.epsilon(delta)), epsilon),  # δ(ε) is small enough, as was checked
        delta=delta,
        error=error,
        category_error=math.sqrt(mechanism.rare_variance / reports),
    )


def _fitted(
    kind: type[Categorical],
    *,
    categories: int,
    reports: int,
    epsilon: float,
    delta: float,
    local_epsilon: float,
    tried: int = _TRIED,
    tolerance: float = _TOLERANCE,
) -> tuple[Categorical, float] | None:
    """Return the best of a mechanism and its error, or nothing where it can't be decoded fast."""

    def private(given: Categorical) -> Categorical:
        if local_epsilon < math.inf:
            limited = replace(given, local_epsilon=local_epsilon)
            if amplify(limited, reports=reports).delta(epsilon) <= delta:
                return limited
        return largest_private(given, reports=reports, epsilon=epsilon, delta=delta, tolerance=tolerance)

    spread = reports * gaussian_spread(epsilon, delta) ** 2 / 2
    tries = [private(given) for given in _candidates(kind, categories, spread, local_epsilon, tried)]
    if not tries:
        return None
    errors = [math.sqrt(float(each.variance(reports=reports).sum())) for each in tries]
    return tries[errors.index(min(errors))], min(errors)


def _candidates(
    kind: type[Categorical], categories: int, spread: float, local_epsilon: float, most: int
) -> list[Categorical]:
    """Return a mechanism with the designs that are likely the best, the first of them first."""

    def error(pair: tuple[dict[str, int], Design | None]) -> float:
        return 0.0 if pair[1] is None else _screened(pair[1], categories, spread, local_epsilon)

    ranked = sorted(kind.designs(categories), key=error)
    return [kind(categories=categories, local_epsilon=1.0, **parameters) for parameters, _ in ranked[:most]]


def _screened(design: Design, categories: int, spread: float, local_epsilon: float) -> float:
    """Return n times the expected squared error of a design, where W has twice this variance.

    That is λ²(1 − κ)/((1 − λ)ρ) = `spread`, and so a normal distribution would have the guarantee.
    """
    overlap = design.common / design.supporting if design.blocks == 1 else 0.0
    share = spread * design.supporting / design.outputs / (1 - overlap)
    truth = min(2 / (1 + math.sqrt(1 + 4 / share)), design.truth(min(local_epsilon, 30.0)))
    return design.error_at(truth, categories)


def _label(kind: type[Categorical]) -> str:
    return kind.name.replace("-", " ")
