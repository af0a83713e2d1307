"""The review of rounds that were released about the same people: a ledger."""

from collections.abc import Iterator

import shoal
from shoal.assumptions import Assumption, Topic
from shoal.attack import attack_success
from shoal.checks import probability
from shoal.composition.budget import Budget
from shoal.composition.central_curve import CentralCurve
from shoal.digits import exactly, rounded_down, rounded_up
from shoal.errors import ParameterError
from shoal.review.parts import alone, along, assumed, attacks, certified, checking, epsilon_text, guaranteed, to_fill_in
from shoal.review.review_document import Review
from shoal.review.statement import Field, Item, Section, Statement, Table, plain_text

__all__ = ["ledger_review"]

_MOST_ROWS = 400


def ledger_review(ledger: shoal.Ledger, *, title: str, delta: float) -> Review:
    """Return the review of everything in a ledger.

    Parameters
    ----------
    ledger : Ledger
        What was released.
    title : str
        What it is about.
    delta : float
        δ of the guarantee.
    """
    rounds = [part for entry in ledger for part in entry.rounds]
    if not rounds:
        raise ParameterError("the ledger is empty, and there is nothing to review")
    if any(isinstance(one, CentralCurve) for one, _ in rounds):
        raise ParameterError(
            "a review tells who protects people from whom, and for releases by a central mechanism that is not the "
            "shuffler; review the shuffled rounds in a ledger of their own, and quote Ledger.spent for all together"
        )
    delta = probability(delta=delta)
    curve = shoal.compose(rounds)
    certificate, why = certified(lambda: curve.certify(delta=delta))
    epsilon = f"ε = {rounded_up(curve.epsilon(delta))} at δ = {exactly(delta)}"
    sections = (
        Section("What is protected, and from whom", tuple(_protection(curve, delta, epsilon))),
        Section("The guarantee", tuple(guaranteed(certificate, f"{epsilon}. {why}", curve.theorem, curve.bound))),
        Section(
            "What it assumes",
            tuple(assumed([(each.text, "", _otherwise(each, curve, delta)) for each in curve.assumptions])),
        ),
        Section(
            "What an attacker can do",
            tuple(
                attacks(
                    lambda alarms: attack_success(curve, alarms),
                    along(curve),
                    None,
                    "all rounds",
                    "which of two lists of values one person reports in all rounds",
                )
            ),
        ),
        Section("What was released, and what is left", tuple(_released(ledger, delta))),
        Section("How it is implemented", (Field("Randomizers", "which programs randomize, and who has checked them"),)),
        to_fill_in(("Who runs the shuffler", "and what keeps it from working together with the analyst")),
        checking(certificate),
    )
    return Review.made(title, sections, certificate)


def _protection(curve: shoal.PrivacyCurve, delta: float, epsilon: str) -> Iterator[Item]:
    yield Statement(
        "computed",
        f"Protected is all that one person reports in {curve.rounds:,} rounds together, in one report each. Against "
        f"whoever sees the shuffled reports of all of them: {epsilon}, if the assumptions below hold. Then the "
        "probability of whatever they see or conclude is at most e^ε times what it is with any other values of that "
        "person, plus δ.",
    )
    local = alone(curve, delta)
    against = (
        "Against the shuffler, and whoever else sees reports with their sender, the randomizers alone protect: "
        f"{local}, for all reports of a person together, if they are those described."
    )
    if local is None:
        against = (
            "If shuffler and analyst work together, nothing remains of rounds with covers or dummies: they see what "
            "each person said. Alone, the shuffler is kept from it only by sealing."
        )
    yield Statement("computed", against)
    yield Statement(
        "assumed",
        "Not protected: whether a person took part; what the results say about groups; what a person tells elsewhere. "
        "Whoever sends several reports in a round is protected less. Rounds that are not in the ledger are not "
        "counted.",
    )


def _otherwise(assumption: Assumption, curve: shoal.PrivacyCurve, delta: float) -> str:
    """Return what is left if an assumption fails."""
    if assumption.topic is Topic.SHUFFLE:
        local = alone(curve, delta)
        if local is None:
            return "if it fails in all rounds, nothing remains"
        return (
            f"if it fails in all rounds, only {local} holds; of a round with reports that are made up or known, ε is "
            "that of the others alone"
        )
    if assumption.topic is Topic.SLOTS:
        return "whoever does not is not to be counted: ε of that round is that of the others alone"
    return assumption.if_fails


def _released(ledger: shoal.Ledger, delta: float) -> Iterator[Item]:
    rows = []
    entries = list(ledger)
    if len(entries) > _MOST_ROWS:
        yield Statement(
            "declared", f"The last {_MOST_ROWS:,} of {len(entries):,} entries are shown; all of them count."
        )
    for entry in entries[-_MOST_ROWS:]:
        for curve, times in entry.rounds:
            day = entry.time.date().isoformat()
            rows.append(
                (
                    "declared",
                    day,
                    plain_text(entry.label or ""),
                    f"{times:,} × {curve.reports:,} reports",
                    epsilon_text(curve, delta),
                )
            )
    yield Table("Rounds", ("day", "label", "what", f"ε of one at δ = {exactly(delta)}"), tuple(rows))
    if (limit := ledger.limit) is not None:
        budget = f"The budget is ε = {exactly(limit.epsilon)} at δ = {exactly(limit.delta)}."
        yield Statement("computed", f"{budget} {_left(ledger, limit)}")


def _left(ledger: shoal.Ledger, limit: Budget) -> str:
    """Return what the rounds count against the budget, and what is left of it."""
    if limit.planned:
        left = rounded_down(ledger.remaining(epsilon=limit.epsilon, delta=limit.delta))
        return f"{left} of it is left, if all rounds are fixed in advance."
    counted = ledger.counted
    if counted is None:
        return "What the rounds count against it is not known, so nothing of it counts as left."
    left = rounded_down(max(0.0, limit.epsilon - counted))
    return (
        f"The rounds count as {rounded_up(counted)} against it, because later rounds may be chosen by earlier results; "
        f"{left} of it is left."
    )
