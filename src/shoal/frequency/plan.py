"""The plan: which mechanism estimates a histogram best under a central guarantee."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shoal.amplification.amplify import amplify
from shoal.calibration import gaussian_spread, largest_private
from shoal.checks import positive, probability, whole
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import MissingExtraError
from shoal.frequency.limits import central_error, local_error
from shoal.progress import progress
from shoal.randomizers import MECHANISMS, Categorical
from shoal.randomizers.design import Design
from shoal.randomizers.indexed import Selection

__all__ = ["Choice", "Plan", "plan"]

_PLANNED = tuple(kind for kind in MECHANISMS.values() if kind.name != "rappor")
"""RAPPOR is in the family of unary encodings, and the optimized one is better there."""
_TOLERANCE = 1e-6
_TRIED = 2
"""How many designs of a mechanism are calibrated, after all were compared by a formula."""
_AS_GOOD = 1.03
"""Among mechanisms with about the same error, the one with the shortest reports comes first."""


@dataclass(frozen=True)
class Choice:
    """One mechanism of a plan, with the largest ε₀ that its own bound allows.

    Attributes
    ----------
    mechanism : ready to run.
    curve : its central guarantee.
    epsilon, delta : what it reaches, at most what was asked for.
    error : the expected ℓ₂ error of all frequencies together, where all are equal: the root of the mean square.
    category_error : the standard error of the frequency of a rare category.
    decoding_seconds : how long it took to decode the reports of one person.
    """

    mechanism: Categorical
    curve: PrivacyCurve
    epsilon: float
    delta: float
    error: float
    category_error: float
    decoding_seconds: float

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
            "decoding_seconds": self.decoding_seconds,
        }


@dataclass(frozen=True)
class Plan:
    """Mechanisms that meet the guarantee, the best first.

    Attributes
    ----------
    categories, reports, epsilon, delta : what was asked.
    choices : one for each mechanism; `best` is the first.
    """

    categories: int
    reports: int
    epsilon: float
    delta: float
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
            "schema": self.mechanism.to_dict(),
            "central_error": self.central_error,
            "local_error": self.local_error,
            "choices": [choice.to_dict() for choice in self.choices],
        }

    def plot(self, axes: Any = None, *, points: int = 7) -> Any:
        """Draw the error against the central ε for each mechanism, and return the matplotlib axes.

        Beside them stand a trusted curator and the model without a shuffler. Each point is a plan of its own, and so
        this takes several seconds.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError('drawing needs matplotlib: pip install "shoal[plot]"') from None
        if axes is None:
            axes = Figure(figsize=(7.4, 4.8), layout="constrained").add_subplot()
        setting: dict[str, Any] = {"categories": self.categories, "reports": self.reports}
        epsilons = self.epsilon * np.geomspace(0.1, 4, points)
        kinds = [type(choice.mechanism) for choice in self.choices]
        pairs = [(kind, epsilon) for kind in kinds for epsilon in epsilons]
        made = (_choice(kind, **setting, epsilon=float(e), delta=self.delta, tried=1) for kind, e in pairs)
        found = list(progress(made, total=len(pairs), label="plan"))
        for place, kind in enumerate(kinds):
            errors = [choice.error if choice else math.nan for choice in found[place * points : (place + 1) * points]]
            axes.plot(epsilons, errors, marker="o", markersize=3, linewidth=1.3, label=_label(kind))
        locals_ = [local_error(**setting, epsilon=float(epsilon)) for epsilon in epsilons]
        centrals = [central_error(**setting, epsilon=float(epsilon), delta=self.delta) for epsilon in epsilons]
        axes.plot(epsilons, locals_, color="#555555", linestyle=":", label="no shuffler")
        axes.plot(epsilons, centrals, color="black", linestyle="--", label="trusted curator")
        axes.plot([self.epsilon], [self.best.error], "o", color="#0b3d91", markersize=8, fillstyle="none")
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


def plan(*, categories: Any, reports: Any, epsilon: Any, delta: Any = 1e-6) -> Plan:
    """Return the mechanisms for a histogram under a central guarantee, the best first.

    Each may use the largest ε₀ that its own bound allows, and the parameters that suit it best then. Those whose error
    is within 3 % of the smallest come first, the one with the shortest reports at the head.

    Parameters
    ----------
    categories, reports : k and n.
    epsilon, delta : the central guarantee that must hold.

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
    }
    made = (_choice(kind, **setting) for kind in _PLANNED)
    found = [choice for choice in progress(made, total=len(_PLANNED), label="plan") if choice is not None]
    least = min(choice.error for choice in found)
    choices = sorted(
        found,
        key=lambda choice: (
            (0, choice.mechanism.bits_per_report, choice.error)
            if choice.error <= _AS_GOOD * least
            else (1, choice.error, 0.0)
        ),
    )
    return Plan(**setting, choices=tuple(choices))


def _choice(
    kind: type[Categorical], *, categories: int, reports: int, epsilon: float, delta: float, tried: int = _TRIED
) -> Choice | None:
    """Return the best of a mechanism, or nothing where it can't be decoded fast."""
    found = None
    for given in _candidates(kind, categories=categories, reports=reports, epsilon=epsilon, delta=delta, tried=tried):
        made = largest_private(given, reports=reports, epsilon=epsilon, delta=delta, tolerance=_TOLERANCE)
        if found is None or made.variance(reports=reports).sum() < found.variance(reports=reports).sum():
            found = made
    if found is None:
        return None
    variances = found.variance(reports=reports)
    rare, _ = found._moments.line(1 / found.design.blocks if isinstance(found, Selection) else 1.0)
    curve = amplify(found, reports=reports)
    return Choice(
        mechanism=found,
        curve=curve,
        epsilon=min(float(curve.epsilon(delta)), epsilon),  # δ(ε) was found small enough
        delta=delta,
        error=math.sqrt(float(variances.sum())),
        category_error=math.sqrt(float(rare) / reports),
        decoding_seconds=_decoding(found) if tried > 1 else math.nan,
    )


def _candidates(
    kind: type[Categorical], *, categories: int, reports: int, epsilon: float, delta: float, tried: int
) -> Iterator[Categorical]:
    """Yield the designs that are likely the best, by the variance that W may have under a normal law."""
    if not issubclass(kind, Selection):
        yield kind(categories=categories, local_epsilon=1.0)
        return
    spread = reports * gaussian_spread(epsilon, delta) ** 2 / 2
    ranked = sorted(
        ((_screened(design, spread, categories), parameters) for parameters, design in kind.designs(categories)),
        key=lambda pair: pair[0],
    )
    for _, parameters in ranked[:tried]:
        yield kind(categories=categories, local_epsilon=1.0, **parameters)


def _screened(design: Design, spread: float, categories: int) -> float:
    """Return n times the expected squared error of a design, where λ²(1 − κ)/((1 − λ)ρ) is half the variance of W."""
    overlap = design.common / design.supporting if design.blocks == 1 else 0.0
    share = spread * design.supporting / design.outputs / (1 - overlap)
    truth = min(2 / (1 + math.sqrt(1 + 4 / share)), 1 - 1e-12)
    constant, slope = design.moments(truth).line(1 / design.blocks)
    return categories * float(constant) + slope


def _decoding(mechanism: Categorical) -> float:
    counts = mechanism.aggregate(mechanism.randomize([0]))
    start = time.perf_counter()
    mechanism.estimate(counts)
    return time.perf_counter() - start


def _label(kind: type[Categorical]) -> str:
    return kind.name.replace("-", " ")
