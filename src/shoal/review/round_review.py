"""The review of one round, or of several alike: people randomize one report each, and a shuffler mixes them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import shoal
from shoal.assumptions import Assumption, Topic, shuffled
from shoal.attack import attack_bound, attack_success
from shoal.checks import probability, whole
from shoal.digits import exactly, rounded_down, rounded_up
from shoal.errors import ParameterError, UnreachableError
from shoal.planning.heavy_hitter_plan import HeavyHitterPlan
from shoal.review.parts import (
    alone,
    along,
    assumed,
    attacks,
    certified,
    checking,
    epsilon_at,
    epsilon_text,
    guaranteed,
    implementation,
    percent,
    to_fill_in,
)
from shoal.review.review_document import Review
from shoal.review.statement import Field, Item, Section, Statement, Table, plain_text

_TIMES = (1, 7, 30, 365)
_MOST_EPSILON = 30.0
"""Of a report alone that is drawn: beyond it any attack may succeed."""


@dataclass(frozen=True)
class RoundReview:
    """What a review of one round is made of.

    Attributes
    ----------
    title : str
        What is collected.
    make : callable
        Returns the guarantee of so many shuffled reports.
    reports : int
        How many are shuffled together at least.
    delta : float
        δ of the guarantee.
    malicious : int
        m, how many of them may be made up by whoever looks, or known to them.
    mechanism : object, optional
        What each person runs, if it is shoal's; with categories, the page says how large the error is.
    reasons : Mapping of Topic to str
        Why assumptions of a topic hold here; without a reason there is a field to fill in.
    declared : tuple of str
        What whoever asks for the review says of it.
    search : HeavyHitterPlan, optional
        The plan of a search for heavy hitters, all of whose rounds are reviewed together.
    runs : str
        Who runs what, if that is not what the mechanism says.
    rounds : int
        The number of rounds, fixed in advance. Of several, the guarantee of all comes first, and that of one second.
    """

    title: str
    make: Callable[[int], shoal.PrivacyCurve]
    reports: int
    delta: float = 1e-6
    malicious: int = 0
    mechanism: Any = None
    reasons: Mapping[Topic, str] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    search: HeavyHitterPlan | None = None
    runs: str = ""
    rounds: int = 1

    def __post_init__(self) -> None:
        """Refuse more malicious reports than reports."""
        object.__setattr__(self, "delta", probability(delta=self.delta))
        object.__setattr__(self, "reports", whole(reports=self.reports))
        object.__setattr__(self, "malicious", whole(malicious=self.malicious, least=0))
        if self.malicious >= self.reports:
            raise ParameterError(
                f"malicious must be below reports={self.reports:,}, got {self.malicious:,}", "malicious"
            )

    def review(self) -> Review:
        """Return the review."""
        one, curve = self.make(self._hiding), self._all(self._hiding)
        if math.isinf(epsilon_at(curve, self.delta)):
            raise UnreachableError(
                f"{self._hiding:,} reports that hide each other have no guarantee at delta={self.delta:g}: there is "
                "nothing to review; take more reports, fewer malicious reports or a larger delta"
            )
        certificate, why = certified(lambda: curve.certify(delta=self.delta))
        proof_of_one, one_round = None, tuple[Item, ...]()
        if self.rounds > 1:
            why_not = ""
            if certificate is not None:  # otherwise a page about all rounds would prove one alone
                proof_of_one, why_not = certified(lambda: one.certify(delta=self.delta))
            of_one = f"One of the {self.rounds:,} rounds alone: {self._epsilon(one)}. {why_not}".rstrip()
            one_round = (next(guaranteed(proof_of_one, of_one, one.theorem, one.bound)),)
        sections = (
            Section("What is protected, and from whom", tuple(self._protection(curve))),
            Section(
                "The guarantee",
                (
                    *guaranteed(certificate, f"{self._epsilon(curve)}. {why}", curve.theorem, curve.bound),
                    *one_round,
                    *self._limits(curve),
                ),
            ),
            Section("What it assumes", tuple(assumed(list(self._assumptions(curve))))),
            Section("What an attacker can do", tuple(self._attacks(curve))),
            Section("If there are fewer people, or some are not people", tuple(self._fewer(curve))),
            Section("If the same people are asked again", tuple(self._again(one))),
            Section("What is learned", tuple(self._utility())),
            Section("How it is implemented", tuple(implementation(self.mechanism, self.runs))),
            to_fill_in(("Who runs the shuffler", "and what keeps it from working together with the analyst")),
            checking(certificate),
        )
        return Review.made(self.title, sections, certificate, proof_of_one)

    @property
    def _dummies(self) -> bool:
        """Whether dummies hide a person, and not the reports of others."""
        return bool(getattr(self.mechanism, "added", 0))

    @property
    def _private_alone(self) -> bool:
        """Whether a report is private on its own."""
        return bool(getattr(self.mechanism, "private_alone", True))

    def _all(self, reports: int) -> shoal.PrivacyCurve:
        """Return the guarantee of all rounds, with this many reports that hide each other in each."""
        one = self.make(reports)
        return one if self.rounds == 1 else one.repeated(self.rounds)

    @property
    def _protected(self) -> str:
        if self.rounds > 1:
            return f"all that one person reports in {self.rounds:,} rounds together, in one report each"
        if self.search is None:
            return "what one person reports in one round, in one report"
        return f"the string of one person, in all rounds of one search ({self.search.rounds}), with one report in each"

    @property
    def _hiding(self) -> int:
        """How many reports hide each other."""
        return self.reports - self.malicious

    def _epsilon(self, curve: shoal.PrivacyCurve) -> str:
        return f"ε = {rounded_up(curve.epsilon(self.delta))} at δ = {exactly(self.delta)}"

    def _left(self, curve: shoal.PrivacyCurve) -> str:
        epsilon = epsilon_text(curve, self.delta)
        return f"ε = {epsilon} at the same δ" if math.isfinite(epsilon_at(curve, self.delta)) else epsilon

    def _protection(self, curve: shoal.PrivacyCurve) -> Iterator[Item]:
        yield from (Statement("declared", plain_text(text)) for text in self.declared)
        local = alone(curve, self.delta)
        yield Statement(
            "computed",
            f"Protected is {self._protected}. Against whoever sees the shuffled "
            f"reports, the analyst or the public: {self._epsilon(curve)}, if the assumptions below hold. Then the "
            "probability of whatever they see or conclude is at most e^ε times what it is with any other "
            f"{'value' if self.rounds == 1 else 'values'} of that person, plus δ, even if they know "
            "the values (not the reports) of all others.",
        )
        if local is None:
            yield Statement(
                "computed",
                "Against the shuffler, and whoever else sees a message with its sender, there is no ε₀: what a person "
                "says is in it, and only sealing it hides it from the shuffler.",
            )
            yield Statement(
                "computed",
                "If shuffler and analyst work together, nothing remains: they see what each person said.",
            )
        else:
            if self.rounds > 1:
                local = f"{alone(self.make(self._hiding), self.delta)} for one report, {local} for all {self.rounds:,}"
            yield Statement(
                "computed",
                "Against the shuffler, and whoever else sees a report with its sender, the randomizer alone protects: "
                f"{local}, if it is the one described.",
            )
            yield Statement("computed", f"If shuffler and analyst work together, that is all that holds: {local}.")
        yield Statement(
            "assumed",
            "Not protected: whether a person took part; what the result says about groups; what a person tells "
            "elsewhere. Whoever sends several reports in a round is protected less.",
        )

    def _limits(self, curve: shoal.PrivacyCurve) -> Iterator[Item]:
        facts = curve.to_dict(delta=self.delta)
        if facts["epsilon_bracket"] is not None:
            low, high = facts["epsilon_bracket"]
            yield Statement(
                "computed", f"The exact ε of the theorem is between {rounded_down(low, 9)} and {rounded_up(high, 9)}."
            )
        if facts["best_possible"] is not None:
            yield Statement(
                "computed",
                f"No smaller ε than {rounded_down(facts['best_possible'])} can be shown at this δ from what is known "
                "of the randomizer: there is one, and values of people, that reach it.",
            )
        if not facts["amplified"]:
            yield Statement("computed", "Shuffling adds nothing here: one report alone has no larger ε at this δ.")

    def _assumptions(self, curve: shoal.PrivacyCurve) -> Iterator[tuple[str, str, str]]:
        reasons = {Topic.COLLUSION: "see below who runs the shuffler", **self.reasons}
        for each in curve.assumptions:
            text = str(shuffled(self.malicious) if each == shuffled() else each)
            yield text, plain_text(reasons.get(each.topic, "")), self._otherwise(each, curve)

    def _otherwise(self, assumption: Assumption, curve: shoal.PrivacyCurve) -> str:
        """Return what is left if an assumption fails."""
        if assumption.topic is Topic.SHUFFLE:
            local = alone(curve, self.delta)
            left = "nothing remains" if local is None else f"only {local} holds"
            known = self._without_a_tenth() if self._private_alone else ""
            return f"if they are not permuted, or something tells who sent which, {left}{known}"
        if assumption.topic is Topic.SLOTS:
            return f"whoever does not is not to be counted{self._without_a_tenth()}"
        return assumption.if_fails

    def _without_a_tenth(self) -> str:
        """Return what is left if a tenth of the reports hides nobody; nothing if that leaves none."""
        known = -(-self._hiding // 10)
        if known == self._hiding:
            return ""
        return f"; if {known:,} more are made up or known, {self._left(self._all(self._hiding - known))}"

    def _attacks(self, curve: shoal.PrivacyCurve) -> Iterator[Item]:
        local = curve.local_epsilon
        single = (lambda alarms: attack_bound(local, curve.local_delta, alarms)) if local < _MOST_EPSILON else None
        what = "which of two values one person reports"
        if self.rounds > 1:
            what = "which of two lists of values one person reports in all rounds"
        yield from attacks(lambda alarms: attack_success(curve, alarms), along(curve), single, "shuffled", what)

    def _fewer(self, curve: shoal.PrivacyCurve) -> Iterator[Item]:
        if self._dummies:
            yield Statement(
                "computed",
                "With dummies ε is the same for any number of people, whatever the others send, and whatever whoever "
                "looks knows about them.",
            )
            return
        valid = self._hiding
        said = (
            "Each report that is made up by whoever looks, or known to them, counts as missing: ε is "
            f"that of {valid:,} reports."
        )
        if self.malicious:
            said = (
                f"At least {self.reports:,} reports are shuffled together, and up to {self.malicious:,} of "
                f"them hide nobody: ε is that of {valid:,}."
            )
        yield Statement("assumed", said)
        sizes = sorted({max(valid // part, 1) for part in (100, 10, 2)} | {valid, 2 * valid})
        made = ((size, curve if size == valid else self._all(size)) for size in sizes)
        rows = tuple(("computed", f"{size:,}", epsilon_text(each, self.delta)) for size, each in made)
        yield Table(f"ε at δ = {exactly(self.delta)}", ("reports that hide each other", "ε"), rows)

    def _again(self, one: shoal.PrivacyCurve) -> Iterator[Item]:
        what, several = ("round", "rounds") if self.search is None else ("search", "searches")
        yield Statement(
            "computed",
            f"Every {what} costs: all of them together have the ε of this table, if the assumptions hold in each, with "
            f"fresh randomness and a fresh shuffle, and if how many {several} there are is fixed in advance.",
        )
        counts = sorted({*_TIMES, self.rounds})
        made = [(times, one if times == 1 else one.repeated(times)) for times in counts]
        rows = tuple(("computed", f"{times:,}", epsilon_text(each, self.delta)) for times, each in made)
        yield Table(f"The same people in several {several}, δ = {exactly(self.delta)}", (several, "ε together"), rows)
        if not self._private_alone and any(math.isinf(epsilon_at(each, self.delta)) for _, each in made):
            yield Statement(
                "computed",
                "Where there is no guarantee, there is none at this δ: with a probability up to δ a message of a round "
                "is not hidden, and in several rounds with a larger one. `shoal plan --rounds` plans them together.",
            )

    def _utility(self) -> Iterator[Item]:
        if self.search is not None:
            error, least = self.search.error(self.reports), self.search.deviations * self.search.error(self.reports)
            yield Statement(
                "computed",
                f"The estimated count of a string in a long list is typically off by {rounded_up(error, 3)} people "
                f"(one standard deviation with {self.reports:,} reports, none of them made up). A string is kept if it "
                f"is estimated above {rounded_up(least, 3)} people in every round; what fewer hold is hardly found.",
            )
            return
        rare = getattr(self.mechanism, "rare_error", None)
        if rare is None:
            yield Field("Error", "how far results may be from the truth, and who has decided that this is good enough")
            return
        size = rare(self.reports)
        told = f"A share below {percent(2 * size)} can hardly" if 2 * size < 1 else "No share can"
        yield Statement(
            "computed",
            f"The estimated share of a rare category is typically off by {percent(size)} of all reports (one standard "
            f"deviation with {self.reports:,} reports, none of them made up). {told} be told from zero.",
        )
