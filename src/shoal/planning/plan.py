"""The plan: which mechanism estimates a histogram best under a central guarantee.

`PlannedRounds` is the file that `shoal plan --output` writes, read back.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shoal.amplification.amplify import amplify
from shoal.calibration.target import Target, target_of, telling
from shoal.checks import Number, non_negative, positive, probability, whole
from shoal.composition.composition_method import MOST_TIMES
from shoal.composition.ledger import Ledger
from shoal.curve import PrivacyCurve
from shoal.digits import exactly, input_down, rounded_up
from shoal.errors import FormatError, ParameterError, ShoalError
from shoal.mechanisms import Categorical, Covered, Dummies
from shoal.pairs.registry import mechanism_of
from shoal.planning.error_curves import ErrorCurves, central_error, local_error
from shoal.planning.fit import Question
from shoal.progress import progress
from shoal.shown import Shown
from shoal.strict_json import parsed, short_reason

_DELTA = 1e-6
_MOST_MESSAGES = 65
_TOLERANCE, _OF_ROUNDS, _ROUGHLY = 1e-9, 1e-7, 2e-4
"""Of ε₀, for one round; for several; and for several of a mechanism that is clearly not the best."""
_AS_GOOD = 1.03
"""Among mechanisms with about the same error, the one with the shortest reports comes first."""
_NEAR = 1.05
"""A mechanism with a larger error than this times the least is clearly not the best."""


@dataclass(frozen=True)
class Choice(Shown):
    """One mechanism of a plan, with the largest ε₀ that its own bound allows."""

    mechanism: Categorical  # ready to run
    curve: PrivacyCurve  # the central guarantee of one round
    # epsilon, delta: What all rounds reach together, with those of a ledger; at most what was
    # asked for
    epsilon: float
    delta: float
    # The expected ℓ₂ error of all frequencies together in one round, where all are equal: the
    # root of the mean square
    error: float
    category_error: float  # the standard error of the frequency of a rare category in one round
    rounds: int = 1  # how many rounds there are

    @property
    def average_error(self) -> float:
        """The ℓ₂ error of the average over all rounds, whose noise is independent."""
        return self.error / math.sqrt(self.rounds)

    @property
    def average_category_error(self) -> float:
        """The standard error of the frequency of a rare category, averaged over all rounds."""
        return self.category_error / math.sqrt(self.rounds)

    @cached_property
    def frequent_error(self) -> float:
        """The standard error of the most frequent category in one round, if the i-th is 1/i as frequent as it."""
        shares = 1 / np.arange(1, self.mechanism.categories + 1)
        return math.sqrt(float(self.mechanism.variance(shares / shares.sum(), reports=self.curve.reports)[0]))

    @property
    def messages(self) -> float:
        """How many messages there are for each person, covers and dummies included, empty ones apart."""
        return self.mechanism.messages_per_person + self.mechanism.added / self.curve.reports

    @property
    def sealed_bytes(self) -> int:
        """How many bytes a person sends when all messages are sealed."""
        return self.mechanism.bundle * self.mechanism.ciphertext_bytes

    @property
    def needs(self) -> str | None:
        """What covers need of people, or dummies of the shuffler; nothing of others, whose reports hide themselves."""
        return None if self.mechanism.private_alone else self.curve.assumptions[0].text

    @cached_property
    def round_epsilon(self) -> float:
        """The ε of one round by itself, at the same δ."""
        return float(self.curve.epsilon(self.delta)) if self.rounds > 1 else self.epsilon

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
            "local_epsilon": self.mechanism.local_epsilon if self.mechanism.local_epsilon < math.inf else None,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.curve.bound,
            "error": self.error,
            "category_error": self.category_error,
            "frequent_error": self.frequent_error,
            "average_error": self.average_error,
            "average_category_error": self.average_category_error,
            "bits_per_report": self.mechanism.bits_per_report,
            "messages": self.messages,
            "sealed_bytes": self.sealed_bytes,
            "influence": self.mechanism.influence,
            "remains": self.mechanism.remains,
            "needs": self.needs,
        }

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [value] for name, value in self.to_dict().items() if name != "schema"}

    def _cells(self) -> dict[str, list[str]]:
        return {
            name: [f"{cell:.6g}" if isinstance(cell, float) else str(cell)] for name, (cell,) in self._columns().items()
        }


@dataclass(frozen=True)
class Plan(Shown):
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
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.question.rounds

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
            categories=self.categories, reports=self.reports, epsilon=self.epsilon, delta=self.delta, rounds=self.rounds
        )

    @cached_property
    def local_error(self) -> float:
        """The ℓ₂ error if every report had to be DP by itself, with ε for all rounds together."""
        return local_error(categories=self.categories, reports=self.reports, epsilon=self.epsilon / self.rounds)

    @cached_property
    def note(self) -> str | None:
        """What is to be said of an answer that is of no use, or lacks a mechanism that was asked for; else nothing."""
        return "; ".join(text for text in (self._useless, *self._left_out) if text) or None

    @property
    def _left_out(self) -> Iterator[str]:
        """Why covers or dummies that were asked for are not among the choices."""
        question, there = self.question, {type(choice.mechanism) for choice in self.choices}
        if question.messages > 1 and Covered not in there:
            rounds = "" if self.rounds == 1 else f" in {self.rounds:,} rounds"
            yield (
                f"covers are left out: {self.reports:,} people with {question.messages:,} messages each are too few "
                f"for this ε{rounds}"
            )
        if question.dummies and Dummies not in there:
            alone = "people send what is true, and have no ε₀ by themselves"
            yield f"dummies are left out: {alone if self.local_epsilon < math.inf else 'none keep so small an ε and δ'}"

    @property
    def _useless(self) -> str | None:
        """Why the answer says nothing, if that is so."""
        uniform, one, all_ = 1 / self.categories, self.best.category_error, self.best.average_category_error
        if one <= uniform:
            return None
        what = f"more than a category would have if all were equal, 1/{self.categories:,} = {uniform:.3g}"
        if all_ <= uniform:
            return (
                f"one round says nothing about a single category: ± {one:.3g} is {what}; "
                f"the average over all {self.rounds:,} rounds is good to ± {all_:.3g}"
            )
        useless = f"this says nothing about a single category: ± {all_:.3g} is {what}"
        if spent := self.question.target.spent:  # what is left is too little for the search in `enough`
            counted = f"the ledger has already counted {rounded_up(spent)} of {exactly(self.epsilon)}"
            return f"{useless}, because {counted}; use more reports or fewer rounds"
        enough = self.question.enough(self.mechanism)
        advice = f"about {enough:,} reports would do" if enough else "use fewer categories"
        return f"{useless}; {advice}, or take a larger ε"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; "schema" is that of the first choice."""
        return {
            "categories": self.categories,
            "reports": self.reports,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rounds": self.rounds,
            "spent": self.question.target.spent,
            "local_epsilon": self.local_epsilon if self.local_epsilon < math.inf else None,
            "schema": self.mechanism.to_dict(),
            "central_error": self.central_error,
            "local_error": self.local_error,
            "round_epsilon": self.best.round_epsilon,
            "note": self.note,
            "choices": [choice.to_dict() for choice in self.choices],
        }

    def _columns(self) -> dict[str, list[Any]]:
        rows = [choice.to_dict() for choice in self.choices]
        return {name: [row[name] for row in rows] for name in rows[0] if name != "schema"}

    def _cells(self) -> dict[str, list[str]]:
        return {
            "mechanism": [choice.mechanism.name for choice in self.choices],
            "ε₀": [input_down(choice.mechanism.local_epsilon, 4) for choice in self.choices],
            "error": [f"{choice.error:.4g}" for choice in self.choices],
            "rare category": [f"± {choice.category_error:.3g}" for choice in self.choices],
            "bits": [f"{choice.mechanism.bits_per_report:,}" for choice in self.choices],
        }

    @property
    def setting(self) -> str:
        """What was asked for, in a line."""
        rounds = "" if self.rounds == 1 else f"{self.rounds:,} rounds, "
        people = f"{rounds}{self.categories:,} categories, {self.reports:,} reports"
        return f"{people}, ε ≤ {self.epsilon:g} at δ = {self.delta:g}"

    def plot(self, axes: Any = None, *, points: int = 7) -> Any:
        """Draw the error against the central ε for each mechanism, and return the matplotlib axes.

        So are the errors of a trusted curator and of the model without a shuffler. The ε₀ behind the lines are guesses,
        good to about 1 %; the dot is the plan.

        Parameters
        ----------
        axes : object
            Matplotlib axes to draw on; new ones if not given.
        points : int
            How many points each line has.
        """
        return ErrorCurves.of(self, points=points).plot(axes)

    def __repr__(self) -> str:
        """Show the first choice and its error."""
        rounds = "" if self.rounds == 1 else f"{self.rounds:,} rounds, "
        return (
            f"Plan({rounds}{self.mechanism!r}, error {self.best.error:.3g}, ε={rounded_up(self.best.epsilon)} "
            f"at δ={self.delta:g}, {len(self.choices)} choices)"
        )


def plan(
    *,
    categories: Number,
    reports: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    local_epsilon: Number | None = None,
    rounds: Number = 1,
    ledger: Ledger | None = None,
    messages: Number = 1,
    dummies: bool = False,
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
    rounds : int
        How many such histograms of the same people there will be.
    ledger : Ledger, optional
        What was released about the same people before. What is left of its budget is the target, and so epsilon and
        delta may be left out.
    messages : int
        How many messages a person may send; with two or more, covers are among the choices.
    dummies : bool
        Whether the shuffler may add dummies, which nothing remains of if it colludes with the analyst.

    Examples
    --------
    >>> chosen = plan(categories=100, reports=10_000, epsilon=1)
    >>> chosen
    Plan(RandomizedResponse(categories=100, local_epsilon=5.789...), error 0.00837, ε=0.999 at δ=1e-06, 8 choices)
    >>> reports = chosen.mechanism.randomize([0, 1, 2, 2, 99])
    """
    if delta is None and (ledger is None or ledger.limit is None):
        delta = _DELTA
    question = Question(
        categories=whole(categories=categories, least=2, most=1 << 24),
        reports=_several(reports),
        rounds=whole(rounds=rounds, most=MOST_TIMES),
        target=target_of(epsilon, delta, ledger),
        local_epsilon=math.inf if local_epsilon is None else positive(local_epsilon=local_epsilon),
        messages=whole(messages=messages, most=_MOST_MESSAGES),
        dummies=bool(dummies),
    )
    kinds = question.kinds
    likely = progress(map(question.likely, kinds), total=len(kinds), label="designs")
    guesses = [guess for guess in likely if guess is not None]
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
            "histogram; take the number of people who report in a round",
            "reports",
        )
    return count


def _choice(question: Question, guess: Categorical, near: bool) -> Choice:
    """Return a mechanism with its guarantee; of several rounds, only those with about the least error exactly."""
    tolerance = _TOLERANCE if question.rounds == 1 else _OF_ROUNDS if near else _ROUGHLY
    mechanism, target = question.largest(guess, tolerance=tolerance), question.target
    curve = amplify(mechanism, reports=question.reports)
    return Choice(
        mechanism=mechanism,
        curve=curve,
        epsilon=_kept(target, curve, mechanism, question.rounds),
        delta=target.delta,
        error=question.error(mechanism),
        category_error=mechanism.rare_error(question.reports),
        rounds=question.rounds,
    )


def _kept(target: Target, curve: PrivacyCurve, mechanism: Categorical, rounds: int) -> float:
    """Return the ε of all rounds, which is known to keep the target."""
    if not mechanism.private_alone:
        return min(target.reached(curve, rounds), target.epsilon)
    return target.kept(curve, telling(mechanism), rounds)


@dataclass(frozen=True)
class PlannedRounds:
    """The rounds of a plan: the first choice, with every number as the file has it."""

    mechanism: Categorical  # what each participant runs
    reports: int  # how many reports are shuffled together in a round
    rounds: int  # how many rounds there are
    epsilon: float  # epsilon, delta: The target for all rounds together
    delta: float
    # The part of the target that a ledger had counted before the plan; 0 without a ledger
    spent: float = 0.0

    @classmethod
    def from_json(cls, text: str, name: str) -> "PlannedRounds":
        """Return the rounds of a plan."""
        try:
            content = parsed(text)
            mechanism = mechanism_of(content["schema"])
            if not isinstance(mechanism, Categorical):
                raise ParameterError("its schema is not a mechanism for categories")
            return cls(
                mechanism,
                whole(reports=content["reports"]),
                whole(rounds=content["rounds"], most=MOST_TIMES),
                positive(epsilon=content["epsilon"]),
                probability(delta=content["delta"]),
                non_negative(spent=content.get("spent", 0.0)),
            )
        except (ValueError, KeyError, TypeError, OverflowError, ShoalError) as error:
            reason = short_reason(error) if isinstance(error, ShoalError) else "a field is missing, or is not a number"
            raise FormatError(f"{name} is not a plan, as `shoal plan --output` writes it: {reason}") from None

    def curve(self, reports: int | None = None) -> PrivacyCurve:
        """Return the guarantee of one round, with another number of reports if one is given."""
        return amplify(self.mechanism, reports=self.reports if reports is None else reports)
