"""A review from what there is: parameters, a plan, or a training."""

import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shoal
from shoal.assumptions import Assumption, Topic
from shoal.attack import attack_bound, attack_success
from shoal.checks import probability
from shoal.composition.budget import Budget
from shoal.composition.central_curve import CentralCurve
from shoal.digits import exactly, rounded_down, rounded_up
from shoal.durable_file import opened
from shoal.errors import FormatError, MissingExtraError, ParameterError, ShoalError
from shoal.planning.plan import PlannedRounds
from shoal.review.parts import alone, along, assumed, attacks, certified, checking, epsilon_text, guaranteed, to_fill_in
from shoal.review.review_document import Review
from shoal.review.round_review import RoundReview
from shoal.review.statement import Field, Item, Section, Statement, Table, plain_text
from shoal.sgd.comparisons import compare_samplers
from shoal.sgd.guarantees import Guarantee
from shoal.strict_json import short_reason

_MOST_ROWS = 400


def ledger_review(ledger: shoal.Ledger, *, title: str, delta: float) -> Review:
    """Return the review of everything in a ledger."""
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


_GUESSED = {
    "replace": "which of two examples is in the data",
    "zero-out": "which of two it is, that one example takes part, or that its slot is empty",
    "add-remove": "which of two it is, that one example is in the data, or that it is not",
}
"""What tells neighbouring datasets apart: an ε for an example that is left out says less of one that is replaced."""


def training_review(guarantee: Guarantee, *, title: str) -> Review:
    """Return the review of what a training shows."""
    certificate, why = certified(lambda: guarantee.certify(delta=guarantee.delta))
    epsilon = f"ε = {rounded_up(guarantee.epsilon)} at δ = {exactly(guarantee.delta)}"
    rows = [(each.text, "", _run_otherwise(each, guarantee)) for each in guarantee.assumptions]
    success = lambda alarms: attack_bound(guarantee.epsilon, guarantee.delta, alarms)  # noqa: E731
    sections = (
        Section("What is protected, and from whom", tuple(_run_protection(guarantee, epsilon))),
        Section(
            "The guarantee", tuple(guaranteed(certificate, f"{epsilon}. {why}", guarantee.theorem, guarantee.bound))
        ),
        Section("What it assumes", tuple(assumed(rows))),
        Section(
            "What an attacker can do",
            tuple(attacks(success, success, None, "the trained model", _GUESSED[guarantee.run.adjacency])),
        ),
        Section("How examples got into batches", tuple(_samplers(guarantee))),
        Section("How it is implemented", tuple(_implementation())),
        to_fill_in(("Accuracy", "on data that was not trained with, and who has decided that it is good enough")),
        checking(certificate),
    )
    return Review.made(title, sections, certificate)


def _run_protection(guarantee: Guarantee, epsilon: str) -> Iterator[Item]:
    yield Statement(
        "computed",
        "Protected is one example of the training data. Against whoever sees the trained model, and every model on the "
        f"way to it: {epsilon}, if the assumptions below hold. Then the probability of whatever they see or conclude "
        "is at most e^ε times what it is with a neighbouring dataset, plus δ.",
    )
    if guarantee.run.sums_only:
        known = "Not protected from whoever runs the training: they see the data."
    else:
        known = (
            "Against whoever sees a noised gradient with its sender, its noise alone protects: one of them has ε = "
            f"{rounded_up(guarantee.local_epsilon)} at the same δ, and several together more."
        )
    yield Statement("assumed" if guarantee.run.sums_only else "computed", known)
    yield Statement(
        "assumed",
        "Not protected: losses, times, sizes of batches, and what the model says about groups. A person who has "
        "several examples in the data is protected less.",
    )


def _run_otherwise(assumption: Assumption, guarantee: Guarantee) -> str:
    """Return what is left if an assumption fails."""
    if assumption.topic is Topic.SAMPLING and any(each.name == "plain" for each in guarantee.alternatives):
        return (
            f"in any order that uses every example as often, ε = {rounded_up(guarantee.plain_epsilon)}, if nothing but "
            "noised sums is seen, no sizes, losses, times or memory; else nothing is guaranteed"
        )
    return assumption.if_fails


def _samplers(guarantee: Guarantee) -> Iterator[Item]:
    run = guarantee.run
    yield Statement(
        "declared",
        f"{run.sampling}: {f'{run.examples:,}' if run.examples else 'a secret number of'} examples, batches of "
        f"{run.batch_size:,}, {'at most ' if guarantee.at_most else ''}{run.epochs:,} "
        f"epoch{'' if run.epochs == 1 else 's'}, noise {exactly(float(run.multiplier))} times the clip norm, "
        f"on {'the sum of a batch' if run.noise == 'batch' else 'the gradient of each example'}.",
    )
    rows = tuple(
        ("computed", each.run.sampling, _number(each.epsilon), each.bound)
        for each in compare_samplers(run, delta=guarantee.delta)
    )
    yield Table("The same run, had it drawn its batches otherwise", ("sampler", "ε", "bound"), rows)


def _number(epsilon: float) -> str:
    return rounded_up(epsilon) if math.isfinite(epsilon) else "no guarantee"


def _implementation() -> Iterator[Item]:
    yield Statement(
        "declared",
        "shoal drew the batches, clipped every gradient and added the noise; this page was made by "
        f"{shoal.__version__}.",
    )
    yield Statement(
        "assumed",
        "The noise is as good as real-valued normal noise, its random bits are secret, and nobody who is not trusted "
        "with the data measures time or memory of a step: they may tell how many examples it has.",
    )
    yield Field("Preprocessing", "what was chosen by looking at the data before, and whether that was accounted for")


_MOST_JSON = 1 << 20
_ZIP = b"PK\x03\x04"


def of_parameters(
    kind: dict[str, Any],
    *,
    title: str,
    reports: float,
    local_delta: float = 0.0,
    delta: float = 1e-6,
    malicious: float = 0,
) -> Review:
    """Return the review of a round that parameters describe."""

    def make(count: float) -> shoal.PrivacyCurve:
        return shoal.amplify(**kind, local_delta=local_delta, reports=count)

    first = make(reports)  # refuses what makes no sense, by the names of the parameters
    return RoundReview(title, make, first.reports, delta, malicious, kind.get("randomizer")).review()  # type: ignore[arg-type]


def of_plan(text: str, name: str, *, title: str, malicious: float = 0) -> Review:
    """Return the review of the best choice of a plan: of all its rounds together first, and of one round second."""
    plan = PlannedRounds.from_json(text, name)
    target = f"ε = {exactly(plan.epsilon)} at δ = {exactly(plan.delta)}"
    declared = f"The target of the plan is {target}."
    if plan.rounds > 1:
        declared = f"The target of the plan is {target} for all {plan.rounds:,} rounds together, fixed in advance."
    if plan.spent:
        declared += (
            f" It includes earlier rounds, of which a ledger had counted ε = {rounded_up(plan.spent)}. This page "
            "is about the rounds of the plan alone; `shoal review --ledger` is about all rounds."
        )
    return RoundReview(
        title,
        plan.curve,
        plan.reports,
        plan.delta,
        malicious,  # type: ignore[arg-type]
        plan.mechanism,
        declared=(declared,),
        rounds=plan.rounds,
    ).review()


def of_training(path: Path, *, title: str) -> Review:
    """Return the review of a training: a checkpoint of `make_private`, or a model of `shoal train`.

    The numbers of the file are not believed: the guarantee is computed again from what was done.
    """
    with opened(path) as file:
        model = file.read(len(_ZIP)) == _ZIP
    try:
        result = _of_model(path) if model else _of_checkpoint(path)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ShoalError):
            raise
        raise FormatError(f"{path} is no training that shoal has written: {short_reason(error)}") from None
    return training_review(result, title=title)


def _of_checkpoint(path: Path) -> Guarantee:
    try:
        from shoal.sgd.torch.checkpoint import read_checkpoint
    except ImportError:
        raise MissingExtraError('a training is read with PyTorch: pip install "shoal-dp[torch]"') from None
    from shoal.sgd.account import Account

    result = Account.from_dict(read_checkpoint(path)["account"]).guarantee()
    if result is None:
        raise ParameterError(f"{path} has not begun its first epoch, and there is nothing to review")
    return result


def _of_model(path: Path) -> Guarantee:
    from dataclasses import replace

    from shoal.sgd.guarantees import guarantee
    from shoal.sgd.run import Run

    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("guarantee.npy").file_size > _MOST_JSON:
            raise FormatError(f"{path} is no model of `shoal train`: its guarantee is too long")
    with np.load(path, allow_pickle=False) as arrays:
        content = json.loads(str(arrays["guarantee"]))
    if content["private"] is not True:
        raise ParameterError(
            f"{path} was trained with the coins of a seed, which anybody can toss again; there is nothing to review"
        )
    result = guarantee(Run.from_dict(content["run"]), delta=content["delta"])
    # Models of 0.2.0 do not say where their labels are from: then it may be the data.
    from_data = content.get("labels_from_data") is not False
    return replace(result, at_most=content["at_most"] is True, labels_from_data=from_data)
