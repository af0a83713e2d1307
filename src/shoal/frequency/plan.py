"""The plan: which mechanism estimates a histogram best under a central guarantee."""

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.amplify import amplify
from shoal.calibration.guess import telling
from shoal.calibration.target import target_of
from shoal.checks import Number, positive, whole
from shoal.composition.composition_method import MOST_TIMES
from shoal.composition.ledger import Ledger
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import ParameterError
from shoal.frequency.fit import Question, planned
from shoal.frequency.other_models import central_error, local_error
from shoal.progress import progress
from shoal.randomizers import Categorical
from shoal.randomizers.estimate import axes_for
from shoal.randomizers.registry import registration

__all__ = ["Choice", "Plan", "plan"]

_DELTA = 1e-6
_TOLERANCE, _OF_ROUNDS, _ROUGHLY = 1e-9, 1e-7, 2e-4
"""Of ε₀, for one round; for several; and for several of a mechanism that is clearly not the best."""
_AS_GOOD = 1.03
"""Among mechanisms with about the same error, the one with the shortest reports comes first."""
_NEAR = 1.05
"""A mechanism with a larger error than this times the least is clearly not the best."""


@dataclass(frozen=True)
class Choice:
    """One mechanism of a plan, with the largest ε₀ that its own bound allows.

    Attributes
    ----------
    mechanism : Categorical
        Ready to run.
    curve : PrivacyCurve
        The central guarantee of one round.
    epsilon, delta : float
        What all rounds reach together, with those of a ledger; at most what was asked for.
    error : float
        The expected ℓ₂ error of all frequencies together in one round, where all are equal: the root of the mean
        square.
    category_error : float
        The standard error of the frequency of a rare category in one round.
    times : int
        How many rounds there are.
    """

    mechanism: Categorical
    curve: PrivacyCurve
    epsilon: float
    delta: float
    error: float
    category_error: float
    times: int = 1

    @property
    def average_error(self) -> float:
        """The ℓ₂ error of the average over all rounds, whose noise is independent."""
        return self.error / math.sqrt(self.times)

    @property
    def average_category_error(self) -> float:
        """The standard error of the frequency of a rare category, averaged over all rounds."""
        return self.category_error / math.sqrt(self.times)

    @cached_property
    def round_epsilon(self) -> float:
        """The ε of one round by itself, at the same δ."""
        return float(self.curve.epsilon(self.delta)) if self.times > 1 else self.epsilon

    @cached_property
    def decoding_seconds(self) -> float:
        """How long it takes to decode a count state, error bars apart, measured now: no part of the plan."""
        counts = self.mechanism.aggregate(self.mechanism.randomize([0]))
        start = time.perf_counter()
        self.mechanism.supported(counts.values, counts.reports)
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
            "average_error": self.average_error,
            "average_category_error": self.average_category_error,
            "bits_per_report": self.mechanism.bits_per_report,
        }


@dataclass(frozen=True)
class Plan:
    """Mechanisms that meet the guarantee, the best first.

    Attributes
    ----------
    question : Question
        What was asked.
    choices : tuple of Choice
        One for each mechanism; `best` is the first.
    """

    question: Question
    choices: tuple[Choice, ...]

    @property
    def categories(self) -> int:
        """Over how many categories, k."""
        return self.question.categories

    @property
    def reports(self) -> int:
        """How many reports are shuffled together in a round, n."""
        return self.question.reports

    @property
    def times(self) -> int:
        """How many rounds there are."""
        return self.question.times

    @property
    def epsilon(self) -> float:
        """The central ε that must hold for all rounds together."""
        return self.question.target.epsilon

    @property
    def delta(self) -> float:
        """The δ that goes with it."""
        return self.question.target.delta

    @property
    def local_epsilon(self) -> float:
        """The most that a report by itself may have; infinite if there is no limit."""
        return self.question.local_epsilon

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
        """The ℓ₂ error of one round of a trusted curator with the same guarantee for all rounds together."""
        return central_error(
            categories=self.categories, reports=self.reports, epsilon=self.epsilon, delta=self.delta, times=self.times
        )

    @cached_property
    def local_error(self) -> float:
        """The ℓ₂ error if every report had to be DP by itself, with ε for all rounds together."""
        return local_error(categories=self.categories, reports=self.reports, epsilon=self.epsilon / self.times)

    @cached_property
    def note(self) -> str | None:
        """What is to be said of an answer that is of no use; nothing if it is of use."""
        uniform, one, all_ = 1 / self.categories, self.best.category_error, self.best.average_category_error
        if one <= uniform:
            return None
        what = f"more than a category would have if all were equal, 1/{self.categories:,} = {uniform:.3g}"
        if all_ <= uniform:
            return (
                f"one round says nothing about a single category: ± {one:.3g} is {what}; "
                f"the average over all {self.times:,} rounds is good to ± {all_:.3g}"
            )
        enough = self.question.enough(self.mechanism)
        advice = f"about {enough:,} reports would do" if enough else "use fewer categories"
        return f"this says nothing about a single category: ± {all_:.3g} is {what}; {advice}, or take a larger ε"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; "schema" is that of the first choice."""
        return {
            "categories": self.categories,
            "reports": self.reports,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "times": self.times,
            "spent": self.question.target.spent,
            "local_epsilon": self.local_epsilon if self.local_epsilon < math.inf else None,
            "schema": self.mechanism.to_dict(),
            "central_error": self.central_error,
            "local_error": self.local_error,
            "round_epsilon": self.best.round_epsilon,
            "note": self.note,
            "choices": [choice.to_dict() for choice in self.choices],
        }

    def plot(self, axes: Any = None, *, points: int = 7) -> Any:
        """Draw the error against the central ε for each mechanism, and return the matplotlib axes.

        So are the errors of a trusted curator and of the model without a shuffler. The ε₀ behind the lines are guesses,
        good to about 1 %; the circle is the plan.
        """
        axes = axes_for(axes, (7.4, 4.8))
        epsilons = self.epsilon * np.geomspace(0.1, 4, points)
        kinds = [type(choice.mechanism) for choice in self.choices]
        asked = [self.question.at(float(epsilon)) for epsilon in epsilons]
        pairs = [(kind, question) for kind in kinds for question in asked]
        results = ((question, question.likely(kind)) for kind, question in pairs)
        fits = list(progress(results, total=len(pairs), label="plan"))
        groups: list[tuple[list[type[Categorical]], NDArray[np.float64]]] = []
        for index, kind in enumerate(kinds):
            fitted = fits[index * points : (index + 1) * points]
            errors = np.array([question.error(fit) if fit else math.nan for question, fit in fitted])
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
        setting: dict[str, Any] = {"categories": self.categories, "reports": self.reports}
        locals_ = [local_error(**setting, epsilon=float(epsilon) / self.times) for epsilon in epsilons]
        central: dict[str, Any] = {**setting, "delta": self.delta, "times": self.times}
        centrals = [central_error(**central, epsilon=float(epsilon)) for epsilon in epsilons]
        axes.plot(epsilons, locals_, color="#555555", linestyle=":", label="no shuffler")
        axes.plot(epsilons, centrals, color="black", linestyle="--", label="trusted curator")
        axes.plot([self.epsilon], [self.best.error], "o", color="black", markersize=8, fillstyle="none")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("central ε" if self.times == 1 else "central ε of all rounds together")
        axes.set_ylabel(f"expected ℓ₂ error of all frequencies{'' if self.times == 1 else ' in one round'}")
        rounds = "" if self.times == 1 else f"{self.times:,} rounds, "
        setting_of = f"{rounds}{self.categories:,} categories, {self.reports:,} reports, δ = {self.delta:g}"
        axes.set_title(setting_of, fontsize=10)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def __repr__(self) -> str:
        """Show the first choice and its error."""
        rounds = "" if self.times == 1 else f"{self.times:,} rounds, "
        return (
            f"Plan({rounds}{self.mechanism!r}, error {self.best.error:.3g}, ε={rounded_up(self.best.epsilon)} "
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
    *,
    categories: Number,
    reports: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    local_epsilon: Number | None = None,
    times: Number = 1,
    ledger: Ledger | None = None,
) -> Plan:
    """Return the mechanisms for a histogram under a central guarantee, the best first.

    Each may use the largest ε₀ that its own bound allows, and the parameters that suit it best then. Those whose error
    is within 3 % of the smallest come first: the one with the shortest reports, and of several such the simplest.

    Parameters
    ----------
    categories, reports : int
        k, and n of each round.
    epsilon, delta : float
        The central guarantee that must hold for all rounds together; δ is 1e-6 if not given.
    local_epsilon : float
        The most that a report by itself may have, for those who see it unshuffled; no limit if not given.
    times : int
        How many such histograms of the same people there will be.
    ledger : Ledger, optional
        What was released about the same people before. What is left of its budget is the target, and so epsilon and
        delta may be left out.

    Examples
    --------
    >>> chosen = plan(categories=100, reports=10_000, epsilon=1)
    >>> chosen
    Plan(RandomizedResponse(categories=100, local_epsilon=5.79...), error 0.00836, ε=1 at δ=1e-06, 8 choices)
    >>> reports = chosen.mechanism.randomize([0, 1, 2, 2, 99])
    """
    if delta is None and (ledger is None or ledger.limit is None):
        delta = _DELTA
    question = Question(
        categories=whole(categories=categories, least=2, most=1 << 24),
        reports=_several(reports),
        times=whole(times=times, most=MOST_TIMES),
        target=target_of(epsilon, delta, ledger),
        local_epsilon=math.inf if local_epsilon is None else positive(local_epsilon=local_epsilon),
    )
    guesses = [guess for guess in map(question.likely, planned()) if guess is not None]
    least = min(map(question.error, guesses))
    results = (_choice(question, guess, question.error(guess) <= _NEAR * least) for guess in guesses)
    choices = list(progress(results, total=len(guesses), label="plan"))
    least = min(choice.error for choice in choices)

    def rank(choice: Choice) -> tuple[bool, float]:
        worse = choice.error > _AS_GOOD * least
        return worse, float(f"{choice.error:.6g}") if worse else choice.mechanism.bits_per_report

    return Plan(question, tuple(sorted(choices, key=rank)))  # of equal ones, the simpler first


def _several(reports: Number) -> int:
    """Return n, or say that one report is no round."""
    count = whole(reports=reports)
    if count == 1:
        raise ParameterError(
            "reports must be at least 2, got 1: a report alone is hidden by nobody, and one person's category is no "
            "histogram; take the number of people who report in a round"
        )
    return count


def _choice(question: Question, guess: Categorical, near: bool) -> Choice:
    """Return a mechanism with its guarantee; of several rounds, only those with about the least error exactly."""
    tolerance = _TOLERANCE if question.times == 1 else _OF_ROUNDS if near else _ROUGHLY
    mechanism, target = question.largest(guess, tolerance=tolerance), question.target
    curve = amplify(mechanism, reports=question.reports)
    return Choice(
        mechanism=mechanism,
        curve=curve,
        epsilon=target.kept(curve, telling(mechanism), question.times),
        delta=target.delta,
        error=question.error(mechanism),
        category_error=math.sqrt(mechanism.rare_variance / question.reports),
        times=question.times,
    )


def _label(kind: type[Categorical]) -> str:
    return kind.name.replace("-", " ")
