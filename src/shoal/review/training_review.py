"""The review of a training by noisy SGD."""

import math
from collections.abc import Iterator

import shoal
from shoal.assumptions import Assumption, Topic
from shoal.attack import attack_bound
from shoal.digits import exactly, rounded_up
from shoal.review.parts import assumed, attacks, certified, checking, guaranteed, to_fill_in
from shoal.review.review_document import Review
from shoal.review.statement import Field, Item, Section, Statement, Table
from shoal.sgd.comparisons import compare_samplers
from shoal.sgd.guarantees import Guarantee

__all__ = ["training_review"]

_GUESSED = {
    "replace": "which of two examples is in the data",
    "zero-out": "which of two it is, that one example takes part, or that its slot is empty",
    "add-remove": "which of two it is, that one example is in the data, or that it is not",
}
"""What tells neighbouring datasets apart: an ε for an example that is left out says less of one that is replaced."""


def training_review(guarantee: Guarantee, *, title: str) -> Review:
    """Return the review of what a training shows.

    Parameters
    ----------
    guarantee : Guarantee
        What it has, as its account or `shoal.sgd.guarantee` says.
    title : str
        What is trained.
    """
    certificate, why = certified(guarantee.certify)
    epsilon = f"ε = {rounded_up(guarantee.epsilon)} at δ = {exactly(guarantee.delta)}"
    rows = [(each.text, "", _otherwise(each, guarantee)) for each in guarantee.assumptions]
    success = lambda alarms: attack_bound(guarantee.epsilon, guarantee.delta, alarms)  # noqa: E731
    sections = (
        Section("What is protected, and from whom", tuple(_protection(guarantee, epsilon))),
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


def _protection(guarantee: Guarantee, epsilon: str) -> Iterator[Item]:
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


def _otherwise(assumption: Assumption, guarantee: Guarantee) -> str:
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
